"""What a flow asks of the world: questions to models, calls of hooks, waits, flows side by side.

A flow yields them and is sent the replies; whoever drives it asks, calls and waits. Nothing here
waits, sleeps or stores.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.attachments import Attachment
from langgraph_om.core.wire import Event

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class AskModel:
    """A question to a model; whoever drives the flow asks it."""

    role: Literal["observer", "reflector"]
    messages: list[BaseMessage]
    """As text; what is attached is put in for the model that is really asked."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What it is asked for: the cycle, its trigger and whose conversation it is."""
    attachments: Sequence[Attachment] = ()
    """What is attached to the messages in it, oldest first."""
    by_profile: bool = True
    """Whether a model is sent only what its profile says that it takes."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came of a `ModelCall`."""

    at: datetime
    text: str = ""
    cut_off: bool = False
    """Whether the provider says that the output limit ended the answer."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """`inputTokens` and `outputTokens` as the provider counts them."""
    error: Exception | None = None
    """Why there is no answer."""


Flow = Generator[AskModel, ModelReply, ResultT]
"""Yields questions, is sent replies, returns a result; written once for sync and async."""


@dataclass(frozen=True, slots=True)
class CallHook:
    """A call of one of the user's hooks; whoever drives the flow makes it."""

    name: str
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class HookReply:
    """What came of a `HookCall`."""

    value: Any = None
    error: Exception | None = None
    is_late: bool = False
    """Whether it did not return within the deadline."""


JobState = Event | Literal["running", "expired"] | None
"""A job as its executor knows it: its result, still at work, left by the worker that had it, or not
known there."""


@dataclass(frozen=True, slots=True)
class WaitForJob:
    """A background job whose result is worth waiting for."""

    cycle_id: str


@dataclass(frozen=True, slots=True)
class Together:
    """Flows that go on at the same time; none of them yields anything but calls."""

    flows: Sequence[Generator[Any, Any, Any]]


Step = AskModel | CallHook | WaitForJob | Together | Event
"""What a cycle yields."""
Answer = ModelReply | HookReply | Event | list[Any] | str | None
"""What it is sent: a reply to a `ModelCall` or `HookCall`, a job's state to a `Wait`, what each
flow returned to a `Together`, nothing to an event."""

CycleFlow = Generator[Step, Answer, None]


def pass_through(flow: Generator[CallHook, HookReply, ResultT]) -> Generator[Step, Answer, ResultT]:
    """Pass calls of hooks through."""
    try:
        call = next(flow)
        while True:
            reply = yield call
            if not isinstance(reply, HookReply):
                msg = f"a cycle that calls a hook was sent {reply!r}; send a `HookReply`"
                raise TypeError(msg)
            call = flow.send(reply)
    except StopIteration as done:
        result: ResultT = done.value
        return result


@dataclass(slots=True)
class Tally:
    """What the calls of one cycle cost, and when the last one ended."""

    at: datetime
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def metered(
        self, flow: Flow[ResultT], about: Mapping[str, Any]
    ) -> Generator[Step, Answer, ResultT]:
        """Pass a flow through: say what it asks for, note the time and the usage of each reply."""
        try:
            call = next(flow)
            while True:
                reply = yield replace(call, about=about)
                if not isinstance(reply, ModelReply):
                    msg = f"a cycle that asks a model was sent {reply!r}; send a `ModelReply`"
                    raise TypeError(msg)
                self.at = reply.at
                self.calls += 1
                self.input_tokens += reply.usage.get("inputTokens", 0)
                self.output_tokens += reply.usage.get("outputTokens", 0)
                call = flow.send(reply)
        except StopIteration as done:
            result: ResultT = done.value
            return result

    def add(self, other: Tally) -> None:
        """Take in what another part of the cycle cost."""
        self.at = max(self.at, other.at)
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens

    def usage(self) -> dict[str, int]:
        """Return the costs as they stand in events and in the record."""
        return {
            "calls": self.calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }
