"""The tags that structure our prompts, and how other text is kept from posing as them."""

from __future__ import annotations

import re

__all__ = ["escape"]

_OWN_TAGS = (
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
_TAG = re.compile(rf"<(?=\s{{0,8}}/?\s{{0,8}}(?:{'|'.join(_OWN_TAGS)})\b)", re.IGNORECASE)


def escape(text: str) -> str:
    """Make text unable to open or close one of our tags."""
    return _TAG.sub("&lt;", text)
