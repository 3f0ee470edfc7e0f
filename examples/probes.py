# Measures what memory is worth to an agent at work: real sessions of coding agents are interrupted,
# then asked about. Which error came last, which files were changed, what was decided and why, what
# is next, what the user demanded: the keys are made from the transcript by code.
#
#     pip install "langgraph-om[deepagents,examples]"
#     python examples/probes.py --prompt-tokens 8000                   # public sessions, by git
#     python examples/probes.py --history FOLDER --prompt-tokens 8000  # your own
#     python examples/probes.py --actor openai/gpt-6-luna \
#         --observer google/gemini-flash-lite-latest \
#         --price openai/gpt-6-luna=0.25,2,0.025 --json figures.json
#     python examples/probes.py --answers FOLDER                       # you are the model
#
# Without names of models nobody answers: a double looks for the keys in the prompt, and notes and
# summaries are quotations. The figures say then what was readable there; they are no model's score.
#
# A session is markdown as SpecStory (https://github.com/specstoryai/getspecstory) keeps it in
# `.specstory/history`; that repository's own sessions are public, under the Apache license 2.0, and
# are fetched into the folder of --work. Everything paid for is kept there too; a run that was
# stopped goes on where it was, and `--answers` works as in evaluate.py.

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

try:
    from evaluation import command, doubles, files
    from evaluation.command import count
    from evaluation.comparing import ARMS, compare_arms, read_arms
    from evaluation.formats import PROBES, Conversation, Dataset, choose
    from evaluation.memories import Players, Setup, check
    from evaluation.probing import make_conversation
    from evaluation.running import Run
    from evaluation.transcripts import read_transcripts
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[examples]'")

NAME = "probes"
fail = partial(command.fail, script=NAME)
REPOSITORY = "https://github.com/specstoryai/getspecstory"
FOLDERS = (".specstory/history", "specstory-cli/.specstory/history")
SESSIONS, KINDS, PROMPT_TOKENS = 20, 3, 8_000
SIZES = range(60_000, 600_000)
"""The bytes of a session's file, unless others are asked for."""


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ask what an agent knows of its own session.")
    option = parser.add_argument
    option("--history", type=Path, metavar="FOLDER", help="sessions; default: public ones, by git")
    option("--repository", default=REPOSITORY, metavar="URL", help="default: %(default)s")
    option("--arms", default=",".join(ARMS), metavar="NAME,...", help="default: %(default)s")
    option("--prompt-tokens", type=count, default=PROMPT_TOKENS, metavar="N", help="for each arm")
    command.add_players(parser)
    option("--sessions", type=count, default=SESSIONS, metavar="N", help="default: %(default)s")
    option("--kinds", type=count, default=KINDS, metavar="N", help="of questions, at least")
    option("--min-bytes", type=count, default=SIZES.start, metavar="N", help="of a session's file")
    option("--max-bytes", type=count, default=SIZES.stop, metavar="N", help="of a session's file")
    option("--only-category", action="append", default=[], choices=PROBES, help="may be repeated")
    command.add_results(parser, work="probes.evaluation")
    return parser.parse_args(arguments)


def fetch(url: str, folder: Path) -> Path:
    """Return a copy of the public sessions, brought here unless it is there.

    Raises:
        ValueError: When git cannot bring it.
    """
    if folder.exists():
        return folder
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    clone = ("clone", "--quiet", "--depth", "1", "--filter=blob:none", "--sparse", url, str(new))
    for arguments in (clone, ("-C", str(new), "sparse-checkout", "set", *FOLDERS)):
        try:
            subprocess.run(("git", *arguments), check=True, capture_output=True, text=True)  # noqa: S603, S607 the user's own git
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", "") or error
            msg = f"git could not bring {url}: {told}; name a folder with --history"
            raise ValueError(msg) from error
    return new.rename(folder)


def find_sessions(folder: Path, sizes: range, kinds: int) -> Iterator[Conversation]:
    """Yield the sessions that can be asked about in several ways, in the order of their names."""
    for transcript in read_transcripts(folder, sizes):
        made = make_conversation(transcript)
        if made and len({question.category for question in made.questions}) >= kinds:
            yield made


def prepare(options: argparse.Namespace) -> dict[str, Run]:
    """Return the runs by the names of their arms, in order."""
    folder = options.work or (
        options.answers / "results" if options.answers else Path("probes.evaluation")
    )
    history = options.history or fetch(options.repository, folder / "history")
    sizes = range(options.min_bytes, options.max_bytes)
    found = tuple(islice(find_sessions(history, sizes, options.kinds), options.sessions))
    if not found:
        msg = f"{history} has no session with {options.kinds} kinds of questions; ask for fewer"
        raise ValueError(msg)
    dataset = choose(Dataset("probes", found), categories=options.only_category)
    actor = options.actor or (files.NAME if options.answers else doubles.NAME)
    observer = options.observer or actor
    common = Setup(
        memory="observational",
        actor=actor,
        observer=observer,
        reflector=options.reflector or observer,
        prompt_tokens=options.prompt_tokens,
    )
    mailbox = command.open_mailbox(options)
    players = Players(mailbox, doubles.reader)
    setups = {arm: replace(common, **ARMS[arm]) for arm in read_arms(options.arms)}
    command.check_players((actor, observer, common.reflector), options, NAME)
    for setup in setups.values():
        check(setup, doubles.NAME)
    return {
        arm: Run(
            *(dataset, setup, None, folder, 0, options.workers, players),
            collects=options.answers_wait,
            at_once=options.at_once,
        )
        for arm, setup in setups.items()
    }


def main(arguments: list[str] | None = None) -> int:
    return compare_arms(prepare, read_options(arguments), NAME)


if __name__ == "__main__":
    sys.exit(main())
