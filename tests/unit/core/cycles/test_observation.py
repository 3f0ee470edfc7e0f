"""Whole observations: their parts, what they leave in memory, and what follows a failure."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.cycles.observation import observe_cycle
from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.events import to_part
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from langgraph_om.errors import ObserverError
from support.flows import (
    GOOD,
    ITEM,
    NONE,
    NOW,
    Talk,
    conversation,
    kinds,
    later,
    reflectable,
    setup,
    texts,
)

# --- Whole cycles --------------------------------------------------------------------------------


def observed(talk: Talk, settings: Settings, count: int = 1) -> list[dict[str, Any]]:
    record, window = conversation()
    return talk.run_cycle(observe_cycle(settings, record, window, count, NOW))


def test_the_parts_of_an_observation() -> None:
    told = f"{GOOD}\n<current-task>Go</current-task>\n<suggested-response>Hi</suggested-response>"
    events = observed(Talk([later("", 0.5), later(told)]), setup())
    start, end = (to_part(event) for event in events)
    assert start == {
        "type": "data-om-observation-start",
        "data": {
            "cycleId": events[0]["cycle_id"],
            "operationType": "observation",
            "startedAt": "2026-03-02T09:00:00.000+00:00",
            "tokensToObserve": 50,
            "recordId": "r",
            "threadId": "t",
            "threadIds": ["t"],
            "config": {"messageTokens": 100, "observationTokens": 40, "scope": "thread"},
        },
    }
    assert end == {
        "type": "data-om-observation-end",
        "data": {
            "cycleId": events[0]["cycle_id"],
            "operationType": "observation",
            "completedAt": "2026-03-02T09:00:01.500+00:00",
            "durationMs": 1500,
            "tokensObserved": 50,
            "observationTokens": 7,
            "observations": ITEM,
            "currentTask": "Go",
            "suggestedResponse": "Hi",
            "recordId": "r",
            "threadId": "t",
            "usage": {"calls": 2, "inputTokens": 20, "outputTokens": 6},
        },
    }


def test_what_an_observation_leaves_in_memory() -> None:
    record, _ = conversation()
    events = observed(Talk([later(GOOD)]), setup())
    after = fold(record, [events])
    assert after["cursor"] == ["m0"]
    assert [(entry["text"], entry["ranges"]) for entry in after["log"]] == [(ITEM, [["m0", "m0"]])]
    assert after["log"][0]["id"] == events[0]["cycle_id"]
    assert after["usage"] == {"observation": {"calls": 1, "inputTokens": 10, "outputTokens": 3}}
    assert fold(after, [events]) == after


def test_nothing_worth_noting_moves_the_cursor_too() -> None:
    record, _ = conversation()
    after = fold(record, [observed(Talk([later(NONE)]), setup(), count=2)])
    assert after["cursor"] == ["m0", "m1"]
    assert [(entry["text"], entry["tokens"]) for entry in after["log"]] == [("", 0)]


def test_a_repeated_cycle_has_the_same_id_and_a_retry_another() -> None:
    settings = setup()
    record, window = conversation()
    one, two = (observed(Talk([later(GOOD)]), settings) for _ in range(2))
    assert one[0]["cycle_id"] == two[0]["cycle_id"]
    failed = fold(record, [observed(Talk([TimeoutError("x")]), settings)])
    retry = Talk([later(GOOD)]).run_cycle(observe_cycle(settings, failed, window, 1, NOW))
    assert retry[0]["cycle_id"] != one[0]["cycle_id"]


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("continue", ["observation-start", "observation-failed"]),
        ("abort", ["observation-start", "observation-failed", "tripped"]),
        ("raise", ["observation-start", "observation-failed"]),
    ],
)
@pytest.mark.parametrize("operation", ["observation", "reflection"])
def test_what_follows_a_failure(
    on_error: Literal["continue", "abort", "raise"], expected: list[str], operation: str
) -> None:
    record, window = conversation()
    settings = setup(on_error)
    if operation == "reflection":
        record = fold(record, [reflectable()])
        flow = reflect_cycle(settings, record, window, NOW)
    else:
        flow = observe_cycle(settings, record, window, 1, NOW)
    talk = Talk([TimeoutError("no answer")])
    if on_error == "raise":
        with pytest.raises(ObserverError, match="no answer"):
            talk.run_cycle(flow)
    else:
        talk.run_cycle(flow)
    assert kinds(talk.events) == expected
    failed = to_part(talk.events[1])
    assert failed is not None
    assert failed["type"] == "data-om-observation-failed"
    assert failed["data"]["operationType"] == operation
    assert "TimeoutError: no answer" in failed["data"]["error"]
    assert failed["data"]["usage"]["calls"] == 1
    after = fold(record, [talk.events])
    assert (after["log"], after["cursor"]) == (record["log"], record["cursor"])
    assert after["attempts"][operation]["failures"] == 1
    decision = plan(after, window, settings.thresholds, NOW).kind
    if on_error == "abort":
        assert decision == "abort"
    else:
        assert decision != {"observation": "observe", "reflection": "reflect"}[operation]
    if on_error == "abort":
        # The gate shows it, in this turn and in each that repeats it.
        assert to_part(talk.events[2]) is None
        assert after["tripwire"]["operation"] == operation


def test_the_usage_of_a_failed_cycle_counts_too() -> None:
    record, _ = conversation()
    events = observed(Talk([later(""), later("no")]), setup())
    assert kinds(events) == ["observation-start", "observation-failed"]
    assert fold(record, [events])["usage"]["observation"] == {
        "calls": 2,
        "inputTokens": 20,
        "outputTokens": 6,
    }


def test_the_observer_is_told_what_memory_holds() -> None:
    record, window = conversation()
    record = fold(record, [reflectable(), {"current_task": "Find a lead"}])
    talk = Talk([later(GOOD)])
    talk.run_cycle(
        observe_cycle(
            setup(instruction="In French.", previous_observer_tokens=2000), record, window, 1, NOW
        )
    )
    system, task = texts(talk.calls[0])
    assert "In French." in system
    assert "<previous-observations>\n* 🔴 one word" in task
    assert "<current-task>Find a lead</current-task>" in task
    assert task.count("word " * 40) >= 1
