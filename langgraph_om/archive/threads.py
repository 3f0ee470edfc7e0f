"""Threads: whose they are, how they are listed, and how writers lock them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    update,
)

from langgraph_om.archive.database import (
    Database,
    Row,
    fetch_in_chunks,
    hold_name,
    insert_into,
    split_into_chunks,
)
from langgraph_om.archive.search import give_to_resource
from langgraph_om.archive.tables import (
    deletion_rows,
    group_rows,
    job_rows,
    message_rows,
    thread_rows,
)
from langgraph_om.archive.types import (
    PRUNED,
    ArchivedThread,
    Deleted,
    ListedThread,
    UnobservedThread,
    check_time,
    sum_deletions,
)
from langgraph_om.core.config.options import check_number
from langgraph_om.core.content.message_keys import add_parents
from langgraph_om.errors import ArchiveLacksError, ConfigurationError

_IS_THREAD: Final = thread_rows.c.id == bindparam("of_thread")
_SELECT: Final = select(thread_rows).where(_IS_THREAD)
_LOCK: Final = _SELECT.with_for_update(key_share=True)
_UPDATE: Final = update(thread_rows).where(_IS_THREAD).values(updated=bindparam("to_updated"))
_NAME: Final = _UPDATE.values(title=bindparam("to_title"))


def lock_thread(
    connection: Connection,
    thread_id: str,
    resource_id: str | None,
    now: datetime,
    *,
    deletion: int | None,
    prunings: int | None = None,
    parent: str | None = None,
) -> Row:
    """Lock a thread for this transaction, made if it is new, and return its row.

    Args:
        deletion: How often thread and resource were deleted, as far as the writer knows; `None`: it
            does not matter.
        prunings: How often old messages of it were pruned, likewise.

    Raises:
        ArchiveLacksError: When either number is different by now.
        ConfigurationError: When it belongs to another resource.
    """
    if resource_id is not None:  # a new thread has no row that the resource's deletion could see
        hold_name(connection, "resource", resource_id)
    whose = {"of_thread": thread_id}
    found = connection.execute(_LOCK, whose).one_or_none()
    if found is None:
        new = insert_into(connection, thread_rows).values(
            id=thread_id, resource_id=resource_id, created=now, updated=now, parent=parent
        )
        # Of one that somebody else has just made, an update that changes nothing locks the row.
        same = {"updated": thread_rows.c.updated}
        connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=same))
        found = connection.execute(_LOCK, whose).one()
    if resource_id is not None and found.resource_id != resource_id:
        if found.resource_id is not None:
            msg = (
                f"`resource_id` is {resource_id!r}, and the thread {thread_id!r} belongs to "
                f"another user; pass that `resource_id`, or another thread"
            )
            raise ConfigurationError(msg)
        give_thread(connection, thread_id, None, resource_id)
    if deletion is not None:
        gone = count_deletions(connection, resource_id, [thread_id])
        is_told = prunings in {None, gone.get((PRUNED, thread_id), 0)}
        if sum_deletions(gone) != deletion or not is_told:
            raise ArchiveLacksError(thread_id)
    return found


def count_deletions(
    connection: Connection, resource_id: str | None, thread_ids: Sequence[str]
) -> dict[tuple[Deleted, str], int]:
    """Return how often a resource and threads were deleted or pruned, if they ever were."""
    kind, key = deletion_rows.c.kind, deletion_rows.c.id
    query, found = select(kind, key, deletion_rows.c.number), dict[tuple[Deleted, str], int]()
    for ids in split_into_chunks([*thread_ids]) or [[]]:
        of_threads = and_(kind.in_(["thread", PRUNED]), key.in_(ids))
        of_resource = and_(kind == "resource", key == resource_id)
        rows = connection.execute(query.where(or_(of_threads, of_resource)))
        found |= {(row.kind, row.id): row.number for row in rows}
    return found


def give_thread(
    connection: Connection, thread_id: str, former: str | None, resource_id: str
) -> None:
    """Give a locked thread and all that it holds to a resource."""
    for table, column in (
        (thread_rows, thread_rows.c.id),
        (group_rows, group_rows.c.thread_id),
        (job_rows, job_rows.c.thread_id),
    ):
        is_former = table.c.resource_id.is_not_distinct_from(former)
        whose = update(table).where(column == thread_id, is_former)
        connection.execute(whose.values(resource_id=resource_id))
    give_to_resource(connection, thread_id, resource_id, former=former)


def is_left_of_deleted(
    connection: Connection, thread_ids: Sequence[str], resource_id: str | None
) -> bool:
    """Return whether one of some threads was deleted and is empty.

    Deleted by itself, with its resource, or with the thread it runs in. What is known of it is of
    messages that are gone: the writer was not told yet. Until the end of the transaction none of
    them is deleted.
    """
    ids = sorted({*filter(None, thread_ids)})
    names = sorted(add_parents(ids))
    of_thread = select(thread_rows.c.id)
    there = {row.id for row in fetch_in_chunks(connection, of_thread, thread_rows.c.id, names)}
    for thread_id in names:
        if thread_id not in there:
            hold_name(connection, "thread", thread_id)
    for some in split_into_chunks(names):
        locked = of_thread.where(thread_rows.c.id.in_(some)).order_by(thread_rows.c.id)
        connection.execute(locked.with_for_update(read=True, key_share=True))
    kind, name = deletion_rows.c.kind, deletion_rows.c.id
    is_all = select(name).where(kind == "resource", name == resource_id)
    if connection.execute(is_all).first() is None:
        threads = select(name).where(kind == "thread")
        gone = {row.id for row in fetch_in_chunks(connection, threads, name, names)}
        ids = [each for each in ids if not gone.isdisjoint(add_parents([each]))]
    has_messages = exists().where(message_rows.c.thread_id == thread_rows.c.id)
    of_thread = select(thread_rows.c.id).where(has_messages)
    kept = fetch_in_chunks(connection, of_thread, thread_rows.c.id, ids)
    return len([*kept]) < len(ids)


def touch(connection: Connection, locked: Row, now: datetime) -> None:
    """Note that something is new in a thread, whose row is locked; time never goes back."""
    if now > locked.updated:
        connection.execute(_UPDATE, {"of_thread": locked.id, "to_updated": now})


def name_thread(connection: Connection, locked: Row, now: datetime, title: str | None) -> None:
    """Name a thread, whose row is locked; time never goes back."""
    values = {"to_updated": max(locked.updated, now), "to_title": title}
    connection.execute(_NAME, {"of_thread": locked.id, **values})


class Threads(Database):
    """The threads of an archive in SQL."""

    def set_title(self, thread_id: str, title: str, now: datetime) -> None:
        """Name a thread; a missing one is not created."""
        check_time("now", now)
        with self._writing("set a title") as connection:
            is_it = thread_rows.c.id == thread_id
            query = select(thread_rows).where(is_it).with_for_update()
            row = connection.execute(query).one_or_none()
            if row is not None and row.title != title:
                name_thread(connection, row, now, title)

    def thread(self, thread_id: str) -> ArchivedThread | None:
        """Return a thread."""
        with self._reading("read a thread") as connection:
            row = connection.execute(_SELECT, {"of_thread": thread_id}).one_or_none()
        return None if row is None else read_thread(row)

    def threads(
        self,
        resource_id: str,
        *,
        page: int = 0,
        limit: int = 20,
        before: datetime | None = None,
        after: datetime | None = None,
    ) -> tuple[list[ArchivedThread], bool]:
        """Return a page of a resource's threads, newest updated first, and whether more follow.

        A thread that runs within another one, which is there too, is left out.

        Args:
            page: Which page, 0-based.
            before: Keep threads created before this time.
            after: Keep threads created at this time or later.
        """
        check_number("page", page)
        check_number("limit", limit)
        check_time("before", before)
        check_time("after", after)
        query = _select_threads(resource_id).offset(page * limit).limit(limit + 1)
        if before is not None:
            query = query.where(thread_rows.c.created < before)
        if after is not None:
            query = query.where(thread_rows.c.created >= after)
        with self._reading("list threads") as connection:
            found = [read_thread(row) for row in connection.execute(query)]
        return found[:limit], len(found) > limit

    def unobserved(self, resource_id: str, *, limit: int) -> list[UnobservedThread]:
        """Return the threads of a resource that are not observed to their end, newest first.

        One that continued on a branch other than the observed one is left out until its own next
        turn, which says how much of it is observed.
        """
        check_number("limit", limit)
        place = message_rows.c
        is_current = (place.thread_id == thread_rows.c.id, place.is_current)
        last = select(func.max(place.position)).where(*is_current).scalar_subquery()
        is_observed = (place.thread_id == thread_rows.c.id, place.key == thread_rows.c.observed)
        at = select(func.max(place.position)).where(*is_observed, place.is_current)
        seen, is_known = at.scalar_subquery(), exists().where(*is_observed)
        query = (
            _select_threads(resource_id)
            .add_columns(last.label("last"), seen.label("seen"))
            .where(last > func.coalesce(seen, -1), or_(seen.is_not(None), ~is_known))
            .limit(limit)
        )
        with self._reading("list unobserved threads") as connection:
            return [
                UnobservedThread(
                    read_thread(row),
                    row.observed,
                    0 if row.seen is None else row.seen + 1,
                    row.last + 1,
                )
                for row in connection.execute(query)
            ]

    def idle_threads(self, before: datetime) -> list[ArchivedThread]:
        """Return the threads that `prune_threads` would delete."""
        with self._reading("list threads") as connection:
            return [read_thread(row) for row in connection.execute(select_idle_threads(before))]

    def list_threads(
        self,
        *,
        text: str = "",
        resource_id: str | None = None,
        limit: int,
        behind: tuple[datetime, str] | None = None,
    ) -> list[ListedThread]:
        """Return threads of everybody, newest updated first, without those that run within others.

        It is the one method that answers across resources, for those who operate the archive:
        whoever shows the list decides who may see which thread.

        Args:
            text: Keep threads with this text in their title, id or resource, in any case.
            resource_id: Keep the threads of this resource; `None` for all.
            behind: Begin after the thread that was updated then and has this id.
        """
        check_number("limit", limit)
        query = _select_threads(resource_id, "position").limit(limit)
        if text:
            wanted = (thread_rows.c.title, thread_rows.c.id, thread_rows.c.resource_id)
            query = query.where(or_(*[each.icontains(text, autoescape=True) for each in wanted]))
        if behind is not None:
            query = query.where(_is_behind(*behind))
        with self._reading("list threads") as connection:
            return [
                ListedThread(
                    read_thread(row), 0 if row.last_position is None else row.last_position + 1
                )
                for row in connection.execute(query)
            ]


def _select_threads(resource_id: str | None, *of_last: str) -> Select[Any]:
    """Select a resource's threads, or all, newest first, without those that run within others.

    Args:
        of_last: Columns of the last message of each current branch that are selected with it.
    """
    outer = thread_rows.alias("outer_threads")
    is_within = exists().where(outer.c.id == thread_rows.c.parent)
    ends = (
        select(message_rows.c[name])
        .where(message_rows.c.thread_id == thread_rows.c.id, message_rows.c.is_current)
        .order_by(message_rows.c.position.desc())
        .limit(1)
        .scalar_subquery()
        .label(f"last_{name}")
        for name in of_last
    )
    query = (
        select(thread_rows, *ends)
        .where(or_(thread_rows.c.parent.is_(None), ~is_within))
        .order_by(thread_rows.c.updated.desc(), thread_rows.c.id)
    )
    return query if resource_id is None else query.where(thread_rows.c.resource_id == resource_id)


def select_idle_threads(before: datetime) -> Select[Any]:
    """Select threads to which, and within which, nothing has been written since a time."""
    check_time("before", before)
    inner = thread_rows.alias("inner_threads")
    goes_on = exists().where(inner.c.parent == thread_rows.c.id, inner.c.updated >= before)
    return _select_threads(None).where(thread_rows.c.updated < before, ~goes_on)


def _is_behind(updated: datetime, thread_id: str) -> ColumnElement[bool]:
    """Tell whether a thread comes behind one that was updated then and has this id."""
    is_as_old = and_(thread_rows.c.updated == updated, thread_rows.c.id > thread_id)
    return or_(thread_rows.c.updated < updated, is_as_old)


def read_thread(row: Row) -> ArchivedThread:
    """Return a thread from its row."""
    return ArchivedThread(row.id, row.resource_id, row.title, row.created, row.updated)
