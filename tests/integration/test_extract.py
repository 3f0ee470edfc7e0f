"""Values by schema out of what is observed: asked once, merged, told, and never in the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import (
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import on_thread, turn
from support.schemas import Profile, Trip

pytestmark = pytest.mark.needs("extract")

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
        ("I do not know.", "no JSON"),
        (ValueError("down"), "the Observer failed"),
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


@pytest.mark.parametrize("answer", [{}, {"profile": {"name": "Ana"}}, {"profile": None}])
def test_an_error_is_over_when_the_next_answer_changes_nothing(answer: Any) -> None:
    run = Extracting({"profile": {"name": "Ana"}}, "I do not know.", answer)
    run.say(0)
    run.say(1)
    assert run.kept["profile"]["error"]
    former = run.kept["profile"]
    assert run.say(2) == []
    assert run.kept["profile"] == {**former, "error": None}


def test_ahead_of_need_values_come_with_their_activation() -> None:
    limits = {"message_tokens": 400, "buffer_tokens": 60, "buffer_activation": 1.0}
    answers = [{"profile": {"likes": [f"{number}"]}} for number in range(20)]
    run = Extracting(*answers, observation=limits)
    seen = []
    for number in range(12):
        before = run.kept if number else {}
        told = run.say(number)
        chunks = run.state.values["om"]["chunks"]
        if told:
            seen.append(told[-1]["value"])
        else:
            assert run.kept == before
        assert all("extract" in chunk["found"] for chunk in chunks)
    assert seen
    assert run.kept["profile"]["value"] == seen[-1]


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


@pytest.mark.parametrize(
    ("extract", "said"),
    [
        ({"profile": int}, "describes no object"),
        ({"my profile": Profile}, "'my profile' is no name"),
        ([Profile], "observation.extract"),
    ],
)
def test_a_wrong_option_is_named(extract: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ObservationalMemory(ScriptedChatModel(), observation={"extract": extract})


def test_a_schema_that_is_not_asked_for_is_named() -> None:
    run = Extracting()
    with pytest.raises(ConfigurationError, match=r"observation\.extract.*profile"):
        run.memory.extracted({"messages": [HumanMessage("hi")], "om": {}}, Trip)
