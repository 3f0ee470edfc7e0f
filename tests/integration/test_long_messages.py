"""A message longer than one question: all of it is shown before it counts as observed."""

from __future__ import annotations

import re
from base64 import b64encode, encodebytes
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel
from support.clock import START, Clock
from support.real_ids import write_uuid7

LINES = [f"line {at}: the cat sat on mat number {at}" for at in range(600)]
LONG_ID = "0f3f2d0e-8d4b-4c7f-9a43-5a5d6f0d7c11"
ANSWER_ID = f"lc_run--{write_uuid7(START, 7)}-0"
SAID = [HumanMessage("\n".join(LINES), id=LONG_ID), AIMessage("ok", id=ANSWER_ID)]
NEXT = HumanMessage("word " * 500, id="9c1f4d1e-6a55-4f0e-8a5e-3c1d2b4e5f60")
SMALL = {"message_tokens": 2000, "max_tokens_per_batch": 2000}
SETTINGS = {
    "blocking": {**SMALL, "buffer_tokens": False},
    "buffered": {**SMALL, "buffer_tokens": 0.2, "block_after": 100_000},
}


def noting(messages: list[BaseMessage]) -> str:
    """Say which lines were shown; of one thread, or in the section of each."""
    asked = messages[1].text
    news = asked.rpartition("</previous-observations>")[2]
    found = re.findall(r"line (\d+):", news) or ["none"]
    day = f"Date: Mar 2, 2026\n* 🔴 (09:00) User sent lines {found[0]} to {found[-1]}"
    answer = f"<observations>\n{day}\n</observations>"
    opened = re.search(r"<thread id=[^>]*>", news)
    return f"{opened[0]}\n{answer}\n</thread>" if opened else answer


def remember(model: ScriptedChatModel, **options: Any) -> ObservationalMemory:
    given = {"clock": Clock(), "buffering": InlineBuffering(), **options}
    return ObservationalMemory(model, **given)


def shown_lines(model: ScriptedChatModel) -> list[str]:
    """The lines of all questions, as the Observer was shown them."""
    asked = [call["messages"][1].text for call in model.calls]
    news = [text.rpartition("</previous-observations>")[2] for text in asked]
    return re.findall(r"line \d+: the cat sat on mat number \d+", "\n".join(news))


def ends(events: Any) -> list[dict[str, Any]]:
    kinds = ("data-om-observation-end", "data-om-buffering-end")
    return [part["data"] for part in events if part["type"] in kinds]


def check_whole(model: ScriptedChatModel, result: Any, thread: str) -> None:
    """Check that all lines were shown, and noted in one group."""
    assert shown_lines(model) == LINES
    end = ends(result.events)[0]
    assert "leftOutTokens" not in end
    assert end["usage"]["calls"] > 2
    record = result.record
    group = record["log"][0] if thread == "t" else record["others"]["known"][0]
    assert (group["thread_id"], group["ranges"][0][0]) == (thread, LONG_ID)
    assert group["text"].count("User sent lines") == end["usage"]["calls"]
    assert group["text"].count("Date:") == 1
    assert "\n\n" not in group["text"], "the answers of one day are one list"


@pytest.mark.parametrize("scope", ["thread", "resource"])
@pytest.mark.parametrize("how", SETTINGS)
def test_all_of_it_is_shown_whoever_waits_for_it(scope: str, how: str) -> None:
    model = ScriptedChatModel(observer=noting)
    archive = {"archive": "sqlite://"} if scope == "resource" else {}
    memory = remember(model, scope=scope, observation=SETTINGS[how], **archive)
    config = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
    result = memory.step(None, [*SAID, NEXT], config=config)
    check_whole(model, result, "t")


def told_of(number: int, who: str) -> str:
    return f"MARK-{who}-{number} " + " ".join(f"word{at}" for at in range(60))


@pytest.mark.parametrize("down", [range(20, 35), range(5, 60)])
def test_an_outage_of_the_observer_covers_nothing_that_was_not_read(down: range) -> None:
    read, turn = set[str](), -1

    def observe(messages: list[BaseMessage]) -> str:
        if turn in down:
            msg = "503"
            raise OSError(msg)
        read.update(re.findall(r"MARK-\w+-\d+", messages[1].text))
        return noting(messages)

    memory = remember(ScriptedChatModel(observer=observe, reflector=noting), token_budget=3000)
    said, record = list[BaseMessage](), None
    for turn in range(70):
        said.append(HumanMessage(told_of(turn, "user"), id=f"u{turn}"))
        result = memory.step(record, said, thread_id="t")
        record = result.record
        said.append(AIMessage(told_of(turn, "agent"), id=f"a{turn}"))
    shown = "\n".join(message.text for message in memory.step(record, said).messages)
    told = set(re.findall(r"MARK-\w+-\d+", "\n".join(message.text for message in said)))
    assert record is not None
    assert record["log"]
    assert {mark for mark in told - read if f"{mark} " not in shown} == set()


OTHER = [
    *SAID,
    *(
        AIMessage("note " * 100, id=f"lc_run--{write_uuid7(START, number)}-0")
        for number in range(20, 26)
    ),
]
"""So much that it is observed: of each message about 100 tokens would be shown."""


def beside_a_long_thread(model: ScriptedChatModel, how: str) -> ObservationalMemory:
    """A memory whose archive has the long message in another thread, unobserved."""
    archive = SQLAlchemyArchive("sqlite://")
    rows = [(str(message.id), message, True) for message in OTHER]
    archive.append("other", "ana", rows, after=None, now=START)
    later = Clock()
    later.advance(days=1)  # nobody is at work in that thread any more
    options = {"observation": SETTINGS[how], "clock": later}
    return remember(model, scope="resource", archive=archive, **options)


HELLO = [HumanMessage("hello", id="5b0c9f51-0a86-4a26-8f0c-2f7a4f1e9d3a")]
HERE = {"configurable": {"thread_id": "here", "resource_id": "ana"}}


@pytest.mark.parametrize("how", SETTINGS)
def test_all_of_another_thread_is_shown(how: str) -> None:
    model = ScriptedChatModel(observer=noting)
    result = beside_a_long_thread(model, how).step(None, HELLO, config=HERE)
    assert "User sent lines 0 to" in model.calls[1]["messages"][1].text
    check_whole(model, result, "other")


@pytest.mark.parametrize("how", SETTINGS)
def test_another_thread_that_was_shown_in_part_does_not_count_as_observed(how: str) -> None:
    model = ScriptedChatModel(observer=[noting, OSError("the provider is away")])
    memory = beside_a_long_thread(model, how)
    result = memory.step(None, HELLO, config=HERE)
    kinds = [part["type"] for part in result.events if part["type"].endswith("failed")]
    assert len(kinds) == 1
    assert result.record["log"] == []
    assert memory.archive is not None
    stored, _ = memory.archive.load_record("ana")
    assert stored is None or stored["log"] == []


PICTURE = b64encode(bytes(range(256)) * 120).decode()
LETTER = encodebytes(bytes(range(256)) * 120).decode()


@pytest.mark.parametrize("said", [PICTURE, f"data:image/png;base64,{PICTURE}", LETTER])
@pytest.mark.parametrize("kind", ["text", "blocks", "result", "arguments"])
def test_a_fact_between_encoded_bytes_is_shown_and_the_bytes_are_not(kind: str, said: str) -> None:
    text = f"See {said} and line 7: the cat sat on mat number 7, then {said} bye"
    call = {"name": "draw", "args": {"text": text} if kind == "arguments" else {}, "id": "1"}
    shown: dict[str, list[BaseMessage]] = {
        "text": [HumanMessage(text, id="x")],
        "blocks": [HumanMessage([{"type": "text", "text": text}], id="x")],
        "result": [AIMessage("", tool_calls=[call], id="a"), ToolMessage(text, tool_call_id="1")],
        "arguments": [AIMessage("", tool_calls=[call], id="a"), ToolMessage("", tool_call_id="1")],
    }
    model = ScriptedChatModel(observer=noting)
    memory = remember(model, observation={**SETTINGS["blocking"], "max_tokens_per_batch": 10_000})
    memory.step(None, [*shown[kind], AIMessage("ok", id="b"), NEXT], thread_id="t")
    asked = [call["messages"][1].text for call in model.calls]
    assert shown_lines(model) == ["line 7: the cat sat on mat number 7"]
    assert sum(map(len, asked)) < 8000
