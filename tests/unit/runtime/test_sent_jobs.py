"""Calls of a server, by a client of any kind, and of one that does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest

from langgraph_om.runtime import server as server_calls
from langgraph_om.runtime.server import ServerClient


class Late:
    """An asynchronous client, which answers late."""

    def __init__(self, answer: Any = (), *, seconds: float = 0) -> None:
        self.answer, self.seconds = answer, seconds
        self.asked: list[str] = []

    async def search(self) -> Any:
        self.asked.append(threading.current_thread().name)
        await asyncio.sleep(self.seconds)
        return self.answer


def search(client: Any) -> Any:
    return client.search()


def test_an_asynchronous_client_has_an_event_loop_of_its_own() -> None:
    client = Late(["a"])
    server = ServerClient(None, client)
    assert server.call(search) == ["a"]
    assert client.asked == ["om_server"]
    server.close()


async def test_it_can_be_asked_from_the_loop_of_a_turn_too() -> None:
    server = ServerClient(None, Late([]))
    assert server.call(search) == []
    server.close()


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_calls, "CALL_SECONDS", 0.3)
    server = ServerClient(None, Late(seconds=60))
    with pytest.raises(TimeoutError, match="did not answer"):
        server.call(search)
    server.close()


def test_a_server_that_is_not_there_holds_no_turn() -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{found.getsockname()[1]}"
    server, began = ServerClient(url), time.monotonic()
    with pytest.raises(Exception, match=r"refused|connect"):
        server.call(lambda client: client.threads.search())
    assert time.monotonic() - began < 60
    server.close()
