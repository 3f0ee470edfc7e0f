from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_om import (
    ConfigurationError,
    ObservationalMemory,
    ObservationConfig,
    ReflectionConfig,
)
from langgraph_om.testing import ScriptedChatModel
from support.inside import ACTORS_OWN, EXAMPLE, select_models
from support.options import MODEL

OTHER = ScriptedChatModel()
NAN, INF = float("nan"), float("inf")


# --- What is out of range, whichever way it comes in ---------------------------------------------


NUMBERS = (0, -1, True, False, None, 1.5, 30_000.0, "30000", NAN, INF)
FACTORS = (0, 1, 1.0, -1.2, 2, 2.5, 20_000, 45_000.5, True, False, "1.2", NAN, INF, -INF)
PARTS = (0, -0.5, 1.01, True, False, None, NAN, INF)
OUT_OF_RANGE: dict[str, tuple[object, ...]] = {
    "observation.message_tokens": NUMBERS,
    "observation.max_tokens_per_batch": NUMBERS,
    "reflection.observation_tokens": NUMBERS,
    "observation.previous_observer_tokens": (-1, True, 0.5),
    "observation.buffer_tokens": (
        *(0, 0.0, -0.2, -500, True, None, "0.2", 1.5, 30_000, 45_000, NAN, INF),
    ),
    "observation.buffer_activation": (*PARTS, -2000, 2, 999, 1000.5, 30_000, "0.8"),
    "reflection.buffer_activation": (*PARTS, 2000),
    "observation.block_after": (*FACTORS, 30_000),
    "reflection.block_after": (*FACTORS, 40_000),
    "observation.instruction": (5,),
    "reflection.instruction": (["be brief"],),
    "observation.model_settings": (None, [("temperature", 1)]),
    "reflection.model_settings": ("hot",),
}


def shown(value: object) -> str:
    """The least of a value that its message has to show: a number may lose its `.0` or gain it."""
    return str(value).removesuffix(".0") if isinstance(value, int | float) else repr(value)


@pytest.mark.parametrize("option", OUT_OF_RANGE)
def test_a_value_out_of_range_is_named_with_its_option(option: str) -> None:
    owner, key = option.split(".")
    for value in OUT_OF_RANGE[option]:
        given: dict[str, Any] = {owner: {key: value}}
        with pytest.raises(ConfigurationError) as caught:
            ObservationalMemory(MODEL, **given)
        assert f"`{option}`" in str(caught.value)
        assert shown(value) in str(caught.value)
        assert re.search("; (pass|it should) ", str(caught.value))


HOST_ERRORS: list[tuple[str, object]] = [
    ("enabled", 1),
    ("scope", "user"),
    ("token_budget", 0),
    ("token_budget", True),
    ("token_budget", 1e5),
    ("token_budget", ("fraction", 0)),
    ("token_budget", ("fraction", 1.5)),
    ("token_budget", 0.6),
    ("share_token_budget", 1),
    ("messages_key", ""),
    ("messages_key", "om"),
    ("resource_id", ""),
    ("resource_id", 7),
    ("token_counter", "o200k_base"),
    ("max_input_tokens", 0),
    ("message_time", "created_at"),
    ("timezone", "Mars/Olympus"),
    ("timezone", "../etc/passwd"),
    ("on_error", "ignore"),
    ("deadline", 0),
    ("clock", datetime(2026, 3, 2, tzinfo=UTC)),
    ("observation", 5),
    ("observation", "default"),
    ("reflection", [("model", MODEL)]),
    ("observation", ReflectionConfig()),
]


@pytest.mark.parametrize(("option", "value"), HOST_ERRORS)
def test_a_host_option_that_can_not_be_meant_is_named(option: str, value: object) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory(MODEL, **options)
    assert f"`{option}` is {value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"message_tokens": 1}, "; pass observation={'message_tokens': 1}"),
        ({"messageTokens": 1}, "; pass observation={'message_tokens': 1}"),
        ({"observation": {"messageTokens": 1}}, "; pass observation={'message_tokens': 1}"),
        ({"observation": {"observation_tokens": 1}}, "; pass reflection={'observation_tokens': 1}"),
        ({"observation": {"resourceId": "ana"}}, "; pass resource_id='ana'"),
        ({"vector": True}, "; pass retrieval={'vector': True}"),
        ({"top_k": 3}, "; pass retrieval={'inject': {'top_k': 3}}"),
        ({"block_after": 2}, "observation={'block_after': 2} or reflection={'block_after': 2}"),
        ({"reflection": {"blockafter": 2}}, "; pass reflection={'block_after': 2}"),
        ({"dedline": 5}, "; pass deadline=5"),
        ({"thread_title": {"minMessages": 4}}, "; pass thread_title={'min_messages': 4}"),
        ({"embedder": None}, "; pass one of model, enabled, token_budget, "),
        (
            {"observation": {"model_settings": {"maxOutputTokens": 1}}},
            "; pass observation={'model_settings': {'max_output_tokens': 1}}",
        ),
        ({"observation": {"model_settings": {"top": 1}}}, "{'extra': {'top': 1}}} to send it"),
    ],
)
def test_an_unknown_option_leads_to_the_one_that_was_meant(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"is not an option of|has the unknown key"
    ) as caught:
        ObservationalMemory(MODEL, **options)
    assert said in str(caught.value)


# --- Models --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "observation", "reflection", "observer", "reflector"),
    [
        (None, None, None, ACTORS_OWN, ACTORS_OWN),
        ("default", None, None, ACTORS_OWN, ACTORS_OWN),
        (MODEL, None, None, MODEL, MODEL),
        (None, MODEL, OTHER, MODEL, OTHER),
        (None, MODEL, None, MODEL, MODEL),
        (None, None, OTHER, OTHER, OTHER),
        (None, "default", OTHER, ACTORS_OWN, OTHER),
        (None, MODEL, "default", MODEL, ACTORS_OWN),
    ],
)
def test_observer_and_reflector_fall_back_to_each_other(
    top: object, observation: object, reflection: object, observer: object, reflector: object
) -> None:
    chosen = select_models(
        top, ObservationConfig(model=observation), ReflectionConfig(model=reflection)
    )
    assert chosen[0] is observer
    assert chosen[1] is reflector


def test_a_memory_without_any_model_says_what_to_install_and_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setitem(sys.modules, "langchain_google_genai", None)
    memory = ObservationalMemory(token_budget=16_000)
    with pytest.raises(ConfigurationError) as caught:
        memory.step(None, [HumanMessage("Hello")], thread_id="t")
    said = str(caught.value)
    assert f"ObservationalMemory(model={EXAMPLE!r})" in said
    assert "install 'langgraph-om[google]' and set GOOGLE_API_KEY" in said
