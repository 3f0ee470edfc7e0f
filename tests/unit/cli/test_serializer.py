"""The serializer of the command: messages and plain values, and the data of everything else."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from langgraph_om.errors import SourceError
from langgraph_om.tools.sources import StrictSerializer

CALL = {"name": "find", "args": {"x": 1}, "id": "c", "type": "tool_call"}
MESSAGES = [
    HumanMessage([{"type": "text", "text": "hi"}], id="1"),
    AIMessage("", id="2", tool_calls=[CALL]),
    ToolMessage("found", tool_call_id="c", id="3"),
    RemoveMessage("1"),
]


class Own(BaseModel):
    """A type of somebody's state."""

    name: str


@pytest.mark.parametrize(
    "value",
    [
        {"om": {"log": [{"id": "a", "tokens": 1}], "title": None}, "messages": MESSAGES},
        [datetime(2026, 3, 2, tzinfo=UTC), UUID(int=7), Decimal("1.5"), Path("a"), {1, 2}],
        None,
        b"x",
        bytearray(b"x"),
    ],
)
def test_messages_and_plain_values_are_read_as_they_were(value: Any) -> None:
    assert StrictSerializer().loads_typed(JsonPlusSerializer().dumps_typed(value)) == value


def test_another_type_is_the_data_that_it_is_of() -> None:
    stored = JsonPlusSerializer().dumps_typed({"own": Own(name="a"), "messages": MESSAGES})
    assert StrictSerializer().loads_typed(stored) == {"own": {"name": "a"}, "messages": MESSAGES}


@pytest.mark.parametrize("form", ["pickle", "json", "msgpack+aes", "own"])
def test_what_only_the_agent_reads_is_refused(form: str) -> None:
    with pytest.raises(SourceError, match="with your agent's own checkpointer"):
        StrictSerializer().loads_typed((form, b"x"))
