"""The command `langgraph-om` over real databases, files and a server's client."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.types import Overwrite

from langgraph_om import ObservationalMemoryState
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.tools.cli import build_parser, main
from support.agents import Agent, make_agent, on_thread, say, talk, turn, turns, values
from support.edits import edited
from support.groups import day_log, group
from support.inside import blank_record, list_items
from support.savers import open_saver

GRAPH = """
from langgraph_om import create_memory_agent
from support.agents import remembering, scripted
from support.clock import Clock
model = scripted()
graph = create_memory_agent(model, memory=remembering(model, Clock()))
other = 1
"""


@pytest.fixture(params=["agent", "plain"])
def talked(request: Any, tmp_path: Path) -> Iterator[tuple[Agent, str]]:
    """An agent that talked for a while, and where its checkpoints are."""
    place = tmp_path / "checkpoints.db"
    with open_saver("sqlite", str(place)) as saver:
        agent = make_agent(request.param, saver, log=150)
        talk(agent.graph, on_thread("t-1"), turns(9))
        talk(agent.graph, on_thread("t-2"), turns(1))
        yield agent, f"sqlite:///{place}"


LOG = [
    group("g0", day_log(0, "* 🔴 User lives in Lyon", "* 🟡 Tea"), 0, 1),
    group("g1", day_log(1, "* 🔴 User has a dog"), 2, 3),
]


RECORD: Any = {**blank_record(), "id": "om-1", "thread_id": "t", "log": LOG}


def store(
    place: Path, record: Any, messages: Sequence[BaseMessage] = (), thread: str = "t"
) -> tuple[str, ...]:
    """Keep a thread with this memory in a database, and return the arguments that name it."""
    builder = StateGraph(ObservationalMemoryState).add_node("say", lambda _: {})
    with open_saver("sqlite", str(place)) as saver:
        graph = builder.set_entry_point("say").compile(checkpointer=saver)
        state = {"om": Overwrite(record), "messages": [*messages]}
        graph.update_state(on_thread(thread), state, as_node="say")
    return ("--checkpointer", f"sqlite:///{place}", "--thread", thread)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[str, ...]:
    """The arguments that name a thread with that log."""
    return store(tmp_path / "stored.db", RECORD)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ...]]:
    """The arguments that name a thread with that log, and the graph that writes to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent_of_the_log.py").write_text(GRAPH, encoding="utf-8")
    with open_saver("sqlite", str(tmp_path / "known.db")) as saver:
        agent = make_agent("agent", saver)
        talk(agent.graph, on_thread("t"), turns(1))
        record = {**values(agent.graph, on_thread("t"))["om"], "log": LOG}
        agent.graph.update_state(on_thread("t"), {"om": Overwrite(record)})
        place = f"sqlite:///{tmp_path / 'known.db'}"
        yield ("--checkpointer", place, "--thread", "t", "--graph", "agent_of_the_log:graph")


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


# --- A checkpointer ------------------------------------------------------------------------------


def test_a_checkpointer_is_read_without_the_agents_graph(
    talked: tuple[Agent, str], capsys: pytest.CaptureFixture[str]
) -> None:
    agent, place = talked
    where = ("--checkpointer", place)
    listed = json.loads(run(capsys, "list", *where, "--json"))
    assert [own["id"] for own in listed] == ["t-2", "t-1"]
    state = values(agent.graph, on_thread("t-1"))
    shown = json.loads(run(capsys, "show", *where, "--thread", "t-1", "--json"))
    assert shown["record"] == state["om"]
    [item, *_] = list_items(state["om"]["log"])
    assert item.id in run(capsys, "show", *where, "--thread", "t-1", "--ids")
    past = json.loads(run(capsys, "show", *where, "--thread", "t-1", "--history", "--json"))
    assert past["history"][0]["generation"] == state["om"]["generation"] > 0
    changed = run(capsys, "show", *where, "--thread", "t-1", "--history")
    assert any(line.startswith(("+", "-")) for line in changed.split("generation ")[-1].split("\n"))
    assert "Lisbon" in run(capsys, "search", "lisbon", *where, "--thread", "t-1")
    hits = json.loads(run(capsys, "search", "lisbon", *where, "--thread", "t-1", "--json"))
    assert {"user"} <= {hit["role"] for hit in hits}
    run(capsys, "search", "zebra", *where, "--thread", "t-1", code=1)
    assert main(["show", *where, "--thread", "t-3"]) == 3
    assert main(["show", *where]) == 3


@pytest.mark.parametrize("talked", ["agent"], indirect=True)
def test_the_options_of_ones_own_memory_count(
    talked: tuple[Agent, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "from langgraph_om import *\nmemory = ObservationalMemory('openai:x', observation=%r)\n"
    option = {"message_tokens": 400, "buffer_tokens": False}
    (tmp_path / "memory_of_400.py").write_text(text % option)
    monkeypatch.chdir(tmp_path)
    where = ("--checkpointer", talked[1], "--thread", "t-2", "--memory")
    assert "of 400 tokens" in run(capsys, "show", *where, "memory_of_400:memory")
    found = json.loads(run(capsys, "doctor", *where, "memory_of_400", "--json", code=1))
    assert found["sections"]["the request and since"] > 0
    assert [own["kind"] for own in found["advice"]] == ["health"]  # its model has no key


@pytest.mark.parametrize("talked", ["agent"], indirect=True)
def test_a_checkpointer_is_written_to_by_the_agents_graph(
    talked: tuple[Agent, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, place = talked
    where = ("--checkpointer", place, "--thread", "t-1")
    assert main(["remember", "Likes tea", *where]) == 3
    assert "--graph" in capsys.readouterr().err
    (tmp_path / "my_agent_of_the_test.py").write_text(GRAPH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run(capsys, "remember", "Likes tea", *where, "--graph", "my_agent_of_the_test:graph")
    state = values(agent.graph, on_thread("t-1"))
    assert "Likes tea (noted by a person)" in state["om"]["log"][-1]["text"]
    assert len(state["messages"]) > 10
    assert say(agent.graph, on_thread("t-1"), turn(20))
    assert main(["forget", "tea", *where, "--graph", "my_agent_of_the_test:other"]) == 2
    assert main(["forget", "tea", *where, "--graph", "my_agent_of_the_tests"]) == 2
    run(capsys, "title", "Trips of Ana", *where, "--graph", "my_agent_of_the_test:graph")
    assert "Trips of Ana" in run(capsys, "list", *where[:2])
    run(capsys, "undo", *where, "--graph", "my_agent_of_the_test:graph")
    assert "Likes tea" not in run(capsys, "show", *where)


@pytest.mark.slow
def test_postgresql(
    postgres_database: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_saver("postgres", postgres_database) as saver:
        agent = make_agent("agent", saver)
        talk(agent.graph, on_thread("t-1"), turns(8))
        state = values(agent.graph, on_thread("t-1"))
    where = ("--checkpointer", postgres_database)
    assert [own["id"] for own in json.loads(run(capsys, "list", *where, "--json"))] == ["t-1"]
    shown = json.loads(run(capsys, "show", *where, "--thread", "t-1", "--json"))
    assert shown["record"] == state["om"]
    assert "Lisbon" in run(capsys, "search", "lisbon", *where, "--thread", "t-1")
    past = json.loads(run(capsys, "show", *where, "--thread", "t-1", "--history", "--json"))
    assert past["history"][0]["generation"] == state["om"]["generation"]
    run(capsys, "doctor", *where, "--thread", "t-1")
    (tmp_path / "agent_over_postgres.py").write_text(GRAPH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    own = (*where, "--thread", "t-1", "--graph", "agent_over_postgres:graph")
    run(capsys, "remember", "Likes tea", *own)
    assert "Likes tea (noted by a person)" in run(capsys, "show", *where, "--thread", "t-1")
    run(capsys, "undo", *own)
    assert "Likes tea" not in run(capsys, "show", *where, "--thread", "t-1")


def test_the_doctor_says_what_the_agents_model_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", *store(tmp_path / "new.db", RECORD)])
    assert "the agent's model reads at most: not known" in capsys.readouterr().out
    windows = {"ChatOpenAI(local)": {"tokens": 8192, "source": "refused"}}
    where = store(tmp_path / "learned.db", {**RECORD, "windows": windows})
    main(["doctor", *where])
    said = capsys.readouterr().out
    assert "8,192 tokens, learned from a prompt that its provider rejected; all limits" in said
    main(["doctor", *where, "--json"])
    found = json.loads(capsys.readouterr().out)["actorWindow"]
    assert (found["tokens"], found["source"]) == (8192, "refused")


def test_the_doctor_names_memorys_models_what_they_lack_and_a_smaller_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    by = {"model_name": "gpt-6-sol", "model_provider": "openai"}
    answer = AIMessage("Noted.", response_metadata=by)
    where = store(tmp_path / "stored.db", RECORD, [answer])
    main(["doctor", *where])
    said = capsys.readouterr().out
    assert re.search(r"^observer +openai:gpt-6-sol +set OPENAI_API_KEY$", said, re.MULTILINE)
    assert "ObservationalMemory(model='openai:gpt-6-luna')" in said
    text = "from langgraph_om import *\nmemory = ObservationalMemory('anthropic:claude-x')\n"
    (tmp_path / "my_agents_memory.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    main(["doctor", *where, "--memory", "my_agents_memory:memory", "--json"])
    told = json.loads(capsys.readouterr().out)
    needs = ["set ANTHROPIC_API_KEY"]
    expected = {"role": "observer", "model": "anthropic:claude-x", "needs": needs}
    assert told["models"][0] == expected
    assert "model" not in [each["kind"] for each in told["advice"]]


# --- Changes -------------------------------------------------------------------------------------


def test_each_command_changes_what_it_says_and_says_so(
    known: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Lives in Ghent" in run(capsys, "remember", "Lives in Ghent", *known)
    changed = run(capsys, "correct", "Lyon", "User rows in Oslo", *known)
    assert "User lives in Lyon → User rows in Oslo" in changed
    run(capsys, "pin", "dog", *known)
    assert "Tea" in run(capsys, "forget", "tea", *known)
    text = run(capsys, "show", *known)
    assert "Oslo (corrected by a person)" in text
    assert "Lyon" not in text
    assert "Tea" not in text
    assert "Tea" in run(capsys, "undo", *known)
    assert "Tea" in run(capsys, "show", *known)
    run(capsys, "unpin", "dog", *known)
    run(capsys, "title", "Moving to Ghent", *known)
    assert "Moving to Ghent" in run(capsys, "list", *known)
    assert json.loads(run(capsys, "title", "", *known, "--json"))["action"] == "title"
    assert "Moving to Ghent" not in run(capsys, "list", *known)


# --- An archive ----------------------------------------------------------------------------------


def test_the_log_of_a_resource_in_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory.db"
    url = f"sqlite:///{path}"
    agent = make_agent("agent", scope="resource", archive=url)
    config = on_thread("t-1", resource_id="u")
    state: Any = None
    for at in range(8):
        messages = [*(state["messages"] if state else []), turn(at)]
        state = agent.graph.invoke({"messages": messages, "om": (state or {}).get("om")}, config)
    where = ("--archive", url, "--resource", "u")
    assert [own["id"] for own in json.loads(run(capsys, "list", *where, "--json"))] == ["t-1"]
    shown = json.loads(run(capsys, "show", *where, "--json"))
    assert shown["record"]["log"]
    assert "Lisbon" in run(capsys, "show", *where, "--thread", "t-1")
    run(capsys, "remember", "Likes tea", *where)
    archive = SQLAlchemyArchive(url)
    stored, _ = archive.load_record("u")
    archive.close()
    assert stored is not None
    assert "Likes tea" in stored["log"][-1]["text"]
    assert "Lisbon" in run(capsys, "search", "lisbon", *where)
    [first, *_] = list_items(stored["log"])
    told = run(capsys, "correct", first.id, "Nothing of the kind", *where)
    assert "Nothing of the kind (corrected by a person)" in run(capsys, "show", *where)
    run(capsys, "undo", "--act", told.split("--act ")[1].split("`")[0], *where)
    shown_again = run(capsys, "show", *where)
    assert "Nothing of the kind" not in shown_again
    assert first.text in shown_again
    run(capsys, "undo", *where)
    assert "Likes tea" not in run(capsys, "show", *where)
    run(capsys, "undo", *where, code=4)
    assert main(["remember", "x", *where, "--thread", "t-1"]) == 3
    assert main(["show", *where[:2], "--resource", "nobody"]) == 3
    agent.memory.delete_thread("t-1", resource_id="u")
    archive = SQLAlchemyArchive(url)
    assert "Lisbon" not in str(archive.load_record("u"))
    archive.close()


def test_the_past_of_a_users_log_is_told_from_its_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    agent = make_agent("agent", InMemorySaver(), scope="resource", archive=url, log=130)
    for thread in ("t-1", "t-2", "t-3", "t-4"):
        talk(agent.graph, on_thread(thread, resource_id="u"), turns(12))
    where = ("--archive", url, "--resource", "u", "--history", "--json")
    past = json.loads(run(capsys, "show", *where))["history"]
    assert [own["generation"] for own in past] == [*range(past[0]["generation"], -1, -1)]
    assert len(past) > 1
    assert json.loads(run(capsys, "show", *where, "--thread", "t-1"))["history"]


def test_an_archive_is_searched_by_its_index_in_all_threads_of_a_resource(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    agent = make_agent("agent", archive=url)
    for thread, user, text in (
        ("t-1", "u", "I painted the Küche."),
        ("t-2", "u", "The kitchen was painting itself."),
        ("t-3", "other", "I painted a boat."),
    ):
        config = on_thread(thread, resource_id=user)
        agent.graph.invoke({"messages": [HumanMessage(text, id=f"m-{thread}")]}, config)
    where = ("--archive", url, "--resource", "u")
    hits = json.loads(run(capsys, "search", "painting kuche", *where, "--json"))
    assert hits[0]["id"].startswith("m-t-")  # another form of a word, without its accents
    assert {hit["thread_id"] for hit in hits} == {"t-1", "t-2"}
    assert all(0 < hit["score"] <= 1 for hit in hits)
    assert run(capsys, "search", "painted", *where, "--limit", "1").count("painted") == 1
    one = json.loads(
        run(capsys, "search", "painted", "--archive", url, "--thread", "t-1", "--json")
    )
    assert {hit["thread_id"] for hit in one} == {"t-1"}
    run(capsys, "search", "boat", *where, code=1)
    assert main(["search", "boat", "--archive", url]) == 2


# --- What goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["0", "-1", "ten"])
def test_a_limit_is_a_number_of_things(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list", "--checkpointer", "sqlite:///any.db", "--limit", limit])
    assert "--limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("forget", "zebra"), 4, "no item matches 'zebra'"),
        (("forget", "User"), 4, "2 items match"),
        (("remember", " "), 2, "not blank"),
        (("title", "x" * 121), 2, "1 to 120 characters"),
    ],
)
def test_mistakes_have_codes_and_say_what_to_do(
    arguments: tuple[str, ...],
    code: int,
    said: str,
    *,
    known: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = run(capsys, "show", *known, "--json")
    assert main([*arguments, *known]) == code
    assert said in capsys.readouterr().err
    assert main([*arguments, *known, "--json"]) == code
    assert said in json.loads(capsys.readouterr().err)["error"]
    assert run(capsys, "show", *known, "--json") == before


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        (("--checkpointer", "sqlite:///nowhere.db"), 3, "there is no file 'nowhere.db'"),
        (("--archive", "sqlite:///nowhere.db"), 3, "there is no file"),
        (("--checkpointer", "mysql://x"), 2, "pass sqlite:///"),
        pytest.param(
            ("--url", "http://127.0.0.1:9"),
            3,
            "`--url`: Connect",
            marks=pytest.mark.slow,  # it retries
        ),
        (("--url", "http://127.0.0.1:9", "--graph", "no.such:graph"), 2, "cannot be imported"),
    ],
)
def test_a_source_that_is_not_there(
    where: tuple[str, ...],
    code: int,
    said: str,
    *,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "--thread", "t", *where]) == code
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]  # nothing was made


def test_a_database_of_another_kind_is_told_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, other in (("archive", "checkpointer"), ("checkpointer", "archive")):
        place = tmp_path / f"{kind}.db"
        if kind == "archive":
            SQLAlchemyArchive(f"sqlite:///{place}").close()
        else:
            with open_saver("sqlite", str(place)) as saver:
                talk(make_agent("agent", saver).graph, on_thread("t-1"), turns(1))
        tables = list_tables(place)
        assert main(["list", f"--{other}", f"sqlite:///{place}", "--resource", "u"]) == 3
        assert "has no table" in capsys.readouterr().err
        assert list_tables(place) == tables


def list_tables(place: Path) -> set[str]:
    with closing(sqlite3.connect(place)) as opened:
        return {name for (name,) in opened.execute("SELECT name FROM sqlite_master")}


def test_the_help_names_all_commands_and_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--help"])
    text = capsys.readouterr().out
    for word in ("show", "list", "search", "doctor", "forget", "mcp", "exit codes"):
        assert word in text


@pytest.mark.slow
def test_it_runs_as_a_module(stored: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "langgraph_om", "show", *stored]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert "User lives in Lyon" in done.stdout


def test_a_server_is_asked_by_its_client(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = edited(
        {**blank_record(), "id": "om-1", "thread_id": "t"},
        {"log": [group("g", "* 🔴 User lives in Lyon")]},
    )

    class Threads:
        async def search(self, **_: Any) -> list[Any]:
            return [{"thread_id": "t", "updated_at": "2026-03-02T09:00:00+00:00"}]

        async def get_state(self, thread: str) -> Any:
            assert thread == "t"
            return {"values": {"om": record, "messages": [{"type": "human", "content": "hi"}]}}

        async def get_history(self, thread: str, **_: Any) -> Any:
            return [{**await self.get_state(thread), "created_at": "2026-03-02T09:00:00+00:00"}]

    client = type("Client", (), {"threads": Threads()})()
    monkeypatch.setattr("langgraph_sdk.get_client", lambda url: nullcontext(client))
    where = ("--url", "http://127.0.0.1:2024", "--thread", "t")
    assert "2026-03-02 09:00" in run(capsys, "list", *where[:2])
    assert "Lyon" in run(capsys, "show", *where)
    assert json.loads(run(capsys, "show", *where, "--history", "--json"))["history"]


STEERING = "\x1b]0;x\x07 \x9b31m \x90d\x9c \u202ertl\u2066 \x00"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_nothing_that_was_stored_steers_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    thread = f"t {STEERING}".replace("\x00", "")
    log = [group("g", day_log(0, f"* 🔴 User said {STEERING} tea"))]
    record: Any = {**blank_record(), "id": "om", "thread_id": thread, "log": log}
    record |= {"thread_title": f"T {STEERING}", "current_task": STEERING}
    where = store(tmp_path / "stored.db", record, thread=thread)
    for command in (["show"], ["show", "--ids"], ["list"], ["search", "tea"], ["doctor"]):
        main([*command, *where, *form])
    main(["forget", STEERING, *where, *form])
    main(["show", "--thread", STEERING, "--checkpointer", f"other://{STEERING}", *form])
    printed = capsys.readouterr()
    assert CONTROLS.search(printed.out) is None
    assert CONTROLS.search(printed.err) is None
    if form:
        assert "\\u009b31m" in printed.out
    shown = make_agent("agent").memory.view({"om": record, "messages": []})
    assert CONTROLS.search(str(shown)) is None


@pytest.mark.parametrize("option", ["--checkpointer", "--archive"])
@pytest.mark.parametrize(
    "url",
    [
        "mysql://ana:s3cret@host/db",
        "x://ana:s3cr/s3cr@t@host",
        "postgresql//ana:s3cret@host/db",
        "postgresql:ana:s3cret@host/db",
        "postgresql://ana:s3cr@s3cret@127.0.0.1:1/db",
        "postgresql://ana:s3cr:s3cret/s3cret@127.0.0.1:1/db",
        "postgresql://ana:s3cret%zz@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=ana&password=s3cret&s3c=1",
        "postgresql://ana:s3cr%27et@s3cr:s3cret@127.0.0.1:x/db",
        "host=127.0.0.1 user=ana password=s3cret",
    ],
)
def test_no_password_stands_in_an_error(
    capsys: pytest.CaptureFixture[str], option: str, url: str
) -> None:
    assert main(["list", option, url]) in (2, 3)
    said = capsys.readouterr().err
    assert said.startswith("langgraph-om: ")
    assert "s3c" not in said.replace('parameter: "s3c"', "")


@pytest.mark.parametrize("code", range(7))
def test_what_a_file_holds_is_never_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    place, ran = tmp_path / "sent.db", tmp_path / "ran"
    with open_saver("sqlite", tmp_path / "sent.db") as saver:
        agent = make_agent("agent", saver)
        talk(agent.graph, on_thread("t1"), turns(3))
    calls: Any = {
        0: ("os", "mkdir", str(ran)),
        1: ("os", "mkdir", (str(ran),)),
        2: ("pathlib", "Path", {"self": str(ran)}),
        3: ("pathlib", "Path", str(ran), "mkdir"),
        4: ("os", "mkdir", {"path": str(ran)}),
        5: ("os", "mkdir", {"path": str(ran)}, "mkdir"),
        6: (str(ran), "<f8", [1], b""),
    }
    hostile = ormsgpack.Ext(code, ormsgpack.packb(calls[code]))
    with closing(sqlite3.connect(place)) as opened, opened:
        rows = opened.execute("SELECT rowid, checkpoint FROM checkpoints").fetchall()
        for row, packed in rows:
            stored = ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext)
            stored["channel_values"]["zzz"] = hostile
            changed = ormsgpack.packb(stored)
            opened.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (changed, row))
    for command in ("list", "show", "search", "doctor"):
        words = ["trip"] if command == "search" else []
        main([command, *words, "--checkpointer", f"sqlite:///{place}", "--thread", "t1"])
    assert not ran.exists()
    assert "t1" in run(capsys, "list", "--checkpointer", f"sqlite:///{place}")


def test_a_pickle_in_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "sent.db"
    with open_saver("sqlite", place) as saver:
        talk(make_agent("agent", saver).graph, on_thread("t1"), turns(3))
    with closing(sqlite3.connect(place)) as opened, opened:
        opened.execute(
            "UPDATE checkpoints SET type = 'pickle', checkpoint = ?", (b"cos\nabort\n(tR.",)
        )
    run(capsys, "list", "--checkpointer", f"sqlite:///{place}", code=3)


def test_what_is_found_and_helped_with_fits_eighty_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "Tea is what I like, " * 20
    messages = [HumanMessage(said, id=f"message-{'0' * 60}{n}") for n in (1, 2)]
    where = store(tmp_path / "stored.db", RECORD, messages)
    found = run(capsys, "search", "tea", *where)
    assert found.count("Tea is what I like") > 1
    with pytest.raises(SystemExit):
        main(["--help"])
    assert max(map(len, (found + capsys.readouterr().out).splitlines())) <= 80


# --- Costs ---------------------------------------------------------------------------------------


def test_costs_are_told_by_thread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "checkpoints.db"
    with open_saver("sqlite", str(place)) as saver:
        agent = make_agent("agent", saver, log=150)
        for thread, user in (("t-1", "ana"), ("t-2", "bo")):
            talk(agent.graph, on_thread(thread, resource_id=user), turns(9))
        usage = values(agent.graph, on_thread("t-2"))["om"]["usage"]
    where = ("list", "--checkpointer", f"sqlite:///{place}")
    told = json.loads(run(capsys, *where, "--json"))
    assert [row["id"] for row in told] == ["t-2", "t-1"]
    last, read = told[0], sum(each["input_tokens"] for each in usage.values())
    written = sum(each["output_tokens"] for each in usage.values())
    assert (last["user"], last["tokens_in"], last["tokens_out"]) == ("bo", read, written)
    assert read > 0
    assert f"{read}" in run(capsys, *where)
