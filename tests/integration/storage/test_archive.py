"""The archive in SQL: the conformance suite, and what is particular to SQLite and PostgreSQL."""

from __future__ import annotations

import gc
import re
import socket
import socketserver
import sqlite3
import sys
import threading
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from psycopg import connect
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import StaticPool

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.tables import VERSION
from langgraph_om.errors import ArchiveError, ConfigurationError, ObservationalMemoryError
from support.agents import make_agent, on_thread, talk, turns
from support.archive_checks import archive_conformance
from support.processes import archive_workers
from support.processes.archive_workers import WORKERS, run_together
from support.processes.forks import start
from support.savers import fresh_database
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Engine

NOW = archive_workers.NOW
CHECKS = [name for name, _ in archive_conformance(lambda: None)]


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    return tmp_path / "archive.db"


def said(*keys: str) -> list[tuple[str, BaseMessage, bool]]:
    return [(key, HumanMessage(f"says {key}"), True) for key in keys]


def shown(archive: SQLAlchemyArchive, thread: str = "t") -> list[str]:
    return [each.key for each in archive.messages(thread, limit=1000)]


# --- The suite -----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A database of each kind for all checks, as these may share one."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('checks') / 'archive.db'}"
        return
    with fresh_database(request.getfixturevalue("postgres_url")) as found:
        yield found.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(name: str, shared_url: str) -> None:
    dict(archive_conformance(lambda: SQLAlchemyArchive(shared_url)))[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_conformance_in_memory(name: str) -> None:
    dict(archive_conformance(lambda: SQLAlchemyArchive("sqlite://")))[name]()


def with_own_transactions(url: str, **options: Any) -> Engine:
    """An engine that begins by an event, as SQLAlchemy's documentation has it for SQLite."""
    engine = create_engine(url, **options)

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@pytest.mark.parametrize(("at", "name"), [*enumerate(CHECKS)], ids=CHECKS)
def test_conformance_with_the_callers_engine(at: int, name: str, sqlite_file: Path) -> None:
    """Each check with one of two engines; both ask the same of SQLite, and begin otherwise."""
    make = (create_engine, with_own_transactions)[at % 2]
    engine = make(f"sqlite:///{sqlite_file}", connect_args={"timeout": 60})  # of a busy machine
    dict(archive_conformance(lambda: SQLAlchemyArchive(engine)))[name]()
    engine.dispose()


# --- Branches ------------------------------------------------------------------------------------

KEYS = "abcdef"
WORDS = ["old", "new"]
APPENDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=4),
        st.lists(st.sampled_from(WORDS), min_size=4, max_size=4),
        st.integers(0, 6),
        st.integers(0, 6),
    ),
    max_size=8,
)
Told = list[tuple[str, str]]
"""Keys, and what they say."""


class Conversation:
    """What a thread ought to look like: the current branch, and all that were named."""

    def __init__(self) -> None:
        self.current: Told = []
        self.named: dict[str, Told] = {}

    def append(self, told: Told, after: str | None, branch: str | None) -> Told:
        """Tell messages, and return the branch that has the name then."""
        path = self.current if branch is None else self.named[branch]
        at = 0 if after is None else [key for key, _ in path].index(after) + 1
        keys = [key for key, _ in told]
        if [key for key, _ in path[at : at + len(told)]] == keys:
            after_edit = [*path[:at], *told, *path[at + len(told) :]]
        else:
            after_edit = [*(each for each in path[:at] if each[0] not in keys), *told]
        if self.current[: len(after_edit)] != after_edit:
            self.current = after_edit
        return after_edit if branch else after_edit[: after_edit.index(told[-1]) + 1]


@given(APPENDS)
def test_each_branch_reads_as_it_was_told(
    appends: list[tuple[list[str], list[str], int, int]],
) -> None:
    conversation = Conversation()
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        for keys, words, which, where in appends:
            branch = [None, *conversation.named][which % (len(conversation.named) + 1)]
            path = conversation.named[branch] if branch else conversation.current
            after = [None, *(key for key, _ in path)][where % (len(path) + 1)]
            if after in keys:
                continue
            told = [*zip(keys, words, strict=False)]
            entries = [(key, HumanMessage(text_), True) for key, text_ in told]
            name = archive.append("t", None, entries, after=after, now=NOW, branch=branch)
            assert name is not None
            wanted = conversation.append(told, after, branch)
            assert conversation.named.get(name, wanted) == wanted
            conversation.named[name] = wanted
            for each, there in {None: conversation.current, **conversation.named}.items():
                found = archive.messages("t", limit=100, branch=each)
                assert [(one.key, one.message.content) for one in found] == there
                assert [one.position for one in found] == list(range(len(found)))
            known = {key for there in conversation.named.values() for key, _ in there}
            assert len(archive.branch("t", [*known])) == len(known)


def test_a_long_branch_is_found_again(archive: SQLAlchemyArchive) -> None:
    first, second = [f"a{i}" for i in range(3000)], [f"b{i}" for i in range(1500)]
    archive.append("t", None, said(*first), after=None, now=NOW)
    archive.append("t", None, said(*second), after="a1499", now=NOW)
    archive.append("t", None, said("end"), after="a2999", now=NOW)
    found = archive.messages("t", limit=5000)
    assert [each.key for each in found] == [*first, "end"]
    assert archive.last_position("t") == 3000


def test_an_edit_leaves_one_content_on_its_branch(
    archive: SQLAlchemyArchive, engine: Engine
) -> None:
    for text_ in ("one", "two", "two", "three"):
        archive.append("t", None, [("a", HumanMessage(text_), True)], after=None, now=NOW)
    with engine.connect() as connection:
        query = text("SELECT body FROM om_messages ORDER BY is_current DESC")
        bodies = connection.execute(query).scalars().all()
    assert len(bodies) == 3
    assert "three" in bodies[0]


# --- Texts ---------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(), max_size=20) | st.text(r"\0u d8\ud800\x00", max_size=12)


@given(st.lists(ANY_TEXT.filter(bool), unique=True, min_size=1, max_size=5))
def test_any_texts_come_back_and_stay_apart(texts: list[str]) -> None:
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        for each in texts:
            entry = (each, AIMessage(each, name=each), True)
            archive.append(each, "r" + each, [entry], after=None, now=NOW, title=each)
        for each in texts:
            (found,) = archive.messages(each, limit=2)
            assert (found.key, found.thread_id, found.message.content) == (each, each, each)
            (thread,), _ = archive.threads("r" + each)
            assert (thread.id, thread.title) == (each, each)
            assert archive.contains(each, texts) == {each}


def test_a_large_message_is_kept(archive: SQLAlchemyArchive) -> None:
    large = "\x00 \ud800 word\n" * 1_000_000
    archive.append("t", None, [("a", HumanMessage(large), True)], after=None, now=NOW)
    (found,) = archive.branch("t", ["a"])
    assert found.content == large


# --- Several processes ---------------------------------------------------------------------------


def test_processes_set_up_at_once(
    processes: ProcessPoolExecutor, archive: SQLAlchemyArchive, engine: Engine, url: str
) -> None:
    run_together(processes, archive_workers.set_up, url, [(i,) for i in range(WORKERS)])
    threads, _ = archive.threads("r")
    assert {each.id for each in threads} == {f"thread {i}" for i in range(WORKERS)}
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT version FROM om_schema")).all()
    assert [tuple(row) for row in rows] == [(VERSION,)]


def test_processes_append_to_one_thread(
    processes: ProcessPoolExecutor, archive: SQLAlchemyArchive, url: str
) -> None:
    run_together(processes, archive_workers.say, url, [(i, 20) for i in range(WORKERS)])
    found = archive.messages("thread", limit=1000)
    assert [each.position for each in found] == list(range(20 * WORKERS))
    for worker in range(WORKERS):
        own = [each.key for each in found if each.key.startswith(f"{worker} ")]
        assert own == [f"{worker} {i}" for i in range(20)]


def test_processes_count_to_exactly_n(
    processes: ProcessPoolExecutor, archive: SQLAlchemyArchive, url: str
) -> None:
    run_together(processes, archive_workers.count_up, url, [(20,)] * WORKERS)
    record, revision = archive.load_record("r")
    assert record == {"generation": 8, "count": 80}
    assert revision == 80
    history = archive.record_history("r", limit=100)
    assert [each["record"]["count"] for each in history] == [80, *range(79, 8, -10)]


def test_each_job_gets_one_owner(
    processes: ProcessPoolExecutor, archive: SQLAlchemyArchive, url: str
) -> None:
    owners = [(f"owner {i}", 20) for i in range(WORKERS)]
    claims = run_together(processes, archive_workers.claim_all, url, owners)
    for job in zip(*claims, strict=True):
        assert sorted(job) == ["mine", *["taken"] * (WORKERS - 1)]
    held = [archive.release(f"job {i}", name) for i in range(20) for name, _ in owners]
    assert held.count(True) == 20


@pytest.mark.parametrize("statement", ["INSERT INTO om_threads", "INSERT INTO om_messages"])
def test_a_killed_writer_leaves_nothing(
    archive: SQLAlchemyArchive, url: str, statement: str
) -> None:
    archive.append("other", "r", said("a"), after=None, now=NOW)
    process = start(archive_workers.die_after, url, statement)
    process.join(timeout=120)
    assert process.exitcode == -9
    process.close()
    assert archive.thread("thread") is None
    assert archive.contains("thread", ["m0", "m1", "m2"]) == set()
    archive.append("thread", "r", said("m0", "m1"), after=None, now=NOW)
    assert shown(archive, "thread") == ["m0", "m1"]
    assert shown(archive, "other") == ["a"]


# --- The tables ----------------------------------------------------------------------------------


def test_a_setup_that_fails_makes_nothing(archive: SQLAlchemyArchive, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE om_jobs (id INTEGER)"))
    with pytest.raises(ArchiveError, match="could not be set up"):
        archive.setup()
    assert inspect(engine).get_table_names() == ["om_jobs"]


@pytest.mark.parametrize("version", [0, VERSION + 7])
def test_tables_of_another_version_are_refused(url: str, engine: Engine, version: int) -> None:
    with closing(SQLAlchemyArchive(url)) as archive:
        archive.append("t", None, said("a"), after=None, now=NOW)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE om_schema SET version = {version}"))  # noqa: S608
    with closing(SQLAlchemyArchive(url)) as archive:
        with pytest.raises(ConfigurationError, match=rf"version {version}.*another database"):
            archive.setup()
        with pytest.raises(ConfigurationError, match="another database"):
            archive.append("t", None, said("b"), after="a", now=NOW)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM om_messages")).scalar() == 1


READS: dict[str, tuple[Callable[[SQLAlchemyArchive], object], str]] = {
    "a page": (lambda a: a.messages("t", limit=20, start=5, stop=90), "om_messages_"),
    "a page from the end": (
        lambda a: a.messages("t", limit=20, offset=20, newest_first=True),
        "om_messages_",
    ),
    "a page with all": (
        lambda a: a.messages("t", limit=20, start=5, visible_only=False),
        "om_messages_branch",
    ),
    "the end": (lambda a: a.last_position("t"), "om_messages_branch"),
    "threads": (lambda a: a.threads("r", page=2), "om_threads_of_resource"),
    "threads of a time": (
        lambda a: a.threads("r", before=NOW, after=NOW),
        "om_threads_of_resource",
    ),
    "groups of a thread": (lambda a: a.groups(thread_id="t"), "om_groups_of_thread"),
    "groups of a resource": (lambda a: a.groups(resource_id="r"), "om_groups_of_resource"),
    "a message": (lambda a: a.find("k", thread_id="t"), "om_messages"),
    "a message of a resource": (lambda a: a.find("k", resource_id="r"), "om_messages_by_key"),
}


@pytest.mark.parametrize("read", READS)
def test_reads_use_an_index(read: str, engine: Engine) -> None:
    call, index = READS[read]
    statements: list[tuple[str, Any]] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        statements.append((statement, parameters))

    archive = SQLAlchemyArchive(engine)
    archive.setup()
    call(archive)
    query = next(each for each in reversed(statements) if each[0].startswith("SELECT"))
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if not is_sqlite:  # an empty table is read faster without
            connection.exec_driver_sql("SET enable_seqscan = off")
            connection.exec_driver_sql("SET enable_bitmapscan = off")
        explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        rows = connection.exec_driver_sql(explain + query[0], query[1]).all()
    plan = "\n".join(str(row[-1]) for row in rows)
    assert index in plan, plan
    assert "SCAN" not in plan, plan
    assert "Seq Scan" not in plan, plan
    if not read.startswith("a message"):  # of those, one key has few
        assert "TEMP B-TREE" not in plan, plan
        assert "Sort" not in plan, plan


# --- Opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory.db", "sqlite:///memory.db"),
        ("", "sqlite:///memory.db"),
        (None, "sqlite:///memory.db"),
        (3, "Engine"),
        ("mysql://user:secret@host/x", "PostgreSQL|postgresql"),
        ("nonsense://user:secret@host/x", "postgresql://"),
        ("sqlite+aiosqlite:///memory.db", "asynchronous"),
        ("postgresql+asyncpg://user:secret@host/x", "asynchronous"),
        ("postgres:user:secret@host", "postgresql://"),
        ("postgresql://user:secret/secret@secret@host:x", "postgresql://"),
        ("postgresql://user:s@secret@host/x", "%40"),
        ("postgresql://user:s@host/secret@host/x", "%40"),
        ("mysql://host/x?password=secret", "PostgreSQL|postgresql"),
    ],
)
def test_urls_that_can_not_work_are_refused(url: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as error:
        SQLAlchemyArchive(url)
    assert "`archive` is " in str(error.value)
    assert "secret" not in str(error.value)


class Pooler(socketserver.ThreadingTCPServer):
    """Stands before a server, and makes up the number of the process that is behind it."""

    daemon_threads = True

    def __init__(self, folder: str) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.behind = f"{folder}/.s.PGSQL.5432"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.behind)
            threading.Thread(target=pass_on, args=(request, server), daemon=True).start()
            pass_on(server, request)


def pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):  # the client is gone
        while told := one.recv(65_536):
            other.sendall(re.sub(rb"K\0\0\0\x0c.{4}", b"K\0\0\0\x0cmade", told, flags=re.DOTALL))
        other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("is_pooled", [False, True])
def test_what_stays_in_a_connection_is_nothing_that_a_pooler_hands_to_others(
    postgres_database: str, *, is_pooled: bool
) -> None:
    """A pooler in transaction mode gives each transaction another connection to the server."""
    url = make_url(postgres_database)
    with ExitStack() as stack:
        if is_pooled:
            pooler = stack.enter_context(Pooler(str(url.query["host"])))
            stack.callback(pooler.shutdown)
            url = url.set(host="127.0.0.1", port=pooler.server_address[1], query={})
        archive = stack.enter_context(closing(SQLAlchemyArchive(url)))
        for at in range(12):  # psycopg prepares what it runs more than five times
            archive.append("t", "ana", said(f"m{at}"), after=None, now=NOW)
            archive.messages("t", limit=9)
            archive.claim(f"j{at}", "me", seconds=9, thread_id="t", resource_id="ana")
        archive.delete_thread("t")
        left = (
            "SELECT mode FROM pg_locks WHERE locktype = 'advisory' UNION ALL SELECT name "
            "FROM pg_settings WHERE source = 'session' AND name = 'lock_timeout'"
        )
        with archive.engine.connect() as connection:
            found = connection.exec_driver_sql(left).all()
            assert found == ([] if is_pooled else [("lock_timeout",)])
            prepared = connection.exec_driver_sql("SELECT name FROM pg_prepared_statements").all()
            assert bool(prepared) is not is_pooled


def test_a_closed_memory_leaves_no_connection(postgres_database: str) -> None:
    with closing(connect(postgres_database, autocommit=True)) as server:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        for _ in range(3):
            options: dict[str, Any] = {"observation": {"buffer_tokens": 0.2}, "retrieval": True}
            made = make_agent("agent", InMemorySaver(), archive=postgres_database, **options)
            talk(made.graph, on_thread("t"), turns(6))
            assert made.memory.close()
        eventually(lambda: server.execute(query).fetchone() == (1,))
        assert made.memory.search("trip", thread_id="t")  # it can still be read
        made.memory.close()


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        ConfigurationError, match=r"pip install 'langgraph-om\[postgres\]'"
    ) as error:
        SQLAlchemyArchive("postgresql://user:secret@host/x")
    assert "secret" not in str(error.value)


def test_the_callers_engine_stays_open() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with closing(SQLAlchemyArchive(engine)) as archive:
        archive.append("t", None, said("a"), after=None, now=NOW)
    # The database lives in the engine's one connection, and would be gone with it.
    assert shown(SQLAlchemyArchive(engine)) == ["a"]
    engine.dispose()


def test_a_closed_archive_opens_again(archive: SQLAlchemyArchive) -> None:
    archive.append("t", None, said("a"), after=None, now=NOW)
    archive.close()
    archive.close()
    assert shown(archive) == ["a"]


def test_an_engine_that_commits_each_statement_is_overruled(postgres_sqlalchemy_url: str) -> None:
    engine = create_engine(postgres_sqlalchemy_url, isolation_level="AUTOCOMMIT")
    archive = SQLAlchemyArchive(engine)
    archive.setup()

    @event.listens_for(engine, "after_cursor_execute")
    def fail(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO om_messages"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.append("t", None, said("a"), after=None, now=NOW)
    assert archive.thread("t") is None
    engine.dispose()


def test_a_file_is_shared_by_readers_and_a_writer(sqlite_file: Path) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{sqlite_file}")) as archive:
        archive.append("t", None, said("a"), after=None, now=NOW)
        with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            other.execute("BEGIN IMMEDIATE")
            assert shown(archive) == ["a"]
            other.execute("ROLLBACK")


# --- Failures ------------------------------------------------------------------------------------


def refused(call: Callable[[], object]) -> str:
    """What an archive says of its storage's failure."""
    with pytest.raises(ArchiveError) as error:
        call()
    assert isinstance(error.value, ObservationalMemoryError)
    assert error.value.__cause__ is not None
    return str(error.value)


def test_a_locked_file_is_named(sqlite_file: Path) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{sqlite_file}?timeout=0.1")) as archive:
        archive.append("t", None, said("a"), after=None, now=NOW)
        with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            found = refused(lambda: archive.append("t", None, said("secret"), after="a", now=NOW))
            other.execute("ROLLBACK")
        assert found == "the archive could not append messages: database is locked"
        archive.append("t", None, said("b"), after="a", now=NOW)
        assert shown(archive) == ["a", "b"]


@pytest.mark.parametrize("make", [str, create_engine])
def test_a_full_database_is_named_and_keeps_what_it_had(
    make: Callable[[str], Any], sqlite_file: Path
) -> None:
    archive = SQLAlchemyArchive(make(f"sqlite:///{sqlite_file}"))
    engine = archive.engine
    archive.append("t", None, said("a"), after=None, now=NOW)

    @event.listens_for(engine, "connect")
    def limit(connection: Any, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 40")

    engine.dispose()
    secret = HumanMessage("secret" * 100_000)
    found = refused(lambda: archive.append("u", None, [("b", secret, True)], after=None, now=NOW))
    assert found == "the archive could not append messages: database or disk is full"
    assert shown(archive) == ["a"]
    assert archive.thread("u") is None
    engine.dispose()


def test_a_file_of_something_else_is_named(sqlite_file: Path) -> None:
    sqlite_file.write_bytes(b"no database at all " * 100)
    with closing(SQLAlchemyArchive(f"sqlite:///{sqlite_file}")) as archive:
        assert "file is not a database" in refused(lambda: archive.thread("t"))


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    with closing(SQLAlchemyArchive(f"sqlite:///{folder / 'x.db'}")) as archive:
        folder.rmdir()
        assert "could not be set up: unable to open" in refused(archive.setup)
    with closing(SQLAlchemyArchive("postgresql://u:secret@127.0.0.1:1/x")) as archive:
        found = refused(lambda: archive.load_record("r"))
    assert found.startswith("the archive could not load a record: ")
    assert "secret" not in found


def test_a_connection_that_was_cut_is_replaced(postgres_sqlalchemy_url: str) -> None:
    with closing(SQLAlchemyArchive(postgres_sqlalchemy_url)) as archive:
        archive.append("t", None, said("a"), after=None, now=NOW)
        other = create_engine(postgres_sqlalchemy_url)
        with other.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        other.dispose()
        assert shown(archive) == ["a"]


def test_an_archive_that_nobody_closes_leaves_no_connection_open(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path}/archive.db")
    archive.setup()
    closed: list[object] = []
    event.listen(archive.engine, "close", lambda *about: closed.append(about))
    del archive
    gc.collect()
    assert closed


def test_a_database_that_fails_between_two_rows_is_an_error_of_the_archive(tmp_path: Path) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        keys = [f"k{at}" for at in range(200)]
        rows = [(key, HumanMessage("x" * 3000, id=key), True) for key in keys]
        archive.append("t", "r", rows, after=None, now=NOW)
        raw: Any = archive.engine.raw_connection().dbapi_connection
        steps = iter(range(10_000))
        raw.set_progress_handler(lambda: next(steps) > 40, 50)
        with pytest.raises(ArchiveError, match="could not read messages: interrupted"):
            archive.branch("t", keys)
        raw.set_progress_handler(None, 0)
        assert len(archive.branch("t", keys)) == len(keys)


def test_what_cannot_be_stored_is_an_error_of_the_archive(tmp_path: Path) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        wrong: Any = 5
        with pytest.raises(ArchiveError):
            archive.contains("t", [wrong])
        with pytest.raises(ArchiveError):
            archive.append("t", "r", [("k", HumanMessage("x", id="k"), wrong)], after=None, now=NOW)
        archive.append("t", "r", [("k", HumanMessage("x", id="k"), True)], after=None, now=NOW)
        assert archive.contains("t", ["k"]) == {"k"}
