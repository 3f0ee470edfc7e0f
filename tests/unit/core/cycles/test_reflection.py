"""Whole reflections: their parts, what they leave in memory, and edits ahead of need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.effects import AskModel, CallHook
from langgraph_om.core.events import to_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.wire import Group
from support.driving import drive
from support.edits import edited
from support.flows import NOW, Talk, conversation, dense, later, reflectable, setup, texts
from support.groups import day_log, group
from support.simulation import GOOD, Simulation, drop_all_but_the_last, settings

# --- Whole cycles --------------------------------------------------------------------------------


def edited_log() -> tuple[Any, Any]:
    record, window = conversation()
    return edited(record, reflectable()), window


def reflected(record: Any, window: Any, *answers: str, **options: Any) -> list[dict[str, Any]]:
    talk = Talk([later(answer, at + 1) for at, answer in enumerate(answers)])
    events = talk.run_cycle(reflect_cycle(setup(**options), record, window, NOW))
    assert len(talk.calls) == len(answers)
    return events


def test_the_parts_of_a_reflection_and_what_it_leaves() -> None:
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


def test_without_a_valid_edit_the_reflection_fails_and_the_log_stays() -> None:
    record, window = edited_log()
    failed = reflected(record, window, "I can not do that", dense(30))
    assert failed[-1]["type"] == "observation-failed"
    after = fold(record, [failed])
    assert after["log"] == record["log"]
    assert after["attempts"]["reflection"]["failures"] == 1


def test_groups_whose_items_are_gone_keep_their_ranges_in_one_group() -> None:
    record, window = edited_log()
    record = edited(
        record,
        {"log": [*record["log"], {**record["log"][1], "id": "g2", "ranges": [["z2", "z3"]]}]},
    )
    after = fold(record, [reflected(record, window, "drop 1-2")])
    assert [(entry["text"] != "", entry["ranges"]) for entry in after["log"]] == [
        (False, [["z0", "z0"], ["z1", "z1"]]),
        (True, [["z2", "z3"]]),
    ]


def note_or_drop(call: AskModel) -> str:
    """What an Observer notes, or edits that drop every item but the newest."""
    if call.role == "observer":
        return GOOD.replace(
            "something", f"something that fills its line, {len(texts(call)[1])} in all"
        )
    return drop_all_but_the_last(call)


def activations(simulation: Simulation) -> list[dict[str, Any]]:
    return [
        event
        for event in simulation.events
        if event["type"] == "activation" and event["operation"] == "reflection"
    ]


def talk_until_buffered() -> Simulation:
    simulation = Simulation(
        settings(message_tokens=600, observation_tokens=150), note_or_drop, latency=2
    )
    for _ in range(400):
        simulation.say(30)
        if simulation.record["reflection"] is not None and not activations(simulation):
            return simulation
    pytest.fail("no reflection was buffered")


def test_edits_made_ahead_replace_what_they_read_and_leave_newer_groups_alone() -> None:
    simulation = talk_until_buffered()
    before = simulation.record["log"]
    while not activations(simulation):
        before = simulation.record["log"]
        simulation.say(30)
    after = simulation.record["log"]
    [event] = activations(simulation)
    assert event["observation_tokens"] == log_tokens(simulation.record) < 150
    untouched = [entry for entry in before if entry["id"] not in event["group_ids"]]
    assert untouched
    assert all(entry in after for entry in untouched)
    assert set(simulation.coverage()) == {1}
    emptied = [entry for entry in after if not entry["text"]]
    assert len(emptied) == 1
    assert len(emptied[0]["ranges"]) > 1
    assert simulation.blocking_calls == 0


def test_a_long_conversation_is_edited_again_and_again_without_growing() -> None:
    simulation = Simulation(settings(message_tokens=600, observation_tokens=150), note_or_drop)
    for _ in range(150):
        simulation.say(30)
        assert set(simulation.coverage()) == {1}
    assert len(activations(simulation)) > 3
    assert log_tokens(simulation.record) < 200
    assert len(simulation.record["log"]) < 15


def test_edits_made_ahead_apply_to_the_groups_that_are_still_the_same() -> None:
    simulation = talk_until_buffered()
    buffered = simulation.record["reflection"]
    assert buffered is not None
    assert buffered["together"] == [[key] for key in buffered["group_ids"]]
    log = list(simulation.record["log"])
    own: Group = {**log[0], "id": "by-hand", "text": "* corrected by hand"}
    simulation.record = edited(simulation.record, {"log": [own, *log[1:]]})
    while not activations(simulation):
        simulation.say(30)
    assert simulation.record["log"][0] == own
    assert set(simulation.coverage()) == {1}
    replaced = [key for key in buffered["group_ids"] if key != log[0]["id"]]
    assert replaced
    assert not {entry["id"] for entry in simulation.record["log"]} & set(replaced)


# --- Hooks ---------------------------------------------------------------------------------------


OPEN = "* open words here"


def hooked(
    *answers: Any, hooks: set[str], **options: Any
) -> tuple[list[Any], list[dict[str, Any]], Any]:
    record, window = conversation()
    log = [
        group(f"g{at}", day_log(at, f"* Secret {at} and some more words", OPEN)) for at in range(4)
    ]
    hint = {"current_task": "Keep the Secret"} if "current_task" in record else {}
    record = edited(record, {"log": log, **hint})
    config = replace(setup(), transforms=frozenset(hooks), **options)
    run = drive(reflect_cycle(config, record, window, NOW), answers)
    return run.effects, run.events, fold(record, [run.events])


def test_a_hook_sees_each_group_before_and_the_reflector_sees_what_it_leaves() -> None:
    hidden = [day_log(at, f"* *** {at} and some more words", OPEN) for at in range(4)]
    effects, events, after = hooked(*hidden, "drop 1-6", hooks={"before_reflection"})
    calls = [effect for effect in effects if isinstance(effect, CallHook)]
    assert [call.name for call in calls] == ["before_reflection"] * 4
    assert calls[0].arguments[1]["field"] == "observations"
    question = "".join(texts(effects[-1]))
    assert "*** 0" in question
    assert "Secret" not in question
    assert events[-1]["dropped"] == 6
    assert after["log"][-1]["text"] == day_log(3, "* Secret 3 and some more words", OPEN)
