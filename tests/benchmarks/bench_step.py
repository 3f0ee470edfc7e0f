"""What a step costs when there is nothing to do, and the first turn on a long thread.

Nothing here waits, so time is the processor's. Of many repetitions the least counts: what others
took longer is the machine's other work, which fills its caches and slows its clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from agents import (
    PROMPT,
    Graph,
    Stopwatch,
    TimedModel,
    bare_graph,
    extractive,
    on_thread,
    past,
    remembering,
)
from conversation import COUNTER, conversation, tokens
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from report import Budget, Options, Report, milliseconds, percent, seconds
from turns_on_disk import time_turns

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.memory import runner_of
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.executors import InlineBuffering

WINDOW_TOKENS = 28_000
LONG, SHORT = 260, 11
"""Mean words of a message where the window is about 90 messages, and about 1000."""
MAX_STEP_MILLISECONDS = {LONG: 0.5, SHORT: 1.5}
"""Own time of a step with nothing to do, by the words of a message."""
MAX_ADDED_MILLISECONDS = 2.0
"""What memory may add to a turn of one step, beside an idle node."""
MAX_DRIFT = 0.2
MAX_ADOPTION_SECONDS = {True: 1.0, False: 0.2}
"""By whether the thread is of more than a million tokens."""
LARGE_TOKENS = 1_000_000
MAX_TURN_MILLISECONDS = 8.0
"""What memory may add to a turn of four steps, and an archive to that."""
MAX_PLAIN_BYTES, PLAIN_SIZE = 1.15, 2_000
"""With plain channels, what an idle turn stores, in those of an agent without memory; from so many
messages on, as the log is in each checkpoint too."""


@dataclass(frozen=True)
class Thread:
    """A thread in mid-conversation, its window just below the threshold and covered by chunks."""

    record: MemoryRecord
    messages: list[BaseMessage]
    window: int
    """How many messages are in the window."""


def window_of(words: int) -> list[BaseMessage]:
    """Messages that make a window of about 28 000 tokens."""
    source = conversation(4 * WINDOW_TOKENS // words // 3, words=words, prefix="w", seed=2)
    sizes = accumulate(COUNTER.count_message(message) for message in source)
    return source[: sum(size < WINDOW_TOKENS for size in sizes)]


def look(
    memory: ObservationalMemory, record: MemoryRecord, messages: Sequence[BaseMessage]
) -> Step:
    """Inspect a conversation as a step does."""
    runner = runner_of(memory)
    flow = runner.inspect(record, messages, runner.identity(on_thread()))
    return drive(flow, runner.context()).result


def thread_of(count: int, words: int) -> Thread:
    """A thread of so many messages, its window as full as it can be with nothing due."""
    full = window_of(words)
    observed = conversation(count - len(full), prefix="p")
    inline = remembering(extractive(), buffering=InlineBuffering())
    for spare in range(0, len(full), 2):
        window = full[: len(full) - spare]
        messages = [*observed, *window]
        # The newest two messages are not counted yet: they came with the step that is measured.
        record = past(inline, messages[:-2], len(observed), look_every=max(1, len(window) // 20))
        seen = look(inline, record, messages)
        if seen.decision.kind == "proceed" and record["chunks"]:
            return Thread(record, messages, len(window))
    msg = "with every window there is something to do"
    raise RuntimeError(msg)


# --- Without a graph -----------------------------------------------------------------------------

FIRST, NEXT = "first look", "look"
PARTS = (FIRST, NEXT, "decide", "input")
"""A run's first step has messages to look at that were loaded just now; a later one has two that
are new."""


def prepare(memory: ObservationalMemory, thread: Thread, part: str) -> None:
    """Have a memory know of a thread what it knows when it comes to a piece of a step."""
    runner_of(memory).spans.clear()
    if part != FIRST:
        look(memory, thread.record, thread.messages[:-2])
    if part not in (FIRST, NEXT):
        look(memory, thread.record, thread.messages)


def pieces(memory: ObservationalMemory, thread: Thread) -> dict[str, Callable[[], Any]]:
    """The pieces of one step, each to be run by itself."""
    runner = runner_of(memory)
    seen = look(memory, thread.record, thread.messages)
    state = {"messages": thread.messages, "om": seen.record}
    config = on_thread()
    return {
        FIRST: lambda: look(memory, thread.record, thread.messages),
        NEXT: lambda: look(memory, thread.record, thread.messages),
        "decide": lambda: runner.decide(seen.record, thread.messages),
        "input": lambda: memory.llm_input_messages(state, system=PROMPT, config=config),
    }


def time_pure(
    cases: Sequence[tuple[int, int]], repetitions: int
) -> dict[tuple[int, int], dict[str, float]]:
    """The least seconds per piece, per (messages, words) case, which take turns against noise."""
    memory = remembering(extractive())
    threads = {case: thread_of(*case) for case in cases}
    work = {case: pieces(memory, thread) for case, thread in threads.items()}
    laps: dict[tuple[int, int], dict[str, list[float]]] = {
        case: {part: [] for part in PARTS} for case in cases
    }
    for _ in range(repetitions):
        for case in cases:
            for part in PARTS:
                prepare(memory, threads[case], part)
                laps[case][part].append(seconds(work[case][part]))
    result: dict[tuple[int, int], dict[str, float]] = {}
    for case in cases:
        result[case] = {part: min(laps[case][part]) for part in PARTS}
        result[case]["sum"] = sum(result[case].values()) - result[case][FIRST]
        window = threads[case].window
        result[case]["window"] = window
        result[case]["tokens"] = tokens(threads[case].messages[-window:])
    return result


# --- In a graph ----------------------------------------------------------------------------------


def seeded(graph: Graph, thread: Thread, *, with_memory: bool) -> Graph:
    values: dict[str, Any] = {"messages": thread.messages}
    if with_memory:
        values["om"] = dict(thread.record)
    graph.update_state(on_thread(), values, as_node="agent")
    return graph


def time_graph(count: int, turns: int) -> dict[str, float]:
    """The least own seconds of a turn with memory, with an idle gate instead, with neither."""
    thread = thread_of(count, LONG)
    model = TimedModel(actor="ok")
    memory = remembering(extractive())
    shown = thread.window
    graphs = {
        "memory": seeded(
            create_memory_agent(model, memory=memory, prompt=PROMPT, checkpointer=InMemorySaver()),
            thread,
            with_memory=True,
        ),
        "gate": seeded(
            bare_graph(model, InMemorySaver(), shown=shown, with_gate=True),
            thread,
            with_memory=False,
        ),
        "bare": seeded(bare_graph(model, InMemorySaver(), shown=shown), thread, with_memory=False),
    }
    watches = {name: Stopwatch(model) for name in graphs}
    order = list(graphs)
    for turn in range(turns):
        order = [*order[1:], order[0]]
        for name in order:
            said = {"messages": [HumanMessage("And what next?", id=f"{name}-{turn}")]}
            with watches[name].lap():
                graphs[name].invoke(said, on_thread())
            model.calls.clear()
    return {name: min(watch.laps) for name, watch in watches.items()}


# --- Adopting a thread ---------------------------------------------------------------------------


def time_adoption(count: int, words: int, *, buffering: bool) -> dict[str, float]:
    """Own seconds of the first turn on a thread that memory has never seen."""
    answer = (
        "<observations>\nDate: Jan 5, 2026\n* 🔴 (09:30) User has a sister, Ana.\n</observations>"
    )
    model = TimedModel(actor="ok", observer=answer, reflector=answer)
    memory = remembering(model, buffer_tokens=None if buffering else 0)
    thread = Thread({}, conversation(count, words=words), 0)
    graph = create_memory_agent(model, memory=memory, prompt=PROMPT, checkpointer=InMemorySaver())
    bare = bare_graph(model, InMemorySaver(), shown=100)
    watch = Stopwatch(model)
    for each in (bare, graph):
        gc.collect()
        seeded(each, thread, with_memory=False)
        with watch.lap():
            each.invoke({"messages": [HumanMessage("And now?", id="new")]}, on_thread())
    memory.flush()
    observed = [call for call in model.calls if call["role"] == "observer"]
    return {
        "own": watch.laps[1] - watch.laps[0],
        "bare": watch.laps[0],
        "cycles": len(observed),
        "tokens": tokens(thread.messages),
    }


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    repetitions, turns = options.pick(60, 15), options.pick(30, 10)
    sizes = (100, 1_000, 10_000)
    chatty = (2_000, 10_000)
    cases = [*((size, LONG) for size in sizes), *((size, SHORT) for size in chatty)]
    pure = time_pure(cases, repetitions)
    rows: list[list[object]] = [
        [
            f"pure, {size} messages, window of {timed['window']:.0f}",
            *(milliseconds(timed[part]) for part in (*PARTS, "sum")),
        ]
        for (size, _), timed in pure.items()
    ]
    in_graph = {size: time_graph(size, turns) for size in sizes[: options.pick(3, 2)]}
    for size, timed in in_graph.items():
        added = timed["memory"] - timed["gate"]
        step = f"gate alone {milliseconds(timed['gate'] - timed['bare'])}"
        turn = f"bare turn {milliseconds(timed['bare'])}"
        rows.append([f"in a graph, {size} messages", turn, step, "added", milliseconds(added)])
    adopted = _adoptions(options)
    for (size, words, buffering), timed in adopted.items():
        name = f"first turn on {size} messages of {words} words, buffering {_on(on=buffering)}"
        cycles, total = f"{timed['cycles']:.0f} cycles", f"{timed['tokens']:.0f} tokens"
        rows.append([name, cycles, total, "own", f"{timed['own']:.2f} s"])
    on_disk = _turns_on_disk(options)
    for (size, channels), kinds in on_disk.items():
        for kind, timed in kinds.items():
            base = next(iter(kinds.values()))
            ratio = timed["seconds"] / base["seconds"]
            grown = timed["bytes"] / base["bytes"]
            name = f"turn of 4 steps, SQLite, {channels} channels, {size} messages, {kind}"
            taken = milliseconds(timed["seconds"])
            rows.append(
                [name, taken, f"x {ratio:.2f}", f"{timed['bytes']:,.0f} B", f"x {grown:.2f}"]
            )
    return Report(
        "Own time per step with nothing to do, and of the first turn",
        ["case", *PARTS, "sum"],
        rows,
        [*_budgets(pure, in_graph, adopted), *_disk_budgets(on_disk)],
        [f"The least of {repetitions} repetitions, of {turns} turns, of 4 first turns. CPU time."],
        {
            "pure": {f"{size}/{words}": timed for (size, words), timed in pure.items()},
            "graph": in_graph,
            "disk": {"/".join(map(str, case)): timed for case, timed in on_disk.items()},
            "adoption": {"/".join(map(str, case)): timed for case, timed in adopted.items()},
        },
    )


OnDisk = dict[tuple[int, str], dict[str, dict[str, float]]]


def _turns_on_disk(options: Options) -> OnDisk:
    figures: OnDisk = {}
    for size in (100, PLAIN_SIZE, options.pick(5_000, 1_000)):
        thread = thread_of(size, LONG)
        for channels, kinds, turns, rounds in (
            ("delta", ("bare", "memory", "archive"), options.pick(30, 8), options.pick(4, 1)),
            ("plain", ("bare", "memory"), options.pick(4, 2), 1),
            ("plain, create_agent", ("create_agent", "middleware"), options.pick(4, 2), 1),
            ("plain, by hand", ("bare", "own graph"), options.pick(4, 2), 1),
            ("plain, LangGraph alone", ("bare", "idle node"), options.pick(4, 2), 1),
        ):
            figures[size, channels] = time_turns(
                thread.messages,
                thread.record,
                kinds,
                turns,
                rounds=rounds,
                delta=channels == "delta",
            )
    return figures


def _disk_budgets(on_disk: OnDisk) -> list[Budget]:
    budgets: list[Budget] = []
    for (size, channels), kinds in on_disk.items():
        if channels.startswith("plain"):
            (_, base), (kind, timed) = kinds.items()
            if size < PLAIN_SIZE or kind == "idle node":
                continue
            ratio = timed["bytes"] / base["bytes"]
            name = f"bytes of a turn of 4 steps with plain channels, {kind}, {size} messages"
            target = f"< x {MAX_PLAIN_BYTES}"
            budgets.append(Budget(name, target, f"x {ratio:.2f}", ratio < MAX_PLAIN_BYTES))
            continue
        for kind, base in (("memory", "bare"), ("archive", "memory")):
            added = kinds[kind]["seconds"] - kinds[base]["seconds"]
            name = f"time that {kind} adds to a turn of 4 steps on SQLite, {size} messages"
            target = f"< {MAX_TURN_MILLISECONDS:g} ms"
            is_met = added * 1000 < MAX_TURN_MILLISECONDS
            budgets.append(Budget(name, target, milliseconds(added), is_met))
    return budgets


Adoptions = dict[tuple[int, int, bool], dict[str, float]]


def _adoptions(options: Options) -> Adoptions:
    count, tries = options.pick(5_000, 1_000), options.pick(4, 1)
    adopted: Adoptions = {}
    for words in (30, LONG):
        for buffering in (False, True):
            timed = [time_adoption(count, words, buffering=buffering) for _ in range(tries)]
            adopted[count, words, buffering] = min(timed, key=itemgetter("own"))
    return adopted


def _on(*, on: bool) -> str:
    return "on" if on else "off"


def _budgets(
    pure: dict[tuple[int, int], dict[str, float]],
    in_graph: dict[int, dict[str, float]],
    adopted: Adoptions,
) -> list[Budget]:
    budgets = [_step_budget(pure, LONG, 1_000), _step_budget(pure, SHORT, 2_000)]
    for words in (LONG, SHORT):
        sizes = [size for size, of in pure if of == words]
        drift = pure[max(sizes), words]["sum"] / pure[min(sizes), words]["sum"] - 1
        window = pure[max(sizes), words]["window"]
        name = f"the same at {min(sizes)} and {max(sizes)} messages (window of {window:.0f})"
        budgets.append(Budget(name, f"±{MAX_DRIFT:.0%}", percent(drift), abs(drift) <= MAX_DRIFT))
    added = {size: (each["memory"] - each["gate"]) * 1000 for size, each in in_graph.items()}
    sizes = list(added)
    budgets.append(
        Budget(
            f"time added to a graph's turn, beside an idle node ({_list(sizes)} messages)",
            f"< {MAX_ADDED_MILLISECONDS:g} ms",
            f"{_list(f'{value:.1f}' for value in added.values())} ms",
            max(added.values()) < MAX_ADDED_MILLISECONDS,
        )
    )
    for (size, _, buffering), timed in adopted.items():
        most = MAX_ADOPTION_SECONDS[timed["tokens"] > LARGE_TOKENS]
        budgets.append(
            Budget(
                f"own time of the first turn on {size} messages, {timed['tokens'] / 1000:.0f}k "
                f"tokens, {timed['cycles']:.0f} cycles, buffering {_on(on=buffering)}",
                f"< {most:g} s",
                f"{timed['own']:.2f} s",
                timed["own"] < most,
            )
        )
    return budgets


def _list(values: Iterable[object]) -> str:
    return " / ".join(map(str, values))


def _step_budget(pure: dict[tuple[int, int], dict[str, float]], words: int, size: int) -> Budget:
    timed, most = pure[size, words], MAX_STEP_MILLISECONDS[words]
    return Budget(
        f"own time per step with nothing to do, window of {timed['tokens'] / 1000:.0f}k "
        f"tokens in {timed['window']:.0f} messages",
        f"< {most:g} ms",
        milliseconds(timed["sum"]),
        timed["sum"] * 1000 < most,
    )
