"""Messages and their places: a conversation is a tree, and the current branch a path through it.

Rules of this file:

1. The positions on the current branch are 0, 1, 2, ... with one message each.
2. A message that leaves the current branch keeps its row, and the key of the message before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, insert, literal, select, update

from langgraph_om.archive.protocol import ArchivedMessage
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.schema import message_rows, thread_rows
from langgraph_om.archive.sql.threads import chunks, own_thread, touch
from langgraph_om.archive.sql.values import (
    check_count,
    check_name,
    check_time,
    decode_message,
    encode_message,
)
from langgraph_om.errors import ConfigurationError

_Row: TypeAlias = Any
"""A row of some columns, whose type differs between versions of SQLAlchemy."""

_PLACE = (
    message_rows.c.key,
    message_rows.c.parent,
    message_rows.c.position,
    message_rows.c.is_current,
)
_IN_TREE = (*_PLACE, message_rows.c.is_visible, message_rows.c.digest)
_SHOWN = (
    message_rows.c.key,
    message_rows.c.thread_id,
    message_rows.c.position,
    message_rows.c.body,
    message_rows.c.is_visible,
    message_rows.c.is_current,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message as it is stored."""

    body: str
    digest: str
    is_visible: bool


class SQLMessages:
    """The messages of an archive in SQL."""

    _database: Database

    def append(
        self,
        thread_id: str,
        resource_id: str | None,
        messages: Sequence[tuple[str, BaseMessage, bool]],
        *,
        after: str | None,
        now: datetime,
        title: str | None = None,
    ) -> None:
        """Add messages to a thread, and the thread if it is new."""
        check_time("now", now)
        entries = _entries(messages)
        if after in entries:
            msg = f"`after` is {after!r}, one of the messages; write the key before the first one"
            raise ConfigurationError(msg)
        with self._database.write("append messages") as connection:
            former_title = own_thread(connection, thread_id, resource_id, now)
            is_new = _store(connection, thread_id, entries, after) if entries else False
            if title is not None and title != former_title:
                touch(connection, thread_id, now, title=title)
            elif is_new:
                touch(connection, thread_id, now)

    def find(
        self, key: str, *, thread_id: str | None = None, resource_id: str | None = None
    ) -> ArchivedMessage | None:
        """Return the message of this key in a thread or resource, on whatever branch."""
        if thread_id is None and resource_id is None:
            msg = "`thread_id` and `resource_id` are None; write at least one of them"
            raise ConfigurationError(msg)
        query = (
            select(*_SHOWN)
            .join(thread_rows, thread_rows.c.id == message_rows.c.thread_id)
            .where(message_rows.c.key == key)
            .order_by(thread_rows.c.updated.desc(), thread_rows.c.id)
            .limit(1)
        )
        if thread_id is not None:
            query = query.where(message_rows.c.thread_id == thread_id)
        if resource_id is not None:
            # As an expression, so that the rows of the key are tried, not all threads there are.
            query = query.where(thread_rows.c.resource_id.concat("") == resource_id)
        with self._database.read("find a message") as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _message(row)

    def messages(
        self,
        thread_id: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        limit: int,
        newest_first: bool = False,
        offset: int = 0,
        visible_only: bool = True,
    ) -> list[ArchivedMessage]:
        """Return messages of the current branch, always in the order of the conversation."""
        check_count("limit", limit)
        check_count("offset", offset)
        position = message_rows.c.position
        query = (
            select(*_SHOWN)
            .where(message_rows.c.thread_id == thread_id, message_rows.c.is_current)
            .order_by(position.desc() if newest_first else position)
            .limit(limit)
            .offset(offset)
        )
        if visible_only:
            query = query.where(message_rows.c.is_visible)
        if start is not None:
            query = query.where(position >= start)
        if stop is not None:
            query = query.where(position < stop)
        with self._database.read("read messages") as connection:
            rows = list(connection.execute(query))
        return [_message(row) for row in (reversed(rows) if newest_first else rows)]

    def last_position(self, thread_id: str) -> int | None:
        """Return the position of the last message of the current branch."""
        with self._database.read("read a thread's length") as connection:
            last = _last(connection, thread_id)
        return None if last is None else last.position

    def contains(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Tell which of these messages are safely kept, on whatever branch."""
        with self._database.read("look for messages") as connection:
            return {row.key for row in _rows(connection, thread_id, keys, message_rows.c.key)}

    def branch(self, thread_id: str, keys: Sequence[str]) -> list[BaseMessage]:
        """Return messages in the order of their keys; those that are not there are left out."""
        columns = (message_rows.c.key, message_rows.c.body)
        with self._database.read("read messages") as connection:
            bodies = {row.key: row.body for row in _rows(connection, thread_id, keys, *columns)}
        return [decode_message(key, bodies[key]) for key in keys if key in bodies]


def _entries(messages: Sequence[tuple[str, BaseMessage, bool]]) -> dict[str, _Entry]:
    """Write messages as they are stored, by key; of a key that comes twice, the last content."""
    entries: dict[str, _Entry] = {}
    for key, message, is_visible in messages:
        check_name("key", key)
        body = encode_message(key, message)
        digest = hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
        entries[key] = _Entry(body, digest, is_visible)
    return entries


def _message(row: _Row) -> ArchivedMessage:
    return ArchivedMessage(
        key=row.key,
        thread_id=row.thread_id,
        position=row.position,
        message=decode_message(row.key, row.body),
        is_visible=row.is_visible,
        is_current=row.is_current,
    )


def _rows(connection: Connection, thread_id: str, keys: Iterable[str], *columns: Any) -> list[_Row]:
    rows: list[_Row] = []
    for some in chunks(list(dict.fromkeys(keys))):
        where = (message_rows.c.thread_id == thread_id, message_rows.c.key.in_(some))
        rows += connection.execute(select(*columns).where(*where))
    return rows


def _last(connection: Connection, thread_id: str) -> _Row | None:
    return connection.execute(
        select(*_PLACE)
        .where(message_rows.c.thread_id == thread_id, message_rows.c.is_current)
        .order_by(message_rows.c.position.desc())
        .limit(1)
    ).one_or_none()


# --- Appending -----------------------------------------------------------------------------------


def _store(
    connection: Connection, thread_id: str, entries: Mapping[str, _Entry], after: str | None
) -> bool:
    """Put messages in their places, and tell whether any is new or has new content."""
    wanted = [*entries] if after is None else [after, *entries]
    known = {row.key: row for row in _rows(connection, thread_id, wanted, *_IN_TREE)}
    changed = [
        key
        for key, entry in entries.items()
        if key in known
        and (known[key].digest, known[key].is_visible) != (entry.digest, entry.is_visible)
    ]
    _replace_contents(connection, thread_id, {key: entries[key] for key in changed})
    new = {key for key in entries if key not in known}
    path, base, parent = _path(connection, thread_id, [*entries], after, known)
    if path:
        _leave(connection, thread_id, base)
        places = {
            key: {"position": base + i, "parent": path[i - 1] if i else parent}
            for i, key in enumerate(path)
        }
        _insert(connection, thread_id, {k: p for k, p in places.items() if k in new}, entries)
        _move(connection, thread_id, {k: p for k, p in places.items() if k not in new})
    return bool(new or changed)


def _path(
    connection: Connection,
    thread_id: str,
    keys: list[str],
    after: str | None,
    known: Mapping[str, _Row],
) -> tuple[list[str], int, str | None]:
    """Return what has to be put on the current branch, its first position, and its parent."""
    if after is not None and after not in known:
        after = _stand_in(connection, thread_id, keys[0], known)
    lineage, base, parent = _lineage(connection, thread_id, after)
    given = set(keys)
    path = [key for key in lineage if key not in given] + keys
    while path and _is_at(known.get(path[0]), base):
        parent, base = path.pop(0), base + 1
    moved = {key for key in path if key in known and known[key].is_current}
    if any(known[key].position < base for key in moved):
        before = _branch_before(connection, thread_id, base)
        return [key for key in before if key not in moved] + path, 0, None
    return path, base, parent


def _is_at(row: _Row | None, position: int) -> bool:
    return row is not None and row.is_current and row.position == position


def _stand_in(
    connection: Connection, thread_id: str, first: str, known: Mapping[str, _Row]
) -> str | None:
    """Return what an unknown `after` stands for: what `first` follows already, or the end."""
    if first in known:
        parent: str | None = known[first].parent
        return parent
    last = _last(connection, thread_id)
    return None if last is None else last.key


def _lineage(
    connection: Connection, thread_id: str, after: str | None
) -> tuple[list[str], int, str | None]:
    """Return the ancestors up to `after` that are not current, and where they branch off.

    That is the position behind the newest ancestor that is current, and its key.
    """
    if after is None:
        return [], 0, None
    (row,) = _rows(connection, thread_id, [after], *_PLACE)
    lineage: list[str] = []
    if not row.is_current:
        where = (message_rows.c.thread_id == thread_id, ~message_rows.c.is_current)
        parents = {r.key: r.parent for r in connection.execute(select(*_PLACE).where(*where))}
        key: str | None = after
        while key is not None and key in parents:
            lineage.append(key)
            key = parents.pop(key)
        if key is None:
            return lineage[::-1], 0, None
        (row,) = _rows(connection, thread_id, [key], *_PLACE)
    return lineage[::-1], row.position + 1, row.key


def _branch_before(connection: Connection, thread_id: str, position: int) -> list[str]:
    where = (
        message_rows.c.thread_id == thread_id,
        message_rows.c.is_current,
        message_rows.c.position < position,
    )
    query = select(message_rows.c.key).where(*where).order_by(message_rows.c.position)
    return list(connection.execute(query).scalars())


def _leave(connection: Connection, thread_id: str, base: int) -> None:
    """Take what stands at or behind a position off the current branch."""
    connection.execute(
        update(message_rows)
        .where(
            message_rows.c.thread_id == thread_id,
            message_rows.c.is_current,
            message_rows.c.position >= base,
        )
        .values(is_current=False)
    )


def _insert(
    connection: Connection,
    thread_id: str,
    places: Mapping[str, Mapping[str, Any]],
    entries: Mapping[str, _Entry],
) -> None:
    rows = [
        {
            "thread_id": thread_id,
            "key": key,
            **place,
            "is_current": True,
            "is_visible": entries[key].is_visible,
            "version": 1,
            "digest": entries[key].digest,
            "body": entries[key].body,
        }
        for key, place in places.items()
    ]
    if rows:
        connection.execute(insert(message_rows), rows)


def _known_row(thread_id: str) -> tuple[Any, Any]:
    return message_rows.c.thread_id == thread_id, message_rows.c.key == bindparam("of_key")


def _move(connection: Connection, thread_id: str, places: Mapping[str, Mapping[str, Any]]) -> None:
    """Put known messages on the current branch."""
    rows = [{"of_key": key, **place, "is_current": True} for key, place in places.items()]
    if rows:
        statement = update(message_rows).where(*_known_row(thread_id))
        values: dict[str, Any] = {
            name: bindparam(name) for name in ("position", "parent", "is_current")
        }
        connection.execute(statement.values(values), rows)


def _replace_contents(
    connection: Connection, thread_id: str, changed: Mapping[str, _Entry]
) -> None:
    """Give known messages new contents."""
    if not changed:
        return
    statement = (
        update(message_rows)
        .where(*_known_row(thread_id))
        .values(
            body=bindparam("to_body"),
            digest=bindparam("to_digest"),
            is_visible=bindparam("to_visible"),
            version=message_rows.c.version + literal(1),
        )
    )
    rows = [
        {
            "of_key": key,
            "to_body": entry.body,
            "to_digest": entry.digest,
            "to_visible": entry.is_visible,
        }
        for key, entry in changed.items()
    ]
    connection.execute(statement, rows)
