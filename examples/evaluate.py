# Measures what memory is worth: long conversations are remembered, then asked about.
#
#     pip install "langgraph-om[examples]"
#     python examples/evaluate.py tests/data/evaluation/locomo.json       # offline, with doubles
#     python examples/evaluate.py longmemeval_s.json --limit 50 --workers 8 \
#         --actor openai/gpt-5-mini --observer google/gemini-2.5-flash --judge openai/gpt-4o \
#         --price openai/gpt-5-mini=0.25,2,0.025 --json figures.json
#     python examples/evaluate.py longmemeval_s.json ... --memory full    # and --memory summary
#
# The files are those of LongMemEval or LoCoMo, or LoCoMo's conversations as lists of messages (see
# `evaluation/formats.py`); the rules by which answers count are in `evaluation/rules.py`. Each
# session is given to memory as one step, at its own time; `recall` reads an archive; each question
# is a branch of its own behind the last session.
#
# Everything paid for is kept in a folder beside the file (--work). Started again, with the same
# settings, the run goes on where it stopped, and asks again only what failed. Another judge judges
# the answers that are there; another actor asks anew, of the memory that is there.

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from langgraph_om import ConfigurationError

try:
    from evaluation import doubles
    from evaluation.formats import CATEGORIES, Dataset, choose, read_files
    from evaluation.judging import Judge, ModelJudge, WordForWord
    from evaluation.memories import Setup, check
    from evaluation.reporting import figures, models_of, report
    from evaluation.running import Run
    from evaluation.spending import read_price
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[examples]'")

MEMORIES = ("observational", "full", "summary")


def fail(reason: object) -> NoReturn:
    print(f"evaluate: {' '.join(str(reason).split())}", file=sys.stderr)
    raise SystemExit(2)


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what memory is worth.")
    option = parser.add_argument
    option("files", type=Path, nargs="+", metavar="FILE", help="questions of one benchmark")
    option("--memory", choices=MEMORIES, default=MEMORIES[0], help="default: %(default)s")
    option("--no-recall", action="store_true", help="observations alone, without the tool")
    option("--actor", metavar="MODEL", default=doubles.NAME, help="such as openai/gpt-5-mini")
    option("--observer", metavar="MODEL", help="also writes summaries; default: the actor's")
    option("--reflector", metavar="MODEL", help="default: the observer's")
    option("--judge", metavar="MODEL", help="LoCoMo has F1 without one, and F1 beside one")
    option("--judge-temperature", default="0", metavar="T", help="none: the model's own")
    option(
        "--price",
        action="append",
        default=[],
        metavar="MODEL=IN,OUT[,CACHED]",
        help="cost of a million tokens; for each model, else the total is not shown",
    )
    option("--message-tokens", type=count, default=30_000, metavar="N", help="default: %(default)s")
    option(
        "--observation-tokens", type=count, default=40_000, metavar="N", help="default: %(default)s"
    )
    option("--only-category", action="append", default=[], metavar="NAME", help="may be repeated")
    option("--conversations", type=count, metavar="N", help="only the first N")
    option("--limit", type=count, metavar="N", help="only N questions, drawn by --seed")
    option("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    option("--workers", type=count, default=4, metavar="N", help="conversations at a time")
    option("--work", type=Path, metavar="FOLDER", help="default: beside FILE, named .evaluation")
    option("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args(arguments)


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"{number} is too small; write 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def category(text: str) -> str:
    """Take LoCoMo's numbers too."""
    return CATEGORIES.get(int(text), text) if text.isdigit() else text


@contextmanager
def progress(dataset: Dataset) -> Iterator[Callable[[str], None]]:
    """Open two bars, or lines where there is no terminal; yields what moves them on."""
    totals = {
        "session": sum(len(each.sessions) for each in dataset.conversations),
        "question": sum(len(each.questions) for each in dataset.conversations),
    }
    if sys.stderr.isatty() and find_spec("rich"):
        rich = import_module("rich.progress")
        console = import_module("rich.console").Console(stderr=True)
        columns = [rich.BarColumn(24), rich.MofNCompleteColumn(), rich.TimeRemainingColumn()]
        with rich.Progress(
            "{task.description:10}", *columns, console=console, transient=True
        ) as bars:
            tasks = {kind: bars.add_task(f"{kind}s", total=total) for kind, total in totals.items()}
            yield lambda kind: bars.advance(tasks[kind])
        return
    done = dict.fromkeys(totals, 0)

    def show(kind: str) -> None:
        done[kind] += 1
        if done[kind] * 10 // totals[kind] > (done[kind] - 1) * 10 // totals[kind]:
            print(f"{done[kind]} of {totals[kind]} {kind}s", file=sys.stderr)

    yield show


def prepare(options: argparse.Namespace) -> Run:
    dataset = choose(
        read_files(options.files),
        categories=list(map(category, options.only_category)),
        conversations=options.conversations,
        limit=options.limit,
        seed=options.seed,
    )
    observer = options.observer or options.actor
    setup = Setup(
        memory=options.memory,
        actor=options.actor,
        observer=observer,
        reflector=options.reflector or observer,
        message_tokens=options.message_tokens,
        observation_tokens=options.observation_tokens,
        recall=not options.no_recall,
    )
    check(setup, options.judge or doubles.NAME)
    first = options.files[0]
    folder = options.work or first.with_name(f"{first.stem}.evaluation")
    judge = make_judge(options, dataset)
    return Run(dataset, setup, judge, folder, options.seed, options.workers)


def make_judge(options: argparse.Namespace, dataset: Dataset) -> Judge | None:
    if options.judge is None and dataset.benchmark == "LoCoMo":
        return None
    if options.judge in (None, doubles.NAME):
        return WordForWord()
    told = options.judge_temperature
    return ModelJudge(options.judge, None if told == "none" else float(told))


def check_prices(prices: Collection[str], models: Collection[str]) -> None:
    unused = ", ".join(sorted(set(prices) - set(models)))
    if unused:
        fail(f"--price names {unused}, and the run calls {', '.join(sorted(models))}")


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    if options.json and not options.json.absolute().parent.is_dir():
        fail(f"--json {options.json} can not be written; name a file in a folder that exists")
    try:
        run = prepare(options)
        prices = dict(map(read_price, options.price))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[agents,examples]'")
    except (ConfigurationError, ValueError, OSError) as error:
        fail(error)
    check_prices(prices, models_of(run))
    try:
        with progress(run.dataset) as run.tell:
            outcomes = run.outcomes()
    except KeyboardInterrupt:
        print("evaluate: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    found = figures(run, outcomes, prices)
    if options.json:
        options.json.write_text(f"{json.dumps(found, indent=2)}\n", encoding="utf-8")
    print(report(found, outcomes))
    return 1 if any(found["errors"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
