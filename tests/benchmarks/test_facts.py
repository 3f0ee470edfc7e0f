"""Facts of several kinds: what counts as told, and what each arm still tells of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

sys.path.insert(0, str(Path(__file__).parent))

import bench_facts
import bench_reflections
import peers
from bench_peers import Outcome
from conversation import conversation, turns
from facts import KINDS, TIMES, Fact, Told, plant, words_of

TOKENS = 1_000
INSTRUCTIONS = 700
"""About what memory and recall tell the Actor in every prompt, in tokens."""
MESSAGES, FACTS = plant(conversation(140, words=25, seed=4), every=3)
SINGLE = [kind for kind in KINDS if kind != "count"]


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return bench_facts.compare(turns(MESSAGES), FACTS, TOKENS)


# --- What is told --------------------------------------------------------------------------------


def by_id() -> dict[str, BaseMessage]:
    return {str(message.id): message for message in MESSAGES}


def test_facts_of_every_kind_are_told_in_the_conversation() -> None:
    assert {fact.kind for fact in FACTS} == set(KINDS)
    assert len(MESSAGES) == 140
    for fact in FACTS:
        message = by_id()[fact.message_id]
        assert fact.verbatim == message.text
        assert message.type == ("ai" if fact.kind == "assistant" else "human")
    whole = "\n".join(message.text for message in MESSAGES)
    for fact in FACTS:
        assert fact.is_in(whole, words_of(whole))
        assert not fact.is_outdated_in(whole)


def test_no_other_message_tells_a_fact() -> None:
    for fact in FACTS:
        rest = "\n".join(message.text for message in MESSAGES if message.id != fact.message_id)
        assert not fact.is_in(rest, words_of(rest)), fact


def told(kind: str) -> Told:
    fact = next(fact for fact in FACTS if fact.kind == kind)
    assert isinstance(fact, Told)
    return fact


def is_told(fact: Fact, text: str) -> bool:
    return fact.is_in(text, words_of(text))


@pytest.mark.parametrize("kind", SINGLE)
def test_a_fact_is_told_by_all_of_its_words_in_one_line(kind: str) -> None:
    fact = told(kind)
    words = sorted(fact.words)
    assert is_told(fact, f"* 🔴 (09:12) User: {' '.join(words)}\n* other")
    assert is_told(fact, f"text with \\n{' '.join(words).upper()}\\n and more")
    assert not is_told(fact, "\n".join(words))
    assert not is_told(fact, " ".join(words[1:]))


def test_a_list_of_which_something_is_missing_is_not_told() -> None:
    fact = told("list")
    short = fact.verbatim.rpartition(" and ")[0]
    assert is_told(fact, fact.verbatim)
    assert not is_told(fact, short)


def test_a_count_is_told_by_every_time() -> None:
    fact = told("count")
    assert is_told(fact, "\n".join([fact.verbatim] * TIMES))
    assert not is_told(fact, "\n".join([fact.verbatim] * (TIMES - 1)))
    assert fact.is_known("\n".join([fact.verbatim] * (TIMES - 1)), fact.verbatim)
    assert not fact.is_known("", fact.verbatim)


def test_a_change_is_outdated_where_only_the_former_state_is_told() -> None:
    fact = told("change")
    former = " ".join(fact.former)
    assert fact.former != fact.words
    assert not is_told(fact, former)
    assert fact.is_outdated_in(former)
    assert not fact.is_outdated_in(f"{former}\n{fact.verbatim}")
    assert not fact.is_outdated_in("")
    assert not told("name").is_outdated_in("")


def test_a_fact_of_which_a_part_was_never_told_is_not_asked_for() -> None:
    _, early = plant(MESSAGES[:40], every=3)
    assert {fact.kind for fact in early}.isdisjoint({"count", "change"})


# --- What is still told --------------------------------------------------------------------------


def test_full_history_tells_everything_and_spends_nothing(found: dict[str, Outcome]) -> None:
    full = found[bench_facts.FULL]
    assert full.shown == full.reached == full.facts == len(FACTS) > 20
    assert (full.read, full.extra_output, full.calls, full.outdated) == (0, 0, [], 0)


@pytest.mark.parametrize("arm", [arm for arm in bench_facts.ARMS if arm != bench_facts.FULL])
def test_every_other_arm_tells_some_within_the_same_room(
    arm: str, found: dict[str, Outcome]
) -> None:
    outcome = found[arm]
    assert 0 < outcome.shown < outcome.facts
    assert outcome.shown <= outcome.reached
    assert outcome.sizes[-1] <= TOKENS + INSTRUCTIONS
    assert outcome.read > 0 < outcome.extra_output
    assert sum(outcome.calls) == outcome.extra_calls > 0
    sums = [sum(counts) for counts in zip(*outcome.kinds.values(), strict=True)]
    assert sums == [outcome.facts, outcome.shown, outcome.reached]
    assert set(outcome.kinds) == set(KINDS)


def test_one_recall_leads_to_everything_that_was_told_once(found: dict[str, Outcome]) -> None:
    recalling = found[bench_facts.RECALLING]
    for kind in SINGLE:
        count, _, reached = recalling.kinds[kind]
        assert reached == count, kind
    others = [each for arm, each in found.items() if arm != bench_facts.RECALLING]
    assert all(each.reached == each.shown for each in others)


def test_both_forms_reflect_and_say_what_that_took(found: dict[str, Outcome]) -> None:
    for arm in (bench_facts.OURS, bench_facts.REWRITING):
        for models in ("", bench_facts.ROUGHLY):
            assert bench_facts.reflections(found[arm + models]) > 1
            assert found[arm + models].calls[1] >= bench_facts.reflections(found[arm + models])
    assert bench_facts.reflections(found[bench_facts.SUMMARY]) == 0


def test_the_same_conversation_gives_the_same_figures(found: dict[str, Outcome]) -> None:
    arm = bench_facts.OURS + bench_facts.ROUGHLY
    again = bench_facts.compare(turns(MESSAGES), FACTS, TOKENS, [bench_facts.FULL, arm])[arm]
    figures = bench_facts.report_on({TOKENS: found}).data[f"{arm}/{TOKENS}"]
    full = found[bench_facts.FULL]
    repeated = bench_facts.report_on({TOKENS: {bench_facts.FULL: full, arm: again}})
    assert repeated.data[f"{arm}/{TOKENS}"] == figures


def test_the_report_says_by_kind_what_stands_in_the_prompt_and_one_recall_away(
    found: dict[str, Outcome],
) -> None:
    report = bench_facts.report_on({TOKENS: found, 2 * TOKENS: found})
    assert report.columns == ["", *bench_facts.ARMS]
    assert {len(row) for row in report.rows} == {len(report.columns)}
    cells = {str(row[0]): dict(zip(bench_facts.ARMS, row[1:], strict=True)) for row in report.rows}
    for size in (TOKENS, 2 * TOKENS):
        for kind, counts in found[bench_facts.FULL].kinds.items():
            row = cells[f"{kind}, {counts[0]} ({size} tokens)"]
            _, shown, reached = found[bench_facts.RECALLING].kinds[kind]
            wanted = f"{shown} ({reached})" if reached > shown else f"{shown}"
            assert row[bench_facts.RECALLING] == wanted
        for name in ("tokens read", "tokens written", "questions a reflection", "outdated"):
            assert f"{name} ({size} tokens)" in cells
    assert len(report.budgets) == 6
    json.dumps(report.data)


def test_a_page_is_found_from_ranges_on_either_side_of_it() -> None:
    ids = [f"m{number}" for number in range(100)]
    values = {"om": {"log": [{"ranges": [("m50", "m60")]}, {"ranges": [("m70", "m80")]}]}}
    prompt = "_range: `m50:m60`, _range: `m70:m80`"

    def page(wanted: str) -> tuple[str, int]:
        fact = Fact(wanted, "x", frozenset(), 1)
        call = peers.find_page(prompt, values, fact, ids)
        return call["args"]["cursor"], call["args"]["page"]

    assert page("m55") == ("m50", 1)
    assert page("m95") == ("m70", 2)
    assert page("m49") == ("m50", -1)
    assert page("m31") == ("m50", -1)
    assert page("m30") == ("m50", -2)


# --- Reflections ---------------------------------------------------------------------------------


def test_reflections_by_edits_and_by_rewriting_are_compared() -> None:
    # No tools are called without an Actor.
    messages, facts = plant(conversation(150, words=25, seed=4, calls_every=0), every=3)
    courses = bench_reflections.compare(messages, facts)
    assert [each.name for each in courses] == ["edits", "rewrite", "edits, rough", "rewrite, rough"]
    for course in courses:
        assert course.questions >= course.reflections == len(course.changed) > 3
        assert course.read > course.written > 0
        kept, told = course.kept[-1]
        assert 0 < kept < told <= len(facts)
        assert all(0 <= share <= 1 for share in course.changed)
    edits, rewrite = courses[:2]
    assert edits.written / edits.reflections < rewrite.written / rewrite.reflections
    report = bench_reflections.report_on(courses)
    assert {len(row) for row in report.rows} == {len(report.columns)}
    assert courses[0].kept_after(99) == "-"
    json.dumps(report.data)
