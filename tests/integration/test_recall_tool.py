"""The recall tool in agents: every door, what it may reach, with and without archive and search."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore

from langgraph_om import (
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import (
    DOORS,
    SCHEMAS,
    Agent,
    actor,
    live_request,
    make_agent,
    on_thread,
    refusals,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)
from support.inside import runner_of
from support.recalling import (
    RANGE,
    WALNUTS,
    answers,
    embed,
    index_of,
    recalled,
    recalling,
    system_text,
)

# --- Every door ----------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_the_actor_reads_a_message_behind_its_observations(door: str) -> None:
    agent = recalling(door)
    talk(agent.graph, on_thread(), turns(8, lookups=("", "1")))
    before = agent.prompts()[-1]
    first = RANGE.findall(system_text(before))[0][0]
    assert not any(message.id == first for message in before)

    answer = recalled(agent, cursor="FIRST", limit=1)

    assert answer["count"] == 1
    assert answer["cursor"] == first
    assert "**user" in answer["messages"]
    assert turn(0).text[:60] in answer["messages"]
    assert agent.prompts()[-1][-1].text.startswith("{")
    assert refusals(agent.prompts()) == []


@pytest.mark.parametrize("door", DOORS)
def test_two_calls_at_once_are_both_answered(door: str) -> None:
    def twice(messages: list[BaseMessage]) -> AIMessage:
        if any(isinstance(message, ToolMessage) for message in messages):
            return AIMessage("Both.")
        calls = [{"name": "recall", "args": {"page": at}, "id": f"c{at}"} for at in (1, -1)]
        return AIMessage("", tool_calls=calls)

    agent = recalling(door, says=twice, messages=4000)
    say(agent.graph, on_thread(), HumanMessage("Hello there.", id="h"))
    assert [a["page"] for a in answers(values(agent.graph, on_thread()))] == [1, -1]


def _shows(found: dict[str, Any], key: str) -> str:
    """How an answer shows a message: in full, as shown above, or not at all."""
    line = re.search(rf"cursor {key}(?:(, shown above)$|\n  I am)", found["results"], re.MULTILINE)
    return "" if line is None else line[1] or "in full"


@pytest.mark.parametrize("door", DOORS)
def test_what_an_answer_of_the_turn_shows_is_not_repeated(door: str) -> None:
    asked = [["to Lisbon", "Lisbon euros"], ["budget to Lisbon"]]  # calls of one answer, twice

    def look(messages: list[BaseMessage]) -> AIMessage:
        made = [m for m in messages if isinstance(m, AIMessage) and m.tool_calls]
        if "[look]" not in live_request(messages).text or len(made) == len(asked):
            return actor(messages)
        calls = [
            {
                "name": "recall",
                "args": {"mode": "search", "query": query},
                "id": f"{len(made)}-{at}",
            }
            for at, query in enumerate(asked[len(made)])
        ]
        return AIMessage("", tool_calls=calls)

    agent = recalling(door, says=look, messages=4000)
    talk(agent.graph, on_thread(), turns(6))
    said = next(f"h{n}" for n in range(6) if "Lisbon" in turn(n).text)
    for _ in range(2):  # another turn begins anew
        say(agent.graph, on_thread(), HumanMessage("[look] Where was it?"))
        found = answers(values(agent.graph, on_thread()))[-3:]
        assert [_shows(each, said) for each in found] == ["in full", "in full", ", shown above"]


def test_a_message_of_another_thread_with_the_same_id_is_not_shown_above() -> None:
    archive = SQLAlchemyArchive("sqlite:///:memory:")
    agent = recalling(archive=archive, log=9000, messages=9000, retrieval={"scope": "resource"})
    boats = {"one": "My boat Zorba lies in Cork, the other in Oslo.", "two": "My boat Zorba lies"}
    for thread, text in {**boats, "three": "Hello."}.items():
        say(agent.graph, on_thread(thread, resource_id="ana"), HumanMessage(text, id="1"))
    config = on_thread("three", resource_id="ana")
    state, asked = values(agent.graph, config), {"mode": "search", "query": "boat Zorba"}
    recall = runner_of(agent.memory).settings.parts.recall
    first = json.dumps(recall.answer_call(state, {**asked, "thread_id": "one"}, config=config))
    told = [
        HumanMessage("Where?", id="2"),
        AIMessage("", tool_calls=[{"name": "recall", "args": asked, "id": "c1"}], id="look"),
        ToolMessage(first, name="recall", tool_call_id="c1", id="found"),
        AIMessage("", tool_calls=[{"name": "recall", "args": asked, "id": "c2"}], id="again"),
    ]
    now = {**state, "messages": [*state["messages"], *told]}
    found = recall.answer_call(now, asked, config=config, is_called=True)
    assert "shown above" not in found["results"]
    assert f"  {boats['two']}\n" in found["results"] + "\n"


# --- Calls and answers ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def well_read() -> Agent:
    agent = recalling()
    talk(agent.graph, on_thread(), turns(6, lookups=("", "1")))
    return agent


@pytest.mark.parametrize(
    ("arguments", "key", "expected"),
    [
        ({}, "cursor", "h0"),
        ({"page": "1"}, "page", 1),
        ({"page": [1]}, "error", "`page` is"),
        ({"colour": "red"}, "error", "no argument"),
        ({"mode": "search", "query": "walks"}, "page", 1),
        # Names that a call of a function, or LangChain, takes for its own.
        *(
            ({name: "x"}, "error", "no argument")
            for name in ("self", "runtime", "config", "run_manager", "callbacks", "state", "store")
        ),
    ],
)
def test_what_a_model_writes_is_answered(
    well_read: Agent, arguments: dict[str, Any], key: str, expected: Any
) -> None:
    state = values(well_read.graph, on_thread())
    called = AIMessage("", tool_calls=[{"name": "recall", "args": arguments, "id": "c"}])
    node = StateGraph(SCHEMAS["plain"])
    node.add_node("tools", ToolNode(well_read.memory.tools))
    node.add_edge(START, "tools")
    done = node.compile().invoke({"messages": [*state["messages"], called]}, on_thread())
    if arguments == {"runtime": "x"}:  # the graph's own takes its place
        key, expected = "cursor", "h0"
    found = json.loads(done["messages"][-1].text)[key]
    assert expected in found if isinstance(found, str) else found == expected


# --- What the Actor is told ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("door", "is_on"), [("plain", False), ("agent", True), ("middleware", True)]
)
@pytest.mark.parametrize("given", [{}, {"retrieval": "auto"}])
def test_ready_agents_have_recall_unless_it_is_switched_off(
    door: str, given: dict[str, Any], *, is_on: bool
) -> None:
    agent = make_agent(door, InMemorySaver(), archive="sqlite://", **given)
    talk(agent.graph, on_thread(), turns(6))
    assert [tool.name for tool in agent.memory.tools] == ["recall"] * is_on
    assert ("call `recall`" in system_text(agent.prompts()[-1])) is is_on


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_a_model_without_tools_goes_without_recall(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello."), AIMessage("Goodbye.")]))
    memory = ObservationalMemory(scripted())
    agent: Any = (
        create_memory_agent(model, memory=memory)
        if door == "agent"
        else create_agent(model, middleware=[ObservationalMemoryMiddleware(memory)])
    )
    for answer in ("Hello.", "Goodbye."):
        said = agent.invoke({"messages": [HumanMessage("Hi")]}, on_thread())["messages"]
        assert said[-1].content == answer
    assert memory.recall_tool is None
    warned = [each for each in caplog.records if "recall is off" in each.getMessage()]
    assert [each.levelname for each in warned] == ["WARNING"]


# --- With an archive -----------------------------------------------------------------------------


def test_messages_that_left_the_checkpoint_are_read_from_the_archive() -> None:
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        agent = recalling(archive=archive, evict=True)
        talk(agent.graph, on_thread(resource_id="ana"), turns(30))
        kept = {message.id for message in values(agent.graph, on_thread())["messages"]}
        assert "h0" not in kept
        answer = recalled(agent, "t", "ana", cursor="h0", limit=2)
        newest = recalled(agent, "t", "ana", page=-1, limit=1)
    assert turn(0).text[:60] in answer["messages"]
    assert (answer["has_prev_page"], answer["has_next_page"]) == (False, True)
    assert newest["has_prev_page"] is True


# --- Search --------------------------------------------------------------------------------------


def test_a_turn_does_not_wait_for_a_failing_embedding_which_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_down = True

    def flaky(texts: Sequence[str]) -> list[list[float]]:
        if is_down:
            msg = "no quota"
            raise RuntimeError(msg)
        return embed(texts)

    agent = recalling(store=InMemoryStore(index=index_of(flaky)), retrieval={"vector": True})
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        talk(agent.graph, on_thread(), [WALNUTS, *turns(5)])
        assert agent.memory.flush(60)
        answer = recalled(agent, mode="search", query="walnuts")
    assert "walnuts" in answer["results"]  # by its words
    assert caplog.text.count("could not be indexed") == 1
    is_down = False
    talk(agent.graph, on_thread(), turns(1, start=9))
    assert agent.memory.flush(60)
    assert "walnuts" in recalled(agent, mode="search", query="walnuts")["results"]
