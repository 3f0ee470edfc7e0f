"""Agents to measure: with memory and without, a watch that stops in models, and a full log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from conversation import COUNTER, conversation
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from metered import Metered
from typing_extensions import TypedDict

from langgraph_om import ObservationalMemory
from langgraph_om.core.wire import Group
from langgraph_om.integrations.channels import messages_reducer
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

Graph = CompiledStateGraph[Any, Any, Any, Any]
PROMPT = "You are a patient companion who answers briefly and remembers what was said."


def noon() -> datetime:
    """A clock that stands still, after every generated conversation."""
    return datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def on_thread(thread: str = "t") -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


# --- Models --------------------------------------------------------------------------------------


class Stopwatch:
    """Own time: the processor's while a lap lasts, without the time in a model."""

    def __init__(self, model: Metered) -> None:
        self.model = model
        self.laps: list[float] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        before = self.model.seconds
        started = time.process_time()
        yield
        self.laps.append(time.process_time() - started - (self.model.seconds - before))


def extractive(**options: Any) -> ScriptedChatModel:
    """A model for Observer and Reflector that quotes what it reads."""
    return ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply, **options
    )


def remembering(
    model: BaseChatModel,
    *,
    message_tokens: int = 30_000,
    buffer_tokens: float | None = None,
    **options: Any,
) -> ObservationalMemory:
    """A memory whose log threshold is in the default proportion to the window's.

    `buffer_tokens` is the default interval when it is `None`, and 0 switches buffering off.
    """
    observation: dict[str, Any] = {"message_tokens": message_tokens}
    if buffer_tokens is not None:
        observation["buffer_tokens"] = buffer_tokens or False
    return ObservationalMemory(
        model,
        observation=observation,
        reflection={"observation_tokens": message_tokens * 4 // 3},
        **{"clock": noon, **options},
    )


# --- Graphs --------------------------------------------------------------------------------------


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]


class PlainState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


# --- A thread with a past ------------------------------------------------------------------------


def full_log(ids: Sequence[str], groups: int, group_tokens: int = 480) -> list[Group]:
    """An observation log of so many groups over the messages with these ids."""
    source = conversation(groups * 40, words=14, seed=9, calls_every=0)
    log: list[Group] = []
    for number in range(groups):
        lines = [f"Date: Jan {number % 28 + 1}, 2026"]
        for message in source[number * 40 :]:
            if COUNTER.count_text("\n".join(lines)) >= group_tokens:
                break
            lines.append(f"* 🔴 (09:30) {message.text}")
        first = ids[len(ids) * number // groups]
        last = ids[max(len(ids) * number // groups, len(ids) * (number + 1) // groups - 1)]
        text = "\n".join(lines)
        log.append(
            {
                "id": f"group-{number}",
                "kind": "observation",
                "ranges": [[first, last]],
                "thread_id": "t",
                "observed_at": noon().isoformat(),
                "text": text,
                "tokens": COUNTER.count_text(text),
            }
        )
    return log
