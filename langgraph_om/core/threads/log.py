"""The log of a resource as text for a model: every observation stands in its thread's section.

Texts are escaped, so that a section ends where ours ends. Groups without a thread stand outside of
all sections, and no reflection over threads reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from langgraph_om.core.content.escape import escape
from langgraph_om.core.observe.thread_sections import CLOSE, ShowId, in_section, opening
from langgraph_om.core.record.record import Group, derive_id
from langgraph_om.core.reflect.regroup import log_text, previous_observations, reflected_groups
from langgraph_om.core.tokens.counter import TokenCounter

# --- What the Actor is shown ---------------------------------------------------------------------


def section_frames(
    groups: Sequence[Group], show_id: ShowId, *, current: str | None = None
) -> list[str]:
    """Return what stands before each group, and last what stands after all of them.

    A closing tag is part of what follows it, so that all but the last frame stay the same, byte by
    byte, when the log grows.

    Args:
        groups: The groups that are shown; those without a text are not.
        show_id: Tells how a thread's id is shown.
        current: The thread that the Actor is in; its sections are marked.
    """
    frames: list[str] = []
    before: str | None = None
    for at, group in enumerate(groups):
        thread = group["thread_id"]
        gap = "\n\n" if at else ""
        if at and thread == before:
            frames.append(gap)
        else:
            close = f"\n{CLOSE}" if before is not None else ""
            tag = _opening_line(thread, show_id, current)
            frames.append(f"{close}{gap}{tag}")
        before = thread
    return [*frames, f"\n{CLOSE}" if before is not None else ""]


def _opening_line(thread: str | None, show_id: ShowId, current: str | None) -> str:
    if thread is None:
        return ""
    return f"{opening(show_id(thread), current=thread == current)}\n"


# --- What the Observer is shown ------------------------------------------------------------------


def previous_sections(
    groups: Sequence[Group],
    budget: int | Literal[False],
    counter: TokenCounter,
    show_id: ShowId,
    *,
    first: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Cut the log of each thread, so that all of them together keep to a budget.

    Each thread may take half of what those before it left over: first the threads that are asked
    about, then the others, each time the most recently observed one first.

    Args:
        groups: The log.
        budget: Tokens to keep within; 0 keeps nothing, `False` everything.
        counter: What counts tokens.
        show_id: Tells how a thread's id is shown.
        first: The threads that are asked about.

    Returns:
        Shown id and text of each thread that has a share, the most recently observed one last.
    """
    by_thread = _by_thread(groups)
    recent = list(dict.fromkeys(group["thread_id"] for group in reversed(groups)))
    newest = [thread for thread in recent if thread is not None]
    waiting = sorted(newest, key=lambda thread: thread not in first)
    left = budget
    shares: dict[str, str] = {}
    for at, thread in enumerate(waiting):
        share = left if left is False or at == len(waiting) - 1 else (left + 1) // 2
        text = previous_observations(by_thread[thread], share, counter)
        shares[thread] = text
        if left is not False:
            left = max(0, left - counter.count_text(text))
    return [(show_id(thread), shares[thread]) for thread in reversed(newest) if shares[thread]]


# --- What the Reflector is shown, and what becomes of its answer ---------------------------------


def render_for_reflector(groups: Sequence[Group], show_id: ShowId) -> str:
    """Render a log that is to be condensed: one section for each thread, in order of its start."""
    texts = {thread: log_text(own) for thread, own in _by_thread(groups).items()}
    return "\n\n".join(
        in_section(show_id(thread), escape(text)) for thread, text in texts.items() if text
    )


def reflected_thread_groups(
    sources: Sequence[Group],
    texts: Mapping[str, str],
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Make the groups that take the place of exactly those that a reflection read.

    What a group of a thread covered is covered by exactly one group of the same thread. A thread
    without a text, and a group without a thread, stay as they are.

    Args:
        sources: The groups that were read, in log order.
        texts: By thread id, what the Reflector wrote.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.

    Returns:
        All groups, each where the first of the groups stood whose place it takes.
    """
    placed: list[tuple[int, Group]] = [
        (at, group)
        for at, group in enumerate(sources)
        if not texts.get(group["thread_id"] or "", "").strip() or group["thread_id"] is None
    ]
    for thread, own in _by_thread(sources).items():
        text = texts.get(thread, "")
        if not text.strip():
            continue
        written = reflected_groups(
            own,
            text,
            cycle_id=derive_id("thread", cycle_id, thread),
            reflected_at=reflected_at,
            counter=counter,
        )
        starts = [at for at, group in enumerate(sources) if group["thread_id"] == thread]
        placed += zip(_places(own, written, starts), written, strict=True)
    return [group for _, group in sorted(placed, key=lambda pair: pair[0])]


def _places(own: Sequence[Group], written: Sequence[Group], starts: Sequence[int]) -> list[int]:
    """Tell for each written group where the first of its sources stood."""
    places: list[int] = []
    at = 0
    for group in written:
        first = group["ranges"][0][0] if group["ranges"] else None
        while at < len(own) - 1 and all(first != start for start, _ in own[at]["ranges"]):
            at += 1
        places.append(starts[at])
    return places


def _by_thread(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Sort the groups of threads by thread, in the order of their first ones."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        if group["thread_id"] is not None:
            found.setdefault(group["thread_id"], []).append(group)
    return found
