"""What an editor shows of an option: the same for a mapping's key and a class's argument."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest
from typing_extensions import is_typeddict

from langgraph_om.core.config import options
from langgraph_om.core.config import options as mappings
from langgraph_om.features import FeatureOptions, list_configs

PAIRS = [
    (options.ObservationConfig, mappings.ObservationOptions),
    (options.ReflectionConfig, mappings.ReflectionOptions),
    (options.RetrievalConfig, mappings.RetrievalOptions),
    (options.InjectConfig, mappings.InjectOptions),
    *(
        (kind, next(filter(is_typeddict, get_args(get_type_hints(FeatureOptions)[option]))))
        for option, kind in list_configs().items()
    ),
]


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


@pytest.mark.parametrize(("config", "mapping"), PAIRS)
def test_each_option_says_the_same_in_both_forms(config: type[Any], mapping: Any) -> None:
    said = read_arguments(config)
    assert [*said] == [entry.name for entry in fields(config)]
    assert read_keys(mapping) == said


def test_each_setting_of_a_model_says_what_it_is() -> None:
    assert read_keys(mappings.ModelSettings).keys() == mappings.ModelSettings.__annotations__.keys()
