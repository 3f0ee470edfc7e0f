"""What the code of `docs/memory-family.md` comes to, and where its table leads."""

from __future__ import annotations

import re
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

PAGE = DOCS / "memory-family.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_blocks_run_in_order() -> None:
    scope = run_page(PAGE, model=ScriptedChatModel(actor="ok"), small_model=ScriptedChatModel())
    # The working memory stands in the last view, before the newest message.
    view = scope["model"].calls[-1]["messages"]
    assert "<working-memory>" in view[-2].text


def test_the_table_leads_to_a_snippet_for_each_row() -> None:
    links = re.findall(r"^\|.*\]\(#([\w-]+)\) \|", TEXT, re.MULTILINE)
    rest = {
        heading.lower().replace(",", "").replace(" ", "-"): text.split("\n#")[0]
        for heading, text in re.findall(
            r"^### (.+?)\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL
        )
    }
    assert len(links) == 8
    assert all("```python" in rest[link] for link in links)


def test_the_last_messages_are_shown_with_the_working_memory() -> None:
    scope = run_page(PAGE, model=ScriptedChatModel(actor="ok"), small_model=ScriptedChatModel())
    views = [call["messages"] for call in scope["model"].calls]
    [view] = [view for view in views if view[-1].text == "message 11"]
    assert len(view) <= 11  # ten, and the block
    assert "message 3" not in [message.text for message in view]
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
