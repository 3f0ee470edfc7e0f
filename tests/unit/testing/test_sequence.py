"""What providers refuse of a sequence of messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.messages.tool import tool_call

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing import (
    check_message_sequence,
)
from support.examples import examples
from support.scripts import call, result

# --- check_message_sequence ------------------------------------------------------------------


SYSTEM, USER, AI = SystemMessage("s"), HumanMessage("u"), AIMessage("a")

TWO = AIMessage(
    "",
    tool_calls=[
        tool_call(name="search", args={}, id="call_1"),
        tool_call(name="search", args={}, id="call_2"),
    ],
)

TWINS = AIMessage("", tool_calls=[*call().tool_calls, *call().tool_calls])

UNREADABLE = AIMessage(
    "x",
    invalid_tool_calls=[
        {"type": "invalid_tool_call", "name": "search", "args": "{", "id": "call_1", "error": None}
    ],
)

ALL = ("openai", "anthropic", "gemini")


@pytest.mark.parametrize(
    ("messages", "refused_by"),
    [
        ([USER], {}),
        ([SYSTEM, USER], {}),
        ([SYSTEM, SYSTEM, USER, AI, USER], {}),
        ([USER, USER, AI, USER], {}),
        ([USER, call(), result()], {}),
        ([USER, TWO, result("call_2"), result("call_1"), AI, USER], {}),
        ([USER, call(), result(), call(), result()], {}),
        ([ChatMessage(content="hi", role="user")], {}),
        ([], dict.fromkeys(ALL, "no message")),
        ([SYSTEM], dict.fromkeys(ALL, "no message besides")),
        ([USER, SYSTEM, USER], dict.fromkeys(ALL, "messages[1]: a system message after")),
        ([USER, RemoveMessage(id="x")], dict.fromkeys(ALL, "messages[1]: a message of type")),
        ([USER, result()], dict.fromkeys(ALL, "messages[1]: a result for 'call_1' that follows")),
        ([USER, AI, result()], dict.fromkeys(ALL, "messages[2]: a result for 'call_1' that")),
        ([USER, call(), result("x"), result()], dict.fromkeys(ALL, "messages[2]: a result for")),
        ([USER, call(), result(), result()], dict.fromkeys(ALL, "messages[3]: a second result")),
        ([USER, call()], dict.fromkeys(ALL, "messages[1]: the call 'call_1'")),
        ([USER, call(), USER], dict.fromkeys(ALL, "messages[1]: the call 'call_1'")),
        ([USER, TWO, result()], dict.fromkeys(ALL, "messages[1]: the call 'call_2'")),
        ([USER, call(), USER, result()], dict.fromkeys(ALL, "messages[3]: a result for")),
        ([USER, TWINS, result()], dict.fromkeys(ALL, "messages[1]: two tool calls")),
        ([AI, USER], dict.fromkeys(ALL[1:], "messages[0]: the first message is not")),
        ([SYSTEM, AI, USER], dict.fromkeys(ALL[1:], "messages[1]: the first message is not")),
        ([USER, AIMessage(""), USER], {"anthropic": "messages[1]: empty text"}),
        ([USER, AIMessage([]), USER], {"anthropic": "messages[1]: empty text"}),
        (
            [USER, AIMessage([{"type": "text", "text": " "}]), USER],
            {"anthropic": "messages[1]: empty text"},
        ),
        ([HumanMessage("")], {"anthropic": "messages[0]: empty text in user"}),
        ([HumanMessage([{"type": "image", "url": "https://x.org/y.png"}])], {}),
        ([USER, AIMessage("")], {"gemini": "messages[1]: the last message"}),
        ([USER, AI], {"gemini": "messages[1]: the last message"}),
        ([USER, AI, call(), result()], {"gemini": "messages[2]: function calls after assistant"}),
        ([USER, UNREADABLE, USER], {"openai": "messages[1]: the call 'call_1'"}),
        ([USER, UNREADABLE, result(), USER], dict.fromkeys(ALL[1:], "messages[2]: a result")),
    ],
)
@pytest.mark.parametrize("provider", ALL)
def test_what_a_provider_refuses(
    messages: list[BaseMessage], refused_by: dict[str, str], provider: Any
) -> None:
    problems = check_message_sequence(messages, provider)
    expected = refused_by.get(provider)
    assert bool(problems) == bool(expected)
    assert (
        expected is None
        or any(problem.startswith(expected) for problem in problems)
        or (expected in problems[0])
    )


def test_each_problem_is_named_once() -> None:
    messages = [USER, TWO, result("call_1"), USER]
    assert check_message_sequence(messages, "openai") == [
        "messages[1]: the call 'call_2' of `search` has no result"
    ]


def test_an_unknown_provider_is_named() -> None:
    unknown: Any = "mistral"
    with pytest.raises(ConfigurationError, match="'mistral'"):
        check_message_sequence([USER], unknown)


TURNS = st.lists(
    st.sampled_from([[USER], [USER, AI], [USER, call(), result()], [USER, call(), result(), AI]]),
    max_size=8,
)


@given(TURNS, st.sampled_from(ALL))
@examples(60)
def test_whole_turns_that_end_with_the_user_are_valid_everywhere(
    turns: list[list[BaseMessage]], provider: Any
) -> None:
    messages = [SYSTEM, *(message for turn in turns for message in turn), USER]
    assert check_message_sequence(messages, provider) == []
