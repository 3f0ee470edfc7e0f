"""What a fact costs: kinds of facts, what is still told of each, and the tokens that this took.

By itself: `python tests/benchmarks/bench_facts.py [--quick] [--tokens N ...] [--markdown]`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench_peers import Outcome, replay
from conversation import Turn, conversation, turns
from facts import KINDS, Fact, plant
from metered import Metered
from peers import ALL, Agent, Make, Saver, full_history, remembering_by, summarising
from report import Budget, Options, Report, markdown, text_table

from langgraph_om.testing import RoughObserver, RoughReflector

TOKENS = (6_000, 2_500)
SUMMARY_PART = 4 / 7
"""How much of the room a summary may take: as much as the log does by default."""
SEED = 7
FULL, SUMMARY, OURS, RECALLING = "full", "summary", "observational", "observational+recall"
ROUGHLY = ", rough"
NOTES = f"""\
A cell says how many facts the last prompt tells, and in brackets how many with one call of `recall`
for each of the others. A fact is told where one line has all of its words; `count` where each of
the times that it was told is. `outdated`: those of `change` of which only the former state is told.
Every arm but `full` has the same room for what is remembered: log and window, summary and messages.
All arms note by the same rule, so what they keep follows from room and form, not from judgement.
`{ROUGHLY.strip(", ")}`: models that miss sizes and forget the form by a seed, as real ones do.
Calls are those of a summariser, or of Observer and Reflector; tokens are what these read and write.
"""


# --- Who remembers -------------------------------------------------------------------------------


def remembering(
    actor: Metered,
    budget: int,
    saver: Saver,
    *,
    is_rough: bool = False,
    **options: Any,
) -> Agent:
    rough: dict[str, Any] = {}
    if is_rough:
        rough = {"observe": RoughObserver(SEED).reply, "reflect": RoughReflector(SEED).reply}
    return remembering_by(actor, saver, token_budget=budget, **rough, **options)


ARMS: Mapping[str, Make] = {
    FULL: full_history,
    SUMMARY: partial(summarising, part=SUMMARY_PART),
    OURS: remembering,
    RECALLING: partial(remembering, **ALL),
    OURS + ROUGHLY: partial(remembering, is_rough=True),
}


# --- The report ----------------------------------------------------------------------------------


def compare(
    runs: Sequence[Turn], facts: Sequence[Fact], budget: int, names: Sequence[str] = tuple(ARMS)
) -> dict[str, Outcome]:
    """Replay a conversation through arms with the same room."""
    replayed = {str(each.id) for inputs, said in runs for each in (*inputs, *said)}
    asked = [fact for fact in facts if fact.message_id in replayed]
    return {name: replay(name, budget, runs, asked, ARMS) for name in names}


def run(options: Options, budgets: Sequence[int] = TOKENS) -> Report:
    messages, facts = plant(conversation(options.pick(400, 200), words=30, seed=4))
    runs = turns(messages)
    found = {budget: compare(runs, facts, budget) for budget in budgets}
    return report_on(found)


def report_on(found: Mapping[int, Mapping[str, Outcome]]) -> Report:
    """Write outcomes as a table: a column for each arm, and rows for each size of the room."""
    first = next(iter(found.values()))
    rows: list[list[object]] = []
    for budget, outcomes in found.items():
        rows += [["", *[""] * len(outcomes)]] if rows else []
        rows += [[f"{name} ({budget} tokens)", *cells] for name, cells in _rows(outcomes)]
    full = first[FULL]
    return Report(
        f"What a fact costs, {full.turns} turns, {full.facts} facts",
        ["", *first],
        rows,
        [budget for size, outcomes in found.items() for budget in _budgets(size, outcomes)],
        NOTES.splitlines(),
        {
            f"{name}/{size}": _figures(each)
            for size, outcomes in found.items()
            for name, each in outcomes.items()
        },
    )


def _rows(outcomes: Mapping[str, Outcome]) -> list[tuple[str, list[object]]]:
    def line(cell: Callable[[Outcome], object]) -> list[object]:
        return [cell(each) for each in outcomes.values()]

    of_kinds = {
        f"{kind}, {each[0]}": line(lambda one, kind=kind: _cell(*one.kinds[kind][1:]))  # type: ignore[misc]
        for kind in KINDS
        if (each := next(iter(outcomes.values())).kinds.get(kind))
    }
    whole = next(iter(outcomes.values())).facts
    figures = {
        f"all, {whole}": line(lambda one: _cell(one.shown, one.reached)),
        "outdated": line(lambda one: one.outdated),
        "last prompt, tokens": line(lambda one: f"{one.sizes[-1]:,}"),
        "calls": line(lambda one: " + ".join(map(str, one.calls)) or "0"),
        "tokens read": line(lambda one: f"{one.read:,}"),
        "tokens written": line(lambda one: f"{one.extra_output:,}"),
        "reflections": line(lambda one: reflections(one) or "-"),
        "questions a reflection": line(
            lambda one: f"{one.calls[1] / reflections(one):.2f}" if reflections(one) else "-"
        ),
        "tokens a fact": line(
            lambda one: f"{spent_by(one) / max(1, one.reached):,.0f}" if one.extra_calls else "-"
        ),
    }
    return [*of_kinds.items(), *figures.items()]


def _cell(shown: int, reached: int) -> str:
    return f"{shown} ({reached})" if reached > shown else f"{shown}"


def reflections(outcome: Outcome) -> int:
    """How often the log was reflected."""
    generation: int = outcome.record.get("generation", 0)
    return generation


def spent_by(outcome: Outcome) -> int:
    """Tokens that memory's models read and wrote."""
    return outcome.read + outcome.extra_output


def _figures(each: Outcome) -> dict[str, Any]:
    return {
        "facts": each.facts,
        "shown": each.shown,
        "reached": each.reached,
        "kinds": {
            kind: dict(zip(("facts", "shown", "reached"), counts, strict=True))
            for kind, counts in each.kinds.items()
        },
        "outdated": each.outdated,
        "last prompt": each.sizes[-1],
        "calls": each.calls,
        "read": each.read,
        "written": each.extra_output,
        "reflections": reflections(each),
    }


def _budgets(size: int, outcomes: Mapping[str, Outcome]) -> list[Budget]:
    if RECALLING not in outcomes or SUMMARY not in outcomes:
        return []
    ours, summary, recalling = (outcomes[name] for name in (OURS, SUMMARY, RECALLING))
    singles = recalling.facts - recalling.kinds.get("count", [0])[0]
    reached = recalling.reached - recalling.kinds.get("count", [0, 0, 0])[2]
    rough = outcomes[OURS + ROUGHLY]
    questions = rough.calls[1] / max(1, reflections(rough))
    return [
        Budget(
            f"facts in the prompt within {size} tokens",
            f">= {summary.shown} (a summary's)",
            f"{ours.shown}",
            ours.shown >= summary.shown,
        ),
        Budget(
            f"facts told once that are one recall away, {size} tokens",
            f"all {singles}",
            f"{reached}",
            reached == singles,
        ),
        Budget(
            f"questions for a reflection by edits, rough models, {size} tokens",
            "<= 1.3",
            f"{questions:.2f}",
            questions <= 1.3,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what memory still tells, by kind of fact.")
    parser.add_argument("--quick", action="store_true", help="a shorter conversation")
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="the room of all")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    chosen = parser.parse_args()
    report = run(Options(quick=chosen.quick), chosen.tokens)
    print(markdown(report) if chosen.markdown else text_table(report))  # noqa: T201 its output


if __name__ == "__main__":
    main()
