"""PostgreSQL: a deletion beside what others write of the thread; one of the two comes first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, event, insert, select, text, update

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.tables import deletion_rows, job_rows, job_thread_rows, record_rows
from support.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine, Table

PATIENCE = 30.0
_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")


class Stopped:
    """An archive that stops once before a statement, as if its process had to wait there."""

    def __init__(self, engine: Engine, statement: str) -> None:
        self.archive = SQLAlchemyArchive(engine)
        self.archive.setup()
        self._statement = statement
        self._reached, self._may_go_on = threading.Event(), threading.Event()
        event.listen(engine, "before_cursor_execute", self._stop)

    def _stop(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(self._statement) and not self._reached.is_set():
            self._reached.set()
            assert self._may_go_on.wait(PATIENCE)

    def beside(
        self, own: Callable[[SQLAlchemyArchive], Any], other: Callable[[SQLAlchemyArchive], Any]
    ) -> tuple[Any, Any]:
        """Do something up to the statement, something else beside it, and then the rest of both."""
        engine = self.archive.engine
        with (
            ThreadPoolExecutor(2) as pool,
            closing(SQLAlchemyArchive(engine.url.render_as_string(hide_password=False))) as second,
        ):
            second.setup()
            first = pool.submit(own, self.archive)
            try:
                assert self._reached.wait(PATIENCE), first
                later = pool.submit(other, second)
                _wait_until_it_waits(engine, later)
            finally:
                self._may_go_on.set()
            return first.result(PATIENCE), later.result(PATIENCE)


def _wait_until_it_waits(engine: Engine, work: Future[Any]) -> None:
    """Wait until work is over, or waits for a lock of somebody else."""
    ends_at = time.monotonic() + PATIENCE
    with engine.connect() as connection:
        while not work.done() and not connection.execute(_WAITING).scalar():
            assert time.monotonic() < ends_at
            connection.rollback()
            time.sleep(0.01)


@contextmanager
def stopped(url: str, statement: str) -> Iterator[Stopped]:
    engine = create_engine(url)
    try:
        yield Stopped(engine, statement)
    finally:
        engine.dispose()


def append(archive: SQLAlchemyArchive, thread: str = "t", key: str = "m1") -> None:
    said = [(key, HumanMessage("The gate code is 4711.", id=key), True)]
    archive.append(thread, "ana", said, after=None, now=START)


def claim(archive: SQLAlchemyArchive) -> str:
    about = ["other"]
    return archive.claim("job", "me", seconds=60, thread_id="t", resource_id="ana", about=about)


def claim_nested(archive: SQLAlchemyArchive) -> str:
    return archive.claim("job", "me", seconds=60, thread_id="t|>helper", resource_id="ana")


def test_a_job_of_messages_from_before_a_deletion_is_not_begun_after_it() -> None:
    """Also where the thread goes on by then: what came of the job would be kept in the archive."""
    archive, lease = SQLAlchemyArchive("sqlite://"), {"seconds": 60, "resource_id": "ana"}
    append(archive)
    archive.delete_thread("t")
    append(archive, key="m2")
    assert archive.claim("old", "me", thread_id="t", deletion=0, **lease) == "taken"
    assert archive.job("old") is None
    assert archive.claim("new", "me", thread_id="t", deletion=1, **lease) == "mine"


DELETIONS = {
    "the thread": lambda archive: archive.delete_thread("t"),
    "what it is about": lambda archive: archive.delete_thread("other"),
    "the resource": lambda archive: archive.delete_resource("ana"),
}


@pytest.mark.parametrize("has_rows", [True, False], ids=["archived", "not archived yet"])
@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
def test_a_job_that_is_claimed_while_its_thread_is_deleted_is_not_left(
    delete: Callable[[SQLAlchemyArchive], None], postgres_sqlalchemy_url: str, *, has_rows: bool
) -> None:
    with stopped(postgres_sqlalchemy_url, "INSERT INTO om_jobs") as one:
        for thread in ("t", "other") if has_rows else ():
            append(one.archive, thread, f"of {thread}")
        claimed, _ = one.beside(claim, delete)
        assert claimed in {"mine", "taken"}
        assert one.archive.job("job") is None
        assert not one.archive.finish("job", "me", {"text": "The gate code is 4711."})


@pytest.mark.parametrize("has_rows", [True, False], ids=["archived", "not archived yet"])
@pytest.mark.parametrize("whose", ["the thread", "the resource"])
def test_a_nested_threads_job_that_is_claimed_while_the_outer_thread_is_deleted_is_not_left(
    postgres_sqlalchemy_url: str, whose: str, *, has_rows: bool
) -> None:
    with stopped(postgres_sqlalchemy_url, "INSERT INTO om_jobs") as one:
        if has_rows:
            append(one.archive)
        one.beside(claim_nested, DELETIONS[whose])
        assert one.archive.job("job") is None
        assert claim_nested(one.archive) == "taken"


@pytest.mark.parametrize("is_new", [True, False], ids=["new thread", "thread"])
@pytest.mark.parametrize("whose", ["the thread", "the resource"])
def test_observations_that_are_added_while_their_thread_is_deleted_are_not_left(
    postgres_sqlalchemy_url: str, whose: str, *, is_new: bool
) -> None:
    def add(archive: SQLAlchemyArchive) -> None:
        archive.add_groups("t", "ana", [{"id": "g", "text": "The gate code is 4711."}], START)

    with stopped(postgres_sqlalchemy_url, "INSERT INTO om_groups") as one:
        if not is_new:
            append(one.archive)
        one.beside(add, DELETIONS[whose])
        assert one.archive.groups(thread_id="t") == []


LOG = {"generation": 0, "log": [{"thread_id": "t", "text": "The code is 4711."}], "of": {"t": []}}


def commit(archive: SQLAlchemyArchive, expected: int) -> bool:
    return archive.commit_record("ana", LOG, expected=expected, now=START)


@pytest.mark.parametrize(("expected", "statement"), [(0, "INSERT INTO"), (1, "UPDATE")])
def test_a_users_log_that_is_written_while_a_thread_is_deleted_has_nothing_of_it(
    postgres_sqlalchemy_url: str, expected: int, statement: str
) -> None:
    with stopped(postgres_sqlalchemy_url, f"{statement} om_records") as one:
        append(one.archive)
        if expected:
            commit(one.archive, 0)
        one.beside(lambda archive: commit(archive, expected), DELETIONS["the thread"])
        assert "4711" not in str(one.archive.record_history("ana"))


@pytest.mark.parametrize("is_new", [True, False], ids=["new thread", "thread"])
def test_a_message_that_is_appended_while_its_thread_is_deleted_is_kept_whole(
    postgres_sqlalchemy_url: str, *, is_new: bool
) -> None:
    with stopped(postgres_sqlalchemy_url, "DELETE FROM om_threads") as one:
        if not is_new:
            append(one.archive, key="m0")
        one.beside(DELETIONS["the thread"], append)
        found = one.archive.messages("t", limit=9)
        assert [each.key for each in found] == ["m1"]
        assert one.archive.thread("t") is not None


@pytest.mark.parametrize("is_new", [True, False], ids=["new thread", "thread"])
def test_a_thread_that_is_deleted_while_a_message_is_appended_goes_with_it(
    postgres_sqlalchemy_url: str, *, is_new: bool
) -> None:
    with stopped(postgres_sqlalchemy_url, "INSERT INTO om_messages") as one:
        if not is_new:
            one.archive.claim("job", "me", seconds=60, thread_id="t", resource_id="ana")
            one.archive.add_groups("t", "ana", [{"id": "g"}], START)
        one.beside(append, DELETIONS["the thread"])
        assert one.archive.messages("t", limit=9) == []
        assert one.archive.thread("t") is None
        assert one.archive.job("job") is None


def test_a_log_that_is_out_of_date_and_a_deletion_do_not_wait_for_each_other(
    postgres_sqlalchemy_url: str,
) -> None:
    with stopped(postgres_sqlalchemy_url, "never") as one, ThreadPoolExecutor(2) as pool:
        append(one.archive)
        commit(one.archive, 0)
        with one.archive.engine.begin() as connection:
            connection.execute(update(record_rows).values(revision=2))
            stale = pool.submit(commit, one.archive, 1)
            _wait_until_it_waits(one.archive.engine, stale)
            gone = pool.submit(one.archive.delete_thread, "t")
            time.sleep(0.3)
        assert (stale.result(PATIENCE), gone.result(PATIENCE)) == (False, "ana")


@pytest.mark.parametrize("table", [job_rows, job_thread_rows, deletion_rows], ids=str)
def test_what_is_pruned_waits_for_nobody_and_leaves_what_others_are_at(
    postgres_sqlalchemy_url: str, table: Table
) -> None:
    """It would hold some of these rows meanwhile, for which the others may wait in turn."""
    hurried = f"{postgres_sqlalchemy_url}&options=-c%20lock_timeout%3D500ms"
    with closing(SQLAlchemyArchive(hurried)) as archive, stopped(hurried, "never") as other:
        for thread in ("t", "u"):
            archive.delete_thread(thread)
            archive.claim(thread, "me", seconds=60, thread_id=f"of {thread}", resource_id=None)

        def count() -> int:
            with archive._reading("look") as connection:
                return len(connection.execute(select(table)).all())

        def prune() -> None:
            archive.prune_jobs(older_than=0)
            archive.prune_deletions(older_than=0)

        with archive._writing("end jobs") as connection:
            connection.execute(update(job_rows).values(ends=0))
            for job in ("a", "b"):
                gone = insert(job_thread_rows).values(job_id=job, thread_id="t")
                connection.execute(gone)
        with other.archive.engine.begin() as connection:
            connection.execute(select(table).limit(1).with_for_update())
            prune()
            assert count() == 1
        prune()
        assert count() == 0
