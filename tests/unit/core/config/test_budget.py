"""One budget for window and log: what it comes down to, and that it is kept."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import (
    ConfigurationError,
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    ObservationConfig,
    ReflectionConfig,
    Thresholds,
)
from langgraph_om.core.config.thresholds import LOG_PART
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.memory import runner_of
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.options import MODEL, OFF

Row = dict[str, Any]


def limits(budget: int, observation: Row, reflection: Row, **options: Any) -> Thresholds:
    memory: ObservationalMemory = ObservationalMemory(
        MODEL,
        token_budget=budget,
        observation=observation,  # type: ignore[arg-type]
        reflection=reflection,  # type: ignore[arg-type]
        **options,
    )
    return memory.thresholds


@pytest.mark.parametrize(
    ("budget", "observation", "reflection", "window", "log"),
    [
        (84_000, {}, {}, 17_500, 57_272),
        (70_000, OFF, {}, 17_500, 52_500),
        (8_400, {}, {}, 1_750, 5_727),
        (8_400, {"block_after": 1.5}, {}, 1_400, 5_727),
        (8_400, {}, {"block_after": 1.5}, 1_750, 4_200),
        (8_400, {"message_tokens": 2_000}, {}, 2_000, 5_454),
        (8_400, {}, {"observation_tokens": 1_000}, 6_083, 1_000),
        (8_400, {"block_after": 2_400}, {}, 2_000, 5_454),
        (8_400, {}, {"block_after": 1_200}, 6_000, 1_000),
        (8_400, {"message_tokens": 3_000}, {"observation_tokens": 3_000}, 3_000, 3_000),
        (7_000, {**OFF, "message_tokens": 6_000}, {}, 6_000, 1_000),
        (7_001, OFF, {}, 1_750, 5_251),
        (50, {}, {}, 10, 34),
    ],
)
@pytest.mark.parametrize("share", [None, False, True])
def test_both_thresholds_follow_from_one_budget(
    budget: int, observation: Row, reflection: Row, window: int, log: int, *, share: bool | None
) -> None:
    found = limits(budget, observation, reflection, share_token_budget=share)
    assert (found.message_tokens, found.observation_tokens) == (window, log)
    assert type(found.message_tokens) is type(found.observation_tokens) is int
    assert found.largest_tokens <= budget


@pytest.mark.parametrize(
    ("budget", "observation", "interval"),
    [
        (84_000, {}, 3_500),  # a fifth of the window, as without a budget
        (12_000, {}, 1_500),
        (7_000, {}, 1_093),
        (7_000, {"buffer_tokens": 500}, 500),
        (7_000, OFF, None),
    ],
)
def test_a_small_window_is_not_observed_bit_by_bit(
    budget: int, observation: Row, interval: int | None
) -> None:
    assert limits(budget, observation, {}).buffer_tokens == interval


@pytest.mark.parametrize("budget", [85, 100, 999, 3_001, 128_000])
@pytest.mark.parametrize("block_after", [None, 1.01, 1.5, 1.99])
def test_where_a_turn_waits_is_within_the_budget(budget: int, block_after: float | None) -> None:
    found = limits(budget, {"block_after": block_after}, {"block_after": block_after})
    assert found.largest_tokens <= budget
    assert found.reflect_block_after <= budget * LOG_PART + 1


def test_one_budget_lends_room_within_it() -> None:
    found = limits(8_400, {}, {})
    for log in range(0, 6_300, 100):
        assert found.block_messages_at(log) + log <= 8_400
    for window in range(0, 2_100, 100):
        assert found.block_observations_at(window) + window <= 8_400


def test_messages_use_what_the_log_leaves_of_one_budget_unless_told_otherwise() -> None:
    assert limits(8_400, {}, {}).messages_at(1_000) == 1_750 + 5_727 - 1_000
    assert limits(8_400, {}, {}, share_token_budget=False).messages_at(1_000) == 1_750


@pytest.mark.parametrize(
    ("observation", "reflection"),
    [({"message_tokens": 500}, {}), ({}, {"observation_tokens": 500})],
)
def test_a_threshold_that_is_given_stays(observation: Row, reflection: Row) -> None:
    found = limits(3_000, observation, reflection)
    assert found.messages_at(0) == found.message_tokens
    assert found.observations_at(0) == found.observation_tokens
    assert limits(3_000, observation, reflection, share_token_budget=True).messages_at(0) > 500


def test_no_more_is_observed_at_once_than_by_default() -> None:
    assert limits(100_000, OFF, {}).piece_at(0) == 30_000
    assert limits(1_000_000, {}, {}).piece_at(0) == limits(1_000_000, {}, {}).message_tokens
    assert limits(100_000, {}, {}).interval_at(0) == 6_000


def test_pieces_are_larger_while_the_log_is_short() -> None:
    found = limits(7_000, {}, {})
    assert [found.interval_at(log) for log in (0, 3_000, 6_000)] == [4_670, 2_421, 1_093]
    given = limits(7_000, {"buffer_tokens": 800}, {})
    assert [given.interval_at(log) for log in (0, 3_000, 6_000)] == [800, 800, 800]


@pytest.mark.parametrize(
    ("budget", "observation", "prompt"),
    [
        (7_000, {}, "condensed"),
        (70_000, {}, "default"),
        (7_000, {"prompt": "default"}, "default"),
        (7_000, {"message_tokens": 4_000}, "default"),
    ],
)
def test_a_small_window_is_observed_by_the_shorter_rules(
    budget: int, observation: Row, prompt: str
) -> None:
    memory: ObservationalMemory = ObservationalMemory(
        MODEL,
        token_budget=budget,
        observation=observation,  # type: ignore[arg-type]
    )
    assert runner_of(memory).settings.observation.prompt == prompt


def test_reflection_begins_later_within_one_budget_unless_told_when() -> None:
    assert limits(8_400, {}, {}).reflect_buffer_at == round(5_727 * 0.9)
    assert limits(8_400, {}, {"buffer_activation": 0.4}).reflect_buffer_at == round(5_727 * 0.4)


@pytest.mark.parametrize(
    ("budget", "observation", "reflection"),
    [
        (1, {}, {}),
        (26, {}, {}),
        (8_400, {"message_tokens": 7_000}, {}),
        (8_400, {}, {"observation_tokens": 40_000}),
        (7_999, {"message_tokens": 3_000}, {"observation_tokens": 4_000}),
        (8_400, {"block_after": 9_000}, {}),
    ],
)
def test_what_does_not_fit_is_refused(budget: int, observation: Row, reflection: Row) -> None:
    with pytest.raises(ConfigurationError, match=rf"`token_budget` is {budget}, while .*; pass"):
        limits(budget, observation, reflection)


def test_other_settings_that_need_a_threshold_are_checked_against_the_new_one() -> None:
    with pytest.raises(ConfigurationError, match=r"below `message_tokens` \(1750\)"):
        limits(8_400, {"buffer_tokens": 5_000}, {})
    with pytest.raises(ConfigurationError, match=r"`observation\.block_after` is 'x'"):
        limits(8_400, {"block_after": "x"}, {})


def test_what_the_observer_reads_follows_too() -> None:
    memory = ObservationalMemory(MODEL, token_budget=8_400)
    assert runner_of(memory).settings.observation == ObservationConfig(
        message_tokens=1_750, buffer_tokens=1_312 / 1_750, prompt="condensed"
    )
    assert runner_of(memory).settings.reflection == ReflectionConfig(
        observation_tokens=5_727, block_after=1.1, buffer_activation=0.9
    )


def test_log_and_window_stay_within_the_budget() -> None:
    counter, budget = EstimatingCounter(), 1_500
    model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    memory = ObservationalMemory(model, token_budget=budget, buffering=InlineBuffering())
    record: Any = None
    said: list[BaseMessage] = []
    sizes: list[int] = []
    for number in range(120):
        told = f"In week {number} I paid {number * 7} euros for the {number}th crate of pears."
        said += [
            HumanMessage(told * 2, id=f"user-{number}"),
            AIMessage(f"Noted, {number} crates so far.", id=f"answer-{number}"),
        ]
        result = memory.step(record, said)
        record = result.record
        log = sum(counter.count_text(group["text"]) for group in record["log"])
        shown = [each for each in result.messages if each.id in {one.id for one in said}]
        sizes.append(log + count_messages(counter, shown))
    assert {call["role"] for call in model.calls} == {"observer", "reflector"}
    assert max(sizes) <= budget
    assert max(sizes) > budget / 2
