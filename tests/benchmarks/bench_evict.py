"""What a turn costs with an archive, when observed messages leave the state and when they stay.

One conversation per case, each in a process of its own, is held from its first message on, and
sampled where the history has so many messages. Run by itself, this file prints Markdown rows:
`python tests/benchmarks/bench_evict.py [--quick | --long]`; `--long` goes on to 100 000 messages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import PROMPT, Graph, Stopwatch, TimedModel, on_thread, remembering
from bench_bytes import KIB, new_saver, resident_bytes, stored_bytes
from conversation import conversation
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from report import Budget, Options, Report, markdown_table, median, milliseconds, text_table

from langgraph_om import create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector

MARKS = (100, 1_000, 10_000)
QUICK_MARKS = (100, 300, 600)
LONG_MARKS = (*MARKS, 100_000)
KEPT_MARKS = (100, 1_000, 2_000)
"""The same without eviction, where turns get slower and slower; with `--long` it is `MARKS`."""
SPAN = 50
"""Turns before a mark that a sample is taken of; several cycles are among them."""
MESSAGE_TOKENS = 1_000
SAID = 1_000
"""So many messages are made up at once, so that they do not count in the process's size."""
MAX_GROWTH = 1.2

Sample = dict[str, float]


# --- One conversation, in a process of its own ---------------------------------------------------


@dataclass
class Talk:
    """A conversation under way."""

    graph: Graph
    model: TimedModel
    watch: Stopwatch
    saver: SqliteSaver
    answers: list[str]
    """The next answer of the model, alone."""
    texts: Sequence[str] = ()

    def turn(self, number: int) -> int:
        """Say something, take the answer, and tell how many messages the state has then."""
        place = 2 * number % SAID
        if not place:
            made = conversation(SAID, seed=number, words=20, calls_every=0)
            self.texts = [message.text for message in made]
        said = HumanMessage(self.texts[place], id=f"u{number:06}")
        self.answers[:] = [self.texts[place + 1]]
        with self.watch.lap():
            state = self.graph.invoke({"messages": [said]}, on_thread())
        # What the test doubles keep is not memory's.
        self.model.calls.clear()
        return len(state["messages"])

    def sample(self, first: int) -> Sample:
        """Hold the turns of one span, and tell what they came to."""
        self.watch.laps.clear()
        before = stored_bytes(self.saver.conn)["all"]
        most = max(self.turn(number) for number in range(first, first + SPAN))
        laps = self.watch.laps
        written = stored_bytes(self.saver.conn)["all"] - before
        return {
            "mean": sum(laps) / SPAN,
            "median": median(laps),
            "bytes": written / SPAN,
            "stored": before + written,
            "messages": most,
            "process": resident_bytes(),
        }


def answering(answers: list[str]) -> TimedModel:
    """A model for all roles that says what it is given."""
    return TimedModel(
        actor=lambda _: answers[0],
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )


def hold(kind: str, marks: Sequence[int]) -> Iterator[tuple[int, Sample]]:
    """Talk, and take a sample before each mark."""
    answers: list[str] = []
    model = answering(answers)
    with tempfile.TemporaryDirectory() as folder, new_saver() as saver:
        memory = remembering(
            model,
            message_tokens=MESSAGE_TOKENS,
            buffer_tokens=0,
            archive=f"sqlite:///{Path(folder, 'archive.db')}",
            evict=kind == "evict",
        )
        with memory:
            saver.setup()
            graph = create_memory_agent(model, memory=memory, prompt=PROMPT, checkpointer=saver)
            talk, done = Talk(graph, model, Stopwatch(model), saver, answers), 0
            for mark in marks:
                first = mark // 2 - SPAN
                for number in range(done, first):
                    talk.turn(number)
                yield mark, talk.sample(first)
                done = first + SPAN


def held_apart(kind: str, marks: Sequence[int]) -> dict[int, Sample]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--kind", kind, "--marks", *map(str, marks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 ourselves
    return dict(map(json.loads, done.stdout.splitlines()))


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    return report_of(options.pick(MARKS, QUICK_MARKS), options.pick(KEPT_MARKS, QUICK_MARKS))


def report_of(marks: Sequence[int], kept_marks: Sequence[int]) -> Report:
    samples = {
        "evict": held_apart("evict", marks),
        "keep": held_apart("keep", kept_marks),
    }
    rows = [
        [
            f"{kind}, {mark} messages",
            milliseconds(sample["mean"]),
            milliseconds(sample["median"]),
            f"{sample['bytes'] / KIB:.1f} KiB",
            f"{sample['messages']:.0f}",
            f"{sample['process'] / KIB**2:.0f} MiB",
            f"{sample['stored'] / KIB**2:.1f} MiB",
        ]
        for kind, taken in samples.items()
        for mark, sample in taken.items()
    ]
    return Report(
        "A turn with an archive, with eviction and without",
        ["case", "own time", "median", "written", "in state", "process", "checkpoints"],
        rows,
        _budgets(samples),
        [
            f"Per turn, over the {SPAN} turns before that length; own time is the processor's,",
            f"LangGraph's included and the models' not. Threshold {MESSAGE_TOKENS} tokens.",
        ],
        {kind: {str(mark): sample for mark, sample in of.items()} for kind, of in samples.items()},
    )


_SHOWN: dict[str, Any] = {
    "own time per turn, LangGraph's included": ("mean", lambda v: f"{v * 1000:.1f} ms"),
    "checkpoint bytes per turn": ("bytes", lambda v: f"{v / KIB:.1f} KiB"),
    "most messages in the state": ("messages", lambda v: f"{v:.0f}"),
    "process": ("process", lambda v: f"{v / KIB**2:.0f} MiB"),
}


def _budgets(samples: dict[str, dict[int, Sample]]) -> list[Budget]:
    """Compare the longest conversation with the second mark, where all is warm."""
    budgets: list[Budget] = []
    kept = samples["keep"]
    for name, (key, written) in _SHOWN.items():
        evicted = samples["evict"]
        marks = sorted(evicted)
        growth = evicted[marks[-1]][key] / evicted[marks[1]][key]
        line = " / ".join(written(evicted[mark][key]) for mark in marks)
        without = " / ".join(f"{written(kept[mark][key])} at {mark}" for mark in sorted(kept))
        lengths = " / ".join(map(str, marks))
        budgets.append(
            Budget(
                f"with `evict=True`, {name}, at {lengths} messages",
                f"flat: < x {MAX_GROWTH} of the second",
                f"{line} (x {growth:.2f}); without eviction {without}",
                growth < MAX_GROWTH,
            )
        )
    return budgets


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 the tables are the program's output


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a turn costs with eviction.")
    parser.add_argument("--quick", action="store_true", help="shorter conversations")
    parser.add_argument("--long", action="store_true", help="also 100 000 messages")
    parser.add_argument(
        "--kind", choices=("evict", "keep"), help="one case alone, as lines of JSON"
    )
    parser.add_argument("--marks", type=int, nargs="+", default=MARKS, metavar="MESSAGES")
    chosen = parser.parse_args()
    if chosen.kind:
        for taken in hold(chosen.kind, chosen.marks):
            say(json.dumps(taken))
        return
    is_long = chosen.long and not chosen.quick
    report = report_of(LONG_MARKS, MARKS) if is_long else run(Options(quick=chosen.quick))
    say(f"{text_table(report)}\n\n{markdown_table(report.budgets)}")


if __name__ == "__main__":
    main()
