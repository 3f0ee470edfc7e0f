"""What all offline models do, and how rough ones miss sizes and forget the form, by a seed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import RunnableConfig

from langgraph_om.testing import (
    ExtractiveReflector,
    ScriptedChatModel,
)
from support.driving import drive
from support.editing import TALK, long_log
from support.inside import EstimatingCounter, ReflectorInput, parse_edits, reflect
from support.rendering import divide
from support.scripts import call, merged

OBSERVER: RunnableConfig = {
    "run_name": "om_observer",
    "tags": ["nostream", "om_observer"],
    "metadata": {"om_role": "observer", "thread": "t"},
}


# --- roles -----------------------------------------------------------------------------------


CONFIGS: list[tuple[Any, str]] = [
    (None, "actor"),
    ({"tags": ["nostream"], "metadata": {"om_role": "x"}}, "actor"),
    (OBSERVER, "observer"),
    ({"metadata": {"om_role": "reflector"}}, "reflector"),
]


@pytest.mark.parametrize(("config", "role"), CONFIGS)
async def test_the_role_is_known_through_every_door(config: Any, role: str) -> None:
    model = ScriptedChatModel("actor", "observer", "reflector")
    answers = [
        model.invoke("hi", config).content,
        (await model.ainvoke("hi", config)).content,
        "".join(str(chunk.content) for chunk in model.stream("hi", config)),
        "".join([str(chunk.content) async for chunk in model.astream("hi", config)]),
        model.batch(["hi"], config)[0].content,
    ]
    assert answers == [role] * 5
    assert [entry["role"] for entry in model.calls] == [role] * 5


# --- streaming -------------------------------------------------------------------------------


USAGE = UsageMetadata(
    input_tokens=3, output_tokens=4, total_tokens=7, input_token_details={"cache_read": 2}
)

MESSAGES = [
    AIMessage("Two  words\n\n and more. ", id="m1"),
    AIMessage("", id="m2"),
    AIMessage("   ", id="m3"),
    AIMessage([], id="m4"),
    AIMessage([{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}, "d"], id="m5"),
    AIMessage(
        "Let me look.",
        id="m6",
        tool_calls=[
            tool_call(name="search", args={"query": "Ünïcode 🐈 " * 9, "deep": {"n": [1]}}, id="1"),
            tool_call(name="search", args={}, id="2"),
        ],
        usage_metadata=USAGE,
        response_metadata={"finish_reason": "tool_calls", "n": 2, "model_name": "m"},
        additional_kwargs={"refusal": None, "count": 3},
    ),
    AIMessage([{"type": "text", "text": "x"}], id="m7", tool_calls=call(a=1).tool_calls),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.id)
async def test_the_sum_of_the_stream_is_the_scripted_message(message: AIMessage) -> None:
    usage = message.usage_metadata or ScriptedChatModel(message).invoke("hi").usage_metadata
    expected = message.model_copy(update={"usage_metadata": usage})
    streams = (
        list(ScriptedChatModel(message).stream("hi")),
        [chunk async for chunk in ScriptedChatModel(message).astream("hi")],
    )
    for chunks in streams:
        assert chunks
        assert merged(chunks) == expected
        assert [chunk.chunk_position for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
        assert chunks[-1].chunk_position == "last"
    assert ScriptedChatModel(message).invoke("hi") == expected


def test_text_streams_word_by_word_and_tool_calls_in_pieces() -> None:
    chunks = list(ScriptedChatModel(MESSAGES[5]).stream("hi"))
    assert [chunk.content for chunk in chunks if chunk.content] == ["Let", " me", " look."]
    assert len(list(ScriptedChatModel("Let me look.").stream("hi"))) == 3
    parts = [part for chunk in chunks for part in chunk.tool_call_chunks]
    assert [part["name"] for part in parts if part["name"]] == ["search", "search"]
    assert len([part for part in parts if part["index"] == 0]) > 3
    assert {part["args"] for part in parts if part["index"] == 1} == {"", "{}"}


def test_streaming_can_be_switched_off() -> None:
    chunks = list(ScriptedChatModel("two words", disable_streaming=True).stream("hi"))
    assert [chunk.content for chunk in chunks] == ["two words"]


COUNTER = EstimatingCounter()
LOG = [{**group, "tokens": COUNTER.count_text(group["text"])} for group in long_log(10)]
TOTAL = sum(group["tokens"] for group in LOG)


def test_an_extractive_reflector_edits_numbered_items() -> None:
    for log_or_talk in (TALK, LOG):
        log = [{**group, "tokens": COUNTER.count_text(group["text"])} for group in log_or_talk]
        total = sum(group["tokens"] for group in log)
        request = ReflectorInput(log, target=total * 2 // 3)
        model = ExtractiveReflector()
        run = drive(reflect(request, COUNTER), lambda call: model.reply(call.messages))  # noqa: B023
        assert len(run.effects) == 1
        assert run.result.tokens < request.target * 1.03
    assert parse_edits(ExtractiveReflector().reply(run.effects[0].messages))


def test_an_extractive_reflector_edits_each_thread_for_itself() -> None:
    log = [{**group, "thread_id": "ab"[at % 2]} for at, group in enumerate(LOG)]
    request = ReflectorInput(log, target=TOTAL * 2 // 3, division=divide())  # type: ignore[arg-type]
    model = ExtractiveReflector()
    run = drive(reflect(request, COUNTER), lambda call: model.reply(call.messages))
    assert {group["thread_id"] for group in run.result.groups if group["text"]} == {"a", "b"}
    assert run.result.tokens < request.target
