from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om import ConfigurationError, EstimatingCounter
from langgraph_om.core.tokens.counters import CalibratedCounter, calibration_of

COUNTER = EstimatingCounter()


def conversation(factor: float, *, turns: int = 40, fixed: int = 5000) -> list[BaseMessage]:
    """A conversation with a provider that counts `factor` as many tokens, and a fixed prompt."""
    messages: list[BaseMessage] = [SystemMessage("Be kind.")]
    size = 0.0
    for number in range(turns):
        asked = HumanMessage(f"Tell me about day {number} of the trip, and what the museum costs.")
        size += COUNTER.count_message(asked) * factor
        usage: Any = {"input_tokens": round(fixed + size), "output_tokens": 5, "total_tokens": 0}
        answer = AIMessage(f"Day {number}: a walk, and 12 euros. " * 6, usage_metadata=usage)
        size += COUNTER.count_message(answer) * factor
        messages += [asked, answer]
    return messages


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3, 1.8])
def test_factor_is_found_whatever_the_fixed_prompt_is(factor: float) -> None:
    assert calibration_of(conversation(factor), COUNTER) == pytest.approx(factor, rel=0.12)
    assert calibration_of(conversation(factor, fixed=0), COUNTER) == pytest.approx(factor, rel=0.12)


@pytest.mark.parametrize(("factor", "expected"), [(0.3, 0.5), (3.5, 2.0)])
def test_factor_is_bounded(factor: float, expected: float) -> None:
    assert calibration_of(conversation(factor, turns=400), COUNTER) == expected


def test_few_messages_change_little() -> None:
    assert calibration_of(conversation(1.8, turns=3), COUNTER) < 1.2


def test_prompt_that_was_cut_in_between_is_passed_over() -> None:
    messages = conversation(1.3)
    shorter = messages[41].model_copy(
        update={"usage_metadata": {"input_tokens": 900, "output_tokens": 5, "total_tokens": 905}}
    )
    cut = [*messages[:41], shorter, *messages[42:]]
    assert calibration_of(cut, COUNTER) == pytest.approx(1.3, rel=0.12)


@pytest.mark.parametrize(
    "messages", [[], [HumanMessage("Hi")], [HumanMessage("Hi"), AIMessage("Ho")]]
)
def test_without_reports_nothing_is_known(messages: list[BaseMessage]) -> None:
    assert calibration_of(messages, COUNTER) == 1.0


@given(st.lists(st.integers(min_value=0, max_value=10**7), max_size=30))
def test_any_reports_give_a_factor_in_bounds(sizes: list[int]) -> None:
    messages = [
        AIMessage(
            "Noted.", usage_metadata={"input_tokens": n, "output_tokens": 1, "total_tokens": n + 1}
        )
        for n in sizes
    ]
    assert 0.5 <= calibration_of(messages, COUNTER) <= 2


def test_calibrated_counter_counts_by_its_factor() -> None:
    counter = CalibratedCounter(COUNTER, 1.5)
    text = "A walk along the river, and then the museum of tiles."
    assert counter.count_text(text) == round(COUNTER.count_text(text) * 1.5)
    message = HumanMessage(text)
    assert counter.count_message(message) == round(COUNTER.count_message(message) * 1.5)
    assert counter.identity != COUNTER.identity


@pytest.mark.parametrize("factor", [0, 0.4, 2.1, "1", True, float("nan")])
def test_factor_out_of_range_is_refused(factor: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"`factor` is .*0\.5\.\.2\.0"):
        CalibratedCounter(COUNTER, factor)
