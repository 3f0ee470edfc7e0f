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
_QUOTES: Final = re.compile(
    r'"([^"]*)(?:"|$)|`([^`]*)(?:`|$)|[“„]([^“”„]*)(?:[“”]|$)|«([^«»]*)(?:»|$)'
    r"|[「『]([^「」『』]*)(?:[」』]|$)|(?<!\w)'([^']*)'(?!\w)"
)
_COUNT: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty
"""
_TENS: Final = "thirty forty fifty sixty seventy eighty ninety hundred"
_NUMBER_WORDS: Final = {
    **{word: str(number) for number, word in enumerate(_COUNT.split())},
    **{word: str(10 * number) for number, word in enumerate(_TENS.split(), 3)},
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
    known = {word.casefold() for source in given for word in _WORD.findall(source)}
    known |= {fact for source in given for fact in _list_facts(source)}
    for day in filter(None, map(observation_date, headings)):
        month, weekday = MONTHS[day.month - 1][:3].lower(), WEEKDAYS[day.weekday()][:3].lower()
        known |= {f"{month} {day.day}", f"{month} {day.year}", month, weekday}
        known |= {f"{day.year}", day.isoformat()}
    invented = sorted({*_list_facts(said)} - known)
    return repr(invented[0]) if invented else _find_false_quotation(said, given)


def _normalize(text: str) -> str:
    """Return a text in which signs that are written in several ways are written in one."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_ONE_FORM)
    return " ".join(text.split())


def _list_facts(text: str) -> Iterator[str]:
    """Yield months with their day or year, identifiers, numbers, names and days, in lower case."""
    for found in _DAY.finditer(text):
        month, day = found["month"] or found["after"], found["day"] or found["before"]
        yield f"{month[:3].casefold()} {int(day)}"
    text = _DAY.sub(" ", text)  # a number of a date says nothing by itself
    for token in _IDENTIFIER.findall(text):
        bare = token.strip(_EDGES).casefold()
        if _IDENTIFIER_SIGNS.search(bare) and bare not in _ABBREVIATIONS:
            yield bare
    yield from map(str.casefold, _NUMBER.findall(text))
    for found in _WORD.finditer(text):
        word, lower = found[0], found[0].casefold()
        if lower in _NUMBER_WORDS:
            yield from [_NUMBER_WORDS[lower]] if lower != "one" else ()  # a pronoun as well
        elif lower in _RELATIVE_DAYS or (word.isnumeric() and not word.isdecimal()):
            yield lower
        elif word[0].isupper() and lower in _SHORT_DAYS:
            yield _SHORT_DAYS[lower]
        elif any(map(str.isupper, word)) and not any(map(str.isdigit, word)):
            is_opening = lower in _OPENINGS and _opens(text, found.start())
            if not is_opening and lower not in _PARTIES:
                yield lower


def _opens(text: str, at: int) -> bool:
    before = text[max(0, at - 2) : at].rstrip()
    return not before or before[-1] in _SENTENCE_SIGNS


def _find_false_quotation(text: str, sources: list[str]) -> str:
    quotations = {(found[found.lastindex or 0]).strip(" .,…") for found in _QUOTES.finditer(text)}
    quotations.discard("")
    if len(quotations) > MAX_QUOTATIONS:
        return f"more than {MAX_QUOTATIONS} quotations"
    for quotation in sorted(quotations):
        if not any(quotation in source for source in sources):
            return f"the quotation {quotation[:80]!r}"
    return ""
