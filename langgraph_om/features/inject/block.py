"""The block of earlier messages that a search for the live request has found.

It stands before the live request, so that the head of the prompt stays the same, and it holds still
for the whole turn. Its size is bounded: hits come first, by their rank, then what stands around
them, and what does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Final

from langgraph_om.core.content.text import as_label, escape, escape_attribute, sanitize, show_key
from langgraph_om.core.observe.transcript import format_weekday, to_local
from langgraph_om.core.prompts import fill
from langgraph_om.core.search import cut_excerpt
from langgraph_om.core.tokens.counter import TokenCounter

TAG: Final = "recalled-messages"

MAX_TOKENS: Final = 2000
"""No block is larger; this is as much as `recall` answers at most."""
WINDOW_SHARE: Final = 0.5
"""And none takes more than so much of `observation.message_tokens`."""

HIT_CHARACTERS: Final = 1600
"""Of a longer message that was found, the part is shown that holds the words."""
SHORT_CHARACTERS: Final = 240
"""The same, where nothing longer fits, and of messages around it."""


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """A message of any thread, as it is shown."""

    thread_id: str
    title: str | None
    key: str
    position: int
    """Grows along the conversation."""
    role: str
    at: datetime | None
    text: str
    score: float | None = None
    """How well it matches; `None` of a message that was not found, but stands near to one."""


@dataclass(frozen=True, slots=True)
class BlockStyle:
    """How a block is written, and how large it may be."""

    max_tokens: int
    counter: TokenCounter
    timezone: tzinfo
    show_id: Callable[[str], str]
    """Writes a thread's id for the model."""
    current_thread: str


def limit_tokens(message_tokens: int) -> int:
    """Return how many tokens a block may have beside a window of this size."""
    return min(MAX_TOKENS, int(message_tokens * WINDOW_SHARE))


def write_recalled(
    found: Sequence[EarlierMessage], words: Sequence[str], style: BlockStyle
) -> tuple[str, list[EarlierMessage]]:
    """Write the block.

    Args:
        found: Hits, the best first, then the messages around them, the most wanted first.
        words: The words of the query.
        style: How it is written.

    Returns:
        Its text, empty where nothing fits, and the messages in it.
    """
    shown: list[EarlierMessage] = []
    text = ""
    for message in found:
        lengths = (
            (SHORT_CHARACTERS,) if message.score is None else (HIT_CHARACTERS, SHORT_CHARACTERS)
        )
        for characters in lengths:
            cut = replace(message, text=cut_excerpt(message.text, words, characters))
            longer = _write([*shown, cut], style)
            if style.counter.count_text(longer) <= style.max_tokens:
                shown.append(cut)
                text = longer
                break
    return text, shown


def _write(messages: Sequence[EarlierMessage], style: BlockStyle) -> str:
    threads: dict[str, list[EarlierMessage]] = {}
    for message in messages:
        threads.setdefault(message.thread_id, []).append(message)
    blocks = [_write_thread(key, each, style) for key, each in threads.items()]
    return fill("recalled_messages", messages="\n\n".join(blocks))


def _write_thread(thread_id: str, messages: Sequence[EarlierMessage], style: BlockStyle) -> str:
    """Write the messages of a thread in their order, with marks where some are left out."""
    ordered = sorted(messages, key=lambda message: message.position)
    lines: list[str] = []
    day: str | None = None
    before: int | None = None
    for message in ordered:
        if before is not None and message.position > before + 1:
            lines.append("…")
        before = message.position
        moment = to_local(message.at, style.timezone)
        written = format_weekday(moment.date()) if moment else "unknown"
        if written != day:
            lines.append(f"Date: {written}")
            day = written
        clock = f" ({moment:%H:%M})" if moment else ""
        role = as_label(message.role) or "someone"
        body = sanitize(message.text).strip().replace("\n", "\n  ")
        lines.append(f"{role[0].upper()}{role[1:]}{clock} [{show_key(message.key)}]: {body}")
    title = as_label(messages[0].title) if messages[0].title else ""
    named = f' title="{escape_attribute(title)}"' if title else ""
    mark = ' current="yes"' if thread_id == style.current_thread else ""
    shown_id = escape_attribute(style.show_id(thread_id))
    text = escape("\n".join(lines))
    return f'<{TAG} thread="{shown_id}"{named}{mark}>\n{text}\n</{TAG}>'
