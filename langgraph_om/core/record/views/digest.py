"""The digest of a view: what stands before its messages, then each of these with what precedes it.

A view grows at its end from call to call, so its digest goes on from the former one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

Entries = Sequence[tuple[str, Any, str, int]]
"""Messages of a window; of each, its key and its digest count."""


class ViewDigest:
    """A digest that grows by messages.

    Args:
        parts: What stands before the messages.
        lines: By key, what is put before a message.
        dropped: How many messages of the window are left out of the view.
    """

    def __init__(self, parts: Sequence[str], lines: Mapping[str, str], dropped: int) -> None:
        self._parts, self._lines, self._dropped = [*parts], dict(lines), dropped
        self._start = hashlib.blake2b(_encode("\x1f".join(parts)), digest_size=8)
        self._state = self._start
        self.count = 0
        """How many messages it is of."""

    @property
    def text(self) -> str:
        """The digest so far."""
        return self._state.hexdigest()

    def begins(self, parts: Sequence[str], lines: Mapping[str, str], dropped: int) -> bool:
        """Return whether a view begins with the same, as far as that is not messages."""
        return (dropped, lines, parts) == (self._dropped, self._lines, self._parts)

    def extend(self, entries: Entries) -> ViewDigest:
        """Return the digest of a view with further messages; this one stays as it is."""
        longer, lines = copy(self), self._lines
        text = "".join(f"\x1f{lines.get(key, '')}{key} {digest}" for key, _, digest, _ in entries)
        longer.add(text, len(entries))
        return longer

    def restart(self) -> ViewDigest:
        """Return the digest of a view that begins with the same, and has no messages yet."""
        other = copy(self)
        other.clear()
        return other

    def add(self, text: str, count: int) -> None:
        """Add messages to a copy; the state that it has is another's still."""
        self._state = self._state.copy()
        self._state.update(_encode(text))
        self.count += count

    def clear(self) -> None:
        """Leave the messages out of a copy."""
        self._state, self.count = self._start, 0


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
