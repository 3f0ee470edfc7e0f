"""The window of unobserved messages, and which chunks still fit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
)

from support import groups
from support.edits import edited
from support.inside import (
    EstimatingCounter,
    MemoryRecord,
    Window,
    blank_record,
    find_chunk_end,
    find_safe_cuts,
    open_window,
)
from support.windows import A, H, entries, keys, look

OVERHEAD = 24


def talk(count: int) -> list[BaseMessage]:
    """Messages `m0`, `m1`, ... of one word each, the user's and the assistant's in turn."""
    return [
        (AIMessage if at % 2 else HumanMessage)(f"word{at}", id=f"m{at}") for at in range(count)
    ]


def remembering(cursor: Sequence[str], *ranges: Sequence[str], **fields: Any) -> MemoryRecord:
    """A memory whose cursor is this tail, with a group for each range."""
    log = [
        groups.group(f"g{at}", "* 🔴 x", ranges=[list(ends)], tokens=3)
        for at, ends in enumerate(ranges)
    ]
    return edited(None, {"cursor": list(cursor), "log": log, **fields})


# --- Where the window starts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "ranges", "removed", "start"),
    [
        ([], [], (), 0),
        (["m0"], [("m0", "m0")], (), 1),
        (["m0", "m1", "m2"], [("m0", "m2")], (), 3),
        (["m0", "m1", "m2"], [("m0", "m2")], (1,), 3),
        (["m0", "m1", "m2"], [("m0", "m2")], (2,), 3),
        (["m0", "m1", "m2"], [("m0", "m2")], (1, 2), 3),
        (["m0", "m1", "m2"], [("m0", "m2")], (0, 1), 3),
        (["m3", "m4"], [("m0", "m1"), ("m2", "m4")], (3, 4), 5),
        (["m4"], [("m0", "m1"), ("m2", "m4")], (2, 3, 4), 5),
        (["m4"], [("m0", "m1"), ("m2", "m4")], (1, 2, 3, 4), 5),
        (["m4"], [("m0", "m4")], (0, 1, 2, 3, 4), 5),
        (["m7"], [("m0", "m7")], (), 8),
    ],
)
def test_the_window_starts_behind_what_is_left_of_the_observed(
    cursor: list[str], ranges: list[tuple[str, str]], removed: tuple[int, ...], start: int
) -> None:
    messages = [message for at, message in enumerate(talk(8)) if at not in removed]
    window = look(remembering(cursor, *ranges), messages)
    assert keys(window) == [f"m{at}" for at in range(start, 8)]
    assert window.tokens == (8 - start + OVERHEAD if start < 8 else 0)


def test_messages_without_ids_are_known_by_their_content() -> None:
    messages: list[BaseMessage] = [
        HumanMessage("one"),
        AIMessage("two"),
        HumanMessage("one"),
        AIMessage("three"),
    ]
    first = look(blank_record(), messages)
    assert len(set(keys(first))) == 4
    assert keys(look(blank_record(), [*messages, HumanMessage("more")]))[:4] == keys(first)
    for count in range(1, 5):
        observed = first.cursor_after(count)
        record = remembering(observed, (keys(first)[0], keys(first)[count - 1]))
        assert keys(look(record, messages)) == keys(first)[count:]


# --- Where it may be cut -------------------------------------------------------------------------


def calls(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": call_id} for call_id in ids])


def result(call_id: str) -> ToolMessage:
    return ToolMessage("done", tool_call_id=call_id)


BROKEN = AIMessage(
    "",
    invalid_tool_calls=[
        InvalidToolCall(type="invalid_tool_call", name="f", args="{", id="c1", error="no JSON")
    ],
)

CUTS: dict[str, tuple[list[BaseMessage], list[int]]] = {
    "nothing": ([], []),
    "plain talk": ([H, A, H], [1, 2, 3]),
    "one call": ([H, calls("c1"), result("c1"), A], [1, 3, 4]),
    "parallel calls": ([H, calls("c1", "c2"), result("c2"), result("c1"), A], [1, 4, 5]),
    "calls in a row": ([calls("c1"), result("c1"), calls("c2"), result("c2"), A], [2, 4, 5]),
    "an open call": ([H, calls("c1")], [1]),
    "some results": ([H, calls("c1", "c2"), result("c1")], [1]),
    "an abandoned call": ([H, calls("c1"), H], [1, 2, 3]),
    "an abandoned half": ([H, calls("c1", "c2"), result("c1"), H], [1, 3, 4]),
    "a late result": ([H, calls("c1"), H, A, result("c1"), A], [1, 5, 6]),
    "a late half": ([calls("c1", "c2"), result("c1"), H, result("c2"), A], [4, 5]),
    "interleaved": ([calls("c1"), calls("c2"), result("c1"), A, result("c2"), H], [5, 6]),
    "a result alone": ([result("c0"), H], [1, 2]),
    "an unreadable call with a result": ([BROKEN, result("c1"), H], [2, 3]),
    "an unreadable call": ([H, BROKEN], [1]),
}


@pytest.mark.parametrize(("messages", "expected"), CUTS.values(), ids=CUTS.keys())
def test_where_the_window_may_be_cut(messages: list[BaseMessage], expected: list[int]) -> None:
    assert find_safe_cuts(entries(messages)) == expected


def test_results_that_the_actor_has_not_seen_are_not_cut_off() -> None:
    messages = [H, calls("a"), result("a"), calls("b", "c"), result("b"), result("c")]
    assert find_safe_cuts(entries(messages)) == [1, 3]
    assert find_safe_cuts(entries([*messages, AIMessage("Seen.")])) == [1, 3, 6, 7]
    assert find_safe_cuts(entries([*messages, H])) == [1, 3, 6, 7]


def window_of(messages: list[BaseMessage]) -> Window:
    for at, message in enumerate(messages):
        message.id = f"m{at}"
    return open_window(blank_record(), messages, EstimatingCounter())


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_chunk_is_bounded_but_a_large_message_goes_alone() -> None:
    window = window_of([HumanMessage(words(500)), AIMessage(words(100)), HumanMessage(words(100))])
    assert find_chunk_end(window, 0, interval=100, most=200) == 1
    assert find_chunk_end(window, 1, interval=100, most=150) == 2
