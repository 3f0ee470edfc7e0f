"""What broke a law once, each as small as it gets."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock
from support.laws.world import Rules, World
from support.words import Words


def test_messages_between_removed_ends_of_a_range_stay_observed() -> None:
    memory = ObservationalMemory(
        ScriptedChatModel(observer="<observations>(none)</observations>"),
        observation={"message_tokens": 200, "buffer_tokens": False},
        token_counter=Words(),
        clock=Clock(),
    )
    said: list[BaseMessage] = []
    record = None
    for number in range(0, 90, 2):
        said.append(HumanMessage("word " * 4, id=f"m{number}"))
        record = memory.step(record, said, thread_id="t").record
        said.append(AIMessage("word " * 4, id=f"m{number + 1}"))
    assert record is not None
    [[first, last]] = record["log"][-1]["ranges"]
    removed = {first, *record["cursor"]}
    assert last in removed
    observed = {f"m{number}" for number in range(int(last[1:]) + 1)}
    left = [message for message in said if message.id not in removed]
    shown = {message.id for message in memory.step(record, left, thread_id="t").messages}
    assert shown & observed == set()


def test_what_is_observed_but_not_shared_yet_survives_a_fork() -> None:
    """The archive is away; meanwhile another branch of the thread goes on and is shared."""
    world = World(Rules(buffering="off", storage="archive", scope="resource", messages=60))
    thread, worker, archive = world.threads["a"], world.workers[0], world.archive
    assert archive is not None
    try:
        world.talk(thread, worker, 3)
        archive.away = "before"
        for _ in range(3):
            world.talk(thread, worker, 40)
        early, *_, head = thread.points
        assert head.values["om"]["outbox"]
        archive.away = ""
        world.fork(thread, worker, early, 40)
        for _ in range(10):
            world.talk(thread, worker, 40)
        world.fork(thread, worker, head, 3)
    finally:
        world.close()


def test_going_back_and_forth_between_forks_observes_nothing_twice() -> None:
    """The branch that is taken up again has removed messages that the other one's cursor names."""
    rules = Rules(buffering="off", storage="evicting", scope="resource", messages=60, log=100_000)
    world = World(rules)
    thread, worker = world.threads["a"], world.workers[0]
    try:
        for _ in range(3):
            world.talk(thread, worker, 40)
        early = thread.points[-1]
        while thread.points[-1].values["om"]["evicted"] is None:
            world.talk(thread, worker, 40)
        head = thread.points[-1]
        assert head.values["om"]["evicted"] in early.values["om"]["cursor"]
        world.fork(thread, worker, early, 3)
        world.fork(thread, worker, head, 40)
    finally:
        world.close()


def test_branch_within_a_range_keeps_what_it_knows_as_observed() -> None:
    """The fork shares half of a range with the conversation that it was forked from."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=300, log=100_000)
    world = World(rules)
    thread, worker = world.threads["a"], world.workers[0]
    try:
        while not thread.points or len(thread.points[-1].values["om"]["log"]) < 2:
            world.talk(thread, worker, 12)
        before, half = (
            next(point for point in thread.points if key in point.told.messages)
            for key in (thread.points[-1].values["om"]["log"][1]["ranges"][0][0], "u22")
        )
        world.fork(thread, worker, half, 3)
        head = thread.points[-1]
        assert head.values["om"]["cursor"][-1] == "u22.answer"
        world.fork(thread, worker, before, 3)
        world.fork(thread, worker, head, 3)
    finally:
        world.close()


def test_what_the_archive_does_not_have_yet_is_not_observed_again_in_another_thread() -> None:
    """A thread sends its observations while its messages cannot be archived."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=300, log=100_000)
    world = World(rules)
    archive = world.archive
    assert archive is not None
    try:
        thread, (worker, other) = world.threads["b"], world.workers
        for _ in range(4):
            world.talk(thread, worker, 40)
        archive.away = "writing"
        for _ in range(16):
            world.talk(thread, worker, 40)
        assert thread.last is not None
        [[first, last]] = thread.last.record["log"][0]["ranges"]
        assert archive.contains("b", [first, last]) == {first}
        archive.away = ""
        for _ in range(2):
            world.talk(world.threads["a"], other, 40)
    finally:
        world.close()
