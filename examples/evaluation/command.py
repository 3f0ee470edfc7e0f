"""The command line that the measurements share: who plays, what it costs, what is waited for.

`evaluate.py` and its siblings add their own options to these. A run that waits for answers ends
with exit code `UNANSWERED`, and goes on when it is started again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from evaluation import files
from evaluation.files import ANSWER, QUESTION, Mailbox

UNANSWERED = 3
"""The exit code of a run that waits for answers."""
INTERRUPTED = 130
MAX_SHOWN = 10


def fail(reason: object, script: str) -> NoReturn:
    """End the script with a line that says why."""
    print(f"{script}: {' '.join(str(reason).split())}", file=sys.stderr)
    raise SystemExit(2)


def count(text: str) -> int:
    """Read a number of 1 or more."""
    number = int(text)
    if number < 1:
        msg = f"{number} is too small; write 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def add_players(parser: argparse.ArgumentParser) -> None:
    """Add the options that say who plays the Actor and the models of memory."""
    option = parser.add_argument
    option("--actor", metavar="MODEL", help="such as openai/gpt-6-luna; or file")
    option("--observer", metavar="MODEL", help="also writes summaries; default: the actor's")
    option("--reflector", metavar="MODEL", help="default: the observer's")
    option(
        "--price",
        action="append",
        default=[],
        metavar="MODEL=IN,OUT[,CACHED]",
        help="cost of a million tokens; for each model, else the total is not shown",
    )
    option("--at-once", action="store_true", help="all questions about a chat in one prompt")
    option("--answers", type=Path, metavar="FOLDER", help="questions and answers are files there")
    option("--answers-wait", action="store_true", help="ask all that can be asked, then stop")
    option("--answers-stay", action="store_true", help="stay at a question until it is answered")


def add_results(parser: argparse.ArgumentParser, work: str) -> None:
    """Add the options that say how much runs at a time, and where its results are kept."""
    option = parser.add_argument
    option("--workers", type=count, default=4, metavar="N", help="how many at a time")
    option("--work", type=Path, metavar="FOLDER", help=f"default: {work}")
    option("--json", type=Path, metavar="FILE", help="write the figures there")


def check_json(path: Path | None, script: str) -> None:
    """Refuse a file for figures that can not be written."""
    if path and not path.absolute().parent.is_dir():
        fail(f"--json {path} can not be written; name a file in a folder that exists", script)


def check_players(roles: Collection[str | None], options: argparse.Namespace, script: str) -> None:
    """Refuse files that nobody asks for, and roles that have none."""
    for name in ("wait", "stay"):
        if getattr(options, f"answers_{name}") and not options.answers:
            fail(f"--answers-{name} needs --answers FOLDER", script)
    plays = files.NAME in roles
    if plays and not options.answers:
        fail(f"a role is {files.NAME!r}; say with --answers FOLDER where its files are", script)
    if options.answers and not plays:
        fail(f"--answers is for roles that are {files.NAME!r}, and none is", script)


def check_prices(prices: Collection[str], models: Collection[str], script: str) -> None:
    """Refuse prices of models that are not called."""
    unused = ", ".join(sorted(set(prices) - set(models)))
    if unused:
        fail(f"--price names {unused}, and the run calls {', '.join(sorted(models))}", script)


@contextmanager
def progress(totals: Mapping[str, int]) -> Iterator[Callable[[str], None]]:
    """Open bars, or lines where there is no terminal; yields what moves them on.

    Args:
        totals: How many there are of each kind of step, by its singular.
    """
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


def open_mailbox(options: argparse.Namespace) -> Mailbox | None:
    """Return the folder with questions and answers, if there is one."""
    return Mailbox(options.answers, stays=options.answers_stay) if options.answers else None


def say_what_waits(mailbox: Mailbox, script: str) -> None:
    """Say which answers to write."""
    stems = sorted(mailbox.missing)
    many = "1 answer" if len(stems) == 1 else f"{len(stems)} answers"
    print(f"{script}: waiting for {many}; write", file=sys.stderr)
    for stem in stems[:MAX_SHOWN]:
        asked = f"{stem}{QUESTION}"
        print(f"  {mailbox.folder / f'{stem}{ANSWER}'} (asked in {asked})", file=sys.stderr)
    if len(stems) > MAX_SHOWN:
        print(f"  and {len(stems) - MAX_SHOWN} more", file=sys.stderr)
    print("and run the same command again", file=sys.stderr)
