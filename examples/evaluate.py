# Measures what memory is worth: long conversations are remembered, then asked about.
#
#     pip install "langgraph-om[examples]"
#     python examples/evaluate.py tests/data/evaluation/locomo.json       # offline, with doubles
#     python examples/evaluate.py longmemeval_s.json --limit 50 --workers 8 \
#         --actor openai/gpt-5-mini --observer google/gemini-2.5-flash --judge openai/gpt-4o \
#         --price openai/gpt-5-mini=0.25,2,0.025 --json figures.json
#     python examples/evaluate.py longmemeval_s.json ... --memory full    # and --memory summary
#     python examples/evaluate.py FILE --arms all --prompt-tokens 7000    # side by side
#     python examples/evaluate.py FILE --answers FOLDER                   # you are the model
#
# The files are those of LongMemEval or LoCoMo, or LoCoMo's conversations as lists of messages (see
# `evaluation/formats.py`); the rules by which answers count are in `evaluation/rules.py`. Each
# session is given to memory as one step, at its own time; `recall` reads an archive; each question
# is a branch of its own behind the last session.
#
# Everything paid for is kept in a folder beside the file (--work). Started again, with the same
# settings, the run goes on where it stopped, and asks again only what failed. Another judge judges
# the answers that are there; another actor asks anew, of the memory that is there.
#
# With --answers, each question to a model is a file in a folder, and its answer is the file beside
# it (see `evaluation/files.py`): any model plays a role, or you do. The run stops at a question
# without an answer, with exit code 3; start it again with the answer written. With --answers-wait
# it first asks everything that can be asked now. Roles that are named play themselves:
# `--observer file --actor openai/gpt-5-mini`.

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, get_args

from langgraph_om import ConfigurationError

try:
    from evaluation import doubles, files
    from evaluation.comparing import ARMS, compare, read_arms, write_comparison
    from evaluation.files import ANSWER, QUESTION, Mailbox, UnansweredError
    from evaluation.formats import CATEGORIES, Dataset, choose, read_files
    from evaluation.judging import Judge, ModelJudge, WordForWord, named_judge
    from evaluation.memories import (
        MESSAGE_TOKENS,
        OBSERVATION_TOKENS,
        MemoryName,
        Players,
        Setup,
        check,
    )
    from evaluation.reporting import figures, models_of, report
    from evaluation.running import Outcome, Run
    from evaluation.spending import read_price
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[examples]'")

MEMORIES = get_args(MemoryName)
UNANSWERED = 3
"""The exit code of a run that waits for answers."""
MAX_SHOWN = 10


def fail(reason: object) -> NoReturn:
    print(f"evaluate: {' '.join(str(reason).split())}", file=sys.stderr)
    raise SystemExit(2)


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what memory is worth.")
    option = parser.add_argument
    option("files", type=Path, nargs="+", metavar="FILE", help="questions of one benchmark")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--memory", choices=MEMORIES, help=f"default: {MEMORIES[0]}")
    which.add_argument(
        "--arms", metavar="NAME,...", help=f"side by side: all, or some of {', '.join(ARMS)}"
    )
    option("--no-recall", action="store_true", help="observations alone, without the tool")
    option("--actor", metavar="MODEL", help="such as openai/gpt-5-mini; or file")
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
    option("--answers", type=Path, metavar="FOLDER", help="questions and answers are files there")
    option("--answers-wait", action="store_true", help="ask all that can be asked, then stop")
    option("--prompt-tokens", type=count, metavar="N", help="for all that is remembered together")
    option("--message-tokens", type=count, metavar="N", help=f"default: {MESSAGE_TOKENS}")
    option("--observation-tokens", type=count, metavar="N", help=f"default: {OBSERVATION_TOKENS}")
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
def progress(dataset: Dataset, times: int = 1) -> Iterator[Callable[[str], None]]:
    """Open two bars, or lines where there is no terminal; yields what moves them on."""
    totals = {
        "session": times * sum(len(each.sessions) for each in dataset.conversations),
        "question": times * sum(len(each.questions) for each in dataset.conversations),
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


def prepare(options: argparse.Namespace) -> dict[str, Run]:
    """Return the runs by the names of their memories, in order."""
    dataset = choose(
        read_files(options.files),
        categories=list(map(category, options.only_category)),
        conversations=options.conversations,
        limit=options.limit,
        seed=options.seed,
    )
    check_options(options)
    first = options.files[0]
    folder = options.work or first.with_name(f"{first.stem}.evaluation")
    if options.answers and not options.work:
        folder = options.answers / "results"
    players = Players(Mailbox(options.answers) if options.answers else None)
    setups = make_setups(options)
    for setup in setups.values():
        check(setup, options.judge or doubles.NAME)
        check_players(setup, options)
    judge = make_judge(options, dataset, players)
    return {
        arm: Run(
            *(dataset, setup, judge, folder, options.seed, options.workers, players),
            collects=options.answers_wait,
        )
        for arm, setup in setups.items()
    }


def check_options(options: argparse.Namespace) -> None:
    if options.prompt_tokens and (options.message_tokens or options.observation_tokens):
        fail("--prompt-tokens stands in place of --message-tokens and --observation-tokens")
    if options.arms and options.no_recall:
        fail("--no-recall is for one memory; --arms has one with recall and one without")
    if options.answers_wait and not options.answers:
        fail("--answers-wait needs --answers FOLDER")


def make_setups(options: argparse.Namespace) -> dict[str, Setup]:
    """Return what is run, by name."""
    actor = options.actor or (files.NAME if options.answers else doubles.NAME)
    observer = options.observer or actor
    memory: MemoryName = options.memory or "observational"
    common = Setup(
        memory=memory,
        actor=actor,
        observer=observer,
        reflector=options.reflector or observer,
        message_tokens=options.message_tokens or MESSAGE_TOKENS,
        observation_tokens=options.observation_tokens or OBSERVATION_TOKENS,
        recall=not options.no_recall,
        prompt_tokens=options.prompt_tokens,
    )
    if options.arms is None:
        return {common.memory: common}
    return {arm: replace(common, **ARMS[arm]) for arm in read_arms(options.arms)}


def check_players(setup: Setup, options: argparse.Namespace) -> None:
    """Refuse files that nobody asks for, and roles that have none."""
    plays = files.NAME in (setup.actor, setup.observer, setup.reflector, options.judge)
    if plays and not options.answers:
        fail(f"a role is {files.NAME!r}; say with --answers FOLDER where its files are")
    if options.answers and not plays:
        fail(f"--answers is for roles that are {files.NAME!r}, and none is")


def make_judge(options: argparse.Namespace, dataset: Dataset, players: Players) -> Judge | None:
    if options.judge is None and dataset.benchmark == "LoCoMo":
        return None
    if options.judge in (None, doubles.NAME):
        return WordForWord()
    if options.judge == files.NAME:
        return ModelJudge(files.NAME, players.model(files.NAME, "judge"))
    told = options.judge_temperature
    return named_judge(options.judge, None if told == "none" else float(told))


def check_prices(prices: Collection[str], models: Collection[str]) -> None:
    unused = ", ".join(sorted(set(prices) - set(models)))
    if unused:
        fail(f"--price names {unused}, and the run calls {', '.join(sorted(models))}")


def say_what_waits(mailbox: Mailbox) -> None:
    """Say which answers to write."""
    stems = sorted(mailbox.missing)
    many = "1 answer" if len(stems) == 1 else f"{len(stems)} answers"
    print(f"evaluate: waiting for {many}; write", file=sys.stderr)
    for stem in stems[:MAX_SHOWN]:
        asked = f"{stem}{QUESTION}"
        print(f"  {mailbox.folder / f'{stem}{ANSWER}'} (asked in {asked})", file=sys.stderr)
    if len(stems) > MAX_SHOWN:
        print(f"  and {len(stems) - MAX_SHOWN} more", file=sys.stderr)
    print("and run the same command again", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    if options.json and not options.json.absolute().parent.is_dir():
        fail(f"--json {options.json} can not be written; name a file in a folder that exists")
    try:
        runs = prepare(options)
        prices = dict(map(read_price, options.price))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[deepagents,examples]'")
    except (ConfigurationError, ValueError, OSError) as error:
        fail(error)
    check_prices(prices, {model for run in runs.values() for model in models_of(run)})
    (first, *_) = runs.values()
    mailbox = first.players.mailbox
    outcomes: dict[str, list[Outcome]] = {}
    try:
        with progress(first.dataset, len(runs)) as tell:
            for arm, run in runs.items():
                run.tell = tell
                outcomes[arm] = run.outcomes()
    except KeyboardInterrupt:
        print("evaluate: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except UnansweredError:
        pass  # the mailbox knows
    if mailbox and mailbox.missing:
        say_what_waits(mailbox)
        return UNANSWERED
    found = {arm: figures(run, outcomes[arm], prices) for arm, run in runs.items()}
    if options.arms:
        whole = compare(found, outcomes)
        told = write_comparison(whole)
    else:
        ((arm, whole),) = found.items()
        told = report(whole, outcomes[arm])
    if options.json:
        options.json.write_text(f"{json.dumps(whole, indent=2)}\n", encoding="utf-8")
    print(told)
    return 1 if any(any(each["errors"].values()) for each in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
