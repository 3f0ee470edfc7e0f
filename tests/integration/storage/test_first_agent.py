"""The first agent that the docs have a newcomer write, over a real PostgreSQL, step by step.

Its program is run as it stands on the page; the models are named by strings and asked over the
wire, of a provider on this machine.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import convert_to_messages

from langgraph_om.testing import ExtractiveObserver
from support.pages import DOCS, read_file
from support.wire_server import Provider, Reply, Request, openai_says, reach, serve

PAGE = DOCS / "first-agent.md"
FERRY = "The ferry leaves Kiel on Friday at 18:45, and we are four people."
TALK = [FERRY, "We like small museums.", "Lunch may cost 15 euros each."]


class Models(Provider):
    """Plays the Observer, and an agent that answers from the observations in its prompt."""

    def take(self, request: Request) -> Reply:
        self.requests.append(request)
        messages = convert_to_messages(request.body["messages"])
        if "tools" not in request.body:  # the agent alone has any
            return openai_says(ExtractiveObserver().reply(messages))
        _, begin, noted = messages[0].text.partition("<observations>")
        known = [line for line in noted.splitlines() if "ferry" in line] if begin else []
        asked = messages[-1].text.endswith("?")
        return openai_says(known[0] if known and asked else "Noted.")


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


def run(folder: Path, *command: str, typed: str = "") -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, *command],
        cwd=folder,
        input=typed,
        encoding="utf-8",
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def test_the_first_agent_remembers_after_a_restart_and_can_be_looked_into(
    project: Path, postgres_database: str
) -> None:
    first = run(project, "agent.py", typed="\n".join([*TALK, "", ""]))
    assert first.count("agent: Noted.") == len(TALK)
    assert "ferry leaves Kiel" in first[first.index("memory of first") :]

    again = run(project, "agent.py", typed="When does our ferry leave?\n\n")
    assert "18:45" in again[: again.index("memory of first")]

    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^langgraph-om (.*)", text, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["list", "show", "search"]
    for command in commands:
        words = shlex.split(command.replace("$DATABASE_URL", postgres_database))
        assert re.search(r"^first|ferry", run(project, "-m", "langgraph_om", *words), re.MULTILINE)


def test_what_it_remembers_is_corrected_as_the_page_says(project: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (correction,) = re.findall(r"^(agent\.update_state\(.*\))$", text, re.MULTILINE)
    program = project / "agent.py"
    shown = "    print(memory.view(agent.get_state(config)))"
    code = program.read_text(encoding="utf-8")
    assert code.count(shown) == 1
    program.write_text(code.replace(shown, f"    {correction}\n{shown}"), encoding="utf-8")
    told = run(project, "agent.py", typed="\n".join([*TALK, "", ""]))
    assert "The ferry leaves at 19:15 (corrected by a person)" in told
