"""The site of the documentation: every page is in its navigation, and in its `llms.txt`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

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


def test_every_page_is_in_the_navigation_once_with_a_description() -> None:
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} == FILES
    assert len(ENTRIES) == len(FILES)
    assert set(CONFIG["extra"]["descriptions"]) == FILES


def test_commands_install_from_an_index_once_the_repository_is_known() -> None:
    name_source, page = HOOK["name_source"], (DOCS / "chat-bot.md").read_text(encoding="utf-8")
    assert name_source(page, "") == page
    known = name_source(page, "https://example.org/owner/name")
    assert "pip install 'langgraph-om[openai]'\n" in known
