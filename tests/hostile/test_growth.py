"""What is read in linear time: twice as much takes about twice as long, measured in one run."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.core.content.dates import annotate, read_phrase
from langgraph_om.core.content.parts import Part
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.parse_answer import parse_output
from langgraph_om.core.observe.transcript import TimedMessage, transcribe
from langgraph_om.core.record.record import collect_ranges
from langgraph_om.core.tokens.estimate import EstimatingCounter
from langgraph_om.core.tokens.images import count_attachment
from langgraph_om.core.wire import Group
from langgraph_om.features.recall.answer import Asker, recall
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector
from support.floods import ANSWER_FLOODS, FLOODS, flood
from support.growth import check_growth, seconds
from support.recall_talk import read_talk
from support.words import Words

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\4\0\0\0\4\0\x08\2\0\0\0\0"  # base64 goes on behind it

Work = Callable[[], object]


def test_a_long_result_is_recalled() -> None:
    def prepare(lines: int) -> Work:
        text = "".join(f"line {number} of the log\n" for number in range(lines))
        source = read_talk([("m0", ToolMessage(text, tool_call_id="c"), None)])
        asker = Asker(source=source, counter=EstimatingCounter())
        places = (0, len(text) // 2, len(text) - 100)

        def work() -> None:
            recall({}, asker)
            for place in places:
                asked = {"cursor": "m0", "part_index": 0, "char_offset": place}
                assert text.startswith(recall(asked, asker)["text"], place)

        return work

    check_growth(prepare, 125_000)


def long_log(days: int) -> list[Group]:
    """A group for each day, of a hundred items."""
    groups: list[Group] = []
    for day in range(days):
        told = date(2025, 1, 1) + timedelta(days=day)
        items = [f"* {'🔴🟡🟢✅'[at % 4]} item {at} of day {day}" for at in range(100)]
        text = "\n".join([f"Date: {told:%b} {told.day}, {told.year}", *items])
        groups.append(
            {
                "id": f"g{day}",
                "kind": "observation",
                "ranges": [[f"t{day}", f"t{day}"]],
                "thread_id": "t",
                "observed_at": NOW.isoformat(),
                "text": text,
                "tokens": Words().count_text(text),
            }
        )
    return groups


def test_a_long_log_is_cut_and_joined() -> None:
    def prepare(days: int) -> Work:
        log = long_log(days)

        def work() -> None:
            select_previous(log, 5000, Words())
            collect_ranges(log)

        return work

    check_growth(prepare, 100)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_read_to_its_end(name: str) -> None:
    def prepare(size: int) -> Work:
        text = flood(name, size)
        return lambda: parse_output(text)

    check_growth(prepare, 1_000_000)


def transcript_of(*messages: BaseMessage) -> object:
    timed = [TimedMessage(message, NOW) for message in messages]
    return transcribe(timed, timezone=UTC, counter=EstimatingCounter())


@pytest.mark.parametrize("unit", ["error\n", "<      ", "\u2028", "猫"])
def test_a_big_result_is_cut_for_the_transcript(unit: str) -> None:
    def prepare(size: int) -> Work:
        message = ToolMessage(unit * (size // len(unit)), tool_call_id="c")
        return lambda: transcript_of(message)

    check_growth(prepare, 1_500_000)


@pytest.mark.parametrize("form", ["base64", "bytes", "lines"])
def test_a_big_picture_is_read_for_the_transcript(form: str) -> None:
    def prepare(size: int) -> Work:
        data = b64encode(PNG).decode() + "A" * size
        given: Any = {
            "base64": {"base64": data},
            "bytes": {"data": PNG + bytes(size)},
            "lines": {"base64": "\n".join(data[at : at + 76] for at in range(0, len(data), 76))},
        }[form]
        message = HumanMessage([{"type": "image", "mime_type": "image/png", **given}])
        return lambda: transcript_of(message)

    check_growth(prepare, 3_000_000)


@pytest.mark.parametrize("form", ["plain", "uri", "lines"])
def test_only_the_header_of_a_big_image_is_decoded(form: str) -> None:
    data = b64encode(PNG).decode() + "A" * 20_000_000
    if form == "lines":
        data = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    whole = min(seconds(lambda: b64decode(data)) for _ in range(3))
    block = {"type": "image", "base64": data}
    if form == "uri":
        block = {"type": "image", "url": f"data:image/png;base64,{data}"}
    header = min(
        seconds(lambda: count_attachment(Part("image", block), "openai")) for _ in range(3)
    )
    assert header < whole / 2


@pytest.mark.parametrize(
    "unit",
    [
        *("(", "(meaning ", "(meaning Dec 4, 2025)", "(meaning a will go ", "a will go ", "Date:"),
        *("Date:\n", "Date: Dec 4, 2025\n", "Dec 4 ", "early ", " ", "- ", "`", "*", "0"),
    ],
)
def test_dates_are_looked_for(unit: str) -> None:
    def prepare(size: int) -> Work:
        text = unit * (size // len(unit))

        def work() -> None:
            annotate(text, NOW.date())
            annotate(f"Date:{text}(meaning Dec 4, 2025)", NOW.date())
            read_phrase(text)

        return work

    check_growth(prepare, 50_000)


@pytest.mark.parametrize(
    ("unit", "size"),
    [("User (10:00): I have 3 cats. ok?\n", 4_000), ("a ", 500_000), ("(10:00", 200_000)],
)
def test_the_offline_observer_reads_on(unit: str, size: int) -> None:
    def prepare(count: int) -> Work:
        text = f"<conversation>\nUser: {unit * count}\n</conversation>"
        return lambda: ExtractiveObserver().reply([HumanMessage(text)])

    check_growth(prepare, size)


def test_the_offline_reflector_reads_on() -> None:
    def prepare(count: int) -> Work:
        log = "Date: Dec 4, 2025\n" + "* 🔴 (10:00) User: has 3 cats and more\n" * count
        text = f"<observation-log>\n{log}\n</observation-log>"
        return lambda: ExtractiveReflector().reply([HumanMessage(text)])

    check_growth(prepare, 4_000)


def test_a_large_message_is_archived() -> None:
    def prepare(words: int) -> Work:
        large = HumanMessage("\x00 \ud800 word\n" * words)

        def work() -> None:
            with closing(SQLAlchemyArchive("sqlite://")) as archive:
                archive.append("t", None, [("a", large, True)], after=None, now=NOW)
                assert archive.branch("t", ["a"])

        return work

    check_growth(prepare, 250_000)


@pytest.mark.parametrize("name", ANSWER_FLOODS)
def test_an_answer_in_any_form_is_read(name: str) -> None:
    def prepare(size: int) -> Work:
        text = ANSWER_FLOODS[name](size)
        return lambda: parse_output(text)

    check_growth(prepare, 80_000)
