"""The estimate against true counts of `o200k_base`, and the laws it keeps on any text."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from hypothesis import strategies as st

from support.inside import EstimatingCounter, TokenCounter

COUNTER = EstimatingCounter()
DATA = Path(__file__).parents[3] / "data"
TABLE: dict[str, list[tuple[int, list[int]]]] = json.loads(
    (DATA / "true_counts.json").read_text("utf-8")
)

BOUNDS = {
    # The kind of text: the largest median and 95th percentile of the relative error, in percent.
    # The texts were never used to fit the estimate: an estimate that misses a bound got worse.
    "arabic": (6, 16),
    "base64": (13, 16),
    "chat": (4, 8),
    "chinese": (11, 17),
    "emoji": (11, 17),
    "french": (7, 10),
    "german": (7, 12),
    "hindi": (8, 19),
    "japanese": (11, 17),
    "javascript": (8, 12),
    "json": (6, 8),
    "json-pretty": (3, 5),
    "korean": (10, 15),
    "logs": (4, 5),
    "markdown": (4, 7),
    "mixed": (4, 6),
    "numbers": (5, 9),
    "polish": (12, 23),
    "prose": (4, 7),
    "python": (7, 13),
    "russian": (6, 15),
    "spanish": (10, 18),
    "sql": (3, 7),
    "urls": (4, 8),
    "uuid": (2, 3),
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
    assert all(len(samples) >= 20 for samples in TABLE.values())


@pytest.mark.parametrize("kind", BOUNDS)
def test_the_estimate_is_close_to_the_true_count(kind: str) -> None:
    found = errors(kind, COUNTER)
    most_median, most_high = BOUNDS[kind]
    assert median(found) <= most_median
    assert high(found) <= most_high


any_text = st.text(st.characters(exclude_categories=()), max_size=60)
wordy_text = st.text(st.sampled_from("abAB1 ,.-_'\"é日ねжह😀\ud800\n\t\x1c"), max_size=80)
texts = any_text | wordy_text
