"""Whole reflections: their parts, and what they leave in memory."""

from __future__ import annotations

from typing import Any

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


# --- By edits ------------------------------------------------------------------------------------


def edited_log() -> tuple[Any, Any]:
    record, window = conversation()
    return fold(record, [reflectable()]), window


def reflected(record: Any, window: Any, *answers: str, **options: Any) -> list[dict[str, Any]]:
    talk = Talk([later(answer, at + 1) for at, answer in enumerate(answers)])
    events = talk.run_cycle(reflect_cycle(setup(**options), record, window, NOW))
    assert len(talk.calls) == len(answers)
    return events


def test_the_parts_of_a_reflection_by_edits_and_what_it_leaves() -> None:
    record, window = edited_log()
    events = reflected(record, window, "1: * 🔴 one word")
    end = to_part(events[-1])
    assert end is not None
    assert end["data"]["observationTokens"] == 29
    assert end["data"]["usage"]["calls"] == 1
    counts = {name: end["data"][name] for name in ("edits", "dropped", "joined", "shortened")}
    assert counts == {"edits": 1, "dropped": 0, "joined": 0, "shortened": 1}
    assert end["data"]["observations"] == "* 🔴 one word\n\n" + record["log"][1]["text"]
    after = fold(record, [events])
    assert after["log"][1] is record["log"][1]
    assert events[-1]["group_ids"] == ["g0"]
    first = after["log"][0]
    assert (first["kind"], first["ranges"]) == ("reflection", [["z0", "z0"]])
    assert first["text"] == "* 🔴 one word"
    assert after["generation"] == 1
    assert after["attempts"] == {}
    assert fold(after, [events]) == after


def test_a_rewritten_log_has_no_counts_of_edits() -> None:
    record, window = edited_log()
    events = reflected(record, window, dense(30), form="rewrite")
    part = to_part(events[-1])
    assert part is not None
    assert "edits" not in part["data"]
    assert fold(record, [events])["log"][0]["tokens"] == 30


def test_without_a_valid_edit_the_log_is_rewritten_by_one_question() -> None:
    record, window = edited_log()
    after = fold(record, [reflected(record, window, "I can not do that", dense(30))])
    assert [entry["tokens"] for entry in after["log"]] == [30]
    failed = reflected(record, window, "no", "no either")
    assert failed[-1]["type"] == "observation-failed"
    assert "in 1 attempt" in failed[-1]["error"]


def test_edits_that_gain_nothing_are_a_failure() -> None:
    record, window = edited_log()
    text = record["log"][0]["text"]
    swapped = text.replace("one word", "word one")
    events = reflected(record, window, f"1: {swapped}", f"1: {text}", f"1: {swapped}")
    assert events[-1]["type"] == "observation-failed"
    assert "no smaller" in events[-1]["error"]


def test_groups_whose_items_are_gone_keep_their_ranges_in_one_group() -> None:
    record, window = edited_log()
    record = fold(
        record,
        [{"log": [*record["log"], {**record["log"][1], "id": "g2", "ranges": [["z2", "z3"]]}]}],
    )
    after = fold(record, [reflected(record, window, "drop 1-2")])
    assert [(entry["text"] != "", entry["ranges"]) for entry in after["log"]] == [
        (False, [["z0", "z0"], ["z1", "z1"]]),
        (True, [["z2", "z3"]]),
    ]
