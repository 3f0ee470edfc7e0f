"""A small talk, a shelf of threads, and what recall answers about them within its budget."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.features.recall.answer import recall
from langgraph_om.reading import (
    RecallHit,
    RecallMessage,
    RecallScope,
    RecallThread,
    SearchRequest,
    StateSource,
)
from support.counters import COUNTER

NOON = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)
BUDGET = 2000
PNG = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 8


Entry = tuple[str, BaseMessage, datetime | None]


def entries_of(messages: Sequence[BaseMessage], start: int = 0) -> list[Entry]:
    return [
        (f"m{start + at}", message, NOON + timedelta(minutes=at))
        for at, message in enumerate(messages)
    ]


class Shelf:
    """Several threads of one user, and a fixed answer to any search."""

    def __init__(self, *threads: StateSource, hits: Sequence[RecallHit] = ()) -> None:
        self.own = {thread.thread_id: thread for thread in threads}
        self.hits = list(hits)

    def thread(self, thread_id: str) -> RecallThread | None:
        return self.own[thread_id].thread(thread_id) if thread_id in self.own else None

    def threads(
        self, *, page: int, limit: int, before: datetime | None, after: datetime | None
    ) -> tuple[list[RecallThread], bool]:
        found = [
            thread
            for own in self.own.values()
            for thread in own.threads(page=0, limit=1, before=before, after=after)[0]
        ]
        return found[page * limit :][:limit], len(found) > (page + 1) * limit

    def find(self, key: str, thread_id: str | None) -> RecallMessage | None:
        found = (own.find(key, thread_id) for own in self.own.values())
        return next((message for message in found if message), None)

    def messages(self, thread_id: str, **span: Any) -> list[RecallMessage]:
        return self.own[thread_id].messages(thread_id, **span) if thread_id in self.own else []

    def search(self, asked: SearchRequest) -> list[RecallHit]:
        return self.hits if asked.query else []


def scope_of(
    scope: Literal["thread", "resource"] = "thread", thread: str = "t1", **options: Any
) -> RecallScope:
    given: dict[str, Any] = {"timezone": UTC, **options}
    return RecallScope(scope=scope, current_thread=thread, **given)


def ask(
    messages: Sequence[BaseMessage], *, counter: TokenCounter = COUNTER, **arguments: Any
) -> dict[str, Any]:
    source = StateSource("t1", entries_of(messages))
    return within_budget(recall(arguments, source, scope_of(), counter), counter)


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

WHOLE = """\
**user Ana (2026-03-15 12:01)** [m1]:
  [p0] Weather in Oslo and Bergen?

**assistant (2026-03-15 12:02)** [m2]:
  [p0] Wait.
  [p1] tool call weather [c1] (arguments: part_index 1)
  [p2] tool call weather [c2] (arguments: part_index 2)

**tool (2026-03-15 12:03)** [m3]:
  [p0] tool result weather [c1]: 4 degrees

**tool (2026-03-15 12:04)** [m4]:
  [p0] tool error weather [c2]: no such city

**assistant (2026-03-15 12:06)** [m6]:
  [p0] (reasoning) Hm.
  [p1] 4 in Oslo.

**user (2026-03-15 12:07)** [m7]:
  [p0] And here?
      **user** [m9]:
  [p1] [Image #1: image/png]
  [p2] [File #1: a.pdf]

**assistant (2026-03-15 12:08)** [m8]:
  [p0] A beach."""


# --- Threads -------------------------------------------------------------------------------------


def shelf(hits: Sequence[RecallHit] = ()) -> Shelf:
    other = [("x0", HumanMessage("Elsewhere"), NOON - timedelta(days=14)), ("m1", TALK[1], NOON)]
    return Shelf(
        StateSource("t1", entries_of(TALK), "Weather"), StateSource("t2", other), hits=hits
    )


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
