"""What the doctor says: one test for each advice, and none where nothing is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.tools.doctor import Diagnosis, diagnose
from support.groups import day_log, group
from support.inside import Identity, ObservationalMemory, Settings, Step, blank_record
from support.words import Words

NOW = datetime(2026, 3, 3, 9, 0, tzinfo=UTC)
THRESHOLDS = ObservationalMemory(
    "default",
    observation={"message_tokens": 200, "buffer_tokens": False},
    reflection={"observation_tokens": 100},
).thresholds


def ask(messages: list[BaseMessage] | None = None, **fields: Any) -> Diagnosis:
    log = [group("g", day_log(0, "* 🔴 User lives in Lyon", "* 🟡 Tea"))]
    record: Any = {**blank_record(), "id": "om", "thread_id": "t", "log": log, **fields}
    said = messages or [HumanMessage("hello there", id="m1")]
    step = Step(Settings(THRESHOLDS, Words(), UTC), record, said, Identity("t"), NOW)
    step.open()
    return diagnose(step)


def kinds(found: Diagnosis) -> list[str]:
    return [advice.kind for advice in found.advice]


def attempt(**fields: Any) -> dict[str, Any]:
    return {"failures": 0, "at_tokens": 1, "retry_at_tokens": 2, **fields}


def answers(cached: int | None, count: int = 6) -> list[BaseMessage]:
    usage: Any = {
        "input_tokens": 4000,
        "output_tokens": 1,
        "total_tokens": 4001,
        "input_token_details": {} if cached is None else {"cache_read": cached},
    }
    return [AIMessage("ok", id=f"a{at}", usage_metadata=usage) for at in range(count)]


def test_a_healthy_memory_gets_no_advice_and_its_costs_are_told() -> None:
    found = ask()
    assert kinds(found) == []
    known = {"how to read memory", "observations", "reminder", "the request and since"}
    assert found.sections.keys() == known
    assert all(found.sections.values())
    assert found.cache_hits is None


def test_a_cache_that_a_change_of_models_breaks() -> None:
    said = answers(0)
    for at, answer in enumerate(said):
        answer.response_metadata["model_name"] = ("small", "large")[at % 2]
    [advice] = ask(said).advice
    assert advice.kind == "cache"
    assert "changed 5 times in 6 answers (large and small)" in advice.text
    for answer in said:
        answer.response_metadata["model_name"] = "small"
    [advice] = ask(said).advice
    assert "system prompt" in advice.text


def test_failures() -> None:
    found = ask(attempts={"observation": attempt(failures=3, error="no key")})
    assert kinds(found) == ["failures"]
    assert "no key (3 in a row)" in found.advice[0].text
    assert kinds(ask(attempts={"observation": attempt(error="lost: restart")})) == []


def test_what_was_not_read_of_an_enormous_message() -> None:
    found = ask(usage={"observation": {"calls": 8, "left_out_tokens": 12_000}})
    assert kinds(found) == ["unread"]
    assert "12,000 tokens" in found.advice[0].text


def test_what_was_put_among_observed_messages() -> None:
    found = ask(observed={"last": "m9", "index": 9, "count": 10, "strays": [], "overlooked": 1})
    assert kinds(found) == ["overlooked"]


def test_a_turn_that_was_ended() -> None:
    trip = {"operation": "observation", "reason": "no key", "last_message": None}
    assert kinds(ask(tripwire=trip)) == ["tripwire"]


def test_a_cache_that_is_rarely_hit() -> None:
    assert kinds(ask(answers(100))) == ["cache"]
    assert kinds(ask(answers(3000))) == []
    assert kinds(ask(answers(0, count=2))) == []  # too few to tell
    assert ask(answers(3000)).cache_hits == 0.75
    unsaid = ask(answers(None))  # a model that does not say
    assert kinds(unsaid) == []
    assert unsaid.cache_hits is None


def test_a_log_that_reflections_leave_too_large() -> None:
    assert kinds(ask(attempts={"reflection": attempt(still_large=3)})) == ["large-log"]
