"""Where messages stand: a conversation is a tree, and the current branch a path through it.

Rules of this file:

1. The positions on the current branch are 0, 1, 2, ... with one message each.
2. A message that leaves the current branch keeps its row, and the key of the message before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, insert, literal, select, update

from langgraph_om.archive.sql.driver.prepared import Change, Query
from langgraph_om.archive.sql.schema import message_rows
from langgraph_om.archive.sql.threads import Row, split_into_chunks

# --- Statements ----------------------------------------------------------------------------------

Columns: TypeAlias = Literal["key", "content", "place", "tree"]
"""What is read of messages: their keys, what they say, or where they stand."""

_OF_THREAD: Final = message_rows.c.thread_id == bindparam("of_thread")
_ON_BRANCH: Final = (_OF_THREAD, message_rows.c.is_current)
_OF_KEY: Final = (_OF_THREAD, message_rows.c.key == bindparam("of_key"))
_POSITION: Final = message_rows.c.position

_PLACE: Final = (message_rows.c.key, message_rows.c.parent, _POSITION, message_rows.c.is_current)
_FROM_END: Final = select(*_PLACE).where(*_ON_BRANCH).order_by(_POSITION.desc()).limit(1)
_LAST: Final = Query(_FROM_END)
_NEWEST: Final = _FROM_END.with_only_columns(_POSITION).correlate(None).scalar_subquery()
"""The position of the last message of the current branch."""

_COLUMNS: Final[Mapping[Columns, tuple[Any, ...]]] = {
    "key": (message_rows.c.key,),
    "content": (message_rows.c.key, message_rows.c.body),
    "place": _PLACE,
    "tree": (
        *_PLACE,
        message_rows.c.is_visible,
        message_rows.c.digest,
        message_rows.c.written,
        _NEWEST.label("newest"),
    ),
}


@lru_cache(maxsize=64)
def _select_some(columns: Columns, size: int) -> Query:
    """Select the messages of a thread that have one of so many keys."""
    names = (bindparam(f"key_{at}", type_=message_rows.c.key.type) for at in range(size))
    return Query(select(*_COLUMNS[columns]).where(_OF_THREAD, message_rows.c.key.in_([*names])))


_OFF_BRANCH: Final = Query(select(*_PLACE).where(_OF_THREAD, ~message_rows.c.is_current))
_BEFORE: Final = Query(
    select(message_rows.c.key)
    .where(*_ON_BRANCH, message_rows.c.position < bindparam("base"))
    .order_by(_POSITION)
)
_TAKE_OFF: Final = Change(
    update(message_rows)
    .where(*_ON_BRANCH, message_rows.c.position >= bindparam("base"))
    .values(is_current=False)
)
_INSERT: Final = Change(insert(message_rows))
_MOVE: Final = Change(
    update(message_rows)
    .where(*_OF_KEY)
    .values({name: bindparam(name) for name in ("position", "parent", "is_current")})
)
_DATE: Final = Change(update(message_rows).where(*_OF_KEY).values(written=bindparam("at")))
_REPLACE: Final = Change(
    update(message_rows)
    .where(*_OF_KEY)
    .values(
        body=bindparam("to_body"),
        digest=bindparam("to_digest"),
        is_visible=bindparam("to_visible"),
        version=message_rows.c.version + literal(1),
    )
)

# --- Placing messages ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored."""

    message: BaseMessage
    body: str
    digest: str
    is_visible: bool
    written: datetime | None


def select_by_keys(
    connection: Connection, thread_id: str, keys: Iterable[str], columns: Columns
) -> list[Row]:
    """Return these columns of the messages of a thread that have one of the keys."""
    rows: list[Row] = []
    for some in split_into_chunks(list(dict.fromkeys(keys))):
        # The last key again and again, so that there are few statements of different sizes.
        size = 1 << (len(some) - 1).bit_length()
        padded = some + some[-1:] * (size - len(some))
        named = {f"key_{at}": key for at, key in enumerate(padded)}
        rows += _select_some(columns, size).fetch(connection, {"of_thread": thread_id, **named})
    return rows


def select_last(connection: Connection, thread_id: str) -> Row | None:
    """Return the place of the last message of the current branch."""
    return next(iter(_LAST.fetch(connection, {"of_thread": thread_id})), None)


class Changes(NamedTuple):
    """What storing messages changed."""

    new: set[str]
    edited: list[str]
    """The keys of those with new content."""
    dated: dict[str, datetime]
    """The times of those that had none."""


def store_messages(
    connection: Connection, thread_id: str, entries: Mapping[str, StoredMessage], after: str | None
) -> Changes:
    """Put messages in their places, and return what is new of them."""
    wanted = [*entries] if after is None else [after, *entries]
    known = {row.key: row for row in select_by_keys(connection, thread_id, wanted, "tree")}
    changed = [
        key
        for key, entry in entries.items()
        if key in known
        and (known[key].digest, known[key].is_visible) != (entry.digest, entry.is_visible)
    ]
    _replace_contents(connection, thread_id, {key: entries[key] for key in changed})
    dated = {
        key: entry.written
        for key, entry in entries.items()
        if entry.written is not None and key in known and known[key].written is None
    }
    _add_times(connection, thread_id, dated)
    new = {key for key in entries if key not in known}
    path, base, parent = _find_path(connection, thread_id, [*entries], after, known)
    if path:
        if all(row.newest is None or row.newest >= base for row in known.values()):
            _take_off_branch(connection, thread_id, base)
        places = {
            key: {"position": base + i, "parent": path[i - 1] if i else parent}
            for i, key in enumerate(path)
        }
        new_places = {key: place for key, place in places.items() if key in new}
        _insert_messages(connection, thread_id, new_places, entries)
        known_places = {key: place for key, place in places.items() if key not in new}
        _move_messages(connection, thread_id, known_places)
    return Changes(new, changed, dated)


def _find_path(
    connection: Connection,
    thread_id: str,
    keys: list[str],
    after: str | None,
    known: Mapping[str, Row],
) -> tuple[list[str], int, str | None]:
    """Return what has to be put on the current branch, its first position, and its parent."""
    if after is not None and after not in known:
        after = _find_stand_in(connection, thread_id, keys[0], known)
    lineage, base, parent = _trace_lineage(connection, thread_id, after, known)
    given = set(keys)
    path = [key for key in lineage if key not in given] + keys
    while path and _is_at(known.get(path[0]), base):
        parent, base = path.pop(0), base + 1
    moved = {key for key in path if key in known and known[key].is_current}
    if any(known[key].position < base for key in moved):
        before = _select_branch_before(connection, thread_id, base)
        return [key for key in before if key not in moved] + path, 0, None
    return path, base, parent


def _is_at(row: Row | None, position: int) -> bool:
    return row is not None and row.is_current and row.position == position


def _find_stand_in(
    connection: Connection, thread_id: str, first: str, known: Mapping[str, Row]
) -> str | None:
    """Return what an unknown `after` stands for: what `first` follows already, or the end."""
    if first in known:
        parent: str | None = known[first].parent
        return parent
    last = select_last(connection, thread_id)
    return None if last is None else last.key


def _trace_lineage(
    connection: Connection, thread_id: str, after: str | None, known: Mapping[str, Row]
) -> tuple[list[str], int, str | None]:
    """Return the ancestors up to `after` that are not current, and where they branch off.

    That is the position behind the newest ancestor that is current, and its key.
    """
    if after is None:
        return [], 0, None
    row = known.get(after)
    if row is None:
        (row,) = select_by_keys(connection, thread_id, [after], "place")
    lineage: list[str] = []
    if not row.is_current:
        rows = _OFF_BRANCH.fetch(connection, {"of_thread": thread_id})
        parents = {each.key: each.parent for each in rows}
        key: str | None = after
        while key is not None and key in parents:
            lineage.append(key)
            key = parents.pop(key)
        if key is None:
            return lineage[::-1], 0, None
        (row,) = select_by_keys(connection, thread_id, [key], "place")
    return lineage[::-1], row.position + 1, row.key


def _select_branch_before(connection: Connection, thread_id: str, position: int) -> list[str]:
    rows = _BEFORE.fetch(connection, {"of_thread": thread_id, "base": position})
    return [row.key for row in rows]


def _take_off_branch(connection: Connection, thread_id: str, base: int) -> None:
    """Take what stands at or behind a position off the current branch."""
    _TAKE_OFF.run(connection, [{"of_thread": thread_id, "base": base}])


def _insert_messages(
    connection: Connection,
    thread_id: str,
    places: Mapping[str, Mapping[str, Any]],
    entries: Mapping[str, StoredMessage],
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
            "written": entries[key].written,
        }
        for key, place in places.items()
    ]
    _INSERT.run(connection, rows)


def _move_messages(
    connection: Connection, thread_id: str, places: Mapping[str, Mapping[str, Any]]
) -> None:
    """Put known messages on the current branch."""
    whose = {"of_thread": thread_id, "is_current": True}
    rows = [{**whose, "of_key": key, **place} for key, place in places.items()]
    _MOVE.run(connection, rows)


def _add_times(connection: Connection, thread_id: str, times: Mapping[str, datetime]) -> None:
    """Give known messages the times that they lack."""
    rows = [{"of_thread": thread_id, "of_key": key, "at": at} for key, at in times.items()]
    _DATE.run(connection, rows)


def _replace_contents(
    connection: Connection, thread_id: str, changed: Mapping[str, StoredMessage]
) -> None:
    """Give known messages new contents."""
    rows = [
        {
            "of_thread": thread_id,
            "of_key": key,
            "to_body": entry.body,
            "to_digest": entry.digest,
            "to_visible": entry.is_visible,
        }
        for key, entry in changed.items()
    ]
    _REPLACE.run(connection, rows)
