"""Conversations and what is remembered of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from support.inside import Entry, MemoryRecord, Window, blank_record, open_window
from support.words import Words


def look(record: MemoryRecord, messages: Sequence[BaseMessage]) -> Window:
    return open_window(record, messages, Words())


def keys(window: Window) -> list[str]:
    return [entry.key for entry in window.entries]


# --- Where it may be cut -------------------------------------------------------------------------


def entries(messages: Sequence[BaseMessage]) -> tuple[Entry, ...]:
    return look(blank_record(), messages).entries


H, A = HumanMessage("hi"), AIMessage("hello")


# --- When a message was written ------------------------------------------------------------------


def human(key: str | None = None, **fields: Any) -> HumanMessage:
    return HumanMessage("hi", id=key, **fields)
