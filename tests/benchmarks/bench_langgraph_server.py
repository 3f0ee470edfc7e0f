"""A LangGraph server (`langgraph dev`, in memory): agents with memory and without, by turns.

`python tests/benchmarks/bench_langgraph_server.py [--conversations 30] [--jobs 20]`. One process
serves both agents, another one memory's jobs (`ServerBuffering`); they share an archive on
PostgreSQL. A round is all conversations at once with one agent, and then with the other.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_server import TEXT, Seen, ask_all, count_lost, say
from databases import postgres_server
from langgraph_sdk.client import LangGraphClient

from support.langgraph_server import Server, free_port, serve, write_graphs

GRAPHS = """
import os

from bench_server import OPTIONS, make_bare, make_model

from langgraph_om import ObservationalMemory, ServerBuffering, create_memory_agent, worker_graph
from langgraph_om.testing import ScriptedChatModel

memory = ObservationalMemory(
    make_model(),
    archive=os.environ["OM_ARCHIVE"],
    buffering=ServerBuffering(os.environ["OM_WORKERS"], max_pending=1000),
    **OPTIONS,
)
bare = make_bare(None)
agent = create_memory_agent(
    ScriptedChatModel("Noted, with the museum and the hotel."), memory=memory
)
om_worker = worker_graph(memory)
"""


APART = 7
"""How many first turns conversations differ by, at most: in the seventh each has its first job, and
those of all of them at once would be the slowest turn of every run."""


async def ask(
    server: Server, name: str, threads: Sequence[str], turns: int, *, is_first: bool = False
) -> Seen:
    """Ask an agent of the server.

    Args:
        is_first: Whether conversations take 1 to `turns` turns, and not all of them the same.
    """
    async with server.client() as client:

        async def say_one(number: int, turn: int) -> None:
            if is_first and turn > number % turns:
                return
            config: Any = {"configurable": {"resource_id": f"user-{number}"}}
            given = {"messages": [{"role": "user", "content": TEXT.format(turn)}]}
            await client.runs.wait(threads[number], name, input=given, config=config)

        return await ask_all(len(threads), turns, say_one)


async def make_threads(client: LangGraphClient, count: int) -> list[str]:
    return [(await client.threads.create())["thread_id"] for _ in range(count)]


async def compare(served: Server, archive: str, args: argparse.Namespace) -> None:
    """Ask both agents by turns, and print a line for each round."""
    rows = {name: Seen() for name in ("bare", "agent")}
    async with served.client() as client:
        threads = {name: await make_threads(client, args.conversations) for name in rows}
        for name in rows:
            await ask(served, name, threads[name], APART, is_first=True)
        for round_ in range(args.rounds):
            for name in [*rows] if round_ % 2 else [*rows][::-1]:
                seen = await ask(served, name, threads[name], args.turns)
                say(f"{round_ + 1}  {describe(name, seen)}")
                rows[name].add(seen)
        states = [await client.threads.get_state(thread) for thread in threads["agent"]]
    say("\n".join(f"all {describe(name, seen)}" for name, seen in rows.items()))
    records: list[Any] = [state["values"]["om"] for state in states]
    work = Counter(chunks=0, groups=0, pending=0)
    for record in records:
        work += Counter(
            chunks=len(record["chunks"]), groups=len(record["log"]), pending=len(record["pending"])
        )
    bare, agent = rows["bare"], rows["agent"]
    late = agent.quantile(0.99) / bare.quantile(0.99)
    lost = 0
    for number, thread in enumerate(threads["agent"]):
        turns = 1 + number % APART + args.rounds * args.turns
        lost += count_lost(archive, [thread], turns)
    say(f"turns a second x{agent.rate / bare.rate:.2f}, p99 x{late:.2f}, messages lost {lost}")
    say(f"in the records: {dict(work)}")


def describe(name: str, seen: Seen) -> str:
    return (
        f"{name:6} {seen.rate:6.1f} turns/s  p50 {seen.quantile(0.5):5.2f} s  "
        f"p99 {seen.quantile(0.99):5.2f} s  errors {dict(seen.errors)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a LangGraph server with memory.")
    parser.add_argument("--conversations", type=int, default=30)
    parser.add_argument("--turns", type=int, default=4, help="of each conversation in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=20, help="runs that a server has at once")
    args = parser.parse_args(arguments)
    with postgres_server() as archive, tempfile.TemporaryDirectory() as folder:
        port, here = free_port(), Path(folder)
        paths = [Path(__file__).parent, Path(__file__).parents[1], Path(__file__).parents[2]]
        more = {
            "OM_ARCHIVE": archive,
            "OM_WORKERS": f"http://127.0.0.1:{port}",
            "PYTHONPATH": ":".join(map(str, paths)),
        }
        write_graphs(here / "agents", GRAPHS, {"bare": "bare", "agent": "agent"})
        write_graphs(here / "workers", GRAPHS, {"om_worker": "om_worker"})
        with (
            serve(here / "workers", jobs=args.jobs, more=more, port=port),
            serve(here / "agents", jobs=args.jobs, more=more) as served,
        ):
            asyncio.run(compare(served, archive, args))


if __name__ == "__main__":
    main()
