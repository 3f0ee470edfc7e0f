"""The option `thread_title`, as a mapping and as a config."""

from __future__ import annotations

from langgraph_om.features.titles import ThreadTitleOptions, TitleConfig
from support.docstrings import assert_same


def test_each_setting_says_the_same_in_both_forms() -> None:
    assert_same(TitleConfig, ThreadTitleOptions)
