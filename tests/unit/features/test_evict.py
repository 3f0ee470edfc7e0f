"""What came in with a request, and what of it a client sent again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.features.archive import find_unarchived
from langgraph_om.features.evict import find_arrived
from support.flows import settings

SETTINGS = settings()
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def said(keys: str) -> list[BaseMessage]:
    return [
        (HumanMessage if key.startswith("h") else AIMessage)(f"text of {key}", id=key)
        for key in keys.split()
    ]


def remembered(**fields: Any) -> MemoryRecord:
    """A record of h2 to a4, of which the first exchange is observed; what was before is removed."""
    counts = {key: ["digest", 1] for key in ("h3", "a3", "h4", "a4")}
    return cast(
        "MemoryRecord",
        {
            **blank_record(),
            "id": "om-1",
            "thread_id": "t",
            "cursor": ["h2", "a2"],
            "evicted": "a1",
            "archived": "a4",
            "token_cache": {"counter": "c", "counts": counts},
            **fields,
        },
    )


def dubious(record: MemoryRecord, keys: str) -> str:
    return " ".join(key for key, _ in find_arrived(record, said(keys))) or "nothing"


STANDS = "h2 a2 h3 a3 h4 a4"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (f"{STANDS} h5", "nothing"),
        (f"{STANDS} h0 a0 h1 a1 h5", "h0 a0 h1 a1"),
        (f"{STANDS} h0 a0 h1 a1", "h0 a0 h1 a1"),
        (f"{STANDS} h0 a0 h5 h6", "h0 a0 h5"),
        (f"{STANDS} h1", "nothing"),  # asked once more
        (f"{STANDS} a9", "nothing"),  # no turn begins
        ("h2 a2 h3 a3 h4 h0 a0 h5", "h0 a0"),  # the newest one was removed by hand
        (f"h0 a0 h1 a1 {STANDS} h5", "nothing"),  # kept by the caller
    ],
)
def test_what_may_be_sent_again_stands_behind_all_that_was_there(keys: str, expected: str) -> None:
    assert dubious(remembered(), keys) == expected
    assert dubious(remembered(evicted=None), keys) == "nothing"


def test_what_has_no_id_and_what_is_no_conversation_is_never_sent_again() -> None:
    odd = [SystemMessage("be kind", id="s"), HumanMessage("hello"), *said("h0 h5")]
    found = find_arrived(remembered(), [*said(STANDS), *odd])
    assert [key for key, _ in found] == ["h0"]


@pytest.mark.parametrize(
    ("keys", "new"),
    [
        (f"a0 h1 a1 {STANDS}", STANDS),  # kept by the caller
        (f"{STANDS} a0 h1 a1 h5", f"{STANDS} a0 h1 h5"),  # came back while nobody could tell
    ],
)
def test_the_whole_conversation_is_archived_behind_what_was_removed(keys: str, new: str) -> None:
    after, found = find_unarchived(remembered(archived="gone"), said(keys))
    assert (after, [key for key, _ in found]) == ("a1", new.split())
