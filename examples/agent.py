# LangChain's `create_agent` with Observational Memory as a middleware: one more line.
#
#     pip install "langgraph-om[agents,examples]"
#     python examples/agent.py                  # offline: a scripted agent, an extractive memory
#     python examples/agent.py workshop.sqlite  # kept in a file: run it twice, the thread goes on
#
# Messages become observations while the two talk; at the end it prints what memory knows. With
# GOOGLE_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY and the provider's package, real models speak.

from __future__ import annotations

import sys
from datetime import UTC, datetime

from chat_models import choose_model
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from langchain.agents import create_agent
    from langgraph.checkpoint.sqlite import SqliteSaver

    from langgraph_om import ObservationalMemoryMiddleware
except ImportError as missing:
    name = missing.name or "langchain"
    sys.exit(f"{name} is missing; install it with: pip install 'langgraph-om[agents,examples]'")

NOW = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
PROMPT = "You work at the counter of a bicycle workshop. Be brief, and look prices up."
PRICES = {"chain": 34, "cassette": 48, "brake pads": 18, "rear light": 22, "tyre": 39}
TALK = {
    "Hi, I am Jonas. My commuter bike, a green Falter from 2016, makes a grinding noise.": (
        "Hello Jonas. On a bike of that age it is often the chain. How many kilometres a week?"
    ),
    "About 90 kilometres a week, in all weather. What does a new chain cost?": "chain",
    "My budget is 120 euros. Please replace the chain, and the cassette if it is worn.": "cassette",
    "I need the bike back on Thursday, my train to Kassel leaves at 17:40.": (
        "Then it is ready on Thursday at 15:00, which leaves you two hours."
    ),
    "The rear light flickers too. Only one with a dynamo please, I hate charging.": "rear light",
    "Forget the cassette, I measured it, it is fine for 1,000 kilometres more.": (
        "Good, no cassette. I keep the chain and the dynamo light on the order."
    ),
    "I also have squeaking brakes, they are disc brakes at the front.": "brake pads",
    "Call me on 0151-2233 if it gets more than 100 euros.": (
        "I will call 0151-2233 before it gets more than 100 euros."
    ),
    "What was my deadline again, and my budget?": "",
}


def price(part: str) -> str:
    """Look up what a spare part costs, fitted, and how soon it is here."""
    makers = ["Sora", "Tiagra", "Acera", "Deore", "Alivio", "Claris"]
    first = PRICES.get(part, 25)
    kinds = (f"{part} {maker}: {first + 7 * at} euros" for at, maker in enumerate(makers))
    return "; ".join(kinds) + ". All in stock, fitted within a day."


def answer(prompt: list[BaseMessage]) -> str | AIMessage:
    """Play the agent offline; the last answer comes from the observations in its prompt."""
    last = prompt[-1]
    if isinstance(last, ToolMessage):
        return f"The cheapest is the {last.text.partition(';')[0]}, fitted. Shall I order it?"
    said = TALK.get(last.text, "")
    if said in PRICES:
        call = {"name": "price", "args": {"part": said}, "id": f"price-{said}"}
        return AIMessage("", tool_calls=[call])
    facts = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    return said or " ".join(fact for fact in facts if "Thursday" in fact or "budget" in fact)


offline = ScriptedChatModel(
    answer, observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
)
model = choose_model(offline)
memory = ObservationalMemory(
    # Tiny, so that a short talk suffices; the defaults are 30,000 and 40,000.
    observation={"message_tokens": 300, "buffer_tokens": 0.4},
    reflection={"observation_tokens": 450},
    # So that every run prints the same: nothing in the background, and a day that stands still.
    buffering=InlineBuffering(),
    clock=lambda: NOW,
    message_time=lambda _: NOW,
)
config: RunnableConfig = {"configurable": {"thread_id": "jonas"}}
with SqliteSaver.from_conn_string(sys.argv[1] if sys.argv[1:] else ":memory:") as saver:
    agent = create_agent(
        model,
        [price],
        system_prompt=PROMPT,
        middleware=[ObservationalMemoryMiddleware(memory)],
        checkpointer=saver,
    )
    known = agent.get_state(config).values.get("messages", [])
    if known:
        print(f"The thread goes on after {len(known)} messages.")
    for question in list(TALK)[-1:] if known else TALK:
        said = agent.invoke({"messages": [HumanMessage(question)]}, config)["messages"]
        print(f"\nJonas: {question}\nAgent: {said[-1].text}")
    print(f"\n{memory.view(agent.get_state(config).values)}")
