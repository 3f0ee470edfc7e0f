"""How texts are ranked, what filters let through, and the words by which a text is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.inside import JOINERS, MAX_WORD_CHARACTERS, cut_excerpt, query_words, split_words


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


@given(st.text(max_size=400))
def test_words_are_safe_for_every_index(text: str) -> None:
    for word in split_words(text):
        assert 0 < len(word) <= MAX_WORD_CHARACTERS
        assert word[0] not in JOINERS
        assert not any(each.isspace() or each in '"\\\x00=*()|!' for each in word)
        word.encode()


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


@given(st.text(max_size=600), st.text(max_size=20), st.integers(1, 300))
def test_an_excerpt_is_bounded(text: str, query: str, size: int) -> None:
    assert len(cut_excerpt(text, query_words(query), size)) <= size + 2
