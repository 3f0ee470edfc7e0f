"""One log over all threads of a user, where something goes wrong or is out of the ordinary."""

from __future__ import annotations

import collections
import json
from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, SQLAlchemyArchive
from langgraph_om.core.record.window import open_window
from langgraph_om.errors import ArchiveError
from langgraph_om.memory import runner_of
from langgraph_om.runtime.executors import BackgroundBuffering
from support import groups
from support.clock import Clock
from support.shared_world import Agent, check_thread, config, covered, extractive, said, sharing


@pytest.fixture
def files(tmp_path: Any) -> SQLAlchemyArchive:
    return SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")


def unavailable(*_: Any, **__: Any) -> Any:
    msg = "the archive is away"
    raise ArchiveError(msg)


def asked_observer(model: Any) -> int:
    return sum(call["role"] == "observer" for call in model.calls)


# --- Messages and branches -----------------------------------------------------------------------


def test_messages_without_ids_are_observed_once(files: SQLAlchemyArchive) -> None:
    memory = sharing(files)
    records: dict[str, Any] = {"trips": None, "work": None}
    told: dict[str, list[BaseMessage]] = {"trips": [], "work": []}
    for number in range(10):
        for thread, messages in told.items():
            messages.append(HumanMessage(said(thread, number).text))
            done = memory.step(records[thread], messages, config=config(thread))
            messages.append(AIMessage(f"Noted, number {number} of {thread}."))
            records[thread] = memory.step(
                done.record, messages, config=config(thread), final=True
            ).record
    log = [group["text"] for group in records["work"]["log"]]
    for thread in told:
        for number in range(1, 4):
            assert sum(f"{thread}-{number:03d}" in text for text in log) == 1, (thread, number)


def test_branches_that_take_turns_are_each_observed_once(files: SQLAlchemyArchive) -> None:
    agent = Agent(sharing(files), InMemorySaver())
    for _ in range(6):
        agent.say("trips")
    history = agent.graph.get_state_history(config("trips"))
    early = next(s for s in history if s.next == () and len(s.values["messages"]) == 6)
    head = agent.graph.get_state(config("trips"))
    places = {"fork": early, "head": head}
    for number in range(8):
        for name, state in places.items():
            where = {**config("trips")["configurable"], **state.config["configurable"]}
            message = said("trips", number + (50 if name == "fork" else 6))
            agent.graph.invoke({"messages": [message]}, {"configurable": where})
            places[name] = agent.graph.get_state(config("trips"))
            values = places[name].values
            record, messages = values["om"], values["messages"]
            keys = [str(each.id) for each in messages]
            counter = runner_of(agent.memory).settings.counter
            shown = {entry.key for entry in open_window(record, messages, counter).entries}
            times = dict.fromkeys(keys, 0)
            for group in record["log"]:
                for first, last in group["ranges"]:
                    if first in times and last in times:
                        for key in keys[keys.index(first) : keys.index(last) + 1]:
                            times[key] += 1
            for key in keys:
                assert times[key] + (key in shown) <= 1, (name, number, key, times[key])
            check_window(agent, values)


def check_window(agent: Agent, values: dict[str, Any]) -> None:
    """Each message of a branch is in the window, or within a range of the log."""
    record, messages = values["om"], values["messages"]
    keys = [str(message.id) for message in messages]
    shown = {
        e.key
        for e in open_window(record, messages, runner_of(agent.memory).settings.counter).entries
    }
    inside: set[str] = set()
    for first, last in [ends for group in record["log"] for ends in group["ranges"]]:
        if first in keys:
            stop = keys.index(last) + 1 if last in keys else len(keys)
            inside.update(keys[keys.index(first) : stop])
    assert set(keys) <= shown | inside


# --- An archive that fails -----------------------------------------------------------------------


@pytest.mark.parametrize("buffer_tokens", [False, 0.2])
def test_a_commit_that_fails_does_not_ask_again_and_again(
    files: SQLAlchemyArchive, buffer_tokens: Any
) -> None:
    model = extractive()
    options = {"message_tokens": 400, "buffer_tokens": buffer_tokens}
    agent = Agent(sharing(files, model, observation=options), InMemorySaver())
    commit, files.commit_record = files.commit_record, unavailable  # type: ignore[method-assign]
    for number in range(7):
        agent.say(f"t{number}")
    before = asked_observer(model)
    for _ in range(3):
        agent.say("t6")
    assert asked_observer(model) <= before + 3
    files.commit_record = commit  # type: ignore[method-assign]
    agent.say("t6")
    for number in range(7):
        agent.say(f"t{number}")
        check_thread(agent, f"t{number}")
        assert agent.state(f"t{number}")[0]["outbox"] == []


def test_what_was_refused_is_not_archived_and_what_was_taken_is(files: SQLAlchemyArchive) -> None:
    """The process ends between a commit and what comes with it, and others were faster."""
    agent = Agent(sharing(files, observation={"message_tokens": 400}), InMemorySaver())
    keep, files.add_groups = files.add_groups, unavailable  # type: ignore[method-assign]
    for number in range(8):
        agent.say(f"t{number}")
    files.add_groups = keep  # type: ignore[method-assign]
    for number in range(8):
        agent.say(f"t{number}")
    log = files.load_record("ada")[0]["log"]  # type: ignore[index]
    for number in range(7):
        shared = {group["id"] for group in log if group["thread_id"] == f"t{number}"}
        assert {group["id"] for group in files.groups(thread_id=f"t{number}")} == shared


def test_nothing_is_removed_before_the_shared_log_has_it(files: SQLAlchemyArchive) -> None:
    """What a thread observed is refused, because others observed a part of it meanwhile."""
    saver = InMemorySaver()
    trips = Agent(sharing(files, evict=True), saver)
    commit, files.commit_record = files.commit_record, unavailable  # type: ignore[method-assign]
    for _ in range(16):
        trips.say("trips")
    record, _ = trips.state("trips")
    assert record["outbox"]
    files.commit_record = commit  # type: ignore[method-assign]
    first = files.messages("trips", limit=2, visible_only=False)
    now = runner_of(trips.memory).clock()
    keys = [each.key for each in first]
    group = {**record["log"][0], "id": "elsewhere", "ranges": [[keys[0], keys[-1]]]}
    threads = {"trips": {"cursor": keys, "hints": {}}}
    log = {"generation": 0, "log": [group], "threads": threads}
    assert files.commit_record("ada", log, expected=0, now=now)
    for _ in range(4):
        trips.say("trips")
    check_thread(trips, "trips", archive=files)


# --- Deletion ------------------------------------------------------------------------------------


def test_a_deleted_resource_is_not_shown_when_its_log_begins_anew(files: SQLAlchemyArchive) -> None:
    saver = InMemorySaver()
    agent = Agent(sharing(files), saver)
    for _ in range(6):
        agent.say("trips")
        agent.say("work")
    revision = files.record_revision("ada")
    assert agent.state("work")[0]["revision"] == revision
    agent.memory.delete_resource("ada")
    other = Agent(sharing(files), saver)
    for number in range(6):
        other.say("home", number)
    assert files.record_revision("ada") > revision
    record, messages = agent.state("work")
    record = {**record, "cursor": ["work.h5.a"]}  # nothing of its own is due
    done = agent.memory.step(record, [*messages, said("work", 90)], config=config("work"))
    assert "trips-" not in "".join(message.text for message in done.messages)


def test_what_is_committed_while_a_thread_is_deleted_goes_too(files: SQLAlchemyArchive) -> None:
    memory = sharing(files)
    agent = Agent(memory, InMemorySaver())
    agent.say("trips")
    agent.say("work")
    remove = files.delete_thread

    def racing(thread_id: str) -> None:
        stored, revision = files.load_record("ada")
        log: Any = {"generation": 0, "log": [], "threads": {}, **(stored or {})}
        group = groups.group(
            "late", "* trips-000", thread="trips", ranges=[["trips.h0", "trips.h0.a"]], tokens=5
        )
        threads = {**log["threads"], "trips": {"cursor": ["trips.h0.a"], "hints": {}}}
        changed = {**log, "log": [*log["log"], group], "threads": threads}
        assert files.commit_record("ada", changed, expected=revision, now=runner_of(memory).clock())
        files.delete_thread = remove  # type: ignore[method-assign]
        remove(thread_id)

    files.delete_thread = racing  # type: ignore[method-assign]
    memory.delete_thread("trips")
    assert "trips-000" not in json.dumps(files.load_record("ada")[0])


class Crashed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("writer", ["trips", "work"])
@pytest.mark.parametrize("is_all", [False, True])
def test_a_process_that_ends_behind_a_commit_leaves_nothing_of_what_was_deleted(
    tmp_path: Any, *, is_first: bool, writer: str, is_all: bool
) -> None:
    """It had read the log before the deletion, and does not come to look for one afterwards.

    Of the thread, nothing was in the log as the deletion took it out of there.
    """
    place, is_armed = f"sqlite:///{tmp_path}/memory.db", False

    class Ends(SQLAlchemyArchive):
        def commit_record(self, resource_id: str, record: Any, **options: Any) -> bool:
            if not is_armed or "trips-0" not in json.dumps(record):
                return super().commit_record(resource_id, record, **options)
            with closing(SQLAlchemyArchive(place)) as elsewhere:
                elsewhere.rewrite_records = lambda *_: None  # type: ignore[method-assign]
                other = sharing(elsewhere)
                _ = other.delete_resource("ada") if is_all else other.delete_thread("trips")
            super().commit_record(resource_id, record, **options)
            raise Crashed

    with closing(Ends(place)) as archive:
        agent = Agent(sharing(archive), InMemorySaver())
        for _ in range(3 if is_first else 9):
            agent.say("home")
        for _ in range(4):
            agent.say("trips")
        assert (archive.record_revision("ada") == 0) == is_first
        is_armed = True
        with pytest.raises(Crashed):
            collections.deque((agent.say(writer) for _ in range(9)), maxlen=0)
    for part in tmp_path.iterdir():
        assert b"trips-0" not in part.read_bytes()


# --- Whose it is ---------------------------------------------------------------------------------


def test_work_for_a_former_user_is_not_committed_for_the_next(files: SQLAlchemyArchive) -> None:
    """A thread moves to another user while a job over the former user's threads is at work."""
    clock = Clock()
    memory = sharing(
        files,
        observation={"message_tokens": 300, "buffer_tokens": 0.2},
        buffering=BackgroundBuffering(),
        clock=clock,
    )
    saver = InMemorySaver()
    with memory:
        ada = Agent(memory, saver, "ada")
        for number in range(12):
            ada.say(f"t{number}")
            clock.advance(hours=1)
            if "others" in ada.state(f"t{number}")[0]["pending"]:
                break
        record, _ = ada.state(f"t{number}")
        assert "others" in record["pending"]
        memory.flush(60)
        files.delete_thread(f"t{number}")
        bob = Agent(memory, saver, "bob")
        bob.say(f"t{number}", 90)
        bob.say(f"t{number}", 91)
        stored = json.dumps(files.load_record("bob")[0])
        assert "t0-000" not in stored
        assert "t0-000" not in bob.prompt()
        assert "t0-000" not in json.dumps(bob.state(f"t{number}")[0])


def alone(files: SQLAlchemyArchive, **options: Any) -> ObservationalMemory:
    """A memory of each thread for itself."""
    return ObservationalMemory(
        extractive(),
        archive=files,
        observation={"message_tokens": 300, "buffer_tokens": False},
        buffering=InlineBuffering(),
        **options,
    )


@pytest.mark.parametrize("evict", [False, True])
def test_a_thread_that_leaves_the_shared_log_takes_its_own_along(
    files: SQLAlchemyArchive, *, evict: bool
) -> None:
    saver = InMemorySaver()
    shared = Agent(sharing(files, evict=evict), saver)
    for _ in range(14):
        shared.say("trips")
        shared.say("work")
    shared.say("work")
    own = Agent(alone(files, evict=evict), saver)
    own.say("work", 20)
    record, _ = own.state("work")
    assert {group["thread_id"] for group in record["log"]} == {"work"}
    assert "trips-" not in own.prompt()
    assert "others" not in record
    check_thread(own, "work", archive=files)
    for number in range(21, 36):
        own.say("work", number)
    check_thread(own, "work", archive=files)
    again = Agent(sharing(files, evict=evict), saver)
    again.say("work", 40)
    check_thread(again, "work", archive=files)
    again.say("trips", 60)
    check_thread(again, "trips", archive=files)
    record, _ = again.state("trips")
    groups = [group["id"] for group in record["log"]]
    assert len(groups) == len(set(groups))


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_copied_thread_keeps_what_it_had_observed(
    files: SQLAlchemyArchive, *, is_deleted: bool
) -> None:
    agent = Agent(sharing(files), InMemorySaver())
    for _ in range(8):
        agent.say("trips")
    values = agent.graph.get_state(config("trips")).values
    if is_deleted:
        agent.memory.delete_thread("trips")
    agent.graph.update_state(config("copy"), values, as_node="agent")
    for number in range(20, 26):
        agent.say("copy", number)
    record, messages = agent.state("copy")
    counter = runner_of(agent.memory).settings.counter
    shown = {entry.key for entry in open_window(record, messages, counter).entries}
    keys = [str(message.id) for message in messages]
    times = covered(record, "copy", keys) + covered(record, "trips", keys)
    for key in keys:
        assert times[key] + (key in shown) >= 1, key


# --- Much of it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("buffering", [False, 0.2])
def test_a_backlog_of_many_small_messages_is_observed_at_its_threshold(
    files: SQLAlchemyArchive, buffering: Any
) -> None:
    many = [(f"m{n}", HumanMessage(f"I say {n}", id=f"m{n}"), True) for n in range(500)]
    memory = sharing(files, observation={"message_tokens": 60_000, "buffer_tokens": buffering})
    files.append("long", "ada", many, after=None, now=runner_of(memory).clock())
    agent = Agent(memory, InMemorySaver())
    agent.say("work")
    [shown] = agent.state("work")[0]["others"]
    assert "I say 499" in agent.prompt(), "the newest, not the oldest, are shown"
    assert (shown["messages"], shown["observable"]) == (500, 0)
    assert agent.state("work")[0]["log"] == []
    memory = sharing(files, observation={"message_tokens": 2_000, "buffer_tokens": False})
    agent = Agent(memory, InMemorySaver())
    agent.say("home")
    [group] = [group for group in agent.state("home")[0]["log"] if group["thread_id"] == "long"]
    assert group["ranges"][0][0] == "m0"


def test_news_of_a_thread_is_seen_whatever_the_clocks_say(files: SQLAlchemyArchive) -> None:
    """A worker's clock stands still, or lags behind that of another one."""
    agent = Agent(sharing(files, observation={"message_tokens": 5000}), InMemorySaver())
    memory = agent.memory
    agent.say("work")
    files.append(
        "trips",
        "ada",
        [("a", HumanMessage("I like jazz", id="a"), True)],
        after=None,
        now=runner_of(memory).clock(),
    )
    log = {"generation": 0, "log": [], "threads": {"trips": {"cursor": ["a"], "hints": {}}}}
    assert files.commit_record("ada", log, expected=0, now=runner_of(memory).clock())
    agent.say("work")
    assert "jazz" not in agent.prompt()
    files.append(
        "trips",
        "ada",
        [("b", HumanMessage("I like tea", id="b"), True)],
        after="a",
        now=runner_of(memory).clock(),
    )
    agent.say("work")
    assert "I like tea" in agent.prompt()
