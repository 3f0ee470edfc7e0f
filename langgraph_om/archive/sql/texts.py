"""What is searched: a row for each piece of a message or of a group, with its words.

The words begin with marks, which say whose the text is and who said it, so that the index itself
looks at nothing else. They are digests: who asks for one resource meets no other's, and what is
shown is checked against the tables once more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage
from sqlalchemy import ColumnElement, Connection, bindparam, func, update

from langgraph_om.archive.sql.database import Change, insert_into
from langgraph_om.archive.sql.index import MARK
from langgraph_om.archive.sql.schema import text_rows
from langgraph_om.core.content.parts import parts_of, role_of
from langgraph_om.core.search import (
    Kind,
    name_calls,
    read_parts,
    read_role,
    split_pieces,
    split_words,
    tools_in,
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored."""

    message: BaseMessage
    body: str
    digest: str
    """Of the body."""
    is_visible: bool
    written: datetime | None


def mark_thread(thread_id: str) -> str:
    """Return the mark of all texts of a thread."""
    return _mark("t", thread_id)


def mark_resource(resource_id: str) -> str:
    """Return the mark of all texts of a resource."""
    return _mark("r", resource_id)


def mark_role(role: str) -> str:
    """Return the mark of all messages of a role."""
    return _mark("s", read_role(role))


def mark_tool(name: str) -> str:
    """Return the mark of all calls of a tool and of its results."""
    return _mark("x", name)


def _mark(kind: str, name: str) -> str:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{MARK}{kind}{digest}"


def index_messages(
    connection: Connection,
    thread_id: str,
    resource_id: str | None,
    entries: Mapping[str, StoredMessage],
) -> None:
    """Make messages of a thread searchable; one of another content is so beside the former one."""
    _put_rows(connection, build_texts(thread_id, resource_id, entries))


def build_texts(
    thread_id: str, resource_id: str | None, entries: Mapping[str, StoredMessage]
) -> list[dict[str, Any]]:
    """Return the rows by which messages of a thread are searched."""
    calls = name_calls(entry.message for entry in entries.values())
    rows: list[dict[str, Any]] = []
    for key, entry in entries.items():
        if not entry.is_visible:
            continue
        role, marks = role_of(entry.message), _scope(thread_id, resource_id)
        marks += [] if role is None else [mark_role(role)]
        parts = [*parts_of(entry.message)]
        marks += sorted(map(mark_tool, tools_in(parts, calls)))
        text = read_parts(parts)
        rows += _build_rows(
            (thread_id, "message", key), entry.written, marks, text, digest=entry.digest
        )
    return rows


def index_groups(
    connection: Connection,
    thread_id: str,
    resource_id: str | None,
    groups: Sequence[tuple[str, datetime, Mapping[str, Any]]],
) -> None:
    """Make groups of observations searchable.

    Args:
        groups: Per group its id, when it was observed, and the group.
    """
    rows: list[dict[str, Any]] = []
    for group_id, observed, group in groups:
        text, marks = group.get("text"), _scope(thread_id, resource_id)
        if isinstance(text, str):
            rows += _build_rows((thread_id, "observations", group_id), observed, marks, text)
    _put_rows(connection, rows)


def date_texts(connection: Connection, thread_id: str, times: Mapping[str, datetime]) -> None:
    """Give the texts of messages the times that they lacked."""
    for key, at in times.items():
        is_it = (
            text_rows.c.thread_id == thread_id,
            text_rows.c.kind == "message",
            text_rows.c.key == key,
        )
        connection.execute(update(text_rows).where(*is_it).values(at=at))


def give_to_resource(
    connection: Connection, thread_id: str, resource_id: str, *, former: str | None = None
) -> None:
    """Mark the texts of a thread as those of a resource, which were another's, or nobody's."""
    new = mark_resource(resource_id)
    words: ColumnElement[str] = new + " " + text_rows.c.words
    if former is not None:
        words = func.replace(text_rows.c.words, mark_resource(former), new)
    is_it = text_rows.c.thread_id == thread_id
    connection.execute(update(text_rows).where(is_it).values(words=words))


# --- Rows ----------------------------------------------------------------------------------------


def _scope(thread_id: str, resource_id: str | None) -> list[str]:
    return [mark_thread(thread_id)] + ([mark_resource(resource_id)] if resource_id else [])


def _build_rows(
    place: tuple[str, Kind, str],
    at: datetime | None,
    marks: Sequence[str],
    text: str,
    *,
    digest: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of a text; one without words has one too, as what is there is done."""
    thread_id, kind, key = place
    return [
        {
            "thread_id": thread_id,
            "kind": kind,
            "key": key,
            "digest": digest,
            "piece": number,
            "at": at,
            "words": " ".join([*marks, *split_words(piece)]),
        }
        for number, piece in enumerate(split_pieces(text) or [""])
    ]


def _put_rows(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Keep rows, in the place of those that a message left which came back after it was lost."""
    _build_put(connection).run(connection, rows)


_PUTS: Final[dict[str, Change]] = {}
"""Per dialect, the statement that keeps rows."""


def _build_put(connection: Connection) -> Change:
    dialect = connection.dialect.name
    if dialect not in _PUTS:
        new = insert_into(connection, text_rows)
        place, rest = ("thread_id", "kind", "key", "digest", "piece"), ("at", "words")
        anew = {name: new.excluded[name] for name in rest}
        columns: dict[str, Any] = {name: bindparam(name) for name in (*place, *rest)}
        kept = new.values(columns).on_conflict_do_update(index_elements=place, set_=anew)
        # The id is not asked for.
        _PUTS[dialect] = Change(kept.inline())
    return _PUTS[dialect]
