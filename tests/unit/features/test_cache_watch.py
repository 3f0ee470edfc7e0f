"""A provider's cache that is broken again and again: the warning, once for each reason."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.clock import Clock


class Talk:
    """An agent with a provider that tells of its cache."""

    def __init__(self, **options: Any) -> None:
        self.cached, self.model, self.clock = 0, "gpt-5-mini", Clock()
        self.memory = ObservationalMemory(
            ScriptedChatModel(observer=ExtractiveObserver().reply), clock=self.clock, **options
        )
        self.agent = create_memory_agent(
            ScriptedChatModel(self._answer), memory=self.memory, checkpointer=InMemorySaver()
        )

    def _answer(self, _: Any) -> AIMessage:
        return AIMessage(
            "Noted.",
            usage_metadata={
                "input_tokens": 4000,
                "output_tokens": 1,
                "total_tokens": 4001,
                "input_token_details": {"cache_read": self.cached},
            },
            response_metadata={"model_name": self.model, "model_provider": "openai"},
        )

    def say(self, turns: int, thread: str = "t", pause: timedelta = timedelta(seconds=5)) -> None:
        for number in range(turns):
            self.agent.invoke(
                {"messages": [("user", f"My garden {number} of Ghent has {number} roses.")]},
                {"configurable": {"thread_id": thread}},
            )
            self.clock.now += pause


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_broken_cache_is_told_once_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk()
    talk.say(5)
    assert warnings(caplog) == []
    talk.say(10)
    (said,) = warnings(caplog)
    assert "20,000 input tokens of the newest 5 answers in thread 't', 0 %" in said
    assert "system prompt" in said
    talk.say(6, thread="other")
    assert len(warnings(caplog)) == 2


def test_a_cache_that_works_again_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk()
    talk.cached = 3800
    talk.say(20)
    assert warnings(caplog) == []


def test_pauses_and_changes_of_the_model_are_named(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk()
    talk.say(8, pause=timedelta(hours=2))
    assert "5 pauses in 5 answers were longer than the 300 seconds" in warnings(caplog)[-1]
    for at in range(12):
        talk.model = ("small", "large")[at % 2]
        talk.say(1)
    assert "(gpt-5-mini and large and small)" in warnings(caplog)[-1]


def test_a_log_that_changes_all_the_time_is_named(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(observation={"message_tokens": 30, "buffer_tokens": False})
    talk.say(12)
    assert "The log changed" in warnings(caplog)[-1]
    assert "raise message_tokens or buffer_tokens" in warnings(caplog)[-1]
