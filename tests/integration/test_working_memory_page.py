"""What the code of `docs/working-memory.md` comes to."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    filter_messages,
)

from langgraph_om import ObservationalMemory, WorkingMemory
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel, check_message_sequence
from support.pages import DOCS, run_page

PAGE = DOCS / "working-memory.md"


def test_blocks_run_in_order() -> None:
    scope = run_page(PAGE, model=ScriptedChatModel(actor="ok"), small_model=ScriptedChatModel())
    # The working memory stands in the last view, before the newest message.
    view = [call for call in scope["model"].calls if call["role"] == "actor"][-1]["messages"]
    assert "<working-memory>" in view[-2].text


def test_calls_that_are_filtered_out_leave_memory_as_it_is() -> None:
    """In either order: what is observed is observed, and what is known stands where it stood."""
    model = ScriptedChatModel(observer=ExtractiveObserver().reply)
    working = WorkingMemory("- Name:", scope="thread")
    limits = {"message_tokens": 60, "buffer_tokens": False}
    memory = ObservationalMemory(model, working_memory=working, observation=limits)
    talk: list[BaseMessage] = []
    record: Any = None
    for number in range(6):
        call = {"name": "search", "args": {}, "id": f"s{number}"}
        talk += [
            HumanMessage(f"question {number} about the river and the boat", id=f"h{number}"),
            AIMessage("", id=f"c{number}", tool_calls=[call]),
            ToolMessage("result " * 5, tool_call_id=f"s{number}", id=f"t{number}"),
        ]
        record = memory.step(record, talk, working_memory="- Name: Ana").record
    assert record["log"]
    state = {"messages": talk, "om": record, "om_working": "- Name: Ana"}
    calls = [f"s{number}" for number in range(6)]
    after = filter_messages(memory.llm_input_messages(state), exclude_tool_calls=calls)
    kept = filter_messages(talk, exclude_tool_calls=calls)
    before = memory.llm_input_messages({**state, "messages": kept})
    assert [message.text for message in before] == [message.text for message in after]
    assert not any(message.type == "tool" for message in after)
    assert "question 0" in after[0].text
    assert "- Name: Ana" in after[-2].text
    assert after[-1].text == talk[-3].text
    assert check_message_sequence(after, "anthropic") == []
