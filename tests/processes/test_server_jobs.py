"""Memory's jobs on a real LangGraph server, `langgraph dev`: killed too, and under load.

Figures are printed, for docs/workers.md: `pytest -s tests/processes/test_server_jobs.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import pytest

pytest.importorskip("langgraph_cli")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph_sdk.client import LangGraphClient

from langgraph_om import Executor, ObservationalMemory, ServerBuffering, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel
from support.agents import on_thread, scripted, turn, uncovered
from support.executor_checks import executor_conformance
from support.langgraph_server import Server, check_log, free_port, serve, write_graphs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")

GRAPHS = Path(__file__).parents[1] / "support" / "server_graphs.py"
CHECKS = [name for name, _ in executor_conformance(lambda _run: ServerBuffering())]


@dataclass(frozen=True)
class Place:
    """Where servers of one test meet."""

    folder: Path
    archive: str
    more: Mapping[str, str]

    @property
    def notes(self) -> list[dict[str, Any]]:
        path = Path(self.more["OM_NOTES"])
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]

    def count(self, what: str, **also: Any) -> Counter[str]:
        """How often something was noted, by job."""
        return Counter(
            told["job"]
            for told in self.notes
            if told["what"] == what and also.items() <= told.items()
        )


def make_place(folder: Path, archive: str | None = None, **more: str) -> Place:
    served = folder / "server"
    names = {name: name for name in ("agent", "om_worker", "checks")}
    write_graphs(served, GRAPHS.read_text("utf-8"), names)
    url = archive or f"sqlite:///{folder}/memory.db"
    return Place(served, url, {"OM_ARCHIVE": url, "OM_NOTES": str(folder / "notes"), **more})


async def say(client: LangGraphClient, thread: str, number: int) -> tuple[float, list[Any]]:
    """Have one turn; return how long it took, in seconds, and its parts of memory."""
    text = turn(number).content
    began = time.monotonic()
    given = {"messages": [{"role": "user", "content": f"{text} This is for {thread}."}]}
    parts = [
        event.data
        async for event in client.runs.stream(
            thread, "agent", input=given, stream_mode="custom", if_not_exists="create"
        )
        if event.event == "custom"
    ]
    return time.monotonic() - began, parts


async def converse(
    client: LangGraphClient, thread: str, start: int, count: int, pause: float = 0.0
) -> list[tuple[float, list[Any]]]:
    turns = []
    for number in range(start, start + count):
        turns.append(await say(client, thread, number))
        await asyncio.sleep(pause)
    return turns


async def threads_of(client: LangGraphClient, count: int) -> list[str]:
    return [(await client.threads.create())["thread_id"] for _ in range(count)]


async def lost(client: LangGraphClient, threads: list[str]) -> list[Any]:
    """The messages that the Actor is shown neither as they are nor as observations."""
    reader = ObservationalMemory(ScriptedChatModel())
    missing: list[Any] = []
    for thread in threads:
        state: Any = (await client.threads.get_state(thread))["values"]
        missing += uncovered(reader, state)
    return missing


def wait_for(is_so: Callable[[], Any]) -> None:
    ends_at = time.monotonic() + 120
    while not is_so() and time.monotonic() < ends_at:
        time.sleep(0.2)


async def until(is_so: Callable[[], Awaitable[Any]]) -> None:
    ends_at = time.monotonic() + 120
    while not await is_so() and time.monotonic() < ends_at:  # noqa: ASYNC110 no event tells
        await asyncio.sleep(0.2)


def tell(
    title: str,
    place: Place,
    turns: list[tuple[float, list[Any]]],
    missing: list[Any],
    sent: list[tuple[str, bool, float]] | None = None,
) -> dict[str, float]:
    """Print and return the figures."""
    if sent is None:  # the server has noted it
        told = [each for each in place.notes if each["what"] in ("sent", "refused")]
        sent = [(each["job"], each["what"] == "sent", each["seconds"]) for each in told]
    jobs = place.count("done", trigger="buffer")
    took = [seconds for seconds, _ in turns]
    reasons = Counter(
        part["data"].get("reason")
        for _, parts in turns
        for part in parts
        if part["type"] == "data-om-buffering-failed"
    )
    waits = sorted(seconds for *_, seconds in sent)
    figures = {
        "turns": len(took),
        "sent": len({job for job, taken, _ in sent if taken}),
        "refused": sum(not taken for _, taken, _ in sent),
        "carried out": len(jobs),
        "given up, asked anew": reasons["abandoned"] + reasons["lost"],
        "failed": reasons[None],
        "begun again": sum(times > 1 for times in place.count("begun", trigger="buffer").values()),
        "carried out twice": sum(times > 1 for times in jobs.values()),
        "asked in a turn": len(place.count("done", trigger="turn")),
        "messages lost": len(missing),
        "ms a turn waits for sending, median": round(1000 * median(waits)),
        "ms a turn waits for sending, most": round(1000 * waits[-1]),
        "ms a turn takes, median": round(1000 * median(took)),
    }
    print(f"\n{title}: {figures}")  # noqa: T201 for the docs
    return figures


# --- One server ----------------------------------------------------------------------------------


async def test_a_server_carries_out_each_job_once_beside_the_turns(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    with serve(place.folder, jobs=8, more=place.more) as server:
        async with server.client() as client:
            threads = await threads_of(client, 10)
            held = await asyncio.gather(
                *(converse(client, thread, 100 * at, 12) for at, thread in enumerate(threads))
            )
            turns = [each for talk in held for each in talk]
            missing = await lost(client, threads)
            kinds = Counter(part["type"] for _, parts in turns for part in parts)
            await asyncio.to_thread(
                wait_for, lambda: len(place.count("done")) >= len(place.count("sent"))
            )

            async def nothing_is_left() -> bool:
                return not await client.threads.search(metadata={"graph_id": "om_worker"})

            await until(nothing_is_left)
            left = await client.threads.search(metadata={"graph_id": "om_worker"}, limit=100)
        check_log(server.log)
    figures = tell("one server", place, turns, missing)
    assert figures["carried out"] > 20
    assert figures["carried out twice"] == 0
    assert missing == []
    assert kinds["data-om-buffering-end"] > 20
    assert kinds["data-om-activation"] > 5
    assert left == []  # of a job nothing stays on the server


async def test_nothing_is_lost_when_the_server_is_killed_and_started_again(tmp_path: Path) -> None:
    place = make_place(tmp_path, OM_DELAY="0.5", OM_LEASE="4")
    port, turns, threads = free_port(), list[tuple[float, list[Any]]](), list[str]()

    async def all_say(client: LangGraphClient, start: int, count: int, pause: float = 0) -> None:
        talks = await asyncio.gather(
            *(converse(client, key, 100 * at + start, count, pause) for at, key in threads_at())
        )
        turns.extend(each for talk in talks for each in talk)

    def threads_at() -> list[tuple[int, str]]:
        return list(enumerate(threads))

    for life in range(2):
        with serve(place.folder, jobs=8, more=place.more, port=port) as server:
            async with server.client() as client:
                threads = threads or await threads_of(client, 6)
                await all_say(client, 5 * life, 4)
                if life == 0:
                    await asyncio.to_thread(server.wait_until_state_is_written)
                    await all_say(client, 50, 2)  # jobs are at work, or wait, when ...
                    server.kill()
                else:
                    await asyncio.to_thread(wait_for, lambda: len(place.count("done")) > 10)
                    await asyncio.sleep(5)
                    await all_say(client, 90, 3, 1)
                    missing = await lost(client, threads)
    figures = tell("agent and worker killed", place, turns, missing)
    assert figures["carried out"] > 10
    assert figures["carried out twice"] == 0
    assert missing == []


class Noted(ServerBuffering):
    """Notes how long a turn waits for a job to be sent, and whether it was taken."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[tuple[str, bool, float]] = []

    def submit(self, cycle_id: str, *args: Any, **options: Any) -> bool:
        began = time.monotonic()
        taken = super().submit(cycle_id, *args, **options)
        self.sent.append((cycle_id, taken, time.monotonic() - began))
        return taken


def test_conversations_go_on_while_their_worker_is_killed_and_started_again(tmp_path: Path) -> None:
    place = make_place(tmp_path, OM_DELAY="0.5", OM_LEASE="4")
    port, turns, is_over = free_port(), list[tuple[float, list[Any]]](), threading.Event()
    buffering, archive = Noted(f"http://127.0.0.1:{port}"), SQLAlchemyArchive(place.archive)
    buffering.share(archive, 4.0)
    memory = ObservationalMemory(
        scripted(),
        observation={"message_tokens": 600, "buffer_tokens": 100},
        reflection={"observation_tokens": 900},
        archive=archive,
        buffering=buffering,
    )
    agent = create_memory_agent(
        ScriptedChatModel("Noted."), memory=memory, checkpointer=InMemorySaver()
    )
    names = [f"talk-{number}" for number in range(6)]

    def say_one(name: str, number: int) -> None:
        began = time.monotonic()
        given = {"messages": [("user", f"{turn(number).content} This is for {name}.")]}
        parts = [*agent.stream(given, on_thread(name), stream_mode="custom")]
        turns.append((time.monotonic() - began, parts))

    def hold(at: int) -> None:
        number = 100 * at
        while not is_over.wait(0.4):
            say_one(names[at], number)
            number += 1

    with ThreadPoolExecutor(len(names)) as pool:
        held = pool.map(hold, range(len(names)))
        for life, seconds in enumerate((4, 2), 1):
            with serve(place.folder, jobs=4, more=place.more, port=port) as server:
                time.sleep(seconds)
                wait_for(lambda least=5 * life: len(place.count("done")) > least)
                server.kill()
            time.sleep(2)
        with serve(place.folder, jobs=4, more=place.more, port=port):
            wait_for(lambda: len(place.count("done")) > 20)
            is_over.set()
            assert [*held] == [None] * len(names)
            assert memory.flush(120)
            for name in names:
                say_one(name, 99)
            assert memory.close(120)
    missing = [key for name in names for key in uncovered(memory, values(agent, name))]
    figures = tell("worker killed twice", place, turns, missing, buffering.sent)
    assert figures["carried out"] > 20
    assert figures["given up, asked anew"] > 0
    assert figures["failed"] > 0
    assert figures["carried out twice"] == 0
    assert missing == []
    done = place.count("done")
    ends = Counter(
        part["data"]["cycleId"]
        for _, parts in turns
        for part in parts
        if part["type"] in ("data-om-buffering-end", "data-om-buffering-failed")
    )
    sent = {cycle_id for cycle_id, taken, _ in buffering.sent if taken}
    assert [job for job in sent if job not in ends and job not in done] == []


def values(agent: Any, name: str) -> Any:
    return agent.get_state(on_thread(name)).values


async def test_a_run_that_the_server_takes_up_again_goes_on_at_once(tmp_path: Path) -> None:
    place = make_place(tmp_path, OM_DELAY="3600")  # with a claim of five minutes
    port = free_port()
    with serve(place.folder, more=place.more, port=port) as server:
        async with server.client() as client:
            (thread,) = await threads_of(client, 1)
            await converse(client, thread, 0, 2)
            await asyncio.to_thread(wait_for, lambda: place.count("begun"))
            await asyncio.to_thread(server.wait_until_state_is_written)
        server.kill()
    assert place.count("done") == {}
    with serve(place.folder, more={**place.more, "OM_DELAY": "0"}, port=port) as server:
        async with server.client() as client:
            await asyncio.to_thread(wait_for, lambda: place.count("done"))
            await nothing_stays_of(client, thread)
            _, parts = await say(client, thread, 2)
            missing = await lost(client, [thread])
    (job,) = place.count("begun")
    assert place.count("begun")[job] == 2
    assert place.count("done") == {job: 1}
    ended = [part for part in parts if part["type"] == "data-om-buffering-end"]
    assert [part["data"]["cycleId"] for part in ended] == [job]
    assert missing == []


async def sent_for(client: LangGraphClient, thread: str) -> list[tuple[str, Any, Any]]:
    """The runs that the server has of a conversation: status, metadata, and what they came to."""
    found = []
    for each in await client.threads.search(metadata={"om_thread_id": thread}, limit=100):
        (run,) = await client.runs.list(each["thread_id"])
        found.append((run["status"], run["metadata"], each["values"]))
    return found


async def nothing_stays_of(client: LangGraphClient, thread: str) -> None:
    """Wait until a conversation has no jobs on the server: what they came to is kept."""

    async def is_so() -> bool:
        return not await client.threads.search(metadata={"om_thread_id": thread})

    await until(is_so)
    assert await is_so()


def memory_elsewhere(place: Place, server: Server) -> ObservationalMemory:
    """A memory in this process, with the archive and the server of the others."""
    return ObservationalMemory(
        ScriptedChatModel(), archive=place.archive, buffering=ServerBuffering(server.url)
    )


async def test_runs_tell_of_their_jobs_until_their_thread_is_deleted(tmp_path: Path) -> None:
    place = make_place(tmp_path, OM_DELAY="3600")
    with serve(place.folder, more=place.more) as server:
        async with server.client() as client:
            threads = await threads_of(client, 2)
            for thread in threads:
                await converse(client, thread, 0, 4, 0.3)
            kept, others = [await sent_for(client, thread) for thread in threads]
            memory = memory_elsewhere(place, server)
            await memory.adelete_thread(threads[0])
            left = [await sent_for(client, thread) for thread in threads]
            memory.close()
        check_log(server.log)
        server.kill()
    assert kept
    cycles = {told["om_cycle_id"] for _, told, _ in (*kept, *others)}
    assert cycles == {*place.count("begun", trigger="buffer")}
    assert left[0] == []
    assert [told for _, told, _ in left[1]] == [told for _, told, _ in others]


# --- The checks of executors ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Where the server asks what a job comes to."""
    given: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(given["run"]({"cycle_id": self.path.rpartition("/")[2]})).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}", given
        http.shutdown()


@pytest.fixture(scope="module")
def checked(
    tmp_path_factory: pytest.TempPathFactory, answers: tuple[str, dict[str, Any]]
) -> Iterator[tuple[Server, SQLAlchemyArchive]]:
    place = make_place(tmp_path_factory.mktemp("checks"), OM_CHECKS=answers[0])
    with serve(place.folder, more=place.more) as server:
        yield server, SQLAlchemyArchive(place.archive)


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_an_executor_over_a_real_server(
    name: str, checked: tuple[Server, SQLAlchemyArchive], answers: tuple[str, dict[str, Any]]
) -> None:
    server, archive = checked

    def make(run_job: Callable[[Mapping[str, Any]], Any]) -> Executor:
        answers[1]["run"] = run_job
        executor = ServerBuffering(server.url, graph="checks")
        executor.share(archive)
        return executor

    dict(executor_conformance(make))[name]()
