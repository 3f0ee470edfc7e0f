"""The surroundings that the other tests rely on: no network, and databases of their own."""

from __future__ import annotations

import asyncio
import socket

import psycopg
import pytest
import sqlalchemy
from pytest_socket import SocketConnectBlockedError


def test_databases_are_empty_and_separate(postgres_url: str, postgres_sqlalchemy_url: str) -> None:
    engine = sqlalchemy.create_engine(postgres_sqlalchemy_url)
    with engine.begin() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == []
        own = connection.scalar(sqlalchemy.text("SELECT current_database()"))
    engine.dispose()
    with psycopg.connect(postgres_url) as other:
        assert other.execute("SELECT current_database()").fetchone() != (own,)


def test_other_hosts_are_out_of_reach() -> None:
    with pytest.warns(UserWarning, match="connect"), pytest.raises(SocketConnectBlockedError):
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
