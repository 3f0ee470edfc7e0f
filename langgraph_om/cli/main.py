"""The command `langgraph-om`: its options, its help, and what it returns to the shell."""

from __future__ import annotations

import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from langgraph_om.cli import commands
from langgraph_om.cli.commands import Output
from langgraph_om.cli.sources import open_source
from langgraph_om.errors import (
    ConfigurationError,
    ItemError,
    ObservationalMemoryError,
    SourceError,
)
from langgraph_om.features import ACTS

BAD_USE: Final = 2
NO_SOURCE: Final = 3
NO_ITEM: Final = 4

_HELP: Final = """\
See what an agent remembers, and change it.

Say where the memory is, with one of
  --checkpointer sqlite:///checkpoints.db      or postgresql://user:password@host/database
  --url http://127.0.0.1:2024                  a LangGraph server
  --archive sqlite:///memory.db                with --resource ID, the log that its threads share
  --record file.json                           a record or a state, as a file

and which one, with --thread ID. Begin like this:

  langgraph-om list    --checkpointer sqlite:///checkpoints.db
  langgraph-om show    --checkpointer sqlite:///checkpoints.db --thread t-1 --ids
  langgraph-om correct --checkpointer sqlite:///checkpoints.db --thread t-1 \\
                       --graph my_agent:graph "lives in Lyon" "User lives in Ghent"
"""
_CODES: Final = """\
exit codes:
  0  done
  1  done, and there is something to see: doctor has advice, diff a difference; search found nothing
  2  an argument cannot be meant
  3  the source cannot be reached or written to, or has no such thread
  4  no item matches, or several do; the message lists them
"""


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

    shown = add("show", commands.show, "show what is remembered, and how full both windows are")
    shown.add_argument("--ids", action="store_true", help="list the items with their ids, too")
    shown.add_argument("--html", metavar="FILE", help="write a page with all of it instead")
    listed = add("list", commands.list_threads, "list threads, newest first")
    listed.add_argument("--limit", type=_read_count, default=20, help="how many (20)")
    found = add("search", commands.search, "find words in the log and in the messages")
    found.add_argument(
        "words",
        help="words to find: of an archive any of them, the best hits first; else all, in any case",
    )
    found.add_argument("--limit", type=_read_count, default=20, help="how many hits to show (20)")
    past = add("history", commands.history, "list the generations of the log, newest first")
    past.add_argument("--limit", type=_read_count, default=10, help="how many (10)")
    changed = add("diff", commands.diff, "show what changed from one generation to another")
    changed.add_argument(
        "before", type=int, nargs="?", help="a generation; default: the last but one"
    )
    changed.add_argument("after", type=int, nargs="?", help="a generation; default: the last one")
    served = add("mcp", commands.serve, "serve an archive to agents and IDEs that speak MCP")
    served.add_argument("--write", action="store_true", help="let them remember and forget, too")
    served.add_argument(
        "--http",
        type=_read_place,
        metavar="HOST:PORT",
        help="over streamable HTTP at /mcp; default: over stdio. Whoever reaches it, reads",
    )
    add("doctor", commands.doctor, "say what costs what in the prompt, and what to do about it")
    _add_acts(add)
    return parser


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
        memory = commands.build_memory(args)
        with open_source(
            url=args.url,
            checkpointer=args.checkpointer,
            archive=args.archive,
            record=args.record,
            resource=args.resource,
            graph=graph,
        ) as source:
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
        return _fail(SourceError(f"{type(error).__name__}: {error}"), args, NO_SOURCE)


def _read_count(text: str) -> int:
    """Return a number of things to show.

    Raises:
        ArgumentTypeError: When it is none.
    """
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    msg = f"{text!r} is no whole number from 1 on"
    raise ArgumentTypeError(msg)


def _read_place(text: str) -> tuple[str, int]:
    """Return where a server listens.

    Raises:
        ArgumentTypeError: When it cannot be meant.
    """
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
    limits = parser.add_argument_group("the agent's own limits, where they are not the defaults")
    limits.add_argument("--message-tokens", type=int, metavar="N")
    limits.add_argument("--observation-tokens", type=int, metavar="N")
    limits.add_argument("--messages-key", default="messages", metavar="KEY")
    parser.add_argument("--json", action="store_true", help="write JSON, for programs")


def _add_acts(add: Any) -> None:
    for act in ACTS:
        own = add(act.name, partial(commands.change, act), act.help)
        for argument in act.arguments:
            name = f"--{argument.name}" if argument.is_option else argument.name
            options = {"metavar": argument.metavar} if argument.metavar else {}
            if act.clearing is not None and not argument.is_option:
                options["nargs"] = "?"
            own.add_argument(name, help=argument.help, **options)
        if act.clearing is not None:
            own.add_argument("--clear", action="store_true", help=act.clearing.help)


def _load_graph(name: str | None) -> Any:
    """Import the agent's graph.

    Raises:
        ConfigurationError: When there is none of that name.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        graph = getattr(import_module(module), attribute or "graph")
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"`--graph` is {name!r}, which cannot be imported: {error}; pass module:name"
        raise ConfigurationError(msg) from error
    if not hasattr(graph, "update_state"):
        msg = f"`--graph` is {name!r}, which is {type(graph).__name__}; pass a compiled graph"
        raise ConfigurationError(msg)
    return graph


def _fail(error: Exception, args: Namespace, code: int) -> int:
    print(commands.write_error(error, args), file=sys.stderr)  # noqa: T201 a command
    return code
