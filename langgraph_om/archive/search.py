"""Searching the archive: the index says which texts hold which words, BM25 puts them in order.

Two steps, so that a search among millions of texts reads few of them: the index tells, for each
word, which texts of the scope hold it, and the eighty that hold the most telling words are read
and ranked. Of a word that is in very many texts these are read only where others find too little.
How telling a word is follows from the texts of the scope alone, never from others'.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nlargest
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    any_,
    bindparam,
    func,
    literal,
    not_,
    or_,
    select,
)

from langgraph_om.archive.database import Database
from langgraph_om.archive.index import MAX_MATCHES, find_matches, mark
from langgraph_om.archive.page import CURRENT, find_branch
from langgraph_om.archive.tables import (
    MARK,
    group_rows,
    message_rows,
    text_rows,
    thread_rows,
)
from langgraph_om.archive.types import ArchivedHit, check_scope
from langgraph_om.archive.values import check_time, decode_message, store_moment
from langgraph_om.core.config.options import check_number
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.search import (
    FoundText,
    Kind,
    WordWeights,
    find_beginning,
    query_words,
    read_text,
    split_pieces,
)

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
            resource_id: The resource to look in; with `thread_id`, whose the thread has to be.
            before: Only what was said before this time.
            after: Only what was said at this time or later.
            role: Only messages of this role: `user`, `assistant`, `tool`.
            tool_name: Only calls of this tool and its results.
            branches: By thread id, the names of branches (see `SQLAlchemyArchive.append`) that are
                searched; of other threads the current ones are.
            groups: By thread id, the ids of the groups that are searched; of other threads those
                are that their logs have, as `SQLAlchemyArchive.add_groups` was told last.

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
        texts = int(connection.execute(_build_count(tuple(scope.named)), scope.named).scalar_one())
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
    query = _build_candidates(tuple(scope.named), connection.dialect.name)
    found = connection.execute(query, {"ids": ids, **scope.named}).all()
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


def _build_count(places: tuple[str, ...]) -> Select[Any]:
    """Count the texts of a scope, as far as a word is looked for."""
    rows = select(literal(1).label("one")).select_from(_IN_THREADS).where(*_is_in(places))
    return select(func.count()).select_from(rows.limit(MAX_MATCHES).subquery())


def _build_candidates(places: tuple[str, ...], dialect: str) -> Select[Any]:
    return (
        select(text_rows, message_rows.c.position, group_rows.c.in_log)
        .select_from(
            _IN_THREADS.outerjoin(message_rows, _IS_CURRENT).outerjoin(group_rows, _IS_GROUP)
        )
        .where(_is_one_of_ids(dialect), *_is_in(places))
    )


def _build_bodies(kind: Kind, dialect: str) -> Select[Any]:
    table, is_it = {
        "message": (message_rows, _IS_MESSAGE),
        "observations": (group_rows, _IS_GROUP),
    }[kind]
    # Where the same was said in several places, one of them tells.
    body = select(table.c.body).where(is_it).limit(1).scalar_subquery().label("body")
    return select(text_rows.c.id, body).where(_is_one_of_ids(dialect))


def _is_one_of_ids(dialect: str) -> ColumnElement[bool]:
    """Compare with `ids`; where there are arrays it is one value, however many ids it has."""
    if dialect == "sqlite":
        return text_rows.c.id.in_(bindparam("ids", expanding=True))
    return text_rows.c.id == any_(bindparam("ids", type_=ARRAY(BigInteger)))


def _is_in(places: tuple[str, ...]) -> list[Any]:
    columns = {"thread_id": text_rows.c.thread_id, "resource_id": thread_rows.c.resource_id}
    return [columns[name] == bindparam(name, type_=columns[name].type) for name in places]


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


# --- Reading -------------------------------------------------------------------------------------


def _read_hits(connection: Connection, ranked: Sequence[_Ranked]) -> list[ArchivedHit]:
    bodies: dict[int, str] = {}
    for kind in _COMPLETE:
        if ids := [each.row for each in ranked if each.found.kind == kind]:
            query = _build_bodies(kind, connection.dialect.name)
            bodies |= {row.id: row.body for row in connection.execute(query, {"ids": ids})}
    return [
        ArchivedHit(thread_id, _COMPLETE[found.kind](found, piece, bodies[row]))
        for row, thread_id, piece, found in ranked
    ]


def _complete_message(found: FoundText, piece: int, body: str) -> FoundText:
    message = decode_message(found.key, body)
    text = _take_piece(read_text(message), piece)
    return replace(found, text=text, role=role_of(message))


def _complete_group(found: FoundText, piece: int, body: str) -> FoundText:
    group: Mapping[str, Any] = json.loads(body)
    text = _take_piece(str(group.get("text", "")), piece)
    return replace(found, text=text, cursor=_find_cursor(group))


def _take_piece(text: str, number: int) -> str:
    pieces = split_pieces(text)
    return pieces[number] if number < len(pieces) else text


def _find_cursor(group: Mapping[str, Any]) -> str:
    """Return the first message that a group was written from; empty when it does not say."""
    try:
        return str(group["ranges"][0][0])
    except (KeyError, IndexError, TypeError):
        return ""


_COMPLETE: Final[Mapping[Kind, Callable[[FoundText, int, str], FoundText]]] = {
    "message": _complete_message,
    "observations": _complete_group,
}
