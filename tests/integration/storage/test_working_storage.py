"""Working memory in real stores: what two writers at once come to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

from langgraph_om import (
    ConfigurationError,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    WorkingMemory,
    create_memory_agent,
)
from langgraph_om.features import working_store as storage
from langgraph_om.testing import ScriptedChatModel

SCHEMA = {"type": "object"}
ROUNDS = 12


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], BaseStore]]:
    """Opens one store: each call is a connection of its own, as of another process."""
    with contextlib.ExitStack() as stack:
        if request.param == "memory":
            shared = InMemoryStore()
            yield lambda: shared
            return
        if request.param == "sqlite":
            path = str(tmp_path / "store.sqlite")

            def connect() -> BaseStore:
                store = stack.enter_context(SqliteStore.from_conn_string(path))
                store.conn.execute("PRAGMA busy_timeout = 120000")
                return store
        else:
            url = request.getfixturevalue("postgres_database")

            def connect() -> BaseStore:
                return stack.enter_context(PostgresStore.from_conn_string(url))

        connect().setup()  # type: ignore[attr-defined]
        yield connect


@pytest.fixture(params=["one process", "two processes"])
def race(
    request: pytest.FixtureRequest,
    open_store: Callable[[], BaseStore],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[BaseStore, int], None]], BaseStore]:
    """Runs two writers side by side; those of two processes have no lock in common."""
    if request.param == "two processes":
        monkeypatch.setattr(storage, "_lock", lambda _: contextlib.nullcontext())

    def run(write: Callable[[BaseStore, int], None]) -> BaseStore:
        barrier, stores = threading.Barrier(2), [open_store(), open_store()]

        def writer(number: int) -> None:
            for at in range(ROUNDS):
                barrier.wait(120)
                write(stores[number], 2 * at + number)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(writer, number) for number in range(2)]:
                done.result(250)
        return stores[0]

    return run


def test_updates_of_other_fields_at_once_all_count(race: Any) -> None:
    working = WorkingMemory(schema=SCHEMA)

    def write(store: BaseStore, number: int) -> None:
        working.update(store, "u", {f"f{number}": number, "inner": {f"g{number}": [number]}})

    kept = working.get(race(write), "u")
    numbers = range(2 * ROUNDS)
    assert kept == {
        **{f"f{number}": number for number in numbers},
        "inner": {f"g{number}": [number] for number in numbers},
    }


def test_lists_that_grow_at_once_lose_no_item(race: Any) -> None:
    working = WorkingMemory(schema=SCHEMA)

    def write(store: BaseStore, number: int) -> None:
        known = (working.get(store, "u") or {}).get("tasks", [])
        patch = {"tasks": [*known, number]}
        while True:
            try:
                storage.update_stored(working.form, store, "u", patch, {"tasks": known})
            except storage.ConflictError as conflict:  # what the tool says to a model
                known = conflict.current["tasks"]
                patch = {"tasks": [*known, number]}
            else:
                return

    assert sorted(working.get(race(write), "u")["tasks"]) == [*range(2 * ROUNDS)]


def test_nothing_is_left_of_what_was_replaced(open_store: Callable[[], BaseStore]) -> None:
    working, store = WorkingMemory(schema=SCHEMA), open_store()
    for number in range(5):
        working.update(store, "u", {"a": number, "b": {"c": [number]}})
    namespace = storage.build_namespace(working.form, "u")
    assert len(store.search(namespace, limit=50)) == 2
    working.update(store, "u", {"b": None})
    assert working.get(store, "u") == {"a": 4}
    working.put(store, "u", {"d": {"e": 1}})
    assert working.get(store, "u") == {"d": {"e": 1}}
    working.put(store, "u", None)
    assert store.search(namespace, limit=50) == []


def test_more_fields_than_a_page_are_read(open_store: Callable[[], BaseStore]) -> None:
    working, store = WorkingMemory(schema=SCHEMA), open_store()
    whole = {f"field{number}": number for number in range(450)}
    working.put(store, "u", whole)
    assert working.get(store, "u") == whole


@pytest.mark.parametrize("user", ["a.b", "", "*", "a/b", "\ud800"])
def test_any_id_of_a_user_is_kept_apart(open_store: Callable[[], BaseStore], user: str) -> None:
    working, store = WorkingMemory("- Name:"), open_store()
    if not user:
        with pytest.raises(ValueError, match="resource_id"):
            working.put(store, user, "x")
        return
    working.put(store, user, "mine")
    working.put(store, f"{user}b", "other")
    assert working.get(store, user) == "mine"


def test_what_is_no_id_is_named() -> None:
    with pytest.raises(ConfigurationError, match="`resource_id` is 5; pass a text"):
        WorkingMemory("- Name:").get(InMemoryStore(), 5)  # type: ignore[arg-type]


def test_text_that_a_database_refuses_is_kept_without_it(
    open_store: Callable[[], BaseStore],
) -> None:
    """A model may write such characters; a run must not fail of it, now or in each turn."""
    working, store = WorkingMemory(schema=SCHEMA), open_store()
    working.update(store, "u", r'{"na\u0000me": "S\u0000am", "said": ["\ud800"]}')
    assert working.get(store, "u") == {"name": "Sam", "said": ["\ufffd"]}
    working.update(store, "u", {"note": "\x00x"})
    assert working.get(store, "u")["note"] == "x"


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_asynchronous_stores_are_never_called_on_the_loop(
    door: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    call = {"name": "update_working_memory", "args": {"memory": "- Name: Sam"}, "id": "u1"}
    model = ScriptedChatModel([AIMessage("", tool_calls=[call]), "Hello.", "Sam."])
    working = WorkingMemory("- Name:")
    if kind == "sqlite":
        opened: Any = AsyncSqliteStore.from_conn_string(str(tmp_path / "store.sqlite"))
    else:
        opened = AsyncPostgresStore.from_conn_string(request.getfixturevalue("postgres_database"))
    async with opened as store:
        await store.setup()
        if door == "agent":
            memory = ObservationalMemory(model, working_memory=working)
            graph = create_memory_agent(model, memory=memory, store=store)
        else:
            memory = ObservationalMemory(model, working_memory=working)
            around: Any = ObservationalMemoryMiddleware(memory)
            graph = create_agent(model, middleware=[around], store=store)
        config: Any = {"configurable": {"thread_id": "t", "resource_id": "sam"}}
        for text in ("I am Sam.", "Who am I?"):
            await graph.ainvoke({"messages": [HumanMessage(text)]}, config)
        assert await working.aget(store, "sam") == "- Name: Sam"
    assert any("- Name: Sam" in message.text for message in model.calls[-1]["messages"])
