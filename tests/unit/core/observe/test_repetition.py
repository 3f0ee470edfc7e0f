"""Runaway repetition is told from a faithful account of repetitive work."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.observe.parse_answer import is_degenerate, parse_output
from support.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    *("amber", "basil", "cedar", "delta", "ember", "fjord", "grove"),
    *("haven", "inlet", "jetty", "knoll", "larch", "mango", "north"),
]


def prose(chars: int, seed: int = 7) -> str:
    """Give observations that do not repeat."""
    chance = random.Random(seed)  # noqa: S311
    lines: list[str] = []
    while sum(map(len, lines)) + len(lines) < chars:
        words = " ".join(chance.choice(WORDS) for _ in range(9))
        lines.append(f"* 🟡 ({len(lines) // 60 % 24:02}:{len(lines) % 60:02}) {words}")
    return "\n".join(lines)


def loop(lines: int, times: int) -> str:
    """Give a block of so many lines, again and again."""
    block = "\n".join(
        f"* 🟢 (10:{n:02}) Step {n} went through {WORDS[n % 14]}" for n in range(lines)
    )
    return "\n".join([block] * times)


def timed(count: int, text: str) -> str:
    return "\n".join(f"* 🟢 ({n // 60:02}:{n % 60:02}) {text}" for n in range(count))


def with_details(count: int, *details: str) -> str:
    below = "".join(f"\n  * -> {detail}" for detail in details)
    return "\n".join(f"* 🟢 ({n // 60:02}:{n % 60:02}) Built again{below}" for n in range(count))


def shuffled(distinct: int, count: int) -> str:
    chance = random.Random(3)  # noqa: S311
    lines = [f"* User asked about the {word} once more" for word in WORDS[:distinct]]
    return "\n".join(chance.choice(lines) for _ in range(count))


RUNAWAY: dict[str, Callable[[], str]] = {
    "one line": lambda: loop(1, 60),
    "two lines": lambda: loop(2, 40),
    "21 lines, 62 times": lambda: loop(21, 62),
    "59 lines, 4 times": lambda: loop(59, 4),
    "21 lines inside the tags": lambda: f"<observations>\n{loop(21, 62)}\n</observations>",
    "after a good start": lambda: f"{prose(20_000)}\n{loop(7, 40)}",
    "with a good end": lambda: f"{loop(7, 40)}\n{prose(5_000)}",
    "a short tail that never ends": lambda: f"{prose(10_000)}\n{loop(4, 5)}",
    "a tail that ends within the block": lambda: f"{prose(10_000)}\n{loop(6, 9)[:-50]}",
    "a phrase in a line": lambda: "* 🔴 (14:30) User " + "likes tea and " * 3_000,
    "a phrase after good text": lambda: f"{prose(9_000)}\n* User {'very ' * 2_000}happy",
    "one letter": lambda: "* " + "a" * 3_000,
    "no spaces": lambda: "* " + "ab好" * 2_000,
    "one endless line": lambda: " ".join(prose(60_000).split("\n")),
    "few lines in any order": lambda: shuffled(4, 120),
    "an inner line that comes twice": lambda: "\n".join(
        ["* alpha beta gamma", "* pause", "* delta epsilon zeta", "* pause"] * 40
    ),
    "trailing spaces that differ": lambda: "\n".join(
        f"* User asked again{' ' * (n % 5)}" for n in range(200)
    ),
}

FAITHFUL: dict[str, Callable[[], str]] = {
    "observations": lambda: prose(30_000),
    "60 lines that differ by time": lambda: timed(60, "Ran the whole test suite again: passed"),
    "900 lines that differ by time": lambda: timed(900, "Ran tests: passed"),
    "long lines that differ by time": lambda: timed(100, "Ran the tests: " + prose(400)[:400]),
    "60 lines that differ by file": lambda: "\n".join(
        f"* 🟢 (10:01) Edited src/{a}/{b}.py to use the new import path"
        for a in WORDS[:6]
        for b in WORDS[:10]
    ),
    "the same detail below each": lambda: with_details(90, "exit code 0, no warnings reported"),
    "two equal details below each": lambda: with_details(
        90, "exit code 0, no warnings reported", "report written to out/report.html"
    ),
    "a table": lambda: "\n".join(
        f"| {n} | {WORDS[n % 14]} | {n * 37 % 101} | passed |" for n in range(120)
    ),
    "a padded table": lambda: "\n".join(
        f"| {n:<60} | {WORDS[n % 14]:<200} | {n * 37 % 101} |" for n in range(60)
    ),
    "a table with rules": lambda: "\n".join(
        f"+{'-' * 60}+{'-' * 60}+\n| {n} {WORDS[n * 5 % 14]} | {n * 7919 % 1009} cases passed |"
        for n in range(60)
    ),
    "a short quoted log": lambda: (
        prose(6_000)[:5_000] + "\n" + "  retry: timeout\n" * 20 + prose(900)
    ),
    "an answer written twice": lambda: "\n".join([prose(4_000)] * 2),
    "blank lines": lambda: prose(2_100) + "\n" * 5_000 + "* last",
    "a long rule": lambda: f"{prose(3_000)}\n{'=' * 300}\n{prose(3_000, seed=8)}",
    "repetition in a short text": lambda: "ha " * 600,
}


@pytest.mark.parametrize("name", RUNAWAY)
def test_runaway_repetition_is_recognised(name: str) -> None:
    text = RUNAWAY[name]()
    assert len(text) >= 2_000 or "tail" in name
    assert is_degenerate(text)
    assert parse_output(text).status == "degenerate"


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_account_is_not_runaway_repetition(name: str) -> None:
    assert not is_degenerate(FAITHFUL[name]())


@examples(60)
@given(
    lines=st.integers(1, 80),
    head=st.integers(0, 3_000),
    seed=st.integers(0, 1_000),
)
def test_a_block_of_any_period_is_recognised(lines: int, head: int, seed: int) -> None:
    block = "\n".join(prose(200 * lines, seed).split("\n")[:lines])
    times = max(4, 6_000 // len(block))
    text = f"{prose(head, seed + 1)}\n" + "\n".join([block] * times) + "\n* the end"
    assert is_degenerate(text)


@examples(40)
@given(seed=st.integers(0, 10_000), chars=st.integers(2_000, 40_000))
def test_distinct_observations_are_never_degenerate(seed: int, chars: int) -> None:
    assert not is_degenerate(prose(chars, seed))


def test_a_problem_is_named() -> None:
    parsed = parse_output(loop(21, 62))
    assert (parsed.status, parsed.observations) == ("degenerate", "")
    assert "repeats itself" in parsed.problem
