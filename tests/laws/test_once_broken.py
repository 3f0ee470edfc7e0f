"""What broke a law once, each as small as it gets."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Literal

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel
from support.agents import of_kind
from support.clock import Clock
from support.laws.world import Rules, World, turns
from support.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.laws.served import Run

    Begin = Callable[[Rules], World]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins worlds, and ends them with the test."""
    with ExitStack() as stack:
        yield lambda rules: stack.enter_context(closing(World(rules)))


def test_messages_between_removed_ends_of_a_range_stay_observed() -> None:
    memory = ObservationalMemory(
        ScriptedChatModel(observer="<observations>\n* 🔴 (09:12) Words.\n</observations>"),
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


def test_an_edit_beside_removed_messages_sets_back_nothing(begin: Begin) -> None:
    world = begin(Rules(buffering="held", storage="checkpoints", thinks=True, log=60))
    thread, worker = world.threads["a"], world.workers[0]
    for size in (1, 1, 250, 1, 1, 1):
        world.talk(thread, worker, size)
    removed = [key for turn in turns(world.standing(thread, worker))[2:4] for key in turn]
    world.take_back(thread, worker, removed)
    world.edit(thread, worker, "u1", "edited u1:0")
    for size in (1, 1, 1, 1, 40, 1):
        world.talk(thread, worker, size, answer=10)


def test_edited_words_have_no_range_among_those_that_are_joined(begin: Begin) -> None:
    world = begin(Rules(buffering="off", messages=60, log=25))
    thread, worker = world.threads["a"], world.workers[0]
    for size in (40, 40, 40, 1, 40, 1):
        world.talk(thread, worker, size, answer=10)
    world.edit(thread, worker, "u1", "edited u1:0 " + "again " * 40)
    for size in (90, 40, 40, 3, 40) * 5:
        world.talk(thread, worker, size, answer=10)


def test_going_back_and_forth_between_forks_observes_nothing_twice(begin: Begin) -> None:
    """The branch that is taken up again has removed messages that the other one's cursor names."""
    rules = Rules(buffering="off", storage="evicting", scope="resource", messages=60, log=100_000)
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    for _ in range(3):
        world.talk(thread, worker, 40)
    early = thread.points[-1]
    while thread.points[-1].values["om"].get("evicted") is None:
        world.talk(thread, worker, 40)
    head = thread.points[-1]
    assert head.values["om"]["evicted"] in early.values["om"]["cursor"]
    world.fork(thread, worker, early, 3)
    world.fork(thread, worker, head, 40)


def test_branch_within_a_range_keeps_what_it_knows_as_observed(begin: Begin) -> None:
    """The fork shares half of a range with the conversation that it was forked from."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=300, log=100_000)
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    while not thread.points or len(thread.points[-1].values["om"]["log"]) < 2:
        world.talk(thread, worker, 12)
    before, half = (
        next(point for point in thread.points if key in point.told.messages)
        for key in (thread.points[-1].values["om"]["log"][1]["ranges"][0][0], "u22")
    )
    world.fork(thread, worker, half, 3)
    head = thread.points[-1]
    world.fork(thread, worker, before, 3)
    world.fork(thread, worker, head, 3)


def test_the_line_of_a_pause_stays_when_what_came_before_it_was_observed(begin: Begin) -> None:
    storage = {"buffering": "off", "storage": "archive", "scope": "resource"}
    world = begin(Rules(**storage, messages=500, log=25, marks_gaps=True))
    a, b, c = (world.threads[name] for name in "abc")
    worker, other = world.workers
    for sizes in ((700, 1, 1), (700, 250, 3)):
        for thread, size in zip((a, b, c), sizes, strict=True):
            world.talk(thread, worker, size)
        world.clock.advance(hours=1)
    world.talk(c, other, 1)


def test_what_the_archive_does_not_have_yet_is_not_observed_again_in_another_thread(
    begin: Begin,
) -> None:
    """A thread sends its observations while its messages cannot be archived."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=300, log=100_000)
    world = begin(rules)
    archive = world.archive
    assert archive is not None
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


@pytest.mark.parametrize("scope", ["thread", "resource"])
@pytest.mark.parametrize("change", ["edit", "removal"])
def test_history_sent_again_is_recognised_after_the_newest_message_was_changed(
    begin: Begin, scope: str, change: Literal["edit", "removal"]
) -> None:
    """The record then knows less of what stands in the conversation than of what was removed."""
    rules = Rules(buffering="off", storage="evicting", scope=scope, messages=100, log=100_000)
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    for _ in range(8):
        world.talk(thread, worker, 12, rounds=[[2]])
    world.talk(thread, worker, 3, answer=1)
    newest = thread.told.standing[-1]
    if change == "edit":
        world.edit(thread, worker, newest, "edited")
    else:
        world.take_back(thread, worker, [newest])
    history = [thread.told.messages[key] for key in thread.told.standing]
    world.talk(thread, worker, 3, resent=history)
    for _ in range(8):
        world.talk(thread, worker, 40)


@pytest.mark.parametrize("away", ["", "after"])
def test_fork_from_before_a_removal_forgets_nothing_that_was_removed_then(
    begin: Begin, away: str
) -> None:
    """The archive has the log of the other branch, which did not have all of this one."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=60, log=100_000)
    world = begin(rules)
    assert world.archive is not None
    thread, worker = world.threads["a"], world.workers[0]
    for _ in range(3):
        world.talk(thread, worker, 3, answer=1)
    early = thread.points[-1]
    assert early.values["om"]["cursor"] == []
    world.take_back(thread, worker, ["u0", "u0.answer"])
    while thread.last is None or "u3.answer" not in thread.last.record["cursor"]:
        world.talk(thread, worker, 40)
    world.archive.away = away
    world.fork(thread, worker, early, 90 if away else 3)
    world.archive.away = ""
    for _ in range(3):
        world.talk(thread, worker, 40)


def test_branch_that_the_archive_does_not_know_yet_is_not_observed_again_elsewhere(
    begin: Begin,
) -> None:
    """A fork cannot say where it goes on from; meanwhile another thread reads its messages."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=60, log=100_000)
    world = begin(rules)
    thread, (worker, other), archive = world.threads["a"], world.workers, world.archive
    assert archive is not None
    for _ in range(6):
        world.talk(thread, worker, 40)
    early, *_, head = thread.points
    world.fork(thread, worker, early, 40)
    for _ in range(5):
        world.talk(thread, worker, 40)
    archive.away = "wholly"
    world.fork(thread, worker, head, 3)
    archive.away = ""
    for _ in range(2):
        world.talk(world.threads["b"], other, 40)


def test_branch_goes_on_from_its_cursor_where_another_one_left_none(begin: Begin) -> None:
    """The other branch removed all observed messages that both have in common."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=60, log=100_000)
    world = begin(rules)
    thread, worker, archive = world.threads["a"], world.workers[0], world.archive
    assert archive is not None
    world.talk(thread, worker, 3)
    while not thread.points[-1].values["om"]["cursor"]:
        world.talk(thread, worker, 40)
    early, *_, head = thread.points
    world.fork(thread, worker, early, 3)
    world.take_back(thread, worker, ["u0", "u0.answer"])
    world.talk(thread, worker, 3)
    world.fork(thread, worker, head, 3)


def test_what_another_thread_observed_stays_so_after_both_ends_were_removed(begin: Begin) -> None:
    """The thread has not heard of the observation when the user removes messages."""
    rules = Rules(buffering="off", storage="archive", scope="resource", messages=60, log=100_000)
    world = begin(rules)
    thread, (worker, other) = world.threads["a"], world.workers
    for answer in (1, 1, 1, 60):
        world.talk(thread, worker, 3, answer=answer)
    assert thread.points[-1].values["om"]["cursor"] == []
    world.talk(world.threads["b"], other, 40)
    assert world.archive is not None
    [group] = world.archive.groups(thread_id="a", in_log=True)
    assert thread.last is not None
    assert thread.last.record["cursor"] == []
    newest = group["leftover"]["last"]
    world.take_back(thread, worker, ["u0", "u0.answer", newest])
    for _ in range(4):
        world.talk(thread, worker, 40)


# --- Jobs that another process carries out -------------------------------------------------------


def others_sent(world: World) -> list[Run]:
    """The runs that wait and are about other threads."""
    assert world.served is not None
    return [
        run for run in world.served.held() if run.given["input"]["request"]["operation"] == "others"
    ]


def talk_until_others_are_sent(world: World, *names: str) -> Run:
    """Have some threads talk a lot, and then another one, until it sends a job about them."""
    worker = world.workers[0]
    for name in names:
        world.talk(world.threads[name], worker, 40)
        world.talk(world.threads[name], worker, 40, answer=200)
    world.clock.advance(minutes=31)  # until then they may observe themselves
    for _ in range(2):
        world.talk(world.threads["a"], worker, 3)
    (run,) = others_sent(world)
    return run


ELSEWHERE = Rules(buffering="server", storage="archive", scope="resource", messages=60)


def test_a_job_about_other_threads_is_done_though_they_have_gone_on(begin: Begin) -> None:
    world = begin(ELSEWHERE)
    run = talk_until_others_are_sent(world, "b", "c")
    world.talk(world.threads["b"], world.workers[0], 40)  # which observes it by itself
    assert world.served is not None
    world.served.outcomes.clear()
    world.served.let_go(run)
    assert world.served.outcomes == ["done"]
    world.talk(world.threads["a"], world.workers[0], 3)
    assert world.archive is not None
    assert world.archive.groups(thread_id="c", in_log=True)


def test_a_job_whose_worker_fails_while_a_turn_waits_holds_no_turn(begin: Begin) -> None:
    world = begin(Rules(buffering="server", storage="archive"))
    thread, worker, served = world.threads["a"], world.workers[0], world.served
    assert served is not None
    while not served.held():
        world.talk(thread, worker, 12)
    assert world.archive is not None
    world.archive.away = "asking"  # so that the worker fails
    parts = world.talk(thread, worker, 700)
    assert served.outcomes == ["ArchiveError"]
    assert len(of_kind(parts, "buffering-failed")) == 1
    assert of_kind(parts, "observation-end")


def test_job_that_was_given_up_is_sent_anew_in_each_fork(begin: Begin) -> None:
    world = begin(Rules(buffering="server", storage="archive", buffer_tokens=0.9))
    thread, worker, served = world.threads["a"], world.workers[0], world.served
    assert served is not None
    world.talk(thread, worker, 60, answer=60)
    world.talk(thread, worker, 90, answer=1)
    (lost,) = served.held()
    served.meet(lost, "lost")
    world.leases_run_out()
    world.clock.advance(hours=1)
    world.fork(thread, worker, thread.points[-1], 3)
    (sent,) = served.held()
    assert sent.cycle_id == lost.cycle_id


def test_what_another_branch_removed_is_archived_again_before_it_leaves_this_one(
    begin: Begin,
) -> None:
    """The archive goes on with the other branch, which lacks a turn that the fork still has."""
    rules = Rules(buffering="off", storage="evicting", messages=200, log=100_000)
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    for size in (12, 12, 12, 90):
        world.talk(thread, worker, size)
    point = thread.points[-1]
    world.take_back(thread, worker, ["u3", "u3.answer"])
    world.take_back(thread, worker, ["u1", "u1.answer"])
    for size in (12, 120, 120):
        world.talk(thread, worker, size)
    world.fork(thread, worker, point, 40)
    for _ in range(6):
        world.talk(thread, worker, 90)
    history = [thread.told.messages[key] for key in thread.told.standing]
    world.talk(thread, worker, 3, resent=history[2:])


@pytest.mark.parametrize("door", ["agent", "middleware-node"])
def test_a_job_that_ended_before_the_model_failed_is_taken_in_once(begin: Begin, door: str) -> None:
    """The resumed run finds it ended, where the first try waited for it, and has other work due."""
    rules = Rules(door=door, messages=60, log=200, shares_budget=True, thinks=True, marks_gaps=True)
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    world.talk(thread, worker, 1)
    world.talk(thread, worker, 1)
    world.oracle.observer, world.oracle.reflector = "day by day", "long"
    world.talk(thread, worker, 250, rounds=[[15], [2, 60, 300]], answer=8)
    plan = {"rounds": [[60, 15, 15], [300, 300, 2], [60]], "answer": 60}
    parts = world.talk(thread, worker, 40, falls_at=1, **plan)
    ended = [part["cycleId"] for part in of_kind(parts, "activation")]
    assert len(ended) == len(set(ended)) > 0


@pytest.mark.parametrize("door", ["agent", "middleware", "middleware-node"])
def test_message_left_out_since_it_is_pinned_too_is_said_to_be(begin: Begin, door: str) -> None:
    """The system message has its words as well, so it is left out of the window with its answer."""
    rules = Rules(
        door=door, storage="archive", scope="resource", max_input_tokens=900, messages=500
    )
    world = begin(rules)
    thread, worker = world.threads["a"], world.workers[0]
    world.talk(thread, worker, 250)
    world.pin(thread, worker, "u0")
    [told] = of_kind(world.talk(thread, worker, 1), "view-trimmed")
    assert told["droppedMessages"] == 2
