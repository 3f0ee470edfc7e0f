"""What is read of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_om.models.ask import read_reply
from support.observing import NOW

# --- Answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        ([], ""),
        (["a", "b"], "ab"),
        ([{"type": "text", "text": "a"}, "b", {"type": "output_text", "text": "c"}], "abc"),
        ([{"type": "reasoning", "reasoning": "hm"}], ""),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "refusal", "refusal": "no"}], ""),
        ([{"type": "text"}, {"type": "text", "text": None}, None, 5], ""),
    ],
)
def test_the_text_of_an_answer(content: Any, text: str) -> None:
    answer = AIMessage.model_construct(content=content, type="ai", response_metadata={})
    answer.usage_metadata = None
    reply = read_reply(answer, NOW)
    assert (reply.text, reply.error, reply.cut_off) == (text, None, False)


@pytest.mark.parametrize("answer", [None, 5, {"messages": []}, [AIMessage("a")]])
def test_what_is_no_answer_is_an_error(answer: Any) -> None:
    reply = read_reply(answer, NOW)
    assert f"the model returned {type(answer).__name__}; return a message" in str(reply.error)
