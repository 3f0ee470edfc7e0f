"""Check that what is stored and streamed has the form that its types say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_type_hints

from langchain_core.messages import BaseMessage
from pydantic import TypeAdapter

from langgraph_om import ObservationalMemory
from langgraph_om.core.additions import added_reducers, added_types
from langgraph_om.core.record.fold import fold
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.memory import runner_of
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.runner import RunScope
from langgraph_om.runtime.turn import Outcome, turn

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
RECORD: TypeAdapter[Any] = TypeAdapter(MemoryRecord)
NO_FORMS: Mapping[tuple[str, str | None], Any] = {}


def check(adapter: TypeAdapter[Any], value: Any) -> None:
    """Nothing is missing, of another type, or there without being declared."""
    assert adapter.validate_python(value, strict=True) == value


def check_record(record: MemoryRecord) -> None:
    """Check the keys of the core and those that features add."""
    added = added_types()
    check(RECORD, {key: value for key, value in record.items() if key not in added})
    for key in record.keys() & added.keys():
        check(TypeAdapter(added[key]), cast("dict[str, Any]", record)[key])


def check_all(
    events: list[Any], record: MemoryRecord, forms: Mapping[tuple[str, str | None], Any] = NO_FORMS
) -> set[tuple[str, str | None]]:
    """Check events, and the record after each; return which events there were.

    Args:
        events: The events.
        record: The memory before them.
        forms: By type and operation, the form of events of features.
    """
    for event in events:
        form = forms.get((event["type"], event.get("operation")))
        reducer = added_reducers.get(event["type"])
        is_of_core = event["type"] not in added_reducers
        if form is not None:
            check(TypeAdapter(form), event)
        elif is_of_core:
            check(EVENT, event)
        elif reducer is not None:
            check(TypeAdapter(get_type_hints(reducer)["event"]), event)
        record = fold(record, [event])
        check_record(record)
    return {(event["type"], event.get("operation")) for event in events}


def take_turn(
    memory: ObservationalMemory, record: Any, messages: list[BaseMessage], thread: str
) -> Outcome:
    runner = runner_of(memory)
    who = runner.identity({"configurable": {"thread_id": thread, "resource_id": "ada"}})
    return drive(turn(runner, record, messages, who, RunScope(runner)), runner.context()).result
