"""Working memory beside a log that all threads of a user share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from langgraph_om import (
    MemoryContext,
    ObservationalMemory,
    WorkingMemory,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel, check_message_sequence

EMPTY, FILLED = "# Profile\n\n- Lives in:", "# Profile\n\n- Lives in: Cluj"
SAID = "I moved to Cluj in 2024 with my dog Rex, who is 3 years old and likes the river."
SHOW = {"name": "update_working_memory", "args": {"memory": FILLED}, "id": "u1"}

each_door = pytest.mark.parametrize("door", ["agent", "graph", "middleware"])


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(messages: list[BaseMessage]) -> str | AIMessage:
    """Note where the user lives, once, when they say so."""
    if messages[-1].type == "human" and messages[-1].text == SAID:
        return AIMessage("I note that.", tool_calls=[SHOW])
    return "Noted, the river it is."


class Home:
    """An agent of several users, with one archive and one store."""

    def __init__(self, door: str, path: Path, scope: Any = "resource") -> None:
        self.answer = answer
        self.model = ScriptedChatModel(
            lambda messages: self.answer(messages),  # noqa: PLW0108 it changes
            observer=ExtractiveObserver().reply,
        )
        self.working, self.store = WorkingMemory(EMPTY, scope=scope), InMemoryStore()
        self.memory = ObservationalMemory(
            self.model,
            scope="resource",
            archive=f"sqlite:///{path / 'a.db'}",
            working_memory=self.working,
            observation={"message_tokens": 60, "buffer_tokens": False},
        )
        self.graph = self.build(door)

    def build(self, door: str) -> Any:
        kept: dict[str, Any] = {"checkpointer": InMemorySaver(), "store": self.store}
        if door == "agent":
            return create_memory_agent(self.model, memory=self.memory, **kept)
        if door == "middleware":
            around: Any = [ObservationalMemoryMiddleware(self.memory)]
            return create_agent(self.model, middleware=around, context_schema=MemoryContext, **kept)

        def agent(state: State) -> dict[str, Any]:
            bound = self.model.bind_tools(self.memory.tools)
            return {"messages": [bound.invoke(self.memory.llm_input_messages(state))]}

        builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
        builder.add_node("agent", agent)
        builder.add_node("tools", ToolNode(self.memory.tools))
        gate = add_observational_memory(builder, self.memory)
        builder.add_edge(START, gate)
        builder.add_edge("tools", gate)
        builder.add_conditional_edges(
            "agent", tools_condition, {"tools": "tools", END: "om_finish"}
        )
        return builder.compile(**kept)

    def say(self, text: str, thread: str, user: str = "noor") -> list[BaseMessage]:
        """Run a turn; return what the Actor was given last."""
        config: Any = {"configurable": {"thread_id": thread, "resource_id": user}}
        self.graph.invoke({"messages": [HumanMessage(text)]}, config)
        return [c["messages"] for c in self.model.calls if c["role"] == "actor"][-1]


def block_of(messages: list[BaseMessage]) -> str:
    [text] = [message.text for message in messages if "<working-memory>" in message.text]
    return text.split("<working-memory>\n")[1].split("\n</working-memory>")[0]


@each_door
def test_another_thread_of_the_user_has_both_and_another_user_neither(
    door: str, tmp_path: Path
) -> None:
    home = Home(door, tmp_path)
    home.say(SAID, "one")
    home.say("Tell me of the river, and of the long walks that one can take there in May.", "one")
    view = home.say("Hello again!", "two")
    assert "Rex" in view[0].text
    assert block_of(view) == FILLED
    assert FILLED not in view[0].text  # behind the observations, so that these stay in the cache
    stranger = home.say("Hello!", "three", user="ann")
    assert "Rex" not in "".join(message.text for message in stranger)
    assert block_of(stranger) == EMPTY
    for provider in ("openai", "anthropic", "gemini"):
        assert check_message_sequence(view, provider) == []


@each_door
def test_no_thread_s_observer_reads_of_the_tool(door: str, tmp_path: Path) -> None:
    home = Home(door, tmp_path)
    home.say(SAID, "one")
    for number in range(4):
        home.say(f"Walk number {number} goes along the river, for 12 long kilometres.", "two")
    home.say("And what did I say of my dog, of the river and of Cluj?", "one")
    asked = [str(call["messages"]) for call in home.model.calls if call["role"] == "observer"]
    assert any("Rex" in question for question in asked)
    assert "update_working_memory" not in "".join(asked)
    assert FILLED not in "".join(asked)
    view = home.say("Well?", "two")
    conversations = "".join(message.text for message in view).replace(block_of(view), "")
    assert "# Profile" not in conversations


@each_door
def test_one_within_a_thread_stays_there_while_the_log_is_shared(door: str, tmp_path: Path) -> None:
    home = Home(door, tmp_path, scope="thread")
    home.say(SAID, "one")
    kept = home.say("Tell me of the river, and of the long walks that one can take there.", "one")
    assert block_of(kept) == FILLED
    view = home.say("Hello again!", "two")
    assert "Rex" in view[0].text
    assert block_of(view) == EMPTY


@each_door
@pytest.mark.parametrize("moment", ["before the tool", "as it writes"])
def test_a_turn_under_way_does_not_bring_it_back(
    door: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, batch = Home(door, tmp_path), InMemoryStore.batch
    home.say("Hello, I have a question.", "one")

    def delete() -> None:
        home.answer = answer
        monkeypatch.setattr(InMemoryStore, "batch", batch)
        home.memory.delete_resource("noor", store=home.store)

    def act(messages: list[BaseMessage]) -> str | AIMessage:
        delete()
        return answer(messages)

    def write(store: InMemoryStore, ops: Any) -> Any:
        ops = [*ops]
        if any(isinstance(op, PutOp) for op in ops):
            delete()
        return batch(store, ops)

    if moment == "before the tool":
        home.answer = act
    else:
        monkeypatch.setattr(InMemoryStore, "batch", write)
    home.say(SAID, "one")
    assert home.working.get(home.store, "noor") is None
    home.say(SAID, "two")
    assert home.working.get(home.store, "noor") == FILLED
