"""The command `langgraph-om`: its options, its help, and what each command does with a source."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import Any, Final, cast

from langchain_core.runnables import RunnableLambda

from langgraph_om.cli.doctor import advise_on_price, diagnose, name_actor_of
from langgraph_om.cli.sources import ArchiveSource, Source, hide_password, open_source
from langgraph_om.core.config.options import ACTORS_OWN
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import CONTROL, DIRECTION, SURROGATE, for_terminal, sanitize
from langgraph_om.core.items import list_items
from langgraph_om.core.observe import standing
from langgraph_om.core.page import (
    describe_actor_window,
    diff_logs,
    list_usage,
    write_apart,
    write_moment,
)
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.wire import MemoryRecord, StatusData
from langgraph_om.errors import ConfigurationError, ItemError, ObservationalMemoryError, SourceError
from langgraph_om.features import pinned
from langgraph_om.features.steering import describe_act
from langgraph_om.mcp import memory_server
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.models.pool import ModelPool
from langgraph_om.models.providers import Sampling
from langgraph_om.runtime.acting import Update
from langgraph_om.searching import build_request, search_archive


def build_memory(args: Namespace, **options: Any) -> ObservationalMemory:
    """Return the agent's own memory, or one that asks no model."""
    if args.memory and not options:
        return check_memory(_import("--memory", args.memory))
    observation = {"message_tokens": args.message_tokens} if args.message_tokens else None
    reflection = (
        {"observation_tokens": args.observation_tokens} if args.observation_tokens else None
    )
    return ObservationalMemory(
        RunnableLambda(_refuse),  # so that no model's package has to be installed
        observation=observation,
        reflection=reflection,
        messages_key=args.messages_key,
        **options,
    )


def _refuse(_: Any) -> Any:
    msg = "the command asks no model"
    raise AssertionError(msg)


# Write to the terminal: plain text, with colours where `rich` is installed, or JSON.


_STYLES: Final = {"+": "green", "-": "red", "@": "bright_black"}


def write_json(value: Any, indent: int | None = None) -> str:
    """Return JSON in which whatever could steer a terminal is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    for steering in (CONTROL, DIRECTION, SURROGATE):
        text = steering.sub(lambda found: "".join(f"\\u{ord(each):04x}" for each in found[0]), text)
    return text


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes."""

    as_json: bool
    """Whether one JSON value is written, and nothing else."""

    def value(self, value: Any) -> None:
        """Write a JSON value, for programs."""
        print(write_json(value, indent=2))  # noqa: T201 a command

    def text(self, text: str, style: str | None = None) -> None:
        """Write lines; what a model or a user said cannot steer the terminal."""
        clean = for_terminal(text)
        if not sys.stdout.isatty() or find_spec("rich") is None:
            print(clean)  # noqa: T201 a command
            return
        from rich.console import Console  # noqa: PLC0415 optional

        Console().print(clean, style=style, markup=False, highlight=False, soft_wrap=True)

    def table(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write rows below each other, columns aligned."""
        cells = [[" ".join(sanitize(str(cell)).split()) for cell in row] for row in [names, *rows]]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for at, row in enumerate(cells):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.text(line.rstrip(), "bold" if at == 0 else None)

    def rows(self, value: Any, names: Sequence[str], cells: Sequence[Sequence[object]]) -> None:
        """Write a JSON value, or else the same as a table."""
        if self.as_json:
            self.value(value)
        else:
            self.table(names, cells)


DONE: Final = 0
FOUND_SOMETHING: Final = 1
"""`doctor` has advice, `diff` differences; `search` found nothing."""

_LIMITS: Final = (
    "(limits are the defaults; say the agent's own with --message-tokens and --observation-tokens)"
)
_MAX_SHOWN: Final = 160
_AROUND: Final = 60
_HIT_COLUMNS: Final = ("where", "when", "id", "thread")
_BELOW: Final[Any] = {"initial_indent": "  ", "subsequent_indent": "  "}
"""How a text stands below the line that it belongs to."""


def show(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Show what is remembered."""
    state = source.state(args.thread)
    view = memory.view(state, history=source.history(args.thread) if args.html else None)
    if args.html:
        try:
            view.to_html(args.html)
        except ImportError as error:
            raise SourceError(str(error)) from error
    if out.as_json:
        apart = {each.name: each.describe() for each in view.apart}
        out.value({"record": view.record, "status": view.status, "apart": apart})
    elif args.html:
        out.text(f"written to {args.html}")
    else:
        out.text(str(view))
        if not (args.memory or args.message_tokens or args.observation_tokens):
            out.text(_LIMITS)
        out.text("")
        items = list_items(view.record["log"], view.record["chunks"])
        rows = [(item.id, item.day or "", _cut(item.words)) for item in items]
        if args.ids:
            out.table(("id", "day", "item"), rows)
    return DONE


def list_threads(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """List conversations."""
    threads = source.threads(args.limit)
    cells = [(own.id, write_moment(own.updated or ""), own.title or "") for own in threads]
    out.rows([asdict(own) for own in threads], ("thread", "updated", "title"), cells)
    return DONE


def costs(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Tell tokens and dollars of memory's own models, by thread and by user."""
    if isinstance(source, ArchiveSource):
        msg = "costs are read from records; name the checkpointer, or the server"
        raise SourceError(msg)
    by_user: dict[str, Counter[str]] = {}
    threads = []
    for own in source.threads(args.limit):
        record = runner_of(memory).record(source.state(own.id))
        spent = Counter[str]()
        for _, calls, read, written in list_usage(record):
            spent.update(calls=calls, tokens_in=read, tokens_out=written)
        user = record["resource_id"] or ""
        by_user.setdefault(user, Counter()).update(spent)
        threads.append({"thread": own.id, "user": user, **_tell_costs(spent, args.prices)})
    users = [{"user": user, **_tell_costs(spent, args.prices)} for user, spent in by_user.items()]
    if out.as_json:
        out.value({"threads": threads, "users": users})
        return DONE
    for rows in (threads, users):
        names = [name for name in (rows[0] if rows else ()) if name != "dollars" or args.prices]
        cells = [[_write(row[name]) for name in names] for row in rows]
        out.table([name.replace("_", " ") for name in names], cells)
        out.text("")
    return DONE


def _tell_costs(spent: Counter[str], prices: tuple[float, float] | None) -> dict[str, Any]:
    """Return calls and tokens, with their dollars where the prices of a million are known."""
    told: dict[str, Any] = {name: spent[name] for name in ("calls", "tokens_in", "tokens_out")}
    if prices is None:
        return {**told, "dollars": None}
    dollars = spent["tokens_in"] * prices[0] + spent["tokens_out"] * prices[1]
    return {**told, "dollars": dollars / 1_000_000}


def _write(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"${value:,.4f}" if isinstance(value, float) else str(value)


def search(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Find words in the log and in the messages; of an archive by its index, the best first."""
    if isinstance(source, ArchiveSource):
        return _show_hits(_search_archive(source, args, memory), args, out)
    runner, state = runner_of(memory), source.state(args.thread)
    words = args.words.casefold().split()
    hits = _search_log(memory, state, args.words) + [
        {
            "where": role_of(message) or message.type,
            "id": message.id,
            "when": "",
            "text": message.text,
        }
        for message in runner.conversation(state)
        if _has(message.text, words)
    ]
    return _show_hits(hits, args, out)


def _search_archive(
    source: ArchiveSource, args: Namespace, memory: ObservationalMemory
) -> list[dict[str, Any]]:
    """Search all that an archive has of a thread or a resource, as `memory.search` does."""
    if args.thread is None and source.resource is None:
        msg = (
            "an archive is searched by thread or by resource; add `--thread ID` or `--resource ID`"
        )
        raise SourceError(msg)
    asked = build_request(args.words, args.limit + 1, UTC)
    found = search_archive(
        runner_of(memory).settings,
        source.archive,
        asked,
        args.thread,
        resource_id=source.resource,
    )
    logged: list[dict[str, Any]] = []
    resource = source.resource
    if args.thread is None and resource and source.archive.load_record(resource)[0] is not None:
        # What stands in the shared log now, with what a person wrote into it.
        logged = _search_log(memory, source.state(None), args.words)
        found = [hit for hit in found if hit.kind == "message"]
    return logged + [
        {
            "where": hit.role or hit.kind,
            "id": hit.id,
            "thread": hit.thread_id,
            "when": "" if hit.at is None else write_moment(hit.at.isoformat()),
            "score": hit.score,
            "text": hit.excerpt,
        }
        for hit in found
    ]


def _search_log(memory: ObservationalMemory, state: Any, words: str) -> list[dict[str, Any]]:
    """Find the items of a log that hold all words."""
    record = runner_of(memory).record(state)
    return [
        {"where": "log", "id": item.id, "when": str(item.day or ""), "text": item.words}
        for item in list_items(record["log"], record["chunks"])
        if _has(item.text, words.casefold().split())
    ]


def _show_hits(hits: Sequence[Mapping[str, Any]], args: Namespace, out: Output) -> int:
    words = args.words.casefold().split()
    if out.as_json:
        out.value(hits)
    else:
        for hit in hits[: args.limit]:
            head = "  ".join(hit[name] for name in _HIT_COLUMNS if hit.get(name))
            out.text(fill(head, 80, subsequent_indent="  ", break_long_words=False), "bold")
            out.text(fill(_cut(hit["text"], words), 80, **_BELOW))
        if len(hits) > args.limit:
            out.text("and more; a higher --limit shows them")
    return DONE if hits else FOUND_SOMETHING


def history(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """List the generations of the log."""
    records = memory.history(source.history(args.thread), args.limit)
    rows: list[dict[str, Any]] = [
        {
            "generation": record["generation"],
            "items": len(list_items(record["log"])),
            "tokens": log_tokens(record),
            "newest": max((group["observed_at"] for group in record["log"]), default=""),
        }
        for record in records
    ]
    cells = [[*{**row, "newest": write_moment(row["newest"])}.values()] for row in rows]
    out.rows(rows, ("generation", "items", "tokens", "newest observation"), cells)
    return DONE


def diff(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Show what changed between two generations."""
    records = memory.history(source.history(args.thread), 1000)
    known = {record["generation"]: record for record in records}
    if not records:
        msg = "there is no memory yet, so that nothing differs"
        raise SourceError(msg)
    after = _pick(known, args.after, records[0])
    before = _pick(known, args.before, records[min(1, len(records) - 1)])
    lines = diff_logs(before, after)
    if out.as_json:
        numbers = {"before": before["generation"], "after": after["generation"]}
        out.value({**numbers, "lines": lines})
    else:
        for line in lines or ["no difference"]:
            out.text(line, _STYLES.get(line[:1]))
    return FOUND_SOMETHING if lines else DONE


def list_rules(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """List the user's standing instructions."""
    rows = standing.list_rows(runner_of(memory).record(source.state(args.thread)))
    return _list(rows, ("id", "day", "thread", "words"), out)


def list_pinned(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """List the messages that a person pinned."""
    rows = pinned.list_rows(runner_of(memory).record(source.state(args.thread)))
    return _list(rows, ("id", "role", "shown", "text"), out)


def _list(rows: Sequence[Sequence[str | None]], names: Sequence[str], out: Output) -> int:
    cells = [[cell or "" for cell in row] for row in rows]
    out.rows([dict(zip(names, row, strict=True)) for row in rows], names, cells)
    return DONE


_UNNAMED: Final = ModelPool(
    {"observer": ACTORS_OWN, "reflector": ACTORS_OWN},
    {role: Sampling({}, {}) for role in ("observer", "reflector")},
)
"""The models of a memory that names none."""


def doctor(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Say what costs what, and what to do."""
    runner, state = runner_of(memory), source.state(args.thread)
    messages = runner.conversation(state)
    record = runner.take_in(runner.record(state), messages)
    status = cast("StatusData", memory.status(state))
    apart = runner.list_apart(record)
    step = runner.look(record, messages, runner.read_state(state))
    step.settings = runner.read_window(record)[0]
    found = diagnose(step)
    pool = runner.models if args.memory else _UNNAMED
    named = name_actor_of(messages)
    models = list(pool.list_models(runner.find_actor() or named or None))
    if pool.asks_actor:
        found.advice.extend(advise_on_price(named, messages, record))
    if out.as_json:
        advice = [{"kind": own.kind, "text": own.text} for own in found.advice]
        actor = status.get("actorWindow")
        told = {"sections": found.sections, "cacheHits": found.cache_hits, "actorWindow": actor}
        shown = {each.name: each.describe() for each in apart}
        roles = [dict(zip(("role", "model", "needs"), each, strict=True)) for each in models]
        out.value({**told, "apart": shown, "models": roles, "advice": advice})
    else:
        total = sum(found.sections.values())
        rows = [(name, f"{n:,}", f"{n / total:.0%}") for name, n in found.sections.items()]
        out.table(("section of the prompt", "tokens", "share"), rows)
        hits = "not known" if found.cache_hits is None else f"{found.cache_hits:.0%} of the input"
        out.text(f"\nfrom the provider's cache: {hits}")
        out.text(f"the agent's model reads: {describe_actor_window(status) or 'not known'}\n")
        rows = [(role, name, " and ".join(needs)) for role, name, needs in models]
        out.table(("role", "model", "missing here"), rows)
        if not args.memory:
            out.text("(of a memory that names none; for yours, add --memory MODULE:NAME)")
        for each in apart:
            lines = write_apart(each, names_threads=record["scope"] == "resource")
            out.text("\n" + "\n".join(lines))
        for own in found.advice:
            out.text(f"\n- {own.text}", "yellow")
        if not found.advice:
            out.text("\nnothing to advise")
    return FOUND_SOMETHING if found.advice else DONE


# What a person changes.

_BACK: Final = ": {what}\n`langgraph-om undo --act {id}` takes it back"


def remember(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Add an item that no reflection changes."""
    state = source.state(args.thread)
    update = memory.updates.remember(args.text, date=args.date, state=state)
    return _change(source, args, out, update, f"remembered{_BACK}")


def pin(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Let no reflection change an item."""
    update = memory.updates.pin(args.item, state=source.state(args.thread))
    return _change(source, args, out, update, f"pinned{_BACK}")


def unpin(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Let reflections change an item again."""
    update = memory.updates.unpin(args.item, state=source.state(args.thread))
    return _change(source, args, out, update, f"not pinned any more{_BACK}")


def forget(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Take an item out of the log."""
    update = memory.updates.forget(args.item, state=source.state(args.thread))
    return _change(source, args, out, update, f"forgotten{_BACK}")


def correct(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Put another text in the place of an item."""
    update = memory.updates.correct(args.item, args.text, state=source.state(args.thread))
    return _change(source, args, out, update, f"corrected{_BACK}")


def undo(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Take back what a person did."""
    return _change(source, args, out, memory.updates.undo(args.act), f"undone{_BACK}")


def pin_message(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Keep a message in the agent's sight."""
    update = memory.updates.pin_message(args.text, state=source.state(args.thread))
    return _change(source, args, out, update, "done")


def unpin_message(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Show a message as any other again."""
    update = memory.updates.unpin_message(args.text, state=source.state(args.thread))
    return _change(source, args, out, update, "done")


def set_title(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Give a thread a title, or take it back."""
    if (args.text is None) != args.clear:
        msg = "`title` needs a text, or `--clear` to let memory make titles again; pass one of them"
        raise ConfigurationError(msg)
    update = memory.updates.set_title(args.text)
    done = 'the title is "{title}"; `--clear` takes it back'
    told = "the title is gone; memory makes titles again" if args.clear else done
    return _change(source, args, out, update, told, title=update[0]["title"])


def _change(
    source: Source, args: Namespace, out: Output, update: Update, told: str, **more: Any
) -> int:
    source.write(args.thread, update)
    act = update[0]["id"]
    if out.as_json:
        out.value({"id": act, "action": args.command, **more})
    else:
        what = describe_act(source.state(args.thread)["om"], act)
        out.text(told.format(id=act, what=what, **more))
    return DONE


def serve(source: Source, args: Namespace, memory: ObservationalMemory, out: Output) -> int:
    """Serve an archive to MCP clients until the client, or the terminal, ends it."""
    if not isinstance(source, ArchiveSource) or not source.resource:
        msg = "`mcp` serves what an archive keeps of one user: add --archive URL and --resource ID"
        raise SourceError(msg)
    memory = build_memory(args, archive=source.archive, retrieval={"scope": "resource"})
    try:
        server = memory_server(memory, resource_id=source.resource, allow_writes=args.write)
    except ImportError as error:
        raise SourceError(str(error)) from error
    if args.http is None:
        server.run("stdio")
        return DONE
    import uvicorn  # noqa: PLC0415 comes with `mcp`

    host, port = args.http
    uvicorn.run(server.streamable_http_app(), host=host, port=port, log_level="warning")
    return DONE


def _pick(
    known: Mapping[int, MemoryRecord], number: int | None, default: MemoryRecord
) -> MemoryRecord:
    if number is None:
        return default
    if number in known:
        return known[number]
    msg = f"there is no generation {number}; those known are {', '.join(map(str, known))}"
    raise ConfigurationError(msg)


def _has(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return bool(words) and all(word in folded for word in words)


def _cut(text: str, words: Sequence[str] = ("",)) -> str:
    """Return what stands around the first of some words, or at the beginning, on one line."""
    line = " ".join(text.split())
    at = max(0, line.casefold().find(words[0]) - _AROUND)
    cut = line[at : at + _MAX_SHOWN]
    return f"{'…' if at else ''}{cut}{'…' if at + _MAX_SHOWN < len(line) else ''}"


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

and which one, with --thread ID. Begin like this:

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
  2  an argument cannot be meant
  3  the source cannot be reached or written to, or has no such thread
  4  no item matches, or several do; the message lists them
"""


_Add = Callable[[str, Any, str], ArgumentParser]
"""Adds a command, by its name, what runs it, and its help."""


def build_parser() -> ArgumentParser:
    """Return what reads the command line."""
    parser = ArgumentParser(
        "langgraph-om",
        description=_HELP,
        epilog=_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    inner = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

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

    _add_views(add)
    _add_server(add)
    add("doctor", doctor, "say what costs what in the prompt, and what to do about it")
    add("rules", list_rules, "list the user's standing instructions")
    add("pinned", list_pinned, "list the messages that a person pinned")
    _add_acts(add)
    return parser


def _add_views(add: _Add) -> None:
    shown = add("show", show, "show what is remembered, and how full both windows are")
    shown.add_argument("--ids", action="store_true", help="list the items with their ids, too")
    shown.add_argument("--html", metavar="FILE", help="write a page with all of it instead")
    listed = add("list", list_threads, "list threads, newest first")
    listed.add_argument("--limit", type=_read_count, default=20, help="how many (20)")
    spent = add("costs", costs, "tell what memory's own models cost, by thread and by user")
    spent.add_argument("--limit", type=_read_count, default=1000, help="how many threads (1000)")
    spent.add_argument(
        "--prices",
        type=_read_prices,
        metavar="IN,OUT",
        help="dollars for a million tokens, such as 0.3,2.5",
    )
    found = add("search", search, "find words in the log and in the messages")
    found.add_argument(
        "words",
        help="words to find: of an archive any of them, the best hits first; else all, in any case",
    )
    found.add_argument("--limit", type=_read_count, default=20, help="how many hits to show (20)")
    past = add("history", history, "list the generations of the log, newest first")
    past.add_argument("--limit", type=_read_count, default=10, help="how many (10)")
    changed = add("diff", diff, "show what changed from one generation to another")
    changed.add_argument(
        "before", type=int, nargs="?", help="a generation; default: the last but one"
    )
    changed.add_argument("after", type=int, nargs="?", help="a generation; default: the last one")


def _add_server(add: _Add) -> None:
    served = add("mcp", serve, "serve an archive to agents and IDEs that speak MCP")
    served.add_argument("--write", action="store_true", help="let them remember and forget, too")
    served.add_argument(
        "--http",
        type=_read_place,
        metavar="HOST:PORT",
        help="over streamable HTTP at /mcp; default: over stdio. Whoever reaches it, reads",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What stands behind its name; `None`: what the shell gave.

    Returns:
        The exit code, as the help lists them.
    """
    args = build_parser().parse_args(arguments)
    out = Output(as_json=args.json)
    try:
        graph = _load_graph(args.graph)
        memory = build_memory(args)
        with open_source(args, graph, runner_of(memory)) as source:
            code: int = args.run(source, args, memory, out)
            return code
    except ItemError as error:
        return _fail(error, args, NO_ITEM)
    except ConfigurationError as error:
        return _fail(error, args, BAD_USE)
    except ObservationalMemoryError as error:
        return _fail(error, args, NO_SOURCE)
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001 what a database or a server raises
        said = f"{_name_source(args)}{type(error).__name__}: {error}"
        return _fail(SourceError(said), args, NO_SOURCE)


def _read_count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    msg = f"{text!r} is no whole number from 1 on"
    raise ArgumentTypeError(msg)


def _read_prices(text: str) -> tuple[float, float]:
    """Read dollars for a million tokens in and out."""
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        read = written = -1.0
    if not (isfinite(read) and isfinite(written) and read >= 0 and written >= 0):
        msg = f"{text!r} is not IN,OUT; write two numbers, such as 0.3,2.5"
        raise ArgumentTypeError(msg)
    return read, written


def _read_place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if port.isascii() and port.isdigit() and 0 < int(port) < 2**16:
        return host or "127.0.0.1", int(port)
    msg = f"{text!r} is no host and port; write 127.0.0.1:8765"
    raise ArgumentTypeError(msg)


def _add_source(parser: ArgumentParser) -> None:
    where = parser.add_argument_group("where the memory is")
    one = where.add_mutually_exclusive_group(required=True)
    one.add_argument("--checkpointer", metavar="URL", help="sqlite:///file.db or postgresql://...")
    one.add_argument("--url", help="a LangGraph server, such as http://127.0.0.1:2024")
    one.add_argument("--archive", metavar="URL", help="the archive of a memory")
    one.add_argument("--record", metavar="FILE", help="a record or a state as JSON")
    where.add_argument("--thread", metavar="ID", help="the thread")
    where.add_argument("--resource", metavar="ID", help="the resource, for an archive")
    where.add_argument(
        "--graph",
        metavar="MODULE:NAME",
        help="the agent's compiled graph, to write to a checkpointer; see the docs",
    )
    limits = parser.add_argument_group("the agent's own limits, if they are not the defaults")
    limits.add_argument(
        "--memory", metavar="MODULE:NAME", help="its ObservationalMemory, which has them all"
    )
    limits.add_argument("--message-tokens", type=int, metavar="N")
    limits.add_argument("--observation-tokens", type=int, metavar="N")
    limits.add_argument("--messages-key", default="messages", metavar="KEY")
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")


def _add_acts(add: _Add) -> None:
    item = "an item's id, or words of it"
    shown = add("pin-message", pin_message, "keep a message in the agent's sight, word for word")
    shown.add_argument("text", metavar="message", help="the id of a message")
    left = add("unpin-message", unpin_message, "show a message as any other again")
    left.add_argument("text", metavar="message", help="the id of a pinned message")
    added = add("remember", remember, "add an item that no reflection changes")
    added.add_argument("text", help="what to remember")
    added.add_argument("--date", help="the day it is about, such as 2026-03-02; default: today")
    add("pin", pin, "let no reflection change an item").add_argument("item", help=item)
    add("unpin", unpin, "let reflections change an item again").add_argument("item", help=item)
    gone = add("forget", forget, "take an item out of the log; its messages stay")
    gone.add_argument("item", help=item)
    corrected = add("correct", correct, "put another text in the place of an item")
    corrected.add_argument("item", help=item)
    corrected.add_argument("text", help="what is right")
    undone = add("undo", undo, "take back what a person did")
    undone.add_argument("--act", metavar="ID", help="which; default: the newest that stands")
    named = add("title", set_title, "give a thread a title, which memory never changes")
    named.add_argument("text", nargs="?", help="the title, of at most 120 characters")
    named.add_argument("--clear", action="store_true", help="let memory make titles again")


def _import(option: str, name: str) -> Any:
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), attribute or option.lstrip("-"))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"`{option}` is {name!r}, which cannot be imported: {error}; pass module:name"
        raise ConfigurationError(msg) from error


def _load_graph(name: str | None) -> Any:
    if name is None:
        return None
    graph = _import("--graph", name)
    if not hasattr(graph, "update_state"):
        msg = f"`--graph` is {name!r}, which is {type(graph).__name__}; pass a compiled graph"
        raise ConfigurationError(msg)
    return graph


def _name_source(args: Namespace) -> str:
    """Return the option that says where the memory is, as the beginning of an error."""
    if args.url:
        return f"`--url` is {args.url!r}: "
    # The URL of a database may have a password.
    return "`--checkpointer`: " if args.checkpointer else "`--archive`: " if args.archive else ""


def _fail(error: Exception, args: Namespace, code: int) -> int:
    said = str(error)
    for place in filter(None, (args.checkpointer, args.archive, args.url)):
        said = hide_password(said, place)
    text = write_json({"error": said}) if args.json else for_terminal(f"langgraph-om: {said}")
    print(text, file=sys.stderr)  # noqa: T201 a command
    return code
