"""Fallbacks and retries, and what is read of answers and of providers' errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_om.testing import ScriptedChatModel
from support.inside import is_transient, read_reply, retry_after
from support.observing import NOW, answering, both_ways, failure, observe, remembering

# --- Answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, "b"], "ab"),
        ([{"type": "reasoning", "reasoning": "hm"}], ""),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a"),
    ],
)
def test_the_text_of_an_answer(content: Any, text: str) -> None:
    answer = AIMessage.model_construct(content=content, type="ai", response_metadata={})
    answer.usage_metadata = None
    reply = read_reply(answer, NOW)
    assert (reply.text, reply.error, reply.cut_off) == (text, None, False)


@pytest.mark.parametrize(
    ("content", "beside"),
    [
        ([{"type": "reasoning", "text": "hm"}, {"type": "refusal", "refusal": "no"}], {}),
        ("", {"refusal": "no"}),
    ],
)
def test_a_refusal_is_no_answer(content: Any, beside: dict[str, Any]) -> None:
    reply = read_reply(AIMessage(content, additional_kwargs=beside), NOW)
    assert reply.text == ""
    assert str(reply.error) == "the model refused to answer: no"


class Overloaded(Exception):  # noqa: N818 what a provider raises
    """A failure that passes."""

    status_code = 503
    response = SimpleNamespace(headers={"Retry-After": "0"})


def failing(error: Exception | None = None) -> ScriptedChatModel:
    return ScriptedChatModel(observer=error or Overloaded("busy"))


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


@both_ways
async def test_retries_end_with_the_deadline(*, is_async: bool) -> None:
    class Slow(Overloaded):
        response = SimpleNamespace(headers={"Retry-After": "0.2"})

    model = failing(Slow("busy"))
    memory = remembering([{"model": model, "max_retries": 99}], deadline=0.6)
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
        (named("APIError", response=SimpleNamespace(status_code=502)), True),
        (named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 429}}), True),
        (status(429, code="insufficient_quota"), False),
        (named("ResourceExhausted"), True),
        (named("APIConnectionError"), True),
        (named("Wrapped", is_retryable=True), True),
        (named("Wrapped", is_retryable=False), False),
        (caused(ValueError("wrapped"), status(503)), True),
        (ConnectionResetError("gone"), True),
        (TimeoutError("late"), True),
        (ValueError("bad"), False),
    ],
)
def test_which_failures_pass(error: Exception, expected: bool) -> None:  # noqa: FBT001 the table
    assert is_transient(error) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(headers: dict[str, str], expected: float | None) -> None:
    error = status(429, response=SimpleNamespace(headers=headers))
    assert retry_after(error) == expected
    assert retry_after(caused(ValueError("wrapped"), error)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("429 {'@type': 'RetryInfo', 'retryDelay': '12s'}", 12.0),
        ("retry_delay {\n  seconds: 20\n}", 20.0),
        ("retry later", None),
    ],
)
def test_how_long_google_asks_to_wait(text: str, expected: float | None) -> None:
    assert retry_after(RuntimeError(text)) == expected


def test_a_huge_error_is_read_in_no_time() -> None:
    error = RuntimeError("retry_delay {" * 700_000)
    assert retry_after(error) is None
    assert not is_transient(error)
