"""The surroundings that the other tests rely on: no network, real checkpointers, a still clock."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy
from langgraph.graph import START, MessagesState, StateGraph
from pytest_socket import SocketConnectBlockedError

from support.savers import SaverKind, open_async_saver, open_saver

if TYPE_CHECKING:
    from clock import Clock
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


def echo_graph(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    builder = StateGraph(MessagesState)
    builder.add_node("echo", lambda state: {"messages": [("ai", state["messages"][-1].content)]})
    builder.add_edge(START, "echo")
    return builder.compile(checkpointer=saver)


def test_checkpointer_keeps_a_thread(checkpointer: BaseCheckpointSaver[Any]) -> None:
    graph = echo_graph(checkpointer)
    for text in ("one", "two"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    state = graph.get_state(CONFIG).values
    assert [m.content for m in state["messages"]] == ["one", "one", "two", "two"]


async def test_async_checkpointer_keeps_a_thread(
    async_checkpointer: BaseCheckpointSaver[Any],
) -> None:
    graph = echo_graph(async_checkpointer)
    for text in ("one", "two"):
        await graph.ainvoke({"messages": [("user", text)]}, CONFIG)
    state = (await graph.aget_state(CONFIG)).values
    assert [m.content for m in state["messages"]] == ["one", "one", "two", "two"]


async def test_place_keeps_a_thread_across_restarts(
    saver_kind: SaverKind, saver_place: str
) -> None:
    async with open_async_saver(saver_kind, saver_place) as saver:
        await echo_graph(saver).ainvoke({"messages": [("user", "one")]}, CONFIG)
    with open_saver(saver_kind, saver_place) as saver:
        kept = echo_graph(saver).get_state(CONFIG).values.get("messages", [])
    assert len(kept) == (0 if saver_kind == "memory" else 2)


def test_databases_are_empty_and_separate(postgres_url: str, postgres_sqlalchemy_url: str) -> None:
    engine = sqlalchemy.create_engine(postgres_sqlalchemy_url)
    with engine.begin() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == []
        own = connection.scalar(sqlalchemy.text("SELECT current_database()"))
    engine.dispose()
    with psycopg.connect(postgres_url) as other:
        assert other.execute("SELECT current_database()").fetchone() != (own,)


def test_other_hosts_are_out_of_reach() -> None:
    with (
        pytest.warns(UserWarning, match="connect"),
        pytest.raises(SocketConnectBlockedError),
    ):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


async def test_this_host_is_within_reach() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()


def test_clock_stands_still_until_moved(fixed_clock: Clock) -> None:
    assert fixed_clock() == fixed_clock() == datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    assert fixed_clock.advance(minutes=5) - datetime(2026, 3, 2, 9, 0, tzinfo=UTC) == timedelta(
        minutes=5
    )
    assert fixed_clock() == fixed_clock.now
