"""Memory beside what else an agent is made of: other middleware, subagents, interrupts, tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.backends.utils import create_file_data
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    PIIMiddleware,
    TodoListMiddleware,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import Field

from langgraph_om import create_memory_agent
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from langgraph_om.testing import ScriptedChatModel
from support.agents import (
    SYSTEM,
    Agent,
    Graph,
    atalk,
    live_request,
    of_kind,
    on_thread,
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
LIMITS: dict[str, Any] = {"messages": 300, "log": 200}

Middleware = AgentMiddleware[Any, Any, Any]


def beside(
    *before: Middleware,
    model: ScriptedChatModel | None = None,
    after: Sequence[Middleware] = (),
    tools: Sequence[Any] = (search,),
    limits: dict[str, Any] | None = None,
    **options: Any,
) -> Agent:
    """An agent with memory between other middleware."""
    model, clock = model if model is not None else scripted(), Clock()
    memory = remembering(model, clock, **(limits if limits is not None else LIMITS))
    graph = create_agent(
        model,
        list(tools),
        system_prompt=SYSTEM,
        middleware=[*before, ObservationalMemoryMiddleware(memory), *after],
        checkpointer=InMemorySaver(),
        **options,
    )
    return Agent(graph, memory, model, clock)


def calling(name: str, count: int = 1, **args: Any) -> ScriptedChatModel:
    """A model whose Actor calls a tool in each turn that says "please", then answers."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        request = live_request(messages)
        if "please" not in request.text or isinstance(messages[-1], ToolMessage):
            return AIMessage(f"Noted: {request.text[:60]}.", id=f"{request.id}-answer")
        calls = [{"name": name, "args": args, "id": f"{request.id}.0.{n}"} for n in range(count)]
        return AIMessage("Let me see.", tool_calls=calls, id=f"{request.id}-calls")

    return scripted(actor=answer)


def please(number: int) -> HumanMessage:
    return HumanMessage(f"{turn(number).text} Now please do it.", id=f"h{number}")


def nothing_lost(agent: Agent) -> bool:
    return uncovered(agent.memory, values(agent.graph, CONFIG)) == []


def remembers(agent: Agent) -> bool:
    """Whether memory has worked, lost nothing, and made only prompts that providers take."""
    record = record_of(agent.graph, CONFIG)
    return bool(record["log"]) and nothing_lost(agent) and refusals(agent.prompts()) == []


def observed_text(model: ScriptedChatModel) -> str:
    """All that the Observer was told."""
    told = [call["messages"][-1].text for call in model.calls if call["role"] == "observer"]
    return "\n".join(told)


# --- People in the loop --------------------------------------------------------------------------

DECISIONS: dict[str, dict[str, Any]] = {
    "approve": {"type": "approve"},
    "edit": {"type": "edit", "edited_action": {"name": "search", "args": {"query": "castles"}}},
    "reject": {"type": "reject", "message": "too expensive"},
}


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("is_before", [True, False], ids=["before memory", "after memory"])
def test_decision_of_a_person_repeats_no_work(decision: str, *, is_before: bool) -> None:
    loop = HumanInTheLoopMiddleware(interrupt_on={"search": True})
    model = calling("search", query="museums")
    agent = beside(*([loop] if is_before else []), model=model, after=[] if is_before else [loop])
    talk(agent.graph, CONFIG, turns(6))
    say(agent.graph, CONFIG, please(6))  # memory observes and reflects, then the person is asked
    waiting, asked = record_of(agent.graph, CONFIG), len(agent.model.calls)
    assert agent.graph.get_state(CONFIG).interrupts
    assert waiting["generation"] == 1
    answer = Command(resume={"decisions": [DECISIONS[decision]]})
    parts = list(agent.graph.stream(answer, CONFIG, stream_mode="custom"))
    assert [part["type"] for part in parts] == ["data-om-status"]
    assert len(agent.model.calls) == asked + 1
    after = record_of(agent.graph, CONFIG)
    assert (after["log"], after["cursor"]) == (waiting["log"], waiting["cursor"])
    assert after["turn"] == {"request": "h6", "step": 1}
    result = values(agent.graph, CONFIG)["messages"][-2]
    expected = {"approve": "museums", "edit": "castles", "reject": "too expensive"}[decision]
    assert expected in result.text
    talk(agent.graph, CONFIG, turns(5, start=7))
    assert remembers(agent)


# --- Lists, limits, redaction --------------------------------------------------------------------


ADDRESS = "ana@example.com"


@pytest.mark.parametrize("is_before", [True, False], ids=["before memory", "after memory"])
def test_redaction_before_memory_is_a_redaction_for_the_observer(*, is_before: bool) -> None:
    redacting = PIIMiddleware("email", strategy="redact", apply_to_tool_results=True)
    agent = beside(
        *([redacting] if is_before else []),
        after=[] if is_before else [redacting],
        limits={"messages": 60, "log": 2000},
    )
    for number in range(4):
        say(
            agent.graph,
            CONFIG,
            HumanMessage(f"Write to {ADDRESS}. {turn(number).text}", id=f"h{number}"),
        )
    assert ADDRESS not in str(values(agent.graph, CONFIG)["messages"])
    assert not [p for p in agent.prompts() if ADDRESS in str([m for m in p if m.type != "system"])]
    assert record_of(agent.graph, CONFIG)["log"] != []
    if is_before:
        assert ADDRESS not in observed_text(agent.model) + str(record_of(agent.graph, CONFIG))
        assert nothing_lost(agent)


# --- What is asked of the model ------------------------------------------------------------------


class Impatient(AgentMiddleware[Any, Any, Any]):
    """Calls the model again and again, each time in a task of its own."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self._tries = tries

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return [handler(request) for _ in range(self._tries)][-1]

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return [await asyncio.wait_for(handler(request), 60) for _ in range(self._tries)][-1]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_model_that_is_called_several_times_in_a_step_has_one_turn_of_memory(
    *, is_async: bool
) -> None:
    once, often = beside(), beside(Impatient(3))
    said = turns(9, lookups=("", "2,1"))
    for agent in (once, often):
        parts = await atalk(agent.graph, CONFIG, said) if is_async else None
        parts = parts if parts is not None else talk(agent.graph, CONFIG, said)
        assert len(of_kind(parts, "status")) == len(once.prompts())
    assert len(often.prompts()) == 3 * len(once.prompts())
    assert often.asked("observer") == once.asked("observer") > 1
    assert remembers(often)


# --- deepagents ----------------------------------------------------------------------------------


def deep(
    model: ScriptedChatModel,
    *,
    limits: dict[str, Any] | None = None,
    replaces: str | None = None,
    beside: Sequence[Middleware] = (),
    **options: Any,
) -> Agent:
    clock = Clock()
    memory = remembering(model, clock, **(limits if limits is not None else LIMITS))
    graph: Graph = create_deep_agent(
        model,
        [search],
        middleware=[*beside, ObservationalMemoryMiddleware(memory, replaces=replaces)],
        checkpointer=InMemorySaver(),
        **options,
    )
    return Agent(graph, memory, model, clock)


class Small(ScriptedChatModel):
    """A model that deepagents knows to take little, so that it summarises early."""

    profile: Any = Field(default_factory=lambda: {"max_input_tokens": 12_000})


def replying(kind: type[Small], model: ScriptedChatModel) -> ScriptedChatModel:
    """A model of this kind that says and records what the given one does."""
    made = kind()
    made._tape = model._tape
    return made


def working(messages: list[BaseMessage], own: Iterator[int], parts: Iterator[int]) -> AIMessage:
    """Plans, writes a file and asks the general-purpose subagent, a step for each."""
    request = live_request(messages)
    if request.text.startswith("Subtask"):
        part = next(parts, None)
        if part is None:
            return AIMessage("The subtask is done.")
        args = {"file_path": f"/part-{part}.md", "content": turn(70 + part).text * 6}
        return AIMessage("", tool_calls=[{"name": "write_file", "args": args, "id": f"s{part}"}])
    if "work" not in request.text:
        return AIMessage(f"Noted: {request.text[:60]}")
    todos = [{"content": f"Part {n}", "status": "pending"} for n in range(3)]
    steps = [
        {"name": "write_todos", "args": {"todos": todos}},
        {"name": "write_file", "args": {"file_path": "/notes.md", "content": "Lisbon"}},
        {
            "name": "task",
            "args": {"description": "Subtask. Write parts.", "subagent_type": "general-purpose"},
        },
    ]
    at = next(own, len(steps))
    if at < len(steps):
        return AIMessage("", tool_calls=[{**steps[at], "id": f"{request.id}.{at}"}])
    return AIMessage("All done.")


def test_memory_takes_the_place_of_a_deep_agents_summaries_also_in_its_subagent() -> None:
    skill = "---\nname: tides\ndescription: How tides are read.\n---\nRead the table.\n"
    backend = StateBackend()
    agent = deep(
        replying(Small, scripted(actor=partial(working, own=iter(range(3)), parts=iter(range(4))))),
        replaces="SummarizationMiddleware",
        beside=[TodoListMiddleware()],
        backend=backend,
        skills=["/skills/"],
        limits={"messages": 700, "log": 2000},
    )
    assert "_summarization_event" not in agent.graph.channels
    files = {"/skills/tides/SKILL.md": create_file_data(skill)}
    given: Any = {"messages": [HumanMessage("Hello", id="hello")], "files": files}
    agent.graph.invoke(given, CONFIG)
    talk(agent.graph, CONFIG, turns(10))
    config: RunnableConfig = {**CONFIG, "recursion_limit": 80}
    before = record_of(agent.graph, CONFIG)["log"]
    agent.graph.invoke({"messages": [HumanMessage("Please work.", id="h60")]}, config)
    state = values(agent.graph, CONFIG)
    assert state["messages"][-1].text == "All done."
    assert [todo["content"] for todo in state["todos"]] == ["Part 0", "Part 1", "Part 2"]
    assert {"/notes.md", "/part-0.md", "/part-3.md"} <= state["files"].keys()
    assert before
    assert nothing_lost(agent)
    assert refusals(agent.prompts()) == []
    assert all("Subtask" not in group["text"] for group in record_of(agent.graph, CONFIG)["log"])
    assert "tides" in "".join(message.text for message in agent.prompts()[-1])
    # The subagent's own long run was observed too, and kept apart.
    assert "Subtask. Write parts." in observed_text(agent.model)


def delegating(messages: list[BaseMessage]) -> AIMessage:
    """Hands the turns that say so to a subagent, once each."""
    request = live_request(messages)
    if request.text.startswith("Subtask"):
        return AIMessage("The subtask is done.")
    if "delegate" in request.text and not isinstance(messages[-1], ToolMessage):
        args = {"description": f"Subtask. {turn(70).text * 3}", "subagent_type": "colleague"}
        return AIMessage("", tool_calls=[{"name": "task", "args": args, "id": f"{request.id}.0"}])
    return AIMessage(f"Noted: {request.text[:60]}")


def colleague(model: ScriptedChatModel, kind: str) -> dict[str, Any]:
    """A subagent without memory, or with one that was made in one of several ways."""
    described: dict[str, Any] = {"name": "colleague", "description": "Does subtasks."}
    memory = remembering(model, Clock(), messages=100, log=2000)
    ours = ObservationalMemoryMiddleware(memory)
    if kind == "compiled":
        return {**described, "runnable": create_agent(model, [], middleware=[ours])}
    if kind == "forked":  # which has the parent's middleware, and so its memory
        return {**described, "mode": "fork"}
    if kind == "flat":
        return {**described, "runnable": create_memory_agent(model, memory=memory)}
    return {
        **described,
        "system_prompt": "You help.",
        "middleware": [ours] if kind == "declared" else [],
    }


@pytest.mark.filterwarnings("ignore:The feature `forked subagents`")
@pytest.mark.parametrize("kind", ["without", "declared", "compiled", "flat", "forked"])
def test_subagent_leaves_the_parents_memory_alone(kind: str) -> None:
    model = scripted(actor=delegating)
    limits = {"messages": 700, "log": 2000}
    agent = deep(model, limits=limits, subagents=[colleague(model, kind)])
    talk(agent.graph, CONFIG, turns(10))
    before = record_of(agent.graph, CONFIG)
    assert before["log"] != []
    config: RunnableConfig = {**CONFIG, "recursion_limit": 40}
    agent.graph.invoke({"messages": [HumanMessage("Please delegate this.", id="h60")]}, config)
    after = record_of(agent.graph, CONFIG)
    assert after["log"] == before["log"]
    assert after["cursor"] == before["cursor"]
    assert after["turn"]["request"] == "h60"
    assert nothing_lost(agent)
