"""The archive in SQLite or PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Engine, and_, delete, or_, select, update

from langgraph_om.archive.protocol import Claim, JobView, MessageArchive
from langgraph_om.archive.sql.database import Database, database_clock, insert_into
from langgraph_om.archive.sql.messages import SQLMessages
from langgraph_om.archive.sql.records import SQLGroups, SQLRecords
from langgraph_om.archive.sql.schema import job_rows, job_thread_rows
from langgraph_om.archive.sql.search import SQLSearch
from langgraph_om.archive.sql.threads import SQLThreads
from langgraph_om.archive.sql.values import check_name, check_seconds, encode_json

# Jobs: one worker at a time holds one, by a lease, and only who holds it can finish it.
#
# All times are the database's, in the statements themselves.


class SQLJobs:
    """The jobs of an archive in SQL."""

    _database: Database

    def claim(
        self,
        job_id: str,
        owner: str,
        *,
        seconds: float,
        thread_id: str,
        resource_id: str | None,
        about: Sequence[str] = (),
    ) -> Claim:
        """Ask for a job, and for a lease of it."""
        check_name("owner", owner)
        check_seconds("seconds", seconds)
        ends = database_clock() + seconds
        is_free = or_(job_rows.c.owner == owner, job_rows.c.ends <= database_clock())
        with self._database.write("claim a job") as connection:
            new = insert_into(connection, job_rows).values(
                id=job_id, thread_id=thread_id, resource_id=resource_id, owner=owner, ends=ends
            )
            taking = new.on_conflict_do_update(
                index_elements=["id"],
                set_={"owner": owner, "ends": ends},
                where=and_(job_rows.c.result.is_(None), is_free),
            )
            connection.execute(taking)
            for key in dict.fromkeys(about):
                told = insert_into(connection, job_thread_rows).values(job_id=job_id, thread_id=key)
                connection.execute(told.on_conflict_do_nothing())
            held = select(job_rows.c.owner, job_rows.c.result).where(job_rows.c.id == job_id)
            row = connection.execute(held).one_or_none()
        if row is None:  # deleted by another, between the two
            return "taken"
        if row.result is not None:
            return "done"
        return "mine" if row.owner == owner else "taken"

    def renew(self, job_id: str, owner: str, *, seconds: float) -> bool:
        """Let a lease last this long from now, and return whether the owner still holds the job."""
        check_seconds("seconds", seconds)
        held = update(job_rows).where(_is_held(job_id, owner))
        with self._database.write("renew a lease") as connection:
            return connection.execute(held.values(ends=database_clock() + seconds)).rowcount == 1

    def finish(self, job_id: str, owner: str, result: Mapping[str, Any]) -> bool:
        """Keep the result if the owner holds the job, and return whether it is the job's result."""
        body = encode_json(f"the result of the job {job_id!r}", result)
        held = update(job_rows).where(_is_held(job_id, owner))
        with self._database.write("finish a job") as connection:
            done = connection.execute(held.values(result=body, ends=database_clock()))
            if done.rowcount == 1:
                return True
            is_it = (job_rows.c.id == job_id, job_rows.c.owner == owner)
            return connection.execute(select(job_rows.c.id).where(*is_it)).first() is not None

    def release(self, job_id: str, owner: str) -> None:
        """Give a job back unfinished, if the owner holds it."""
        with self._database.write("release a job") as connection:
            connection.execute(delete(job_rows).where(_is_held(job_id, owner)))

    def job(self, job_id: str) -> JobView | None:
        """Return what is known of a job."""
        left = (job_rows.c.ends - database_clock()).label("left")
        query = select(job_rows, left).where(job_rows.c.id == job_id)
        with self._database.read("read a job") as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.result is not None:
            return JobView("done", row.owner, json.loads(row.result), 0.0)
        return JobView("running" if row.left > 0 else "expired", row.owner, None, row.left)

    def prune_jobs(self, *, older_than: float) -> int:
        """Forget jobs that are done or abandoned for more seconds than this; return how many."""
        check_seconds("older_than", older_than)
        old = delete(job_rows).where(job_rows.c.ends < database_clock() - older_than)
        with self._database.write("prune jobs") as connection:
            pruned = connection.execute(old).rowcount
            is_gone = job_thread_rows.c.job_id.not_in(select(job_rows.c.id))
            connection.execute(delete(job_thread_rows).where(is_gone))
            return pruned


def _is_held(job_id: str, owner: str) -> ColumnElement[bool]:
    """Build the condition that this owner holds the job, whether or not the lease has ended."""
    return and_(job_rows.c.id == job_id, job_rows.c.owner == owner, job_rows.c.result.is_(None))


class SQLAlchemyArchive(
    SQLThreads, SQLMessages, SQLSearch, SQLGroups, SQLRecords, SQLJobs, MessageArchive
):
    """An archive in an SQLite file or a PostgreSQL database, shared by threads and processes.

    Its tables, and a function in PostgreSQL, are named `om_...` and are made on first use; making
    the object opens no connection.

        SQLAlchemyArchive("sqlite:///memory.db")
        SQLAlchemyArchive("postgresql://user:secret@host/database")

    Args:
        url_or_engine: SQLAlchemy's URL, or an engine, which stays the caller's: `close` leaves it
            open, and an engine for SQLite is used with the settings it has.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """

    def __init__(self, url_or_engine: str | Engine) -> None:
        self._database = Database(url_or_engine)

    @property
    def place(self) -> str:
        """Where the database is, without a password; for warnings."""
        url = self._database.engine.url.set(query={})
        return url.render_as_string(hide_password=True)

    def setup(self) -> None:
        """Prepare the storage. Every other call does so on first use; doing it again is harmless.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are those of another version of this package.
        """
        self._database.setup()

    def close(self) -> None:
        """Let go of connections, unless the engine is the caller's; a later call opens new ones."""
        self._database.close()
