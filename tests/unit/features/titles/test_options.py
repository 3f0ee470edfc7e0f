"""The options of titles: as mappings and as configs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om import ConfigurationError, ObservationalMemory
from langgraph_om.features.titles import (
    SuggestConfig,
    SuggestOptions,
    ThreadTitleOptions,
    TitleConfig,
)
from support.docstrings import assert_same


@pytest.mark.parametrize(
    ("config", "mapping"), [(TitleConfig, ThreadTitleOptions), (SuggestConfig, SuggestOptions)]
)
def test_each_setting_says_the_same_in_both_forms(config: type[Any], mapping: Any) -> None:
    assert_same(config, mapping)


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_whether_the_observer_suggests_a_title_is_a_flag(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"`observation\.thread_title` is"):
        ObservationalMemory("fake", observation={"thread_title": value}, enabled=False)
