"""The texts on which the estimate of tokens is judged, by kind, and their true counts.

They were written after the estimate was fixed and were never used to fit it: an estimate changed
for their sake needs new texts. `tests/data/texts` has the passages of each kind; a sample joins a
few of one kind, and no passage is in more than two samples. Run by itself, this file chooses the
samples; `true_counts.mjs` counts them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parents[1] / "data"
TABLE: Final = DATA / "true_counts.json"
FEWEST: Final = 20
"""How many samples a kind has at least."""
SHORT: Final = 12
"""How many of them are as short as can be."""
LENGTHS: Final = (200, 3_400)
"""The fewest and about the most characters of a sample; its last passage may go beyond."""
BREAK: Final = "\n%%\n"
"""Between passages that have more than one line; other files have one passage a line."""


class Sample(NamedTuple):
    """A text and the tokens it has in the vocabulary `o200k_base`."""

    kind: str
    text: str
    tokens: int


def passages(kind: str) -> list[str]:
    """The passages of one kind, without the line breaks around them."""
    text = (DATA / "texts" / f"{kind}.txt").read_text("utf-8").rstrip("\n")
    return text.split(BREAK if BREAK in text else "\n")


def joined(kind: str, numbers: list[int]) -> str:
    """The text of a sample: the passages with these numbers, one below the other."""
    found = passages(kind)
    return "\n".join(found[number] for number in numbers)


def samples() -> Iterator[Sample]:
    """All samples of the table."""
    for kind, rows in json.loads(TABLE.read_text("utf-8")).items():
        for tokens, numbers in rows:
            yield Sample(kind, joined(kind, numbers), tokens)


# --- Samples -----------------------------------------------------------------------------------


def _cut(kind: str, random: Random, most: int) -> list[list[int]]:
    """Samples of up to about `most` characters that have no passage in common."""
    found, cut, chosen = passages(kind), [], []
    length = 0.0
    for number in random.sample(range(len(found)), len(found)):
        length = length or math.exp(random.uniform(math.log(LENGTHS[0]), math.log(most)))
        chosen.append(number)
        if len(joined(kind, chosen)) >= length:
            cut.append(chosen)
            chosen, length = [], 0.0
    return cut


def _choose(kind: str, random: Random) -> list[list[int]]:
    """Some short samples, and such others that they are enough and as long as can be."""
    short = _cut(kind, random, LENGTHS[0])[:SHORT]
    for most in range(LENGTHS[1], LENGTHS[0] - 1, -50):
        others = _cut(kind, random, most)
        if len(short) + len(others) >= FEWEST:
            return short + others
    msg = f"`{kind}` has too few passages for {FEWEST} samples"
    raise ValueError(msg)


def _main() -> None:
    kinds = sorted(path.stem for path in (DATA / "texts").glob("*.txt"))
    table = {
        kind: [[0, numbers] for numbers in _choose(kind, Random(kind))]  # noqa: S311 repeatable
        for kind in kinds
    }
    TABLE.write_text(json.dumps(table), "utf-8")


if __name__ == "__main__":
    _main()
