"""The option `retrieval`, as a mapping and as a class."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_type_hints

from langgraph_om.core.config.options import is_default
from langgraph_om.core.config.thresholds import as_config
from langgraph_om.features.recall.config import (
    RecallConfig,
    RecallKeys,
    RetrievalConfig,
    RetrievalOptions,
)
from support.docstrings import assert_same


def test_the_option_says_the_same_in_both_forms() -> None:
    assert_same(RecallConfig, RecallKeys)


def test_a_mapping_and_the_class_are_one() -> None:
    assert as_config(RetrievalConfig, "retrieval", {}) == RetrievalConfig()
    given = {"scope": "thread"}
    assert as_config(RetrievalConfig, "retrieval", given) == RetrievalConfig(scope="thread")


def test_a_mapping_has_the_keys_and_types_of_the_class() -> None:
    assert get_type_hints(RetrievalOptions) == get_type_hints(RetrievalConfig)
    assert {*get_type_hints(RetrievalOptions)} == {each.name for each in fields(RetrievalConfig)}


def test_what_is_left_out_is_known_after_a_replacement() -> None:
    assert is_default(replace(RetrievalConfig(), instructions="Look.").scope)
    assert not is_default(RetrievalConfig(scope="resource").scope)
