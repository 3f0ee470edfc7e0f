"""What working memory is for, told as short conversations of a scripted agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_om import ObservationalMemory, WorkingMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel


class Story:
    """An agent that writes what a test says, and what it was shown before each answer."""

    def __init__(self, working: WorkingMemory, updates: Sequence[Any]) -> None:
        self.working, self.store = working, InMemoryStore()
        replies: list[Any] = []
        for number, memory in enumerate(updates):
            if memory is not None:
                call = {"name": "update_working_memory", "id": f"u{number}"}
                replies.append(AIMessage("", tool_calls=[{**call, "args": {"memory": memory}}]))
            replies.append("ok")
        self.model = ScriptedChatModel(replies)
        memory = ObservationalMemory(self.model, working_memory=working)
        self.graph = create_memory_agent(
            self.model, memory=memory, checkpointer=InMemorySaver(), store=self.store
        )

    def say(self, text: str) -> str:
        """Run a turn; return the block that its first call was shown."""
        before = len(self.model.calls)
        config: Any = {"configurable": {"thread_id": "t", "resource_id": "sam"}}
        self.graph.invoke({"messages": [HumanMessage(text)]}, config)
        messages: list[BaseMessage] = self.model.calls[before]["messages"]
        [block] = [m.text for m in messages if "<working-memory>" in m.text]
        return block.split("<working-memory>\n")[1].split("\n</working-memory>")[0]


def profile(name: str = "", place: str = "", zone: str = "") -> str:
    lines = [f"- Name: {name}", f"- Location: {place}", f"- Timezone: {zone}"]
    return "\n".join(["# User Profile", *(line.rstrip() for line in lines)])


async def test_a_program_writes_first_and_in_between() -> None:
    working = WorkingMemory("# Patient\n- Name:\n- Allergies:")
    story = Story(working, [None, None])
    await working.aput(story.store, "sam", "# Patient\n- Name: Sam\n- Allergies: penicillin")
    assert "penicillin" in story.say("Which allergies do I have?")
    text = await working.aget(story.store, "sam")
    await working.aupdate(story.store, "sam", f"{text}, ibuprofen")
    assert "penicillin, ibuprofen" in story.say("And now?")


def test_a_thread_that_changes_the_scope_keeps_what_it_was_shown_until_then() -> None:
    saver, store = InMemorySaver(), InMemoryStore()
    config: Any = {"configurable": {"thread_id": "t", "resource_id": "sam"}}

    def run(scope: Any) -> Any:
        working = WorkingMemory(profile(), scope=scope)
        model = ScriptedChatModel("ok")
        graph = create_memory_agent(
            model,
            memory=ObservationalMemory(model, working_memory=working),
            checkpointer=saver,
            store=store,
        )
        graph.invoke({"messages": [HumanMessage("Hi")]}, config)
        return graph.get_state(config).values.get("working_memory")

    WorkingMemory(profile()).put(store, "sam", profile("Sam"))
    assert run("resource") == profile("Sam")
    assert run("thread") == profile("Sam")
    WorkingMemory(profile()).put(store, "sam", profile("Samuel"))
    assert run("thread") == profile("Sam")
    assert run("resource") == profile("Samuel")
