"""The ids that providers give are shown whole wherever recall names one, and lead on."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.content.dates import message_time
from langgraph_om.core.content.message_keys import keyed_messages
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.record.record import write_range
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import Group
from langgraph_om.features.recall.answer import recall
from langgraph_om.search.source import (
    RecallHit,
    RecallLimits,
    RecallScope,
    RecallSource,
    RecallThread,
    SearchRequest,
    StateSource,
)
from support.real_ids import MESSAGE_IDS, THREAD_IDS, real_conversations

BUDGET = RecallLimits().answer_tokens
COUNTER = EstimatingCounter()
ANSWER = "lc_run--01a201e6-d64f-7353-ae96-92c394cad9fd-0"
RESPONSE = "resp_" + "68ab03f7d1c2495e" * 3
BASE64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
NOON = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)


class Two:
    """Two threads of one user, and one hit for any search."""

    def __init__(self, here: StateSource, there: StateSource) -> None:
        self.own = {here.thread_id: here, there.thread_id: there}
        self.there = there

    def thread(self, thread_id: str) -> RecallThread | None:
        return self.own[thread_id].thread(thread_id) if thread_id in self.own else None

    def threads(self, **_: object) -> tuple[list[RecallThread], bool]:
        return [RecallThread(thread_id) for thread_id in self.own], False

    def find(self, key: str, thread_id: str | None) -> Any:
        found = (source.find(key, thread_id) for source in self.own.values())
        return next((message for message in found if message), None)

    def messages(self, thread_id: str, **span: Any) -> list[Any]:
        return self.own[thread_id].messages(thread_id, **span)

    def search(self, asked: SearchRequest) -> list[RecallHit]:
        key = self.there.entries[0][0]
        return [RecallHit(RecallThread(self.there.thread_id), "group-1", 0.5, "text", key)]


def group_of(ranges: list[list[str]]) -> Group:
    return {
        "id": "g",
        "kind": "observation",
        "ranges": ranges,
        "thread_id": "t1",
        "observed_at": "",
        "text": "* text",
        "tokens": 2,
    }


def source_of(thread: str, *keys: str) -> StateSource:
    return StateSource(thread, [(key, AIMessage(f"said {key[:4]}"), NOON) for key in keys])


def ask(
    source: RecallSource,
    scope: Literal["thread", "resource"] = "thread",
    thread: str = "t1",
    **arguments: Any,
) -> dict[str, Any]:
    where = RecallScope(scope, thread, timezone=UTC)
    answer = recall(arguments, source, where, COUNTER)
    assert COUNTER.count_text(json.dumps(answer, ensure_ascii=False)) <= BUDGET
    assert not any("\n" in answer.get(name, "") for name in ("hint", "error"))
    return answer


# --- Hints and errors ----------------------------------------------------------------------------


def test_a_range_of_real_ids_is_answered_by_ids_that_can_be_copied() -> None:
    hint = ask(source_of("t1", ANSWER, RESPONSE), cursor=f"{ANSWER}:{RESPONSE}")["hint"]
    assert f'"{ANSWER}" with page 1' in hint
    assert f'"{RESPONSE}" with page -1' in hint
    assert "omitted" not in hint


@given(st.lists(MESSAGE_IDS, min_size=2, max_size=10, unique=True))
def test_every_id_of_a_range_line_is_named_whole_and_leads_on(keys: list[str]) -> None:
    source = source_of("t1", *keys)
    ranges = [list(pair) for pair in zip(keys[::2], keys[1::2], strict=False)]
    line = write_range(group_of(ranges))
    named = re.findall(r'"([^"]+)" with page', ask(source, cursor=line)["hint"])
    assert named == [key for ends in ranges for key in ends]
    for key in named:
        assert ask(source, cursor=key, limit=1)["messages"].startswith("**assistant (2026-03-15")


@given(MESSAGE_IDS, THREAD_IDS)
def test_unknown_ids_are_named_whole(key: str, thread: str) -> None:
    source = source_of("t1", "m1")
    assert f'`cursor` is "{key}", and there is no such' in ask(source, cursor=key)["error"]
    assert f'`thread_id` is "{thread}", and' in ask(source, thread_id=thread)["error"]
    refused = ask(source, "resource", mode="threads", cursor=key)
    assert f'`cursor` is "{key}", but mode "threads"' in refused["error"]


@given(st.lists(MESSAGE_IDS, min_size=2, max_size=2, unique=True), THREAD_IDS)
def test_a_message_of_another_thread_is_named_with_its_thread(keys: list[str], other: str) -> None:
    source = Two(source_of("t1", keys[0]), source_of(other, keys[1]))
    hint = ask(source, "resource", cursor=keys[1], thread_id="t1")["hint"]
    assert f'`cursor` "{keys[1]}" is a message' in hint
    assert f'`thread_id` "{other}"' in hint
    # Where only this thread may be read, the same is a message that does not exist.
    assert "no such message" in ask(source, cursor=keys[1])["error"]


@given(MESSAGE_IDS)
def test_a_message_without_that_part_is_named_whole(key: str) -> None:
    source = StateSource("t1", [(key, HumanMessage("Hello"), NOON)])
    assert f'the message "{key}" has part 0' in ask(source, cursor=key, part_index=3)["error"]
    empty = StateSource("t1", [(key, AIMessage(""), NOON)])
    assert f'message "{key}" has nothing' in ask(empty, cursor=key, part_index=0)["error"]


@pytest.mark.parametrize(
    "written",
    [BASE64, f"data:image/png;base64,{BASE64 * 9}", f"{BASE64}\n{BASE64}", f"m1:{BASE64}"],
)
def test_bytes_in_place_of_an_id_stay_hidden(written: str) -> None:
    for name in ("cursor", "thread_id"):
        answer = ask(source_of("t1", "m1"), **{name: written})
        assert "characters omitted]" in json.dumps(answer)
        assert BASE64[:20] not in json.dumps(answer)


def test_an_id_that_reads_like_bytes_is_shown_where_it_exists() -> None:
    source = source_of("t1", BASE64, "m1")
    assert f'"{BASE64}" has part' in ask(source, cursor=BASE64, part_index=5)["error"]
    assert f'"{BASE64}" with page 1' in ask(source, cursor=f"{BASE64}:m1")["hint"]


@pytest.mark.parametrize(
    "character", ["x", "\\", '"', "🐘", "한", "𒀀", "<", "\t", "\x00", "\ud800"]
)
def test_odd_ids_keep_to_the_budget_and_to_one_line(character: str) -> None:
    key = f"{character * 400}\nend"
    for known in ([], [key]):
        for written in (key, f"{key}:{key}", ",".join([f"{key}:{key}"] * 5)):
            ask(source_of("t1", "m1", *known), cursor=written)
            ask(source_of("t1", "m1", *known), cursor=written, part_index=9)


# --- Pages, lists and hits -----------------------------------------------------------------------


@given(real_conversations(), st.sampled_from(["low", "high"]))
def test_pages_name_messages_by_ids_that_lead_back_to_them(messages: Any, detail: str) -> None:
    keyed = keyed_messages(messages)
    entries = [(key, m, message_time(m, key, {}, timezone=UTC)) for key, m in keyed]
    source = StateSource("t1", entries)
    visible = [key for key, message in keyed if is_visible(message)]
    seen: list[str] = []
    page = ask(source, detail=detail)
    while True:
        assert page["cursor"] == visible[0]
        seen += re.findall(r"^\*\*.*\*\* \[(.+)\]:$", page["messages"], re.MULTILINE)
        if not page["has_next_page"]:
            break
        if detail == "high":
            follows = visible[len(seen)]
            assert f"or cursor {follows}." in page["messages"]
        page = ask(source, detail=detail, page=page["page"] + 1)
    assert seen == visible
    for key in seen:
        assert ask(source, cursor=key, part_index=0)["message_id"] == key


@given(st.lists(MESSAGE_IDS, min_size=2, max_size=2, unique=True), THREAD_IDS)
def test_lists_and_hits_name_ids_whole(keys: list[str], other: str) -> None:
    source = Two(source_of("t1", keys[0]), source_of(other, keys[1]))
    assert f"[{other}]" in ask(source, "resource", mode="threads")["threads"]
    found = ask(source, "resource", mode="search", query="text")["results"]
    assert f"[{other}]" in found
    assert f"cursor {keys[1]}" in found
    assert ask(source, "resource", thread_id=other)["cursor"] == keys[1]
