"""The index over the words of `om_texts`: FTS5 in SQLite, an inverted index (GIN) in PostgreSQL.

Both are given words that are ready (`core.search.words`) and no text to take apart: FTS5's `ascii`
tokenizer parts them at blanks alone, and so does PostgreSQL, which indexes an array of numbers: a
word's hash behind the hash of whose the text is. So both find the same, in every language and
without an extension, and what others have said makes no search in PostgreSQL slower. Two words of
one number only make a text be looked at that does not match.

In SQLite triggers keep the index in step with the table, in the same transaction. An SQLite that
was compiled without FTS5 drops the triggers, so that writing works, and reads the rows instead;
one with FTS5 that opens the same file later builds the index anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError

from langgraph_om.core.search import JOINERS

MARK: Final = "="
"""What a word begins with that says whose a text is, and of whom; no word of a text does."""

MAX_MATCHES: Final = 500
"""Of a word that is in more texts, the newest are taken; it tells little anyway."""

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

_KEYS: Final = "om_word_keys"
_MAKE_FOR_POSTGRESQL: Final = (
    # What it says of cost and parallel work keeps the planner from calling it for all texts there
    # are, and from starting workers for a hundred rows.
    f"""
    CREATE OR REPLACE FUNCTION {_KEYS}(words TEXT) RETURNS BIGINT[]
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
    CREATE INDEX IF NOT EXISTS om_texts_keys ON om_texts USING gin ({_KEYS}(words))
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
    return _has_triggers(connection) == has_fts5(connection)


def put_index_in_order(connection: Connection) -> None:
    """Make the index, or let go of one that this SQLite cannot keep; nothing when all is well."""
    if connection.dialect.name != "sqlite":
        for statement in _MAKE_FOR_POSTGRESQL:
            connection.exec_driver_sql(statement)
        return
    has_triggers, can_search = _has_triggers(connection), has_fts5(connection)
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
    if connection.dialect.name == "sqlite" and _has_triggers(connection):
        connection.exec_driver_sql("INSERT INTO om_text_words(om_text_words) VALUES ('optimize')")


def find_matches(
    connection: Connection,
    words: Sequence[str],
    marks: Sequence[str],
    limits: str,
    values: dict[str, Any],
    *,
    newest: bool = False,
) -> list[list[int]]:
    """Return for each word which texts hold it; of very many, `MAX_MATCHES`.

    Args:
        marks: Marks that a text must have, all of them.
        limits: Further conditions in SQL about `om_texts`, each begun by `AND`.
        values: What these refer to.
        newest: Whether these are the newest, for which all have to be read, or any.
    """
    if connection.dialect.name != "sqlite":
        queries = [_join_for_keys(word, marks) for word in words]
        statement = _build_for_keys(limits, newest)
        rows = connection.execute(statement, {"queries": queries, **values}).all()
    else:
        has_index = _has_triggers(connection)
        for number, word in enumerate(words):
            asked = (*marks, word)
            if has_index:
                bound = {f"query_{number}": " AND ".join(f'"{each}"' for each in asked)}
            else:
                bound = {f"query_{number}_{at}": f" {each} " for at, each in enumerate(asked)}
            values = {**values, **bound}
        statement = _build_statement(has_index, len(words), len(marks), limits, newest)
        rows = connection.execute(statement, values).all()
    found: dict[int, str | None] = {row[0]: row[1] for row in rows}
    return [
        [*map(int, (found.get(n) or "").split(","))] if found.get(n) else []
        for n in range(len(words))
    ]


@lru_cache(maxsize=8)
def _build_for_keys(limits: str, newest: bool) -> TextClause:  # noqa: FBT001
    """Write PostgreSQL's statement, the same for any words: to plan it takes long."""
    # The sum keeps the planner from reading all texts backwards in hope of matches.
    end = f"{'ORDER BY id + 0 DESC' if newest else ''} LIMIT {MAX_MATCHES}"
    # The first key is that of all texts of whose they are, which the others imply.
    select = (
        f"SELECT id FROM om_texts WHERE {_KEYS}(words) @> ({_KEYS}(asked.query))[2:] {limits} {end}"  # noqa: S608
    )
    ids = f"SELECT string_agg(CAST(id AS TEXT), ',') FROM ({select}) AS one"  # noqa: S608
    asked = "unnest(CAST(:queries AS TEXT[])) WITH ORDINALITY AS asked(query, number)"
    return text(f"SELECT asked.number - 1, ({ids}) FROM {asked}")  # noqa: S608


def _join_for_keys(word: str, marks: Sequence[str]) -> str:
    """Write a word as a text that begins with whose it is, as the texts do."""
    whose = next((mark for mark in marks if mark.startswith(f"{MARK}r")), marks[0])
    return " ".join((whose, *(mark for mark in marks if mark != whose), word))


@lru_cache(maxsize=256)
def _build_statement(
    has_index: bool,  # noqa: FBT001
    words: int,
    marks: int,
    limits: str,
    newest: bool,  # noqa: FBT001
) -> TextClause:
    """Write SQLite's statement once, so that it is compiled and prepared once too.

    It depends on the number of words alone.
    """
    order = f"ORDER BY {'om_text_words.rowid' if has_index else 'id'} DESC" if newest else ""
    select = _select_from_fts5 if has_index else _select_by_reading
    selects = (
        f"{select(number, marks, limits)} {order} LIMIT {MAX_MATCHES}" for number in range(words)
    )
    # A row for each word, as rows are what takes time.
    rows = (
        f"SELECT {number}, group_concat(id) FROM ({select}) AS word_{number}"  # noqa: S608
        for number, select in enumerate(selects)
    )
    return text(" UNION ALL ".join(rows))


def _select_from_fts5(number: int, marks: int, limits: str) -> str:
    join = "JOIN om_texts ON om_texts.id = om_text_words.rowid" if limits else ""
    return (
        f"SELECT om_text_words.rowid AS id FROM om_text_words {join} "  # noqa: S608
        f"WHERE om_text_words MATCH :query_{number} {limits}"
    )


def _select_by_reading(number: int, marks: int, limits: str) -> str:
    names = (f"query_{number}_{at}" for at in range(marks + 1))
    holds = " AND ".join(f"instr(' ' || words || ' ', :{name}) > 0" for name in names)
    return f"SELECT id FROM om_texts WHERE {holds} {limits}"  # noqa: S608


def _has_triggers(connection: Connection) -> bool:
    found = connection.exec_driver_sql(
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (?, ?, ?)",
        _TRIGGERS,
    )
    return bool(found.scalar() == len(_TRIGGERS))
