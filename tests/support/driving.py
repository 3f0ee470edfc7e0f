"""A driver that runs a flow of the memory from replies that a test wrote down."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from support.inside import AskModel, ModelReply, ReadTally, Tally, Warn

ResultT = TypeVar("ResultT")

ANSWERED_AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When a model answers that was scripted with a text or an error."""


@dataclass
class FlowRun(Generic[ResultT]):
    """What a flow did: its result, its events, and its questions, in order."""

    result: ResultT
    events: list[dict[str, Any]] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)


def drive(
    flow: Generator[Any, Any, ResultT], answers: Iterable[Any] | Callable[[AskModel], Any] = ()
) -> FlowRun[ResultT]:
    """Run a flow to its end; a model is answered by a `ModelReply`, a text, or an error.

    Args:
        flow: A flow that asks models.
        answers: The answers in order, or a function that is given a question.
    """
    script = iter(()) if callable(answers) else iter(answers)
    run: FlowRun[Any] = FlowRun(None)
    tally, reply = Tally(), None
    while True:
        try:
            item = flow.send(reply)
        except StopIteration as done:
            run.result = done.value
            return run
        reply = None
        if isinstance(item, Mapping):
            run.events.append(dict(item))
        elif isinstance(item, ReadTally):
            reply = tally
        elif not isinstance(item, Warn):
            run.effects.append(item)
            said = answers(item) if callable(answers) else next(script)
            if not isinstance(said, ModelReply):
                is_error = isinstance(said, Exception)
                text, error = ("", said) if is_error else (str(said or ""), None)
                said = ModelReply(ANSWERED_AT, text=text, error=error)
            tally.note(said)
            reply = said
