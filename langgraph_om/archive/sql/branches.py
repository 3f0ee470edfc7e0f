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
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, insert, literal, select, update

from langgraph_om.archive.sql.database import Change, Database, Query
from langgraph_om.archive.sql.schema import escape_text, message_rows, store_moment
from langgraph_om.archive.sql.texts import StoredMessage
from langgraph_om.archive.sql.threads import Row, split_into_chunks

# --- Statements ----------------------------------------------------------------------------------

_OF_THREAD: Final = message_rows.c.thread_id == bindparam("of_thread")
_ON_BRANCH: Final = (_OF_THREAD, message_rows.c.is_current)
_OF_NODE: Final = (_OF_THREAD, message_rows.c.node == bindparam("of_node"))
_POSITION: Final = message_rows.c.position

_PLACE_COLUMNS: Final = ("node", "key", "parent", "position", "is_current", "is_visible", "digest")
_PLACE: Final = tuple(message_rows.c[name] for name in _PLACE_COLUMNS)
_FROM_END: Final = select(*_PLACE).where(*_ON_BRANCH).order_by(_POSITION.desc()).limit(1)
_LAST: Final = Query(_FROM_END)
_NEWEST: Final = _FROM_END.with_only_columns(_POSITION).correlate(None).scalar_subquery()
"""The position of the last message of the current branch."""
_TREE: Final = (*_PLACE, message_rows.c.written, _NEWEST.label("newest"))


@lru_cache(maxsize=64)
def _select_some(columns: tuple[Any, ...], size: int) -> Query:
    """Select these columns of the messages of a thread that have one of so many keys."""
    names = (bindparam(f"key_{at}", type_=message_rows.c.key.type) for at in range(size))
    return Query(select(*columns).where(_OF_THREAD, message_rows.c.key.in_([*names])))


def _build_back() -> Query:
    """Select a node, and what is before it as far back as the current branch, with one of that."""
    first = select(*_PLACE).where(*_OF_NODE).cte("back", recursive=True)
    rows = message_rows.alias("before")
    before = (
        select(*(rows.c[name] for name in _PLACE_COLUMNS))
        .join(first, rows.c.node == first.c.parent)
        .where(rows.c.thread_id == bindparam("of_thread"), ~first.c.is_current)
    )
    back = first.union(before)
    return Query(select(*(back.c[name] for name in _PLACE_COLUMNS)))


_BACK: Final = _build_back()
_STRETCH: Final = Query(
    select(*_PLACE)
    .where(
        *_ON_BRANCH,
        message_rows.c.position >= bindparam("base"),
        message_rows.c.position <= bindparam("last"),
    )
    .order_by(_POSITION)
)
_TAKE_OFF: Final = Change(
    update(message_rows)
    .where(*_ON_BRANCH, message_rows.c.position >= bindparam("base"))
    .values(is_current=False)
)
_INSERT: Final = Change(insert(message_rows))
_SAME: Final = ("thread_id", "key", "is_visible", "digest", "body", "written")
_COPY: Final = Change(
    insert(message_rows).from_select(
        ["node", "parent", "position", "is_current", *_SAME],
        select(
            bindparam("to_node", type_=message_rows.c.node.type),
            bindparam("to_parent", type_=message_rows.c.parent.type),
            bindparam("to_position", type_=message_rows.c.position.type),
            literal(value=True, type_=message_rows.c.is_current.type),
            *(message_rows.c[name] for name in _SAME),
        ).where(*_OF_NODE),
    )
)
_MOVE: Final = Change(
    update(message_rows).where(*_OF_NODE).values(position=bindparam("to_position"), is_current=True)
)
_DATE: Final = Change(
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
    rows = _BACK.fetch(connection, {"of_thread": thread_id, "of_node": name})
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
        # The last key again and again, so that there are few statements of different sizes.
        size = 1 << (len(some) - 1).bit_length()
        padded = some + some[-1:] * (size - len(some))
        named = {f"key_{at}": key for at, key in enumerate(padded)}
        query = _select_some(columns, size)
        rows += query.fetch(connection, {"of_thread": thread_id, **named})
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
    return next(iter(_LAST.fetch(connection, {"of_thread": thread_id})), None)


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
) -> Changes | None:
    """Put messages in their places, and return what is new of them.

    Args:
        connection: In a transaction that has locked the thread.
        entries: The messages by key, in order; at least one.
        after: The key of the message before the first one.
        name: The branch on which that stands; `None` for the current one.
        must_follow: Whether `None` is returned, and nothing done, where `after` is unknown.
    """
    wanted = [*entries] if after is None else [after, *entries]
    tree = _Tree(connection, thread_id, select_places(connection, thread_id, wanted))
    if must_follow and after is not None and not tree.known[after]:
        return None
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
        _DATE.run(self.connection, rows)
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
            _TAKE_OFF.run(self.connection, [{**of_thread, "base": first}])
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
        _INSERT.run(self.connection, inserted)
        _COPY.run(self.connection, copied)
        _MOVE.run(self.connection, moved)

    def _find_node(self, branch: Branch, position: int, steps: Sequence[_Step]) -> str | None:
        """Return the node at a position of the current branch; `None` before its first one."""
        if position < 0 or not steps:
            return None
        rows = (row for rows in self.known.values() for row in rows)
        known: str | None = next((row.node for row in rows if branch.find(row) == position), None)
        return known or self._read(branch, position, position)[0].node

    def _read(self, branch: Branch, first: int, last: int) -> list[Row]:
        values = {"of_thread": self.thread_id, "base": first, "last": min(last, branch.last)}
        current = _STRETCH.fetch(self.connection, values) if first <= branch.last else []
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


# --- At the end of a branch, in one way to the server and back -----------------------------------
#
# Nearly always a question and its answer are put behind the last message that the archive has. In
# PostgreSQL the server sees to it, in one statement behind the lock: it looks whether the branch
# ends there, and puts nothing where anything is otherwise.

_LOCK_ROW: Final = "SELECT FROM om_threads WHERE id = %(thread)s FOR NO KEY UPDATE"
_PUT_BEHIND: Final = """
WITH place AS MATERIALIZED (
    SELECT last.position FROM om_messages AS last JOIN om_threads ON id = last.thread_id
    WHERE last.thread_id = %(thread)s AND last.node = %(branch)s AND last.key = %(after)s
    AND last.is_current AND om_threads.resource_id IS NOT DISTINCT FROM %(resource)s
    AND (%(title)s::TEXT IS NULL OR om_threads.title = %(title)s)
    AND NOT EXISTS (
        SELECT FROM om_messages AS next WHERE next.thread_id = %(thread)s AND next.is_current
        AND next.position > last.position
    )
    AND NOT EXISTS (
        SELECT FROM om_messages AS known
        WHERE known.thread_id = %(thread)s AND known.key = ANY (%(keys)s)
    )
), put AS (
    INSERT INTO om_messages (
        thread_id, node, key, parent, is_visible, digest, body, written, position, is_current
    )
    SELECT %(thread)s, new.node, new.key, new.parent, new.is_visible, new.digest, new.body,
        new.written, place.position + new.number, true
    FROM place, unnest(
        %(nodes)s::TEXT[], %(keys)s::TEXT[], %(parents)s::TEXT[], %(visible)s::BOOLEAN[],
        %(digests)s::TEXT[], %(bodies)s::TEXT[], %(written)s::BIGINT[]
    ) WITH ORDINALITY
    AS new (node, key, parent, is_visible, digest, body, written, number)
), searched AS (
    INSERT INTO om_texts (thread_id, kind, key, digest, piece, at, words)
    SELECT %(thread)s, 'message', new.key, new.digest, new.piece, new.at, new.words
    FROM place, unnest(
        %(text_keys)s::TEXT[], %(text_digests)s::TEXT[], %(pieces)s::INTEGER[],
        %(ats)s::BIGINT[], %(words)s::TEXT[]
    ) AS new (key, digest, piece, at, words)
    ON CONFLICT (thread_id, kind, key, digest, piece)
    DO UPDATE SET at = excluded.at, words = excluded.words
), touched AS (
    UPDATE om_threads SET updated = greatest(updated, %(now)s) FROM place WHERE id = %(thread)s
)
SELECT count(*) FROM place
"""


def put_behind(
    database: Database,
    thread_id: str,
    resource_id: str | None,
    entries: Mapping[str, StoredMessage],
    texts: Sequence[Mapping[str, Any]],
    *,
    after: str,
    branch: str,
    now: datetime,
    title: str | None,
) -> str | None:
    """Put new messages behind the last one of a branch that is current.

    Args:
        entries: The messages by key, in order; at least one.
        texts: The rows by which they are searched.
        after: The key of the last one.
        branch: The name of its branch.

    Returns:
        The name of their branch; `None` where nothing is done, as things are otherwise.

    Raises:
        ArchiveError: When the database fails.
    """
    nodes = [branch]
    for key, entry in entries.items():
        nodes.append(_name_node(nodes[-1], _Step(key, *_says(entry))))
    stored = [*entries.values()]
    values = {
        "thread": escape_text(thread_id),
        "resource": escape_text(resource_id),
        "title": escape_text(title),
        "after": escape_text(after),
        "branch": branch,
        "now": store_moment(now),
        "keys": [escape_text(key) for key in entries],
        "nodes": nodes[1:],
        "parents": nodes[:-1],
        "visible": [entry.is_visible for entry in stored],
        "digests": [entry.digest for entry in stored],
        "bodies": [entry.body for entry in stored],
        "written": [store_moment(entry.written) for entry in stored],
        "text_keys": [escape_text(row["key"]) for row in texts],
        "text_digests": [row["digest"] for row in texts],
        "pieces": [row["piece"] for row in texts],
        "ats": [store_moment(row["at"]) for row in texts],
        "words": [row["words"] for row in texts],
    }
    done = database.run_at_once("append messages", (_LOCK_ROW, _PUT_BEHIND), values)
    return nodes[-1] if done == 1 else None
