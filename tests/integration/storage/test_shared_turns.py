"""What a turn asks and does for other threads of a user, and what it leaves to them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Engine, event

from langgraph_om import BackgroundBuffering, SQLAlchemyArchive
from langgraph_om.features.shared_log import cache as log_cache
from langgraph_om.features.shared_log import threads as read_threads
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector
from support.clock import START, Clock
from support.shared_world import USER, Agent, append, check_thread, extractive, sharing


@pytest.fixture
def files(tmp_path: Any) -> SQLAlchemyArchive:
    return SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")


def asked_observer(model: Any) -> int:
    return sum(call["role"] == "observer" for call in model.calls)


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_a_turn_asks_once_about_others_that_never_stop_writing(
    files: SQLAlchemyArchive, buffer_tokens: Any
) -> None:
    written = [0]

    def observer(messages: list[BaseMessage]) -> str:
        if written[0] < 200:
            append(files, "noisy", written[0], 20)
            written[0] += 20
        return ExtractiveObserver().reply(messages)

    append(files, "noisy", 0, 20)
    written[0] = 20
    model = extractive(observer=observer)
    options = {"message_tokens": 300, "buffer_tokens": buffer_tokens}
    memory = sharing(files, model, observation={**options, "max_tokens_per_batch": 10_000})
    agent = Agent(memory, InMemorySaver())
    agent.say("quiet")
    assert asked_observer(model) == 1


def test_turns_at_once_beside_one_unobserved_thread_ask_once(files: SQLAlchemyArchive) -> None:
    together = threading.Barrier(10, timeout=120)

    def observer(messages: list[BaseMessage]) -> str:
        time.sleep(0.5)
        return ExtractiveObserver().reply(messages)

    def say(number: int) -> None:
        together.wait()
        agent.say(f"t{number}")

    append(files, "noisy", 0, 30)
    model = extractive(observer=observer)
    observation = {"message_tokens": 1000, "buffer_tokens": False}
    agent = Agent(sharing(files, model, observation=observation), InMemorySaver())
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(say, range(10)))
    assert asked_observer(model) == 1
    agent.say("t0")
    assert "noisy" in {group["thread_id"] for group in agent.state("t0")[0]["log"]}


class Counted(SQLAlchemyArchive):
    """An archive that is slow to read, and counts what is read and refused."""

    refused = 0

    def load_record(self, resource_id: str) -> tuple[dict[str, Any] | None, int]:
        found = super().load_record(resource_id)
        time.sleep(0.02)
        return found

    def commit_record(self, *args: Any, **options: Any) -> bool:
        is_ours = super().commit_record(*args, **options)
        self.refused += not is_ours
        return is_ours


def test_turns_at_once_do_not_refuse_each_others_changes(tmp_path: Any) -> None:
    """Each refused change is made anew; with hundreds at once, most were."""
    files, together = Counted(f"sqlite:///{tmp_path}/memory.db"), threading.Barrier(8, timeout=120)

    def say(number: int) -> None:
        together.wait()
        for _ in range(4):
            agent.say(f"t{number}")

    observation = {"message_tokens": 100, "buffer_tokens": False}
    agent = Agent(sharing(files, extractive(), observation=observation), InMemorySaver())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(8)))
    assert files.record_revision(USER) >= 8
    assert files.refused == 0


def test_a_thread_that_hangs_or_is_given_up_holds_up_no_other(
    files: SQLAlchemyArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cache, "MAX_HOLD_SECONDS", 0.3)
    cache, began = log_cache.LogCache(files), time.monotonic()
    with cache.wait_for_log(USER):
        for _ in range(3):  # the first one waits, and the next begin where it has left
            with cache.wait_for_log(USER):
                pass
    assert 0.2 < time.monotonic() - began < 60
    monkeypatch.setattr(log_cache, "MAX_HOLD_SECONDS", 600)
    monkeypatch.setattr(log_cache, "MAX_WAIT_SECONDS", 0.3)
    with cache.wait_for_log(USER), cache.wait_for_log(USER):
        pass  # where many wait before it, it does not wait for all of them
    monkeypatch.setattr(log_cache, "MAX_WAIT_SECONDS", 600)
    cache.wait_for_log(USER)  # which nobody leaves, as nobody has it any more
    cache.wait_for_log(USER)


def test_a_second_chat_does_not_stall_nor_shrink_the_first(files: SQLAlchemyArchive) -> None:
    model = extractive()
    observation = {"message_tokens": 2000, "buffer_tokens": False}
    agent = Agent(sharing(files, model, observation=observation), InMemorySaver())
    parts: list[dict[str, Any]] = []
    while not parts or parts[-1]["data"]["windows"]["active"]["messages"]["tokens"] < 1700:
        parts = [part for part in agent.say("first") if part["type"] == "data-om-status"]
    before = parts[-1]["data"]["windows"]["active"]["messages"]["tokens"]
    agent.say("second")
    assert asked_observer(model) == 0, "nothing is due in either"
    assert "first-" in agent.prompt(), "it knows of the first at once"
    parts = [part for part in agent.say("first") if part["type"] == "data-om-status"]
    assert parts[0]["data"]["windows"]["active"]["messages"]["tokens"] > before


def test_a_thread_at_its_threshold_keeps_its_floor_whoever_observes_it(
    files: SQLAlchemyArchive,
) -> None:
    model = extractive()
    observation = {"message_tokens": 1000, "buffer_tokens": False}
    memory = sharing(files, model, observation=observation)
    append(files, "long", 0, 30)
    agent = Agent(memory, InMemorySaver())
    agent.say("other")
    assert asked_observer(model) == 1
    log, _ = files.load_record(USER)
    assert log is not None
    newest = log["threads"]["long"]["cursor"][-1]
    count = memory_counter(memory)
    rest = [each.message for each in files.messages("long", limit=100)]
    keys = [str(each.id) for each in rest]
    left = sum(count(each) for each in rest[keys.index(newest) + 1 :])
    assert memory.thresholds.keep_tokens <= left < 1000


def memory_counter(memory: Any) -> Any:
    from langgraph_om.memory import runner_of  # noqa: PLC0415

    return runner_of(memory).settings.counter.count_message


def test_what_a_question_is_said_to_observe_is_what_it_asks(files: SQLAlchemyArchive) -> None:
    """Of a backlog, one question takes a batch."""
    append(files, "long", 0, 60)
    observation = {"message_tokens": 500, "buffer_tokens": False, "max_tokens_per_batch": 600}
    agent = Agent(sharing(files, observation=observation), InMemorySaver())
    parts = agent.say("other")
    [start] = [part["data"] for part in parts if part["type"] == "data-om-observation-start"]
    assert 300 < start["tokensToObserve"] <= 600


def test_what_one_turn_leaves_another_takes_up(files: SQLAlchemyArchive) -> None:
    append(files, "long", 0, 60)
    model = extractive()
    observation = {"message_tokens": 500, "buffer_tokens": False, "max_tokens_per_batch": 600}
    agent = Agent(sharing(files, model, observation=observation), InMemorySaver())
    for number in range(6):
        agent.graph.invoke(
            {"messages": [HumanMessage("hello", id=f"o{number}")]},
            {"configurable": {"thread_id": "other", "resource_id": USER}},
        )
        assert asked_observer(model) <= number + 1
    log, _ = files.load_record(USER)
    assert log is not None
    assert int(log["threads"]["long"]["cursor"][-1].split(".")[1][1:]) > 40


def ask_slowly(role: Any) -> Any:
    """A model in this role that takes longer than a lease of the log lasts."""

    def reply(messages: list[BaseMessage]) -> str:
        time.sleep(2.6)
        return role.reply(messages)

    return reply


# --- What a turn costs ---------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_a_quiet_turn_asks_the_archive_as_often_beside_many_threads_as_beside_few(
    files: SQLAlchemyArchive, buffer_tokens: Any
) -> None:
    observation = {"message_tokens": 20_000, "buffer_tokens": buffer_tokens}
    agent = Agent(sharing(files, observation=observation), InMemorySaver())
    counted = []
    known = 0
    for count in (10, 100):
        for number in range(known, count):
            append(files, f"n{number}", 0, 2)
        known = count
        agent.say("quiet")  # reads what is new
        statements: list[str] = []

        def note(_: Any, __: Any, statement: str, *___: Any, to: Any = statements) -> None:
            to.append(statement)

        event.listen(Engine, "before_cursor_execute", note)
        agent.say("quiet")
        event.remove(Engine, "before_cursor_execute", note)
        counted.append(statements)
    assert len(counted[0]) == len(counted[1])
    assert agent.state("quiet")[0]["others"], "there is something to show"
    assert len(agent.state("quiet")[0]["others"]) < 60, "and what is not shown is not kept"


def test_what_changes_in_another_thread_is_read_again(files: SQLAlchemyArchive) -> None:
    observation = {"message_tokens": 5000, "buffer_tokens": False}
    agent = Agent(sharing(files, observation=observation), InMemorySaver())
    append(files, "other", 0, 2)
    agent.say("quiet")
    assert "other-001" in agent.prompt()
    append(files, "other", 2, 1)
    agent.say("quiet")
    assert "other-002" in agent.prompt()
    fork = HumanMessage("I like tea instead", id="other.fork")
    files.append("other", USER, [("other.fork", fork, True)], after="other.h1.a", now=START)
    agent.say("quiet")
    assert "I like tea instead" in agent.prompt()
    assert "other-002" not in agent.prompt()
    files.delete_thread("other")
    agent.say("quiet")
    assert "other-" not in agent.prompt()


def test_the_shared_record_names_one_message_of_threads_that_are_quiet(
    files: SQLAlchemyArchive,
) -> None:
    agent = Agent(sharing(files, observation={"message_tokens": 100}), InMemorySaver())
    for number in range(40):
        agent.say(f"t{number}")
        agent.say(f"t{number}")
    log, _ = files.load_record(USER)
    assert log is not None
    long = [key for key, each in log["threads"].items() if len(each["cursor"]) > 1]
    assert len(log["threads"]) >= 39
    assert len(long) <= 32
    for number in (0, 39):
        agent.say(f"t{number}")
        check_thread(agent, f"t{number}")


# --- More threads than are shown -----------------------------------------------------------------


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_what_a_thread_said_is_observed_once_too_many_are_newer(
    files: SQLAlchemyArchive, buffer_tokens: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little of it waits for a day, and then goes with that of others."""
    monkeypatch.setattr(read_threads, "MAX_THREADS", 10)
    monkeypatch.setattr(read_threads, "REST_THREADS", 5)
    clock, model = Clock(), extractive()
    observation = {"message_tokens": 20_000, "buffer_tokens": buffer_tokens}
    agent = Agent(sharing(files, model, observation=observation, clock=clock), InMemorySaver())
    for number in range(33):
        append(files, f"n{number:02}", 0, 1)
    for _ in range(3):
        agent.say("quiet")
    assert not asked_observer(model)
    clock.advance(hours=30)
    for _ in range(20):
        agent.say("quiet")
    assert asked_observer(model) <= 6, "several threads in one question"
    log, _ = files.load_record(USER)
    assert log is not None
    observed = {group["thread_id"] for group in log["log"]}
    assert observed == {f"n{number:02}" for number in range(9, 33)}, "the newest are shown"
    append(files, "n20", 1, 1)
    for number in range(33, 43):
        append(files, f"n{number}", 0, 1, now=clock.now)
    clock.advance(hours=30)
    for _ in range(12):
        agent.say("quiet")
    log, _ = files.load_record(USER)
    assert log is not None
    assert log["threads"]["n20"]["cursor"][-1] == "n20.h1.a"


# --- The log of all threads ----------------------------------------------------------------------


def with_long_log(archive: SQLAlchemyArchive, saver: Any, threads: int) -> None:
    """Have so many threads with observations."""
    agent = Agent(sharing(archive, observation={"message_tokens": 100}), saver)
    for number in range(threads):
        for _ in range(3):
            agent.say(f"t{number}")
    for number in range(threads):
        agent.say(f"t{number}")


def generation(archive: SQLAlchemyArchive) -> int:
    log, _ = archive.load_record(USER)
    assert log is not None
    found: int = log["generation"]
    return found


def test_turns_at_once_have_a_log_that_is_due_condensed_once(files: SQLAlchemyArchive) -> None:
    saver = InMemorySaver()
    with_long_log(files, saver, 8)
    together = threading.Barrier(8, timeout=120)

    def reflector(messages: list[BaseMessage]) -> str:
        time.sleep(0.5)
        return ExtractiveReflector().reply(messages)

    def say(number: int) -> None:
        together.wait()
        parts.extend(agent.say(f"t{number}", 50))

    parts: list[dict[str, Any]] = []
    model = extractive(reflector=reflector)
    options = {
        "observation": {"message_tokens": 5000, "buffer_tokens": False},
        "reflection": {"observation_tokens": 400},
    }
    agent = Agent(sharing(files, model, **options), saver)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(8)))
    assert generation(files) == 1
    assert [part["type"] for part in parts].count("data-om-observation-start") == 1


def test_a_log_that_stays_large_is_left_in_peace_by_all_threads(files: SQLAlchemyArchive) -> None:
    saver = InMemorySaver()
    with_long_log(files, saver, 8)

    def lazy(messages: list[BaseMessage]) -> str:
        return "drop 1"

    options = {
        "observation": {"message_tokens": 5000, "buffer_tokens": False},
        "reflection": {"observation_tokens": 300},
    }
    agent = Agent(sharing(files, extractive(reflector=lazy), **options), saver)
    for number in range(8):
        agent.say(f"t{number}", 50)
        assert generation(files) == 1


def test_the_log_of_many_threads_stays_below_its_threshold(files: SQLAlchemyArchive) -> None:
    options = {
        "observation": {"message_tokens": 100, "buffer_tokens": False},
        "reflection": {"observation_tokens": 600},
    }
    model = extractive()
    agent = Agent(sharing(files, model, **options), InMemorySaver())
    for number in range(45):
        for _ in range(3):
            agent.say(f"t{number}")
        log = agent.state(f"t{number}")[0]["log"]
        assert sum(group["tokens"] for group in log) < 600 + 100
    texts = {group["thread_id"] for group in log if group["text"]}
    assert {"t43", "t42"} <= texts, "what is quiet goes first"


def test_threads_that_buffer_do_not_do_the_same_work_twice(files: SQLAlchemyArchive) -> None:
    memory = sharing(
        files,
        observation={"message_tokens": 600, "buffer_tokens": 0.2},
        reflection={"observation_tokens": 700},
        buffering=BackgroundBuffering(),
    )
    parts: list[dict[str, Any]] = []
    with memory:
        agent = Agent(memory, InMemorySaver())
        for _ in range(25):
            for thread in ("a", "b", "c"):
                parts += agent.say(thread)
                memory.flush(60)
    failed = [part["data"] for part in parts if part["type"] == "data-om-buffering-failed"]
    assert not [each["error"] for each in failed if each["operationType"] == "observation"]
    assert len(failed) <= 1, failed
    waited = [part["data"] for part in parts if part["type"] == "data-om-observation-start"]
    assert not [each for each in waited if each["operationType"] == "observation"]
    for thread in ("a", "b", "c"):
        agent.say(thread)
        check_thread(agent, thread)


@pytest.mark.parametrize(("turns", "is_left_alone"), [(22, True), (40, False)])
def test_a_thread_that_its_last_turn_made_large_is_left_to_itself(
    files: SQLAlchemyArchive, turns: int, is_left_alone: Any
) -> None:
    """It has chunks for most of it; one that goes on to grow has nobody who observes it."""
    memory = sharing(files, observation={"message_tokens": 600, "buffer_tokens": 0.2})
    append(files, "busy", 0, turns)
    count = memory_counter(memory)
    size = sum(count(each.message) for each in files.messages("busy", limit=100))
    assert memory.thresholds.block_after < size < 1300 or not is_left_alone
    agent = Agent(memory, InMemorySaver())
    for _ in range(2):
        agent.say("quiet")
    observed = {group["thread_id"] for group in agent.state("quiet")[0]["log"]}
    assert ("busy" in observed) is not is_left_alone


def test_what_was_left_lying_for_long_is_observed_by_others(files: SQLAlchemyArchive) -> None:
    """By a thread whose own jobs have not come to an end, or never will."""
    clock = Clock()
    memory = sharing(files, observation={"message_tokens": 600, "buffer_tokens": 0.2}, clock=clock)
    for number in range(8):
        append(files, f"n{number}", 0, 2)
    agent = Agent(memory, InMemorySaver())
    agent.say("quiet")
    assert not agent.state("quiet")[0]["log"], "they may still be at it themselves"
    clock.advance(hours=1)
    agent.say("quiet")
    agent.say("quiet")
    assert {group["thread_id"] for group in agent.state("quiet")[0]["log"]} >= {"n0", "n1"}
