"""What a text states that can be wrong: its numbers, dates, quotations and names.

A reworded item may hold no such token that its sources lack, so that a reflection invents nothing.
The reading is by form and errs on the strict side: a number word counts as its number, a
capitalised word as a name unless it is one of a few that often begin a note. What has no form of
its own (a name in lower case, or in a script without capitals) is not seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from langgraph_om.core.content.dates import MONTH, MONTHS, WEEKDAYS, observation_date

MAX_QUOTATIONS: Final = 40
"""A text with more quotations is taken for invented, as each is looked for in the sources."""

_ONE_FORM: Final = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-") | {
    0x2018: "'",
    0x2019: "'",
}
"""Dashes and quotation marks that are written in several ways."""
_WORD: Final = re.compile(r"[^\W_]+")
# No possessive group: Python 3.11.2 keeps what a repetition of one that fails has read.
_HAS_DIGIT: Final = r"(?=[^\W\d_]*+\d)[^\W_]++"
_NUMBER: Final = re.compile(rf"(?<![^\W_]){_HAS_DIGIT}(?:[.,:/-]{_HAS_DIGIT})*")
_IDENTIFIER: Final = re.compile(r"[^\s\"'“”‘’«»„`()\[\]{}<>,;]+")
_IDENTIFIER_SIGNS: Final = re.compile(r"\w[_@\\]|[@#_]\w|://|[^\W\d]\.\w|^~?/\w")
_EDGES: Final = ".,:;!?*-…$€£%+~="
_ABBREVIATIONS: Final = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "w.r.t"})
_SHORT_DAYS: Final = {
    form: name[:3].lower()
    for name in (*MONTHS, *WEEKDAYS)
    for form in (name.lower(), name[:3].lower())
}
"""Months and weekdays by their forms."""
_RELATIVE_DAYS: Final = frozenset({"today", "tomorrow", "tonight", "yesterday"})
_DAY: Final = re.compile(
    rf"\b(?P<month>{MONTH})\.? (?P<day>\d{{1,2}}|\d{{4}})(?!\w)"
    rf"|(?<!\w)(?P<before>\d{{1,2}}) (?P<after>{MONTH})(?!\w)",
    re.IGNORECASE,
)
"""A month with its day or its year."""
_QUOTES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r'"([^"\n]*)(?:"|$)',
        r"`([^`\n]*)(?:`|$)",
        r"[“„]([^“”„\n]*)(?:[“”]|$)",
        r"«([^«»\n]*)(?:»|$)",
        r"[「『]([^「」『』\n]*)(?:[」』]|$)",
        r"(?<!\w)'([^'\n]*)'(?!\w)",
    )
)
_COUNT: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
"""
_NUMBER_WORDS: Final = {word: str(number) for number, word in enumerate(_COUNT.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
    "hundred": "100",
    "thousand": "1000",
    "million": "1000000",
    "billion": "1000000000",
    "dozen": "12",
    "twice": "2",
    "thrice": "3",
}
_OPENING_WORDS: Final = """
a an the in on at for to of as by with from and but or if no not now both also still since until
after before when while because so then it its they he she has is was had are were asked said told
wants likes plans says agreed done open
"""
_OPENINGS: Final = frozenset(_OPENING_WORDS.split())
"""Words that are no name where they begin a note, though they are capitalised there."""
_PARTIES: Final = frozenset({"user", "assistant", "i"})
_SENTENCE_SIGNS: Final = ".:;!?(-[>\"'"


def find_invented(text: str, sources: Iterable[str], headings: Iterable[str] = ()) -> str:
    """Return what a text holds that its sources lack, in words; empty when there is nothing.

    Args:
        text: The new text, without mark and time.
        sources: The texts that it replaces.
        headings: The dates above these, which it may name.
    """
    said, given = _normalize(text), [_normalize(source) for source in sources]
    new = _without_days(said, headings)
    known = {fact for source in given for fact in _list_known(source)}
    for kind, found in (("number", _find_numbers), ("date", _find_dates), ("name", _find_names)):
        invented = sorted({*found(new)} - known)
        if invented:
            return f"the {kind} {invented[0]!r}"
    return _find_false_quotation(said, given)


def _normalize(text: str) -> str:
    """Return a text in which signs that are written in several ways are written in one."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_ONE_FORM)
    return " ".join(text.split())


def _list_known(text: str) -> Iterator[str]:
    """Yield what a source lends: its words, numbers, dates and identifiers."""
    yield from map(str.casefold, _WORD.findall(text))
    yield from _find_numbers(text)
    yield from _find_dates(text)
    yield from _find_identifiers(text)


def _find_numbers(text: str) -> Iterator[str]:
    yield from map(str.casefold, _NUMBER.findall(text))
    for word in _WORD.findall(text.casefold()):
        if word in _NUMBER_WORDS and word != "one":  # which is a pronoun as well
            yield _NUMBER_WORDS[word]
        elif word.isnumeric() and not word.isdecimal():
            yield word


def _find_dates(text: str) -> Iterator[str]:
    """Yield months and weekdays, each month with the day or the year that it stands with."""
    for found in _DAY.finditer(text):
        month, day = found["month"] or found["after"], found["day"] or found["before"]
        yield f"{month[:3].casefold()} {int(day)}"
    for word in _WORD.findall(text):
        if word[0].isupper() and word.casefold() in _SHORT_DAYS:
            yield _SHORT_DAYS[word.casefold()]
        elif word.casefold() in _RELATIVE_DAYS:
            yield word.casefold()


def _find_names(text: str) -> Iterator[str]:
    """Yield identifiers, and capitalised words that are no dates and no numbers."""
    yield from _find_identifiers(text)
    for found in _WORD.finditer(text):
        word, lower = found[0], found[0].casefold()
        if word.islower() or not any(map(str.isupper, word)) or any(map(str.isdigit, word)):
            continue
        is_opening = lower in _OPENINGS and _opens(text, found.start())
        if not is_opening and lower not in {*_PARTIES, *_SHORT_DAYS, *_NUMBER_WORDS}:
            yield lower


def _opens(text: str, at: int) -> bool:
    before = text[max(0, at - 2) : at].rstrip()
    return not before or before[-1] in _SENTENCE_SIGNS


def _find_identifiers(text: str) -> Iterator[str]:
    """Yield identifiers, paths and addresses of a text, in lower case."""
    for token in _IDENTIFIER.findall(text):
        bare = token.strip(_EDGES).casefold()
        if _IDENTIFIER_SIGNS.search(bare) and bare not in _ABBREVIATIONS:
            yield bare


def _without_days(text: str, headings: Iterable[str]) -> str:
    """Drop dates that name the day of a heading; a number of theirs says nothing by itself."""
    for day in filter(None, map(observation_date, headings)):
        month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
        name = rf"{month[:3]}(?:{month[3:]})?\.?"
        year = rf"(?:,? {day.year}|(?!,? \d{{4}}))"
        forms = (
            rf"{name} {day.day}{year}|{day.day} {name}{year}|{name} {day.year}|{day.isoformat()}"
            rf"|{name}(?! \d)|{weekday[:3]}(?:{weekday[3:]})?"
        )
        text = re.sub(rf"(?<!\w)(?:{forms})(?!\w)", " ", text)
    return text


def _find_false_quotation(text: str, sources: list[str]) -> str:
    quotations = {found.strip(" .,…") for form in _QUOTES for found in form.findall(text)}
    quotations.discard("")
    if len(quotations) > MAX_QUOTATIONS:
        return f"more than {MAX_QUOTATIONS} quotations"
    for quotation in sorted(quotations):
        if not any(quotation in source for source in sources):
            return f"the quotation {quotation[:80]!r}"
    return ""
