"""Groups and sections of several threads, and a driver for flows that ask models."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from langgraph_om.core.wire import Group
from support import groups
from support.driving import drive
from support.inside import AskModel, ModelReply, ParsedAnswer

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ResultT = TypeVar("ResultT")
Told = str | Exception | ModelReply


def run(
    flow: Generator[AskModel, ModelReply, ResultT], *answers: Told
) -> tuple[ResultT, list[AskModel]]:
    """Answer a flow in order; return its result and what it asked."""
    run = drive(flow, answers)
    return run.result, run.effects


# --- Answers in sections -------------------------------------------------------------------------


def body(item: str) -> str:
    return (
        f"<observations>\n* 🔴 (09:00) {item}\n</observations>\n"
        f"<current-task>\nTask {item}\n</current-task>\n"
        f"<suggested-response>\nReply {item}\n</suggested-response>"
    )


def section(name: str, inside: str | None = None) -> str:
    return f'<thread id="{name}">\n{body(name) if inside is None else inside}\n</thread>'


A, B, C = section("A"), section("B"), section("C")
NONE = "<observations>(none)</observations>"
WHOLE = f"{A}\n{B}"


def items(parsed: Mapping[str, ParsedAnswer]) -> dict[str, str]:
    return {name: each.observations for name, each in parsed.items()}


NAMES = ("A", "B", "C")


# --- The log -------------------------------------------------------------------------------------


def group(name: str, text: str, thread: str | None, first: int = 0, last: int = 0) -> Group:
    return groups.group(name, text, first, last, thread)


def hashed(thread: str) -> str:
    return f"#{thread}"


LOG = [
    group("1", "* one", "A"),
    group("2", "* two </thread>", "A"),
    group("3", "", "B"),
    group("4", "* three", "B"),
    group("5", "* old", None),
    group("6", "* four", "A"),
]
