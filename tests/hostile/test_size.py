"""Size hurts nobody but who sends it: time grows with the text, and answers stay within bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.testing import ExtractiveReflector, ScriptedChatModel
from support.counters import COUNTER
from support.growth import check_growth
from support.inside import (
    Asker,
    annotate,
    as_label,
    escape,
    parse_output,
    read_phrase,
    recall,
    sanitize,
)
from support.real_ids import Naming
from support.recall_talk import read_talk

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


# --- Many messages -------------------------------------------------------------------------------


def tiny(count: int) -> list[BaseMessage]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[at % 2]("x", id=f"m{at}") for at in range(count)]


def really_named(count: int) -> list[BaseMessage]:
    """With ids as hosts and providers give them."""
    naming, messages = Naming(7), tiny(count)
    kinds: Sequence[Literal["human", "ai"]] = ("human", "ai")
    names = [naming.name(f"m{at}", kinds[at % 2], NOW) for at in range(count)]
    return [
        message.model_copy(update={"id": key}) for key, message in zip(names, messages, strict=True)
    ]


def nameless(count: int) -> list[BaseMessage]:
    return [message.model_copy(update={"id": None}) for message in tiny(count)]


def doubled(count: int) -> list[BaseMessage]:
    return [message.model_copy(update={"id": "m"}) for message in tiny(count)]


def one_call_id(count: int) -> list[BaseMessage]:
    call: Any = {"name": "f", "args": {}, "id": "c"}
    kinds: Sequence[Callable[[], BaseMessage]] = (
        lambda: AIMessage("", tool_calls=[call]),
        lambda: ToolMessage("r", tool_call_id="c"),
    )
    return [kinds[at % 2]().model_copy(update={"id": f"m{at}"}) for at in range(count)]


def open_calls(count: int) -> list[BaseMessage]:
    calls: list[Any] = [{"name": "f", "args": {}, "id": f"c{at}"} for at in range(count)]
    return [AIMessage("", id=f"m{at}", tool_calls=[call]) for at, call in enumerate(calls)]


def many_results(count: int) -> list[BaseMessage]:
    calls: list[Any] = [{"name": "f", "args": {}, "id": f"c{at}"} for at in range(count)]
    results = [ToolMessage("r", id=f"r{at}", tool_call_id=f"c{at}") for at in range(count)]
    return [HumanMessage("x", id="h"), AIMessage("", id="a", tool_calls=calls), *results]


CONVERSATIONS = {
    make.__name__: make
    for make in (tiny, really_named, nameless, doubled, one_call_id, open_calls, many_results)
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_step_takes_time_in_proportion_to_the_messages(name: str) -> None:
    def observer(_: Any) -> str:
        return "<observations>\n* 🔴 User wrote x\n</observations>"

    def prepare(count: int) -> Callable[[], object]:
        messages = CONVERSATIONS[name](count)
        memory = ObservationalMemory(
            ScriptedChatModel(observer=observer, reflector=ExtractiveReflector().reply),
            observation={"message_tokens": count, "buffer_tokens": False},
            buffering=InlineBuffering(),
        )

        def work() -> None:
            result = memory.step(None, messages, thread_id="t")
            again = memory.step(result.record, messages, thread_id="t")
            assert again.messages == result.messages
            if name == "tiny":
                assert len(result.record["log"]) > 1
                assert len(result.messages) < count // 2

        return work

    check_growth(prepare, 1500)


# --- Long texts ----------------------------------------------------------------------------------

BIG = 1_000_000
UNITS = {
    "one letter": "a",
    "angle brackets": "<",
    "opened and left": "</observations ",
    "disguised": "＜оbserv",
    "separators": "\u2028",
    "halves of dates": "(meaning a will go early Dec 4 ",
    "headings": "Date: Dec 4, 2025\n",
    "items": "* a\n",
    "open tags": "<observations>\n",
    "code fences": "```\n",
}
READERS: dict[str, Callable[[str], object]] = {
    "escape": escape,
    "clean": sanitize,
    "one_line": as_label,
    "parse": lambda text: parse_output(f"<observations>\n* a{text}\n</observations>"),
    "parse cut off": lambda text: parse_output(text, cut_off=True),
    "annotate": lambda text: annotate(text, date(2026, 3, 2)),
    "date": read_phrase,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_takes_time_in_proportion_to_the_text(reader: str, unit: str) -> None:
    def prepare(size: int) -> Callable[[], object]:
        text = UNITS[unit] * (size // len(UNITS[unit]))
        return lambda: READERS[reader](text)

    check_growth(prepare, 50_000)


@pytest.mark.parametrize("unit", ["disguised", "one letter"])
def test_megabytes_pass_through_memory(unit: str) -> None:
    text = UNITS[unit] * (BIG // len(UNITS[unit]))
    call: Any = {"name": "f", "args": {"x": text[: BIG // 10]}, "id": "c"}
    messages = [
        HumanMessage(text, id="h"),
        AIMessage("", id="a", tool_calls=[call]),
        ToolMessage(text[: BIG // 10], id="r", tool_call_id="c"),
        AIMessage("done", id="z"),
    ]
    asked: list[int] = []

    def observer(question: Sequence[BaseMessage]) -> str:
        asked.append(sum(len(str(message.content)) for message in question))
        return "<observations>\n* 🔴 User sent much\n</observations>"

    model = ScriptedChatModel(observer=observer)
    memory = ObservationalMemory(
        model,
        observation={"message_tokens": 1000, "buffer_tokens": False},
        buffering=InlineBuffering(),
        retrieval=True,
    )
    result = memory.step(None, messages, thread_id="t")
    assert result.record["log"]
    assert max(asked) < 500_000, "no more than its limits is shown to the Observer"
    state = {"messages": messages, "om": result.record}
    answer = memory.recall(state, {"configurable": {"thread_id": "t"}})
    assert answer["count"] >= len(messages) - 1, "a message of blanks shows nothing"


def test_a_long_result_is_recalled() -> None:
    def prepare(lines: int) -> Callable[[], object]:
        text = "".join(f"line {number} of the log\n" for number in range(lines))
        source = read_talk([("m0", ToolMessage(text, tool_call_id="c"), None)])
        asker = Asker(source=source, counter=COUNTER)
        places = (0, len(text) // 2, len(text) - 100)

        def work() -> None:
            recall({}, asker)
            for place in places:
                asked = {"cursor": "m0", "part_index": 0, "char_offset": place}
                assert text.startswith(recall(asked, asker)["text"], place)

        return work

    check_growth(prepare, 125_000)
