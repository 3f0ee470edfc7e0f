"""The order of the rooms, read from the imports of every module; a failure says the broken rule."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "langgraph_om"
ROOT = Path(__file__).parents[2] / PACKAGE

HOUSE = (
    "errors, forks, parts <- core <- models, archive, tools.shown <- reading <- runtime "
    "<- features <- options, tools.view, adoption, searching, deletion <- handle "
    "<- memory <- integrations <- tools <- __init__, __main__"
)
CORE = (
    "content, wire, prompts <- items <- events, tokens, effects, forms, search "
    "<- record <- config <- observe, plan <- actor, edits <- cycles <- step"
)


def levels_of(order: str, prefix: str = "") -> dict[str, int]:
    """The level of each room of an order."""
    return {
        prefix + room: level
        for level, rooms in enumerate(order.split(" <- "))
        for room in rooms.split(", ")
    }


LEVEL = levels_of(HOUSE) | levels_of(CORE, "core.")
IMPURE = {"asyncio", "logging", "os", "random", "socket", "sqlite3", "threading", "time", "uuid"}
CLOCK = re.compile(r"\b(?:datetime|date)\.(?:now|today|utcnow)\(")
ALLOWED = {
    "langgraph": ("integrations", "tools", "runtime.tools", "features"),
    "langchain": ("integrations.middleware", "models.providers"),
    "sqlalchemy": ("archive", "features.archive"),
}
"""The only places that import what some users do without."""
ALLOWED_IN_CORE = {
    "langchain_core": ("core",),
    "pydantic": ("core.config", "core.record.fold", "core.forms"),
    "jsonschema": ("core.forms",),
    "imagesize": ("core.tokens",),
}


class Import(NamedTuple):
    """One imported name, and whether it is for types alone."""

    target: str
    is_for_types: bool


def imports_of(tree: ast.AST) -> Iterator[Import]:
    """Every import in a tree, those of type checking included."""
    waiting = [(tree, False)]
    while waiting:
        node, typed = waiting.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                typed = True
            case ast.Import(names=names):
                yield from (Import(alias.name, typed) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = "." * level + (module or "")
                yield from (Import(f"{start}.{alias.name}", typed) for alias in names)
        waiting += [(child, typed) for child in ast.iter_child_nodes(node)]


def room_of(module: str) -> str:
    """The room of a module or name: one of `core` or `tools` where it lies there."""
    parts = module.split(".")[1:]
    if (parts[:1] == ["core"] and len(parts) > 1) or ".".join(parts[:2]) in LEVEL:
        return ".".join(parts[:2])
    return (
        parts[0] if parts and (parts[0] in LEVEL or parts[0] in {"core", "testing"}) else "__init__"
    )


def is_leftwards(room: str, target: str) -> bool:
    """Whether a room may import another one."""
    own, other = room.partition(".")[0], target.partition(".")[0]
    if room == target or own == "testing":
        return other in {own, "errors"} or room == target
    if own == other == "core":
        return "core" not in (room, target) and LEVEL[target] < LEVEL[room]
    level, other_level = (
        LEVEL[part if part == "core" else each] for part, each in ((own, room), (other, target))
    )
    return other != "testing" and other_level < level


def is_within(module: str, places: tuple[str, ...]) -> bool:
    """Whether a module lies in one of these places of the package."""
    inside = module.partition(".")[2]
    return any(f"{inside}.".startswith(f"{place}.") for place in places)


def broken(module: str, found: Import) -> bool:
    """Whether an import breaks a rule."""
    top = found.target.partition(".")[0]
    if top == PACKAGE:
        return not found.is_for_types and not is_leftwards(room_of(module), room_of(found.target))
    if top in ALLOWED and not is_within(module, ALLOWED[top]):
        return True
    if is_within(module, ("testing",)):
        return top not in sys.stdlib_module_names | {"langchain_core", "pydantic"}
    if is_within(module, ("core",)):
        standard = sys.stdlib_module_names - IMPURE | {"typing_extensions"}
        return top not in standard and not is_within(module, ALLOWED_IN_CORE.get(top, ()))
    return False


def module_of(path: Path) -> str:
    parts = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))}


def test_modules_keep_to_their_layers() -> None:
    """Leftwards at run time, and libraries only where they belong."""
    wrong = [
        f"{module} imports {found.target}"
        for module, source in MODULES.items()
        for found in imports_of(ast.parse(source))
        if broken(module, found)
    ]
    assert not wrong, f"{HOUSE}; in core: {CORE}\n" + "\n".join(wrong)


def test_the_core_reads_no_clock() -> None:
    assert not [
        m for m, source in MODULES.items() if "core" in m.split(".") and CLOCK.search(source)
    ]


def test_the_order_names_the_rooms_that_there_are() -> None:
    rooms = {room_of(module) for module in MODULES} - {"testing", "core"}
    assert rooms | {"__main__"} == LEVEL.keys() - {"core"}
