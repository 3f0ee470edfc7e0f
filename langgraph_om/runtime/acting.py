"""A person's acts: updates of `om`, and how they are written into a thread of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.effects import Requests
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.flows import call_graph
from langgraph_om.runtime.runner import StepRunner

Update = list[dict[str, Any]]
"""An update of `om`: events, each a mapping of JSON values; the first has the `id` of the act."""


class Updates:
    """Updates of `om` with which a person changes what is remembered; nothing is written here.

    For `graph.update_state(config, {"om": ...})`, what a node returns, or a tool's
    `Command(update=...)`. The methods of the memory itself write them. Features add those methods.
    """

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner


class Acting:
    """Base of the methods of a memory with which a person changes a thread.

    Each takes the agent's compiled graph, with memory and a checkpointer, and the thread's
    configuration; with a `checkpoint_id` in it, the change begins a fork there. They return the id
    of the act, and raise what their namesakes of `updates` raise, and a `ConfigurationError` where
    the graph has no memory.
    """

    _runner: StepRunner

    def _act(
        self, graph: Any, config: RunnableConfig, build: Callable[[Any], Update]
    ) -> Requests[str]:
        """Write an update into a thread, wherever its run stands, and see that it is kept.

        Args:
            build: Returns the update, given the thread's state.
        """
        check_graph(graph, self._runner.messages_key, config)
        state = yield from call_graph(graph, "get_state", config)
        update = build(state)
        act = str(update[0]["id"])
        written = yield from call_graph(graph, "update_state", config, {"om": update})
        after = yield from call_graph(graph, "get_state", written)
        if act not in str(self._runner.stored_record(after)):
            # `create_agent` drops what stands for the input, so a node has to be named.
            gate = [name for name in graph.nodes if name.endswith("Middleware.before_model")]
            node = gate[0] if gate and state.next else choose_node(graph.nodes)
            yield from call_graph(graph, "update_state", config, {"om": update}, as_node=node)
        return act

    def _change(
        self, graph: Any, config: RunnableConfig, build: Callable[..., Update], *words: str
    ) -> Requests[str]:
        """Write a change of something that is looked up before anything is written."""
        return self._act(graph, config, lambda state: build(*words, state=state))


def make_act_id() -> str:
    """Return an id for an act."""
    return f"act-{uuid4().hex[:12]}"


def check_text(name: str, value: object) -> str:
    """Return a text that a person wrote without what databases refuse.

    Raises:
        ConfigurationError: When it is none, or blank.
    """
    if isinstance(value, str) and (clean := sanitize(value)).strip():
        return clean
    msg = f"`{name}` is {value!r}; pass a text that is not blank"
    raise ConfigurationError(msg)


def check_graph(graph: Any, messages_key: str, config: RunnableConfig) -> None:
    """Refuse a graph whose state has no place for a memory, or for the conversation.

    Only the outermost graph of this process is looked at: a namespace names a graph inside of it.

    Raises:
        ConfigurationError: When it has none; it says which channel is missing.
    """
    channels = getattr(graph, "channels", None)
    if channels is None or config.get("configurable", {}).get("checkpoint_ns"):
        return
    missing = [name for name in ("om", messages_key) if name not in channels]
    if missing:
        msg = (
            f"`graph` is {graph.name!r}, whose state has no {missing[0]!r}, so memory cannot be "
            f"kept there; pass a graph with this memory: from `create_memory_agent`, from "
            f"`create_agent` with the middleware, or built with `add_observational_memory`"
        )
        raise ConfigurationError(msg)


def choose_node(nodes: Iterable[str]) -> str:
    """Return the node that answers, for a thread that was imported and has run none.

    Raises:
        ConfigurationError: When it cannot be told.
    """
    names = [name for name in nodes if not name.startswith(("__", "om_")) and "." not in name]
    answering = [name for name in names if name != "tools"]
    if len(answering) == 1:
        return str(answering[0])
    msg = f"the thread ran no node yet; pass `as_node`, the node that answers, one of {names}"
    raise ConfigurationError(msg)
