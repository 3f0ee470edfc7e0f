from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from support.inside import REMOVE_ALL, messages_reducer

Update = list[BaseMessage]


def test_the_mark_that_clears_a_conversation_is_langgraphs() -> None:
    assert REMOVE_ALL == REMOVE_ALL_MESSAGES


def told(messages: list[Any]) -> list[tuple[str, Any, str | None]]:
    return [(message.type, message.content, message.id) for message in messages]


A, B, C = (HumanMessage(key, id=key) for key in "abc")
NEW_B = AIMessage("new", id="b")


@pytest.mark.parametrize(
    ("state", "updates", "expected"),
    [
        (None, [], []),
        ([], [None], []),
        ([A], [[]], [A]),
        ([A], [B], [A, B]),
        ([A], [[B], [C]], [A, B, C]),
        ([A, B, C], [NEW_B], [A, NEW_B, C]),
        ([A, B, C], [RemoveMessage(id="b")], [A, C]),
        ([A, B, C], [RemoveMessage(id="b"), B], [A, C, B]),
        ([A], [RemoveMessage(id="gone")], [A]),
        ([A, B], [[RemoveMessage(id=REMOVE_ALL), C]], [C]),
        ([A, B], [[C, RemoveMessage(id=REMOVE_ALL)]], []),
        ([A, B], [RemoveMessage(id=REMOVE_ALL), A], [A]),
        ([], [[B, NEW_B]], [NEW_B]),
    ],
)
def test_how_an_update_is_merged(
    state: list[AnyMessage] | None, updates: list[Any], expected: list[BaseMessage]
) -> None:
    assert messages_reducer(state, updates) == expected


@pytest.mark.parametrize(
    "written",
    [
        "hello",
        ("user", "hello"),
        {"role": "user", "content": "hello"},
        {"type": "human", "content": "hello"},
        HumanMessage("hello"),
        [("human", "hello")],
    ],
)
def test_a_message_may_be_written_in_any_form(written: object) -> None:
    [(kind, text, key)] = told(messages_reducer([], [written]))
    assert (kind, text) == ("human", "hello")
    assert key


def test_a_chunk_becomes_a_whole_message() -> None:
    merged = messages_reducer([], [AIMessageChunk(content="hello", id="a")])
    assert [type(message) for message in merged] == [AIMessage]


def test_messages_without_an_id_get_one_of_their_own_and_the_same_on_replay() -> None:
    updates = [HumanMessage("a"), HumanMessage("a"), [("ai", "b")], RemoveMessage(id="x")]
    merged = messages_reducer([], updates)
    assert [(kind, text) for kind, text, _ in told(merged)] == [
        ("human", "a"),
        ("human", "a"),
        ("ai", "b"),
    ]
    assert len({key for _, _, key in told(merged)}) == 3
    by_one: list[Any] = []
    for update in updates:
        by_one = messages_reducer(by_one, [update])
    assert told(by_one) == told(merged)
    again = messages_reducer(merged, [HumanMessage("a")])
    assert len({key for _, _, key in told(again)}) == 4


# --- Against LangGraph's own reducer -------------------------------------------------------------


@st.composite
def updates_of(draw: st.DrawFn, *, clears: bool = True) -> list[Update]:
    """Lists of new, replacing and removing messages; what is removed is there."""
    number = 0
    present: list[str] = []
    updates: list[Update] = []
    for _ in range(draw(st.integers(0, 6))):
        update: Update = []
        if clears and draw(st.integers(0, 5)) == 0:
            update.append(RemoveMessage(id=REMOVE_ALL))
            present = []
            fresh_only = True
        else:
            fresh_only = False
        for _ in range(draw(st.integers(0, 4))):
            number += 1
            kind = draw(st.sampled_from(["new", "new", "replace", "remove"]))
            if kind == "new" or not present or fresh_only:
                update.append(HumanMessage(f"text {number}", id=f"m{number}"))
                present.append(f"m{number}")
                continue
            key = draw(st.sampled_from(present))
            if kind == "replace":
                update.append(AIMessage(f"text {number}", id=key))
            else:
                update.append(RemoveMessage(id=key))
                present.remove(key)
        updates.append(update)
    return updates


@given(updates_of())
def test_it_gives_what_langgraphs_reducer_gives(updates: list[Update]) -> None:
    theirs: Any = []
    for update in updates:
        theirs = add_messages(theirs, list[Any](update))
    assert told(messages_reducer([], updates)) == told(theirs)


@given(updates_of(), updates_of())
def test_what_is_given_is_never_changed(before: list[Update], updates: list[Update]) -> None:
    state = messages_reducer([], before)
    kept, told_before = list(state), told(state)
    given_updates = [list(update) for update in updates]
    merged = messages_reducer(state, updates)
    assert merged is not state
    assert state == kept
    assert told(state) == told_before
    assert updates == given_updates


# --- Messages as plain values, as a server hands them over ---------------------------------------

ANSWER = AIMessage(
    "Let me look.",
    id="b",
    tool_calls=[{"name": "search", "args": {"query": "museum"}, "id": "call-1"}],
    invalid_tool_calls=[
        {"name": "search", "args": "{", "id": "call-2", "error": None, "type": "invalid_tool_call"}
    ],
    usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
    response_metadata={"model_name": "small"},
)
TALK: list[AnyMessage] = [
    SystemMessage("Be kind.", id="s"),
    HumanMessage("hello", id="a", name="Ann", additional_kwargs={"created_at": "2026-03-02"}),
    ANSWER,
    ToolMessage("open", id="c", tool_call_id="call-1", status="error", artifact={"page": 2}),
]


def plain(messages: list[AnyMessage]) -> list[Any]:
    return [message.model_dump(mode="json") for message in messages]


def test_a_state_of_plain_mappings_is_read() -> None:
    state = plain(TALK)
    merged = messages_reducer(state, [[HumanMessage("more", id="d")]])
    assert merged == [*TALK, HumanMessage("more", id="d")]
    assert state == plain(TALK)
    assert messages_reducer([*TALK[:2], *plain(TALK[2:])], []) == TALK


@pytest.mark.parametrize("state", [TALK, plain(TALK)], ids=["messages", "mappings"])
def test_a_mapping_removes_a_message(state: list[Any]) -> None:
    merged = messages_reducer(state, [[{"type": "remove", "id": "a"}]])
    assert [message.id for message in merged] == ["s", "b", "c"]
    # The whole message with another type, as someone edits it who was given it whole.
    whole = {**plain(TALK)[2], "type": "remove"}
    assert [message.id for message in messages_reducer(state, [whole])] == ["s", "a", "c"]
    assert messages_reducer(state, [{"type": "remove", "id": REMOVE_ALL}]) == []


# --- The places a conversation carries -----------------------------------------------------------


def placed() -> list[Any]:
    said = [HumanMessage(f"said {at}", id=f"m{at}") for at in range(4)]
    return messages_reducer([], [said])


def append(state: list[Any]) -> None:
    state.append(HumanMessage("by hand", id="new"))


def replace(state: list[Any]) -> None:
    state[1] = HumanMessage("by hand", id="new")


def drop(state: list[Any]) -> None:
    del state[0]


@pytest.mark.parametrize("change", [append, replace, drop, list.reverse, list.clear])
def test_a_list_that_was_changed_by_hand_is_read_anew(change: Callable[[list[Any]], None]) -> None:
    state = placed()
    change(state)
    updates = [[AIMessage("news", id="new"), HumanMessage("again", id="m3")], RemoveMessage("m2")]
    assert messages_reducer(state, updates) == messages_reducer(list(state), updates)
    assert copy(state) == list(state)
    assert messages_reducer(copy(state), updates) == messages_reducer(list(state), updates)


def test_two_continuations_of_one_conversation_know_nothing_of_each_other() -> None:
    state = placed()
    one = messages_reducer(state, [HumanMessage("one", id="x")])
    other = messages_reducer(state, [HumanMessage("filler", id="y"), HumanMessage("other", id="x")])
    assert [message.id for message in messages_reducer(one, [HumanMessage("new", id="x")])] == [
        *("m0", "m1", "m2", "m3", "x")
    ]
    assert [message.id for message in messages_reducer(other, [HumanMessage("new", id="x")])] == [
        *("m0", "m1", "m2", "m3", "y", "x")
    ]
    assert len(state) == 4
