"""The log of several threads is reflected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph_om.core.config.settings import Features, Settings
from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.effects import AskModel
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.wire import Group
from langgraph_om.features.shared_log import SharedLogs
from langgraph_om.testing import drive
from support.flows import NOW, conversation, setup, texts
from support.groups import day_log, group


def shared(log: list[Group], **options: Any) -> tuple[Settings, Any, Any]:
    record, window = conversation()
    record = fold(record, [{"log": log, "scope": "resource", "resource_id": "u"}])
    return replace(setup(), features=Features((SharedLogs(),)), **options), record, window


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
