"""Earlier messages that are found for the user's message, and shown before it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import ArchiveError, ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import (
    Agent,
    on_thread,
    record_of,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)
from support.clock import Clock
from support.inside import RECALLED_ID
from support.recalling import WALNUTS, recalling

DOORS = ("agent", "middleware", "plain")
GATE = HumanMessage("The gate code of the flat in Bergen is 4711.", id="gate")
ASKS = HumanMessage("Which gate code did I give you for the flat?", id="asks")
ANA = {"resource_id": "ana"}


@pytest.fixture
def archive() -> Iterator[SQLAlchemyArchive]:
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        yield archive


def blocks(prompt: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in prompt if message.id == RECALLED_ID]


def block(prompt: Sequence[BaseMessage]) -> str:
    (only,) = blocks(prompt)
    return only


def ids_in(text: str) -> list[str]:
    return re.findall(r"^\w+ (?:\(\d\d:\d\d\) )?\[(.+?)\]: ", text, re.MULTILINE)


def injecting(
    door: str = "agent", *, inject: Any = True, vector: bool = False, **more: Any
) -> Agent:
    return recalling(door, retrieval={"inject": inject, "vector": vector}, **more)


def told(parts: Sequence[Any]) -> list[dict[str, Any]]:
    return [part["data"] for part in parts if part["type"] == "data-om-recalled"]


def stepping(**options: Any) -> ObservationalMemory:
    return remembering(scripted(), Clock(), **{"messages": 4000, **options})


# --- What is shown, and where --------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_what_was_said_elsewhere_stands_right_before_the_live_request(
    archive: SQLAlchemyArchive, door: str
) -> None:
    agent = injecting(door, archive=archive, messages=4000)
    say(agent.graph, on_thread("old", **ANA), GATE)
    parts = say(agent.graph, on_thread("new", **ANA), ASKS)
    prompt = agent.prompts()[-1]
    assert [message.id for message in prompt[-2:]] == [RECALLED_ID, "asks"]
    text = block(prompt)
    assert '<recalled-messages thread="old">' in text
    assert re.search(
        r"^Date: \w+, \w+ \d+, \d{4}\nUser \(\d\d:\d\d\) \[gate\]: The gate", text, re.MULTILINE
    )
    assert ids_in(text)[0] == "gate"
    [data] = told(parts)
    assert data["messageId"] == "asks"
    assert ("gate", "old") in [(hit["id"], hit["threadId"]) for hit in data["hits"]]
    assert 0 < data["hits"][0]["score"] <= 1
    assert data["tokens"] > 0
    kept = values(agent.graph, on_thread("new"))
    assert kept["messages"][0].id == "asks"
    assert RECALLED_ID not in {message.id for message in kept["messages"]}


def test_without_an_archive_the_own_thread_is_searched_behind_the_window() -> None:
    agent = injecting(inject={"message_range": 0, "top_k": 1})
    talk(agent.graph, on_thread(), [WALNUTS, *turns(8)])
    record = record_of(agent.graph, on_thread())
    assert record["log"]
    say(agent.graph, on_thread(), HumanMessage("Am I allergic to walnuts?", id="ask"))
    prompt = agent.prompts()[-1]
    assert ids_in(block(prompt)) == ["walnuts"]
    assert 'current="yes"' in block(prompt)


def test_it_is_pinned_over_the_steps_of_a_turn_and_made_anew_for_the_next(
    archive: SQLAlchemyArchive,
) -> None:
    agent = injecting(archive=archive, messages=4000)
    say(agent.graph, on_thread("old", **ANA), GATE, AIMessage("ok", id="ok"), WALNUTS)
    config = on_thread("new", **ANA)
    asks = HumanMessage(f"{ASKS.text} [look up 1,1]", id="asks")
    parts = say(agent.graph, config, asks)
    # What comes up meanwhile is for the next turn.
    calls = agent.prompts()[-3:]
    assert [len(blocks(prompt)) for prompt in calls] == [1, 1, 1]
    assert len({block(prompt) for prompt in calls}) == 1
    heads = [[m for m in prompt if m.id not in {"asks", RECALLED_ID}][:1] for prompt in calls]
    assert heads[0] == heads[1] == heads[2]
    assert len(told(parts)) == 1
    say(agent.graph, config, HumanMessage("What about walnuts?", id="next"))
    text = block(agent.prompts()[-1])
    assert "walnuts" in ids_in(text)
    assert record_of(agent.graph, config)["recalled"]["request"] == "next"


def test_forks_keep_their_own(archive: SQLAlchemyArchive) -> None:
    agent = injecting(archive=archive, messages=4000, inject={"message_range": 0})
    say(agent.graph, on_thread("old", **ANA), GATE, WALNUTS)
    config = on_thread("new", **ANA)
    say(agent.graph, config, ASKS)
    before = agent.graph.get_state(config).config
    say(agent.graph, config, HumanMessage("Do I eat walnuts?", id="next"))
    assert record_of(agent.graph, before)["recalled"]["request"] == "asks"
    say(
        agent.graph,
        {"configurable": {**before["configurable"], **ANA}},
        HumanMessage("zzz", id="z"),
    )
    assert blocks(agent.prompts()[-1]) == []
    assert record_of(agent.graph, config)["recalled"]["request"] == "z"


# --- What is never shown -------------------------------------------------------------------------


def test_what_the_window_shows_and_the_question_itself_are_not_found(
    archive: SQLAlchemyArchive,
) -> None:
    agent = injecting(archive=archive, messages=4000)
    config = on_thread("t", **ANA)
    say(agent.graph, config, GATE)
    parts = say(agent.graph, config, ASKS)
    assert blocks(agent.prompts()[-1]) == []
    assert [(data["hits"], data["tokens"]) for data in told(parts)] == [([], 0)]
    # Neither does the tool find the question in which it was asked.
    found = agent.memory.recall(
        values(agent.graph, config), config, mode="search", query="gate code"
    )
    assert "cursor gate" in found["results"]
    assert "cursor asks\n" not in found["results"]


def test_what_is_shown_of_other_conversations_is_not_shown_twice(
    archive: SQLAlchemyArchive,
) -> None:
    options = {"scope": "resource", "retrieval": {"inject": True}, "archive": archive}
    memory = stepping(messages=400, **options)
    said: list[BaseMessage] = [WALNUTS]
    record, old = None, on_thread("old", **ANA)
    for n in range(12):
        said += [turn(n), AIMessage(f"Answer {n}.", id=f"a{n}")]
        record = memory.step(record, said, config=old).record
    said.append(GATE)
    memory.step(record, said, config=old)
    asks = HumanMessage("What of the gate code, and of what am I allergic?", id="q")
    shown = memory.step(None, [asks], config=on_thread("new", **ANA)).messages
    others = "".join(message.text for message in shown if message.id == "om-other-conversations")
    assert "4711" in others
    assert "walnuts" not in others
    assert "4711" not in block(shown)
    assert "walnuts" in ids_in(block(shown))


# --- How much ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "most"), [(400, 200), (30_000, 2000)])
def test_the_block_is_bounded_and_shows_the_words_of_long_messages(
    archive: SQLAlchemyArchive, window: int, most: int
) -> None:
    long = [
        HumanMessage(
            f"{'Grey words go on. ' * 300}The heron {n}. {'More of it. ' * 300}", id=f"m{n}"
        )
        for n in range(6)
    ]
    remembering(scripted(), Clock(), messages=100_000, archive=archive).step(
        None, long, config=on_thread("old", **ANA)
    )
    retrieval = {"inject": {"top_k": 8, "message_range": 5}}
    memory = remembering(scripted(), Clock(), messages=window, archive=archive, retrieval=retrieval)
    asks = HumanMessage("heron?", id="q")
    result = memory.step(None, [asks], config=on_thread("new", **ANA))
    [data] = told(result.events)
    assert 0 < data["tokens"] <= most
    assert "The heron" in block(result.messages)
    assert len(data["hits"]) == len(ids_in(block(result.messages)))


def test_the_reasoning_of_answers_is_not_shown(archive: SQLAlchemyArchive) -> None:
    thought = [
        {"type": "reasoning", "reasoning": "PRIVATE"},
        {"type": "text", "text": "The heron was grey."},
    ]
    memory = stepping(archive=archive, retrieval={"inject": True})
    said = [HumanMessage("Hi.", id="h"), AIMessage(thought, id="a"), HumanMessage("Bye.", id="b")]
    memory.step(None, said, config=on_thread("old", **ANA))
    asks = HumanMessage("Which heron?", id="q")
    text = block(memory.step(None, [asks], config=on_thread("new", **ANA)).messages)
    assert "heron was grey" in text
    assert "PRIVATE" not in text


# --- What goes wrong -----------------------------------------------------------------------------


class Failing(SQLAlchemyArchive):
    """An archive that keeps what it is given and cannot search."""

    def search(self, *_: Any, **__: Any) -> Any:
        """Fail."""
        msg = "the index is gone"
        raise ArchiveError(msg)


@pytest.mark.parametrize("door", DOORS)
def test_a_search_that_fails_leaves_the_turn_as_it_is(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Failing("sqlite://")) as archive:
        agent = injecting(door, archive=archive, messages=4000)
        say(agent.graph, on_thread("old", **ANA), GATE)
        asks = HumanMessage(f"{ASKS.text} [look up 1]", id="asks")
        with caplog.at_level(logging.WARNING, "langgraph_om"):
            caplog.clear()
            parts = say(agent.graph, on_thread("new", **ANA), asks)
        assert values(agent.graph, on_thread("new"))["messages"][-1].type == "ai"
        [data] = told(parts)
        assert "the index is gone" in data["error"]
        assert data["hits"] == []
        assert caplog.text.count("nothing was recalled") == 1
        assert blocks(agent.prompts()[-1]) == []
