from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from support.counters import (
    COUNTER,
    FUNCTION_CALL,
    OWN,
    ai,
    any_text,
    call,
    json_values,
    tool_calls,
)
from support.examples import examples
from support.inside import EMPTY_RESULT, FILE_FALLBACK_TOKENS, REDACTED_REASONING

FRAME = 5
"""Of a message with any role."""
BASE64 = "iVBORw0KGgo" * 20_000
IMAGE = 85 + 4 * 170  # of unknown size


# --- Messages ----------------------------------------------------------------------------------


TOOL_USE = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "cats"}}
RAW_CALL = {"type": "function_call", "id": "fc", "call_id": "c1", **FUNCTION_CALL}
CALL = 1 + 5  # `search` and `{"q":"cats"}`
EMPTY = COUNTER.count_text(EMPTY_RESULT)
REDACTED = COUNTER.count_text(REDACTED_REASONING)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (HumanMessage("hello world"), 7),
        (HumanMessage(["hello", " world"]), 7),
        (HumanMessage([{"type": "text", "text": "hello world"}]), 7),
        (HumanMessage(""), FRAME),
        (SystemMessage("hello world"), FRAME + 2),
        (ai({"type": "refusal", "refusal": "hello world"}), FRAME + 2),
        # Reasoning
        (ai({"type": "reasoning", "reasoning": "hello world"}), FRAME + 2),
        (ai({"type": "thinking", "thinking": "hello world", "signature": BASE64}), FRAME + 2),
        (ai({"type": "redacted_thinking", "data": BASE64}), FRAME + REDACTED),
        (
            ai({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hello"}]}),
            FRAME + 1,
        ),
        (ai({"type": "reasoning_content", "reasoning_content": {"text": "hello"}}), FRAME + 1),
        (AIMessage("", additional_kwargs={"reasoning_content": "hello world"}), FRAME + 2),
        (
            ai(
                {"type": "reasoning", "reasoning": "hello"},
                additional_kwargs={"reasoning_content": "hello"},
            ),
            FRAME + 1,
        ),
        # Tool calls
        (ai(calls=(call(),)), FRAME + CALL),
        (ai(calls=(call(), call(call_id="c2"))), FRAME + 2 * CALL),
        (ai(TOOL_USE, calls=(call(),)), FRAME + CALL),
        (ai(RAW_CALL, calls=(call(),)), FRAME + CALL),
        (ai({"type": "server_tool_call", **call(call_id="s1")}), FRAME + CALL),
        (
            AIMessage(
                "",
                invalid_tool_calls=[
                    {"name": "search", "args": '{"q":"cats"}', "id": "c1", "error": "bad"}
                ],
            ),
            FRAME + CALL + 5,
        ),
        (AIMessage("", additional_kwargs={"function_call": FUNCTION_CALL}), FRAME + CALL),
        (ai(calls=(call(),), additional_kwargs={"function_call": FUNCTION_CALL}), FRAME + CALL),
        # Tool results
        (ToolMessage("hello big wide world", tool_call_id="c1"), FRAME + 4),
        (ToolMessage("", tool_call_id="c1"), FRAME + EMPTY),
        (FunctionMessage(content="hello big wide world", name="search"), FRAME + 4),
        (
            ToolMessage(["hello big wide world", {"type": "image", "url": "u"}], tool_call_id="c"),
            FRAME + 4 + IMAGE,
        ),
        # A result inside a message is one more message.
        (HumanMessage([{"type": "tool_result", "content": "a bb ccc dddd"}]), 13),
        # Attachments; more of them: test_blocks and test_images
        *(
            (HumanMessage([{"type": kind}]), 5 + FILE_FALLBACK_TOKENS)
            for kind in ("audio", "file", "video", "document", "media", "text-plain")
        ),
        *(
            (HumanMessage([{"type": kind, "base64": "QUJD" * 20_000}]), 5 + 15_000)
            for kind in ("file", "document", "media", "text-plain")
        ),
        # What is not known: JSON, and never its binary data
        (
            HumanMessage([{"type": "odd", "n": 1}]),
            FRAME + COUNTER.count_text('{"type":"odd","n":1}'),
        ),
        (
            ai({"type": "image_generation_call", "result": BASE64}),
            FRAME
            + COUNTER.count_text('{"type":"image_generation_call","result":"[omitted]"}')
            + FILE_FALLBACK_TOKENS,
        ),
        (
            ai({"type": "odd", "encrypted_content": BASE64}),
            FRAME + COUNTER.count_text('{"type":"odd","encrypted_content":"[omitted]"}'),
        ),
    ],
)
def test_what_a_message_counts(message: BaseMessage, tokens: int) -> None:
    assert COUNTER.count_message(message) == tokens


BLOCK_TYPES = [
    "text", "reasoning", "thinking", "redacted_thinking", "tool_use", "tool_call",
    "function_call", "server_tool_call", "tool_result", "server_tool_result", "image",
    "image_url", "file", "document", "media", "text-plain", "non_standard", "odd",
]  # fmt: skip

BLOCK_KEYS = [
    "text", "thinking", "summary", "id", "call_id", "name", "args", "input", "arguments",
    "content", "output", "source", "mime_type", "value", "data", "url",
]  # fmt: skip

blocks = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(BLOCK_TYPES),
    st.dictionaries(st.sampled_from(BLOCK_KEYS), json_values, max_size=4),
)

contents = st.lists(blocks | any_text, max_size=4)


@examples(80)
@given(contents, tool_calls)
def test_generated_content_never_raises_and_is_never_negative(
    content: list[Any], calls: list[Any]
) -> None:
    assert COUNTER.count_message(AIMessage(content=content, tool_calls=calls)) >= FRAME
    assert COUNTER.count_message(ToolMessage(content=content, tool_call_id="c1")) >= 9
    assert OWN.count_message(HumanMessage(content=content)) >= 5
