"""Titles of threads: made after the first answer, renewed by the Observer, or set by a person."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import get_runtime

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from langgraph_om.tools.cli import main
from langgraph_om.tools.inspector import memory_app
from support.agents import (
    DOORS,
    MIDDLEWARE,
    Agent,
    make_agent,
    of_kind,
    on_thread,
    record_of,
    say,
    turns,
)
from support.clock import Clock

SLOW = pytest.mark.slow
each_door = pytest.mark.parametrize(
    "door",
    [
        pytest.param(door, marks=() if door in ("plain", "agent", "middleware") else SLOW)
        for door in DOORS
    ],
)
CONFIG = on_thread("t", resource_id="ann")
ASKED = HumanMessage("Which tent is best for the Vosges in March?", id="q1")
TITLE = "<thread-title>Tents for the Vosges</thread-title>"


def model(title: Any = TITLE, **replies: Any) -> ScriptedChatModel:
    replies.setdefault("observer", ExtractiveObserver().reply)
    replies.setdefault("actor", "A tunnel tent.")
    return ScriptedChatModel(title=title, **replies)


def agent(door: str = "agent", title: Any = TITLE, **options: Any) -> Agent:
    options = {"thread_title": True, "buffering": InlineBuffering(), **options}
    replies = options.pop("replies", {})
    return make_agent(door, InMemorySaver(), model=model(title, **replies), **options)


def questions(of: Agent) -> list[str]:
    return [str(call["messages"][-1].content) for call in of.model.calls if call["role"] == "title"]


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


def title_of(of: Agent, thread: Any = CONFIG) -> str | None:
    found: str | None = record_of(of.graph, thread)["thread_title"]
    return found


# --- Made ----------------------------------------------------------------------------------------


@each_door
@pytest.mark.parametrize("buffering", [InlineBuffering, BackgroundBuffering])
def test_a_thread_has_a_title_after_its_first_answer(door: str, buffering: Any) -> None:
    asking = agent(door, buffering=buffering())
    parts = say(asking.graph, CONFIG, ASKED)
    asking.memory.flush()
    parts += say(asking.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    asking.memory.flush()
    parts += say(asking.graph, CONFIG, HumanMessage("Thanks.", id="q3"))
    assert title_of(asking) == "Tents for the Vosges"
    assert [data["newTitle"] for data in of_kind(parts, "thread-update")] == [title_of(asking)]
    assert len(questions(asking)) == 1
    assert "Which tent is best" in questions(asking)[0]
    assert "A tunnel tent." in questions(asking)[0]
    assert "And for two?" not in questions(asking)[0]


@pytest.mark.parametrize("door", ["agent", *MIDDLEWARE])
def test_no_turn_is_needed_after_the_answer_where_memory_has_a_last_step(door: str) -> None:
    asking = agent(door)
    say(asking.graph, CONFIG, ASKED)
    assert title_of(asking) == "Tents for the Vosges"


@pytest.mark.parametrize("buffering", [InlineBuffering, BackgroundBuffering])
def test_a_title_of_the_observer_comes_with_the_first_observation(buffering: Any) -> None:
    extract = ExtractiveObserver().reply
    observer = model(
        observer=lambda messages: f"{extract(messages).partition('<thread-title>')[0]}{TITLE}"
    )
    limits = {"message_tokens": 4000, "buffer_tokens": 60, "thread_title": True}
    asking = make_agent(
        "agent", InMemorySaver(), model=observer, buffering=buffering(), observation=limits
    )
    told: list[Any] = []
    for message in turns(8):
        told += say(asking.graph, CONFIG, message)
        asking.memory.flush()
    assert of_kind(told, "activation") == []
    assert title_of(asking) == "Tents for the Vosges"
    assert [data["newTitle"] for data in of_kind(told, "thread-update")] == [title_of(asking)]


@pytest.mark.parametrize("thread_title", [True, False])
def test_a_title_that_a_person_sets_is_told_with_the_next_step(*, thread_title: bool) -> None:
    asking = agent(thread_title=thread_title)
    say(asking.graph, CONFIG, ASKED)
    thread = asking.memory.of(asking.graph, CONFIG)
    thread.set_title("Tents")
    thread.observe()  # which tells no stream
    told = say(asking.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    assert [data["newTitle"] for data in of_kind(told, "thread-update")] == ["Tents"]


async def test_a_title_is_made_without_a_graph_and_without_blocking_the_loop() -> None:
    memory = ObservationalMemory(
        model(), thread_title=True, buffering=InlineBuffering(), clock=Clock()
    )
    said: list[BaseMessage] = [ASKED, AIMessage("A tunnel tent.", id="a1")]
    result = await memory.astep(None, said, thread_id="t", final=True)
    assert result.record["thread_title"] == "Tents for the Vosges"


def test_a_turn_does_not_wait_for_the_title(tmp_path: Any) -> None:
    slow = ScriptedChatModel(title=TITLE, observer=ExtractiveObserver().reply, delay=0.3)
    asking = make_agent(
        "agent", InMemorySaver(), model=model(), observed_by=slow, thread_title=True,
        archive=f"sqlite:///{tmp_path / 'a.db'}", buffering=BackgroundBuffering(),
    )  # fmt: skip
    say(asking.graph, CONFIG, ASKED)
    assert title_of(asking) is None
    assert [thread.title for thread in asking.memory.threads("ann")] == [None]
    asking.memory.flush()
    assert [thread.title for thread in asking.memory.threads("ann")] == ["Tents for the Vosges"]


def test_a_title_has_a_model_and_instructions_of_its_own_that_the_run_may_choose() -> None:
    other = model("<thread-title>Zelte</thread-title>")
    options = {
        "model": lambda config: other,
        "instructions": lambda config: f"Write {config['configurable']['language']}.",
    }
    asking = agent(thread_title=options)
    config = on_thread("t", language="German")
    say(asking.graph, config, ASKED)
    assert title_of(asking, config) == "Zelte"
    assert "Write German." in str(other.calls[0]["messages"][-1].content)
    assert questions(asking) == []


@each_door
def test_a_title_waits_for_as_many_messages_as_are_wanted(door: str) -> None:
    asking = agent(door, thread_title={"min_messages": 4})
    say(asking.graph, CONFIG, ASKED)
    say(asking.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    say(asking.graph, CONFIG, HumanMessage("Thanks.", id="q3"))
    assert title_of(asking) == "Tents for the Vosges"
    assert len(questions(asking)) == 1
    assert "Which tent is best" in questions(asking)[0]
    assert "And for two?" in questions(asking)[0]
    assert "Thanks." not in questions(asking)[0]
    early = agent(door, thread_title={"min_messages": 40})
    say(early.graph, CONFIG, ASKED)
    say(early.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    assert title_of(early) is None
    assert questions(early) == []


@pytest.mark.parametrize("door", ["agent", "middleware"])
@pytest.mark.parametrize("buffering", [InlineBuffering, BackgroundBuffering])
def test_functions_of_a_title_may_read_the_run_s_context(door: str, buffering: Any) -> None:
    models = {"German": model("<thread-title>Zelte</thread-title>"), "French": model()}
    asking = agent(door, buffering=buffering(), thread_title={
        "model": lambda _: models[get_runtime().context["language"]],
        "instructions": lambda _: f"Write {get_runtime().context['language']}.",
    })  # fmt: skip
    for text in ("Which tent?", "And for two?"):
        given: Any = {"messages": [HumanMessage(text)]}
        asking.graph.invoke(given, CONFIG, context={"language": "German"})
        asking.memory.flush()
    assert title_of(asking) == "Zelte"
    assert "Write German." in str(models["German"].calls[0]["messages"][-1].content)
    assert models["French"].calls == []


def test_what_a_hook_redacts_is_in_no_question_and_no_title() -> None:
    def hide(messages: list[BaseMessage], about: Any) -> list[BaseMessage]:
        assert about["thread_id"] == "t"
        return [m.model_copy(update={"content": "[hidden]"}) for m in messages]

    hooks = {"before_observation": hide, "after_observation": lambda text, about: text.upper()}
    asking = agent(hooks=hooks)
    say(asking.graph, CONFIG, ASKED)
    assert "[hidden]" in questions(asking)[0]
    assert "Vosges" not in questions(asking)[0]
    assert title_of(asking) == "TENTS FOR THE VOSGES"


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Tents for the Vosges", "Tents for the Vosges"),
        ("Here it is: <thread-title>Tents</thread-title>", None),
        ("<think>hm</think>\n<thread-title>Tents</thread-title>", "Tents"),
        ("I would take a tunnel tent, since in March there can be storms in the Vosges.", None),
        ("One\nTwo", None),
        ("I cannot help with that", None),
        ("", None),
    ],
)
def test_only_a_title_is_taken_for_one(answer: str, title: str | None) -> None:
    asking = agent(title=answer)
    say(asking.graph, CONFIG, ASKED)
    assert title_of(asking) == title


def test_a_failed_question_is_harmless_counted_nowhere_and_asked_again_a_few_times() -> None:
    asking = agent(title=RuntimeError("no key"), hooks={"on_observation_end": print})
    parts = []
    for number in range(6):
        parts += say(asking.graph, CONFIG, HumanMessage(f"Which tent? {number}", id=f"q{number}"))
    record = record_of(asking.graph, CONFIG)
    assert record["attempts"] == {}
    assert len(questions(asking)) == 3
    assert {part["type"] for part in parts} == {"data-om-status"}
    assert asking.memory.status(asking.graph.get_state(CONFIG))["windows"]


def agent_that_renews(door: str = "agent") -> Agent:
    answer = (
        "<observations>\n* 🔴 (09:00) User plans a hike\n</observations>\n"
        "<thread-title>Hiking in spring</thread-title>"
    )
    observation = {"message_tokens": 60, "buffer_tokens": False}
    return agent(door, observation=observation, replies={"observer": answer})


def ask_on(asking: Agent) -> list[Any]:
    text = f"{ASKED.content} And what about number {{}} of my list?"
    asked = [HumanMessage(text.format(number), id=f"p{number}") for number in range(6)]
    return [part for each in asked for part in say(asking.graph, CONFIG, each)]


def test_what_the_observer_suggests_renews_the_title() -> None:
    asking = agent_that_renews()
    parts = ask_on(asking)
    assert title_of(asking) == "Hiking in spring"
    updates = [(data.get("oldTitle"), data["newTitle"]) for data in of_kind(parts, "thread-update")]
    assert ("Tents for the Vosges", "Hiking in spring") in updates


# --- Set by a person -----------------------------------------------------------------------------


@each_door
def test_a_person_s_title_stays_and_says_so(door: str) -> None:
    asking = agent_that_renews(door)
    say(asking.graph, CONFIG, ASKED)
    asking.graph.update_state(CONFIG, {"om": asking.memory.updates.set_title("  My\ntent ")})
    parts = ask_on(asking)
    assert record_of(asking.graph, CONFIG)["log"]
    assert title_of(asking) == "My tent"
    assert record_of(asking.graph, CONFIG)["title"]["by"] == "person"
    assert [data["newTitle"] for data in of_kind(parts, "thread-update")] == ["My tent"]


def test_a_person_s_title_is_kept_by_the_archive_and_given_back_to_memory(tmp_path: Any) -> None:
    asking = agent(archive=f"sqlite:///{tmp_path / 'a.db'}")

    def listed() -> list[str | None]:
        return [thread.title for thread in asking.memory.threads("ann")]

    say(asking.graph, CONFIG, ASKED)
    assert listed() == ["Tents for the Vosges"]
    asking.graph.update_state(CONFIG, {"om": asking.memory.updates.set_title("My tent")})
    say(asking.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    assert listed() == ["My tent"]
    asking.graph.update_state(CONFIG, {"om": asking.memory.updates.set_title(None)})
    say(asking.graph, CONFIG, HumanMessage("And for three?", id="q3"))
    assert title_of(asking) == "Tents for the Vosges"
    assert len(questions(asking)) == 2


def test_without_the_option_a_person_may_set_and_remove_a_title(tmp_path: Any) -> None:
    asking = agent(thread_title=False, archive=f"sqlite:///{tmp_path / 'a.db'}")
    say(asking.graph, CONFIG, ASKED)
    assert title_of(asking) is None
    assert questions(asking) == []
    for title in ("My tent", None):
        asking.graph.update_state(CONFIG, {"om": asking.memory.updates.set_title(title)})
        say(asking.graph, CONFIG, HumanMessage(f"And {title}?", id=f"q{title}"))
        assert [thread.title for thread in asking.memory.threads("ann")] == [title]


def test_another_thread_that_observes_this_one_keeps_a_person_s_title(tmp_path: Any) -> None:
    answer = """<thread id="{id}">
<observations>
Date: Mar 2, 2026
* 🔴 (09:00) User plans a hike
</observations>
<thread-title>Hiking in spring</thread-title>
</thread>"""

    def observe(messages: list[BaseMessage]) -> str:
        text = str(messages[-1].content)
        if '<thread id="' not in text:
            return "<observations>\n* 🔴 (09:00) User says hello\n</observations>"
        return answer.format(id=text.split('<thread id="')[1].split('"', maxsplit=1)[0])

    asking = agent(
        scope="resource", archive=f"sqlite:///{tmp_path / 'a.db'}", obscure_thread_ids=False,
        observation={"message_tokens": 100, "buffer_tokens": False},
        replies={"observer": observe, "actor": "It depends on the wind. " * 10},
    )  # fmt: skip
    first, second = on_thread("one", resource_id="ann"), on_thread("two", resource_id="ann")
    say(asking.graph, first, ASKED)
    asking.graph.update_state(first, {"om": asking.memory.updates.set_title("My tent")})
    say(asking.graph, first, HumanMessage("And for two?", id="q2"))
    say(asking.graph, on_thread("three", resource_id="ann"), HumanMessage("For three?", id="t3"))
    parts = []
    for number in range(4):
        parts += say(asking.graph, second, HumanMessage(f"Hello {number} " * 9, id=f"b{number}"))
    known = record_of(asking.graph, second)["others"]["known"]
    assert any("plans a hike" in group["text"] for group in known)
    titles = {thread.id: thread.title for thread in asking.memory.threads("ann")}
    assert titles["one"] == "My tent"
    assert "Hiking in spring" not in [data["newTitle"] for data in of_kind(parts, "thread-update")]
    say(asking.graph, first, HumanMessage("So?", id="q3"))
    assert title_of(asking, first) == "My tent"


def test_a_fork_keeps_its_own_title() -> None:
    asking = agent()
    say(asking.graph, CONFIG, ASKED)
    before = asking.graph.get_state(CONFIG).config
    asking.graph.update_state(CONFIG, {"om": asking.memory.updates.set_title("Mine")})
    say(asking.graph, CONFIG, HumanMessage("And for two?", id="q2"))
    fork = asking.graph.update_state(before, None)
    assert asking.graph.get_state(fork).values["om"]["thread_title"] == "Tents for the Vosges"
    assert title_of(asking, fork) == "Tents for the Vosges"


@pytest.mark.parametrize("text", ["", "  \n", "x" * 121, 3])
def test_what_is_no_title_is_refused(text: Any) -> None:
    with pytest.raises(ConfigurationError, match="`text` is"):
        ObservationalMemory(model(), clock=Clock()).updates.set_title(text)


@pytest.mark.parametrize("value", [None, 1, "yes", {"modle": "x"}, {"instructions": 3}])
def test_what_is_no_setting_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="`thread_title"):
        ObservationalMemory(model(), thread_title=value)


# --- Shown ---------------------------------------------------------------------------------------


async def test_lists_show_the_title(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    archive = f"sqlite:///{tmp_path / 'a.db'}"
    asking = agent("middleware", archive=archive, retrieval=True)
    said = "Tents for the Vosges"
    say(asking.graph, CONFIG, ASKED)
    state = asking.graph.get_state(CONFIG)
    assert [thread.title for thread in asking.memory.threads("ann")] == [said]
    listed = asking.memory.recall(state, CONFIG, mode="threads")
    assert f"**{said}**" in listed["threads"]
    assert said in asking.memory.view(state).to_html()
    assert said in str(asking.memory.view(state))
    command = ["list", "--archive", archive, "--resource", "ann"]
    assert await asyncio.to_thread(main, command) == 0
    assert said in capsys.readouterr().out
    async with client(memory_app(asking.memory, graph=asking.graph)) as web:
        assert f'<a href="memory/t">{said}</a>' in (await web.get("/memory")).text
        assert said in (await web.get("/memory/t")).text
