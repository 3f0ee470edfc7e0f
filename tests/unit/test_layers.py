"""The order of the rooms, read from the imports of every module; a failure says the broken rule."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "langgraph_om"
ROOT = Path(__file__).parents[2] / PACKAGE

HOUSE = (
    "errors <- core <- models, archive, templates <- reading <- runtime <- features "
    "<- options, inspection, adoption, searching, deletion <- summarizing, handle <- memory "
    "<- integrations <- mcp <- cli, web <- __init__, __main__"
)
CORE = (
    "content, wire, prompts <- items <- events, tokens, effects, forms, search "
    "<- record <- config <- page <- observe, plan <- actor, reflect <- cycles <- step"
)


def levels_of(order: str, prefix: str = "") -> dict[str, int]:
    """The level of each room of an order."""
    return {
        prefix + room: level
        for level, rooms in enumerate(order.split(" <- "))
        for room in rooms.split(", ")
    }


LEVEL = levels_of(HOUSE) | levels_of(CORE, "core.")

EXCEPTIONS: frozenset[tuple[str, str]] = frozenset()
"""Imports that still break the order, as (module, imported module)."""

IMPURE = frozenset(
    {"asyncio", "logging", "os", "random", "socket", "sqlalchemy"}
    | {"sqlite3", "threading", "time", "uuid"}
)
CLOCKS = frozenset({"datetime.now", "datetime.today", "datetime.utcnow", "date.today"})

KNOWN = "Every module lies in a room of the house."
ABSOLUTE = "Imports are absolute."
LEFTWARDS = f"At run time, modules import only leftwards: {HOUSE}; in core: {CORE}."
NO_CIRCLES = "Files of one room import each other without circles."
TESTING_APART = (
    "`testing` imports itself, `errors`, the standard library and langchain_core alone, and no "
    "other module imports it."
)
LANGGRAPH = "Only integrations, cli, web, runtime.tools and features import langgraph."
WITH_LANGGRAPH = ("runtime.tools", "features.")
LANGCHAIN = (
    "Only integrations.middleware and, inside functions, "
    "models.providers import langchain, which is optional."
)
SQLALCHEMY = (
    "Only archive.sql imports sqlalchemy; features.archive does for types and inside functions."
)
CORE_ONLY = {
    "pydantic": ("core.config", "core.record.fold", "core.forms"),
    "jsonschema": ("core.forms",),
    "imagesize": ("core.tokens.images",),
}
CORE_LIBRARIES = (
    "`core` takes nothing but `langchain_core.messages`, typing_extensions, pydantic (config, "
    "record.fold, forms), jsonschema (forms) and imagesize (tokens.images)."
)
CORE_PURE = (
    "`core` is pure: no I/O, no database, no clock, no id, no chance, no logging, no threads."
)
NOT_PRIVATE = "Nobody imports an underscore name of another distribution."


class Import(NamedTuple):
    """One imported name: where it stands, what it is, and whether it is for types or late."""

    line: int
    target: str
    is_late: bool
    """Whether it stands inside a function."""
    is_for_types: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


def room_of(module: str) -> str:
    """The room of a module: one of `core` where it lies there."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    return ".".join(parts[:2]) if parts[0] == "core" and len(parts) > 1 else parts[0]


def imports_of(tree: ast.AST) -> Iterator[Import]:
    """Every import in a tree, those of type checking and by literal name included."""
    waiting = [(tree, False, False)]
    while waiting:
        node, late, typed = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                late = True
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                typed = True
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name, late, typed) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = "." * level + (module or "")
                yield from (
                    Import(node.lineno, f"{start}.{alias.name}", late, typed) for alias in names
                )
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield Import(node.lineno, target, late, typed)
        waiting += [(child, late, typed) for child in ast.iter_child_nodes(node)]


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
        if isinstance(node, ast.Attribute) and node.attr in {"now", "today", "utcnow"}:
            owner = ast.unparse(node.value).rpartition(".")[2]
            clock = f"{names.get(owner, owner)}.{node.attr}"
            if clock in CLOCKS:
                yield node.lineno, clock


def is_under(target: str, module: str) -> bool:
    return target == module or target.startswith(f"{module}.")


def is_private(target: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in target.split("."))


def is_leftwards(room: str, target: str) -> bool:
    """Whether a room may import another one."""
    if room == target:
        return True
    own, other = room.partition(".")[0], target.partition(".")[0]
    if own == other == "core":
        return "core" not in (room, target) and LEVEL[target] < LEVEL[room]
    return LEVEL[other] < LEVEL[own]


def broken_inside(module: str, found: Import) -> str | None:
    """The rule that an import of the package's own modules breaks."""
    room, target = room_of(module), room_of(found.target)
    if target not in LEVEL and target.partition(".")[0] not in {"core", "testing"}:
        target = "__init__"
    if "testing" in {room, target}:
        return None if room == "testing" and target in {"testing", "errors"} else TESTING_APART
    source = found.target.rpartition(".")[0]
    if {(module, source), (module, found.target)} & EXCEPTIONS:
        return None
    return None if is_leftwards(room, target) else LEFTWARDS


def broken_outside(module: str, found: Import) -> Iterator[str]:
    """The rules that an import of another distribution breaks."""
    inside = module.partition(".")[2]
    room = inside.partition(".")[0]
    is_part = found.is_late or found.is_for_types
    if is_private(found.target):
        yield NOT_PRIVATE
    if room == "testing" and found.top not in sys.stdlib_module_names | {"langchain_core"}:
        yield TESTING_APART
    if found.top == "langgraph" and not (
        room in {"integrations", "cli", "web"} or inside.startswith(WITH_LANGGRAPH)
    ):
        yield LANGGRAPH
    if found.top == "langchain" and not (
        inside == "integrations.middleware" or (inside == "models.providers" and found.is_late)
    ):
        yield LANGCHAIN
    if found.top == "sqlalchemy" and not (
        is_under(inside, "archive.sql") or (inside == "features.archive" and is_part)
    ):
        yield SQLALCHEMY


def broken_in_core(module: str, found: Import) -> Iterator[str]:
    """The rules of purity that an import breaks."""
    if found.top in IMPURE:
        yield CORE_PURE
        return
    if found.top in sys.stdlib_module_names | {"typing_extensions"}:
        return
    rooms = CORE_ONLY.get(found.top, ())
    inside = module.partition(".")[2]
    is_allowed = is_under(found.target, "langchain_core.messages") or any(
        is_under(inside, room) for room in rooms
    )
    if not is_allowed:
        yield CORE_LIBRARIES


@cache
def parsed(source: str) -> tuple[ast.Module, tuple[Import, ...]]:
    """A module and its imports."""
    tree = ast.parse(source)
    return tree, tuple(imports_of(tree))


def violations(module: str, source: str) -> list[str]:
    """Every rule that a module of the package breaks, with its place and what broke it."""
    room = room_of(module)
    if room not in LEVEL and room != "testing":
        return [f"{module}: {KNOWN}"]
    tree, imports = parsed(source)
    is_core = is_under(room, "core")
    found: list[tuple[int, str, str]] = []
    for each in imports:
        rules: list[str] = []
        if each.target.startswith("."):
            rules = [ABSOLUTE]
        elif each.top == PACKAGE:
            if each.is_for_types:
                continue
            rules = [rule] if (rule := broken_inside(module, each)) else []
        else:
            rules = [*broken_outside(module, each)]
            if is_core:
                rules += broken_in_core(module, each)
        found += [(each.line, each.target, rule) for rule in rules]
    if is_core:
        found += [(line, clock, CORE_PURE) for line, clock in clocks_of(tree)]
    return [f"{module}:{line}: `{what}`: {rule}" for line, what, rule in sorted(found)]


def module_of(path: Path) -> str:
    parts = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def circles(imports: dict[str, set[str]]) -> list[str]:
    """Every module that imports itself by way of others."""
    reached = {module: set(targets) for module, targets in imports.items()}
    found, before = sum(map(len, reached.values())), -1
    while found > before:
        for targets in reached.values():
            targets |= {far for target in [*targets] for far in reached.get(target, ())}
        found, before = sum(map(len, reached.values())), found
    return sorted(module for module, targets in reached.items() if module in targets)


def test_modules_keep_to_their_layers() -> None:
    broken = [
        line
        for module, path in MODULES.items()
        for line in violations(module, path.read_text(encoding="utf-8"))
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_no_circles() -> None:
    imports: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        _, found = parsed(path.read_text(encoding="utf-8"))
        sources = {
            target
            for each in found
            if not each.is_for_types
            for target in (each.target, each.target.rpartition(".")[0])
        }
        imports[module] = {target for target in sources if target in MODULES} - {module}
    # A package's own file imports its modules, for users; they import the modules, never it.
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    inner = {
        module: targets - packages for module, targets in imports.items() if module not in packages
    }
    assert circles(inner) == [], NO_CIRCLES


def test_rooms_are_small() -> None:
    crowded = {
        str(folder.relative_to(ROOT)): len([*folder.glob("*.py")])
        for folder in {path.parent for path in MODULES.values()}
        if len([*folder.glob("*.py")]) > 16
    }
    assert not crowded, "A room holds about ten files."


def test_modules_were_found() -> None:
    assert {"langgraph_om.errors", "langgraph_om.core"} <= MODULES.keys()
    rooms = {room_of(module) for module in MODULES} - {"testing", "core"}
    assert rooms == LEVEL.keys() - {"core"}


IN_FUNCTION = "def resolve():\n    from langchain.chat_models import init_chat_model"


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("langgraph_om.core.engine", "", KNOWN),
        ("langgraph_om.core.plan", "from langgraph_om.models.ask import ask", LEFTWARDS),
        ("langgraph_om.core.plan", "from langgraph_om.core.step.inspect import x", LEFTWARDS),
        ("langgraph_om.archive", "import langgraph_om", LEFTWARDS),
        (
            "langgraph_om.memory",
            "import importlib\nimportlib.import_module('langgraph_om.integrations.agent')",
            LEFTWARDS,
        ),
        ("langgraph_om.core.plan", "from .record import MemoryRecord", ABSOLUTE),
        ("langgraph_om.testing", "from langgraph_om.core.plan import plan", TESTING_APART),
        ("langgraph_om", "from langgraph_om.testing import ScriptedChatModel", TESTING_APART),
        ("langgraph_om.memory", "from langgraph.store.base import BaseStore", LANGGRAPH),
        ("langgraph_om.memory", IN_FUNCTION, LANGCHAIN),
        ("langgraph_om.memory", "from sqlalchemy import Engine", SQLALCHEMY),
        ("langgraph_om.core.plan", "from langchain_core.tools import tool", CORE_LIBRARIES),
        ("langgraph_om.core.record.record", "import pydantic", CORE_LIBRARIES),
        ("langgraph_om.core.plan", "from os.path import join", CORE_PURE),
        ("langgraph_om.core.plan", "import datetime as d\nd.datetime.utcnow()", CORE_PURE),
        ("langgraph_om.core.plan", "from datetime import date as day\nday.today()", CORE_PURE),
        ("langgraph_om.integrations.nodes", "from langgraph.graph import _private", NOT_PRIVATE),
    ],
)
def test_a_broken_rule_is_named(module: str, source: str, rule: str) -> None:
    assert any(line.endswith(rule) for line in violations(module, source))


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]
