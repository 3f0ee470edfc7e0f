"""Agents with hooks, and what is told of a conversation with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import BackgroundBuffering, InlineBuffering
from support.agents import Agent, Part, dumped, make_agent, on_thread, say, turns, uncovered, values

CONFIG = on_thread()

EXECUTORS: dict[str, Callable[[], Any]] = {
    "background": BackgroundBuffering,
    "inline": InlineBuffering,
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
        assert agent.memory.flush(120)
        state = values(agent.graph, config)
        assert state["messages"][-1].id == f"{message.id}-answer"
        assert uncovered(agent.memory, state) == []
    return parts


def without_times(parts: list[Part]) -> list[Part]:
    return [
        {**part, "data": {k: v for k, v in part["data"].items() if k != "durationMs"}}
        for part in parts
    ]


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


# --- Lifecycle hooks change nothing --------------------------------------------------------------


def raises(about: dict[str, Any]) -> None:
    msg = f"no room for {about['operation']}"
    raise OSError(msg)


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


# --- before_observation --------------------------------------------------------------------------


SECRET = "Ana"  # noqa: S105 a name in every turn that the fixtures write


def redact_copies(messages: list[BaseMessage], about: Mapping[str, Any]) -> list[BaseMessage]:
    assert set(about) == ABOUT
    return [m.model_copy(update={"content": m.text.replace(SECRET, "[name]")}) for m in messages]


def said(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation without what the Actor's input cost, which depends on memory."""
    return [{**message, "usage_metadata": None} for message in dumped(state["messages"])]
