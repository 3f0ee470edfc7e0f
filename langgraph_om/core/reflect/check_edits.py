"""Judge the edits of an answer one by one: a bad one is left out, the others count.

What is left is safe to apply: it names items that are there, each once; a new text is one item, no
longer than what it replaces, and states nothing that its sources lack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from langgraph_om.core.content.escape import escape
from langgraph_om.core.items.lines import MARKS, find_spans, read_head
from langgraph_om.core.reflect.edits import Drop, Edit, Rewording, count_numbers
from langgraph_om.core.reflect.facts import find_invented
from langgraph_om.core.reflect.items import Item
from langgraph_om.core.tokens.counter import TokenCounter

MAX_JOINED: Final = 30
"""More items than this are not joined in one."""

_SUB_ITEM: Final = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A checked rewording, ready to stand in the log."""

    sources: tuple[int, ...]
    """Numbers of the items that it replaces, in the order of the log."""
    text: str
    tokens: int


@dataclass(slots=True)
class CheckedEdits:
    """What of an answer can be applied, and why the rest cannot."""

    dropped: list[int] = field(default_factory=list)
    """Numbers of the items that go, in order."""
    replacements: list[Replacement] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """A reason for each edit that is left out."""

    @property
    def count(self) -> int:
        """How many edits can be applied."""
        return len(self.dropped) + len(self.replacements)

    @property
    def shortened(self) -> int:
        """How many items are only reworded."""
        return sum(len(replacement.sources) == 1 for replacement in self.replacements)

    @property
    def joined(self) -> int:
        """How many items are joined with others."""
        sizes = (len(replacement.sources) for replacement in self.replacements)
        return sum(size for size in sizes if size > 1)


def check_edits(
    edits: Sequence[Edit], items: Sequence[Item], counter: TokenCounter
) -> CheckedEdits:
    """Return the edits that can be applied.

    Rewordings come first, each item's first one counts; an item that has a new text is not dropped
    as well.

    Args:
        edits: The edits of an answer, in its order.
        items: The numbered items that it is about.
        counter: What counts tokens.
    """
    checked = CheckedEdits()
    taken: set[int] = set()
    for edit in edits:
        if isinstance(edit, Rewording):
            _check_rewording(edit, items, counter, taken, checked)
    _check_drops([edit for edit in edits if isinstance(edit, Drop)], items, taken, checked)
    return checked


def _check_rewording(
    edit: Rewording,
    items: Sequence[Item],
    counter: TokenCounter,
    taken: set[int],
    checked: CheckedEdits,
) -> None:
    named = _name(edit)
    count = count_numbers(edit.numbers)
    if count > MAX_JOINED:
        checked.refused.append(f"{named}: it joins more than {MAX_JOINED} items")
        return
    numbers = sorted(at for first, last in edit.numbers for at in range(first, last + 1))
    problem = _find_bad_number(numbers, items, taken)
    if not problem:
        sources = [items[number - 1] for number in numbers]
        text = _settle(edit.text, sources)
        if [text] == [source.text for source in sources]:
            return  # it says what is there
        problem = _find_bad_text(text, sources) or _find_bad_size(text, sources, counter)
    if problem:
        checked.refused.append(f"{named}: {problem}")
        return
    taken.update(numbers)
    checked.replacements.append(Replacement(tuple(numbers), text, counter.count_text(text)))


def _check_drops(
    drops: Sequence[Drop], items: Sequence[Item], taken: set[int], checked: CheckedEdits
) -> None:
    """Take the numbers of all lists together: to drop an item twice is to drop it."""
    begun = [0] * (len(items) + 2)
    for edit in drops:
        for first, last in edit.numbers:
            if first < 1 or last > len(items):
                checked.refused.append(f"drop {first}: there is no such item")
            if first <= len(items) and last >= 1:
                begun[max(first, 1)] += 1
                begun[min(last, len(items)) + 1] -= 1
    depth = 0
    for number in range(1, len(items) + 1):
        depth += begun[number]
        if depth and number not in taken:
            checked.dropped.append(number)


def _name(edit: Rewording) -> str:
    """Name an edit by its first numbers."""
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
    invented = find_invented(words, given, [source.span.heading for source in sources])
    return f"its items have no {invented.removeprefix('the ')}" if invented else ""


def _read_words(text: str) -> str:
    """Return an item's text without mark; its time is one of its facts."""
    head = read_head(text)
    return f"{head.time} {text[head.end :]}" if head.time else text[head.end :]


def _find_bad_size(text: str, sources: Sequence[Item], counter: TokenCounter) -> str:
    size, tokens = (sum(getattr(each, name) for each in sources) for name in ("size", "tokens"))
    if len(text) > size or counter.count_text(text) > tokens:
        return "it is longer than what it replaces"
    return ""
