# Recall: the agent reads back what was said, word for word, in this thread and in earlier ones.
#
#     pip install langgraph-om
#     python examples/recall.py
#
# Observations are short. The agent has a tool `recall`, which reads the messages behind them; with
# an archive it reads the user's other threads as well. Whose messages these are comes from the
# `resource_id` of the run alone. The models are scripted.

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

SAID = [
    "My bike is in the workshop. The pick-up code is QX-7741-B, please keep it for me.",
    "The mechanic is called Jorun. She replaces the chain and the rear brake pads.",
    "It costs 129 euros, and I pay by card when I fetch it on Friday afternoon.",
    "Afterwards I ride along the fjord to Flesland with my brother, about 20 kilometres.",
    "We start at four, and Mum expects us for dinner at seven, so we can not be late this time.",
    "For dinner there is fish soup, bread from the bakery in Torgallmenningen, and apple cake.",
    "My brother brings the lamp, the pump and a spare tube, I bring the map and two flasks.",
    "If it rains we take the light rail from Nonneseter instead, which runs every ten minutes.",
    "On Saturday I want to sleep long, and on Sunday the bike goes into the cellar for the winter.",
    "The cellar is damp, so the chain needs oil first, and the tyres some air every few weeks.",
]
QUESTION = "Which code do I need at the workshop?"


def agent_model(messages: list[BaseMessage]) -> AIMessage:
    """Look up what the user asks about, then quote it; else take note."""
    asked = [message for message in messages if isinstance(message, HumanMessage)][-1].text
    if asked != QUESTION:
        return AIMessage("Noted.")
    results = [message for message in messages if isinstance(message, ToolMessage)]
    if not results:
        # The first id of the oldest group in the log, when this thread has one.
        ranges = re.findall(r"^_range: `(.+?):.+`_$", messages[0].text, re.MULTILINE)
        call = {"cursor": ranges[0], "limit": 2} if ranges else {"mode": "threads"}
    elif "**user" not in results[-1].text and "[bike]" in results[-1].text:
        call = {"thread_id": "bike", "limit": 2}
    else:
        code = re.search(r"[A-Z]{2}-\d{4}-[A-Z]", results[-1].text)
        return AIMessage(f"You need {code[0]}." if code else "I find no code.")
    call_id = f"call-{len(results)}"
    return AIMessage("", tool_calls=[{"name": "recall", "args": call, "id": call_id}])


def main() -> None:
    model = ScriptedChatModel(
        actor=agent_model,
        observer=ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        memory = ObservationalMemory(
            model,
            archive=f"sqlite:///{Path(folder) / 'archive.db'}",
            observation={"message_tokens": 300, "buffer_tokens": False},
        )
        with memory:
            agent = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())

            def ask(thread: str, user: str, text: str) -> None:
                config: RunnableConfig = {
                    "configurable": {"thread_id": thread, "resource_id": user}
                }
                state = agent.invoke({"messages": [HumanMessage(text)]}, config)
                if text != QUESTION:
                    return
                print(f"\n{user}, thread {thread!r}: {text}")
                for message in state["messages"]:
                    for call in getattr(message, "tool_calls", []):
                        print(f"  recall({call['args']})")
                print(f"  Agent: {state['messages'][-1].text}")

            for text in SAID:
                ask("bike", "noor", text)
            ask("bike", "noor", QUESTION)
            ask("dinner", "noor", QUESTION)  # another thread of the same user
            ask("other", "bob", QUESTION)  # another user sees none of it


if __name__ == "__main__":
    main()
