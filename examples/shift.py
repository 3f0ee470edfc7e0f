# Measures what memory does to an agent's work: a shift of twelve tasks, graded by code.
#
#     pip install "langgraph-om[examples]" langchain deepagents
#     python examples/shift.py                                   # offline: what is readable
#     python examples/shift.py --simulators travel --prompt-tokens 6000 --json figures.json \
#         --actor openai/gpt-6-luna --observer google/gemini-flash-lite-latest \
#         --price openai/gpt-6-luna=0.25,2,0.025
#     python examples/shift.py --simulators travel --arms observational --answers FOLDER
#
# The tasks, their simulators and their ground truth are those of `bfcl-eval` (Apache-2.0), which is
# installed into an environment of its own (see `evaluation/world.py`). Around them stand rules that
# hold all day, rules that end or change, facts that are needed eight tasks later and an enormous
# result (see `evaluation/shifts.py`). Each arm works through the same shift in one thread, with the
# same room for what is remembered; full history has no limit.
#
# Without --actor no model plays: a player with the right plan takes all it needs from its prompt
# (see `evaluation/player.py`), so the table says what is *readable*, and is no model's score. Named
# models, `file` with --answers, prices, and going on after a stop are as in `evaluate.py`.

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from langgraph_om import ConfigurationError

try:
    from evaluation import command, doubles, files
    from evaluation.command import INTERRUPTED, UNANSWERED, count
    from evaluation.comparing import ARMS, read_arms
    from evaluation.files import UnansweredError
    from evaluation.memories import Players, Setup, check
    from evaluation.reporting import Row
    from evaluation.shifts import SIMULATORS, Shift, build_shift
    from evaluation.spending import Price, read_price
    from evaluation.working import LABEL, ShiftRun, summarise, with_room, work_all, write_tables
    from evaluation.world import WORKER, World, WorldError, prepare_environment
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing; pip install 'langgraph-om[examples]'")

NAME = "shift"
TASKS, LEAST_TASKS = 12, 8
ROOM = "8000"
DEFAULT_ARMS = ("full", "trim", "summary", "deepagents", "observational", "observational+recall")
fail = partial(command.fail, script=NAME)


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what memory does to an agent's work.")
    option = parser.add_argument
    option(
        "--simulators",
        default=",".join(SIMULATORS),
        metavar="NAME,...",
        help="a shift each (default: %(default)s)",
    )
    option("--tasks", type=count, default=TASKS, metavar="N", help="default: %(default)s")
    option(
        "--arms",
        default=",".join(DEFAULT_ARMS),
        metavar="NAME,...",
        help=f"all, or some of {', '.join(ARMS)} (default: %(default)s)",
    )
    option(
        "--prompt-tokens",
        default=ROOM,
        metavar="N,...",
        help="rooms for all that is remembered together (default: %(default)s)",
    )
    command.add_players(parser)
    option("--python", type=Path, metavar="FILE", help="a Python that has bfcl-eval")
    option("--worker", type=Path, metavar="FILE", help="simulators in place of bfcl-eval's")
    command.add_results(parser, work=f"{NAME}.evaluation")
    return parser.parse_args(arguments)


def read_rooms(text: str) -> list[int]:
    try:
        rooms = [count(each) for each in text.split(",")]
    except (ValueError, argparse.ArgumentTypeError):
        fail(f"--prompt-tokens is {text!r}; write one number or more, separated by commas")
    return list(dict.fromkeys(rooms))


def read_simulators(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in SIMULATORS]
    if unknown:
        fail(f"--simulators names {unknown[0]!r}; write some of {', '.join(SIMULATORS)}")
    return names


def prepare(options: argparse.Namespace) -> tuple[list[ShiftRun], Players]:
    """Return a run for each room, arm and shift."""
    if options.tasks < LEAST_TASKS:
        fail(f"--tasks is {options.tasks}; a shift has {LEAST_TASKS} or more")
    folder = options.work or Path(f"{NAME}.evaluation")
    if options.answers and not options.work:
        folder = options.answers / "results"
    actor = options.actor or (files.NAME if options.answers else doubles.NAME)
    observer = options.observer or actor
    common = Setup("full", actor, observer, options.reflector or observer)
    arms = {arm: ARMS[arm] for arm in read_arms(options.arms)}
    rooms, simulators = read_rooms(options.prompt_tokens), read_simulators(options.simulators)
    roles = (common.actor, common.observer, common.reflector)
    command.check_players(roles, options, NAME)
    for arm in arms.values():
        for room in rooms:
            check(with_room(common, arm, room), doubles.NAME)
    python = options.python or sys.executable
    if not options.python and not options.worker:
        python = prepare_environment(folder / "environment")
    start = [str(python), str(options.worker or WORKER)]
    with World(start) as world:
        shifts = [build_shift(world, SIMULATORS[name], options.tasks) for name in simulators]
    players = Players(command.open_mailbox(options))
    runs = [
        ShiftRun(shift, name, with_room(common, arm, room), folder, start, players)
        for room in rooms
        for shift in shifts
        for name, arm in arms.items()
    ]
    return runs, players


def figures(
    runs: list[ShiftRun], rows: dict[str, list[Row]], prices: dict[str, Price], tasks: int
) -> Row:
    """Return the figures of all rooms and arms."""
    shifts: list[Shift] = list({id(run.shift): run.shift for run in runs}.values())
    rooms: Row = {}
    for run in runs:
        arms = rooms.setdefault(str(run.setup.prompt_tokens), {})
        arms.setdefault(run.arm, []).append(run)
    actor = runs[0].setup.actor
    return {
        "shifts": [shift.simulator.name for shift in shifts],
        "tasks": tasks,
        "task ids": {shift.simulator.name: [each.id for each in shift.tasks] for shift in shifts},
        "actor": "readable" if actor == doubles.NAME else actor,
        "rooms": {
            room: {arm: summarise(some, rows, prices) for arm, some in arms.items()}
            for room, arms in rooms.items()
        },
        "caveats": [LABEL] if actor == doubles.NAME else [],
    }


def main(arguments: list[str] | None = None) -> int:
    options = read_options(arguments)
    command.check_json(options.json, NAME)
    try:
        prices = dict(map(read_price, options.price))
        runs, players = prepare(options)
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing.name} is missing; pip install langchain deepagents")
    except (ConfigurationError, WorldError, ValueError, OSError) as error:
        fail(error)
    setup = runs[0].setup
    command.check_prices(prices, {setup.actor, setup.observer, setup.reflector}, NAME)
    rows: dict[str, list[Row]] = {}
    try:
        with command.progress({"part": sum(run.shift.parts for run in runs)}) as tell:
            for run in runs:
                run.tell = tell
            rows = work_all(runs, options.workers, collects=options.answers_wait)
    except KeyboardInterrupt:
        print(f"{NAME}: stopped; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except UnansweredError:
        pass  # the mailbox knows
    except WorldError as error:
        fail(error)
    if players.mailbox and players.mailbox.missing:
        command.say_what_waits(players.mailbox, NAME)
        return UNANSWERED
    whole = figures(runs, rows, prices, options.tasks)
    if options.json:
        options.json.write_text(f"{json.dumps(whole, indent=2)}\n", encoding="utf-8")
    print(write_tables(whole))
    return 0


if __name__ == "__main__":
    sys.exit(main())
