"""What a model wrote becomes typed parts, or a failure with a name."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.inside import MAX_LINE_CHARS, ParsedAnswer, is_degenerate, parse_output
from support.rendering import render_output

LOG = """\
Date: Dec 4, 2025
* 🔴 (14:30) User prefers direct answers
  * -> said so twice
* ✅ (14:40) Report delivered"""

WHOLE = f"""\
<observations>
{LOG}
</observations>
<current-task>Write the second report</current-task>
<suggested-response>Ask which quarter it covers</suggested-response>"""

PARSED = ParsedAnswer(
    "ok",
    LOG,
    hints={
        "current_task": "Write the second report",
        "suggested_response": "Ask which quarter it covers",
    },
)


def log_of(text: str) -> str:
    parsed = parse_output(text)
    assert parsed.status == "ok", parsed.problem
    assert parsed.problem == ""
    return parsed.observations


# --- The form ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("\n", "\r"),
        WHOLE.replace("\n", "  \n").replace("ns>  \n", "ns>\n\n\n"),
        "\n".join([*WHOLE.split("\n")[-2:], *WHOLE.split("\n")[:-2]]),
        WHOLE.replace("<current-task>", "<current-task>\n  ").replace(
            "</current-task>", "\n</current-task>"
        ),
    ],
)
def test_the_blocks_are_read(text: str) -> None:
    assert parse_output(text) == PARSED


# --- Hints --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", " ", "\n", "none", "None.", "N/A", "(none)", "\n(None)\n"])
def test_an_empty_task_is_none_and_an_empty_response_ends_the_former_one(value: str) -> None:
    notes = "<observations>\n* 🔴 a\n</observations>"
    task = parse_output(f"{notes}\n<current-task>{value}</current-task>")
    assert task == ParsedAnswer("ok", "* 🔴 a")
    response = parse_output(f"{notes}\n<suggested-response>{value}</suggested-response>")
    assert response == ParsedAnswer("ok", "* 🔴 a", hints={"suggested_response": ""})


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("Tea", "Tea"),
        ("Te", None),
        ("none", None),
        ('"Tea party"', "Tea party"),
        ("“Tea party”", "Tea party"),
        ("**'Tea party'**", "Tea party"),
        ("the users' tea", "the users' tea"),
        ('"Te"', None),
        ("\n  Tea party\n\nHope this helps!\n", "Tea party"),
        ("a <b> c", "a <b> c"),
        ("t" * 101, "t" * 100),
        ("t" * 99 + " and more", "t" * 99),
    ],
)
def test_a_title_is_one_short_line(value: str, title: str | None) -> None:
    text = f"<observations>\n* 🔴 a\n</observations>\n<thread-title>{value}</thread-title>"
    parsed = parse_output(text)
    assert parsed.hints == ({} if title is None else {"thread_title": title})
    assert parse_output(render_output(parsed)) == parsed


# --- Cut off ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "log"),
    [
        (WHOLE, LOG),
        (WHOLE[: WHOLE.index(" delivered")], LOG.removesuffix(" delivered")),
        (WHOLE[: WHOLE.index("ervations>\n<curr")], LOG),
        ("<observations>\n* 🔴 tea\n<", "* 🔴 tea"),
        ("<think>The user likes\n* tea", ""),
        ("I will", ""),
        ("", ""),
        ("<observations>(none)</observations>", ""),
    ],
)
def test_cut_off_says_so_and_shows_what_arrived(text: str, log: str) -> None:
    parsed = parse_output(text, cut_off=True)
    assert (parsed.status, parsed.observations) == ("cut_off", log)
    assert "cut off" in parsed.problem


# --- Long lines ---------------------------------------------------------------------------------


def noise(chars: int, alphabet: str = "abcdefgh ", seed: int = 5) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=chars))  # noqa: S311


def test_a_long_line_is_cut_with_a_mark_that_counts() -> None:
    line = f"* 🔴 {noise(12_000)}x"
    kept = f"* 🔴 {noise(9_000)}x"
    first, second = log_of(f"<observations>\n{line}\n{kept}\n</observations>").split("\n")
    assert second == kept
    assert len(first) <= MAX_LINE_CHARS
    head, mark = first.split(" [… ")
    assert line.startswith(head)
    assert mark == f"{len(line) - len(head)} characters left out]"


# --- Size ---------------------------------------------------------------------------------------


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
    "21 lines, 62 times": lambda: loop(21, 62),
    "after a good start": lambda: f"{prose(20_000)}\n{loop(7, 40)}",
    "a short tail that never ends": lambda: f"{prose(10_000)}\n{loop(4, 5)}",
    "a phrase in a line": lambda: "* 🔴 (14:30) User " + "likes tea and " * 3_000,
    "one letter": lambda: "* " + "a" * 3_000,
    "one endless line": lambda: " ".join(prose(60_000).split("\n")),
    "few lines in any order": lambda: shuffled(4, 120),
    "an inner line that comes twice": lambda: "\n".join(
        ["* alpha beta gamma", "* pause", "* delta epsilon zeta", "* pause"] * 40
    ),
}

FAITHFUL: dict[str, Callable[[], str]] = {
    "observations": lambda: prose(30_000),
    "60 lines that differ by time": lambda: timed(60, "Ran the whole test suite again: passed"),
    "900 lines that differ by time": lambda: timed(900, "Ran tests: passed"),
    "60 lines that differ by file": lambda: "\n".join(
        f"* 🟢 (10:01) Edited src/{a}/{b}.py to use the new import path"
        for a in WORDS[:6]
        for b in WORDS[:10]
    ),
    "the same detail below each": lambda: with_details(90, "exit code 0, no warnings reported"),
    "a table": lambda: "\n".join(
        f"| {n} | {WORDS[n % 14]} | {n * 37 % 101} | passed |" for n in range(120)
    ),
    "a short quoted log": lambda: (
        prose(6_000)[:5_000] + "\n" + "  retry: timeout\n" * 20 + prose(900)
    ),
    "an answer written twice": lambda: "\n".join([prose(4_000)] * 2),
    "blank lines": lambda: prose(2_100) + "\n" * 5_000 + "* last",
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
