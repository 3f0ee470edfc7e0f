# An agent that keeps a profile of its user, in the server's store: the same in every thread.
#
# Say "I am Noor", then "I live in Tromsø"; begin another thread, and ask "Where do I live?". In the
# state panel `working_memory` is what the agent knows. All threads are of one user here; an
# application leaves `resource_id` out and says it for each run, or an assistant does in its form.

from __future__ import annotations

import re

from graphs import memory_model, real_model
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import BaseModel

from langgraph_om import ObservationalMemory, WorkingMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel


class Profile(BaseModel):
    name: str | None = None
    city: str | None = None


def answer(prompt: list[BaseMessage]) -> str | AIMessage:
    """Play the agent: write down a name and a city, quote the memory for a question."""
    last = prompt[-1]
    if isinstance(last, ToolMessage):
        return f"I keep that in mind. ({last.text})"
    said = {"name": r"I am (\w+)", "city": r"I live in (\w+)"}
    found = {key: match[1] for key, way in said.items() if (match := re.search(way, last.text))}
    if found:
        call = {"name": "update_working_memory", "args": {"memory": found}}
        return AIMessage("", tool_calls=[{**call, "id": f"call-{len(prompt)}"}])
    known = [text.text for text in prompt if "<working-memory>" in text.text]
    city = re.search(r'"city": "(\w+)"', known[0]) if known else None
    return f"You live in {city[1]}." if city else "I do not know yet."


memory = ObservationalMemory(
    memory_model, working_memory=WorkingMemory(schema=Profile), resource_id="you"
)
profile = create_memory_agent(real_model or ScriptedChatModel(answer), memory=memory)
