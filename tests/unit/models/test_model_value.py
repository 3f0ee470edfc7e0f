"""Every kind of model value: what is refused, which model is asked, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om import (
    ConfigurationError,
    ModelByInputTokens,
    ModelTierError,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock
from support.observing import SAID, answering, both_ways, failure, observe, remembering
from support.wire_server import openai_says, reach, serve

HUGE = 10**9


# --- Refused at construction ---------------------------------------------------------------------


ENDLESS: list[Any] = ["openai/gpt-6-luna"]
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "`model` is []; pass a name such as 'openai:gpt-6-luna'"),
        (["gpt-6-sol"], "`model[0]` is 'gpt-6-sol'; pass 'provider/model'"),
        ([answering(), 5], "`model[1]` is 5; pass a name"),
        ([[answering(), None]], "`model[0][1]` is None; pass a name"),
        ([{"name": "openai/gpt-6-sol"}], "pass a model, or {'model': "),
        ([{"model": answering(), "retries": 1}], "pass a model, or {'model': "),
        ([{"model": answering(), "max_retries": -1}], "pass a model, or {'model': "),
        ([{"model": answering(), "max_retries": True}], "pass a model, or {'model': "),
        ([{"model": "gpt-6-sol"}], "pass 'provider/model'"),
        ({"model": "openai/gpt-6-luna"}, "pass a name such as"),
        (b"openai/gpt-6-luna", "pass a name such as"),
        (ScriptedChatModel, "pass a name such as"),
        (ENDLESS, "does not contain itself"),
        ("xai/model", "'langchain_xai'; install it with `pip install 'langgraph-om[agents]'"),
        (["mistralai:model"], "langchain-mistralai`"),
        (
            "opena/gpt-6-sol",
            "'opena' is not a known provider; pass a name such as 'openai:",
        ),
        (["nosuch:model"], "'nosuch' is not a known provider; pass a name such as 'openai:"),
        ("no.such-thing/model", "is not a known provider"),
    ],
)
def test_what_is_no_model_value_is_refused(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory(value)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert str(caught.value).startswith("`model")


# --- Tiers ---------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.integers(1, 500), st.integers(), min_size=1, max_size=6), st.integers(0, 600)
)
def test_the_smallest_tier_that_covers_the_input_is_taken(
    limits: Mapping[int, int], tokens: int
) -> None:
    tiers = ModelByInputTokens({limit: f"openai/{limit}" for limit in limits})
    assert tiers.thresholds == sorted(limits)
    covering = [limit for limit in limits if limit >= tokens]
    if covering:
        assert tiers.resolve(tokens) == f"openai/{min(covering)}"
        return
    with pytest.raises(ModelTierError) as caught:
        tiers.resolve(tokens)
    assert str(tokens) in str(caught.value)
    assert str(max(limits)) in str(caught.value)


def too_small(_: RunnableConfig) -> ModelByInputTokens:
    """Tiers that construction can not see."""
    return ModelByInputTokens({10: "openai/gpt-6-luna"})


@both_ways
@pytest.mark.parametrize("on_error", ["continue", "abort"])
async def test_a_missing_tier_ends_the_turn(on_error: Any, *, is_async: bool) -> None:
    result = await observe(remembering(too_small, on_error=on_error), is_async=is_async)
    assert result.aborted
    assert result.messages == []
    assert [part["type"] for part in result.events][-1] == "data-om-tripwire"
    assert "ModelTierError: the input has " in failure(result)


async def test_a_missing_tier_in_the_background_fails_the_job_alone() -> None:
    memory = ObservationalMemory(
        too_small, observation={"message_tokens": 1000, "buffer_tokens": 300}, clock=Clock()
    )
    first = memory.step(None, SAID, thread_id="t")
    assert memory.flush(60)
    result = memory.step(first.record, [*SAID, HumanMessage("And?", id="h9")], thread_id="t")
    assert "data-om-buffering-failed" in [part["type"] for part in result.events]
    assert not result.aborted
    assert result.messages
    memory.close()


# --- Functions -----------------------------------------------------------------------------------


@both_ways
async def test_a_function_chooses_by_the_configuration_of_the_run(*, is_async: bool) -> None:
    models = {"free": answering(), "paid": answering()}

    def sync_choice(config: RunnableConfig) -> Any:
        return models[config["configurable"]["plan"]]

    async def async_choice(config: RunnableConfig) -> Any:
        return [ModelByInputTokens({HUGE: models[config["configurable"]["plan"]]})]

    for choose in (sync_choice, async_choice):
        result = await observe(
            remembering(choose), is_async=is_async, config={"configurable": {"plan": "paid"}}
        )
        assert len(result.record["log"]) == 1
    assert (len(models["free"].calls), len(models["paid"].calls)) == (0, 2)


def broken(_: RunnableConfig) -> Any:
    msg = "no such tenant"
    raise LookupError(msg)


@both_ways
@pytest.mark.parametrize(
    ("choose", "said"),
    [
        (broken, "LookupError: no such tenant"),
        (lambda _: None, "`<lambda>()` is None; pass a name such as"),
        (lambda _: broken, "`<lambda>()` is <function broken"),
        (lambda _: "gpt-6-sol", "`<lambda>()` is 'gpt-6-sol'; pass 'provider/model'"),
    ],
)
async def test_a_function_without_a_model_is_a_failure(
    choose: Any, said: str, *, is_async: bool
) -> None:
    assert said in failure(await observe(remembering(choose), is_async=is_async))
    last = answering()
    assert (await observe(remembering([choose, last]), is_async=is_async)).record["log"]


# --- Answers -------------------------------------------------------------------------------------


NAMES = ["openai/gpt-local", "openai:gpt-local"]


@pytest.mark.parametrize("name", NAMES)
def test_agent_and_memory_ask_the_model_that_either_form_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as provider:
        reach(provider, monkeypatch)
        provider.says(
            openai_says("<observations>\nDate: unknown\n* 🔴 The user likes tea\n</observations>")
        )
        limits = {"message_tokens": 60, "buffer_tokens": False}
        memory = ObservationalMemory(name, observation=limits)
        agent = create_memory_agent(name, memory=memory)
        said = [HumanMessage("I like tea. " * 20), AIMessage("So do I."), HumanMessage("Good.")]
        agent.invoke({"messages": said})
        assert [request.body["model"] for request in provider.requests] == ["gpt-local"] * 2
