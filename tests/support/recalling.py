"""Agents that recall, and what they are asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore

from langgraph_om import ObservationalMemory, add_observational_memory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel
from support.agents import (
    SYSTEM,
    Agent,
    Saver,
    actor,
    live_request,
    make_agent,
    on_thread,
    say,
    scripted,
    search,
    talk,
    turns,
    values,
)
from support.inside import Meaning

RANGE = re.compile(r"^_range: `(.+):(.+)`_$", re.MULTILINE)


ASKED = re.compile(r"\[recall (\{.*\})\]")


def meaning_index(archive: SQLAlchemyArchive | None = None) -> Any:
    """The index of a search by meaning."""
    return Meaning(archive)


# --- Agents that recall --------------------------------------------------------------------------


def system_text(prompt: Sequence[BaseMessage]) -> str:
    assert isinstance(prompt[0], SystemMessage)
    return prompt[0].text


def forgetful() -> Callable[[list[BaseMessage]], AIMessage]:
    """An Actor that calls recall with what the user dictates, FIRST being the log's first id."""
    asked: set[str] = set()  # an answer that is large for these windows is observed at once

    def reply(messages: list[BaseMessage]) -> AIMessage:
        request = live_request(messages)
        dictated = ASKED.search(request.text)
        if dictated is None:
            return actor(messages)
        if str(request.id) in asked:
            return AIMessage("It says so.", id=f"{request.id}-answer")
        asked.add(str(request.id))
        first = RANGE.findall(system_text(messages))
        arguments = json.loads(dictated[1].replace("FIRST", first[0][0] if first else ""))
        calls = [{"name": "recall", "args": arguments, "id": f"{request.id}-recall"}]
        return AIMessage("", tool_calls=calls, id=f"{request.id}-look")

    return reply


def hand_made(
    schema: Any, memory: ObservationalMemory, model: ScriptedChatModel
) -> StateGraph[Any, Any, Any, Any]:
    """A graph whose tool node sees no more of the state than the user's own schema."""
    tools = [search, *memory.tools]
    bound: Runnable[Any, BaseMessage] = model.bind_tools(tools)

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [bound.invoke(memory.llm_input_messages(state, system=SYSTEM))]}

    async def aagent(state: Any) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(memory.llm_input_messages(state, system=SYSTEM))]}

    builder = StateGraph(schema)
    builder.add_node("agent", RunnableLambda(agent, aagent, name="agent"))
    builder.add_node("tools", ToolNode(tools))
    gate = add_observational_memory(builder, memory, before="agent")
    builder.add_edge(START, gate)
    builder.add_edge("tools", gate)
    builder.add_conditional_edges("agent", tools_condition, ["tools", END])
    return builder


def recalling(
    door: str = "agent",
    saver: Saver = None,
    *,
    store: BaseStore | None = None,
    says: Callable[[list[BaseMessage]], AIMessage] | None = None,
    **options: Any,
) -> Agent:
    """An agent with `retrieval`, through one of `DOORS`."""
    return make_agent(
        door,
        saver if saver is not None else InMemorySaver(),
        model=scripted(actor=says or forgetful()),
        store=store,
        by_hand=hand_made,
        **{"retrieval": True, **options},
    )


def asking(arguments: dict[str, Any], key: str = "ask") -> HumanMessage:
    return HumanMessage(f"What did I say? [recall {json.dumps(arguments)}]", id=key)


def answers(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(m.text) for m in state["messages"] if getattr(m, "name", "") == "recall"]


def recalled(agent: Agent, thread: str = "t", user: str | None = None, **arguments: Any) -> Any:
    """What a call of the tool is answered, in a turn of the thread."""
    config = on_thread(thread, **({"resource_id": user} if user else {}))
    said = len(values(agent.graph, config).get("messages", []))
    say(agent.graph, config, asking(arguments, f"ask-{thread}-{said}"))
    return answers(values(agent.graph, config))[-1]


# --- With an archive -----------------------------------------------------------------------------


PASSWORD = "The door code of the flat in Bergen is 4711, do not tell Bob."  # noqa: S105


def three_threads(archive: SQLAlchemyArchive, **options: Any) -> Agent:
    """Two threads of Ana, one of Bob, in one archive."""
    agent = recalling(archive=archive, **options)
    for thread, user, start in (("trip", "ana", 0), ("work", "ana", 10), ("bobs", "bob", 20)):
        config = on_thread(thread, resource_id=user)
        secret = HumanMessage(PASSWORD, id=f"{thread}-secret")
        talk(agent.graph, config, [secret, *turns(5, start=start)], agent.clock)
    return agent


# --- Search --------------------------------------------------------------------------------------


DIMENSIONS = 64


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Texts are near when they share words."""

    def vector(text: str) -> list[float]:
        counts = [0.01] * DIMENSIONS
        for word in re.findall(r"\w{4,}", text.lower()):
            counts[crc32(word.encode()) % DIMENSIONS] += 1.0
        return counts

    return [vector(text) for text in texts]


def index_of(using: Callable[[Sequence[str]], list[list[float]]] = embed) -> Any:
    return {"dims": DIMENSIONS, "embed": using, "fields": ["text"]}


WALNUTS = HumanMessage(
    "Remember for the dinner: my grandmother Ilse is severely allergic to walnuts.", id="walnuts"
)
