"""The figures of a run: scores with intervals, tokens, cost, errors.

An interval covers the draw of the questions, 95 % of the time: Wilson's for scores of 0 and 1, else
a bootstrap; that of the mean over categories is put together from theirs (Zou and Donner, 2008). It
is too narrow where many questions are about one conversation, and says nothing of how a model's
answers vary from run to run.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from evaluation.formats import Dataset
from evaluation.memories import Setup
from evaluation.running import Outcome, Paid, Run
from evaluation.spending import COUNTED, PARTS, Price

Z = 1.959964
DRAWS = 2000
MAX_ERRORS = 5
Row = dict[str, Any]


# --- Intervals -----------------------------------------------------------------------------------


def interval(scores: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return where the mean of scores lies, with 95 % confidence."""
    if set(scores) <= {0.0, 1.0}:
        return wilson(sum(scores), len(scores))
    # A bootstrap of a single question would be sure of itself.
    return bootstrap(scores, seed) if len(scores) > 1 else (0.0, 1.0)


def wilson(hits: float, count: int) -> tuple[float, float]:
    """Return Wilson's interval of a share."""
    share = hits / count
    middle = share + Z * Z / (2 * count)
    margin = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    whole = 1 + Z * Z / count
    return max(0.0, (middle - margin) / whole), min(1.0, (middle + margin) / whole)


def bootstrap(scores: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the percentile interval of the mean of scores drawn anew."""
    draw = random.Random(seed)  # noqa: S311 statistics, no secret
    means = sorted(fmean(draw.choices(scores, k=len(scores))) for _ in range(DRAWS))
    cut = round(DRAWS * 0.025)
    return means[cut - 1], means[-cut]


def joint(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the interval of the mean of several scores from the intervals of each."""
    mean, count = fmean(row["score"] for row in rows), len(rows)
    below = math.hypot(*(row["score"] - row["low"] for row in rows)) / count
    above = math.hypot(*(row["high"] - row["score"] for row in rows)) / count
    return max(0.0, mean - below), min(1.0, mean + above)


# --- Figures -------------------------------------------------------------------------------------


def figures(run: Run, outcomes: Sequence[Outcome], prices: Mapping[str, Price]) -> Row:
    """Return all figures as JSON values."""
    dataset, setup, paid = run.dataset, run.setup, run.paid()
    models = {part: name for part, name in _models(run).items() if name}
    return {
        "benchmark": dataset.benchmark,
        "settings": asdict(setup) | {"judge": run.judge.name if run.judge else None},
        "seed": run.seed,
        "conversations": len(dataset.conversations),
        "questions": len(outcomes),
        "errors": {
            stage: sum(outcome.stage == stage for outcome in outcomes)
            for stage in ("memory", "answer", "judge")
        },
        "memory failures": paid.failures,
        "recalls": sum(outcome.recalls for outcome in outcomes),
        "scores": {
            measure: scores(dataset, outcomes, measure, run.seed) for measure in run.measures
        },
        "tokens": _tokens(paid, models, prices),
        "read": paid.read,
        "remembered at the end": round(fmean(paid.held)) if paid.held else None,
        "actor input per question": _per_question(paid, outcomes),
        "caveats": caveats(run, setup),
    }


def scores(dataset: Dataset, outcomes: Sequence[Outcome], measure: str, seed: int) -> Row:
    """Return one measure by category, over the categories and over all questions."""

    def line(some: Sequence[Outcome]) -> Row:
        # A question that failed has no score: it was not answered, so it counts as wrong.
        values = [outcome.scores.get(measure, 0.0) for outcome in some]
        low, high = interval(values, seed)
        errors = sum(measure not in outcome.scores for outcome in some)
        told = {"count": len(some), "errors": errors, "score": fmean(values)}
        return {**told, "low": low, "high": high}

    found = {
        category: line([each for each in outcomes if each.question.category == category])
        for category in dataset.categories
    }
    whole = line(outcomes)
    low, high = joint(list(found.values()))
    mean = fmean(row["score"] for row in found.values())
    over_all = {
        "mean over categories": whole | {"score": mean, "low": low, "high": high},
        "all questions": whole,
    }
    name, keeps = _aside(dataset)
    some = [each for each in outcomes if keeps(each)]
    if 0 < len(some) < len(outcomes):
        over_all[name] = line(some)
    return {"categories": found, "overall": over_all}


def _aside(dataset: Dataset) -> tuple[str, Callable[[Outcome], bool]]:
    """Return what each benchmark is also reported by."""
    if dataset.benchmark == "LongMemEval":
        return "abstention", lambda each: not each.question.has_answer
    left_out = "abstention" if dataset.benchmark == "BEAM" else "adversarial"
    return f"without {left_out}", lambda each: each.question.has_answer


def _models(run: Run) -> dict[str, str | None]:
    setup = run.setup
    is_observed = setup.memory == "observational"
    return {
        "actor": setup.actor,
        "observer": setup.observer if is_observed else None,
        "reflector": setup.reflector if is_observed else None,
        "summarizer": setup.observer if setup.memory in ("summary", "deepagents") else None,
        "judge": run.judge.name if run.judge else None,
    }


def models_of(run: Run) -> set[str]:
    """Return the models that a run calls."""
    return {name for name in _models(run).values() if name}


def _tokens(paid: Paid, models: Mapping[str, str], prices: Mapping[str, Price]) -> Row:
    """Return what each model took, for remembering and for answers and verdicts."""
    rows: list[Row] = []
    for phase, spent in (("remembering", paid.remembering), ("asking", paid.asking)):
        for part in (each for each in PARTS if each in spent and each in models):
            price = prices.get(models[part])
            cost = price.of(spent[part]) if price else None
            told = {"part": part, "phase": phase, "model": models[part]}
            rows.append(told | spent[part] | {"cost": cost})
    costs = [row["cost"] for row in rows]
    return {"rows": rows, "cost": sum(costs) if costs and None not in costs else None}


def _per_question(paid: Paid, outcomes: Sequence[Outcome]) -> int:
    answered = sum(bool(outcome.answer) for outcome in outcomes)
    return round(paid.asking.get("actor", {}).get("input", 0) / max(1, answered))


def caveats(run: Run, setup: Setup) -> list[str]:
    """Say what the figures are not."""
    said = []
    offline = sorted(part for part, name in _models(run).items() if name == "offline")
    if offline and run.dataset.benchmark == "probes":
        said.append(
            f"Deterministic doubles played {', '.join(offline)}: the figures say what was readable "
            f"in the prompt, where notes and summaries are quotations; they are no model's score."
        )
    elif {"actor", "observer", "reflector", "summarizer"} & set(offline):
        said.append(
            f"Deterministic doubles played {', '.join(offline)}: these figures test the plumbing, "
            f"they say nothing about what memory is worth."
        )
    if run.judge and run.judge.name == "offline":
        said.append(
            "Judged without a model, by looking for the reference word for word: this is not the "
            "benchmark's score. Name a model with --judge."
        )
    if run.paid().failures:
        said.append("Where an observation or reflection failed, memory went on with raw messages.")
    if setup.memory == "full":
        said.append("Nothing is left out of the prompt: what is too long for the model fails.")
    return said


# --- The report ----------------------------------------------------------------------------------


def report(found: Row, outcomes: Sequence[Outcome]) -> str:
    """Write the figures for reading."""
    asked = f"{found['questions']} questions about {found['conversations']} conversations"
    lines = [f"{found['benchmark']}: {asked}, memory: {found['settings']['memory']}"]
    for measure, table in found["scores"].items():
        rows = [*table["categories"].items(), *table["overall"].items()]
        head = ("", "count", "errors", measure, "95 % interval")
        lines += ["", *write_table([head, *(_score_cells(*row) for row in rows)])]
    lines += ["", *write_table(_token_rows(found["tokens"]))]
    if found["tokens"]["cost"] is not None:
        each = found["tokens"]["cost"] / max(1, found["questions"])
        lines.append(f"cost: {found['tokens']['cost']:.4f}, {each:.5f} per question")
    lines += [
        "",
        f"actor input per question: {found['actor input per question']} tokens",
        f"recalls: {found['recalls']}",
        f"observations and reflections that failed: {found['memory failures']}",
    ]
    told = ", ".join(f"{count} in {stage}" for stage, count in found["errors"].items() if count)
    lines.append(f"questions that failed, counted as wrong: {told or 'none'}")
    failed = Counter(f"{each.stage}: {each.error}" for each in outcomes if each.error)
    lines += [f"  {count} x {error}" for error, count in failed.most_common(MAX_ERRORS)]
    if told:
        lines.append("  run again to try them again")
    return "\n".join([*lines, *([""] if found["caveats"] else []), *found["caveats"]])


def _score_cells(name: str, row: Row) -> tuple[str, ...]:
    within = f"{row['low']:.3f} to {row['high']:.3f}"
    return name, str(row["count"]), str(row["errors"]), f"{row['score']:.3f}", within


def _token_rows(tokens: Row) -> list[tuple[str, ...]]:
    has_cost = any(row["cost"] is not None for row in tokens["rows"])
    head = ("part", "phase", "model", *COUNTED, *(["cost"] if has_cost else []))
    lines = [head]
    for row in tokens["rows"]:
        cost = "no price" if row["cost"] is None else f"{row['cost']:.4f}"
        cells = (row["part"], row["phase"], row["model"], *(str(row[name]) for name in COUNTED))
        lines.append((*cells, *([cost] if has_cost else [])))
    return lines


def write_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Write rows as aligned lines, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = {0} | {at for at, cell in enumerate(rows[0]) if cell in ("phase", "model")}
    return [
        "  ".join(
            cell.ljust(width) if at in texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
