"""Working memory that the Observer keeps: asked with what it observes, written by a later step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langgraph_om import (
    ConfigurationError,
    InlineBuffering,
    MemoryContext,
    ObservationalMemory,
    ObservationalMemoryMiddleware,
    WorkingMemory,
    WorkingMemoryMiddleware,
    add_observational_memory,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.agents import turn
from support.elsewhere import Elsewhere
from support.schemas import Profile, Trip

TEMPLATE = "# Profile\n- Name:\n- City:"
BLOCKING = {"message_tokens": 60, "buffer_tokens": False}
AHEAD = {"message_tokens": 200, "buffer_tokens": 60, "buffer_activation": 1.0}


def on(thread: str = "t", user: str = "ana", **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "resource_id": user, **more}}


def shown(messages: list[BaseMessage]) -> str:
    """What a call of the Actor is shown of the memory; empty without a block."""
    blocks = [message.text for message in messages if "<working-memory>" in message.text]
    assert len(blocks) <= 1
    return (
        blocks[0].split("<working-memory>\n")[1].split("\n</working-memory>")[0] if blocks else ""
    )


class Observed:
    """An agent whose Observer quotes, and answers questions for values from a script."""

    def __init__(
        self,
        *answers: Any,
        working: WorkingMemory | None = None,
        door: str = "agent",
        limits: Any = BLOCKING,
        actor: Any = "ok",
        buffering: Any = None,
        **options: Any,
    ) -> None:
        self.answers, self.questions = list(answers), list[list[BaseMessage]]()
        self.working = working or WorkingMemory(schema=Profile, managed_by="observer")
        self.model = ScriptedChatModel(actor, observer=self._reply)
        self.store, saver = InMemoryStore(), InMemorySaver()
        self.memory = ObservationalMemory(
            self.model,
            observation=limits,
            buffering=buffering or InlineBuffering(),
            working_memory=self.working,
            **options,
        )
        if door == "agent":
            self.graph: Any = create_memory_agent(
                self.model, memory=self.memory, checkpointer=saver, store=self.store
            )
        elif door == "graph":
            builder = StateGraph(MessagesState)
            builder.add_node("agent", self._answer)
            builder.add_edge(START, add_observational_memory(builder, self.memory))
            builder.add_edge("agent", END)
            self.graph = builder.compile(checkpointer=saver, store=self.store)
        else:
            self.graph = create_agent(
                self.model,
                middleware=[ObservationalMemoryMiddleware(self.memory)],
                context_schema=MemoryContext,
                checkpointer=saver,
                store=self.store,
            )

    def _answer(self, state: MessagesState) -> dict[str, Any]:
        return {"messages": [self.model.invoke(self.memory.llm_input_messages(state))]}

    def _reply(self, messages: list[Any]) -> str:
        if not isinstance(messages[-2], AIMessage):
            reply = ExtractiveObserver().reply(messages)
            return reply if isinstance(reply, str) else reply.text
        self.questions.append(messages)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps({"working_memory": answer})

    def say(self, number: int, config: RunnableConfig | None = None) -> list[dict[str, Any]]:
        given = {"messages": [turn(number)]}
        parts = list(self.graph.stream(given, config or on(), stream_mode="custom"))
        return [part["data"] for part in parts if part["type"] == "data-om-extracted"]

    def observe_ahead(self) -> int:
        """Talk until something is observed and waits; return the number of the next turn."""
        number = 0
        while number == 0 or not self.record["chunks"]:
            self.say(number)
            number += 1
        return number

    def kept(self, user: str = "ana") -> Any:
        return self.working.get(self.store, user)

    @property
    def record(self) -> Any:
        return self.graph.get_state(on()).values["om"]

    def seen(self) -> list[str]:
        return [shown(call["messages"]) for call in self.model.calls if call["role"] == "actor"]


every_door = pytest.mark.parametrize("door", ["agent", "middleware", "graph"])


@every_door
def test_it_is_kept_in_the_same_turn_by_one_more_question(door: str) -> None:
    run = Observed(
        {"name": "Ana", "likes": ["tea"]}, {"likes": ["tea", "rye"], "city": "Cork"}, door=door
    )
    told = [part for number in range(3) for part in run.say(number)]
    whole = {"name": "Ana", "likes": ["tea", "rye"], "city": "Cork"}
    first = {"name": "Ana", "likes": ["tea"]}
    assert run.kept() == whole
    assert [(part["name"], part["value"], part.get("previous")) for part in told] == [
        ("working_memory", first, None),
        ("working_memory", whole, first),
    ]
    assert [json.loads(text or "{}") for text in run.seen()] == [first, whole, whole]
    assert '"rye"' in run.questions[2][-1].text
    calls = [call["messages"] for call in run.model.calls if call["role"] == "observer"]
    assert calls[1][: len(calls[0])] == calls[0]
    assert run.record["usage"]["observation"]["calls"] == len(calls)
    assert len(run.questions) == 3
    assert run.record["working"]["updates"] == []


@every_door
def test_the_actor_has_no_tool_and_is_not_told_to_write(door: str) -> None:
    run = Observed({"name": "Ana"}, door=door)
    run.say(0)
    assert "update_working_memory" not in [tool.name for tool in run.memory.tools]
    [call] = [call for call in run.model.calls if call["role"] == "actor"]
    assert "update_working_memory" not in str(call)
    assert "Ana" in shown(call["messages"])


@every_door
def test_a_text_is_written_anew_after_its_template(door: str) -> None:
    working = WorkingMemory(TEMPLATE, managed_by="observer")
    filled = "# Profile\n- Name: Ana\n- City: Cork"
    answers = ["# Profile\n- Name: Ana\n- City:", TEMPLATE, filled]
    raw = [json.dumps({"working_memory": text}) for text in answers]
    raw[2] = raw[2].replace("\\n", "\n")  # as some models break lines
    run = Observed(*raw, working=working, door=door)
    run.say(0)
    assert "- Name:\\n- City:" in run.questions[0][-1].text
    assert run.kept() == answers[0]
    run.answers[0] = json.dumps({"working_memory": answers[0]})  # nothing new: nothing changes
    assert run.say(1) == []
    run.say(2)
    assert (run.kept(), run.seen()[-1]) == (filled, filled)


@every_door
def test_a_threads_own_is_in_the_state_and_follows_a_fork(door: str) -> None:
    working = WorkingMemory(schema=Profile, scope="thread", managed_by="observer")
    run = Observed({"name": "Ana"}, {"name": "Bo", "city": None}, {}, working=working, door=door)
    given = {"messages": [turn(0)], "working_memory": {"city": "Cork"}}
    run.graph.invoke(given, on())
    before = run.graph.get_state(on())
    assert before.values["working_memory"] == {"city": "Cork", "name": "Ana"}
    run.say(1)
    assert run.graph.get_state(on()).values["working_memory"] == {"name": "Bo"}
    run.graph.invoke({"messages": [turn(2)]}, before.config)
    assert json.loads(run.seen()[-1]) == {"city": "Cork", "name": "Ana"}


def test_values_and_working_memory_are_one_question() -> None:
    run = Observed(
        json.dumps({"trip": {"goal": "Oslo"}, "working_memory": {"name": "Ana"}}),
        limits={**BLOCKING, "extract": {"trip": Trip}},
    )
    run.say(0)
    assert len(run.questions) == 1
    assert run.kept() == {"name": "Ana"}
    assert run.memory.extracted(run.graph.get_state(on()), Trip) == Trip(goal="Oslo")


def test_ahead_of_need_it_changes_with_the_activation() -> None:
    run = Observed(*({"likes": [f"{number}"]} for number in range(20)), limits=AHEAD)
    seen = []
    for number in range(8):
        before = run.kept()
        told = run.say(number)
        if told:
            seen.append(told[-1]["value"])
        else:
            assert run.kept() == before
    assert seen
    assert run.kept() == seen[-1]
    known = [question[-1].text for question in run.questions]
    assert all(f'"{number}"' in text for number, text in enumerate(known[1:]))


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"age": "old"}, "`age`"),
        ({"shoe": 42}, "`shoe`"),
        ("I do not know.", "no JSON"),
        (ConnectionError("down"), "the Observer failed"),
    ],
)
def test_a_failure_is_told_and_costs_no_observation(answer: Any, named: str) -> None:
    run = Observed({"name": "Ana"}, answer, {"city": "Cork"})
    run.say(0)
    log = len(run.record["log"])
    [told] = run.say(1)
    assert (told["name"], named in told["error"]) == ("working_memory", True)
    assert named in run.record["working"]["error"]
    assert run.kept() == {"name": "Ana"}
    assert len(run.record["log"]) > log
    run.say(2)
    assert run.kept() == {"name": "Ana", "city": "Cork"}
    assert run.record["working"]["error"] is None


def test_an_error_is_over_when_the_next_answer_changes_nothing() -> None:
    run = Observed({"name": "Ana"}, "I do not know.", {})
    run.say(0)
    run.say(1)
    assert run.record["working"]["error"]
    assert run.say(2) == []
    assert run.record["working"]["error"] is None
    assert run.kept() == {"name": "Ana"}


def test_nothing_gets_in_that_a_hook_took_out() -> None:
    def show(messages: list[BaseMessage], about: Any) -> list[BaseMessage]:
        return [HumanMessage(message.text.replace("Ana", "[name]")) for message in messages]

    def write(text: str, about: Any) -> str:
        return text.replace("Cork", "[city]")

    hooks = {"before_observation": show, "after_observation": write}
    run = Observed({"city": "Cork"}, hooks=hooks)
    run.say(0)
    assert "Ana" not in "".join(message.text for message in run.questions[0])
    assert run.kept() == {"city": "[city]"}
    assert "Cork" not in json.dumps(run.record)


@pytest.mark.parametrize("kind", ["json", "text"])
def test_two_threads_of_one_user_lose_nothing(kind: str) -> None:
    """The first one observes ahead, the other one writes, and then that is activated."""
    if kind == "json":
        working = WorkingMemory(schema=Profile, managed_by="observer")
        one: Any = {"likes": ["tea"], "name": "Ana", "city": "Cork"}
        two: Any = {"likes": ["rye"], "name": "Bo"}
    else:
        working = WorkingMemory(TEMPLATE, managed_by="observer")
        one, two = f"{TEMPLATE}\n- Likes tea", f"{TEMPLATE}\n- Likes rye"
    run = Observed(json.dumps({"working_memory": one}), limits=AHEAD, working=working)
    number = run.observe_ahead()
    assert run.kept() is None
    run.working.update(run.store, "ana", two)  # as another thread's Observer does
    told = list[dict[str, Any]]()
    while run.record["chunks"][:1] and not told:
        told += run.say(number)
        number += 1
    if kind == "json":
        assert run.kept() == {"likes": ["rye", "tea"], "name": "Bo", "city": "Cork"}
        assert any("`name`" in part.get("error", "") for part in told)
    else:
        assert run.kept() == f"{two}\n\n- Likes tea"


@pytest.mark.slow  # it opens a database
def test_what_other_threads_say_gets_in_where_they_are_observed_together(tmp_path: Path) -> None:
    long = "I have noted that Ana likes rye, and tea, and long walks. " * 20
    run = Observed(
        {"likes": ["rye"]},
        {"city": "Cork"},
        actor=[long, "ok"],
        scope="resource",
        archive=f"sqlite:///{tmp_path}/memory.db",
        limits={"message_tokens": 200, "buffer_tokens": False},
    )
    run.say(0, on("a"))
    assert run.questions == []
    told = run.say(1, on("b"))
    assert len(run.questions) == 1
    assert "rye, and tea" in "".join(message.text for message in run.questions[0][:-1])
    assert run.kept() == {"likes": ["rye"]}
    assert [part["value"] for part in told] == [{"likes": ["rye"]}]
    assert json.loads(run.seen()[-1]) == {"likes": ["rye"]}


def test_a_run_that_may_not_write_writes_nothing_of_it() -> None:
    run = Observed({"name": "Ana"})
    run.say(0)
    state = run.graph.get_state(on())
    update = {"cycle_id": "c", "resource_id": "ana", "known": None, "patch": {"city": "Cork"}}
    waiting = {**state.values["om"]["working"], "updates": [update]}
    run.graph.update_state(on(), {"om": {"working": waiting}})
    run.say(1, on(om_read_only=True))
    assert run.kept() == {"name": "Ana"}
    assert json.loads(run.seen()[-1]) == {"name": "Ana"}
    run.say(2)
    assert run.kept() == {"name": "Ana", "city": "Cork"}


def test_a_copied_thread_takes_nothing_to_another_user() -> None:
    run = Observed({"name": "Ana"}, limits=AHEAD)
    begin = run.observe_ahead()
    copied = run.graph.get_state(on()).values
    run.graph.update_state(on("copy", "bo"), copied, as_node="agent")
    for number in range(begin, begin + 4):
        run.say(number, on("copy", "bo"))
    assert run.graph.get_state(on("copy", "bo")).values["om"]["log"]
    assert run.kept("bo") is None
    assert not any("Ana" in question[-1].text for question in run.questions[1:])


def test_without_a_graph_the_result_has_it() -> None:
    run = Observed({"name": "Ana"}, {"city": "Cork"})
    first = run.memory.step(None, [turn(0)], working_memory=None)
    assert first.working_memory == {"name": "Ana"}
    assert "Ana" in shown(first.messages)
    both = [turn(0), AIMessage("ok", id="a0"), turn(1)]
    second = run.memory.step(first.record, both, working_memory={"name": "Bo"})
    assert second.working_memory == {"name": "Bo", "city": "Cork"}


def test_a_job_in_another_process_knows_the_value() -> None:
    executor = Elsewhere()
    run = Observed({"city": "Cork"}, limits=AHEAD, buffering=executor)
    executor.run_job = run.memory.run_job
    run.working.put(run.store, "ana", {"name": "Ana"})
    number = 0
    while not run.kept().get("city"):
        run.say(number)
        number += 1
        assert number < 20
    assert executor.results
    assert '"name": "Ana"' in run.questions[0][-1].text
    assert run.kept() == {"name": "Ana", "city": "Cork"}


@pytest.mark.parametrize("scope", ["resource", "thread"])
def test_at_the_end_of_a_session_it_is_written_at_once(scope: Any) -> None:
    working = WorkingMemory(schema=Profile, scope=scope, managed_by="observer")
    run = Observed({"name": "Ana"}, limits={"message_tokens": 4000}, working=working)
    run.say(0)
    run.memory.of(run.graph, on()).observe()
    kept = run.graph.get_state(on()).values["working_memory"] if scope == "thread" else run.kept()
    assert kept == {"name": "Ana"}
    assert run.record["working"]["updates"] == []


async def test_asynchronous_runs_do_the_same() -> None:
    run = Observed({"name": "Ana"})
    await run.graph.ainvoke({"messages": [turn(0)]}, on())
    assert await run.working.aget(run.store, "ana") == {"name": "Ana"}
    assert json.loads(run.seen()[-1]) == {"name": "Ana"}


def test_options_that_contradict_each_other_are_named() -> None:
    observed = WorkingMemory(schema=Profile, managed_by="observer")
    with pytest.raises(ConfigurationError, match="`read_only` is True and `managed_by`"):
        WorkingMemory(read_only=True, managed_by="observer")
    with pytest.raises(ConfigurationError, match="`managed_by` is 'observer'"):
        WorkingMemoryMiddleware(observed)


def test_no_value_by_schema_has_the_name_of_the_working_memory() -> None:
    observed = WorkingMemory(schema=Profile, managed_by="observer")
    named = "`observation.extract` has the name 'working_memory', which is that of the working"
    with pytest.raises(ConfigurationError, match=named):
        ObservationalMemory(
            ScriptedChatModel(),
            working_memory=observed,
            observation={"extract": {"working_memory": Profile}},
        )
