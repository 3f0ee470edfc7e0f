"""The site of the documentation: every page is in its navigation, and in its `llms.txt`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads what mkdocs reads, without what it imports."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)
CONFIG: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)  # noqa: S506
HOOK = runpy.run_path(str(ROOT / CONFIG["hooks"][0]))
ENTRIES = list(HOOK["list_pages"](CONFIG["nav"]))
FILES = {file for _, _, file in ENTRIES}


def write(**changes: Any) -> list[str]:
    texts = {file: (DOCS / file).read_text(encoding="utf-8") for file in FILES}
    text: str = HOOK["write_index"]({**CONFIG, **changes}, texts)
    return text.splitlines()


def test_every_page_is_in_the_navigation_once_with_a_description() -> None:
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} == FILES
    assert len(ENTRIES) == len(FILES)
    assert set(CONFIG["extra"]["descriptions"]) == FILES


def test_llms_txt_has_the_form_that_models_expect() -> None:
    title, _, summary, *rest = write()
    assert title == "# langgraph-om"
    assert summary.startswith("> Long-term memory")
    sections = [line for line in rest if line.startswith("#")]
    parts = ("Start", "Tutorials", "How-to guides", "Explanation", "Reference", "Maintainers")
    assert sections == [f"## {part}" for part in parts]
    links = [line for line in rest if line and not line.startswith("#")]
    assert len(links) == len(FILES)
    assert links[2].startswith(
        "- [Your first agent over PostgreSQL](first-agent/index.html.md): From pip install"
    )


@pytest.mark.parametrize(
    ("file", "place"), [("ways-in.md", "ways-in/index.html.md"), ("api.md", "api/index.html")]
)
def test_a_page_is_linked_as_markdown_unless_it_is_generated(file: str, place: str) -> None:
    lines = write(site_url="https://docs.example/")
    (title,) = [title for _, title, name in ENTRIES if name == file]
    assert any(line.startswith(f"- [{title}](https://docs.example/{place}):") for line in lines)


def test_commands_install_from_an_index_once_the_repository_is_known() -> None:
    name_source, page = HOOK["name_source"], (DOCS / "chat-bot.md").read_text(encoding="utf-8")
    assert name_source(page, "") == page
    known = name_source(page, "https://example.org/owner/name")
    assert "pip install 'langgraph-om[openai]'\n" in known
