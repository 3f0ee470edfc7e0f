"""What is put into a store to be searched by meaning, and under which names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, PutOp

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import (
    Keyed,
    derive_id,
    find_parent_thread,
    keyed_conversation,
)
from langgraph_om.core.content.parts import is_visible, part_text, parts_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.search.excerpt import RECALL
from langgraph_om.core.search.matching import Kind
from langgraph_om.core.step.archiving.deletion import drop_deleted, drop_deleted_groups
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.recall.source import RecallHit, RecallThread

ROOT: Final = "langgraph_om"
NOBODY: Final = "-"
"""Stands for the resource of threads that belong to none."""
ANY: Final = "*"
"""Stands for any resource, where stores list namespaces."""
WITHIN: Final = "in-"
"""Begins the label of threads that run within another one, before that one's."""

MIN_CHARACTERS: Final = 20
"""Shorter messages are not indexed: they say too little."""
PIECE_CHARACTERS: Final = 4000
MAX_PIECES: Final = 16
"""Of a longer text only the first pieces are indexed."""

FOUND_KINDS: Final = frozenset({"text", "tool-result", "tool-error"})

Namespace = tuple[str, ...]


class Said(NamedTuple):
    """A message to index."""

    key: str
    message: BaseMessage
    at: datetime | None
    """When it was said, where that is known."""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Groups and messages of one thread to put into a store."""

    store: BaseStore
    who: Identity
    groups: Sequence[Group]
    messages: Sequence[Said]


class Piece(NamedTuple):
    """A piece of a text to put into a store."""

    put: PutOp
    further: Sequence[str]
    """Keys of the pieces behind it, as far as a longer text had them; only of the last piece."""


def build_namespace(who: Identity) -> Namespace:
    """Return the namespace of a thread's items.

    Ids are hashed: a store allows neither dots nor empty labels in a namespace, and some compare
    prefixes by characters, where one id may begin like another.
    """
    resource = _hash_id(who.resource_id) if who.resource_id else NOBODY
    parent = find_parent_thread(who.thread_id)
    own = _hash_id(who.thread_id)
    return (ROOT, resource, own) if parent is None else (ROOT, resource, _within(parent), own)


def list_prefixes(thread_id: str, resource_id: str | None) -> list[Namespace]:
    """Return what the namespaces of a thread, and of what runs within it, begin with.

    Args:
        thread_id: The thread.
        resource_id: Whose it is; `None` where nobody knows: anybody's.
    """
    # It may have begun before it was known whose it is.
    resources = [ANY] if resource_id is None else [_hash_id(resource_id), NOBODY]
    labels = (_hash_id(thread_id), _within(thread_id))
    return [(ROOT, resource, label) for resource in resources for label in labels]


def build_resource_prefix(resource_id: str) -> Namespace:
    """Return what the namespaces of all threads of a resource begin with."""
    return build_namespace(Identity("", resource_id))[:2]


def is_within(namespace: Namespace, prefix: Namespace) -> bool:
    """Return whether a namespace begins like a prefix, whose `ANY` stands for anything."""
    return len(namespace) >= len(prefix) and all(
        wanted in {ANY, label} for wanted, label in zip(prefix, namespace, strict=False)
    )


def _within(thread_id: str) -> str:
    return f"{WITHIN}{_hash_id(thread_id)}"


def _hash_id(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --- What is indexed -----------------------------------------------------------------------------


def list_groups(record: MemoryRecord) -> list[Group]:
    """Return the observations of a thread's log, and those that are buffered for it."""
    buffered = [group for chunk in record["chunks"] for group in chunk["groups"]]
    groups = drop_deleted_groups(record, [*record["log"], *buffered])
    return [group for group in groups if group["text"]]


def list_messages(
    record: MemoryRecord, messages: Sequence[BaseMessage], *, archives: bool
) -> Keyed:
    """Return the messages of a thread that users may see, up to the last one that is archived.

    Args:
        record: The memory of the thread.
        messages: Its conversation.
        archives: Whether messages are archived.
    """
    entries = drop_deleted(record, keyed_conversation(messages))
    if archives:
        last = record["archived"]
        ends = [at for at, (key, _) in enumerate(entries) if key == last]
        entries = entries[: ends[-1] + 1] if ends else []
    return [entry for entry in entries if is_visible(entry[1])]


def find_thread(group: Group, record: MemoryRecord) -> str:
    """Return the thread that a group is about; with a shared log it may be another one."""
    is_shared = record["scope"] == "resource"
    return (group["thread_id"] if is_shared else None) or record["thread_id"]


def list_searched(record: MemoryRecord) -> dict[str, set[str]]:
    """Return the ids of a record's observations, by the thread that they are about."""
    found: dict[str, set[str]] = {record["thread_id"]: set()}
    for group in list_groups(record):
        found.setdefault(find_thread(group, record), set()).add(group["id"])
    return found


def build_group_namespace(group: Group, record: MemoryRecord, who: Identity) -> Namespace:
    """Return the namespace of the thread that a group is about."""
    return build_namespace(replace(who, thread_id=find_thread(group, record)))


def build_pieces(task: IndexTask) -> Iterator[Piece]:
    """Yield the pieces of groups and of messages."""
    place, about = build_namespace(task.who), {"thread_id": task.who.thread_id}
    for group in task.groups:
        cursor = group["ranges"][0][0] if group["ranges"] else ""
        facts = {"group_id": group["id"], "updated": group["observed_at"], "cursor": cursor}
        yield from _split_pieces((*place, "groups"), group["id"], group["text"], about | facts)
    for key, message, at in task.messages:
        text = _read_text(message)
        if len(text) >= MIN_CHARACTERS:
            facts = {"group_id": "", "updated": at.isoformat() if at else "", "cursor": key}
            yield from _split_pieces((*place, "messages"), key, text, about | facts)


def _split_pieces(
    namespace: Namespace, name: str, text: str, about: dict[str, str]
) -> Iterator[Piece]:
    """Yield the pieces of a text, small enough for an embedding model."""
    text = sanitize(text[: MAX_PIECES * PIECE_CHARACTERS]).strip()
    facts = {key: sanitize(fact) for key, fact in about.items()}
    keys = [derive_id("text", name, number) for number in range(MAX_PIECES)]
    count = -(-len(text) // PIECE_CHARACTERS)
    for number, key in enumerate(keys[:count]):
        start = number * PIECE_CHARACTERS
        piece = text[start : start + PIECE_CHARACTERS]
        value = {"text": piece, "pieces": count, **facts}
        further = keys[count:] if number == count - 1 else ()
        yield Piece(PutOp(namespace, key, value, index=["text"]), further)


def is_said(text: str, message: BaseMessage) -> bool:
    """Return whether a text that was indexed is of a message as it is now."""
    return text in sanitize(_read_text(message))


def _read_text(message: BaseMessage) -> str:
    """Return the texts and tool results of a message, without attachments, reasoning or calls.

    What `recall` has answered is left out, which would be found in the place of what it repeats.
    """
    parts = (part for part in parts_of(message) if part.kind in FOUND_KINDS)
    is_recall = ((part, part.kind != "text" and part.name == RECALL) for part in parts)
    return "\n".join(part_text(part) for part, is_its in is_recall if not is_its)


# --- What is found -------------------------------------------------------------------------------


def build_hit(value: dict[str, Any], score: float, kind: Kind) -> RecallHit | None:
    """Return the hit of an item; `None` when the item is not one of ours."""
    try:
        return RecallHit(
            thread=RecallThread(value["thread_id"]),
            group_id=value["group_id"],
            score=float(score),
            text=value["text"],
            cursor=value["cursor"],
            updated=datetime.fromisoformat(value["updated"]) if value["updated"] else None,
            kind=kind,
        )
    except (KeyError, TypeError, ValueError):
        return None
