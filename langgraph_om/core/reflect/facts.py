"""What a text states that can be wrong: its numbers, dates, quotations and names.

A reworded item may hold no such token that its sources lack, so that a reflection invents nothing.
The reading is by form and errs on the strict side: a number word counts as its number, a
capitalised word as a name unless it is one of a few that often begin a note. What has no form of
its own (a name in lower case, or in a script without capitals) is not seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from operator import attrgetter
from typing import Final

from langgraph_om.core.content.dates import observation_date

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
_IDENTIFIER_SIGNS: Final = re.compile(r"\w[_@\\]|[@#_]\w|://|\w\.\w|^~?/\w")
_MAY_IDENTIFY: Final = re.compile(r"\w[_@\\.]|[@#_/]\w|://")
"""One of these stands in each text with an identifier."""
_DIGIT: Final = re.compile(r"\d")
_EDGES: Final = ".,:;!?*-…$€£%+~="
_ABBREVIATIONS: Final = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "w.r.t"})
_MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAY_NAMES: Final = (
    *("monday", "tuesday", "wednesday", "thursday"),
    *("friday", "saturday", "sunday"),
)
_NAMED_DAYS: Final = frozenset(
    (
        *("sept", "tues", "thur", "thurs"),
        *(name for whole in (*_MONTH_NAMES, *_DAY_NAMES) for name in (whole, whole[:3])),
    )
)
"""Months and weekdays, and their usual short forms."""
_RELATIVE_DAYS: Final = frozenset({"today", "tomorrow", "tonight", "yesterday"})
_MONTH: Final = (
    r"(?P<month>jan(?:uary?|uari|vier|eiro)?|feb(?:ruary?|ruari|rero|braio)?|mar(?:ch|s|ts|zo)?"
    r"|apr(?:ile?)?|mayo?|jun(?:e|io?)?|jul(?:y|io?)?|aug(?:ust|usti|ustus)?"
    r"|sep(?:t|tember|tembre|tiembre)?|oct(?:ober|obre|ubre)?|nov(?:ember|embre|iembre)?"
    r"|dec(?:ember|embre)?)(?![^\W\d_])\.?"
)
"""A month, in languages that begin it alike, and no longer word: "on May 3 Maria left" names no
third of March."""
_MONTH_DAY: Final = re.compile(rf"\b{_MONTH} ?(?P<day>\d{{1,2}})(?!\d)", re.IGNORECASE)
_DAY_MONTH: Final = re.compile(
    rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{_MONTH}", re.IGNORECASE
)
_MONTH_YEAR: Final = re.compile(
    rf"\b{_MONTH}(?: \d{{1,2}}\b(?: ?(?:-|to) ?\d{{1,2}}\b)?)?,? (?P<day>\d{{4}})\b", re.IGNORECASE
)
_ENDING: Final = r"(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,? (?P<year>\d{4}))?"
_DAYS: Final = (
    re.compile(rf"\b{_MONTH} ?(?P<day>\d{{1,2}}){_ENDING}(?!\w){_YEAR}(?!\w)", re.IGNORECASE),
    re.compile(rf"(?<!\w)(?P<day>\d{{1,2}}){_ENDING} (?:of )?{_MONTH}{_YEAR}(?!\w)", re.IGNORECASE),
    re.compile(rf"\b{_MONTH},? (?P<year>\d{{4}})(?!\w)", re.IGNORECASE),
)
"""A day, or a month of a year, in words."""
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

_SMALL: Final = (
    *("two", "three", "four", "five", "six", "seven", "eight"),
    *("nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NUMBER_WORDS: Final = {word: str(at) for at, word in enumerate(_SMALL, 2)} | {
    "zero": "0",
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
_OPENINGS: Final = frozenset(
    {"a", "an", "the", "i", "in", "on", "at", "for", "to", "of", "as", "by"}
    | {"with", "from", "and", "but", "or", "if", "no", "not", "now", "both", "also", "still"}
    | {"since", "until", "after", "before", "when", "while", "because", "so", "then"}
    | {"it", "its", "they"}
    | {"he", "she", "has", "is", "was", "had", "are", "were", "asked", "said", "told", "wants"}
    | {"likes", "plans", "says", "agreed", "done", "open"}
)
"""Words that are no name where they begin a note, though they are capitalised there."""
_PARTIES: Final = frozenset({"user", "assistant", "i"})
_SENTENCE_SIGNS: Final = ".:;!?(-[>\"'"


class Facts:
    """The tokens of a text that a rewording may not add to; each kind is read when it is asked for.

    Args:
        text: A text whose form is settled.
    """

    def __init__(self, text: str) -> None:
        self._text, self._words = text, _WORD.findall(text)
        self._lower = [word.casefold() for word in self._words]

    @property
    def numbers(self) -> set[str]:
        """Numbers, those in words too."""
        return {*_find_numbers(self._text, self._lower)}

    @property
    def dates(self) -> set[str]:
        """Months, weekdays and the like."""
        return {*_find_dates(self._text, self._words, self._lower)}

    @property
    def names(self) -> set[str]:
        """Capitalised words and identifiers."""
        names = {word.casefold() for word in _select_names(self._text)}
        return names.union(_find_identifiers(self._text))

    @property
    def words(self) -> set[str]:
        """All words and identifiers, in lower case."""
        return {*self._lower, *_find_identifiers(self._text)}


def find_invented(text: str, sources: Iterable[str], headings: Iterable[str] = ()) -> str:
    """Return what a text holds that its sources lack, in words; empty when there is nothing.

    Args:
        text: The new text, without mark and time.
        sources: The texts that it replaces.
    """
    said, given = _normalize(text), [_normalize(source) for source in sources]
    days = [day for heading in headings if (day := observation_date(heading)) is not None]
    new, known = Facts(_without_days(said, days)), [*map(Facts, given)]
    for kind, found, held in (
        ("the number", new.numbers, attrgetter("numbers")),
        ("the date", new.dates.difference(_name_parts(days)), attrgetter("dates")),
        ("the name", new.names, attrgetter("words")),
    ):
        # Most texts have no date of their own, and sources need not be read for it then.
        if found and (invented := sorted(found.difference(*map(held, known)))):
            return f"{kind} {invented[0]!r}"
    return _find_false_quotation(said, given)


def _normalize(text: str) -> str:
    """Return a text in which signs that are written in several ways are written in one."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_ONE_FORM)
    return " ".join(text.split())


def _select_names(text: str) -> Iterator[str]:
    """Yield the words that look like names.

    Months and weekdays are left to the dates; words with digits to the numbers.
    """
    for found in _WORD.finditer(text):
        word = found[0]
        if word.islower() or not any(map(str.isupper, word)) or any(map(str.isdigit, word)):
            continue
        lower = word.casefold()
        is_ordinary = lower in _PARTIES or (lower in _OPENINGS and _opens(text, found.start()))
        if not is_ordinary and _name_day(word) is None and lower not in _NUMBER_WORDS:
            yield word


def _opens(text: str, at: int) -> bool:
    before = text[max(0, at - 2) : at].rstrip()
    return not before or before[-1] in _SENTENCE_SIGNS


def _find_identifiers(text: str) -> Iterator[str]:
    """Yield identifiers, paths and addresses of a text, in lower case."""
    for token in _IDENTIFIER.findall(text) if _MAY_IDENTIFY.search(text) else ():
        bare = token.strip(_EDGES)
        is_plain = bare.casefold() in _ABBREVIATIONS or bare.replace(".", "").isdigit()
        if not is_plain and _IDENTIFIER_SIGNS.search(bare):
            yield bare.casefold()


def _find_numbers(text: str, lower: list[str]) -> Iterator[str]:
    if _DIGIT.search(text):
        yield from (found.casefold() for found in _NUMBER.findall(text))
    yield from (_NUMBER_WORDS[word] for word in lower if word in _NUMBER_WORDS)
    yield from (word for word in lower if word.isnumeric() and not word.isdecimal())


def _find_dates(text: str, words: list[str], lower: list[str]) -> Iterator[str]:
    """Yield months and weekdays, each month with the day or the year that it stands with."""
    for form in (_MONTH_DAY, _DAY_MONTH, _MONTH_YEAR) if _DIGIT.search(text) else ():
        for found in form.finditer(text):
            yield f"{found['month'][:3].casefold()} {int(found['day'])}"
    yield from (day for word in words if (day := _name_day(word)) is not None)
    yield from (word for word in lower if word in _RELATIVE_DAYS)


def _name_day(word: str) -> str | None:
    """Return the month or the weekday that a capitalised word names, shortened."""
    if not word[:1].isupper():
        return None
    lower = word.casefold()
    return lower[:3] if lower in _NAMED_DAYS else None


def _without_days(text: str, days: Collection[date]) -> str:
    """Drop dates that name one of these days; a number of theirs says nothing by itself."""

    def drop(found: re.Match[str]) -> str:
        parts = found.groupdict()
        is_one = any(
            _MONTH_NAMES[day.month - 1].startswith(parts["month"][:3].casefold())
            and int(parts.get("day") or day.day) == day.day
            and int(parts.get("year") or day.year) == day.year
            for day in days
        )
        return " " if is_one else found[0]

    for day in days:
        text = text.replace(day.isoformat(), " ")
    for form in _DAYS if _DIGIT.search(text) else ():
        text = form.sub(drop, text)
    return text


def _name_parts(days: Iterable[date]) -> Iterator[str]:
    for day in days:
        yield _MONTH_NAMES[day.month - 1][:3]
        yield _DAY_NAMES[day.weekday()][:3]


def _find_false_quotation(text: str, sources: list[str]) -> str:
    quotations = {found.strip(" .,…") for form in _QUOTES for found in form.findall(text)}
    quotations.discard("")
    if len(quotations) > MAX_QUOTATIONS:
        return f"more than {MAX_QUOTATIONS} quotations"
    for quotation in sorted(quotations):
        if not any(quotation in source for source in sources):
            return f"the quotation {quotation[:80]!r}"
    return ""
