"""A worker's run of a job, from scripted replies; and calls of a server that does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from langgraph_om import ConfigurationError
from langgraph_om.core.cycles.carry_out import has_begun
from langgraph_om.integrations.worker_graph import carry_out_once
from langgraph_om.runtime import server as server_calls
from langgraph_om.runtime.server import ServerCalls, is_busy
from support.driving import drive
from support.waiting import eventually

REQUEST: Any = {
    "cycle_id": "c",
    "operation": "observation",
    "at": "2026-03-02T09:00:00.000Z",
    "record": {"id": "r"},
    "thread_id": "t",
    "resource_id": None,
}


def work(result: Any) -> Iterator[Any]:
    yield from ()
    if isinstance(result, Exception):
        raise result
    return result


@pytest.mark.parametrize(
    ("replies", "result", "outcome"),
    [
        (["mine", True], {"type": "buffering-end"}, "done"),
        (["mine", True], {"type": "buffering-failed"}, "failed"),
        (["mine", False], {"type": "buffering-end"}, "overtaken"),
        (["taken"], AssertionError("it is not done"), "taken"),
        (["done"], AssertionError("it is not done"), "taken"),
        ([None], AssertionError("it is not done"), "withdrawn"),
    ],
)
def test_a_run_does_a_job_that_is_its_own(replies: list[Any], result: Any, outcome: str) -> None:
    flow: Any = carry_out_once(REQUEST, "sender", work(result))
    assert drive(flow, replies).result == outcome


def test_a_job_that_cannot_be_done_here_has_that_as_its_result() -> None:
    asked: list[Any] = []

    def answer(effect: Any) -> Any:
        asked.append(effect)
        return "mine"

    flow: Any = carry_out_once(REQUEST, "sender", work(ConfigurationError("other `scope`")))
    with pytest.raises(ConfigurationError, match="other `scope`"):
        drive(flow, answer)
    cycle_id, kept = asked[-1].arguments
    assert cycle_id == kept["cycle_id"] == "c"
    assert (kept["type"], kept["error"], kept["record_id"]) == (
        "buffering-failed",
        "other `scope`",
        "r",
    )
    assert "discarded" not in kept  # so that memory backs off


def test_a_lease_that_lasts_longer_than_that_of_the_sender_is_a_workers() -> None:
    assert not has_begun(29.9, 30)
    assert has_begun(90, 30)


# --- The server ----------------------------------------------------------------------------------


class Late:
    """An asynchronous client, which answers late or not at all."""

    def __init__(self, answer: Any = (), *, seconds: float = 0) -> None:
        self.answer, self.seconds = answer, seconds
        self.threads = self
        self.asked: list[str] = []

    async def search(self, **_: Any) -> Any:
        self.asked.append(threading.current_thread().name)
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_asynchronous_client_has_an_event_loop_of_its_own() -> None:
    client = Late([{"thread_id": "a"}])
    calls = ServerCalls(None, client)
    assert calls.find({"om_cycle_id": "c"}) == [{"thread_id": "a"}]
    assert client.asked == ["om_server"]
    calls.close()


async def test_it_can_be_asked_from_the_loop_of_a_turn_too() -> None:
    calls = ServerCalls(None, Late([]))
    assert calls.find({"om_cycle_id": "c"}) == []
    calls.close()


def test_a_server_that_takes_long_to_say_nothing_is_left_in_peace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_calls, "CALL_SECONDS", 0.3)
    client = Late(seconds=60)
    calls = ServerCalls(None, client)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            calls.find({})
    eventually(lambda: client.asked)
    assert len(client.asked) == 1

    def is_asked_again() -> bool:
        with pytest.raises(TimeoutError):
            calls.find({})
        return len(client.asked) == 2

    eventually(is_asked_again)
    calls.close()


def test_a_server_that_is_not_there_holds_no_turn() -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{found.getsockname()[1]}"
    calls, began = ServerCalls(url), time.monotonic()
    with pytest.raises(Exception, match=r"refused|connect"):
        calls.find({})
    assert time.monotonic() - began < 60
    calls.close()


def answered(status: int) -> Exception:
    error: Any = Exception(f"answered {status}")
    error.status_code = status
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize("status", [404, 403])
def test_a_thread_that_is_gone_already_is_deleted(status: int) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.threads = self

        def delete(self, thread_id: str) -> None:
            raise answered(status)

    calls = ServerCalls(None, Refusing())
    if status == 404:
        calls.delete("t")
    else:
        with pytest.raises(Exception, match="answered 403"):
            calls.delete("t")


def test_which_answers_say_that_there_is_no_room() -> None:
    assert [status for status in (404, 409, 422, 429, 500, 503) if is_busy(answered(status))] == [
        429,
        503,
    ]
    assert not is_busy(ConnectionError())
