from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from langgraph_om.core.content.blocks import (
    answers_other_view,
    holds_bound_reasoning,
    mark_other_view,
    without_bound_reasoning,
)

TEXT = {"type": "text", "text": "Yes."}
CALL = {"name": "f", "args": {}, "id": "c"}

BOUND: dict[str, Any] = {
    "Anthropic": {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    "Anthropic, not shown": {"type": "thinking", "thinking": "", "signature": "s"},
    "Anthropic, redacted": {"type": "redacted_thinking", "data": "x"},
    "LangChain v1": {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "s"}},
    "LangChain v1, redacted": {
        "type": "non_standard",
        "value": {"type": "redacted_thinking", "data": "x"},
    },
    "Bedrock": {
        "type": "reasoning_content",
        "reasoning_content": {"text": "Hm.", "signature": "s"},
    },
    "Bedrock, redacted": {
        "type": "reasoning_content",
        "reasoning_content": {"redacted_content": "x"},
    },
    "Bedrock, v1 and redacted": {"type": "reasoning", "extras": {"redacted_content": "x"}},
    "Bedrock, raw": {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
}
FREE: dict[str, Any] = {
    "a text": TEXT,
    "unsigned": {"type": "thinking", "thinking": "Hm."},
    "OpenAI": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    "LangChain v1 of OpenAI": {"type": "reasoning", "id": "rs_1", "reasoning": "Hm."},
    "a signed text": {"type": "text", "text": "Yes.", "extras": {"signature": "s"}},
    "Bedrock without a signature": {"type": "reasoning_content", "reasoning_content": {"text": ""}},
    "a text alone": "thinking",
}


@pytest.mark.parametrize("form", BOUND)
def test_reasoning_that_is_bound_is_left_out_and_all_else_stays(form: str) -> None:
    message = AIMessage([BOUND[form], TEXT, BOUND[form]], tool_calls=[CALL], id="a")
    assert holds_bound_reasoning(message)
    rest = without_bound_reasoning(message)
    assert rest == AIMessage([TEXT], tool_calls=[CALL], id="a")
    assert message.content == [BOUND[form], TEXT, BOUND[form]]
    assert rest is not None
    assert without_bound_reasoning(rest) is rest


@pytest.mark.parametrize("form", FREE)
def test_reasoning_that_is_not_bound_stays(form: str) -> None:
    message = AIMessage([FREE[form]])
    assert not holds_bound_reasoning(message)
    assert without_bound_reasoning(message) is message


@pytest.mark.parametrize("provider", ["google_genai", "google_vertexai", "openai"])
def test_signed_thoughts_of_other_providers_are_not_bound(provider: str) -> None:
    told = {"model_provider": provider, "model_name": "gemini-2.5-pro"}
    for block in BOUND.values():
        assert not holds_bound_reasoning(AIMessage([block], response_metadata=told))
    claude = {"model_provider": "google_vertexai", "model_name": "claude-opus-4-5"}
    assert holds_bound_reasoning(AIMessage([BOUND["Anthropic"]], response_metadata=claude))


def test_reasoning_beside_the_content_is_left_out_too() -> None:
    said = AIMessage("Yes.", additional_kwargs={"thinking": {"text": "Hm.", "signature": "s"}})
    assert without_bound_reasoning(said) == AIMessage("Yes.")
    free = AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm."})
    assert without_bound_reasoning(free) is free


def test_answer_of_reasoning_alone_leaves_nothing() -> None:
    assert without_bound_reasoning(AIMessage([BOUND["Anthropic"]])) is None
    call = AIMessage([BOUND["Anthropic"]], tool_calls=[CALL])
    assert without_bound_reasoning(call) == AIMessage([], tool_calls=[CALL])


def test_only_answers_hold_reasoning() -> None:
    asked = HumanMessage([BOUND["Anthropic"]])
    assert without_bound_reasoning(asked) is asked
    assert mark_other_view(asked) is asked
    assert holds_bound_reasoning(AIMessageChunk([BOUND["Anthropic"]]))


def test_answer_to_another_view_is_known_by_its_mark() -> None:
    answer = AIMessage("Yes.", id="a", response_metadata={"model_name": "m"})
    marked = mark_other_view(answer)
    assert (answers_other_view(answer), answers_other_view(marked)) == (False, True)
    assert marked.content == "Yes."
    assert marked.response_metadata["model_name"] == "m"
