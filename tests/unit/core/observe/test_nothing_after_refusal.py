"""A second answer that says "nothing" does not take the place of a refused one that said more."""

from __future__ import annotations

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel


def test_what_was_said_stays_when_the_answers_are_a_loop_and_nothing() -> None:
    """The words of the user are in the next prompt."""
    loop = "<observations>\n" + "* The gate is green and must be painted.\n" * 200
    answers = [loop, "<observations>(none)</observations>"]
    asked: list[int] = []

    def observe(_: object) -> str:
        asked.append(1)
        return answers[(len(asked) - 1) % 2]

    prompts: list[str] = []

    def act(messages: list[HumanMessage]) -> str:
        prompts.append("\n".join(message.text for message in messages))
        return "Fine."

    memory = ObservationalMemory(
        ScriptedChatModel(observer=observe),
        observation={"message_tokens": 60, "buffer_tokens": False},
    )
    agent = create_memory_agent(
        ScriptedChatModel(act), [], memory=memory, checkpointer=InMemorySaver()
    )
    for number in range(6):
        said = f"Gate {number} is green, and must be painted again before the winter comes."
        agent.invoke({"messages": [HumanMessage(said)]}, {"configurable": {"thread_id": "a"}})
    assert asked
    assert all(f"Gate {number} is" in prompts[-1] for number in range(6))
