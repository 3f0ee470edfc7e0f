from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from support import groups
from support.edits import edited
from support.inside import (
    MemoryRecord,
    ObservationConfig,
    ReflectionConfig,
    Thresholds,
    open_window,
    plan,
    resolve_thresholds,
)
from support.words import Words

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def words(count: int) -> str:
    return " ".join(["word"] * count)


def talk(*sizes: int) -> list[BaseMessage]:
    """Messages `m0`, `m1`, ... of these sizes, the user's and the assistant's in turn."""
    return [
        (AIMessage if at % 2 else HumanMessage)(words(size), id=f"m{at}")
        for at, size in enumerate(sizes)
    ]


def called(size: int, *call_ids: str) -> AIMessage:
    calls = [{"name": "f", "args": {}, "id": call_id} for call_id in call_ids]
    return AIMessage(words(size), tool_calls=calls)


def answered(size: int, call_id: str) -> ToolMessage:
    return ToolMessage(words(size), tool_call_id=call_id)


def limits(
    message_tokens: int = 1000, observation_tokens: int = 2000, **options: Any
) -> Thresholds:
    """A window of 1000 tokens, of which 200 are kept, and a log of 2000; nothing buffered."""
    return resolve_thresholds(
        ObservationConfig(message_tokens=message_tokens, buffer_tokens=False),
        ReflectionConfig(observation_tokens=observation_tokens),
        **options,
    )


def remembering(log_tokens: int = 0, **fields: Any) -> MemoryRecord:
    log = [groups.group("g0", "* 🔴 x", ranges=[["z0", "z1"]], tokens=log_tokens)]
    return edited(None, {"log": log if log_tokens else [], **fields})


def waits(operation: str, retry_at: int, failures: int = 1) -> dict[str, Any]:
    return {operation: {"failures": failures, "at_tokens": 0, "retry_at_tokens": retry_at}}


def decide(
    record: MemoryRecord, messages: Sequence[BaseMessage], thresholds: Thresholds
) -> tuple[str, int]:
    decision = plan(record, open_window(record, messages, Words()), thresholds, NOW)
    return decision.kind, decision.count


HUNDREDS = [100] * 9
SITUATIONS: dict[str, tuple[MemoryRecord, list[BaseMessage], tuple[str, int]]] = {
    "nothing yet": (remembering(), [], ("proceed", 0)),
    "one below the threshold": (remembering(), talk(*HUNDREDS, 75), ("proceed", 0)),
    "at the threshold, the floor stays": (remembering(), talk(*HUNDREDS, 76), ("observe", 8)),
    "above, the floor stays": (remembering(), talk(*HUNDREDS, 99), ("observe", 8)),
    "a floor that would be cut stays larger": (
        remembering(),
        talk(*[100] * 7, 300, 90),
        ("observe", 7),
    ),
    "a huge request waits for its answer": (remembering(), talk(2000), ("proceed", 0)),
    "a huge request with its answer": (remembering(), talk(2000, 10), ("observe", 1)),
    "what is before a huge request": (remembering(), talk(*[100] * 6, 2000), ("observe", 4)),
    "a huge message comes last": (remembering(), talk(100, 2000), ("observe", 1)),
    "a huge message comes first": (remembering(), talk(2000, 100, 100, 100), ("observe", 1)),
    "a backlog, in batches": (remembering(), talk(*[100] * 50), ("observe", 10)),
    "the end of a backlog": (remembering(), talk(*[100] * 11), ("observe", 9)),
    "only an open tool call": (remembering(), [called(2000, "c")], ("proceed", 0)),
    "an open tool call at the end": (remembering(), [*talk(900), called(100, "c")], ("observe", 1)),
    "parallel calls, one result missing": (
        remembering(),
        [called(500, "c", "d"), answered(500, "c")],
        ("proceed", 0),
    ),
    "an exchange above the batch goes alone": (
        remembering(),
        [called(50, "c"), answered(3000, "c"), AIMessage(words(10))],
        ("observe", 2),
    ),
    "what is before a large exchange goes first": (
        remembering(),
        [*talk(200), called(50, "c"), answered(3000, "c"), AIMessage(words(10))],
        ("observe", 1),
    ),
    "a little before a large exchange goes with it": (
        remembering(),
        [*talk(50), called(50, "c"), answered(3000, "c"), AIMessage(words(10))],
        ("observe", 3),
    ),
    "after a failure, not grown enough": (
        remembering(attempts=waits("observation", 1100)),
        talk(*HUNDREDS, 175),
        ("proceed", 0),
    ),
    "after a failure, grown enough": (
        remembering(attempts=waits("observation", 1100)),
        talk(*HUNDREDS, 176),
        ("observe", 9),
    ),
    "a failed reflection does not hold back the Observer": (
        remembering(attempts=waits("reflection", 9999)),
        talk(*HUNDREDS, 76),
        ("observe", 8),
    ),
    "the log one below its threshold": (remembering(1999), talk(10), ("proceed", 0)),
    "the log at its threshold": (remembering(2000), talk(10), ("reflect", 0)),
    "the log at its threshold, nothing else": (remembering(2000), [], ("reflect", 0)),
    "the window before the log": (remembering(2000), talk(*HUNDREDS, 76), ("observe", 8)),
    "the log before the window, once it has outgrown its limit": (
        remembering(4000),
        talk(*HUNDREDS, 76),
        ("reflect", 0),
    ),
    "the window, while a log that has outgrown its limit waits": (
        remembering(4000, attempts=waits("reflection", 9999)),
        talk(*HUNDREDS, 76),
        ("observe", 8),
    ),
    "the log, while the window waits": (
        remembering(2000, attempts=waits("observation", 5000)),
        talk(*HUNDREDS, 76),
        ("reflect", 0),
    ),
    "the log, while a tool is running": (remembering(2000), [called(2000, "c")], ("reflect", 0)),
    "a reflection that failed": (
        remembering(2100, attempts=waits("reflection", 2200)),
        talk(10),
        ("proceed", 0),
    ),
    "a reflection that was not enough": (
        remembering(2100, attempts=waits("reflection", 2300, failures=0)),
        talk(10),
        ("proceed", 0),
    ),
    "a log that has grown since": (
        remembering(2300, attempts=waits("reflection", 2300, failures=0)),
        talk(10),
        ("reflect", 0),
    ),
    "the turn was ended": (
        remembering(
            2000, tripwire={"operation": "observation", "reason": "x", "last_message": "m9"}
        ),
        talk(*HUNDREDS, 76),
        ("abort", 0),
    ),
    "the turn was ended, and the conversation went on": (
        remembering(tripwire={"operation": "observation", "reason": "x", "last_message": "m8"}),
        talk(*HUNDREDS, 76),
        ("observe", 8),
    ),
}


@pytest.mark.parametrize(
    ("record", "messages", "expected"), SITUATIONS.values(), ids=SITUATIONS.keys()
)
def test_what_memory_does_next(
    record: MemoryRecord, messages: list[BaseMessage], expected: tuple[str, int]
) -> None:
    assert decide(record, messages, limits()) == expected
