"""A deletion at any moment of a step: nothing said before it is served afterwards."""

from __future__ import annotations

import os
import random
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_om import (
    BackgroundBuffering,
    InlineBuffering,
    ObservationalMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from langgraph_om.tools.sources import ArchiveSource
from support.clock import Clock
from support.examples import count_examples

CONFIG: Any = {"configurable": {"thread_id": "t", "resource_id": "ana"}}


def embed(texts: Any) -> list[list[float]]:
    return [[1.0, len(text) % 7] for text in texts]


class Overtaken:
    """An archive before one call of which something else happens."""

    def __init__(self, archive: SQLAlchemyArchive) -> None:
        self.archive, self.left, self.meanwhile = archive, -1, lambda: None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return SQLAlchemyArchive

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.archive, name)

        def call(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.meanwhile()
            return method(*args, **options)

        return call if callable(method) else method


def build(
    archive: Any, saver: InMemorySaver, store: Any = None, *, ahead: bool = False, **options: Any
) -> tuple[ObservationalMemory, Any]:
    observe = options.pop("observe", ExtractiveObserver().reply)
    model = ScriptedChatModel("Noted.", observer=observe)
    memory = ObservationalMemory(
        model,
        observation={"message_tokens": 120 if ahead else 40, "buffer_tokens": ahead and 0.2},
        buffering=BackgroundBuffering() if ahead else InlineBuffering(),
        archive=archive,
        retrieval={"vector": store is not None},
        **options,
    )
    return memory, create_memory_agent(model, memory=memory, checkpointer=saver, store=store)


def overtake(url: str, rng: random.Random) -> list[str]:
    """Return which of the facts from before the deletion are there afterwards."""
    saver, store = InMemorySaver(), InMemoryStore(index={"dims": 2, "embed": embed})
    options: Any = {"store": store, "evict": rng.random() < 0.5, "ahead": rng.random() < 0.5}
    memory, agent = build(SQLAlchemyArchive(url), saver, **options)
    other = Overtaken(SQLAlchemyArchive(url))
    same, other_agent = build(other, saver, **options)
    with memory, same:
        for n in range(4):
            said = f"The code of the door {n} is code{n}x, keep it for the whole of the winter."
            agent.invoke({"messages": [("user", said)]}, CONFIG)
        memory.flush()
        if rng.random() < 0.5:  # the other process has met the thread, or meets it in this step
            other_agent.invoke({"messages": [("user", "code4x opens the cellar door.")]}, CONFIG)
        gone: Any = {"checkpointer": saver, "store": store}
        other.meanwhile = lambda: memory.delete_thread("t", resource_id="ana", **gone)
        other.left = rng.randint(1, 30 if options["ahead"] else 12)
        for n in range(3):
            said = f"The weather of day {n} was fine, and we walked along the river for hours."
            other_agent.invoke({"messages": [("user", said)]}, CONFIG)
        same.flush(), memory.flush()
        assert other.left <= 0
        with memory.archive.engine.connect() as connection:
            jobs = connection.exec_driver_sql("SELECT result FROM om_jobs").all()
        texts = store.search(("langgraph_om",), limit=999)
        rows = memory.archive.messages("t", limit=99, visible_only=False)
        is_there = memory.archive.thread("t") is not None
        served = ArchiveSource(memory.archive, "ana").read("t") if is_there else ""
        log = other_agent.get_state(CONFIG).values.get("om", {}).get("log")
        kept = f"{rows} {memory.archive.groups(thread_id='t')} {served} {log} {jobs} {texts}"
    memory.archive.close()
    other.archive.close()
    return [f"code{n}x" for n in range(5) if f"code{n}x" in kept]


TRIES = int(os.environ.get("OM_DELETIONS", "18"))
"""How many are made where slow tests run; 500 take ten minutes and more."""


@pytest.mark.parametrize("seed", range(count_examples(6)))
def test_nothing_of_before_a_deletion_comes_back(seed: int, tmp_path: Any) -> None:
    assert overtake(f"sqlite:///{tmp_path}/archive.db", random.Random(seed)) == []  # noqa: S311


@pytest.mark.slow
def test_nothing_of_before_a_deletion_comes_back_in_many_tries(tmp_path: Any) -> None:
    for seed in range(6, TRIES):
        assert overtake(f"sqlite:///{tmp_path}/{seed}.db", random.Random(seed)) == [], seed  # noqa: S311


def test_what_was_observed_while_its_user_was_deleted_is_kept_nowhere(tmp_path: Any) -> None:
    saver, deletes = InMemorySaver(), False

    def observe(messages: list[BaseMessage]) -> str:
        assert not deletes or memory.delete_resource("ana", checkpointer=saver) == []
        return ExtractiveObserver().reply(messages)

    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path}/archive.db")
    memory, agent = build(archive, saver, observe=observe, evict=True)
    with memory, closing(archive):
        agent.invoke({"messages": [("user", "The zanzibar museum is open.")]}, CONFIG)
        deletes = True
        said = "And the zanzibar harbour is closed for the winter, so we go by train. " * 4
        agent.invoke({"messages": [("user", said)]}, CONFIG)
        assert "museum" not in f"{saver.storage} {saver.writes} {saver.blobs}"
        assert archive.groups(thread_id="t") == agent.get_state(CONFIG).values["om"]["log"] == []


def prune_meanwhile(url: str, rng: random.Random) -> list[str]:
    """Return which words of old messages are there after they were pruned, and what of the log."""
    clock, saver = Clock(), InMemorySaver()
    store = InMemoryStore(index={"dims": 2, "embed": embed})
    options: Any = {"store": store, "evict": rng.random() < 0.5, "ahead": rng.random() < 0.5}
    options["clock"] = clock
    memory, agent = build(SQLAlchemyArchive(url), saver, **options)
    other = Overtaken(SQLAlchemyArchive(url))
    same, other_agent = build(other, saver, **options)
    with memory, same:
        said = [
            HumanMessage(f"The code of the door {n} is code{n}x, keep it for all of the winter.")
            for n in range(4)
        ]
        for n, message in enumerate(said):
            message.id = f"m{n}"
            agent.invoke({"messages": [message]}, CONFIG)
            clock.advance(days=10)
        memory.flush()
        early = rng.choice([*agent.get_state_history(CONFIG)]).config
        other.meanwhile = lambda: memory.prune(timedelta(days=25), store=store)
        other.left = rng.randint(1, 30 if options["ahead"] else 12)
        for n in range(3):
            other_agent.invoke(
                {"messages": [("user", f"The weather of day {n} was fine.")]}, CONFIG
            )
        assert other.left <= 0
        another, next_agent = build(SQLAlchemyArchive(url), saver, **options)  # which knows nothing
        with another:
            next_agent.invoke({"messages": [*said, ("user", "And now?")]}, CONFIG)
            log = next_agent.get_state(CONFIG).values["om"]["log"]
            next_agent.invoke({"messages": [("user", "Another way.")]}, early)
            another.flush(), same.flush(), memory.flush()
        with memory.archive.engine.connect() as connection:
            words = connection.exec_driver_sql("SELECT words FROM om_texts WHERE kind = 'message'")
            kept = f"{words.all()} {memory.archive.messages('t', limit=99, visible_only=False)}"
        texts = store.search(("langgraph_om",), limit=999)
        kept += str([item for item in texts if item.namespace[-1] == "messages"])
        groups = [*memory.archive.groups(thread_id="t"), *log]
    for archive in (memory.archive, other.archive, another.archive):
        archive.close()
    old = [each["text"] for each in groups if each["ranges"][-1][1] in {"m0", "m1"}]
    return [*old, *(f"code{n}x" for n in range(2) if f"code{n}x" in kept)]


@pytest.mark.parametrize("seed", range(count_examples(12)))
def test_nothing_that_was_pruned_comes_back(seed: int, tmp_path: Any) -> None:
    assert prune_meanwhile(f"sqlite:///{tmp_path}/archive.db", random.Random(seed)) == []  # noqa: S311


def test_what_a_person_takes_back_is_not_served_and_the_graph_stays_at_rest(tmp_path: Any) -> None:
    archive = SQLAlchemyArchive(f"sqlite:///{tmp_path}/archive.db")
    memory, agent = build(archive, InMemorySaver())
    with memory:
        agent.invoke({"messages": [("user", "My bank PIN is 9137 and I live in Lyon.")]}, CONFIG)
        agent.invoke({"messages": [("user", "I like small museums on Sundays.")]}, CONFIG)
        thread = memory.of(agent, CONFIG)
        thread.observe()
        assert "9137" in str(ArchiveSource(archive, "ana").read("t")["om"]["log"])
        thread.forget("9137")
        thread.remember("The red door sticks.")
        served = str(ArchiveSource(archive, "ana").read("t")["om"]["log"])
        hits = [
            hit.excerpt for hit in memory.search("PIN", resource_id="ana") if hit.kind != "message"
        ]
        assert ("9137" in served, "red door" in served, hits) == (False, True, [])
        assert agent.get_state(CONFIG).next == ()
    archive.close()
