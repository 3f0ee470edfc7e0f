"""Choose what the Observer is shown of the log: earlier observations within a token budget.

Lines are kept or left out, never changed, and what is left out is counted in its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.record.record import group_by_thread, write_log
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

_GAP_TOKENS = 10
"""About what a line that counts left-out lines costs."""


def select_previous(
    groups: Sequence[Group], budget: int | Literal[False], counter: TokenCounter
) -> str:
    """Return the log cut to a budget: its newest lines, and the newest of the important ones.

    Half of the budget goes to the newest lines, the other half to older lines marked 🔴, then ✅;
    what these leave over goes to the newest again.

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
    lines = [
        _LogLine(at, line, counter.count_text(line) + 1, _rank_line(line))
        for at, line in enumerate(text.split("\n"))
        if line.strip()
    ]
    room = budget
    while room > 0:
        kept = _choose_lines(lines, room)
        excerpt = _mark_gaps([line for line in lines if line.at in kept], len(lines), lines)
        excess = counter.count_text(excerpt) - budget
        if excess <= 0:
            return excerpt
        room -= excess  # the lines that count left-out lines took more than was set aside
    return ""


def select_previous_sections(
    groups: Sequence[Group],
    budget: int | Literal[False],
    counter: TokenCounter,
    show_id: ShowId,
    *,
    first: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return the log of each thread, cut so that all of them together keep to a budget.

    Each thread may take half of what those before it left over. The threads that are asked about
    come first, then the others, both in order from the most recently observed one.

    Args:
        groups: The log.
        budget: Tokens to keep within; 0 keeps nothing, `False` everything.
        counter: What counts tokens.
        show_id: Writes a thread's id for the model.
        first: The threads that are asked about.

    Returns:
        Shown id and text of each thread that got a share, the most recently observed one last.
    """
    by_thread = group_by_thread(groups)
    recent = list(dict.fromkeys(group["thread_id"] for group in reversed(groups)))
    newest = [thread for thread in recent if thread is not None]
    waiting = sorted(newest, key=lambda thread: thread not in first)
    left = budget
    shares: dict[str, str] = {}
    for at, thread in enumerate(waiting):
        share = left if left is False or at == len(waiting) - 1 else (left + 1) // 2
        text = select_previous(by_thread[thread], share, counter)
        shares[thread] = text
        if left is not False:
            left = max(0, left - counter.count_text(text))
    return [(show_id(thread), shares[thread]) for thread in reversed(newest) if shares[thread]]


@dataclass(frozen=True, slots=True)
class _LogLine:
    at: int
    text: str
    tokens: int
    rank: int
    """0 for what the user asserted, 1 for what was completed, 2 for the rest."""


def _rank_line(line: str) -> int:
    return 0 if "🔴" in line else 1 if "✅" in line else 2


def _choose_lines(lines: Sequence[_LogLine], budget: int) -> set[int]:
    """Return the numbers of the lines to keep."""
    picker = _Picker(lines, budget)
    newest = list(reversed(lines))
    all(picker.take(line, leave=budget // 2) for line in newest)
    for rank in (0, 1):
        for line in newest:
            if line.rank == rank:
                picker.take(line, gap=_GAP_TOKENS)
    all(picker.take(line) for line in newest)
    return picker.kept


class _Picker:
    """Picks lines while the budget lasts; a picked item brings its date heading."""

    def __init__(self, lines: Sequence[_LogLine], budget: int) -> None:
        self.left = budget - _GAP_TOKENS
        self.kept: set[int] = set()
        self._headings = [line for line in lines if observation_date(line.text) is not None]
        self._starts = [line.at for line in self._headings]

    def take(self, line: _LogLine, *, leave: int = 0, gap: int = 0) -> bool:
        """Pick a line if that leaves at least `leave` tokens; return whether it is picked."""
        if line.at in self.kept:
            return True
        picked = [line, *self._find_heading(line)]
        cost = sum(picked_line.tokens + gap for picked_line in picked)
        if self.left - cost < leave:
            return False
        self.left -= cost
        self.kept.update(picked_line.at for picked_line in picked)
        return True

    def _find_heading(self, line: _LogLine) -> list[_LogLine]:
        above = bisect_right(self._starts, line.at) - 1
        if above < 0 or self._starts[above] == line.at or self._starts[above] in self.kept:
            return []
        return [self._headings[above]]


def _mark_gaps(kept: Sequence[_LogLine], total: int, lines: Sequence[_LogLine]) -> str:
    order = {line.at: number for number, line in enumerate(lines)}
    out: list[str] = []
    expected = 0
    for line in kept:
        number = order[line.at]
        if number > expected:
            out.append(f"[{number - expected} earlier lines left out]")
        out.append(line.text)
        expected = number + 1
    if expected < total:
        out.append(f"[{total - expected} lines left out]")
    return "\n".join(out)
