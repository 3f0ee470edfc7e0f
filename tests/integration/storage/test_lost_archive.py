"""An archive that was emptied, restored or swapped is noticed, and nothing is forgotten for it."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_om.archive import SQLAlchemyArchive
from support.agents import make_agent, on_thread, say, talk, turn, turns, values
from support.shared_world import Agent, check_thread, sharing

if TYPE_CHECKING:
    from pathlib import Path

LACKS = "lacks what it had"


def open_file(path: Path) -> SQLAlchemyArchive:
    return SQLAlchemyArchive(f"sqlite:///{path}")


def begin_again(saver: InMemorySaver, former: Agent | None = None, **options: Any) -> Agent:
    """A new process over the same checkpointer, with another archive."""
    agent = Agent(sharing(SQLAlchemyArchive("sqlite://"), **options), saver)
    if former is not None:
        agent.numbers = former.numbers
    return agent


def warned(caplog: pytest.LogCaptureFixture) -> int:
    return sum(LACKS in record.getMessage() for record in caplog.records)


# --- A log that threads share --------------------------------------------------------------------


def test_thread_brings_its_observations_to_an_archive_that_was_emptied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saver = InMemorySaver()
    agent = begin_again(saver, evict=True)
    for _ in range(30):
        agent.say("trips")
    before = [group["id"] for group in agent.state("trips")[0]["log"]]
    agent = begin_again(saver, agent, evict=True)
    with caplog.at_level(logging.WARNING):
        agent.say("trips")
        agent.say("trips")
    after = [group["id"] for group in agent.state("trips")[0]["log"]]
    assert len(before) > 3
    assert after[: len(before)] == before
    assert warned(caplog) == 1


def test_each_thread_brings_its_observations_to_an_archive_that_was_emptied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saver = InMemorySaver()
    agent = begin_again(saver)
    for _ in range(12):
        agent.say("trips")
        agent.say("work")
    agent = begin_again(saver, agent)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            agent.say("trips")
            agent.say("work")
    assert warned(caplog) == 1
    for thread in ("trips", "work"):
        check_thread(agent, thread)
    # A thread that comes late to another emptied one does so too.
    before = {g["id"] for g in agent.state("work")[0]["log"] if g["thread_id"] == "work"}
    agent = begin_again(saver, agent)
    for _ in range(40):  # the new log's revision is the higher one by then
        agent.say("trips")
    agent.say("work")
    assert before <= {group["id"] for group in agent.state("work")[0]["log"]}
    check_thread(agent, "work")


def test_older_copy_of_the_archive_takes_what_threads_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saver, file, copy = InMemorySaver(), tmp_path / "a.db", tmp_path / "copy.db"
    agent = Agent(sharing(open_file(file)), saver)
    for _ in range(8):
        agent.say("trips")
    assert isinstance(agent.memory.archive, SQLAlchemyArchive)
    agent.memory.archive.close()
    shutil.copy(file, copy)
    for _ in range(8):
        agent.say("trips")
    before = agent.state("trips")[0]["log"]
    numbers = agent.numbers
    agent = Agent(sharing(open_file(copy)), saver)
    agent.numbers = numbers
    with caplog.at_level(logging.WARNING):
        agent.say("trips")
    assert [g["id"] for g in before] == [g["id"] for g in agent.state("trips")[0]["log"]][
        : len(before)
    ]
    assert warned(caplog) == 1
    check_thread(agent, "trips")


# --- A thread of its own -------------------------------------------------------------------------


def test_nothing_is_evicted_that_a_swapped_archive_lacks(caplog: pytest.LogCaptureFixture) -> None:
    saver = InMemorySaver()
    agent = make_agent("agent", saver, messages=200, archive="sqlite://", evict=True)
    talk(agent.graph, on_thread(), turns(12))
    left = {message.id for message in values(agent.graph, on_thread())["messages"]}
    swapped = SQLAlchemyArchive("sqlite://")
    agent = make_agent("agent", saver, messages=200, archive=swapped, evict=True)
    with caplog.at_level(logging.WARNING):
        talk(agent.graph, on_thread(), turns(8, start=12))
    assert warned(caplog) == 1
    kept = {message.id for message in values(agent.graph, on_thread())["messages"]}
    archived = {row.key for row in swapped.messages("t", limit=1000, visible_only=False)}
    assert left - kept <= archived


# --- A deletion ----------------------------------------------------------------------------------


def survive(delete: str, **options: Any) -> tuple[Any, SQLAlchemyArchive, Any]:
    archive = SQLAlchemyArchive("sqlite://")
    config = on_thread(resource_id="ana")
    options = {"messages": 200, **options}
    agent = make_agent("agent", InMemorySaver(), archive=archive, **options)
    talk(agent.graph, config, turns(10))
    if delete == "thread":
        agent.memory.delete_thread("t", store=options.get("store"))
    else:
        agent.memory.delete_resource("ana")
    return agent, archive, config


@pytest.mark.parametrize("delete", ["thread", "resource"])
@pytest.mark.parametrize("evict", [False, True])
def test_copy_that_outlives_a_deletion_archives_only_what_follows(
    delete: str, caplog: pytest.LogCaptureFixture, *, evict: bool
) -> None:
    agent, archive, config = survive(delete, evict=evict)
    had = [message.id for message in values(agent.graph, config)["messages"]]
    with caplog.at_level(logging.WARNING):
        talk(agent.graph, config, turns(14, start=10))
    archived = [row.key for row in archive.messages("t", limit=1000, visible_only=False)]
    assert archived == [key for n in range(10, 24) for key in (f"h{n}", f"h{n}-answer")]
    kept = [message.id for message in values(agent.graph, config)["messages"]]
    assert kept[: len(had)] == had
    assert (len(kept) < len(had) + 28) == evict
    starts = [span[0] for group in archive.groups(thread_id="t") for span in group["ranges"]]
    assert not set(starts) & {f"h{number}" for number in range(6)}
    assert warned(caplog) == 0


@pytest.mark.parametrize("evict", [False, True])
@pytest.mark.parametrize("removed", [1, 3])
def test_nothing_comes_back_where_the_newest_messages_are_removed_after_a_deletion(
    removed: int, *, evict: bool
) -> None:
    agent, archive, config = survive("thread", evict=evict)
    had = values(agent.graph, config)["messages"]
    gone = [RemoveMessage(id=str(message.id)) for message in had[-removed:]]
    say(agent.graph, config, *gone, turn(10))
    talk(agent.graph, config, turns(8, start=11))
    archived = [row.key for row in archive.messages("t", limit=1000, visible_only=False)]
    assert archived == [key for n in range(10, 19) for key in (f"h{n}", f"h{n}-answer")]


@pytest.mark.parametrize("removed", [3, 5])
def test_nothing_comes_back_where_the_last_message_before_a_deletion_is_removed(
    removed: int,
) -> None:
    """With three removed, the last one is there still."""
    agent, archive, config = survive("thread", messages=20_000)
    talk(agent.graph, config, turns(2, start=10))
    had = values(agent.graph, config)["messages"]
    gone = [RemoveMessage(id=str(message.id)) for message in had[-removed:]]
    say(agent.graph, config, *gone, turn(20))
    talk(agent.graph, config, turns(2, start=21))
    said = [key for n in (10, 11, 20, 21, 22) for key in (f"h{n}", f"h{n}-answer")]
    archived = [row.key for row in archive.messages("t", limit=1000, visible_only=False)]
    left = {message.id for message in values(agent.graph, config)["messages"]}
    assert [key for key in archived if key in left] == [key for key in said if key in left]
    assert set(archived) <= set(said)


def test_search_by_meaning_brings_nothing_back_where_that_message_is_removed() -> None:
    store = InMemoryStore(index={"dims": 1, "embed": lambda texts: [[1.0] for _ in texts]})
    agent, archive, config = survive(
        "thread", messages=20_000, store=store, retrieval={"vector": True}
    )
    talk(agent.graph, config, turns(2, start=10))
    had = values(agent.graph, config)["messages"]
    gone = [RemoveMessage(id=str(message.id)) for message in had[-5:]]
    say(agent.graph, config, *gone, turn(20))
    assert agent.memory.flush(60)
    places = store.list_namespaces(limit=1000)
    kept = [item.value for place in places for item in store.search(place, limit=1000)]
    found = {value["cursor"] for value in kept if "cursor" in value}
    assert {"h20", "h20-answer"} <= found
    assert found.isdisjoint(str(message.id) for message in had[:-5])
    assert archive.contains("t", ["h8", "h20"]) == {"h20"}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("messages", [200, 20_000])
def test_fork_from_before_a_deletion_is_a_branch_of_its_own(
    messages: int, caplog: pytest.LogCaptureFixture, *, is_named: bool
) -> None:
    agent, archive, config = survive("thread", messages=messages)
    early = agent.graph.get_state(config).config["configurable"]
    talk(agent.graph, config, turns(2, start=10))
    whose = config["configurable"] if is_named else {}
    say(agent.graph, {"configurable": {**whose, **early}}, turn(50))
    assert [row.key for row in archive.messages("t", limit=99)] == ["h50", "h50-answer"]
    branch = values(agent.graph, config)["om"]["branch"]
    own = archive.messages("t", limit=99, branch=branch)
    assert [row.key for row in own] == ["h50", "h50-answer"]
    assert archive.contains("t", ["h10", "h11-answer"]) == {"h10", "h11-answer"}
    assert warned(caplog) == 0


@pytest.mark.parametrize("evict", [False, True])
def test_branches_do_not_mix_in_an_archive_that_was_emptied(*, evict: bool) -> None:
    saver = InMemorySaver()
    agent = make_agent("agent", saver, messages=200, archive="sqlite://", evict=evict)
    talk(agent.graph, on_thread(), turns(2))
    early = agent.graph.get_state(on_thread()).config
    ends, said = [], []
    for start in (20, 50):
        talk(agent.graph, early, turns(1, start=start))
        talk(agent.graph, on_thread(), turns(14, start=start + 1))
        ends.append(agent.graph.get_state(on_thread()).config)
    emptied = SQLAlchemyArchive("sqlite://")
    agent = make_agent("agent", saver, messages=200, archive=emptied, evict=evict)
    for end, number in zip(ends, (80, 90), strict=True):
        had = [message.id for message in values(agent.graph, end)["messages"]]
        say(agent.graph, end, turn(number))
        said.append([*had, f"h{number}", f"h{number}-answer"])
        current = [row.key for row in emptied.messages("t", limit=99)]
        assert current == said[-1]
