"""A token counter that a reader of a test can follow."""

from __future__ import annotations

from langchain_core.messages import BaseMessage


class Words:
    """A token for each word."""

    identity = "words"

    def count_text(self, text: str) -> int:
        return len(text.split())

    def count_message(self, message: BaseMessage) -> int:
        return self.count_text(str(message.content))
