"""The rough doubles miss sizes and forget the form, by a seed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from langchain_core.language_models import BaseChatModel

from langgraph_om.core.observe.parse_answer import parse_output
from langgraph_om.core.reflect.edits import parse_edits
from langgraph_om.core.reflect.reflector import (
    EditsInput,
    ReflectorInput,
    reflect,
    reflect_by_edits,
)
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.testing import ExtractiveReflector, RoughObserver, RoughReflector, drive
from support.editing import TALK, long_log
from support.rendering import divide

LONG = (
    "My old grey dog Rex from the shelter in Ghent barks at the loud trams near our new house in "
    "the morning and sleeps all afternoon behind the sofa at number"
)
TRANSCRIPT = "\n".join(
    [
        "<conversation>",
        "Date: Dec 4, 2025",
        *(f"User Ann (14:{at:02}): {LONG} {at}." for at in range(9)),
        "</conversation>",
    ]
)
COUNTER = EstimatingCounter()
LOG = [{**group, "tokens": COUNTER.count_text(group["text"])} for group in long_log(10)]
TOTAL = sum(group["tokens"] for group in LOG)
REQUEST = EditsInput(LOG, target=TOTAL * 3 // 4)


def freed(seed: int, **options: float) -> float:
    """How much of what is asked for the first answer frees."""
    model = RoughReflector(seed, **options)  # type: ignore[arg-type]
    asked: list[int] = []

    def answer(call: object) -> str:
        messages = call.messages  # type: ignore[attr-defined]
        found = re.search(r"free (\d+) of", str(messages[1].content))
        assert found is not None
        asked.append(int(found[1]))
        return model.reply(messages) if len(asked) == 1 else "no more"

    log = drive(reflect_by_edits(REQUEST, COUNTER), answer).result
    return (TOTAL - log.tokens) / asked[0]


def test_a_rough_reflector_obeys_sizes_about() -> None:
    shares = [freed(seed, forgets=0, errs=0) for seed in range(20)]
    assert len(set(shares)) > 10
    assert all(0.7 < share < 1.3 for share in shares)
    assert min(shares) < 1 < max(shares)


def test_a_rough_reflector_forgets_the_form_at_times_and_errs() -> None:
    assert freed(0, forgets=1.0) == 0
    erring, obeying = (
        sum(freed(seed, forgets=0, errs=errs) for seed in range(10)) for errs in (0.3, 0)
    )
    assert 0 < erring < obeying


def test_a_rough_reflector_rewrites_a_log_about_as_long_as_it_is_asked_to() -> None:
    text = "\n\n".join(group["text"] for group in LOG)
    request = ReflectorInput(text, tokens=TOTAL, target=TOTAL // 2)
    run = drive(reflect(request, COUNTER), lambda call: RoughReflector(1).reply(call.messages))
    assert run.result.tokens < TOTAL * 0.6


def test_a_rough_observer_writes_more_or_less_and_forgets_the_form_at_times() -> None:
    answers = {RoughObserver(seed).invoke(TRANSCRIPT).text for seed in range(30)}
    statuses = [parse_output(answer).status for answer in sorted(answers)]
    assert len(answers) > 5
    assert statuses.count("ok") > len(statuses) / 2
    assert parse_output(RoughObserver(forgets=1).invoke(TRANSCRIPT).text).status == "malformed"


def test_the_same_seed_and_question_give_the_same_answer() -> None:
    for kind in (RoughObserver, RoughReflector):
        assert kind(7).invoke(TRANSCRIPT).content == kind(7).invoke(TRANSCRIPT).content


@pytest.mark.parametrize("kind", [RoughObserver, RoughReflector])
@pytest.mark.parametrize("options", [{"spread": 2}, {"forgets": -1}, {"forgets": "no"}])
def test_what_cannot_be_meant_is_refused(
    kind: Callable[..., BaseChatModel], options: dict[str, object]
) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        kind(**options)


def test_an_extractive_reflector_edits_numbered_items() -> None:
    for given in (TALK, LOG):
        log = [{**group, "tokens": COUNTER.count_text(group["text"])} for group in given]
        total = sum(group["tokens"] for group in log)
        request = EditsInput(log, target=total * 2 // 3)
        model = ExtractiveReflector()
        run = drive(reflect_by_edits(request, COUNTER), lambda call: model.reply(call.messages))  # noqa: B023
        assert len(run.effects) == 1
        assert run.result.tokens < request.target * 1.03
    assert parse_edits(ExtractiveReflector().reply(run.effects[0].messages))


def test_an_extractive_reflector_edits_each_thread_for_itself() -> None:
    log = [{**group, "thread_id": "ab"[at % 2]} for at, group in enumerate(LOG)]
    request = EditsInput(log, target=TOTAL * 2 // 3, division=divide())  # type: ignore[arg-type]
    model = ExtractiveReflector()
    run = drive(reflect_by_edits(request, COUNTER), lambda call: model.reply(call.messages))
    assert {group["thread_id"] for group in run.result.groups if group["text"]} == {"a", "b"}
    assert run.result.tokens < request.target
