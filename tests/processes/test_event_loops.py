"""One memory in a process that runs many event loops, with real clients."""

from __future__ import annotations

import pytest

from support.programs import run_program
from support.wire_server import Reply, gemini_says, openai_says, reach, serve

NOTED = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon\n</observations>"
LOOPS = """
import asyncio
from langchain_core.messages import HumanMessage
from langgraph_om import ObservationalMemory

settings = {"message_tokens": 300, "buffer_tokens": False}
said = [HumanMessage("We are planning a trip to Lisbon. " * 20, id=f"h{at}") for at in range(2)]
for name in ("openai/gpt-6-sol", "google/gemini-flash-latest"):
    memory = ObservationalMemory([{"model": name, "max_retries": 0}], observation=settings)
    for _ in range(3):
        result = asyncio.run(memory.astep(None, said, thread_id="t"))
        print([part["type"] for part in result.events])
"""


def test_one_memory_serves_many_event_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process of its own: the clients leave open connections behind with each loop.
    with serve() as provider:
        reach(provider, monkeypatch)
        provider.keeps_alive = True
        provider.says(Reply({**openai_says(NOTED).body, **gemini_says(NOTED).body}))  # for either
        done = run_program("-c", LOOPS)
    assert ["observation-end" in line for line in done.stdout.splitlines()] == [True] * 6
    assert "failed" not in done.stdout
