"""Writing messages: each gets its place in the conversation's tree.

1. A row is a message in its place: what it says, after all that was said before it. Its node, a
   digest of both, never changes, and names the branch that ends with it. The same
   message on two branches that differ before it, or in its words, is two rows.
2. The positions on the current branch are 0, 1, 2, ... with one message each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, insert, literal, select, update

from langgraph_om.archive.database import Database, Row, run_for_each
from langgraph_om.archive.page import (
    CURRENT,
    EVERYWHERE,
    PLACE,
    Branch,
    find_branch,
    find_last_position,
    find_pruned,
    select_places,
)
from langgraph_om.archive.search import StoredMessage, build_texts, put_texts
from langgraph_om.archive.tables import GONE, encode_message, message_rows
from langgraph_om.archive.threads import lock_thread, name_thread, touch
from langgraph_om.archive.types import check_name, check_time
from langgraph_om.errors import ArchiveLacksError, ConfigurationError


class Append(Database):
    """Writes messages into an archive."""

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
        must_follow: bool = False,
        deletion: int | None = None,
        prunings: int | None = None,
    ) -> str | None:
        """Add messages to a thread, and the thread if it is new.

        The current branch then ends with these messages, unless it holds all of them already, in
        this order and in this place: then it stays as it is. What stood in their place stays
        reachable by key, and by the name of its branch.

        A known key is not added again. When its content differs, the new one replaces the old on
        this branch, and no other branch changes. Appending a branch that was current before makes
        it current again. A message that was pruned stays pruned, whatever it says now.

        Args:
            thread_id: The thread. It belongs to the resource that it was first written with.
            resource_id: The resource; `None` for none, or to leave it as it is.
            messages: Per message its key, the message, and whether users may see it. Parts of a
                message that are not JSON are kept as text.
            after: The key of the message before the first one, `None` when they start the
                conversation. One that is unknown stands for the end of the branch.
            now: The current time, noted if something is new.
            title: The thread's title; empty: it has none any more; `None`: as it is.
            times: By key, when a message was written or first seen, where that is known. The time
                that came with a message is kept.
            parent: The thread within which this one runs, as a subagent's does. It is then deleted
                with that one, and not listed beside it.
            branch: The name of the branch to continue, as the last call for it returned it.
                `None`, and one that is unknown: the current branch.
            must_follow: Whether `after` has to be there.
            deletion: How often thread and resource were deleted, as far as the writer knows; see
                `deletions`. `None`: it does not matter.
            prunings: How often old messages of the thread were pruned, as `deletion`.

        Returns:
            The name of the branch that the messages are on: it ends with the last of them, or,
            if `branch` already held all of them, with what follows them there. Reading by this
            name reads this branch, whichever is current. Without messages it is `branch`.

        Raises:
            ArchiveLacksError: When `after` has to be there and is not, or the number of deletions
                or prunings is not what the writer knows. Nothing is written then.
            ConfigurationError: When the thread belongs to another resource, which the error does
                not name.
        """
        check_time("now", now)
        entries = _encode_entries(messages, times or {})
        if after in entries:
            msg = f"`after` is {after!r}, one of the messages; pass the key before the first one"
            raise ConfigurationError(msg)
        new: Mapping[str, StoredMessage] = {}
        with self._writing("append messages") as connection:
            thread = lock_thread(
                connection,
                thread_id,
                resource_id,
                now,
                deletion=deletion,
                prunings=prunings,
                parent=parent,
            )
            if entries:
                wanted = [*entries] if after is None else [after, *entries]
                known = select_places(connection, thread_id, wanted)
                if must_follow and after is not None and not known[after]:
                    raise ArchiveLacksError(thread_id)
                new = {key: each for key, each in entries.items() if _is_new(each, known[key])}
                branch = _Tree(connection, thread_id, known, entries).put(after, branch)
                owner = thread.resource_id if resource_id is None else resource_id
                put_texts(connection, build_texts(thread_id, owner, new))
            if title is not None and title != (thread.title or ""):
                name_thread(connection, thread, now, title or None)
            elif new:
                touch(connection, thread, now)
        return branch


def _encode_entries(
    messages: Sequence[tuple[str, BaseMessage, bool]], times: Mapping[str, datetime]
) -> dict[str, StoredMessage]:
    """Write messages as they are stored, by key; of a key that comes twice, the last content."""
    entries: dict[str, StoredMessage] = {}
    for key, message, is_visible in messages:
        check_name("key", key)
        body = encode_message(message)
        digest = hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
        check_time("times", times.get(key))
        entries[key] = StoredMessage(message, body, digest, is_visible, times.get(key))
    return entries


def _says(content: Row | StoredMessage) -> tuple[str, bool]:
    return content.digest, bool(content.is_visible)


def _is_new(entry: StoredMessage, known: Sequence[Row]) -> bool:
    return find_pruned(known) is None and all(_says(row) != _says(entry) for row in known)


# --- Placing messages ----------------------------------------------------------------------------

_ON_BRANCH: Final = (
    message_rows.c.thread_id == bindparam("of_thread"),
    message_rows.c.is_current,
    message_rows.c.position >= bindparam("base"),
)
_STRETCH: Final = (
    select(*PLACE)
    .where(*_ON_BRANCH, message_rows.c.position <= bindparam("last"))
    .order_by(message_rows.c.position)
)
_TAKE_OFF: Final = update(message_rows).where(*_ON_BRANCH).values(is_current=False)
_OF_NODE: Final = (
    message_rows.c.thread_id == bindparam("of_thread"),
    message_rows.c.node == bindparam("of_node"),
)
_MOVE: Final = (
    update(message_rows).where(*_OF_NODE).values(position=bindparam("to_position"), is_current=True)
)
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


class _Step(NamedTuple):
    """A message that comes next on a branch."""

    key: str
    digest: str
    is_visible: bool
    former: str | None = None
    """The node that has its content already; `None` where the content is given."""


class _Place(NamedTuple):
    """Where a message goes on the current branch."""

    position: int
    node: str
    parent: str | None = None
    step: _Step | None = None
    """The message; `None` where the node is there already."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """The messages of a thread, which is locked, while some are put in their places."""

    connection: Connection
    thread_id: str
    known: dict[str, list[Row]]
    """By key, where messages stand."""
    entries: Mapping[str, StoredMessage]
    """The messages by key, in order; at least one."""

    def put(self, after: str | None, name: str | None) -> str | None:
        """Put the messages behind one, on a branch, and return the name of that then."""
        branch, at = self._find_start(self._find_branch(name), after)
        base, steps, is_whole = self._find_steps(branch, at)
        nodes = self._put_steps(branch, base, steps)
        if name is not None and is_whole:
            return [*nodes.values()][-1] if nodes else name
        last = [*self.entries][-1]
        return nodes.get(last) or next(
            row.node for row in self.known[last] if branch.find(row) == at + len(self.entries)
        )

    def _find_branch(self, name: str | None) -> Branch:
        """Return a branch by its name, which nearly always ends with a message that is known."""
        for row in (row for rows in self.known.values() for row in rows):
            if row.node == name and row.is_current:
                return Branch(row.position)
        return find_branch(self.connection, self.thread_id, name)

    def _find_start(self, branch: Branch, after: str | None) -> tuple[Branch, int]:
        """Return the branch of `after`, and its position there; -1 where that is the start.

        An unknown one stands for what the first message follows already, or else for the end.
        """
        if after is None:
            return branch, -1
        row = branch.choose(self.known[after])
        follower = branch.choose(self.known[next(iter(self.entries))]) if row is None else None
        one = row or follower
        if one is None:
            if branch is CURRENT:
                return branch, find_last_position(self.connection, self.thread_id)
            return branch, branch.length - 1
        at = branch.find(one)
        if at is None:
            branch = find_branch(self.connection, self.thread_id, one.node)
            at = branch.length - 1
        return branch, at if follower is None else at - 1

    def _find_steps(self, branch: Branch, at: int) -> tuple[int, list[_Step], bool]:
        """Return what has to follow on a branch, and from which position on.

        Returns:
            The position, the messages, and whether the branch has them all behind `at`: then what
            follows them there still does.
        """
        steps = [
            _Step(key, *_says(entry), find_pruned(self.known[key]))
            for key, entry in self.entries.items()
        ]
        held = [
            next((row for row in self.known[step.key] if branch.find(row) == place), None)
            for place, step in enumerate(steps, start=at + 1)
        ]
        if None not in held:
            pairs = enumerate(zip(held, steps, strict=True))
            changed = next((n for n, (row, step) in pairs if _differs(row, step)), None)
            if changed is None:
                return branch.length, [], True
            behind = self._read(branch, at + 1 + len(steps), EVERYWHERE)
            return at + 1 + changed, [*steps[changed:], *self._copy(behind)], True
        rows = (row for key in self.entries for row in self.known[key])
        moved = [place for row in rows if (place := branch.find(row)) is not None and place <= at]
        base = min(moved, default=at + 1)
        between = self._read(branch, base, at) if moved else []
        kept = [row for row in between if row.key not in self.entries]
        return base, [*self._copy(kept), *steps], False

    def _put_steps(self, branch: Branch, base: int, steps: Sequence[_Step]) -> dict[str, str]:
        """Make a branch the current one, up to a position, and put messages there.

        Returns:
            By key, the nodes of the messages.
        """
        before = branch.off[: max(0, base - branch.last - 1)]
        start = base - len(before)
        places = [_Place(n, row.node) for n, row in enumerate(before, start=start)]
        parent = before[-1].node if before else self._find_node(branch, base - 1, steps)
        for step in steps:
            places.append(_Place(start + len(places), _name_node(parent, step), parent, step))
            parent = places[-1].node
        nodes = {place.step.key: place.node for place in places if place.step is not None}
        rows = {row.node: row for rows in self.known.values() for row in rows}
        while places and _is_at(rows.get(places[0].node), places[0].position):
            places.pop(0)
        if places:
            self._make_current(places, {*rows})
        return nodes

    def _make_current(self, places: Sequence[_Place], there: set[str]) -> None:
        """Let the current branch end with these.

        Args:
            there: The nodes that have rows.
        """
        of_thread = {"of_thread": self.thread_id}
        self.connection.execute(_TAKE_OFF, {**of_thread, "base": places[0].position})
        inserted: list[dict[str, Any]] = []
        copied: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        for position, node, parent, step in places:
            if step is None or node in there:
                moved.append({**of_thread, "of_node": node, "to_position": position})
            elif step.former is not None:
                place = {"to_node": node, "to_parent": parent, "to_position": position}
                copied.append({**of_thread, "of_node": step.former, **place})
            else:
                entry = self.entries[step.key]
                former = (row.written for row in self.known[step.key] if row.written is not None)
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
                        "written": next(former, entry.written),
                    }
                )
        run_for_each(self.connection, insert(message_rows), inserted)
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


def _differs(row: Row, step: _Step) -> bool:
    return row.digest != GONE and _says(row) != (step.digest, step.is_visible)


def _is_at(row: Row | None, position: int) -> bool:
    return row is not None and row.is_current and row.position == position


def _name_node(parent: str | None, step: _Step) -> str:
    """Name a message in its place, by what is before it and what it says."""
    text = repr((parent, step.key, step.digest, step.is_visible))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
