"""Choose what the Observer is shown of the log: earlier observations within a token budget.

Items are kept or left out whole, never changed, and what is left out is counted in its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.record.record import write_log
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

_GAP_TOKENS = 10
"""About what a line that counts left-out lines costs."""
_BATCHES = 4
"""How many times a budget's worth of new items makes the choice anew."""


def select_previous(
    groups: Sequence[Group], budget: int | Literal[False], counter: TokenCounter
) -> str:
    """Return the log cut to a budget: its newest items, and the newest of the important ones.

    A quarter of the budget is for what is added from question to question. Of the rest, half goes
    to the newest items, the other half to older ones marked 🔴, then ✅; what these leave over goes
    to the newest again.

    Args:
        groups: The log.
        budget: Tokens to keep within; 0 keeps nothing, `False` everything.
        counter: What counts tokens.
    """
    if budget is False:
        return write_log(groups)
    if budget == 0:
        return ""
    text = write_log(groups)
    if sum(group["tokens"] for group in groups) <= budget:
        return text
    items = _split_items(text, counter)
    room = budget
    while room > 0:
        excerpt = _mark_gaps(items, _choose_items(items, room))
        excess = counter.count_text(excerpt) - budget
        if excess <= 0:
            return excerpt
        room -= excess  # the lines that count left-out lines took more than was set aside
    return ""


@dataclass(frozen=True, slots=True)
class _Item:
    """A heading, or an item with its sub-items, which mean nothing without it."""

    at: int
    lines: tuple[str, ...]
    tokens: int

    @property
    def rank(self) -> int:
        """0 for facts and decisions, 1 for what was completed, 2 for the rest."""
        text = "\n".join(self.lines)
        return 0 if "🔴" in text else 1 if "✅" in text else 2


def _split_items(text: str, counter: TokenCounter) -> list[_Item]:
    grouped: list[list[str]] = []
    for line in filter(str.strip, text.split("\n")):
        if line[0].isspace() and grouped and observation_date(grouped[-1][0]) is None:
            grouped[-1].append(line)
        else:
            grouped.append([line])
    return [
        _Item(at, tuple(lines), counter.count_text("\n".join(lines)) + 1)
        for at, lines in enumerate(grouped)
    ]


def _choose_items(items: Sequence[_Item], budget: int) -> set[int]:
    """Return the numbers of the items to keep.

    The choice is made anew only when a quarter of the budget was written since the last one; until
    then the newest items are added behind it, so that the beginning of what is shown holds still,
    which a provider's cache needs.
    """
    step = max(1, budget // _BATCHES)
    ends = list(accumulate(item.tokens for item in items))
    settled = bisect_right(ends, ends[-1] // step * step)
    newer = items[settled:]
    room = budget - step
    if sum(item.tokens for item in newer) > step:  # a long one began in the batch before
        settled, newer, room = len(items), [], budget
    return _choose_settled(items, settled, room) | {item.at for item in newer}


def _choose_settled(items: Sequence[_Item], stop: int, budget: int) -> set[int]:
    """Choose among the items before one, with the heading that it stands under."""
    picker = _Picker(items, budget)
    newest = list(reversed(items[:stop]))
    if stop < len(items):
        picker.take_heading(items[stop])
    all(picker.take(item, leave=budget // 2) for item in newest)
    for rank in (0, 1):
        for item in newest:
            if item.rank == rank:
                picker.take(item, gap=_GAP_TOKENS)
    all(picker.take(item) for item in newest)
    return picker.kept


class _Picker:
    """Picks items while the budget lasts; a picked one brings its date heading."""

    def __init__(self, items: Sequence[_Item], budget: int) -> None:
        self.left = budget - _GAP_TOKENS
        self.kept: set[int] = set()
        self._headings = [item for item in items if observation_date(item.lines[0]) is not None]
        self._starts = [item.at for item in self._headings]

    def take(self, item: _Item, *, leave: int = 0, gap: int = 0) -> bool:
        """Pick an item if that leaves at least `leave` tokens; return whether it is picked."""
        if item.at in self.kept:
            return True
        picked = [item, *self._find_heading(item)]
        cost = sum(part.tokens + gap for part in picked)
        if self.left - cost < leave:
            return False
        self.left -= cost
        self.kept.update(part.at for part in picked)
        return True

    def take_heading(self, item: _Item) -> None:
        """Pick the heading of an item that is kept anyway."""
        for heading in self._find_heading(item):
            self.take(heading)

    def _find_heading(self, item: _Item) -> list[_Item]:
        above = bisect_right(self._starts, item.at) - 1
        if above < 0 or self._starts[above] == item.at or self._starts[above] in self.kept:
            return []
        return [self._headings[above]]


def _mark_gaps(items: Sequence[_Item], kept: Container[int]) -> str:
    out: list[str] = []
    left_out = 0
    for item in items:
        if item.at not in kept:
            left_out += len(item.lines)
            continue
        if left_out:
            out.append(_tell_of_gap(left_out))
        out += item.lines
        left_out = 0
    return "\n".join([*out, _tell_of_gap(left_out)] if left_out else out)


def _tell_of_gap(left_out: int) -> str:
    """Return the line for so many lines, as the Observer's rules name it."""
    return f"[{left_out} earlier line{'' if left_out == 1 else 's'} left out]"
