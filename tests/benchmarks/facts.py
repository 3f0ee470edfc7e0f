"""Facts that are told in a conversation, and whether a text still tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"\w[\w'-]*")


def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.replace("\\n", " ").lower()))


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a question at the end asks for."""

    message_id: str
    verbatim: str
    words: frozenset[str]
    """Words that tell this message from others, in small letters."""

    def is_in(self, text: str, words: frozenset[str]) -> bool:
        """Whether a text, of which the words are given too, tells it."""
        return self.verbatim in text or bool(self.words & words)
