"""How texts are ranked, and what filters let through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.core.search import Filter, fuse, rank_texts, search_texts
from langgraph_om.core.wire import Group

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


def test_a_rare_word_counts_more_than_frequent_ones() -> None:
    texts = [["the", "talk", "of", "the", "day"] for _ in range(20)] + [["walnuts"]]
    scores = rank_texts(["the", "talk", "walnuts"], texts)
    assert scores[-1] == max(scores)
    assert all(0 < score < 1 for score in scores)
    assert rank_texts(["absent"], texts) == [0.0] * 21
    assert rank_texts([], texts) == [0.0] * 21
    assert rank_texts(["x"], []) == []


def test_a_short_text_is_before_a_long_one_and_more_is_better() -> None:
    short, long = ["walnut", "cake"], ["walnut", *["other"] * 200]
    twice = ["walnut", "walnut"]
    scores = rank_texts(["walnut"], [long, short, twice])
    assert scores[2] > scores[1] > scores[0]


def test_what_two_rankings_put_in_front_comes_first() -> None:
    assert fuse([["a", "b", "c"], ["d", "b", "e"]], [1, 1])[0] == "b"
    assert fuse([["a", "a"], []], [1, 1]) == ["a"]
    assert fuse([], []) == []


def test_a_ranking_of_more_weight_comes_first() -> None:
    assert fuse([["a", "b"], ["x", "y"]], [1, 0.5]) == ["a", "b", "x", "y"]
    assert fuse([["a", "b"], ["x", "y"]], [0.5, 1]) == ["x", "y", "a", "b"]


CALL = {"name": "lookup", "args": {"city": "Ghent"}, "id": "c1"}
TALK: list[tuple[str, BaseMessage]] = [
    ("s", SystemMessage("Ghent rules")),
    ("ask", HumanMessage("Is Ghent sunny?")),
    ("call", AIMessage("", tool_calls=[CALL])),
    ("result", ToolMessage("Ghent: rain", tool_call_id="c1")),
    ("think", AIMessage([{"type": "reasoning", "reasoning": "secret thoughts"}, "It rains."])),
]
ENTRIES = [(key, said, NOON + timedelta(hours=n)) for n, (key, said) in enumerate(TALK)]


def group(text: str) -> Group:
    return {
        "id": "g",
        "kind": "observation",
        "ranges": [["ask", "think"]],
        "text": text,
        "tokens": 9,
        "observed_at": NOON.isoformat(),
        "thread_id": None,
    }


def keys(query: str, **wanted: object) -> set[str]:
    groups = [group("User asked about Ghent")]
    return {each.key for each in search_texts(query, ENTRIES, groups, Filter(**wanted))}  # type: ignore[arg-type]


def test_filters_of_a_conversation_at_hand() -> None:
    assert keys("ghent") == {"ask", "call", "result", "g"}
    assert keys("ghent", role="tool") == {"result"}
    assert keys("ghent", tool_name="lookup") == {"call", "result"}  # the result has the id alone
    assert keys("ghent", after=NOON + timedelta(hours=3)) == {"result"}
    assert keys("ghent", before=NOON + timedelta(hours=2)) == {"ask", "g"}
    assert keys("secret thoughts") == set()
    assert keys("") == set()


def test_a_group_leads_to_its_first_message() -> None:
    (found,) = search_texts("likes tea", [], [group("User likes tea")], Filter())
    assert (found.kind, found.cursor, found.role) == ("observations", "ask", None)
