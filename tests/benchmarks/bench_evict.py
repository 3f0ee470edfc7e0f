"""What a turn costs with an archive, when observed messages leave the state and when they stay.

Each conversation is held in a process of its own, and all take turns, so that whatever slows the
machine slows all of them. Of a long one only the end is really held: its beginning is filled in, as
it stands in the archive after so many turns, and in the state where it was not evicted. One is held
from its first message on, to compare. Run by itself, this file prints Markdown rows:
`python tests/benchmarks/bench_evict.py [--quick | --long]`; `--long` compares at 10 000 messages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from agents import PROMPT, Graph, Stopwatch, TimedModel, full_log, noon, on_thread, remembering
from bench_bytes import KIB, new_saver, resident_bytes, stored_bytes
from conversation import conversation
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from report import Budget, Options, Report, markdown_table, median, milliseconds, text_table

from langgraph_om import create_memory_agent
from langgraph_om.archive import MessageArchive, SQLAlchemyArchive
from langgraph_om.core.record.record import CURSOR_TAIL
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector

MARKS = (100, 1_000, 10_000, 100_000)
QUICK_MARKS = (100, 300, 3_000)
KEPT_MARKS = (100, 1_000, 5_000)
"""The same without eviction, where turns get slower and slower."""
QUICK_KEPT_MARKS = (100, 300)
HELD = 300
"""So many messages are really said before a sample; by then the log has been reflected."""
GROUP = 40
"""About so many of these messages are observed at once."""
SPAN = 100
"""Turns that a sample is taken of; several cycles are among them."""
ROUND = 10
"""Turns of one process before it is the next one's turn."""
MESSAGE_TOKENS = 1_000
SAID = 1_000
"""So many messages are made up at once, so that they do not count in the process's size."""
MAX_GROWTH = 1.2

Sample = dict[str, float]
Row = tuple[str, BaseMessage, bool]


class Case(NamedTuple):
    """A conversation to measure."""

    kind: str
    """Either "evict" or "keep"."""
    mark: int
    """How many messages it has when the sample begins."""
    is_held: bool
    """Whether all of them are really said."""

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.mark} messages{'' if self.is_held else ', filled in'}"


# --- One conversation, in a process of its own ---------------------------------------------------


@dataclass
class Talk:
    """A conversation under way."""

    graph: Graph
    model: TimedModel
    saver: SqliteSaver
    archive: MessageArchive
    answers: list[str]
    """The next answer of the model, alone."""
    watch: Stopwatch
    count: int = 0
    """Messages so far."""
    most: int = 0
    """The most messages that the state had."""
    texts: Sequence[str] = ()

    def turns(self, number: int) -> None:
        """Say something and take the answer, so many times."""
        for _ in range(number):
            place = self.count % SAID
            if not self.texts or not place:
                self.texts = said(self.count)
            spoken = HumanMessage(self.texts[place], id=f"u{self.count:06}")
            self.answers[:] = [self.texts[place + 1]]
            with self.watch.lap():
                state = self.graph.invoke({"messages": [spoken]}, on_thread())
            # What the test doubles keep is not memory's.
            self.model.calls.clear()
            self.count += 2
            self.most = max(self.most, len(state["messages"]))

    def fill(self, count: int, *, evicts: bool) -> None:
        """Begin as if so many messages had been said and observed."""
        messages: list[BaseMessage] = []
        keys: list[str] = []
        for first in range(0, count, SAID):
            texts = said(first)[: count - first]
            rows = [filling(first + at, each) for at, each in enumerate(texts)]
            after = keys[-1] if keys else None
            new = [key for key, _, _ in rows]
            groups = full_log(new, 1) * (len(rows) // GROUP)
            noted = [{**group, "id": f"{new[0]}-{at}"} for at, group in enumerate(groups)]
            self.archive.append("t", None, rows, after=after, now=noon())
            self.archive.add_groups("t", None, noted, noon())
            keys += new
            messages += [message for _, message, _ in rows]
            if evicts:
                del messages[:-CURSOR_TAIL]
        record = {
            "thread_id": "t",
            "cursor": keys[-CURSOR_TAIL:],
            "archived": keys[-1],
            "evicted": keys[-CURSOR_TAIL - 1] if evicts else None,
        }
        values = {"messages": messages, "om": record}
        self.graph.update_state(on_thread(), values, as_node="agent")
        self.count = count

    def check(self) -> None:
        """Refuse to measure a conversation that the archive has not in one piece.

        Raises:
            ValueError: When messages are missing there, or are in the wrong place.
        """
        window = self.graph.get_state(on_thread()).values["messages"]
        end = self.archive.messages("t", limit=len(window), newest_first=True)
        places = [(each.key, each.position) for each in end]
        first = self.count - len(window)
        if places != [(message.id, first + at) for at, message in enumerate(window)]:
            msg = f"the archive ends with {places!r} after {self.count} messages"
            raise ValueError(msg)


def said(seed: int) -> list[str]:
    """Texts of a conversation."""
    return [message.text for message in conversation(SAID, seed=seed, words=20, calls_every=0)]


def filling(number: int, text: str) -> Row:
    """A message that is not really said."""
    key = f"f{number:06}"
    return key, (AIMessage if number % 2 else HumanMessage)(text, id=key), True


def answering(answers: list[str]) -> TimedModel:
    """A model for all roles that says what it is given."""
    return TimedModel(
        actor=lambda _: answers[0],
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )


@contextmanager
def talk_of(case: Case) -> Iterator[Talk]:
    """Begin a conversation, and bring it to its length."""
    answers: list[str] = []
    model = answering(answers)
    with tempfile.TemporaryDirectory() as folder, new_saver() as saver:
        archive = SQLAlchemyArchive(f"sqlite:///{Path(folder, 'archive.db')}")
        memory = remembering(
            model,
            message_tokens=MESSAGE_TOKENS,
            buffer_tokens=0,
            archive=archive,
            evict=case.kind == "evict",
        )
        with memory:
            saver.setup()
            graph = create_memory_agent(model, memory=memory, prompt=PROMPT, checkpointer=saver)
            talk = Talk(graph, model, saver, archive, answers, Stopwatch(model))
            if not case.is_held:
                talk.fill(case.mark - HELD, evicts=case.kind == "evict")
            talk.turns((case.mark - talk.count) // 2)
            talk.check()
            yield talk
        archive.close()


def hold(case: Case) -> None:
    """Take turns as often as a line asks for some, and tell what they came to at the end."""
    with talk_of(case) as talk:
        talk.watch.laps.clear()
        talk.most = 0
        before = stored_bytes(talk.saver.conn)["all"]
        say("ready")
        for line in sys.stdin:
            talk.turns(int(line))
            say("done")
        talk.check()
        laps = talk.watch.laps
        sample: Sample = {
            "mean": sum(laps) / len(laps),
            "median": median(laps),
            "bytes": (stored_bytes(talk.saver.conn)["all"] - before) / len(laps),
            "messages": talk.most,
            "process": resident_bytes(),
        }
        say(json.dumps(sample))


class Held:
    """A conversation in another process."""

    def __init__(self, case: Case) -> None:
        arguments = [case.kind, str(case.mark), *(["held"] if case.is_held else [])]
        self._process = subprocess.Popen(  # noqa: S603 ourselves
            [sys.executable, __file__, "--case", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        with self._process:
            pass

    def wait(self) -> str:
        """Wait for what it says next.

        Raises:
            ChildProcessError: When it says nothing any more.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = "a process of the benchmark ended too early; what it wrote stands above"
            raise ChildProcessError(msg)
        return line

    def turns(self, number: int) -> None:
        """Let it take turns."""
        assert self._process.stdin is not None
        print(number, file=self._process.stdin, flush=True)
        self.wait()

    def sample(self) -> Sample:
        """Let it end, and take what its turns came to."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        taken: Sample = json.loads(self.wait())
        return taken


def samples_of(cases: Sequence[Case]) -> dict[Case, Sample]:
    """Hold all conversations side by side, and measure them in turn."""
    with ExitStack() as stack:
        held = {case: stack.enter_context(Held(case)) for case in cases}
        for each in held.values():
            each.wait()
        for _ in range(SPAN // ROUND):
            for each in held.values():
                each.turns(ROUND)
        return {case: each.sample() for case, each in held.items()}


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    marks, kept = options.pick((MARKS, KEPT_MARKS), (QUICK_MARKS, QUICK_KEPT_MARKS))
    return report_of(marks, kept, compared=marks[1] if not options.quick else 600)


def report_of(marks: Sequence[int], kept_marks: Sequence[int], *, compared: int) -> Report:
    """Measure.

    Args:
        marks: Lengths with eviction.
        kept_marks: Lengths without.
        compared: The length at which one conversation is really held and another one filled in.
    """
    evicting = [Case("evict", mark, is_held=mark <= HELD) for mark in marks]
    keeping = [Case("keep", mark, is_held=mark <= HELD) for mark in kept_marks]
    pair = [Case("evict", compared, is_held=is_held) for is_held in (True, False)]
    samples = samples_of([*dict.fromkeys([*evicting, *pair, *keeping])])
    return Report(
        "A turn with an archive, with eviction and without",
        ["case", "own time", "median", "written", "in state", "process"],
        [
            [
                case.name,
                milliseconds(sample["mean"]),
                milliseconds(sample["median"]),
                f"{sample['bytes'] / KIB:.1f} KiB",
                f"{sample['messages']:.0f}",
                f"{sample['process'] / KIB**2:.0f} MiB",
            ]
            for case, sample in samples.items()
        ],
        [
            *_budgets(
                {case.mark: samples[case] for case in evicting},
                {case.mark: samples[case] for case in keeping},
                compared,
                [samples[case] for case in pair],
            )
        ],
        [
            f"Per turn, over the {SPAN} turns from that length on, all processes in alternation;",
            "own time is the processor's, LangGraph's included and the models' not. Threshold",
            f"{MESSAGE_TOKENS} tokens. Where it says so, only the last {HELD} messages before were",
            "really said, and the others filled in as if they had been observed.",
        ],
        {case.name: sample for case, sample in samples.items()},
    )


_SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "own time per turn, LangGraph's included": ("mean", lambda v: f"{v * 1000:.1f} ms"),
    "checkpoint bytes per turn": ("bytes", lambda v: f"{v / KIB:.1f} KiB"),
    "most messages in the state": ("messages", lambda v: f"{v:.0f}"),
    "process": ("process", lambda v: f"{v / KIB**2:.0f} MiB"),
}


def _budgets(
    evicted: dict[int, Sample], kept: dict[int, Sample], compared: int, pair: Sequence[Sample]
) -> Iterator[Budget]:
    """Compare the longest conversation with the second mark, where all is warm."""
    marks = sorted(evicted)
    lengths = " / ".join(map(str, marks))
    for name, (key, written) in _SHOWN.items():
        growth = evicted[marks[-1]][key] / evicted[marks[1]][key]
        line = " / ".join(written(evicted[mark][key]) for mark in marks)
        without = " / ".join(f"{written(kept[mark][key])} at {mark}" for mark in sorted(kept))
        yield Budget(
            f"with `evict=True`, {name}, at {lengths} messages",
            f"flat: < x {MAX_GROWTH} of the second",
            f"{line} (x {growth:.2f}); without eviction {without}",
            growth < MAX_GROWTH,
        )
    held, filled = pair
    ratios = {name: filled[key] / held[key] for name, (key, _) in _SHOWN.items()}
    yield Budget(
        f"`evict=True`, {compared} messages filled in against really held",
        "alike",
        ", ".join(f"{name.partition(',')[0]} x {ratio:.2f}" for name, ratio in ratios.items()),
        all(1 / MAX_GROWTH < ratio < MAX_GROWTH for ratio in ratios.values()),
    )


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 the tables are the program's output


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a turn costs with eviction.")
    parser.add_argument("--quick", action="store_true", help="shorter conversations")
    parser.add_argument("--long", action="store_true", help="really hold 10 000 messages too")
    parser.add_argument("--case", nargs="+", help="one case alone, for ourselves")
    chosen = parser.parse_args()
    if chosen.case:
        kind, mark, *held = chosen.case
        hold(Case(kind, int(mark), is_held=bool(held)))
        return
    is_long = chosen.long and not chosen.quick
    report = (
        report_of(MARKS, KEPT_MARKS, compared=10_000)
        if is_long
        else run(Options(quick=chosen.quick))
    )
    say(f"{text_table(report)}\n\n{markdown_table(report.budgets)}")


if __name__ == "__main__":
    main()
