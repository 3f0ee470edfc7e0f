"""Messages, calls and results for the tests of the test doubles."""

from __future__ import annotations

import functools
import operator

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage, message_chunk_to_message
from langchain_core.messages.tool import tool_call
from langchain_core.tools import tool


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def call(name: str = "search", call_id: str = "call_1", **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name=name, args=args, id=call_id)])


def result(call_id: str = "call_1", content: str = "found") -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id)


def merged(chunks: list[AIMessageChunk]) -> AIMessage:
    message = message_chunk_to_message(functools.reduce(operator.add, chunks))
    assert isinstance(message, AIMessage)
    return message
