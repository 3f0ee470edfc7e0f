"""What `import langgraph_om` offers is exactly what it means to offer."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from types import ModuleType

import pytest

import langgraph_om

NAMES = [name for name in langgraph_om.__all__ if not name.startswith("__")]


def sorted_as_ruff_does(names: list[str]) -> list[str]:
    """Constants, then classes, then the rest."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def is_submodule(name: str) -> bool:
    value = getattr(langgraph_om, name)
    return isinstance(value, ModuleType) and value.__name__ == f"langgraph_om.{name}"


def test_all_is_sorted_and_names_each_thing_once() -> None:
    names = list(langgraph_om.__all__)
    assert names == sorted_as_ruff_does(names)
    assert len(names) == len(set(names))
    assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_name_can_be_imported(name: str) -> None:
    scope: dict[str, object] = {}
    exec(f"from langgraph_om import {name}", scope)  # noqa: S102 - the very statement users write
    assert name in scope


@pytest.mark.parametrize("name", NAMES)
def test_name_is_documented(name: str) -> None:
    value = getattr(langgraph_om, name)
    text = inspect.getdoc(value) if callable(value) else value.__doc__
    assert text, f"`{name}` has no docstring"
    generated = f"{name}("  # what `dataclass` writes where nobody wrote anything
    assert not text.startswith(generated), f"`{name}` has no docstring of its own"


@pytest.mark.parametrize("name", NAMES)
def test_name_is_ours(name: str) -> None:
    module = getattr(langgraph_om, name).__module__
    assert module.partition(".")[0] == "langgraph_om"


def test_nothing_else_is_public() -> None:
    public = {name for name in dir(langgraph_om) if not name.startswith("_")}
    extra = {name for name in public - set(NAMES) - {"annotations"} if not is_submodule(name)}
    assert extra == set()


def test_star_import_gives_the_same_names() -> None:
    scope: dict[str, object] = {}
    exec("from langgraph_om import *", scope)  # noqa: S102 - a star import needs module level
    assert scope.keys() - {"__builtins__"} == set(langgraph_om.__all__)


def test_version_is_that_of_the_distribution() -> None:
    assert langgraph_om.__version__ == version("langgraph-om")


@pytest.mark.parametrize("name", ["errors", "testing"])
def test_module_can_be_imported_by_its_path(name: str) -> None:
    assert importlib.import_module(f"langgraph_om.{name}").__doc__


def test_type_information_is_packaged() -> None:
    assert files("langgraph_om").joinpath("py.typed").is_file()


def test_dir_shows_what_is_public_and_nothing_else() -> None:
    assert set(dir(langgraph_om)) == {*langgraph_om.__all__, "__version__"}
    assert "ObservationalMemoryMiddleware" in dir(langgraph_om)


def test_star_import_works_without_langchain() -> None:
    program = (
        "import sys; sys.modules['langchain'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'langchain' else find(name, *a)\n"
        "from langgraph_om import *\n"
        "import langgraph_om\n"
        "print(ObservationalMemory.__name__, 'ObservationalMemoryMiddleware' in dir(langgraph_om))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "ObservationalMemory False\n", done.stderr
