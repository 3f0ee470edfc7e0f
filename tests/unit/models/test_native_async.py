"""Models that only look as if they could be awaited do not use up the event loop's threads."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

from langgraph_om import ObservationalMemory

NOTED = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon\n</observations>"
SAID = [HumanMessage("We are planning a trip to Lisbon. " * 20, id=f"h{at}") for at in range(2)]


class Blocking(BaseChatModel):
    """A model as most people write their first: `_generate` and no more."""

    gate: Any = None
    seen: Any = None

    @property
    def _llm_type(self) -> str:
        return "blocking"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if self.seen is not None:
            self.seen.add(threading.current_thread().name)
        if self.gate is not None:
            self.gate.wait()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(NOTED))])


def remembering(model: Any, deadline: float) -> ObservationalMemory:
    return ObservationalMemory(
        model, observation={"message_tokens": 200, "buffer_tokens": False}, deadline=deadline
    )


@pytest.mark.parametrize("as_function", [False, True], ids=["model", "function"])
async def test_calls_given_up_on_leave_the_loops_threads_to_others(*, as_function: bool) -> None:
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(2))  # those of a small machine

    def wait(_: object) -> str:
        gate.wait()
        return NOTED

    model = RunnableLambda(wait) if as_function else Blocking(gate=gate)
    memory = remembering(model, deadline=0.3)
    try:
        steps = [memory.astep(None, SAID, thread_id=f"t{at}") for at in range(6)]
        results = await asyncio.wait_for(asyncio.gather(*steps), 120)
        errors = [
            part["data"]["error"]
            for result in results
            for part in result.events
            if part["type"] == "data-om-observation-failed"
        ]
        assert len(errors) == 6
        assert all("deadline of 0.3 seconds" in error for error in errors)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 60) == "free"
    finally:
        gate.set()


def test_a_blocking_model_keeps_a_synchronous_turn_for_the_deadline_only() -> None:
    gate = threading.Event()
    memory = remembering(Blocking(gate=gate), deadline=0.3)
    began = time.monotonic()
    try:
        result = memory.step(None, SAID)
    finally:
        gate.set()
    assert time.monotonic() - began < 30
    assert any(part["type"] == "data-om-observation-failed" for part in result.events)
