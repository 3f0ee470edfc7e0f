# Replays a recorded conversation through a graph with memory, and reports what memory made of it.
#
#     pip install "langgraph-om[examples]"
#     python examples/replay.py chat.json
#     python examples/replay.py chat.json --message-tokens 2000 --observation-tokens 3000
#     python examples/replay.py chat.json --saver sqlite --async --model google/gemini-2.5-flash
#     python examples/replay.py chat.json --no-buffering --record om.json  # to compare runs by
#
# The file holds a list of messages in OpenAI's form ({"role", "content", "tool_calls",
# "tool_call_id"}) or {"id": ..., "messages": [...]}. A message may also carry "id", "name" and
# "created_at" (ISO). The recorded assistant plays the Actor: its messages are the answers, and what
# it would have been sent is measured. Without --model memory works offline, by extraction.
#
# Memory is told the recording's own time; a recording without times is as old as its file. So two
# runs with --no-buffering write the same --record, by either path and with any saver.

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from langgraph_om import (
    ConfigurationError,
    EstimatingCounter,
    ObservationalMemory,
    ObservationalMemoryState,
    ObservationOptions,
    add_observational_memory,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

SAVERS = {
    "sqlite": ("langgraph.checkpoint.sqlite", "SqliteSaver"),
    "sqlite async": ("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver"),
    "postgres": ("langgraph.checkpoint.postgres", "PostgresSaver"),
    "postgres async": ("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver"),
}
COUNTER = EstimatingCounter()
KNOWN: dict[tuple[str | None, ...], int] = {}
URLS = ("postgresql://", "postgres://")
WAITING = {"om_observe", "om_reflect"}
count_text = cache(COUNTER.count_text)

Report = dict[str, float | int | str | None]


def fail(reason: object) -> NoReturn:
    print(f"replay: {' '.join(str(reason).split())}", file=sys.stderr)
    raise SystemExit(2)


def count(messages: Iterable[BaseMessage]) -> int:
    return sum(map(count_message, messages))


def count_message(message: BaseMessage) -> int:
    """Count a message once: most of a prompt was in the one before."""
    key = (message.id, *texts_of(message))
    if key not in KNOWN:
        KNOWN[key] = COUNTER.count_message(message)
    return KNOWN[key]


# --- The file ------------------------------------------------------------------------------------


def load(path: Path, limit: int | None) -> tuple[str, list[BaseMessage]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{path} can not be read: {error}")
    rows = data.get("messages") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not rows[:limit]:
        fail(f'{path} holds no messages to replay; write a list or {{"messages": [...]}}')
    script: dict[str, BaseMessage] = {}
    for number, row in enumerate(rows[:limit], start=1):
        try:
            message = read_message(row, number)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            fail(f"message {number} of {path} is not understood: {reason}")
        if script.setdefault(str(message.id), message) is not message:
            fail(f"message {number} of {path} repeats the id {message.id!r}")
    name = data.get("id") if isinstance(data, dict) else None
    return str(name or path.stem), list(script.values())


def read_message(row: dict[str, Any], number: int) -> BaseMessage:
    known = {key: value for key, value in row.items() if value is not None}
    known["id"] = str(known.get("id", f"message-{number:05}"))
    (message,) = convert_to_messages([{"content": "", **known}])
    written_at(message)
    return message


def written_at(message: BaseMessage) -> datetime | None:
    moment = message.additional_kwargs.get("created_at")
    return None if moment is None else datetime.fromisoformat(moment)


def split_turns(script: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """Cut where somebody other than the Actor and its tools speaks after an answer."""
    turns: list[list[BaseMessage]] = [[]]
    answered = False
    for message in script:
        if answered and message.type not in {"ai", "tool"}:
            turns.append([])
            answered = False
        answered = answered or message.type == "ai"
        turns[-1].append(message)
    return turns


def asked(turn: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a turn before its first answer."""
    return list(takewhile(lambda message: message.type != "ai", turn))


@dataclass(frozen=True)
class Talk:
    """A recorded conversation, and the thread it is replayed in."""

    name: str
    script: list[BaseMessage]
    thread: str

    @property
    def config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.thread}}

    def run(self, turn: Sequence[BaseMessage]) -> RunnableConfig:
        # Agent, tools and memory may each need some steps per message.
        return {**self.config, "recursion_limit": 50 + 10 * len(turn)}


# --- The run -------------------------------------------------------------------------------------


class Meter:
    """Measures what the Actor would be sent and waits for, and keeps the recording's time."""

    def __init__(self, script: Sequence[BaseMessage], zone: ZoneInfo, file_time: datetime) -> None:
        self.prompts: list[int] = []
        self.without_memory = 0
        self.unchanged = 0.0
        self.blocking = 0
        self.waited = 0.0
        self.failures = 0
        self.windows = ""
        self._zone = zone
        self._now = next(self._times(script), file_time)
        self._history = [0, *accumulate(map(count_message, script))]
        self._before: list[str] = []
        self._since: dict[str, float] = {}

    def clock(self) -> datetime:
        return self._now

    def pass_time(self, messages: Iterable[BaseMessage]) -> None:
        self._now = max([self._now, *self._times(messages)])

    def _times(self, messages: Iterable[BaseMessage]) -> Iterator[datetime]:
        for moment in filter(None, map(written_at, messages)):
            yield moment if moment.tzinfo else moment.replace(tzinfo=self._zone)

    def prompt(self, messages: Sequence[BaseMessage], history: int) -> None:
        """Note a prompt, and what it would have been: the history of so many messages."""
        self.without_memory += self._history[history]
        texts = [text for message in messages for text in texts_of(message)]
        pairs = list(zip(texts, self._before, strict=False))
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        kept = sum(map(count_text, texts[:same]))
        if same < len(pairs):
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(*pairs[same], strict=False))
            kept += COUNTER.count_text("".join(new for new, _ in alike))
        self.prompts.append(count(messages))
        self.unchanged += self.prompts[-1] * kept / max(1, sum(map(count_text, texts)))
        self._before = texts

    def see(self, mode: str, chunk: Any) -> None:
        """Take in what the graph streams: the parts of memory, the tasks of its nodes."""
        if mode == "custom":
            self.blocking += chunk["type"] == "data-om-observation-start"
            self.failures += chunk["type"].endswith("-failed")
            if chunk["type"] == "data-om-status":
                self.windows = describe(chunk["data"]["windows"])
        elif chunk["name"] in WAITING:
            # By the recording's time, which is the memory's, a cycle takes no time at all.
            if "input" in chunk:
                self._since[chunk["id"]] = time.perf_counter()
            else:
                self.waited += time.perf_counter() - self._since.pop(chunk["id"])


def describe(windows: dict[str, Any]) -> str:
    """Say how full both windows are, how much is buffered, and how many jobs are at work."""
    active, buffered = windows["active"], windows["buffered"]
    sizes = [f"{active[name]['tokens']}/{active[name]['threshold']}" for name in active]
    ready = buffered["observations"]["chunks"] + bool(buffered["reflection"]["observationTokens"])
    at_work = sum(job["status"] == "running" for job in buffered.values())
    return f"window {sizes[0]}, log {sizes[1]}, buffered {ready}, {at_work} at work"


def texts_of(message: BaseMessage) -> list[str]:
    """Write a message as the texts it is made of: who speaks, its blocks, its tool calls."""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    texts = [block if isinstance(block, str) else json.dumps(block) for block in blocks]
    return [message.type, *texts, *map(json.dumps, calls)]


def build(script: Sequence[BaseMessage], memory: ObservationalMemory, meter: Meter) -> Any:
    """Wire a graph whose agent and tools say what was recorded."""

    def upcoming(state: ObservationalMemoryState) -> Iterator[BaseMessage]:
        return (script[at] for at in range(len(state["messages"]), len(script)))

    def agent(state: ObservationalMemoryState) -> dict[str, Any]:
        meter.prompt(memory.llm_input_messages(state), len(state["messages"]))
        answer = [message for message in islice(upcoming(state), 1) if message.type == "ai"]
        meter.pass_time(answer)
        return {"messages": answer}

    def tools(state: ObservationalMemoryState) -> dict[str, Any]:
        return {"messages": list(takewhile(lambda m: m.type == "tool", upcoming(state)))}

    def route(state: ObservationalMemoryState) -> str:
        following = next((message.type for message in upcoming(state)), "")
        return {"tool": "tools", "ai": gate}.get(following, END)

    builder = StateGraph(ObservationalMemoryState)
    builder.add_node("agent", agent)
    builder.add_node("tools", tools)
    gate = add_observational_memory(builder, memory, before="agent")
    builder.add_edge(START, gate)
    builder.add_conditional_edges("agent", route, ["tools", gate, END])
    builder.add_conditional_edges("tools", route, ["tools", gate, END])
    return builder


def replay(builder: Any, opening: Any, talk: Talk, meter: Meter) -> Any:
    with ExitStack() as stack:
        with clear_errors():
            saver = stack.enter_context(opening)
            if not isinstance(saver, InMemorySaver):
                saver.setup()
        graph = builder.compile(checkpointer=saver)
        check_fresh(graph.get_state(talk.config), talk)
        show = stack.enter_context(progress(len(talk.script)))
        done = 0
        for turn in split_turns(talk.script):
            meter.pass_time(asked(turn))
            inputs, config = {"messages": asked(turn)}, talk.run(turn)
            for mode, chunk in graph.stream(inputs, config, stream_mode=["custom", "tasks"]):
                meter.see(mode, chunk)
                show(done, meter.windows)
            done += len(turn)
            show(done, meter.windows)
        return graph.get_state(talk.config).values


async def areplay(builder: Any, opening: Any, talk: Talk, meter: Meter) -> Any:
    async with AsyncExitStack() as stack:
        with clear_errors():
            saver = await stack.enter_async_context(opening)
            if not isinstance(saver, InMemorySaver):
                await saver.setup()
        graph = builder.compile(checkpointer=saver)
        check_fresh(await graph.aget_state(talk.config), talk)
        show = stack.enter_context(progress(len(talk.script)))
        done = 0
        for turn in split_turns(talk.script):
            meter.pass_time(asked(turn))
            inputs, config = {"messages": asked(turn)}, talk.run(turn)
            async for mode, chunk in graph.astream(inputs, config, stream_mode=["custom", "tasks"]):
                meter.see(mode, chunk)
                show(done, meter.windows)
            done += len(turn)
            show(done, meter.windows)
        return (await graph.aget_state(talk.config)).values


@contextmanager
def clear_errors() -> Iterator[None]:
    """Say in one line that a database can not be opened."""
    errors: list[type[Exception]] = [sqlite3.Error, OSError]
    if find_spec("psycopg"):
        errors.append(import_module("psycopg").Error)
    try:
        yield
    except tuple(errors) as error:
        fail(f"the database can not be opened: {error}")


def check_fresh(state: Any, talk: Talk) -> None:
    if state.values:
        fail(f"the database has a thread {talk.thread!r} already; write --thread with another id")


@contextmanager
def progress(total: int) -> Iterator[Callable[[int, str], None]]:
    """Open a bar, or lines where there is no terminal; yields what moves it on."""
    if sys.stderr.isatty() and find_spec("rich"):
        rich = import_module("rich.progress")
        console = import_module("rich.console").Console(stderr=True)
        columns = (rich.BarColumn(12), rich.MofNCompleteColumn(), "{task.description}")
        with rich.Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda done, about: bar.update(task, completed=done, description=about)
        return
    told = 0

    def show(done: int, _: str) -> None:
        nonlocal told
        if done * 10 // total > told:
            told = done * 10 // total
            print(f"{done} of {total} messages", file=sys.stderr)

    yield show


# --- The report ----------------------------------------------------------------------------------


def covering_ranges(thread: Sequence[BaseMessage], log: Sequence[Any]) -> list[int]:
    """Count, for each message, the ranges of the log that it lies in."""
    places = {message.id: at for at, message in enumerate(thread)}
    changes = [0] * (len(thread) + 1)
    for first, last in (ends for group in log for ends in group["ranges"]):
        # A range whose ends are not in the thread covers nothing.
        if first in places and last in places:
            changes[places[first]] += 1
            changes[places[last] + 1] -= 1
    return list(accumulate(changes))[:-1]


def shown_verbatim(thread: Sequence[BaseMessage], prompt: Sequence[BaseMessage]) -> list[bool]:
    """Tell of each message whether the prompt holds it; system texts are joined into its head."""
    sent = {message.id: texts_of(message) for message in prompt}
    head = "".join(message.text for message in prompt if isinstance(message, SystemMessage))
    return [
        message.text in head
        if isinstance(message, SystemMessage)
        else sent.get(message.id) == texts_of(message)
        for message in thread
    ]


def measure(
    script: Sequence[BaseMessage], state: Any, memory: ObservationalMemory, meter: Meter
) -> Report:
    thread, record = state["messages"], state["om"]
    if [texts_of(m) for m in thread] != [texts_of(m) for m in script] or [m.id for m in thread] != [
        m.id for m in script
    ]:
        msg = "the thread is not the recorded conversation"
        raise RuntimeError(msg)
    prompt = memory.llm_input_messages(state)
    covered = covering_ranges(thread, record["log"])
    shown = shown_verbatim(thread, prompt)
    places = list(zip(covered, shown, strict=True))
    observed = count(m for m, ranges in zip(thread, covered, strict=True) if ranges)
    log = sum(group["tokens"] for group in record["log"])
    usage = record["usage"]
    return {
        "messages": len(thread),
        "full history tokens": count(thread),
        "last prompt tokens": count(prompt),
        "prompts": len(meter.prompts),
        "largest prompt tokens": max(meter.prompts),
        "mean prompt tokens": round(sum(meter.prompts) / len(meter.prompts)),
        "unchanged prefix share": round(meter.unchanged / max(1, sum(meter.prompts)), 3),
        "actor input tokens with memory": sum(meter.prompts),
        "actor input tokens without memory": meter.without_memory,
        "memory input tokens": sum(spent["inputTokens"] for spent in usage.values()),
        "memory output tokens": sum(spent["outputTokens"] for spent in usage.values()),
        "observer calls": usage.get("observation", {}).get("calls", 0),
        "reflector calls": usage.get("reflection", {}).get("calls", 0),
        "blocking calls": meter.blocking,
        "waiting seconds": round(meter.waited, 3),
        "generations": record["generation"],
        "observed message tokens": observed,
        "log tokens": log,
        "compression ratio": round(observed / log, 2) if log else None,
        "failures": meter.failures,
        "uncovered messages": sum(ranges != 1 and not seen for ranges, seen in places),
        "double-covered messages": sum(ranges > 1 for ranges in covered),
    }


EXPLANATION = """
Tokens are estimates. The last prompt is what the Actor would be sent next. The unchanged prefix is
the text, from the start, that a prompt has in common with the one before. The Actor's input is the
sum of all prompts, without memory the full history each time; memory's own input and output come
on top. Blocking calls are observations and reflections that a turn waited for; the waiting includes
waits for one that was at work already. The compression ratio is observed message tokens by log
tokens. A message is covered by the last prompt or by one range of the log; it is uncovered with
neither, and double-covered by two ranges.
"""


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replay a conversation through a graph.")
    option = parser.add_argument
    option("file", type=Path, help="JSON file with the conversation")
    option(
        "--message-tokens",
        type=int,
        default=30_000,
        metavar="N",
        help="tokens of messages that are observed once they are reached (default: %(default)s)",
    )
    option(
        "--observation-tokens",
        type=int,
        default=40_000,
        metavar="N",
        help="tokens of observations that are condensed once reached (default: %(default)s)",
    )
    option("--no-buffering", action="store_true", help="observe and reflect only while waiting")
    option("--model", help="the Observer's and Reflector's, such as openai/gpt-5-mini")
    option("--timezone", default="UTC", help="IANA name, for times without a zone (default: UTC)")
    option(
        "--saver",
        choices=["memory", "sqlite", "postgres"],
        default="memory",
        help="where the graph keeps its checkpoints (default: memory)",
    )
    option("--db", type=Path, help="file for --saver sqlite; a temporary one by default")
    option("--url", help="database for --saver postgres: postgresql://user:password@host/name")
    option("--thread", metavar="ID", help="thread to replay in; the conversation's id by default")
    option("--async", dest="is_async", action="store_true", help="run the graph asynchronously")
    option("--limit", type=int, metavar="N", help="replay only the first N messages")
    option("--record", type=Path, metavar="FILE", help="write memory's final record there, as JSON")
    option("--json", action="store_true", help="write the report as JSON")
    options = parser.parse_args()
    check_places(options)
    return options


def check_places(options: argparse.Namespace) -> None:
    """Refuse what would be ignored, or would fail only after a long run."""
    if options.db and options.saver != "sqlite":
        fail(f"--db is a file for --saver sqlite, and the saver is {options.saver}")
    if options.url and options.saver != "postgres":
        fail(f"--url is a database for --saver postgres, and the saver is {options.saver}")
    if options.saver == "postgres" and not str(options.url).startswith(URLS):
        fail("--saver postgres needs a database; write --url postgresql://user:password@host/name")
    for option, file in (("--db", options.db), ("--record", options.record)):
        if file and (file.is_dir() or not file.absolute().parent.is_dir()):
            fail(f"{option} {file} can not be written; name a file in a folder that exists")


def make_memory(options: argparse.Namespace, meter: Meter) -> ObservationalMemory:
    offline = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    observation: ObservationOptions = {"message_tokens": options.message_tokens}
    if options.no_buffering:
        observation["buffer_tokens"] = False
    return ObservationalMemory(
        options.model or offline,
        observation=observation,
        reflection={"observation_tokens": options.observation_tokens},
        timezone=options.timezone,
        clock=meter.clock,
    )


def open_saver(options: argparse.Namespace, folder: str) -> Any:
    if options.saver == "memory":
        return nullcontext(InMemorySaver())
    module, name = SAVERS[f"{options.saver} async" if options.is_async else options.saver]
    try:
        saver = getattr(import_module(module), name)
    except ImportError as missing:
        fail(f"{missing.name} is missing; pip install 'langgraph-om[examples,postgres]'")
    is_sqlite = options.saver == "sqlite"
    return saver.from_conn_string(
        str(options.db or Path(folder, "replay.sqlite")) if is_sqlite else options.url
    )


def main() -> int:
    options = read_options()
    name, script = load(options.file, options.limit)
    talk = Talk(name, script, options.thread or name)
    models = options.model or "offline (an extractive memory)"
    try:
        file_time = datetime.fromtimestamp(options.file.stat().st_mtime, UTC)
        meter = Meter(script, ZoneInfo(options.timezone), file_time)
        memory = make_memory(options, meter)
    except (ConfigurationError, LookupError, ValueError, OSError) as error:
        fail(error)
    print(f"Models: {models}", file=sys.stderr if options.json else sys.stdout, flush=True)
    started = time.perf_counter()
    builder = build(script, memory, meter)
    with tempfile.TemporaryDirectory() as folder, memory:
        opening = open_saver(options, folder)
        if options.is_async:
            state = asyncio.run(areplay(builder, opening, talk, meter))
        else:
            state = replay(builder, opening, talk, meter)
    seconds = round(time.perf_counter() - started, 2)
    if options.record:
        text = json.dumps(state["om"], indent=2, sort_keys=True, ensure_ascii=False)
        options.record.write_text(f"{text}\n", encoding="utf-8")
    report = {"conversation": name, "models": models, "seconds": seconds}
    report |= measure(script, state, memory, meter)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(EXPLANATION)
        for figure, value in report.items():
            print(f"{figure}: {'-' if value is None else value}")
    return 1 if report["uncovered messages"] else 0


if __name__ == "__main__":
    sys.exit(main())
