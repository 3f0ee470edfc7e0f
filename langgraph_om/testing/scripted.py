"""A chat model, and a flow of the memory, that are answered as a test wrote it down.

No models are asked, and there are no threads and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    CallWithConfig,
    HookReply,
    KeepLease,
    ModelReply,
    ReadTally,
    Storage,
    StorageReply,
    Tally,
    Together,
    Warn,
)
from langgraph_om.errors import ConfigurationError
from langgraph_om.testing.offline import OfflineChatModel, Reply, Role, Tape


class ScriptedChatModel(OfflineChatModel):
    """Answer what a test wrote down, by role: one model for Actor, Observer and Reflector.

    A call made under the run name (or tag) `om_observer`, or with `om_role: "observer"` in its
    metadata, is the Observer's; the Reflector's likewise; any other is the Actor's. Replies
    are used in order and the last one repeats. A reply is a text, an `AIMessage`, an error to
    raise, or a function of the received messages; a single reply needs no list.

        >>> model = ScriptedChatModel(["hello", "bye"], observer="<observations>...")
        >>> [model.invoke("hi").content for _ in range(3)]
        ['hello', 'bye', 'bye']
        >>> model.invoke("look", {"run_name": "om_observer"}).content
        '<observations>...'
        >>> [call["role"] for call in model.calls]
        ['actor', 'actor', 'actor', 'observer']

    Answers stream word by word and tool calls in pieces, as from a provider. A message keeps the
    id it was written with, once: when it repeats it gets a new one, so that it is appended to a
    thread instead of replacing its first appearance. Missing usage is made up from characters.
    """

    def __init__(
        self,
        actor: Reply | Sequence[Reply] = (),
        observer: Reply | Sequence[Reply] = (),
        reflector: Reply | Sequence[Reply] = (),
        *,
        title: Reply | Sequence[Reply] = (),
        delay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Write the scripts.

        Args:
            actor: The Actor's replies; `"ok"` when there are none.
            observer: The Observer's replies; asking for one when there are none is an error.
            reflector: The Reflector's replies; as for the Observer.
            title: The replies to the question for a thread's title; as for the Observer.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has, such as `disable_streaming`.
        """
        super().__init__(delay=delay, **kwargs)
        self._tape = Tape(
            {
                "actor": _check_script("actor", actor) or ("ok",),
                "observer": _check_script("observer", observer),
                "reflector": _check_script("reflector", reflector),
                "title": _check_script("title", title),
            }
        )

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-scripted"

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:
        read = self._tape.record(role, messages)
        script = self._tape.scripts[role]
        if not script:
            msg = f"no reply scripted for role {role!r}; pass `{role}=[...]`."
            raise AssertionError(msg)
        return script[min(read, len(script) - 1)]


def _check_script(role: Role, replies: Reply | Sequence[Reply]) -> tuple[Reply, ...]:
    """Return the replies of a role as a tuple, whatever way they were written."""
    many = isinstance(replies, Sequence) and not isinstance(replies, str)
    script: tuple[object, ...] = tuple(replies) if many else (replies,)  # type: ignore[arg-type]
    for reply in script:
        is_error = isinstance(reply, type) and issubclass(reply, BaseException)
        is_value = isinstance(reply, str | AIMessage | BaseException)
        if not (is_error or is_value or (callable(reply) and not isinstance(reply, type))):
            msg = (
                f"`{role}` holds {reply!r}; pass a str, an AIMessage, an exception or a function "
                "that takes the messages."
            )
            raise ConfigurationError(msg)
    return script  # type: ignore[return-value]


ResultT = TypeVar("ResultT")

ANSWERED_AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When a model answers that was scripted with a text or an error."""

Answers = Iterable[Any] | Callable[[Any], Any]
"""Replies in order, or a function that is given an effect and returns the reply to it."""


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

    A model is answered by a `ModelReply`, a text, or an error; a hook by a `HookReply`, a value or
    an error; a call of the storage by a `StorageReply`, a value or an error; anything else by the
    reply itself. What the cycle has cost is counted here; a warning and a lease to keep need no
    reply. Flows that go on side by side are run one after the other, from the same replies.

    Args:
        flow: The flow.
        answers: Replies in the order in which they are asked for, or a function that is given each
            effect and returns its reply.
        events: Where events are noted as they happen, for a flow that raises.

    Returns:
        What the flow returned, its events and its effects.

    Raises:
        AssertionError: When there is no reply left.
        Exception: What the flow raises.
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
        self.effects.append(item)
        if isinstance(item, Warn | KeepLease):
            return None
        if isinstance(item, Together):
            return [self.follow_beside(flow) for flow in item.flows]
        reply = _read_reply(item, self.answer(item))
        if isinstance(reply, ModelReply):
            self.tally.note(reply)
        return reply

    def follow_beside(self, flow: Generator[Any, Any, Any]) -> Any:
        beside = _Run(self.answer, Tally(), self.events, self.effects)
        result = beside.follow(flow)
        self.tally.add(beside.tally)
        return result


def _read_reply(effect: Any, said: Any) -> Any:
    """Return the reply that was scripted, in its full form."""
    if isinstance(said, ModelReply | HookReply | StorageReply):
        return said
    error = said if isinstance(said, Exception) else None
    value = None if error is not None else said
    if isinstance(effect, AskModel):
        return ModelReply(ANSWERED_AT, text=str(value or ""), error=error)
    if isinstance(effect, CallHook | CallWithConfig):
        return HookReply(value, error)
    if isinstance(effect, Storage):
        return StorageReply(value, error)
    return said
