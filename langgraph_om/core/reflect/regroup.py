"""Render the log for the Reflector, and make groups of what it wrote.

The log is a list of immutable groups; text exists only on the way to a model. A reflection is tied
to its sources by date: each section of the new text replaces the groups of its days, so that every
covered range of messages stays in exactly one group. A group keeps the ranges of its sources apart,
so that each still leads to few messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId, derive_id
from langgraph_om.core.observe.thread_sections import wrap_section
from langgraph_om.core.record.ranges import collect_ranges
from langgraph_om.core.record.record import group_by_thread, write_log
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group


def render_for_reflector(groups: Sequence[Group], show_id: ShowId) -> str:
    """Render a log to condense: one section per thread, in the order of their first groups."""
    texts = {thread: write_log(own) for thread, own in group_by_thread(groups).items()}
    return "\n\n".join(
        wrap_section(show_id(thread), escape(text)) for thread, text in texts.items() if text
    )


def regroup(
    sources: Sequence[Group],
    text: str,
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Return groups with a reflection's text that together cover what its sources covered.

    The text is split at its date headings. A source belongs to the last section whose day is not
    after the source's own last day; a section without a source joins the next one that has one.
    A text without days, or with days that are not in order, becomes one group over everything.

    Args:
        sources: The groups that were read, in log order.
        text: What the Reflector wrote.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.
    """
    sections = _split_sections(text)
    days = [section.day for section in sections]
    known = [day for day in days if day is not None]
    if not known or len(known) != len(days) or known != sorted(known):
        sections, known = [_DaySection(None, text)], []
    shares = _assign_sources(sources, known) if known else [list(sources)]
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
                "ranges": collect_ranges(share),
                "thread_id": share[0]["thread_id"],
                "observed_at": reflected_at,
                "text": carried,
                "tokens": counter.count_text(carried),
            }
        )
        carried = ""
    if carried:
        last = groups[-1]
        joined = f"{last['text']}\n{carried}"
        groups[-1] = {**last, "text": joined, "tokens": counter.count_text(joined)}
    return groups


def regroup_threads(
    sources: Sequence[Group],
    texts: Mapping[str, str],
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Return the groups that replace exactly those that a reflection read.

    What a group covered is covered by exactly one group of the same thread afterwards. A thread
    without a text, and a group without a thread, stay as they are.

    Args:
        sources: The groups that were read, in log order.
        texts: What the Reflector wrote, by thread id.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.

    Returns:
        All groups, each at the place of the first group that it replaces.
    """
    placed: list[tuple[int, Group]] = [
        (at, group)
        for at, group in enumerate(sources)
        if not texts.get(group["thread_id"] or "", "").strip() or group["thread_id"] is None
    ]
    for thread, own in group_by_thread(sources).items():
        text = texts.get(thread, "")
        if not text.strip():
            continue
        written = regroup(
            own,
            text,
            cycle_id=derive_id("thread", cycle_id, thread),
            reflected_at=reflected_at,
            counter=counter,
        )
        starts = [at for at, group in enumerate(sources) if group["thread_id"] == thread]
        placed += zip(_find_places(own, written, starts), written, strict=True)
    return [group for _, group in sorted(placed, key=lambda pair: pair[0])]


# --- Sections and their sources ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DaySection:
    day: date | None
    text: str


def _split_sections(text: str) -> list[_DaySection]:
    """Split a text before each date heading of a new day."""
    sections: list[_DaySection] = []
    lines: list[str] = []
    day: date | None = None
    for line in text.split("\n"):
        found = observation_date(line)
        if found is not None and found != day:
            if any(map(str.strip, lines)):
                sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
            lines, day = [], found
        lines.append(line)
    if any(map(str.strip, lines)):
        sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
    return sections


def _assign_sources(sources: Sequence[Group], days: Sequence[date]) -> list[list[Group]]:
    """Assign each source to a section, never an earlier one than that of the source before it."""
    shares: list[list[Group]] = [[] for _ in days]
    earliest = 0
    for source in sources:
        own = [day for line in source["text"].split("\n") if (day := observation_date(line))]
        place = bisect_right(days, own[-1]) - 1 if own else earliest
        earliest = max(earliest, place)
        shares[earliest].append(source)
    return shares


def _find_places(
    own: Sequence[Group], written: Sequence[Group], starts: Sequence[int]
) -> list[int]:
    """Return for each written group the place of its first source."""
    places: list[int] = []
    at = 0
    for group in written:
        first = group["ranges"][0][0] if group["ranges"] else None
        while at < len(own) - 1 and all(first != start for start, _ in own[at]["ranges"]):
            at += 1
        places.append(starts[at])
    return places
