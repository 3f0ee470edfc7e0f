"""Agents that a user may choose between: the same conversation, the same rule for what is noted.

The summariser writes what the Observer writes for the same messages, and condenses it as the
Reflector does. So what an agent keeps here follows from when it asks, how much it shows and where
the answer goes; how well a real model writes is not measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import unescape
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from agents import PROMPT, Graph, noon, on_thread
from conversation import COUNTER, lookup
from facts import Fact
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, wrap_model_call
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    MessageLikeRepresentation,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    trim_messages,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from metered import KEEP, Metered, summariser
from typing_extensions import TypedDict

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector

Saver = BaseCheckpointSaver[Any]
PACKAGES = ("langmem", "deepagents")
PAGE = 20
"""Messages on a page of recall, its default."""


def require(*packages: str) -> None:
    """Say which extra is missing.

    Raises:
        SystemExit: When one of the packages is not installed.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        msg = (
            f"`{missing[0]}` is not installed, and the comparison with it needs the extra `bench`: "
            "pip install -e '.[dev,bench]'"
        )
        raise SystemExit(msg)


# --- Agents --------------------------------------------------------------------------------------


def nothing() -> None:
    """What most agents need after a turn, and at the end."""


def no_call(prompt: str, values: Mapping[str, Any], fact: Fact) -> None:
    """An agent that can not look anything up."""


LookUp = Callable[[str, Mapping[str, Any], Fact], "dict[str, Any] | None"]


@dataclass(frozen=True, slots=True)
class Agent:
    """A graph and what there is to know about it."""

    graph: Graph
    models: Sequence[Metered] = ()
    """The models beside the Actor's."""
    waits: bool = True
    """Whether a turn waits for each of their calls; else events of the stream tell."""
    after_turn: Callable[[], object] = nothing
    """Waits for background work: it stands for a user who reads, and makes runs repeatable."""
    note: Callable[[], object] = nothing
    """Keeps what `look_up` needs; not part of the agent, so not measured."""
    close: Callable[[], object] = nothing
    look_up: LookUp = no_call
    """The tool call with which the Actor would find a fact, if any, from what its prompt shows."""


def count(messages: Iterable[MessageLikeRepresentation]) -> int:
    """The tokens of messages, as a plain sum: langmem adds up counts of single messages."""
    return sum(map(COUNTER.count_message, convert_to_messages(messages)))


def with_middleware(
    actor: Metered, saver: Saver, middleware: Sequence[Any] = (), schema: Any = None
) -> Graph:
    return create_agent(
        actor,
        [lookup],
        system_prompt=PROMPT,
        middleware=middleware,
        state_schema=schema,
        checkpointer=saver,
    )


def full_history(actor: Metered, threshold: int, saver: Saver) -> Agent:
    return Agent(with_middleware(actor, saver))


def trimming(actor: Metered, threshold: int, saver: Saver) -> Agent:
    """The newest messages that fit, as `trim_messages` is most often used."""

    @wrap_model_call
    def trim(request: Any, call: Callable[[Any], Any]) -> Any:
        kept = trim_messages(
            request.messages, max_tokens=threshold, token_counter=count, start_on="human"
        )
        return call(request.override(messages=kept))

    return Agent(with_middleware(actor, saver, [trim]))


def summarising(
    actor: Metered, threshold: int, saver: Saver, *, part: float | None = None
) -> Agent:
    """A summary as long as the messages that are kept beside it, or as a part of the room."""
    rest = threshold if part is None else threshold * (1 - part)
    model = summariser(threshold, KEEP if part is None else part)
    middleware = SummarizationMiddleware(
        model,
        trigger=("tokens", threshold),
        keep=("tokens", round(rest * KEEP)),
        token_counter=count,
        trim_tokens_to_summarize=None,
    )
    return Agent(with_middleware(actor, saver, [middleware]), [model])


def langmem(actor: Metered, threshold: int, saver: Saver) -> Agent:
    """The graph of langmem's documentation; there is no option for what to keep verbatim."""
    require("langmem")
    from langmem.short_term import SummarizationNode  # noqa: PLC0415 optional

    model = summariser(threshold)
    node = SummarizationNode(
        model=model,
        max_tokens=2 * threshold,  # What is beyond it is not shown to the summariser.
        max_tokens_before_summary=threshold,
        max_summary_tokens=round(threshold * KEEP),
        token_counter=count,
    )

    class State(MessagesState):
        context: dict[str, Any]

    class Shown(TypedDict):
        summarized_messages: list[AnyMessage]
        context: dict[str, Any]

    def agent(state: Any) -> dict[str, Any]:
        prompt = [SystemMessage(PROMPT), *state["summarized_messages"]]
        return {"messages": [actor.invoke(prompt)]}

    builder = StateGraph(State)
    builder.add_node("summarize", node)
    builder.add_node("agent", agent, input_schema=Shown)
    builder.add_node("tools", ToolNode([lookup]))
    builder.add_edge(START, "summarize")
    builder.add_edge("summarize", "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "summarize")
    return Agent(builder.compile(checkpointer=saver), [model])


_HISTORY_FILE = re.compile(r"has been saved to (\S+\.md)")
_LINES = 100
"""Lines that deepagents' `read_file` returns unless told otherwise."""


def deep(actor: Metered, threshold: int, saver: Saver) -> Agent:
    """deepagents' summarisation, with the file tools that read what it has put aside."""
    require("deepagents")
    from deepagents import DeepAgentState  # noqa: PLC0415 optional
    from deepagents.backends import StateBackend  # noqa: PLC0415
    from deepagents.middleware import FilesystemMiddleware  # noqa: PLC0415
    from deepagents.middleware import SummarizationMiddleware as DeepSummarizationMiddleware  # noqa: PLC0415

    model, backend = summariser(threshold), StateBackend()
    middleware = DeepSummarizationMiddleware(
        model,
        backend=backend,
        trigger=("tokens", threshold),
        keep=("tokens", round(threshold * KEEP)),
        token_counter=lambda messages: count(
            each for each in messages if not isinstance(each, SystemMessage)
        ),
        trim_tokens_to_summarize=None,
    )
    files = FilesystemMiddleware(backend=backend)
    graph = with_middleware(actor, saver, [files, middleware], DeepAgentState)

    def look_up(prompt: str, values: Mapping[str, Any], fact: Fact) -> dict[str, Any] | None:
        path = _HISTORY_FILE.search(prompt)
        content = values["files"][path[1]]["content"] if path else ""
        text = content if isinstance(content, str) else "\n".join(content)
        head, found, _ = unescape(text).partition(fact.verbatim)
        if not (path and found):
            return None
        start = head.count("\n") // _LINES * _LINES
        args = {"file_path": path[1], "offset": start, "limit": _LINES}
        return {"name": "read_file", "args": args}

    return Agent(graph, [model], look_up=look_up)


def find_page(prompt: str, values: Mapping[str, Any], fact: Fact, ids: Sequence[str]) -> Any:
    """Open the page with a message, from the nearest range before it that the prompt names.

    Where nothing of what came before is told any more, it reads back from the oldest one.
    """
    at = ids.index(fact.message_id)
    starts = [
        ids.index(first)
        for group in values["om"]["log"]
        for first, _ in group["ranges"]
        if f"`{first}:" in prompt or f",{first}:" in prompt
    ]
    if not starts:
        return None
    start = max((each for each in starts if each <= at), default=min(starts))
    page = (at - start) // PAGE + 1 if start <= at else -((start - at) // PAGE + 1)
    return {"name": "recall", "args": {"cursor": ids[start], "page": page, "limit": PAGE}}


def remembering(
    actor: Metered, threshold: int, saver: Saver, *, buffering: bool = True, **options: Any
) -> Agent:
    observation: dict[str, Any] = {"message_tokens": threshold}
    if not buffering:
        observation["buffer_tokens"] = False
    # In the default proportion to the other threshold.
    reflection = {"observation_tokens": threshold * 4 // 3}
    return remembering_by(actor, saver, observation, reflection, **options)


def remembering_by(
    actor: Metered,
    saver: Saver,
    observation: Mapping[str, Any] = MappingProxyType({}),
    reflection: Mapping[str, Any] = MappingProxyType({}),
    *,
    observe: Any = None,
    reflect: Any = None,
    **options: Any,
) -> Agent:
    """Memory with these options, whose models quote what they read unless others are given."""
    observer = Metered(observer=observe or ExtractiveObserver().reply)
    reflector = Metered(reflector=reflect or ExtractiveReflector().reply)
    given: Any = {"model": observer, **observation}, {"model": reflector, **reflection}
    memory: ObservationalMemory = ObservationalMemory(
        observation=given[0], reflection=given[1], clock=noon, **options
    )
    return with_memory(actor, saver, memory, [observer, reflector], recalls="retrieval" in options)


def with_memory(
    actor: Metered,
    saver: Saver,
    memory: ObservationalMemory,
    models: Sequence[Metered],
    *,
    recalls: bool,
) -> Agent:
    graph = create_memory_agent(
        actor, [lookup], memory=memory, system_prompt=PROMPT, checkpointer=saver
    )
    seen: list[str] = []

    def note() -> None:
        known = set(seen)
        found = graph.get_state(on_thread()).values["messages"]
        seen.extend(each.id for each in found if each.id not in known)

    def look_up(prompt: str, values: Mapping[str, Any], fact: Fact) -> Any:
        return find_page(prompt, values, fact, seen) if recalls else None

    return Agent(
        graph,
        models,
        waits=False,
        after_turn=memory.flush,
        note=note if recalls else nothing,
        close=memory.close,
        look_up=look_up,
    )


def remembering_within(actor: Metered, threshold: int, saver: Saver, **options: Any) -> Agent:
    """Memory with a `token_budget`."""
    return remembering_by(actor, saver, token_budget=threshold, **options)


def remembering_by_default(actor: Metered, threshold: int, saver: Saver) -> Agent:
    """Memory at its defaults, 30,000 and 40,000 tokens, which are those of Mastra's memory."""
    return remembering_by(actor, saver)


ALL = {"archive": "sqlite:///:memory:", "retrieval": True}
FULL = "full history"
OURS = "langgraph_om"
RECALLING = "langgraph_om, archive and recall"
Make = Callable[[Metered, int, Saver], Agent]
"""Makes an agent from its model, a number of tokens and a checkpointer."""
AGENTS: Mapping[str, Make] = {
    FULL: full_history,
    "trim_messages": trimming,
    "langchain SummarizationMiddleware": summarising,
    "langmem SummarizationNode": langmem,
    "deepagents summarisation": deep,
    OURS: remembering,
    "langgraph_om, buffering off": partial(remembering, buffering=False),
    RECALLING: partial(remembering, evict=True, **ALL),
}

BILLED: Mapping[str, Make] = {
    FULL: full_history,
    "langchain SummarizationMiddleware": summarising,
    "deepagents summarisation": deep,
    "langgraph_om, token_budget": remembering_within,
    "langgraph_om, token_budget and recall": partial(remembering_within, **ALL),
    "langgraph_om, defaults (Mastra's thresholds, by this engine)": remembering_by_default,
}
"""What is billed at one room."""


def answered(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """What each tool call was answered, by its id."""
    return {each.tool_call_id: each.text for each in messages if isinstance(each, ToolMessage)}
