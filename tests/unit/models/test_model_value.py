"""Every kind of model value: what is refused at construction, which model is asked, and how often.

What goes over the wire is in `test_wire`; here, models are objects and functions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    ConfigurationError,
    ModelByInputTokens,
    ModelTierError,
    ObservationalMemory,
    ObserverError,
    StepResult,
)
from langgraph_om.memory import runner_of
from langgraph_om.models.ask import read_reply
from langgraph_om.models.retries import backoff, is_transient, retry_after
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import make_agent, of_kind, on_thread, record_of, say, scripted, turn
from support.clock import Clock

NOTED = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User goes to Lisbon\n</observations>"
SAID = [HumanMessage("We are planning a trip to Lisbon. " * 20, id=f"h{at}") for at in range(2)]
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
HUGE = 10**9

both_ways = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class Overloaded(Exception):  # noqa: N818 what a provider raises
    """A failure that passes."""

    status_code = 503
    response = SimpleNamespace(headers={"Retry-After": "0"})


def answering(text: str = NOTED) -> ScriptedChatModel:
    return ScriptedChatModel(observer=text)


def failing(error: Exception | None = None) -> ScriptedChatModel:
    return ScriptedChatModel(observer=error or Overloaded("busy"))


def remembering(model: Any, **options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        model,
        observation={
            "message_tokens": 300,
            "buffer_tokens": False,
            "previous_observer_tokens": 0,
            **options.pop("observation", {}),
        },
        clock=Clock(),
        **options,
    )


async def observe(
    memory: ObservationalMemory, *, is_async: bool = False, config: RunnableConfig | None = None
) -> StepResult:
    if is_async:
        return await memory.astep(None, SAID, thread_id="t", config=config)
    return memory.step(None, SAID, thread_id="t", config=config)


def failure(result: StepResult) -> str:
    assert result.record["log"] == []
    (part,) = [part for part in result.events if part["type"] == "data-om-observation-failed"]
    return str(part["data"]["error"])


# --- Refused at construction ---------------------------------------------------------------------

ENDLESS: list[Any] = ["openai/gpt-5-mini"]
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "`model` is []; pass a name such as 'openai/gpt-5-mini'"),
        (["gpt-5"], "where `model[0]` is 'gpt-5'; pass 'provider/model'"),
        ([answering(), 5], "where `model[1]` is 5; pass a name"),
        ([[answering(), None]], "where `model[0][1]` is None; pass a name"),
        ([{"name": "openai/gpt-5"}], "pass a model, or {'model': "),
        ([{"model": answering(), "retries": 1}], "pass a model, or {'model': "),
        ([{"model": answering(), "max_retries": -1}], "pass a model, or {'model': "),
        ([{"model": answering(), "max_retries": True}], "pass a model, or {'model': "),
        ([{"model": "gpt-5"}], "pass 'provider/model'"),
        ({"model": "openai/gpt-5-mini"}, "pass a name such as"),
        (b"openai/gpt-5-mini", "pass a name such as"),
        (ScriptedChatModel, "pass a name such as"),
        (ENDLESS, "contains itself"),
        ("xai/model", "'langchain_xai'; install it with `pip install 'langgraph-om[agents]'"),
        (["mistralai:model"], "langchain-mistralai`"),
        ("opena/gpt-5", "'opena' is no known provider; pass 'openai/gpt-5' if that was meant, or"),
        (["nosuch:model"], "'nosuch' is no known provider; pass a name such as 'openai/"),
        ("no.such-thing/model", "is no known provider"),
    ],
)
def test_what_is_no_model_value_is_refused(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory(value)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert str(caught.value).startswith("`model` is ")


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ({}, "`up_to` is {}"),
        ([(1, "a/b")], "pass a mapping"),
        (5, "pass a mapping"),
        ({0: "openai/gpt-5"}, "has the key 0"),
        ({-5: "openai/gpt-5"}, "has the key -5"),
        ({1.5: "openai/gpt-5"}, "has the key 1.5"),
        ({True: "openai/gpt-5"}, "has the key True"),
        ({"10": "openai/gpt-5"}, "has the key '10'"),
        ({10: 5}, "`up_to[10]` is 5"),
        ({10: []}, "`up_to[10]` is []"),
        ({10: {"model": "openai/gpt-5"}}, "pass a name such as"),
        ({100: ModelByInputTokens({50: "openai/gpt-5"})}, "does not reach up to 100 tokens"),
    ],
)
def test_tiers_that_can_not_be_meant_are_refused(tiers: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ModelByInputTokens(tiers)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"temprature": 1},
            "unknown key 'temprature'; the keys are temperature, max_output_tokens",
        ),
        ({"top_p": 0.5}, "goes into 'extra', as in {'extra': {'top_p': 0.5}}"),
        ({"temperature": "hot"}, "model_settings['temperature']` is 'hot'; pass a number"),
        ({"temperature": -1}, "is -1; pass a number"),
        ({"temperature": float("nan")}, "is nan; pass a number"),
        ({"temperature": True}, "is True; pass a number"),
        ({"max_output_tokens": 0}, "is 0; pass a whole number of tokens, 1 or more"),
        ({"max_output_tokens": 10.5}, "is 10.5; pass a whole number"),
        ({"thinking_budget": -2}, "is -2; pass a whole number"),
        ({"extra": ["top_p"]}, "is ['top_p']; pass a mapping"),
        (
            {"temperature": 0.5},
            "cannot be applied to ScriptedChatModel; give it to the model's own",
        ),
    ],
)
@pytest.mark.parametrize("owner", ["observation", "reflection"])
def test_settings_that_can_not_be_meant_are_refused(
    owner: str, settings: dict[str, Any], said: str
) -> None:
    options: dict[str, Any] = {owner: {"model_settings": settings}}
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory([[answering()]], **options)
    assert said in str(caught.value)
    assert f"`{owner}.model_settings" in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-5-mini",
        ChatOpenAI(model="gpt-5-mini", api_key="dummy"),
        ChatOpenAI(model="gpt-5-mini", api_key="dummy").bind(stop=["x"]),
        lambda config: answering(),
    ],
    ids=["name", "object", "bound", "function"],
)
def test_settings_apply_to_what_is_known_or_not_yet_known(model: Any) -> None:
    settings = {"temperature": None, "max_output_tokens": 5, "extra": {"top_p": 0.5}}
    memory = ObservationalMemory(model, observation={"model_settings": settings})
    assert runner_of(memory).settings.observation.model_settings == settings


# --- Tiers ---------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.integers(1, 500), st.integers(), min_size=1, max_size=6),
    st.integers(0, 600),
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


@pytest.mark.parametrize(
    ("options", "largest", "who"),
    [
        ({}, 40_000, "Observer"),
        ({"observation": {"previous_observer_tokens": 0}}, 38_000, "Observer"),
        ({"observation": {"previous_observer_tokens": False}}, 76_000, "Observer"),
        ({"observation": {"block_after": 90_000}}, 92_000, "Observer"),
        ({"observation": {"instruction": "Be brief. " * 5000}}, 50_000, "Observer"),
        ({"share_token_budget": True}, 76_000, "Observer"),
        ({}, 48_000, "Reflector"),
        ({"reflection": {"observation_tokens": 100_000}}, 120_000, "Reflector"),
        ({"reflection": {"block_after": 90_000}}, 90_000, "Reflector"),
    ],
)
def test_tiers_have_to_reach_what_the_thresholds_ask(
    options: dict[str, Any], largest: int, who: str
) -> None:
    owner, other = ("observation", "reflection")[:: 1 if who == "Observer" else -1]
    tiers = ModelByInputTokens({1000: answering(), largest: answering()})
    given_options = {name: value for name, value in options.items() if name not in (owner, other)}
    given_options[other] = {"model": answering(), **options.get(other, {})}
    given_options[owner] = {"model": tiers, **options.get(owner, {})}
    with pytest.raises(ConfigurationError) as caught:
        ObservationalMemory(**given_options)
    assert f"the model of the {who} is ModelByInputTokens(" in str(caught.value)
    needed = int(str(caught.value).split("reaches ")[1].split()[0])
    assert largest < needed < largest + 30_000
    given_options[owner]["model"] = ModelByInputTokens({needed: answering()})
    ObservationalMemory(**given_options)
    given_options[owner]["model"] = [tiers, answering()]
    ObservationalMemory(**given_options)


@both_ways
@pytest.mark.parametrize(("limit", "taken"), [(1000, "large"), (HUGE - 1, "small")])
async def test_the_whole_question_is_what_is_measured(
    limit: int, taken: str, *, is_async: bool
) -> None:
    small, large = answering(), answering()
    tiers = ModelByInputTokens({HUGE: [lambda _: large], limit: small})
    memory = remembering(tiers)  # the messages are 340 tokens, the question is more than 2000
    assert (await observe(memory, is_async=is_async)).record["log"] != []
    asked = {"small": len(small.calls), "large": len(large.calls)}
    assert asked == {"small": 0, "large": 0, taken: 1}


def too_small(_: RunnableConfig) -> ModelByInputTokens:
    """Tiers that construction can not see."""
    return ModelByInputTokens({10: "openai/gpt-5-nano"})


@both_ways
@pytest.mark.parametrize("on_error", ["continue", "abort"])
async def test_a_missing_tier_ends_the_turn(on_error: Any, *, is_async: bool) -> None:
    result = await observe(remembering(too_small, on_error=on_error), is_async=is_async)
    assert result.aborted
    assert result.messages == []
    assert [part["type"] for part in result.events][-1] == "data-om-tripwire"
    assert "ModelTierError: the input has " in failure(result)


async def test_a_missing_tier_raises_where_that_is_asked() -> None:
    with pytest.raises(ObserverError, match="tiers of ModelByInputTokens reach up to 10"):
        await observe(remembering(too_small, on_error="raise"))


def test_a_missing_tier_in_a_graph_leaves_a_thread_that_goes_on() -> None:
    sizes = iter([10, HUGE, HUGE, HUGE, HUGE])
    model = scripted()

    def choose(_: RunnableConfig) -> ModelByInputTokens:
        return ModelByInputTokens({next(sizes): model})

    agent = make_agent("agent", InMemorySaver(), model=model, observed_by=choose)
    parts = [part for at in range(12) for part in say(agent.graph, on_thread(), turn(at))]
    assert len(of_kind(parts, "tripwire")) == 1
    assert record_of(agent.graph, on_thread())["log"] != []


async def test_a_missing_tier_of_a_fallback_is_skipped() -> None:
    last = answering()
    result = await observe(remembering([too_small, last]))
    assert len(result.record["log"]) == len(last.calls) == 1


async def test_a_missing_tier_in_the_background_fails_the_job_alone() -> None:
    memory = ObservationalMemory(
        too_small, observation={"message_tokens": 1000, "buffer_tokens": 300}, clock=Clock()
    )
    first = memory.step(None, SAID, thread_id="t")
    assert memory.flush(10)
    result = memory.step(first.record, [*SAID, HumanMessage("And?", id="h9")], thread_id="t")
    assert "data-om-buffering-failed" in [part["type"] for part in result.events]
    assert not result.aborted
    assert result.messages
    memory.close()


# --- Functions -----------------------------------------------------------------------------------


class Chooser:
    """An object that is called."""

    def __init__(self, model: Any) -> None:
        self.model = model

    async def __call__(self, config: RunnableConfig) -> Any:
        return self.model


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


@both_ways
async def test_any_callable_and_any_runnable_will_do(*, is_async: bool) -> None:
    async def later(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(NOTED)

    for model in (
        Chooser(answering()),
        RunnableLambda(lambda messages: NOTED),
        RunnableLambda(later),
        answering().with_retry(),
    ):
        result = await observe(remembering(model), is_async=is_async)
        assert len(result.record["log"]) == 1


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
        (lambda _: [answering(), ModelByInputTokens({HUGE: broken})], "which holds a function"),
        (lambda _: "gpt-5", "`<lambda>()` is 'gpt-5'; pass 'provider/model'"),
    ],
)
async def test_a_function_without_a_model_is_a_failure(
    choose: Any, said: str, *, is_async: bool
) -> None:
    assert said in failure(await observe(remembering(choose), is_async=is_async))
    last = answering()
    assert (await observe(remembering([choose, last]), is_async=is_async)).record["log"]


# --- Fallbacks and retries -----------------------------------------------------------------------


@both_ways
async def test_models_are_tried_in_order_each_as_often_as_it_says(*, is_async: bool) -> None:
    first, second, third, last = failing(), failing(ValueError("bad")), failing(), answering()
    fallbacks = [
        {"model": first, "max_retries": 2},
        {"model": [{"model": second, "max_retries": 5}, third], "max_retries": 1},
        last,
        answering(),
    ]
    result = await observe(remembering(fallbacks), is_async=is_async)
    assert len(result.record["log"]) == 1
    assert [len(model.calls) for model in (first, second, third, last)] == [3, 1, 2, 1]


async def test_an_object_keeps_to_the_retries_of_its_own_client() -> None:
    model = failing()
    assert "Overloaded: busy" in failure(await observe(remembering(model)))
    assert len(model.calls) == 1


class Watch(BaseCallbackHandler):
    """Notes the runs that a tracer would see."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, UUID, UUID | None]] = []
        self.failed: list[UUID] = []

    def on_chat_model_start(self, *args: Any, run_id: UUID, **about: Any) -> None:
        self.runs.append((about["name"], run_id, about.get("parent_run_id")))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **about: Any) -> None:
        self.failed.append(run_id)


@both_ways
async def test_each_attempt_is_a_run_of_its_own_by_the_same_name(*, is_async: bool) -> None:
    watch = Watch()
    memory = remembering([{"model": failing(), "max_retries": 1}, answering()])
    await observe(memory, is_async=is_async, config={"callbacks": [watch]})
    assert [(name, parent) for name, _, parent in watch.runs] == [("om_observer", None)] * 3
    assert len({run_id for _, run_id, _ in watch.runs}) == 3
    assert watch.failed == [run_id for _, run_id, _ in watch.runs[:2]]


@both_ways
async def test_retries_end_with_the_deadline(*, is_async: bool) -> None:
    class Slow(Overloaded):
        response = SimpleNamespace(headers={"Retry-After": "0.4"})

    model = failing(Slow("busy"))
    memory = remembering([{"model": model, "max_retries": 99}], deadline=1.0)
    assert "busy" in failure(await observe(memory, is_async=is_async))
    assert 1 <= len(model.calls) <= 3


def status(number: int, **fields: Any) -> Exception:
    error = RuntimeError("failed")
    vars(error).update(status_code=number, **fields)
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def named(name: str, base: type[Exception] = Exception, **fields: Any) -> Exception:
    return type(name, (base,), fields)("failed")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((status(code), True) for code in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        *((status(code), False) for code in (400, 401, 403, 404, 405, 413, 422)),
        (named("APIError", code=503), True),
        (named("APIError", code=404), False),
        (named("APIError", response=SimpleNamespace(status_code=502)), True),
        (named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 429}}), True),
        (status(429, code="insufficient_quota"), False),
        (named("ResourceExhausted"), True),
        (named("ServiceUnavailable"), True),
        (named("APIConnectionError"), True),
        (named("Wrapped", is_retryable=True), True),
        (named("Wrapped", is_retryable=False), False),
        (caused(ValueError("wrapped"), status(503)), True),
        (caused(ValueError("wrapped"), status(400)), False),
        (ConnectionResetError("gone"), True),
        (TimeoutError("late"), True),
        (ValueError("bad"), False),
        (KeyError("bad"), False),
    ],
)
def test_which_failures_pass(error: Exception, expected: bool) -> None:  # noqa: FBT001 the table
    assert is_transient(error) is expected


LATER = format_datetime(NOW + timedelta(seconds=9), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"Retry-After": LATER}, 9.0),
        ({"Retry-After": LATER, "Date": format_datetime(NOW + timedelta(seconds=4))}, 5.0),
        ({"Retry-After": format_datetime(NOW - timedelta(days=1))}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(headers: dict[str, str], expected: float | None) -> None:
    error = status(429, response=SimpleNamespace(headers=headers))
    assert retry_after(error, NOW) == expected
    assert retry_after(caused(ValueError("wrapped"), error), NOW) == expected


@pytest.mark.parametrize(
    ("details", "text", "expected"),
    [
        ({"error": {"details": [{"x": 1}, {"retryDelay": "3.5s"}]}}, "", 3.5),
        ({"error": {"details": "none"}}, "", None),
        (None, "429 {'@type': 'RetryInfo', 'retryDelay': '12s'}", 12.0),
        (None, "retry_delay {\n  seconds: 20\n}", 20.0),
        ("text", "retry later", None),
    ],
)
def test_how_long_google_asks_to_wait(details: Any, text: str, expected: float | None) -> None:
    error = RuntimeError(text)
    error.details = details  # type: ignore[attr-defined]
    assert retry_after(error, NOW) == expected


@given(st.integers(0, 50), st.text())
def test_pauses_double_up_to_a_bound_and_follow_from_the_question(attempt: int, seed: str) -> None:
    longest = min(8.0, 0.5 * 2**attempt)
    assert longest / 2 <= backoff(attempt, seed) <= longest
    assert backoff(attempt, seed) == backoff(attempt, seed)


def test_different_questions_wait_differently() -> None:
    assert len({backoff(3, str(number)) for number in range(50)}) == 50


def test_a_huge_error_is_read_in_no_time() -> None:
    error = RuntimeError("retry_delay {" * 700_000)
    assert retry_after(error, NOW) is None
    assert not is_transient(error)


# --- Answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        ([], ""),
        (["a", "b"], "ab"),
        ([{"type": "text", "text": "a"}, "b", {"type": "output_text", "text": "c"}], "abc"),
        ([{"type": "reasoning", "reasoning": "hm"}], ""),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "reasoning", "text": "hm"}, {"type": "refusal", "refusal": "no"}], ""),
        ([{"type": "text"}, {"type": "text", "text": None}, None, 5], ""),
    ],
)
def test_the_text_of_an_answer(content: Any, text: str) -> None:
    answer = AIMessage.model_construct(content=content, type="ai", response_metadata={})
    answer.usage_metadata = None
    reply = read_reply(answer, NOW)
    assert (reply.text, reply.error, reply.cut_off) == (text, None, False)


@pytest.mark.parametrize("answer", [None, 5, {"messages": []}, [AIMessage("a")]])
def test_what_is_no_answer_is_an_error(answer: Any) -> None:
    reply = read_reply(answer, NOW)
    assert f"the model returned {type(answer).__name__}; return a message" in str(reply.error)


@pytest.mark.skipif(find_spec("langchain_anthropic") is None, reason="an optional package")
def test_other_providers_need_langchain_and_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("anthropic/claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"):
        ObservationalMemory(name)
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    with pytest.raises(ConfigurationError, match="'langchain_anthropic'; install it"):
        ObservationalMemory("anthropic/claude-sonnet-4-5")


async def test_defaults_are_never_given_to_an_object() -> None:
    given_options: list[dict[str, Any]] = []

    def model(messages: list[BaseMessage], **options: Any) -> str:
        given_options.append(options)
        return str(ExtractiveObserver().reply(messages).content)

    await observe(remembering(RunnableLambda(model)))
    assert given_options == [{}]
