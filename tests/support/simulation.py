"""A conversation with memory and a simulated executor: no threads, no clock, no model.

Time is counted in agent steps. A job's result is made when it starts and comes out after its
latency; a restart forgets all jobs; a fork goes back to an earlier state of record and messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.actor.prompt import find_day
from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.config.thresholds import resolve_thresholds
from langgraph_om.core.cycles.carry_out import carry_out, describe_job, run_job
from langgraph_om.core.effects import (
    AskModel,
    EffectFlow,
    JobState,
    ModelReply,
    PeekJobs,
    WaitForJob,
)
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.inspect import inspect
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.wire import MemoryRecord
from support.driving import drive
from support.flows import HINTS
from support.real_ids import Naming
from support.reasoning import misplaced, thinking, thoughts_of
from support.views import assemble

GOOD = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User said something\n</observations>"
NOTHING = "<observations>(none)</observations>"

Reply = str | Exception
Answers = Callable[[AskModel], Reply]


def drop_all_but_the_last(call: AskModel) -> str:
    """Return edits that drop every item but the newest."""
    numbers = re.findall(r"^\[(\d+) ~", str(call.messages[1].content), re.MULTILINE)
    return f"drop 1-{max(1, len(numbers) - 1)}"


def answer_well(call: AskModel) -> str:
    """Return an observation, or edits."""
    return GOOD if call.role == "observer" else drop_all_but_the_last(call)


def settings(message_tokens: int = 1000, observation_tokens: int = 200, **options: Any) -> Settings:
    """Make settings with small thresholds."""
    observation = ObservationConfig(message_tokens=message_tokens, **options)
    reflection = ReflectionConfig(observation_tokens=observation_tokens)
    return Settings(
        thresholds=resolve_thresholds(observation, reflection),
        counter=EstimatingCounter(),
        timezone=UTC,
        observation=observation,
        reflection=reflection,
        hints=HINTS,
    )


def look(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
    jobs: Callable[[PeekJobs], dict[str, JobState]] | None = None,
) -> Step:
    """Inspect a conversation of thread `t`."""
    step = Step(settings, record, messages, Identity("t"), now)
    drive(inspect(step), jobs or ())
    return step


@dataclass
class Simulation:
    """One thread, its memory, and the jobs of its executor."""

    settings: Settings
    answers: Answers = answer_well
    latency: int = 1
    thinks: bool = False
    """Whether the Actor answers in reasoning that is bound to its prompt."""
    record: MemoryRecord = field(default_factory=blank_record)
    messages: list[BaseMessage] = field(default_factory=list)
    jobs: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    step_number: int = 0
    blocking_calls: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    made: int = 0
    misplaced: list[str] = field(default_factory=list)
    """Reasoning that the Actor was shown behind another prefix than that of its own call."""
    kept: int = 0
    """How much reasoning the Actor was shown."""
    read: set[str] = field(default_factory=set)
    """The last word of each message that stood in a cycle which came to something."""
    naming: Naming = field(default_factory=Naming)

    # --- The conversation ---

    def say(self, words: int, *, tools: int = 0) -> None:
        """A user turn: a request, some tool exchanges, each seen by memory first, and an answer."""
        self._add(HumanMessage(self._text(words)))
        for _ in range(tools):
            self.step()
            simple = [f"c{self.made}-{n}" for n in range(2)]
            ids = [self.naming.name(call, "call", self.now) for call in simple]
            calls = [{"name": "look", "args": {}, "id": call} for call in ids]
            self._add(AIMessage(self._answer(""), tool_calls=calls))
            for call in calls:
                self._add(ToolMessage(self._text(words), tool_call_id=str(call["id"])))
        self.step()
        self._add(AIMessage(self._answer(self._text(max(1, words // 2)))))

    def _answer(self, text: str) -> Any:
        """Answer to what the Actor gets now."""
        if not self.thinks:
            return text
        prompt = self.prompt()
        self.misplaced += misplaced(prompt)
        self.kept += sum(len(thoughts_of(message)) for message in prompt)
        return thinking(prompt, text)

    def load_history(self, words: int, count: int) -> None:
        """Put messages of the user in front of all others, and let memory see them."""
        said: list[BaseMessage] = [HumanMessage(self._text(words)) for _ in range(count)]
        for message in said:
            self._name(message)
        self.messages[:0] = said
        self.step()

    def _add(self, message: BaseMessage) -> None:
        self._name(message)
        self.messages.append(message)

    def _name(self, message: BaseMessage) -> None:
        simple = f"m{self.made}"
        role: Any = message.type
        message.id = self.naming.name(simple, role, self.now)
        of_people = isinstance(message, HumanMessage)
        metadata = message.additional_kwargs if of_people else message.response_metadata
        metadata.update(self.naming.date(simple, self.now))
        self.made += 1

    def _text(self, words: int) -> str:
        return " ".join([*["word"] * (words - 1), f"w{self.made}"])

    # --- Memory ---

    @property
    def now(self) -> datetime:
        return datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(minutes=self.step_number)

    @property
    def window(self) -> Window:
        return open_window(self.record, self.messages, self.settings.counter)

    def step(self, most_rounds: int = 40) -> Step:
        """Let memory work until the Actor is next."""
        self.step_number += 1
        for _ in range(most_rounds):
            seen = self._look()
            self.record = seen.record
            self.events += seen.events
            if seen.decision.kind in ("proceed", "abort"):
                return seen
            if seen.decision.kind == "buffer":
                self._start(seen)
                return seen
            flow = carry_out(self.settings, self.record, seen.window, seen.decision, self.now)
            done = self._run(flow, blocking=True)
            self.record = fold(self.record, [done])
            self.events += done
        msg = "the gate does not end"
        raise AssertionError(msg)

    def _look(self) -> Step:
        def peek(effect: PeekJobs) -> dict[str, JobState]:
            return {op: self._state(key) for op, key in effect.cycle_ids.items()}

        return look(self.settings, self.record, self.messages, self.now, peek)

    def _state(self, cycle_id: str) -> JobState:
        if cycle_id not in self.jobs:
            return None
        ready, result = self.jobs[cycle_id]
        return result if ready <= self.step_number else "running"

    def _start(self, seen: Step) -> None:
        flow = describe_job(self.settings, self.record, seen.window, seen.decision, self.now)
        job = drive(flow).result
        assert job is not None
        if job.cycle_id not in self.jobs:
            result = self._run(run_job(job), blocking=False)[-1]
            self.jobs[job.cycle_id] = (self.step_number + self.latency, result)
        self.record = fold(self.record, [job.start])
        self.events.append(job.start)

    def _run(self, flow: EffectFlow[None], *, blocking: bool) -> list[dict[str, Any]]:
        asked: list[AskModel] = []

        def answer(effect: AskModel | WaitForJob) -> ModelReply | JobState:
            if isinstance(effect, WaitForJob):
                return self._state(effect.cycle_id)
            asked.append(effect)
            self.blocking_calls += blocking
            said = self.answers(effect)
            usage = {"input_tokens": 10, "output_tokens": 1}
            if isinstance(said, Exception):
                return ModelReply(self.now, error=said, usage=usage)
            return ModelReply(self.now, text=said, usage=usage)

        found = drive(flow, answer)
        if any(event["type"].endswith("-end") for event in found.events):
            shown = "".join(call.messages[1].text for call in asked)
            self.read |= set(re.findall(r"\bw\d+\b", shown))
        return found.events

    # --- What happens to processes and threads ---

    def restart(self) -> None:
        """Lose all jobs, as a process does that ends."""
        self.jobs.clear()

    def snapshot(self) -> tuple[MemoryRecord, list[BaseMessage]]:
        """Return what a checkpoint holds."""
        return deepcopy(self.record), list(self.messages)

    def go_back(self, snapshot: tuple[MemoryRecord, list[BaseMessage]]) -> None:
        """Fork: go on from an earlier checkpoint."""
        self.record, self.messages = deepcopy(snapshot[0]), list(snapshot[1])

    # --- What must hold ---

    def prompt(self) -> list[BaseMessage]:
        """Return what the Actor gets."""
        today = find_day(self.record, self.now.date())
        return assemble(self.record, self.messages, self.window, today=today)

    def coverage(self) -> list[int]:
        """Count how often each message is covered: by a range of the log, or by the window."""
        return coverage(self.record, self.messages, self.window)

    def unread(self) -> list[str]:
        """Return the messages that are observed and were in no cycle that came to something."""
        waiting = {entry.key for entry in self.window.entries}
        return [
            str(message.id)
            for message in self.messages
            if message.id not in waiting
            and not set(re.findall(r"\bw\d+\b", message.text)) <= self.read
        ]


def coverage(record: MemoryRecord, messages: Sequence[BaseMessage], window: Window) -> list[int]:
    """Count how often each message is covered: by a range of the log, or by the window."""
    places = {message.id: at for at, message in enumerate(messages)}
    counts = [0] * len(messages)
    for group in record["log"]:
        for first, last in group["ranges"]:
            if first in places and last in places:
                for at in range(places[first], places[last] + 1):
                    counts[at] += 1
    for entry in window.entries:
        counts[places[entry.key]] += 1
    return counts
