"""Searches of both databases: a query is data, an id may be anything, and nobody meets others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.search import mark

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
SECRET = "quokka pin 4711"  # noqa: S105 nobody's
ODD_IDS = [
    "it's",
    'a"b',
    "100%_x\\",
    "=r0000000000000000",
    "nul\x00id",
    "\ud800",
    "' OR 1=1 --",
    "$$;drop table om_texts;$$",
    "界 ظل 😀",
    "x" * 5000,
]
QUERIES = [
    f"{SECRET} OR *",
    f'"{SECRET}" NEAR(4711) words:quokka -pin ^pin pin* {{quokka}}',
    f"{SECRET} & ! | <-> :* \\ ' '' \" $1 %s %(x)s :name {{0}} [2:] @>",
    f"quokka\x00pin\ud800 4711 {'=r' * 50}",
    f"{SECRET} " + "so many words " * 20_000,
    f"{SECRET} ケーキ 蛋糕 كَعْكَة пирог เค้ก 케이크",
    f"{SECRET} " + "x" * 1_000_000,
]
NOTHING = [
    " ".join(f"longer{n}" for n in range(5000)),
    "",
    " ",
    "\x00",
    "* ' \" %",
    "OR",
    "\ud800",
    "=r=t",
    "𓀀",
]


def put(archive: SQLAlchemyArchive, thread: str, resource: str | None, text: str) -> None:
    rows = [("m", HumanMessage(text, id="m"), True)]
    archive.append(thread, resource, rows, after=None, now=NOON)


@pytest.mark.parametrize("query", [*QUERIES, *NOTHING])
def test_a_query_is_data_and_reaches_nobody_else(archive: SQLAlchemyArchive, query: str) -> None:
    put(archive, "mine", "ana", SECRET)
    put(archive, "theirs", "ben", SECRET)
    put(archive, "nobodys", None, SECRET)
    expected = ["mine"] if query in QUERIES else []
    for filters in ({}, {"role": "user"}, {"after": NOON}, {"role": "user", "tool_name": query}):
        found = archive.search(query, resource_id="ana", **filters)
        wanted = expected if filters in ({}, {"role": "user"}) else []
        assert [hit.thread_id for hit in found] == wanted
    for thread in ("theirs", "nobodys", "none"):
        assert archive.search(query, thread_id=thread, resource_id="ana") == []


@pytest.mark.parametrize("name", ODD_IDS)
def test_any_id_is_searched_and_finds_its_own(archive: SQLAlchemyArchive, name: str) -> None:
    put(archive, name, name, SECRET)
    put(archive, f"{name}2", f"{name}2", SECRET)
    put(archive, f"{name}3", None, SECRET)
    assert [hit.thread_id for hit in archive.search(SECRET, resource_id=name)] == [name]
    for thread in (name, f"{name}3"):
        assert [hit.thread_id for hit in archive.search(SECRET, thread_id=thread)] == [thread]
    assert archive.search(SECRET, thread_id=f"{name}2", resource_id=name) == []
    # What had no resource is given one, and is its resource's from then on.
    archive.append(f"{name}3", name, [], after=None, now=NOON)
    found = archive.search(SECRET, resource_id=name)
    assert {hit.thread_id for hit in found} == {name, f"{name}3"}
    assert [hit.thread_id for hit in archive.search(SECRET, thread_id=f"{name}3")] == [f"{name}3"]


def test_resources_that_an_index_takes_for_one_do_not_meet(archive: SQLAlchemyArchive) -> None:
    one, other = "user-15802", "user-84706"
    assert mark("resource", one)[:10] == mark("resource", other)[:10], (
        "no longer alike: find others"
    )
    assert mark("resource", one) != mark("resource", other)
    for at in range(3):
        put(archive, f"{one}/{at}", one, SECRET)
        put(archive, f"{other}/{at}", other, SECRET)
    found = archive.search(SECRET, resource_id=one)
    assert {hit.thread_id for hit in found} == {f"{one}/{at}" for at in range(3)}


def test_a_mark_in_a_text_or_a_query_marks_nothing(archive: SQLAlchemyArchive) -> None:
    forged = f"{SECRET} {mark('resource', 'ana')} {mark('thread', 'mine')}"
    put(archive, "mine", "ana", "hello")
    put(archive, "theirs", "ben", forged)
    assert archive.search(forged, resource_id="ana") == []
    assert [hit.thread_id for hit in archive.search(forged, resource_id="ben")] == ["theirs"]
