# One memory over all conversations of a user: what is said in one thread is known in the others.
#
#     pip install langgraph-om
#     python examples/resource_scope.py
#
# With `scope="resource"` the threads of a user share one observation log, kept in the archive. What
# another thread said lately is shown in its own words, until it is observed. The agent is told not
# to go on with another thread's task, and other users see none of it. The models are scripted.

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

THREADS = {
    "health": [
        "At my check-up on Monday the doctor said I am allergic to walnuts and pecans.",
        "She wants me to walk 40 minutes a day, and to come back on 12 May at half past nine.",
        "My blood pressure was 128 over 82, a little lower than in the autumn.",
    ],
    "work": [
        "At work my lead is called Adaeze; on 1 April I moved to the search team.",
        "Our stand-up is at 10:15 now, and on Thursdays I work from the office in Ghent.",
        "The ranking service is written in Rust, which I am still learning.",
    ],
    "cooking": [
        "Please plan a dinner for six on Saturday, with a cake.",
        "Two of us are vegetarian, and Adaeze from work comes too.",
    ],
}
QUESTION = "What must not be in the cake, and who is Adaeze?"


def agent_model(messages: list[BaseMessage]) -> AIMessage:
    """Answer a question from what the prompt says, else take note."""
    asked = [message for message in messages if isinstance(message, HumanMessage)][-1].text
    if asked != QUESTION:
        return AIMessage("Noted.")
    known = messages[0].text
    nuts = re.search(r"allergic to ([a-z]+)", known)
    lead = re.search(r"my lead is called Adaeze", known)
    answer = [
        f"No {nuts[1]}." if nuts else "I know of nothing.",
        "Adaeze is your lead." if lead else "I do not know Adaeze.",
    ]
    return AIMessage(" ".join(answer))


def main() -> None:
    model = ScriptedChatModel(
        actor=agent_model,
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        memory = ObservationalMemory(
            model,
            scope="resource",
            archive=f"sqlite:///{Path(folder) / 'archive.db'}",
            observation={"message_tokens": 120, "buffer_tokens": False},
        )
        with memory:
            agent = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())

            def say(user: str, thread: str, text: str) -> str:
                config: RunnableConfig = {
                    "configurable": {"thread_id": thread, "resource_id": user}
                }
                state = agent.invoke({"messages": [HumanMessage(text)]}, config)
                return str(state["messages"][-1].text)

            for thread, texts in THREADS.items():
                for text in texts:
                    say("noor", thread, text)
            print(
                f"noor, thread 'cooking': {QUESTION}\n  Agent: {say('noor', 'cooking', QUESTION)}"
            )
            prompt = "\n".join(message.text for message in model.calls[-1]["messages"])
            seen = prompt[prompt.index("\n<observations>") : prompt.rindex(QUESTION)]
            print(f"\nWhat the agent sees of the other threads:\n{seen.strip()}")
            print(f"\nbob, thread 'cake': {QUESTION}\n  Agent: {say('bob', 'cake', QUESTION)}")


if __name__ == "__main__":
    main()
