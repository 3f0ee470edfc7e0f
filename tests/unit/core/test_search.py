"""How texts are ranked, what filters let through, and the words by which a text is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.core.search import (
    JOINERS,
    MAX_PIECES,
    MAX_QUERY_WORDS,
    MAX_WORD_CHARACTERS,
    PIECE_CHARACTERS,
    Filter,
    cut_excerpt,
    distinct_words,
    find_words,
    fuse,
    query_words,
    rank_texts,
    search_texts,
    split_pieces,
    split_words,
)
from langgraph_om.core.wire import Group
from support import groups

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


def test_a_rare_word_counts_more_than_frequent_ones() -> None:
    texts = [["the", "talk", "of", "the", "day"] for _ in range(20)] + [["walnuts"]]
    scores, held = zip(*rank_texts(["the", "talk", "walnuts"], texts), strict=True)
    assert held[0] < held[-1] < sum(held[-2:]) == pytest.approx(1)  # all that is asked for
    assert scores[-1] == max(scores)
    assert all(0 < score < 1 for score in scores)
    assert rank_texts(["absent"], texts) == [(0.0, 0.0)] * 21
    assert rank_texts([], texts) == [(0.0, 0.0)] * 21
    assert rank_texts(["x"], []) == []


def test_a_short_text_is_before_a_long_one_and_more_is_better() -> None:
    short, long = ["walnut", "cake"], ["walnut", *["other"] * 200]
    twice = ["walnut", "walnut"]
    scores = rank_texts(["walnut"], [long, short, twice])
    assert scores[2] > scores[1] > scores[0]
    assert {held for _, held in scores} == {1.0}


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
    return groups.group(
        "g", text, thread=None, ranges=[["ask", "think"]], observed_at=NOON.isoformat(), tokens=9
    )


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Straße, MÜNCHEN!", ["strasse", "stras+", "munchen", "munch+"]),
        ("Cafe\u0301 café ﬁne", ["cafe", "cafe", "fine"]),
        ("東京で", ["東", "京", "で", "東京", "京で"]),
        ("猫", ["猫"]),
        ("ｶﾞｷﾞ", ["ガ", "ギ", "ガギ"]),
        ("أَحْمَد إلى", ["احمد", "الى"]),
        ("हिन्दी", ["हिन्दी"]),
        ("parse_rate", ["parse_rate", "parse", "rate"]),
        ("parseRate", ["parserate", "parse", "rate", "parse+"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2", "serve+"]),
        ("fx/rates.py.", ["fx/rates.py", "fx", "rates", "py"]),
        (r"C:\x\y.py", ["c:/x/y.py", "c", "x", "y", "py"]),
        ("7,431", ["7,431", "7", "431"]),
        ("日本語text", ["日", "本", "語", "日本", "本語", "text"]),
        ("painting painted", ["painting", "paint+", "painted", "paint+"]),
        ('🎉 -- \x00 \ud800 * "', []),
    ],
)
def test_texts_are_split(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_query_without_blanks_asks_for_pairs_alone() -> None:
    assert query_words("東京で") == ["東京", "京で"]
    assert query_words("猫 the the") == ["猫", "the"]


def test_of_a_long_query_the_longest_words_are_asked() -> None:
    query = " ".join(f"w{n}" for n in range(500)) + " remarkable"
    words = query_words(query)
    assert len(words) == MAX_QUERY_WORDS
    assert "remarkable" in words


@given(st.text(max_size=400))
def test_words_are_safe_for_every_index(text: str) -> None:
    for word in split_words(text):
        assert 0 < len(word) <= MAX_WORD_CHARACTERS
        assert word[0] not in JOINERS
        assert not any(each.isspace() or each in '"\\\x00=*()|!' for each in word)
        word.encode()


@given(st.text(max_size=60))
def test_what_is_written_is_found(text: str) -> None:
    assert set(query_words(text)) <= set(split_words(f"x {text} y")) | set(split_words(text))


@given(st.text(max_size=200))
def test_places_are_those_of_the_text(text: str) -> None:
    ends = [(start, end) for start, end, _ in find_words(text)]
    assert ends == sorted(ends)
    assert all(0 <= start < end <= len(text) for start, end in ends)


@given(st.text(max_size=200) | st.text("aB1é日न\u0301_-./' \n\x1c\xa0", max_size=60))
@example("a1 B-c\xa0d日本")
def test_the_words_of_a_text_are_those_of_its_places(text: str) -> None:
    words = [word for *_, found in find_words(text) for word in found]
    assert split_words(text) == words
    assert distinct_words(text) == set(words)


def test_pieces_hold_the_whole_text_as_far_as_it_is_searched() -> None:
    text = "word " * 10_000
    pieces = split_pieces(text)
    assert "".join(pieces) == text
    assert all(len(piece) <= PIECE_CHARACTERS and piece.endswith(" ") for piece in pieces)
    assert len(split_pieces("x" * PIECE_CHARACTERS * 100)) == MAX_PIECES
    assert split_pieces("") == []


@pytest.mark.parametrize("unit", ["\ufdfa", "\u3316", "\ufb03", "½", "가", "a.", "aB1-"])
def test_characters_that_stand_for_many_make_no_more_words_than_others(unit: str) -> None:
    text = unit * (16_000 // len(unit))
    words = split_words(text)
    assert len(words) <= 2 * len(text)
    assert sum(map(len, words)) <= 4 * len(text)


def test_an_excerpt_lies_around_the_words() -> None:
    text = "before " * 200 + "the walnuts are in the cellar " + "after " * 200
    cut = cut_excerpt(text, query_words("walnuts cellar"))
    assert "walnuts are in the cellar" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert len(cut) <= 245
    assert cut_excerpt("short", ["x"]) == "short"
    unspaced = "あ" * 500 + "寿司" + "い" * 500
    assert "寿司" in cut_excerpt(unspaced, query_words("寿司"))


def test_an_excerpt_lies_where_the_words_stand_closest_and_shows_what_follows() -> None:
    lines = [f"Section {at}. Requests are kept for {at} weeks, by code." for at in range(200)]
    lines[120] = "The code for late reports is HB-5093."
    text = "\n".join([*lines[:90], "Late entries are listed.", *lines[90:]])
    for size in (120, 240, 400):
        assert "HB-5093" in cut_excerpt(text, query_words("code for late reports"), size)
    first = "late reports here. " + "x " * 300 + "late reports there."
    assert "here" in cut_excerpt(first, query_words("late reports")), "of two that are equal"


@given(st.text(max_size=600), st.text(max_size=20), st.integers(1, 300))
def test_an_excerpt_is_bounded(text: str, query: str, size: int) -> None:
    assert len(cut_excerpt(text, query_words(query), size)) <= size + 2
