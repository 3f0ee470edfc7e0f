"""What is deleted is gone from the archive, and work in flight can not bring it back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import BackgroundBuffering, ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import make_agent, on_thread, record_of, say, scripted, talk, turn, turns
from support.clock import START
from support.shared_world import Agent as SharingAgent
from support.shared_world import sharing
from support.waiting import ClaimsLate, Held, eventually

ANA = on_thread("trip", resource_id="ana")
ANAS_OTHER = on_thread("work", resource_id="ana")
BEN = on_thread("ben", resource_id="ben")


@pytest.fixture
def archive(tmp_path: Path) -> SQLAlchemyArchive:
    return SQLAlchemyArchive(f"sqlite:///{tmp_path / 'archive.db'}")


@pytest.fixture
def agent(archive: SQLAlchemyArchive) -> Any:
    made = make_agent("agent", InMemorySaver(), messages=300, log=200, archive=archive)
    for config in (ANA, ANAS_OTHER, BEN):
        talk(made.graph, config, turns(6))
    return made


def kept(archive: SQLAlchemyArchive, thread: str) -> tuple[int, int]:
    return (
        len(archive.messages(thread, limit=1000, visible_only=False)),
        len(archive.groups(thread_id=thread)),
    )


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_deleted_is_gone_and_nothing_else(
    agent: Any, archive: SQLAlchemyArchive, *, is_async: bool
) -> None:
    memory, others = agent.memory, (kept(archive, "work"), kept(archive, "ben"))
    assert (memory.delete_thread("nowhere"), memory.delete_resource("nobody")) == (["nowhere"], [])
    assert min(kept(archive, "trip")) > 0
    await memory.adelete_thread("trip") if is_async else memory.delete_thread("trip")
    assert kept(archive, "trip") == (0, 0)
    assert archive.thread("trip") is None
    assert (kept(archive, "work"), kept(archive, "ben")) == others
    await memory.adelete_resource("ana") if is_async else memory.delete_resource("ana")
    assert archive.threads("ana") == ([], False)
    assert kept(archive, "work") == (0, 0)
    assert kept(archive, "ben") == others[1]


def test_thread_that_goes_on_after_its_deletion_is_archived_anew(
    agent: Any, archive: SQLAlchemyArchive
) -> None:
    agent.memory.delete_thread("trip")
    agent.graph.checkpointer.delete_thread("trip")
    say(agent.graph, ANA, turn(7))
    assert [row.key for row in archive.messages("trip", limit=9)] == ["h7", "h7-answer"]


def test_what_was_observed_of_a_deleted_thread_is_not_kept(archive: SQLAlchemyArchive) -> None:
    said, now = [("a", HumanMessage("The key is 7305."), True)], START
    group = {"id": "g", "text": "* The key is 7305"}
    archive.append("t", "ana", said, after=None, now=now)
    archive.delete_thread("t")
    assert archive.add_groups("t", "ana", [group], now) == []
    assert archive.groups(resource_id="ana") == []
    archive.append("t", "ana", said, after=None, now=now)
    assert archive.add_groups("t", "ana", [group], now) == ["g"]


def test_job_at_work_does_not_bring_a_deleted_thread_back(archive: SQLAlchemyArchive) -> None:
    agent = buffering_in(archive)
    talk(agent.graph, ANA, turns(2))
    agent.memory.delete_thread("trip")
    assert agent.memory.flush(60)
    assert kept(archive, "trip") == (0, 0)
    assert archive.thread("trip") is None


def buffering_in(archive: SQLAlchemyArchive, buffering: BackgroundBuffering | None = None) -> Any:
    return make_agent(
        "agent",
        InMemorySaver(),
        messages=400,
        observation={"buffer_tokens": 0.2},
        buffering=buffering or BackgroundBuffering(),
        archive=archive,
    )


def results_in(archive: SQLAlchemyArchive) -> list[str]:
    with archive._reading("look") as connection:
        return list(connection.exec_driver_sql("SELECT result FROM om_jobs").scalars())


def test_job_that_is_claimed_after_a_deletion_leaves_no_result(tmp_path: Path) -> None:
    """The worker hears nothing of the deletion, which may be another process's."""
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    working = ClaimsLate(url)
    agent = buffering_in(working)
    parts = talk(agent.graph, ANA, turns(2))
    assert any(part["type"] == "data-om-buffering-start" for part in parts)
    with closing(SQLAlchemyArchive(url)) as elsewhere:
        ObservationalMemory(scripted(), archive=elsewhere).delete_thread("trip")
        working.may_answer.set()
        assert agent.memory.flush(60)
        assert results_in(elsewhere) == []


@pytest.mark.parametrize("is_begun", [True, False], ids=["at work", "claimed later"])
def test_a_nested_threads_job_in_another_process_ends_with_the_thread(
    url: str, *, is_begun: bool
) -> None:
    """The nested thread is not archived yet: nothing but its name tells where it belongs."""
    with closing(SQLAlchemyArchive(url)) as here, closing(SQLAlchemyArchive(url)) as there:
        for archive in (here, there):
            archive.setup()
        said = [("a", HumanMessage("The key is 7305.", id="a"), True)]
        here.append("trip", "ana", said, after=None, now=START)
        told = {"type": "buffering-end", "cycle_id": "job", "text": "The key is 7305."}
        executor, work = BackgroundBuffering(), Held(told)
        executor.share(there)

        def submit() -> bool:
            return executor.submit("job", "key", work, thread_id="trip|>helper")

        if is_begun:
            assert submit()
            assert work.started.wait(60)
        ObservationalMemory(scripted(), archive=here).delete_thread("trip")
        work.let_go.set()
        assert is_begun or submit()
        assert executor.flush(60)
        assert (executor.peek("job"), here.job("job")) == (None, None)
        assert work.started.is_set() == is_begun


@pytest.mark.parametrize(
    ("whose", "config"),
    [("thread", ANA), ("resource", ANA), ("resource", on_thread("trip"))],
    ids=["thread", "resource", "resource that the run does not name"],
)
def test_a_job_that_waits_for_its_lease_is_given_up_though_its_thread_goes_on(
    tmp_path: Path, whose: str, config: Any
) -> None:
    with closing(ClaimsLate(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        agent = buffering_in(archive)
        say(agent.graph, ANA, HumanMessage("Hello", id="first"))
        parts = talk(agent.graph, config, turns(2))
        assert any(part["type"] == "data-om-buffering-start" for part in parts)
        if whose == "thread":
            agent.memory.delete_thread("trip", checkpointer=agent.graph.checkpointer)
        else:
            agent.memory.delete_resource("ana", checkpointer=agent.graph.checkpointer)
        say(agent.graph, ANA, turn(7))
        archive.may_answer.set()
        assert archive.has_claimed.wait(60)
        assert agent.memory.flush(60)
        eventually(lambda: not results_in(archive))
        assert kept(archive, "trip") == (2, 0)


def test_results_of_a_deleted_thread_are_forgotten_in_the_process_too(
    archive: SQLAlchemyArchive,
) -> None:
    buffering = BackgroundBuffering()
    agent = buffering_in(archive, buffering)
    for config in (ANA, ANAS_OTHER):
        talk(agent.graph, config, turns(2))
    assert agent.memory.flush(60)
    trip, work = (
        [job["cycle_id"] for job in (*each["pending"].values(), *each["chunks"])]
        for each in (record_of(agent.graph, config) for config in (ANA, ANAS_OTHER))
    )
    assert all(buffering.peek(key) for key in [*trip, *work])
    agent.memory.delete_thread("trip")
    assert [buffering.peek(key) for key in trip] == [None]
    assert all(buffering.peek(key) for key in work)
    assert len(results_in(archive)) == 1


# --- Text that stands somewhere else -------------------------------------------------------------


def test_what_a_job_of_another_thread_tells_of_a_deleted_thread_goes_too(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    archive = SQLAlchemyArchive(f"sqlite:///{file}")
    memory = sharing(
        archive,
        observation={"message_tokens": 300, "buffer_tokens": 0.25},
        buffering=BackgroundBuffering(),
        obscure_thread_ids=False,
    )
    shared = SharingAgent(memory, InMemorySaver())
    for _ in range(4):
        shared.say("trips")
    for _ in range(6):
        shared.say("work")
        assert memory.flush(120)

    def told_in_jobs() -> int:
        with archive._reading("look") as connection:
            query = "SELECT count(*) FROM om_jobs WHERE result LIKE '%trips-0%'"
            return int(connection.exec_driver_sql(query).scalar() or 0)

    assert told_in_jobs() > 0
    memory.delete_thread("trips")
    assert told_in_jobs() == 0
    for part in (file, file.with_name("archive.db-wal")):
        assert b"trips-00" not in (part.read_bytes() if part.exists() else b"")
