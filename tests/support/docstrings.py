"""What docstrings say of the settings of a config class, and of the keys of its mapping."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from typing import Any


def read_arguments(kind: type[Any]) -> dict[str, str]:
    """Return what a docstring says of each argument, as one line."""
    _, _, listed = (inspect.getdoc(kind) or "").partition("Args:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def read_keys(kind: Any) -> dict[str, str]:
    """Return what stands below each key of a TypedDict, as one line."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for key, text in zip(made.body, made.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(key.target, ast.Name)
            found[key.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def assert_same(config: type[Any], mapping: Any) -> None:
    """See that a mapping's keys are said to be what the config's arguments are."""
    said = read_arguments(config)
    assert [*said] == [entry.name for entry in fields(config)]
    assert read_keys(mapping) == said
