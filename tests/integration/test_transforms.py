"""Hooks that change what is observed and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from langgraph_om import ObserverError
from support.agents import (
    Agent,
    Part,
    asay,
    atalk,
    of_kind,
    record_of,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)
from support.clock import Clock
from support.hooks import (
    ABOUT,
    BLOCKING,
    BUFFERED,
    CONFIG,
    EXECUTORS,
    SECRET,
    Told,
    agent_with,
    check_pairs,
    converse,
    listeners,
    redact_copies,
    said,
)


def everything(agent: Agent, parts: list[Part]) -> str:
    """All that anybody could read later: parts, records and raw checkpoints without messages."""
    records = [
        checkpoint.checkpoint["channel_values"].get("om")
        for checkpoint in agent.graph.checkpointer.list(CONFIG)  # type: ignore[union-attr]
    ]
    return json.dumps([parts, records], ensure_ascii=False, default=str)


# --- before_observation --------------------------------------------------------------------------


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

    agent = agent_with({"before_reflection": before, "after_reflection": after}, executor, log=200)
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
