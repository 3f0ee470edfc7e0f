# Working memory: what an agent always knows of a user, in every thread, and keeps up to date.
#
#     pip install langgraph-om
#     python examples/working_memory.py
#
# First a profile after a template: the agent writes the whole text anew. Then a list of tasks after
# a schema: the agent writes only what changes, and what does not fit the schema is refused with the
# name of the field. Both are in the graph's store, under the user's id. The models are scripted.

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, Field

from langgraph_om import ObservationalMemory, WorkingMemory, create_memory_agent
from langgraph_om.testing import Reply, ScriptedChatModel

TEMPLATE = """
# Profile
- Name:
- City:
- Time zone:
"""


class Task(BaseModel):
    title: str
    hours: float | None = Field(default=None, ge=0)


class Tasks(BaseModel):
    project: str | None = None
    tasks: list[Task] | None = None


NUMBERS: Iterator[int] = iter(range(1000))


def update(memory: object) -> AIMessage:
    """What a model answers that calls the tool."""
    call = {
        "name": "update_working_memory",
        "args": {"memory": memory},
        "id": f"call-{next(NUMBERS)}",
    }
    return AIMessage("", tool_calls=[call])


def quote_city(prompt: list[BaseMessage]) -> str:
    """Answer from what the prompt of this call shows."""
    found = [re.search("City: (.+)", message.text) for message in prompt]
    return next((f"You live in {city[1]}." for city in found if city), "I do not know.")


def build(working: WorkingMemory, store: BaseStore, *answers: Reply) -> CompiledStateGraph:
    model = ScriptedChatModel([*answers])
    memory = ObservationalMemory(model, token_budget=16_000, working_memory=working)
    return create_memory_agent(model, memory=memory, checkpointer=InMemorySaver(), store=store)


def show(value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    for line in text.splitlines():
        print(f"    | {line}")


def main() -> None:
    store = InMemoryStore()

    def say(agent: CompiledStateGraph, working: WorkingMemory, thread: str, text: str) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": thread, "resource_id": "noor"}}
        state = agent.invoke({"messages": [HumanMessage(text)]}, config)
        print(f"\nNoor, thread {thread!r}: {text}")
        said = [at for at, message in enumerate(state["messages"]) if message.type == "human"]
        for message in state["messages"][said[-1] :]:
            if isinstance(message, ToolMessage):
                print(f"    update_working_memory: {message.text}")
        print(f"    Agent: {state['messages'][-1].text}")
        show(working.get(store, "noor") or "(nothing yet)")

    print("A profile after a template")
    profile = WorkingMemory(TEMPLATE)
    agent = build(
        profile,
        store,
        update("# Profile\n- Name: Noor\n- City: Tromsø\n- Time zone:"),
        "Welcome, Noor.",
        update("# Profile\n- Name: Noor\n- City: Tromsø\n- Time zone: CET"),
        "Then we are in the same hour.",
        quote_city,
    )
    say(agent, profile, "monday", "I am Noor, and I live in Tromsø.")
    say(agent, profile, "monday", "My clock is on CET, by the way.")
    say(agent, profile, "friday", "Do you know where I live?")  # another thread, the same user

    print("\nTasks after a schema")
    tasks = WorkingMemory(schema=Tasks)
    agent = build(
        tasks,
        store,
        update({"project": "Boat", "tasks": [{"title": "Paint the hull"}]}),
        "I keep that.",
        update({"tasks": [{"title": "Paint the hull", "hours": "long"}]}),
        update({"tasks": [{"title": "Paint the hull", "hours": 6}, {"title": "Buy rope"}]}),
        "Six hours, and rope.",
        update({"project": None}),
        "Just a list, then.",
    )
    say(agent, tasks, "monday", "For the boat: the hull wants paint.")
    say(agent, tasks, "monday", "That takes six hours. And we need rope.")
    say(agent, tasks, "friday", "Forget the project, the tasks are enough.")

    print("\nWhat a program writes, the agent knows too")
    tasks.update(store, "noor", {"project": "Spring"})
    show(tasks.get(store, "noor"))


if __name__ == "__main__":
    main()
