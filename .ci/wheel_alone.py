"""Hold a conversation with memory, with nothing installed but the wheel and what it needs.

    python .ci/wheel_alone.py

Fails where a dependency is missing, a file is not in the wheel, or nothing is remembered.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import langgraph_om
from langgraph_om import ObservationalMemory, add_observational_memory
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel


def main() -> None:
    """Use every public name, and a memory with an archive."""
    for name in langgraph_om.__all__:
        getattr(langgraph_om, name)
    with tempfile.TemporaryDirectory() as folder:
        model = ScriptedChatModel(
            actor="Noted.",
            observer=ExtractiveObserver().reply,
            reflector=ExtractiveReflector().reply,
        )
        memory = ObservationalMemory(
            model,
            observation={"message_tokens": 200},
            reflection={"observation_tokens": 150},
            archive=f"sqlite:///{Path(folder) / 'archive.db'}",
            retrieval=True,
        )
        with memory:
            talk(memory, model, folder)


def talk(memory: ObservationalMemory, model: ScriptedChatModel, folder: str) -> None:
    """Talk in a graph of one's own, read everything back, and correct a fact by the command."""

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(memory.llm_input_messages(state))]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
    builder.add_edge("agent", "om_finish")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
    for number in range(30):
        said = f"Number {number}: the gate code of house {number} is {4000 + number}, as I said."
        graph.invoke({"messages": [("user", said)]}, config)
    memory.flush(30)
    view = memory.view(graph.get_state(config))
    checks = {
        "nothing was observed": view.record["log"],
        "nothing was condensed": view.record["generation"],
        "nothing is shown": "gate" in str(view),
        "nothing is found": memory.search("gate code 4007", resource_id="ana", limit=1),
    }
    where = ("--archive", f"sqlite:///{Path(folder) / 'archive.db'}", "--resource", "ana")
    command = (sys.executable, "-m", "langgraph_om", "search", "gate code 4007", *where)
    found = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    checks["nothing is found by the command"] = "4007" in found.stdout
    failed = [name for name, held in checks.items() if not held]
    if failed:
        sys.exit(f".ci/wheel_alone.py: {', '.join(failed)}")
    print(f"{len(view.record['log'])} groups, {view.compression_ratio:.1f} to 1")  # noqa: T201


if __name__ == "__main__":
    main()
