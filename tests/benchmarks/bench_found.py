"""In how many questions about a conversation a message that answers it is among the first hits.

    python tests/benchmarks/bench_found.py CONVERSATION.json [...] [--vectors VECTORS.json]

A file holds `messages` (`id`, `role`, `name`, `content`, `created_at`) and `questions` (`question`,
`evidence`: ids of messages, `category`), such as LoCoMo's, reshaped. By words is the search of an
archive; by meaning stands a small embedding that is the same everywhere, hashed word pieces, or
that of a model, if a file maps each text and question to its vector of length 1.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.archive import ArchivedHit, SQLAlchemyArchive
from langgraph_om.core.search import FoundText, split_words
from langgraph_om.reading import drop_unlike, join_hits

FIRST = 8
DIMENSIONS = 512
NEAR = 20


Embed = Callable[[str], dict[int, float]]


def read_vectors(path: Path) -> Embed:
    """What a model made of the texts, from a file."""
    vectors: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
    return lambda text: dict(enumerate(vectors[text]))


def hash_pieces(text: str) -> dict[int, float]:
    """A vector of length 1 of the pieces of words, each of four characters."""
    counts: Counter[int] = Counter()
    for word in split_words(text):
        padded = f"<{word}>"
        for at in range(max(1, len(padded) - 3)):
            counts[crc32(padded[at : at + 4].encode()) % DIMENSIONS] += 1
    weights = {place: math.log1p(count) for place, count in counts.items()}
    length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {place: weight / length for place, weight in weights.items()}


def to_message(entry: dict[str, Any]) -> BaseMessage:
    kind = HumanMessage if entry["role"] == "user" else AIMessage
    return kind(entry["content"], id=entry["id"])


def read_rankings(
    path: Path, embed: Embed
) -> tuple[list[dict[str, Any]], list[tuple[list[str], ...]]]:
    """The questions of a file, and per question what is found by words, by meaning and by both."""
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = [(entry["id"], to_message(entry), True) for entry in data["messages"]]
    times = {
        entry["id"]: datetime.fromisoformat(entry["created_at"]).replace(tzinfo=UTC)
        for entry in data["messages"]
    }
    vectors = {key: embed(message.text) for key, message, _ in rows}
    questions = [each for each in data["questions"] if each["evidence"]]
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        archive.append("t", "r", rows, after=None, now=datetime.now(UTC), times=times)
        asked = [(each["question"], embed(each["question"])) for each in questions]
        return questions, [_rank(archive, *each, vectors) for each in asked]


def _rank(
    archive: SQLAlchemyArchive,
    question: str,
    asked: dict[int, float],
    vectors: dict[str, dict[int, float]],
) -> tuple[list[str], ...]:
    by_words = archive.search(question, thread_id="t", limit=NEAR)
    likeness = {
        key: sum(weight * vector.get(place, 0.0) for place, weight in asked.items())
        for key, vector in vectors.items()
    }
    nearest = sorted(likeness, key=lambda key: -likeness[key])[:NEAR]
    by_meaning = drop_unlike(
        [
            ArchivedHit("t", FoundText("message", key, key, "", likeness[key], None, None))
            for key in nearest
        ]
    )
    both = join_hits(by_words, by_meaning)
    return tuple(
        [hit.found.cursor for hit in hits[:FIRST]] for hits in (by_words, by_meaning, both)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How often the search finds what answers.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vectors", type=Path, help="vectors of a model, by text")
    given = parser.parse_args()
    embed = hash_pieces if given.vectors is None else read_vectors(given.vectors)
    found: dict[str, list[Sequence[bool]]] = {}
    for path in given.files:
        questions, rankings = read_rankings(path, embed)
        for question, ranked in zip(questions, rankings, strict=True):
            evidence = set(question["evidence"])
            hits = [bool(evidence & set(keys)) for keys in ranked]
            for name in (path.stem, f"category {question['category']}", "all"):
                found.setdefault(name, []).append(hits)
    lines = ["| questions of | number | by words | by meaning | by both |", "|---|---|---|---|---|"]
    for name, each in sorted(found.items()):
        shares = [f"{sum(column) / len(each):.0%}" for column in zip(*each, strict=True)]
        lines.append(f"| {name} | {len(each)} | {' | '.join(shares)} |")
    print("\n".join(lines), flush=True)  # noqa: T201 the table is the program's output


if __name__ == "__main__":
    main()
