"""What texts count, by the estimate and by tiktoken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.tokens.counter import (
    MessageCounter,
)
from langgraph_om.core.tokens.counters import TiktokenCounter
from langgraph_om.errors import ConfigurationError
from support.counters import (
    COUNTER,
    END,
    TINY,
    any_text,
    each_counter,
    tiny_encoding,
    wordy_text,
)
from support.examples import examples

# --- Text: the estimate ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \t\r\n\u00a0\u3000\ufeff", 0),
        ("hello", 1),
        ("hello world", 2),
        ("internationalization", 4),
        ("Hello, world!", 4),
        ("1,234.56", 5),
        ("12345678901", 1),
        ("foo_bar(baz);", 6),
        ("===========", 6),
        ("日本語テキスト", 7),
        ("日本語abc", 6),
        ("über größe", 4),
        ("ÜBER GRÖẞE", 4),
        ("naïveté", 3),
        ("https://example.com/a/b?c=1", 14),
        ("🔴 (14:30) User prefers tea", 10),
        ('{"a":1,"b":[1,2,3]}', 13),
        ("abcd", 1),
        ("abcdefg", 2),
        ("a.b", 3),
        ("Привет мир", 2),
        ("😀😀", 1),
        ("😀😀😀😀", 2),  # eight UTF-16 units
        ("日😀😀😀", 4),  # code points beside a CJK letter
        ("łódź", 2),
        ("don't stop", 2),
        ('"quoted text here"', 4),
        ("assistant", 2),
        ("user", 1),
        ('{"q":"cats"}', 5),
        ("search", 1),
        ("ひらがなひらがな", 2),  # hiragana counts as any script, 8 letters
        ("ひらがなの本", 6),
        ("한국어", 3),
        ("a\x1cb", 1),  # no white space to JavaScript
        ("٣٤٥٦٧٨٩", 2),  # no ASCII digits
        ("...", 1),
        ("....", 2),
        ("źdźbłoo", 2),  # 7 letters by 3.5
        ("źdźbłooo", 3),
        ("\ud800abcdef", 2),
    ],
)
def test_estimate_of_a_text(text: str, tokens: int) -> None:
    assert COUNTER.count_text(text) == tokens


PUNCTUATION = re.escape(".,!?;(){}[]<>:/\\|@#$%^&*+=`~_-")
SPACE = "\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
DELIMITER = re.compile(f"([{SPACE}]+|[{PUNCTUATION}]+)")


@examples(200)
@given(any_text | wordy_text)
def test_a_text_counts_the_sum_of_its_segments(text: str) -> None:
    segments = [part for part in DELIMITER.split(text) if part]
    assert COUNTER.count_text(text) == sum(map(COUNTER.count_text, segments))
    assert all(
        COUNTER.count_text(part) >= 1 for part in segments if not re.match(f"[{SPACE}]", part)
    )


@examples(10)
@given(wordy_text.filter(bool), st.integers(1, 3))
def test_a_long_text_counts_as_its_parts_do(part: str, size: int) -> None:
    # Longer than what is counted at once; the parts are kept apart by a space.
    repeats = size * 300_000 // (len(part) + 1)
    assert COUNTER.count_text((part + " ") * repeats) == repeats * COUNTER.count_text(part)


@each_counter
@pytest.mark.parametrize(
    "unit",
    ["a", "=", "é", "\ud800", " ", "1.", "hello wörld, ", '{"key": 1},\n'],
    ids=ascii,
)
def test_big_texts_are_counted_in_linear_time(counter: MessageCounter, unit: str) -> None:
    size = 10_000_000 if counter is COUNTER and len(unit) == 1 else 500_000
    tokens = counter.count_text(unit * (size // len(unit)))
    assert (tokens > 0) is (counter is TINY or unit != " ")


@pytest.mark.parametrize("length", [3, 262_143, 262_144, 262_145, 1_000_000])
def test_a_segment_is_never_cut(length: int) -> None:
    assert COUNTER.count_text("." * length) == (1 if length == 3 else -(-length // 2))
    assert COUNTER.count_text("a" * length) == -(-length // 6)


# --- Text: tiktoken ----------------------------------------------------------------------------


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
