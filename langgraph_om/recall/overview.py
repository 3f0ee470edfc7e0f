"""Render an overview of messages, and hold how much of each part it shows.

Only our own lines begin at the left edge; further lines of a content are indented.
"""

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
"""Tokens up to which a user's texts are expanded before other parts."""


@dataclass(slots=True)
class PartLine:
    """One part in an overview."""

    index: int
    label: str
    text: str
    note: str
    usual: int
    """The tokens of its text that an overview usually shows."""
    rank: int
    """Parts of a lower rank are expanded first."""
    tokens: int
    """The tokens of its text that this overview shows."""
    kept: dict[int, int] = field(default_factory=dict)
    """How many characters are shown, per allowed tokens."""


@dataclass(slots=True)
class MessageEntry:
    """One message in an overview."""

    key: str
    """Its id, as it is shown."""
    head: str
    lines: list[PartLine]


class Overview:
    """The text of an overview, and how much of each part it shows."""

    def __init__(
        self,
        entries: list[MessageEntry],
        count: Callable[[str], int],
        *,
        is_backward: bool,
        is_beginning: bool = False,
    ) -> None:
        self.entries = entries
        self._count = count
        self._is_backward = is_backward
        self._is_beginning = is_beginning
        self._max_parts: int | None = None
        self._dropped: list[str] = []

    def render(self) -> str:
        """Return the messages as text, with blank lines between them."""
        blocks = [
            "\n".join(
                (
                    entry.head,
                    *map(self.render_line, self._select_lines(entry)),
                    *self._note_rest(entry),
                )
            )
            for entry in self.entries
        ]
        if self._dropped:
            # The next page by number begins behind them.
            where, page = (0, -1) if self._is_backward else (len(blocks), 1)
            note = f"({len(self._dropped)} more of this page do not fit: go on with cursor "
            blocks.insert(where, f"{note}{self._dropped[-1]}, page {page})")
        elif self._is_backward and self._is_beginning:
            blocks.insert(0, "(the conversation begins here)")
        return escape("\n\n".join(blocks))

    def render_line(self, line: PartLine) -> str:
        """Return a part as text, with a mark that says how to read the rest."""
        head = line.text[: self._count_kept(line)]
        if len(head) < len(line.text):
            head = head.rstrip()
        left_out = len(line.text) - len(head)
        mark = f"… (+{left_out:,} characters, part_index {line.index})" if left_out else ""
        return f"  [p{line.index}] {line.label}{indent(head)}{mark}{line.note}"

    def shrink(self, share: float, max_parts: int) -> None:
        """Show only a share of the usual tokens, and only the first parts of a message."""
        self._max_parts = max_parts
        for entry in self.entries:
            for line in entry.lines:
                line.tokens = int(line.usual * share)

    def drop_farthest(self) -> None:
        """Leave out the message that is farthest from the cursor."""
        self._dropped.append(self.entries.pop(0 if self._is_backward else -1).key)

    def list_cut_lines(self) -> Iterator[tuple[PartLine, int]]:
        """Yield the parts that are cut, in the order of expanding, with the tokens to stop at."""
        lines = [line for entry in self.entries for line in self._select_lines(entry)]
        cut = sorted((line for line in lines if self._is_cut(line)), key=lambda line: line.rank)
        yield from ((line, USER_TEXT_CAP if line.rank == 0 else len(line.text)) for line in cut)
        yield from ((line, len(line.text)) for line in cut if self._is_cut(line))

    def _select_lines(self, entry: MessageEntry) -> list[PartLine]:
        return entry.lines[: self._max_parts]

    def _note_rest(self, entry: MessageEntry) -> Iterator[str]:
        hidden = len(entry.lines) - len(self._select_lines(entry))
        if hidden:
            first, last = len(entry.lines) - hidden, len(entry.lines) - 1
            yield f"  (+{hidden} parts: part_index {first}{f' to {last}' if hidden > 1 else ''})"

    def _is_cut(self, line: PartLine) -> bool:
        return self._count_kept(line) < len(line.text)

    def _count_kept(self, line: PartLine) -> int:
        """Return how many characters of a part its tokens allow, in a bounded number of counts."""
        if line.tokens not in line.kept:
            line.kept[line.tokens] = find_longest_head(line.text, line.tokens, self._count)
        return line.kept[line.tokens]


def find_longest_head(text: str, tokens: int, count: Callable[[str], int]) -> int:
    """Return about the greatest length at which the head of a text has no more than `tokens`."""
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if head <= tokens:
        return high
    # Search between a length that fits and one that does not; the first guess is proportional.
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
    """Move an end within a surrogate pair to before the pair, or after it to make progress."""
    splits_pair = (
        0 < end < len(text)
        and HIGH_SURROGATE.match(text[end - 1])
        and LOW_SURROGATE.match(text[end])
    )
    if not splits_pair:
        return end
    return end - 1 if end - 1 > start else end + 1


def indent(text: str) -> str:
    """Indent the further lines of a text; only our own lines begin at the left edge."""
    return LINE_BREAK.sub(INDENT, sanitize(text))
