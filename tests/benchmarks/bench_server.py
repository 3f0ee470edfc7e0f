"""Whole servers: FastAPI with two workers over PostgreSQL, with memory and without, by turns.

`python tests/benchmarks/bench_server.py [--conversations 200] [--rounds 3]`. Both servers run in
the same minutes on the same machine, and so does what asks them; a round is all conversations at
once with one, and then with the other. The Actor answers at once, so that a turn is what the server
does; the Observer takes two seconds. `--count` prints what a quiet turn sends to PostgreSQL, and
`--flames FOLDER` draws where the workers' time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from databases import postgres_server
from fastapi import FastAPI
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from langgraph_om import ObservationalMemory, SQLAlchemyArchive, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from processes import ROOT, environment

OPTIONS: dict[str, Any] = {
    "retrieval": True,
    "evict": True,
    "observation": {"message_tokens": 1500, "buffer_tokens": 720},
}
"""About one job in six turns, as with the defaults and turns of a thousand tokens."""
TEXT = "I am planning trip number {} to the coast, and my sister Ana joins me. " + " ".join(
    ["We love museums, long walks along the river and quiet hotels near the old town."] * 4
)
PLAIN: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
SECONDS = 2.0
"""How long the Observer takes."""
ENVIRONMENT = "OM_BENCH_SERVER"


def make_model() -> ScriptedChatModel:
    """The Observer and the Reflector, which are awaited for two seconds."""
    observer, reflector = ExtractiveObserver(), ExtractiveReflector()
    return ScriptedChatModel(observer=observer.reply, reflector=reflector.reply, delay=SECONDS)


# --- The servers ---------------------------------------------------------------------------------


def make_bare(saver: Any) -> Any:
    """The same loop without memory: the whole conversation goes to the model."""
    model = ScriptedChatModel("Noted, with the museum and the hotel.")

    async def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile(checkpointer=saver)


def make_app() -> FastAPI:
    """The application of one worker, as `docs/fastapi.md` has it."""
    kind, database = os.environ[ENVIRONMENT].split("|")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool: Any = AsyncConnectionPool(database, kwargs=PLAIN, max_size=10, open=False)
        async with pool:
            saver = AsyncPostgresSaver(pool)
            if kind == "bare":
                app.state.agent = make_bare(saver)
                yield
                return
            memory = ObservationalMemory(make_model(), archive=database, **OPTIONS)
            app.state.agent = create_memory_agent(
                ScriptedChatModel("Noted, with the museum and the hotel."),
                memory=memory,
                checkpointer=saver,
                delta=kind != "plain",
            )
            yield
            await memory.aflush(timeout=30)
            memory.close()

    app = FastAPI(lifespan=lifespan)

    @app.post("/threads/{thread}/messages")
    async def say(thread: str, text: str, user: str) -> dict[str, str]:
        config: Any = {"configurable": {"thread_id": f"{user}:{thread}", "resource_id": user}}
        state = await app.state.agent.ainvoke({"messages": [("user", text)]}, config)
        return {"answer": state["messages"][-1].text}

    return app


_PROCESSES: dict[str, int] = {}
"""By the address of a server, its first process."""


def read_cpu(address: str) -> float:
    """Return the seconds of CPU time that a server's workers have spent, as Linux counts them."""
    spent = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, _, rest = path.read_text().rpartition(")")
            columns = rest.split()
            if int(columns[1]) == _PROCESSES[address]:
                spent += (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")
    return spent


@contextmanager
def drawn(address: str, picture: Path | None) -> Iterator[None]:
    """Draw where the time of a server's workers goes, as a flame graph; nothing without a path."""
    if picture is None:
        yield
        return
    command = ["py-spy", "record", "--pid", str(_PROCESSES[address]), "--subprocesses"]
    command += ["--output", str(picture)]
    process = subprocess.Popen(command)  # noqa: S603 of the extra `bench`
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@contextmanager
def serving(kind: str, database: str, workers: int, tree: Path = ROOT) -> Iterator[str]:
    """A server of so many processes, with the package of a tree; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {**environment(tree), ENVIRONMENT: f"{kind}|{database}"}
    command = [sys.executable, "-m", "uvicorn", "bench_server:make_app", "--factory"]
    command += ["--workers", str(workers), "--port", str(port), "--log-level", "error"]
    command += ["--timeout-keep-alive", "120"]  # or else it closes what a round uses
    process = subprocess.Popen(command, env=given)  # noqa: S603 our own
    address = f"http://127.0.0.1:{port}"
    _PROCESSES[address] = process.pid
    try:
        for _ in range(600):
            try:
                httpx.get(f"{address}/openapi.json")
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


# --- Who asks ------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What those who ask have seen of one server."""

    laps: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU time of the server's workers."""

    lost: int = 0
    """Messages that the archive has not."""

    def add(self, other: Seen) -> None:
        """Take in another round."""
        self.laps += other.laps
        self.errors += other.errors
        self.seconds += other.seconds
        self.cpu += other.cpu

    @property
    def cpu_of_turn(self) -> float:
        return self.cpu / len(self.laps)

    @property
    def rate(self) -> float:
        return len(self.laps) / self.seconds

    def quantile(self, part: float) -> float:
        return sorted(self.laps)[int(part * (len(self.laps) - 1))]

    def row(self, name: str) -> str:
        return (
            f"{name:8} {self.rate:7.1f} turns/s  p50 {self.quantile(0.5):6.2f} s  "
            f"p99 {self.quantile(0.99):6.2f} s  CPU {1000 * self.cpu_of_turn:5.1f} ms  "
            f"errors {sum(self.errors.values())}"
        )


async def ask_all(
    conversations: int, turns: int, ask: Callable[[int, int], Awaitable[object]]
) -> Seen:
    """Have all conversations go on at once, each with its next turn when it has an answer.

    Args:
        ask: Takes a turn, of which it is given the conversation's number and its own.
    """
    seen = Seen()

    async def talk(number: int) -> None:
        for turn in range(turns):
            began = time.perf_counter()
            try:
                await ask(number, turn)
            except Exception as error:  # noqa: BLE001 counted
                seen.errors[repr(error)[:80]] += 1
            else:
                seen.laps.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(talk(number) for number in range(conversations)))
    seen.seconds = time.perf_counter() - began
    return seen


async def ask(address: str, conversations: int, turns: int, round_: int) -> Seen:
    """Ask a server of our own."""
    limits = httpx.Limits(max_connections=conversations)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:

        async def say_one(number: int, turn: int) -> None:
            given = {"text": TEXT.format(f"{round_}-{turn}"), "user": f"user-{number}"}
            answer = await client.post("/threads/trip/messages", params=given)
            answer.raise_for_status()

        return await ask_all(conversations, turns, say_one)


def count_lost(database: str, threads: Sequence[str], turns: int) -> int:
    """Count the messages that the archive does not have."""
    archive, lost = SQLAlchemyArchive(database), 0
    for thread in threads:
        there = archive.messages(thread, limit=10_000, visible_only=False)
        lost += 2 * turns - len(there)
    archive.close()
    return lost


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def compare(
    trees: Mapping[str, Path], args: argparse.Namespace, note: Callable[[str], None]
) -> dict[str, Seen]:
    """Ask a server without memory and one for each tree by turns, and note each round.

    The one that is named "plain" keeps the conversation in plain channels.
    """
    rows = {name: Seen() for name in ("bare", *trees)}
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        databases, addresses = {}, {}
        for name in rows:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            databases[name] = server.replace("/postgres?", f"/{name}?")
            with PostgresSaver.from_conn_string(databases[name]) as saver:
                saver.setup()
            kind, tree = name if name in ("bare", "plain") else "memory", trees.get(name, ROOT)
            addresses[name] = stack.enter_context(
                serving(kind, databases[name], args.workers, tree)
            )
        for name, address in addresses.items():
            asyncio.run(ask(address, args.conversations, 1, 0))
            picture = args.flames / f"{name}.svg" if args.flames else None
            stack.enter_context(drawn(address, picture))
        for round_ in range(1, args.rounds + 1):
            for name in [*rows] if round_ % 2 else [*rows][::-1]:
                before = read_cpu(addresses[name])
                seen = asyncio.run(ask(addresses[name], args.conversations, args.turns, round_))
                seen.cpu = read_cpu(addresses[name]) - before
                note(f"{round_}  {seen.row(name)}  {dict(seen.errors) or ''}")
                rows[name].add(seen)
        threads = [f"user-{number}:trip" for number in range(args.conversations)]
        for name in trees:
            turns = 1 + args.rounds * args.turns
            rows[name].lost = count_lost(databases[name], threads, turns)
    return rows


def show(rows: Mapping[str, Seen]) -> None:
    """Print what each server did, and how it stands to the one without memory."""
    bare = rows["bare"]
    for name, seen in rows.items():
        rate, late = seen.rate / bare.rate, seen.quantile(0.99) / bare.quantile(0.99)
        cpu = seen.cpu_of_turn / bare.cpu_of_turn
        say(f"all {seen.row(name)}")
        say(f"  turns a second x{rate:.2f}, p99 x{late:.2f}, CPU x{cpu:.2f}, lost {seen.lost}")


# --- What a quiet turn sends ---------------------------------------------------------------------


def count(server: str) -> Iterator[str]:
    """Yield what quiet turns send to PostgreSQL, by pool."""
    from support.postgres_tap import tapped  # noqa: PLC0415 of the tests

    with tapped(server) as own, tapped(server) as savers:
        pool: Any = ConnectionPool(savers.url, kwargs=PLAIN, max_size=10)
        with pool:
            saver = PostgresSaver(pool)
            saver.setup()
            memory = ObservationalMemory(ScriptedChatModel("-"), archive=own.url, **OPTIONS)
            agent = create_memory_agent(
                ScriptedChatModel("Noted."), memory=memory, checkpointer=saver
            )
            config: Any = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
            for number in range(8):
                own.reset()
                savers.reset()
                agent.invoke({"messages": [("user", f"Number {number}?")]}, config)
            memory.close()
        for name, seen in (("archive", own.seen), ("checkpointer", savers.seen)):
            yield (
                f"{name}: {seen.transactions} transactions, {seen.trips} round trips, "
                f"{len(seen.statements)} statements"
            )
            yield "  " + ", ".join(seen.statements)


def read_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure servers with memory and without.")
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5, help="of each conversation in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="also with `delta=False`")
    parser.add_argument("--count", action="store_true", help="only count what a turn sends")
    parser.add_argument("--flames", type=Path, metavar="FOLDER", help="also draw the time")
    return parser.parse_args(arguments)


def main() -> None:
    args = read_arguments()
    if not args.count:
        plain = {"plain": ROOT} if args.plain else {}
        show(compare({"memory": ROOT, **plain}, args, say))
        return
    with postgres_server() as server:
        for line in count(server):
            say(line)


if __name__ == "__main__":
    main()
