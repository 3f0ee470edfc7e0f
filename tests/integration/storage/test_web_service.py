"""The service that the docs show, over a real PostgreSQL."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver

import langgraph_om
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from langgraph_om.tools.inspector import memory_app
from support.agents import asay, make_agent, on_thread
from support.pages import DOCS, read_file
from support.savers import open_async_saver

PAGE = DOCS / "fastapi.md"


def test_the_documented_service_remembers_each_user_and_forgets_one(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = ScriptedChatModel(
        actor=lambda prompt: prompt[-1].text.upper(), observer=ExtractiveObserver().reply
    )
    monkeypatch.setenv("DATABASE_URL", postgres_database)
    kept: list[Any] = []

    def remember(_name: str, **options: Any) -> Any:
        kept.append(langgraph_om.ObservationalMemory(model, **options))
        return kept[-1]

    def build(_name: str, **options: Any) -> Any:
        return langgraph_om.create_memory_agent(model, **options)

    exec(read_file(PAGE, "migrate.py"), {})  # noqa: S102 - the very code users copy
    scope: dict[str, Any] = {"__name__": "app"}
    exec(read_file(PAGE, "app.py"), scope)  # noqa: S102 - the same
    scope |= {"ObservationalMemory": remember, "create_memory_agent": build}
    with TestClient(scope["app"]) as client:
        for user in ("ana", "ben"):
            said = client.post(
                "/threads/trip/messages", params={"text": "hello"}, headers={"X-User": user}
            )
            assert 'event: token\ndata: "HELLO"' in said.text
            assert "event: data-om-status" in said.text
        assert client.get("/ready").status_code in (200, 503)
        archive = kept[0].archive
        assert [len(archive.threads(user)[0]) for user in ("ana", "ben")] == [1, 1]
        assert client.delete("/users/ana").status_code == 200
        assert [len(archive.threads(user)[0]) for user in ("ana", "ben")] == [0, 1]
    with PostgresSaver.from_conn_string(postgres_database) as saver:
        kept_threads = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    assert kept_threads == {"ben:trip"}


async def test_the_inspector_of_many_threads_leaves_the_loop_its_own_threads(
    postgres_database: str, tmp_path: Path
) -> None:
    """The checkpointer needs one of them for each state, so none may wait for it in one."""
    few = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(few)
    async with open_async_saver("postgres", postgres_database) as saver:
        agent = make_agent("agent", saver, archive=f"sqlite:///{tmp_path}/archive.db")
        for name in "abcd":
            await asay(agent.graph, on_thread(name), HumanMessage("Hello", id=name))
        transport = httpx.ASGITransport(memory_app(agent.memory, graph=agent.graph))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
            listed = await asyncio.wait_for(web.get("/memory"), 60)
    assert all(f"memory/{name}" in listed.text for name in "abcd")
