"""Check that what is stored and streamed has the form that its types say."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import TypeAdapter

from langgraph_om import ObservationalMemory
from support.inside import (
    Event,
    MemoryRecord,
    Outcome,
    RunScope,
    drive,
    fold,
    runner_of,
    turn,
)

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
RECORD: TypeAdapter[Any] = TypeAdapter(MemoryRecord)


def check(adapter: TypeAdapter[Any], value: Any) -> None:
    """Nothing is missing, of another type, or there without being declared."""
    assert adapter.validate_python(value, strict=True) == value


def check_all(events: list[Any], record: MemoryRecord) -> set[tuple[str, str | None]]:
    """Check events, and the record after each; return which events there were.

    Args:
        events: The events.
        record: The memory before them.
    """
    for event in events:
        check(EVENT, event)
        record = fold(record, [event])
        check(RECORD, record)
    return {(event["type"], event.get("operation")) for event in events}


def take_turn(
    memory: ObservationalMemory, record: Any, messages: list[BaseMessage], thread: str
) -> Outcome:
    runner = runner_of(memory)
    who = runner.identity({"configurable": {"thread_id": thread, "resource_id": "ada"}})
    return drive(turn(runner, record, messages, who, RunScope(runner)), runner.context()).result
