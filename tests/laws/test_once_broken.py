"""What broke a law once, each as small as it gets."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from clock import Clock
from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from words import Words


def test_messages_between_removed_ends_of_a_range_stay_observed() -> None:
    memory = ObservationalMemory(
        ScriptedChatModel(observer="<observations>(none)</observations>"),
        observation={"message_tokens": 200, "buffer_tokens": False},
        token_counter=Words(),
        clock=Clock(),
    )
    said: list[BaseMessage] = []
    record = None
    for number in range(0, 90, 2):
        said.append(HumanMessage("word " * 4, id=f"m{number}"))
        record = memory.step(record, said, thread_id="t").record
        said.append(AIMessage("word " * 4, id=f"m{number + 1}"))
    assert record is not None
    [[first, last]] = record["log"][-1]["ranges"]
    removed = {first, *record["cursor"]}
    assert last in removed
    observed = {f"m{number}" for number in range(int(last[1:]) + 1)}
    left = [message for message in said if message.id not in removed]
    shown = {message.id for message in memory.step(record, left, thread_id="t").messages}
    assert shown & observed == set()
