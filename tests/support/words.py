"""A token counter that a reader of a test can follow."""

from __future__ import annotations

from langchain_core.messages import BaseMessage


class Words:
    """A token for each word; remembers which messages it was asked to count."""

    identity = "words"

    def __init__(self) -> None:
        self.counted: list[str | None] = []

    def count_text(self, text: str) -> int:
        return len(text.split())

    def count_message(self, message: BaseMessage) -> int:
        self.counted.append(message.id)
        return self.count_text(str(message.content))
