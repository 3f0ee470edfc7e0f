"""The observation log as text for a model, and back into groups after a reflection.

The log is a list of immutable groups; text exists only on the way to a model. A reflection is tied
to its sources by date: each section of the new text takes over the groups of its days, so that
every covered range of messages stays in exactly one group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.record.record import Group, derive_id
from langgraph_om.core.tokens.counter import TokenCounter


def log_text(groups: Sequence[Group]) -> str:
    """Render groups as one text, a blank line between them."""
    return "\n\n".join(group["text"] for group in groups if group["text"])


# --- What the Observer is shown of the log -------------------------------------------------------


_GAP_TOKENS = 10
"""About what a line about left-out lines costs."""


@dataclass(frozen=True, slots=True)
class _Line:
    at: int
    text: str
    tokens: int
    rank: int
    """0 for what the user asserted, 1 for what is done, 2 for the rest."""


def previous_observations(
    groups: Sequence[Group], budget: int | Literal[False], counter: TokenCounter
) -> str:
    """Cut the log to `budget` tokens: the newest lines, and the newest of the important ones.

    Half of the budget goes to the newest lines, the other half to older lines marked 🔴, then ✅;
    what these leave over goes to the newest again. Left-out lines are counted in their place.

    Args:
        groups: The log.
        budget: Tokens to keep within; 0 keeps nothing, `False` everything.
        counter: What counts tokens.
    """
    if budget is False:
        return log_text(groups)
    if budget == 0:
        return ""
    text = log_text(groups)
    if sum(group["tokens"] for group in groups) <= budget:
        return text
    lines = [
        _Line(at, line, counter.count_text(line) + 1, _rank(line))
        for at, line in enumerate(text.split("\n"))
        if line.strip()
    ]
    room = budget
    while room > 0:
        kept = _choose(lines, room)
        shown = _with_gaps([line for line in lines if line.at in kept], len(lines), lines)
        excess = counter.count_text(shown) - budget
        if excess <= 0:
            return shown
        room -= excess  # the lines about what is left out took more than was set aside
    return ""


def _rank(line: str) -> int:
    return 0 if "🔴" in line else 1 if "✅" in line else 2


class _Picker:
    """Picks lines while the budget lasts; a picked item brings its date heading."""

    def __init__(self, lines: Sequence[_Line], budget: int) -> None:
        self.left = budget - _GAP_TOKENS
        self.kept: set[int] = set()
        self._headings = [line for line in lines if observation_date(line.text) is not None]
        self._starts = [line.at for line in self._headings]

    def take(self, line: _Line, *, leave: int = 0, gap: int = 0) -> bool:
        """Pick a line if that leaves at least `leave` tokens; tell whether it is picked."""
        if line.at in self.kept:
            return True
        picked = [line, *self._heading_of(line)]
        cost = sum(part.tokens + gap for part in picked)
        if self.left - cost < leave:
            return False
        self.left -= cost
        self.kept.update(part.at for part in picked)
        return True

    def _heading_of(self, line: _Line) -> list[_Line]:
        above = bisect_right(self._starts, line.at) - 1
        if above < 0 or self._starts[above] == line.at or self._starts[above] in self.kept:
            return []
        return [self._headings[above]]


def _choose(lines: Sequence[_Line], budget: int) -> set[int]:
    """Pick the numbers of the lines to keep."""
    picker = _Picker(lines, budget)
    newest = list(reversed(lines))
    all(picker.take(line, leave=budget // 2) for line in newest)
    for rank in (0, 1):
        for line in newest:
            if line.rank == rank:
                picker.take(line, gap=_GAP_TOKENS)
    all(picker.take(line) for line in newest)
    return picker.kept


def _with_gaps(kept: Sequence[_Line], total: int, lines: Sequence[_Line]) -> str:
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


# --- What a reflection makes of the log ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Section:
    day: date | None
    text: str


def reflected_groups(
    sources: Sequence[Group],
    text: str,
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Make groups of a reflection's text that together cover what its sources covered.

    The text is cut at its date headings. A source belongs to the last section whose day is not
    after the source's own last day; a section without a source joins the next one that has one.
    Text whose days are not in order, or without days, becomes one group over everything.

    Args:
        sources: The groups that were read, in log order.
        text: What the Reflector wrote.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.
    """
    sections = _sections(text)
    days = [section.day for section in sections]
    known = [day for day in days if day is not None]
    if not known or len(known) != len(days) or known != sorted(known):
        sections, known = [_Section(None, text)], []
    shares = _share_out(sources, known) if known else [list(sources)]
    groups: list[Group] = []
    carried = ""
    for section, share in zip(sections, shares, strict=True):
        carried = f"{carried}\n{section.text}" if carried else section.text
        if not share:
            continue
        groups.append(
            {
                "id": derive_id("group", cycle_id, len(groups)),
                "kind": "reflection",
                "ranges": _joined_ranges(share),
                "thread_id": share[0]["thread_id"],
                "observed_at": reflected_at,
                "text": carried,
                "tokens": counter.count_text(carried),
            }
        )
        carried = ""
    if carried:
        last = groups[-1]
        whole = f"{last['text']}\n{carried}"
        groups[-1] = {**last, "text": whole, "tokens": counter.count_text(whole)}
    return groups


def _sections(text: str) -> list[_Section]:
    """Cut a text before each date heading of a new day."""
    sections: list[_Section] = []
    lines: list[str] = []
    day: date | None = None
    for line in text.split("\n"):
        found = observation_date(line)
        if found is not None and found != day:
            if any(entry.strip() for entry in lines):
                sections.append(_Section(day, "\n".join(lines).strip("\n")))
            lines, day = [], found
        lines.append(line)
    if any(entry.strip() for entry in lines):
        sections.append(_Section(day, "\n".join(lines).strip("\n")))
    return sections


def _share_out(sources: Sequence[Group], days: Sequence[date]) -> list[list[Group]]:
    """Give each source to one section, never to an earlier one than the source before it."""
    shares: list[list[Group]] = [[] for _ in days]
    least = 0
    for source in sources:
        own = [day for line in source["text"].split("\n") if (day := observation_date(line))]
        place = bisect_right(days, own[-1]) - 1 if own else least
        least = max(least, place)
        shares[least].append(source)
    return shares


def _joined_ranges(groups: Sequence[Group]) -> list[list[str]]:
    """Join the ranges of neighbouring groups of one thread: each continues where the last ended."""
    ranges: list[list[str]] = []
    owner: str | None = None
    for group in groups:
        for first, last in group["ranges"]:
            if ranges and group["thread_id"] == owner:
                ranges[-1] = [ranges[-1][0], last]
            else:
                ranges.append([first, last])
            owner = group["thread_id"]
    return ranges
