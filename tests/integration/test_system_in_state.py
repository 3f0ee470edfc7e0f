"""System messages that nodes add to the state in each turn do not fill the prompt."""

from __future__ import annotations

import pytest
from langchain_core.messages import BaseMessage, ChatMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from support.agents import make_agent, on_thread


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_first_and_the_newest_system_messages_are_shown(
    role: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent, config = make_agent("agent", InMemorySaver(), messages=300), on_thread()
    for turn in range(12):
        text = f"Depot {turn}. " + "It opens at nine and closes at five. " * 10
        page: BaseMessage = ChatMessage(role=role, content=text)
        if role == "system":
            page = SystemMessage(text)
        again = SystemMessage("Answer in French.")
        agent.graph.invoke({"messages": [page, again, HumanMessage(f"Go on {turn}.")]}, config)
    sent = [call["messages"] for call in agent.model.calls if call["role"] == "actor"][-1]
    prompt = "\n".join(message.text for message in sent)
    shown = [turn for turn in range(12) if f"Depot {turn}." in prompt]
    assert shown[0] == 0
    assert shown[-1] == 11
    assert len(shown) <= 5
    assert prompt.count("Answer in French.") == 1
    warned = [each for each in caplog.messages if "system messages" in each]
    assert len(warned) == 1
    assert "pass it to the call of the model" in warned[0]
