"""What all offline models do, and how rough ones miss sizes and forget the form, by a seed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import RunnableConfig

from langgraph_om.testing import (
    ScriptedChatModel,
)
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


def test_streaming_can_be_switched_off() -> None:
    chunks = list(ScriptedChatModel("two words", disable_streaming=True).stream("hi"))
    assert [chunk.content for chunk in chunks] == ["two words"]
