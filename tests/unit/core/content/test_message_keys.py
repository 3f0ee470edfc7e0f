"""Digests of messages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.message_keys import content_digest
from support.counters import (
    FUNCTION_CALL,
    ai,
    any_text,
    call,
)
from support.examples import examples

# --- Digests -----------------------------------------------------------------------------------


DISTINCT: list[BaseMessage] = [
    HumanMessage("hello"),
    HumanMessage("hello "),
    HumanMessage(""),
    HumanMessage([]),
    HumanMessage(["hello"]),
    HumanMessage([{"type": "text", "text": "hello"}]),
    HumanMessage('["hello"]'),
    HumanMessage("\ud800"),
    HumanMessage("\udc00"),
    AIMessage("hello"),
    SystemMessage("hello"),
    ChatMessage(content="hello", role="critic"),
    ChatMessage(content="hello", role="author"),
    ai("hello", calls=(call(),)),
    AIMessage("hello", tool_calls=[call()]),
    AIMessage("hello", tool_calls=[call(name="find")]),
    AIMessage("hello", tool_calls=[call(args={"q": "dogs"})]),
    AIMessage("hello", tool_calls=[call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(), call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(call_id="c2"), call()]),
    AIMessage("hello", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": ""}]),
    AIMessage("hello", additional_kwargs={"function_call": FUNCTION_CALL}),
    AIMessage("hello", additional_kwargs={"reasoning_content": "hm"}),
    ToolMessage("hello", tool_call_id="c1"),
    ToolMessage("hello", tool_call_id="c2"),
    ToolMessage("hello", tool_call_id="c1", status="error"),
]


def test_messages_that_read_differently_have_other_digests() -> None:
    digests = [content_digest(message) for message in DISTINCT]
    assert len(set(digests)) == len(DISTINCT)
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


@pytest.mark.parametrize("message", DISTINCT, ids=range(len(DISTINCT)))
def test_id_and_metadata_do_not_change_a_digest(message: BaseMessage) -> None:
    extras = {**message.additional_kwargs, "created_at": "2026-01-01"}
    update = {"id": "other", "response_metadata": {"model": "m"}, "additional_kwargs": extras}
    assert content_digest(message.model_copy(update=update)) == content_digest(message)


def test_usage_and_streaming_do_not_change_a_digest() -> None:
    whole = AIMessage(
        "hello", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    )
    assert content_digest(whole) == content_digest(AIMessageChunk(content="hello"))


def test_digests_do_not_change_between_releases() -> None:
    assert content_digest(HumanMessage("hello")) == "281687396d55dbc3"
    assert content_digest(AIMessage("hello", tool_calls=[call()])) == "3df89b2556bd9c86"


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, (list, tuple)) else value


jsonable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@examples(80)
@given(any_text | st.lists(st.dictionaries(st.text(max_size=5), jsonable, max_size=4), max_size=3))
def test_a_digest_outlives_a_json_round_trip(content: Any) -> None:
    digest = content_digest(HumanMessage(content))
    assert content_digest(HumanMessage(json.loads(json.dumps(content)))) == digest
    assert content_digest(HumanMessage(shuffled(content))) == digest


@examples(100)
@given(any_text, any_text)
def test_texts_share_a_digest_only_when_they_are_equal(one: str, other: str) -> None:
    # Equal as JSON reads them: two halves of a surrogate pair are one character.
    equal = json.loads(json.dumps(one)) == json.loads(json.dumps(other))
    assert (content_digest(HumanMessage(one)) == content_digest(HumanMessage(other))) is equal
