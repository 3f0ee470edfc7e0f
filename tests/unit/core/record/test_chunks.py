"""Which chunks still fit, how many are activated, and where the next one ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import Window, choose_chunks, find_chunk_end, open_window
from langgraph_om.core.tokens.estimate import EstimatingCounter

K = 1000


@pytest.mark.parametrize(
    ("sizes", "window", "keep", "force_at", "activated"),
    [
        pytest.param([6200, 6100, 6400, 5900, 3300], 31 * K, 6 * K, 36 * K, 5, id="normal"),
        pytest.param(
            [6200, 6100, 6400, 5900, 6100], 31 * K, 6 * K, 36 * K, 4, id="too little would remain"
        ),
        pytest.param([29_500], 30 * K, 6 * K, 36 * K, 1, id="a single big chunk"),
        pytest.param([2000], 31 * K, 6 * K, 36 * K, 1, id="less than the goal"),
        pytest.param([3000], 5 * K, 6 * K, 36 * K, 1, id="below the floor"),
        pytest.param([10 * K, 9 * K, 39_800], 60 * K, 30 * K, 72 * K, 2, id="95 % guard"),
        pytest.param([10 * K, 9 * K, 39_800], 60 * K, 30 * K, 60 * K, 3, id="the guard, forced"),
        pytest.param([1000, 1000], 2000, 0, 2400, 2, id="nothing is to be kept"),
        pytest.param([6000, 6000, 6000, 6000], 30 * K, 6 * K, 36 * K, 4, id="exactly the goal"),
    ],
)
def test_number_of_chunks_that_an_activation_takes(
    sizes: list[int], window: int, keep: int, force_at: int, activated: int
) -> None:
    assert choose_chunks(sizes, window, keep=keep, force_at=force_at) == activated


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 9000), min_size=1, max_size=12),
    st.integers(0, 20_000),
    st.integers(0, 12_000),
)
def test_enough_remains_unless_every_boundary_takes_too_much(
    sizes: list[int], rest: int, keep: int
) -> None:
    window = sum(sizes) + rest
    count = choose_chunks(sizes, window, keep=keep, force_at=10**9)
    assert 1 <= count <= len(sizes)
    remaining = window - sum(sizes[:count])
    if remaining < min(1000, keep):
        # Only when one chunk fewer would be none at all, or would not leave enough either.
        assert count == 1 or window - sum(sizes[: count - 1]) < min(1000, keep)


def window_of(messages: list[BaseMessage]) -> Window:
    for at, message in enumerate(messages):
        message.id = f"m{at}"
    return open_window(blank_record(), messages, EstimatingCounter())


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_no_chunk_before_the_interval() -> None:
    window = window_of([HumanMessage(words(40)), AIMessage(words(40))])
    assert find_chunk_end(window, 0, interval=100, most=1000) == 0


def test_chunk_ends_before_a_human_message_where_that_is_cheap() -> None:
    turn: list[BaseMessage] = [HumanMessage(words(45)), AIMessage(words(45))]
    window = window_of([*turn, *[m.model_copy() for m in turn], HumanMessage(words(2))])
    assert find_chunk_end(window, 0, interval=100, most=1000) == 4


def test_chunk_takes_all_where_the_human_boundary_is_far() -> None:
    window = window_of([HumanMessage(words(20)), HumanMessage(words(90)), AIMessage(words(20))])
    assert find_chunk_end(window, 0, interval=100, most=1000) == 3


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
