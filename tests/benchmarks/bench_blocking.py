"""Whether a long conversation waits for the Observer, and what an Observer that hangs costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from agents import PROMPT, extractive, noon, on_thread, remembering
from conversation import conversation, tokens, turns
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from report import Budget, Options, Report, median, milliseconds

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.memory import runner_of
from langgraph_om.testing import ScriptedChatModel

MESSAGE_TOKENS = 6_000
TURN_SECONDS = 0.002
OBSERVER_SECONDS = 0.03
DEADLINE = 0.2
SLACK = 2
"""How much longer than the deadline, as a factor, the longest waiting turn may take in all."""


@dataclass
class Outcome:
    """What a conversation came to."""

    laps: list[float] = field(default_factory=list)
    """Seconds per turn."""
    waiting_laps: list[float] = field(default_factory=list)
    """The same, of turns with a blocking cycle."""
    prompts: list[int] = field(default_factory=list)
    """Tokens of each prompt."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How many parts of each type were shown."""
    waits: list[float] = field(default_factory=list)
    """Seconds per blocking cycle."""
    uncovered: int = 0
    limit: int = 0

    @property
    def blocking(self) -> int:
        return self.kinds.get("data-om-observation-start", 0)

    @property
    def waited(self) -> float:
        return sum(self.waits)

    def note(self, part: dict[str, Any]) -> None:
        kind = part["type"]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind in {"data-om-observation-end", "data-om-observation-failed"}:
            self.waits.append(part["data"].get("durationMs", 0) / 1000)


def talk(script: Sequence[BaseMessage], memory: ObservationalMemory) -> Outcome:
    """Run a conversation turn by turn and measure it."""
    runs = turns(script)
    answers = [answer for _, said in runs for answer in said]
    actor = ScriptedChatModel(actor=answers, delay=TURN_SECONDS)
    graph = create_memory_agent(actor, memory=memory, prompt=PROMPT, checkpointer=InMemorySaver())
    outcome = Outcome()
    outcome.limit = memory.thresholds.block_after + memory.thresholds.reflect_block_after
    for inputs, _ in runs:
        blocked, started = outcome.blocking, time.perf_counter()
        for part in graph.stream({"messages": inputs}, on_thread(), stream_mode="custom"):
            outcome.note(part)
        lap = time.perf_counter() - started
        outcome.laps.append(lap)
        if outcome.blocking > blocked:
            outcome.waiting_laps.append(lap)
        outcome.prompts += [tokens(call["messages"]) for call in actor.calls]
        actor.calls.clear()
    outcome.uncovered = uncovered(memory, graph.get_state(on_thread()).values)
    return outcome


def uncovered(memory: ObservationalMemory, state: dict[str, Any]) -> int:
    """How many messages are neither in the prompt nor covered by exactly one range of the log."""
    messages = runner_of(memory).conversation(state)
    places = {message.id: at for at, message in enumerate(messages)}
    changes = [0] * (len(messages) + 1)
    for first, last in (ends for group in state["om"]["log"] for ends in group["ranges"]):
        changes[places[first]] += 1
        changes[places[last] + 1] -= 1
    shown = {message.id for message in memory.llm_input_messages(state)}
    return sum(
        count > 1 or (count == 0 and message.id not in shown)
        for message, count in zip(messages, accumulate(changes), strict=False)
    )


class Hanging:
    """An Observer that answers nobody until it is let go."""

    def __init__(self) -> None:
        self._let_go = threading.Event()
        self.model = ScriptedChatModel(observer=self._reply, reflector=self._reply)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self._let_go.wait()
        msg = f"left behind with {len(messages)} messages"
        raise TimeoutError(msg)

    def end(self) -> None:
        self._let_go.set()


def running() -> Callable[[], datetime]:
    """A clock that starts at a fixed time and then moves, so that durations are real."""
    started = time.perf_counter()
    return lambda: noon() + timedelta(seconds=time.perf_counter() - started)


def script_of(count: int) -> list[BaseMessage]:
    """A conversation of so many turns, without tools, so that a turn is one step."""
    return conversation(2 * count, words=50, seed=3, calls_every=0)


def hang(count: int) -> Outcome:
    """Talk while the Observer hangs."""
    observer = Hanging()
    memory = remembering(
        observer.model, message_tokens=MESSAGE_TOKENS, deadline=DEADLINE, clock=running()
    )
    try:
        return talk(script_of(count), memory)
    finally:
        observer.end()
        with suppress(Exception):
            memory.close()


def run(options: Options) -> Report:
    count = options.pick(1_000, 150)
    hung_turns = options.pick(300, 150)
    observer = extractive(delay=OBSERVER_SECONDS)
    outcomes: dict[str, Outcome] = {}
    for name, interval in (("buffering on", None), ("buffering off", 0)):
        memory = remembering(
            observer,
            message_tokens=MESSAGE_TOKENS,
            buffer_tokens=interval,
            clock=running(),
        )
        outcomes[name] = talk(script_of(count), memory)
        memory.close()
    outcomes[f"Observer hangs ({hung_turns} turns)"] = hang(hung_turns)
    return Report(
        f"Waiting for the Observer, {count} turns",
        [
            "conversation",
            "blocking cycles",
            "jobs",
            "activations",
            "waited",
            "turn (median)",
            "turn (longest)",
            "prompt (largest)",
            "limit",
            "uncovered",
        ],
        [_row(name, outcome) for name, outcome in outcomes.items()],
        _budgets(count, *outcomes.values()),
        _note(),
        {name: vars(outcome) for name, outcome in outcomes.items()},
    )


def _note() -> list[str]:
    sample = script_of(20)
    per_turn = tokens(sample) / 20
    in_turns = round(MESSAGE_TOKENS * 0.2 / per_turn)
    return [
        f"The Observer takes {milliseconds(OBSERVER_SECONDS)}, an interval about {in_turns} turns.",
        "The limit is both blocking thresholds; our constant instructions come on top.",
    ]


def _row(name: str, outcome: Outcome) -> list[object]:
    return [
        name,
        outcome.blocking,
        outcome.kinds.get("data-om-buffering-start", 0),
        outcome.kinds.get("data-om-activation", 0),
        f"{outcome.waited:.2f} s",
        milliseconds(median(outcome.laps)),
        milliseconds(max(outcome.laps)),
        max(outcome.prompts),
        outcome.limit,
        outcome.uncovered,
    ]


def _budgets(count: int, buffered: Outcome, waiting: Outcome, hung: Outcome) -> list[Budget]:
    usual = median(hung.laps)
    longest = max(hung.waiting_laps, default=0.0)
    return [
        Budget(
            f"blocking model calls in {count} turns (without buffering: {waiting.blocking}, "
            f"{waiting.waited:.1f} s of waiting)",
            "0",
            f"{buffered.blocking}, {buffered.waited:.1f} s of waiting",
            buffered.blocking == 0,
        ),
        Budget(
            "largest prompt, beside both blocking thresholds",
            f"< {buffered.limit} tokens",
            f"{max(buffered.prompts)} tokens",
            max(buffered.prompts) < buffered.limit,
        ),
        Budget(
            f"longest turn that waits for an Observer that hangs (deadline {DEADLINE:g} s, "
            f"median turn {milliseconds(usual)})",
            f"< {SLACK * DEADLINE:g} s",
            f"{longest:.2f} s, {max(hung.waits, default=0.0):.2f} s of it waiting",
            longest < SLACK * DEADLINE,
        ),
        Budget(
            "messages neither shown nor observed, in all three conversations",
            "0",
            str(buffered.uncovered + waiting.uncovered + hung.uncovered),
            not (buffered.uncovered or waiting.uncovered or hung.uncovered),
        ),
    ]
