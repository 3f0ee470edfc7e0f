"""What the options come down to, in tokens."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any, get_type_hints

import pytest

from langgraph_om import (
    ObservationalMemory,
    ObservationConfig,
    ObservationOptions,
    ReflectionConfig,
    ReflectionOptions,
)
from langgraph_om.core.config.options import is_default
from langgraph_om.core.config.thresholds import resolve_thresholds
from langgraph_om.memory import runner_of
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
    "total_tokens": None,
    "keep_turns": 0,
    "activate_after": None,
    "activate_on_provider_change": False,
    "scales_interval": False,
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
    (
        {**OFF, "message_tokens": 1},
        {"observation_tokens": 1},
        {
            **UNBUFFERED,
            "message_tokens": 1,
            "keep_tokens": 0,
            "block_after": 1,
            "observation_tokens": 1,
            "reflect_block_after": 1,
        },
    ),
    ({"buffer_tokens": 0.5}, {}, {"buffer_tokens": 15_000}),
    ({"buffer_tokens": 0.999}, {}, {"buffer_tokens": 29_970}),
    ({"buffer_tokens": 1}, {}, {"buffer_tokens": 1}),
    ({"buffer_tokens": 500}, {}, {"buffer_tokens": 500}),
    ({"buffer_tokens": 29_999}, {}, {"buffer_tokens": 29_999}),
    ({"buffer_tokens": 5000.0}, {}, {"buffer_tokens": 5000}),
    ({"buffer_activation": 1}, {}, {"keep_tokens": 0}),
    ({"buffer_activation": 0.01}, {}, {"keep_tokens": 29_700}),
    ({"buffer_activation": 1000}, {}, {"keep_tokens": 1000}),
    ({"buffer_activation": 29_999}, {}, {"keep_tokens": 29_999}),
    ({"block_after": 1.5}, {}, {"block_after": 45_000}),
    ({"block_after": 1.00001}, {}, {"block_after": 30_001}),
    ({"block_after": 1.99}, {}, {"block_after": 59_700}),
    ({"block_after": 30_001}, {}, {"block_after": 30_001}),
    ({"block_after": 500_000}, {}, {"block_after": 500_000}),
    ({}, {"buffer_activation": 1}, {"reflect_buffer_at": 40_000}),
    ({}, {"buffer_activation": 0.25}, {"reflect_buffer_at": 10_000}),
    ({}, {"block_after": 1.1}, {"reflect_block_after": 44_000}),
    ({}, {"block_after": 40_001}, {"reflect_block_after": 40_001}),
    ({"previous_observer_tokens": 0}, {}, {}),
    ({"previous_observer_tokens": False, "prompt": "condensed"}, {}, {}),
    ({"observe_attachments": ["image/*"], "instruction": "x"}, {}, {}),
    ({"observe_attachments": False, "model_settings": {}}, {"model_settings": {}}, {}),
]


@pytest.mark.parametrize(("observation", "reflection", "changed"), RESOLVED)
def test_options_come_down_to_tokens(
    observation: dict[str, Any], reflection: dict[str, Any], changed: dict[str, Any]
) -> None:
    expected = {**DEFAULTS, **changed}
    assert asdict(thresholds(observation, reflection)) == expected
    assert all(type(value) in {int, bool, type(None)} for value in expected.values())
    as_classes = resolve_thresholds(
        ObservationConfig(**observation), ReflectionConfig(**reflection)
    )
    assert asdict(as_classes) == expected


def test_a_mapping_and_the_config_class_are_one() -> None:
    options: dict[str, Any] = {"message_tokens": 5000, **OFF}
    by_mapping = ObservationalMemory(MODEL, observation=options)
    by_class = ObservationalMemory(MODEL, observation=ObservationConfig(**options))
    assert runner_of(by_mapping).settings.observation == runner_of(by_class).settings.observation
    assert by_mapping.thresholds == by_class.thresholds


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (ObservationConfig, ObservationOptions),
        (ReflectionConfig, ReflectionOptions),
    ],
)
def test_a_mapping_has_the_keys_and_types_of_its_config_class(config: Any, options: Any) -> None:
    assert get_type_hints(options) == get_type_hints(config)
    assert [*get_type_hints(options)] == [entry.name for entry in fields(config)]


def test_what_is_left_out_is_known_after_a_replacement() -> None:
    kept = replace(ObservationConfig(), message_tokens=5000)
    assert is_default(kept.buffer_tokens)
    assert is_default(kept.model_settings)
    assert is_default(replace(ReflectionConfig(), observation_tokens=9).buffer_activation)
    assert not is_default(replace(kept, buffer_tokens=0.2).buffer_tokens)
    assert not is_default(ObservationConfig(model_settings={}).model_settings)
    assert ReflectionConfig(buffer_activation=0.5) == ReflectionConfig()


@pytest.mark.parametrize("value", [0, 1, False, 3000, 0.25])
def test_numbers_and_flags_are_kept_as_they_are_given(value: Any) -> None:
    option = "previous_observer_tokens" if type(value) is int else "buffer_tokens"
    memory = ObservationalMemory(MODEL, observation=ObservationConfig(**{option: value}))
    kept = getattr(runner_of(memory).settings.observation, option)
    assert (type(kept), kept) == (type(value), value)


@pytest.mark.needs("archive")
def test_a_shared_log_is_buffered_as_any_other() -> None:
    memory = ObservationalMemory(MODEL, scope="resource", archive="sqlite://")
    assert asdict(memory.thresholds) == {**DEFAULTS, "deadline": 60.0}


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


def test_a_shared_budget_blocks_that_much_later_when_it_is_buffered() -> None:
    limits = thresholds(
        {"message_tokens": 1000, "block_after": 1.5},
        {"observation_tokens": 1000, "block_after": 1.2},
        share_token_budget=True,
    )
    assert [limits.block_messages_at(log) for log in (0, 400, 5000)] == [2500, 2100, 1500]
    assert [limits.block_observations_at(window) for window in (0, 5000)] == [2200, 1200]


@pytest.mark.parametrize(
    ("interval", "share", "intervals"),
    [
        (0.5, True, (1000, 800, 500)),
        (500, True, (500, 500, 500)),
        (0.5, False, (500, 500, 500)),
        (False, True, (None, None, None)),
    ],
)
def test_an_interval_that_is_a_part_of_the_window_grows_with_it(
    interval: float, *, share: bool, intervals: tuple[int | None, ...]
) -> None:
    limits = thresholds(
        {"message_tokens": 1000, "buffer_tokens": interval},
        {"observation_tokens": 1000},
        share_token_budget=share,
    )
    assert tuple(limits.interval_at(log) for log in (0, 400, 5000)) == intervals


def test_budgets_that_are_not_shared_do_not_move() -> None:
    limits = thresholds({**OFF, "message_tokens": 300}, {"observation_tokens": 400})
    assert [limits.messages_at(log) for log in (0, 100, 10_000)] == [300] * 3
    assert [limits.observations_at(window) for window in (0, 100, 10_000)] == [400] * 3
