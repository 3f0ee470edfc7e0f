"""Several memories side by side: which there are to choose from, and one table over their figures.

The full conversation is shown whole; the others have the same room where `prompt_tokens` says how
much. Remembered are observations and messages, or summary and messages, or messages alone, after
the last session; a prompt also has instructions and a question. Memory's tokens are those of its
own models.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from evaluation import command
from evaluation.files import UnansweredError
from evaluation.reading import KINDS, add_read
from evaluation.reporting import Row, figures, models_of, report, write_table
from evaluation.running import Outcome, Run
from evaluation.spending import COUNTED, Price, add, read_price
from langgraph_om import ConfigurationError

ARMS: Mapping[str, Mapping[str, Any]] = {
    "full": {"memory": "full", "recall": False},
    "trim": {"memory": "trim", "recall": False},
    "summary": {"memory": "summary", "recall": False},
    "deepagents": {"memory": "deepagents", "recall": False},
    "observational": {"memory": "observational", "recall": False},
    "observational+recall": {"memory": "observational", "recall": True},
}
"""What each of them sets of a `Setup`."""
MEMORY = ("observer", "reflector", "summarizer")


def read_arms(text: str) -> list[str]:
    """Read names of arms, separated by commas, or `all`.

    Raises:
        ValueError: When one is not known.
    """
    names = list(ARMS) if text == "all" else list(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in ARMS]
    if unknown:
        msg = f"--arms names {unknown[0]!r}; write some of {', '.join(ARMS)}, or all"
        raise ValueError(msg)
    return names


def compare_arms(
    prepare: Callable[[Namespace], Mapping[str, Run]],
    options: Namespace,
    script: str,
    *,
    side_by_side: bool = True,
) -> int:
    """Prepare what a script was asked for, run it, and return the script's exit code.

    Args:
        prepare: Returns the runs, given the options.
        options: Of the command line, with `price` and `json`.
        script: The name of the script.
        side_by_side: As for `measure`.
    """
    command.check_json(options.json, script)
    try:
        runs = prepare(options)
        prices = dict(map(read_price, options.price))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[deepagents,examples]'")
    except (ConfigurationError, ValueError, OSError) as error:
        command.fail(error, script)
    return measure(runs, prices, script, options.json, side_by_side=side_by_side)


def measure(
    runs: Mapping[str, Run],
    prices: Mapping[str, Price],
    script: str,
    file: Path | None = None,
    *,
    side_by_side: bool = True,
) -> int:
    """Run all arms, print what came of them, and return the exit code of the script.

    Args:
        runs: By the names of their arms, of the same questions.
        prices: By model.
        script: The name of the script.
        file: The figures are written there too.
        side_by_side: Whether arms are compared; else there is one, which is reported.
    """
    models = {model for run in runs.values() for model in models_of(run)}
    command.check_prices(prices, models, script)
    (first, *_) = runs.values()
    mailbox = first.players.mailbox
    outcomes: dict[str, list[Outcome]] = {}
    asked = first.dataset.conversations
    steps = {
        "session": len(runs) * sum(len(each.sessions) for each in asked),
        "question": len(runs) * sum(len(each.questions) for each in asked),
    }
    try:
        with command.progress(steps) as tell:
            for arm, run in runs.items():
                run.tell = tell
                outcomes[arm] = run.outcomes()
    except KeyboardInterrupt:
        print(f"{script}: stopped; the same command goes on from here", file=sys.stderr)
        return command.INTERRUPTED
    except UnansweredError:
        pass  # the mailbox knows
    if mailbox and mailbox.missing:
        command.say_what_waits(mailbox, script)
        return command.UNANSWERED
    found = {arm: figures(run, outcomes[arm], prices) for arm, run in runs.items()}
    if side_by_side:
        whole = compare(found, outcomes)
        told = write_comparison(whole)
    else:
        ((arm, whole),) = found.items()
        told = report(whole, outcomes[arm])
    if file:
        file.write_text(f"{json.dumps(whole, indent=2)}\n", encoding="utf-8")
    print(told)
    return 1 if any(any(each["errors"].values()) for each in found.values()) else 0


def compare(found: Mapping[str, Row], outcomes: Mapping[str, Sequence[Outcome]]) -> Row:
    """Return the figures of all arms, and for each what they are compared by.

    Args:
        found: By arm, the figures of its run.
        outcomes: By arm, what came of the questions.
    """
    first = next(iter(found.values()))
    return {
        "benchmark": first["benchmark"],
        "conversations": first["conversations"],
        "questions": first["questions"],
        "prompt tokens": first["settings"]["prompt_tokens"],
        "compared": {arm: _compared(found[arm], outcomes[arm]) for arm in found},
        "arms": dict(found),
    }


def _compared(found: Row, outcomes: Sequence[Outcome]) -> Row:
    prompts = [each.prompt for each in outcomes if each.prompt]
    rows = found["tokens"]["rows"]
    of_memory = [row for row in rows if row["part"] in MEMORY]
    costs = [row["cost"] for row in of_memory]
    return {
        "prompt at the end": {
            "mean": round(fmean(prompts)) if prompts else None,
            "largest": max(prompts, default=None),
        },
        "memory": {
            **add({"memory": row} for row in of_memory).get("memory", dict.fromkeys(COUNTED, 0)),
            "cost": None if None in costs else sum(costs),
            "calls by part": {
                part: sum(row["calls"] for row in of_memory if row["part"] == part)
                for part in MEMORY
            },
            "failures": found["memory failures"],
            "read": _read(found),
        },
        "remembered at the end": found["remembered at the end"],
        "recalls": found["recalls"],
        "cost": found["tokens"]["cost"],
        "errors": sum(found["errors"].values()),
    }


def _read(found: Row) -> Row:
    """Return what memory's models read, in tokens of this package's count, and how they wrote."""
    parts = (found["read"].get(part, {}) for part in MEMORY)
    counts = add_read({"memory": part} for part in parts if part).get("memory")
    if not counts:
        return dict.fromkeys((*KINDS, "second questions per 100", "repeated words, %"))
    again, words = counts["again"] / counts["questions"], counts["words"]
    return {
        **{kind: counts[kind] for kind in KINDS},
        "second questions per 100": round(100 * again),
        "repeated words, %": round(100 * counts["repeated"] / words) if words else None,
    }


# --- The table -----------------------------------------------------------------------------------


def write_comparison(whole: Row) -> str:
    """Write the figures of all arms for reading, a column for each."""
    asked = f"{whole['questions']} questions about {whole['conversations']} conversations"
    budget = whole["prompt tokens"]
    room = f", {budget} tokens of a prompt for what is remembered" if budget else ""
    lines = [f"{whole['benchmark']}: {asked}{room}"]
    arms = whole["arms"]
    for measure in next(iter(arms.values()))["scores"]:
        tables = [found["scores"][measure] for found in arms.values()]
        rows = [(measure, *arms)]
        for kind in ("categories", "overall"):
            for name, row in tables[0][kind].items():
                scores = [f"{table[kind][name]['score']:.3f}" for table in tables]
                rows.append((f"{name} ({row['count']})", *scores))
        lines += ["", *write_table(rows)]
    lines += ["", *write_table([("", *arms), *_rows(list(whole["compared"].values()))])]
    said: dict[str, list[str]] = {}
    for arm, found in arms.items():
        for text in found["caveats"]:
            said.setdefault(text, []).append(arm)
    caveats = [f"{', '.join(names)}: {text}" for text, names in said.items()]
    return "\n".join([*lines, *([""] if said else []), *caveats])


def _rows(compared: Sequence[Row]) -> list[tuple[str, ...]]:
    def line(name: str, *path: str, digits: int | None = None) -> tuple[str, ...]:
        cells: list[str] = []
        for each in compared:
            value: Any = each
            for key in path:
                value = value[key]
            is_price = value is not None and digits is not None
            cells.append(
                "-" if value is None else f"{value:.{digits}f}" if is_price else f"{value}"
            )
        return name, *cells

    return [
        line("remembered at the end", "remembered at the end"),
        line("prompt at the end, mean", "prompt at the end", "mean"),
        line("prompt at the end, largest", "prompt at the end", "largest"),
        line("memory: calls", "memory", "calls"),
        *(line(f"  of the {part}", "memory", "calls by part", part) for part in MEMORY),
        *(line(f"memory: {name} tokens", "memory", name) for name in COUNTED[1:]),
        *(line(f"  of these {kind}", "memory", "read", kind) for kind in KINDS),
        *(
            line(f"memory: {name}", "memory", "read", name)
            for name in ("second questions per 100", "repeated words, %")
        ),
        line("memory: failures", "memory", "failures"),
        line("memory: cost", "memory", "cost", digits=4),
        line("recalls", "recalls"),
        line("cost of everything", "cost", digits=4),
        line("questions that failed", "errors"),
    ]
