"""What the options come down to, in tokens: thresholds of their own, or one budget for both."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import (
    ConfigurationError,
    EstimatingCounter,
    InlineBuffering,
    ObservationalMemory,
    Thresholds,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.inside import LOG_PART, count_messages
from support.options import MODEL, OFF, thresholds

# --- What the options come down to ---------------------------------------------------------------


DEFAULTS = {
    "message_tokens": 30_000,
    "buffer_tokens": 6000,
    "keep_tokens": 6000,
    "block_after": 36_000,
    "observation_tokens": 40_000,
    "reflect_buffer_at": 20_000,
    "reflect_block_after": 48_000,
    "shares_room": False,
    "budget": None,
    "activate_after": None,
    "scales_interval": False,
    "observes": True,
    "deadline": None,
    "scaled_from": None,
}

UNBUFFERED = {
    "buffer_tokens": None,
    "block_after": 30_000,
    "reflect_buffer_at": None,
    "reflect_block_after": 40_000,
}

RESOLVED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {}),
    (OFF, {}, UNBUFFERED),
    ({**OFF, "buffer_activation": 0.5}, {}, {**UNBUFFERED, "keep_tokens": 15_000}),
    (
        {"message_tokens": 10_000},
        {"observation_tokens": 1000},
        {
            "message_tokens": 10_000,
            "buffer_tokens": 2000,
            "keep_tokens": 2000,
            "block_after": 12_000,
            "observation_tokens": 1000,
            "reflect_buffer_at": 500,
            "reflect_block_after": 1200,
        },
    ),
    ({"buffer_tokens": 0.5}, {}, {"buffer_tokens": 15_000}),
    ({"buffer_tokens": 1}, {}, {"buffer_tokens": 1}),
    ({"buffer_tokens": 500}, {}, {"buffer_tokens": 500}),
    ({"buffer_activation": 1}, {}, {"keep_tokens": 0}),
    ({"buffer_activation": 0.01}, {}, {"keep_tokens": 29_700}),
    ({"buffer_activation": 1000}, {}, {"keep_tokens": 1000}),
    ({"block_after": 1.5}, {}, {"block_after": 45_000}),
    ({"block_after": 1.00001}, {}, {"block_after": 30_001}),
    ({"block_after": 1.99}, {}, {"block_after": 59_700}),
    ({"block_after": 30_001}, {}, {"block_after": 30_001}),
    ({}, {"buffer_activation": 1}, {"reflect_buffer_at": 40_000}),
    ({}, {"buffer_activation": 0.25}, {"reflect_buffer_at": 10_000}),
    ({}, {"block_after": 1.1}, {"reflect_block_after": 44_000}),
    ({}, {"block_after": 40_001}, {"reflect_block_after": 40_001}),
    ({"previous_observer_tokens": 0}, {}, {}),
    ({"previous_observer_tokens": False}, {}, {}),
    ({"model_settings": {}, "instruction": "x"}, {"model_settings": {}}, {}),
]


@pytest.mark.parametrize(("observation", "reflection", "changed"), RESOLVED)
def test_options_come_down_to_tokens(
    observation: dict[str, Any], reflection: dict[str, Any], changed: dict[str, Any]
) -> None:
    expected = {**DEFAULTS, **changed}
    assert asdict(thresholds(observation, reflection)) == expected


@pytest.mark.parametrize(
    ("log", "messages", "window", "observations"),
    [
        (0, 700, 0, 700),
        (100, 600, 100, 600),
        (400, 300, 300, 400),
        (401, 300, 299, 401),
        (10_000, 300, 10_000, 400),
    ],
)
def test_a_shared_budget_lends_what_the_other_side_leaves(
    log: int, messages: int, window: int, observations: int
) -> None:
    limits = thresholds(
        {**OFF, "message_tokens": 300}, {"observation_tokens": 400}, share_token_budget=True
    )
    assert limits.messages_at(log) == messages
    assert limits.observations_at(window) == observations


@pytest.mark.parametrize(
    ("budget", "messages", "observations"),
    [(None, [2500, 2100, 1500], [2200, 1200]), (2700, [2700, 2300, 1500], [2700, 1200])],
)
def test_a_shared_budget_blocks_that_much_later_when_it_is_buffered(
    budget: int | None, messages: list[int], observations: list[int]
) -> None:
    limits = thresholds(
        {"message_tokens": 1000, "block_after": 1.5},
        {"observation_tokens": 1000, "block_after": 1.2},
        share_token_budget=True,
        budget=budget,
    )
    assert [limits.block_messages_at(log) for log in (0, 400, 5000)] == messages
    assert [limits.block_observations_at(window) for window in (0, 5000)] == observations


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


@pytest.mark.parametrize("budget", [200, 999, 3_001, 128_000])
@pytest.mark.parametrize("block_after", [None, 1.01, 1.5, 1.99])
def test_where_a_turn_waits_is_within_the_budget(budget: int, block_after: float | None) -> None:
    found = limits(budget, {"block_after": block_after}, {"block_after": block_after})
    assert found.largest_tokens <= budget
    assert found.reflect_block_after <= budget * LOG_PART + 1


@pytest.mark.parametrize(
    ("budget", "observation", "reflection"),
    [
        (8_400, {"message_tokens": 7_000}, {}),
        (8_400, {}, {"observation_tokens": 40_000}),
        (7_999, {"message_tokens": 3_000}, {"observation_tokens": 4_000}),
        (8_400, {"block_after": 9_000}, {}),
    ],
)
def test_what_does_not_fit_is_refused(budget: int, observation: Row, reflection: Row) -> None:
    with pytest.raises(ConfigurationError, match=rf"`token_budget` is {budget}, .*; pass"):
        limits(budget, observation, reflection)


def test_log_and_window_stay_within_the_budget() -> None:
    counter, budget = EstimatingCounter(), 1_500
    model = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    memory = ObservationalMemory(model, token_budget=budget, buffering=InlineBuffering())
    record: Any = None
    said: list[BaseMessage] = []
    sizes: list[int] = []
    for number in range(80):
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
