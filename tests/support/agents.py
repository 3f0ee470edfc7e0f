"""Agents with memory, conversations with them, and what must hold of every conversation.

Nothing is left to chance: the Actor's answer, its tool calls and every message id follow from the
user's text, so that two runs of a conversation differ only where the tested code differs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, get_args

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_om import (
    ObservationalMemory,
    ObservationalMemoryState,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.integrations.middleware import (
    ObservationalMemoryAgentState,
    ObservationalMemoryMiddleware,
)
from langgraph_om.testing import (
    ExtractiveObserver,
    ExtractiveReflector,
    Provider,
    ScriptedChatModel,
    check_message_sequence,
)
from support.clock import Clock
from support.event_schema import EXACT
from support.inside import CONTINUATION_ID, messages_reducer, runner_of
from support.savers import SaverKind, open_async_saver, open_saver

Graph = CompiledStateGraph[Any, Any, Any, Any]
Part = dict[str, Any]
Saver = BaseCheckpointSaver[Any] | None

SYSTEM = "You are a travel companion."


def on_thread(thread: str = "t", **configurable: Any) -> RunnableConfig:
    """The configuration of a run on a thread."""
    return {"configurable": {"thread_id": thread, **configurable}}


# --- What is said --------------------------------------------------------------------------------

CITIES = ("Lisbon", "Kyoto", "Bergen", "Quito", "Tbilisi", "Cork", "Oaxaca")


def turn(number: int, lookups: str = "") -> HumanMessage:
    """What the user says in a turn; `lookups` such as "2,1" asks for two calls, then for one."""
    city = CITIES[number % len(CITIES)]
    text = (
        f"I am planning trip number {number} to {city}, and my sister Ana joins me for "
        f"{number % 9 + 2} days. We both love museums, long walks along the river and quiet hotels "
        f"near the old town, and our budget is {number * 10 + 300} euros."
    )
    return HumanMessage(f"{text} [look up {lookups}]" if lookups else text, id=f"h{number}")


def turns(count: int, *, start: int = 0, lookups: Sequence[str] = ("",)) -> list[HumanMessage]:
    """So many turns, with each kind of lookup in turn."""
    return [turn(at, lookups[at % len(lookups)]) for at in range(start, start + count)]


@tool
def search(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Look something up."""
    text = f"Results for {query}: the museum opens at 10, entry is 12 euros, closed on Mondays."
    return ToolMessage(text, tool_call_id=tool_call_id, name="search", id=f"{tool_call_id}-result")


_LOOKUPS = re.compile(r"\[look up (\d+(?:,\d+)*)\]")


def live_request(messages: Iterable[BaseMessage]) -> HumanMessage:
    """The newest thing the user said."""
    return [m for m in messages if isinstance(m, HumanMessage) and m.id != CONTINUATION_ID][-1]


def actor(messages: list[BaseMessage]) -> AIMessage:
    """The Actor: makes the calls that the user's text asks for, then answers."""
    request = live_request(messages)
    asked = _LOOKUPS.search(request.text)
    rounds = [int(count) for count in asked[1].split(",")] if asked else []
    mine = f"{request.id}."
    done = [
        int(message.tool_call_id.split(".")[1])
        for message in messages
        if isinstance(message, ToolMessage) and message.tool_call_id.startswith(mine)
    ]
    at = max(done, default=-1) + 1
    if at < len(rounds):
        calls = [
            {"name": "search", "args": {"query": f"museum {at}.{n}"}, "id": f"{mine}{at}.{n}"}
            for n in range(rounds[at])
        ]
        return AIMessage("Let me look.", tool_calls=calls, id=f"{request.id}-calls-{at}")
    text = f"Noted: {request.text[:60]}. I suggest 3 walks and an early start."
    return AIMessage(text, id=f"{request.id}-answer" if request.id else None)


# --- Who answers ---------------------------------------------------------------------------------


def scripted(**replies: Any) -> ScriptedChatModel:
    """One model for all three roles; the Observer and the Reflector write what they find."""
    return ScriptedChatModel(
        **{
            "actor": actor,
            "observer": ExtractiveObserver().reply,
            "reflector": ExtractiveReflector().reply,
            **replies,
        }
    )


def remembering(
    model: BaseChatModel | Runnable[Any, Any],
    clock: Callable[[], Any],
    *,
    messages: int = 400,
    log: int = 600,
    observation: Mapping[str, Any] | None = None,
    reflection: Mapping[str, Any] | None = None,
    **options: Any,
) -> ObservationalMemory:
    """A memory with small limits and nothing in the background."""
    return ObservationalMemory(
        model,
        observation={"message_tokens": messages, "buffer_tokens": False, **(observation or {})},
        reflection={"observation_tokens": log, **(reflection or {})},
        clock=clock,
        **options,
    )


@dataclass(frozen=True)
class Agent:
    """A graph with memory, and what it is made of."""

    graph: Graph
    memory: ObservationalMemory
    model: ScriptedChatModel
    clock: Clock

    def prompts(self) -> list[list[BaseMessage]]:
        """What the Actor was given, call by call."""
        return [call["messages"] for call in self.model.calls if call["role"] == "actor"]

    def asked(self, role: str) -> int:
        """How often a role was asked."""
        return sum(call["role"] == role for call in self.model.calls)


class PlainState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    note: NotRequired[str]


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(messages_reducer)]
    note: NotRequired[str]


@dataclass
class DataclassState:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    note: str = ""


class PydanticState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    note: str = ""


class OtherKeyState(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]
    note: NotRequired[str]


SCHEMAS: dict[str, Any] = {
    "plain": PlainState,
    "delta": DeltaState,
    "dataclass": DataclassState,
    "pydantic": PydanticState,
    "own": ObservationalMemoryState,
}
MIDDLEWARE = {
    "middleware": None,
    "middleware-delta": ObservationalMemoryAgentState,
    "middleware-node": None,
}
"""Per `create_agent` with memory: the state schema it is given."""
READY = ("agent", "agent-plain")
"""`create_memory_agent` with delta and with plain channels."""
DOORS = ("plain", "agent", "middleware")
"""A hand-made graph, `create_memory_agent` and `create_agent`; the laws draw from all ways."""


def as_middleware(door: str, memory: ObservationalMemory) -> ObservationalMemoryMiddleware:
    """The middleware of one of the doors in `MIDDLEWARE`."""
    return ObservationalMemoryMiddleware(memory, as_node=door == "middleware-node")


def wire(
    schema: Any, memory: ObservationalMemory, model: ScriptedChatModel, *, with_tools: bool = True
) -> StateGraph[Any, Any, Any, Any]:
    """A hand-made agent with memory, not compiled yet."""
    key = memory.messages_key
    bound: Runnable[Any, BaseMessage] = model.bind_tools([search]) if with_tools else model

    def agent(state: Any) -> dict[str, Any]:
        return {key: [bound.invoke(memory.llm_input_messages(state, system=SYSTEM))]}

    async def aagent(state: Any) -> dict[str, Any]:
        return {key: [await bound.ainvoke(memory.llm_input_messages(state, system=SYSTEM))]}

    builder = StateGraph(schema)
    builder.add_node("agent", RunnableLambda(agent, aagent, name="agent"))
    gate = add_observational_memory(builder, memory, before="agent")
    builder.add_edge(START, gate)
    if with_tools:
        builder.add_node("tools", ToolNode([search], messages_key=key))

        def wants_tools(state: Any) -> str:
            return tools_condition(state, messages_key=key)

        builder.add_conditional_edges("agent", wants_tools, ["tools", END])
        builder.add_edge("tools", gate)
    else:
        builder.add_edge("agent", END)
    return builder


def make_agent(
    door: str = "agent",
    checkpointer: Saver = None,
    *,
    model: ScriptedChatModel | None = None,
    clock: Clock | None = None,
    store: BaseStore | None = None,
    by_hand: Callable[..., StateGraph[Any]] = wire,
    **options: Any,
) -> Agent:
    """An agent with memory, through one of `DOORS`; options are those of `remembering`."""
    model = model if model is not None else scripted()
    clock = clock if clock is not None else Clock()
    memory = remembering(options.pop("observed_by", model), clock, **options)
    if door in READY:
        graph = create_memory_agent(
            model,
            [search],
            memory=memory,
            system_prompt=SYSTEM,
            checkpointer=checkpointer,
            store=store,
            delta=door == "agent",
        )
    elif door in MIDDLEWARE:
        graph = create_agent(
            model,
            [search],
            system_prompt=SYSTEM,
            middleware=[as_middleware(door, memory)],
            state_schema=MIDDLEWARE[door],
            checkpointer=checkpointer,
            store=store,
        )
    else:
        builder = by_hand(SCHEMAS[door], memory, model)
        graph = builder.compile(checkpointer=checkpointer, store=store)
    return Agent(graph, memory, model, clock)


def bare_agent(
    checkpointer: Saver = None, model: ScriptedChatModel | None = None, schema: Any = PlainState
) -> Graph:
    """The same agent without memory."""
    bound = (model if model is not None else scripted()).bind_tools([search])

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [bound.invoke([SystemMessage(SYSTEM), *state["messages"]])]}

    builder = StateGraph(schema)
    builder.add_node("agent", RunnableLambda(agent, name="agent"))
    builder.add_node("tools", ToolNode([search]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition, ["tools", END])
    builder.add_edge("tools", "agent")
    return builder.compile(checkpointer=checkpointer)


# --- Conversations -------------------------------------------------------------------------------


def say(graph: Graph, config: RunnableConfig, *messages: Any) -> list[Part]:
    """Run one turn.

    Returns:
        What memory showed on the custom stream.
    """
    stream = graph.stream({"messages": list(messages)}, config, stream_mode="custom")
    return [check_part(part) for part in stream]


async def asay(graph: Graph, config: RunnableConfig, *messages: Any) -> list[Part]:
    """Run one turn of an asynchronous graph."""
    stream = graph.astream({"messages": list(messages)}, config, stream_mode="custom")
    return [check_part(part) async for part in stream]


def check_part(part: Part) -> Part:
    """Return a part of the stream, once it has the fields of its type and no other."""
    if part["type"].startswith("data-om-"):
        EXACT.validate_python(part)
    return part


def talk(
    graph: Graph, config: RunnableConfig, said: Iterable[HumanMessage], clock: Clock | None = None
) -> list[Part]:
    """Run a conversation turn by turn, a few hours apart when a clock is given.

    Returns:
        All parts of the custom stream.
    """
    parts: list[Part] = []
    for message in said:
        parts += say(graph, config, message)
        if clock is not None:
            clock.advance(hours=5)
    return parts


async def atalk(
    graph: Graph, config: RunnableConfig, said: Iterable[HumanMessage], clock: Clock | None = None
) -> list[Part]:
    """Run a conversation with an asynchronous graph."""
    parts: list[Part] = []
    for message in said:
        parts += await asay(graph, config, message)
        if clock is not None:
            clock.advance(hours=5)
    return parts


def of_kind(parts: Iterable[Part], kind: str) -> list[dict[str, Any]]:
    """The data of all parts of one type, such as "status"."""
    return [part["data"] for part in parts if part["type"] == f"data-om-{kind}"]


def values(graph: Graph, config: RunnableConfig) -> dict[str, Any]:
    """The thread's state as it stands."""
    return graph.get_state(config).values


def record_of(graph: Graph, config: RunnableConfig) -> dict[str, Any]:
    """The thread's memory as it stands."""
    record: dict[str, Any] = values(graph, config)["om"]
    return record


# --- What must hold ------------------------------------------------------------------------------


def times_covered(record: Mapping[str, Any], order: Sequence[str | None]) -> list[int]:
    """How many ranges of the log cover each message of a conversation."""
    counts = [0] * len(order)
    place = {key: at for at, key in enumerate(order)}
    for group in record.get("log", []):
        for first, last in group["ranges"]:
            for at in range(place[first], place[last] + 1):
                counts[at] += 1
    return counts


def uncovered(
    memory: ObservationalMemory, state: Any, order: Sequence[str | None] | None = None
) -> list[str | None]:
    """Ids of messages that are lost: neither shown to the Actor nor covered by just one range.

    Args:
        memory: The memory.
        state: The thread's state.
        order: Ids of all messages there ever were, when some were removed since.
    """
    messages = runner_of(memory).conversation(state)
    ids = order if order is not None else [message.id for message in messages]
    covered = dict(zip(ids, times_covered(state["om"], ids), strict=True))
    shown = {message.id for message in memory.llm_input_messages(state)}
    return [
        message.id
        for message in messages
        if not isinstance(message, SystemMessage)
        and (covered[message.id] > 1 or (covered[message.id] == 0 and message.id not in shown))
    ]


def refusals(prompts: Iterable[Sequence[BaseMessage]]) -> list[str]:
    """What any provider would refuse in any of these prompts."""
    return [
        f"prompt {at}, {provider}: {problem}"
        for at, prompt in enumerate(prompts)
        for provider in get_args(Provider)
        for problem in check_message_sequence(prompt, provider)
    ]


def dumped(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain values, to compare."""
    return [message.model_dump() for message in messages]


def outcome(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a thread came to: its memory and its messages, as plain values."""
    return {"om": state["om"], "messages": dumped(state["messages"])}


# --- Checkpointers, sync and async alike ---------------------------------------------------------


@asynccontextmanager
async def any_saver(
    kind: SaverKind, place: str, *, is_async: bool
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """A checkpointer for graphs that are run one way or the other."""
    if is_async:
        async with open_async_saver(kind, place) as saver:
            yield saver
    else:
        with open_saver(kind, place) as saver:
            yield saver
