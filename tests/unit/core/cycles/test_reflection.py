"""Whole reflections: their parts, and what they leave in memory."""

from __future__ import annotations

from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.events import to_part
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from support.flows import (
    NOW,
    Talk,
    conversation,
    dense,
    kinds,
    later,
    reflectable,
    setup,
)

# --- Whole cycles --------------------------------------------------------------------------------


def test_the_parts_of_a_reflection_and_what_it_leaves() -> None:
    record, window = conversation()
    record = fold(record, [reflectable()])
    talk = Talk([later(dense(45), 1), later(dense(30), 2)])
    events = talk.run_cycle(reflect_cycle(setup(), record, window, NOW))
    assert kinds(events) == ["observation-start", "observation-end"]
    start, end = (to_part(event) for event in events)
    assert start is not None
    assert start["data"]["operationType"] == "reflection"
    assert start["data"]["tokensToObserve"] == 50
    assert end is not None
    assert end["data"]["tokensObserved"] == 50
    assert end["data"]["observationTokens"] == 30
    assert end["data"]["durationMs"] == 2000
    assert end["data"]["usage"] == {"calls": 2, "inputTokens": 20, "outputTokens": 6}
    after = fold(record, [events])
    assert [(entry["kind"], entry["ranges"], entry["tokens"]) for entry in after["log"]] == [
        ("reflection", [["z0", "z0"], ["z1", "z1"]], 30)
    ]
    assert after["generation"] == 1
    assert after["attempts"] == {}
    assert fold(after, [events]) == after


def test_a_reflection_that_leaves_the_log_too_large_rests_until_it_has_grown() -> None:
    record, window = conversation()
    record = fold(record, [reflectable()])
    talk = Talk([later(dense(48))] * 5)
    after = fold(record, [talk.run_cycle(reflect_cycle(setup(), record, window, NOW))])
    assert after["generation"] == 1
    expected = {"failures": 0, "still_large": 1, "at_tokens": 48, "retry_at_tokens": 52}
    assert after["attempts"]["reflection"] == expected
    assert plan(after, window, setup().thresholds, NOW).kind != "reflect"
