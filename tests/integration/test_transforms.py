"""Hooks that change what is observed and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from support.agents import (
    Agent,
    Part,
    of_kind,
    record_of,
    scripted,
    values,
)
from support.hooks import (
    ABOUT,
    BLOCKING,
    BUFFERED,
    CONFIG,
    EXECUTORS,
    SECRET,
    Told,
    agent_with,
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
