"""Checks of an archive: threads with their ends. One that has no `thread_ends` passes them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from langgraph_om.testing.archive.expectations import at, expect, expect_refusal, make_entries

Check = Callable[[Any, str], None]


def _where_it_lists_ends(check: Check) -> Check:
    """Leave a check out where the archive has no `thread_ends`, which is optional."""

    @wraps(check)
    def run(archive: Any, name: str) -> None:
        if hasattr(archive, "thread_ends"):
            check(archive, name)

    return run


def _list_ends(archive: Any, name: str, **options: Any) -> list[tuple[str, int | None, str | None]]:
    ends = archive.thread_ends(name, **{"limit": 100, **options})
    return [(end.thread.id.removeprefix(f"{name}-"), end.position, end.key) for end in ends]


def ends_are_those_of_the_current_branch(archive: Any, name: str) -> None:
    """The end is the last message of the current branch, whether or not users may see it.

    Its key may be left out by the archive.
    """
    long, forked, empty = (f"{name}-{each}" for each in ("long", "forked", "empty"))
    hidden = [*make_entries("a", "b"), ("c", make_entries("c")[0][1], False)]
    archive.append(long, name, hidden, after=None, now=at(1))
    archive.append(forked, name, make_entries("a", "b", "c"), after=None, now=at(2))
    archive.append(forked, name, make_entries("d"), after="a", now=at(3))
    archive.add_groups(empty, name, [{"id": "g", "text": "told"}], at(0))
    archive.append(f"{name}-strange", f"{name}-2", make_entries("a"), after=None, now=at(4))
    archive.append(f"{name}-within", name, make_entries("a"), after=None, now=at(5), parent=long)
    found = _list_ends(archive, name)
    wanted = [("forked", 1, "d"), ("long", 2, "c"), ("empty", None, None)]
    expect([each[:2] for each in found], [each[:2] for each in wanted], "threads and their ends")
    named = [(each, right) for each, right in zip(found, wanted, strict=True) if each[2]]
    expect([each for each, _ in named], [right for _, right in named], "the keys of their ends")
    archive.append(forked, name, make_entries("b", "c"), after="a", now=at(6))
    expect(_list_ends(archive, name)[0][:2], ("forked", 2), "the end of the branch returned to")
    archive.delete_thread(long)
    expect([each[0] for each in _list_ends(archive, name)], ["forked", "empty"], "what is left")
    expect(archive.thread_ends(f"{name}-nobody", limit=5), [], "the threads of nobody")


def parts_of_ends_meet(archive: Any, name: str) -> None:
    """Part by part each thread comes once, in the order of the list of all, also of one time."""
    for number in range(7):
        thread, minutes = f"{name}-{number}", (0, 3, 3, 3, 1, 3, 2)[number]
        archive.append(thread, name, make_entries("a"), after=None, now=at(minutes))
    every = _list_ends(archive, name)
    listed = [thread.id for thread in archive.threads(name, limit=100)[0]]
    expect([f"{name}-{each[0]}" for each in every], listed, "the order")
    expect(_list_ends(archive, name, limit=2), every[:2], "the first two")
    expect(archive.thread_ends(name, limit=0), [], "no thread")
    for limit in (1, 2, 3):
        found, behind = list[Any](), None
        while ends := archive.thread_ends(name, limit=limit, behind=behind):
            found += [end.thread.id for end in ends]
            behind = ends[-1].thread
        expect(found, listed, f"all threads in parts of {limit}")
    fourth = archive.thread_ends(name, limit=4)[-1].thread
    archive.delete_thread(fourth.id)
    rest = _list_ends(archive, name, behind=fourth)
    expect(rest, every[4:], "what comes behind a thread that is gone by now")
    expect_refusal(lambda: archive.thread_ends(name, limit=-1), "`limit`", "-1")


ENDS_CHECKS = tuple(
    _where_it_lists_ends(check)
    for check in (ends_are_those_of_the_current_branch, parts_of_ends_meet)
)
