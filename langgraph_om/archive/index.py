"""The index of words: a row for each piece of a message or of a group, and how they are found.

The words begin with marks, which say whose the text is and who said it, so that the index itself
looks at nothing else. They are digests: who asks for one resource meets no other's, and what is
shown is checked against the tables once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage
from sqlalchemy import ColumnElement, Connection, TextClause, bindparam, func, text, update

from langgraph_om.archive.database import insert_into, run_for_each
from langgraph_om.archive.tables import MARK, WORD_KEYS, text_rows
from langgraph_om.core.content.parts import parts_of, role_of
from langgraph_om.core.search import (
    Kind,
    name_calls,
    read_parts,
    read_role,
    split_pieces,
    split_words,
    tools_in,
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is stored."""

    message: BaseMessage
    body: str
    digest: str
    """Of the body."""
    is_visible: bool
    written: datetime | None


_LETTERS: Final = {"thread": "t", "resource": "r", "role": "s", "tool": "x"}


def mark(kind: str, name: str) -> str:
    """Return the mark of all texts of a thread or resource, of a role, or about a tool."""
    named = read_role(name) if kind == "role" else name
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{MARK}{_LETTERS[kind]}{digest}"


def build_texts(
    thread_id: str, resource_id: str | None, entries: Mapping[str, StoredMessage]
) -> list[dict[str, Any]]:
    """Return the rows by which messages of a thread are searched."""
    calls = name_calls(entry.message for entry in entries.values())
    rows: list[dict[str, Any]] = []
    for key, entry in entries.items():
        if not entry.is_visible:
            continue
        role, marks = role_of(entry.message), _scope(thread_id, resource_id)
        marks += [] if role is None else [mark("role", role)]
        parts = [*parts_of(entry.message)]
        marks += sorted(mark("tool", name) for name in tools_in(parts, calls))
        text = read_parts(parts)
        rows += _build_rows(
            (thread_id, "message", key), entry.written, marks, text, digest=entry.digest
        )
    return rows


def build_group_texts(
    thread_id: str, resource_id: str | None, groups: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows by which groups of observations are searched, of rows that keep them."""
    rows: list[dict[str, Any]] = []
    for group in groups:
        text, marks = json.loads(group["body"]).get("text"), _scope(thread_id, resource_id)
        if isinstance(text, str):
            place: tuple[str, Kind, str] = (thread_id, "observations", group["id"])
            rows += _build_rows(place, group["observed"], marks, text)
    return rows


def give_to_resource(
    connection: Connection, thread_id: str, resource_id: str, *, former: str | None = None
) -> None:
    """Mark the texts of a thread as those of a resource, which were another's, or nobody's."""
    new = mark("resource", resource_id)
    words: ColumnElement[str] = new + " " + text_rows.c.words
    if former is not None:
        words = func.replace(text_rows.c.words, mark("resource", former), new)
    is_it = text_rows.c.thread_id == thread_id
    connection.execute(update(text_rows).where(is_it).values(words=words))


# --- Rows ----------------------------------------------------------------------------------------


def _scope(thread_id: str, resource_id: str | None) -> list[str]:
    whose = [mark("resource", resource_id)] if resource_id else []
    return [mark("thread", thread_id), *whose]


def _build_rows(
    place: tuple[str, Kind, str],
    at: datetime | None,
    marks: Sequence[str],
    text: str,
    *,
    digest: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of a text; one without words has one too, as what is there is done."""
    thread_id, kind, key = place
    return [
        {
            "thread_id": thread_id,
            "kind": kind,
            "key": key,
            "digest": digest,
            "piece": number,
            "at": at,
            "words": " ".join([*marks, *split_words(piece)]),
        }
        for number, piece in enumerate(split_pieces(text) or [""])
    ]


def put_texts(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Keep rows, in the place of those that a message left which came back after it was lost."""
    new = insert_into(connection, text_rows)
    place, rest = ("thread_id", "kind", "key", "digest", "piece"), ("at", "words")
    anew = {name: new.excluded[name] for name in rest}
    columns: dict[str, Any] = {name: bindparam(name) for name in (*place, *rest)}
    kept = new.values(columns).on_conflict_do_update(index_elements=place, set_=anew)
    run_for_each(connection, kept.inline(), rows)  # the id is not asked for


# --- Finding words -------------------------------------------------------------------------------

MAX_MATCHES: Final = 500
"""Of a word that is in more texts, the newest are taken; it tells little anyway."""


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
        statement, values = _build_for_keys(limits, newest=newest), {**values, "queries": queries}
    else:
        statement = _build_for_fts5(len(words), limits, newest=newest)
        for number, word in enumerate(words):
            asked = " AND ".join(f'"{each}"' for each in (*marks, word))
            values = {**values, f"query_{number}": asked}
    found = {number: ids for number, ids in connection.execute(statement, values).all() if ids}
    return [[*map(int, found[n].split(","))] if n in found else [] for n in range(len(words))]


def _build_for_keys(limits: str, *, newest: bool) -> TextClause:
    """Write PostgreSQL's statement, the same for any words: to plan it takes long."""
    # The sum keeps the planner from reading all texts backwards in hope of matches.
    end = f"{'ORDER BY id + 0 DESC' if newest else ''} LIMIT {MAX_MATCHES}"
    # The first key is that of all texts of whose they are, which the others imply.
    holds = f"{WORD_KEYS}(words) @> ({WORD_KEYS}(asked.query))[2:]"
    select = f"SELECT id FROM om_texts WHERE {holds} {limits} {end}"  # noqa: S608
    ids = f"SELECT string_agg(CAST(id AS TEXT), ',') FROM ({select}) AS one"  # noqa: S608
    asked = "unnest(CAST(:queries AS TEXT[])) WITH ORDINALITY AS asked(query, number)"
    return text(f"SELECT asked.number - 1, ({ids}) FROM {asked}")  # noqa: S608


def _join_for_keys(word: str, marks: Sequence[str]) -> str:
    """Write a word as a text that begins with whose it is, as the texts do."""
    whose = next((mark for mark in marks if mark.startswith(f"{MARK}r")), marks[0])
    return " ".join((whose, *(mark for mark in marks if mark != whose), word))


def _build_for_fts5(words: int, limits: str, *, newest: bool) -> TextClause:
    """Write SQLite's statement, which depends on the number of words alone."""
    join = "JOIN om_texts ON om_texts.id = om_text_words.rowid" if limits else ""
    end = f"{'ORDER BY om_text_words.rowid DESC' if newest else ''} LIMIT {MAX_MATCHES}"
    # A row for each word, as rows are what takes time.
    rows = (
        f"SELECT {n}, group_concat(id) FROM ("  # noqa: S608
        f"SELECT om_text_words.rowid AS id FROM om_text_words {join} "
        f"WHERE om_text_words MATCH :query_{n} {limits} {end}) AS word_{n}"
        for n in range(words)
    )
    return text(" UNION ALL ".join(rows))
