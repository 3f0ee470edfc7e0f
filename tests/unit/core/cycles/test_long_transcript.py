"""What is too long for one question is shown over several, and nothing of it is lost unsaid."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import EstimatingCounter, ObservationalMemory
from langgraph_om.core.cycles.questions import merge_answers, split_text, split_transcript
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.observe.transcript import TimedMessage, transcribe
from langgraph_om.testing import ScriptedChatModel
from support.clock import START, Clock

COUNTER = EstimatingCounter()
LINES = [f"line {at}: the cat sat on mat number {at}" for at in range(600)]
PIXEL = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()


def timed(*messages: BaseMessage, start: datetime = START) -> list[TimedMessage]:
    return [TimedMessage(each, start + timedelta(days=at)) for at, each in enumerate(messages)]


def split(messages: list[TimedMessage], tokens: int, most: int = 8) -> Any:
    transcript = transcribe(messages, timezone=UTC, counter=COUNTER)
    return split_transcript(transcript, tokens, COUNTER.count_text, most)


def test_a_transcript_that_fits_is_one_question() -> None:
    messages = timed(HumanMessage("hello"), AIMessage("hi"))
    assert [part.text for part in split(messages, 2000).parts] == [
        transcribe(messages, timezone=UTC, counter=COUNTER).text
    ]


odd_line = st.sampled_from(
    ["’a", "1", "12 b", "😀a", "/a", "A", "_b", "<x", "日本", "한a", "\u0301a", ""]
)
odd_text = st.lists(odd_line, max_size=40).map("\n".join) | st.text("ab1 .-’é日😀\n\t", max_size=80)


def test_parts_show_all_of_a_long_text_in_order_and_say_which_they_are() -> None:
    messages = timed(HumanMessage("before"), HumanMessage("\n".join(LINES)), AIMessage("Noted."))
    found = split(messages, 2000)
    texts = [part.text for part in found.parts]
    assert len(texts) > 2
    assert found.left_out_tokens == 0
    shown = re.findall(r"line \d+: the cat sat on mat number \d+", "\n".join(texts))
    assert shown == LINES
    labels = re.findall(
        r"^User \(09:00\) \[part (\d+) of (\d+)\]: ", "\n".join(texts), re.MULTILINE
    )
    assert [int(number) for number, _ in labels] == list(range(1, len(labels) + 1))
    assert {int(total) for _, total in labels} == {len(labels)}
    assert all(text.startswith("Date: Mar ") for text in texts)
    assert texts[-1].endswith("Date: Mar 4, 2026\nAssistant (09:00): Noted.")
    assert all(COUNTER.count_text(text) <= 2000 * 1.25 for text in texts)


def test_what_no_question_has_room_for_is_said_in_its_place_and_counted() -> None:
    messages = timed(HumanMessage("\n".join(LINES * 10)), AIMessage("Noted."))
    found = split(messages, 1000, most=4)
    assert len(found.parts) == 4
    assert found.left_out_tokens > 1000
    said = f"[about {found.left_out_tokens:,} tokens of this message are left out here]"
    assert found.parts[2].text.endswith(said)
    assert found.parts[-1].text.endswith("Assistant (09:00): Noted.")


def test_what_no_question_shows_is_not_read() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(min(len(text), 1 << 20))  # no more of it is read
        return COUNTER.count_text(text)

    messages = timed(HumanMessage("\n".join(LINES * 400)), AIMessage("Noted."))
    transcript = transcribe(messages, timezone=UTC, counter=COUNTER)
    assert len(transcript.text) > 8_000_000
    found = split_transcript(transcript, 1000, count)
    assert sum(counted) < 3_000_000
    numbers = re.findall(r"\[part (\d+) of (\d+)\]", "\n".join(part.text for part in found.parts))
    total = int(numbers[0][1])
    assert [int(at) for at, _ in numbers] == [*range(1, 7), total - 1, total]
    assert found.left_out_tokens == pytest.approx(COUNTER.count_text(transcript.text), rel=0.02)


def test_messages_that_fit_a_question_are_all_shown_however_many_questions_that_takes() -> None:
    giants = [HumanMessage("\n".join(LINES)), AIMessage("\n".join(LINES))]
    messages = [HumanMessage(f"message {at}: {line}") for at, line in enumerate(LINES)]
    found = split(timed(giants[0], *messages, giants[1]), 1000, most=2)
    text = "\n".join(part.text for part in found.parts)
    assert re.findall(r"User \(09:00\): message (\d+):", text) == [*map(str, range(600))]
    assert found.left_out_tokens > 1000
    assert text.count("tokens of this message are left out here]") == len(giants)


def test_attachments_go_with_the_part_that_names_them() -> None:
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    long = {"type": "text", "text": "\n".join(LINES)}
    found = split(timed(HumanMessage([long, image]), HumanMessage([image])), 2000)
    placed = [[each.label for each in part.attachments] for part in found.parts]
    labels = [label for part in placed for label in part]
    assert labels == ["[Image #1: image/png]", "[Image #2: image/png]"]
    for part, own in zip(found.parts, placed, strict=True):
        assert all(label in part.text for label in own)


@pytest.mark.parametrize("text", ["", "x", "x" * 5000, " " * 900, "a\n" * 900, "字" * 3000])
def test_pieces_of_a_text_are_the_text(text: str) -> None:
    pieces = split_text(text, 50, COUNTER.count_text)
    assert "".join(pieces) == text
    assert all(COUNTER.count_text(piece) <= 50 for piece in pieces)


def test_answers_are_joined_and_a_day_that_goes_on_is_named_once() -> None:
    first = ParsedAnswer("ok", "Date: Mar 2, 2026\n* one", hints={"mood": "low", "x": "X"})
    second = ParsedAnswer("ok", "Date: Mar 2, 2026\n* two\n\nDate: Mar 3, 2026\n* three")
    third = ParsedAnswer("none", hints={"mood": "high"})
    merged = merge_answers([first, second, third])
    text = "Date: Mar 2, 2026\n* one\n* two\n\nDate: Mar 3, 2026\n* three"
    assert merged == ParsedAnswer("ok", text, hints={"mood": "high", "x": "X"})
    assert merge_answers([ParsedAnswer("none"), ParsedAnswer("none")]).status == "none"


# --- In a turn -----------------------------------------------------------------------------------


def noting(messages: list[BaseMessage]) -> str:
    found = re.findall(r"line (\d+):", messages[1].text.partition("<conversation>")[2])
    return (
        f"<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User sent lines {found[0]} to {found[-1]}"
        "\n</observations>"
    )


def remembering(model: ScriptedChatModel, **options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        model,
        observation={"message_tokens": 2000, "buffer_tokens": False, "max_tokens_per_batch": 2000},
        clock=Clock(),
        **options,
    )


SAID = [
    HumanMessage("\n".join(LINES), id="long"),
    AIMessage("ok", id="answer"),
    HumanMessage("word " * 500, id="next"),
]


def test_a_long_message_is_observed_whole_before_it_counts_as_observed() -> None:
    model = ScriptedChatModel(observer=noting)
    result = remembering(model).step(None, SAID, thread_id="t")
    asked = [call["messages"][1].text for call in model.calls]
    assert len(asked) > 2
    questions = [text.partition("<conversation>")[2] for text in asked]
    assert re.findall(r"line \d+:", "".join(questions)) == [
        line.partition(" the")[0] for line in LINES
    ]
    assert "User sent lines 0 to" in asked[1].partition("<conversation>")[0]
    (end,) = [part["data"] for part in result.events if part["type"] == "data-om-observation-end"]
    assert "leftOutTokens" not in end
    assert end["usage"]["calls"] == len(asked)
    (group,) = result.record["log"]
    assert group["text"].count("User sent lines") == len(asked)
    assert group["text"].count("Date:") == 1
    assert group["ranges"][0][0] == "long"


def test_a_message_that_was_shown_in_part_does_not_count_as_observed() -> None:
    failing = [noting, OSError("the provider is away")]
    model = ScriptedChatModel(observer=failing)
    result = remembering(model).step(None, SAID, thread_id="t")
    assert (result.record["log"], result.record["cursor"]) == ([], [])


def test_a_text_that_no_observation_can_show_is_announced_in_the_event() -> None:
    model = ScriptedChatModel(observer=noting)
    said = [HumanMessage("\n".join(LINES * 10), id="long"), *SAID[1:]]
    result = remembering(model).step(None, said, thread_id="t")
    (end,) = [part["data"] for part in result.events if part["type"] == "data-om-observation-end"]
    assert end["leftOutTokens"] > 2000
    assert end["usage"]["calls"] == 8


def test_a_text_of_the_default_batch_is_read_whole_at_a_low_threshold() -> None:
    model = ScriptedChatModel(observer=noting)
    memory = ObservationalMemory(
        model, observation={"message_tokens": 500, "buffer_tokens": False}, clock=Clock()
    )
    memory.step(None, SAID, thread_id="t")
    (asked,) = [call["messages"][1].text for call in model.calls if "line 0:" in str(call)]
    assert asked.count("the cat sat") == len(LINES)
