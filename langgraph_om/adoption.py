"""Observe a thread outside of its turns: before the first one, or when a session ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import keyed_conversation
from langgraph_om.core.effects import EffectFlow, Requests
from langgraph_om.core.items import is_protected
from langgraph_om.core.plan import PROCEED, Decision, plan_the_rest
from langgraph_om.core.record.record import complete_record, forget_wait, log_tokens
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step import Step, decide
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.acting import GraphThread, choose_node
from langgraph_om.runtime.flows import supervise
from langgraph_om.runtime.run import read_messages
from langgraph_om.runtime.runner import RunScope, StepRunner
from langgraph_om.runtime.turn import FINISH, Outcome, StepResult, conclude

MOST_RUNS: Final = 1000
"""How many runs of a thread are checked for their start; older messages stay without a time."""


@dataclass(frozen=True, slots=True)
class AdoptProgress:
    """The progress of adopting a thread."""

    observed_tokens: int
    """Tokens of the messages observed so far."""
    total_tokens: int
    """Tokens of all messages that were unobserved at the start; the newest stay unobserved."""
    log_tokens: int
    """Tokens of the observations so far."""


@dataclass(frozen=True, slots=True)
class AdoptReport:
    """The result of `adopt`, `observe` or `reflect`."""

    thread_id: str
    messages: int
    """How many messages the thread has."""
    observed_tokens: int
    """Tokens of the messages that this call observed, without those observed in advance."""
    remaining_tokens: int
    """Tokens of the messages that stay unobserved, to be shown to the agent as they are."""
    log_tokens: int
    """Tokens of all observations."""
    calls: int
    """How often a model was called."""
    error: str | None
    """Why it stopped early; what was observed until then is kept, and calling it again continues
    from there."""
    record: MemoryRecord = field(repr=False)
    """What is remembered now."""


Progress = Callable[[AdoptProgress], Any]
"""Called after each observed batch."""


@dataclass
class Adoption:
    """A thread while it is observed outside of its turns."""

    runner: StepRunner
    record: MemoryRecord
    messages: Sequence[BaseMessage]
    identity: Identity
    progress: Progress | None = None
    everything: bool = False
    """Whether all of it is observed, or only what does not fit the window."""
    reflection: str | None = None
    """Instead, the log is reflected on once, with this told to the Reflector; `None`: it is not."""
    is_on: bool = True
    """Whether memory may be written in this run."""

    def __post_init__(self) -> None:
        self._before = self.record
        self._observed = self._total = 0

    def flow(self) -> EffectFlow[Outcome]:
        """Observe, batch by batch, until what is left fits the window, or nothing is left."""
        outcome, is_stuck = Outcome(self.record, list(self.messages)), False
        while self.is_on:
            seen = yield from self.runner.inspect(
                outcome.record,
                outcome.messages,
                self.identity,
                scope=RunScope(self.runner, is_streamed=False),
                is_final=True,
                previous=outcome.step,
            )
            self._total = self._total or seen.window.tokens
            outcome.take_inspection(seen)
            decision = self._decide(seen)
            if is_stuck or decision.kind in ("proceed", "abort", "buffer"):
                return outcome
            before = outcome.record
            events = yield self.runner.work(seen, decision)
            outcome.fold(events)
            self._tell(events, outcome.record)
            forget_wait(outcome.record)  # no Actor waits
            if self.reflection is not None:
                return outcome
            is_stuck = outcome.record == before or (
                outcome.record["attempts"] != before["attempts"] and bool(_error(outcome))
            )
        return outcome

    def _decide(self, seen: Step) -> Decision:
        if self.reflection is not None:
            has_work = not all(map(is_protected, seen.record["log"]))
            wanted = Decision("reflect", "reflection", instruction=self.reflection)
            return wanted if has_work else PROCEED
        if self.everything:
            return plan_the_rest(seen.record, seen.window, seen.settings.thresholds)
        return decide(seen)

    def _tell(self, events: Sequence[Event], record: MemoryRecord) -> None:
        """Report what was observed."""
        for event in events:
            if event["type"] == "observation-end" and event["operation"] == "observation":
                self._observed += event["tokens"]
                if self.progress is not None:
                    self.progress(AdoptProgress(self._observed, self._total, log_tokens(record)))

    def report(self, outcome: Outcome) -> AdoptReport:
        """Return the result."""
        record = outcome.record
        window = open_window(record, outcome.messages, self.runner.settings.counter)
        return AdoptReport(
            thread_id=record["thread_id"],
            messages=len(self.messages),
            observed_tokens=self._observed,
            remaining_tokens=window.tokens,
            log_tokens=log_tokens(record),
            calls=_count_calls(record) - _count_calls(self._before),
            error=_error(outcome),
            record=record,
        )


def observe(
    thread: GraphThread,
    progress: Progress | None = None,
    *,
    everything: bool = False,
    reflection: str | None = None,
) -> Requests[AdoptReport]:
    """Observe a thread, or reflect on it, and write what that came to into its state."""
    runner, config, node = thread.runner, thread.config, thread.as_node
    is_on = runner.runs.may_write(config)
    state = (yield from thread.rest()) if is_on else (yield from thread.read())
    # The last step may wait behind a person's change, and nothing is lost there.
    if waiting := [name for name in state.next if name != FINISH]:
        raise ConfigurationError(_describe_waiting(thread.id, waiting))
    messages, record = runner.conversation(state), runner.record(state)
    if is_on and not record["id"]:  # memory has not watched
        record = {**record, "stamps": (yield from _find_first_seen(thread, messages))}
    identity = runner.identity(config)
    adoption = Adoption(runner, record, messages, identity, progress, everything, reflection, is_on)
    outcome = (yield from supervise(adoption.flow(), runner.context(config))).result
    if outcome.record != record or outcome.removed:
        update: dict[str, Any] = {"om": outcome.record}
        if outcome.removed:
            removed = [RemoveMessage(id=key) for key in outcome.removed]
            update[runner.messages_key] = removed
        yield from thread.update_state(config, update, as_node=node)
        state = (yield from thread.get_state(config)) if node is None else None
        if state is not None and not is_kept(state, outcome):
            # An imported thread has run no node: whose update it is has to be said.
            node = choose_node(thread.graph.nodes)
            only = {"om": outcome.record}
            yield from thread.update_state(config, only, as_node=node)
        if not thread.is_fork:
            yield from thread.stay_at_rest(config)
    return adoption.report(outcome)


def reflect(thread: GraphThread, instruction: str) -> Requests[AdoptReport]:
    """Reflect on a thread once."""
    given: object = instruction
    if not isinstance(given, str):
        msg = f"`instruction` is {instruction!r}; pass a text for the Reflector"
        raise ConfigurationError(msg)
    return observe(thread, reflection=instruction)


def _find_first_seen(
    thread: GraphThread, messages: Sequence[BaseMessage]
) -> Requests[dict[str, str]]:
    """Return, by key, when the runs began that brought messages which name no time.

    What several requests came with, such as an import, tells nothing of when they were said.
    """
    settings, keyed = thread.runner.settings, keyed_conversation(messages)
    undated = {key: each for key, each in keyed if settings.time_of(key, each, {}) is None}
    if not any(isinstance(each, AIMessage) for each in undated.values()):
        return {}  # answers date their requests
    first, waiting = dict[str, str](), {*undated}

    runs = count(1)

    def note(state: Any) -> bool:
        """Take what is not there yet as a run begins, and is there as the next one does."""
        held = {each.id for each in thread.runner.conversation(state)}
        first.update(dict.fromkeys(waiting - held, state.created_at))
        waiting.intersection_update(held)
        return bool(waiting) and next(runs) < MOST_RUNS

    yield from thread.walk(note, filter={"source": "input"})
    requests = [first.get(key) for key, each in keyed if isinstance(each, HumanMessage)]
    return {key: at for key, at in first.items() if at and requests.count(at) == 1}


def _describe_waiting(thread_id: str, waiting: Sequence[str]) -> str:
    """Describe that a thread waits in a run, whose step an update would end."""
    return (
        f"the thread {thread_id!r} is in the middle of a run, before "
        f"{', '.join(map(repr, waiting))}; finish it with `graph.invoke(None, config)`. If its "
        f"messages were written with `update_state`, pass `as_node`, the node that answers"
    )


def observe_messages(
    runner: StepRunner,
    record: MemoryRecord | None,
    messages: Sequence[BaseMessage],
    thread_id: str,
    config: RunnableConfig | None,
) -> Requests[StepResult]:
    """Observe all of a conversation without a graph."""
    memory, conversation = complete_record(record), read_messages(messages)
    if not runner.runs.may_write(config):
        return StepResult(memory, [], list(conversation), aborted=False)
    identity = runner.identity(config, thread_id=thread_id)
    adoption = Adoption(runner, memory, conversation, identity, everything=True)
    outcome = (yield from supervise(adoption.flow(), runner.context(config))).result
    return conclude(runner, outcome)


def is_kept(state: Any, outcome: Outcome) -> bool:
    """Return whether an update was written where the thread is idle, with the memory in it."""
    values = state.values
    record = values.get("om") if isinstance(values, Mapping) else getattr(values, "om", None)
    return bool(record and record["id"] == outcome.record["id"] and not state.next)


def _error(outcome: Outcome) -> str | None:
    failed = [own for own in outcome.record["attempts"].values() if own["failures"]]
    return next((own["error"] for own in failed if own.get("error")), None)


def _count_calls(record: MemoryRecord) -> int:
    return sum(int(usage.get("calls", 0)) for usage in record["usage"].values())
