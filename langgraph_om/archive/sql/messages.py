"""Messages: what a thread is given, and what is read of it by page, by key and by branch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, select

from langgraph_om.archive.protocol import ArchivedMessage
from langgraph_om.archive.sql.branches import (
    CURRENT,
    Branch,
    StoredMessage,
    find_branch,
    select_keys,
    select_last,
    select_places,
    store_messages,
)
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.schema import message_rows, thread_rows
from langgraph_om.archive.sql.texts import date_texts, index_messages
from langgraph_om.archive.sql.threads import Row, lock_thread, name_thread, split_into_chunks, touch
from langgraph_om.archive.sql.values import (
    check_count,
    check_name,
    check_time,
    decode_message,
    encode_message,
)
from langgraph_om.errors import ConfigurationError

_SHOWN = (
    message_rows.c.node,
    message_rows.c.key,
    message_rows.c.thread_id,
    message_rows.c.position,
    message_rows.c.body,
    message_rows.c.is_visible,
    message_rows.c.is_current,
    message_rows.c.written,
)


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
        times: Mapping[str, datetime] | None = None,
        parent: str | None = None,
        branch: str | None = None,
    ) -> str | None:
        """Add messages to a thread, and the thread if it is new; return their branch's name."""
        check_time("now", now)
        entries = _encode_entries(messages, times or {})
        if after in entries:
            msg = f"`after` is {after!r}, one of the messages; pass the key before the first one"
            raise ConfigurationError(msg)
        with self._database.write("append messages") as connection:
            thread = lock_thread(connection, thread_id, resource_id, now, parent=parent)
            is_new = False
            if entries:
                owner = thread.resource_id if resource_id is None else resource_id
                changes = store_messages(connection, thread_id, entries, after, branch)
                new = {key: entry for key, entry in entries.items() if key in changes.new}
                index_messages(connection, thread_id, owner, new)
                date_texts(connection, thread_id, changes.dated)
                is_new, branch = bool(new), changes.branch
            if title is not None and title != thread.title:
                name_thread(connection, thread, now, title)
            elif is_new:
                touch(connection, thread, now)
        return branch

    def find(
        self,
        key: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        branch: str | None = None,
    ) -> ArchivedMessage | None:
        """Return the message of this key in a thread or resource, on whatever branch."""
        if thread_id is None and resource_id is None:
            msg = "`thread_id` and `resource_id` are None; pass at least one of them"
            raise ConfigurationError(msg)
        place = message_rows.c
        query = (
            select(*_SHOWN)
            .join(thread_rows, thread_rows.c.id == place.thread_id)
            .where(place.key == key)
            .order_by(thread_rows.c.updated.desc(), thread_rows.c.id)
            .order_by(place.is_current.desc(), place.position.desc(), place.node.desc())
            .limit(1)
        )
        if thread_id is not None:
            query = query.where(place.thread_id == thread_id)
        if resource_id is not None:
            # As an expression, so that the rows of the key are tried, not all threads there are.
            query = query.where(thread_rows.c.resource_id.concat("") == resource_id)
        with self._database.read("find a message") as connection:
            if thread_id is None or branch is None:
                row = connection.execute(query).one_or_none()
                return None if row is None else _read_message(row)
            path = find_branch(connection, thread_id, branch)
            found = path.choose(select_places(connection, thread_id, [key])[key])
            if found is None:
                return None
            row = connection.execute(query.where(place.node == found.node)).one_or_none()
        return None if row is None else _read_message(row, path)

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
        branch: str | None = None,
    ) -> list[ArchivedMessage]:
        """Return messages of a branch, always in the order of the conversation."""
        check_count("limit", limit)
        check_count("offset", offset)
        position = message_rows.c.position
        query = (
            select(*_SHOWN)
            .where(message_rows.c.thread_id == thread_id, message_rows.c.is_current)
            .order_by(position.desc() if newest_first else position)
        )
        if visible_only:
            query = query.where(message_rows.c.is_visible)
        if start is not None:
            query = query.where(position >= start)
        with self._database.read("read messages") as connection:
            path = find_branch(connection, thread_id, branch)
            off = [
                row for row in path.list_off(start or 0, stop) if row.is_visible or not visible_only
            ]
            if path is not CURRENT:
                stop = path.last + 1 if stop is None else min(stop, path.last + 1)
            if stop is not None:
                query = query.where(position < stop)
            if not off:
                rows = list(connection.execute(query.limit(limit).offset(offset)))
            else:
                rows = list(connection.execute(query.limit(offset + limit)))
                rows = [*off[::-1], *rows] if newest_first else [*rows, *off]
                rows = _read_contents(connection, thread_id, rows[offset : offset + limit])
        return [_read_message(row, path) for row in (reversed(rows) if newest_first else rows)]

    def last_position(self, thread_id: str) -> int | None:
        """Return the position of the last message of the current branch."""
        with self._database.read("read a thread's length") as connection:
            last = select_last(connection, thread_id)
        return None if last is None else last.position

    def contains(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Return which of these messages are safely kept, on whatever branch."""
        with self._database.read("look for messages") as connection:
            return {row.key for row in select_keys(connection, thread_id, keys)}

    def branch(
        self, thread_id: str, keys: Sequence[str], *, branch: str | None = None
    ) -> list[BaseMessage]:
        """Return messages in the order of their keys; those that are not there are left out."""
        with self._database.read("read messages") as connection:
            path = find_branch(connection, thread_id, branch)
            places = select_places(connection, thread_id, keys)
            chosen = [row for key in keys if (row := path.choose(places.get(key, ()))) is not None]
            rows = _read_contents(connection, thread_id, chosen)
        return [decode_message(row.key, row.body) for row in rows]


def _read_contents(connection: Connection, thread_id: str, places: Sequence[Row]) -> list[Row]:
    """Read what stands at places of a thread, in their order."""
    found: dict[str, Row] = {}
    for nodes in split_into_chunks([row.node for row in places]):
        is_one = (message_rows.c.thread_id == thread_id, message_rows.c.node.in_(nodes))
        found |= {row.node: row for row in connection.execute(select(*_SHOWN).where(*is_one))}
    return [found[row.node] for row in places]


def _encode_entries(
    messages: Sequence[tuple[str, BaseMessage, bool]], times: Mapping[str, datetime]
) -> dict[str, StoredMessage]:
    """Write messages as they are stored, by key; of a key that comes twice, the last content."""
    entries: dict[str, StoredMessage] = {}
    for key, message, is_visible in messages:
        check_name("key", key)
        body = encode_message(key, message)
        digest = hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
        check_time("times", times.get(key))
        entries[key] = StoredMessage(message, body, digest, is_visible, times.get(key))
    return entries


def _read_message(row: Row, path: Branch = CURRENT) -> ArchivedMessage:
    at = path.find(row)
    return ArchivedMessage(
        key=row.key,
        thread_id=row.thread_id,
        position=row.position if at is None else at,
        message=decode_message(row.key, row.body),
        is_visible=row.is_visible,
        is_current=at is not None,
        at=row.written,
    )
