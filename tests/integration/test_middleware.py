"""Door 3 by itself: the hook, the inner graph, the projection, and what may go wrong in them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from langgraph_om import ConfigurationError
from langgraph_om.integrations.middleware import (
    ObservationalMemoryMiddleware,
)
from langgraph_om.testing import ScriptedChatModel
from support.agents import (
    MIDDLEWARE,
    SYSTEM,
    Agent,
    Graph,
    actor,
    make_agent,
    on_thread,
    outcome,
    record_of,
    refusals,
    remembering,
    scripted,
    search,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.inside import CONTINUATION_ID

CONFIG = on_thread()
LIMITS: dict[str, Any] = {"messages": 300, "log": 200}

NEXT = turn(6)
"""After `turns(6)`: a turn in which memory observes and reflects."""

both_doors = pytest.mark.parametrize("door", MIDDLEWARE)
both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def ready(door: str = "middleware", **options: Any) -> Agent:
    """An agent at whose next turn memory observes and reflects."""
    agent = make_agent(door, InMemorySaver(), **{**LIMITS, **options})
    talk(agent.graph, CONFIG, turns(6))
    return agent


def with_memory(
    model: ScriptedChatModel,
    *around: AgentMiddleware[Any, Any, Any],
    saver: BaseCheckpointSaver[Any] | None = None,
    limits: dict[str, Any] | None = None,
    **options: Any,
) -> Agent:
    """An agent whose other middleware stands before the memory."""
    clock = Clock()
    memory = remembering(model, clock, **(limits if limits is not None else LIMITS))
    options.setdefault("system_prompt", SYSTEM)
    graph = create_agent(
        model,
        [search],
        middleware=[*around, ObservationalMemoryMiddleware(memory)],
        checkpointer=saver if saver is not None else InMemorySaver(),
        **options,
    )
    return Agent(graph, memory, model, clock)


async def run(
    graph: Graph, given: Any, config: RunnableConfig, *, is_async: bool, **how: Any
) -> Any:
    if is_async:
        return await graph.ainvoke(given, config, **how)
    return graph.invoke(given, config, **how)


def nothing_lost(agent: Agent) -> bool:
    return uncovered(agent.memory, values(agent.graph, CONFIG)) == []


# --- What is seen from outside -------------------------------------------------------------------


@both_doors
def test_memory_is_in_the_output_and_not_in_the_input(door: str) -> None:
    agent = ready(door)
    result = agent.graph.invoke({"messages": [NEXT]}, CONFIG)
    assert result["om"] == record_of(agent.graph, CONFIG)
    assert result["om"]["log"] != []
    assert "om" not in agent.graph.get_input_jsonschema()["properties"]
    assert "om" in agent.graph.get_output_jsonschema()["properties"]


# --- What the model is given ---------------------------------------------------------------------


CACHED: list[str | dict[str, Any]] = [
    {"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Never mention trains."},
]


@both_ways
@pytest.mark.parametrize("prompt", [SYSTEM, SystemMessage(SYSTEM), SystemMessage(CACHED), None])
async def test_own_prompt_stays_in_front_as_it_is(
    prompt: str | SystemMessage | None, *, is_async: bool
) -> None:
    agent = with_memory(scripted(), system_prompt=prompt)
    for message in turns(8):
        await run(agent.graph, {"messages": [message]}, CONFIG, is_async=is_async)
    first, last = agent.prompts()[0], agent.prompts()[-1]
    given = prompt.content if isinstance(prompt, SystemMessage) else prompt
    assert [m.content for m in first if m.type == "system"] == ([given] if prompt else [])
    assert [m.type for m in last].count("system") == 1
    own = given if isinstance(given, list) else [{"type": "text", "text": given}] if given else []
    blocks = last[0].content
    assert isinstance(blocks, list)
    assert blocks[: len(own)] == own
    assert any("<observations>" in str(block) for block in blocks[len(own) :])
    assert last[1].id == CONTINUATION_ID
    state = values(agent.graph, CONFIG)
    assert CONTINUATION_ID not in [message.id for message in state["messages"]]
    assert [message.type for message in state["messages"]] == ["human", "ai"] * 8
    assert refusals(agent.prompts()) == []


# --- Crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [0, 9])
@both_doors
def test_update_after_a_failed_call_of_the_model_is_kept(door: str, said: int) -> None:
    saver = InMemorySaver()
    talk(make_agent(door, saver, **LIMITS).graph, CONFIG, turns(said))
    dying = make_agent(door, saver, model=scripted(actor=ConnectionError("away")), **LIMITS)
    with pytest.raises(ConnectionError):
        dying.graph.invoke({"messages": [turn(20)]}, CONFIG)
    agent = make_agent(door, saver, **LIMITS)
    agent.graph.update_state(CONFIG, {"om": agent.memory.updates.remember("User is in Ghent")})
    agent.graph.invoke(None, CONFIG)
    assert "User is in Ghent" in agent.prompts()[-1][0].text
    with pytest.raises(ConnectionError):
        dying.graph.invoke({"messages": [turn(21)]}, CONFIG)
    agent.graph.update_state(CONFIG, {"om": Overwrite({})})
    assert not agent.graph.get_state(CONFIG).values["om"]
    agent.graph.invoke(None, CONFIG)
    assert "User is in Ghent" not in agent.prompts()[-1][0].text
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h21-answer"


class Killed(BaseException):
    """The process dies here."""


@both_doors
@pytest.mark.parametrize("role", ["observer", "reflector", "actor"])
def test_killed_in_a_call(door: str, role: str) -> None:
    saver = InMemorySaver()
    talk(make_agent(door, saver, **LIMITS).graph, CONFIG, turns(6))
    dying = make_agent(door, saver, model=scripted(**{role: Killed()}), **LIMITS)
    with pytest.raises(Killed):
        dying.graph.invoke({"messages": [NEXT]}, CONFIG)
    again = make_agent(door, saver, **LIMITS)
    again.graph.invoke(None, CONFIG)
    # Memory's turn is written with the answer, or by its own node.
    is_written = role == "actor" and door == "middleware-node"
    assert again.asked("observer") == (0 if is_written else 1)
    unharmed = ready(door)
    unharmed.graph.invoke({"messages": [NEXT]}, CONFIG)
    assert outcome(values(again.graph, CONFIG)) == outcome(values(unharmed.graph, CONFIG))
    assert nothing_lost(again)


# --- How it is made ------------------------------------------------------------------------------


def fitting(**options: Any) -> Any:
    return remembering(scripted(), Clock(), **options)


@pytest.mark.parametrize(
    ("given", "options", "named"),
    [
        (fitting(), {"model": scripted(), "scope": "thread"}, "`memory` and `model`, `scope`"),
        (fitting(messages_key="chat"), {}, "`messages_key` is 'chat'"),
        ("gpt", {}, "`memory` is 'gpt'"),
        (scripted(), {}, "`memory` is"),
        (None, {"model": scripted(), "messages_key": "chat"}, "`messages_key` is 'chat'"),
        (None, {"model": scripted(), "on_error": "shrug"}, "`on_error` is 'shrug'"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ObservationalMemoryMiddleware(given, **options)


class Renamed(ObservationalMemoryMiddleware):
    """A subclass has another name, which is all that `create_agent` looks at."""


@pytest.mark.parametrize("kind", [ObservationalMemoryMiddleware, Renamed])
def test_memory_twice_is_refused(kind: type[ObservationalMemoryMiddleware]) -> None:
    twice = [ObservationalMemoryMiddleware(fitting()), kind(fitting())]
    with pytest.raises((AssertionError, ConfigurationError)):
        create_agent(scripted(), [search], middleware=twice)


# --- Other middleware that changes what the model is given ---------------------------------------


class Sees(AgentMiddleware[Any, Any, Any]):
    """Stands behind the memory and notes what comes out of it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.requests.append(request)
        return handler(request)


def test_middleware_behind_the_memory_sees_the_projection() -> None:
    model, sees = scripted(actor=actor), Sees()
    memory = remembering(model, Clock(), **LIMITS)
    graph = create_agent(
        model,
        [search],
        system_prompt=SYSTEM,
        middleware=[ObservationalMemoryMiddleware(memory), sees],
        checkpointer=InMemorySaver(),
    )
    talk(graph, CONFIG, turns(6))
    last = sees.requests[-1]
    assert "<observations>" in str(last.system_message.content)
    assert last.messages[0].id == CONTINUATION_ID
    assert not [message for message in last.messages if message.type == "system"]
    assert len(last.state["messages"]) == 11
