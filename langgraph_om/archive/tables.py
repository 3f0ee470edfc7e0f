"""The tables, and how values stand in them, so that they come back as they were.

PostgreSQL takes neither NUL characters nor lone surrogates, and SQLite no lone surrogates; all text
is therefore escaped: JSON to ASCII, ids and titles by `EscapedText`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.messages import BaseMessage, messages_from_dict
from sqlalchemy import (
    DDL,
    DOUBLE_PRECISION,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    event,
    text,
    true,
)
from sqlalchemy.types import TypeDecorator

from langgraph_om.core.content.text import LARGE_INTEGER_BITS, write_repr, write_short_json
from langgraph_om.core.search import JOINERS
from langgraph_om.errors import ArchiveError

# --- Column types --------------------------------------------------------------------------------

_UNSAFE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|0|u[0-9a-f]{4})")


class EscapedText(TypeDecorator[str]):
    r"""Text in which a backslash starts `\\`, `\0` (NUL) or `\ud800` (a lone surrogate)."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else escape_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escape."""
        return None if value is None else _ESCAPE.sub(_unescape_sequence, value)


def escape_text(value: str) -> str:
    """Return a text as `EscapedText` stores it."""
    return _UNSAFE.sub(_escape_character, value)


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
        return None if value is None else store_moment(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        return None if value is None else read_moment(value)


def store_moment(value: datetime) -> int:
    """Return a time as `Moment` stores it."""
    return (value - _EPOCH) // _MICROSECOND


def read_moment(stored: int) -> datetime:
    """Return the time, in UTC, that `store_moment` has stored."""
    return _EPOCH + stored * _MICROSECOND


# --- JSON ----------------------------------------------------------------------------------------

MAX_LEVELS: Final = 50
"""How deep values may be nested in a message: one that is read deep in calls has to come back."""
OUTLINE_CHARACTERS: Final = 2000
"""About how much is told of a value that stands deeper."""


def encode_json(value: Mapping[str, Any]) -> str:
    """Write JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"))


def encode_message(message: BaseMessage) -> str:
    """Write a message as JSON in ASCII, with text for what is no JSON value.

    A class of somebody's own becomes the nearest one of langchain's. An artifact that is no JSON
    value is left out: it was made for the program, not to be read.
    """
    try:
        fields = message.model_dump()
    except (TypeError, ValueError, RecursionError):  # a value of any type may refuse
        fields = dict(message)
    if "artifact" in fields and not _is_json(fields["artifact"]):
        fields["artifact"] = None
    fields["content"] = "" if fields["content"] is None else fields["content"]
    known: Any = next(
        kind
        for kind in type(message).__mro__
        if kind.__module__.startswith("langchain_core.messages.")
    )
    fields["type"] = known.model_fields["type"].default
    if not isinstance(fields["type"], str):  # of no class but `BaseMessage`
        fields |= {"type": "chat", "role": message.type}
    return encode_json({"type": fields["type"], "data": _to_json(fields, frozenset())})


def decode_message(key: str, body: str) -> BaseMessage:
    """Read a message.

    Raises:
        ArchiveError: When another version wrote what this one cannot read.
    """
    try:
        return messages_from_dict([json.loads(body)])[0]
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"the archive holds a message {key!r} that cannot be read: {reason}"
        raise ArchiveError(msg) from error


def _to_json(value: object, parents: frozenset[int]) -> Any:
    """Return the JSON value nearest to a value; what is nested too deep is outlined as text."""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, str | int | float):
        return value
    if not isinstance(value, dict | list | tuple):
        return write_repr(value) if isinstance(value, bytes) else _to_text(value)
    if len(parents) >= MAX_LEVELS or id(value) in parents:
        return write_short_json(value, OUTLINE_CHARACTERS)
    inside = parents | {id(value)}
    if isinstance(value, dict):
        return {_to_text(key): _to_json(each, inside) for key, each in value.items()}
    return [_to_json(each, inside) for each in value]


def _to_text(value: object) -> str:
    """Return the text of a key or value that JSON does not have."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return write_repr(value)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


# --- Tables ---------------------------------------------------------------------------------------

VERSION: Final = 1
"""Of the tables; a changed table changes it, and those of another version are refused."""

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
    Column("observed", EscapedText),  # key of its newest observed message
    Index("om_threads_within", "parent"),
)
Index(
    "om_threads_of_resource",
    thread_rows.c.resource_id,
    thread_rows.c.updated.desc(),
    thread_rows.c.id,
)

Index("om_threads_by_time", thread_rows.c.updated.desc(), thread_rows.c.id)

GONE: Final = ""
"""The digest, and the body, of a message that was pruned: its key and its place are left."""

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
# In SQLite triggers keep the index in step with the table, in the same transaction.

MARK: Final = "="
"""What a word begins with that says whose a text is, and of whom; no word of a text does."""

_TOKEN_CHARACTERS: Final = (MARK + JOINERS).replace("'", "''''")

_MAKE_FOR_SQLITE: Final = (
    f"""
    CREATE VIRTUAL TABLE om_text_words USING fts5(
        words, content='om_texts', content_rowid='id', detail='none', columnsize=0,
        tokenize="ascii tokenchars '{_TOKEN_CHARACTERS.replace("''''", "''")}'"
    )
    """,
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
    CREATE INDEX om_texts_keys ON om_texts USING gin ({WORD_KEYS}(words))
    WITH (gin_pending_list_limit = 128)
    """,
)

for _name, _statements in (("sqlite", _MAKE_FOR_SQLITE), ("postgresql", _MAKE_FOR_POSTGRESQL)):
    for _statement in _statements:
        _ddl = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(metadata, "after_create", _ddl.execute_if(dialect=_name))
