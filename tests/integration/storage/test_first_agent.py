"""The first agent that the docs have a newcomer write, over a real PostgreSQL, step by step.

Its program is run as it stands on the page; the models are named by strings and asked over the
wire, of a provider on this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import convert_to_messages

from langgraph_om.testing import ExtractiveObserver
from langgraph_om.tools.cli import main
from support.pages import DOCS, read_file
from support.wire_server import Provider, Reply, Request, openai_responds, openai_says, reach, serve

PAGE = DOCS / "first-agent.md"
FERRY = "The ferry leaves Kiel on Friday at 18:45, and we are four people."
TALK = [FERRY, "We like small museums.", "Lunch may cost 15 euros each."]


class Models(Provider):
    """Plays the Observer, and an agent that answers from the observations in its prompt."""

    def take(self, request: Request) -> Reply:
        self.requests.append(request)
        if "tools" not in request.body:  # the agent alone has any
            messages = convert_to_messages(request.body["messages"])
            return openai_says(ExtractiveObserver().reply(messages))
        prompt, *_, last = [_read(each.get("content", "")) for each in request.body["input"]]
        _, begin, noted = prompt.partition("<observations>")
        known = re.search(r"ferry.* at (\d\d:\d\d)", noted) if begin else None
        return openai_responds(f"It goes at {known[1]}." if known and last[-1] == "?" else "Noted.")


def _read(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.fixture
def project(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder with the program, and the environment in which the page has it run."""
    (tmp_path / "agent.py").write_text(read_file(PAGE, "agent.py"), encoding="utf-8")
    monkeypatch.setenv("DATABASE_URL", postgres_database)
    monkeypatch.setenv("PYTHONUTF8", "1")
    with serve(Models()) as provider:
        reach(provider, monkeypatch)
        yield tmp_path


def run(folder: Path, *command: str, typed: str = "", code: int = 0) -> str:
    """Return what a program printed, or where it printed nothing, its error."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, *command],
        cwd=folder,
        input=typed,
        encoding="utf-8",
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == code, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout or done.stderr


def test_the_first_agent_remembers_after_a_restart_and_is_looked_into_corrected_and_deleted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(command: str, code: int = 0) -> str:
        """Run a command of the page; with a graph, in the folder of the agent."""
        given = shlex.split(os.path.expandvars(command))
        if "--graph" in given:
            return run(project, "-m", "langgraph_om", *given, code=code)
        assert main(given) == code
        printed = capsys.readouterr()
        return printed.out or printed.err

    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^langgraph-om (.*)", text, re.MULTILINE)
    assert [each.split()[0] for each in commands] == ["list", "show", "search", "correct"]
    not_reached = 3
    assert '"checkpoints" does not exist' in ask(commands[0], code=not_reached)

    first = run(project, "agent.py", typed="\n".join([*TALK, "", ""]))
    assert first.count("agent: Noted.") == len(TALK)
    assert "ferry leaves Kiel" in first[first.index("Memory of first") :]

    again = run(project, "agent.py", typed="When does our ferry leave?\n\n")
    assert "18:45" in again[: again.index("Memory of first")]

    for command in commands[:3]:
        assert re.search(r"^first|ferry", ask(command), re.MULTILINE)

    ask(commands[3])
    corrected = ask(commands[1])
    assert "19:15 (corrected by a person)" in corrected
    assert "party is four" in corrected

    (project / "delete.py").write_text(read_file(PAGE, "delete.py"), encoding="utf-8")
    run(project, "delete.py")
    assert "first" not in ask(commands[0])
    nothing_found = 1
    assert "ferry" not in ask(commands[2], code=nothing_found)


def test_the_first_agent_can_be_tried_without_a_key(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    text = PAGE.read_text(encoding="utf-8")
    (double,) = re.findall(
        r"^```py\n(from langgraph_om.testing.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    program = project / "agent.py"
    code = program.read_text(encoding="utf-8")
    (line,) = re.findall(r"^MODEL = .*\n", code, re.MULTILINE)
    program.write_text(code.replace(line, double), encoding="utf-8")
    told = run(project, "agent.py", typed="\n".join([*TALK, "", ""]))
    assert told.count("agent: Noted.") == len(TALK)
    assert "ferry leaves Kiel" in told[told.index("Memory of first") :]
