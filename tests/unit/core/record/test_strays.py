"""Messages that are put before what is observed: loaded late, in front, or by a rewrite."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock
from support.examples import examples
from support.words import Words

NOTE = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User said it\n</observations>"


class Talk:
    """A conversation of one's own, its memory, and what the models are given."""

    def __init__(self, **options: Any) -> None:
        self.model = ScriptedChatModel(observer=lambda _: NOTE, reflector=lambda _: NOTE)
        observation = {"message_tokens": 300, "buffer_tokens": False}
        self.memory = ObservationalMemory(
            self.model,
            observation=options.pop("observation", observation),
            token_counter=Words(),
            buffering=InlineBuffering(),
            clock=Clock(),
            **options,
        )
        self.messages: list[BaseMessage] = []
        self.result: Any = None
        self.said = 0

    def say(self, turns: int = 1) -> None:
        for _ in range(turns):
            key, self.said = self.said, self.said + 1
            self.messages.append(HumanMessage(f"u{key} " + "word " * 20, id=f"u{key}"))
            record = self.result.record if self.result else None
            self.result = self.memory.step(record, self.messages, thread_id="t")
            self.messages.append(AIMessage(f"a{key} " + "word " * 20, id=f"a{key}"))

    def evict(self) -> None:
        gone = set(self.result.evicted)
        self.messages = [message for message in self.messages if message.id not in gone]

    def covered(self) -> dict[str, int]:
        """How many ranges of the log cover each message, by its place in the conversation."""
        places = {str(message.id): at for at, message in enumerate(self.messages)}
        counts = dict.fromkeys(places, 0)
        for each in self.result.record["log"]:
            for first, last in each["ranges"]:
                for key in list(places)[places[first] : places[last] + 1]:
                    counts[key] += 1
        return counts

    def unseen(self) -> list[str]:
        """What the Observer has never read, and the Actor is not shown."""
        read = "\n".join(call["messages"][-1].text for call in self.model.calls)
        shown = {message.id for message in self.result.messages}
        return [
            str(message.id)
            for message in self.messages[:-1]
            if message.type != "system"
            and message.id not in shown
            and message.text.split()[0] not in read.split()
        ]

    def check(self) -> None:
        """The first law: in the prompt word for word, or covered once."""
        shown = {message.id for message in self.result.messages}
        for key, count in self.covered().items():
            if key != self.messages[-1].id:
                assert count + (key in shown) in (1, 2), key  # the live request may be both
                assert count <= 1, key
        assert self.unseen() == []


def late(*keys: str) -> list[BaseMessage]:
    return [HumanMessage(f"{key} I am allergic to walnuts " + "word " * 20, id=key) for key in keys]


def test_history_that_is_loaded_late_is_shown_and_then_observed() -> None:
    talk = Talk()
    talk.say(20)
    assert talk.covered()["u0"] == 1
    talk.messages[:0] = late("old0", "old1")
    talk.say()
    assert [message.id for message in talk.result.messages[2:4]] == ["old0", "old1"]
    talk.say(20)
    talk.check()
    log = talk.result.record["log"]
    assert log[0]["ranges"] == [["old0", "old1"]], "in the order of the conversation"
    assert talk.result.record["observed"]["strays"] == []


def test_what_cannot_be_found_among_the_observed_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    talk = Talk()
    talk.say(20)
    talk.messages[3:3] = late("inside")
    with caplog.at_level(logging.WARNING, "langgraph_om"):
        talk.say(5)
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 1
    assert "1 message(s) were put among those that are observed" in told[0]


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_what_is_put_among_the_newest_observed_is_shown_and_then_observed(
    buffer_tokens: float, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk(observation={"message_tokens": 300, "buffer_tokens": buffer_tokens})
    talk.say(20)
    named = talk.result.record["cursor"]
    at = [message.id for message in talk.messages].index(named[5])
    talk.messages[at:at] = late("inside0", "inside1")
    talk.say()
    assert {"inside0", "inside1"} <= {message.id for message in talk.result.messages}
    talk.say(20)
    assert talk.unseen() == []
    assert talk.result.record["observed"]["strays"] == []
    ranges = [ends for group in talk.result.record["log"] for ends in group["ranges"]]
    assert ranges.count(["inside0", "inside1"]) == 1
    assert caplog.records == []


@pytest.mark.parametrize("place", [0, 2])
def test_where_observed_messages_are_evicted(place: int, caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(archive="sqlite://", evict=True)
    for _ in range(20):
        talk.say()
        talk.evict()
    assert len(talk.messages) < 40
    talk.messages[place:place] = late("old0", "old1")
    talk.say()
    assert {"old0", "old1"} <= {message.id for message in talk.result.messages}
    for _ in range(20):
        talk.evict()
        talk.say()
    assert talk.unseen() == []
    log = talk.result.record["log"]
    assert [group["ranges"] for group in log].count([["old0", "old1"]]) == 1
    archive: Any = talk.memory.archive
    assert archive.contains("t", ["old0", "old1"]) == {"old0", "old1"}
    assert caplog.records == []


@examples(25)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=5))
def test_every_message_in_front_is_shown_or_covered_once(rounds: list[tuple[int, int]]) -> None:
    talk = Talk(reflection={"observation_tokens": 60})
    talk.say(12)
    for number, (turns, count) in enumerate(rounds):
        talk.messages[:0] = late(*(f"old{number}.{at}" for at in range(count)))
        talk.say(turns)
        talk.check()
