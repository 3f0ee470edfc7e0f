"""What a thread is called: what its record knows of that, and what lists show.

`thread_title` is the title; beside it the record notes where it comes from. A title that a person
set is changed by nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.text import as_label
from langgraph_om.core.wire import MemoryRecord, TitleState

MAX_WORDS: Final = 8
"""Of a user message, shown until there is a title."""
MAX_WORDS_CHARACTERS: Final = 60


def read_title_state(record: MemoryRecord) -> TitleState:
    """Return what a record knows of where its title comes from."""
    return record.get("title", {})


def is_named(record: MemoryRecord) -> bool:
    """Return whether a person set the thread's title."""
    return read_title_state(record).get("by") == "person"


def find_shown_title(record: MemoryRecord) -> str | None:
    """Return what lists show: the title, or the user's first words until there is one."""
    return record["thread_title"] or read_title_state(record).get("words")


def find_words(messages: Sequence[BaseMessage]) -> str | None:
    """Return the first words of the first user message with text, shortened at a word."""
    for message in messages:
        words = as_label(message.text).split() if message.type == "human" else []
        if words:
            return _shorten(words)
    return None


def _shorten(words: Sequence[str]) -> str:
    text = " ".join(words[:MAX_WORDS])
    is_whole = len(words) <= MAX_WORDS and len(text) <= MAX_WORDS_CHARACTERS
    if is_whole:
        return text
    if len(text) > MAX_WORDS_CHARACTERS:
        head = text[:MAX_WORDS_CHARACTERS]
        text = head.rpartition(" ")[0] or head
    return f"{text.rstrip(' .,;:!?…')}…"
