"""Enormous messages and small windows: turns answered, the largest prompt, and calls refused.

By itself: `python tests/benchmarks/bench_enormous.py [--quick]`; it prints two tables in Markdown.
The Actor is a double that refuses what is longer than its window, as providers do, and names both
sizes. Others: LangChain's and deepagents' summarisation, and no memory at all.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

COUNTER = EstimatingCounter()
WINDOW = 100_000
ROW = "row {}: price {} euro, id X{:06d}"


def rows(tokens: int) -> str:
    return "\n".join(ROW.format(at, at * 7 % 991, at) for at in range(tokens // 14))


@tool
def fetch(what: str) -> str:
    """Fetch something."""
    return {
        "page": lambda: rows(157_000),
        "json": lambda: json.dumps([{"id": at, "price": at * 7} for at in range(80_000)]),
        "marks": lambda: "e\u0301\u0302\u0303" * 40_000,
        "part": lambda: rows(5_000),
    }[what]()


@tool
def write(text: str) -> str:
    """Write a file."""
    return f"{len(text)} characters written"


def calls(name: str, *arguments: dict[str, Any]) -> AIMessage:
    listed = [
        {"name": name, "args": each, "id": f"c{at}", "type": "tool_call"}
        for at, each in enumerate(arguments)
    ]
    return AIMessage("", tool_calls=listed)


KINDS: dict[str, tuple[str, AIMessage | None]] = {
    "tool result of 157k": ("Look at the page.", calls("fetch", {"what": "page"})),
    "pasted 130k": (f"Summarise this.\n{rows(130_000)}", None),
    "tool argument of 200k": ("Write it.", calls("write", {"text": rows(200_000)})),
    "answer of 60k": ("Tell me all of it.", AIMessage(rows(60_000))),
    "300 results of 5k": ("Look at all.", calls("fetch", *[{"what": "part"}] * 300)),
    "JSON of 2 MB": ("Get the data.", calls("fetch", {"what": "json"})),
    "combining marks": ("Get the marks.", calls("fetch", {"what": "marks"})),
}


@dataclass
class Actor:
    """Says what the kind asks for in its turn, and is brief in all others."""

    window: int
    special: AIMessage | None = None
    sizes: list[int] = field(default_factory=list)
    refused: int = 0

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        size = count_messages(COUNTER, messages)
        if size > self.window:
            self.refused += 1
            msg = f"prompt is too long: {size} tokens > {self.window} maximum"
            raise ContextOverflowError(msg)
        self.sizes.append(size)
        newest = messages[-1]
        asked = isinstance(newest, HumanMessage) and "[now]" in newest.text
        if asked and self.special is not None:
            return self.special.model_copy()
        if isinstance(newest, ToolMessage):
            return AIMessage("I have seen it.")
        return AIMessage("I see. " + "This is what I think about it. " * 20)


Make = Callable[[ScriptedChatModel], Any]
TOOLS = [fetch, write]


def memory(**options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        observation={"model": ExtractiveObserver()},
        reflection={"model": ExtractiveReflector()},
        buffering=InlineBuffering(),
        **options,
    )


def ready(**options: Any) -> Make:
    return lambda model: create_memory_agent(
        model, TOOLS, memory=memory(**options), checkpointer=InMemorySaver()
    )


def middle(create: Callable[..., Any] = create_agent, **options: Any) -> Make:
    return lambda model: create(
        model,
        TOOLS,
        middleware=[ObservationalMemoryMiddleware(memory(**options))],
        checkpointer=InMemorySaver(),
    )


def own(**options: Any) -> Make:
    def make(model: ScriptedChatModel) -> Any:
        mine = memory(**options)
        builder = StateGraph(MessagesState)
        ask = mine.with_second_try(
            model.bind_tools([*TOOLS, *mine.tools]).invoke,
        )
        builder.add_node("agent", lambda state: {"messages": [ask(state)]})
        builder.add_node("tools", ToolNode([*TOOLS, *mine.tools]))
        status = add_observational_memory(builder, mine, before="agent")
        builder.add_edge(START, status)
        builder.add_edge("tools", status)
        builder.add_conditional_edges("agent", tools_condition)
        return builder.compile(checkpointer=InMemorySaver())

    return make


def summarising(model: ScriptedChatModel) -> Any:
    summariser = ScriptedChatModel(lambda _: "They talked.")
    summariser.profile = model.profile
    summary = SummarizationMiddleware(summariser, trigger=("fraction", 0.8))
    return create_agent(model, TOOLS, middleware=[summary], checkpointer=InMemorySaver())


ALL = {"retrieval": True, "archive": "sqlite://", "evict": True}
WAYS: dict[str, Make] = {
    "no memory": lambda model: create_agent(model, TOOLS, checkpointer=InMemorySaver()),
    "langchain's summary": summarising,
    "deepagents alone": lambda model: create_deep_agent(model, TOOLS, checkpointer=InMemorySaver()),
    "ready agent": ready(),
    "ready agent, recall": ready(retrieval=True),
    "ready agent, recall, evict": ready(**ALL),
    "middleware": middle(),
    "middleware, recall": middle(retrieval=True),
    "middleware, recall, evict": middle(**ALL),
    "own graph": own(),
    "own graph, recall": own(retrieval=True),
    "own graph, recall, evict": own(**ALL),
    "deepagents with this memory": middle(create_deep_agent),
    "deepagents with this memory, recall": middle(create_deep_agent, retrieval=True),
    "deepagents with this memory, recall, evict": middle(create_deep_agent, **ALL),
}


def play(make: Make, actor: Actor, said: Sequence[str]) -> tuple[int, int]:
    """Return how many turns were answered, and of how many."""
    model = ScriptedChatModel(actor)
    model.profile = {"max_input_tokens": actor.window}
    graph, answered = make(model), 0
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
    for text in said:
        try:
            graph.invoke({"messages": [("user", text)]}, config)
        except ContextOverflowError:
            continue
        answered += 1
    return answered, len(said)


def table(title: str, names: Sequence[str], cell: Callable[[str, str], str]) -> None:
    """Write a table row by row: each takes some seconds."""
    write_line(f"| {title} | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for way in WAYS:
        write_line(f"| {way} | {' | '.join(cell(way, name) for name in names)} |")


def write_line(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def enormous(way: str, kind: str) -> str:
    text, special = KINDS[kind]
    actor = Actor(WINDOW, special)
    said = ["Hello.", f"{text}\n[now]", "And then?", "Thank you."]
    answered, of = play(WAYS[way], actor, said)
    return f"{answered}/{of}, {max(actor.sizes) / 1000:.1f}k, {actor.refused}"


def small(turns: int) -> Callable[[str, str], str]:
    def cell(way: str, window: str) -> str:
        actor = Actor(int(window))
        said = [f"Question {at}: " + "please tell me about that. " * 30 for at in range(turns)]
        answered, of = play(WAYS[way], actor, said)
        return f"{answered}/{of}, {actor.refused}"

    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)
    kinds = [*KINDS][:2] if quick else [*KINDS]
    table("turns answered, largest prompt, calls refused", kinds, enormous)
    write_line()
    windows = ["4096", "8192"] if quick else ["4096", "8192", "32768", "131072"]
    table("turns answered, calls refused", windows, small(20 if quick else 200))


if __name__ == "__main__":
    main()
