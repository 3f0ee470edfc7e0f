"""The tables, and the numbered migrations that make them.

A migration that was released never changes; a new form of the tables is one more migration.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, Table, Text

from langgraph_om.archive.sql.values import EscapedText, Moment

metadata = MetaData()

schema_rows = Table("om_schema", metadata, Column("version", Integer, primary_key=True))

thread_rows = Table(
    "om_threads",
    metadata,
    Column("id", EscapedText, primary_key=True),
    Column("resource_id", EscapedText),
    Column("title", EscapedText),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
)

message_rows = Table(
    "om_messages",
    metadata,
    Column("thread_id", EscapedText, primary_key=True),
    Column("key", EscapedText, primary_key=True),
    Column("parent", EscapedText),  # key of the message before it on its branch
    Column("position", Integer, nullable=False),
    Column("is_current", Boolean, nullable=False),
    Column("is_visible", Boolean, nullable=False),
    Column("version", Integer, nullable=False),  # counts the changes of its content
    Column("digest", Text, nullable=False),
    Column("body", Text, nullable=False),
)

version_rows = Table(  # former contents
    "om_message_versions",
    metadata,
    Column("thread_id", EscapedText, primary_key=True),
    Column("key", EscapedText, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("is_visible", Boolean, nullable=False),
    Column("body", Text, nullable=False),
)

group_rows = Table(
    "om_groups",
    metadata,
    Column("thread_id", EscapedText, primary_key=True),
    Column("id", EscapedText, primary_key=True),
    Column("resource_id", EscapedText),  # that of the thread
    Column("observed", Moment, nullable=False),
    Column("ordinal", Integer, nullable=False),  # order of arrival in the thread
    Column("body", Text, nullable=False),
)

record_rows = Table(
    "om_records",
    metadata,
    Column("resource_id", EscapedText, primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("begun", Moment, nullable=False),  # when the first record of the generation was written
    Column("committed", Moment, nullable=False),
    Column("body", Text, nullable=False),
)

history_rows = Table(
    "om_record_history",
    metadata,
    Column("resource_id", EscapedText, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("begun", Moment, nullable=False),
    Column("committed", Moment, nullable=False),
    Column("body", Text, nullable=False),
)

job_rows = Table(
    "om_jobs",
    metadata,
    Column("id", EscapedText, primary_key=True),
    Column("thread_id", EscapedText, nullable=False),
    Column("resource_id", EscapedText),
    Column("owner", EscapedText, nullable=False),
    Column("ends", Float(53), nullable=False),  # seconds since 1970, by the database's clock
    Column("result", Text),
)

_TABLES = """
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

CREATE TABLE om_message_versions (
    thread_id TEXT NOT NULL REFERENCES om_threads (id),
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    is_visible BOOLEAN NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (thread_id, key, version)
);

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

MIGRATIONS: Sequence[str] = (_TABLES,)
"""Statements of SQL, separated by semicolons; the first brings the tables to version 1.

What they say holds in both databases, but for the test of a boolean in an index, `{true}`.
"""
