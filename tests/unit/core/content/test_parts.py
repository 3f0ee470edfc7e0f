"""The parts of a message, in every form that providers write."""

from __future__ import annotations

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.parts import is_visible, part_text, parts_of
from langgraph_om.core.prompts import load
from support.recall_talk import (
    PNG,
)

# --- Detail --------------------------------------------------------------------------------------


def parts(message: BaseMessage) -> list[tuple[str, str]]:
    return [(part.kind, part_text(part)) for part in parts_of(message)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HumanMessage(" \n"), []),
        (AIMessage([]), []),
        (AIMessage([{"type": "redacted_thinking", "data": "x"}]), []),
        (SystemMessage("x"), []),
        (ChatMessage(content="x", role="developer"), []),
        (HumanMessage(load("continuation"), id="om-continuation"), []),
        (HumanMessage(load("trimmed"), id="om-continuation"), []),
        (HumanMessage("x", id="om-continuation"), [("text", "x")]),
        (ChatMessage(content="x", role="guest"), [("text", "x")]),
        (ToolMessage("", tool_call_id="c"), [("tool-result", "(empty result)")]),
        (FunctionMessage(content="4", name="f"), [("tool-result", "4")]),
        (
            ToolMessage(
                [{"type": "text", "text": "a"}, {"type": "image", "base64": "AA"}], tool_call_id="c"
            ),
            [("tool-result", "a\n[Image #1]")],
        ),
        # A model sends one sentence in several blocks; a user's blocks are several texts.
        (AIMessage(["a", {"type": "text", "text": "b"}]), [("text", "ab")]),
        (HumanMessage(["a", {"type": "text", "text": "b"}]), [("text", "a"), ("text", "b")]),
        (
            AIMessage("a", additional_kwargs={"reasoning_content": "why"}),
            [("reasoning", "why"), ("text", "a")],
        ),
        (
            AIMessage(
                [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
                tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}],
            ),
            [("tool-call", '{"a":1}')],
        ),
        (
            AIMessage(
                "", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "bad"}]
            ),
            [("tool-call", "{\n[invalid: bad]")],
        ),
        (
            HumanMessage([{"type": "text-plain", "text": "a,b", "filename": "t.csv"}]),
            [("file", "a,b")],
        ),
        (HumanMessage([{"type": "odd", "x": PNG}]), [("other", '[odd] {"x":"[omitted]"}')]),
    ],
)
def test_parts_of_a_message(message: BaseMessage, expected: list[tuple[str, str]]) -> None:
    assert parts(message) == expected
    assert is_visible(message) is bool(expected)
