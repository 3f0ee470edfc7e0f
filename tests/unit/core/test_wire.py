"""What is stored and streamed has the form that `core/wire.py` says it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from langgraph_om.core.effects import AskModel
from langgraph_om.core.record.fold import _REDUCERS, _STREAMED
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import Event
from support.simulation import Simulation, answer_well, settings
from support.wire import RECORD, check, check_all


def kinds(hints: Iterable[Any]) -> set[str]:
    """The values that some types of `type` allow."""
    assert all(get_origin(hint) is Literal for hint in hints)
    return {kind for hint in hints for kind in get_args(hint)}


def test_each_kind_of_event_has_a_type() -> None:
    types = [get_type_hints(event)["type"] for event in get_args(Event)]
    assert kinds(types) == {*_REDUCERS, *_STREAMED}


def test_a_blank_record_has_its_form() -> None:
    check(RECORD, blank_record())


@pytest.mark.parametrize("latency", [1, 12])
def test_conversation_with_jobs(latency: int) -> None:
    asked = Counter[str]()

    def answers(call: AskModel) -> str | Exception:
        asked[call.role] += 1
        if asked[call.role] % 5 == 0:
            return TimeoutError("late")
        task = "\n<current-task>Go on.</current-task>"
        return f"{answer_well(call)}{task if call.role == 'observer' else ''}"

    simulation = Simulation(settings(500, 60), answers=answers, latency=latency)
    seen: set[tuple[str, str | None]] = set()
    for at in range(60):
        before = simulation.record
        simulation.say(30, tools=at % 2)
        if at % 11 == 10:
            simulation.restart()
        seen |= check_all(simulation.events, before)
        simulation.events.clear()
    jobs = ("buffering-start", "buffering-end", "buffering-failed", "activation")
    named = {(kind, operation) for kind in jobs for operation in ("observation", "reflection")}
    assert latency > 1 or named <= seen
