"""What the nodes do for one memory: look, decide, carry out, start jobs, archive and index.

The rules are the core's; here they meet the run's configuration, the executor and the storage.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, TypeVar, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langgraph_om.archive import MessageArchive
from langgraph_om.archive.log_cache import LogCache, check_shares
from langgraph_om.archive.writer import ArchiveWriter
from langgraph_om.core.actor.prompt import assemble
from langgraph_om.core.config.checks import check_flag
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import is_conversation, keyed_messages
from langgraph_om.core.cycles.buffering import (
    activate,
    buffer_in_place,
    build_deferred,
    describe_job,
    run_blocking,
)
from langgraph_om.core.cycles.cycle import Job
from langgraph_om.core.cycles.other_threads import (
    build_nothing_left,
    observe_others_ahead,
    observe_others_cycle,
)
from langgraph_om.core.effects import CycleFlow
from langgraph_om.core.observe.other_threads import OtherThread
from langgraph_om.core.plan import Decision, plan
from langgraph_om.core.record.fold import FOLDED_TYPES, fold
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.inspect import Inspection, count_and_collect, decide
from langgraph_om.core.wire import Event, MemoryRecord
from langgraph_om.errors import ArchiveError
from langgraph_om.models.ask import Calls
from langgraph_om.models.pool import ModelPool
from langgraph_om.recall.search import StoreIndex
from langgraph_om.runtime.drivers import Emit, Ended, RunContext, adrive, advance, drive
from langgraph_om.runtime.executors import BackgroundBuffering, Buffering
from langgraph_om.runtime.hooks import Hooks
from langgraph_om.runtime.state import conversation_of, values_of

logger = logging.getLogger("langgraph_om")

YieldT = TypeVar("YieldT")
ResultT = TypeVar("ResultT")

POLL_SECONDS = 0.02
JOB_DEADLINES = 5
"""A background job may take so many times the `deadline` of a turn."""


class StepRunner:
    """The part of a memory that nodes and hooks use; `ObservationalMemory` sets it up."""

    enabled: bool
    settings: Settings
    messages_key: str
    resource_id: str | Callable[[RunnableConfig], str | None] | None
    archive: MessageArchive | None
    buffering: Buffering
    _models: ModelPool
    _hooks: Hooks
    _clock: Callable[[], datetime]
    _deadline: float
    _archiving: ArchiveWriter | None
    _sharing: LogCache | None
    _index: StoreIndex | None
    _warned_no_thread: bool = False

    def is_on(self, config: RunnableConfig | None = None) -> bool:
        """Return whether memory is in force for this run (`configurable["om_enabled"]`)."""
        if not self.enabled:
            return False
        flag = ensure_config(config).get("configurable", {}).get("om_enabled", True)
        return check_flag('configurable["om_enabled"]', flag)

    def identity(self, config: RunnableConfig | None = None, *, thread_id: str = "") -> Identity:
        """Tell whose conversation a run is about."""
        resolved = ensure_config(config)
        configurable = resolved.get("configurable", {})
        thread = str(thread_id or configurable.get("thread_id") or "")
        if not thread and not self._warned_no_thread:
            self._warned_no_thread = True
            logger.warning(
                "no `thread_id` in the run's configuration; memory works within the run, "
                "and its record and events carry an empty thread id"
            )
        resource = self.resource_id
        if resource is None:
            resource = configurable.get("resource_id")
        elif callable(resource):
            resource = resource(resolved)
        return Identity(
            thread, None if resource is None else str(resource), _read_place(configurable)
        )

    def conversation(self, state: Any) -> list[BaseMessage]:
        """Return the messages of a state."""
        return conversation_of(state, self.messages_key)

    @property
    def buffers_in_background(self) -> bool:
        """Whether jobs run in threads beside the conversation."""
        return isinstance(self.buffering, BackgroundBuffering)

    def look(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        identity: Identity,
        *,
        must_proceed: bool = False,
        buffering_waits: bool | None = None,
        is_final: bool = False,
    ) -> Inspection:
        """Count what is new, collect what is done, and decide what is next."""
        if self._sharing is not None:
            check_shares(identity)
        now = self._clock()
        seen = count_and_collect(
            self.settings,
            record,
            messages,
            identity,
            now,
            jobs={
                op: self.buffering.peek(job["cycle_id"]) for op, job in record["pending"].items()
            },
        )
        if self._archiving is not None:
            seen = self._kept(self._archiving, seen, messages, now)
        if self._sharing is not None and identity.thread_id:
            seen = self._shared(self._sharing, seen, messages, now)
        if not is_final:
            waits = not self.buffers_in_background if buffering_waits is None else buffering_waits
            seen = decide(
                self.settings, seen, now, must_proceed=must_proceed, buffering_waits=waits
            )
        log_failures(seen.events)
        for event in seen.events:
            if event["type"] == "status":
                self._hooks.tell(event)
        return seen

    def _kept(
        self,
        archiving: ArchiveWriter,
        seen: Inspection,
        messages: Sequence[BaseMessage],
        now: datetime,
    ) -> Inspection:
        """Archive what a look found to be new."""
        counted = (event["counts"] for event in seen.events if event["type"] == "counted")
        changed = {key for counts in counted for key in counts}
        events = archiving.keep(seen.record, messages, now, changed, seen.window.request)
        record = fold(seen.record, [events])
        return replace(seen, record=record, events=[*seen.events, *events])

    def _shared(
        self, sharing: LogCache, seen: Inspection, messages: Sequence[BaseMessage], now: datetime
    ) -> Inspection:
        """Exchange what is new with the log that the threads of the resource share."""
        events = sharing.synced(seen.record, messages, seen.window, now)
        if not events:
            return seen
        record = fold(seen.record, [events])
        window = open_window(record, messages, self.settings.counter)
        return replace(seen, record=record, window=window, events=[*seen.events, *events])

    def keep(self, state: Any, config: RunnableConfig | None = None) -> None:
        """Archive what is missing of a state's conversation; without an archive, nothing.

        Raises:
            ArchiveError: When the archive's storage fails.
        """
        if self._archiving is None:
            return
        entries = keyed_messages(self.conversation(values_of(state)))
        told = [each for each in entries if is_conversation(each[1])]
        who = self.identity(config)
        self._archiving.complete(who.thread_id, who.resource_id, told, self._clock())

    @property
    def has_search(self) -> bool:
        """Whether the run's store has to be given to `index` in each step."""
        return self._index is not None

    def index(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: Any,
        identity: Identity,
    ) -> None:
        """Make what is new in the log searchable, beside the run.

        Raises:
            ConfigurationError: When the run has no store that can be searched.
        """
        if self._index is not None:
            self._index.add(record, messages, store, identity)

    def decide(self, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Decision:
        """Decide what is next, from a record in which everything is counted already."""
        window = self._window(record, messages)
        return plan(record, window, self.settings.thresholds, self._clock())

    def cycle(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], decision: Decision
    ) -> CycleFlow:
        """Return the flow that carries out a decision, waiting for what it needs."""
        window, now = self._window(record, messages), self._clock()
        if decision.kind == "activate":
            return activate(self.settings, record, window, decision, now)
        if decision.kind == "buffer":
            job = self._job(record, window, decision, now)
            if job is None:
                return _yield_event(build_nothing_left(record))
            return buffer_in_place(self.settings, record, window, job, now)
        if decision.operation == "others":
            others = self._others(record)
            return observe_others_cycle(self.settings, record, window, others, now)
        return run_blocking(self.settings, record, window, decision, now)

    def _job(
        self, record: MemoryRecord, window: Window, decision: Decision, now: datetime
    ) -> Job | None:
        """Describe the job to buffer; `None` when there is nothing left of it to do."""
        if decision.operation != "others":
            return describe_job(self.settings, record, window, decision, now)
        return observe_others_ahead(self.settings, record, self._others(record), now)

    def _others(self, record: MemoryRecord) -> list[OtherThread]:
        """Return the other threads of the resource; none when the archive fails."""
        try:
            return cast("LogCache", self._sharing).others(record)
        except ArchiveError as error:
            thread_id = record["thread_id"]
            logger.warning("thread %r: other threads cannot be read: %s", thread_id, error)
            return []

    def start_job(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        decision: Decision,
        config: RunnableConfig | None = None,
    ) -> Event:
        """Start a job in the background.

        Returns:
            Its start event; a failure when the executor has no room for it now.
        """
        window = self._window(record, messages)
        job = self._job(record, window, decision, self._clock())
        if job is None:
            return build_nothing_left(record)
        context = self._cycle_context(config)
        context = replace(
            context,
            calls=replace(context.calls, deadline=self._deadline * JOB_DEADLINES),
            opening=job.start,
        )
        executor = cast("BackgroundBuffering", self.buffering)
        if executor.submit(
            job.cycle_id,
            job.key,
            lambda: drive(job.flow, context, discard)[-1],
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
        ):
            return job.start
        return build_deferred(self.settings, record, window, job)

    def _window(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], request: str | None = None
    ) -> Window:
        """Open the window on which the gate has looked in this step."""
        counter = self.settings.counter
        return open_window(record, messages, counter, is_counted=True, request=request)

    def run(self, flow: CycleFlow, emit: Emit, config: RunnableConfig | None = None) -> list[Event]:
        """Run a flow, waiting for the models.

        Returns:
            All its events; those that change memory have yet to be folded.
        """
        events = drive(flow, self._cycle_context(config), emit)
        log_failures(events)
        return events

    async def arun(
        self, flow: CycleFlow, emit: Emit, config: RunnableConfig | None = None
    ) -> list[Event]:
        """Run a flow without blocking the event loop; else like `run`."""
        events = await adrive(flow, self._cycle_context(config), emit)
        log_failures(events)
        return events

    def _cycle_context(self, config: RunnableConfig | None) -> RunContext:
        calls = Calls(self._models, self._clock, self._deadline, self.settings.counter, config)
        return RunContext(calls, self.buffering.wait, self._hooks)

    def _actor_input(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        system: str | SystemMessage | None,
        max_input_tokens: int | None,
    ) -> list[BaseMessage]:
        return assemble(
            record,
            messages,
            self._window(record, messages, record["turn"]["request"]),
            today=self._clock().astimezone(self.settings.timezone).date(),
            system=system,
            max_input_tokens=max_input_tokens,
            guide=self.settings.guide,
            show_id=self.settings.show_id if self.settings.scope == "resource" else None,
        )

    async def aadvance(
        self, steps: Generator[YieldT, list[Event] | None, ResultT], done: list[Event] | None
    ) -> YieldT | Ended[ResultT]:
        """Run the looks of a turn to what they yield next, off the event loop where they block."""
        if self.archive is None:
            return advance(steps, done)
        return await asyncio.to_thread(advance, steps, done)

    # --- Background work -------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until no background job is at work; results are taken in by the next step.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        begun = time.monotonic()
        is_done = self.buffering.flush(timeout)
        return self._flush_index(timeout, begun) and is_done

    async def aflush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 same as `flush`
        """Do the same as `flush` without blocking the event loop, or a thread when cancelled."""
        begun = time.monotonic()
        while not self.flush(0):
            if timeout is not None and time.monotonic() - begun >= timeout:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Start no more background jobs and wait for those at work.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether nothing is left.
        """
        begun = time.monotonic()
        is_done = self.buffering.close(timeout)
        return self._flush_index(timeout, begun) and is_done

    def _flush_index(self, timeout: float | None, begun: float) -> bool:
        """Wait, as long as is left of a timeout, until what was observed is searchable."""
        if self._index is None:
            return True
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
        return self._index.flush(left)

    async def aclose(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109 same as `close`
        """Do the same as `close` without blocking the event loop."""
        return await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _yield_event(event: Event) -> CycleFlow:
    """Make a cycle of one event."""
    yield event


def _read_place(configurable: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the nodes around the agent, without the ids of their tasks and the gate's own."""
    space = str(configurable.get("checkpoint_ns") or "")
    return tuple(part.partition(":")[0] for part in space.split("|")[:-1] if not part.isdigit())


def discard(event: Event) -> None:
    """Show an event to nobody: outside of a graph, events are returned."""


def log_failures(events: Sequence[Event]) -> None:
    """Log what the stream shows too, for those who do not watch it."""
    for event in events:
        if event["type"] == "tripwire":
            logger.warning(
                "thread %r: the turn ends without an answer: %s",
                event["thread_id"],
                event["reason"],
            )
        elif event["type"] in ("observation-failed", "buffering-failed") and event.get("failures"):
            logger.warning(
                "thread %r: %s failed (%d in a row), its messages stay as they are: %s",
                event["thread_id"],
                event["operation"],
                event["failures"],
                event["error"],
            )


def only_folding(events: Sequence[Event]) -> list[Event]:
    """Keep the events that change memory."""
    return [event for event in events if event["type"] in FOLDED_TYPES]


def without_messages(
    messages: Sequence[BaseMessage], evicted: Collection[str]
) -> list[BaseMessage]:
    """Return a conversation without the messages that were removed from it."""
    gone = set(evicted)
    return [message for message in messages if message.id not in gone] if gone else list(messages)
