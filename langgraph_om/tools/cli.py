"""The command `langgraph-om`: what an agent remembers, why, and how to change it."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from textwrap import fill, shorten
from typing import Any, Final, cast

from langchain_core.runnables import RunnableLambda

from langgraph_om.core.config.options import ACTORS_OWN
from langgraph_om.core.content.text import for_terminal, sanitize
from langgraph_om.core.items import list_items
from langgraph_om.errors import ConfigurationError, ItemError, ObservationalMemoryError, SourceError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import Sampling
from langgraph_om.parts import StatusData
from langgraph_om.runtime.acting import Update
from langgraph_om.tools.doctor import Advice, advise_on_price, diagnose, name_actor_of
from langgraph_om.tools.mcp import memory_server
from langgraph_om.tools.shown import describe_actor_window, list_acts, write_moment
from langgraph_om.tools.sources import (
    ArchiveSource,
    Source,
    Wanted,
    build_update,
    complete,
    hide_password,
    open_archive,
    open_source,
)

DONE: Final = 0
FOUND_SOMETHING: Final = 1
"""`doctor` has advice, or `search` found nothing."""
BAD_USE: Final = 2
NO_SOURCE: Final = 3
NO_ITEM: Final = 4

_HELP: Final = """\
See what an agent remembers, and change it.

Name the source:
  --checkpointer sqlite:///checkpoints.db   or postgresql://user@host/database
  --url http://127.0.0.1:2024               a LangGraph server
  --archive sqlite:///memory.db             a user's memory, with --resource ID

and the thread with --thread ID. For example:

  langgraph-om list    --checkpointer sqlite:///checkpoints.db
  langgraph-om show    --checkpointer sqlite:///checkpoints.db --thread t --ids
  langgraph-om correct --checkpointer sqlite:///checkpoints.db --thread t \\
               --graph my_agent:graph "lives in Lyon" "User lives in Ghent"
"""
_CODES: Final = """\
exit codes:
  0  done
  1  doctor has advice, or search found nothing
  2  invalid argument
  3  the source cannot be reached or written to, or has no such thread
  4  no observation matches, or several do; the message lists them
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A command with what it works on."""

    args: Namespace
    memory: ObservationalMemory
    source: Source

    @property
    def thread(self) -> str:
        """The thread that is named; empty if none is."""
        return str(self.args.thread or "")

    async def read_state(self) -> Any:
        """Return the thread's state.

        Raises:
            SourceError: When there is no such thread.
        """
        if not self.thread and self.args.archive is None:
            msg = "name a thread: add --thread ID"
            raise SourceError(msg)
        state = await self.source.state(self.thread)
        if state is None:
            msg = f"there is no thread {self.thread!r}; `langgraph-om list` lists the threads"
            raise SourceError(msg)
        return state


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints."""

    value: Any
    """For programs, as JSON."""
    text: str
    code: int = DONE


def write_json(value: Any) -> str:
    """Return JSON in which nothing can steer a terminal: all but plain ASCII is escaped."""
    return json.dumps(value, indent=2, default=str).replace("\x7f", "\\u007f")


def write_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows below each other, columns aligned."""
    written = [["" if cell is None else sanitize(str(cell)) for cell in row] for row in rows]
    cells = [[" ".join(cell.split()) for cell in row] for row in [names, *written]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return "\n".join(lines)


# --- Commands that show --------------------------------------------------------------------------


async def show(job: Job) -> Answer:
    """Show what is remembered."""
    args, state = job.args, await job.read_state()
    states = await job.source.history(job.thread) if args.history else None
    view = job.memory.view(state, history=states)
    text = [str(view)]
    if not args.memory:
        text.append("(with default thresholds; for your memory's own, add --memory MODULE:NAME)")
    if args.ids:
        items = list_items(view.record["log"], view.record["chunks"])
        rows = [(item.id, item.day, shorten(item.words, 160)) for item in items]
        text += ["", write_table(("id", "day", "observation"), rows)]
    found = {"record": view.record, "status": view.status, "history": view.history}
    return Answer(found, "\n".join(text))


async def list_threads(job: Job) -> Answer:
    """List threads, and the tokens that memory's own models took for each."""
    key = runner_of(job.memory).messages_key
    rows: list[dict[str, Any]] = []
    async for listed in job.source.threads(Wanted()):
        if len(rows) == job.args.limit:
            break
        own = await complete(job.source, listed, key)
        at = own.updated.isoformat() if own.updated is not None else ""
        told = {"id": own.id, "user": own.user, "updated": at, "title": own.title}
        rows.append({**told, "tokens_in": own.tokens_in, "tokens_out": own.tokens_out})
    names = ("thread", "user", "updated", "title", "tokens in", "tokens out")
    shown = [[*({**row, "updated": write_moment(row["updated"])}.values())] for row in rows]
    return Answer(rows, write_table(names, shown))


async def search(job: Job) -> Answer:
    """Find messages and observations by words, the best first."""
    args, source = job.args, job.source
    if isinstance(source, ArchiveSource):
        is_shared = source.resource is not None and source.read_log() is not None
        scope = "resource" if is_shared and not job.thread else "thread"
        memory = _make_memory(archive=source.archive, scope=scope)
        of: dict[str, Any] = {"thread_id": job.thread or None, "resource_id": source.resource}
    else:
        memory, of = job.memory, {"state": await job.read_state()}
    hits = memory.search(args.words, limit=args.limit, **of)
    lines: list[str] = []
    for hit in hits:
        at = "" if hit.at is None else write_moment(hit.at.isoformat())
        head = "  ".join(filter(None, (hit.role or hit.kind, at, hit.id, hit.thread_id)))
        lines.append(fill(head, 80, subsequent_indent="  ", break_long_words=False))
        lines.append(fill(hit.excerpt, 80, initial_indent="  ", subsequent_indent="  "))
    code = DONE if hits else FOUND_SOMETHING
    return Answer([asdict(hit) for hit in hits], "\n".join(lines), code)


_UNNAMED: Final = ModelPool(
    {"observer": ACTORS_OWN, "reflector": ACTORS_OWN},
    {role: Sampling({}, {}) for role in ("observer", "reflector")},
)
"""The models of a memory that names none."""


async def doctor(job: Job) -> Answer:
    """Show what costs what, and what to do."""
    runner, state = runner_of(job.memory), await job.read_state()
    view, messages = job.memory.view(state), runner.conversation(state)
    record, status = view.record, cast("StatusData", view.status)
    step = runner.look(record, messages, runner.read_state(state))
    step.settings = runner.actor.read_window(record)[0]
    found = diagnose(step)
    named = name_actor_of(messages)
    pool = runner.models if job.args.memory else _UNNAMED
    models = list(pool.list_models(runner.actor.find() or named or None))
    if pool.asks_actor:
        found.advice.extend(advise_on_price(named, messages, record))
    if job.args.memory:  # one of the command's own has no model to ask
        found.advice.extend(Advice("health", problem) for problem in await job.memory.acheck())
    value = {
        "sections": found.sections,
        "cacheHits": found.cache_hits,
        "actorWindow": status.get("actorWindow"),
        "models": [{"role": role, "model": name, "needs": needs} for role, name, needs in models],
        "advice": [{"kind": own.kind, "text": own.text} for own in found.advice],
    }
    total = sum(found.sections.values())
    parts = [(name, f"{n:,}", f"{n / total:.0%}") for name, n in found.sections.items()]
    hits = "not known" if found.cache_hits is None else f"{found.cache_hits:.0%} of the input"
    asked = [(role, name, " and ".join(needs)) for role, name, needs in models]
    text = [
        write_table(("section of the prompt", "tokens", "share"), parts),
        f"\nfrom the provider's cache: {hits}",
        f"the agent's model reads at most: {describe_actor_window(status) or 'not known'}\n",
        write_table(("role", "model", "missing here"), asked),
    ]
    if not job.args.memory:
        text.append("(for the models of your memory, add --memory MODULE:NAME)")
    text += [f"\n- {own.text}" for own in found.advice] or ["\nno advice"]
    return Answer(value, "\n".join(text), FOUND_SOMETHING if found.advice else DONE)


# --- Commands that change ------------------------------------------------------------------------


async def change(job: Job) -> Answer:
    """Change what is remembered, as the name of the command says."""
    args = job.args
    if args.checkpointer is not None and args.graph is None:
        msg = (
            "only the agent's own graph, which knows the other channels, can write to a "
            "checkpointer; add `--graph package.module:graph`"
        )
        raise SourceError(msg)

    def build(state: Any) -> Update:
        return build_update(job.memory.updates, args.command, vars(args), state)

    build(await job.read_state())  # what cannot be meant is refused before anything else
    act = await job.source.change(job.thread, build)
    record = runner_of(job.memory).record(await job.read_state())
    done = next((own for own in list_acts(record) if own.id == act), None)
    text = "Done" if done is None else f"{done.action}: {done.words}"
    if args.command != "title":
        text += f"\nTo undo it: `langgraph-om undo --act {act}`"
    return Answer({"id": act, "action": args.command}, text)


async def prune(job: Job) -> Answer:
    """Delete what is older than a number of days."""
    args, source = job.args, job.source
    if not isinstance(source, ArchiveSource):
        msg = "`prune` reads the age of messages from an archive; add --archive URL"
        raise SourceError(msg)
    graph = None if args.graph is None else _import("graph", args.graph)
    pruned = await _make_memory(archive=source.archive).aprune(
        timedelta(days=args.days),
        keep_observations=args.keep_observations,
        store=getattr(graph, "store", None),
        checkpointer=getattr(graph, "checkpointer", None),
        dry_run=args.dry_run,
    )
    text = "\n".join(
        (
            "to be deleted:" if args.dry_run else "deleted:",
            f"  {len(pruned.threads)} thread(s) {' '.join(pruned.threads)}".rstrip(),
            f"  {pruned.messages} message(s) and {pruned.observations} observation(s) in the rest",
        )
    )
    return Answer(asdict(pruned), text)


# --- Serve ---------------------------------------------------------------------------------------


def serve(args: Namespace) -> int:
    """Serve an archive to the MCP client that started the command, until that client exits."""
    if args.archive is None or not args.resource:
        msg = "`mcp` serves one user's part of an archive: add --archive URL and --resource ID"
        raise SourceError(msg)
    with closing(open_archive(args.archive)) as archive:
        memory = _make_memory(archive=archive, retrieval={"scope": "resource"})
        try:
            server = memory_server(memory, resource_id=args.resource, allow_writes=args.write)
        except ImportError as error:
            raise SourceError(str(error)) from error
        server.run("stdio")
    return DONE


# --- The command line ----------------------------------------------------------------------------


_Add = Callable[[str, Any, str], ArgumentParser]


def build_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    top = ArgumentParser(
        "langgraph-om",
        description=_HELP,
        epilog=_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    inner = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Any, text: str) -> ArgumentParser:
        own = inner.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=_CODES,
            formatter_class=RawDescriptionHelpFormatter,
        )
        own.set_defaults(run=run)
        _add_source(own)
        return own

    def add_limit(parser: ArgumentParser, default: int, of: str) -> None:
        text = f"how many {of} (default: {default})"
        parser.add_argument("--limit", type=_read_count, default=default, help=text)

    parser = add("show", show, "show what is remembered and how full memory is")
    parser.add_argument("--ids", action="store_true", help="also list observations with their ids")
    past = "also show what each recent generation of the log changed"
    parser.add_argument("--history", action="store_true", help=past)
    text = "list threads, newest first, with the tokens that memory's models used for each"
    add_limit(add("list", list_threads, text), 20, "threads")
    parser = add("search", search, "search observations and messages by words")
    parser.add_argument("words", help="words to find, in any form; best hits come first")
    add_limit(parser, 20, "hits")
    add("doctor", doctor, "show what fills the prompt and what to do about it")
    _add_changes(add)
    parser = add("prune", prune, "delete from an archive what is older than a number of days")
    parser.add_argument("days", type=_read_count, help="the number of days of messages to keep")
    parser.add_argument(
        "--keep-observations", action="store_true", help="keep observations of deleted messages"
    )
    parser.add_argument("--dry-run", action="store_true", help="delete nothing, only count")
    parser = add("mcp", None, "serve an archive to agents and IDEs that speak MCP")
    parser.add_argument(
        "--write", action="store_true", help="let clients add and remove observations"
    )
    return top


def _add_changes(add: _Add) -> None:
    item = "an observation's id, or some of its words"
    parser = add("remember", change, "add an observation that reflections never change")
    parser.add_argument("text", help="what to remember")
    parser.add_argument("--date", help="the day it refers to, such as 2026-03-02; default: today")
    parser = add("correct", change, "replace an observation's text")
    parser.add_argument("item", help=item)
    parser.add_argument("text", help="the new text")
    parser = add("forget", change, "remove an observation from the log; its messages stay")
    parser.add_argument("item", help=item)
    add("pin", change, "protect an observation from reflections").add_argument("item", help=item)
    parser = add("unpin", change, "let reflections change an observation again")
    parser.add_argument("item", help=item)
    parser = add("undo", change, "undo a change made by a person")
    parser.add_argument("--act", metavar="ID", help="the id of the change; default: the latest")
    parser = add("title", change, "set a thread's title, which memory then won't change")
    parser.add_argument("text", help='at most 120 characters; "" lets memory make titles again')


def _add_source(parser: ArgumentParser) -> None:
    where = parser.add_argument_group("where to find the memory")
    one = where.add_mutually_exclusive_group(required=True)
    one.add_argument("--checkpointer", metavar="URL", help="sqlite:///file.db or postgresql://...")
    one.add_argument("--url", help="a LangGraph server, such as http://127.0.0.1:2024")
    one.add_argument("--archive", metavar="URL", help="sqlite:///memory.db or postgresql://...")
    where.add_argument("--thread", metavar="ID", help="the thread's id")
    where.add_argument("--resource", metavar="ID", help="the user's id, for an archive")
    graph = "the agent's graph; needed to write to a checkpointer, whose data is then trusted"
    where.add_argument("--graph", metavar="MODULE:NAME", help=graph)
    own = "your ObservationalMemory, for its options; otherwise, the defaults"
    parser.add_argument("--memory", metavar="MODULE:NAME", help=own)
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after its name; `None`: `sys.argv`.

    Returns:
        The exit code, one of those the help lists.
    """
    args = build_parser().parse_args(arguments)
    try:
        if args.command == "mcp":
            return serve(args)
        answer = asyncio.run(_run(args))
        print(write_json(answer.value) if args.json else for_terminal(answer.text))  # noqa: T201
    except BrokenPipeError:
        return DONE
    except Exception as error:  # noqa: BLE001 a database or a server raises anything
        return _fail(error, args)
    return answer.code


async def _run(args: Namespace) -> Answer:
    graph = None if args.graph is None else _import("graph", args.graph)
    if graph is not None and not hasattr(graph, "update_state"):
        msg = f"`--graph` is {args.graph!r}, a {type(graph).__name__}; pass a compiled graph"
        raise ConfigurationError(msg)
    memory = check_memory(_import("memory", args.memory)) if args.memory else _make_memory()
    async with open_source(args, graph, runner_of(memory)) as source:
        answer: Answer = await args.run(Job(args, memory, source))
        return answer


def _make_memory(**options: Any) -> ObservationalMemory:
    """Return a memory that asks no model, so that no model's package has to be installed."""

    def refuse(_: Any) -> Any:
        msg = "the command calls no model"
        raise AssertionError(msg)

    return ObservationalMemory(RunnableLambda(refuse), **options)


def _import(option: str, name: str) -> Any:
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), attribute or option)
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"`--{option}` is {name!r}, which cannot be imported: {error}; pass module:name"
        raise ConfigurationError(msg) from error


def _fail(error: Exception, args: Namespace) -> int:
    """Say what went wrong, and return the exit code."""
    places = {name: getattr(args, name) for name in ("checkpointer", "archive", "url")}
    said, code = str(error), NO_SOURCE
    if isinstance(error, ItemError):
        code = NO_ITEM
    elif isinstance(error, ConfigurationError):
        code = BAD_USE
    elif not isinstance(error, ObservationalMemoryError):
        where = "".join(f"`--{name}`: " for name, place in places.items() if place)
        said = f"{where}{type(error).__name__}: {error}"
    for place in filter(None, places.values()):
        said = hide_password(said, place)
    text = write_json({"error": said}) if args.json else for_terminal(f"langgraph-om: {said}")
    print(text, file=sys.stderr)  # noqa: T201 a command
    return code


# --- Arguments -----------------------------------------------------------------------------------


def _read_count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    msg = f"{text!r} is not a whole number of 1 or more"
    raise ArgumentTypeError(msg)
