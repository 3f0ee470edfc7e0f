"""With models that obey sizes only roughly and forget the form at times, memory stays in bounds."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_om.core.effects import AskModel
from langgraph_om.core.record.record import log_tokens
from langgraph_om.testing import RoughObserver, RoughReflector
from support.agents import CITIES
from support.simulation import Simulation, settings

TURNS = 260
CONFIG = settings(message_tokens=600, observation_tokens=1500, buffer_tokens=False)


def said(number: int) -> str:
    """What a user says, with facts that differ from turn to turn."""
    city = CITIES[number % len(CITIES)]
    return (
        f"Hello again! I moved to {city} with my sister Ana{number} because the rent is just "
        f"{number * 10 + 300} euros. We really want to see the harbour museum on trip {number}, "
        "and I am a bit afraid of the long drive."
    )


class Talk(Simulation):
    """A conversation in which every turn tells something."""

    def turn(self, number: int) -> None:
        self._add(HumanMessage(said(number)))
        self.step()
        self._add(AIMessage(f"Noted: trip {number}. I suggest 3 walks and an early start."))


def converse(seed: int, turns: int = TURNS, **options: Any) -> tuple[Talk, list[dict[str, Any]]]:
    """A conversation, and the end events of its reflections."""
    observer, reflector = RoughObserver(seed), RoughReflector(seed, **options)

    def answer(call: AskModel) -> str:
        return (observer if call.role == "observer" else reflector).reply(call.messages)

    talk = Talk(CONFIG, answer)
    for number in range(turns):
        talk.turn(number)
        assert set(talk.coverage()) == {1}
        assert log_tokens(talk.record) < 1.4 * 1500
    ends = [
        event
        for event in talk.events
        if event["type"] == "observation-end" and event["operation"] == "reflection"
    ]
    return talk, ends


@pytest.mark.slow
def test_a_hundred_reflections_take_at_most_130_questions() -> None:
    ends: list[dict[str, Any]] = []
    for seed in range(12):
        ends += converse(seed)[1]
        if len(ends) >= 100:
            break
    assert len(ends) >= 100
    questions = sum(event["usage"]["calls"] for event in ends[:100])
    assert questions <= 130
    assert sum(event.get("edits", 0) > 0 for event in ends) >= 90


def test_models_that_often_forget_the_form_still_bound_the_log() -> None:
    _, ends = converse(5, 120, spread=0.5, forgets=0.3, errs=0.3)
    assert ends
    assert all(event["usage"]["calls"] <= 3 for event in ends)


def test_the_same_seed_gives_the_same_conversation() -> None:
    assert converse(3, 60)[0].record == converse(3, 60)[0].record
    assert converse(3, 60)[0].record != converse(4, 60)[0].record
