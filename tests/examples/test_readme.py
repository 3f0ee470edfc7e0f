"""Every code block of the README runs, and its tables say what the code does."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from langgraph_om import ObservationalMemory, ObservationConfig, ReflectionConfig
from langgraph_om.core.events import PART_FIELDS
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def look_up(city: str) -> str:
    """Look a city up."""
    return f"{city} is sunny"


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.split("\n")[0][:60])
def test_block_runs(code: str) -> None:
    small_model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    scope = {"model": ScriptedChatModel(actor="ok"), "small_model": small_model, "tools": [look_up]}
    exec(compile(code, "README.md", "exec"), scope)  # noqa: S102 - the very code users copy


def test_there_are_blocks_for_each_door() -> None:
    code = "\n".join(blocks("python"))
    for name in (
        *("create_memory_agent(", "add_observational_memory(", ".step(", "stream_mode="),
        *("ObservationalMemoryMiddleware(", "archive=", "ModelByInputTokens(", "hooks="),
    ):
        assert name in code


def test_the_first_two_shell_blocks_are_one_line_each() -> None:
    first, second = blocks("bash")[:2]
    assert first.count("\n") == second.count("\n") == 1
    assert "examples/quickstart.py" in first
    assert "pytest" in second


def table(heading: str) -> dict[str, list[str]]:
    """Read the first table behind a text: first cell (without backticks) to the other cells."""
    rest = README[README.index(heading) :]
    rows = re.findall(r"^\|(.*)\|$", rest[rest.index("\n|") :].split("\n\n")[0], re.MULTILINE)
    cells = [[cell.strip() for cell in row.split(" | ")] for row in rows[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


def written(value: Any) -> str:
    return f"`{value!r}`".replace("'", '"')


@pytest.mark.parametrize(
    ("heading", "config"),
    [("`observation=`, an", ObservationConfig), ("`reflection=`, a", ReflectionConfig)],
)
def test_option_tables_name_every_option_with_its_default(heading: str, config: type[Any]) -> None:
    options = table(heading)
    defaults = config()
    assert set(options) == {entry.name for entry in fields(config)}
    for name, (default, *_) in options.items():
        assert default == written(getattr(defaults, name)), name


def test_option_table_of_the_memory_is_complete() -> None:
    parameters = set(inspect.signature(ObservationalMemory).parameters)
    assert set(table("`ObservationalMemory(model, ...)`")) == parameters - {
        "observation",
        "reflection",
    }


def test_event_table_names_every_part_and_field() -> None:
    rows = table("On `stream_mode=")
    named = {f"data-om-{kind}" for kind in PART_FIELDS} | {"data-om-status"}
    assert set(rows) == named
    for kind, names in PART_FIELDS.items():
        text = rows[f"data-om-{kind}"][-1]
        if text.startswith("as "):
            continue
        missing = [name for name in names.values() if f"`{name}`" not in text]
        assert [name for name in missing if name != "observations"] == [], kind


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:core|models|runtime|archive|recall|integrations)/[\w/]*(?:\.py)?)`", text
    )
    assert len(named) > 10
    for path in named:
        assert (ROOT / "langgraph_om" / path).exists(), path
