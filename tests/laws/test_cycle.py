from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import ObservationalMemory, ObserverError, StepResult
from langgraph_om.core.cycles.observation import observe_cycle
from langgraph_om.core.events import to_part
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import open_window
from langgraph_om.memory import runner_of
from langgraph_om.runtime.flows import adrive, drive
from langgraph_om.testing import Reply, ScriptedChatModel
from support.clock import Clock
from support.examples import examples
from support.wire import streaming
from support.words import Words

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

OBSERVER: list[Reply] = [
    "<observations>\n* 🔴 (09:00) The dog is Rex\n</observations>",
    "<observations>\n* 🟢 long "
    + " ".join(f"word{at}" for at in range(60))
    + "\n</observations>\n<current-task>Go on</current-task>",
    "<observations>(none)</observations>",
    "",
    "I can not help with that.",
    AIMessage(
        "<observations>\n* 🔴 Rex\n</observations>", response_metadata={"finish_reason": "length"}
    ),
    ValueError("overloaded"),
]
REFLECTOR: list[Reply] = [
    "<observations>\n* 🔴 Rex\n</observations>",
    "<observations>\n* 🔴 " + " ".join(["more"] * 60) + "\n</observations>",
    "no",
    TimeoutError("late"),
]


def scripted(observer: list[Reply], reflector: list[Reply]) -> ScriptedChatModel:
    return ScriptedChatModel(observer=observer, reflector=reflector)


def remembering(
    model: ScriptedChatModel, on_error: Literal["continue", "abort", "raise"]
) -> ObservationalMemory:
    return ObservationalMemory(
        model,
        observation={"message_tokens": 60, "buffer_tokens": False},
        reflection={"observation_tokens": 50},
        token_counter=Words(),
        on_error=on_error,
        clock=Clock(),
    )


def talk(sizes: list[int]) -> list[BaseMessage]:
    return [
        (AIMessage if at % 2 else HumanMessage)(f"word{at} " * size, id=f"m{at}")
        for at, size in enumerate(sizes)
    ]


Outcome = list[tuple[Any, Any, Any, bool]] | str


def told(steps: list[StepResult]) -> Outcome:
    return [(step.record, step.events, step.messages, step.aborted) for step in steps]


def steps_of(memory: ObservationalMemory, messages: list[BaseMessage]) -> Outcome:
    steps: list[StepResult] = []
    try:
        for count in range(1, len(messages) + 1, 2):
            record = steps[-1].record if steps else None
            steps.append(memory.step(record, messages[:count], thread_id="t"))
    except ObserverError as error:
        return str(error)
    return told(steps)


async def asteps_of(memory: ObservationalMemory, messages: list[BaseMessage]) -> Outcome:
    steps: list[StepResult] = []
    try:
        for count in range(1, len(messages) + 1, 2):
            record = steps[-1].record if steps else None
            steps.append(await memory.astep(record, messages[:count], thread_id="t"))
    except ObserverError as error:
        return str(error)
    return told(steps)


@examples(25)
@given(
    st.lists(st.sampled_from([1, 10, 30, 80]), min_size=1, max_size=9),
    st.lists(st.sampled_from(OBSERVER), min_size=1, max_size=5),
    st.lists(st.sampled_from(REFLECTOR), min_size=1, max_size=4),
    st.sampled_from(["continue", "continue", "abort", "raise"]),
)
def test_waiting_and_awaiting_come_to_the_same(
    sizes: list[int],
    observer: list[Reply],
    reflector: list[Reply],
    on_error: Literal["continue", "abort", "raise"],
) -> None:
    one, two = (scripted(observer, reflector) for _ in range(2))
    by_step = steps_of(remembering(one, on_error), talk(sizes))
    by_astep = asyncio.run(asteps_of(remembering(two, on_error), talk(sizes)))
    assert by_step == by_astep
    assert one.calls == two.calls


@pytest.mark.parametrize("observer", OBSERVER, ids=range(len(OBSERVER)))
def test_both_drivers_give_the_same_events_and_show_them_as_they_happen(observer: Reply) -> None:
    record = blank_record()
    window = open_window(record, talk([30, 30]), Words())
    outcomes: list[Any] = []
    for asynchronous in (False, True):
        model = scripted([observer], [])
        runner = runner_of(remembering(model, "continue"))
        shown: list[tuple[str, int]] = []

        def write(
            part: Any,
            shown: list[tuple[str, int]] = shown,
            model: ScriptedChatModel = model,
        ) -> None:
            shown.append((part["type"], len(model.calls)))

        flow = observe_cycle(runner.settings, record, window, 2, NOW)
        context = runner.context(streams=True)
        with streaming(write):
            run = asyncio.run(adrive(flow, context)) if asynchronous else drive(flow, context)
        events = run.events
        parts = [part for event in events if (part := to_part(event))]
        assert [part["type"] for part in parts] == [kind for kind, _ in shown]
        assert shown[0] == ("data-om-observation-start", 0), "shown before the model is asked"
        outcomes.append((events, shown, model.calls))
    assert outcomes[0] == outcomes[1]
