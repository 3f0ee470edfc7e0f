"""The effects that a flow asks for: values, none of which waits.

A flow is a generator. It yields effects, such as a question to a model, a call of the storage, a
pause, or an event as it happens, and is sent the reply to each; a failure is a reply too.
`runtime/flows.py` does what they say, once for callers that wait and once for callers that await.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import Attachment
from langgraph_om.core.wire import Event, JobResult, Usage

ResultT = TypeVar("ResultT")
P = ParamSpec("P")

# --- Models and hooks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskModel:
    """A question to a model. The reply is a `ModelReply`."""

    role: str
    """`observer`, `reflector`, or the name of a feature's `Role`."""
    messages: list[BaseMessage]
    """As text; what is attached is put in for the model that is really asked."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What it is asked for: the cycle, its trigger and whose conversation it is. The driver of a
    cycle fills it in."""
    attachments: Sequence[Attachment] = ()
    """What is attached to the messages in it, oldest first."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came of an `AskModel`."""

    at: datetime
    text: str = ""
    cut_off: bool = False
    """Whether the provider says that the output limit ended the answer."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """`input_tokens` and `output_tokens` as the provider counts them."""
    error: Exception | None = None
    """Why there is no answer."""
    room: int = 0
    """Where a model refused the question, or does not read as much: about how many tokens one may
    have. 0 where a shorter question does not help."""


@dataclass(slots=True)
class Tally:
    """What the questions of one cycle cost, and when the last one was answered."""

    at: datetime | None = None
    """`None` before the first answer."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def note(self, reply: ModelReply) -> None:
        """Take in one answer."""
        self.at = reply.at
        self.calls += 1
        self.input_tokens += reply.usage.get("input_tokens", 0)
        self.output_tokens += reply.usage.get("output_tokens", 0)

    def add(self, other: Tally) -> None:
        """Take in what another part of the cycle cost."""
        if other.at is not None:
            self.at = other.at if self.at is None else max(self.at, other.at)
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens

    def usage(self) -> Usage:
        """Return the costs as they stand in events and in the record."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }


@dataclass(frozen=True, slots=True)
class ReadTally:
    """What the cycle has cost so far. The reply is the `Tally` that its driver keeps."""


@dataclass(frozen=True, slots=True)
class CallHook:
    """A call of one of the user's hooks. The reply is a `CallReply`."""

    name: str
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class CallWithConfig:
    """A call of a function of the run's configuration. The reply is a `CallReply`."""

    name: str
    """Of the option that it is."""
    function: Callable[..., Any]


# --- Storage -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Storage:
    """A call of a method that waits for a storage. The reply is a `CallReply`."""

    method: Callable[..., Any]
    arguments: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by name."""


def call_storage(
    method: Callable[P, ResultT], *arguments: P.args, **options: P.kwargs
) -> EffectFlow[ResultT]:
    """Call a method that waits for a storage, and return what it returns.

    Raises:
        ArchiveError: When the storage fails.
        ConfigurationError: When the storage refuses what it is given.
    """
    reply: CallReply = yield Storage(method, arguments, options)
    result: ResultT = reply.unwrap()
    return result


# --- Jobs and time -------------------------------------------------------------------------------

JobState = JobResult | Literal["running", "expired", "withdrawn"] | None
"""A job as its executor knows it: its result, still at work, left by the worker that had it, taken
back before it was begun because a turn waits for it, or not known there."""


@dataclass(frozen=True, slots=True)
class PeekJobs:
    """How far background jobs are. The reply has a `JobState` per operation."""

    cycle_ids: Mapping[Any, str]
    """Per operation, or by a word of a feature, the id of the job's cycle."""


@dataclass(frozen=True, slots=True)
class WaitForJob:
    """A background job whose result is worth waiting for. The reply is its `JobState`."""

    cycle_id: str


@dataclass(frozen=True, slots=True)
class Submit:
    """A job to give to the executor. The reply says whether it was taken."""

    function: Callable[[], bool]


# --- Events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """A cycle with a deadline and costs of its own. The reply has its events."""

    flow: EffectFlow[None]
    waited: float
    """Seconds that its turn has waited already, which are taken off the deadline."""


@dataclass(frozen=True, slots=True)
class Show:
    """Events to show that are not of a cycle of this flow."""

    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Warn:
    """A line for the log, in the form of the standard library: a text and what is put into it."""

    text: str
    arguments: Sequence[Any] = ()
    error: Exception | None = None
    """With an error, the line is logged as one, with its traceback."""


# --- What needs no memory -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call. The reply is a `CallReply`."""

    function: Callable[[], Any]
    """What it returns is awaited where it has to be."""
    name: str
    seconds: float | None = None
    """How long to wait at most, before it is left behind; `None`: as long as it takes."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """A call of a graph or a checkpointer. The reply is a `CallReply`, of an iterator a list."""

    method: Callable[..., Any]
    amethod: Callable[..., Any]
    """The same one, to be awaited."""
    arguments: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallReply:
    """What came of a call of a function, a hook or the storage."""

    value: Any = None
    error: Exception | None = None

    @property
    def failure(self) -> str:
        """Why there is no value, without what the error may quote."""
        is_late = isinstance(self.error, LateError)
        return "it did not return in time" if is_late else type(self.error).__name__

    def unwrap(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """Flows that go on side by side. The reply has what each of them returned.

    They ask models and hooks, and nothing else.
    """

    flows: Sequence[Generator[Any, Any, Any]]


class LateError(TimeoutError):
    """A call did not end in its time."""


def stops_run(error: BaseException) -> bool:
    """Return whether LangGraph stops a run with it on purpose, as by an interrupt."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def call_function(function: Callable[[], Any], name: str) -> Requests[Any]:
    """Call a function, and return what it returns."""
    reply: CallReply = yield Call(function, name)
    return reply.unwrap()


def call_graph(
    method: Callable[..., Any], amethod: Callable[..., Any], *arguments: Any, **options: Any
) -> Requests[Any]:
    """Call a method of a compiled graph or a checkpointer, in the form that fits the run."""
    reply: CallReply = yield CallGraph(method, amethod, arguments, options)
    return reply.unwrap()


Request = Call | CallGraph | Pause | Together
Requests = Generator[Request, Any, ResultT]
"""A flow that needs no memory to be done."""

Effect = (
    Request
    | AskModel
    | ReadTally
    | CallHook
    | CallWithConfig
    | Storage
    | PeekJobs
    | WaitForJob
    | Submit
    | Work
    | Show
    | Warn
    | Event
)
"""What a flow yields."""

EffectFlow = Generator[Effect, Any, ResultT]
"""Yields effects, is sent what they say the reply is, and returns a result."""

Flow = Generator[AskModel, ModelReply, ResultT]
"""A flow that asks a model and nothing else."""
