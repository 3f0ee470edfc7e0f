"""Earlier messages shown without asking: the option, as editors show it."""

from __future__ import annotations

from langgraph_om.features.inject import InjectConfig, InjectField, InjectKeys, InjectOptions
from support.docstrings import assert_same


def test_the_option_says_the_same_in_both_forms() -> None:
    assert_same(InjectConfig, InjectOptions)
    assert_same(InjectField, InjectKeys)
