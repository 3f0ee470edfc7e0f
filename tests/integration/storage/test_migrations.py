"""Databases that an earlier version made are opened and keep what they hold."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import create_engine, inspect, text

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql import database, migrations
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.migrations import MIGRATIONS, VERSION
from langgraph_om.archive.sql.schema import metadata
from langgraph_om.archive.sql.search import rows
from langgraph_om.errors import ArchiveError
from support.processes import archive_workers
from support.processes.archive_workers import NOW, WORKERS, run_together

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from sqlalchemy import Connection, Engine

# --- Tables of versions 1 and 3, as they were made then ------------------------------------------

ONLY_IN_1 = """
CREATE TABLE om_message_versions (
    thread_id TEXT NOT NULL REFERENCES om_threads (id),
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    is_visible BOOLEAN NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread_id, key, version)
);
"""

VERSION_1 = """
CREATE TABLE om_schema (version {serial} NOT NULL, PRIMARY KEY (version));

CREATE TABLE om_threads (
    id TEXT PRIMARY KEY,
    resource_id TEXT,
    title TEXT,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL
);
CREATE INDEX om_threads_of_resource ON om_threads (resource_id, updated DESC, id);

CREATE TABLE om_messages (
    thread_id TEXT NOT NULL REFERENCES om_threads (id),
    key TEXT NOT NULL,
    parent TEXT,
    position INTEGER NOT NULL,
    is_current BOOLEAN NOT NULL,
    is_visible BOOLEAN NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread_id, key)
);
CREATE INDEX om_messages_page ON om_messages (thread_id, is_current, is_visible, position);
CREATE UNIQUE INDEX om_messages_branch ON om_messages (thread_id, position) WHERE is_current{true};
CREATE INDEX om_messages_by_key ON om_messages (key);

{only_in_1}

CREATE TABLE om_groups (
    thread_id TEXT NOT NULL REFERENCES om_threads (id),
    id TEXT NOT NULL,
    resource_id TEXT,
    observed BIGINT NOT NULL,
    ordinal INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread_id, id)
);
CREATE INDEX om_groups_of_thread ON om_groups (thread_id, observed, ordinal);
CREATE INDEX om_groups_of_resource ON om_groups (resource_id, observed, ordinal);

CREATE TABLE om_records (
    resource_id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    begun BIGINT NOT NULL,
    committed BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE om_record_history (
    resource_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    begun BIGINT NOT NULL,
    committed BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (resource_id, revision)
);

CREATE TABLE om_jobs (
    id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL,
    resource_id TEXT,
    owner TEXT NOT NULL,
    ends DOUBLE PRECISION NOT NULL,
    result TEXT
);
CREATE INDEX om_jobs_of_thread ON om_jobs (thread_id);
CREATE INDEX om_jobs_of_resource ON om_jobs (resource_id)
"""

ADDED_IN_3 = """
ALTER TABLE om_threads ADD COLUMN parent TEXT;
CREATE INDEX om_threads_within ON om_threads (parent);

CREATE TABLE om_job_threads (
    job_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    PRIMARY KEY (job_id, thread_id)
);
CREATE INDEX om_job_threads_of_thread ON om_job_threads (thread_id);

CREATE TABLE om_deletions (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    resource_id TEXT,
    number INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX om_deletions_of_resource ON om_deletions (resource_id)
"""

NINE = 1772442000000000  # NOW in microseconds
MINUTE = 60_000_000
_REST = '"additional_kwargs":{},"response_metadata":{}'


def human(key: str, content: str) -> str:
    return (
        f'{{"type":"human","data":{{"content":"{content}",{_REST},'
        f'"type":"human","name":null,"id":"{key}"}}}}'
    )


def ai(key: str, content: str) -> str:
    return (
        f'{{"type":"ai","data":{{"content":"{content}",{_REST},"type":"ai","name":null,'
        f'"id":"{key}","tool_calls":[],"invalid_tool_calls":[],"usage_metadata":null}}}}'
    )


def kept(
    thread: str,
    key: str,
    parent: str | None,
    position: int,
    body: str,
    *,
    is_current: bool = True,
    version: int = 1,
) -> tuple[Any, ...]:
    digest = hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
    return (thread, key, parent, position, is_current, True, version, digest, body)


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "om_schema": [(1,)],
    "om_threads": [
        ("trip", "ana", "Trip \\ud800", NINE, NINE + 2 * MINUTE),
        ("work", "ana", None, NINE + 3 * MINUTE, NINE + 3 * MINUTE),
        ("ben", "ben", None, NINE + 4 * MINUTE, NINE + 4 * MINUTE),
    ],
    "om_messages": [
        kept("trip", "a", None, 0, human("a", "Hello")),
        kept("trip", "b", "a", 1, ai("b", "Hi, edited"), is_current=False, version=2),
        kept("trip", "c", "a", 1, human("c", "A fork")),
        kept("work", "a", None, 0, human("a", "Other")),
        kept("ben", "a", None, 0, human("a", "Ben")),
    ],
    "om_message_versions": [("trip", "b", 1, True, ai("b", "Hi"))],
    "om_groups": [
        ("trip", "g1", "ana", NINE + 2 * MINUTE, 1, '{"id":"g1","text":"Ana says hello"}'),
        ("trip", "g2", "ana", NINE + 3 * MINUTE, 2, '{"id":"g2","text":"More"}'),
    ],
    "om_records": [
        ("ana", 2, 1, NINE + 2 * MINUTE, NINE + 2 * MINUTE, '{"generation":1,"log":["x"]}'),
    ],
    "om_record_history": [
        ("ana", 1, 0, NINE + MINUTE, NINE + MINUTE, '{"generation":0,"log":[]}'),
    ],
    "om_jobs": [
        ("done", "trip", "ana", "me", 1772442000.25, '{"text":"done"}'),
        ("held", "ben", "ben", "me", 1772442000.25, None),
    ],
}


ROWS_OF_3: dict[str, list[tuple[Any, ...]]] = {
    **{table: rows for table, rows in ROWS.items() if table != "om_message_versions"},
    "om_schema": [(3,)],
    "om_threads": [(*row, None) for row in ROWS["om_threads"]],
    "om_job_threads": [("done", "trip"), ("held", "ben")],
    "om_deletions": [("thread", "gone", "ana", 2)],
}


def make_former(engine: Engine, version: int) -> None:
    """Make the tables of an earlier version, with something in every one."""
    is_sqlite = engine.dialect.name == "sqlite"
    ddl = VERSION_1.replace("{only_in_1}", ONLY_IN_1 if version == 1 else "")
    ddl = ddl if version == 1 else f"{ddl};{ADDED_IN_3}"
    ddl = ddl.replace("{true}", " = 1" if is_sqlite else "")
    ddl = ddl.replace("{serial}", "INTEGER" if is_sqlite else "SERIAL")
    with engine.begin() as connection:
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA foreign_keys=ON")
        for statement in ddl.split(";"):
            connection.exec_driver_sql(statement)
        for table, rows in (ROWS if version == 1 else ROWS_OF_3).items():
            places = ", ".join(["?" if is_sqlite else "%s"] * len(rows[0]))
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
    engine.dispose()


@pytest.fixture(params=[1, 3])
def former(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    """A database of an earlier version."""
    make_former(engine, request.param)
    return engine


@pytest.fixture
def oldest(engine: Engine) -> Engine:
    """A database of version 1."""
    make_former(engine, 1)
    return engine


# --- What they hold ------------------------------------------------------------------------------


def read_all(archive: SQLAlchemyArchive) -> dict[str, Any]:
    """Everything that the former version wrote, as the archive tells it."""
    threads, _ = archive.threads("ana")
    return {
        "threads": [(found.id, found.title, found.created, found.updated) for found in threads],
        "current": [found.message for found in archive.messages("trip", limit=9)],
        "off the branch": archive.branch("trip", ["b"]),
        "others": [archive.messages(thread, limit=9)[0].message for thread in ("work", "ben")],
        "groups": [group["id"] for group in archive.groups(resource_id="ana")],
        "record": archive.load_record("ana"),
        "history": [found["record"]["generation"] for found in archive.record_history("ana")],
        "jobs": [(job.state, job.result) for job in map(archive.job, ("done", "held")) if job],
    }


def at(minutes: int) -> Any:
    return NOW + timedelta(minutes=minutes)


HELD = {
    "threads": [("work", None, at(3), at(3)), ("trip", "Trip \ud800", at(0), at(2))],
    "current": [HumanMessage("Hello", id="a"), HumanMessage("A fork", id="c")],
    "off the branch": [AIMessage("Hi, edited", id="b")],
    "others": [HumanMessage("Other", id="a"), HumanMessage("Ben", id="a")],
    "groups": ["g2", "g1"],
    "record": ({"generation": 1, "log": ["x"]}, 2),
    "history": [1, 0],
    "jobs": [("done", {"text": "done"}), ("expired", None)],
}


def version_of(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT version FROM om_schema")).scalars())


def test_nothing_is_lost(former: Engine, archive: SQLAlchemyArchive, url: str) -> None:
    assert read_all(archive) == HELD
    assert version_of(former) == [VERSION]
    with closing(SQLAlchemyArchive(url)) as again:
        assert read_all(again) == HELD
    assert version_of(former) == [VERSION]


def test_known_contents_are_still_known(former: Engine, archive: SQLAlchemyArchive) -> None:
    again = [
        ("a", HumanMessage("Hello", id="a"), True),
        ("c", HumanMessage("A fork", id="c"), True),
    ]
    archive.append("trip", "ana", again, after=None, now=at(9))
    assert read_all(archive) == HELD


def test_writing_goes_on(former: Engine, archive: SQLAlchemyArchive) -> None:
    archive.append("trip", "ana", [("c", HumanMessage("edited"), True)], after="a", now=at(9))
    archive.append("trip", "ana", [("d", HumanMessage("news"), True)], after="c", now=at(9))
    assert [found.message.text for found in archive.messages("trip", limit=9)] == [
        "Hello",
        "edited",
        "news",
    ]
    assert archive.add_groups("trip", "ana", [{"id": "g2"}, {"id": "g3"}], at(9)) == ["g3"]
    assert archive.commit_record("ana", {"generation": 2}, expected=2, now=at(9))
    assert archive.claim("held", "you", seconds=9, thread_id="ben", resource_id="ben") == "mine"


@pytest.mark.parametrize("whole", ["thread", "resource"])
def test_a_thread_with_edited_messages_can_be_deleted(
    former: Engine, archive: SQLAlchemyArchive, whole: str
) -> None:
    if whole == "thread":
        archive.delete_thread("trip")
    else:
        archive.delete_resource("ana")
    assert archive.thread("trip") is None
    assert archive.contains("trip", ["a", "b", "c"]) == set()
    assert archive.contains("ben", ["a"]) == {"a"}


def test_the_callers_engine_is_migrated_too(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'own.db'}")
    make_former(engine, 1)
    assert read_all(SQLAlchemyArchive(engine)) == HELD
    assert version_of(engine) == [VERSION]
    engine.dispose()


def test_what_was_kept_without_times_has_none(former: Engine, archive: SQLAlchemyArchive) -> None:
    assert [found.at for found in archive.messages("trip", limit=9)] == [None, None]
    known = [("a", HumanMessage("Hello", id="a"), True)]
    archive.append("trip", "ana", known, after=None, now=at(9), times={"a": at(1)})
    assert [found.at for found in archive.messages("trip", limit=9)] == [at(1), None]
    assert read_all(archive) == HELD


def test_what_was_deleted_is_still_known(engine: Engine, archive: SQLAlchemyArchive) -> None:
    make_former(engine, 3)
    assert archive.deletions("ana", ["gone", "trip"]) == {("thread", "gone"): 2}
    archive.delete_thread("ben")  # with its job, which is still held
    assert archive.job("held") is None


# --- How they are migrated -----------------------------------------------------------------------


def describe(engine: Engine) -> dict[str, Any]:
    """The tables as a database describes them: columns, types, keys, references.

    Whether a primary key may be null is left out: the former ones in SQLite did not say so.
    """
    tables = inspect(engine)
    found: dict[str, Any] = {}
    for name in tables.get_table_names():
        if name.startswith("om_text_words"):  # FTS5's own, whose references it does not state
            continue
        keys = tables.get_pk_constraint(name)["constrained_columns"]
        found[name] = {
            "keys": keys,
            "columns": [
                (column["name"], str(column["type"]), column["name"] in keys or column["nullable"])
                for column in tables.get_columns(name)
            ],
            "references": [
                (key["constrained_columns"], key["referred_table"], key["referred_columns"])
                for key in tables.get_foreign_keys(name)
            ],
        }
    return found


def indexes(engine: Engine) -> list[tuple[str, ...]]:
    """The definition of each index, with directions and conditions; `key` may stand in quotes."""
    is_sqlite = engine.dialect.name == "sqlite"
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
        if is_sqlite
        else "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'om_%' ORDER BY 1"
    )
    with engine.connect() as connection:
        return [
            (name, definition.replace('"', "").strip())
            for name, definition in connection.execute(text(query))
        ]


def test_an_old_database_becomes_the_same_as_a_new_one(
    former: Engine, archive: SQLAlchemyArchive
) -> None:
    archive.setup()
    migrated = describe(former), indexes(former)
    assert migrated[0].keys() == metadata.tables.keys()
    with former.begin() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE IF EXISTS om_message_versions"))
    archive.close()
    archive.setup()
    assert (describe(former), indexes(former)) == migrated


def test_tables_refer_to_their_threads(archive: SQLAlchemyArchive, engine: Engine) -> None:
    archive.setup()
    found = {name: len(table["references"]) for name, table in describe(engine).items()}
    assert {name for name, count in found.items() if count} == {
        *("om_messages", "om_groups", "om_texts")
    }


def test_processes_migrate_at_once(
    processes: ProcessPoolExecutor, oldest: Engine, archive: SQLAlchemyArchive, url: str
) -> None:
    run_together(processes, archive_workers.set_up, url, [(i,) for i in range(WORKERS)])
    assert version_of(oldest) == [VERSION]
    archive.delete_resource("r")  # what the processes wrote
    assert read_all(archive) == HELD


@pytest.mark.parametrize("version", [0, 1])
def test_those_who_come_at_the_same_moment_wait_for_one(
    engine: Engine, url: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version:
        make_former(engine, version)
    all_have_looked = threading.Barrier(WORKERS, timeout=60)
    is_current, migrate = Database._is_current, database.migrate

    def look_together(self: Database) -> bool:
        found = is_current(self)
        all_have_looked.wait()
        return found

    def migrate_slowly(connection: Connection) -> None:
        migrate(connection)
        time.sleep(0.2)

    monkeypatch.setattr(Database, "_is_current", look_together)
    monkeypatch.setattr(database, "migrate", migrate_slowly)

    def set_up(_: int) -> None:
        with closing(SQLAlchemyArchive(url)) as archive:
            archive.setup()

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(set_up, range(WORKERS)))
    assert version_of(engine) == [VERSION]


def test_a_migration_that_fails_changes_nothing(
    oldest: Engine, archive: SQLAlchemyArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: Connection) -> None:
        MIGRATIONS[0](connection)
        connection.exec_driver_sql("DROP TABLE nowhere")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (fail,))
        with pytest.raises(ArchiveError, match="could not be set up"):
            archive.setup()
    assert version_of(oldest) == [1]
    with oldest.connect() as connection:
        assert len(connection.execute(text("SELECT * FROM om_message_versions")).all()) == 1
    oldest.dispose()
    assert read_all(archive) == HELD


def test_a_reader_does_not_keep_a_file_from_being_migrated(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    engine = create_engine(f"sqlite:///{file}")
    make_former(engine, 1)
    with closing(SQLAlchemyArchive(f"sqlite:///{file}")) as archive:
        archive._database.engine.connect().close()  # switches the file to WAL
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM om_message_versions").fetchall()
            assert read_all(archive) == HELD
            assert len(other.execute("SELECT * FROM om_message_versions").fetchall()) == 1
            other.execute("ROLLBACK")


# --- Search --------------------------------------------------------------------------------------


def test_what_an_earlier_version_archived_is_found(
    former: Engine, archive: SQLAlchemyArchive
) -> None:
    del former
    find = archive.search
    assert [hit.found.key for hit in find("fork", resource_id="ana")] == ["c"]
    assert [hit.found.key for hit in find("says hello", resource_id="ana", limit=2)] == ["g1", "a"]
    assert [hit.thread_id for hit in find("ben", resource_id="ben")] == ["ben"]
    assert find("ben", resource_id="ana") == []
    archive.delete_resource("ana")
    assert find("hello fork", resource_id="ana") == []


def test_a_long_thread_becomes_searchable_batch_by_batch(
    oldest: Engine, archive: SQLAlchemyArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    del oldest
    monkeypatch.setattr(rows, "MAX_INDEXED_AT_ONCE", 1)
    found = [len(archive.search("hello fork other", resource_id="ana")) for _ in range(6)]
    assert found == sorted(found)
    assert found[-1] >= 3
