"""A driver that runs a flow of the memory from replies that a test wrote down."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    CallReply,
    CallWithConfig,
    FindPart,
    ModelReply,
    ReadTally,
    Storage,
    Tally,
    Together,
    Warn,
)

ResultT = TypeVar("ResultT")

ANSWERED_AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When a model answers that was scripted with a text or an error."""

Answers = Iterable[Any] | Callable[[Any], Any]
"""Replies in order, or a function that is given an effect and returns the reply to it."""


_CALLS = (CallHook, CallWithConfig, Storage)


@dataclass(frozen=True, slots=True)
class FlowRun(Generic[ResultT]):
    """What a flow did."""

    result: ResultT
    events: list[dict[str, Any]] = field(default_factory=list)
    """Its events, in order."""
    effects: list[Any] = field(default_factory=list)
    """What else it yielded, in order: questions, calls, waits and warnings."""


def drive(
    flow: Generator[Any, Any, ResultT],
    answers: Answers = (),
    *,
    events: list[dict[str, Any]] | None = None,
) -> FlowRun[ResultT]:
    """Run a flow to its end from scripted replies.

    A model is answered by a `ModelReply`, a text, or an error; a hook by a `CallReply`, a value or
    an error; a call of a method of the archive or of what a process remembers of it by a
    `CallReply`, a value or an error; anything else by the reply itself. What the cycle has cost is
    counted here; a warning needs no reply. Flows that go on side by side are run one after the
    other, from the same replies.

    Args:
        events: Where events are noted as they happen, for a flow that raises.
    """
    script = answers if callable(answers) else _take_in_turn(answers)
    run = _Run(script, events=[] if events is None else events)
    return FlowRun(run.follow(flow), run.events, run.effects)


def _take_in_turn(answers: Iterable[Any]) -> Callable[[Any], Any]:
    left = iter(answers)

    def answer(effect: Any) -> Any:
        for reply in left:
            return reply
        msg = f"no reply is scripted for {effect!r}"
        raise AssertionError(msg)

    return answer


class _Part:
    """What a memory has of some kind: of each method its name, and whoever is told of a call."""

    def __init__(self, called: Callable[..., Any]) -> None:
        self._called = called

    def __getattr__(self, name: str) -> _Method:
        method = _Method(name)
        method.called = self._called
        return method


class _Method(str):  # noqa: SLOT000 it is given one attribute
    """A method by its name, so that a test can compare it with that."""

    called: Callable[..., Any]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.called(self, *arguments, **options)


@dataclass(slots=True)
class _Run:
    """One flow, or one of several side by side."""

    answer: Callable[[Any], Any]
    tally: Tally = field(default_factory=Tally)
    events: list[dict[str, Any]] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)

    def follow(self, flow: Generator[Any, Any, ResultT]) -> ResultT:
        reply: Any = None
        while True:
            try:
                item = flow.send(reply)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            reply = self.take(item)

    def take(self, item: Any) -> Any:
        """Note what a flow yielded, and return the reply."""
        if isinstance(item, Mapping):
            self.events.append(dict(item))
            return None
        if isinstance(item, ReadTally):
            return self.tally
        if isinstance(item, FindPart):
            return _Part(self.call)
        self.effects.append(item)
        if isinstance(item, Warn):
            return None
        if isinstance(item, Together):
            return [self.follow_beside(flow) for flow in item.flows]
        reply = _read_reply(item, self.answer(item))
        if isinstance(reply, ModelReply):
            self.tally.note(reply)
        return reply

    def call(self, name: _Method, *arguments: Any, **options: Any) -> Any:
        """Note a call of what does not wait, and return what was scripted for it."""
        return self.take(Storage(name, arguments, options)).unwrap()

    def follow_beside(self, flow: Generator[Any, Any, Any]) -> Any:
        beside = _Run(self.answer, Tally(), self.events, self.effects)
        result = beside.follow(flow)
        self.tally.add(beside.tally)
        return result


def _read_reply(effect: Any, said: Any) -> Any:
    """Return the reply that was scripted, in its full form."""
    if isinstance(said, ModelReply | CallReply):
        return said
    error = said if isinstance(said, Exception) else None
    value = None if error is not None else said
    if isinstance(effect, AskModel):
        return ModelReply(ANSWERED_AT, text=str(value or ""), error=error)
    return CallReply(value, error) if isinstance(effect, _CALLS) else said
