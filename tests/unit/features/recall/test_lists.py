"""Lists of threads and of hits of a search."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo

import pytest

from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.features.recall.answer import recall
from langgraph_om.search.source import (
    RecallHit,
    RecallThread,
    StateSource,
)
from support.counters import COUNTER, COUNTERS
from support.recall_talk import (
    NOON,
    TALK,
    Shelf,
    entries_of,
    scope_of,
    shelf,
    within_budget,
)

# --- Threads -------------------------------------------------------------------------------------


def test_threads_are_listed_with_their_dates_and_the_current_one_marked() -> None:
    answer = recall({"mode": "threads"}, shelf(), scope_of("resource"), COUNTER)
    assert answer == {
        "threads": (
            "- **Weather** [t1] created 2026-03-15 12:00, updated 2026-03-15 12:08 ← current\n"
            "- **(untitled)** [t2] created 2026-03-01 12:00, updated 2026-03-15 12:00"
        ),
        "count": 2,
        "page": 0,
        "has_more": False,
    }
    only = recall({"mode": "threads"}, shelf(), scope_of("thread"), COUNTER)
    assert only["count"] == 1
    assert only["threads"] in answer["threads"]


@pytest.mark.parametrize("scope", ["thread", "resource"])
@pytest.mark.parametrize(
    ("bounds", "is_listed"),
    [
        # Midnight in Auckland is 11:00 UTC of the day before: the thread is of 16 March there.
        ({"after": "2026-03-16"}, True),
        ({"before": "2026-03-16"}, False),
        ({"after": "2026-03-16T00:00:00Z"}, False),
        ({"before": "2026-03-17", "after": "2026-03-10"}, True),
        ({"after": "2026-03-15T12:00:00Z"}, True),
        ({"before": "2026-03-15T12:00:00Z"}, False),
    ],
)
def test_bare_dates_are_days_of_the_memory(
    scope: Literal["thread", "resource"],
    bounds: dict[str, str],
    *,
    is_listed: bool,
) -> None:
    auckland = scope_of(scope, timezone=ZoneInfo("Pacific/Auckland"))
    source = StateSource("t1", entries_of(TALK))
    answer = recall({"mode": "threads", **bounds}, source, auckland, COUNTER)
    assert answer["count"] == is_listed
    assert ("2026-03-16 01:00" in answer["threads"]) is is_listed


def test_threads_page_by_page() -> None:
    many = Shelf(*(StateSource(f"t{n}", entries_of(TALK)) for n in range(5)))
    pages = [
        recall({"mode": "threads", "page": page, "limit": 2}, many, scope_of("resource"), COUNTER)
        for page in range(4)
    ]
    assert [page["count"] for page in pages] == [2, 2, 1, 0]
    assert [page["has_more"] for page in pages] == [True, True, False, False]
    assert [page["page"] for page in pages] == [0, 1, 2, 3]


# --- Search --------------------------------------------------------------------------------------


def test_search_groups_hits_by_thread() -> None:
    one, two = RecallThread("t1", "Weather"), RecallThread("t2")
    hits = [
        RecallHit(one, "g1", 0.914, "Oslo has 4 degrees", "m3", NOON),
        RecallHit(two, "g2", 0.8, "Elsewhere\nis warm", "x0"),
        RecallHit(one, "", 0.7, "A beach", "m8", NOON, "user", "message"),
        RecallHit(one, "g1", 0.2, "worse", "m3", NOON),
    ]
    arguments = {"mode": "search", "query": "warm places"}
    scope = scope_of("resource")
    assert recall(arguments, shelf(hits), scope, COUNTER) == {
        "results": (
            "**Weather** [t1] ← current\n"
            "- observations, observed 2026-03-15 12:00, score 0.91, cursor m3\n"
            "  Oslo has 4 degrees\n"
            "- user, 2026-03-15 12:00, score 0.70, cursor m8\n"
            "  A beach\n"
            "**(untitled)** [t2]\n"
            "- observations, score 0.80, cursor x0\n"
            "  Elsewhere\n"
            "  is warm"
        ),
        "count": 3,
        "page": 1,
        "has_more": False,
    }
    own = recall(arguments, shelf(hits), scope_of("thread"), COUNTER)
    assert own["count"] == 2
    assert "Elsewhere" not in own["results"]
    missing = recall({"mode": "search"}, shelf(hits), scope, COUNTER)
    assert "`query`" in missing["error"]


@pytest.mark.parametrize("counter", COUNTERS)
def test_long_lists_keep_to_the_budget_with_every_item(counter: TokenCounter) -> None:
    threads = [RecallThread(f"thread-{n}", f"{n}" + "長い題" * 60, NOON, NOON) for n in range(20)]
    hits = [RecallHit(t, t.id, 0.5, "word of it " * 900, f"m{n}") for n, t in enumerate(threads)]
    source = Shelf(*(StateSource(t.id, entries_of(TALK), t.title) for t in threads), hits=hits)
    scope = scope_of("resource")
    asked = {"mode": "search", "query": "x"}
    listed = within_budget(recall({"mode": "threads"}, source, scope, counter), counter)
    found = within_budget(recall({**asked, "limit": 20}, source, scope, counter), counter)
    for answer, text in ((listed, listed["threads"]), (found, found["results"])):
        assert answer["count"] == 20
        assert all(f"[{thread.id}]" in text for thread in threads)
    assert "word of it" in found["results"]
