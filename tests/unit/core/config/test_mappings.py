"""What an editor shows of an option: the same for a mapping's key and a class's argument."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om.core.config import options
from langgraph_om.core.config import options as mappings
from support.docstrings import assert_same, read_keys

PAIRS = [
    (options.ObservationConfig, mappings.ObservationOptions),
    (options.ReflectionConfig, mappings.ReflectionOptions),
]


@pytest.mark.parametrize(("config", "mapping"), PAIRS)
def test_each_option_says_the_same_in_both_forms(config: type[Any], mapping: Any) -> None:
    assert_same(config, mapping)


def test_each_setting_of_a_model_says_what_it_is() -> None:
    assert read_keys(mappings.ModelSettings).keys() == mappings.ModelSettings.__annotations__.keys()
