"""The messages that are of no usual class are found whatever was looked at before."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)

from langgraph_om.core.content import speakers
from langgraph_om.core.content.speakers import SPEAKERS, find_others
from support.examples import examples


def long(count: int = 500) -> list[BaseMessage]:
    """A conversation that is worth remembering."""
    return [
        HumanMessage(f"q{at}", id=f"m{at}") if at % 2 else AIMessage(f"a{at}", id=f"m{at}")
        for at in range(count)
    ]


def anew(messages: list[Any]) -> list[int]:
    return [at for at, each in enumerate(messages) if type(each) not in SPEAKERS]


class Story:
    """A conversation that is changed in place and otherwise."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.messages: list[Any] = long()
        self.former: list[Any] = []

    def pick(self) -> int:
        places = [0, 1, 199, 200, 201, len(self.messages) - 2, len(self.messages) - 1]
        return self.data.draw(st.sampled_from(places))

    def say(self) -> None:
        self.messages = [*self.messages, HumanMessage("more"), AIMessage("yes")]

    def say_in_place(self) -> None:
        self.messages += [AIMessageChunk("streamed"), HumanMessage("more")]

    def instruct(self) -> None:
        self.messages = [*self.messages, SystemMessage("be kind")]

    def replace(self) -> None:
        at = self.pick()
        self.messages = [*self.messages[:at], SystemMessage("new"), *self.messages[at + 1 :]]

    def replace_in_place(self) -> None:
        at = self.pick()
        self.messages[at] = SystemMessage("new") if at % 2 else {"role": "user", "content": "x"}

    def put_back(self) -> None:
        at = self.pick()
        self.messages = [*self.messages[:at], HumanMessage("said"), *self.messages[at + 1 :]]

    def remove(self) -> None:
        del self.messages[self.pick()]

    def insert(self) -> None:
        self.messages.insert(self.pick(), SystemMessage("late"))

    def shorten(self) -> None:
        self.messages = self.messages[: self.pick()] if self.data.draw(st.booleans()) else long()

    def load(self) -> None:
        self.messages = [
            each.model_copy() if isinstance(each, BaseMessage) else each for each in self.messages
        ]

    def go_back(self) -> None:
        self.messages = [*self.former]


ACTS = [name for name in vars(Story) if not name.startswith("_") and name != "pick"]


@examples(300)
@given(st.data(), st.lists(st.sampled_from(ACTS), max_size=12))
def test_the_same_is_found_as_when_each_message_is_looked_at(
    data: st.DataObject, acts: list[str]
) -> None:
    story = Story(data)
    for act in acts:
        if len(story.messages) < 300:
            story.messages = long()
        before = [*story.messages]
        getattr(story, act)()
        story.former = before
        assert [*find_others(story.messages)] == anew(story.messages)
        assert [*find_others(story.messages)] == anew(story.messages)
        assert [*find_others(tuple(story.messages))] == anew(story.messages)


def test_a_conversation_is_not_kept() -> None:
    messages = long()
    first = weakref.ref(messages[0])
    find_others(messages)
    window = messages[-100:]  # which somebody has still
    del messages
    gc.collect()
    assert first() is None
    assert window


def test_few_conversations_are_remembered() -> None:
    alive = [long() for _ in range(40)]
    for messages in alive:
        find_others(messages)
    assert len(speakers._known) <= 16
    assert [*find_others([*alive[0], SystemMessage("x")])] == [500]
