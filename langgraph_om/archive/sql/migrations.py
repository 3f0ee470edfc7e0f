"""Bring the tables of a database to the present version.

A new database gets the tables of `schema`; one of an earlier version gets the migrations it lacks.
A released migration never changes: it is written in SQL and uses nothing of `schema`, which goes on
changing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, func, insert, inspect, select, update

from langgraph_om.archive.sql.schema import metadata, schema_rows
from langgraph_om.archive.sql.search.index import put_index_in_order
from langgraph_om.errors import ConfigurationError


def _drop_message_versions(connection: Connection) -> None:
    """Drop the former contents of edited messages, which nothing reads.

    Their rows refer to threads, which could not be deleted as long as they stay.
    """
    connection.exec_driver_sql("DROP TABLE om_message_versions")


def _add_deletions(connection: Connection) -> None:
    """Keep what was deleted, which threads a job is about, and which run within others."""
    for statement in (
        """
        CREATE TABLE om_deletions (
            kind TEXT NOT NULL,
            id TEXT NOT NULL,
            resource_id TEXT,
            number INTEGER NOT NULL,
            PRIMARY KEY (kind, id)
        )
        """,
        "CREATE INDEX om_deletions_of_resource ON om_deletions (resource_id)",
        """
        CREATE TABLE om_job_threads (
            job_id TEXT NOT NULL,
            thread_id TEXT NOT NULL,
            PRIMARY KEY (job_id, thread_id)
        )
        """,
        "CREATE INDEX om_job_threads_of_thread ON om_job_threads (thread_id)",
        "ALTER TABLE om_threads ADD COLUMN parent TEXT",
        "CREATE INDEX om_threads_within ON om_threads (parent)",
    ):
        connection.exec_driver_sql(statement)


def _add_times(connection: Connection) -> None:
    """Keep with each message when it was written, which is not known of those that are there."""
    connection.exec_driver_sql("ALTER TABLE om_messages ADD COLUMN written BIGINT")


def _add_texts(connection: Connection) -> None:
    """Make archives searchable by words; a search reads what is there before it looks.

    The words are made in Python, which would keep whoever opens a large archive waiting here.
    """
    number = "INTEGER" if connection.dialect.name == "sqlite" else "BIGSERIAL"
    for statement in (
        f"""
        CREATE TABLE om_texts (
            id {number} PRIMARY KEY,
            thread_id TEXT NOT NULL REFERENCES om_threads (id),
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            piece INTEGER NOT NULL,
            at BIGINT,
            words TEXT NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX om_texts_of_thread ON om_texts (thread_id, kind, key, piece)",
        "CREATE TABLE om_unindexed (thread_id TEXT PRIMARY KEY NOT NULL)",
        "INSERT INTO om_unindexed SELECT id FROM om_threads",
    ):
        connection.exec_driver_sql(statement)


def _add_deletion_times(connection: Connection) -> None:
    """Keep when something was deleted, so that what is known of it can be forgotten by age."""
    is_sqlite = connection.dialect.name == "sqlite"
    julian = "(julianday('now') - 2440587.5) * 86400.0"
    now = julian if is_sqlite else "EXTRACT(EPOCH FROM clock_timestamp())"
    connection.exec_driver_sql("ALTER TABLE om_deletions ADD COLUMN at DOUBLE PRECISION")
    connection.exec_driver_sql(f"UPDATE om_deletions SET at = {now}")  # noqa: S608


def _add_nodes(connection: Connection) -> None:
    """Let a message have a row for each place and content; what is there keeps its key as name."""
    is_sqlite = connection.dialect.name == "sqlite"
    for statement in (
        *([] if is_sqlite else ["ALTER INDEX om_messages_pkey RENAME TO om_former_messages_pkey"]),
        "DROP INDEX om_messages_page",
        "DROP INDEX om_messages_by_key",
        "DROP INDEX om_messages_branch",
        "ALTER TABLE om_messages RENAME TO om_former_messages",
        """
        CREATE TABLE om_messages (
            thread_id TEXT NOT NULL REFERENCES om_threads (id),
            node TEXT NOT NULL,
            key TEXT NOT NULL,
            parent TEXT,
            position INTEGER NOT NULL,
            is_current BOOLEAN NOT NULL,
            is_visible BOOLEAN NOT NULL,
            digest TEXT NOT NULL,
            body TEXT NOT NULL,
            written BIGINT,
            PRIMARY KEY (thread_id, node)
        )
        """,
        """
        INSERT INTO om_messages
        SELECT thread_id, key, key, parent, position, is_current, is_visible, digest, body, written
        FROM om_former_messages
        """,
        "DROP TABLE om_former_messages",
        "CREATE INDEX om_messages_by_key ON om_messages (key, thread_id)",
        "ALTER TABLE om_texts ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
        """
        UPDATE om_texts SET digest = (
            SELECT digest FROM om_messages
            WHERE om_messages.thread_id = om_texts.thread_id AND om_messages.key = om_texts.key
        )
        WHERE kind = 'message'
        """,
        "DROP INDEX om_texts_of_thread",
        "CREATE UNIQUE INDEX om_texts_of_thread ON om_texts (thread_id, kind, key, digest, piece)",
    ):
        connection.exec_driver_sql(statement)
    current = "is_current = 1" if is_sqlite else "is_current"
    connection.exec_driver_sql(
        "CREATE INDEX om_messages_page ON om_messages (thread_id, is_current, is_visible, position)"
    )
    connection.exec_driver_sql(
        "CREATE UNIQUE INDEX om_messages_branch ON om_messages (thread_id, position) "
        f"WHERE {current}"
    )


def _add_in_log(connection: Connection) -> None:
    """Tell the groups of a thread's log from former ones; its next step says which these are."""
    is_true = "1" if connection.dialect.name == "sqlite" else "TRUE"
    connection.exec_driver_sql(
        f"ALTER TABLE om_groups ADD COLUMN in_log BOOLEAN NOT NULL DEFAULT {is_true}"
    )


MIGRATIONS: Sequence[Callable[[Connection], None]] = (
    _drop_message_versions,
    _add_deletions,
    _add_times,
    _add_texts,
    _add_deletion_times,
    _add_nodes,
    _add_in_log,
)
"""The first brings tables of version 1 to version 2, the next ones follow."""

VERSION = 1 + len(MIGRATIONS)
"""The version of the tables in `schema`."""


def read_version(connection: Connection) -> int:
    """Return the version of the tables, 0 when there are none.

    Raises:
        ConfigurationError: When it is later than what this package knows.
    """
    if not inspect(connection).has_table(schema_rows.name):
        return 0
    version = connection.execute(select(func.max(schema_rows.c.version))).scalar() or 0
    if version > VERSION:
        msg = (
            f"`archive` holds tables of version {version}, and this version of langgraph-om knows "
            f"those up to {VERSION}; upgrade langgraph-om or pass another database"
        )
        raise ConfigurationError(msg)
    return version


def migrate(connection: Connection) -> None:
    """Make the tables, or bring them to the present version; nothing when they are.

    Args:
        connection: In a transaction that no other process migrates beside.

    Raises:
        ConfigurationError: When the tables are of a later version.
    """
    version = read_version(connection)
    if 0 < version < VERSION:
        for apply in MIGRATIONS[version - 1 :]:
            apply(connection)
        connection.execute(update(schema_rows).values(version=VERSION))
    elif not version:
        metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(schema_rows).values(version=VERSION))
    put_index_in_order(connection)
