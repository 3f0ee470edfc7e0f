"""The command `langgraph-om`: what an agent remembers, why, and how to change it."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from textwrap import fill, shorten
from typing import Any, Final, cast

from langchain_core.runnables import RunnableLambda

from langgraph_om.core.config.options import ACTORS_OWN
from langgraph_om.core.content.text import CONTROL, DIRECTION, SURROGATE, for_terminal, sanitize
from langgraph_om.core.items import list_items
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.standing import read_rules
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError, ItemError, ObservationalMemoryError, SourceError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import Sampling
from langgraph_om.parts import StatusData
from langgraph_om.runtime.acting import Update
from langgraph_om.tools.changes import build_update
from langgraph_om.tools.doctor import advise_on_price, diagnose, name_actor_of
from langgraph_om.tools.mcp import memory_server
from langgraph_om.tools.opening import hide_password, open_archive, open_source
from langgraph_om.tools.shown import describe_actor_window, diff_logs, list_acts, write_moment
from langgraph_om.tools.sources import (
    ArchiveSource,
    Figures,
    Source,
    Thread,
    Wanted,
    complete,
    sum_by_user,
)

DONE: Final = 0
FOUND_SOMETHING: Final = 1
"""`doctor` has advice, `diff` differences; `search` found nothing."""
BAD_USE: Final = 2
NO_SOURCE: Final = 3
NO_ITEM: Final = 4

_HELP: Final = """\
See what an agent remembers, and change it.

Say where the memory is, with one of
  --checkpointer sqlite:///checkpoints.db   or postgresql://user@host/database
  --url http://127.0.0.1:2024               a LangGraph server
  --archive sqlite:///memory.db             with --resource ID: the shared log
  --record file.json                        a record or a state, as a file

and which one, with --thread ID. For example:

  langgraph-om list    --checkpointer sqlite:///memory.db
  langgraph-om show    --checkpointer sqlite:///memory.db --thread t-1 --ids
  langgraph-om correct --checkpointer sqlite:///memory.db --thread t-1 \\
               --graph my_agent:graph "lives in Lyon" "User lives in Ghent"
"""
_CODES: Final = """\
exit codes:
  0  done
  1  done, and there is something to see: doctor has advice, diff a difference,
     or search found nothing
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
        if not self.thread and self.args.record is None and self.args.archive is None:
            msg = "name a memory: add --thread ID"
            raise SourceError(msg)
        state = await self.source.state(self.thread)
        if state is None:
            msg = f"there is no thread {self.thread!r}; `langgraph-om list` names the threads"
            raise SourceError(msg)
        return state

    async def read_record(self) -> MemoryRecord:
        """Return the record in the thread's state."""
        return runner_of(self.memory).record(await self.read_state())

    async def read_history(self, limit: int) -> list[MemoryRecord]:
        """Return the last record of each generation, newest first."""
        await self.read_state()
        return self.memory.history(await self.source.history(self.thread), limit)


# --- Write to the terminal -----------------------------------------------------------------------


def write_json(value: Any, indent: int | None = None) -> str:
    """Return JSON in which whatever could steer a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    for steering in (CONTROL, DIRECTION, SURROGATE):
        text = steering.sub(lambda found: "".join(f"\\u{ord(each):04x}" for each in found[0]), text)
    return text


def write(text: str) -> None:
    """Write lines; what a model or a user said cannot steer the terminal."""
    print(for_terminal(text))  # noqa: T201 a command


def write_value(value: Any) -> None:
    """Write a JSON value, for programs."""
    print(write_json(value, indent=2))  # noqa: T201 a command


def write_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows below each other, columns aligned."""
    cells = [[" ".join(sanitize(str(cell)).split()) for cell in row] for row in [names, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        write(line.rstrip())


def write_rows(job: Job, rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> int:
    """Write rows as JSON, or as a table."""
    if job.args.json:
        write_value(rows)
    else:
        write_table(
            names, [["" if cell is None else cell for cell in own.values()] for own in rows]
        )
    return DONE


# --- Commands that show --------------------------------------------------------------------------


async def show(job: Job) -> int:
    """Show what is remembered."""
    args, state = job.args, await job.read_state()
    states = await job.source.history(job.thread) if args.html else None
    view = job.memory.view(state, history=states)
    if args.html:
        view.to_html(args.html)
    if args.json:
        write_value({"record": view.record, "status": view.status})
    elif args.html:
        write(f"written to {args.html}")
    else:
        write(str(view))
        if not args.memory:
            write("(with default thresholds; for those of your memory, add --memory MODULE:NAME)")
        if args.ids:
            items = list_items(view.record["log"], view.record["chunks"])
            write("")
            rows = [(item.id, item.day or "", shorten(item.words, 160)) for item in items]
            write_table(("id", "day", "observation"), rows)
    return DONE


async def list_threads(job: Job) -> int:
    """List threads."""
    key = runner_of(job.memory).messages_key
    rows: list[dict[str, Any]] = []
    async for listed in job.source.threads(Wanted()):
        if len(rows) == job.args.limit:
            break
        own = await complete(job.source, listed, key) if listed.title is None else listed
        at = own.updated.isoformat() if own.updated is not None else ""
        updated = at if job.args.json else write_moment(at)
        rows.append({"id": own.id, "updated": updated, "title": own.title})
    return write_rows(job, rows, ("thread", "updated", "title"))


async def costs(job: Job) -> int:
    """Show the tokens of memory's own models, by thread and by user."""
    args, key = job.args, runner_of(job.memory).messages_key
    if args.archive is not None:
        msg = "costs are read from records; name the checkpointer, or the server"
        raise SourceError(msg)
    threads: list[Thread] = []
    async for listed in job.source.threads(Wanted()):
        if len(threads) == args.limit:
            break
        threads.append(await complete(job.source, listed, key))
    names = ("calls", "tokens_in", "tokens_out")
    rows = [
        {"thread": own.id, "user": own.user or "", **_select(own.figures, names)} for own in threads
    ]
    users = [
        {"user": user, **_select(figures, names)}
        for user, (_, figures) in sum_by_user(threads).items()
    ]
    if args.json:
        write_value({"threads": rows, "users": users})
        return DONE
    write_rows(job, rows, ("thread", "user", *names))
    write("")
    return write_rows(job, users, ("user", *names))


def _select(figures: Figures | None, names: Sequence[str]) -> dict[str, int]:
    found = (figures or Figures())._asdict()
    return {name: found[name] for name in names}


async def search(job: Job) -> int:
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
    if args.json:
        write_value([asdict(hit) for hit in hits])
        return DONE if hits else FOUND_SOMETHING
    for hit in hits:
        at = "" if hit.at is None else write_moment(hit.at.isoformat())
        head = "  ".join(filter(None, (hit.role or hit.kind, at, hit.id, hit.thread_id)))
        write(fill(head, 80, subsequent_indent="  ", break_long_words=False))
        write(fill(hit.excerpt, 80, initial_indent="  ", subsequent_indent="  "))
    return DONE if hits else FOUND_SOMETHING


async def history(job: Job) -> int:
    """List the generations of the log."""
    rows: list[dict[str, Any]] = []
    for record in await job.read_history(job.args.limit):
        newest = max((group["observed_at"] for group in record["log"]), default="")
        rows.append(
            {
                "generation": record["generation"],
                "items": len(list_items(record["log"])),
                "tokens": log_tokens(record),
                "newest": newest if job.args.json else write_moment(newest),
            }
        )
    return write_rows(job, rows, ("generation", "observations", "tokens", "newest observation"))


async def diff(job: Job) -> int:
    """Show what changed between two generations."""
    args, records = job.args, await job.read_history(1000)
    if not records:
        msg = "there is no memory yet, so there is no difference"
        raise SourceError(msg)
    after = _pick(records, args.after, records[0])
    before = _pick(records, args.before, records[min(1, len(records) - 1)])
    lines = diff_logs(before, after)
    if args.json:
        numbers = {"before": before["generation"], "after": after["generation"]}
        write_value({**numbers, "lines": lines})
    else:
        write("\n".join(lines) or "no difference")
    return FOUND_SOMETHING if lines else DONE


def _pick(
    records: Sequence[MemoryRecord], number: int | None, default: MemoryRecord
) -> MemoryRecord:
    known = {record["generation"]: record for record in records}
    if number is None or number in known:
        return default if number is None else known[number]
    msg = f"there is no generation {number}; the known ones are {', '.join(map(str, known))}"
    raise ConfigurationError(msg)


async def list_rules(job: Job) -> int:
    """List the user's standing instructions."""
    rows = [
        {"id": rule.id, "day": rule.day, "thread": rule.thread_id, "words": rule.words}
        for rule in read_rules(await job.read_record())
    ]
    return write_rows(job, rows, ("id", "day", "thread", "words"))


_UNNAMED: Final = ModelPool(
    {"observer": ACTORS_OWN, "reflector": ACTORS_OWN},
    {role: Sampling({}, {}) for role in ("observer", "reflector")},
)
"""The models of a memory that names none."""


async def doctor(job: Job) -> int:
    """Show what costs what, and what to do."""
    memory, runner, state = job.memory, runner_of(job.memory), await job.read_state()
    messages = runner.conversation(state)
    record = runner.take_in(runner.record(state), messages)
    step = runner.look(record, messages, runner.read_state(state))
    step.settings = runner.actor.read_window(record)[0]
    found = diagnose(step)
    status = cast("StatusData", memory.status(state))
    named = name_actor_of(messages)
    pool = runner.models if job.args.memory else _UNNAMED
    models = list(pool.list_models(runner.actor.find() or named or None))
    if pool.asks_actor:
        found.advice.extend(advise_on_price(named, messages, record))
    if job.args.json:
        write_value(
            {
                "sections": found.sections,
                "cacheHits": found.cache_hits,
                "actorWindow": status.get("actorWindow"),
                "models": [
                    {"role": role, "model": name, "needs": needs} for role, name, needs in models
                ],
                "advice": [{"kind": own.kind, "text": own.text} for own in found.advice],
            }
        )
        return FOUND_SOMETHING if found.advice else DONE
    total = sum(found.sections.values())
    rows = [(name, f"{n:,}", f"{n / total:.0%}") for name, n in found.sections.items()]
    write_table(("section of the prompt", "tokens", "share"), rows)
    hits = "not known" if found.cache_hits is None else f"{found.cache_hits:.0%} of the input"
    write(f"\nfrom the provider's cache: {hits}")
    write(f"the agent's model reads: {describe_actor_window(status) or 'not known'}\n")
    rows = [(role, name, " and ".join(needs)) for role, name, needs in models]
    write_table(("role", "model", "missing here"), rows)
    if not job.args.memory:
        write("(for the models of your memory, add --memory MODULE:NAME)")
    for own in found.advice:
        write(f"\n- {own.text}")
    if not found.advice:
        write("\nno advice")
    return FOUND_SOMETHING if found.advice else DONE


# --- Commands that change ------------------------------------------------------------------------


async def change(job: Job) -> int:
    """Change what is remembered, as the name of the command says."""
    args = job.args
    if args.command == "title" and (args.text is None) != args.clear:
        msg = "`title` needs a text, or `--clear` to let memory make titles again; pass one of them"
        raise ConfigurationError(msg)

    def build(state: Any) -> Update:
        return build_update(job.memory.updates, args.command, vars(args), state)

    state = await job.read_state()
    build(state)  # what cannot be meant is refused before anything else
    act = await job.source.change(job.thread, build)
    if args.json:
        write_value({"id": act, "action": args.command})
        return DONE
    acts = {own.id: own for own in list_acts(await job.read_record())}
    write(f"{acts[act].done}: {acts[act].words}" if act in acts else "Done")
    if args.command not in ("title", "pin-message", "unpin-message"):
        write(f"`langgraph-om undo --act {act}` takes it back")
    return DONE


# --- Serve ---------------------------------------------------------------------------------------


def serve(args: Namespace) -> int:
    """Serve an archive to MCP clients until the client, or the terminal, ends it."""
    if args.archive is None or not args.resource:
        msg = "`mcp` serves what an archive keeps of one user: add --archive URL and --resource ID"
        raise SourceError(msg)
    with closing(open_archive(args.archive)) as archive:
        memory = _make_memory(archive=archive, retrieval={"scope": "resource"})
        try:
            server = memory_server(memory, resource_id=args.resource, allow_writes=args.write)
        except ImportError as error:
            raise SourceError(str(error)) from error
        if args.http is None:
            server.run("stdio")
            return DONE
        import uvicorn  # noqa: PLC0415 comes with `mcp`

        host, port = args.http
        uvicorn.run(server.streamable_http_app(), host=host, port=port, log_level="warning")
    return DONE


# --- The command line ----------------------------------------------------------------------------


_Add = Callable[[str, Any, str], ArgumentParser]


def build_parser() -> ArgumentParser:
    """Return what reads the command line."""
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
        text = f"how many {of} ({default})"
        parser.add_argument("--limit", type=_read_count, default=default, help=text)

    parser = add("show", show, "show what is remembered, and how full memory is")
    parser.add_argument("--ids", action="store_true", help="also list observations with their ids")
    parser.add_argument("--html", metavar="FILE", help="write a page with all of it instead")
    add_limit(add("list", list_threads, "list threads, newest first"), 20, "threads")
    parser = add("costs", costs, "show the tokens of memory's own models, by thread and by user")
    add_limit(parser, 200, "threads")
    parser = add("search", search, "find words in the log and in the messages")
    parser.add_argument("words", help="words to find, in any form; the best hits come first")
    add_limit(parser, 20, "hits")
    add_limit(add("history", history, "list the generations of the log"), 10, "generations")
    parser = add("diff", diff, "show what changed from one generation to another")
    for name, which in (("before", "the last but one"), ("after", "the last one")):
        parser.add_argument(name, type=int, nargs="?", help=f"a generation; default: {which}")
    add("doctor", doctor, "show what costs what in the prompt, and what to do about it")
    add("rules", list_rules, "list the user's standing instructions")

    _add_changes(add)
    parser = add("mcp", None, "serve an archive to agents and IDEs that speak MCP")
    parser.add_argument("--write", action="store_true", help="let them remember and forget, too")
    place = "over streamable HTTP at /mcp; default: over stdio. Anyone who reaches it can read"
    parser.add_argument("--http", type=_read_place, metavar="HOST:PORT", help=place)
    return top


def _add_changes(add: _Add) -> None:
    item = "an observation's id, or words of it"
    parser = add("remember", change, "add an observation that no reflection changes")
    parser.add_argument("text", help="what to remember")
    parser.add_argument("--date", help="the day it is about, such as 2026-03-02; default: today")
    parser = add("correct", change, "put another text in the place of an observation")
    parser.add_argument("item", help=item)
    parser.add_argument("text", help="what is right")
    parser = add("forget", change, "take an observation out of the log; its messages stay")
    parser.add_argument("item", help=item)
    add("pin", change, "protect an observation from reflections").add_argument("item", help=item)
    parser = add("unpin", change, "let reflections change an observation again")
    parser.add_argument("item", help=item)
    parser = add("undo", change, "take back what a person did")
    parser.add_argument("--act", metavar="ID", help="which change; default: the newest")
    parser = add("pin-message", change, "show the agent a message word for word in each prompt")
    parser.add_argument("message", help="the id of a message")
    parser = add("unpin-message", change, "show a message like any other again")
    parser.add_argument("message", help="the id of a pinned message")
    parser = add("title", change, "give a thread a title, which memory never changes")
    parser.add_argument("text", nargs="?", help="the title, of at most 120 characters")
    parser.add_argument("--clear", action="store_true", help="let memory make titles again")


def _add_source(parser: ArgumentParser) -> None:
    where = parser.add_argument_group("where the memory is")
    one = where.add_mutually_exclusive_group(required=True)
    one.add_argument("--checkpointer", metavar="URL", help="sqlite:///file.db or postgresql://...")
    one.add_argument("--url", help="a LangGraph server, such as http://127.0.0.1:2024")
    one.add_argument("--archive", metavar="URL", help="the archive of a memory")
    one.add_argument("--record", metavar="FILE", help="a record or a state as JSON")
    where.add_argument("--thread", metavar="ID", help="the thread")
    where.add_argument("--resource", metavar="ID", help="the user, for an archive")
    graph = "the agent's compiled graph, to write to a checkpointer; see the docs"
    where.add_argument("--graph", metavar="MODULE:NAME", help=graph)
    own = "your ObservationalMemory, for its options; default: the default options"
    parser.add_argument("--memory", metavar="MODULE:NAME", help=own)
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after its name; `None`: those that the shell gave.

    Returns:
        The exit code, as the help lists them.
    """
    args = build_parser().parse_args(arguments)
    try:
        return serve(args) if args.command == "mcp" else asyncio.run(_run(args))
    except ItemError as error:
        return _fail(error, args, NO_ITEM)
    except ConfigurationError as error:
        return _fail(error, args, BAD_USE)
    except ObservationalMemoryError as error:
        return _fail(error, args, NO_SOURCE)
    except BrokenPipeError:
        return DONE
    except Exception as error:  # noqa: BLE001 what a database or a server raises
        given = ("checkpointer", "archive", "url")
        where = "".join(f"`--{name}`: " for name in given if getattr(args, name))
        return _fail(SourceError(f"{where}{type(error).__name__}: {error}"), args, NO_SOURCE)


async def _run(args: Namespace) -> int:
    graph = None if args.graph is None else _import("graph", args.graph)
    if graph is not None and not hasattr(graph, "update_state"):
        msg = f"`--graph` is {args.graph!r}, which is {type(graph).__name__}; pass a compiled graph"
        raise ConfigurationError(msg)
    memory = check_memory(_import("memory", args.memory)) if args.memory else _make_memory()
    async with open_source(args, graph, runner_of(memory)) as source:
        code: int = await args.run(Job(args, memory, source))
        return code


def _make_memory(**options: Any) -> ObservationalMemory:
    """Return a memory that asks no model, so that no model's package has to be installed."""

    def refuse(_: Any) -> Any:
        msg = "the command asks no model"
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


def _fail(error: Exception, args: Namespace, code: int) -> int:
    said = str(error)
    for place in filter(None, (args.checkpointer, args.archive, args.url)):
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


def _read_place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if port.isascii() and port.isdigit() and 0 < int(port) < 2**16:
        return host or "127.0.0.1", int(port)
    msg = f"{text!r} is not HOST:PORT; write 127.0.0.1:8765"
    raise ArgumentTypeError(msg)
