"""A prompt that is refused is asked again with less, whatever the refusal says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.inside import count_messages

COUNTER = EstimatingCounter()
WINDOW = 2500
Answer = Callable[[list[BaseMessage]], Any]


class StatusError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status


def wrapped(error: Exception) -> Exception:
    outer = RuntimeError("the gateway failed")
    outer.__cause__ = error
    return outer


def in_stream(text: str) -> Exception:
    request = httpx.Request("POST", "http://localhost/v1/chat/completions")
    return openai.APIError(text, request, body={"message": text})


REFUSALS: dict[str, Any] = {
    "sizes": StatusError(400, f"4,100 tokens were sent and {WINDOW:,} can be read"),
    "German": StatusError(400, "Die Eingabe passt nicht in das Modell."),
    "Japanese": StatusError(422, "入力が長すぎます"),
    "Portuguese": StatusError(413, "Pedido demasiado grande"),
    "nothing": StatusError(400, ""),
    "a crash": StatusError(500, "slot unavailable"),
    "wrapped": wrapped(StatusError(400, "nope")),
    "an error frame": in_stream("cannot enqueue the job"),
    "no status": ValueError("the job needs 9 pages of 4"),
    "an empty answer": "",
}


def build(door: str, model: ScriptedChatModel, **options: Any) -> tuple[ObservationalMemory, Any]:
    given: dict[str, Any] = {"observation": {"message_tokens": 600}, **options}
    memory = ObservationalMemory(ExtractiveObserver(), buffering=InlineBuffering(), **given)
    saver = InMemorySaver()
    if door == "agent":
        return memory, create_memory_agent(
            model, memory=memory, checkpointer=saver, system_prompt="You plan trips."
        )
    if door == "middleware":
        middleware = [ObservationalMemoryMiddleware(memory)]
        return memory, create_agent(
            model, [], middleware=middleware, checkpointer=saver, system_prompt="You plan trips."
        )
    ask, aask = memory.with_second_try(model.invoke), memory.with_second_try(model.ainvoke)

    def agent(state: MessagesState) -> Any:
        return {"messages": [ask(state, system="You plan trips.")]}

    async def aagent(state: MessagesState) -> Any:
        return {"messages": [await aask(state, system="You plan trips.")]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", RunnableLambda(agent, aagent))
    builder.add_edge(START, add_observational_memory(builder, memory, before="agent"))
    return memory, builder.compile(checkpointer=saver)


def said(number: int) -> HumanMessage:
    return HumanMessage(
        f"Stop {number} is in Tromso. "
        + " ".join(f"Berth {number}-{at} costs {number}{at:02} crowns." for at in range(15))
    )


async def talk(graph: Any, turns: int, *, is_async: bool, thread: str = "t") -> list[str]:
    config = {"configurable": {"thread_id": thread}}
    answers = []
    for number in range(turns):
        given = {"messages": [said(number)]}
        state = await graph.ainvoke(given, config) if is_async else graph.invoke(given, config)
        answers.append(state["messages"][-1].text)
    return answers


def actor(answer: Answer, sent: list[list[BaseMessage]]) -> ScriptedChatModel:
    def reply(messages: list[BaseMessage]) -> Any:
        sent.append(messages)
        found = answer(messages)
        if isinstance(found, Exception):
            raise found
        return found

    return ScriptedChatModel(actor=reply)


DOORS = ("agent", "middleware", "own")
doors = pytest.mark.parametrize("door", DOORS)


@pytest.mark.parametrize(
    ("refusal", "door", "is_async"),
    [(refusal, DOORS[at % 3], at % 2 == 1) for at, refusal in enumerate(REFUSALS)],
)
async def test_a_thread_goes_on_in_any_words(refusal: str, door: str, *, is_async: bool) -> None:
    sent: list[list[BaseMessage]] = []
    refused: list[int] = []

    def answer(messages: list[BaseMessage]) -> Any:
        size = count_messages(COUNTER, messages)
        if size <= WINDOW:
            return AIMessage("ok")
        refused.append(size)
        found = REFUSALS[refusal]
        return AIMessage("") if found == "" else found

    observation = {"message_tokens": 30_000}
    memory, graph = build(door, actor(answer, sent), observation=observation)
    assert await talk(graph, 30, is_async=is_async) == ["ok"] * 30
    assert 1 <= len(refused) <= 6
    assert memory.actor_window is None  # no other thread is shown less


@doors
async def test_a_server_that_takes_only_texts_is_asked_with_texts(door: str) -> None:
    sent: list[list[BaseMessage]] = []
    refused: list[int] = []

    def answer(messages: list[BaseMessage]) -> Any:
        if all(isinstance(message.content, str) for message in messages):
            return AIMessage("ok")
        refused.append(len(messages))
        return StatusError(400, "system: expected a string")

    _, graph = build(door, actor(answer, sent))
    assert await talk(graph, 14, is_async=False) == ["ok"] * 14
    assert "Berth" in sent[-1][0].text
    assert sent[-1][0].text.startswith("You plan trips.\n\n")
    assert len(refused) <= 2  # it is remembered for the model


@doors
@pytest.mark.parametrize("status", [401, 429, 503])
async def test_other_failures_are_not_asked_again(door: str, status: int) -> None:
    sent: list[list[BaseMessage]] = []
    error = StatusError(status, "the context length of 2500 tokens is exceeded")
    _, graph = build(door, actor(lambda _: error, sent))
    with pytest.raises(StatusError):
        await talk(graph, 1, is_async=False)
    assert len(sent) == 1
