"""The inspector: what its pages show of threads, and that they follow a run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    BackgroundBuffering,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from langgraph_om.tools.inspector import memory_app
from support.agents import make_agent, on_thread, talk, turns, values

OURS = {"sec-fetch-site": "same-origin"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"{{ 7*7 }}\ud800\x07"
AXE = Path(os.environ.get("OM_AXE", "node_modules/axe-core/axe.min.js"))
HAS_BROWSER = shutil.which("chromium") is not None


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


def answer(messages: list[BaseMessage]) -> AIMessage:
    """An answer that says what it took: a token for each message it was sent, half of them kept."""
    read = 100 * len(messages)
    usage: Any = {"input_tokens": read, "output_tokens": 10, "total_tokens": read + 10}
    usage["input_token_details"] = {"cache_read": read // 2}
    return AIMessage(f"Noted. {'We walk along the river. ' * 12}", usage_metadata=usage)


def condense(messages: list[BaseMessage]) -> str:
    """Edits that drop the oldest third of the observations."""
    numbers = re.findall(r"^\[(\d+) ~", messages[-1].text, re.MULTILINE)
    return f"drop {', '.join(numbers[: len(numbers) // 3])}"


def remember(**options: Any) -> tuple[ObservationalMemory, Any]:
    """A memory with an agent that says what its prompts took."""
    model = ScriptedChatModel(actor=answer, observer=ExtractiveObserver().reply, reflector=condense)
    windows: Any = {
        "observation": {"message_tokens": 400, "buffer_tokens": False},
        "reflection": {"observation_tokens": 300},
        "buffering": InlineBuffering(),
    }
    memory = ObservationalMemory(model, **{**windows, **options})
    return memory, create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def having(self, name: str) -> list[dict[str, str]]:
        return [
            {key: value or "" for key, value in own.items()} for _, own in self.tags if name in own
        ]


# --- The list ------------------------------------------------------------------------------------


async def test_an_archive_lists_threads_by_page_by_user_and_by_text(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'a.db'}")
    agent = make_agent("agent", InMemorySaver(), archive=archive)
    for number in range(7):
        who = on_thread(f"t/{number}", resource_id=f"user {number % 2}")
        talk(agent.graph, who, turns(1))
        agent.clock.advance(minutes=1)
    talk(agent.graph, on_thread("t/3", resource_id="user 1"), turns(6, start=1))
    app = memory_app(agent.memory, graph=agent.graph, limit=3)
    async with client(app) as web:

        async def find(query: str) -> list[str]:
            found: list[str] = []
            place = f"/memory{query}"
            while place:
                page = (await web.get(place)).text
                rows = re.findall(r'href="memory/t%2F(\d)"', page)
                assert len(rows) <= 3
                found += rows
                older = re.search(r'href="(\?[^"]+)">Older threads<', page)
                place = f"/memory{older[1].replace('&amp;', '&')}" if older else ""
            return found

        assert await find("") == ["3", "6", "5", "4", "2", "1", "0"]
        assert await find("?user=user+1") == ["3", "5", "1"]
        assert await find("?q=T%2F4") == ["4"]
        assert await find("?q=USER+0") == ["6", "4", "2", "0"]
        assert await find("?q=nobody") == []
        assert "No thread matches." in (await web.get("/memory?q=nobody")).text
        row = (await web.get("/memory?q=t%2F3")).text
        record = values(agent.graph, on_thread("t/3"))["om"]
        text = Tags(row).text
        assert f"{sum(group['tokens'] for group in record['log']):,}" in text
        spent = record["usage"]["observation"]
        assert f"{spent['input_tokens']:,} in, {spent['output_tokens']:,} out" in text
        assert "user 1" in text
        assert re.search(r'class="number">14</td>', row)


async def test_a_checkpointer_alone_is_searched_too() -> None:
    memory, graph = remember()
    for thread, user in (("boat", "noor"), ("tax", "ana")):
        who = on_thread(thread, resource_id=user)
        graph.invoke({"messages": [HumanMessage("Hello")]}, who)
    async with client(memory_app(memory, graph=graph)) as web:
        assert re.findall(r'href="memory/(\w+)"', (await web.get("/memory?q=NOO")).text) == ["boat"]
        assert re.findall(r'href="memory/(\w+)"', (await web.get("/memory?user=ana")).text) == [
            "tax"
        ]


# --- A thread ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["state", "archive"])
async def test_notes_and_messages_name_each_other(kept: str, tmp_path: Path) -> None:
    options: Any = {"messages": 200}
    if kept == "archive":
        archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'a.db'}")
        options |= {"archive": archive, "evict": True}
    agent = make_agent("agent", InMemorySaver(), **options)
    talk(agent.graph, on_thread(), turns(16))
    state = values(agent.graph, on_thread())
    assert (len(state["messages"]) < 32) is (kept == "archive")
    async with client(memory_app(agent.memory, graph=agent.graph)) as web:
        page = Tags((await web.get("/memory/t")).text)
    said = page.having("data-at")
    assert [own["data-at"] for own in said] == [str(at) for at in range(32)]
    lights = {own["data-group"]: own["data-lights"] for own in page.having("data-group")}
    assert lights
    for key, runs in lights.items():
        covered = {
            str(at)
            for run in runs.split()
            for start, stop in [run.split("-")]
            for at in range(int(start), int(stop) + 1)
        }
        assert covered == {own["data-at"] for own in said if key in own["data-of"].split()}
        assert covered
    ids = [own["id"] for own in page.having("id")]
    assert len(ids) == len(set(ids))
    for own in page.having("href"):  # each leads to a place that is there
        if own["href"].startswith("#"):
            assert own["href"][1:] in ids


async def test_a_long_conversation_comes_in_pages() -> None:
    memory, graph = remember()
    said = [HumanMessage(f"Saying number {at}", id=f"h{at}") for at in range(250)]
    graph.invoke({"messages": said}, on_thread())
    async with client(memory_app(memory, graph=graph)) as web:

        async def places(query: str) -> list[int]:
            page = Tags((await web.get(f"/memory/t{query}")).text)
            return [int(own["data-at"]) for own in page.having("data-at")]

        assert await places("") == [*range(151, 251)]
        assert await places("?message=150") == [*range(100, 200)]
        assert await places("?message=0") == [*range(100)]
        for wrong in ("-1", "x", "9" * 5000, "251"):
            assert await places(f"?message={wrong}") == [*range(151, 251)]


async def test_of_a_long_message_the_rest_unfolds_and_nothing_is_lost() -> None:
    memory, agent = remember()
    said = " ".join(f"word{number}" for number in range(200))
    agent.invoke({"messages": [("user", said), ("user", "x" * 900)]}, on_thread("t"))
    async with client(memory_app(memory, graph=agent)) as web:
        page = (await web.get("/memory/t")).text
    shown = re.findall(
        r'<div class="text"[^>]*>([^<]*)<details[^>]*><summary>([^<]*)<.summary>([^<]*)', page
    )
    words, letters = (each for each in shown if each[0].startswith(("word", "x")))
    assert words[0] + words[2] == said
    assert words[2].startswith(" word")
    assert words[1] == f"{len(words[2])} more characters"
    assert letters[0] + letters[2] == "x" * 900


async def test_the_prompt_is_shown_word_for_word_and_its_parts_are_all_of_it() -> None:
    memory, graph = remember()
    for number in range(5):
        text = f"Turn {number}: I live in Lyon. {'It rains. ' * 20}"
        graph.invoke({"messages": [HumanMessage(text)]}, on_thread())
    state = graph.get_state(on_thread())
    sent = memory.llm_input_messages(state)
    async with client(memory_app(memory, graph=graph)) as web:
        page = Tags((await web.get("/memory/t?prompt")).text)
        html = (await web.get("/memory/t")).text
    short = Tags(html)
    for message in sent:
        assert message.text in page.text
    assert "<observations>" in page.text
    assert "<observations>" not in short.text
    total = re.search(r"([\d,]+) tokens, as memory counts them", short.text)
    row = r'</svg> ([^<(]+?)(?: \([\d,]+\))?</th><td class="number">([\d,]+)<'
    parts = re.findall(row, html)
    assert total
    assert {"How to read memory", "Observations", "The request and since"} <= {
        name for name, _ in parts
    }
    numbers = [int(number.replace(",", "")) for _, number in parts]
    assert sum(numbers) == int(total[1].replace(",", ""))


async def test_generations_are_shown_as_differences() -> None:
    memory, graph = remember()
    for number in range(16):
        text = f"Turn {number}: I live in town {number}. {'It rains. ' * 30}"
        graph.invoke({"messages": [HumanMessage(text)]}, on_thread())
    assert values(graph, on_thread())["om"]["generation"] > 0
    async with client(memory_app(memory, graph=graph)) as web:
        assert 'class="cut"' not in (await web.get("/memory/t")).text
        page = (await web.get("/memory/t?history")).text
        assert 'class="cut"' in page
        assert "Generation 1 " in page


async def test_the_plan_is_shown_where_memory_keeps_it_in_sight() -> None:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(), turns(2))
    state = agent.graph.get_state(on_thread()).values
    plan = [{"content": "Book the <ferry>", "status": "in_progress"}]
    held = {"values": {**state, "todos": plan}, "created_at": "2026-04-04"}

    class Threads:
        async def search(self, **_: Any) -> Any:
            return [{"thread_id": "t", "updated_at": "2026-04-04"}]

        async def get_state(self, _: str) -> Any:
            return held

    server = type("Client", (), {"threads": Threads()})()
    async with client(memory_app(agent.memory, client=server)) as web:
        assert "[~] Book the &lt;ferry&gt;" in (await web.get("/memory/t")).text


async def test_a_change_can_be_undone_from_where_it_is_told() -> None:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(), turns(8))
    place = "/memory/t"

    def log() -> str:
        return "\n".join(group["text"] for group in values(agent.graph, on_thread())["om"]["log"])

    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        await web.post(place, data={"action": "remember", "text": "Likes tea"}, headers=OURS)
        form = {"action": "remember", "text": "Likes coffee"}
        done = await web.post(place, data=form, headers=OURS)
        await web.post(place, data={"action": "remember", "text": "Likes milk"}, headers=OURS)
        page = (await web.get(done.headers["location"])).text
        act = re.search(r'value="undo"><input type="hidden" name="act" value="([^"]+)"', page)
        assert act
        await web.post(place, data={"action": "undo", "act": act[1]}, headers=OURS)
        assert "coffee" not in log()
        assert "tea" in log()
        assert "milk" in log()


async def test_no_text_becomes_markup_and_nothing_runs_that_is_not_ours() -> None:
    memory, graph = remember()
    who = on_thread(f"t {HOSTILE[:60]}", resource_id=HOSTILE[:60])
    for number in range(4):
        call = {"name": "look<b>", "args": {"q": HOSTILE}, "id": f"c{number}"}
        graph.invoke({"messages": [HumanMessage(f"{HOSTILE} {number} " * 8)]}, who)
        calls = [AIMessage(HOSTILE, tool_calls=[call])]
        graph.update_state(who, {"messages": calls})
    for update in (memory.updates.set_title(HOSTILE), memory.updates.remember(HOSTILE)):
        graph.update_state(who, {"om": update})
    async with client(memory_app(memory, graph=graph, edit=True)) as web:
        listed = await web.get("/memory")
        [place] = [
            own["href"]
            for own in Tags(listed.text).having("href")
            if own["href"].startswith("memory/t")
        ]
        for answer_ in (
            listed,
            await web.get(f"/memory?q={HOSTILE[:40]}&user={HOSTILE[:40]}"),
            await web.get(f"/{place}?prompt&history"),
            await web.get(f"/memory/{HOSTILE[:30]}"),
        ):
            tags = Tags(answer_.text)
            scripts = [own.get("src", "") for tag, own in tags.tags if tag == "script"]
            assert [str(each).partition("?")[0].rpartition("/")[2] for each in scripts] == [
                "htmx.min.js",
                "inspector.js",
            ]
            assert not [tag for tag, _ in tags.tags if tag in ("img", "b<", "style", "iframe")]
            for _, own in tags.tags:
                assert not [name for name in own if name.startswith("on") or name == "style"]
            assert "(2)>'\"49" not in tags.text  # nor a template
            policy = answer_.headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy


# --- Live ----------------------------------------------------------------------------------------


async def test_whoever_looks_again_is_told_of_each_step() -> None:
    memory, graph = remember()
    graph.invoke({"messages": [HumanMessage("Hello")]}, on_thread())
    async with client(memory_app(memory, graph=graph)) as web:
        version = (await web.get("/memory-live/t")).text
        assert f'data-version="{version}"' in (await web.get("/memory/t")).text
        assert (await web.get("/memory-live/t")).text == version
        graph.invoke({"messages": [HumanMessage("Again")]}, on_thread())
        assert (await web.get("/memory-live/t")).text != version
        assert (await web.get("/memory-live/nobody")).status_code == 404
        foreign = await web.get("/memory-live/t", headers={"host": "evil.test"})
        assert foreign.status_code == 403
        assert (await web.get("/memory-static/memory.css")).status_code == 200
        assert (await web.get("/memory-static/htmx.LICENSE.txt")).status_code == 404


# --- In a browser --------------------------------------------------------------------------------


class WithAxe:
    """The application, with a script on each page that writes what axe finds into its title."""

    def __init__(self, app: Any) -> None:
        self._app, self._axe = app, AXE.read_bytes()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/axe.js":
            body = (
                self._axe
                + b"""
;addEventListener("load", () => setTimeout(() => axe.run().then((found) => {
  const bad = found.violations.filter((own) => ["serious", "critical"].includes(own.impact));
  const told = bad.map((own) => [own.id, own.nodes[0].html.slice(0, 200)]);
  document.title = "axe " + JSON.stringify(told) + " passed " + found.passes.length;
}), 500));"""
            )
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/javascript")],
                }
            )
            await send({"type": "http.response.body", "body": body})
            return

        if scope["path"].startswith("/memory-live"):  # a page that listens never comes to rest
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return

        async def inject(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [own for own in message["headers"] if own[0] != b"content-length"]
                message = {**message, "headers": kept}
            elif b"</head>" in message.get("body", b""):
                script = b"<script src='/axe.js'></script></head>"
                message = {**message, "body": message["body"].replace(b"</head>", script)}
            await send(message)

        await self._app(scope, receive, inject)


@pytest.fixture
def served() -> Iterator[str]:
    """A server of this process with a thread that has something of everything."""
    uvicorn = pytest.importorskip("uvicorn")
    memory, graph = remember()
    for number in range(16):
        text = f"Turn {number}: I live in town {number}. {'It rains. ' * 30}"
        graph.invoke({"messages": [HumanMessage(text)]}, on_thread())
    app = WithAxe(memory_app(memory, graph=graph, edit=True))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_BROWSER, reason="no browser is installed")
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm install axe-core")
@pytest.mark.parametrize("path", ["/memory", "/memory/t?history", "/memory/t?prompt"])
def test_axe_finds_nothing_serious(served: str, path: str, tmp_path: Path) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    command = ["chromium", *options, "--virtual-time-budget=8000", "--dump-dom", f"{served}{path}"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout  # noqa: S603
    found = re.search(r"<title>axe (.*) passed (\d+)</title>", seen)
    assert found, seen[:500]
    assert json.loads(found[1].replace("&lt;", "<").replace("&amp;", "&")) == []
    assert int(found[2]) > 10


async def test_work_in_the_background_is_shown_while_it_goes_on_and_ready_once_it_is_done() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def observe(messages: list[BaseMessage]) -> str:
        begun.set()
        let_go.wait(60)
        return ExtractiveObserver().reply(messages)

    made = make_agent(
        "agent",
        InMemorySaver(),
        observed_by=ScriptedChatModel(observer=observe),
        messages=2000,
        observation={"buffer_tokens": 0.1},
        buffering=BackgroundBuffering(),
    )
    memory, agent, config = made.memory, made.graph, on_thread("t")
    talk(agent, config, turns(4))
    assert begun.wait(60)
    thread = memory.of(agent, config)

    async def shown() -> tuple[str, str, str]:
        async with client(memory_app(memory, graph=agent)) as page:
            text = Tags((await page.get("/memory/t")).text).text
        said = re.search(r"Running in the background: [\w ]+", text)
        status = (await thread.astatus())["windows"]["buffered"]["observations"]["status"]
        return said[0] if said else "", status, str(await thread.aview())

    at_work, status, view = await shown()
    assert (at_work, status) == ("Running in the background: observing messages", "running")
    assert "Running in the background: observing messages" in view
    let_go.set()
    assert await memory.aflush(60)
    at_work, status, view = await shown()
    assert (at_work, status) == ("", "complete")
    assert "Running" not in view
    assert "1 chunk: " in view
    assert values(agent, config)["om"]["pending"]  # nobody has written anything
