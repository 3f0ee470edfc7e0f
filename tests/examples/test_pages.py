"""Every code block of README and docs runs, and their tables say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from langgraph_om.parts import Part
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.pages import DOCS, ROOT, read_code, run_page
from support.wire_server import Today, reach, serve

README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONS, EVENTS = (DOCS / name for name in ("options.md", "events.md"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def look_up(city: str) -> str:
    """Look a city up."""
    return f"{city} is sunny"


@pytest.mark.parametrize("page", [page for page in PAGES[1:] if read_code(page).strip()], ids=str)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    model = ScriptedChatModel(actor="ok")
    assert run_page(page, model=model, small_model=small_model, tools=[look_up])


class Lisbon(Today):
    NOTED = "User lands in Lisbon on Friday"


def test_the_readme_runs_as_it_stands_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with serve(Lisbon()) as provider:
        reach(provider, monkeypatch)
        assert run_page(PAGES[0])
    (shown,) = blocks("text")
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
            assert anchor in slugs, anchor


def test_the_first_two_shell_blocks_are_one_line_each() -> None:
    first, second = blocks("bash")[:2]
    assert first.count("\n") == second.count("\n") == 1
    assert "examples/quickstart.py" in first
    assert "pytest" in second


def table(page: Path, heading: str) -> dict[str, list[str]]:
    """Read the first table behind a text: first cell (without backticks) to the other cells."""
    text = page.read_text(encoding="utf-8")
    rest = text[text.index(heading) :]
    rows = re.findall(r"^\|(.*)\|$", rest[rest.index("\n|") :].split("\n\n")[0], re.MULTILINE)
    cells = [[cell.strip() for cell in row.split(" | ")] for row in rows[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_event_table_names_every_part_and_field() -> None:
    rows = table(EVENTS, "On `stream_mode=")
    types = [get_type_hints(part) for part in get_args(Part)]
    fields = {get_args(each["type"])[0]: each["data"].__annotations__ for each in types}
    assert set(rows) == set(fields)
    for kind, names in fields.items():
        text = rows[kind][-1]
        if kind == "data-om-status" or text.startswith("as "):
            continue
        missing = [name for name in names if f"`{name}`" not in text]
        assert [name for name in missing if name != "observations"] == [], kind
