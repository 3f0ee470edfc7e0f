# Replays a recorded conversation through a graph with memory, and reports what memory made of it.
#
#     pip install "langgraph-om[examples]"
#     python examples/replay.py chat.json
#     python examples/replay.py chat.json --message-tokens 2000 --observation-tokens 3000
#     python examples/replay.py chat.json --saver sqlite --async --model google/gemini-2.5-flash
#
# The file holds a list of messages in OpenAI's form ({"role", "content", "tool_calls",
# "tool_call_id"}) or {"id": ..., "messages": [...]}. A message may also carry "id", "name" and
# "created_at" (ISO). The recorded assistant plays the Actor: its messages are the answers, and what
# it would have been sent is measured. Without --model memory works offline, by extraction.

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4
from zoneinfo import ZoneInfo

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from langgraph_om import (
    ConfigurationError,
    ObservationalMemory,
    ObservationalMemoryState,
    TokenxCounter,
    add_observational_memory,
)
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

SAVERS = {
    "sqlite": ("langgraph.checkpoint.sqlite", "SqliteSaver"),
    "sqlite async": ("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver"),
    "postgres": ("langgraph.checkpoint.postgres", "PostgresSaver"),
    "postgres async": ("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver"),
}
COUNTER = TokenxCounter()
KNOWN: dict[tuple[str | None, ...], int] = {}
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


# --- The run -------------------------------------------------------------------------------------


class Meter:
    """Measures what the Actor would be sent, counts failures, and keeps the recording's time."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.prompts: list[int] = []
        self.unchanged = 0.0
        self.failures = 0
        self._zone = zone
        self._now: datetime | None = None
        self._before: list[str] = []

    def clock(self) -> datetime:
        return self._now or datetime.now(UTC)

    def pass_time(self, messages: Iterable[BaseMessage]) -> None:
        for moment in filter(None, map(written_at, messages)):
            aware = moment if moment.tzinfo else moment.replace(tzinfo=self._zone)
            self._now = max(self._now or aware, aware)

    def prompt(self, messages: Sequence[BaseMessage]) -> None:
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

    def part(self, part: dict[str, Any]) -> None:
        self.failures += part["type"].endswith("-failed")


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
        meter.prompt(memory.llm_input_messages(state))
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


def replay(builder: Any, saver: Any, script: Sequence[BaseMessage], meter: Meter) -> Any:
    with saver as checkpointer:
        if not isinstance(checkpointer, InMemorySaver):
            checkpointer.setup()
        graph = builder.compile(checkpointer=checkpointer)
        for turn, config in runs(script):
            meter.pass_time(asked(turn))
            for part in graph.stream({"messages": asked(turn)}, config, stream_mode="custom"):
                meter.part(part)
        return graph.get_state(config).values


async def areplay(builder: Any, saver: Any, script: Sequence[BaseMessage], meter: Meter) -> Any:
    async with saver as checkpointer:
        if not isinstance(checkpointer, InMemorySaver):
            await checkpointer.setup()
        graph = builder.compile(checkpointer=checkpointer)
        for turn, config in runs(script):
            meter.pass_time(asked(turn))
            inputs = {"messages": asked(turn)}
            async for part in graph.astream(inputs, config, stream_mode="custom"):
                meter.part(part)
        return (await graph.aget_state(config)).values


def runs(script: Sequence[BaseMessage]) -> Iterator[tuple[list[BaseMessage], RunnableConfig]]:
    """Yield the turns with the configuration of their runs, and show the progress."""
    thread = {"thread_id": f"replay-{uuid4()}"}
    done = 0
    with ExitStack() as stack:
        bar: Any = None
        if sys.stderr.isatty() and find_spec("rich"):
            rich = import_module("rich.progress")
            console = import_module("rich.console").Console(stderr=True)
            bar = stack.enter_context(rich.Progress(console=console, transient=True))
            bar.add_task("messages", total=len(script))
        for turn in split_turns(script):
            # Agent, tools and memory may each need some steps per message.
            yield turn, {"configurable": thread, "recursion_limit": 50 + 10 * len(turn)}
            tenth = done * 10 // len(script)
            done += len(turn)
            if bar is not None:
                bar.update(0, completed=done)
            elif done * 10 // len(script) > tenth:
                print(f"{done} of {len(script)} messages", file=sys.stderr)


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
    return {
        "messages": len(thread),
        "full history tokens": count(thread),
        "last prompt tokens": count(prompt),
        "prompts": len(meter.prompts),
        "largest prompt tokens": max(meter.prompts),
        "mean prompt tokens": round(sum(meter.prompts) / len(meter.prompts)),
        "unchanged prefix share": round(meter.unchanged / max(1, sum(meter.prompts)), 3),
        "observer calls": record["usage"].get("observation", {}).get("calls", 0),
        "reflector calls": record["usage"].get("reflection", {}).get("calls", 0),
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
the text, from the start, that a prompt has in common with the one before. The compression ratio is
observed message tokens by log tokens. A message is covered by the last prompt or by one range of
the log; it is uncovered with neither, and double-covered by two ranges.
"""


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replay a conversation through a graph.")
    parser.add_argument("file", type=Path, help="JSON file with the conversation")
    parser.add_argument("--message-tokens", type=int, default=30_000, metavar="N")
    parser.add_argument("--observation-tokens", type=int, default=40_000, metavar="N")
    parser.add_argument("--no-buffering", action="store_true", help="observe only while waiting")
    parser.add_argument("--model", help="the Observer's and Reflector's, such as openai/gpt-5-mini")
    parser.add_argument("--timezone", default="UTC", help="of times without a zone (IANA name)")
    parser.add_argument("--saver", choices=["memory", "sqlite", "postgres"], default="memory")
    parser.add_argument("--db", type=Path, help="SQLite file; a temporary one by default")
    parser.add_argument("--url", help="of the PostgreSQL database")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--limit", type=int, metavar="N", help="replay only the first N messages")
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    return parser.parse_args()


def make_memory(options: argparse.Namespace, meter: Meter) -> ObservationalMemory:
    offline = ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )
    buffering = {"buffer_tokens": False} if options.no_buffering else {}
    return ObservationalMemory(
        options.model or offline,
        observation={"message_tokens": options.message_tokens, **buffering},
        reflection={"observation_tokens": options.observation_tokens},
        timezone=options.timezone,
        clock=meter.clock,
    )


def open_saver(options: argparse.Namespace, folder: str) -> Any:
    if options.saver == "memory":
        return nullcontext(InMemorySaver())
    if options.saver == "postgres" and not options.url:
        fail("--saver postgres needs a database; write --url postgresql://...")
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
    models = options.model or "offline (an extractive memory)"
    try:
        meter = Meter(ZoneInfo(options.timezone))
        memory = make_memory(options, meter)
    except (ConfigurationError, LookupError, ValueError, OSError) as error:
        fail(error)
    print(f"Models: {models}", file=sys.stderr if options.json else sys.stdout, flush=True)
    started = time.perf_counter()
    builder = build(script, memory, meter)
    with tempfile.TemporaryDirectory() as folder:
        saver = open_saver(options, folder)
        if options.is_async:
            state = asyncio.run(areplay(builder, saver, script, meter))
        else:
            state = replay(builder, saver, script, meter)
    seconds = round(time.perf_counter() - started, 2)
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
