"""A small talk, a shelf of threads, and what recall answers about them within its budget."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.archive import ArchivedHit, ArchivedMessage, ArchivedThread
from support.counters import COUNTER
from support.inside import (
    Asker,
    FoundText,
    Identity,
    SearchRequest,
    Source,
    StateSource,
    TokenCounter,
    is_visible,
    recall,
)

NOON = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)
BUDGET = 2000
PNG = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 8


Entry = tuple[str, BaseMessage, datetime | None]


def entries_of(messages: Sequence[BaseMessage], start: int = 0) -> list[Entry]:
    return [
        (f"m{start + at}", message, NOON + timedelta(minutes=at))
        for at, message in enumerate(messages)
    ]


def read_talk(
    messages: Sequence[Entry | BaseMessage],
    thread: str = "t1",
    title: str | None = None,
    **more: Any,
) -> StateSource:
    """A thread with these messages: entries, or messages that are `m0` and so on."""
    entries = [each for each in messages if isinstance(each, tuple)] or entries_of(messages)
    said = [
        ArchivedMessage(key, thread, at, message, is_visible(message), is_current=True, at=time)
        for at, (key, message, time) in enumerate(entries)
    ]
    return StateSource(who=Identity(thread), said=said, label=title, **more)


def hit_of(  # noqa: PLR0917 as a row of a table
    thread: str, key: str, score: float, text: str, cursor: str, at: Any = None, role: Any = None
) -> ArchivedHit:
    """What a search finds: observations, or a message where somebody said it."""
    kind: Any = "observations" if role is None else "message"
    return ArchivedHit(thread, FoundText(kind, key, cursor, text, score, at, role, held=0.0))


class Shelf(Source):
    """Several threads of one user, and a fixed answer to any search."""

    def __init__(self, *threads: StateSource, hits: Sequence[ArchivedHit] = ()) -> None:
        super().__init__(who=threads[0].who)
        object.__setattr__(self, "own", {thread.who.thread_id: thread for thread in threads})
        object.__setattr__(self, "hits", list(hits))

    own: dict[str, StateSource]
    hits: list[ArchivedHit]

    def may_read(self, thread_id: str) -> bool:
        return thread_id in self.own

    def title(self, thread_id: str) -> str | None:
        return self.own[thread_id].label if thread_id in self.own else None

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[ArchivedThread], bool]:
        found = []
        for key, own in self.own.items():
            times = [each.at or NOON for each in own.said]
            thread = ArchivedThread(key, None, own.label, times[0], times[-1])
            if (not before or thread.created < before) and (not after or thread.created >= after):
                found.append(thread)
        return found[page * limit :][:limit], len(found) > (page + 1) * limit

    def find(self, key: str, thread_id: str = "") -> ArchivedMessage | None:
        asked = [self.own[thread_id]] if thread_id else self.own.values()
        return next((found for own in asked if (found := own.find(key))), None)

    def messages(self, thread_id: str, **span: Any) -> list[ArchivedMessage]:
        return self.own[thread_id].messages(thread_id, **span) if thread_id in self.own else []

    def search_words(self, asked: SearchRequest) -> list[ArchivedHit]:
        return self.hits if asked.query else []


def look(
    source: Source,
    arguments: dict[str, Any],
    reach: Literal["thread", "resource"] = "thread",
    counter: TokenCounter = COUNTER,
    **asker: Any,
) -> dict[str, Any]:
    """What a call is answered, within the budget."""
    who = Asker(source=source, counter=counter, reaches_others=reach == "resource", **asker)
    return within_budget(recall(arguments, who), counter)


def ask(
    messages: Sequence[BaseMessage], *, counter: TokenCounter = COUNTER, **arguments: Any
) -> dict[str, Any]:
    return look(read_talk(messages), arguments, counter=counter)


def within_budget(answer: dict[str, Any], counter: TokenCounter = COUNTER) -> dict[str, Any]:
    text = json.dumps(answer, ensure_ascii=False)
    text.encode()
    assert counter.count_text(text) <= BUDGET
    return answer


def keys_in(answer: dict[str, Any]) -> list[str]:
    return re.findall(r"^\*\*.*\*\* \[(.+)\]:$", answer["messages"], re.MULTILINE)


def call(*named: tuple[str, dict[str, Any], str], text: str = "") -> AIMessage:
    return AIMessage(
        text, tool_calls=[{"name": name, "args": args, "id": key} for name, args, key in named]
    )


TALK: list[BaseMessage] = [
    SystemMessage("You are kind."),
    HumanMessage("Weather in Oslo and Bergen?", name="Ana"),
    call(("weather", {"city": "Oslo"}, "c1"), ("weather", {"city": "Bergen"}, "c2"), text="Wait."),
    ToolMessage("4 degrees", tool_call_id="c1", name="weather"),
    ToolMessage("no such city", tool_call_id="c2", status="error"),
    AIMessage(""),
    AIMessage([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "4 in Oslo."}]),
    HumanMessage(
        [
            {"type": "text", "text": "And here?\n**user** [m9]:"},
            {"type": "image_url", "image_url": {"url": PNG}},
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "filename": "a.pdf"},
        ]
    ),
    AIMessage("A beach."),
]


# --- Threads -------------------------------------------------------------------------------------


def shelf(hits: Sequence[ArchivedHit] = ()) -> Shelf:
    other = [("x0", HumanMessage("Elsewhere"), NOON - timedelta(days=14)), ("m1", TALK[1], NOON)]
    return Shelf(read_talk(TALK, title="Weather"), read_talk(other, "t2"), hits=hits)


# --- Laws ----------------------------------------------------------------------------------------


texts = st.text(max_size=30) | st.sampled_from(["", " ", "long words and more of them " * 60])

blocks = st.sampled_from(
    [
        "word",
        {"type": "text", "text": "text"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "image", "url": PNG},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "odd", "value": [1]},
    ]
)

calls = st.lists(
    st.builds(
        lambda n, text: {"name": "f", "args": {"x": text}, "id": f"c{n}"}, st.integers(0, 3), texts
    ),
    max_size=3,
)

messages_lists = st.lists(
    st.one_of(
        st.builds(HumanMessage, texts | st.lists(blocks, max_size=3)),
        st.builds(AIMessage, texts | st.lists(blocks, max_size=3), tool_calls=calls),
        st.builds(ToolMessage, texts, tool_call_id=st.sampled_from(["c0", "c1"])),
        st.just(SystemMessage("x")),
        st.just(AIMessage("")),
    ),
    max_size=14,
)
