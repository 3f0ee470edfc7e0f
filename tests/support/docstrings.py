"""What stands below the options of a group."""

from __future__ import annotations

import ast
import inspect
from typing import Any


def read_keys(kind: Any) -> dict[str, str]:
    """Return what stands below each option of a class, as one line."""
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for key, text in zip(made.body, made.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(key.target, ast.Name)
            found[key.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found
