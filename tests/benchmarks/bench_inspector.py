"""How long the inspector's pages take: 100,000 threads in a list, 10,000 messages in a thread."""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from agents import extractive, noon
from conversation import START
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from report import Budget, Options, Report, milliseconds, seconds
from sqlalchemy import create_engine, insert

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.sql.schema import thread_rows
from langgraph_om.web import memory_app

LIMIT = 0.2
"""Seconds of the processor's time that a page may take."""
LAPS = 5


def converse(count: int) -> list[BaseMessage]:
    """Return a conversation of so many messages."""
    said: list[BaseMessage] = []
    for at in range(count // 2):
        read = 1000 + at % 97
        usage: Any = {"input_tokens": read, "output_tokens": 20, "total_tokens": read + 20}
        text = f"I am planning trip {at} with my sister, we like museums and long walks. "
        said += [
            HumanMessage(text * 2, id=f"h{at}"),
            AIMessage(f"Noted {at}: three walks. {text}", id=f"a{at}", usage_metadata=usage),
        ]
    return said


def make_agent(archive: SQLAlchemyArchive | None) -> tuple[ObservationalMemory, Any]:
    model = extractive()
    memory = ObservationalMemory(model, archive=archive, clock=noon)
    return memory, create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())


def fill(archive: SQLAlchemyArchive, url: str, threads: int) -> tuple[datetime, str]:
    """Put threads into a list; return the place of one near its end."""
    archive.setup()
    rows = [
        {
            "id": f"t{at}",
            "resource_id": f"user-{at % 5000}",
            "title": f"Trip number {at}",
            "created": START,
            "updated": START - timedelta(seconds=at),
        }
        for at in range(threads)
    ]
    with create_engine(url).begin() as connection:
        connection.execute(insert(thread_rows), rows)
    listed = archive.list_threads(limit=threads * 9 // 10)[-1].thread
    return listed.updated, listed.id


async def time_pages(app: Any, paths: list[str]) -> list[float]:
    """Return the processor's time that each page takes at best, in seconds."""
    found: list[float] = []
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as client:
        for path in paths:
            laps: list[float] = []
            for _ in range(LAPS):
                begun = time.process_time()
                (await client.get(path)).raise_for_status()
                laps.append(time.process_time() - begun)
            found.append(min(laps))
    return found


def run(options: Options) -> Report:
    threads, messages = options.pick((100_000, 10_000), (2_000, 1_000))
    config: RunnableConfig = {"configurable": {"thread_id": "long"}}
    said = converse(messages)
    rows: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="om-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'archive.db'}"
        archive = SQLAlchemyArchive(url)
        updated, thread = fill(archive, url, threads)
        entries = [(str(message.id), message, True) for message in said]
        for at in range(0, messages, 500):
            after = entries[at - 1][0] if at else None
            archive.append("long", None, entries[at : at + 500], after=after, now=START)
        memory, agent = make_agent(archive)
        agent.update_state(config, {"messages": said[-20:]})
        since = int(
            (updated - datetime.fromtimestamp(0, updated.tzinfo)) / timedelta(microseconds=1)
        )
        paths = {
            f"list of {threads:,} threads": "/memory",
            "a page near its end": f"/memory?behind={since}~{thread}",
            "a search that finds nothing": "/memory?q=zebra",
            f"{messages:,} messages, in the archive": "/memory/long",
        }
        times = asyncio.run(time_pages(memory_app(memory, graph=agent), [*paths.values()]))
        rows += zip(paths, times, strict=True)
        archive.close()
    memory, agent = make_agent(None)
    agent.update_state(config, {"messages": said})
    record = {**agent.get_state(config).values["om"], "cursor": [str(said[-20].id)]}
    agent.update_state(config, {"om": record})
    [took] = asyncio.run(time_pages(memory_app(memory, graph=agent), ["/memory/long"]))
    rows.append((f"{messages:,} messages, in the state", took))
    slowest = max(took for _, took in rows)
    read = min(seconds(lambda: agent.get_state(config)) for _ in range(LAPS))
    rows.append(("of it, LangGraph reading the checkpoint", read))
    return Report(
        "Pages of the inspector",
        ["page", "CPU time"],
        [[name, milliseconds(took)] for name, took in rows],
        [Budget("a page", f"below {milliseconds(LIMIT)}", milliseconds(slowest), slowest < LIMIT)],
    )
