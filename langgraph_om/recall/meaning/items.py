"""What is put into a store to be searched by meaning, and under which names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, PutOp

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import derive_id, keyed_messages
from langgraph_om.core.content.parts import part_text, parts_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.search.matching import Kind
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.recall.source import RecallHit, RecallThread

ROOT: Final = "langgraph_om"
NOBODY: Final = "-"
"""Stands for the resource of threads that belong to none."""

MIN_CHARACTERS: Final = 20
"""Shorter messages are not indexed: they say too little."""
PIECE_CHARACTERS: Final = 4000
MAX_PIECES: Final = 16
"""Of a longer text only the first pieces are indexed."""

FOUND_KINDS: Final = frozenset({"text", "tool-result", "tool-error"})

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Groups to put into a store, with the messages that they are about."""

    store: BaseStore
    who: Identity
    groups: list[Group]
    messages: list[BaseMessage]


def build_namespace(who: Identity) -> Namespace:
    """Return the namespace of a thread's items.

    Ids are hashed: a store allows neither dots nor empty labels in a namespace, and some compare
    prefixes by characters, where one id may begin like another.
    """
    resource = _hash_id(who.resource_id) if who.resource_id else NOBODY
    return (ROOT, resource, _hash_id(who.thread_id))


def find_thread(group: Group, record: MemoryRecord) -> str:
    """Return the thread that a group is about; with a shared log it may be another one."""
    is_shared = record["scope"] == "resource"
    return (group["thread_id"] if is_shared else None) or record["thread_id"]


def build_group_namespace(group: Group, record: MemoryRecord, who: Identity) -> Namespace:
    """Return the namespace of the thread that a group is about."""
    return build_namespace(replace(who, thread_id=find_thread(group, record)))


def _hash_id(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def build_items(task: IndexTask) -> Iterator[PutOp]:
    """Yield the items of groups, and of the messages that they were written from."""
    place, done = build_namespace(task.who), set[str]()
    entries = keyed_messages(task.messages)
    positions = {key: at for at, (key, _) in enumerate(entries)}
    for group in task.groups:
        about = {
            "group_id": group["id"],
            "updated": group["observed_at"],
            "thread_id": task.who.thread_id,
            "cursor": group["ranges"][0][0] if group["ranges"] else "",
        }
        yield from _split_pieces((*place, "groups"), group["id"], group["text"], about)
        for start, end in group["ranges"]:
            if start not in positions or end not in positions:
                continue  # removed from the conversation since
            for key, message in entries[positions[start] : positions[end] + 1]:
                text = _read_text(message)
                if key not in done and len(text) >= MIN_CHARACTERS:
                    done.add(key)
                    yield from _split_pieces(
                        (*place, "messages"), key, text, about | {"cursor": key}
                    )


def _split_pieces(
    namespace: Namespace, name: str, text: str, about: dict[str, str]
) -> Iterator[PutOp]:
    """Yield an item for each piece of a text, small enough for an embedding model."""
    text = sanitize(text).strip()
    facts = {key: sanitize(fact) for key, fact in about.items()}
    for number in range(min(MAX_PIECES, -(-len(text) // PIECE_CHARACTERS))):
        start = number * PIECE_CHARACTERS
        value = {"text": text[start : start + PIECE_CHARACTERS], **facts}
        yield PutOp(namespace, derive_id("text", name, number), value, index=["text"])


def _read_text(message: BaseMessage) -> str:
    """Return the texts and tool results of a message, without attachments, reasoning or calls."""
    return "\n".join(part_text(part) for part in parts_of(message) if part.kind in FOUND_KINDS)


def build_hit(value: dict[str, Any], score: float, kind: Kind) -> RecallHit | None:
    """Return the hit of an item; `None` when the item is not one of ours."""
    try:
        return RecallHit(
            thread=RecallThread(value["thread_id"]),
            group_id=value["group_id"],
            score=float(score),
            text=value["text"],
            cursor=value["cursor"],
            updated=datetime.fromisoformat(value["updated"]),
            kind=kind,
        )
    except (KeyError, TypeError, ValueError):
        return None
