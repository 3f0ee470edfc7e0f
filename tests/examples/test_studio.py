"""The Studio example in the server that Studio talks to: `langgraph dev`, driven by its SDK.

The server refuses blocking calls on its event loop; after each test its log must be free of them,
and of tracebacks.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("langgraph_cli")

from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.client import LangGraphClient

from langgraph_om import ObservationalMemory, ThreadBusyError
from langgraph_om.testing import ScriptedChatModel
from langgraph_om.tools.inspector import memory_app
from support.langgraph_server import COMPLAINTS, Server, check_log, serve

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")

EXAMPLE = Path(__file__).parents[2] / "examples" / "studio"
NODES = {"agent": "agent", "own_graph": "desk", "middleware_agent": "model"}
"""The node that calls the Actor's model, per graph of the example."""

each_graph = pytest.mark.parametrize("graph", NODES)

MORE = '''
import time

from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import *
from langgraph_om.testing import *


def reply(prompt):
    """Show what the Actor is given when asked for it."""
    return prompt[0].text if prompt[-1].text == "Show" else f"Noted: {prompt[-1].text[:40]}"


def remembering(delay=0.0):
    offline = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply, delay=delay
    )
    return ObservationalMemory(
        offline,
        observation={"message_tokens": 150, "buffer_tokens": False},
        reflection={"observation_tokens": 120},
    )


def agent(**options):
    return create_memory_agent(ScriptedChatModel(reply), memory=remembering(**options))


waiting = agent()
stuck = agent(delay=120)


async def block(state):
    time.sleep(0.01)


builder = StateGraph(MessagesState)
builder.add_node("block", block)
builder.add_edge(START, "block")
blocking = builder.compile()
'''
"""Graphs beside those of the example: one that waits for memory, one that waits for ever, and one
that must be refused."""


# --- The server ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The example and `MORE`, served from a copy, because the server writes beside its graphs."""
    folder = tmp_path_factory.mktemp("server") / "studio"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (folder / "more.py").write_text(MORE, encoding="utf-8")
    settings = json.loads((folder / "langgraph.json").read_text(encoding="utf-8"))
    names = ("waiting", "stuck", "blocking")
    settings["graphs"] |= {name: f"./more.py:{name}" for name in names}
    (folder / "langgraph.json").write_text(json.dumps(settings), encoding="utf-8")
    with serve(folder) as started:
        check_log(started.log)
        yield started


@pytest.fixture
def complaints_expected() -> None:
    """Named by a test that makes the server complain."""


@pytest.fixture(autouse=True)
def quiet(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does, the server has nothing to complain about."""
    start = server.log.stat().st_size
    yield
    if "complaints_expected" not in request.fixturenames:
        check_log(server.log, start)


# --- Conversations -------------------------------------------------------------------------------

MODES: Any = ["custom", "values", "messages-tuple", "updates"]
SAID = [
    "Hello, my name is Noor and my library card is number 20-117.",
    "I want to borrow the three volumes about the Hanse, in the edition of 1983.",
    "Are you open on Saturday?",
    "Keep the volumes at the desk for me, I arrive at about 5 in the afternoon.",
    "I changed my mind: only volumes 1 and 3, the second one I have at home.",
    "My daughter Ida is 9 and loves books about whales; please add 2 of them.",
    "Her own card is number 20-118, and she may borrow 6 books.",
    "On Monday I bring back the 4 novels that I borrowed in October.",
    "I paid the fee of 12 euros for this year at the counter.",
    "Please send reminders to Mill Street 7 instead of Harbour Road 3.",
    "Can you tell me which volumes I wanted?",
    "What is the number of my card?",
]


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def say(
    client: LangGraphClient, thread: str, assistant: str, text: str, **options: Any
) -> list[Any]:
    """Run one turn.

    Returns:
        What it streamed.
    """
    options = {"input": human(text), "stream_mode": MODES, **options}
    events = [event async for event in client.runs.stream(thread, assistant, **options)]
    assert not [event.data for event in events if event.event == "error"]
    return events


def custom(events: list[Any]) -> list[dict[str, Any]]:
    return [event.data for event in events if event.event == "custom"]


async def new_thread(client: LangGraphClient) -> str:
    return (await client.threads.create())["thread_id"]


async def values(client: LangGraphClient, thread: str) -> dict[str, Any]:
    found: Any = (await client.threads.get_state(thread))["values"]
    return dict(found)


async def copied(client: LangGraphClient, thread: str) -> str:
    """A copy of a thread, to go on with while other tests read the original."""
    threads: Any = client.threads  # its types say that `copy` returns nothing
    return str((await threads.copy(thread))["thread_id"])


# --- What a person finds who opens Studio --------------------------------------------------------


def test_detector_of_blocking_calls_is_at_work(server: Server, complaints_expected: None) -> None:
    with server.sync_client() as client:
        thread = client.threads.create()["thread_id"]
        events = list(client.runs.stream(thread, "blocking", input=human("Hello")))
    assert [event.data["error"] for event in events if event.event == "error"] == ["BlockingError"]
    assert COMPLAINTS.search(server.log.read_text(encoding="utf-8"))


# --- Runs ----------------------------------------------------------------------------------------


async def test_background_work_is_taken_in_by_the_next_turn(server: Server) -> None:
    turns: list[list[dict[str, Any]]] = []
    async with server.client() as client:
        thread = await new_thread(client)
        for text in SAID:
            turns.append(custom(await say(client, thread, "agent", text)))
            if turns[-1][-1]["type"] == "data-om-buffering-start":
                break
        (started,) = turns.pop()[-1:]
        between = (await values(client, thread))["om"]
        for text in SAID:
            turns.append(custom(await say(client, thread, "agent", text)))
            ended = [part for part in turns[-1] if part["type"] == "data-om-buffering-end"]
            if ended:
                break
        after = (await values(client, thread))["om"]
    cycle = started["data"]["cycleId"]
    assert between["pending"]["observation"]["cycle_id"] == cycle
    assert (between["chunks"], between["usage"]) == ([], {})
    assert ended[0]["data"]["cycleId"] == cycle
    assert "Noor" in ended[0]["data"]["observations"]
    assert [chunk["cycle_id"] for chunk in after["chunks"]] == [cycle]


async def test_a_turn_that_waits_is_busy_and_may_be_cancelled(server: Server) -> None:
    own, run = ObservationalMemory(ScriptedChatModel()), ""
    answered = {"role": "assistant", "content": "Go on."}
    said = [*human(SAID[0] * 20)["messages"], answered, *human("And now?")["messages"]]
    given: Any = {"input": {"messages": said}, "stream_mode": ["custom", "values"]}
    async with server.client() as client:
        thread = await new_thread(client)
        config: Any = {"configurable": {"thread_id": thread}}
        remote = own.of(RemoteGraph("stuck", client=client), config, wait=0.01)
        async for event in client.runs.stream(thread, "stuck", **given, durability="sync"):
            run = event.data["run_id"] if event.event == "metadata" else run
            if event.event == "custom" and event.data["type"] == "data-om-observation-start":
                with pytest.raises(ThreadBusyError):
                    await remote.aremember("Noor likes whales")
                refused = await send(client, thread, action="remember", text="Noor likes whales")
                assert "is in the middle of a run" in refused.text
                await client.runs.cancel(thread, run, wait=True)
        assert (await client.threads.get_state(thread))["next"] == ["om_observe"]
        off: Any = {"configurable": {"om_enabled": False}}
        await say(client, thread, "stuck", "Never mind.", config=off)
        after = await values(client, thread)
    assert after["messages"][-1]["content"] == "Noted: Never mind."
    assert after["om"]["log"] == []


# --- The pages -----------------------------------------------------------------------------------


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310
        text: str = answer.read().decode("utf-8")
    return text


async def send(client: LangGraphClient, thread: str, **form: str) -> httpx.Response:
    """Send a form of the inspector."""
    app = memory_app(ObservationalMemory(ScriptedChatModel()), client=client, edit=True)
    transport, ours = httpx.ASGITransport(app), {"sec-fetch-site": "same-origin"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        return await web.post(f"/memory/{thread}", data=form, headers=ours)


# --- The memory of a thread on a server ----------------------------------------------------------


@each_graph
async def test_the_memory_of_a_thread_is_seen_and_changed_through_a_remote_graph(
    server: Server, graph: str
) -> None:
    own = ObservationalMemory(ScriptedChatModel())
    async with server.client() as client:
        with server.sync_client() as sync_client:
            remote = RemoteGraph(graph, client=client, sync_client=sync_client)
            await see_and_change(own, remote, client, graph)


async def see_and_change(
    own: ObservationalMemory, remote: RemoteGraph, client: LangGraphClient, graph: str
) -> None:
    config: Any = {"configurable": {"thread_id": await new_thread(client)}}
    thread = own.of(remote, config)
    await say(client, thread.thread_id, graph, "The museum opens at ten.")
    assert "(no observations yet)" in str(await thread.aview())
    await thread.aremember("Noor likes whales")
    await asyncio.to_thread(thread.pin, "whales")
    assert "Noor likes whales" in str(await asyncio.to_thread(thread.view))
    assert [hit.kind for hit in await thread.asearch("whales")] == ["observations"]
    assert "user" in {hit.role for hit in await thread.asearch("museum")}
    assert len(await thread.ahistory()) == 1
    await say(client, thread.thread_id, graph, "Thank you.")
    assert "Noor likes whales" in json.dumps((await values(client, thread.thread_id))["om"])
