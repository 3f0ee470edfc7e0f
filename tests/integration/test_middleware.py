"""Door 3 by itself: the hook, the inner graph, the projection, and what may go wrong in them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from langgraph_om import BackgroundBuffering, ConfigurationError
from langgraph_om.core.content.message_keys import CONTINUATION_ID
from langgraph_om.integrations.middleware import (
    ObservationalMemoryAgentState,
    ObservationalMemoryMiddleware,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.agents import (
    MIDDLEWARE,
    SYSTEM,
    Agent,
    Graph,
    actor,
    asay,
    make_agent,
    of_kind,
    on_thread,
    outcome,
    record_of,
    refusals,
    remembering,
    say,
    scripted,
    search,
    talk,
    turn,
    turns,
    uncovered,
    values,
)
from support.clock import Clock

CONFIG = on_thread()
HOOK = "ObservationalMemoryMiddleware.before_model"
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


async def said_to(agent: Agent, message: HumanMessage, *, is_async: bool) -> list[dict[str, Any]]:
    speak = asay(agent.graph, CONFIG, message) if is_async else None
    return await speak if speak is not None else say(agent.graph, CONFIG, message)


def nothing_lost(agent: Agent) -> bool:
    return uncovered(agent.memory, values(agent.graph, CONFIG)) == []


# --- What is seen from outside -------------------------------------------------------------------


def checkpoints(graph: Graph, saver: InMemorySaver) -> tuple[int, int]:
    """How many checkpoints there are of the agent, and of graphs within it."""
    kept = [saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(None)]
    assert len(list(graph.get_state_history(CONFIG))) == kept.count("")
    return kept.count(""), len(kept) - kept.count("")


@both_doors
def test_a_run_costs_one_checkpoint_and_each_step_where_memory_is_a_node(door: str) -> None:
    without, saver = InMemorySaver(), InMemorySaver()
    bare = create_agent(scripted(), [search], system_prompt=SYSTEM, checkpointer=without)
    agent = make_agent(door, saver, messages=10_000, log=10_000)
    bare.invoke({"messages": [turn(0, "2,1")]}, CONFIG)
    agent.graph.invoke({"messages": [turn(0, "2,1")]}, CONFIG)
    steps = len(agent.prompts())
    assert steps == 3
    more = steps if door == "middleware-node" else 1
    assert checkpoints(agent.graph, saver) == (checkpoints(bare, without)[0] + more, 0)


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


# --- A provider that says the prompt is too long -------------------------------------------------


ROOMY = {"messages": 10_000, "log": 10_000}


@both_ways
async def test_prompt_still_too_long_is_the_providers_error(*, is_async: bool) -> None:
    agent = with_memory(scripted(actor=ContextOverflowError("too long")), limits=ROOMY)
    given = {"messages": turns(6)}
    with pytest.raises(ContextOverflowError, match="too long"):
        await run(agent.graph, given, CONFIG, is_async=is_async)
    assert len(agent.prompts()) == 2
    assert len(agent.prompts()[1]) < len(agent.prompts()[0])
    # Nothing can be left out of a single message.
    with pytest.raises(ContextOverflowError, match="too long"):
        await run(agent.graph, {"messages": turns(1)}, on_thread("other"), is_async=is_async)
    assert len(agent.prompts()) == 3


# --- Failures of the Observer --------------------------------------------------------------------


class Farewell(AgentMiddleware[Any, Any, Any]):
    """Notes the end of each run."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    def after_agent(self, state: AgentState[Any], runtime: Any) -> None:
        del runtime
        self.ended.append(str(state["messages"][-1].id))


@both_ways
async def test_abort_ends_the_run_and_still_says_farewell(*, is_async: bool) -> None:
    model = scripted(observer=[ConnectionError("away"), ExtractiveObserver().reply])
    farewell = Farewell()
    agent = with_memory(model, farewell, limits={"messages": 400, "on_error": "abort"})
    for message in turns(4):
        await said_to(agent, message, is_async=is_async)
    parts = await said_to(agent, turn(4), is_async=is_async)
    assert len(of_kind(parts, "tripwire")) == 1
    assert len(agent.prompts()) == 4
    assert farewell.ended[-1] == "h4"
    assert agent.graph.get_state(CONFIG).next == ()
    await said_to(agent, turn(7), is_async=is_async)
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h7-answer"
    assert nothing_lost(agent)


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


def test_new_message_instead_of_a_resume() -> None:
    saver = InMemorySaver()
    dying = make_agent("middleware", saver, model=scripted(reflector=Killed()), **LIMITS)
    talk(dying.graph, CONFIG, turns(6))
    with pytest.raises(Killed):
        dying.graph.invoke({"messages": [NEXT]}, CONFIG)
    again = make_agent("middleware", saver, **LIMITS)
    say(again.graph, CONFIG, turn(7))
    assert values(again.graph, CONFIG)["messages"][-1].id == "h7-answer"
    assert record_of(again.graph, CONFIG)["log"] != []
    assert nothing_lost(again)


# --- Time travel ---------------------------------------------------------------------------------


def before_work(agent: Agent) -> Any:
    """The checkpoint from which memory has observed last."""
    newest = record_of(agent.graph, CONFIG)["log"]
    history = list(agent.graph.get_state_history(CONFIG))
    gates = ((HOOK,), ("model",))
    return next(s for s in history if s.next in gates and s.values["om"]["log"] != newest)


@both_doors
def test_replay_does_the_same_work_again(door: str) -> None:
    agent = make_agent(door, InMemorySaver(), **LIMITS)
    talk(agent.graph, CONFIG, turns(7))
    expected = record_of(agent.graph, CONFIG)
    asked = agent.asked("observer")
    agent.graph.invoke(None, before_work(agent).config)
    assert record_of(agent.graph, CONFIG) == expected
    assert agent.asked("observer") == asked + 1


# --- Buffering -----------------------------------------------------------------------------------

BUFFERED: dict[str, Any] = {"observation": {"buffer_tokens": 0.2}}


@both_ways
async def test_job_of_one_turn_is_collected_in_another(*, is_async: bool) -> None:
    saver = InMemorySaver()
    agent = make_agent("middleware", saver, buffering=BackgroundBuffering(), **BUFFERED)
    parts: list[dict[str, Any]] = []
    number = 0
    while not of_kind(parts, "buffering-start"):
        parts = await said_to(agent, turn(number), is_async=is_async)
        number += 1
    (started,) = of_kind(parts, "buffering-start")
    assert checkpoints(agent.graph, saver)[1] == 0  # a job needs no graph of its own
    assert agent.memory.flush(60)
    parts = await said_to(agent, turn(number), is_async=is_async)
    assert of_kind(parts, "buffering-end")[0]["cycleId"] == started["cycleId"]
    agent.memory.close()


# --- On and off ----------------------------------------------------------------------------------


@both_ways
async def test_switched_off_for_a_call(*, is_async: bool) -> None:
    agent = ready()
    before = record_of(agent.graph, CONFIG)
    off = on_thread(om_enabled=False)
    asked = len(agent.model.calls)
    await run(agent.graph, {"messages": [turn(6, "1")]}, off, is_async=is_async)
    assert record_of(agent.graph, CONFIG) == before
    assert len(agent.model.calls) - asked == 2
    assert [m.id for m in agent.prompts()[-1][1:]] == [
        m.id for m in values(agent.graph, CONFIG)["messages"][:-1]
    ]
    await run(agent.graph, {"messages": [turn(7)]}, CONFIG, is_async=is_async)
    assert agent.prompts()[-1][1].id == CONTINUATION_ID
    assert nothing_lost(agent)


def test_provider_error_of_a_switched_off_memory_is_not_caught() -> None:
    model = scripted(actor=ContextOverflowError("too long"))
    agent = make_agent("middleware", InMemorySaver(), model=model)
    with pytest.raises(ContextOverflowError):
        agent.graph.invoke({"messages": turns(6)}, on_thread(om_enabled=False))
    assert len(agent.prompts()) == 1


def test_small_recursion_limit_holds_a_turn_with_several_calls() -> None:
    agent = make_agent("middleware", InMemorySaver(), **LIMITS)
    config: RunnableConfig = {**CONFIG, "recursion_limit": 25}
    for number in range(4):
        say(agent.graph, config, turn(number, "1,1,1,1,1,1,1"))
    assert values(agent.graph, CONFIG)["messages"][-1].id == "h3-answer"
    assert agent.asked("observer") > 1
    assert nothing_lost(agent)


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


def test_options_of_a_memory_in_its_place() -> None:
    model = scripted()
    middleware = ObservationalMemoryMiddleware(
        model=model,
        observation={"message_tokens": 300, "buffer_tokens": False},
        reflection={"observation_tokens": 200},
    )
    graph = create_agent(model, [search], middleware=[middleware], checkpointer=InMemorySaver())
    talk(graph, CONFIG, turns(6))
    assert record_of(graph, CONFIG)["log"] != []
    assert middleware.memory.thresholds.message_tokens == 300


def test_one_middleware_in_two_agents() -> None:
    model, clock = scripted(), Clock()
    middleware = ObservationalMemoryMiddleware(remembering(model, clock, **LIMITS))
    graphs = [
        create_agent(model, [search], middleware=[middleware], checkpointer=InMemorySaver())
        for _ in range(2)
    ]
    for graph in graphs:
        talk(graph, CONFIG, turns(6))
        assert record_of(graph, CONFIG)["log"] != []
        assert uncovered(middleware.memory, values(graph, CONFIG)) == []


class Renamed(ObservationalMemoryMiddleware):
    """A subclass has another name, which is all that `create_agent` looks at."""


@pytest.mark.parametrize("kind", [ObservationalMemoryMiddleware, Renamed])
def test_memory_twice_is_refused(kind: type[ObservationalMemoryMiddleware]) -> None:
    twice = [ObservationalMemoryMiddleware(fitting()), kind(fitting())]
    with pytest.raises((AssertionError, ConfigurationError)):
        create_agent(scripted(), [search], middleware=twice)


class Louder(ObservationalMemoryMiddleware):
    """Adds to the hook, as subclasses of middleware do."""

    heard: list[str]

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        self.heard.append(state["messages"][-1].id)
        return super().before_model(state, runtime)


def test_subclass_may_add_to_the_hook() -> None:
    model = scripted()
    louder = Louder(remembering(model, Clock(), **LIMITS))
    louder.heard = []
    graph = create_agent(model, [search], middleware=[louder], checkpointer=InMemorySaver())
    talk(graph, CONFIG, turns(6))
    assert louder.heard == [f"h{number}" for number in range(6)]
    assert record_of(graph, CONFIG)["log"] != []


# --- Other middleware that changes what the model is given ---------------------------------------


class Reminding(AgentMiddleware[Any, Any, Any]):
    """Adds a message to each request, as many middleware do."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        reminder = HumanMessage("Keep your list of open points up to date.")
        return handler(request.override(messages=[*request.messages, reminder]))


def busy(messages: list[BaseMessage]) -> AIMessage:
    """Looks things up a dozen times, each at some length, before it answers."""
    done = [int(m.tool_call_id[1:]) for m in messages if isinstance(m, ToolMessage)]
    at = max(done, default=-1) + 1
    if at >= 12:
        return AIMessage("done")
    call = {"name": "search", "args": {"query": "museums by the river " * 5}, "id": f"k{at}"}
    return AIMessage("", tool_calls=[call], id=f"a{at}")


@pytest.mark.parametrize("around", [(), (Reminding(),)], ids=["alone", "reminded"])
def test_live_request_is_shown_through_a_long_turn(
    around: tuple[AgentMiddleware[Any, Any, Any], ...],
) -> None:
    agent = with_memory(scripted(actor=busy), *around, limits={"messages": 200, "log": 2000})
    say(agent.graph, CONFIG, turn(0))
    assert len(record_of(agent.graph, CONFIG)["log"]) > 1
    assert [[m.id for m in prompt].count("h0") for prompt in agent.prompts()] == [1] * 13


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


class Noting(ObservationalMemoryAgentState):
    """A state of the user's own, on top of the one with deltas."""

    note: str


def test_own_state_on_top_of_the_one_with_deltas() -> None:
    model = scripted(observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply)
    agent = with_memory(model, state_schema=Noting)
    given: Any = {"messages": turns(6), "note": "mine", "om": {"generation": 9}}
    result = agent.graph.invoke(given, CONFIG)
    assert result["note"] == "mine"
    assert result["om"]["generation"] < 9
    assert len(result["om"]["log"]) > 0
    assert nothing_lost(agent)
