from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_om.core.config.options import ObservationConfig, ReflectionConfig
from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import resolve_thresholds
from langgraph_om.core.cycles.observation import observe_cycle
from langgraph_om.core.cycles.reflection import reflect_cycle
from langgraph_om.core.effects import AskModel, EffectFlow, ModelReply
from langgraph_om.core.events import to_part
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.plan import plan
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.reflect.reflector import Reflection, ReflectorInput, reflect
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ObserverError
from langgraph_om.testing import drive
from support.words import Words

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ITEM = "* 🔴 (09:00) The dog is Rex"
GOOD = f"<observations>\n{ITEM}\n</observations>"
NONE = "<observations>(none)</observations>"
LOOP = "<observations>\n" + "* 🔴 again and again the same line\n" * 300 + "</observations>"

ResultT = TypeVar("ResultT")


Told = str | Exception | ModelReply


@dataclass
class Talk:
    """Answers a flow in order, and remembers what it was asked."""

    answers: list[Told]

    def __post_init__(self) -> None:
        self.calls: list[AskModel] = []

    def answer(self, call: AskModel) -> Told:
        self.calls.append(call)
        return self.answers[len(self.calls) - 1]

    def run(self, flow: Generator[AskModel, ModelReply, ResultT]) -> ResultT:
        return drive(flow, self.answer).result

    def run_cycle(self, flow: EffectFlow[None]) -> list[dict[str, Any]]:
        self.events: list[dict[str, Any]] = []
        drive(flow, self.answer, events=self.events)
        return self.events


def texts(call: AskModel) -> list[str]:
    return [str(message.content) for message in call.messages]


# --- Asking the Observer -------------------------------------------------------------------------

REQUEST = ObserverInput("User (09:00): My dog is Rex.")


@pytest.mark.parametrize(
    ("answers", "status", "observations"),
    [
        ([GOOD], "ok", ITEM),
        ([NONE], "none", ""),
        (["", GOOD], "ok", ITEM),
        (["I can not help with that.", GOOD], "ok", ITEM),
        ([LOOP, GOOD], "ok", ITEM),
        ([ModelReply(NOW, GOOD, cut_off=True), GOOD], "ok", ITEM),
        (["", NONE], "none", ""),
    ],
)
def test_what_counts_as_an_answer(answers: list[Told], status: str, observations: str) -> None:
    talk = Talk(answers)
    parsed = talk.run(observe(REQUEST))
    assert (parsed.status, parsed.observations) == (status, observations)
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} == {"observer"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        (["", ""], "empty"),
        (["no", "still no"], "malformed"),
        ([GOOD.replace(ITEM, ""), ""], "empty"),
        ([LOOP, LOOP], "degenerate"),
        ([ModelReply(NOW, GOOD, cut_off=True)] * 2, "cut_off"),
        ([TimeoutError("no answer in time")], "TimeoutError: no answer in time"),
        (["", ValueError("bad key")], "ValueError: bad key"),
    ],
)
def test_when_there_is_no_answer(answers: list[Told], named: str) -> None:
    talk = Talk(answers)
    with pytest.raises(ObserverError) as caught:
        talk.run(observe(REQUEST))
    assert named in str(caught.value)
    assert len(talk.calls) == len(answers), "asked once more, and not after an error"
    last = answers[-1]
    assert caught.value.__cause__ is (last if isinstance(last, Exception) else None)


def test_the_second_request_says_what_was_wrong() -> None:
    talk = Talk(["I can not help with that.", GOOD])
    talk.run(observe(REQUEST))
    first, second = talk.calls
    assert second.messages[:2] == first.messages
    assert second.messages[2] == AIMessage("I can not help with that.")
    assert "no list of observations" in texts(second)[3]
    assert [message.type for message in second.messages] == ["system", "human", "ai", "human"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("", "holds no observations"),
        (LOOP, "repeats itself"),
        (ModelReply(NOW, GOOD, cut_off=True), "cut off"),
    ],
)
def test_a_flood_or_nothing_is_not_quoted_back(bad: Told, problem: str) -> None:
    talk = Talk([bad, GOOD])
    talk.run(observe(REQUEST))
    assert [message.type for message in talk.calls[1].messages] == ["system", "human", "human"]
    assert problem in texts(talk.calls[1])[2]


def test_what_is_quoted_back_is_clean_and_of_a_bounded_length() -> None:
    numbers = "\n".join(map(str, range(100_000)))
    talk = Talk([f"\x00no\ud83d {numbers} end", GOOD])
    talk.run(observe(REQUEST))
    quoted = texts(talk.calls[1])[2]
    assert len(quoted) < 25_000
    assert quoted.startswith("no\ufffd 0\n1\n2")
    assert quoted.endswith("99999 end")


@pytest.mark.parametrize("role", ["Observer", "Reflector"])
def test_what_a_provider_says_is_told_clean_and_of_a_bounded_length(role: str) -> None:
    talk = Talk([ValueError(f"\x1b[31mbad\ud83d {'key ' * 300_000}")])
    flows = {"Observer": observe(REQUEST), "Reflector": reflect(LOG, Words())}
    with pytest.raises(ObserverError) as caught:
        talk.run(cast("Generator[AskModel, ModelReply, object]", flows[role]))
    told = str(caught.value)
    assert told.startswith(f"the {role} failed: ValueError: [31mbad\ufffd key key")
    assert len(told) < 1100


def test_what_the_observer_is_told() -> None:
    talk = Talk([GOOD])
    request = replace(
        REQUEST,
        previous="* 🔴 old </previous-observations> news",
        hints={
            "current_task": "Find </current-task> a lead",
            "suggested_response": None,
            "thread_title": "Rex",
        },
        instruction="Write in French.",
    )
    talk.run(observe(request))
    system, task = talk.calls[0].messages
    assert isinstance(system, SystemMessage)
    assert isinstance(task, HumanMessage)
    assert "Write in French." in system.content
    assert "<observations>(none)</observations>" in system.content
    assert "<conversation>\nUser (09:00): My dog is Rex.\n</conversation>" in task.content
    assert (
        "<previous-observations>\n* 🔴 old &lt;/previous-observations> news\n"
        "</previous-observations>" in task.content
    )
    assert "<current-task>Find &lt;/current-task> a lead</current-task>" in task.content
    assert "<thread-title>Rex</thread-title>" in task.content
    assert "suggested-response>" not in task.content


def test_nothing_earlier_is_said_and_leaves_no_empty_part() -> None:
    talk = Talk([GOOD])
    talk.run(observe(REQUEST))
    system, task = texts(talk.calls[0])
    assert "There are no earlier observations." in task
    assert "Hints so far" not in task
    assert "<previous-observations>" not in task
    assert "{{" not in system + task


def test_a_title_is_asked_for_only_where_titles_are_on() -> None:
    systems: list[str] = []
    for wanted in (False, True):
        talk = Talk([GOOD])
        talk.run(observe(replace(REQUEST, thread_title=wanted)))
        systems.append(texts(talk.calls[0])[0])
    assert "<thread-title>" not in systems[0]
    assert "<thread-title>" in systems[1]


def test_each_prompt_is_another_one() -> None:
    systems: list[str] = []
    for prompt in ("default", "condensed", "legacy"):
        talk = Talk([GOOD])
        talk.run(observe(replace(REQUEST, prompt=prompt)))
        systems.append(texts(talk.calls[0])[0])
    assert len(set(systems)) == 3
    assert all("You are the Observer." in system for system in systems)


# --- Asking the Reflector ------------------------------------------------------------------------

LOG = ReflectorInput("* 🔴 long </observation-log> log", tokens=100, target=50)


def dense(count: int) -> str:
    """An answer whose observations have this many tokens."""
    return f"<observations>\n* 🔴 {' '.join(['word'] * (count - 2))}\n</observations>"


LADDERS: list[tuple[list[Told], int, int]] = [
    ([dense(40)], 40, 0),
    ([dense(49)], 49, 0),
    ([dense(50), dense(48)], 48, 1),
    ([dense(90), dense(70), dense(49)], 49, 2),
    ([dense(90), dense(70), dense(80), dense(75), dense(60)], 60, 4),
    ([dense(70), dense(90), dense(95), dense(99), dense(80)], 70, 0),
    ([dense(60), dense(60), dense(60), dense(60), dense(60)], 60, 0),
    ([dense(120), dense(100), dense(100), dense(101), dense(99)], 99, 4),
    ([dense(120), dense(30)], 30, 1),
    (["", "no", LOOP, dense(60), dense(40)], 40, 4),
    ([dense(60), NONE, "", "no", LOOP], 60, 0),
    ([ModelReply(NOW, dense(10), cut_off=True), dense(20)], 20, 1),
    ([dense(60), TimeoutError("late")], 60, 0),
    ([dense(90), dense(80), ValueError("x")], 80, 1),
]


@pytest.mark.parametrize(("answers", "tokens", "level"), LADDERS)
def test_the_first_small_enough_wins_else_the_smallest(
    answers: list[Told], tokens: int, level: int
) -> None:
    talk = Talk(answers)
    best: Reflection = talk.run(reflect(LOG, Words()))
    assert (best.tokens, best.level) == (tokens, level)
    assert Words().count_text(best.text) == tokens
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} == {"reflector"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ([dense(100)] * 5, "it has 100 tokens, the log it replaces 100"),
        ([dense(101)] * 5, "it has 101 tokens, the log it replaces 100"),
        ([NONE] * 5, "it leaves nothing of the log"),
        ([""] * 5, "it is empty"),
        (["no"] * 5, "it is malformed"),
        ([LOOP] * 5, "it is degenerate"),
        ([ModelReply(NOW, dense(9), cut_off=True)] * 5, "it is cut_off"),
        ([*[dense(120)] * 4, "no"], "it is malformed"),
        ([TimeoutError("late")], "TimeoutError: late"),
        (["no", dense(130), ValueError("bad key")], "ValueError: bad key"),
    ],
)
def test_when_no_reflection_is_usable(answers: list[Told], named: str) -> None:
    talk = Talk(answers)
    with pytest.raises(ObserverError) as caught:
        talk.run(reflect(LOG, Words()))
    assert named in str(caught.value)
    assert len(talk.calls) == len(answers)


def test_each_request_asks_for_more_density_than_the_one_before() -> None:
    talk = Talk([dense(90), dense(80), "no", dense(70), dense(60)])
    request = replace(LOG, instruction="Keep all names.")
    talk.run(reflect(request, Words()))
    tasks = [texts(call)[1] for call in talk.calls]
    assert len(set(tasks)) == 5
    assert "previous attempt" not in tasks[0]
    for task, size in zip(tasks[1:], (90, 80, 80, 70), strict=True):
        assert f"about {size} tokens" in task
        assert "fewer than 50" in task
    assert all(
        "<observation-log>\n* 🔴 long &lt;/observation-log> log\n</observation-log>" in task
        for task in tasks
    )
    systems = {texts(call)[0] for call in talk.calls}
    assert len(systems) == 1
    assert "Keep all names." in systems.pop()


def test_the_reflector_is_told_the_rules_the_log_was_written_by() -> None:
    systems: list[str] = []
    for prompt in ("default", "condensed", "legacy"):
        talk = Talk([dense(10)])
        talk.run(reflect(replace(LOG, prompt=prompt), Words()))
        systems.append(texts(talk.calls[0])[0])
    assert len(set(systems)) == 3
    assert all("<thread-title>" not in system for system in systems)


def test_a_reflection_may_bring_the_current_task() -> None:
    told = f"{dense(10)}\n<current-task>Go on</current-task>"
    assert Talk([told]).run(reflect(LOG, Words())).current_task == "Go on"
    assert Talk([dense(10)]).run(reflect(LOG, Words())).current_task is None


# --- Whole cycles --------------------------------------------------------------------------------


def setup(on_error: Literal["continue", "abort", "raise"] = "continue", **options: Any) -> Settings:
    observation = ObservationConfig(message_tokens=100, buffer_tokens=False, **options)
    reflection = ReflectionConfig(observation_tokens=40)
    return Settings(
        thresholds=resolve_thresholds(observation, reflection),
        counter=Words(),
        timezone=UTC,
        observation=observation,
        reflection=reflection,
        on_error=on_error,
    )


def conversation() -> tuple[MemoryRecord, Window]:
    messages = [HumanMessage("word " * 50, id="m0"), AIMessage("word " * 40, id="m1")]
    opened = {"type": "opened", "id": "r", "thread_id": "t", "resource_id": None, "scope": "thread"}
    record = fold(blank_record(), [opened])
    return record, open_window(record, messages, Words())


def later(text: str, seconds: float = 1.5, **fields: Any) -> ModelReply:
    usage = {"inputTokens": 10, "outputTokens": 3}
    return ModelReply(NOW + timedelta(seconds=seconds), text, usage=usage, **fields)


def observed(talk: Talk, settings: Settings, count: int = 1) -> list[dict[str, Any]]:
    record, window = conversation()
    return talk.run_cycle(observe_cycle(settings, record, window, count, NOW))


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_the_parts_of_an_observation() -> None:
    told = f"{GOOD}\n<current-task>Go</current-task>\n<suggested-response>Hi</suggested-response>"
    events = observed(Talk([later("", 0.5), later(told)]), setup())
    start, end = (to_part(event) for event in events)
    assert start == {
        "type": "data-om-observation-start",
        "data": {
            "cycleId": events[0]["cycle_id"],
            "operationType": "observation",
            "startedAt": "2026-03-02T09:00:00.000+00:00",
            "tokensToObserve": 50,
            "recordId": "r",
            "threadId": "t",
            "threadIds": ["t"],
            "config": {"messageTokens": 100, "observationTokens": 40, "scope": "thread"},
        },
    }
    assert end == {
        "type": "data-om-observation-end",
        "data": {
            "cycleId": events[0]["cycle_id"],
            "operationType": "observation",
            "completedAt": "2026-03-02T09:00:01.500+00:00",
            "durationMs": 1500,
            "tokensObserved": 50,
            "observationTokens": 7,
            "observations": ITEM,
            "currentTask": "Go",
            "suggestedResponse": "Hi",
            "recordId": "r",
            "threadId": "t",
            "usage": {"calls": 2, "inputTokens": 20, "outputTokens": 6},
        },
    }


def test_what_an_observation_leaves_in_memory() -> None:
    record, _ = conversation()
    events = observed(Talk([later(GOOD)]), setup())
    after = fold(record, [events])
    assert after["cursor"] == ["m0"]
    assert [(entry["text"], entry["ranges"]) for entry in after["log"]] == [(ITEM, [["m0", "m0"]])]
    assert after["log"][0]["id"] == events[0]["cycle_id"]
    assert after["usage"] == {"observation": {"calls": 1, "inputTokens": 10, "outputTokens": 3}}
    assert fold(after, [events]) == after


def test_nothing_worth_noting_moves_the_cursor_too() -> None:
    record, _ = conversation()
    after = fold(record, [observed(Talk([later(NONE)]), setup(), count=2)])
    assert after["cursor"] == ["m0", "m1"]
    assert [(entry["text"], entry["tokens"]) for entry in after["log"]] == [("", 0)]


def test_a_repeated_cycle_has_the_same_id_and_a_retry_another() -> None:
    settings = setup()
    record, window = conversation()
    one, two = (observed(Talk([later(GOOD)]), settings) for _ in range(2))
    assert one[0]["cycle_id"] == two[0]["cycle_id"]
    failed = fold(record, [observed(Talk([TimeoutError("x")]), settings)])
    retry = Talk([later(GOOD)]).run_cycle(observe_cycle(settings, failed, window, 1, NOW))
    assert retry[0]["cycle_id"] != one[0]["cycle_id"]


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("continue", ["observation-start", "observation-failed"]),
        ("abort", ["observation-start", "observation-failed", "tripped"]),
        ("raise", ["observation-start", "observation-failed"]),
    ],
)
@pytest.mark.parametrize("operation", ["observation", "reflection"])
def test_what_follows_a_failure(
    on_error: Literal["continue", "abort", "raise"], expected: list[str], operation: str
) -> None:
    record, window = conversation()
    settings = setup(on_error)
    if operation == "reflection":
        record = fold(record, [reflectable()])
        flow = reflect_cycle(settings, record, window, NOW)
    else:
        flow = observe_cycle(settings, record, window, 1, NOW)
    talk = Talk([TimeoutError("no answer")])
    if on_error == "raise":
        with pytest.raises(ObserverError, match="no answer"):
            talk.run_cycle(flow)
    else:
        talk.run_cycle(flow)
    assert kinds(talk.events) == expected
    failed = to_part(talk.events[1])
    assert failed is not None
    assert failed["type"] == "data-om-observation-failed"
    assert failed["data"]["operationType"] == operation
    assert "TimeoutError: no answer" in failed["data"]["error"]
    assert failed["data"]["usage"]["calls"] == 1
    after = fold(record, [talk.events])
    assert (after["log"], after["cursor"]) == (record["log"], record["cursor"])
    assert after["attempts"][operation]["failures"] == 1
    decision = plan(after, window, settings.thresholds, NOW).kind
    if on_error == "abort":
        assert decision == "abort"
    else:
        assert decision != {"observation": "observe", "reflection": "reflect"}[operation]
    if on_error == "abort":
        # The gate shows it, in this turn and in each that repeats it.
        assert to_part(talk.events[2]) is None
        assert after["tripwire"]["operation"] == operation


def test_the_usage_of_a_failed_cycle_counts_too() -> None:
    record, _ = conversation()
    events = observed(Talk([later(""), later("no")]), setup())
    assert kinds(events) == ["observation-start", "observation-failed"]
    assert fold(record, [events])["usage"]["observation"] == {
        "calls": 2,
        "inputTokens": 20,
        "outputTokens": 6,
    }


@pytest.mark.parametrize(
    ("wanted", "title", "expected"),
    [
        (True, "Walks with Rex", ["observation-start", "observation-end", "thread-update"]),
        (True, "Old title", ["observation-start", "observation-end"]),
        (False, "Walks with Rex", ["observation-start", "observation-end"]),
    ],
)
def test_a_new_title_is_announced(*, wanted: bool, title: str, expected: list[str]) -> None:
    record, window = conversation()
    record = fold(record, [{"thread_title": "Old title"}])
    told = f"{GOOD}\n<thread-title>{title}</thread-title>"
    flow = observe_cycle(setup(thread_title=wanted), record, window, 1, NOW)
    events = Talk([later(told)]).run_cycle(flow)
    assert kinds(events) == expected
    after = fold(record, [events])
    assert after["thread_title"] == (title if wanted else "Old title")
    if len(events) == 3:
        assert to_part(events[2]) == {
            "type": "data-om-thread-update",
            "data": {
                "cycleId": events[0]["cycle_id"],
                "threadId": "t",
                "oldTitle": "Old title",
                "newTitle": "Walks with Rex",
                "timestamp": "2026-03-02T09:00:01.500+00:00",
            },
        }


def test_the_observer_is_told_what_memory_holds() -> None:
    record, window = conversation()
    record = fold(record, [reflectable(), {"current_task": "Find a lead", "thread_title": "Rex"}])
    talk = Talk([later(GOOD)])
    talk.run_cycle(observe_cycle(setup(instruction="In French."), record, window, 1, NOW))
    system, task = texts(talk.calls[0])
    assert "In French." in system
    assert "<previous-observations>\n* 🔴 one word" in task
    assert "<current-task>Find a lead</current-task>" in task
    assert "thread-title" not in task
    assert task.count("word " * 40) >= 1


def reflectable() -> dict[str, Any]:
    """An edit that puts a log of 50 tokens in place."""
    groups = [
        {
            "id": f"g{at}",
            "kind": "observation",
            "ranges": [[f"z{at}", f"z{at}"]],
            "thread_id": "t",
            "observed_at": "2026-03-01T09:00:00.000+00:00",
            "text": f"* 🔴 {name} " + " ".join(["word"] * 22),
            "tokens": 25,
        }
        for at, name in enumerate(("one", "two"))
    ]
    return {"log": groups}


def test_the_parts_of_a_reflection_and_what_it_leaves() -> None:
    record, window = conversation()
    record = fold(record, [reflectable()])
    talk = Talk([later(dense(45), 1), later(dense(30), 2)])
    events = talk.run_cycle(reflect_cycle(setup(), record, window, NOW))
    assert kinds(events) == ["observation-start", "observation-end"]
    start, end = (to_part(event) for event in events)
    assert start is not None
    assert start["data"]["operationType"] == "reflection"
    assert start["data"]["tokensToObserve"] == 50
    assert end is not None
    assert end["data"]["tokensObserved"] == 50
    assert end["data"]["observationTokens"] == 30
    assert end["data"]["durationMs"] == 2000
    assert end["data"]["usage"] == {"calls": 2, "inputTokens": 20, "outputTokens": 6}
    after = fold(record, [events])
    assert [(entry["kind"], entry["ranges"], entry["tokens"]) for entry in after["log"]] == [
        ("reflection", [["z0", "z1"]], 30)
    ]
    assert after["generation"] == 1
    assert after["attempts"] == {}
    assert fold(after, [events]) == after


def test_a_reflection_that_leaves_the_log_too_large_rests_until_it_has_grown() -> None:
    record, window = conversation()
    record = fold(record, [reflectable()])
    talk = Talk([later(dense(48))] * 5)
    after = fold(record, [talk.run_cycle(reflect_cycle(setup(), record, window, NOW))])
    assert after["generation"] == 1
    expected = {"failures": 0, "still_large": 1, "at_tokens": 48, "retry_at_tokens": 52}
    assert after["attempts"]["reflection"] == expected
    assert plan(after, window, setup().thresholds, NOW).kind != "reflect"
