"""Search by meaning: what the Actor is told of it."""

from __future__ import annotations

from langgraph_om.features.meaning import Meaning
from langgraph_om.features.recall import build_recall_tool


def test_the_tool_tells_of_meaning_where_there_is_a_search_by_it() -> None:
    tool = build_recall_tool(lambda *_, **__: {}, reaches_others=False, near=Meaning.told)
    assert "meaning" in str(tool.args)
