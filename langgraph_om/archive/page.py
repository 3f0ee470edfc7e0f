"""Reading messages: by page, by key and by branch.

A conversation is a tree, and the current branch a path through it; `append` puts messages there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from langchain_core.messages import BaseMessage, RemoveMessage
from sqlalchemy import Connection, and_, or_, select

from langgraph_om.archive.database import Database, Row, fetch_in_chunks
from langgraph_om.archive.tables import GONE, decode_message, message_rows, thread_rows
from langgraph_om.archive.types import ArchivedMessage, check_scope
from langgraph_om.core.config.options import check_number

_SHOWN = [column for column in message_rows.c if column.name not in ("parent", "digest")]
PLACE: Final = [column for column in message_rows.c if column.name not in ("thread_id", "body")]
"""Where a message stands, without what it says."""

# --- Branches ------------------------------------------------------------------------------------

EVERYWHERE: Final = 2**31 - 1
"""A position behind all others."""


@dataclass(frozen=True)
class Branch:
    """A path through the tree: a part of the current branch, and what follows it elsewhere."""

    last: int = EVERYWHERE
    """The position up to which it is the current branch; -1 when no message of it is there."""
    off: Sequence[Row] = ()
    """The places behind that, in order."""

    def find(self, row: Row) -> int | None:
        """Return the position of a place on it; `None` when that is on another branch."""
        if row.is_current:
            return row.position if row.position <= self.last else None
        return self._positions.get(row.node)

    def choose(self, rows: Iterable[Row]) -> Row | None:
        """Return the place of a message that is on this branch, or else another one."""

        def rank(row: Row) -> tuple[bool, bool, int, str]:
            return self.find(row) is not None, row.is_current, row.position, row.node

        return max(rows, key=rank, default=None)

    def list_off(self, start: int, stop: int | None) -> list[Row]:
        """Return the places that are not on the current branch, from `start` to before `stop`."""
        first = self.last + 1
        return [*self.off[max(0, start - first) : None if stop is None else max(0, stop - first)]]

    @property
    def length(self) -> int:
        """How many messages it has; meaningless for the current one."""
        return self.last + 1 + len(self.off)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {row.node: at for at, row in enumerate(self.off, start=self.last + 1)}


CURRENT: Final = Branch()
"""The branch that is current."""


def find_branch(connection: Connection, thread_id: str, name: str | None) -> Branch:
    """Return a branch by its name; the current one if none has this name."""
    if name is None:
        return CURRENT
    # The last message, and what is before it as far back as the current branch, with one of that.
    is_last = (message_rows.c.thread_id == thread_id, message_rows.c.node == name)
    back = select(*PLACE).where(*is_last).cte("back", recursive=True)
    rows = message_rows.alias("before")
    before = (
        select(*(rows.c[column.name] for column in PLACE))
        .join(back, rows.c.node == back.c.parent)
        .where(rows.c.thread_id == thread_id, ~back.c.is_current)
    )
    known = {row.node: row for row in connection.execute(select(back.union(before)))}
    off: list[Row] = []
    node: str | None = name
    while node in known:
        row = known.pop(node)
        if row.is_current:
            return Branch(row.position, off[::-1])
        off.append(row)
        node = row.parent
    return Branch(-1, off[::-1]) if off else CURRENT


def select_places(
    connection: Connection, thread_id: str, keys: Iterable[str]
) -> dict[str, list[Row]]:
    """Return, by key, where a thread's messages stand, on any branch."""
    places: dict[str, list[Row]] = defaultdict(list)
    query, wanted = select(*PLACE).where(message_rows.c.thread_id == thread_id), dict.fromkeys(keys)
    for row in fetch_in_chunks(connection, query, message_rows.c.key, [*wanted]):
        places[row.key].append(row)
    return places


def find_pruned(places: Sequence[Row]) -> str | None:
    """Return a place of a message if it was pruned everywhere; `None` otherwise."""
    is_pruned = all(row.digest == GONE for row in places)
    return places[0].node if places and is_pruned else None


def find_last_position(connection: Connection, thread_id: str) -> int:
    """Return the position of the last message of the current branch, -1 where there is none."""
    position = message_rows.c.position
    is_on = (message_rows.c.thread_id == thread_id, message_rows.c.is_current)
    last = select(position).where(*is_on).order_by(position.desc()).limit(1)
    found: int | None = connection.execute(last).scalar()
    return -1 if found is None else found


class Pages(Database):
    """The messages of an archive, as they are read."""

    def find(
        self,
        key: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        branch: str | None = None,
    ) -> ArchivedMessage | None:
        """Return the message of this key in a thread or resource, on whatever branch.

        If several threads of a resource have the key, the most recently updated one counts; on
        several branches, `branch` counts, or else the current one.

        Args:
            resource_id: The resource to look in; with `thread_id`, the thread's owner.
            branch: With `thread_id`, the name of a branch; see `append`.

        Raises:
            ConfigurationError: When neither is given.
        """
        check_scope(thread_id, resource_id)
        with self._reading("find a message") as connection:
            if resource_id is not None:
                thread_id = _find_thread(connection, key, thread_id, resource_id)
            if thread_id is None:
                return None
            path = find_branch(connection, thread_id, branch)
            place = path.choose(select_places(connection, thread_id, [key])[key])
            rows = [] if place is None else _read_contents(connection, thread_id, [place])
        return _read_message(rows[0], path) if rows else None

    def spans(self, spans: Sequence[tuple[str, int, int]]) -> dict[str, list[ArchivedMessage]]:
        """Return messages of current branches, by thread, in order; none that was pruned.

        Args:
            spans: At least one; each a thread's id, the first position, and the one to end before.
        """
        place = message_rows.c
        parts = (
            and_(place.thread_id == key, place.position >= start, place.position < stop)
            for key, start, stop in spans
        )
        is_there = (place.is_current, place.digest != GONE)
        query = select(*_SHOWN).where(*is_there, or_(*parts)).order_by(place.position)
        found: dict[str, list[ArchivedMessage]] = {}
        with self._reading("read messages of several threads") as connection:
            for row in connection.execute(query):
                found.setdefault(row.thread_id, []).append(_read_message(row))
        return found

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
        """Return messages of a branch, always in the order of the conversation.

        Args:
            start: The first position.
            stop: The position to end before.
            newest_first: Whether `limit` and `offset` count from the end.
            offset: How many to leave out at that end.
            visible_only: Whether messages that users may not see, and pruned ones, are left out.
            branch: The name of the branch; see `append`. `None`, and one that is unknown: the
                current branch.
        """
        check_number("limit", limit)
        check_number("offset", offset)
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
        with self._reading("read messages") as connection:
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
        with self._reading("read a thread's length") as connection:
            last = find_last_position(connection, thread_id)
        return None if last < 0 else last

    def contains(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Return which of these messages it has, or had until they were pruned."""
        key = message_rows.c.key
        query = select(key).where(message_rows.c.thread_id == thread_id)
        with self._reading("look for messages") as connection:
            return {row.key for row in fetch_in_chunks(connection, query, key, [*{*keys}])}

    def pruned(self, thread_id: str, keys: Sequence[str]) -> set[str]:
        """Return which of these messages were pruned."""
        with self._reading("look for messages") as connection:
            places = select_places(connection, thread_id, keys)
        return {key for key, rows in places.items() if find_pruned(rows) is not None}

    def branch(
        self, thread_id: str, keys: Sequence[str], *, branch: str | None = None
    ) -> list[BaseMessage]:
        """Return messages in the order of their keys; those that are not there are left out.

        Args:
            branch: The name of the branch whose words are wanted, as for `find`.
        """
        with self._reading("read messages") as connection:
            path = find_branch(connection, thread_id, branch)
            places = select_places(connection, thread_id, keys)
            chosen = [path.choose(places.get(key, ())) for key in keys]
            there = [row for row in chosen if row is not None and row.digest != GONE]
            rows = _read_contents(connection, thread_id, there)
        return [decode_message(row.key, row.body) for row in rows]

    def places(self, thread_id: str, keys: Sequence[str]) -> Mapping[str, int]:
        """Return these messages' positions on the current branch; missing ones are left out."""
        of_thread = (message_rows.c.thread_id == thread_id, message_rows.c.is_current)
        query = select(message_rows.c.key, message_rows.c.position).where(*of_thread)
        with self._reading("find messages") as connection:
            rows = fetch_in_chunks(connection, query, message_rows.c.key, [*dict.fromkeys(keys)])
            return {row.key: row.position for row in rows}


def _find_thread(
    connection: Connection, key: str, thread_id: str | None, resource_id: str
) -> str | None:
    """Return the thread of a resource that has a message; of several the newest updated one."""
    # As an expression, so that the rows of the key are tried, not all threads there are.
    is_owner = thread_rows.c.resource_id.concat("") == resource_id
    query = (
        select(thread_rows.c.id)
        .join(message_rows, message_rows.c.thread_id == thread_rows.c.id)
        .where(message_rows.c.key == key, is_owner)
        .order_by(thread_rows.c.updated.desc(), thread_rows.c.id)
        .limit(1)
    )
    if thread_id is not None:
        query = query.where(thread_rows.c.id == thread_id)
    found: str | None = connection.execute(query).scalar()
    return found


def _read_contents(connection: Connection, thread_id: str, places: Sequence[Row]) -> list[Row]:
    """Read what stands at places of a thread, in their order."""
    of_thread = select(*_SHOWN).where(message_rows.c.thread_id == thread_id)
    nodes = [row.node for row in places]
    rows = fetch_in_chunks(connection, of_thread, message_rows.c.node, nodes)
    found = {row.node: row for row in rows}
    return [found[node] for node in nodes]


def _read_message(row: Row, path: Branch = CURRENT) -> ArchivedMessage:
    at = path.find(row)
    return ArchivedMessage(
        key=row.key,
        thread_id=row.thread_id,
        position=row.position if at is None else at,
        message=decode_message(row.key, row.body) if row.body else RemoveMessage(id=row.key),
        is_visible=row.is_visible,
        is_current=at is not None,
        at=row.written,
    )
