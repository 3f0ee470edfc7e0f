"""The recall tool over every database: archives and stores, sync and async."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite import SqliteStore

from langgraph_om.archive import SQLAlchemyArchive
from support.agents import asay, on_thread, remembering, say, scripted, talk, turn, turns, values
from support.clock import Clock
from support.inside import hidden_id, keyed_messages, runner_of
from support.recalling import WALNUTS, answers, asking, index_of, recalled, recalling, three_threads

# --- With an archive -----------------------------------------------------------------------------


def test_other_threads_of_the_user_are_listed_and_read(archive: SQLAlchemyArchive) -> None:
    agent = three_threads(archive)
    listed = recalled(agent, "work", "ana", mode="threads")
    assert (listed["count"], listed["has_more"]) == (2, False)
    assert "[trip]" in listed["threads"]
    assert re.search(r"\[work\].*← current", listed["threads"])
    assert "bobs" not in listed["threads"]

    begun = recalled(agent, "work", "ana", thread_id="trip", limit=2)
    assert begun["cursor"] == "trip-secret"
    assert "4711" in begun["messages"]
    by_id = recalled(agent, "work", "ana", cursor="trip-secret", limit=1)
    assert "4711" in by_id["messages"]
    whole = recalled(agent, "work", "ana", cursor="h0", part_index=0)
    assert whole["text"] == turn(0).text
    last = recalled(agent, "work", "ana", thread_id="trip", page=-1, limit=1)
    assert "Noted" in last["messages"]
    assert last["has_prev_page"] is True


def test_the_current_turn_is_in_the_archive_already(archive: SQLAlchemyArchive) -> None:
    agent = recalling(archive=archive)
    answer = recalled(agent, "new", "ana", page=-1, limit=2)
    assert "What did I say?" in answer["messages"]


@pytest.mark.parametrize("evict", [False, True])
def test_pages_of_the_archive_are_those_of_the_state(
    archive: SQLAlchemyArchive, *, evict: bool
) -> None:
    agent, alone = recalling(archive=archive, evict=evict), recalling()
    said = turns(24 if evict else 8, lookups=("", "2"))
    talk(agent.graph, on_thread(resource_id="ana"), said, agent.clock)
    talk(alone.graph, on_thread(), said, alone.clock)
    state, kept = values(agent.graph, on_thread()), values(alone.graph, on_thread())
    assert (len(state["messages"]) < len(kept["messages"])) == evict
    ranges = [ends for group in state["om"]["log"] for ends in group["ranges"]]
    assert len(ranges) > evict
    for arguments in (
        {},
        {"page": 2, "limit": 5},
        {"page": -1, "limit": 4},
        {"cursor": "h3", "limit": 3},
        {"cursor": "h3", "page": -2, "limit": 3},
        {"cursor": "h1-calls-0", "detail": "high"},
        {"cursor": "h2", "part_index": 0},
        *({"cursor": end, "limit": 2} for ends in ranges for end in ends),
        *({"cursor": end, "page": -1, "limit": 2} for ends in ranges for end in ends),
    ):
        archived = agent.memory.recall(state, on_thread(resource_id="ana"), **arguments)
        assert archived == alone.memory.recall(kept, on_thread(), **arguments), arguments
        assert archived.get("count") or archived.get("text"), arguments


@pytest.mark.parametrize("evict", [False, True])
def test_each_branch_recalls_its_own_words(archive: SQLAlchemyArchive, *, evict: bool) -> None:
    """One branch removes a turn and edits the next; the conversation goes on from before both."""
    agent = recalling(archive=archive, evict=evict, retrieval={"scope": "thread"})
    graph, config = agent.graph, on_thread(resource_id="ana")
    talk(graph, config, turns(3), agent.clock)
    before = graph.get_state(config).config
    removed = [RemoveMessage(str(each.id)) for each in values(graph, config)["messages"][:2]]
    edited = HumanMessage("I am going to Ulaanbaatar instead.", id="h1")
    graph.update_state(config, {"messages": [*removed, edited]})
    talk(graph, config, turns(3, start=10), agent.clock)
    other = graph.get_state(config)
    own = {"configurable": {**config["configurable"], **before["configurable"]}}
    say(graph, own, turn(20))
    talk(graph, config, turns(20 if evict else 3, start=21), agent.clock)

    def recall(state: Any, **arguments: Any) -> str:
        return str(agent.memory.recall(state, config, **arguments))

    state = values(graph, config)
    assert ("h0" in [each.id for each in state["messages"]]) != evict
    for key in ("h0", "h1"):
        assert turn(int(key[1:])).text[:30] in recall(state, cursor=key, limit=1)
        assert "h10" not in recall(state, cursor=key, limit=20)
    assert "h20" in recall(state, cursor="h2", limit=20)
    found = recall(state, mode="search", query="Ulaanbaatar Lisbon")
    assert found.count("Ulaanbaatar") == found.count('nothing that was searched has "Ulaan') == 1
    assert "cursor h0" in recall(state, mode="search", query="Lisbon")
    assert "error" in recall(state, cursor="h10")
    # The other branch is as it was, too.
    assert "Ulaanbaatar" in recall(other, cursor="h1", limit=1)
    assert "cursor h1" in recall(other, mode="search", query="Ulaanbaatar")
    assert "error" in recall(other, cursor="h0")
    assert "error" in recall(other, cursor="h20")


def test_another_run_on_the_same_thread_hides_nothing(archive: SQLAlchemyArchive) -> None:
    agent, other = recalling(archive=archive), recalling(archive=archive)
    config = on_thread(resource_id="ana")
    talk(agent.graph, config, turns(3), agent.clock)
    talk(other.graph, config, turns(3, start=10), other.clock)
    for one, own, theirs in ((agent, "h0", "h10"), (other, "h10", "h0")):
        state = values(one.graph, config)
        found = one.memory.recall(state, config, limit=20)["messages"]
        assert f"[{own}]" in found
        assert f"[{theirs}]" not in found
        assert "error" in one.memory.recall(state, config, cursor=theirs)
        said = one.memory.recall(state, config, mode="search", query=turn(int(own[1:])).text)
        assert f"cursor {own}" in said["results"]
        assert f"cursor {theirs}\n" not in said["results"]


def test_threads_are_filtered_by_their_creation(archive: SQLAlchemyArchive) -> None:
    agent = three_threads(archive)
    created = archive.thread("work")
    assert created is not None
    moment = created.created.isoformat()
    assert "work" in recalled(agent, "work", "ana", mode="threads", after=moment)["threads"]
    assert "[work]" not in recalled(agent, "work", "ana", mode="threads", before=moment)["threads"]


def test_without_a_resource_there_is_the_current_thread_alone(archive: SQLAlchemyArchive) -> None:
    agent = recalling(archive=archive)
    for thread in ("one", "two"):
        talk(agent.graph, on_thread(thread), [turn(1)])
    listed = recalled(agent, "two", mode="threads")
    assert listed["count"] == 1
    assert "[two]" in listed["threads"]
    assert "error" in recalled(agent, "two", thread_id="one")
    assert recalled(agent, "two", cursor="h1")["count"] > 0


def test_thread_ids_are_hidden_and_read_back(archive: SQLAlchemyArchive) -> None:
    agent = three_threads(archive, obscure_thread_ids=True)
    listed = recalled(agent, "work", "ana", mode="threads")["threads"]
    assert "[trip]" not in listed
    assert "[work]" not in listed
    hidden = next(key for key in re.findall(r"\[(\S+)\]", listed) if key != hidden_id("work"))
    for written in (hidden, "trip"):
        assert "4711" in recalled(agent, "work", "ana", thread_id=written, limit=1)["messages"]
    assert recalled(agent, "work", "ana", thread_id=hidden_id("work"))["cursor"] == "work-secret"


# --- Search --------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    with ExitStack() as stack:
        opened: BaseStore
        if request.param == "memory":
            opened = InMemoryStore(index=index_of())
        elif request.param == "sqlite":
            if not hasattr(sqlite3.Connection, "enable_load_extension"):
                pytest.skip("this Python's sqlite3 loads no extensions, so no sqlite-vec")
            path = str(tmp_path / "store.db")
            sqlite = stack.enter_context(SqliteStore.from_conn_string(path, index=index_of()))
            sqlite.setup()
            opened = sqlite
        else:
            url = request.getfixturevalue("postgres_database")
            postgres = stack.enter_context(PostgresStore.from_conn_string(url, index=index_of()))
            postgres.setup()
            opened = postgres
        yield opened


@pytest.mark.parametrize("door", ["plain", "agent", "middleware"])
def test_a_search_finds_the_message_and_where_to_read_on(door: str, store: BaseStore) -> None:
    agent = recalling(door, store=store, retrieval={"vector": True})
    talk(agent.graph, on_thread(), [*turns(3), WALNUTS, *turns(4, start=4)])
    assert agent.memory.flush(60)
    found = recalled(agent, mode="search", query="grandmother allergic walnuts", limit=3)
    assert 0 < found["count"] <= 3
    assert "cursor walnuts" in found["results"]
    for cursor in re.findall(r"cursor (\S+)", found["results"]):
        assert "error" not in recalled(agent, cursor=cursor)
    assert agent.memory.flush(60)  # before the store is closed


def test_a_search_in_the_users_threads(archive: SQLAlchemyArchive) -> None:
    store = InMemoryStore(index=index_of())
    agent = recalling(archive=archive, store=store, retrieval={"vector": True})
    talk(agent.graph, on_thread("old", resource_id="ana"), [WALNUTS, *turns(5)])
    talk(agent.graph, on_thread("bobs", resource_id="bob"), [WALNUTS, *turns(5)])
    assert agent.memory.flush(60)
    found = recalled(agent, "new", "ana", mode="search", query="allergic walnuts")
    assert "[old]" in found["results"]
    assert "bobs" not in found["results"]
    assert "cursor walnuts" in found["results"]
    hers = recalled(agent, "evil", "eve", mode="search", query="allergic walnuts")
    assert hers["count"] == 0  # not even her own question, which asks for it


async def test_a_search_with_an_asynchronous_store(postgres_database: str) -> None:
    opened = AsyncPostgresStore.from_conn_string(postgres_database, index=index_of())
    async with opened as store:
        await store.setup()
        agent = recalling(store=store, retrieval={"vector": True})
        for said in [WALNUTS, *turns(5)]:
            await asay(agent.graph, on_thread(), said)
        assert await agent.memory.aflush(60)
        await asay(agent.graph, on_thread(), asking({"mode": "search", "query": "walnuts"}))
        state = (await agent.graph.aget_state(on_thread())).values
        assert await agent.memory.aflush(60)
    assert "walnuts" in answers(state)[-1]["results"]


@pytest.mark.parametrize("name", ["ana.b", "", "%", "a" * 500, "Ünï/😀"])
def test_any_id_names_a_place_in_a_store(name: str, store: BaseStore) -> None:
    memory = remembering(scripted(), Clock(), retrieval={"vector": True})
    said = [HumanMessage(f"{WALNUTS.text} ({at})", id=f"m{at}") for at in range(40)]
    record = memory.step(None, said, thread_id=name).record
    config = on_thread(name, resource_id=name)
    runner = runner_of(memory)
    index = runner.settings.parts.meaning
    index.add(record, keyed_messages(said), store, runner.identity(config))
    assert memory.flush(60)
    state = {"messages": said, "om": record}
    found = memory.recall(state, config, store=store, mode="search", query="walnuts")
    assert found["count"] > 0
