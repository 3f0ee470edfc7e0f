"""The user's hooks, debug callback and tracers: what they see, what they change, and what not."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
    ObserverError,
    ParallelBuffering,
)
from langgraph_om.testing import ExtractiveObserver
from support.agents import (
    Agent,
    Part,
    asay,
    atalk,
    dumped,
    make_agent,
    of_kind,
    on_thread,
    outcome,
    record_of,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock

CONFIG = on_thread()
EXECUTORS: dict[str, Callable[[], Any]] = {
    "background": BackgroundBuffering,
    "inline": InlineBuffering,
    "parallel": ParallelBuffering,
}
BLOCKING, BUFFERED = {"buffer_tokens": False}, {"buffer_tokens": 0.2}
LIFECYCLE = [
    f"on_{operation}_{moment}"
    for operation in ("observation", "reflection")
    for moment in ("start", "end")
]
ABOUT = {"operation", "trigger", "cycle_id", "record_id", "thread_id", "resource_id"}
AT_START = {*ABOUT, "tokens"}
AT_END = {*AT_START, "observation_tokens", "observations", "duration_ms", "usage", "error"}

Told = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    yield
    names = {*LIFECYCLE, "before_observation", "after_observation", "om_observer"}
    ends_at = time.monotonic() + 60
    while any(thread.name in names for thread in threading.enumerate()):
        assert time.monotonic() < ends_at, threading.enumerate()
        time.sleep(0.01)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens at the end of the test."""
    opened = threading.Event()
    yield opened
    opened.set()


def listeners(told: Told, *, is_async: bool = False) -> dict[str, Any]:
    """Lifecycle hooks that note what they are told."""

    def note(name: str, about: dict[str, Any]) -> None:
        told.append((name, about))

    async def anote(name: str, about: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        told.append((name, about))

    return {name: partial(anote if is_async else note, name) for name in LIFECYCLE}


def agent_with(hooks: Mapping[str, Any], executor: str = "", **options: Any) -> Agent:
    """An agent with hooks, that buffers by the executor, or not."""
    options.setdefault("observation", BUFFERED if executor else BLOCKING)
    if executor:
        options["buffering"] = EXECUTORS[executor]()
    return make_agent("plain", InMemorySaver(), hooks=hooks, **options)


def converse(agent: Agent, count: int = 24, config: RunnableConfig = CONFIG) -> list[Part]:
    """Talk, let each turn's background work end, and check that nothing is lost."""
    parts = []
    for message in turns(count):
        parts += say(agent.graph, config, message)
        assert agent.memory.flush(20)
        state = values(agent.graph, config)
        assert state["messages"][-1].id == f"{message.id}-answer"
        assert uncovered(agent.memory, state) == []
    return parts


def without_times(parts: list[Part]) -> list[Part]:
    return [
        {**part, "data": {k: v for k, v in part["data"].items() if k != "durationMs"}}
        for part in parts
    ]


def everything(agent: Agent, parts: list[Part]) -> str:
    """All that anybody could read later: parts, records and raw checkpoints without messages."""
    records = [
        checkpoint.checkpoint["channel_values"].get("om")
        for checkpoint in agent.graph.checkpointer.list(CONFIG)  # type: ignore[union-attr]
    ]
    return json.dumps([parts, records], ensure_ascii=False, default=str)


# --- Lifecycle hooks: what they are told ---------------------------------------------------------


def check_pairs(told: Told) -> None:
    """Each cycle begins once and ends once, in that order, with all there is to say."""
    begun: dict[str, dict[str, Any]] = {}
    ended = set()
    for name, about in told:
        key = about["cycle_id"]
        assert name.startswith(f"on_{about['operation']}_")
        if name.endswith("_start"):
            assert key not in begun
            assert set(about) == AT_START
            begun[key] = about
        else:
            assert set(about) == AT_END
            assert key not in ended
            ended.add(key)
            assert {k: about[k] for k in AT_START} == begun[key]
    assert begun.keys() == ended


@pytest.mark.parametrize("is_async", [False, True], ids=["sync hooks", "async hooks"])
@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_lifecycle_hooks_are_told_of_each_cycle_once(executor: str, is_async: bool) -> None:  # noqa: FBT001
    told: Told = []
    agent = agent_with(listeners(told, is_async=is_async), executor, log=130)
    converse(agent, 16, on_thread("t", resource_id="ann"))
    check_pairs(told)
    assert {name for name, _ in told} == set(LIFECYCLE)
    assert {about["trigger"] for _, about in told} <= {"buffer", "turn"}
    assert (told[0][1]["trigger"] == "buffer") == bool(executor)
    record = record_of(agent.graph, CONFIG)
    for name, about in told:
        assert (about["thread_id"], about["resource_id"]) == ("t", "ann")
        assert about["record_id"] == record["id"]
        assert about["tokens"] > 0
        if name.endswith("_end"):
            assert about["error"] is None
            assert about["usage"]["calls"] >= 1
            assert about["usage"]["inputTokens"] > 0
            assert about["observations"]
            assert about["observation_tokens"] > 0
            assert about["duration_ms"] >= 0


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
async def test_lifecycle_hooks_of_an_async_run(executor: str) -> None:
    told: Told = []
    agent = agent_with(listeners(told, is_async=True), executor)
    for message in turns(10):
        await asay(agent.graph, CONFIG, message)
        await agent.memory.aflush(20)
    assert len(told) > 2
    check_pairs(told)


def test_end_of_a_job_that_a_turn_waited_for_is_told_once(gate: threading.Event) -> None:
    told: Told = []

    def held(messages: list[BaseMessage]) -> str:
        gate.wait(10)
        return ExtractiveObserver().reply(messages)

    agent = agent_with(listeners(told), "background", model=scripted(observer=held), deadline=20)
    threading.Timer(0.3, gate.set).start()
    parts = talk(agent.graph, CONFIG, turns(12))  # the job's messages are overdue before it ends
    agent.memory.flush(20)
    assert of_kind(parts, "buffering-end")
    check_pairs(told)


def test_end_of_a_job_that_a_turn_did_not_wait_for_is_told_once(gate: threading.Event) -> None:
    told: Told = []

    def held(messages: list[BaseMessage]) -> str:
        gate.wait(10)
        return ExtractiveObserver().reply(messages)

    agent = agent_with(listeners(told), "background", model=scripted(observer=held), deadline=0.2)
    parts = talk(agent.graph, CONFIG, turns(14))
    gate.set()
    agent.memory.flush(20)
    assert any(data["error"].startswith("overtaken") for data in of_kind(parts, "buffering-failed"))
    check_pairs(told)


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_lifecycle_hooks_are_told_of_a_failure(executor: str) -> None:
    told: Told = []
    model = scripted(observer=ConnectionError("the provider is away"))
    converse(agent_with(listeners(told), executor, model=model), 8)
    check_pairs(told)
    errors = [about["error"] for name, about in told if name.endswith("_end")]
    assert errors
    assert all("the provider is away" in error for error in errors)


def test_lifecycle_hooks_of_steps_without_a_graph() -> None:
    told: Told = []
    memory = remembering(scripted(), Clock(), hooks=listeners(told))
    memory.step(None, turns(9), thread_id="t")
    assert [name for name, _ in told] == ["on_observation_start", "on_observation_end"]
    asyncio.run(memory.astep(None, turns(9), thread_id="t"))
    assert [about["cycle_id"] for _, about in told[:2]] == [
        about["cycle_id"] for _, about in told[2:]
    ]


# --- Lifecycle hooks change nothing --------------------------------------------------------------


def raises(about: dict[str, Any]) -> None:
    msg = f"no room for {about['operation']}"
    raise OSError(msg)


def stops(about: dict[str, Any]) -> None:
    del about
    raise StopIteration


def is_slow(about: dict[str, Any]) -> None:
    time.sleep(0.02)
    about.clear()


async def araises(about: dict[str, Any]) -> None:
    await asyncio.sleep(0)
    raises(about)


async def cancels(about: dict[str, Any]) -> None:
    del about
    raise asyncio.CancelledError


def scribbles(about: dict[str, Any]) -> None:
    for value in about.values():
        if isinstance(value, dict):
            value.clear()
    about["cycle_id"] = about["observations"] = "scribbled"


NUISANCES: dict[str, Any] = {
    "raises": raises,
    "async raises": araises,
    "StopIteration": stops,
    "cancels itself": cancels,
    "slow": is_slow,
    "scribbles": scribbles,
    "answers": lambda _: [HumanMessage("observe this instead")],
    "takes nothing": lambda: None,
}
LOGGED = ("raises", "async raises", "StopIteration", "cancels itself", "takes nothing")


@pytest.mark.parametrize(
    ("nuisance", "executor"),
    [*((each, "") for each in NUISANCES), ("raises", "background"), ("scribbles", "background")],
)
def test_lifecycle_hook_changes_nothing(
    nuisance: str, executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = dict.fromkeys(LIFECYCLE, NUISANCES[nuisance])
    plain, agent = agent_with({}, executor), agent_with(hooks, executor)
    expected = converse(plain, 9)
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        parts = converse(agent, 9)
    assert of_kind(parts, "observation-end") or of_kind(parts, "buffering-end")
    assert without_times(parts) == without_times(expected)
    assert outcome(values(agent.graph, CONFIG)) == outcome(values(plain.graph, CONFIG))
    failed = [line for line in caplog.messages if "the hook `on_observation_start` failed" in line]
    assert bool(failed) == (nuisance in LOGGED)


@pytest.mark.parametrize("nuisance", ["raises", "async raises", "StopIteration", "cancels itself"])
async def test_lifecycle_hook_changes_nothing_async(nuisance: str) -> None:
    plain = agent_with({})
    agent = agent_with(dict.fromkeys(LIFECYCLE, NUISANCES[nuisance]))
    expected = await atalk(plain.graph, CONFIG, turns(8))
    parts = await atalk(agent.graph, CONFIG, turns(8))
    assert without_times(parts) == without_times(expected)


def test_hanging_lifecycle_hook_takes_no_time_from_the_observer(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    plain = agent_with({}, deadline=0.5)
    agent = agent_with(dict.fromkeys(LIFECYCLE, lambda _: gate.wait()), deadline=0.5)
    expected = talk(plain.graph, CONFIG, turns(5))
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        parts = talk(agent.graph, CONFIG, turns(5))
    assert of_kind(parts, "observation-end")
    assert without_times(parts) == without_times(expected)
    assert "it did not return within 0.5 seconds" in caplog.text


async def test_hanging_lifecycle_hook_that_will_not_be_cancelled() -> None:
    let_go = False

    async def stubborn(_: dict[str, Any]) -> None:
        while not let_go:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    agent = agent_with({"on_observation_start": stubborn}, deadline=0.3)
    try:
        parts = await atalk(agent.graph, CONFIG, turns(5))
    finally:
        let_go = True
    await asyncio.sleep(0.05)
    assert of_kind(parts, "observation-end")


async def test_hanging_sync_hook_of_an_async_run_holds_neither_loop_nor_its_end(
    gate: threading.Event,
) -> None:
    entered = threading.Event()

    def hang(_: dict[str, Any]) -> None:
        entered.set()
        gate.wait()

    agent = agent_with({"on_observation_start": hang}, deadline=0.3)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += entered.is_set() and agent.asked("observer") == 0

    ticking = asyncio.create_task(tick())
    await atalk(agent.graph, CONFIG, turns(5))
    ticking.cancel()
    assert ticks > 1, "while the hook hung"
    assert agent.asked("observer") == 1
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("is_async", [False, True], ids=["sync hook", "async hook"])
async def test_cancelled_run_ends_at_once_and_goes_on_later(
    is_async: bool,  # noqa: FBT001
    gate: threading.Event,
) -> None:
    entered = threading.Event()

    def hang(_: dict[str, Any]) -> None:
        entered.set()
        gate.wait()

    async def ahang(_: dict[str, Any]) -> None:
        entered.set()
        if not gate.is_set():
            await asyncio.sleep(3600)

    agent = agent_with({"on_observation_start": ahang if is_async else hang}, deadline=3600)
    await atalk(agent.graph, CONFIG, turns(4))
    run = asyncio.create_task(agent.graph.ainvoke({"messages": [turn(4)]}, CONFIG))
    assert await asyncio.to_thread(entered.wait, 10)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    gate.set()
    await agent.graph.ainvoke(None, CONFIG)
    state = (await agent.graph.aget_state(CONFIG)).values
    assert state["om"]["log"]
    assert uncovered(agent.memory, state) == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_passes(ending: type[BaseException]) -> None:
    def end(_: dict[str, Any]) -> None:
        raise ending

    memory = remembering(scripted(), Clock(), hooks={"on_observation_start": end})
    with pytest.raises(ending):
        memory.step(None, turns(9), thread_id="t")


def test_mapping_of_hooks_may_change_later() -> None:
    told: Told = []
    hooks = listeners(told)
    memory = remembering(scripted(), Clock(), hooks=hooks)
    hooks.clear()
    memory.step(None, turns(9), thread_id="t")
    assert len(told) == 2


# --- before_observation --------------------------------------------------------------------------

SECRET = "Ana"  # noqa: S105 a name in every turn that the fixtures write


def redact_copies(messages: list[BaseMessage], about: Mapping[str, Any]) -> list[BaseMessage]:
    assert set(about) == ABOUT
    return [m.model_copy(update={"content": m.text.replace(SECRET, "[name]")}) for m in messages]


def redact_in_place(messages: list[BaseMessage], _: Mapping[str, Any]) -> None:
    for message in messages:
        message.content = message.text.replace(SECRET, "[name]")
        message.additional_kwargs["seen"] = True


async def aredact(messages: list[BaseMessage], about: Mapping[str, Any]) -> list[BaseMessage]:
    await asyncio.sleep(0)
    return redact_copies(messages, about)


class Redactor:
    """A hook that is an object with an async `__call__`."""

    async def __call__(self, messages: list[BaseMessage], about: Any) -> list[BaseMessage]:
        return await aredact(messages, about)


REDACTORS = {
    "copies": redact_copies,
    "in place": redact_in_place,
    "async": aredact,
    "object": Redactor(),
    "partial": partial(aredact),
}


def shown(agent: Agent, role: str = "observer") -> str:
    """All that a role was shown, the conversations and logs alone."""
    return "\n".join(
        call["messages"][-1].text for call in agent.model.calls if call["role"] == role
    )


@pytest.mark.parametrize(
    ("redactor", "executor"),
    [*((redactor, "") for redactor in REDACTORS), *(("async", each) for each in EXECUTORS)],
)
def test_redacted_messages_reach_no_observer_and_stay_as_they_are(
    redactor: str, executor: str
) -> None:
    agent = agent_with({"before_observation": REDACTORS[redactor]}, executor)
    plain = agent_with({}, executor)
    parts = converse(agent, 10)
    converse(plain, 10)
    assert "[name]" in shown(agent)
    assert SECRET in shown(plain)
    assert SECRET not in shown(agent)
    assert SECRET not in shown(agent, "reflector")
    assert SECRET not in everything(agent, parts)
    state = values(agent.graph, CONFIG)
    assert said(state) == said(values(plain.graph, CONFIG))
    assert len(state["om"]["log"]) + len(state["om"]["chunks"]) > 0


def said(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation without what the Actor's input cost, which depends on memory."""
    return [{**message, "usage_metadata": None} for message in dumped(state["messages"])]


@pytest.mark.parametrize("redactor", REDACTORS)
async def test_redacted_messages_in_async_runs(redactor: str) -> None:
    agent = agent_with({"before_observation": REDACTORS[redactor]})
    await atalk(agent.graph, CONFIG, turns(8))
    assert "[name]" in shown(agent)
    assert SECRET not in shown(agent)


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_no_messages_left_are_observed_without_a_model(executor: str) -> None:
    told: Told = []
    hooks = {**listeners(told), "before_observation": lambda *_: []}
    agent = agent_with(hooks, executor)
    parts = converse(agent, 14)
    assert agent.asked("observer") == 0
    record = record_of(agent.graph, CONFIG)
    assert record["cursor"]
    assert {group["text"] for group in record["log"]} == {""}
    assert of_kind(parts, "observation-failed") == of_kind(parts, "buffering-failed") == []
    assert len(agent.prompts()[-1]) < 14
    check_pairs(told)
    ended = [about for name, about in told if name == "on_observation_end"]
    assert {about["usage"]["calls"] for about in ended} == {0}


def changed(kind: str, messages: list[BaseMessage]) -> Any:
    more = HumanMessage("I also keep 3 bees at home.", id="more")
    return {
        "fewer": messages[:1],
        "more": [*messages, more],
        "none of them": [more],
        "without ids": [HumanMessage(m.text) for m in messages],
        "all with one id": [m.model_copy(update={"id": "x"}) for m in messages],
        "out of order": messages[::-1],
        "with removals": [RemoveMessage(id=str(m.id)) for m in messages[:-1]] + messages[-1:],
        "orphan": [ToolMessage("12 euros", tool_call_id="gone")],
        "tuple": tuple(messages),
        "None": None,
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        *("fewer", "more", "none of them", "without ids", "all with one id"),
        *("out of order", "with removals", "orphan", "tuple", "None"),
    ],
)
def test_other_messages_are_observed_in_the_place_of_the_given(kind: str) -> None:
    agent = agent_with({"before_observation": lambda messages, _: changed(kind, messages)})
    parts = converse(agent, 8)
    assert of_kind(parts, "observation-failed") == []
    assert len(record_of(agent.graph, CONFIG)["log"]) > 0
    assert ("bees" in shown(agent)) == (kind in ("more", "none of them"))


def test_messages_without_ids_keep_their_times() -> None:
    seen: list[list[BaseMessage]] = []

    def look(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        seen.append(messages)
        return messages

    said = [message.model_copy(update={"id": None}) for message in turns(9)]
    prompts = []
    for hooks in ({}, {"before_observation": look}):
        model = scripted()
        clock, record = Clock(), None
        memory = remembering(model, clock, hooks=hooks)
        for count in range(1, 10):
            record = memory.step(record, said[:count], thread_id="t").record
            clock.advance(days=1)
        prompts.append([call["messages"][-1].text for call in model.calls])
    assert prompts[0] == prompts[1]
    assert prompts[0][0].count("Date: ") > 2
    assert len({message.id for message in seen[0]}) == len(seen[0])
    assert said[0].id is None


def test_what_can_not_be_copied_is_shared() -> None:
    lock = threading.Lock()
    result = ToolMessage("ok " * 500, tool_call_id="1", id="r", artifact={"lock": lock})
    call = {"name": "search", "args": {}, "id": "1"}
    said = [turn(0), AIMessage("", tool_calls=[call], id="a"), result, turn(1)]
    memory = remembering(scripted(), Clock(), hooks={"before_observation": redact_in_place})
    step = memory.step(None, said, thread_id="t")
    assert of_kind(step.events, "observation-failed") == []
    assert step.record["log"]
    assert "seen" not in result.additional_kwargs


# --- after_observation ---------------------------------------------------------------------------

TITLED = {"thread_title": True}
ANSWER = """<observations>
Date: Mar 2, 2026
* 🔴 (09:00) Ana's number is Quuxley
</observations>
<current-task>Call Ana at Quuxley</current-task>
<suggested-response>Ask whether Ana's number is Quuxley</suggested-response>
<thread-title>The number Quuxley</thread-title>"""
FIELDS = {"observations", "current_task", "suggested_response", "thread_title"}


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_nothing_unredacted_is_kept_of_an_answer(executor: str) -> None:
    fields = set()

    def hide(text: str, about: Mapping[str, Any]) -> str:
        assert set(about) == {*ABOUT, "field"}
        fields.add(about["field"])
        return text.replace("Quuxley", "[number]")

    told: Told = []
    debugged: list[dict[str, Any]] = []
    hooks = {**listeners(told), "after_observation": hide}
    observation = {**(BUFFERED if executor else BLOCKING), **TITLED}
    agent = agent_with(
        hooks,
        executor,
        observation=observation,
        model=scripted(observer=ANSWER),
        on_debug_event=debugged.append,
    )
    parts = converse(agent, 14)
    assert fields == FIELDS
    record = record_of(agent.graph, CONFIG)
    assert record["thread_title"] == "The number [number]"
    assert record["current_task"] == "Call Ana at [number]"
    assert "[number]" in record["suggested_response"]
    assert "[number]" in everything(agent, parts)
    for place in (everything(agent, parts), str(told), str(debugged), str(agent.prompts())):
        assert "Quuxley" not in place
    saver: Any = agent.graph.checkpointer
    stored = f"{dict(saver.storage)}{dict(saver.blobs)}{dict(saver.writes)}"
    assert "[number]" in stored
    assert "Quuxley" not in stored
    assert "Quuxley" not in shown(agent)


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_nothing_unredacted_is_shown_of_half_an_answer(executor: str) -> None:
    half = AIMessage(ANSWER, response_metadata={"finish_reason": "length"})
    told: Told = []
    plain = agent_with({}, executor, model=scripted(observer=half))
    hooks = {**listeners(told), "after_observation": lambda text, _: text.replace("Quuxley", "*")}
    agent = agent_with(hooks, executor, model=scripted(observer=half))
    kind = "buffering-failed" if executor else "observation-failed"
    assert "Quuxley" in str(of_kind(converse(plain, 8), kind))
    parts = converse(agent, 8)
    assert of_kind(parts, kind)
    assert "Quuxley" not in everything(agent, parts)
    assert "Quuxley" not in str(told)


@pytest.mark.parametrize("text", ["", "   "])
def test_observations_may_be_emptied(text: str) -> None:
    agent = agent_with({"after_observation": lambda _text, _about: text})
    parts = converse(agent, 12)
    assert of_kind(parts, "observation-end")
    assert of_kind(parts, "observation-failed") == []


class Markup(str):
    """A text of another type, as templating libraries have them."""

    __slots__ = ()


def test_text_that_no_checkpoint_could_hold_is_made_plain() -> None:
    agent = agent_with({"after_observation": lambda text, _: Markup(f"{text}\ud800\x00")})
    converse(agent, 10)
    for group in record_of(agent.graph, CONFIG)["log"]:
        assert type(group["text"]) is str
        group["text"].encode()


# --- Reflection ----------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_reflection_is_redacted_on_both_sides(executor: str) -> None:
    fields = set()

    def before(text: str, about: Mapping[str, Any]) -> str:
        assert (about["operation"], about["field"]) == ("reflection", "observations")
        return text.replace(SECRET, "[name]")

    def after(text: str, about: Mapping[str, Any]) -> str:
        fields.add(about["field"])
        return text.replace("Lisbon", "[city]")

    agent = agent_with(
        {"before_reflection": before, "after_reflection": after},
        executor,
        log=200,
    )
    parts = converse(agent, 18)
    record = record_of(agent.graph, CONFIG)
    assert record["generation"] > 0
    assert "observations" in fields
    assert SECRET not in shown(agent, "reflector")
    assert "[name]" in shown(agent, "reflector")
    reflected = [group for group in record["log"] if group["kind"] == "reflection"]
    assert reflected
    assert all("Lisbon" not in group["text"] for group in reflected)
    assert of_kind(parts, "observation-failed") == []


def test_current_task_of_a_reflection_is_redacted() -> None:
    answer = (
        "<observations>\n* 🔴 short\n</observations>\n<current-task>Call Quuxley</current-task>"
    )
    hide = {"after_reflection": lambda text, _: text.replace("Quuxley", "[number]")}
    agent = agent_with(hide, log=130, model=scripted(reflector=answer))
    parts = converse(agent, 14)
    assert record_of(agent.graph, CONFIG)["generation"] > 0
    assert "[number]" in everything(agent, parts)
    assert "Quuxley" not in everything(agent, parts)


@pytest.mark.parametrize("name", ["before_reflection", "after_reflection"])
def test_reflection_of_which_a_hook_leaves_nothing_fails(name: str) -> None:
    agent = agent_with({name: lambda _text, _about: " \n"}, log=130)
    parts = converse(agent, 10)
    record = record_of(agent.graph, CONFIG)
    assert record["generation"] == 0
    assert record["attempts"]["reflection"]["failures"] > 0
    failed = of_kind(parts, "observation-failed")
    assert all(f"the hook `{name}` left nothing of the log" in data["error"] for data in failed)
    assert (agent.asked("reflector") == 0) == (name == "before_reflection")


# --- Transforms that fail ------------------------------------------------------------------------


def pseudonyms(*_: Any) -> Any:
    """Fail with the secret in the error, as a lookup does."""
    return {}[SECRET]


async def araises_transform(*_: Any) -> Any:
    pseudonyms()


async def acancels(*_: Any) -> Any:
    raise asyncio.CancelledError


MISTAKES: dict[str, tuple[Any, str]] = {
    "raises": (pseudonyms, "failed: KeyError"),
    "async raises": (araises_transform, "failed: KeyError"),
    "cancels itself": (acancels, "failed: RuntimeError"),
    "StopIteration": (lambda *_: next(iter(())), "failed: RuntimeError"),
    "takes one": (lambda _: None, "failed: TypeError"),
    "number": (lambda *_: 3, "returned `int`"),
    "mapping": (lambda given, _: {"messages": str(given)}, "returned `dict`"),
    "bytes": (lambda given, _: str(given).encode(), "returned `bytes`"),
}


@pytest.mark.parametrize("name", ["before_observation", "after_observation"])
@pytest.mark.parametrize(
    ("mistake", "executor"),
    [
        *((mistake, "") for mistake in MISTAKES),
        *(("raises", executor) for executor in EXECUTORS),
        ("mapping", "background"),
    ],
)
def test_failed_transform_fails_the_cycle_and_loses_nothing(
    mistake: str, name: str, executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook, said = MISTAKES[mistake]
    agent = agent_with({name: hook}, executor, model=scripted(observer=ANSWER.replace("Ana", "A")))
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        parts = converse(agent, 9)
    record = record_of(agent.graph, CONFIG)
    assert (record["log"], record["chunks"], record["cursor"]) == ([], [], [])
    failed = of_kind(parts, "observation-failed") + of_kind(parts, "buffering-failed")
    assert failed
    assert {f"the hook `{name}` {said}" in data["error"] for data in failed} == {True}
    attempt = record["attempts"]["observation"]
    assert attempt["failures"] > 1
    assert attempt["retry_at_tokens"] > attempt["at_tokens"] or executor
    assert len(failed) < 10  # the back-off
    assert SECRET not in everything(agent, parts)  # neither what it raised nor what it returned
    assert f"`{name}`" in caplog.text
    if said == "failed: KeyError":
        assert "KeyError: 'Ana'" in caplog.text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "returned `str`; return a list of messages"),
        (HumanMessage("one"), "returned `HumanMessage`; return a list of messages"),
        (["text"], "returned a list with `str`; return a list of messages"),
        ([HumanMessage("one"), ("user", "two")], "a list with `tuple`"),
        (iter([HumanMessage("one")]), "returned `list_iterator`"),
    ],
)
def test_messages_of_a_wrong_type_are_named(value: Any, said: str) -> None:
    memory = remembering(scripted(), Clock(), hooks={"before_observation": lambda *_: value})
    step = memory.step(None, turns(9), thread_id="t")
    (failed,) = of_kind(step.events, "observation-failed")
    assert said in failed["error"]
    assert len(step.messages) == 9


def test_transform_that_recovers_ends_the_back_off() -> None:
    answers = iter([RuntimeError("not yet"), RuntimeError("not yet")])

    def moody(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        error = next(answers, None)
        if error is not None:
            raise error
        return messages

    agent = agent_with({"before_observation": moody})
    parts = converse(agent, 16)
    assert len(of_kind(parts, "observation-failed")) == 2
    assert of_kind(parts, "observation-end")
    assert "observation" not in record_of(agent.graph, CONFIG)["attempts"]


@pytest.mark.parametrize("name", ["before_observation", "after_observation"])
def test_failed_transform_aborts_where_failures_do(name: str) -> None:
    agent = agent_with({name: pseudonyms}, on_error="abort", observation={**BLOCKING})
    parts = talk(agent.graph, CONFIG, turns(5))
    (tripwire,) = of_kind(parts, "tripwire")
    assert f"the hook `{name}` failed: KeyError" in tripwire["reason"]
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h4"


@pytest.mark.parametrize("name", ["before_observation", "after_observation"])
def test_failed_transform_raises_where_failures_do(name: str) -> None:
    agent = agent_with({name: pseudonyms}, on_error="raise")
    with pytest.raises(ObserverError, match=f"the hook `{name}` failed: KeyError") as caught:
        talk(agent.graph, CONFIG, turns(9))
    assert isinstance(caught.value.__cause__, KeyError)


def test_hanging_transform_fails_the_cycle_at_the_deadline(gate: threading.Event) -> None:
    agent = agent_with({"before_observation": lambda *_: gate.wait()}, deadline=0.3)
    talk(agent.graph, CONFIG, turns(4))
    parts = say(agent.graph, CONFIG, turn(4))
    (failed,) = of_kind(parts, "observation-failed")
    assert "`before_observation` failed: it did not return within the deadline" in failed["error"]
    assert agent.asked("observer") == 0


async def test_hanging_async_transform_is_cancelled_at_the_deadline() -> None:
    ends = []

    async def hang(*_: Any) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    agent = agent_with({"before_observation": hang}, deadline=0.2)
    parts = await atalk(agent.graph, CONFIG, turns(5))
    await asyncio.sleep(0)
    assert len(of_kind(parts, "observation-failed")) == len(ends) > 0
    before = len(ends)
    parts = await asyncio.to_thread(talk, agent.graph, CONFIG, turns(3, start=5))
    assert len(of_kind(parts, "observation-failed")) == len(ends) - before > 0


# --- Sync and async, in and outside of a loop ----------------------------------------------------


@pytest.mark.parametrize("where", ["outside", "inside", "awaited"])
def test_async_transform_wherever_the_graph_runs(where: str) -> None:
    agent = agent_with({"before_observation": aredact, "after_observation": aupper})

    async def run() -> None:
        if where == "inside":
            talk(agent.graph, CONFIG, turns(8))  # blocks the loop, as `invoke` does
        else:
            await atalk(agent.graph, CONFIG, turns(8))

    if where == "outside":
        talk(agent.graph, CONFIG, turns(8))
    else:
        asyncio.run(run())
    text = record_of(agent.graph, CONFIG)["log"][0]["text"]
    assert "[NAME]" in text
    assert text == text.upper()


async def aupper(text: str, _: Any) -> str:
    await asyncio.sleep(0)
    return text.upper()


async def test_blocking_transform_does_not_block_the_loop() -> None:
    ticked = threading.Event()

    def slow(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        ticked.clear()
        assert ticked.wait(60), "the loop goes on"
        return messages

    async def tick() -> None:
        while True:
            ticked.set()
            await asyncio.sleep(0.01)

    agent = agent_with({"before_observation": slow})
    await atalk(agent.graph, CONFIG, turns(4))
    ticking = asyncio.create_task(tick())
    await asay(agent.graph, CONFIG, turn(4))
    ticking.cancel()
    assert agent.asked("observer") == 1


def test_hook_sees_the_context_of_the_run() -> None:
    from langgraph.config import get_config  # noqa: PLC0415

    threads = []

    def look(messages: list[BaseMessage], _: Any) -> list[BaseMessage]:
        threads.append(get_config()["configurable"]["thread_id"])
        return messages

    for executor in ("", *EXECUTORS):
        converse(agent_with({"before_observation": look}, executor), 8)
    asyncio.run(
        agent_with({"before_observation": look}).graph.ainvoke({"messages": turns(9)}, CONFIG)
    )
    assert len(threads) >= 5
    assert set(threads) == {"t"}


# --- on_debug_event ------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_debug_callback_is_told_of_each_event(executor: str) -> None:
    events: list[dict[str, Any]] = []
    agent = agent_with({}, executor, log=130, on_debug_event=events.append)
    parts = converse(agent, 16)
    assert {event["type"] for event in events} == {
        *("observation_triggered", "observation_complete"),
        *("reflection_triggered", "reflection_complete", "step_progress"),
    }
    check_pairs(
        [
            (
                f"on_{event['operation']}_{'start' if 'triggered' in event['type'] else 'end'}",
                {key: value for key, value in event.items() if key != "type"},
            )
            for event in events
            if event["type"] != "step_progress"
        ]
    )
    steps = [event for event in events if event["type"] == "step_progress"]
    statuses = of_kind(parts, "status")
    assert [step["step_number"] for step in steps] == [data["stepNumber"] for data in statuses]
    assert [step["windows"]["active"] for step in steps] == [
        data["windows"]["active"] for data in statuses
    ]


def test_debug_callback_is_told_everything_in_snake_case() -> None:
    events: list[dict[str, Any]] = []
    agent = agent_with({}, "", log=130, on_debug_event=events.append)
    converse(agent, 16)
    assert len({event["type"] for event in events}) == 5

    def keys_of(value: Any) -> list[str]:
        inner = value if isinstance(value, dict) else {}
        return [
            *inner,
            *(name for key, of in inner.items() if key != "usage" for name in keys_of(of)),
        ]

    for event in events:
        assert event["record_id"]
        assert event["thread_id"]
        assert [key for key in keys_of(event) if not key.islower()] == []
    step = next(event for event in events if event["type"] == "step_progress")
    assert step["windows"]["buffered"]["observations"]["message_tokens"] == 0


def test_debug_callback_of_steps_without_a_graph_and_of_failures() -> None:
    events: list[dict[str, Any]] = []
    model = scripted(observer=ConnectionError("away"))
    memory = remembering(model, Clock(), on_debug_event=events.append)
    memory.step(None, turns(9), thread_id="t")
    assert [event["type"] for event in events] == [
        *("observation_triggered", "observation_complete", "step_progress")
    ]
    assert "away" in events[1]["error"]


def debug_raises(event: dict[str, Any]) -> None:
    msg = f"no room for {event['type']}"
    raise OSError(msg)


def debug_scribbles(event: dict[str, Any]) -> None:
    for value in event.values():
        if isinstance(value, dict):
            value.clear()
    event.clear()


def hidden_async(event: dict[str, Any]) -> Any:
    return araises(event)


@pytest.mark.parametrize(
    ("debug", "logged"),
    [
        (debug_raises, "`on_debug_event` failed on 'step_progress'"),
        (debug_scribbles, ""),
        (hidden_async, "it was not run on 'step_progress'"),
    ],
    ids=["raises", "scribbles", "hidden async"],
)
def test_debug_callback_changes_nothing(
    debug: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain, agent = agent_with({}), agent_with({}, on_debug_event=debug)
    expected = converse(plain, 10)
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        parts = converse(agent, 10)
    assert without_times(parts) == without_times(expected)
    assert outcome(values(agent.graph, CONFIG)) == outcome(values(plain.graph, CONFIG))
    assert logged in caplog.text
    assert bool(caplog.text) == bool(logged)


async def acallback(_: dict[str, Any]) -> None:
    """Be async, where that is not allowed."""


class AsyncCallback:
    async def __call__(self, event: dict[str, Any]) -> None:
        """Be async without looking like it."""


def generates(*_: Any) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hooks": {"on_observe": print}}, "`hooks` has 'on_observe'; the hooks are on_observ"),
        ({"hooks": {3: print}}, "`hooks` has 3"),
        ({"hooks": {"before_observation": "redact"}}, r"`hooks\['before_observation'\]` is 'red"),
        ({"hooks": {"before_observation": None}}, "is None; pass a function"),
        ({"hooks": {"before_observation": generates}}, "pass a function that returns"),
        ({"hooks": [print]}, r"`hooks` is \[<built-in function print>\]; pass a mapping"),
        ({"hooks": print}, "pass a mapping"),
        ({"on_debug_event": acallback}, "that is not async"),
        ({"on_debug_event": AsyncCallback()}, "that is not async"),
        ({"on_debug_event": partial(acallback)}, "that is not async"),
        ({"on_debug_event": generates}, "pass a function of one mapping"),
        ({"on_debug_event": "print"}, "`on_debug_event` is 'print'"),
    ],
)
def test_hooks_that_can_not_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ObservationalMemory(scripted(), **options)


# --- Traces --------------------------------------------------------------------------------------


class Tracer(BaseCallbackHandler):
    """What a tracer sees: each run with its parent, and whether it ended."""

    def __init__(self) -> None:
        self.runs: dict[Any, dict[str, Any]] = {}
        self.ended: set[Any] = set()

    def on_chain_start(self, _serialized: Any, _inputs: Any, **about: Any) -> None:
        self.runs[about["run_id"]] = about

    def on_chat_model_start(self, _serialized: Any, messages: Any, **about: Any) -> None:
        self.runs[about["run_id"]] = {**about, "messages": messages}

    def on_chain_end(self, _outputs: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def on_llm_end(self, _response: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def on_llm_error(self, _error: Any, **about: Any) -> None:
        self.ended.add(about["run_id"])

    def named(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run.get("name") == name]

    def roots(self, name: str) -> set[Any]:
        """The outermost runs of all runs of a name."""
        found = set()
        for run in self.named(name):
            at = run
            while at["parent_run_id"] is not None:
                at = self.runs[at["parent_run_id"]]
            found.add(at["run_id"])
        return found


def traced(tracer: Any, **configurable: Any) -> RunnableConfig:
    return {**on_thread("t", **configurable), "callbacks": [tracer], "run_name": "trip"}


def check_metadata(tracer: Tracer, trigger: str) -> None:
    """Each call says by tags and metadata what it was for."""
    observed = tracer.named("om_observer")
    assert {call["metadata"]["om_trigger"] for call in observed} == {trigger}
    for role, operation in (("observer", "observation"), ("reflector", "reflection")):
        calls = tracer.named(f"om_{role}")
        assert calls
        for call in calls:
            assert {"nostream", f"om_{role}"} <= set(call["tags"])
            metadata = call["metadata"]
            assert metadata["om_role"] == role
            assert metadata["om_operation"] == operation
            assert (metadata["om_thread_id"], metadata["om_resource_id"]) == ("t", "ann")
            assert metadata["om_cycle_id"]
            assert metadata["om_record_id"]
            assert call["run_id"] in tracer.ended


def test_calls_are_children_of_the_graph_run() -> None:
    tracer, agent = Tracer(), agent_with({}, log=130)
    talk(agent.graph, traced(tracer, resource_id="ann"), turns(10))
    graph_runs = {run["run_id"] for run in tracer.named("trip")}
    assert len(graph_runs) == 10
    assert tracer.roots("om_observer") | tracer.roots("om_reflector") <= graph_runs
    nodes = {tracer.runs[run["parent_run_id"]]["name"] for run in tracer.named("om_observer")}
    assert nodes == {"om_observe"}
    assert len(tracer.named("om_observer")) == agent.asked("observer")
    check_metadata(tracer, "turn")


async def test_calls_are_children_of_the_async_graph_run() -> None:
    tracer, agent = Tracer(), agent_with({}, log=130)
    await atalk(agent.graph, traced(tracer, resource_id="ann"), turns(10))
    graph_runs = {run["run_id"] for run in tracer.named("trip")}
    assert tracer.roots("om_observer") | tracer.roots("om_reflector") <= graph_runs
    check_metadata(tracer, "turn")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_calls_ahead_of_need_are_children_of_the_run_that_asked(executor: str) -> None:
    tracer, agent = Tracer(), agent_with({}, executor, log=600)
    for message in turns(26):
        say(agent.graph, traced(tracer, resource_id="ann"), message)
        agent.memory.flush(20)
    graph_runs = {run["run_id"] for run in tracer.named("trip")}
    assert tracer.roots("om_observer") | tracer.roots("om_reflector") <= graph_runs
    check_metadata(tracer, "buffer")


class Collector(BaseTracer):
    """A tracer on the base that LangSmith's has: it pairs a run with its parent by its own maps."""

    def __init__(self) -> None:
        super().__init__()
        self.trees: list[Run] = []
        self.started: dict[str, list[Run]] = {}

    def _persist_run(self, run: Run) -> None:
        self.trees.append(run)

    def _start_trace(self, run: Run) -> None:  # type: ignore[override]
        super()._start_trace(run)
        self.started.setdefault(run.name, []).append(run)


def test_job_that_outlives_its_run_is_recorded_in_the_same_trace(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def held(messages: list[BaseMessage]) -> str:
        gate.wait(10)
        return ExtractiveObserver().reply(messages)

    agent = agent_with({}, "background", model=scripted(observer=held))
    collector = Collector()
    with caplog.at_level(logging.WARNING):
        for message in turns(20):
            if of_kind(say(agent.graph, traced(collector), message), "buffering-start"):
                break
        runs_over = len(collector.trees)
        gate.set()
        agent.memory.flush(20)
    (call,) = collector.started["om_observer"]
    assert call.end_time is not None
    assert call.error is None
    assert len([tree for tree in collector.trees if tree.name == "trip"]) == runs_over
    assert call.parent_run_id is not None
    assert call.trace_id == collector.started["trip"][-1].id
    assert str(call.trace_id) in str(call.dotted_order)
    assert call.extra["metadata"]["om_trigger"] == "buffer"
    assert caplog.text == ""


def costly(name: str, reply: Callable[[list[BaseMessage]], Any]) -> Callable[..., AIMessage]:
    """A model that names itself and what an answer cost, as providers do."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        said = reply(messages)
        return AIMessage(
            getattr(said, "content", said),
            usage_metadata={"input_tokens": 30, "output_tokens": 4, "total_tokens": 34},
            response_metadata={"model_name": name},
        )

    return answer


@pytest.mark.parametrize("executor", ["", *EXECUTORS])
def test_usage_callback_sums_what_the_observer_spent(executor: str) -> None:
    observer = costly("small", ExtractiveObserver().reply)
    agent = agent_with({}, executor, model=scripted(observer=observer))
    with get_usage_metadata_callback() as usage:
        converse(agent, 6)
    record = record_of(agent.graph, CONFIG)
    noted, pending = record["usage"]["observation"], len(record["pending"])
    spent = usage.usage_metadata["small"]
    assert spent["input_tokens"] == 30 * agent.asked("observer") > 0
    assert spent["output_tokens"] == 4 * agent.asked("observer")
    assert noted["calls"] == agent.asked("observer") - pending
    assert noted["inputTokens"] == spent["input_tokens"] - 30 * pending


def test_collected_runs_hold_the_calls() -> None:
    agent = agent_with({})
    with collect_runs() as collected:
        talk(agent.graph, {**CONFIG, "run_name": "trip"}, turns(5))

    def names(run: Run) -> Iterator[str]:
        yield run.name
        for child in run.child_runs:
            yield from names(child)

    # LangGraph shows this collector each node as a root of its own.
    trees = [list(names(run)) for run in collected.traced_runs]
    assert [tree for tree in trees if "om_observer" in tree] == [["om_observe", "om_observer"]]


def test_steps_without_a_graph_are_traced_by_the_given_configuration() -> None:
    for is_async in (False, True):
        tracer = Tracer()
        memory = remembering(scripted(), Clock())
        if is_async:
            asyncio.run(memory.astep(None, turns(9), thread_id="t", config=traced(tracer)))
        else:
            memory.step(None, turns(9), thread_id="t", config=traced(tracer))
        (call,) = tracer.named("om_observer")
        assert call["parent_run_id"] is None
        assert call["metadata"]["om_trigger"] == "turn"
        assert "om_resource_id" not in call["metadata"]


def test_traces_show_what_the_hook_left() -> None:
    tracer = Tracer()
    agent = agent_with({"before_observation": redact_copies})
    talk(agent.graph, traced(tracer), turns(6))
    seen = [str(run["messages"]) for run in tracer.named("om_observer")]
    assert seen
    assert all(SECRET not in text and "[name]" in text for text in seen)
