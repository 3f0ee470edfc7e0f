"""What stands below the keys of a mapping, and that its config class has the same keys."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from typing import Any, get_type_hints


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
    """See that a config has the keys of its mapping, of the same types, each with a sentence."""
    assert get_type_hints(config) == get_type_hints(mapping)
    assert [entry.name for entry in fields(config)] == [*read_keys(mapping)]
