"""The order of the modules, read from their imports; a failure says which rule was broken."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "langgraph_om"
ROOT = Path(__file__).parents[1] / PACKAGE

LAYERS = (
    ("errors",),
    ("core",),
    ("tiers", "retries", "sampling", "deadlines"),
    ("models", "archive"),
    ("clients", "leases"),
    ("calls", "buffering", "hooks", "archiving", "past", "search", "sharing", "sources"),
    ("drivers", "recalling"),
    ("options",),
    ("work",),
    ("memory",),
    ("nodes",),
    ("graph", "recall_tool", "stream"),
    ("agent", "middleware"),
    ("__init__",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

PACKAGES = frozenset({"core", "archive"})
"""Rooms of several modules, which import one another."""

LANGGRAPH_ROOMS = frozenset(
    {"search", "recalling", "nodes", "graph", "recall_tool", "stream", "agent", "middleware"}
)
LANGCHAIN_ROOMS = frozenset({"models", "middleware"})
IMPURE = frozenset(
    {"asyncio", "logging", "os", "random", "socket", "sqlalchemy"}
    | {"sqlite3", "threading", "time", "uuid"}
)
CLOCKS = frozenset({"datetime.now", "datetime.today", "datetime.utcnow", "date.today"})

KNOWN = "Every module has its place in the layers."
ABSOLUTE = "Imports are absolute."
LEFTWARDS = (
    "Modules import only leftwards: "
    + " <- ".join(", ".join(f"{r}.*" if r == "core" else r for r in rooms) for rooms in LAYERS)
    + "; `memory` may import `recall_tool` inside its function `recall_tool`."
)
TESTING_APART = (
    "`testing` imports itself, `errors` and langchain_core alone, and no other module imports it."
)
LANGGRAPH = (
    "Only search, recalling, nodes, graph, recall_tool, stream, agent and middleware import "
    "langgraph."
)
LANGCHAIN = "Only models, inside functions, and middleware import langchain, which is optional."
CORE_MESSAGES = "`core` takes nothing of langchain and langgraph but `langchain_core.messages`."
CORE_PURE = (
    "`core` is pure: no I/O, no database, no clock, no id, no chance, no logging, no threads."
)
CORE_TOKENS = "In `core`, only `core.counters` counts with tiktoken."
NOT_PRIVATE = "Nobody imports an underscore name of another distribution."


class Import(NamedTuple):
    """One imported name: where it stands, what it is, and the function around it."""

    line: int
    target: str
    function: str | None

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


def room_of(module: str) -> str:
    """The part of the package that the layers speak of: `core` for all below it."""
    _, _, inside = module.partition(".")
    return inside.partition(".")[0] or "__init__"


def imports_of(node: ast.AST, function: str | None = None) -> Iterator[Import]:
    """Every import below a node, those of type checking and by literal name included."""
    for child in ast.iter_child_nodes(node):
        inside = function
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                inside = name
            case ast.Import(names=names):
                yield from (Import(child.lineno, alias.name, function) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = "." * level + (module or "")
                yield from (
                    Import(child.lineno, f"{start}.{alias.name}", function) for alias in names
                )
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield Import(child.lineno, target, function)
        yield from imports_of(child, inside)


def clocks_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every mention of a clock of `datetime`, whatever the class was called on import."""
    names = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "datetime"
        for alias in node.names
        if alias.asname
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value).rpartition(".")[2]
            clock = f"{names.get(owner, owner)}.{node.attr}"
            if clock in CLOCKS:
                yield node.lineno, clock


def is_under(target: str, module: str) -> bool:
    return target == module or target.startswith(f"{module}.")


def is_private(target: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in target.split("."))


def broken_inside(room: str, found: Import) -> str | None:
    """The rule that an import of the package's own modules breaks."""
    part = found.target.split(".")[1] if "." in found.target else "__init__"
    target = part if part in LEVEL or part == "testing" else "__init__"
    if "testing" in {room, target}:
        apart = room != "testing" or target not in {"testing", "errors"}
        return TESTING_APART if apart else None
    if room == target and room in PACKAGES:
        return None
    if (room, target, found.function) == ("memory", "recall_tool", "recall_tool"):
        return None
    return None if LEVEL[target] < LEVEL[room] else LEFTWARDS


def broken_outside(room: str, found: Import) -> Iterator[str]:
    """The rules that an import of another distribution breaks."""
    if is_private(found.target):
        yield NOT_PRIVATE
    if room == "testing" and found.top not in sys.stdlib_module_names | {"langchain_core"}:
        yield TESTING_APART
    if found.top == "langgraph" and room not in LANGGRAPH_ROOMS:
        yield LANGGRAPH
    if found.top == "langchain" and (
        room not in LANGCHAIN_ROOMS or (room == "models" and found.function is None)
    ):
        yield LANGCHAIN


def broken_in_core(module: str, found: Import) -> Iterator[str]:
    """The rules of purity that an import breaks."""
    of_the_family = found.top.startswith(("langchain", "langgraph", "langsmith"))
    if of_the_family and not is_under(found.target, "langchain_core.messages"):
        yield CORE_MESSAGES
    if found.top in IMPURE:
        yield CORE_PURE
    if found.top == "tiktoken" and module != f"{PACKAGE}.core.counters":
        yield CORE_TOKENS


def violations(module_name: str, source: str) -> list[str]:
    """Every rule that a module of the package breaks, with its place and what broke it."""
    room = room_of(module_name)
    if room not in LEVEL and room != "testing":
        return [f"{module_name}: {KNOWN}"]
    tree = ast.parse(source)
    found: list[tuple[int, str, str]] = []
    for each in imports_of(tree):
        rules: list[str] = []
        if each.target.startswith("."):
            rules = [ABSOLUTE]
        elif each.top == PACKAGE:
            rules = [rule] if (rule := broken_inside(room, each)) else []
        else:
            rules = [*broken_outside(room, each)]
            if room == "core":
                rules += broken_in_core(module_name, each)
        found += [(each.line, each.target, rule) for rule in rules]
    if room == "core":
        found += [(line, clock, CORE_PURE) for line, clock in clocks_of(tree)]
    return [f"{module_name}:{line}: `{what}`: {rule}" for line, what, rule in sorted(found)]


def module_of(path: Path) -> str:
    parts = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize("module", MODULES)
def test_module_keeps_to_its_layer(module: str) -> None:
    broken = violations(module, MODULES[module].read_text(encoding="utf-8"))
    assert not broken, "\n" + "\n".join(broken)


def test_modules_were_found() -> None:
    assert {"langgraph_om.errors", "langgraph_om.core"} <= MODULES.keys()


IN_MEMORY = "def recall_tool(self):\n    from langgraph_om.recall_tool import build"
IN_FUNCTION = "def resolve():\n    from langchain.chat_models import init_chat_model"
FOR_TYPES = "if TYPE_CHECKING:\n    from langgraph_om.memory import ObservationalMemory"


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("langgraph_om.engine", "", KNOWN),
        ("langgraph_om.errors", "from langgraph_om.core.plan import plan", LEFTWARDS),
        ("langgraph_om.core.plan", "from langgraph_om.models import call", LEFTWARDS),
        ("langgraph_om.core.plan", "from langgraph_om import memory", LEFTWARDS),
        ("langgraph_om.models", "from langgraph_om.archive import MessageArchive", LEFTWARDS),
        ("langgraph_om.archive", "from langgraph_om import ObservationalMemory", LEFTWARDS),
        ("langgraph_om.archive", "import langgraph_om", LEFTWARDS),
        ("langgraph_om.buffering", FOR_TYPES, LEFTWARDS),
        ("langgraph_om.memory", "from langgraph_om.recall_tool import build", LEFTWARDS),
        ("langgraph_om.memory", IN_MEMORY.replace("recall_tool(self)", "tools(self)"), LEFTWARDS),
        (
            "langgraph_om.memory",
            IN_MEMORY.replace("langgraph_om.recall", "langgraph_om.agent"),
            LEFTWARDS,
        ),
        ("langgraph_om.nodes", "from langgraph_om.graph import wire", LEFTWARDS),
        ("langgraph_om.graph", "from langgraph_om.recall_tool import build", LEFTWARDS),
        (
            "langgraph_om.agent",
            "import importlib\nimportlib.import_module('langgraph_om.middleware')",
            LEFTWARDS,
        ),
        ("langgraph_om.core.plan", "from .record import MemoryRecord", ABSOLUTE),
        ("langgraph_om.memory", "from . import errors", ABSOLUTE),
        ("langgraph_om.testing", "from langgraph_om.core.plan import plan", TESTING_APART),
        ("langgraph_om.testing", "import langgraph.graph", TESTING_APART),
        ("langgraph_om.testing.scripted", "import sqlalchemy", TESTING_APART),
        ("langgraph_om", "from langgraph_om.testing import ScriptedChatModel", TESTING_APART),
        ("langgraph_om.memory", "from langgraph.store.base import BaseStore", LANGGRAPH),
        ("langgraph_om", "import langgraph", LANGGRAPH),
        ("langgraph_om.agent", "from langchain.agents import create_agent", LANGCHAIN),
        ("langgraph_om.models", "import langchain", LANGCHAIN),
        ("langgraph_om.memory", IN_FUNCTION, LANGCHAIN),
        ("langgraph_om.core.plan", "from langchain_core.tools import tool", CORE_MESSAGES),
        ("langgraph_om.core.plan", "import langchain_core", CORE_MESSAGES),
        ("langgraph_om.core", "from langchain_openai import ChatOpenAI", CORE_MESSAGES),
        *(("langgraph_om.core.plan", f"import {name}", CORE_PURE) for name in sorted(IMPURE)),
        ("langgraph_om.core.plan", "from os.path import join", CORE_PURE),
        ("langgraph_om.core.plan", "from datetime import datetime\ndatetime.now()", CORE_PURE),
        ("langgraph_om.core.plan", "import datetime as d\nd.datetime.utcnow()", CORE_PURE),
        ("langgraph_om.core.plan", "from datetime import date as day\nday.today()", CORE_PURE),
        (
            "langgraph_om.core.plan",
            "class A:\n    t = field(default_factory=datetime.now)",
            CORE_PURE,
        ),
        ("langgraph_om.core.plan", "import tiktoken", CORE_TOKENS),
        ("langgraph_om.nodes", "from langgraph._internal._runnable import R", NOT_PRIVATE),
        ("langgraph_om.nodes", "from langgraph.graph import _private", NOT_PRIVATE),
        ("langgraph_om.models", "async def f():\n    import langchain_core._api", NOT_PRIVATE),
    ],
)
def test_a_broken_rule_is_named(module: str, source: str, rule: str) -> None:
    assert any(line.endswith(rule) for line in violations(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("langgraph_om.core.plan", "from __future__ import annotations\nimport re"),
        ("langgraph_om.core.plan", "from langgraph_om.core.record import MemoryRecord"),
        ("langgraph_om.core.plan", "from langgraph_om.errors import ConfigurationError"),
        ("langgraph_om.core.plan", "from langchain_core.messages import AIMessage"),
        ("langgraph_om.core.plan", "from langchain_core import messages"),
        ("langgraph_om.core.plan", "from datetime import datetime\ndatetime(2026, 3, 2)"),
        ("langgraph_om.core.plan", "def plan(state):\n    return state.now"),
        ("langgraph_om.core.counters", "import tiktoken"),
        ("langgraph_om.models", IN_FUNCTION),
        ("langgraph_om.models", "import asyncio, logging, time"),
        ("langgraph_om.memory", IN_MEMORY),
        ("langgraph_om.memory", "from datetime import UTC, datetime\ndatetime.now(UTC)"),
        ("langgraph_om.memory", "from langgraph_om.core._text import _clip"),
        ("langgraph_om.graph", "from langgraph_om import errors, nodes"),
        ("langgraph_om.middleware", "from langchain.agents.middleware import AgentMiddleware"),
        ("langgraph_om.testing", "from langgraph_om.testing.scripted import ScriptedChatModel"),
        ("langgraph_om.testing.sequence", "from langgraph_om.errors import ObserverError"),
        ("langgraph_om.testing", "import time\nfrom langchain_core.tools import tool"),
        ("langgraph_om", "from langgraph_om.middleware import ObservationalMemoryMiddleware"),
    ],
)
def test_what_the_layers_allow_passes(module: str, source: str) -> None:
    assert violations(module, source) == []
