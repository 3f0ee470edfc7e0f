"""Observe what a conversation has unobserved once it has paused for long enough.

A timer of this process begins that; the turn that ends the pause takes in what its record does not
know of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Self

from langchain_core.runnables import ensure_config
from pydantic import Field
from typing_extensions import TypedDict

from langgraph_om.archive.protocol import begin_anew_after_fork
from langgraph_om.core.config.options import Hint
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.config.thresholds import explain_no_buffering
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.core.cycles.carry_out import take_in_results
from langgraph_om.core.cycles.observation import describe_observation
from langgraph_om.core.effects import EffectFlow, JobState, PeekJobs
from langgraph_om.core.plan import plan_pause
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step.inspect import count_and_collect, peek_pending
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import Event, Operation
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.executors import InlineBuffering
from langgraph_om.runtime.flows import RunFlow

logger = logging.getLogger("langgraph_om")


class PauseOptions(TypedDict, total=False):
    """The key of the option `observation` for pauses."""

    buffer_on_idle: Annotated[
        Annotated[float, Field(gt=0, allow_inf_nan=False)] | None,
        Hint("a number of seconds above 0, or None"),
    ]
    """Seconds after the Actor's answer at which everything unobserved is prepared in the
    background, unless the conversation goes on before. `None`: never. Needs background
    buffering, and the process that gave the answer to be there still."""


@dataclass(frozen=True, kw_only=True)
class PauseConfig:
    """The same as a field of `ObservationConfig`."""

    buffer_on_idle: float | None = None


class PauseWork(Feature):
    """Observes ahead of need while a conversation pauses."""

    name = "pauses"
    has_last_step = True

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `observation.buffer_on_idle`."""
        seconds: float | None = getattr(setup.observation, "buffer_on_idle", None)
        if seconds is None:
            return None
        if setup.observation.buffer_tokens is False:
            raise ConfigurationError(explain_no_buffering("observation.buffer_on_idle", seconds))
        buffering = setup.options["buffering"]
        if isinstance(buffering, InlineBuffering):
            msg = (
                f"`observation.buffer_on_idle` is {seconds!r} and `buffering` is "
                f"InlineBuffering(), which does nothing between turns; pass "
                f"BackgroundBuffering(), or call `memory.of(graph, config).observe()` when a "
                f"session ends"
            )
            raise ConfigurationError(msg)
        return cls(seconds)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pauses = Pauses()

    def collect(self, step: Step) -> EffectFlow[None]:
        """Take in what was observed while the conversation paused."""
        step.apply((yield from self._take_in(step)))

    def _take_in(self, step: Step) -> EffectFlow[list[Event]]:
        """Look for the job of the pause before this turn; the same messages make the same job."""
        settings, record, window = step.settings, step.record, step.window
        if record["pending"].get("observation") or not self._has_paused(step):
            return []
        known = step.former["token_cache"]["counts"]
        new = next((entry for entry in window.entries if entry.key not in known), None)
        if new is None:
            return []
        messages = step.messages
        at = next(at for at in range(len(messages) - 1, -1, -1) if messages[at] is new.message)
        then = open_window(record, messages[:at], settings.counter)
        decision = plan_pause(record, then, settings.thresholds)
        if decision.kind == "proceed":
            return []
        job = describe_observation(settings, record, then, decision.count, step.now, mode="ahead")
        state = (yield PeekJobs({"observation": job.cycle_id}))["observation"]
        if state is None or state == "expired":
            return []
        started = fold(record, [job.start])
        # Of the other jobs was heard above; here nobody has asked.
        states: dict[Operation, JobState] = {**dict.fromkeys(record["pending"], "running")}
        states["observation"] = state
        done = take_in_results(settings, started, window, states, step.now)
        return [job.start, *done]

    def _has_paused(self, step: Step) -> bool:
        head = step.former.get("head")
        if head is None:
            return False
        passed = (step.now - datetime.fromisoformat(head["at"])).total_seconds()
        return passed >= self._seconds

    def after(self, step: Step) -> None:
        """End the pause before; where the Actor has answered, begin one."""
        self._pauses.end(step.record["id"])
        runner = step.scope.runner
        if not step.is_final or runner.is_closed:
            return
        context, config, record = runner.context(), ensure_config(), step.record
        self._pauses.begin(
            record["id"],
            self._seconds,
            lambda: drive(self._use(step, config), context),
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
        )

    def _use(self, step: Step, config: object) -> RunFlow[None]:
        """Start the job of a pause; the next turn knows it by its id."""
        runner, record = step.scope.runner, step.record
        for is_gone in step.settings.features.having("is_gone"):
            if (yield from is_gone(record)):
                return
        jobs = yield from peek_pending(record)
        now = runner.clock()
        look = Step(step.settings, record, step.messages, step.identity, now)
        count_and_collect(look, jobs)
        decision = plan_pause(look.record, look.window, step.settings.thresholds)
        if decision.kind == "buffer":
            yield from runner.start_job(look.record, look.messages, decision, config)

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        """Let go of the timers of threads, or a resource, that are deleted."""
        self._pauses.forget(thread_ids, resource_id)

    def close(self) -> None:
        """Let go of all timers."""
        self._pauses.clear()


@dataclass(frozen=True)
class _Pause:
    due: float
    """When it has lasted long enough, in seconds of this process's clock."""
    act: Callable[[], object]
    thread_id: str
    resource_id: str | None


class Pauses:
    """Timers of conversations, one for each, in a thread that keeps no process alive.

    The thread is there only while a conversation pauses. A process that ends, or forks, forgets
    its timers: what is unobserved then stays so until the conversation goes on.
    """

    def __init__(self) -> None:
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without timers."""
        self._changed = threading.Condition()
        self._due: dict[str, _Pause] = {}
        self._is_served = False

    def begin(
        self,
        key: str,
        seconds: float,
        act: Callable[[], object],
        *,
        thread_id: str = "",
        resource_id: str | None = None,
    ) -> None:
        """Act after so many seconds, instead of what was to be done for this conversation."""
        with self._changed:
            due = time.monotonic() + seconds
            self._due[key] = _Pause(due, act, thread_id, resource_id)
            if not self._is_served:
                self._is_served = True
                threading.Thread(target=self._serve, name="om_pauses", daemon=True).start()
            self._changed.notify_all()

    def end(self, key: str) -> None:
        """Do nothing: the conversation goes on."""
        with self._changed:
            self._due.pop(key, None)
            self._changed.notify_all()

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        """Do nothing for threads, or for those of a resource: they are deleted."""
        wanted = frozenset(thread_ids)
        with self._changed:
            self._due = {
                key: pause
                for key, pause in self._due.items()
                if wanted.isdisjoint(add_parents([pause.thread_id]))
                and (resource_id is None or pause.resource_id != resource_id)
            }
            self._changed.notify_all()

    def clear(self) -> None:
        """Do nothing for any conversation."""
        with self._changed:
            self._due.clear()
            self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._is_served = False
                    return
                key, pause = min(self._due.items(), key=lambda item: item[1].due)
                left = pause.due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                del self._due[key]
            try:
                pause.act()
            except Exception:
                logger.exception("what is unobserved stays so until the conversation goes on")
