"""The messages of a conversation that are of no usual class."""

from __future__ import annotations

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.message_keys import find_others

SAID = [HumanMessage("q"), AIMessage("a"), ToolMessage("r", tool_call_id="c")]


@pytest.mark.parametrize(
    ("messages", "others"),
    [
        ([], []),
        (SAID, []),
        ([SystemMessage("s"), *SAID], [0]),
        ([*SAID, AIMessageChunk("streamed"), *SAID, {"role": "user"}], [3, 7]),
    ],
)
def test_what_is_of_no_usual_class_is_found(messages: list[BaseMessage], others: list[int]) -> None:
    assert find_others(messages) == others
