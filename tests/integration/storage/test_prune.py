"""Threads that nobody came back to for long are deleted everywhere, and no others."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_om import (
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from langgraph_om.tools.cli import main
from support.agents import on_thread, scripted
from support.clock import START, Clock
from support.recalling import index_of

if TYPE_CHECKING:
    from pathlib import Path

FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
OLD, NEW = on_thread("old", resource_id="ana"), on_thread("new", resource_id="ana")
SAID = "The gate code of the house in Bergen is 4711, my sister told me so."


def test_threads_that_nobody_came_back_to_are_deleted_everywhere(url: str) -> None:
    clock, saver, store = Clock(), InMemorySaver(), InMemoryStore(index=index_of())
    model = scripted()
    with closing(SQLAlchemyArchive(url)) as archive:
        memory = ObservationalMemory(
            model,
            observation={"message_tokens": 200, "buffer_tokens": False},
            buffering=InlineBuffering(),
            archive=archive,
            retrieval={"vector": True},
            clock=clock,
        )
        agent = create_memory_agent(model, memory=memory, checkpointer=saver, store=store)

        def say(config: Any, number: int) -> None:
            said = HumanMessage(f"{SAID} {number} " * 20, id=f"m{number}")
            agent.invoke({"messages": [said]}, config)

        def threads() -> list[str]:
            return sorted(thread.id for thread in memory.threads("ana"))

        for config in (OLD, NEW):
            for number in range(3):
                say(config, number)
        clock.advance(days=91)
        say(NEW, 3)
        assert memory.flush(60)
        with pytest.raises(ConfigurationError, match="`store`"):
            memory.prune(timedelta(days=90))
        assert memory.prune(timedelta(days=90), dry_run=True).threads == ["old"]
        assert threads() == ["new", "old"]
        assert memory.prune(timedelta(days=90), store=store).threads == ["old"]
        assert memory.prune(timedelta(days=90), store=store, checkpointer=saver).threads == []
        assert threads() == ["new"]
        assert {hit.thread_id for hit in memory.search("gate", resource_id="ana")} == {"new"}
        assert len(store.list_namespaces(prefix=("langgraph_om",))) > 0
        assert "old" not in {
            str(item.value["thread_id"]) for item in store.search(("langgraph_om",), limit=999)
        }
        # Its checkpoint is left: what it had then does not come back with its next turn.
        say(OLD, 4)
        assert memory.flush(60)
        kept = [each.key for each in archive.messages("old", limit=99)]
        assert "m4" in kept
        assert not {"m0", "m1", "m2"} & {*kept}
        clock.advance(days=91)
        pruned = memory.prune(timedelta(days=90), store=store, checkpointer=saver)
        assert sorted(pruned.threads) == ["new", "old"]
        assert not [*saver.list(None)]


def test_a_thread_that_somebody_comes_back_to_stays(tmp_path: Path) -> None:
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        said = [("m", HumanMessage("Hello."), True)]
        archive.append("outer", "ana", said, after=None, now=START)
        later = START + timedelta(days=2)
        archive.append("outer|>inner", "ana", said, after=None, now=later, parent="outer")
        assert archive.idle_threads(START + timedelta(days=1)) == []
        assert archive.prune_threads(START + timedelta(days=1)) == []
        gone = archive.prune_threads(later + timedelta(days=1))
        assert [thread.id for thread in gone] == ["outer"]
        assert archive.messages("outer|>inner", limit=9) == []


def test_what_cannot_be_meant_is_named() -> None:
    memory = ObservationalMemory(scripted(), archive="sqlite://")
    with pytest.raises(ConfigurationError, match="`older_than`"):
        memory.prune(90)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="`retention`"):
        memory.prune()
    with pytest.raises(ConfigurationError, match="`retention`"):
        ObservationalMemory(scripted(), retention=timedelta(0))
    with pytest.raises(ConfigurationError, match="`archive`"):
        ObservationalMemory(scripted()).prune(timedelta(days=90))


PLACES = ("Bergen", "Lyon", "Porto", "Ghent")


def said_of(number: int, place: str) -> HumanMessage:
    return HumanMessage(f"The code of the house in {place} is {number}. " * 4, id=f"m{number}")


@pytest.mark.parametrize("evict", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_old_messages_of_a_thread_that_goes_on_are_deleted(
    url: str, *, keep: bool, evict: bool
) -> None:
    clock, store = Clock(), InMemoryStore(index=index_of())
    options: dict[str, Any] = {
        "observation": {"message_tokens": 60, "buffer_tokens": False},
        "buffering": InlineBuffering(),
        "retrieval": {"vector": True},
        "retention": timedelta(days=90),
        "clock": clock,
    }
    model = ScriptedChatModel("Noted.", observer=ExtractiveObserver().reply)
    with closing(SQLAlchemyArchive(url)) as archive:

        def build() -> tuple[ObservationalMemory, Any]:
            memory = ObservationalMemory(model, archive=archive, evict=evict, **options)
            own = {"memory": memory, "checkpointer": saver, "store": store}
            return memory, create_memory_agent(model, **own)

        saver = InMemorySaver()
        memory, agent = build()

        def say(number: int, place: str) -> None:
            agent.invoke({"messages": [said_of(number, place)]}, NEW)
            assert memory.flush(60)

        def kept() -> str:
            hits = [hit.excerpt for hit in memory.search("house code", resource_id="ana")]
            texts = store.search(("langgraph_om",), limit=999)
            with archive.engine.connect() as connection:
                words = connection.exec_driver_sql("SELECT words FROM om_texts").all()
            rows = archive.messages("new", limit=99, visible_only=False)
            return f"{hits} {texts} {words} {rows}".lower()

        for number, place in enumerate(PLACES[:3]):
            say(number, place)
            clock.advance(days=40)
        would = memory.prune(dry_run=True)
        assert (would.threads, would.messages) == ([], 1)
        assert "bergen" in kept()
        log = str(agent.get_state(NEW).values["om"]["log"])
        assert "Bergen" in log
        assert memory.prune(keep_observations=keep, store=store).messages == 1
        assert memory.prune(keep_observations=keep, store=store).messages == 0
        assert [place.lower() in kept() for place in PLACES] == [keep, True, True, False]
        memory, agent = build()  # a process that knows nothing of it
        say(3, PLACES[3])
        log = str(agent.get_state(NEW).values["om"]["log"])
        assert ("Bergen" in log, "Lyon" in log) == (keep, True)
        # A client that sends the whole history again, and a fork, bring nothing back.
        sent = [said_of(n, each) for n, each in enumerate(PLACES)]
        agent.invoke({"messages": [*sent, HumanMessage("And now?", id="now")]}, NEW)
        early = [*agent.get_state_history(NEW)][-3].config
        agent.invoke({"messages": [HumanMessage("Another way.", id="fork")]}, early)
        assert memory.flush(60)
        assert ("bergen" in kept()) == keep
        assert memory.search("Bergen", resource_id="ana") == [] or keep


def test_the_log_that_threads_share_is_pruned_with_them(tmp_path: Path) -> None:
    clock, saver = Clock(), InMemorySaver()
    model = ScriptedChatModel("Noted.", observer=ExtractiveObserver().reply)
    with ObservationalMemory(
        model,
        observation={"message_tokens": 60, "buffer_tokens": False},
        buffering=InlineBuffering(),
        archive=f"sqlite:///{tmp_path / 'archive.db'}",
        scope="resource",
        clock=clock,
    ) as memory:
        agent = create_memory_agent(model, memory=memory, checkpointer=saver)

        def say(config: Any, place: str) -> None:
            said = HumanMessage(f"The code of the house in {place} is 4711. " * 4, id=place)
            agent.invoke({"messages": [said]}, config)

        say(OLD, "Bergen")
        memory.of(agent, OLD).observe()
        say(NEW, "Lyon")
        memory.of(agent, NEW).observe()
        clock.advance(days=91)
        say(NEW, "Porto")
        memory.of(agent, NEW).observe()
        shown = str(memory.llm_input_messages(agent.get_state(NEW)))
        assert "Bergen" in shown
        pruned = memory.prune(timedelta(days=90), checkpointer=saver)
        assert pruned.threads == ["old"]
        assert pruned.messages > 0
        say(NEW, "Ghent")
        log = str(agent.get_state(NEW).values["om"]["log"])
        shown = str(memory.archive.groups(resource_id="ana")) + log
        assert [place for place in PLACES if place in shown] == ["Porto", "Ghent"]


def test_the_command_prunes_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with closing(SQLAlchemyArchive(url)) as archive:
        for number, place in enumerate(PLACES):
            said = (f"m{number}", said_of(number, place), True)
            then = START + timedelta(days=number)
            archive.append("t", "ana", [said], after=None, now=then, times={said[0]: then})
        archive.append("t", "ana", [("new", HumanMessage("Hi."), True)], after="m3", now=FUTURE)
        assert main(["prune", "9", "--archive", url, "--dry-run", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"threads": [], "messages": 4, "observations": 0}
        assert main(["prune", "9", "--archive", url]) == 0
        assert "4 message(s)" in capsys.readouterr().out
        assert [each.key for each in archive.messages("t", limit=9)] == ["new"]
        assert not any(place in (tmp_path / "archive.db").read_text("latin-1") for place in PLACES)
    assert main(["prune", "9", "--url", "http://127.0.0.1:9"]) == 3


def test_what_the_agent_would_do_next_goes_with_what_it_was_about(tmp_path: Path) -> None:
    clock, prompts = Clock(), list[str]()

    def answer(prompt: list[BaseMessage]) -> str:
        prompts.append(" ".join(message.text for message in prompt))
        return "Noted."

    model = ScriptedChatModel(answer, observer=ExtractiveObserver().reply)
    with ObservationalMemory(
        model,
        archive=f"sqlite:///{tmp_path / 'archive.db'}",
        evict=True,
        observation={"message_tokens": 60, "buffer_tokens": False},
        buffering=InlineBuffering(),
        clock=clock,
    ) as memory:
        agent = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
        for number, place in enumerate(["Lyon", "Bergen"]):
            agent.invoke({"messages": [said_of(number, place)]}, NEW)
        agent.invoke({"messages": [HumanMessage("ok", id="ok")]}, NEW)
        assert "Bergen" in prompts[-1]
        clock.advance(days=100)
        agent.invoke({"messages": [HumanMessage("Hello again.", id="again")]}, NEW)
        memory.prune(timedelta(days=90))
        agent.invoke({"messages": [HumanMessage("What is new?", id="new")]}, NEW)
        assert "Bergen" not in prompts[-1]
