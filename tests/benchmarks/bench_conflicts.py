"""What the Observer is shown of earlier items that a message denies or changes.

By itself: `python tests/benchmarks/bench_conflicts.py [--quick] [--markdown]`. The forty pairs of
an earlier item and a message are in `tests/data/conflicts.json`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final, cast

from conversation import COUNTER, conversation
from report import Budget, Options, Report, show_alone

from langgraph_om.core.config.options import ObservationConfig
from langgraph_om.core.config.thresholds import resolve_previous_tokens
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.wire import Group
from langgraph_om.testing import ExtractiveObserver

DATA: Final = Path(__file__).parents[1] / "data" / "conflicts.json"
WINDOWS: Final = (2_000, 10_000, 30_000)
LINES: Final = 190
FORMER_PART, FORMER_MOST = 0.07, 2_000
NOTES = f"""\
The log has {LINES} lines in 10 days; each earlier item stands among its oldest 120. The message
stands somewhere in the window, between generated chat. `before`: the newest and the important
items alone, 7 % of the window. The Observer is one that follows its rules to the letter: it links
what it is shown, so that both sides of a denial stay and a change says what it replaces. Wrong: it
is not shown the earlier side, and writes the new one alone beside it.
"""

Select = Callable[[Sequence[Group], int, str], str]
"""Returns what is shown of a log, for a window of so many tokens and its transcript."""


@dataclass(frozen=True, slots=True)
class Case:
    """An earlier item, and what the user says about it later."""

    kind: str
    earlier: str
    said: str


def read_cases() -> list[Case]:
    found = json.loads(DATA.read_text("utf-8"))
    return [Case(kind, *pair) for kind, pairs in found.items() for pair in pairs]


def write_log(cases: Sequence[Case], seed: int) -> list[Group]:
    """A log that holds the earlier items among notes on generated chat."""
    random = Random(seed)  # noqa: S311 repeatable text, no secret
    chat = _write_chat(conversation(3 * LINES, seed=seed, calls_every=0))
    answer = ExtractiveObserver(every=1).invoke(f"<conversation>\n{chat}\n</conversation>").text
    lines = [line for line in answer.split("\n") if line.startswith("* ")][: LINES - len(cases)]
    for case in cases:
        lines.insert(random.randrange(120), f"* 🔴 (09:00) {case.earlier}")
    days = [lines[at : at + LINES // 10] for at in range(0, LINES, LINES // 10)]
    return [_write_group(day, own) for day, own in enumerate(days, 1)]


def _write_group(day: int, lines: Sequence[str]) -> Group:
    text = "\n".join([f"Date: Mar {day}, 2026", *lines])
    return cast("Group", {"text": text, "tokens": COUNTER.count_text(text)})


def _write_chat(messages: Sequence[Any]) -> str:
    speakers = {"human": "User", "ai": "Assistant"}
    lines = [f"{speakers[each.type]} (12:00): {each.text}" for each in messages]
    return "\n".join(["Date: Mar 20, 2026", *lines])


def write_window(case: Case, tokens: int, seed: int) -> str:
    """The transcript of a window in which the message stands somewhere."""
    random = Random(seed)  # noqa: S311 repeatable text, no secret
    chat = _write_chat(conversation(tokens // 35, seed=1000 + seed, calls_every=0)).split("\n")
    chat.insert(random.randrange(1, len(chat)), f"User (12:30): {case.said}")
    return "\n".join(chat)


def select_before(groups: Sequence[Group], tokens: int, transcript: str) -> str:
    del transcript
    return select_previous(groups, min(FORMER_MOST, round(tokens * FORMER_PART)), COUNTER)


def select_now(groups: Sequence[Group], tokens: int, transcript: str) -> str:
    shown = resolve_previous_tokens(ObservationConfig(message_tokens=tokens))
    return select_previous(groups, shown, COUNTER, transcript)


def measure(select: Select, tokens: int, cases: Sequence[Case], seeds: int) -> dict[str, Any]:
    """How many cases the Observer sees both sides of, and what it is shown."""
    linked: Counter[str] = Counter()
    sizes: list[int] = []
    for seed in range(seeds):
        log = write_log(cases, seed)
        for number, case in enumerate(cases):
            text = select(log, tokens, write_window(case, tokens, seed * 100 + number))
            linked[case.kind] += case.earlier in text
            sizes.append(COUNTER.count_text(text))
    return {"linked": linked, "tokens": fmean(sizes)}


def run(options: Options) -> Report:
    """Count what is shown, before and now."""
    cases, seeds = read_cases(), options.pick(3, 1)
    kinds = Counter(case.kind for case in cases)
    rows: list[list[object]] = []
    missed = 0
    for tokens in options.pick(WINDOWS, WINDOWS[:1]):
        for name, select in (("before", select_before), ("now", select_now)):
            found = measure(select, tokens, cases, seeds)
            cells = [
                _write_cell(found["linked"][kind], count * seeds) for kind, count in kinds.items()
            ]
            wrong = sum(kinds.values()) * seeds - sum(found["linked"].values())
            missed = max(missed, wrong) if select is select_now else missed
            total = f"{wrong} of {len(cases) * seeds}"
            rows.append([f"{tokens:,}", name, *cells, total, round(found["tokens"])])
    share = 1 - missed / (len(cases) * seeds)
    return Report(
        "Earlier items that a message denies or changes",
        ("window", "", "denials: both sides kept", "changes: replaced", "wrong", "tokens shown"),
        rows,
        [Budget("conflicts that the Observer sees", "> 0.9", f"{share:.2f}", share > 0.9)],
        NOTES.split("\n"),
    )


def _write_cell(found: int, of: int) -> str:
    return f"{found} of {of}"


if __name__ == "__main__":
    show_alone(run, __doc__, "fewer logs")
