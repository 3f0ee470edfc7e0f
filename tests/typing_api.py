"""The public API as its users write it: this file only has to pass the type checker."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict, assert_type

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph

from langgraph_om import (
    AdoptReport,
    BackgroundBuffering,
    EstimatingCounter,
    InlineBuffering,
    MemoryRecord,
    MemoryView,
    ObservationalMemory,
    ObservationalMemoryState,
    ObservationConfig,
    ReflectionConfig,
    RetrievalConfig,
    SearchHit,
    StepResult,
    ThreadBusyError,
    ThreadMemory,
    Thresholds,
    TokenCounter,
    add_observational_memory,
    create_memory_agent,
    redactor,
)
from langgraph_om.testing import ScriptedChatModel


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    topic: str


def construct(model: BaseChatModel) -> None:
    ObservationalMemory()
    ObservationalMemory("openai/gpt-6-luna")
    ObservationalMemory(model, observation={"message_tokens": 20_000, "buffer_tokens": False})
    ObservationalMemory(
        observation=ObservationConfig(model=model, buffer_tokens=5000, block_after=1.5),
        reflection=ReflectionConfig(
            observation_tokens=60_000,
        ),
        token_counter=EstimatingCounter(),
        timezone=UTC,
        on_error="abort",
        hooks={"before_observation": redactor(tools=["read_mail"])},
        buffering=BackgroundBuffering(2),
        clock=lambda: datetime.now(UTC),
    )
    options = {"message_tokens": 20_000}
    ObservationalMemory(model, observation=options, retrieval={"scope": "thread"})
    ObservationalMemory(model, retrieval=RetrievalConfig(scope="thread", inject={"top_k": 2}))
    ObservationalMemory(model, message_tokens=20_000)  # type: ignore[call-arg]
    ObservationalMemory(model, deadline="5")  # type: ignore[arg-type]
    ObservationConfig(messageTokens=1)  # type: ignore[call-arg]
    ReflectionConfig(block_after="1.2")  # type: ignore[arg-type]
    RetrievalConfig(scope="user")  # type: ignore[arg-type]
    ObservationalMemory(model, buffering=InlineBuffering())
    counter: TokenCounter = EstimatingCounter(provider="google")
    assert_type(counter.count_text("text"), int)


def own_graph(memory: ObservationalMemory, model: BaseChatModel) -> None:
    def agent(state: State) -> dict[str, Any]:
        prompt = memory.llm_input_messages(state, system=SystemMessage("You help."))
        assert_type(prompt, list[BaseMessage])
        return {"messages": [model.invoke(prompt)]}

    builder = StateGraph(State)
    builder.add_node("agent", agent)
    gate = add_observational_memory(builder, memory, before="agent")
    assert_type(gate, str)
    builder.add_edge(START, gate)
    StateGraph(ObservationalMemoryState)


def ready_agent(memory: ObservationalMemory, tools: list[BaseTool]) -> None:
    agent = create_memory_agent(
        "openai/gpt-6-luna",
        tools,
        memory=memory,
        system_prompt="You help.",
        checkpointer=InMemorySaver(),
    )
    assert_type(agent, CompiledStateGraph[Any, Any, Any, Any])
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    thread = memory.of(agent, config)
    assert_type(thread, ThreadMemory)
    assert_type(thread.remember("x", date="2026-03-02"), str)
    assert_type(thread.pin_message("m1"), str)
    assert_type(thread.view(history=True), MemoryView)
    assert_type(thread.search("x", limit=3), list[SearchHit])
    assert_type(thread.observe(), AdoptReport)
    assert_type(thread.title(), str | None)
    assert_type(thread.delete(), list[str])
    assert_type(thread.move_to("ben"), str)
    memory.move_thread("t", "ana", "ben", store=None)
    create_memory_agent(ScriptedChatModel(actor="ok"))


async def thread_memory(thread: ThreadMemory) -> None:
    assert_type(await thread.aremember("x", date="2026-03-02"), str)
    assert_type(await thread.acorrect("x", "y"), str)
    assert_type(await thread.aview(), MemoryView)
    assert_type(await thread.asearch("x", role="user"), list[SearchHit])
    assert_type(await thread.aadopt(progress=print), AdoptReport)
    assert_type(await thread.ahistory(3), list[MemoryRecord])
    with suppress(ThreadBusyError):
        await thread.aundo()


async def no_graph(memory: ObservationalMemory, messages: list[BaseMessage]) -> None:
    result = memory.step(None, messages, thread_id="t")
    assert_type(result, StepResult)
    assert_type(result.record, MemoryRecord)
    assert_type(result.record["log"][0]["text"], str)
    assert_type(await memory.astep(result.record, messages, final=True), StepResult)
    assert_type(memory.thresholds, Thresholds)
    assert_type(memory.thresholds.buffer_tokens, int | None)
    assert_type(memory.view({"messages": messages, "om": result.record}), MemoryView)
    assert_type(memory.view({}).to_html(), str)
    assert_type(memory.updates.remember("x", date="2026-03-02"), list[dict[str, Any]])
    assert_type(memory.updates.correct("x", "y", state={}), list[dict[str, Any]])
    assert_type(memory.updates.undo(), list[dict[str, Any]])
    assert_type(memory.flush(1.0), bool)
    with memory:
        pass
    async with memory as same:
        assert_type(same, ObservationalMemory)
