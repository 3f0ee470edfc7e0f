"""Values by schema out of what is observed: asked once, merged, told, and never in the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    Extractor,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import on_thread, turn
from support.schemas import Profile, Trip

BLOCKING = {"message_tokens": 60, "buffer_tokens": False}


class Extracting:
    """A memory whose Observer quotes, and answers questions for values from a script."""

    def __init__(self, *answers: Any, extract: Any = None, **options: Any) -> None:
        self.answers, self.questions = list(answers), list[str]()
        self.model = ScriptedChatModel("ok", observer=self._reply)
        limits = options.pop("observation", BLOCKING)
        wanted = {"profile": Profile} if extract is None else extract
        self.memory = ObservationalMemory(
            self.model,
            observation={**limits, "extract": wanted},
            buffering=InlineBuffering(),
            **options,
        )
        self.graph = create_memory_agent(
            self.model, memory=self.memory, checkpointer=InMemorySaver()
        )

    def _reply(self, messages: list[Any]) -> str:
        if not isinstance(messages[-2], AIMessage):
            reply = ExtractiveObserver().reply(messages)
            return reply if isinstance(reply, str) else reply.text
        self.questions.append(messages[-1].text)
        self.prefix = messages[:-2]
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps(answer)

    def say(self, number: int) -> list[dict[str, Any]]:
        given = {"messages": [turn(number)]}
        parts = list(self.graph.stream(given, on_thread(), stream_mode="custom"))
        return [part["data"] for part in parts if part["type"] == "data-om-extracted"]

    @property
    def state(self) -> Any:
        return self.graph.get_state(on_thread())

    @property
    def kept(self) -> dict[str, Any]:
        return self.state.values["om"].get("extracted", {})


def test_values_are_merged_told_with_the_former_one_and_typed() -> None:
    run = Extracting(
        {"profile": {"name": "Ana", "likes": ["museums"], "city": "Cork"}},
        'Here:\n```json\n{"profile": {"likes": ["walks"], "city": null}}\n```',
        {},
    )
    assert run.memory.extracted(run.state, Profile) is None
    told = [part for number in range(3) for part in run.say(number)]
    first = {"name": "Ana", "likes": ["museums"], "city": "Cork"}
    second = {"name": "Ana", "likes": ["walks"]}
    assert [(part["name"], part["value"], part.get("previous")) for part in told] == [
        ("profile", first, None),
        ("profile", second, first),
    ]
    assert {part["threadId"] for part in told} == {"t"}
    assert (run.kept["profile"]["value"], run.kept["profile"]["previous"]) == (second, first)
    assert run.memory.extracted(run.state, Profile) == Profile(name="Ana", likes=["walks"])
    assert '"walks"' in run.questions[2]


def test_one_question_for_all_values_on_the_same_prompt_and_paid_for() -> None:
    both = {"profile": {"name": "Ana"}, "trip": {"goal": "Oslo"}}
    run = Extracting(both, extract={"profile": Profile, "trip": Trip})
    run.say(0)
    calls = [call["messages"] for call in run.model.calls if call["role"] == "observer"]
    assert len(calls) == 2
    assert calls[1][:2] == calls[0]
    assert run.state.values["om"]["usage"]["observation"]["calls"] == 2
    assert run.memory.extracted(run.state, Trip) == Trip(goal="Oslo")


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"profile": {"age": "old"}}, "`age`"),
        ({"profile": {"shoe": 42}}, "`shoe`"),
        ({"profile": [1]}, "`memory`"),
        ("I do not know.", "JSON"),
        (ConnectionError("down"), "the Observer failed"),
    ],
)
def test_a_failure_is_listed_and_harmless(answer: Any, named: str) -> None:
    run = Extracting({"profile": {"name": "Ana"}}, answer, {"profile": {"city": "Cork"}})
    run.say(0)
    log = len(run.state.values["om"]["log"])
    [told] = run.say(1)
    assert named in told["error"]
    assert named in run.kept["profile"]["error"]
    assert run.kept["profile"]["value"] == {"name": "Ana"}
    assert len(run.state.values["om"]["log"]) > log
    run.say(2)
    assert run.kept["profile"]["error"] is None
    assert run.kept["profile"]["value"] == {"name": "Ana", "city": "Cork"}


def test_the_hook_that_rewrites_observations_rewrites_values() -> None:
    def hide(text: str, about: Any) -> str:
        return text.replace("Ana", "[name]")

    run = Extracting({"profile": {"name": "Ana"}}, hooks={"after_observation": hide})
    run.say(0)
    assert run.kept["profile"]["value"] == {"name": "[name]"}
    assert "Ana" not in json.dumps(run.state.values["om"])


def test_values_follow_a_fork() -> None:
    run = Extracting({"profile": {"name": "Ana"}}, {"profile": {"name": "Bo"}}, {})
    run.say(0)
    before = run.graph.get_state(on_thread()).config
    run.say(1)
    assert run.kept["profile"]["value"] == {"name": "Bo"}
    assert run.memory.extracted(run.graph.get_state(before), Profile) == Profile(name="Ana")


# --- Texts, functions of the user, reflections ----------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_of_the_user_sees_a_value_before_it_is_kept(*, is_async: bool) -> None:
    seen: list[Any] = []

    def look(value: Any, about: dict[str, Any]) -> Any:
        seen.append((value, about["previous"], about["name"], about["thread_id"]))
        return {**value, "city": "Oslo"} if value["name"] == "Ana" else None

    async def alook(value: Any, about: dict[str, Any]) -> Any:
        return look(value, about)

    each = Extractor(schema=Profile, on_extracted=alook if is_async else look)
    answers = [{"profile": {"name": "Ana"}}, {"profile": {"name": "Ben"}}]
    run = Extracting(*answers, extract={"profile": each})
    run.say(0)
    kept = {"name": "Ana", "city": "Oslo"}
    assert run.kept["profile"]["value"] == kept
    run.say(1)
    assert run.kept["profile"]["value"] == {"name": "Ben", "city": "Oslo"}
    assert seen == [
        ({"name": "Ana"}, None, "profile", "t"),
        ({"name": "Ben", "city": "Oslo"}, kept, "profile", "t"),
    ]


@pytest.mark.parametrize("returned", [KeyError("secret"), {"shoe": 42}, 7])
def test_a_function_that_fails_leaves_the_value_and_the_log_as_they_should_be(
    returned: Any,
) -> None:
    def look(value: Any, _: Any) -> Any:
        if value["name"] == "Ana":
            return None
        if isinstance(returned, Exception):
            raise returned
        return returned

    each = Extractor(schema=Profile, on_extracted=look)
    answers = [{"profile": {"name": "Ana"}}, {"profile": {"name": "Ben"}}]
    run = Extracting(*answers, extract={"profile": each})
    run.say(0)
    log = len(run.state.values["om"]["log"])
    [told] = run.say(1)
    assert "on_extracted" in told["error"]
    assert "secret" not in told["error"]
    assert run.kept["profile"]["value"] == {"name": "Ana"}
    assert len(run.state.values["om"]["log"]) > log
