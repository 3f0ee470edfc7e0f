"""A shift as it is worked through by one arm, and what comes of it.

Each arm has a thread and a process with simulators of its own. What a task came to is written down
when it is over, with the checkpoint behind it: a run that is started again goes on there.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from evaluation import doubles, player
from evaluation.files import UnansweredError
from evaluation.formats import Question
from evaluation.memories import Players, Setup, open_agent
from evaluation.player import Player
from evaluation.reporting import Row, write_table
from evaluation.running import Journal, digest_of
from evaluation.shifts import (
    FACTS,
    PROMPT,
    RULES,
    Call,
    CallOrder,
    Part,
    Shift,
    Task,
    build_tools,
    grade,
)
from evaluation.spending import COUNTED, Meter, Price, add
from evaluation.world import World
from langgraph_om import __version__
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

THREAD = "shift"
STEPS = 200
"""Supersteps of a part, after which it counts as dead."""
START = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
PAUSE = timedelta(minutes=6)
MEMORY = ("observer", "reflector", "summarizer")
LABEL = (
    "The Actor is no model: it has the right plan, and takes the request, rules, values and facts "
    "from its prompt alone. So this is what is readable in the prompts, no model's score."
)


@dataclass(frozen=True, slots=True)
class ShiftPlayers(Players):
    """Players of whom the doubles play a shift."""

    player: Player | None = None

    def model(self, name: str, role: str, questions: Sequence[Question] = ()) -> Any:
        """Return the model of a role, for a provider's its name."""
        if name != doubles.NAME:
            return Players.model(self, name, role, questions)
        if role == "actor":
            assert self.player  # noqa: S101 the Actor is asked for in a run alone
            return ScriptedChatModel(actor=self.player.reply)
        return ScriptedChatModel(
            actor=player.write_summary,
            observer=ExtractiveObserver().reply,
            reflector=ExtractiveReflector().reply,
        )


@dataclass
class ShiftRun:
    """One shift in one arm."""

    shift: Shift
    arm: str
    setup: Setup
    folder: Path
    command: Sequence[str]
    """What starts the simulators."""
    players: Players = field(default_factory=Players)
    tell: Callable[[str], None] = lambda _: None
    """Told of each part that is over."""
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        told = [asdict(task) for task in self.shift.tasks]
        self._digest = digest_of(__version__, asdict(self.setup), PROMPT, told)
        self._journal = Journal(self.folder / "results.jsonl")

    @property
    def name(self) -> str:
        """Return what tells it from the others."""
        return f"{self.shift.simulator.name} {self.arm} {self.setup.prompt_tokens}"

    def rows(self) -> list[Row]:
        """Work through the tasks that are not over yet, and return what each came to."""
        done = self._journal.rows("task", self._digest, self.name)
        for task in self.shift.tasks[: len(done)]:
            for _ in task.parts:
                self.tell("part")
        if len(done) < len(self.shift.tasks):
            done = self._work(done)
        return done

    def _work(self, done: list[Row]) -> list[Row]:
        place = self.folder / f"{self.name.replace(' ', '-')}-{self._digest}"
        if not done:
            shutil.rmtree(place, ignore_errors=True)
        now = [START]
        looks_up = "recall" if self.setup.recall else "grep" if self.arm == "deepagents" else ""
        plays = Player(self.shift, looks_up)
        plays.made.update(key for row in done for key in row["made"])
        players = ShiftPlayers(self.players.mailbox, player=plays)
        with World(self.command) as world:
            desk = Desk(plays)
            tools = build_tools(self.shift, world, desk.note, desk.order)
            with open_agent(
                self.setup, players, PROMPT, place, lambda: now[0], tools=tools
            ) as agent:
                checkpoint = done[-1]["checkpoint"] if done else None
                for task in self.shift.tasks[len(done) :]:
                    world.open(task.id)
                    desk.calls.clear()
                    worked = Worked(self.shift, task, agent.graph, plays, desk, checkpoint)
                    for part in task.parts:
                        if self.stop.is_set():
                            raise KeyboardInterrupt
                        now[0] = START + PAUSE * self._position(part)
                        worked.play(part)
                        self.tell("part")
                    checkpoint = worked.checkpoint
                    row = worked.row(world.grade(task.expected))
                    done.append(self._journal.write("task", self._digest, self.name, **row))
        return done

    def _position(self, part: Part) -> int:
        parts = [each for task in self.shift.tasks for each in task.parts]
        return parts.index(part)


class Desk:
    """What is called in the task at hand."""

    def __init__(self, plays: Player) -> None:
        self.calls: list[Call] = []
        self.order = CallOrder()
        self._plays = plays

    def note(self, call: Call, result: str) -> None:
        """Take note of a call and its result."""
        self.calls.append(call)
        self._plays.hear(call, result)


@dataclass
class Worked:
    """A task while it is worked on, and what it came to."""

    shift: Shift
    task: Task
    graph: Any
    plays: Player
    desk: Desk
    checkpoint: str | None
    """The newest one behind a part that did not die."""
    answers: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    lookups: int = 0
    failures: int = 0
    meters: list[Meter] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def play(self, part: Part) -> None:
        """Play a part; one that dies leaves the conversation as it was before."""
        meter = Meter("actor")
        self.meters.append(meter)
        self.plays.start(self.task, part)
        key = f"task-{part.task}-part-{part.number}"
        inputs = {"messages": [HumanMessage(part.text, id=key)]}
        place = {"checkpoint_id": self.checkpoint} if self.checkpoint else {}
        config = _config(place, callbacks=[meter, self.desk.order], recursion_limit=STEPS)
        said: list[BaseMessage] = []
        try:
            for mode, told in self.graph.stream(inputs, config, stream_mode=["custom", "updates"]):
                if mode == "updates":
                    said += _messages_in(told)
                else:
                    self.failures += str(told.get("type", "")).endswith("-failed")
        except Exception as error:  # noqa: BLE001 a model or a memory may fail in any way
            self.died.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            self.answers.append("")
        else:
            newest = self.graph.get_state(_config({})).config["configurable"]
            self.checkpoint = newest["checkpoint_id"]
            answers = [each.text for each in said if each.type == "ai" and each.text.strip()]
            self.answers.append(answers[-1] if answers else "")
        found = [each for each in said if isinstance(each, ToolMessage)]
        self.lookups += sum(each.name == self.plays.looks_up for each in found)
        self.plays.end()

    def row(self, differs: Sequence[str]) -> Row:
        """Return what the task came to, as it is written down."""
        came = grade(self.shift, self.task, self.desk.calls, self.answers[-1], differs)
        prompts = [size for meter in self.meters for size in meter.prompts]
        return {
            "task": self.task.number,
            **asdict(came),
            "right": not came.differs,
            "asked": self.answers.count(player.ASKS),
            "died": self.died,
            "lookups": self.lookups,
            "calls": len(self.desk.calls),
            "failures": self.failures,
            "prompts": len(prompts),
            "prompt tokens": sum(prompts),
            "largest prompt": max(prompts, default=0),
            "spent": add(meter.spent for meter in self.meters),
            "seconds": round(time.monotonic() - self.started, 3),
            "made": [
                player.write_call(each["name"], each["arguments"]) for each in self.desk.calls
            ],
            "checkpoint": self.checkpoint,
        }


def _messages_in(update: Any) -> list[BaseMessage]:
    """Return the messages that nodes of the agent added in a superstep."""
    values = update.values() if isinstance(update, Mapping) else ()
    lists = [each.get("messages") or [] for each in values if isinstance(each, Mapping)]
    said = (each for some in lists for each in (some if isinstance(some, list) else [some]))
    return [each for each in said if isinstance(each, BaseMessage) and each.type in {"ai", "tool"}]


def _config(place: Mapping[str, Any], **others: Any) -> RunnableConfig:
    where = {"thread_id": THREAD, "resource_id": "user", **place}
    return cast("RunnableConfig", {"configurable": where, **others})


def work_all(
    runs: Sequence[ShiftRun], workers: int, *, collects: bool = False
) -> dict[str, list[Row]]:
    """Work through several runs, some at a time, and return their rows by the names of the runs.

    Args:
        runs: The runs.
        workers: How many at a time.
        collects: Whether the others go on when one waits for an answer.

    Raises:
        UnansweredError: When one waits for an answer.
    """
    found: dict[str, list[Row]] = {}
    with ThreadPoolExecutor(workers) as pool:
        jobs = {pool.submit(run.rows): run for run in runs}
        try:
            for job in as_completed(jobs):
                try:
                    found[jobs[job].name] = job.result()
                except UnansweredError:
                    if not collects:
                        raise
        except BaseException:
            for run in runs:
                run.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return found


# --- Figures and tables --------------------------------------------------------------------------


def summarise(
    runs: Iterable[ShiftRun], rows: Mapping[str, list[Row]], prices: Mapping[str, Price]
) -> Row:
    """Return what several shifts came to in one arm and one room."""
    several = list(runs)
    every = [row for run in several for row in rows[run.name]]
    spent = add(row["spent"] for row in every)
    setup = several[0].setup
    models = {"actor": setup.actor, "observer": setup.observer, "reflector": setup.reflector}
    models["summarizer"] = setup.observer
    costs = [prices[models[part]].of(spent[part]) for part in spent if models[part] in prices]
    memory = add({"memory": spent[part]} for part in MEMORY if part in spent)
    broken: Counter[str] = Counter()
    chances: Counter[str] = Counter()
    for row in every:
        broken.update(row["broken"])
        chances.update(row["opportunities"])
    return {
        "tasks": len(every),
        "right": sum(row["right"] for row in every),
        "right by shift": {
            run.shift.simulator.name: sum(row["right"] for row in rows[run.name]) for run in several
        },
        "wrong tasks": {
            run.shift.simulator.name: [row["task"] for row in rows[run.name] if not row["right"]]
            for run in several
        },
        "rules": {rule: {"broken": broken[rule], "of": chances[rule]} for rule in RULES},
        "rules broken": sum(broken.values()),
        "rules that mattered": sum(chances.values()),
        "facts missed": sorted(row["missed"] for row in every if row["missed"]),
        "facts": len(several) * len(FACTS),
        "repeated": sum(row["repeated"] for row in every),
        "asked": sum(row["asked"] for row in every),
        "died": [error for row in every for error in row["died"]],
        "parts": sum(run.shift.parts for run in several),
        "calls": sum(row["calls"] for row in every),
        "lookups": sum(row["lookups"] for row in every),
        "memory failures": sum(row["failures"] for row in every),
        "actor": {
            "prompts": sum(row["prompts"] for row in every),
            "tokens": sum(row["prompt tokens"] for row in every),
            "largest": max(row["largest prompt"] for row in every),
        },
        "memory": memory.get("memory", dict.fromkeys(COUNTED, 0)),
        "spent": spent,
        "cost": sum(costs) if len(costs) == len(spent) else None,
    }


def write_tables(whole: Row) -> str:
    """Write the figures of all rooms and arms for reading."""
    lines = [f"{whole['tasks']} tasks each in the shifts {', '.join(whole['shifts'])}"]
    for room, arms in whole["rooms"].items():
        lines += ["", f"Room of {room} tokens for what is remembered", ""]
        lines += write_table([("", *arms), *_lines(arms)])
    return "\n".join([*lines, "", *whole["caveats"]])


def _lines(arms: Mapping[str, Row]) -> list[tuple[str, ...]]:
    full = arms.get("full", {}).get("actor", {}).get("tokens")

    def line(name: str, read: Callable[[Row], object]) -> tuple[str, ...]:
        return name, *(str(read(row)) for row in arms.values())

    shifts = next(iter(arms.values()))["right by shift"]
    return [
        line("tasks right", lambda row: f"{row['right']} of {row['tasks']}"),
        *(line(f"  {name}", lambda row, name=name: row["right by shift"][name]) for name in shifts),
        line("rules broken", lambda row: f"{row['rules broken']} of {row['rules that mattered']}"),
        *(line(f"  {rule}", lambda row, rule=rule: row["rules"][rule]["broken"]) for rule in RULES),
        line("facts missed", lambda row: f"{len(row['facts missed'])} of {row['facts']}"),
        line("calls repeated", lambda row: row["repeated"]),
        line("turns that died", lambda row: f"{len(row['died'])} of {row['parts']}"),
        line("asked what to do", lambda row: row["asked"]),
        line("looked up", lambda row: row["lookups"]),
        line("Actor: prompts", lambda row: row["actor"]["prompts"]),
        line("Actor: tokens of prompts", lambda row: row["actor"]["tokens"]),
        line(
            "  of full history's",
            lambda row: f"{row['actor']['tokens'] / full:.0%}" if full else "-",
        ),
        line("Actor: largest prompt", lambda row: row["actor"]["largest"]),
        line("memory: calls", lambda row: row["memory"]["calls"]),
        line("memory: input tokens", lambda row: row["memory"]["input"]),
        line("memory: output tokens", lambda row: row["memory"]["output"]),
        line("memory: failures", lambda row: row["memory failures"]),
        line("cost", lambda row: "-" if row["cost"] is None else f"{row['cost']:.4f}"),
    ]


def with_room(setup: Setup, arm: Mapping[str, Any], tokens: int) -> Setup:
    """Return a setup for one arm and one room."""
    return replace(setup, **arm, prompt_tokens=tokens)
