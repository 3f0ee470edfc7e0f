"""The estimate against true counts of `o200k_base`, and the laws it keeps on any text."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langgraph_om.core.counters import TokenxCounter
from langgraph_om.core.estimate import EstimatingCounter
from langgraph_om.core.tokens import TokenCounter

COUNTER = EstimatingCounter()
DATA = Path(__file__).parents[1] / "data"
TABLE: dict[str, list[tuple[int, list[int]]]] = json.loads(
    (DATA / "true_counts.json").read_text("utf-8")
)

BOUNDS = {
    # The kind of text: the largest median and 95th percentile of the relative error, in percent.
    "arabic": (9, 20),
    "base64": (15, 19),
    "chat": (5, 8),
    "chinese": (6, 12),
    "emoji": (8, 14),
    "french": (5, 9),
    "german": (5, 14),
    "hindi": (8, 14),
    "japanese": (8, 12),
    "javascript": (8, 13),
    "json": (3, 5),
    "json-pretty": (3, 5),
    "korean": (8, 11),
    "logs": (3, 4),
    "markdown": (4, 9),
    "mixed": (4, 9),
    "numbers": (1, 1),
    "polish": (12, 17),
    "prose": (8, 12),
    "python": (8, 11),
    "russian": (7, 14),
    "spanish": (4, 9),
    "sql": (6, 13),
    "urls": (6, 8),
    "uuid": (3, 4),
}


def errors(kind: str, counter: TokenCounter) -> list[float]:
    """The relative errors over the samples of one kind, in percent."""
    text = (DATA / "texts" / f"{kind}.txt").read_text("utf-8").rstrip("\n")
    found = text.split("\n%%\n" if "\n%%\n" in text else "\n")
    return sorted(
        100 * abs(counter.count_text("\n".join(found[at] for at in numbers)) / tokens - 1)
        for tokens, numbers in TABLE[kind]
    )


def high(values: list[float]) -> float:
    return values[int(0.95 * len(values)) - 1]


def test_each_kind_of_text_has_its_bound() -> None:
    assert set(BOUNDS) == set(TABLE) == {path.stem for path in (DATA / "texts").glob("*.txt")}
    assert all(len(samples) >= 40 for samples in TABLE.values())


@pytest.mark.parametrize("kind", BOUNDS)
def test_the_estimate_is_close_to_the_true_count(kind: str) -> None:
    found = errors(kind, COUNTER)
    most_median, most_high = BOUNDS[kind]
    assert median(found) <= most_median
    assert high(found) <= most_high


@pytest.mark.parametrize("kind", sorted(set(BOUNDS) - {"german"}))
def test_the_estimate_is_closer_than_the_one_before(kind: str) -> None:
    ours, before = errors(kind, COUNTER), errors(kind, TokenxCounter())
    assert median(ours) < median(before)
    assert high(ours) < high(before)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 1),
        ("\n\n\n", 1),
        ("hello", 1),
        ("hello world", 2),
        ("123456", 2),
        ("a 12 b", 4),
        ("don't", 1),
        ('{"a":1}', 5),
        ("SELECT name FROM users", 4),
        ("\n        return x", 4),
        ("東京", 2),
        ("\ud800", 1),
        ("\x00", 1),
        ("👍", 2),
    ],
    ids=ascii,
)
def test_estimate_of_a_text(text: str, tokens: int) -> None:
    assert COUNTER.count_text(text) == tokens


def test_the_counter_names_itself() -> None:
    assert isinstance(COUNTER, TokenCounter)
    assert COUNTER.identity == "estimate/1"
    assert EstimatingCounter(provider="google").identity == "estimate/1+google:"
    assert COUNTER.count_message(HumanMessage("hello world")) == 7


any_text = st.text(st.characters(exclude_categories=()), max_size=60)
wordy_text = st.text(st.sampled_from("abAB1 ,.-_'\"é日ねжह😀\ud800\n\t\x1c"), max_size=80)
texts = any_text | wordy_text


@settings(deadline=None, max_examples=300)
@given(texts)
def test_a_text_counts_something_and_not_more_than_its_bytes(text: str) -> None:
    tokens = COUNTER.count_text(text)
    assert (tokens > 0) is bool(text)
    assert tokens <= 2 * len(text.encode("utf-8", "surrogatepass"))
    assert COUNTER.count_text(text) == tokens


@settings(deadline=None, max_examples=300)
@given(texts, texts)
def test_two_texts_count_nearly_as_much_together(one: str, other: str) -> None:
    parts = COUNTER.count_text(one) + COUNTER.count_text(other)
    assert abs(COUNTER.count_text(one + other) - parts) <= 4


@settings(deadline=None, max_examples=300)
@given(texts, texts)
def test_more_words_never_lower_a_count(text: str, more: str) -> None:
    assert COUNTER.count_text(f"{text} {more}") >= COUNTER.count_text(text)


@pytest.mark.parametrize(
    "unit",
    ["a", "A", "=", "1", "é", "日", "\ud800", " ", "\n", " \n", "\x00", "aB", "'s", "😀", "\x1c "],
    ids=ascii,
)
def test_big_texts_are_counted_in_linear_time(unit: str) -> None:
    size = 10_000_000 if unit in {"a", " "} else 1_000_000
    small = COUNTER.count_text(unit * (size // 10 // len(unit)))
    large = COUNTER.count_text(unit * (size // len(unit)))
    assert large == pytest.approx(10 * small, rel=0.1, abs=9)
