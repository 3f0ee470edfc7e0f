"""The text of an overview of messages, and how much of each part it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import sanitize

CHARACTERS_PER_TOKEN_CEILING: Final = 16
"""No text longer than this many characters per allowed token is counted."""

SEARCH_STEPS: Final = 16
LINE_BREAK = re.compile(r"\n")
INDENT: Final = "\n      "
HIGH_SURROGATE = re.compile("[\ud800-\udbff]")
LOW_SURROGATE = re.compile("[\udc00-\udfff]")
USER_TEXT_CAP: Final = 200
"""Up to where a user's text is expanded before other parts are."""


@dataclass(slots=True)
class Line:
    """One part in an overview."""

    index: int
    label: str
    text: str
    note: str
    usual: int
    """The tokens of its text that an overview shows."""
    rank: int
    """The lower, the earlier it is expanded."""
    tokens: int
    kept: dict[int, int] = field(default_factory=dict)
    """Per tokens allowed, how many characters that is."""


@dataclass(slots=True)
class Entry:
    """One message in an overview."""

    head: str
    lines: list[Line]


class Overview:
    """The text of an overview, and how much of each part it shows."""

    def __init__(
        self, entries: list[Entry], count: Callable[[str], int], *, is_backward: bool
    ) -> None:
        self.entries = entries
        self._count = count
        self._is_backward = is_backward
        self._most_parts: int | None = None
        self._dropped = 0

    def text(self) -> str:
        """Write the messages, a blank line between them."""
        blocks = [
            "\n".join((entry.head, *map(self.line_text, self._shown(entry)), *self._rest(entry)))
            for entry in self.entries
        ]
        if self._dropped:
            where = 0 if self._is_backward else len(blocks)
            note = f"({self._dropped} more of this page do not fit: write a smaller limit)"
            blocks.insert(where, note)
        return escape("\n\n".join(blocks))

    def line_text(self, line: Line) -> str:
        """Write a part, with a mark where the rest of it is to be had."""
        head = line.text[: self._kept(line)]
        if len(head) < len(line.text):
            head = head.rstrip()
        left_out = len(line.text) - len(head)
        mark = f"… (+{left_out:,} characters, partIndex {line.index})" if left_out else ""
        return f"  [p{line.index}] {line.label}{indent(head)}{mark}{line.note}"

    def shrink(self, share: float, most_parts: int) -> None:
        """Show only a share of the usual tokens, and only the first parts of a message."""
        self._most_parts = most_parts
        for entry in self.entries:
            for line in entry.lines:
                line.tokens = int(line.usual * share)

    def drop_farthest(self) -> None:
        """Leave out the message that is farthest from the cursor."""
        self.entries.pop(0 if self._is_backward else -1)
        self._dropped += 1

    def cut_lines(self) -> Iterator[tuple[Line, int]]:
        """Give the parts that are cut, in the order of expanding, with the tokens to stop at."""
        lines = [line for entry in self.entries for line in self._shown(entry)]
        cut = sorted((line for line in lines if self._is_cut(line)), key=lambda line: line.rank)
        yield from ((line, USER_TEXT_CAP if line.rank == 0 else len(line.text)) for line in cut)
        yield from ((line, len(line.text)) for line in cut if self._is_cut(line))

    def _shown(self, entry: Entry) -> list[Line]:
        return entry.lines[: self._most_parts]

    def _rest(self, entry: Entry) -> Iterator[str]:
        hidden = len(entry.lines) - len(self._shown(entry))
        if hidden:
            first, last = len(entry.lines) - hidden, len(entry.lines) - 1
            yield f"  (+{hidden} parts: partIndex {first}{f' to {last}' if hidden > 1 else ''})"

    def _is_cut(self, line: Line) -> bool:
        return self._kept(line) < len(line.text)

    def _kept(self, line: Line) -> int:
        """Find how many characters of a part the tokens allow, in a bounded number of counts."""
        if line.tokens not in line.kept:
            line.kept[line.tokens] = find_longest_head(line.text, line.tokens, self._count)
        return line.kept[line.tokens]


def find_longest_head(text: str, tokens: int, count: Callable[[str], int]) -> int:
    """Find a length near the greatest at which the head of a text counts no more than `tokens`."""
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if head <= tokens:
        return high
    # Between a length known to fit and one known not to; the first guess is proportional.
    low, guess = 0, high * tokens // head
    for _ in range(SEARCH_STEPS):
        if count(text[:guess]) <= tokens:
            low = guess
        else:
            high = guess
        if high - low <= max(1, low // 20):
            break
        guess = (low + high) // 2
    return to_whole_character(text, 0, low) if low else 0


def to_whole_character(text: str, start: int, end: int) -> int:
    """Move an end that parts a surrogate pair to before the pair, or after it to get on at all."""
    parts_pair = (
        0 < end < len(text)
        and HIGH_SURROGATE.match(text[end - 1])
        and LOW_SURROGATE.match(text[end])
    )
    if not parts_pair:
        return end
    return end - 1 if end - 1 > start else end + 1


def indent(text: str) -> str:
    """Keep further lines of a text away from the left edge, where only our own lines begin."""
    return LINE_BREAK.sub(INDENT, sanitize(text))
