"""A prompt that the provider refuses as too long is sent again with less, a few times at most."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import EstimatingCounter, InlineBuffering, add_observational_memory
from support.agents import (
    Agent,
    actor,
    make_agent,
    of_kind,
    on_thread,
    remembering,
    say,
    scripted,
    turn,
    turns,
    values,
)
from support.clock import Clock
from support.inside import count_messages

COUNTER = EstimatingCounter()
LOG = "\n".join(f"entry {at}: level {at % 7}" for at in range(6000))
TOOLS = 300
"""Tokens that a provider counts and memory does not see."""


class Windowed:
    """An Actor that refuses what is longer than its window, as providers do."""

    def __init__(self, window: int, *, tells: bool) -> None:
        self.window, self.tells = window, tells
        self.sizes: list[int] = []

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        size = int(1.1 * count_messages(COUNTER, messages)) + TOOLS
        self.sizes.append(size)
        if size > self.window:
            told = f": {size} tokens > {self.window} maximum" if self.tells else ""
            msg = f"prompt is too long{told}"
            raise ContextOverflowError(msg)
        return actor(messages)

    @property
    def refused(self) -> int:
        return sum(size > self.window for size in self.sizes)


def build(door: str, reply: Windowed, **options: Any) -> Agent:
    given: dict[str, Any] = {"messages": 200_000, "log": 40_000, "buffering": InlineBuffering()}
    given["retrieval"] = False  # with recall, an enormous message is previewed from the beginning
    return make_agent(door, InMemorySaver(), model=scripted(actor=reply), **{**given, **options})


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("tells", [True, False])
def test_an_enormous_message_is_previewed_and_nothing_else_left_out(
    door: str, *, tells: bool
) -> None:
    reply = Windowed(12_000, tells=tells)
    agent = build(door, reply)
    said = [turn(1), HumanMessage(LOG, id="p"), turn(2)]
    parts = [part for message in said for part in say(agent.graph, on_thread(), message)]
    state = values(agent.graph, on_thread())
    assert [m.type for m in state["messages"]] == ["human", "ai"] * 3
    assert state["messages"][2].text == LOG
    told = of_kind(parts, "view-trimmed")
    assert {part["previewedMessages"] for part in told} == {1}
    assert {part["droppedMessages"] for part in told} == {0}
    # Once for all calls, where the error tells the sizes.
    assert reply.refused == 1 if tells else reply.refused <= 4
    last = agent.prompts()[-1]
    assert "cannot be read now" in next(m.text for m in last if m.id == "p")


@pytest.mark.parametrize("tells", [True, False])
def test_many_messages_are_left_out_from_the_oldest(*, tells: bool) -> None:
    reply = Windowed(2500, tells=tells)
    agent = build("agent", reply)
    parts = say(agent.graph, on_thread(), *turns(60))
    told = of_kind(parts, "view-trimmed")[-1]
    assert told["droppedMessages"] > 20
    shown = agent.prompts()[-1]
    assert [m.id for m in shown][-1] == "h59"
    assert len(shown) > 5  # no more than it takes
    assert len(reply.sizes) <= 4


def test_a_log_that_is_too_long_loses_its_oldest_observations() -> None:
    reply = Windowed(10**6, tells=True)
    agent = build("agent", reply, messages=300)
    for number in range(30):
        say(agent.graph, on_thread(), turn(number))
    newest = values(agent.graph, on_thread())["om"]["log"][-1]["text"].splitlines()[-1]
    reply.window = reply.sizes[-1] // 2
    parts = say(agent.graph, on_thread(), turn(31))
    told = of_kind(parts, "view-trimmed")[-1]
    assert told["droppedObservations"] > 0
    head = str(agent.prompts()[-1][0].content)
    assert "of the oldest observations are left out here" in head
    assert newest.split(") ")[-1][:20] in head
    groups = values(agent.graph, on_thread())["om"]["log"]
    items = sum(group["text"].count("\n* ") for group in groups)
    assert items > told["droppedObservations"]  # the memory has them all


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_graph_of_ones_own_tries_again(*, is_async: bool) -> None:
    reply = Windowed(12_000, tells=False)
    model = scripted(actor=reply)
    memory = remembering(scripted(), Clock(), messages=200_000, log=40_000)
    builder = StateGraph(MessagesState)

    if is_async:
        aask = memory.with_second_try(model.ainvoke)

        async def aagent(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await aask(state, system="Be brief.")]}

        builder.add_node("agent", aagent)
    else:
        ask = memory.with_second_try(model.invoke)
        builder.add_node("agent", lambda state: {"messages": [ask(state, system="Be brief.")]})
    builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
    graph = builder.compile(checkpointer=InMemorySaver())
    given = {"messages": [turn(1), HumanMessage(LOG, id="p")]}
    stream = graph.astream(given, on_thread(), stream_mode="custom")
    parts = [part async for part in stream]
    assert of_kind(parts, "view-trimmed")
    assert values(graph, on_thread())["messages"][-1].type == "ai"
    assert 2 <= len(reply.sizes) <= 4
