"""Whether the Observer reads what a model thought before it answered."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel


def test_reasoning_is_not_observed() -> None:
    asked: list[str] = []

    def observe(messages: list[BaseMessage]) -> str:
        asked.append(messages[-1].text)
        return str(ExtractiveObserver().reply(messages))

    memory = ObservationalMemory(
        ScriptedChatModel(observer=observe),
        observation={"message_tokens": 100},
        buffering=InlineBuffering(),
    )
    record, said = None, list[BaseMessage]()
    for number in range(12):
        said.append(HumanMessage(f"Which of the {number} cats is the oldest one here?"))
        thought = {"type": "reasoning", "reasoning": f"Compare their {number} birthdays."}
        said.append(AIMessage([thought, {"type": "text", "text": f"Cat {number} is."}]))
        record = memory.step(record, said, thread_id="t").record
    assert len(asked) > 2
    assert all("Cat 0 is" in text or "cats" in text for text in asked)
    assert "birthdays" not in "".join(asked)
