"""The digest of a view: what stands before its messages, then each of these with what precedes it.

A view grows at its end from call to call, so its digest goes on from the former one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Entries = Sequence[tuple[str, Any, str, int]]
"""Messages of a window; of each, its key and its digest count."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewDigest:
    """The digest of a view with so many messages; one of more messages is made from it."""

    parts: Sequence[str]
    """What stands before the messages."""
    lines: Mapping[str, str]
    """By key, what is put before a message."""
    dropped: int
    """How many messages of the window are left out of the view."""
    start: hashlib.blake2b
    """The state of the hash before the messages; a state is copied before anything is added."""
    state: hashlib.blake2b
    """The state of the hash behind them."""
    count: int = 0
    """How many messages it is of."""

    @classmethod
    def begin(cls, parts: Sequence[str], lines: Mapping[str, str], dropped: int) -> ViewDigest:
        """Return the digest of a view without messages; for the arguments see the fields."""
        start = hashlib.blake2b(_encode("\x1f".join(parts)), digest_size=8)
        return cls([*parts], dict(lines), dropped, start, start)

    @property
    def text(self) -> str:
        """The digest so far."""
        return self.state.hexdigest()

    def begins(self, parts: Sequence[str], lines: Mapping[str, str], dropped: int) -> bool:
        """Return whether a view begins with the same, as far as that is not messages."""
        return (dropped, lines, parts) == (self.dropped, self.lines, self.parts)

    def extend(self, entries: Entries) -> ViewDigest:
        """Return the digest of a view with further messages; this one stays as it is."""
        state, lines = self.state.copy(), self.lines
        text = "".join(f"\x1f{lines.get(key, '')}{key} {digest}" for key, _, digest, _ in entries)
        state.update(_encode(text))
        return replace(self, state=state, count=self.count + len(entries))

    def restart(self) -> ViewDigest:
        """Return the digest of a view that begins with the same, and has no messages yet."""
        return replace(self, state=self.start, count=0)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
