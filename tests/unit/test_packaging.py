"""What PyPI shows: the README with whole links, and where the project is."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
REPOSITORY = "https://git.example/om"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes the metadata hook, which needs hatch only while a distribution is built."""
    interface: Any = ModuleType("hatchling.metadata.plugin.interface")

    class MetadataHookInterface:
        def __init__(self, root: str, config: dict[str, str]) -> None:
            self.root, self.config = root, config

    interface.MetadataHookInterface = MetadataHookInterface
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    return runpy.run_path(str(ROOT / "hatch_build.py"))["CustomMetadataHook"]


def describe(hook: Any, **config: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"version": "1.2.3"}
    hook(str(ROOT), config).update(metadata)
    return metadata


def test_links_of_the_readme_are_whole_addresses_once_the_repository_is_known(hook: Any) -> None:
    made = describe(hook, repository=f"{REPOSITORY}/")
    text = made["readme"]["text"]
    assert f"]({REPOSITORY}/raw/v1.2.3/docs/inspector-light.png)" in text
    assert f"[options]({REPOSITORY}/blob/v1.2.3/docs/options.md)" in text
    assert set(re.findall(r"\]\((?!https:)[^)]*\)", text)) == set()
    assert "pip install 'langgraph-om[openai]'\n" in text
    assert "checkout'" not in text
    assert made["urls"]["Issues"] == f"{REPOSITORY}/issues"
    assert "Documentation" not in made["urls"]


def test_no_address_is_invented(hook: Any) -> None:
    made = describe(hook, repository="", documentation="")
    assert made["urls"] == {}
    assert made["readme"]["text"] == (ROOT / "README.md").read_text("utf-8")


def test_every_extra_for_users_is_told_of() -> None:
    extras = PROJECT["project"]["optional-dependencies"].keys()
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"\w+", row)]
    assert sorted(told) == sorted(extras - {"bench", "dev", "docs", "test"})
