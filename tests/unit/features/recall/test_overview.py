"""A page as an overview: every message in little room."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)

from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.features.recall.answer import recall
from langgraph_om.search.source import (
    RecallLimits,
    StateSource,
)
from support.counters import COUNTER, COUNTERS
from support.examples import examples
from support.recall_talk import (
    BUDGET,
    NOON,
    TALK,
    WHOLE,
    Entry,
    ask,
    call,
    entries_of,
    keys_in,
    messages_lists,
    scope_of,
    within_budget,
)


def test_overview_shows_the_whole_small_conversation() -> None:
    assert ask(TALK) == {
        "messages": WHOLE,
        "count": 7,
        "cursor": "m1",
        "page": 1,
        "limit": 20,
        "has_next_page": False,
        "has_prev_page": False,
    }


# --- Detail --------------------------------------------------------------------------------------


def test_cut_parts_say_how_to_see_the_rest() -> None:
    long = " ".join(f"w{n}" for n in range(3000))
    answer = ask([HumanMessage(long), ToolMessage(long, tool_call_id="c")], limit=2)
    marks = re.findall(
        r"… \(\+([\d,]+) characters, part_index 0\)$", answer["messages"], re.MULTILINE
    )
    shown = re.findall(r"(w0 .*)…", answer["messages"])
    lost = [int(mark.replace(",", "")) for mark in marks]
    assert [len(text) + left for text, left in zip(shown, lost, strict=True)] == [len(long)] * 2
    assert len(marks) == 2
    # The user's words were expanded, and what was left over went to them again.
    assert COUNTER.count_text(shown[0]) > 200
    assert "truncated" not in answer


def test_room_goes_to_the_user_first_then_to_texts_then_to_results() -> None:
    long = " ".join(f"word{n}" for n in range(1500))
    answer = ask(
        [HumanMessage(long), AIMessage(long), AIMessage(long), ToolMessage(long, tool_call_id="c")],
    )
    user, first, second, result = (
        COUNTER.count_text(text)
        for text in re.findall(r"(word0 .*?)(?:…|$)", answer["messages"], re.MULTILINE)
    )
    assert 180 <= user <= 200
    assert first > 300
    assert first > second >= 100
    assert second > result >= 15


def test_page_that_is_too_large_keeps_every_message_and_says_what_it_left_out() -> None:
    messages = [HumanMessage("word " * 95) for _ in range(30)]
    answer = ask(messages)
    assert keys_in(answer) == [f"m{n}" for n in range(20)]
    assert (answer["count"], answer["truncated"]) == (20, True)
    assert COUNTER.count_text(json.dumps(answer, ensure_ascii=False)) > 0.9 * BUDGET
    # With more room the same page is whole.
    roomy = scope_of(limits=RecallLimits(answer_tokens=9000))
    whole = recall({}, StateSource("t1", entries_of(messages)), roomy, COUNTER)
    assert "truncated" not in whole
    assert "…" not in whole["messages"]
    lost = COUNTER.count_text(whole["messages"]) - COUNTER.count_text(answer["messages"])
    assert answer["token_offset"] == lost


def test_message_of_many_parts_shows_the_first_and_counts_the_rest() -> None:
    calls = [("look_up", {"n": n}, f"call_{n}") for n in range(500)]
    answer = ask([call(*calls), HumanMessage("x")])
    assert keys_in(answer) == ["m0", "m1"]
    rest = re.search(r"\(\+(\d+) parts: part_index (\d+) to 499\)", answer["messages"])
    assert rest is not None
    assert int(rest[1]) + int(rest[2]) == 500
    assert answer["truncated"] is True
    last = ask([call(*calls)], cursor="m0", part_index=499)
    assert last["text"] == '{"n":499}'


@pytest.mark.parametrize("page", [1, -1])
def test_ids_too_long_for_the_page_leave_the_farthest_out(page: int) -> None:
    entries: list[Entry] = [(f"{n:03}" + "界" * 190, HumanMessage("hi"), NOON) for n in range(20)]
    source = StateSource("t1", entries)
    answer = within_budget(recall({"page": page}, source, scope_of(), COUNTER))
    keys = [key for key, _, _ in entries]
    count = answer["count"]
    assert 0 < count < 20
    assert keys_in(answer) == (keys[:count] if page == 1 else keys[-count:])
    assert answer["has_next_page" if page == 1 else "has_prev_page"]
    assert not answer["has_prev_page" if page == 1 else "has_next_page"]
    assert f"({20 - count} more of this page" in answer["messages"]


# --- Laws ----------------------------------------------------------------------------------------


@examples(60)
@given(messages_lists, st.integers(1, 20), st.sampled_from(COUNTERS))
def test_overview_keeps_to_the_budget(
    messages: list[BaseMessage], limit: int, counter: TokenCounter
) -> None:
    for page in (1, -1):
        answer = ask(messages * 3, limit=limit, page=page, counter=counter)
        assert answer["count"] == len(keys_in(answer))
        assert ("token_offset" in answer) is (answer.get("truncated") is True)
