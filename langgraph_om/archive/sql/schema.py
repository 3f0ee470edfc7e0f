"""The tables and their indexes. Whoever changes one changes `VERSION`."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    DOUBLE_PRECISION,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
    true,
)

from langgraph_om.archive.sql.values import EscapedText, Moment

VERSION: Final = 1
"""Of the tables; those of another version are refused."""

metadata = MetaData()

schema_rows = Table(  # one row
    "om_schema",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

thread_rows = Table(
    "om_threads",
    metadata,
    Column("id", EscapedText, primary_key=True),
    Column("resource_id", EscapedText),
    Column("title", EscapedText),
    Column("created", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("parent", EscapedText),  # the thread within which it runs, as a subagent's does
    Index("om_threads_within", "parent"),
)
Index(
    "om_threads_of_resource",
    thread_rows.c.resource_id,
    thread_rows.c.updated.desc(),
    thread_rows.c.id,
)

message_rows = Table(
    "om_messages",
    metadata,
    Column("thread_id", EscapedText, ForeignKey(thread_rows.c.id), primary_key=True),
    Column("node", Text, primary_key=True),  # names what it says and all that is before it
    Column("key", EscapedText, nullable=False),
    Column("parent", Text),  # node of the message before it on its branch
    Column("position", Integer, nullable=False),
    Column("is_current", Boolean, nullable=False),
    Column("is_visible", Boolean, nullable=False),
    Column("digest", Text, nullable=False),  # of its body
    Column("body", Text, nullable=False),
    Column("written", Moment),  # or first seen; where that is known
    Index("om_messages_page", "thread_id", "is_current", "is_visible", "position"),
    Index("om_messages_by_key", "key", "thread_id"),
)
Index(
    "om_messages_branch",
    message_rows.c.thread_id,
    message_rows.c.position,
    unique=True,
    sqlite_where=text("is_current = 1"),  # in the words of the queries, or they do not use it
    postgresql_where=message_rows.c.is_current,
)

group_rows = Table(
    "om_groups",
    metadata,
    Column("thread_id", EscapedText, ForeignKey(thread_rows.c.id), primary_key=True),
    Column("id", EscapedText, primary_key=True),
    Column("resource_id", EscapedText),  # that of the thread
    Column("observed", Moment, nullable=False),
    Column("ordinal", Integer, nullable=False),  # order of arrival in the thread
    Column("body", Text, nullable=False),
    Column("in_log", Boolean, nullable=False, server_default=true()),  # else it is history
    Index("om_groups_of_thread", "thread_id", "observed", "ordinal"),
    Index("om_groups_of_resource", "resource_id", "observed", "ordinal"),
)

text_rows = Table(  # what is searched; `search.index` is the index over its words
    "om_texts",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("thread_id", EscapedText, ForeignKey(thread_rows.c.id), nullable=False),
    Column("kind", Text, nullable=False),  # "message" or "observations"
    Column("key", EscapedText, nullable=False),  # of the message, or id of the group
    Column("piece", Integer, nullable=False),  # of a long text
    Column("at", Moment),  # when it was written or observed; where that is known
    Column("words", Text, nullable=False),
    Column("digest", Text, nullable=False),  # the message's, as it was then; "" of a group
    Index("om_texts_of_thread", "thread_id", "kind", "key", "digest", "piece", unique=True),
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

job_rows = Table(  # of threads that may have no row yet
    "om_jobs",
    metadata,
    Column("id", EscapedText, primary_key=True),
    Column("thread_id", EscapedText, nullable=False),
    Column("resource_id", EscapedText),
    Column("owner", EscapedText, nullable=False),
    Column("ends", DOUBLE_PRECISION, nullable=False),  # seconds since 1970, database's clock
    Column("result", Text),
    Index("om_jobs_of_thread", "thread_id"),
    Index("om_jobs_of_resource", "resource_id"),
)

job_thread_rows = Table(  # what the result of a job is about, beside the thread it works for
    "om_job_threads",
    metadata,
    Column("job_id", EscapedText, primary_key=True),
    Column("thread_id", EscapedText, primary_key=True),
    Index("om_job_threads_of_thread", "thread_id"),
)

deletion_rows = Table(  # ids only, never a text; no foreign keys, as what they name is gone
    "om_deletions",
    metadata,
    # "thread" or "resource"; "store": `id` names a use of a store, which deletions have to reach
    Column("kind", Text, primary_key=True),
    Column("id", EscapedText, primary_key=True),
    Column("resource_id", EscapedText),  # whose a thread was, as far as anything knew
    Column("number", Integer, nullable=False),  # how often it was deleted
    Column("at", DOUBLE_PRECISION),  # when it was last; seconds since 1970, database's clock
    Index("om_deletions_of_resource", "resource_id"),
)
