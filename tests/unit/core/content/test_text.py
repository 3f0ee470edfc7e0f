from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.content.text import looks_encoded, sanitize, show_key, write_short_json
from support.examples import examples
from support.real_ids import MESSAGE_IDS, THREAD_IDS, call_ids

LONG_WORDS = "a sentence of more than forty characters is no id and no bytes"


@examples(300)
@given(
    st.text(st.characters(exclude_categories=()))
    | st.text("ab é\t\n\r\x0b\x1f\x85\u2028\ud800\u200d")
)
def test_nothing_but_line_breaks_and_control_characters_is_taken_out_of_a_text(text: str) -> None:
    lines = re.sub("\r\n|[\r\x0b\x0c\x85\u2028\u2029]", "\n", text)
    kept = re.sub("[\x00-\x08\x0e-\x1f\x7f-\x9f]", "", lines)
    assert sanitize(text) == re.sub("[\ud800-\udfff]", "\ufffd", kept)


@given(st.one_of(MESSAGE_IDS, THREAD_IDS, call_ids))
def test_real_ids_are_shown_whole(key: str) -> None:
    assert show_key(key) == key
    assert not looks_encoded(key)


@given(st.one_of(MESSAGE_IDS, call_ids))
def test_an_outline_shows_real_ids_whole(key: str) -> None:
    assert write_short_json(key, 200) == f'"{key}"'
    assert write_short_json({"id": key}, 200) == f'{{"id": "{key}"}}'


@pytest.mark.parametrize("text", [LONG_WORDS, "short", "", "a" * 39, "2026-03-02T09:00:00" * 5])
def test_words_are_not_taken_for_bytes(text: str) -> None:
    assert not looks_encoded(text)


@pytest.mark.parametrize(
    "text",
    [
        "A" * 44,
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        base64.b64encode(bytes(range(256))).decode(),
        base64.urlsafe_b64encode(bytes(range(255, 100, -1))).decode(),
        "data:image/png;base64," + "iVBORw0KGgo" * 6,
        "resp_" + "0123456789abcdef" * 30,
    ],
)
def test_encoded_bytes_stay_hidden(text: str) -> None:
    assert looks_encoded(text)
    assert write_short_json({"data": text}, 200) == (
        f'{{"data": "[{len(text):,} characters omitted]"}}'
    )


@given(st.randoms(use_true_random=False), st.integers(48, 400))
def test_random_bytes_stay_hidden_in_both_alphabets(random: object, size: int) -> None:
    data = random.randbytes(size)  # type: ignore[attr-defined]
    assert looks_encoded(base64.b64encode(data).decode())
    assert looks_encoded(base64.urlsafe_b64encode(data).decode())
