"""What memory adds to checkpoints and to the process.

Run by itself with `memory` or `bare` and numbers of messages, this file holds a conversation and
writes the process's size at these numbers as JSON; that is how the process is measured.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents import (
    PROMPT,
    Graph,
    PlainState,
    bare_graph,
    extractive,
    on_thread,
    past,
    plain_memory_graph,
    remembering,
)
from conversation import conversation, turns
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from report import Budget, Options, Report

from langgraph_om import create_memory_agent
from langgraph_om.runtime.executors import InlineBuffering
from langgraph_om.testing import ScriptedChatModel

SIZES = (200, 1_000)
GROUPS = 40
WINDOW = 60
"""Messages that are not observed yet."""
QUIET = 60_000
"""A threshold that is not reached, so that steps have nothing to do."""
MAX_GROWTH_WITH_LOG = 1.2
"""How much more bytes a turn may write with a full log than with an empty one."""
MAX_PROCESS_GROWTH = 1.2
KIB = 1024


# --- Checkpoints ---------------------------------------------------------------------------------


@contextmanager
def new_saver() -> Iterator[SqliteSaver]:
    """A checkpointer on a file that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteSaver.from_conn_string(str(Path(folder, "threads.sqlite"))) as saver,
    ):
        yield saver


def stored_bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """Bytes in the saver's tables, and of these what was written to the `om` channel."""
    (checkpoints,) = connection.execute(
        "SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints"
    ).fetchone()
    (writes,) = connection.execute("SELECT coalesce(sum(length(value)), 0) FROM writes").fetchone()
    (ours,) = connection.execute(
        "SELECT coalesce(sum(length(value)), 0) FROM writes WHERE channel = 'om'"
    ).fetchone()
    return {"all": checkpoints + writes, "om writes": ours}


def make_graph(kind: str, saver: SqliteSaver) -> Graph:
    actor = ScriptedChatModel(actor="ok")
    memory = remembering(extractive(), message_tokens=QUIET)
    if kind == "delta":
        return create_memory_agent(actor, memory=memory, prompt=PROMPT, checkpointer=saver)
    if kind == "plain":
        return plain_memory_graph(actor, memory, saver)
    return (
        bare_graph(actor, saver, schema=PlainState)
        if kind == "plain bare"
        else bare_graph(actor, saver)
    )


def bytes_per_turn(kind: str, count: int, groups: int, turn_count: int) -> dict[str, float]:
    """What one turn adds to the tables, on a thread with a past."""
    messages = conversation(count)
    inline = remembering(extractive(), message_tokens=QUIET, buffering=InlineBuffering())
    record = past(inline, messages, count - WINDOW, groups=groups)
    values: dict[str, Any] = {"messages": messages}
    if "bare" not in kind:
        values["om"] = dict(record)
    with new_saver() as saver:
        graph = make_graph(kind, saver)
        graph.update_state(on_thread(), values, as_node="agent")
        before = stored_bytes(saver.conn)
        for said in conversation(2 * turn_count, prefix="n", seed=5, calls_every=0)[::2]:
            graph.invoke({"messages": [HumanMessage(said.text, id=said.id)]}, on_thread())
        after = stored_bytes(saver.conn)
    return {key: (after[key] - before[key]) / turn_count for key in after}


# --- The process ---------------------------------------------------------------------------------


def resident_bytes() -> int:
    """The size of this process now; where that is not told, its largest size so far."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def grow(kind: str, marks: Sequence[int]) -> dict[int, int]:
    """Talk, and tell the process's size when the thread has so many messages."""
    runs = turns(conversation(max(marks), calls_every=0))
    actor = ScriptedChatModel(actor=[answer for _, said in runs for answer in said])
    sizes: dict[int, int] = {}
    with new_saver() as saver:
        observer = extractive()
        memory = remembering(observer, message_tokens=6_000)
        graph = (
            create_memory_agent(actor, memory=memory, prompt=PROMPT, checkpointer=saver)
            if kind == "memory"
            else bare_graph(actor, saver, shown=100)
        )
        for number, (inputs, _) in enumerate(runs, start=1):
            graph.invoke({"messages": inputs}, on_thread())
            # What the test doubles keep is not memory's.
            actor.calls.clear()
            observer.calls.clear()
            if 2 * number in marks:
                sizes[2 * number] = resident_bytes()
    return sizes


def measured_apart(kind: str, marks: Sequence[int]) -> dict[int, int]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, kind, *map(str, marks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 ourselves
    return {int(mark): size for mark, size in json.loads(done.stdout).items()}


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    delta_turns, plain_turns = options.pick(100, 20), options.pick(10, 4)
    marks = options.pick((1_000, 5_000), (200, 600))
    figures: dict[str, dict[str, float]] = {}
    rows: list[list[object]] = []
    for count in SIZES:
        for kind, groups in (("delta", 0), ("delta", GROUPS), ("plain", 0), ("plain", GROUPS)):
            turn_count = delta_turns if kind == "delta" else plain_turns
            bare = bytes_per_turn(f"{kind} bare", count, 0, turn_count)
            ours = bytes_per_turn(kind, count, groups, turn_count)
            added = {"added": ours["all"] - bare["all"], "bare": bare["all"], **ours}
            figures[f"{kind}/{count}/{groups}"] = added
            name = f"{kind} channels, {count} messages, log of {groups} groups"
            rows.append([name, *(f"{added[key]:,.0f} B" for key in ("bare", "added", "om writes"))])
    process = {kind: measured_apart(kind, marks) for kind in ("memory", "bare")}
    for kind, sizes in process.items():
        low, high = (sizes[mark] for mark in marks)
        name = f"process, {kind}, {marks[0]} and {marks[1]} messages"
        rows.append(
            [name, f"{low / KIB**2:.0f} MiB", f"{high / KIB**2:.0f} MiB", _times(high / low)]
        )
    return Report(
        "Bytes per turn in a SQLite checkpointer, and the process",
        ["case", "bare turn", "added", "of it om writes"],
        rows,
        [*_byte_budgets(figures), _process_budget(process, marks)],
        [
            f"Means over {delta_turns} turns (delta) or {plain_turns} (plain), nothing to do.",
            "Delta channels write a snapshot with each 100th update; the mean includes it.",
        ],
        {"bytes": figures, "process": process},
    )


def _times(ratio: float) -> str:
    return f"x {ratio:.2f}"


def _byte_budgets(figures: dict[str, dict[str, float]]) -> list[Budget]:
    budgets: list[Budget] = []
    for count in SIZES:
        empty, full = (figures[f"delta/{count}/{groups}"] for groups in (0, GROUPS))
        ratio = full["added"] / empty["added"]
        budgets.append(
            Budget(
                f"checkpoint bytes added per turn, delta channels, {count} messages: log of "
                f"{GROUPS} groups against an empty one",
                f"< x {MAX_GROWTH_WITH_LOG}",
                f"{full['added'] / KIB:.1f} KiB, {_times(ratio)}",
                ratio < MAX_GROWTH_WITH_LOG,
            )
        )
    few, many = (figures[f"delta/{count}/{GROUPS}"]["added"] for count in SIZES)
    budgets.append(
        Budget(
            f"the same at {SIZES[1]} against {SIZES[0]} messages",
            f"< x {MAX_GROWTH_WITH_LOG}",
            _times(many / few),
            many / few < MAX_GROWTH_WITH_LOG,
        )
    )
    return budgets


def _process_budget(process: dict[str, dict[int, int]], marks: Sequence[int]) -> Budget:
    ratio = {kind: sizes[marks[1]] / sizes[marks[0]] for kind, sizes in process.items()}
    return Budget(
        f"process at {marks[1]} messages against {marks[0]} (without memory: "
        f"{_times(ratio['bare'])})",
        f"< x {MAX_PROCESS_GROWTH}",
        f"{process['memory'][marks[1]] / KIB**2:.0f} MiB, {_times(ratio['memory'])}",
        ratio["memory"] < MAX_PROCESS_GROWTH,
    )


if __name__ == "__main__":
    sizes_at = grow(sys.argv[1], [int(mark) for mark in sys.argv[2:]])
    sys.stdout.write(json.dumps(sizes_at))
