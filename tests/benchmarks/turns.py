"""Turns of four steps on a long thread in SQLite, of one agent in a process of its own.

`turns.py KIND MESSAGES [plain]` takes a turn for each line of input, `turns.py adoption N` tells
how long a first step on a thread of so many messages takes; `run.py` asks. Times are the
processor's, the models' left out.
"""

from __future__ import annotations

import gc
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, count
from pathlib import Path
from typing import Annotated, Any

from agents import (
    PROMPT,
    DeltaState,
    Graph,
    PlainState,
    Stopwatch,
    extractive,
    full_log,
    on_thread,
    remembering,
)
from conversation import COUNTER, conversation, lookup
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from metered import Metered

from langgraph_om import (
    ObservationalMemory,
    ObservationalMemoryAgentState,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.core.record.record import blank_record
from processes import tell

STEPS = 4
SHOWN = 70
"""How many messages the agent without memory shows its model: about as many as a window has."""
WINDOW_TOKENS, LONG = 24_000, 260
"""The window, so far from the threshold that nothing is due, and the words of its messages."""
GROUPS, CURSOR = 40, 16
"""Groups of the log, and how many ids a record keeps of where it ends."""
EVICT_TOKENS = 6_000
"""The threshold of the agent with `evict`, whose state has few messages then."""
WARM = 16
"""Turns of that agent that are not told of: until LangGraph writes a snapshot of the channel, each
turn reads all messages that have left it."""
KEPT = 40
"""How many messages an agent without memory keeps from which the others are removed."""
LANGCHAIN = ("create_agent", "middleware")
ALONE = ("bare", "idle node", "second channel", "removed", "create_agent")
"""Agents without memory; three of them do something of that by LangGraph alone."""


def answer_with_calls() -> Any:
    """What the Actor says: in each turn three calls of a tool, then a text."""
    numbers = count()

    def say(_: object) -> AIMessage:
        turn, step = divmod(next(numbers), STEPS)
        if step == STEPS - 1:
            return AIMessage("That is all there is.", id=f"a{turn}-{step}")
        query = {"query": f"question {turn}.{step}"}
        call = {"name": "lookup", "args": query, "id": f"call-{turn}-{step}"}
        return AIMessage("", id=f"a{turn}-{step}", tool_calls=[call])

    return say


WRITTEN: dict[str, Any] = {"counts": {"a0-0": ["0" * 16, 9]}, "head": "0" * 200}
"""About as much as memory writes in an idle step."""


def merge(state: dict[str, Any] | None, updates: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge updates by key: the least that a reducer does."""
    return {key: value for each in (state or {}, *updates) for key, value in each.items()}


class TwoChannels(DeltaState):
    """A conversation, and a channel that holds and gets as much as memory's."""

    record: Annotated[dict[str, Any], DeltaChannel(merge)]


def own_graph(
    model: Metered,
    saver: SqliteSaver,
    memory: ObservationalMemory | None,
    kind: str,
    schema: Any,
) -> Graph:
    """An agent that is built by hand, with a tool."""
    has_two = kind == "second channel"

    def agent(state: Any) -> dict[str, Any]:
        shown = [SystemMessage(PROMPT), *state["messages"][-SHOWN:]]
        if memory is not None:
            shown = memory.llm_input_messages(state, system=PROMPT)
        said = {"messages": [model.invoke(shown)]}
        return {**said, "record": dict(WRITTEN)} if has_two else said

    def look(_: Any) -> str:
        return "agent"

    def route(state: Any) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([lookup]))
    gate = "agent"
    if memory is not None:
        gate = add_observational_memory(builder, memory, before="agent")
    elif kind == "idle node":
        gate = "gate"
        builder.add_node(gate, lambda _: {})
        builder.add_edge(gate, "agent")
    builder.add_conditional_edges("agent", route, ["tools", END])
    for source in (START, "tools"):
        if has_two:
            builder.add_conditional_edges(source, look, ["agent"])
        else:
            builder.add_edge(source, gate)
    return builder.compile(checkpointer=saver)


def langchain_agent(
    model: Any, saver: SqliteSaver, memory: ObservationalMemory | None, *, delta: bool
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


# --- What is measured ----------------------------------------------------------------------------


@contextmanager
def new_saver() -> Iterator[SqliteSaver]:
    """A checkpointer on a file that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteSaver.from_conn_string(str(Path(folder, "threads.sqlite"))) as saver,
    ):
        yield saver


def stored_bytes(connection: sqlite3.Connection) -> int:
    """Bytes in the saver's tables."""
    (checkpoints,) = connection.execute(
        "SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints"
    ).fetchone()
    (writes,) = connection.execute("SELECT coalesce(sum(length(value)), 0) FROM writes").fetchone()
    return int(checkpoints + writes)


def resident_bytes() -> int:
    """The size of this process now; where that is not told, its largest size so far."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def past(size: int) -> tuple[list[BaseMessage], dict[str, Any]]:
    """A thread and what a record says of it: all but the window is observed."""
    source = conversation(WINDOW_TOKENS // LONG * 2, words=LONG, prefix="w", seed=2)
    sizes = accumulate(COUNTER.count_message(message) for message in source)
    window = source[: sum(total < WINDOW_TOKENS for total in sizes)]
    observed = conversation(size - len(window), prefix="p")
    ids = [str(message.id) for message in observed]
    known = {"thread_id": "t", "log": full_log(ids, GROUPS), "cursor": ids[-CURSOR:]}
    record: Any = {**blank_record(), **known}
    return [*observed, *window], record


@contextmanager
def agent_of(kind: str, size: int, *, delta: bool) -> Iterator[tuple[Graph, SqliteSaver, Any]]:
    """An agent in the middle of a thread."""
    model = Metered(actor=answer_with_calls())
    with new_saver() as saver, tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {}
        if kind in ("archive", "evict"):
            options["archive"] = f"sqlite:///{Path(folder, 'archive.db')}"
        if kind == "evict":
            options |= {"evict": True, "message_tokens": EVICT_TOKENS}
        memory = None if kind in ALONE else remembering(extractive(), buffer_tokens=0, **options)
        if kind in LANGCHAIN:
            graph = langchain_agent(model, saver, memory, delta=delta)
        elif memory is None or kind == "own graph":
            schema: Any = DeltaState if delta else PlainState
            schema = TwoChannels if kind == "second channel" else schema
            graph = own_graph(model, saver, memory, kind, schema)
        else:
            graph = create_memory_agent(
                model,
                [lookup],
                memory=memory,
                system_prompt=PROMPT,
                checkpointer=saver,
                delta=delta,
            )
        messages, record = past(size)
        values: dict[str, Any] = {"messages": messages}
        if memory is not None and kind != "evict":  # which observes all of it first
            values["om"] = record
        if kind == "second channel":
            values["record"] = record
        graph.update_state(on_thread(), values, as_node="model" if kind in LANGCHAIN else "agent")
        if kind == "removed":
            gone = [RemoveMessage(id=str(message.id)) for message in messages[:-KEPT]]
            graph.update_state(on_thread(), {"messages": gone}, as_node="agent")
        del messages, record, values
        yield graph, saver, model


def serve(kind: str, size: int, *, delta: bool) -> None:
    """Take a turn for each line of input; the first is taken unasked."""
    with agent_of(kind, size, delta=delta) as (graph, saver, model):
        watch = Stopwatch(model)
        for turn in count():
            said = HumanMessage("And what next?", id=f"u{turn}")
            gc.collect()
            with watch.lap():
                graph.invoke({"messages": [said]}, on_thread())
            model.calls.clear()  # what a test double keeps is not memory's
            if kind in ("evict", "removed") and turn < WARM:
                continue
            stored = stored_bytes(saver.conn)
            tell({"seconds": watch.laps[-1], "bytes": stored, "resident": resident_bytes()})
            if not sys.stdin.readline():
                return


def adopt(size: int) -> None:
    """Tell how long the first step on a thread takes, its models included."""
    model, messages = extractive(), conversation(size, words=12)
    started = time.process_time()
    remembering(model, buffer_tokens=0).step(None, messages, thread_id="t")
    tell(time.process_time() - started)


if __name__ == "__main__":
    chosen, length, *channels = sys.argv[1:]
    if chosen == "adoption":
        adopt(int(length))
    else:
        serve(chosen, int(length), delta=channels != ["plain"])
