"""With an archive: what was said is kept outside of the checkpoint, and may leave it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ConfigurationError, EstimatingCounter
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ArchiveError
from support.agents import (
    Agent,
    dumped,
    make_agent,
    on_thread,
    record_of,
    refusals,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock

DOORS = ("plain", "delta", "agent", "middleware", "middleware-delta")
CONFIG = on_thread(resource_id="ana")
SAID = turns(14, lookups=("", "2,1", "1"))

every_door = pytest.mark.parametrize("door", DOORS)
every_door_and_database = pytest.mark.parametrize(
    ("door", "database"),
    [
        ("plain", "sqlite"),
        ("delta", "postgres"),
        ("agent", "sqlite"),
        ("middleware", "postgres"),
        ("middleware-delta", "sqlite"),
    ],
)
"""Each door once, and each database behind more than one of them."""


@pytest.fixture
def archive(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[SQLAlchemyArchive]:
    """An empty archive of a kind."""
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    if database == "postgres":
        url = request.getfixturevalue("postgres_sqlalchemy_url")
    opened = SQLAlchemyArchive(url)
    yield opened
    opened.close()


def ready(door: str, archive: Any, **options: Any) -> Agent:
    limits: dict[str, Any] = {"messages": 300, "log": 200, **options}
    return make_agent(door, InMemorySaver(), archive=archive, **limits)


def archived(archive: SQLAlchemyArchive, thread: str = "t") -> list[BaseMessage]:
    rows = archive.messages(thread, limit=10_000, visible_only=False)
    return [row.message for row in rows]


@every_door_and_database
def test_archive_has_every_message_and_group(door: str, archive: SQLAlchemyArchive) -> None:
    agent = ready(door, archive)
    talk(agent.graph, CONFIG, SAID)
    state = values(agent.graph, CONFIG)
    kept = archived(archive)
    said = state["messages"] if door not in SCHEMA_DOORS else state["messages"][:-1]
    assert dumped(kept) == dumped(said)
    known = {group["id"] for group in archive.groups(thread_id="t")}
    assert {group["id"] for group in state["om"]["log"]} <= known
    assert len(known) > len(state["om"]["log"])
    assert archive.thread("t").resource_id == "ana"  # type: ignore[union-attr]


SCHEMA_DOORS = ("plain", "delta")
"""Hand-made graphs of the fixtures, which do not lead to `om_finish`: the last answer comes later.
"""


@every_door_and_database
def test_evicted_messages_leave_the_checkpoint_and_nothing_is_lost(
    door: str, archive: SQLAlchemyArchive
) -> None:
    agent = ready(door, archive, evict=True, retrieval=False)
    reference = ready(door, None, retrieval=False)
    said = turns(40, lookups=("", "2,1", "1"))
    assert talk(agent.graph, CONFIG, said) == talk(reference.graph, CONFIG, said)
    state, whole = values(agent.graph, CONFIG), values(reference.graph, CONFIG)["messages"]
    order = [message.id for message in whole]
    assert len(state["messages"]) < 45 < len(whole)
    assert dumped(state["messages"]) == dumped(whole[-len(state["messages"]) :])
    last = archived(archive)[-1].id
    assert [message.id for message in archived(archive)] == order[: order.index(last) + 1]
    assert uncovered(agent.memory, state, order) == []
    assert refusals(agent.prompts()) == []
    assert [dumped(prompt) for prompt in agent.prompts()] == [
        dumped(prompt) for prompt in reference.prompts()
    ]
    # `om_finish` has counted the last answer too.
    assert state["om"]["evicted_tokens"] > 0
    theirs = {
        *("archived", "branch", "evicted", "evicted_tokens", "stamps", "token_cache", "observed")
    }
    own = state["om"].keys() - theirs
    record = record_of(reference.graph, CONFIG)
    assert {key: state["om"][key] for key in own} == {key: record[key] for key in own}
    gone = len(whole) - len(state["messages"])
    here, there = state["om"]["observed"], record["observed"]
    moved = {"index": here["index"] + gone, "count": here["count"] + gone, "said": there["said"]}
    assert there == {**here, **moved}


@pytest.mark.parametrize("door", ["plain", "middleware-delta"])
def test_size_of_the_state_stays_the_same(door: str, tmp_path: Path) -> None:
    agent = ready(door, f"sqlite:///{tmp_path / 'archive.db'}", evict=True)
    sizes = []
    for message in turns(80):
        say(agent.graph, CONFIG, message)
        sizes.append(len(values(agent.graph, CONFIG)["messages"]))
    assert max(sizes[60:]) <= max(sizes[20:60])


@every_door
def test_archive_that_fails_stops_nothing_and_is_caught_up_with(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")

    class Failing(SQLAlchemyArchive):
        """An archive whose disk is full for a while."""

        is_full = False

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if not callable(found) or not super().__getattribute__("is_full"):
                return found

            def fail(*_: Any, **__: Any) -> Any:
                msg = "the disk is full"
                raise ArchiveError(msg)

            return fail

    failing = Failing(f"sqlite:///{tmp_path / 'archive.db'}")
    agent = ready(door, failing, evict=True)
    talk(agent.graph, CONFIG, turns(5))
    failing.is_full = True
    with caplog.at_level(logging.WARNING, logger="langgraph_om"):
        talk(agent.graph, CONFIG, turns(5, start=5))
    assert "the disk is full" in caplog.text
    assert len(values(agent.graph, CONFIG)["messages"]) >= 10
    failing.is_full = False
    talk(agent.graph, CONFIG, turns(5, start=10))
    ids = [message.id for message in archived(archive)]
    assert ids[:29] == [f"h{n}{part}" for n in range(15) for part in ("", "-answer")][:29]


def test_thread_of_another_resource_is_refused(tmp_path: Path) -> None:
    agent = ready("agent", f"sqlite:///{tmp_path / 'archive.db'}")
    talk(agent.graph, CONFIG, turns(1))
    with pytest.raises(ConfigurationError, match="'ben', and the thread 't' belongs") as refused:
        talk(agent.graph, on_thread(resource_id="ben"), turns(1, start=1))
    assert "'ana'" not in str(refused.value)


def test_what_is_no_json_beside_a_text_is_left_out_of_the_archive(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    memory = remembering(scripted(), Clock(), archive=archive)
    call = AIMessage("", id="a", tool_calls=[{"name": "plot", "args": {}, "id": "1"}])
    result = ToolMessage("drawn", tool_call_id="1", id="b", artifact=object())
    odd = HumanMessage("draw", id="h", additional_kwargs={"when": object()})
    memory.step(None, [odd, call, result], thread_id="t")
    assert [message.text for message in archived(archive)] == ["draw", "", "drawn"]


SPOKEN = "the gate code is 7731"


class Moderator(BaseMessage):
    """A class of somebody's own."""

    type: str = "moderator"


class Guest(HumanMessage):
    """A user's words in a class of somebody's own."""

    type: Any = "guest"


def silent_call() -> AIMessage:
    call = AIMessage("", id="m", tool_calls=[{"name": "search", "args": {}, "id": "1"}])
    return call.model_copy(update={"content": None})


@pytest.mark.parametrize("door", ["plain", "agent", "middleware"])
@pytest.mark.parametrize(
    "odd",
    [
        [Moderator("the gate code is 7731", id="m")],
        [Guest("the gate code is 7731", id="m")],
        [silent_call(), ToolMessage("the gate code is 7731", tool_call_id="1", id="r")],
        [AIMessage("", id="m", additional_kwargs={"audio": {"id": "a", "transcript": SPOKEN}})],
        [AIMessage("", id="m", additional_kwargs={"refusal": SPOKEN})],
        [HumanMessage([{"type": "audio", "base64": "UklGRg==", "transcript": SPOKEN}], id="m")],
    ],
    ids=["own class", "own user", "no content", "spoken", "refusal", "recording"],
)
def test_odd_messages_are_archived_and_observed(
    door: str, odd: list[BaseMessage], tmp_path: Path
) -> None:
    agent = ready(door, f"sqlite:///{tmp_path / 'archive.db'}", retrieval=True)
    graph = agent.graph
    graph.update_state(CONFIG, {"messages": [turn(0), *odd]})
    talk(graph, CONFIG, turns(9, start=1))
    assert agent.memory.search("7731", thread_id="t")
    assert EstimatingCounter().count_message(odd[-1]) > EstimatingCounter().count_text(SPOKEN)
    asked = [call for call in agent.model.calls if call["role"] == "observer"]
    assert any("7731" in call["messages"][-1].text for call in asked)


def test_edited_message_is_archived_anew(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    agent = ready("agent", archive)
    talk(agent.graph, CONFIG, turns(2))
    say(agent.graph, CONFIG, HumanMessage("Something else", id="h1"))
    texts = [message.text for message in archived(archive)]
    assert "Something else" in texts
    assert texts[0] == turn(0).text


def test_step_tells_what_need_not_be_kept(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    memory = remembering(scripted(), Clock(), messages=300, archive=archive, evict=True)
    record, conversation, seen = None, [], []
    for message in turns(25):
        conversation.append(message)
        result = memory.step(record, conversation, thread_id="t")
        record = result.record
        conversation = [m for m in conversation if m.id not in result.evicted]
        conversation.append(AIMessage(f"Noted {message.id}.", id=f"{message.id}-answer"))
        seen += [message.id, f"{message.id}-answer"]
    memory.step(record, conversation, thread_id="t", final=True)
    assert len(conversation) < 35
    assert [message.id for message in archived(archive)] == seen


@pytest.mark.parametrize("archive", ["nothing://here", 3, SQLAlchemyArchive])
def test_archive_that_can_not_be_one_is_refused(archive: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"archive|database|dialect"):
        remembering(scripted(), Clock(), archive=archive)


def test_eviction_without_an_archive_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`evict` is True and there is no `archive`"):
        remembering(scripted(), Clock(), evict=True)


def test_live_request_of_a_long_turn_stays_and_keeps_its_place(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    agent = ready("agent", archive, evict=True)
    talk(agent.graph, CONFIG, turns(3))
    rounds = ",".join(["1"] * 40)
    say(agent.graph, CONFIG, turn(3, rounds))
    kept = [message.id for message in values(agent.graph, CONFIG)["messages"]]
    assert kept[0] == "h3" or "h3" in kept
    talk(agent.graph, CONFIG, turns(2, start=4))
    newest = values(agent.graph, CONFIG)["messages"][-1]
    agent.graph.update_state(CONFIG, {"messages": [RemoveMessage(id=newest.id)]})
    talk(agent.graph, CONFIG, turns(2, start=6))
    ids = [message.id for message in archived(archive)]
    assert ids[:8] == ["h0", "h0-answer", "h1", "h1-answer", "h2", "h2-answer", "h3", "h3-calls-0"]
    assert len([key for key in ids if str(key).startswith("h3.")]) == 40


def test_step_keeps_the_live_request_of_an_adopted_turn(tmp_path: Path) -> None:
    memory = remembering(
        scripted(),
        Clock(),
        messages=300,
        log=100,
        archive=f"sqlite:///{tmp_path / 'archive.db'}",
        evict=True,
    )
    asked = turn(0)
    conversation: list[BaseMessage] = [asked]
    for number in range(60):
        call = {"name": "search", "args": {"query": "museum"}, "id": f"c{number}"}
        conversation += [
            AIMessage("Let me look.", id=f"a{number}", tool_calls=[call]),
            ToolMessage("It opens at 10. " * 5, tool_call_id=f"c{number}", id=f"r{number}"),
        ]
    result = memory.step(None, conversation, thread_id="t")
    assert asked in result.messages
    assert asked.id not in result.evicted


def test_edited_message_is_archived_before_it_is_evicted(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    agent = ready("agent", archive, evict=True)
    talk(agent.graph, CONFIG, turns(10))
    observed = record_of(agent.graph, CONFIG)["cursor"][-3]
    edit = AIMessage("EDITED", id=observed)
    agent.graph.update_state(CONFIG, {"messages": [edit]})
    talk(agent.graph, CONFIG, turns(15, start=10))
    assert observed not in {message.id for message in values(agent.graph, CONFIG)["messages"]}
    ids = [message.id for message in archived(archive)]
    assert archived(archive)[ids.index(observed)].text == "EDITED"
    assert len(ids) == len(set(ids)) == 50


def test_runs_without_a_thread_id_are_not_archived(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    memory = remembering(scripted(), Clock(), archive=archive, evict=True)
    for user in ("ana", "ben"):
        config: Any = {"configurable": {"resource_id": user}}
        memory.step(None, [turn(0)], config=config)
    assert archive.thread("") is None


def test_copied_thread_is_archived_under_its_own_id(tmp_path: Path) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")
    agent = ready("agent", archive)
    talk(agent.graph, CONFIG, turns(3))
    state = values(agent.graph, CONFIG)
    copy = on_thread("copy", resource_id="ana")
    told = {"messages": state["messages"], "om": state["om"]}
    agent.graph.update_state(copy, told, as_node="agent")
    talk(agent.graph, copy, turns(2, start=3))
    ids = [f"h{n}{part}" for n in range(5) for part in ("", "-answer")]
    assert [message.id for message in archived(archive, "copy")] == ids
