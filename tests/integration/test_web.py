"""Memories as pages of a web application."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from langgraph_om import ConfigurationError
from langgraph_om.tools.inspector import memory_app
from support.agents import Agent, make_agent, on_thread, talk, turns, values
from support.inside import list_items
from support.savers import open_saver

OURS = {"sec-fetch-site": "same-origin"}
THREAD = "trip/1 ö"


@pytest.fixture
def agent() -> Agent:
    agent = make_agent("agent", InMemorySaver())
    talk(agent.graph, on_thread(THREAD), turns(8))
    return agent


def client(app: Any, host: str = "localhost:2024") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}")


async def test_a_page_for_each_thread(agent: Agent) -> None:
    async with client(memory_app(agent.memory, graph=agent.graph)) as web:
        listed = await web.get("/memory")
        assert 'href="memory/trip%2F1%20%C3%B6"' in listed.text
        page = await web.get("/memory/trip%2F1%20%C3%B6")
        assert page.status_code == 200
        assert "trip number 0" in page.text
        assert 'method="post"' not in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        assert (await web.post("/memory/trip%2F1%20%C3%B6", headers=OURS)).status_code == 405
        assert "<main" in page.text


async def test_a_thread_that_is_not_there_is_neither_shown_nor_made(agent: Agent) -> None:
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        assert (await web.get("/memory/new")).status_code == 404
        form = {"action": "remember", "text": "x"}
        assert (await web.post("/memory/new", data=form, headers=OURS)).status_code == 404
        assert "memory/new" not in (await web.get("/memory")).text


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_list_comes_in_pages_of_what_may_be_seen(kind: Any, tmp_path: Path) -> None:
    with open_saver(kind, str(tmp_path / "checkpoints.db")) as saver:
        agent = make_agent("agent", saver)
        for name in ("t3", "t1", "t2", "t5", "t4", "t0", "t6", "t1"):
            talk(agent.graph, on_thread(name), turns(1))
        app = memory_app(
            agent.memory, graph=agent.graph, limit=3, authorize=lambda _, thread: thread != "t5"
        )
        async with client(app) as web:
            pages, place = [], "/memory"
            while place:
                page = (await web.get(place)).text
                pages.append(re.findall(r'href="memory/([^"]+)"', page))
                older = re.search(r'href="([^"]+)">Older threads<', page)
                place = older[1] if older else ""
                assert ("Newest threads" in page) is (len(pages) > 1)
                place = place and f"/memory{place}"
            assert pages == [["t1", "t6", "t0"], ["t4", "t2", "t3"]]
            for mark in ("-1", "x", "9" * 5000):
                assert (await web.get(f"/memory?behind={mark}")).status_code == 200
            assert "No threads yet" in (await web.get("/memory?behind=99")).text


async def test_a_list_that_is_cut_says_so(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(agent.graph, on_thread("newer"), turns(1))
    monkeypatch.setattr("langgraph_om.tools.sources.LISTED", 1)
    async with client(memory_app(agent.memory, graph=agent.graph)) as web:
        page = (await web.get("/memory")).text
    assert re.findall(r'href="memory/([^"]+)"', page) == ["newer"]
    assert "Only the newest" in page


async def test_what_is_forgotten_on_a_page_is_gone_from_the_archive_at_once(
    tmp_path: Path,
) -> None:
    archive = f"sqlite:///{tmp_path / 'archive.db'}"
    agent = make_agent("agent", InMemorySaver(), archive=archive)
    talk(agent.graph, on_thread(THREAD), turns(8))
    item = list_items(values(agent.graph, on_thread(THREAD))["om"]["log"])[0]

    def find() -> list[str]:
        hits = agent.memory.search(item.words, thread_id=THREAD)
        return [hit.excerpt for hit in hits if hit.kind == "observations"]

    assert item.words in "\n".join(find())
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        form = {"action": "forget", "item": item.id, "at": "0"}
        assert (await web.post(f"/memory/{THREAD}", data=form, headers=OURS)).status_code == 303
    assert item.words not in "\n".join(find())
    agent.memory.close()


async def test_a_person_changes_what_is_remembered(agent: Agent) -> None:
    place = f"/memory/{THREAD}"
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:

        async def send(**form: str) -> httpx.Response:
            return await web.post(place, data=form, headers=OURS)

        def log() -> str:
            groups = values(agent.graph, on_thread(THREAD))["om"]["log"]
            return "\n".join(group["text"] for group in groups)

        done = await send(action="remember", text="Likes <b>tea</b>")
        assert done.status_code == 303
        assert "Likes <b>tea</b> (noted by a person)" in log()
        page = await web.get(done.headers["location"])
        assert "Likes &lt;b&gt;tea&lt;/b&gt;" in page.text
        [item, *_] = list_items(values(agent.graph, on_thread(THREAD))["om"]["log"])
        assert f'value="{item.id}"' in page.text
        await send(action="correct", item=item.id, text="User stays at home")
        assert "User stays at home (corrected" in log()
        await send(action="undo")
        assert "stays at home" not in log()
        await send(action="forget", item="tea")
        assert "tea" not in log()
        for form, said in (
            ({"action": "forget", "item": "zebra"}, "no item matches"),
            ({"action": "drop"}, "drop"),
        ):
            failed = await send(**form)
            assert failed.status_code == 400
            assert said in failed.text
        assert (await send(action="remember", text="x" * 70_000)).status_code == 413


async def test_a_person_names_a_thread(agent: Agent) -> None:
    place = f"/memory/{THREAD}"
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        page = (await web.get(place)).text
        assert 'value="title"' in page
        await web.post(place, data={"action": "title", "text": "Cork & on"}, headers=OURS)
        assert values(agent.graph, on_thread(THREAD))["om"]["thread_title"] == "Cork & on"
        assert ">Cork &amp; on</a>" in (await web.get("/memory")).text
        page = (await web.get(place)).text
        assert "Memory of Cork &amp; on</h1>" in page
        failed = await web.post(place, data={"action": "title", "text": " "}, headers=OURS)
        assert (failed.status_code, "not blank" in failed.text) == (400, True)
        await web.post(place, data={"action": "title", "text": ""}, headers=OURS)
        assert values(agent.graph, on_thread(THREAD))["om"]["thread_title"] is None
    async with client(memory_app(agent.memory, graph=agent.graph)) as web:
        assert 'value="title"' not in (await web.get(place)).text


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:2024"}, 403),
        ({"origin": "http://localhost:2024"}, 303),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
    ],
)
async def test_a_form_of_another_site_changes_nothing(
    agent: Agent, headers: dict[str, str], code: int
) -> None:
    before = values(agent.graph, on_thread(THREAD))["om"]
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        form = {"action": "remember", "text": "x"}
        answer = await web.post(f"/memory/{THREAD}", data=form, headers=headers)
    assert answer.status_code == code
    assert (values(agent.graph, on_thread(THREAD))["om"] == before) is (code == 403)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("LOCALHOST:2024", 200),
        ("127.0.0.1:8000", 200),
        ("127.1.2.3", 200),
        ("[::1]:8000", 200),
        ("evil.test", 403),
        ("localhost.evil.test", 403),
        ("127.0.0.1.evil.test:80", 403),
        ("evil.test:127", 403),
        ("192.168.0.2", 403),
        ("", 403),
    ],
)
async def test_a_name_that_points_at_this_machine_reads_and_changes_nothing(
    agent: Agent, host: str, code: int
) -> None:
    async with client(memory_app(agent.memory, graph=agent.graph, edit=True)) as web:
        asked = {"host": host}
        for place in ("/memory", f"/memory/{THREAD}"):
            answer = await web.get(place, headers=asked)
            assert answer.status_code == code
            assert ("trip" in answer.text) is (code == 200)
        before = values(agent.graph, on_thread(THREAD))["om"]
        form = {"action": "remember", "text": "x"}
        answer = await web.post(f"/memory/{THREAD}", data=form, headers={**OURS, **asked})
        assert answer.status_code == (303 if code == 200 else 403)
        assert (values(agent.graph, on_thread(THREAD))["om"] == before) is (code == 403)


async def test_other_hosts_are_allowed_by_name_or_by_who_asks(agent: Agent) -> None:
    hosts = ["memory.test", "*.team.test"]
    app = memory_app(agent.memory, graph=agent.graph, allowed_hosts=hosts)
    for host, code in (
        ("memory.test:8000", 200),
        ("ana.team.test", 200),
        ("evil.test", 400),
        ("localhost", 400),
    ):
        async with client(app, host) as web:
            assert (await web.get("/memory")).status_code == code
    app = memory_app(agent.memory, graph=agent.graph, authorize=lambda *_: True)
    async with client(app, "memory.test") as web:
        assert (await web.get("/memory")).status_code == 200
    app = memory_app(agent.memory, graph=agent.graph, allowed_hosts=[])
    async with client(app) as web:
        assert (await web.get("/memory")).status_code == 400
    with pytest.raises(ConfigurationError, match="pass a list of hosts"):
        memory_app(agent.memory, graph=agent.graph, allowed_hosts="memory.test")


async def test_who_may_see_what_is_asked_for_each_request(agent: Agent) -> None:
    async def authorize(request: Any, thread: str | None) -> bool:
        return request.headers.get("user") == "ana" and thread is not None

    app = memory_app(agent.memory, graph=agent.graph, edit=True, authorize=authorize)
    async with client(app) as web:
        assert (await web.get(f"/memory/{THREAD}", headers={"user": "ana"})).status_code == 200
        assert (await web.get("/memory", headers={"user": "ana"})).status_code == 403
        refused = await web.post(f"/memory/{THREAD}", data={"action": "undo"}, headers=OURS)
        assert refused.status_code == 403
        assert "trip number" not in refused.text


async def test_a_page_shows_the_thread_that_was_authorized(tmp_path: Path) -> None:
    """Whoever writes a state chooses the thread id in its record."""
    archive = f"sqlite:///{tmp_path / 'archive.db'}"
    agent = make_agent("agent", InMemorySaver(), archive=archive)
    talk(agent.graph, on_thread("theirs", resource_id="bo"), [HumanMessage("My code is OSPREY.")])
    talk(agent.graph, on_thread("mine", resource_id="ana"), turns(1))
    forged = {**values(agent.graph, on_thread("mine"))["om"], "thread_id": "theirs"}
    agent.graph.update_state(on_thread("mine"), {"om": Overwrite(forged)})
    app = memory_app(
        agent.memory, graph=agent.graph, authorize=lambda _, thread: thread in (None, "mine")
    )
    async with client(app) as web:
        page = (await web.get("/memory/mine?history&prompt")).text
        assert "trip number 0" in page
        assert "OSPREY" not in page
        assert (await web.get("/memory/theirs")).status_code == 403
    agent.memory.close()


async def test_it_is_mounted_below_a_path_and_asks_a_server(agent: Agent) -> None:
    snapshot = agent.graph.get_state(on_thread(THREAD))

    class Threads:
        async def search(self, *, ids: Any = None, extract: Any = None, **_: Any) -> list[Any]:
            if ids:
                return [{"thread_id": ids[0], "updated_at": "2026-04-04"}]
            asked = {path: name for name, path in extract.items()}
            title = {asked["values.om.thread_title"]: "Tents"}
            return [{"thread_id": "t"}, {"thread_id": "u", "extracted": title}]

        async def get_state(self, _: str) -> Any:
            return {"values": snapshot.values}

        async def get_history(self, _: str, **__: Any) -> Any:
            return [{"values": snapshot.values, "created_at": snapshot.created_at}]

    server = type("Client", (), {"threads": Threads()})()
    app = Starlette(routes=[Mount("/admin", memory_app(agent.memory, client=server))])
    async with client(app) as web:
        listed = (await web.get("/admin/memory")).text
        assert '<a href="memory/t">t</a>' in listed
        assert '<a href="memory/u">Tents</a>' in listed
        assert "trip number 0" in (await web.get("/admin/memory/t?history")).text


async def test_it_is_mounted_into_fastapi_beside_its_own_routes(agent: Agent) -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()
    app.mount("/admin", memory_app(agent.memory, graph=agent.graph, edit=True))

    @app.get("/memory")
    def own() -> str:
        return "own"

    place = "/admin/memory/trip%2F1%20%C3%B6"
    async with client(app) as web:
        assert (await web.get("/memory")).json() == "own"
        listed = await web.get("/admin/memory")
        assert 'href="memory/trip%2F1%20%C3%B6"' in listed.text
        assert "trip number 0" in (await web.get(place)).text
        done = await web.post(
            place, data={"action": "remember", "text": "Darjeeling"}, headers=OURS
        )
        assert done.status_code == 303
        assert "Darjeeling" in (await web.get(done.headers["location"])).text


def test_what_cannot_be_shown_is_refused(agent: Agent) -> None:
    with pytest.raises(ConfigurationError, match="no checkpointer"):
        memory_app(agent.memory, graph=make_agent("agent").graph)
    with pytest.raises(ConfigurationError, match="both given"):
        memory_app(agent.memory, graph=agent.graph, client=object())


async def test_pages_without_a_graph_or_a_server_say_what_to_pass() -> None:
    async def elsewhere(_: Request) -> Response:
        msg = "of another route"
        raise ConfigurationError(msg)

    app = memory_app(make_agent("agent").memory)
    app.router.routes.append(Route("/elsewhere", elsewhere))  # as a LangGraph server adds its own
    async with client(app) as web:
        with pytest.raises(ConfigurationError, match="another"):
            await web.get("/elsewhere")
        answers = [await web.get(path) for path in ("/memory", "/memory/t", "/memory-live/t")]
    assert {answer.status_code for answer in answers} == {503}
    assert all("graph=..." in answer.text for answer in answers)
