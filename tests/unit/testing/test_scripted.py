"""The test doubles: what they answer, how they stream, and what the sequence check refuses."""

from __future__ import annotations

import doctest
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import Runnable
from langgraph.graph.message import add_messages

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing import (
    ScriptedChatModel,
    check_message_sequence,
    checks,
    extractive,
    offline,
)
from support.scripts import call, merged, result

if TYPE_CHECKING:
    Model = Runnable[LanguageModelInput, AIMessage]


# --- scripts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "examples"),
    [(offline, 4), (extractive, 5), (checks, 4)],
)
def test_docstring_examples_run(module: ModuleType, examples: int) -> None:
    known = {"ScriptedChatModel": ScriptedChatModel}
    outcome = doctest.testmod(module, extraglobs=known)
    assert outcome.failed == 0
    assert outcome.attempted >= examples


def test_replies_come_in_order_and_the_last_one_repeats() -> None:
    model = ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"got {len(messages)}"])
    assert [model.invoke("hi").content for _ in range(4)] == ["one", "two", "got 1", "got 1"]


@pytest.mark.parametrize("role", ["observer", "reflector"])
def test_memory_roles_without_a_script_say_so_and_the_call_is_recorded(role: str) -> None:
    model = ScriptedChatModel("ok")
    with pytest.raises(AssertionError, match=f"no reply scripted for role '{role}'"):
        model.invoke("hi", {"metadata": {"om_role": role}})
    assert [entry["role"] for entry in model.calls] == [role]


def test_failures_are_raised_recorded_and_followed_by_the_next_reply() -> None:
    error = RuntimeError("overloaded")
    model = ScriptedChatModel([error, TimeoutError, "back"])
    with pytest.raises(RuntimeError, match="overloaded") as caught:
        model.invoke("a")
    assert caught.value is error
    with pytest.raises(TimeoutError):
        list(model.stream("b"))
    assert model.invoke("c").content == "back"
    assert [entry["messages"][0].content for entry in model.calls] == ["a", "b", "c"]


def test_an_answer_is_a_copy_that_can_be_changed_without_changing_the_script() -> None:
    scripted = call(query="cats")
    model = ScriptedChatModel(scripted)
    model.invoke("hi").tool_calls[0]["args"]["query"] = "dogs"
    assert model.invoke("hi").tool_calls[0]["args"] == {"query": "cats"}
    assert scripted.id is None
    assert scripted.usage_metadata is None


def test_an_id_is_given_out_once_so_that_a_repeat_is_appended() -> None:
    model = ScriptedChatModel(AIMessage("same", id="mine"))
    answers = [model.invoke("hi"), model.invoke("hi"), *[merged(list(model.stream("hi")))]]
    assert answers[0].id == "mine"
    assert len({answer.id for answer in answers}) == 3
    assert len(add_messages([], [*answers])) == 3  # type: ignore[arg-type]


def test_usage_is_made_up_from_characters_unless_scripted() -> None:
    usage = UsageMetadata(input_tokens=7, output_tokens=5, total_tokens=12)
    model = ScriptedChatModel(["x" * 40, AIMessage("", usage_metadata=usage)])
    assert model.invoke("y" * 81).usage_metadata == {
        "input_tokens": 20,
        "output_tokens": 10,
        "total_tokens": 30,
    }
    assert model.invoke("hi").usage_metadata == usage


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
def test_what_a_provider_refuses(messages: list[BaseMessage], refused_by: dict[str, str]) -> None:
    providers: tuple[Any, ...] = ALL
    for provider in providers:
        problems = check_message_sequence(messages, provider)
        expected = refused_by.get(provider, "")
        assert bool(problems) == bool(expected)
        assert not expected or any(expected in problem for problem in problems)


def test_an_unknown_provider_is_named() -> None:
    unknown: Any = "mistral"
    with pytest.raises(ConfigurationError, match="'mistral'"):
        check_message_sequence([USER], unknown)
