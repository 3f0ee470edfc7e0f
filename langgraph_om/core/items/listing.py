"""List the items of a log, each with an id by which a person can name it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.items.lines import Head, Span, cut_spans, find_spans, read_head
from langgraph_om.core.wire import Chunk, Group

_ID_LENGTH: Final = 8

ID_FORM: Final = re.compile(r"#?(?P<id>[0-9a-f]{8}(?:-\d{1,4})?)")
"""How an item is named by its id, such as `3f9a2c1e`, or `#3f9a2c1e` as it is shown."""


@dataclass(frozen=True, slots=True)
class LogItem:
    """One item of the log."""

    id: str
    """Of its day and its lines, so that it stays the same until these change."""
    group: Group
    span: Span
    """Where it stands in the group's text."""
    text: str
    """Its lines, as they stand in the log."""
    chunk: str | None = None
    """Id of the chunk that holds it; `None` when it is in the log."""

    @property
    def head(self) -> Head:
        """What opens its first line."""
        return read_head(self.text)

    @property
    def words(self) -> str:
        """Its lines without bullet, mark and time."""
        return self.text[self.head.end :]

    @property
    def day(self) -> date | None:
        """The day of its heading."""
        return observation_date(self.span.heading)


def list_items(groups: Iterable[Group], chunks: Sequence[Chunk] = ()) -> list[LogItem]:
    """Return all items of a log, and of what is buffered for it, in order.

    Args:
        groups: The log.
        chunks: What was observed ahead of need.
    """
    places = [(group, None) for group in groups]
    held = [(group, chunk["id"]) for chunk in chunks for group in chunk["groups"]]
    seen: Counter[str] = Counter()
    items: list[LogItem] = []
    for group, chunk in [*places, *held]:
        spans = find_spans(group["text"])
        for span, text in zip(spans, cut_spans(group["text"], spans), strict=True):
            key = derive_id("item", group["thread_id"], span.heading.strip(), text)
            key = re.sub(r"[^0-9a-f]", "", key.rpartition("-")[2])[:_ID_LENGTH]
            seen[key] += 1
            name = key if seen[key] == 1 else f"{key}-{seen[key]}"
            items.append(LogItem(name, group, span, text, chunk))
    return items
