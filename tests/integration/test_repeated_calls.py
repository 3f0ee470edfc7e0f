"""Other middleware that calls the model again, twice at once, from threads, or gives up on it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om.integrations.middleware import ObservationalMemoryMiddleware
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import (
    SYSTEM,
    Agent,
    actor,
    atalk,
    of_kind,
    on_thread,
    record_of,
    refusals,
    remembering,
    scripted,
    search,
    talk,
    turns,
    uncovered,
    values,
)
from support.clock import Clock
from support.waiting import aeventually

CONFIG = on_thread()
LIMITS: dict[str, Any] = {"messages": 300, "log": 200}
EVICTING: dict[str, Any] = {"messages": 200, "archive": "sqlite://", "evict": True}
SAID = turns(9, lookups=("", "2,1"))

Middleware = AgentMiddleware[Any, Any, Any]
both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
WAYS: dict[str, type[Executor] | None] = {
    "async": None,
    "threads with context": ContextThreadPoolExecutor,
    "plain threads": ThreadPoolExecutor,
}
each_way = pytest.mark.parametrize("pool", WAYS.values(), ids=WAYS)


def beside(
    *around: Middleware,
    model: ScriptedChatModel | None = None,
    observed_by: Any = None,
    **options: Any,
) -> Agent:
    """An agent whose memory stands behind other middleware."""
    model, clock = model if model is not None else scripted(), Clock()
    memory = remembering(observed_by or model, clock, **{**LIMITS, **options})
    graph = create_agent(
        model,
        [search],
        system_prompt=SYSTEM,
        middleware=[*around, ObservationalMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    return Agent(graph, memory, model, clock)


async def talked(agent: Agent, said: list[HumanMessage], *, is_async: bool) -> list[dict[str, Any]]:
    return await atalk(agent.graph, CONFIG, said) if is_async else talk(agent.graph, CONFIG, said)


def remembers(agent: Agent) -> bool:
    """Whether memory has worked, lost nothing, and made only prompts that providers take."""
    state = values(agent.graph, CONFIG)
    return (
        bool(state["om"]["log"])
        and uncovered(agent.memory, state) == []
        and refusals(agent.prompts()) == []
    )


class Hedging(Middleware):
    """Calls the model twice at once, and takes one of the answers."""

    def __init__(self, pool: type[Executor] | None) -> None:
        super().__init__()
        self._pool: Any = pool

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        with self._pool(max_workers=2) as pool:
            answers = [pool.submit(handler, request) for _ in range(2)]
            return answers[1].result() and answers[0].result()

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return (await asyncio.gather(handler(request), handler(request)))[0]


@each_way
async def test_two_calls_at_once_have_one_turn_of_memory(pool: type[Executor] | None) -> None:
    once, hedged = beside(), beside(Hedging(pool))
    for agent in (once, hedged):
        parts = await talked(agent, SAID, is_async=pool is None)
        assert len(of_kind(parts, "status")) == len(once.prompts())
    assert hedged.asked("observer") == once.asked("observer") > 1
    records = [record_of(agent.graph, CONFIG) for agent in (once, hedged)]
    for key in ("turn", "generation"):
        assert records[1][key] == records[0][key]
    assert remembers(hedged)


@both_ways
async def test_two_calls_at_once_evict_once(*, is_async: bool) -> None:
    agent = beside(Hedging(ContextThreadPoolExecutor), **EVICTING)
    await talked(agent, turns(16), is_async=is_async)
    state = values(agent.graph, CONFIG)
    assert state["om"]["evicted"] is not None
    assert len(state["messages"]) < 32


class Flaky:
    """An Actor that is away until it is called back."""

    is_away = False
    fails_again = False
    """Whether it is away where it was called before with the same."""

    def __init__(self) -> None:
        self._last: list[BaseMessage] = []

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        again, self._last = messages == self._last, messages
        if self.is_away or (self.fails_again and again):
            msg = "away"
            raise ConnectionError(msg)
        return actor(messages)


class Doubtful(Middleware):
    """Has the model look at its answer again, and stays with the first one where that fails."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        first = handler(request)
        try:
            return handler(request)
        except ConnectionError:
            return first

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        first = await handler(request)
        try:
            return await handler(request)
        except ConnectionError:
            return first


@both_ways
async def test_memory_holds_where_the_last_call_failed(*, is_async: bool) -> None:
    flaky = Flaky()
    agent = beside(Doubtful(), model=scripted(actor=flaky))
    await talked(agent, turns(6), is_async=is_async)
    flaky.fails_again = True
    await talked(agent, turns(4, start=6), is_async=is_async)
    flaky.fails_again = False
    await talked(agent, turns(1, start=10), is_async=is_async)
    assert remembers(agent)


# --- A timeout around the call -------------------------------------------------------------------


class Slow:
    """An Observer that answers once it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.asked = 0
        self.model = RunnableLambda(self._answer, self._aanswer)

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self._begin()
        assert self.go.wait(60)
        return AIMessage(str(ExtractiveObserver().reply(messages)))

    async def _aanswer(self, messages: list[BaseMessage]) -> AIMessage:
        self._begin()
        await aeventually(self.go.is_set)
        return AIMessage(str(ExtractiveObserver().reply(messages)))

    def _begin(self) -> None:
        self.asked += 1
        self.begun.set()


class Hasty(Middleware):
    """Gives up on a call as soon as the Observer is asked in it, and calls once more."""

    def __init__(self, slow: Slow, pool: type[Executor] | None) -> None:
        super().__init__()
        self._slow = slow
        self._pool: Any = pool

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        pool = self._pool()
        first: Future[Any] = pool.submit(handler, request)
        while not first.done() and not self._slow.begun.wait(0.01):
            pass
        if first.done():
            return first.result()
        self._slow.begun.clear()
        second: Future[Any] = pool.submit(handler, request)
        self._slow.go.set()
        return second.result()

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        first = asyncio.ensure_future(handler(request))
        await aeventually(lambda: first.done() or self._slow.begun.is_set())
        if first.done():
            return first.result()
        self._slow.begun.clear()
        first.cancel()
        await asyncio.wait([first])
        self._slow.go.set()
        return await handler(request)


@each_way
async def test_observer_goes_on_where_the_call_around_it_is_given_up(
    pool: type[Executor] | None,
) -> None:
    slow = Slow()
    agent = beside(Hasty(slow, pool), observed_by=slow.model, log=10_000)
    await talked(agent, turns(5), is_async=pool is None)
    assert slow.asked == 1
    assert remembers(agent)
