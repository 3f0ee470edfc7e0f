"""Buffering over whole conversations: jobs, chunks, activation, and change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.thresholds import resolve_thresholds, split_budget
from langgraph_om.core.cycles.carry_out import activate
from langgraph_om.core.effects import AskModel
from langgraph_om.core.plan import Decision
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import digest_entries, open_window
from support.examples import examples
from support.groups import group
from support.simulation import GOOD, Simulation, settings

SETTINGS = settings()
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def of_type(simulation: Simulation, kind: str) -> list[dict[str, Any]]:
    return [event for event in simulation.events if event["type"] == kind]


def talk(simulation: Simulation, turns: int, words: int = 30) -> None:
    for _ in range(turns):
        simulation.say(words)
        assert set(simulation.coverage()) == {1}


def test_messages_that_were_left_behind_are_observed_once_an_activation_covers_them() -> None:
    messages = [HumanMessage(f"word {at}", id=f"t{at}") for at in range(6)]
    part: Any = {"last": "t4", "index": 4, "count": 5, "strays": ["t1", "t2"]}
    log = [group("g1", "* one", 0, 0), group("g2", "* two", 3, 4)]
    record: Any = {**blank_record(), "scope": "resource", "thread_id": "t", "log": log}
    record |= {"cursor": ["t0", "t3", "t4"], "observed": part}
    window = open_window(record, messages, SETTINGS.counter)
    chunk: Any = {
        "id": "c", "cycle_id": "c", "groups": [group("c", "* three", 1, 2)], "tokens": 3,
        "message_count": 2, "message_tokens": 9, "digest": digest_entries(window.entries[:2]),
        "hints": {}, "created_at": "",
    }  # fmt: skip
    record["chunks"] = [chunk]
    decision = Decision("activate", "observation", 1)
    events = [*activate(SETTINGS, record, window, decision, NOW)]
    after = fold(record, [events])
    assert [entry.key for entry in open_window(after, messages, SETTINGS.counter).entries] == ["t5"]


def test_failing_jobs_back_off_and_recover() -> None:
    state = {"down": True}

    def answers(call: AskModel) -> str | Exception:
        return RuntimeError("model is down") if state["down"] else GOOD

    simulation = Simulation(settings(message_tokens=1000), answers=answers)
    talk(simulation, 40)
    failed = of_type(simulation, "buffering-failed")
    assert failed
    # However often jobs failed, the turn asks by itself at the blocking threshold.
    limit = simulation.settings.thresholds.block_after
    assert simulation.blocking_calls > 0
    first = next(e for e in simulation.events if e["type"] == "observation-start")
    reached = [
        e["data"]["windows"]["active"]["messages"]["tokens"]
        for e in simulation.events[: simulation.events.index(first)]
        if e["type"] == "status"
    ]
    assert max(reached) < limit
    assert len(failed) + len(of_type(simulation, "observation-failed")) < 12
    assert simulation.record["log"] == []
    state["down"] = False
    talk(simulation, 60)
    assert simulation.record["log"]
    assert simulation.record["attempts"].get("observation", {}).get("failures", 0) == 0


def test_restart_loses_a_job_and_nothing_else() -> None:
    simulation = Simulation(settings(), latency=50)
    while not simulation.record["pending"]:
        simulation.say(30)
    simulation.restart()
    simulation.say(30)
    lost = of_type(simulation, "buffering-failed")
    assert [event["error"].partition(":")[0] for event in lost] == ["lost"]
    assert lost[0]["failures"] == 0
    assert simulation.record["pending"] == {}  # the next job waits for as much growth again
    while not simulation.record["pending"]:
        simulation.say(30)
    assert simulation.window.tokens < 1.5 * simulation.settings.thresholds.message_tokens
    assert simulation.blocking_calls == 0
    assert set(simulation.coverage()) == {1}


def test_edited_message_drops_its_chunk_and_those_behind() -> None:
    simulation = Simulation(settings(message_tokens=1000, buffer_tokens=100))
    while len(simulation.record["chunks"]) < 3:
        simulation.say(30)
    first, *others = [chunk["id"] for chunk in simulation.record["chunks"]]
    start = simulation.record["chunks"][1]["groups"][0]["ranges"][0][0]
    at = next(n for n, message in enumerate(simulation.messages) if message.id == start)
    simulation.messages[at] = HumanMessage("edited since", id=start)
    simulation.step()
    assert simulation.record["chunks"][0]["id"] == first
    assert not set(others) & {chunk["id"] for chunk in simulation.record["chunks"]}
    talk(simulation, 40)


def test_late_result_is_superseded_by_a_blocking_observation() -> None:
    simulation = Simulation(settings(message_tokens=500, buffer_tokens=100, block_after=1.1))
    while not simulation.record["pending"]:
        simulation.say(30)
    pending = dict(simulation.record["pending"])
    blocking = Simulation(settings(message_tokens=100, buffer_tokens=False))
    blocking.record, blocking.messages = {**simulation.record, "pending": {}}, simulation.messages
    blocking.step()
    simulation.record = {**blocking.record, "pending": pending}
    simulation.jobs[pending["observation"]["cycle_id"]] = (
        0,
        simulation.jobs[pending["observation"]["cycle_id"]][1],
    )
    cursor = simulation.record["cursor"]
    simulation.step()
    assert of_type(simulation, "buffering-failed")[-1]["error"].startswith("superseded")
    assert simulation.record["cursor"] == cursor
    assert set(simulation.coverage()) == {1}


def test_blocking_observation_does_not_wait_for_ever() -> None:
    simulation = Simulation(settings(message_tokens=500, buffer_tokens=200), latency=10**6)
    asked = 0

    def answers(call: AskModel) -> str:
        nonlocal asked
        asked += 1
        return GOOD

    simulation.answers = answers
    talk(simulation, 12)
    # A job that does not end is waited for in vain: the turn asks by itself.
    overtaken, *_ = of_type(simulation, "buffering-failed")
    assert overtaken["error"].startswith("overtaken")
    assert simulation.blocking_calls > 0
    assert simulation.record["log"]
    assert asked >= 2


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_what_failed_is_tried_again_in_smaller_pieces_before_a_turn_waits(failures: int) -> None:
    resolve = partial(resolve_thresholds, share_token_budget=True, budget=8000)
    limits = resolve(*split_budget(8000, ObservationConfig(), ReflectionConfig(), resolve))
    answers = iter([RuntimeError("down")] * failures)
    simulation = Simulation(replace(settings(), thresholds=limits), lambda _: next(answers, GOOD))
    for _ in range(140):
        simulation.say(60)
    assert len(of_type(simulation, "buffering-failed")) == failures
    assert simulation.blocking_calls == 0
    assert set(simulation.coverage()) == {1}


@examples(25)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=60, max_size=120),
    buffer=st.sampled_from([100, 200, False]),
)
def test_prompt_prefix_moves_only_with_memory_or_the_day(sizes: list[int], buffer: int) -> None:
    simulation = Simulation(
        settings(message_tokens=600, buffer_tokens=buffer, observation_tokens=150)
    )
    before: list[Any] | None = None
    moved = stayed = 0
    for size in sizes:
        simulation._add(HumanMessage("word " * size))
        simulation.events.clear()
        simulation.step()
        prompt = simulation.prompt()
        changed = {"activation", "observation-end"} & {e["type"] for e in simulation.events}
        if before is not None and prompt[: len(before)] != before:
            assert changed, "the prefix moved without a reason"
            moved += 1
        elif before is not None:
            stayed += 1
        before = prompt
        simulation._add(AIMessage("word " * 10))
    assert stayed > moved
