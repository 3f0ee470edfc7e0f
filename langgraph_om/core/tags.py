"""The tags that structure our prompts, and how other text is kept from posing as them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["escape", "tag_pattern"]

_OWN_TAGS: Final = (
    "observations",
    "previous-observations",
    "observation-log",
    "conversation",
    "other-conversation",
    "current-task",
    "suggested-response",
    "thread-title",
    "system-reminder",
    "thread",
)

_UNSEEN: Final = r"[\s\u200b-\u200f\u2060\ufeff\xad]*+"
"""Spaces, and characters that a model may not see. Possessive: a long run of them is read once."""


def tag_pattern(*names: str) -> re.Pattern[str]:
    """Match the `<` of every opening or closing tag of these names, however it is written."""
    return re.compile(rf"<(?={_UNSEEN}/?+{_UNSEEN}(?:{'|'.join(names)})\b)", re.IGNORECASE)


_TAG: Final = tag_pattern(*_OWN_TAGS)


def escape(text: str) -> str:
    """Make text unable to open or close one of our tags."""
    return _TAG.sub("&lt;", text)
