"""The Actor's input where threads know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from support.edits import edited
from support.groups import group
from support.inside import CONTINUATION_ID, OTHERS_ID, MemoryRecord, is_reminder, open_window
from support.views import SHARED, assemble
from support.words import Words


def talk(count: int) -> list[BaseMessage]:
    return [
        (AIMessage if at % 2 else HumanMessage)(f"word{at}", id=f"m{at}") for at in range(count)
    ]


def remembering(cursor: Sequence[str], others: Any) -> MemoryRecord:
    log = [group("g0", "* 🔴 Rex")]
    return edited(None, {"log": log, "cursor": list(cursor), "others": others})


def prompt(
    record: MemoryRecord, messages: Sequence[BaseMessage], parts: Any = SHARED
) -> list[BaseMessage]:
    window = open_window(record, messages, Words())
    return assemble(record, messages, window, today=date(2026, 3, 4), parts=parts)


def others(*texts: str, hidden: int = 0) -> dict[str, Any]:
    recent = [{"thread_id": "o", "text": text} for text in texts]
    return {"known": [], "recent": recent, "hidden": hidden, "due": [], "due_tokens": 0}


def test_what_other_threads_said_stands_before_the_live_request() -> None:
    record = remembering(["m0", "m1"], others("<x>Tent?</x>", hidden=1))
    messages = talk(5)
    shown = prompt(record, messages)
    assert [message.id for message in shown[1:]] == [CONTINUATION_ID, "m2", "m3", OTHERS_ID, "m4"]
    assert "[1 other conversation left out]\n\n<x>Tent?</x>" in shown[4].text
    assert is_reminder(shown[4])
    plain = prompt({**record, "others": others()}, messages)
    assert [each for each in shown if each.id != OTHERS_ID] == plain
    while_working = [
        *messages,
        AIMessage("call", id="m5", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        ToolMessage("result", id="m6", tool_call_id="c"),
    ]
    pinned = remembering(["m3", "m4"], record["others"])
    order = [message.id for message in prompt(pinned, while_working)[1:]]
    assert order == [CONTINUATION_ID, OTHERS_ID, "m4", "m5", "m6"]
