"""Searching the archive: the index says which texts hold which words; BM25 puts them in order.

Two steps, so that a search among millions of texts reads few of them: the index tells, for each
word, which texts of the scope hold it, and the eighty that hold the most telling words are read
and ranked. Texts found by a very frequent word are read only if other words find too little.
How telling a word is follows from the texts of the scope alone, never from others'.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nlargest
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    TextClause,
    and_,
    any_,
    bindparam,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy import text as sql

from langgraph_om.archive.database import Database, insert_into, run_for_each
from langgraph_om.archive.page import CURRENT, find_branch
from langgraph_om.archive.tables import (
    MARK,
    WORD_KEYS,
    decode_message,
    group_rows,
    message_rows,
    store_moment,
    text_rows,
    thread_rows,
)
from langgraph_om.archive.types import ArchivedHit, check_scope, check_time
from langgraph_om.core.config.options import check_number
from langgraph_om.core.content.parts import parts_of, role_of
from langgraph_om.core.items import find_start
from langgraph_om.core.search import (
    FoundText,
    Kind,
    WordWeights,
    find_beginning,
    name_calls,
    query_words,
    read_parts,
    read_role,
    read_text,
    split_pieces,
    split_words,
    tools_in,
)

# --- Rows of the index ---------------------------------------------------------------------------

# A row for each piece of a message or of a group. Its words begin with marks, which say whose the
# text is and who said it, so that the index itself looks at nothing else. They are digests: who
# asks for one resource meets no other's, and what is shown is checked against the tables once more.


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
    """Return the rows by which groups of observations are searched, from rows that keep them."""
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
    """Mark the texts of a thread, so far another's or nobody's, as those of a resource."""
    new = mark("resource", resource_id)
    words: ColumnElement[str] = new + " " + text_rows.c.words
    if former is not None:
        words = func.replace(text_rows.c.words, mark("resource", former), new)
    is_it = text_rows.c.thread_id == thread_id
    connection.execute(update(text_rows).where(is_it).values(words=words))


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
    """Keep rows, replacing those left by a message that was lost and came back."""
    new = insert_into(connection, text_rows)
    place, rest = ("thread_id", "kind", "key", "digest", "piece"), ("at", "words")
    anew: dict[str, Any] = {name: literal_column(f"excluded.{name}") for name in rest}
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
    """Return, for each word, which texts hold it: `MAX_MATCHES` of them at most.

    Args:
        marks: Marks that a text must have, all of them.
        limits: Further conditions in SQL about `om_texts`, each beginning with `AND`.
        values: What these refer to.
        newest: Whether to return the newest ones, which means reading all, or any.
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
    return sql(f"SELECT asked.number - 1, ({ids}) FROM {asked}")  # noqa: S608


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
    return sql(" UNION ALL ".join(rows))


# --- Searching -----------------------------------------------------------------------------------

MAX_CANDIDATES: Final = 80
"""How many texts are ranked, beside those that are asked for."""


@dataclass(frozen=True, slots=True)
class _Scope:
    named: dict[str, str]
    """The thread, the resource, or both."""
    marks: list[str]
    """What a text has to be marked by; first those of what is named."""
    is_filtered: bool
    """Whether not all texts of what is named are searched."""
    limits: str
    values: dict[str, Any]
    branches: Mapping[str, str]
    """By thread id, names of branches that are searched instead of the current ones."""
    groups: Mapping[str, Collection[str]]
    """By thread id, ids of the groups that are searched instead of those of the log."""


class Search(Database):
    """The search of an archive in SQL."""

    def search(
        self,
        query: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        role: str | None = None,
        tool_name: str | None = None,
        limit: int = 8,
        offset: int = 0,
        branches: Mapping[str, str] | None = None,
        groups: Mapping[str, Collection[str]] | None = None,
    ) -> list[ArchivedHit]:
        """Return messages of branches, and groups, that hold words of a query, best first.

        The query is text: nothing in it is an operator, and nothing raises.

        Args:
            resource_id: The resource to look in; with `thread_id`, the thread's owner.
            before: Only what was said before this time.
            after: Only what was said at this time or later.
            role: Only messages of this role: `user`, `assistant`, `tool`.
            tool_name: Only calls of this tool and its results.
            branches: By thread id, the names of branches (see `SQLAlchemyArchive.append`) that are
                searched; for other threads, the current ones.
            groups: By thread id, the ids of the groups that are searched; for other threads, those
                in their logs, as `SQLAlchemyArchive.add_groups` was told last.

        Raises:
            ConfigurationError: When neither thread nor resource is given.
            ArchiveError: When the storage fails.
        """
        check_scope(thread_id, resource_id)
        check_number("limit", limit)
        check_number("offset", offset)
        check_time("before", before)
        check_time("after", after)
        words = query_words(query)
        if not words or not limit:
            return []
        named = {"thread_id": thread_id, "resource_id": resource_id}
        given = {name: value for name, value in named.items() if value is not None}
        times = {"before": before, "after": after}
        values = {name: store_moment(at) for name, at in times.items() if at is not None}
        limits = " ".join(_LIMITS[name] for name in values)
        names = {"thread": thread_id, "resource": resource_id, "role": role, "tool": tool_name}
        marks = [mark(kind, name) for kind, name in names.items() if name is not None]
        is_filtered = len(marks) > len(given) or bool(limits)
        with self._reading("search") as connection:
            if resource_id is None:
                marks += _mark_owner(connection, thread_id)
            scope = _Scope(given, marks, is_filtered, limits, values, branches or {}, groups or {})
            found = _rank(connection, words, scope, limit + offset)
            return _read_hits(connection, found[offset : offset + limit])


_LIMITS: Final = {"before": "AND om_texts.at < :before", "after": "AND om_texts.at >= :after"}


def _mark_owner(connection: Connection, thread_id: str | None) -> list[str]:
    """Return the mark of whose a thread is, by whom PostgreSQL's index goes."""
    if connection.dialect.name == "sqlite":
        return []
    query = select(thread_rows.c.resource_id).where(thread_rows.c.id == thread_id)
    owner = connection.execute(query).scalar()
    return [] if owner is None else [mark("resource", owner)]


# --- Ranking -------------------------------------------------------------------------------------


class _Ranked(NamedTuple):
    row: int
    thread_id: str
    piece: int
    found: FoundText


def _rank(
    connection: Connection, words: Sequence[str], scope: _Scope, wanted: int
) -> list[_Ranked]:
    """Return what matches, without its text, the best first; only some beside what is wanted."""
    # What has a word has its beginning.
    wide = [*dict.fromkeys(map(find_beginning, words))]
    asked, texts = wide, None
    if scope.is_filtered:
        asked = [*wide, scope.marks[0]]  # which is found in all texts of the scope
    else:
        rows_there = select(literal(1)).select_from(_IN_THREADS).where(*_is_in(scope.named))
        count = select(func.count()).select_from(rows_there.limit(MAX_MATCHES).subquery())
        texts = int(connection.execute(count).scalar_one())
    holding = dict(zip(asked, _find(connection, asked, scope), strict=True))
    if texts is None:
        texts = len(holding[scope.marks[0]])
    every = dict.fromkeys([*words, *wide])
    frequencies = {word: len(holding[find_beginning(word)]) for word in every}
    weights = WordWeights.of([*every], frequencies, texts)
    # Frequent words tell next to nothing: they are looked at where the others find too little.
    frequent = [word for word in wide if len(holding[word]) >= MAX_MATCHES]
    told = _add_up({word: holding[word] for word in wide if word not in frequent}, weights)
    if frequent and len(told) < wanted:
        newest = _find(connection, frequent, scope, newest=True)
        holding |= dict(zip(frequent, newest, strict=True))
        told = _add_up({word: holding[word] for word in wide}, weights)
    rows: list[Any] = []
    while told and len(rows) < wanted:  # once, but where most of them are on other branches
        best = nlargest(wanted + MAX_CANDIDATES, zip(told.values(), told, strict=True))
        rows += _read_candidates(connection, [text_id for _, text_id in best], scope)
        told = {text_id: told[text_id] for text_id in told.keys() - {each for _, each in best}}
    return _rank_rows(rows, weights)


def _find(
    connection: Connection, words: Sequence[str], scope: _Scope, *, newest: bool = False
) -> list[list[int]]:
    return find_matches(connection, words, scope.marks, scope.limits, scope.values, newest=newest)


def _add_up(holding: Mapping[str, Sequence[int]], weights: WordWeights) -> dict[int, float]:
    """Return what the words that each text holds come to."""
    told: dict[int, float] = {}
    for word, ids in holding.items():
        weight = weights.weights[word]
        for text_id in ids:
            told[text_id] = told.get(text_id, 0.0) + weight
    return told


def _rank_rows(rows: Sequence[Any], weights: WordWeights) -> list[_Ranked]:
    """Return the best piece of each text, the best text first; of equals, the first row."""
    texts = [row.words.split(" ") for row in rows]
    lengths = [len(text) - row.words.count(MARK) for row, text in zip(rows, texts, strict=True)]
    average = sum(lengths) / max(1, len(rows))
    is_wanted = weights.weights.__contains__
    best: dict[tuple[str, str, str], _Ranked] = {}
    for row, text, length in zip(rows, texts, lengths, strict=True):
        counts = Counter(filter(is_wanted, text))
        score = weights.score_counts(counts, length, average)
        name = (row.thread_id, row.kind, row.key)
        if score > 0 and (name not in best or score > best[name].found.score):
            held = weights.weigh(counts)
            found = FoundText(row.kind, row.key, row.key, "", score, row.at, None, held)
            best[name] = _Ranked(row.id, row.thread_id, row.piece, found)
    return sorted(best.values(), key=lambda ranked: -ranked.found.score)


def _read_candidates(connection: Connection, ids: Sequence[int], scope: _Scope) -> list[Any]:
    """Read texts in the order of their ids: those of the scope, of its branches and logs."""
    query = _CANDIDATES.where(_is_one_of(connection, ids), *_is_in(scope.named))
    found = connection.execute(query).all()
    paths = {row.thread_id: CURRENT for row in found}
    for thread_id in paths.keys() & scope.branches.keys():
        paths[thread_id] = find_branch(connection, thread_id, scope.branches[thread_id])
    off = {
        (thread_id, row.key, row.digest)
        for thread_id, path in paths.items()
        for row in path.off
        if row.is_visible
    }

    def is_searched(row: Any) -> bool:
        if row.kind != "message":
            known = scope.groups.get(row.thread_id)
            return bool(row.in_log) if known is None else row.key in known
        if row.position is not None and row.position <= paths[row.thread_id].last:
            return True
        return (row.thread_id, row.key, row.digest) in off

    rows = {row.id: row for row in found if is_searched(row)}
    return [rows[text_id] for text_id in ids if text_id in rows]


# --- Statements ----------------------------------------------------------------------------------


def _is_one_of(connection: Connection, ids: Sequence[int]) -> ColumnElement[bool]:
    """Compare with ids; where there are arrays they are one value, however many."""
    if connection.dialect.name == "sqlite":
        return text_rows.c.id.in_(ids)
    return text_rows.c.id == any_(literal(ids, ARRAY(BigInteger)))


def _is_in(named: Mapping[str, str]) -> list[ColumnElement[bool]]:
    columns = {"thread_id": text_rows.c.thread_id, "resource_id": thread_rows.c.resource_id}
    return [columns[name] == value for name, value in named.items()]


_IN_THREADS: Final = text_rows.join(thread_rows, thread_rows.c.id == text_rows.c.thread_id)
_IS_MESSAGE: Final = and_(
    text_rows.c.kind == "message",
    message_rows.c.thread_id == text_rows.c.thread_id,
    message_rows.c.key == text_rows.c.key,
    message_rows.c.digest == text_rows.c.digest,
)
# As one condition that no index has, or SQLite goes by that instead of by the key.
_IS_CURRENT: Final = and_(
    _IS_MESSAGE, not_(or_(~message_rows.c.is_current, ~message_rows.c.is_visible))
)
_IS_GROUP: Final = and_(
    text_rows.c.kind == "observations",
    group_rows.c.thread_id == text_rows.c.thread_id,
    group_rows.c.id == text_rows.c.key,
)
_CANDIDATES: Final = select(text_rows, message_rows.c.position, group_rows.c.in_log).select_from(
    _IN_THREADS.outerjoin(message_rows, _IS_CURRENT).outerjoin(group_rows, _IS_GROUP)
)
# Where the same was said in several places, one of them tells.
_BODIES: Final = [
    select(table.c.body).where(is_it).limit(1).scalar_subquery()
    for table, is_it in ((message_rows, _IS_MESSAGE), (group_rows, _IS_GROUP))
]
_HITS: Final = select(text_rows.c.id, func.coalesce(*_BODIES).label("body"))


# --- Reading -------------------------------------------------------------------------------------


def _read_hits(connection: Connection, ranked: Sequence[_Ranked]) -> list[ArchivedHit]:
    if not ranked:
        return []
    query = _HITS.where(_is_one_of(connection, [each.row for each in ranked]))
    found = {row.id: row.body for row in connection.execute(query)}
    return [_complete(each, found[each.row]) for each in ranked]


def _complete(ranked: _Ranked, body: str) -> ArchivedHit:
    """Return a hit with the text that its words are of."""
    found, more = ranked.found, dict[str, Any]()
    if found.kind == "message":
        message = decode_message(found.key, body)
        text, more["role"] = read_text(message), role_of(message)
    else:
        group = json.loads(body)
        text = str(group.get("text", ""))
        more["cursor"] = find_start(group)
    pieces = split_pieces(text)
    text = pieces[ranked.piece] if ranked.piece < len(pieces) else text
    return ArchivedHit(ranked.thread_id, replace(found, text=text, **more))
