"""What `import langgraph_om` offers is exactly what it means to offer."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest

import langgraph_om
from support.programs import run_program

NAMES = [name for name in langgraph_om.__all__ if not name.startswith("__")]


def is_submodule(name: str) -> bool:
    value = getattr(langgraph_om, name)
    return isinstance(value, ModuleType) and value.__name__ == f"langgraph_om.{name}"


def test_nothing_else_is_public() -> None:
    public = {name for name in dir(langgraph_om) if not name.startswith("_")}
    extra = {name for name in public - set(NAMES) - {"annotations"} if not is_submodule(name)}
    assert extra == set()


# --- What has to be installed --------------------------------------------------------------------

PROJECT = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


# --- langchain, which the middleware needs -------------------------------------------------------

FLOOR = next(
    found[1] for wanted in EXTRAS["agents"] if (found := re.match(r"langchain>=([0-9.]+)", wanted))
)


def import_middleware(
    monkeypatch: pytest.MonkeyPatch,
    installed: str | None,
    lacking: str = "langchain.agents.middleware.internal_call_transformer",
) -> None:
    """Import the middleware as if this langchain were installed, and lacked a module."""

    def find_version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(langgraph_om, "_version", find_version)
    monkeypatch.delitem(sys.modules, "langgraph_om.integrations.middleware", raising=False)
    integrations = importlib.import_module("langgraph_om.integrations")
    monkeypatch.delattr(integrations, "middleware", raising=False)
    monkeypatch.setitem(sys.modules, lacking, None)
    _ = langgraph_om.ObservationalMemoryMiddleware


@pytest.mark.parametrize("installed", ["1.3.14", "1.3.0rc1", "0.3.30", "1.3"])
def test_a_langchain_that_is_too_old_is_named_with_the_version_it_takes(
    monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    wanted = f"{FLOOR} or newer, and {installed} is installed; install it with `pip install"
    with pytest.raises(ImportError, match=re.escape(wanted)):
        import_middleware(monkeypatch, installed)


@pytest.mark.slow
def test_star_import_works_without_langchain() -> None:
    program = (
        "import sys; sys.modules['langchain'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'langchain' else find(name, *a)\n"
        "from langgraph_om import *\n"
        "import langgraph_om\n"
        "print(ObservationalMemory.__name__, 'ObservationalMemoryMiddleware' in dir(langgraph_om))"
    )
    assert run_program("-c", program).stdout == "ObservationalMemory False\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "program", "extra"),
    [
        ("jinja2", "import langgraph_om.tools.inspector", "web"),
        ("starlette", "import langgraph_om.tools.inspector", "web"),
        (
            "mcp",
            "from langgraph_om.tools.mcp import memory_server as m; m(None, resource_id='a')",
            "mcp",
        ),
    ],
)
def test_a_feature_without_its_package_names_its_extra(
    missing: str, program: str, extra: str
) -> None:
    without = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"try:\n    {program}\nexcept ImportError as error:\n    print(error)"
    )
    assert f"`pip install 'langgraph-om[{extra}]'`" in run_program("-c", without).stdout


# --- What an import brings ------------------------------------------------------------------------

HEAVY = (
    *("sqlalchemy", "psycopg", "sqlite3", "jinja2", "mcp", "opentelemetry.sdk", "starlette"),
    *("langchain", "deepagents", "openai", "anthropic", "numpy", "tiktoken"),
)
"""What a memory without the options that need it never uses."""


def list_imported(program: str) -> set[str]:
    """Return the modules that a program imports beyond LangGraph's own."""
    told = (
        f"import sys, langgraph.graph; before = {{*sys.modules}}\n{program}\n"
        "print(*sorted({*sys.modules} - before))"
    )
    return set(run_program("-c", told).stdout.split())


@pytest.mark.slow
def test_an_error_is_imported_without_the_rest() -> None:
    brought = list_imported("from langgraph_om import ConfigurationError")
    assert brought == {"langgraph_om", "langgraph_om.errors"}


@pytest.mark.slow
def test_an_agent_with_memory_brings_no_library_that_it_does_not_use() -> None:
    brought = list_imported(
        "from langgraph_om import ObservationalMemory, create_memory_agent\n"
        "from langgraph_om.testing import ScriptedChatModel\n"
        "model = ScriptedChatModel()\n"
        "create_memory_agent(model, memory=ObservationalMemory(model))"
    )
    assert "langgraph_om.memory" in brought
    heavy = {name for name in brought for each in HEAVY if f"{name}.".startswith(f"{each}.")}
    assert heavy == set()
