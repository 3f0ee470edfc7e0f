"""One conversation through agents with other memories, Mastra's among them, in one run by turns.

    npm install --prefix FOLDER --legacy-peer-deps \\
        @mastra/memory@latest @mastra/core@latest @mastra/libsql@latest zod node@22
    python tests/benchmarks/bench_side_by_side.py [--mastra FOLDER] [--turns N] [--threshold N]

Each agent lives in a process of its own, and all take a turn before one takes its next. A turn has
three calls of a tool. A step is the time from an answer of the Actor's model to its next question,
by the clock, and by the processor, background work included. The models answer at once. Bytes are
those of the databases with their logs written to them. Without a version, an older npm takes one
of Mastra for an older Node.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from report import Report, median, text_table

from processes import ROOT, Worker, tell

HERE = Path(__file__).parent
STEPS = 4
SHOWN = 90
"""Messages that an agent without memory shows, as many as a window has."""
NAMES = {
    "bare": "LangGraph alone, newest messages",
    "summary": "SummarizationMiddleware",
    "deepagents": "deepagents' summarisation",
    "ready": "langgraph_om, ready agent",
    "middleware": "langgraph_om, middleware",
    "newest": "Mastra alone, newest messages",
    "observational": "Mastra, observational memory",
}
BARE = {"newest": "newest", "observational": "newest"}
"""Beside which agent the others of a language are measured; else the one of LangGraph."""
IN_NODE = ("newest", "observational")


# --- An agent in its process ---------------------------------------------------------------------


def serve(kind: str, file: Path, threshold: int, folder: Path) -> None:
    """Take a turn for each line of input."""
    from agents import PROMPT, remembering  # noqa: PLC0415 only this process needs them
    from conversation import lookup  # noqa: PLC0415
    from langchain_core.messages import AIMessage  # noqa: PLC0415
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415
    from peers import deep, summarising  # noqa: PLC0415
    from turns import langchain_agent, resident_bytes  # noqa: PLC0415

    from langgraph_om import create_memory_agent  # noqa: PLC0415
    from langgraph_om.testing import (  # noqa: PLC0415
        ExtractiveObserver,
        ExtractiveReflector,
        ScriptedChatModel,
    )

    script: list[AIMessage] = []
    marks: list[tuple[float, float]] = []

    def act(_: object) -> AIMessage:
        marks.append((time.perf_counter(), time.process_time()))
        said = script.pop(0)
        marks.append((time.perf_counter(), time.process_time()))
        return said

    actor: Any = ScriptedChatModel(actor=act)
    helper = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    database = str(folder / "checkpoints.db")
    with SqliteSaver.from_conn_string(database) as saver, ExitStack() as stack:
        if kind in ("ready", "middleware"):
            memory = stack.enter_context(remembering(helper, message_tokens=threshold))
            graph: Any = (
                create_memory_agent(
                    actor, [lookup], memory=memory, prompt=PROMPT, checkpointer=saver
                )
                if kind == "ready"
                else langchain_agent(actor, saver, memory, delta=True)
            )
        elif kind == "bare":
            graph = langchain_agent(actor, saver, None, delta=True)
        else:
            build = summarising if kind == "summary" else deep
            graph = build(actor, threshold, saver).graph
        config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
        for at, turn in enumerate(json.loads(file.read_text("utf-8"))):
            if not sys.stdin.readline():
                return
            script[:] = [
                AIMessage(
                    "",
                    id=f"a{at}-{number}",
                    tool_calls=[
                        {"name": "lookup", "args": {"query": query}, "id": f"c{at}-{number}"}
                    ],
                )
                for number, query in enumerate(turn["calls"])
            ]
            script.append(AIMessage(turn["answer"], id=f"a{at}"))
            marks[:] = [(time.perf_counter(), time.process_time())]
            graph.invoke({"messages": [("user", turn["user"])]}, config)
            marks.append((time.perf_counter(), time.process_time()))
            for each in (actor, helper):  # what test doubles keep is not memory's
                each.calls.clear()
            pairs = zip(marks[::2], marks[1::2], strict=True)
            waits = [[1000 * (b - a) for a, b in zip(*pair, strict=True)] for pair in pairs]
            tell({"waits": waits, "resident": resident_bytes()})


# --- All of them by turns ------------------------------------------------------------------------


class Figures(NamedTuple):
    """Medians of the turns that count: milliseconds by clock and processor, and bytes."""

    first: tuple[float, float]
    next: tuple[float, float]
    last: tuple[float, float]
    whole: float
    """The processor's time of a turn."""
    slowest: float
    """The longest wait by the clock of one turn in a hundred."""
    stored: float
    resident: float


class Agent(Worker):
    """An agent in another process."""

    def __init__(self, command: list[str], tree: Path, folder: Path) -> None:
        super().__init__(command, tree)
        self.turns: list[dict[str, Any]] = []
        self.stored = [0]
        """Bytes of its databases: none, after the first half of the turns, and at the end."""
        self._folder = folder

    def turn(self) -> None:
        """Let it take a turn."""
        self.turns.append(self.ask())

    def weigh(self) -> None:
        """Note how large its databases are, with all that waits in their logs written to them."""
        for database in self._folder.glob("*.db"):
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.stored.append(sum(each.stat().st_size for each in self._folder.iterdir()))

    def figures(self) -> Figures:
        """Return what its turns took, the first half of them left out."""
        half = len(self.turns) // 2
        counted = self.turns[half:]

        def middle(chosen: slice) -> tuple[float, float]:
            waits = [wait for turn in counted for wait in turn["waits"][chosen]]
            return median([wall for wall, _ in waits]), median([cpu for _, cpu in waits])

        walls = sorted(sum(wall for wall, _ in turn["waits"]) for turn in counted)
        *_, before, after = self.stored
        return Figures(
            middle(slice(0, 1)),
            middle(slice(1, STEPS)),
            middle(slice(STEPS, None)),
            sum(cpu for turn in counted for _, cpu in turn["waits"]) / len(counted),
            walls[len(walls) * 99 // 100],
            (after - before) / len(counted),
            counted[-1]["resident"],
        )


def converse(turns: int) -> list[dict[str, Any]]:
    """Return what is said in each turn."""
    from conversation import conversation  # noqa: PLC0415

    random = Random(7)  # noqa: S311 not for secrets
    texts = [each.text for each in conversation(2 * turns, words=40, calls_every=0)]
    return [
        {
            "user": texts[2 * at],
            "calls": [f"question {at}.{random.randrange(100)}" for _ in range(STEPS - 1)],
            "answer": texts[2 * at + 1],
        }
        for at in range(turns)
    ]


def hold(
    kinds: Sequence[str],
    turns: int,
    threshold: int,
    mastra: Path | None,
    trees: Mapping[str, Path] = MappingProxyType({}),
) -> dict[str, Figures]:
    """Hold the conversation with all; a kind behind a comma lives in a tree of that name."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        file = Path(place, "conversation.json")
        file.write_text(json.dumps(converse(turns)), "utf-8")
        agents: dict[str, Agent] = {}
        for kind in kinds:
            folder = Path(place, kind)
            folder.mkdir()
            served, _, tree = kind.partition(",")
            arguments = [served, str(file), str(threshold), str(folder)]
            command = [__file__, "--serve", *arguments]
            if kind in IN_NODE:
                assert mastra is not None
                script = mastra / "mastra_turns.mjs"  # its imports are looked up from here
                script.write_text((HERE / script.name).read_text("utf-8"), "utf-8")
                command = [str(mastra / "node_modules" / ".bin" / "node"), str(script), *arguments]
            agent = Agent(command, trees.get(tree, ROOT), folder)
            agents[kind] = stack.enter_context(closing(agent))
        order = list(agents)
        for at in range(1, turns + 1):
            order = [*order[1:], order[0]]
            for kind in order:
                agents[kind].turn()
                if at in {turns // 2, turns}:
                    agents[kind].weigh()
        return {kind: agent.figures() for kind, agent in agents.items()}


def run(kinds: list[str], turns: int, threshold: int, mastra: Path | None) -> Report:
    """Hold the conversation with all, and compare."""
    found = hold(kinds, turns, threshold, mastra)
    rows = []
    for kind, each in found.items():
        bare = found.get(BARE.get(kind, "bare"), each)
        rows.append(
            [
                NAMES[kind],
                *(
                    f"{mine[0]:.1f} / {mine[1]:.1f} ms ({mine[1] - theirs[1]:+.1f})"
                    for mine, theirs in (
                        (each.first, bare.first),
                        (each.next, bare.next),
                        (each.last, bare.last),
                    )
                ),
                f"{each.whole:.0f} ms ({each.whole - bare.whole:+.0f})",
                f"{each.slowest:.0f} ms",
                f"{each.stored / 1024:.1f} KiB",
                f"{each.resident / 1024**2:.0f} MiB",
            ]
        )
    columns = ["", "first step", "next step", "last", "turn", "1 in 100", "written", "process"]
    notes = [
        f"{turns} turns of {STEPS} steps, the second half counted; thresholds {threshold} tokens.",
        "Clock / processor (processor beyond the agent alone of the same language).",
    ]
    return Report("Side by side", columns, rows, [], notes)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure agents with other memories by turns.")
    parser.add_argument("--mastra", type=Path, metavar="FOLDER", help="where npm installed it")
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--threshold", type=int, default=6_000)
    parser.add_argument("--serve", nargs=4, help="one agent alone, for ourselves")
    chosen = parser.parse_args()
    if chosen.serve:
        kind, file, threshold, folder = chosen.serve
        serve(kind, Path(file), int(threshold), Path(folder))
        return
    kinds = [kind for kind in NAMES if chosen.mastra or kind not in IN_NODE]
    print(text_table(run(kinds, chosen.turns, chosen.threshold, chosen.mastra)))  # noqa: T201


if __name__ == "__main__":
    main()
