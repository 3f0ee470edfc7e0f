"""Threads that nobody came back to for long are deleted everywhere, and no others."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_om import (
    ConfigurationError,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import on_thread, scripted
from support.clock import START, Clock
from support.recalling import index_of

if TYPE_CHECKING:
    from pathlib import Path

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
        assert memory.prune(timedelta(days=90), dry_run=True) == ["old"]
        assert threads() == ["new", "old"]
        assert memory.prune(timedelta(days=90), store=store) == ["old"]
        assert memory.prune(timedelta(days=90), store=store, checkpointer=saver) == []
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
        assert sorted(memory.prune(timedelta(days=90), store=store, checkpointer=saver)) == [
            "new",
            "old",
        ]
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
    with pytest.raises(ConfigurationError, match="`archive`"):
        ObservationalMemory(scripted()).prune(timedelta(days=90))
    shared = ObservationalMemory(scripted(), archive="sqlite://", scope="resource")
    assert shared.prune(timedelta(days=90), dry_run=True) == []
    with pytest.raises(ConfigurationError, match="`delete_thread`"):
        shared.prune(timedelta(days=90))
