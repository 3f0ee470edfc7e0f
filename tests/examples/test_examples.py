"""The examples, run as a newcomer runs them: in a process of their own, without a key."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = {"GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}


def succeed(example: str, *options: object) -> str:
    """Run an example to its end, and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(EXAMPLES / example), *map(str, options)],
        env={**kept, "PYTHONUTF8": "1", "FORCE_COLOR": "1"},
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "\x1b" not in done.stdout + done.stderr, "control sequences outside of a terminal"
    return done.stdout


@pytest.mark.parametrize(
    ("example", "package", "extras"),
    [
        ("quickstart.py", "rich", "examples"),
        ("agent.py", "langchain", "agents,examples"),
        ("swap_checkpointer.py", "langgraph.checkpoint.sqlite", "examples"),
    ],
)
def test_an_example_says_what_to_install(
    example: str, package: str, extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys, "argv", [example])
    with pytest.raises(SystemExit, match=re.escape(f"pip install 'langgraph-om[{extras}]'")):
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")


TOLD = {
    "state_graph.py": ["Models: offline", "tools --> om_status;", "number 20-117"],
    "deep_agent.py": ["The archivist says: 2007: no regatta", " of 40,000 tokens"],
    "stream_events.py": ["tokens leave the view", "Mr. Aydin repairs it on Wednesday at 7"],
    "recall.py": ["Agent: You need QX-7741-B.", "Agent: I find no code."],
    "resource_scope.py": [
        "Agent: No walnuts. Adaeze is your lead.",
        "Agent: I know of nothing. I do not know Adaeze.",
    ],
    "scale.py": ["workers: busy all the time from 9344 conversations on"],
    "working_memory.py": [
        "Agent: You live in Tromsø.",
        "Nothing was written: `tasks.0.hours`",
        '"project": "Spring"}',
    ],
}
"""What each example says that memory knows, or does not know of another user."""


@pytest.mark.parametrize("example", TOLD)
def test_an_example_shows_what_memory_does(example: str) -> None:
    printed = succeed(example)
    assert [words for words in TOLD[example] if words not in printed] == []


def test_the_agent_answers_from_memory_and_goes_on(tmp_path: Path) -> None:
    db = tmp_path / "workshop.sqlite"
    assert "My budget is 120 euros" in succeed("agent.py", db)
    again = succeed("agent.py", db)
    assert re.search(r"^The thread goes on after \d+ messages\.$", again, re.MULTILINE)
    assert "My budget is 120 euros" in again


def test_another_checkpointer_takes_the_record_along(postgres_database: str) -> None:
    printed = succeed("swap_checkpointer.py", "--postgres", postgres_database)
    for moved in printed.split("\n=== ")[2:]:
        assert re.search(r"^ +record identical: +True ", moved, re.MULTILINE)
        assert "prompt identical:   True" in moved


def test_two_workers_on_one_postgres_lose_nothing(postgres_database: str) -> None:
    printed = succeed("postgres.py", postgres_database)
    assert re.findall(r"^(north|south): ", printed, re.MULTILINE) == ["north", "south"] * 6
    assert "lost:           0 of 12\nin order:       True" in printed


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser is installed")
def test_pictures_of_the_inspector_are_small_and_of_two_schemes(tmp_path: Path) -> None:
    succeed("memory_pictures.py", tmp_path)
    light, dark = ((tmp_path / f"inspector-{name}.png").read_bytes() for name in ("light", "dark"))
    assert light != dark
    assert all(20_000 < len(picture) < 250_000 for picture in (light, dark))


# --- quickstart ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The quickstart's database after one run, and what the run printed."""
    db = tmp_path_factory.mktemp("quickstart") / "trip.sqlite"
    return db, succeed("quickstart.py", "--db", db)


def number(pattern: str, printed: str) -> list[int]:
    """Return the numbers of the line that a pattern of one group each matches."""
    found = re.search(pattern.replace("#", r"([\d,]+)"), printed, re.MULTILINE)
    assert found, f"no {pattern!r} in:\n{printed[-2000:]}"
    return [int(group.replace(",", "")) for group in found.groups()]


def test_quickstart_observes_reflects_and_shortens_the_prompt(trip: tuple[Path, str]) -> None:
    messages, full = number(r"^full history: +# messages, # tokens$", trip[1])
    shown, seen = number(r"^the agent sees: # messages, # tokens", trip[1])
    assert shown < messages / 5
    assert seen < full / 4
    assert min(number(r"after # observations and # reflections$", trip[1])) >= 2


def test_quickstart_marks_what_is_answered_from_memory(trip: tuple[Path, str]) -> None:
    found = re.findall(r"\nAgent: You told me on (\w+ \d+): .+\n   <- answered from an", trip[1])
    assert len(found) >= 5
    assert {"May 4", "May 7", "May 16", "May 24"} <= {*found}


def test_quickstart_gives_a_bill_that_adds_up(trip: tuple[Path, str]) -> None:
    bill = trip[1].partition("\nWhat it cost:\n")[2].splitlines()
    agent, memory, in_all = (
        [float(price) for price in re.findall(r"\$(\d+\.\d\d)\b", line)] for line in bill[:3]
    )
    assert in_all == pytest.approx([agent[0] + memory[0], agent[1]], abs=0.001)
    assert in_all[0] < in_all[1] / 2


def test_quickstart_continues_the_thread(trip: tuple[Path, str], tmp_path: Path) -> None:
    db = tmp_path / "trip.sqlite"
    shutil.copy(trip[0], db)
    printed = succeed("quickstart.py", "--db", db)
    assert "The thread goes on after " in printed
    assert printed.count("\n   <- answered from an observation of ") == 2
