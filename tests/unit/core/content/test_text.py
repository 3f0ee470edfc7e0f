from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.content.text import looks_encoded, show_key, write_short_json
from support.real_ids import MESSAGE_IDS, THREAD_IDS, call_ids

LONG_WORDS = "a sentence of more than forty characters is no id and no bytes"


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
