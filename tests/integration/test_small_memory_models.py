"""Memory's models may read little: what they are asked fits, and no thread stops being observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    SQLAlchemyArchive,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.inside import OTHERS_ID, count_messages
from support.shared_world import Agent, config, sharing

COUNTER = EstimatingCounter()


class StatusError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status


class Small:
    """Memory's model, which refuses what is longer than its window."""

    def __init__(self, window: int, says: str, *, profile: bool = False) -> None:
        self.window, self.says = window, says
        self.refused, self.taken = 0, 0
        roles = {
            "observer": self._reply(ExtractiveObserver().reply),
            "reflector": self._reply(ExtractiveReflector().reply),
            "title": self._reply(lambda _: AIMessage("A trip to Tromso")),
        }
        self.model = ScriptedChatModel(**roles)
        if profile:
            self.model.profile = {"max_input_tokens": window}

    def _reply(self, reply: Any) -> Any:
        def answer(messages: list[BaseMessage]) -> Any:
            size = count_messages(COUNTER, messages)
            if size > self.window:
                self.refused += 1
                if self.says == "nothing":
                    return AIMessage("")
                raise StatusError(400, self.says.format(size=size, window=self.window))
            self.taken += 1
            return reply(messages)

        return answer


def build(model: Any, **options: Any) -> tuple[ObservationalMemory, Any, list[int]]:
    sizes: list[int] = []

    def actor(messages: list[BaseMessage]) -> AIMessage:
        sizes.append(count_messages(COUNTER, messages))
        return AIMessage("ok")

    memory = ObservationalMemory(model, buffering=InlineBuffering(), **options)
    agent = create_memory_agent(
        ScriptedChatModel(actor=actor), memory=memory, checkpointer=InMemorySaver()
    )
    return memory, agent, sizes


def talk(agent: Any, turns: int, words: int = 60) -> Any:
    state = None
    for number in range(turns):
        text = (
            f"Stop {number} is at quay {number}. " + f"Quay {number} has lamps of brass. " * words
        )
        config = {"configurable": {"thread_id": "t"}}
        state = agent.invoke({"messages": [HumanMessage(text)]}, config)
    return state


@pytest.mark.parametrize(
    ("window", "says"), [(4000, "ne convient pas"), (8000, "{size} sent, {window} read")]
)
def test_an_observer_of_any_window_keeps_up(window: int, says: str) -> None:
    small = Small(window, says)
    _, agent, sizes = build(small.model)
    talk(agent, 110)
    assert max(sizes) < 50_000
    assert small.refused <= 16


@pytest.mark.parametrize("says", ["{size} sent, {window} read", "zu viel"])
def test_a_log_larger_than_its_reflector_comes_down(says: str) -> None:
    small = Small(4500, says)
    _, agent, _ = build(
        small.model,
        observation={"message_tokens": 600},
        reflection={"observation_tokens": 3000},
    )
    state = talk(agent, 250, words=12)
    log = sum(group["tokens"] for group in state["om"]["log"])
    assert state["om"]["log"]
    assert log < 5000
    assert any(group["kind"] == "reflection" for group in state["om"]["log"])


@pytest.mark.parametrize("says", ["troppo", "profile"])
def test_threads_of_a_user_are_observed_in_as_many_questions_as_it_takes(
    says: str, tmp_path: Path
) -> None:
    small = Small(6500, says, profile=says == "profile")
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")
    memory = sharing(archive, small.model, observation={"message_tokens": 5000})
    agent = Agent(memory, InMemorySaver())
    for thread in ("trips", "work", "home"):
        for turn in range(7):
            text = f"Code {thread}-{turn} is new. " + f"Quay {turn} has lamps of brass. " * 60
            agent.graph.invoke({"messages": [HumanMessage(text)]}, config(thread))
    record, messages = agent.state("home")
    others = [message.text for message in messages if message.id == OTHERS_ID]
    archive.close()
    known = {group["thread_id"] for group in record["others"]["known"]}
    assert known >= {"trips", "work"}
    assert sum(map(COUNTER.count_text, others)) < 5000
    assert small.refused <= (0 if says == "profile" else 20)
