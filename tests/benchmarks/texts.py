"""The texts on which the estimate of tokens is judged, by kind, and their true counts.

`tests/data/texts` has the passages of each kind, which were written for this and are not those the
estimate was fitted to. A sample joins a few passages of one kind. Run by itself, this file writes
the passages that a generator can make and chooses the samples; `true_counts.mjs` counts them.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parents[1] / "data"
TABLE: Final = DATA / "true_counts.json"
SAMPLES: Final = 40
LENGTHS: Final = (200, 4_000)
BREAK: Final = "\n%%\n"
"""Between passages that have more than one line; other files have one passage a line."""
WORD_LIST: Final = """
anchor basket copper delta ember falcon garden harbor island jacket kettle lantern meadow needle
orchid pepper quarry ribbon saddle timber umbrella velvet walnut yonder zephyr invoice shipment
customer warehouse session payload replica snapshot tenant checkout
"""
WORDS: Final = WORD_LIST.split()


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


# --- Passages that are generated ---------------------------------------------------------------


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def _time(random: Random) -> str:
    date = f"20{random.randint(19, 27)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    hour, minute, fraction = (random.randint(0, most) for most in (23, 59, 999))
    return f"{date}T{hour:02}:{minute:02}:07.{fraction:03}Z"


def _record(random: Random) -> dict[str, object]:
    words = [random.choice(WORDS) for _ in range(6)]
    return {
        "id": random.choice([random.randint(1, 90_000), _uuid(random)]),
        f"{words[0]}_{words[1]}": f"{words[2].title()} {words[3]}",
        "createdAt": _time(random),
        words[4]: {"amount": round(random.uniform(1, 900), 2), "active": random.random() < 0.5},
        "tags": words[: random.randint(0, 3)],
        "parent": None,
    }


def _url(random: Random) -> str:
    words = [random.choice(WORDS) for _ in range(5)]
    query = f"?page={random.randint(1, 80)}&{words[2]}={words[3]}" if random.random() < 0.5 else ""
    domain = random.choice(["example.com", "files.example.org", "shop.example.co.uk"])
    return f"https://{words[4]}.{domain}/{words[0]}/{words[1]}-{random.randint(1, 9_999)}{query}"


def _log(random: Random) -> str:
    level = random.choice(["INFO", "DEBUG", "WARNING", "ERROR"])
    words = [random.choice(WORDS) for _ in range(4)]
    return (
        f"{_time(random)} {level:7} [{words[0]}-{random.randint(1, 32)}] {words[1]}.{words[2]}: "
        f"request {random.getrandbits(48):012x} for {words[3]} took {random.randint(1, 9_000)} ms, "
        f"status={random.choice([200, 201, 404, 503])} ip=172.16.{random.randint(0, 255)}.9"
    )


def _numbers(random: Random) -> str:
    amounts = [f"{random.uniform(0, 10 ** random.randint(1, 6)):.3f}" for _ in range(4)]
    return ",".join([str(random.randint(1, 10**8)), *amounts, f"-{random.random():.6e}"])


GENERATED: Final[dict[str, Callable[[Random], str]]] = {
    "json": lambda random: json.dumps(_record(random), separators=(",", ":")),
    "json-pretty": lambda random: json.dumps(_record(random), indent=2),
    "uuid": _uuid,
    "numbers": _numbers,
    "base64": lambda random: base64.b64encode(random.randbytes(random.randint(60, 150))).decode(),
    "urls": _url,
    "logs": _log,
}


def _write_generated(random: Random) -> None:
    for kind, make in GENERATED.items():
        found = [make(random) for _ in range(60)]
        glue = BREAK if any("\n" in passage for passage in found) else "\n"
        (DATA / "texts" / f"{kind}.txt").write_text(glue.join(found) + "\n", "utf-8")


def _choose(kind: str, random: Random) -> list[int]:
    found = passages(kind)
    # At most two thirds of the passages: samples are to differ.
    most = min(LENGTHS[1], 2 * len("\n".join(found)) // 3)
    length = math.exp(random.uniform(math.log(LENGTHS[0]), math.log(most)))
    chosen: list[int] = []
    for number in random.sample(range(len(found)), len(found)):
        chosen.append(number)
        if len(joined(kind, chosen)) >= length:
            break
    return chosen


def _main() -> None:
    random = Random(20)  # noqa: S311  (the same samples each time)
    _write_generated(random)
    kinds = sorted(path.stem for path in (DATA / "texts").glob("*.txt"))
    table = {kind: [[0, _choose(kind, random)] for _ in range(SAMPLES)] for kind in kinds}
    TABLE.write_text(json.dumps(table), "utf-8")


if __name__ == "__main__":
    _main()
