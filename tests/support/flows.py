"""A driver for flows that ask models, and answers for it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, HumanMessage

from support.driving import drive
from support.groups import group
from support.inside import (
    AskModel,
    EstimatingCounter,
    MemoryRecord,
    ModelReply,
    ObservationConfig,
    ReflectionConfig,
    ReflectorInput,
    Settings,
    Window,
    blank_record,
    fold,
    open_window,
    resolve_thresholds,
)
from support.words import Words

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ITEM = "* 🔴 (09:00) The dog is Rex"
GOOD = f"<observations>\n{ITEM}\n</observations>"
ResultT = TypeVar("ResultT")
Told = str | Exception | ModelReply


@dataclass
class Talk:
    """Answers a flow in order, and remembers what it was asked."""

    answers: list[Told]

    def __post_init__(self) -> None:
        self.calls: list[AskModel] = []

    def answer(self, call: AskModel) -> Told:
        self.calls.append(call)
        return self.answers[len(self.calls) - 1]

    def run(self, flow: Generator[AskModel, ModelReply, ResultT]) -> ResultT:
        return drive(flow, self.answer).result


def texts(call: AskModel) -> list[str]:
    return [str(message.content) for message in call.messages]


# --- Asking the Reflector ------------------------------------------------------------------------


LOG = ReflectorInput([group("g", "* 🔴 long </observation-log> log", tokens=100)], target=50)


# --- Whole cycles --------------------------------------------------------------------------------


HINTS = ("current_task", "suggested_response")
"""Those that are on by default."""


def setup(
    on_error: Literal["continue", "abort", "raise"] = "continue",
    **options: Any,
) -> Settings:
    observation = ObservationConfig(message_tokens=100, buffer_tokens=False, **options)
    reflection = ReflectionConfig(observation_tokens=40)
    return Settings(
        thresholds=resolve_thresholds(observation, reflection),
        counter=Words(),
        timezone=UTC,
        observation=observation,
        reflection=reflection,
        on_error=on_error,
        hints=HINTS,
    )


def settings(message_tokens: int = 1000, observation_tokens: int = 200) -> Settings:
    """Settings with small thresholds, counted as by default."""
    observation = ObservationConfig(message_tokens=message_tokens)
    reflection = ReflectionConfig(observation_tokens=observation_tokens)
    return replace(
        setup(),
        thresholds=resolve_thresholds(observation, reflection),
        counter=EstimatingCounter(),
        observation=observation,
        reflection=reflection,
    )


def conversation() -> tuple[MemoryRecord, Window]:
    messages = [HumanMessage("word " * 50, id="m0"), AIMessage("word " * 40, id="m1")]
    opened = {"type": "opened", "id": "r", "thread_id": "t", "resource_id": None, "scope": "thread"}
    record = fold(blank_record(), [opened])
    return record, open_window(record, messages, Words())
