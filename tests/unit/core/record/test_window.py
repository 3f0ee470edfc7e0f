"""The window of unobserved messages, and which chunks still fit it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.message_keys import CONTINUATION_ID
from langgraph_om.core.prompts import load
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import (
    Window,
    find_chunk_end,
    find_safe_cuts,
    open_window,
)
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import MemoryRecord
from support import groups
from support.edits import edited
from support.windows import A, H, entries, keys, look
from support.words import Words

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


def test_of_a_rewritten_conversation_nothing_is_known_to_be_observed() -> None:
    messages = [HumanMessage("new", id=f"n{at}") for at in range(3)]
    assert keys(look(remembering(["m4"], ("m0", "m4")), messages)) == ["n0", "n1", "n2"]


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


def test_doubled_ids_are_told_apart() -> None:
    messages = [HumanMessage(text, id=key) for text, key in zip("abcde", "xyzyw", strict=True)]
    first = look(blank_record(), messages)
    assert len(set(keys(first))) == 5
    for count in range(2, 6):
        record = remembering(first.cursor_after(count), (keys(first)[0], keys(first)[count - 1]))
        shown = [entry.message.content for entry in look(record, messages).entries]
        assert shown == list("abcde")[count:]


def test_system_messages_and_the_reminder_are_no_part_of_the_window() -> None:
    conversation = talk(4)
    messages = [
        SystemMessage("be kind", id="s0"),
        *conversation[:2],
        SystemMessage("be brief", id="s1"),
        HumanMessage(load("continuation"), id=CONTINUATION_ID),
        *conversation[2:],
        SystemMessage("be quick", id="s2"),
    ]
    window = look(blank_record(), messages)
    assert keys(window) == ["m0", "m1", "m2", "m3"]
    assert window.tokens == 4 + OVERHEAD
    assert window.request == "m2"
    for count in range(1, 5):
        record = remembering(window.cursor_after(count), ("m0", f"m{count - 1}"))
        assert keys(look(record, messages)) == keys(window)[count:]


@given(st.lists(st.sampled_from("smr"), max_size=30), st.data())
def test_what_is_not_observed_is_always_in_the_window(
    kinds: list[str], data: st.DataObject
) -> None:
    made: dict[str, Callable[[int], BaseMessage]] = {
        "s": lambda at: SystemMessage("s", id=f"s{at}"),
        "m": lambda at: HumanMessage("m", id=f"m{at}"),
        "r": lambda at: HumanMessage("r"),
    }
    messages: list[BaseMessage] = [made[kind](at) for at, kind in enumerate(kinds)]
    record = blank_record()
    expected = [message for message in messages if not isinstance(message, SystemMessage)]
    while expected:
        window = look(record, messages)
        assert [entry.message for entry in window.entries] == expected
        count = data.draw(st.integers(1, len(expected)))
        ends = (window.entries[0].key, window.entries[count - 1].key)
        record = remembering(window.cursor_after(count), ends)
        expected = expected[count:]
    assert look(record, messages).entries == ()


# --- What the window weighs ----------------------------------------------------------------------


def test_a_message_that_was_edited_is_counted_again() -> None:
    messages = talk(3)
    window = look(blank_record(), messages)
    counts = {entry.key: [entry.digest, 100] for entry in window.entries}
    record = remembering([], token_cache={"counter": "words", "counts": counts})
    assert look(record, messages).tokens == 300 + OVERHEAD, "estimates in the record are used"
    edited = [messages[0], AIMessage("now three words", id="m1"), messages[2]]
    counter = Words()
    assert open_window(record, edited, counter).tokens == 203 + OVERHEAD
    assert counter.counted == ["m1"]
    other = remembering([], token_cache={"counter": "letters", "counts": counts})
    assert look(other, messages).tokens == 3 + OVERHEAD, "another counter's estimates are not"


# --- The live request ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observed", "request_key", "before"),
    [(0, "m2", False), (2, "m2", False), (3, "m2", True), (4, "m2", True)],
)
def test_the_live_request_is_found_in_and_before_the_window(
    observed: int, request_key: str, *, before: bool
) -> None:
    messages = talk(4)
    cursor = [f"m{at}" for at in range(observed)]
    record = remembering(cursor, *([("m0", cursor[-1])] if cursor else []))
    window = look(record, messages)
    assert window.request == request_key
    assert window.request_message is (messages[2] if before else None)
    assert window.last_key == "m3"


@pytest.mark.parametrize("role", ["system", "developer", "System"])
def test_a_message_in_the_role_of_the_system_is_no_part_of_the_window(role: str) -> None:
    messages = [*talk(2), ChatMessage(content="be kind", role=role, id="c"), *talk(4)[2:]]
    assert keys(look(blank_record(), messages)) == ["m0", "m1", "m2", "m3"]


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


@st.composite
def tool_talks(draw: st.DrawFn) -> list[BaseMessage]:
    """Any mixture of talk, calls and results, in and out of order."""
    messages: list[BaseMessage] = []
    open_calls: list[str] = []
    for at in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["human", "ai", "calls", "result", "result", "result"]))
        if kind == "calls":
            ids = [f"c{at}-{number}" for number in range(draw(st.integers(1, 3)))]
            messages.append(calls(*ids))
            open_calls += ids
        elif kind == "result" and open_calls:
            place = draw(st.integers(0, len(open_calls) - 1))
            messages.append(result(open_calls.pop(place)))
        else:
            messages.append(H if kind == "human" else A)
    return messages


@given(tool_talks())
def test_no_cut_splits_an_exchange(messages: list[BaseMessage]) -> None:
    window = entries(messages)
    cuts = find_safe_cuts(window)
    assert cuts == sorted(set(cuts))
    for cut in cuts:
        head, tail = messages[:cut], messages[cut:]
        called = {call["id"] for m in head if isinstance(m, AIMessage) for call in m.tool_calls}
        answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
        assert not called & answered
        results = {m.tool_call_id for m in head if isinstance(m, ToolMessage)}
        for at, caller in enumerate(head):
            if (
                isinstance(caller, AIMessage)
                and not {c["id"] for c in caller.tool_calls} <= results
            ):
                went_on = any(not isinstance(m, ToolMessage) for m in messages[at + 1 :])
                assert went_on, "an open call at the end is never cut off"


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


def test_chunk_ends_before_a_human_message_where_that_is_cheap() -> None:
    turn: list[BaseMessage] = [HumanMessage(words(45)), AIMessage(words(45))]
    window = window_of([*turn, *[m.model_copy() for m in turn], HumanMessage(words(2))])
    assert find_chunk_end(window, 0, interval=100, most=1000) == 4


def test_tool_call_waits_until_the_actor_has_seen_its_result() -> None:
    call = {"name": "look", "args": {}, "id": "c1"}
    messages: list[BaseMessage] = [
        HumanMessage(words(20)),
        AIMessage(words(200), tool_calls=[call]),
    ]
    assert find_chunk_end(window_of(messages), 0, interval=100, most=1000) == 0
    answered = [*messages, ToolMessage("done", tool_call_id="c1")]
    assert find_chunk_end(window_of(answered), 0, interval=100, most=1000) == 0
    went_on = [*answered, AIMessage("Seen.")]
    assert find_chunk_end(window_of(went_on), 0, interval=100, most=1000) == 4


def test_chunk_is_bounded_but_a_large_message_goes_alone() -> None:
    window = window_of([HumanMessage(words(500)), AIMessage(words(100)), HumanMessage(words(100))])
    assert find_chunk_end(window, 0, interval=100, most=200) == 1
    assert find_chunk_end(window, 1, interval=100, most=150) == 2
