"""The log of several threads is reflected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph_om.core.config.settings import Parts, Settings
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.effects import AskModel
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.wire import Group
from langgraph_om.features.shared_log import SharedLogs
from langgraph_om.features.shared_log.observing import ask_observer_of_threads
from langgraph_om.features.shared_log.threads import OtherThread
from support.driving import drive
from support.edits import edited
from support.flows import NOW, conversation, setup, texts
from support.groups import day_log, group


def shared(log: list[Group], **options: Any) -> tuple[Settings, Any, Any]:
    record, window = conversation()
    record = edited(record, {"log": log, "scope": "resource", "resource_id": "u"})
    return replace(setup(), parts=Parts(sharing=SharedLogs()), **options), record, window


def many_threads(count: int) -> list[Group]:
    return [
        group(f"g{at}", day_log(0, f"* item {at} and some more words"), thread=f"t{at}")
        for at in range(count)
    ]


def test_the_log_of_any_number_of_threads_can_be_brought_below_its_threshold() -> None:
    config, record, window = shared(many_threads(60), hides_ids=True)
    asked: list[AskModel] = []

    def answer(call: AskModel) -> str:
        asked.append(call)
        return "drop 1-57"

    events = drive(reflect_cycle(config, record, window, NOW), answer).events
    after = fold(record, [events])
    assert log_tokens(after) == 33 < config.thresholds.observation_tokens
    assert [entry["thread_id"] for entry in after["log"]] == [f"t{at}" for at in range(60)]
    assert after["log"][57:] == record["log"][57:]
    assert len(asked) == 1
    assert "t0" not in texts(asked[0])[1]
    assert plan(after, window, config.thresholds, NOW).kind != "reflect"
    change = after["outbox"][-1]
    assert change["kind"] == "replace"
    assert len(change["group_ids"]) == 57


def test_what_belongs_to_no_single_thread_is_not_shown_and_stays() -> None:
    log = [*many_threads(20), {**group("old", "* of several"), "thread_id": None}]
    config, record, window = shared(log)  # type: ignore[arg-type]
    run = drive(reflect_cycle(config, record, window, NOW), ["drop 1-18"])
    [asked] = [effect for effect in run.effects if isinstance(effect, AskModel)]
    assert "of several" not in texts(asked)[1]
    after = fold(record, [run.events])
    assert after["log"][-1] == log[-1]


def test_the_observer_of_several_threads_sees_the_log_as_a_reflection_ahead_has_left_it() -> None:
    config, record, window = shared(many_threads(2))
    first, second = record["log"]
    shorter = {**first, "id": "new", "text": "* 🔴 condensed", "tokens": 4}
    record["reflection"] = {
        "cycle_id": "c",
        "group_ids": [first["id"]],
        "groups": [shorter],
        "together": [[first["id"]]],
        "input_tokens": first["tokens"],
        "tokens": 4,
        "created_at": first["observed_at"],
    }
    info = CycleInfo(config, record, "others", "c1", 9, NOW)
    other = OtherThread("t0", None, NOW, (), window.entries[:1], [NOW], {})
    asked: list[AskModel] = []

    def answer(call: AskModel) -> str:
        asked.append(call)
        return "<observations>\n* 🔴 (09:00) Said something\n</observations>"

    drive(ask_observer_of_threads(info, [(other, 1)]), answer)
    shown = texts(asked[0])[1]
    assert "* 🔴 condensed" in shown
    assert first["text"] not in shown
    assert second["text"] in shown
