"""Clients of the Model Context Protocol at one user's memory in an archive."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from langchain_core.messages import HumanMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.memory import InMemorySaver
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from langgraph_om import ConfigurationError, ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel
from langgraph_om.tools.cli import main
from langgraph_om.tools.mcp import memory_server
from support.agents import make_agent, on_thread, talk, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(600)

READS = {"recall", "search", "threads"}
WRITES = {"remember", "forget"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'archive.db'}"


@pytest.fixture
def remembered(url: str) -> str:
    """An archive in which two users have talked."""
    agent = make_agent("agent", InMemorySaver(), scope="resource", archive=url)
    for user, secret in (("ana", "WALRUS-17"), ("bob", "OSPREY-42")):
        config = on_thread(f"{user}-1", resource_id=user)
        agent.graph.invoke({"messages": [HumanMessage(f"My code is {secret}.", id=user)]}, config)
        talk(agent.graph, config, [turn(at) for at in range(8)])
    agent.memory.close()
    return url


def command(url: str, user: str, *more: str) -> list[str]:
    where = ["mcp", "--archive", url, "--resource", user, *more]
    return [sys.executable, "-m", "langgraph_om", *where]


@asynccontextmanager
async def over_stdio(url: str, user: str, *more: str) -> AsyncIterator[Any]:
    program, *arguments = command(url, user, *more)
    server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def over_http(url: str, user: str, *more: str) -> AsyncIterator[Any]:
    memory = ObservationalMemory(ScriptedChatModel(), archive=url, retrieval={"scope": "resource"})
    app = memory_server(memory, resource_id=user, allow_writes=bool(more)).streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))  # who comes early waits
    port, server = (
        listening.getsockname()[1],
        uvicorn.Server(uvicorn.Config(app, log_level="warning")),
    )
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        async with (
            streamable_http_client(f"http://127.0.0.1:{port}/mcp") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            yield session
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join, 120)
        memory.close()


def text_of(answer: Any) -> str:
    return "".join(part.text for part in getattr(answer, "content", None) or answer.contents)


@pytest.mark.parametrize(
    ("url", "connect"), [("sqlite", over_stdio), ("postgres", over_http)], indirect=["url"]
)
async def test_a_client_reads_one_users_memory_and_nothing_else(
    connect: Any, remembered: str
) -> None:
    async with connect(remembered, "ana") as session:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == READS
        assert all(tool.annotations.readOnlyHint for tool in tools)
        assert not any("resource" in str(tool.inputSchema["properties"]) for tool in tools)
        threads = text_of(await session.call_tool("threads", {}))
        assert "ana-1" in threads
        found = text_of(await session.call_tool("search", {"query": "code WALRUS"}))
        assert "WALRUS-17" in found
        read = text_of(await session.call_tool("recall", {"cursor": "ana"}))
        assert "My code is WALRUS-17." in read
        whole = text_of(await session.call_tool("recall", {"thread_id": "ana-1", "limit": 2}))
        assert "WALRUS-17" in whole
        log = text_of(await session.read_resource("memory://observations"))
        assert "## 20" in log
        thread = text_of(await session.read_resource("memory://threads/ana-1"))
        assert "* " in thread
        # What others said is like nothing at all, whatever a caller writes.
        seen = [threads, found, read, whole, log, thread]
        for tool, arguments in (
            ("search", {"query": "OSPREY code 42"}),
            ("search", {"query": "OSPREY", "thread_id": "bob-1"}),
            ("recall", {"cursor": "bob"}),
            ("recall", {"thread_id": "bob-1"}),
            ("recall", {"thread_id": "bob-1", "resource_id": "bob"}),
            ("threads", {"resource_id": "bob"}),
        ):
            seen.append(text_of(await session.call_tool(tool, arguments)))
        with pytest.raises(Exception, match="no thread 'bob-1'"):
            await session.read_resource("memory://threads/bob-1")
        assert "OSPREY" not in "".join(seen).replace('"OSPREY', "")
        refused = await session.call_tool("remember", {"text": "x"})
        assert refused.isError


@pytest.mark.parametrize(
    ("url", "connect"), [("postgres", over_stdio), ("sqlite", over_http)], indirect=["url"]
)
async def test_a_client_that_may_write_changes_the_log_that_the_agent_reads(
    connect: Any, remembered: str
) -> None:
    async with connect(remembered, "ana", "--write") as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == READS | WRITES
        told = await session.call_tool("remember", {"text": "Prefers tea", "date": "2026-03-02"})
        assert not told.isError
        log = text_of(await session.read_resource("memory://observations"))
        assert "Prefers tea" in log
        agent = make_agent("agent", InMemorySaver(), scope="resource", archive=remembered)
        config = on_thread("ana-2", resource_id="ana")
        agent.graph.invoke({"messages": [HumanMessage("Hello again")]}, config)
        assert "Prefers tea" in agent.prompts()[-1][0].text
        agent.memory.close()
        assert not (await session.call_tool("forget", {"item": "Prefers tea"})).isError
        assert "Prefers tea" not in text_of(await session.read_resource("memory://observations"))
        wrong = await session.call_tool("forget", {"item": "a unicorn"})
        assert wrong.isError
        assert "no item matches 'a unicorn'" in text_of(wrong)
        blank = await session.call_tool("remember", {"text": " "})
        assert "pass a text that is not blank" in text_of(blank)


async def test_langchains_adapter_makes_tools_of_it(remembered: str) -> None:
    program, *arguments = command(remembered, "ana")
    client = MultiServerMCPClient(
        {"memory": {"transport": "stdio", "command": program, "args": arguments}}
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    assert set(tools) == READS
    answer = await tools["search"].ainvoke({"query": "WALRUS"})
    assert "WALRUS-17" in str(answer)


async def test_the_user_of_each_request_is_asked_for(remembered: str) -> None:
    """A server for many users: the function says whose memory the request at hand reads."""
    who = ["ana"]
    with closing(SQLAlchemyArchive(remembered)) as archive:
        memory = ObservationalMemory(
            ScriptedChatModel(), archive=archive, retrieval={"scope": "resource"}
        )
        server = memory_server(memory, resource_id=lambda: who[0])
        first = json.dumps(await server.call_tool("threads", {}), default=str)
        who[0] = "bob"
        second = json.dumps(await server.call_tool("threads", {}), default=str)
        who[0] = " "
        with pytest.raises(Exception, match="`resource_id` is ' '"):
            await server.call_tool("threads", {})
        server = memory_server(memory, resource_id="ana", allow_writes=True)
        with pytest.raises(Exception, match="no item matches 'a unicorn'") as wrong:
            await server.call_tool("forget", {"item": "a unicorn"})
        # The second version of the `mcp` package tells a client the words of its own errors alone.
        assert type(wrong.value.__cause__).__module__.startswith("mcp.")
    assert ("ana-1" in first, "bob-1" in first) == (True, False)
    assert ("ana-1" in second, "bob-1" in second) == (False, True)


def test_what_cannot_be_served_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="retrieval="):
        memory_server(ObservationalMemory(ScriptedChatModel()), resource_id="ana")
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with closing(SQLAlchemyArchive(url)) as archive:
        archive.threads("ana")
        memory = ObservationalMemory(
            ScriptedChatModel(), archive=archive, retrieval={"scope": "resource"}
        )
        with pytest.raises(ConfigurationError, match="`resource_id` is ''"):
            memory_server(memory, resource_id="")
    assert main(["mcp", "--archive", url]) == 3
    assert "--resource ID" in capsys.readouterr().err


async def test_without_a_shared_log_the_threads_are_told_and_writes_refused(url: str) -> None:
    agent = make_agent("agent", InMemorySaver(), archive=url, retrieval={"scope": "resource"})
    talk(agent.graph, on_thread("ana-1", resource_id="ana"), [turn(at) for at in range(8)])
    server = memory_server(agent.memory, resource_id="ana")
    (read,) = await server.read_resource("memory://observations")
    assert "# ana-1" in read.content
    with pytest.raises(ConfigurationError, match="omit `allow_writes`"):
        memory_server(agent.memory, resource_id="ana", allow_writes=True)
    agent.memory.close()
