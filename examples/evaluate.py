# Measures what memory is worth: long conversations are remembered, then asked about.
#
#     pip install "langgraph-om[examples]"
#     python examples/evaluate.py tests/data/evaluation/locomo.json       # offline, with doubles
#     python examples/evaluate.py longmemeval_s.json --limit 50 --workers 8 \
#         --actor openai/gpt-6-luna --judge openai/gpt-6-sol \
#         --observer google/gemini-flash-lite-latest \
#         --price openai/gpt-6-luna=0.25,2,0.025 --json figures.json
#     python examples/evaluate.py longmemeval_s.json ... --memory full    # and --memory summary
#     python examples/evaluate.py FILE --arms all --prompt-tokens 7000    # side by side
#     python examples/evaluate.py FILE --answers FOLDER                   # you are the model
#
# The files are those of LongMemEval, LoCoMo or BEAM (its `chat.json`), or LoCoMo's conversations as
# lists of messages (see `evaluation/formats.py`); the rules by which answers count are in
# `evaluation/rules.py`. Each session is given to memory as one step, at its own time; `recall`
# reads an archive; each question is a branch of its own behind the last session.
#
# Everything paid for is kept in a folder beside the file (--work). Started again, with the same
# settings, the run goes on where it stopped, and asks again only what failed. Another judge judges
# the answers that are there; another actor asks anew, of the memory that is there.
#
# With --answers, each question to a model is a file in a folder, and its answer is the file beside
# it (see `evaluation/files.py`): any model plays a role, or you do. The run stops at a question
# without an answer, with exit code 3; start it again with the answer written. With --answers-wait
# it first asks everything that can be asked now; with --answers-stay it stays at each question
# until its answer is there. Roles that are named play themselves:
# `--observer file --actor openai/gpt-6-luna`.

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

try:
    from evaluation import command, doubles, files
    from evaluation.command import count
    from evaluation.comparing import ARMS, compare_arms, read_arms
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
    from evaluation.running import Run
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[examples]'")

MEMORIES = get_args(MemoryName)
NAME = "evaluate"
fail = partial(command.fail, script=NAME)


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
    command.add_players(parser)
    option("--judge", metavar="MODEL", help="LoCoMo has F1 without one, and F1 beside one")
    option("--judge-temperature", default="0", metavar="T", help="none: the model's own")
    option("--prompt-tokens", type=count, metavar="N", help="for all that is remembered together")
    option("--message-tokens", type=count, metavar="N", help=f"default: {MESSAGE_TOKENS}")
    option("--observation-tokens", type=count, metavar="N", help=f"default: {OBSERVATION_TOKENS}")
    option("--only-category", action="append", default=[], metavar="NAME", help="may be repeated")
    option("--conversations", type=count, metavar="N", help="only the first N")
    option("--limit", type=count, metavar="N", help="only N questions, drawn by --seed")
    option("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    command.add_results(parser, work="beside FILE, named .evaluation")
    return parser.parse_args(arguments)


def category(text: str) -> str:
    """Take LoCoMo's numbers too."""
    return CATEGORIES.get(int(text), text) if text.isdigit() else text


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
    players = Players(command.open_mailbox(options))
    setups = make_setups(options)
    for setup in setups.values():
        check(setup, options.judge or doubles.NAME)
        roles = (setup.actor, setup.observer, setup.reflector, options.judge)
        command.check_players(roles, options, NAME)
    judge = make_judge(options, dataset, players)
    return {
        arm: Run(
            *(dataset, setup, judge, folder, options.seed, options.workers, players),
            collects=options.answers_wait,
            at_once=options.at_once,
        )
        for arm, setup in setups.items()
    }


def check_options(options: argparse.Namespace) -> None:
    if options.prompt_tokens and (options.message_tokens or options.observation_tokens):
        fail("--prompt-tokens stands in place of --message-tokens and --observation-tokens")
    if options.arms and options.no_recall:
        fail("--no-recall is for one memory; --arms has one with recall and one without")


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


def make_judge(options: argparse.Namespace, dataset: Dataset, players: Players) -> Judge | None:
    if options.judge is None and dataset.benchmark == "LoCoMo":
        return None
    if options.judge in (None, doubles.NAME):
        return WordForWord()
    if options.judge == files.NAME:
        return ModelJudge(files.NAME, players.model(files.NAME, "judge"))
    told = options.judge_temperature
    return named_judge(options.judge, None if told == "none" else float(told))


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    several = options.arms is not None
    return compare_arms(prepare, options, NAME, side_by_side=several)


if __name__ == "__main__":
    sys.exit(main())
