"""The tables, their indexes, and how values stand in them; a changed table changes `VERSION`.

Texts, times and JSON come back as they were, or do not get in. PostgreSQL takes neither NUL
characters nor lone surrogates, and SQLite no lone surrogates; all text is therefore escaped: JSON
to ASCII, ids and titles by `EscapedText`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from sqlalchemy import (
    DOUBLE_PRECISION,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
    true,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeDecorator

from langgraph_om.core.config.options import check_seconds
from langgraph_om.core.search import JOINERS
from langgraph_om.errors import ArchiveError, ConfigurationError

# --- Column types --------------------------------------------------------------------------------

_UNSAFE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|0|u[0-9a-f]{4})")


class EscapedText(TypeDecorator[str]):
    r"""Text in which a backslash starts `\\`, `\0` (NUL) or `\ud800` (a lone surrogate)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return escape_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escape."""
        return None if value is None else _ESCAPE.sub(_unescape_sequence, value)


def escape_text(value: str | None) -> str | None:
    """Return a text as `EscapedText` stores it."""
    return None if value is None else _UNSAFE.sub(_escape_character, value)


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    return {"\\": "\\\\", "\x00": "\\0"}.get(character) or f"\\u{ord(character):04x}"


def _unescape_sequence(match: re.Match[str]) -> str:
    code = match[1]
    return {"\\": "\\", "0": "\x00"}.get(code) or chr(int(code[1:], 16))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Moment(TypeDecorator[datetime]):
    """A time as microseconds since 1970, which both databases compare alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Count microseconds."""
        return store_moment(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        return None if value is None else _EPOCH + value * _MICROSECOND


def store_moment(value: datetime | None) -> int | None:
    """Return a time as `Moment` stores it."""
    return None if value is None else (value - _EPOCH) // _MICROSECOND


# --- Arguments -----------------------------------------------------------------------------------


check_span = partial(check_seconds, allows_zero=True)


def check_name(option: str, value: object) -> None:
    """Refuse a name that is no text or empty; pydantic would refuse lone surrogates too.

    Raises:
        ConfigurationError: When it cannot name anything.
    """
    if not isinstance(value, str) or not value:
        msg = f"`{option}` is {value!r}; pass a text that is not empty"
        raise ConfigurationError(msg)


def check_time(option: str, value: datetime | None) -> None:
    """Refuse a time that could mean any of several moments.

    Raises:
        ConfigurationError: When it has no timezone.
    """
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        msg = f"`{option}` is {value!r}; pass a datetime with a timezone, as `datetime.now(UTC)`"
        raise ConfigurationError(msg)


# --- JSON ----------------------------------------------------------------------------------------

_MAX_LEVELS = 200
"""Deeper values might be written, and not be read by a caller that is itself deep in calls."""


def encode_json(what: str, value: Mapping[str, Any]) -> str:
    """Write JSON in ASCII.

    Args:
        what: What the value is, for the message of an error.
        value: JSON values; tuples come back as lists.

    Raises:
        ConfigurationError: When it would not come back as it was.
    """
    try:
        return _encode_strictly(dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        field = next((key for key, item in value.items() if _is_refused({key: item})), "?")
        msg = f"`{field}` of {what} is not JSON ({_take_first_line(error)}); pass JSON values"
        raise ConfigurationError(msg) from error


def encode_message(key: str, message: BaseMessage) -> str:
    """Write a message as JSON in ASCII.

    Raises:
        ConfigurationError: When it would not come back as it was; names the message and the field.
    """
    try:
        data = message_to_dict(message)
        text = _encode_strictly(data)
        if message.type not in {"human", "ai", "tool", "system"} or message.content is None:
            messages_from_dict([data])
    except (TypeError, ValueError, RecursionError) as error:
        names = [*type(message).model_fields, *(message.model_extra or ())]
        field = next((name for name in names if _is_field_refused(message, name)), "type")
        msg = (
            f"`{field}` of the message {key!r} cannot be archived "
            f"({_take_first_line(error)}); pass JSON values"
        )
        raise ConfigurationError(msg) from error
    return text


def decode_message(key: str, body: str) -> BaseMessage:
    """Read a message.

    Raises:
        ArchiveError: When another version wrote what this one cannot read.
    """
    try:
        return messages_from_dict([json.loads(body)])[0]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        msg = f"the archive holds a message {key!r} that cannot be read: {_take_first_line(error)}"
        raise ArchiveError(msg) from error


def _encode_strictly(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    _check_values(value)
    return text


def _check_values(value: Mapping[str, Any]) -> None:
    """Refuse mappings whose keys JSON would turn into text, and values that are nested too deep."""
    level: list[Any] = [value]
    for _ in range(_MAX_LEVELS):
        for item in level:
            if isinstance(item, dict) and (odd := [k for k in item if not isinstance(k, str)]):
                msg = f"the key {odd[0]!r} is no text"
                raise TypeError(msg)
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [v for values in inner for v in values if isinstance(v, dict | list | tuple)]
        if not level:
            return
    msg = f"it is nested deeper than {_MAX_LEVELS} levels"
    raise ValueError(msg)


def _is_refused(value: Mapping[str, Any]) -> bool:
    try:
        _encode_strictly(value)
    except (TypeError, ValueError, RecursionError):
        return True
    return False


def _is_field_refused(message: BaseMessage, field: str) -> bool:
    try:
        return _is_refused(message.model_dump(include={field}))
    except (TypeError, ValueError, RecursionError):
        return True


def _take_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


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

Index("om_threads_by_time", thread_rows.c.updated.desc(), thread_rows.c.id)

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
    Column("number", Integer, nullable=False),  # it grows with each deletion
    Column("at", DOUBLE_PRECISION),  # when it was last; seconds since 1970, database's clock
    Index("om_deletions_of_resource", "resource_id"),
)


# --- The index over the words of `om_texts` ------------------------------------------------------

# FTS5 in SQLite, an inverted index (GIN) in PostgreSQL. Both are given words that are ready
# (`core.search.words`) and no text to take apart: FTS5's `ascii` tokenizer parts them at blanks
# alone, and so does PostgreSQL, which indexes an array of numbers: a word's hash behind the hash of
# whose the text is. So both find the same, in every language and without an extension, and what
# others have said makes no search in PostgreSQL slower. Two words of one number only make a text be
# looked at that does not match.
#
# In SQLite triggers keep the index in step with the table, in the same transaction. An SQLite that
# was compiled without FTS5 drops the triggers, so that writing works, and reads the rows instead;
# one with FTS5 that opens the same file later builds the index anew.

MARK: Final = "="
"""What a word begins with that says whose a text is, and of whom; no word of a text does."""

_TOKEN_CHARACTERS: Final = (MARK + JOINERS).replace("'", "''''")

_MAKE_FOR_SQLITE: Final = (
    f"""
    CREATE VIRTUAL TABLE IF NOT EXISTS om_text_words USING fts5(
        words, content='om_texts', content_rowid='id', detail='none', columnsize=0,
        tokenize="ascii tokenchars '{_TOKEN_CHARACTERS.replace("''''", "''")}'"
    )
    """,
    "INSERT INTO om_text_words(om_text_words) VALUES ('rebuild')",
    """
    CREATE TRIGGER om_texts_inserted AFTER INSERT ON om_texts BEGIN
        INSERT INTO om_text_words(rowid, words) VALUES (new.id, new.words);
    END
    """,
    """
    CREATE TRIGGER om_texts_deleted AFTER DELETE ON om_texts BEGIN
        INSERT INTO om_text_words(om_text_words, rowid, words)
        VALUES ('delete', old.id, old.words);
    END
    """,
    """
    CREATE TRIGGER om_texts_updated AFTER UPDATE OF words ON om_texts BEGIN
        INSERT INTO om_text_words(om_text_words, rowid, words)
        VALUES ('delete', old.id, old.words);
        INSERT INTO om_text_words(rowid, words) VALUES (new.id, new.words);
    END
    """,
)
_TRIGGERS: Final = ("om_texts_inserted", "om_texts_deleted", "om_texts_updated")

WORD_KEYS: Final = "om_word_keys"
_MAKE_FOR_POSTGRESQL: Final = (
    # What it says of cost and parallel work keeps the planner from calling it for all texts there
    # are, and from starting workers for a hundred rows.
    f"""
    CREATE OR REPLACE FUNCTION {WORD_KEYS}(words TEXT) RETURNS BIGINT[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL RESTRICTED COST 10000 AS $$
    SELECT array_agg(whose.high | (hashtext(word)::bigint & 4294967295))
    FROM (
        SELECT ('x' || substr(words, coalesce(
            nullif(strpos(words, '{MARK}r'), 0), strpos(words, '{MARK}t')
        ) + 2, 8))::bit(32)::bigint << 32 AS high OFFSET 0
    ) AS whose, unnest(string_to_array(words, ' ')) AS word
    $$
    """,  # noqa: S608
    # New keys wait in a list, which every search reads: a short one.
    f"""
    CREATE INDEX IF NOT EXISTS om_texts_keys ON om_texts USING gin ({WORD_KEYS}(words))
    WITH (gin_pending_list_limit = 128)
    """,
)


def has_fts5(connection: Connection) -> bool:
    """Return whether this SQLite was compiled with FTS5."""
    try:
        found = connection.exec_driver_sql("SELECT name FROM pragma_module_list")
        return "fts5" in set(found.scalars())
    except DBAPIError:  # not compiled in, either
        return False


def is_index_in_order(connection: Connection) -> bool:
    """Return whether the index is what this database can have; PostgreSQL's always is."""
    if connection.dialect.name != "sqlite":
        return True
    return has_word_triggers(connection) == has_fts5(connection)


def put_index_in_order(connection: Connection) -> None:
    """Make the index, or let go of one that this SQLite cannot keep; nothing when all is well."""
    if connection.dialect.name != "sqlite":
        for statement in _MAKE_FOR_POSTGRESQL:
            connection.exec_driver_sql(statement)
        return
    has_triggers, can_search = has_word_triggers(connection), has_fts5(connection)
    if can_search and not has_triggers:
        for statement in _MAKE_FOR_SQLITE:
            connection.exec_driver_sql(statement)
    elif has_triggers and not can_search:
        for name in _TRIGGERS:
            connection.exec_driver_sql(f"DROP TRIGGER {name}")


def sweep_index(connection: Connection) -> None:
    """Take the words of deleted texts out of SQLite's index, which else keeps them until it merges.

    PostgreSQL's is swept by its vacuum, like all that is deleted there.
    """
    if connection.dialect.name == "sqlite" and has_word_triggers(connection):
        connection.exec_driver_sql("INSERT INTO om_text_words(om_text_words) VALUES ('optimize')")


def has_word_triggers(connection: Connection) -> bool:
    """Return whether triggers keep SQLite's index in step with the table."""
    found = connection.exec_driver_sql(
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (?, ?, ?)",
        _TRIGGERS,
    )
    return bool(found.scalar() == len(_TRIGGERS))
