"""Where messages stand: a conversation is a tree, and the current branch a path through it.

Rules of this file:

1. A row is a message in its place: what it says, behind all that was said before it. Its node is a
   digest of both, so that it never changes, and names the branch that ends with it. The same
   message on two branches that differ before it, or in its words, is two rows.
2. The positions on the current branch are 0, 1, 2, ... with one message each.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, bindparam, insert, literal, select, update

from langgraph_om.archive.sql.database import run_for_each
from langgraph_om.archive.sql.schema import message_rows
from langgraph_om.archive.sql.texts import StoredMessage
from langgraph_om.archive.sql.threads import Row, split_into_chunks
from langgraph_om.errors import ArchiveLacksError

# --- Statements ----------------------------------------------------------------------------------

_OF_THREAD: Final = message_rows.c.thread_id == bindparam("of_thread")
_ON_BRANCH: Final = (_OF_THREAD, message_rows.c.is_current)
_OF_NODE: Final = (_OF_THREAD, message_rows.c.node == bindparam("of_node"))
_POSITION: Final = message_rows.c.position

_PLACE_COLUMNS: Final = ("node", "key", "parent", "position", "is_current", "is_visible", "digest")
_PLACE: Final = tuple(message_rows.c[name] for name in _PLACE_COLUMNS)
_FROM_END: Final = select(*_PLACE).where(*_ON_BRANCH).order_by(_POSITION.desc()).limit(1)
_NEWEST: Final = _FROM_END.with_only_columns(_POSITION).correlate(None).scalar_subquery()
"""The position of the last message of the current branch."""
_TREE: Final = (*_PLACE, message_rows.c.written, _NEWEST.label("newest"))


def _build_back() -> Select[Any]:
    """Select a node, and what is before it as far back as the current branch, with one of that."""
    first = select(*_PLACE).where(*_OF_NODE).cte("back", recursive=True)
    rows = message_rows.alias("before")
    before = (
        select(*(rows.c[name] for name in _PLACE_COLUMNS))
        .join(first, rows.c.node == first.c.parent)
        .where(rows.c.thread_id == bindparam("of_thread"), ~first.c.is_current)
    )
    back = first.union(before)
    return select(*(back.c[name] for name in _PLACE_COLUMNS))


_BACK: Final = _build_back()
_STRETCH: Final = (
    select(*_PLACE)
    .where(
        *_ON_BRANCH,
        message_rows.c.position >= bindparam("base"),
        message_rows.c.position <= bindparam("last"),
    )
    .order_by(_POSITION)
)
_TAKE_OFF: Final = (
    update(message_rows)
    .where(*_ON_BRANCH, message_rows.c.position >= bindparam("base"))
    .values(is_current=False)
)
_INSERT: Final = insert(message_rows)
_SAME: Final = ("thread_id", "key", "is_visible", "digest", "body", "written")
_COPY: Final = insert(message_rows).from_select(
    ["node", "parent", "position", "is_current", *_SAME],
    select(
        bindparam("to_node", type_=message_rows.c.node.type),
        bindparam("to_parent", type_=message_rows.c.parent.type),
        bindparam("to_position", type_=message_rows.c.position.type),
        literal(value=True, type_=message_rows.c.is_current.type),
        *(message_rows.c[name] for name in _SAME),
    ).where(*_OF_NODE),
)
_MOVE: Final = (
    update(message_rows).where(*_OF_NODE).values(position=bindparam("to_position"), is_current=True)
)
_DATE: Final = (
    update(message_rows)
    .where(
        _OF_THREAD,
        message_rows.c.key == bindparam("of_key"),
        message_rows.c.written.is_(None),
    )
    .values(written=bindparam("at"))
)

# --- Branches ------------------------------------------------------------------------------------

_EVERYWHERE: Final = 2**31 - 1
"""A position behind all others."""


@dataclass(frozen=True)
class Branch:
    """A path through the tree: a part of the current branch, and what follows it elsewhere."""

    last: int = _EVERYWHERE
    """The position up to which it is the current branch; -1 when no message of it is there."""
    off: Sequence[Row] = ()
    """The places behind that, in order."""

    def find(self, row: Row) -> int | None:
        """Return the position of a place on it; `None` when that is on another branch."""
        if row.is_current:
            return row.position if row.position <= self.last else None
        return self._positions.get(row.node)

    def choose(self, rows: Iterable[Row]) -> Row | None:
        """Return that of the places of one message which is on it, or else one that is not."""

        def rank(row: Row) -> tuple[bool, bool, int, str]:
            return self.find(row) is not None, row.is_current, row.position, row.node

        return max(rows, key=rank, default=None)

    def list_off(self, start: int, stop: int | None) -> list[Row]:
        """Return the places that are not on the current branch, from `start` to before `stop`."""
        first = self.last + 1
        return [*self.off[max(0, start - first) : None if stop is None else max(0, stop - first)]]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {row.node: at for at, row in enumerate(self.off, start=self.last + 1)}


CURRENT: Final = Branch()
"""The branch that is current."""


def find_branch(connection: Connection, thread_id: str, name: str | None) -> Branch:
    """Return a branch by its name; the current one where there is none of this name."""
    if name is None:
        return CURRENT
    rows = connection.execute(_BACK, {"of_thread": thread_id, "of_node": name})
    known = {row.node: row for row in rows}
    off: list[Row] = []
    node: str | None = name
    while node in known:
        row = known.pop(node)
        if row.is_current:
            return Branch(row.position, off[::-1])
        off.append(row)
        node = row.parent
    return Branch(-1, off[::-1]) if off else CURRENT


def select_keys(
    connection: Connection,
    thread_id: str,
    keys: Iterable[str],
    columns: tuple[Any, ...] = (message_rows.c.key,),
) -> list[Row]:
    """Return these columns of the messages of a thread that have one of the keys."""
    rows: list[Row] = []
    for some in split_into_chunks(list(dict.fromkeys(keys))):
        query = select(*columns).where(_OF_THREAD, message_rows.c.key.in_(some))
        rows += connection.execute(query, {"of_thread": thread_id})
    return rows


def select_places(
    connection: Connection, thread_id: str, keys: Iterable[str]
) -> dict[str, list[Row]]:
    """Return by key where messages of a thread stand, on whatever branch."""
    places: dict[str, list[Row]] = defaultdict(list)
    for row in select_keys(connection, thread_id, keys, _TREE):
        places[row.key].append(row)
    return places


def select_last(connection: Connection, thread_id: str) -> Row | None:
    """Return the place of the last message of the current branch."""
    return next(iter(connection.execute(_FROM_END, {"of_thread": thread_id})), None)


# --- Placing messages ----------------------------------------------------------------------------


class Changes(NamedTuple):
    """What storing messages changed."""

    new: set[str]
    """The keys of those that are new, or have new content."""
    dated: dict[str, datetime]
    """The times of those that had none."""
    branch: str | None
    """The name of the branch that they are on."""


class _Step(NamedTuple):
    """A message that comes next on a branch."""

    key: str
    digest: str
    is_visible: bool
    former: str | None = None
    """The node that has its content already; `None` where the content is given."""


def store_messages(
    connection: Connection,
    thread_id: str,
    entries: Mapping[str, StoredMessage],
    after: str | None,
    name: str | None,
    *,
    must_follow: bool = False,
) -> Changes:
    """Put messages in their places, and return what is new of them.

    Args:
        connection: In a transaction that has locked the thread.
        entries: The messages by key, in order; at least one.
        after: The key of the message before the first one.
        name: The branch on which that stands; `None` for the current one.
        must_follow: Whether `after` has to be there.

    Raises:
        ArchiveLacksError: When it is not.
    """
    wanted = [*entries] if after is None else [after, *entries]
    tree = _Tree(connection, thread_id, select_places(connection, thread_id, wanted))
    if must_follow and after is not None and not tree.known[after]:
        raise ArchiveLacksError(thread_id)
    new = {
        key
        for key, entry in entries.items()
        if all(_says(row) != _says(entry) for row in tree.known[key])
    }
    dated, times = tree.add_times(entries)
    named = tree.find_branch(name)
    branch, at = tree.find_start(named, next(iter(entries)), after)
    base, steps, is_whole = tree.find_steps(branch, at, entries)
    nodes = tree.put(branch, base, steps, entries, times)
    if name is None or not is_whole:
        last = [*entries][-1]
        end = nodes.get(last) or next(
            row.node for row in tree.known[last] if branch.find(row) == at + len(entries)
        )
    else:
        end = [*nodes.values()][-1] if nodes else name
    return Changes(new, dated, end)


def _says(content: Row | StoredMessage) -> tuple[str, bool]:
    return content.digest, bool(content.is_visible)


@dataclass(frozen=True, slots=True)
class _Tree:
    """What is known of the messages of a thread while some are put in their places."""

    connection: Connection
    thread_id: str
    known: dict[str, list[Row]]
    """By key, where messages stand."""

    def add_times(
        self, entries: Mapping[str, StoredMessage]
    ) -> tuple[dict[str, datetime], dict[str, datetime | None]]:
        """Give messages the times that they lack; return these, and the time of each."""
        dated: dict[str, datetime] = {}
        times: dict[str, datetime | None] = {}
        for key, entry in entries.items():
            rows = self.known[key]
            former = next((row.written for row in rows if row.written is not None), None)
            times[key] = entry.written if former is None else former
            if rows and former is None and entry.written is not None:
                dated[key] = entry.written
        rows = [{"of_thread": self.thread_id, "of_key": key, "at": at} for key, at in dated.items()]
        run_for_each(self.connection, _DATE, rows)
        return dated, times

    def find_branch(self, name: str | None) -> Branch:
        """Return a branch by its name, which nearly always ends with a message that is known."""
        for row in (row for rows in self.known.values() for row in rows):
            if row.node == name and row.is_current:
                return Branch(row.position)
        return find_branch(self.connection, self.thread_id, name)

    def find_start(self, branch: Branch, first: str, after: str | None) -> tuple[Branch, int]:
        """Return the branch of `after`, and its position there; -1 where that is the start.

        An unknown one stands for what `first` follows already, or else for the end.
        """
        if after is None:
            return branch, -1
        row = branch.choose(self.known[after])
        follower = branch.choose(self.known[first]) if row is None else None
        one = row or follower
        if one is None:
            if branch is not CURRENT:
                return branch, branch.last + len(branch.off)
            last = select_last(self.connection, self.thread_id)
            return branch, -1 if last is None else last.position
        at = branch.find(one)
        if at is None:
            branch = find_branch(self.connection, self.thread_id, one.node)
            at = branch.last + len(branch.off)
        return branch, at if follower is None else at - 1

    def find_steps(
        self, branch: Branch, at: int, entries: Mapping[str, StoredMessage]
    ) -> tuple[int, list[_Step], bool]:
        """Return what has to follow on a branch, and from which position on.

        Returns:
            The position, the messages, and whether the branch has them all behind `at`: then what
            follows them there still does.
        """
        steps = [_Step(key, *_says(entry)) for key, entry in entries.items()]
        held = [
            next((row for row in self.known[key] if branch.find(row) == place), None)
            for place, key in enumerate(entries, start=at + 1)
        ]
        there = [row for row in held if row is not None]
        if len(there) == len(steps):
            pairs = enumerate(zip(there, steps, strict=True))
            changed = next((n for n, (row, step) in pairs if _says(row) != step[1:3]), None)
            if changed is None:
                return branch.last + len(branch.off) + 1, [], True
            behind = self._read(branch, at + 1 + len(steps), _EVERYWHERE)
            return at + 1 + changed, [*steps[changed:], *self._copy(behind)], True
        rows = (row for key in entries for row in self.known[key])
        moved = [place for row in rows if (place := branch.find(row)) is not None and place <= at]
        base = min(moved, default=at + 1)
        between = self._read(branch, base, at) if moved else []
        kept = [row for row in between if row.key not in entries]
        return base, [*self._copy(kept), *steps], False

    def put(
        self,
        branch: Branch,
        base: int,
        steps: Sequence[_Step],
        entries: Mapping[str, StoredMessage],
        times: Mapping[str, datetime | None],
    ) -> dict[str, str]:
        """Make a branch the current one, up to a position, and put messages there.

        Returns:
            By key, the nodes of the messages.
        """
        before = branch.off[: max(0, base - branch.last - 1)]
        start = base - len(before)
        parent = before[-1].node if before else self._find_node(branch, base - 1, steps)
        path: list[tuple[str, str | None, _Step | None]] = [
            (row.node, None, None) for row in before
        ]
        for step in steps:
            node = _name_node(parent, step)
            path.append((node, parent, step))
            parent = node
        rows = {row.node: row for rows in self.known.values() for row in rows}
        places = [*enumerate(path, start=start)]
        while places and _is_at(rows.get(places[0][1][0]), places[0][0]):
            places.pop(0)
        if places:
            self._make_current(places, rows, entries, times)
        return {step.key: node for node, _, step in path if step is not None}

    def _make_current(
        self,
        places: Sequence[tuple[int, tuple[str, str | None, _Step | None]]],
        rows: Mapping[str, Row],
        entries: Mapping[str, StoredMessage],
        times: Mapping[str, datetime | None],
    ) -> None:
        """Let the current branch end with these."""
        of_thread, first = {"of_thread": self.thread_id}, places[0][0]
        if all(row.newest is None or row.newest >= first for row in rows.values()):
            self.connection.execute(_TAKE_OFF, {**of_thread, "base": first})
        inserted: list[dict[str, Any]] = []
        copied: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        for position, (node, parent, step) in places:
            if step is None or node in rows:
                moved.append({**of_thread, "of_node": node, "to_position": position})
            elif step.former is not None:
                place = {"to_node": node, "to_parent": parent, "to_position": position}
                copied.append({**of_thread, "of_node": step.former, **place})
            else:
                entry = entries[step.key]
                inserted.append(
                    {
                        "thread_id": self.thread_id,
                        "node": node,
                        "key": step.key,
                        "parent": parent,
                        "position": position,
                        "is_current": True,
                        "is_visible": entry.is_visible,
                        "digest": entry.digest,
                        "body": entry.body,
                        "written": times[step.key],
                    }
                )
        run_for_each(self.connection, _INSERT, inserted)
        run_for_each(self.connection, _COPY, copied)
        run_for_each(self.connection, _MOVE, moved)

    def _find_node(self, branch: Branch, position: int, steps: Sequence[_Step]) -> str | None:
        """Return the node at a position of the current branch; `None` before its first one."""
        if position < 0 or not steps:
            return None
        rows = (row for rows in self.known.values() for row in rows)
        known: str | None = next((row.node for row in rows if branch.find(row) == position), None)
        return known or self._read(branch, position, position)[0].node

    def _read(self, branch: Branch, first: int, last: int) -> list[Row]:
        values = {"of_thread": self.thread_id, "base": first, "last": min(last, branch.last)}
        is_on = first <= branch.last
        current: list[Row] = [*self.connection.execute(_STRETCH, values)] if is_on else []
        return [*current, *branch.list_off(first, last + 1)]

    def _copy(self, rows: Sequence[Row]) -> list[_Step]:
        """Return what was said elsewhere, to stand behind other messages now."""
        self.known.update(select_places(self.connection, self.thread_id, [row.key for row in rows]))
        return [_Step(row.key, *_says(row), row.node) for row in rows]


def _is_at(row: Row | None, position: int) -> bool:
    return row is not None and row.is_current and row.position == position


def _name_node(parent: str | None, step: _Step) -> str:
    """Name a message in its place, by what is before it and what it says."""
    text = repr((parent, step.key, step.digest, step.is_visible))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
