"""What the Reflector answered, as edits: items to drop, to shorten and to join.

    drop 3, 7, 9-12
    14: * 🔴 (10:02) shorter text
    21+25: * 🟡 (11:40) joined text

Lines of no such form are passed over, so a remark of the model's spoils nothing. Whether an edit
can be applied is judged elsewhere (`check_edits`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from langgraph_om.core.content.dates import MONTH, MONTHS, WEEKDAYS, observation_date
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.items import MARKS, LineSpan, cut_spans, find_spans, read_head
from langgraph_om.core.observe.parse_answer import strip_reasoning
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.core.wire import Group

_CAPTION: Final = re.compile(
    r"\[[^\[\]\n]{0,60}?\b(?:image|picture|photo|screenshot|video|gif)\b[^\[\]\n]*+\]",
    re.IGNORECASE,
)
_MAX_WORDS_BESIDE_PICTURE: Final = 6


@dataclass(frozen=True, slots=True)
class Item:
    """One numbered item of the log."""

    number: int
    """From 1 on, in the order in which the log is shown."""
    group: int
    """Index of its group in the log."""
    thread_id: str | None
    span: LineSpan
    text: str
    """Its lines as the model is shown them."""
    tokens: int
    """Of the text in the log."""
    size: int
    """Characters of the text in the log."""


def number_items(
    groups: Sequence[Group], counter: TokenCounter, shown: Sequence[str] | None = None
) -> list[Item]:
    """Return the items of a log, numbered thread by thread, the quietest thread first.

    An item that `shown` leaves out of its group has no number.
    """
    items: list[Item] = []
    for index in order_groups(groups):
        group = groups[index]
        view = group["text"] if shown is None else shown[index]
        paired = pair_spans(group["text"], view)
        own = cut_spans(group["text"], paired)
        said = cut_spans(view, paired.values())
        for span, text, seen in zip(paired, own, said, strict=True):
            items.append(
                Item(
                    number=len(items) + 1,
                    group=index,
                    thread_id=group["thread_id"],
                    span=span,
                    text=seen,
                    tokens=counter.count_text(text),
                    size=len(text),
                )
            )
    return items


def order_groups(groups: Sequence[Group]) -> list[int]:
    """Return the places of all groups, thread by thread, the one whose last is oldest first."""
    places: dict[str | None, list[int]] = {}
    for at, group in enumerate(groups):
        places.setdefault(group["thread_id"], []).append(at)
    return [at for own in sorted(places.values(), key=lambda own: own[-1]) for at in own]


@dataclass(frozen=True, slots=True)
class Division:
    """How a log about several threads is shown: what is about one of them in a section each."""

    wrap: Callable[[str, str], str]
    """Writes the section of a thread, by its id, around a text."""
    rule: str
    """The description of the sections for a model."""


def render_items(items: Sequence[Item], division: Division | None = None) -> str:
    """Write items with their numbers and sizes, under their days."""
    if division is None:
        return "\n".join(_write_lines(items))
    sections: dict[str | None, list[Item]] = {}
    for item in items:
        sections.setdefault(item.thread_id, []).append(item)
    return "\n\n".join(
        division.wrap(thread or "", "\n".join(_write_lines(own)))
        for thread, own in sections.items()
    )


def identifies_by_picture(text: str) -> bool:
    """Return whether an item holds little but the caption of a picture."""
    body = text[read_head(text).end :]
    rest, count = _CAPTION.subn("", body)
    return count > 0 and len(rest.split()) <= _MAX_WORDS_BESIDE_PICTURE


def pair_spans(text: str, view: str) -> dict[LineSpan, LineSpan]:
    """Return where in a view of a text its items stand; those that the view hides are missing.

    Where the view has as many, they are the same ones; else only those are known that it shows
    unchanged.
    """
    spans = find_spans(text)
    if text == view:
        return dict(zip(spans, spans, strict=True))
    views = find_spans(view)
    if len(views) == len(spans):
        return dict(zip(spans, views, strict=True))
    places: dict[str, list[int]] = {}
    for at, item in enumerate(cut_spans(text, spans)):
        places.setdefault(item, []).append(at)
    paired: dict[LineSpan, LineSpan] = {}
    after = 0
    for span, item in zip(views, cut_spans(view, views), strict=True):
        found = places.get(item, [])
        at = bisect_left(found, after)
        if at < len(found):
            after = found[at] + 1
            paired[spans[found[at]]] = span
    return paired


# --- Lines ---------------------------------------------------------------------------------------


def _write_lines(items: Sequence[Item]) -> Iterator[str]:
    heading: str | None = None
    for item in items:
        if item.span.heading != heading:
            if heading is not None:
                yield ""
            if item.span.heading:
                yield escape(item.span.heading)
            heading = item.span.heading
        note = " picture" if identifies_by_picture(item.text) else ""
        yield f"[{item.number} ~{item.tokens}{note}] {escape(item.text.lstrip())}"


Numbers = tuple[tuple[int, int], ...]
"""Numbers of items as ranges: first and last."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to become of items."""

    numbers: Numbers
    text: str | None = None
    """What takes the place of one item, or of several that are joined in it; `None`: they go."""


_NUMBERS: Final = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_DROP: Final = re.compile(rf"drop ({_NUMBERS}(?:, ?{_NUMBERS})*)")
_WORDED: Final = re.compile(rf"({_NUMBERS}(?:\+{_NUMBERS})*): (.+)")


def parse_edits(text: str, *, cut_off: bool = False) -> list[Edit]:
    """Return the edits that an answer holds, in its order.

    Args:
        cut_off: Whether the provider said that the answer ended too early: its last edit may lack
            its end, and does not count.
    """
    edits: list[tuple[str, list[str] | None]] = []
    below: list[str] | None = None  # of the rewording that the line before belongs to
    for line in map(str.rstrip, strip_reasoning(sanitize(text)).split("\n")):
        if below is not None and line[:1] in (" ", "\t"):
            below.append(line)
            continue
        below = None
        if (dropped := _DROP.fullmatch(line)) is not None:
            edits.append((dropped[1], None))
        elif (worded := _WORDED.fullmatch(line)) is not None:
            edits.append((worded[1], below := [worded[2].lstrip()]))
    read = [
        Edit(_read_numbers(numbers), None if lines is None else "\n".join(lines))
        for numbers, lines in edits
    ]
    return read[:-1] if cut_off else read


def _read_numbers(text: str) -> Numbers:
    ends = (sorted(map(int, found.split("-"))) for found in re.findall(_NUMBERS, text))
    return tuple((both[0], both[-1]) for both in ends)


# Judge the edits of an answer one by one: a bad one is left out, the others count.
#
# What is left is safe to apply: it names items that are there, each once; a new text is one item,
# no longer than what it replaces, and states nothing that its sources lack.


MAX_JOINED: Final = 30
"""More items than this are not joined in one."""

_SUB_ITEM: Final = re.compile(r"[ \t]+")
_WORDS: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class CheckedRewording:
    """A checked rewording, ready to stand in the log."""

    sources: tuple[int, ...]
    """Numbers of the items that it replaces, in the order of the log."""
    text: str


@dataclass(slots=True)
class CheckedEdits:
    """What of an answer can be applied, and why the rest cannot."""

    dropped: list[int] = field(default_factory=list)
    """Numbers of the items that go, in order."""
    replacements: list[CheckedRewording] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """A reason for each edit that is left out."""

    @property
    def counts(self) -> dict[str, int]:
        """How many edits can be applied, and to how many items, as `wire.Edited` has it."""
        dropped, sizes = len(self.dropped), [len(each.sources) for each in self.replacements]
        joined, shortened = sum(size for size in sizes if size > 1), sizes.count(1)
        edits = dropped + len(sizes)
        return {"edits": edits, "dropped": dropped, "joined": joined, "shortened": shortened}


def check_edits(
    edits: Sequence[Edit], items: Sequence[Item], counter: TokenCounter, *, may_stay: int = 0
) -> CheckedEdits:
    """Return the edits that can be applied.

    Rewordings come first, each item's first one counts; an item that has a new text is not dropped
    as well.

    Args:
        may_stay: The tokens of items that need not go. Drops that leave less than a quarter of them
            count as none: small models count on from `drop 1, 2, 3` to the log's end.
    """
    checked = CheckedEdits()
    taken: set[int] = set()
    for edit in edits:
        if edit.text is not None:
            _check_rewording(edit, items, counter, taken, checked)
    drops = [ends for edit in edits if edit.text is None for ends in edit.numbers]
    _check_drops(drops, items, taken, checked)
    gone = {*checked.dropped}
    left = sum(item.tokens for item in items if item.number not in gone)
    if gone and left < may_stay // 4:
        checked.dropped.clear()
        checked.refused.append(f"drop: it leaves {left} tokens, and {may_stay} may stay")
    return checked


def _check_rewording(
    edit: Edit, items: Sequence[Item], counter: TokenCounter, taken: set[int], checked: CheckedEdits
) -> None:
    named = _name(edit)
    if sum(last - first + 1 for first, last in edit.numbers) > MAX_JOINED:
        checked.refused.append(f"{named}: it joins more than {MAX_JOINED} items")
        return
    numbers = sorted(at for first, last in edit.numbers for at in range(first, last + 1))
    problem = _find_bad_number(numbers, items, taken)
    if not problem:
        sources = [items[number - 1] for number in numbers]
        text = _settle(edit.text or "", sources)
        if [text] == [source.text for source in sources]:
            return  # it says what is there
        problem = _find_bad_text(text, sources) or _find_bad_size(text, sources, counter)
    if problem:
        checked.refused.append(f"{named}: {problem}")
        return
    taken.update(numbers)
    checked.replacements.append(CheckedRewording(tuple(numbers), text))


def _check_drops(
    drops: Sequence[tuple[int, int]], items: Sequence[Item], taken: set[int], checked: CheckedEdits
) -> None:
    """Take the numbers of all lists together: to drop an item twice is to drop it."""
    begun = [0] * (len(items) + 2)
    for first, last in drops:
        if first <= len(items) and last >= 1:
            begun[max(first, 1)] += 1
            begun[min(last, len(items)) + 1] -= 1
    unknown = [first for first, last in drops if first < 1 or last > len(items)]
    if unknown:  # one reason for all: a model that counts on names hundreds
        checked.refused.append(f"drop {unknown[0]}: there is no such item")
    depths = enumerate(accumulate(begun[:-1]))
    checked.dropped += [number for number, depth in depths if depth and number not in taken]


def _name(edit: Edit) -> str:
    shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in edit.numbers[:4]]
    return "+".join(shown) + ("+..." if len(edit.numbers) > len(shown) else "")


def _find_bad_number(numbers: Sequence[int], items: Sequence[Item], taken: set[int]) -> str:
    if not numbers or numbers[0] < 1 or numbers[-1] > len(items):
        return "there is no such item"
    if len(set(numbers)) < len(numbers) or not taken.isdisjoint(numbers):
        return "an item is named twice"
    if len({items[number - 1].thread_id for number in numbers}) > 1:
        return "it joins items of several conversations"
    return ""


def _settle(text: str, sources: Sequence[Item]) -> str:
    """Give a text the mark and the time that its sources allow."""
    head = read_head(text)
    mark, time = _choose_mark(head.mark, sources), _choose_time(sources)
    opening = "".join(f"{part} " for part in ("*", mark, f"({time})" if time else "") if part)
    first, _, below = text[head.end :].strip().partition("\n")
    return f"{opening}{first.rstrip()}\n{below}" if below else f"{opening}{first}"


def _choose_mark(wanted: str, sources: Sequence[Item]) -> str:
    """Return the strongest mark of the sources, of equal ones the wanted or the last."""
    marks = [read_head(source.text).mark for source in sources]
    most = max(MARKS[mark] for mark in marks)
    strongest = [mark for mark in marks if MARKS[mark] == most]
    return wanted if wanted in strongest else strongest[-1]


def _choose_time(sources: Sequence[Item]) -> str:
    """Return the time of the place where the text will stand: the earliest of that day."""
    last = sources[-1]
    same_day = [source for source in sources if source.span.heading == last.span.heading]
    times = [time for source in same_day if (time := read_head(source.text).time)]
    return min(times, key=lambda time: time.zfill(5)) if read_head(last.text).time else ""


def _find_bad_text(text: str, sources: Sequence[Item]) -> str:
    """Tell why a text is not one item made of its sources; empty when it is."""
    spans = find_spans(text)
    if len(spans) != 1 or spans[0].heading or spans[0].start:
        return "it is not one item"
    first, *below = text.split("\n")
    body = first[read_head(first).end :]
    if not any(map(str.isalnum, body)) or not all(map(_SUB_ITEM.match, below)):
        return "it is not one item"
    words = "\n".join([body, *below])
    if any(mark and mark in words for mark in MARKS):
        return "it has a mark within its text"
    if escape(words) != words:
        return "it holds a tag"
    given = [_read_words(source.text) for source in sources]
    if _list_words(words).isdisjoint(_list_words(" ".join(given))):
        return "it says nothing of its items"
    invented = find_invented(words, given, [source.span.heading for source in sources])
    return f"its items have no {invented.removeprefix('the ')}" if invented else ""


def _list_words(text: str) -> set[str]:
    return {*_WORDS.findall(text.casefold())}


def _read_words(text: str) -> str:
    """Return an item's text without mark; its time is one of its facts."""
    head = read_head(text)
    return f"{head.time} {text[head.end :]}" if head.time else text[head.end :]


def _find_bad_size(text: str, sources: Sequence[Item], counter: TokenCounter) -> str:
    size, tokens = sum(each.size for each in sources), sum(each.tokens for each in sources)
    if len(text) > size or counter.count_text(text) > tokens:
        return "it is longer than what it replaces"
    return ""


# --- What a text states that can be wrong --------------------------------------------------------
#
# Numbers, dates, quotations and names: a reworded item may hold none that its sources lack, so that
# a reflection invents nothing. The reading is by form and errs on the strict side: a number word
# counts as its number, a capitalised word as a name unless it is one of a few that often begin a
# note. What has no form of its own (a name in lower case, or in a script without capitals) is not
# seen.

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
