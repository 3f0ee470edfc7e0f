"""Continuation hints: what the Actor is shown of them."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ScriptedChatModel


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_a_suggested_response_is_shown(buffer_tokens: float) -> None:
    answer = (
        "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User plans a garden\n</observations>\n"
        "<current-task>\nThe garden\n</current-task>\n"
        "<suggested-response>\nAsk for its size.\n</suggested-response>"
    )
    memory = ObservationalMemory(
        ScriptedChatModel(observer=lambda _: answer),
        observation={"message_tokens": 300, "buffer_tokens": buffer_tokens},
        buffering=InlineBuffering(),
    )
    messages: list[BaseMessage] = []
    record, shown = None, ""
    for turn in range(30):
        messages.append(HumanMessage(f"Turn {turn}. {'My garden is small. ' * 5}", id=f"u{turn}"))
        done = memory.step(record, messages, thread_id="t")
        record, shown = done.record, str(done.messages[0].content)
        if "The garden" in shown:
            break
        messages.append(AIMessage("Noted.", id=f"a{turn}"))
    assert "The garden" in shown
    assert "Ask for its size." in shown
