"""Search by meaning: what the Actor is told of it."""

from __future__ import annotations

from langgraph_om.features.meaning import VectorConfig, VectorOptions
from langgraph_om.features.meaning.meaning import Meaning
from langgraph_om.features.recall import build_recall_tool
from support.docstrings import assert_same


def test_the_option_says_the_same_in_both_forms() -> None:
    assert_same(VectorConfig, VectorOptions)


def test_the_tool_tells_of_meaning_where_there_is_a_search_by_it() -> None:
    tool = build_recall_tool(lambda *_, **__: {}, reaches_others=False, near=Meaning.told)
    assert "meaning" in str(tool.args)
