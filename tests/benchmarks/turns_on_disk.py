"""Turns of four steps on a long thread in SQLite: through each way in, and without memory.

The agents take turns on the same machine in the same run, so that their ratio counts: the machine's
speed changes from second to second, and the same for all. Of the ratios the median is taken, of the
bare agent's turns the least.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agents import (
    PROMPT,
    DeltaState,
    Graph,
    PlainState,
    Stopwatch,
    TimedModel,
    extractive,
    on_thread,
    remembering,
)
from bench_bytes import new_saver, stored_bytes
from conversation import lookup
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from report import median

from langgraph_om import (
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.integrations.middleware import ObservationalMemoryAgentState

STEPS = 4
TIMED = 10
"""How many turns of a round are timed: a thread is little longer at the last one."""
SHOWN = 90
"""How many messages the agent without memory shows its model: about as many as a window has."""


def answers(turns: int) -> list[AIMessage]:
    """What the Actor says: in each turn three calls of a tool, then a text."""
    said: list[AIMessage] = []
    for turn in range(turns):
        for step in range(STEPS - 1):
            query = {"query": f"question {turn}.{step}"}
            call = {"name": "lookup", "args": query, "id": f"call-{turn}-{step}"}
            said.append(AIMessage("", id=f"a{turn}-{step}", tool_calls=[call]))
        said.append(AIMessage("That is all there is.", id=f"a{turn}-{STEPS}"))
    return said


def own_graph(
    model: TimedModel,
    saver: SqliteSaver,
    memory: ObservationalMemory | None,
    *,
    delta: bool,
    with_gate: bool = False,
) -> Graph:
    """An agent that is built by hand, with a tool.

    Args:
        model: Its model.
        saver: Where its threads are kept.
        memory: Its memory; `None`: it has none.
        delta: Whether the channels are kept as deltas.
        with_gate: Whether a node that does nothing stands before it.
    """

    def agent(state: Any) -> dict[str, Any]:
        shown = [SystemMessage(PROMPT), *state["messages"][-SHOWN:]]
        if memory is not None:
            shown = memory.llm_input_messages(state, system=PROMPT)
        return {"messages": [model.invoke(shown)]}

    def route(state: Any) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(DeltaState if delta else PlainState)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([lookup]))
    gate = "agent"
    if memory is not None:
        gate = add_observational_memory(builder, memory, before="agent")
    elif with_gate:
        gate = "gate"
        builder.add_node(gate, lambda _: {})
        builder.add_edge(gate, "agent")
    builder.add_edge(START, gate)
    builder.add_conditional_edges("agent", route, ["tools", END])
    builder.add_edge("tools", gate)
    return builder.compile(checkpointer=saver)


def langchain_agent(
    model: TimedModel, saver: SqliteSaver, memory: ObservationalMemory | None, *, delta: bool
) -> Graph:
    """An agent of `create_agent`, with memory where one is given; else it shows as much."""
    middleware: Any = _Shortened() if memory is None else ObservationalMemoryMiddleware(memory)
    return create_agent(
        model,
        [lookup],
        system_prompt=PROMPT,
        middleware=[middleware],
        state_schema=ObservationalMemoryAgentState if delta else None,
        checkpointer=saver,
    )


class _Shortened(AgentMiddleware[Any, Any, Any]):
    """Shows the newest messages."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=request.messages[-SHOWN:]))


def time_turns(
    messages: list[Any],
    record: Any,
    kinds: tuple[str, ...],
    turns: int,
    *,
    rounds: int = 1,
    delta: bool = True,
) -> dict[str, dict[str, float]]:
    """Own seconds and bytes of a turn, per kind of agent.

    Args:
        messages: The thread so far.
        record: What is remembered of it.
        kinds: The agents: "bare", the same with an "idle node", the ready agent with "memory" or an
            "archive" too, an "own graph" with memory, "create_agent" without and "middleware" with
            memory.
        turns: How many turns each takes for the bytes; the first one is not counted.
        rounds: How often the agents begin anew; the first turns of all rounds are timed.
        delta: Whether the channels are kept as deltas.
    """
    laps: dict[str, list[float]] = {kind: [] for kind in kinds}
    stored: dict[str, float] = {}
    for number in range(rounds):
        count = turns if number == 0 else min(turns, TIMED)
        with ExitStack() as stack:
            agents = {
                kind: stack.enter_context(_agent(kind, messages, record, count, delta=delta))
                for kind in kinds
            }
            before = _take_turns(agents, count)
            for kind, (_, saver, watch) in agents.items():
                laps[kind] += watch.laps[1 : TIMED + 1]
                if number == 0:
                    grown = stored_bytes(saver.conn)["all"] - before[kind]
                    stored[kind] = grown / count
    figures: dict[str, dict[str, float]] = {}
    taken = min(laps[kinds[0]])
    for kind, base in zip(kinds, [kinds[0], *kinds], strict=False):
        taken *= median([own / others for own, others in zip(laps[kind], laps[base], strict=True)])
        figures[kind] = {"seconds": taken, "bytes": stored[kind]}
    return figures


Agents = dict[str, tuple[Graph, SqliteSaver, Stopwatch]]


def _take_turns(agents: Agents, turns: int) -> dict[str, int]:
    """Take a turn with each agent, then the ones that count; return the bytes in between."""
    before: dict[str, int] = {}
    order = list(agents)
    for turn in range(turns + 1):
        order = [*order[1:], order[0]]
        for kind in order:
            graph, saver, watch = agents[kind]
            if turn == 1:
                before[kind] = stored_bytes(saver.conn)["all"]
            said = HumanMessage("And what next?", id=f"{kind}-{turn}")
            gc.collect()
            with watch.lap():
                graph.invoke({"messages": [said]}, on_thread())
    return before


@contextmanager
def _agent(
    kind: str, messages: list[Any], record: Any, turns: int, *, delta: bool
) -> Iterator[tuple[Graph, SqliteSaver, Stopwatch]]:
    model = TimedModel(actor=answers(turns + 1))
    with new_saver() as saver, tempfile.TemporaryDirectory() as folder:
        values: dict[str, Any] = {"messages": messages}
        memory, node = None, "agent"
        if kind not in ("bare", "idle node", "create_agent"):
            values["om"] = dict(record)
            place = f"sqlite:///{Path(folder, 'archive.db')}"
            options = {"archive": place} if kind == "archive" else {}
            memory = remembering(extractive(), buffer_tokens=0, **options)
        if kind in ("create_agent", "middleware"):
            graph, node = langchain_agent(model, saver, memory, delta=delta), "model"
        elif memory is None or kind == "own graph":
            graph = own_graph(model, saver, memory, delta=delta, with_gate=kind == "idle node")
        else:
            graph = create_memory_agent(
                model, [lookup], memory=memory, prompt=PROMPT, checkpointer=saver, delta=delta
            )
        graph.update_state(on_thread(), values, as_node=node)
        yield graph, saver, Stopwatch(model)
