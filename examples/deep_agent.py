# A deep agent (deepagents) with Observational Memory and a subagent.
#
#     pip install "langgraph-om[deepagents,agents]"
#     python examples/deep_agent.py
#
# Offline, unless there is a GOOGLE_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY.
#
# deepagents brings a summarisation of its own. Memory takes its place by name (`replaces`), in the
# agent and in its general-purpose subagent. Plan, files and skills stay as they are.

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from chat_models import choose_model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from deepagents import create_deep_agent

    from langgraph_om import ObservationalMemoryMiddleware
except ImportError:
    print("deepagents is not installed, so there is nothing to show. Install it with:")
    print("pip install 'langgraph-om[deepagents,agents]'")
    sys.exit(0)

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PROMPT = "You prepare the yearbook of a rowing club. Send questions about results to `archivist`."
RESULTS = {
    "1998": "gold in the eight, 5:49.2; bronze in the double sculls; 14 starts, 122 members.",
    "2007": "no regatta, the boathouse burnt down on 3 May; 9 boats lost, 81,000 euros collected.",
    "2019": "silver in the coxless four, 6:11.8; fifth in the eight; 21 starts, 176 members.",
}
TALK = [
    "Hello, I am Maren. The yearbook has 64 pages and goes to the printer on 30 April.",
    "Which result do we have for 1998? It opens the chapter about the eight.",
    "The cover is dark blue, and please no photographs of the old boathouse.",
    "And what happened in 2007?",
    "Then 2007 gets one page and no more. The foreword is by Mrs. Lindqvist, 300 words.",
    "What was won in 2019?",
    "Print 450 copies instead of 400, the alumni ordered 50 more.",
    "What do you know about the printer's date, and the cover?",
]


def results(year: str) -> str:
    """Look up the results of a year in the club's archive."""
    return f"{year}: {RESULTS.get(year, 'nothing in the archive.')}"


def call(tool: str, number: int, **args: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": f"{tool}-{number}"}])


def speak(prompt: list[BaseMessage]) -> str | AIMessage:
    """Play the agent and its subagent offline; the prompt tells which of them is asked."""
    last = prompt[-1]
    if isinstance(last, ToolMessage):
        return last.text if last.name == "results" else f"The archivist says: {last.text}"
    year = next((year for year in RESULTS if year in last.text and "?" in last.text), None)
    if year and "You search the archive" in prompt[0].text:
        return call("results", len(prompt), year=year)
    if year:
        task = f"What was won in {year}?"
        return call("task", int(year), subagent_type="archivist", description=task)
    if "?" not in last.text:
        return "I have put that on the list."
    facts = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    return " ".join(fact for fact in facts if "printer" in fact or "cover" in fact)


offline = ScriptedChatModel(
    speak, observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
)
model = choose_model(offline)
memory = ObservationalMemory(
    observation={"message_tokens": 160, "buffer_tokens": 0.5},  # tiny; the default is 30,000
    # So that every run prints the same: nothing in the background, and a day that stands still.
    buffering=InlineBuffering(),
    clock=lambda: NOW,
    message_time=lambda _: NOW,
)
remembers = ObservationalMemoryMiddleware(memory, replaces="SummarizationMiddleware")
archivist: Any = {
    "name": "archivist",
    "description": "Finds results of past years in the club's archive.",
    "system_prompt": "You search the archive. Answer in one sentence.",
    "tools": [results],
    "middleware": [remembers],  # it would summarise otherwise
}
agent = create_deep_agent(
    model,
    system_prompt=PROMPT,
    middleware=[remembers],
    subagents=[archivist],
    checkpointer=InMemorySaver(),
)
print("Steps of the agent:", ", ".join(sorted(agent.get_graph().nodes)))
config: RunnableConfig = {"configurable": {"thread_id": "yearbook"}}
for question in TALK:
    said = agent.invoke({"messages": [HumanMessage(question)]}, config)["messages"]
    asked = [message.name for message in said[-2:] if isinstance(message, ToolMessage)]
    print(f"\nMaren: {question}")
    print(f"Agent{' (with its subagent)' if asked else ''}: {said[-1].text}")
print(f"\n{memory.view(agent.get_state(config).values)}")
