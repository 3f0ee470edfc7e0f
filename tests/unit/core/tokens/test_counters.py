"""What texts count by tiktoken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.tokens.counter import TiktokenCounter
from langgraph_om.errors import ConfigurationError
from support.counters import END, TINY, any_text, tiny_encoding
from support.examples import examples


@pytest.mark.parametrize(
    "unit",
    ["a", "=", "é", "\ud800", " ", "1.", "hello wörld, ", '{"key": 1},\n'],
    ids=ascii,
)
def test_big_texts_are_counted_in_linear_time(unit: str) -> None:
    assert TINY.count_text(unit * (500_000 // len(unit))) > 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),
        ("hello hello", 3),
        ("hellow", 2),
        ("aaaaaa", 2),
        ("é", 2),
        (END, 7),
        (f"hello{END}", 8),
        ("hello " * 10_000, 1 + 9_999 * 2 + 1),
    ],
    ids=range(9),
)
def test_tiktoken_counts_its_own_tokens(text: str, tokens: int) -> None:
    assert TINY.count_text(text) == tokens


@examples(100)
@given(any_text | st.text(alphabet="<|end> hello\ud83d\ude00"))
def test_tiktoken_counts_any_text(text: str) -> None:
    assert (TINY.count_text(text) > 0) is bool(text)


def test_a_long_run_counts_close_to_the_whole() -> None:
    text = "xaaa" * 50_000
    whole = len(tiny_encoding().encode_ordinary(text))
    assert abs(TINY.count_text(text) - whole) <= len(text) // 1000


@pytest.mark.parametrize("encoding", ["no-such-vocabulary", "", None, 3])
def test_an_unknown_encoding_is_refused(encoding: Any) -> None:
    with pytest.raises(ConfigurationError, match="`encoding`") as caught:
        TiktokenCounter(encoding)
    assert repr(encoding) in str(caught.value)
    assert "o200k_base" in str(caught.value)


def test_a_vocabulary_out_of_reach_is_refused_in_the_constructor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigurationError, match=r"`encoding` 'p50k_edit'.*TIKTOKEN_CACHE_DIR"):
        TiktokenCounter("p50k_edit")
