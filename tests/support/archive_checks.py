"""Checks of an archive: groups, records, jobs, deletion, and several workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage

from support.archive_message_checks import (
    MESSAGE_CHECKS,
    SEARCH_CHECKS,
    at,
    expect,
    expect_branch,
    expect_not,
    expect_refusal,
    expect_that,
    list_keys,
    make_entries,
)

# Checks of an archive: lists of threads.


def unobserved_threads_are_told(archive: Any, name: str) -> None:
    """Threads that go on behind their newest observed message are told, the newest first."""
    long, done, forked = (f"{name}-{each}" for each in ("long", "done", "forked"))
    group = [{"id": "g", "text": "told"}]

    def listed() -> list[tuple[str, str | None, int, int]]:
        found = archive.unobserved(name, limit=9)
        return [
            (each.thread.id.removeprefix(f"{name}-"), each.observed, each.start, each.stop)
            for each in found
        ]

    for number, thread in enumerate((long, done, forked)):
        archive.append(thread, name, make_entries("a", "b", "c"), after=None, now=at(number))
    archive.append(f"{name}-strange", f"{name}-2", make_entries("a"), after=None, now=at(4))
    archive.append(f"{name}-within", name, make_entries("a"), after=None, now=at(5), parent=long)
    expect([each[0] for each in listed()], ["forked", "done", "long"], "all of them")
    archive.add_groups(long, name, group, at(6), observed="a")
    archive.add_groups(done, name, group, at(6), observed="c")
    archive.add_groups(forked, name, group, at(6), observed="b")
    expect(listed(), [("forked", "b", 2, 3), ("long", "a", 1, 3)], "what is left")
    archive.append(forked, name, make_entries("d"), after="a", now=at(7))
    expect(listed(), [("long", "a", 1, 3)], "one of another branch is left to itself")
    archive.add_groups(forked, name, [], at(8), observed=None)
    expect(listed()[0], ("forked", None, 0, 2), "one that says what is observed there")
    late = archive.add_groups(
        long, name, [{"id": "h", "text": "late"}], at(9), observed="c", behind="b"
    )
    expect(late, [], "what comes too late is not kept")
    kept = archive.add_groups(
        long, name, [{"id": "h", "text": "kept"}], at(9), observed="c", behind="a"
    )
    expect(kept, ["h"], "what is in time is kept")
    expect([each[0] for each in listed()], ["forked"], "what is left then")
    logs = archive.log_ids(name)
    expect(
        {key.removeprefix(f"{name}-"): own for key, own in logs.items()},
        {"long": ["h", "g"], "done": ["g"], "forked": ["g"]},
        "the logs",
    )
    read = archive.read_groups(name, ["h", "g"])
    expect([each["text"] for each in read[long]], ["kept", "told"], "the groups of a log")
    archive.add_groups(long, name, [], at(9), log=["g"])
    expect(archive.log_ids(name)[long], ["g"], "what is in no log any more is not listed")
    expect(archive.read_groups(f"{name}-2", ["g"]), {}, "groups of somebody else")
    spans = archive.spans([(long, 1, 3), (done, 0, 1)])
    expect(
        {key: [each.key for each in own] for key, own in spans.items()},
        {long: ["b", "c"], done: ["a"]},
        "messages of several threads",
    )
    expect_refusal(lambda: archive.unobserved(name, limit=-1), "`limit`", "-1")


def lists_have_everybodys_threads(archive: Any, name: str) -> None:
    """Page by page each thread comes once, newest first; a text is found in any of its names."""
    for number, owner in enumerate((f"{name}-ana", f"{name}-ana", f"{name}-b%_\\", None)):
        thread = f"{name}-{number}"
        archive.append(
            thread, owner, make_entries("a", "b")[: 1 + number % 2], now=at(2), after=None
        )
    archive.set_title(f"{name}-0", f"{name} 100%_\\ Ümlaut Trip", at(1))
    archive.append(f"{name}-in", None, make_entries("a"), after=None, now=at(3), parent=f"{name}-0")

    def find(text: str = name, **options: Any) -> list[tuple[str, int]]:
        listed = archive.list_threads(text=text, limit=options.pop("limit", 100), **options)
        return [(own.thread.id.removeprefix(f"{name}-"), own.messages) for own in listed]

    every = [("0", 1), ("1", 2), ("2", 1), ("3", 2)]
    expect(find(), every, "all threads")
    expect(find(resource_id=f"{name}-ana"), every[:2], "the threads of a resource")
    expect(find(f"{name}-ANA"), every[:2], "a text in the resource")
    expect(find(f"{name} 100%_\\".upper()), every[:1], "a text in the title, as it is")
    expect(find(f"{name}-b%_\\"), every[2:3], "signs of a pattern in the resource")
    expect(find(f"{name}-%"), [], "a sign of a pattern that is nowhere")
    expect(find(f"{name}-3"), every[3:], "a text in the id")
    second = archive.list_threads(text=name, limit=2)[-1].thread
    expect(find(behind=(second.updated, second.id)), every[2:], "what comes behind a thread")
    expect(archive.list_threads(limit=0), [], "no thread")


def places_are_those_of_the_current_branch(archive: Any, name: str) -> None:
    """Messages of other branches and threads have no place."""
    archive.append(name, None, make_entries("a", "b", "c"), after=None, now=at(1))
    archive.append(name, None, make_entries("d"), after="a", now=at(2))
    archive.append(f"{name}-2", None, make_entries("e"), after=None, now=at(3))
    found = archive.places(name, ["d", "a", "b", "e", "zebra", "a"])
    expect(dict(found), {"a": 0, "d": 1}, "places")
    expect(dict(archive.places(name, [])), {}, "no places")


LIST_CHECKS = (
    unobserved_threads_are_told,
    lists_have_everybodys_threads,
    places_are_those_of_the_current_branch,
)


# --- Groups and records --------------------------------------------------------------------------


def groups_only_grow(archive: Any, name: str) -> None:
    """A known group is not replaced, and groups come newest observed first."""

    def make_group(key: str, minutes: float, text: str = "\x00\ud800") -> dict[str, Any]:
        observed = at(minutes).isoformat()
        return {"id": key, "kind": "observation", "ranges": [["a", "b"]], "thread_id": None} | {
            "observed_at": observed,
            "text": text,
            "tokens": 3,
        }

    r, s = f"{name} r", f"{name} s"
    one, two, late = make_group("one", 1), make_group("two", 2), make_group("late", 0)
    other, foreign = make_group("one", 3), make_group("one", 9)
    expect(archive.add_groups(name, r, [one, two], at(5)), ["one", "two"], "new groups")
    again = archive.add_groups(name, r, [make_group("one", 1, "changed"), late], at(6))
    expect(again, ["late"], "new groups the second time")
    archive.add_groups(f"{name} 2", r, [other], at(7))
    archive.add_groups(f"{name} 3", s, [foreign], at(8))
    expect(archive.groups(thread_id=name), [two, one, late], "groups of a thread")
    expect(archive.groups(resource_id=r), [other, two, one, late], "groups of a resource")
    expect(archive.groups(resource_id=r, limit=2), [other, two], "the newest groups")
    expect(archive.groups(resource_id=s, thread_id=name), [], "groups across resources")
    expect_refusal(archive.groups, "`thread_id`", "`resource_id`")
    expect_refusal(lambda: archive.add_groups(name, r, [{"text": "x"}], at(9)), "`id`")


def one_writer_replaces_a_record(archive: Any, name: str) -> None:
    """A commit needs the expected revision, and each former generation is history."""

    def commit(expected: int, generation: int, minutes: float, text: str = "") -> bool:
        record = {"generation": generation, "log": [{"text": text}]}
        done = archive.commit_record(name, record, expected=expected, now=at(minutes))
        return bool(done)

    expect(archive.load_record(name), (None, 0), "the record before there is one")
    expect_not(commit(1, 0, 0), "a commit onto nothing")
    for expected, generation, minutes in ((0, 0, 0), (1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 2, 4)):
        done = commit(expected, generation, minutes, f"\x00\ud800 {expected}")
        expect_that(done, f"the commit onto revision {expected}")
        expect_not(commit(expected, 9, 9), "the slower commit")
    record = {"generation": 2, "log": [{"text": "\x00\ud800 4"}]}
    expect(archive.load_record(name), (record, 5), "the record")
    expect(archive.load_record(f"{name} s"), (None, 0), "the record of another resource")
    for options, wanted in (
        ({}, [(2, 5, 4), (1, 3, 2), (0, 2, 1)]),
        ({"limit": 2}, [(2, 5, 4), (1, 3, 2)]),
        ({"until": at(2)}, [(1, 3, 2), (0, 2, 1)]),
        ({"until": at(0.5)}, [(0, 2, 1)]),
        ({"until": at(-1)}, []),
    ):
        found = [
            (entry["record"]["generation"], entry["revision"], entry["committed_at"])
            for entry in archive.record_history(name, **options)
        ]
        times = [(generation, revision, at(minutes)) for generation, revision, minutes in wanted]
        expect(found, times, f"history with {options}")
    bad = {"generation": "2"}
    expect_refusal(lambda: archive.commit_record(name, bad, expected=5, now=at(6)), "`generation`")
    expect(archive.load_record(name), (record, 5), "the record after a refusal")


def a_deleted_thread_leaves_all_generations(archive: Any, name: str) -> None:
    """A deletion reaches the user's log and its history, and outdates commits on their way."""
    gone, stays = f"{name} 1", f"{name} 2"
    archive.append(gone, name, make_entries("a"), after=None, now=at(0))

    def make_log(generation: int, *threads: str) -> dict[str, Any]:
        log = [{"thread_id": thread, "text": thread} for thread in threads]
        of = {thread: ["one"] for thread in threads}
        return {"version": 1, "generation": generation, "log": log, "of": of}

    for expected, generation in ((0, 0), (1, 0), (2, 1)):
        archive.commit_record(name, make_log(generation, gone, stays), expected=expected, now=at(0))
    expect(archive.delete_thread(gone), name, "the owner of what was deleted")
    expect(archive.load_record(name), (make_log(1, stays), 4), "the record")
    kept = [entry["record"] for entry in archive.record_history(name)]
    expect(kept, [make_log(1, stays), make_log(0, stays)], "the history")
    archive.append(gone, f"{name} s", make_entries("a"), after=None, now=at(0))
    archive.delete_thread(gone)
    for user, expected in ((name, 3), (f"{name} s", 0)):
        stale = archive.commit_record(user, make_log(2, gone), expected=expected, now=at(10))
        expect_not(stale, "a commit of what was computed before the deletion")


# --- Jobs ----------------------------------------------------------------------------------------


def _claim(archive: Any, job: str, owner: str, seconds: float = 60.0) -> Any:
    return archive.claim(job, owner, seconds=seconds, thread_id=f"{job} t", resource_id=f"{job} r")


def one_owner_holds_a_job(archive: Any, name: str) -> None:
    """Only who holds a job finishes, releases or hands it over."""
    expect(archive.job(name), None, "a job that nobody asked for")
    lease = 60.0
    claims = [_claim(archive, name, owner, lease) for owner in ("me", "you", "me")]
    expect(claims, ["mine", "taken", "mine"], "claims")
    expect_not(archive.take_over(name, "him", "you", seconds=60), "a takeover from another")
    expect_not(archive.finish(name, "you", {"x": 1}), "an end by another")
    expect_not(archive.release(name, "you"), "a release by another")
    view = archive.job(name)
    expect((view.state, view.owner, view.result), ("running", "me", None), "the job")
    expect_that(lease / 2 < view.expires_in <= lease, "its time left")
    expect_that(archive.take_over(name, "me", "her", seconds=600), "a takeover")
    expect_that(archive.take_over(name, "me", "her", seconds=600), "the same again")
    expect_that(archive.job(name).expires_in > lease, "the time left then")
    result = {"text": "\x00\ud800"}
    expect_not(archive.finish(name, "me", result), "an end by who handed it over")
    expect_that(archive.finish(name, "her", result), "the end")
    expect_that(archive.finish(name, "her", {"x": 2}), "the end again")
    expect_not(archive.take_over(name, "her", "me", seconds=60), "a takeover after the end")
    expect_not(archive.release(name, "her"), "a release after the end")
    expect([_claim(archive, name, owner) for owner in ("you", "me")], ["done", "done"], "claims")
    view = archive.job(name)
    expect((view.state, view.owner, view.result), ("done", "her", result), "the job then")


def an_abandoned_job_is_taken_over(archive: Any, name: str) -> None:
    """Another may claim a job whose claim has ended; its former owner then cannot finish."""
    _claim(archive, name, "slow", seconds=0.05)
    _claim(archive, f"{name} 2", "slow", seconds=0.05)
    time.sleep(0.2)
    view = archive.job(name)
    expect((view.state, view.owner), ("expired", "slow"), "the job after its claim")
    expect_that(view.expires_in < 0, "its time left")
    done = archive.finish(f"{name} 2", "slow", {"late": True})
    expect_that(done, "an end after the claim that nobody else made")
    expect(_claim(archive, name, "next"), "mine", "a claim after that")
    expect_not(archive.take_over(name, "slow", "slow", seconds=60), "the former's takeover")
    expect_not(archive.finish(name, "slow", {}), "the former owner's end")
    expect(_claim(archive, name, "slow"), "taken", "the former owner's claim")
    expect_that(archive.finish(name, "next", {"by": "next"}), "the new owner's end")
    expect(archive.job(name).result, {"by": "next"}, "the result")


def jobs_are_given_back_and_forgotten(archive: Any, name: str) -> None:
    """A released job is free at once; old jobs that ended are pruned, running ones not."""
    _claim(archive, name, "me")
    expect_that(archive.release(name, "me"), "a release")
    expect_not(archive.finish(name, "me", {}), "an end after giving it back")
    expect(archive.job(name).state, "expired", "a job that was given back")
    expect_not(archive.take_over(name, "me", "him", seconds=60), "a takeover of it")
    expect(_claim(archive, name, "you"), "mine", "a claim of what was given back")
    _claim(archive, f"{name} done", "me")
    archive.finish(f"{name} done", "me", {})
    _claim(archive, f"{name} old", "me", seconds=0)
    archive.prune_jobs(older_than=3600)
    expect(archive.job(f"{name} old").state, "expired", "a job abandoned a moment ago")
    time.sleep(0.2)
    expect_that(archive.prune_jobs(older_than=0.1) > 1, "how many were forgotten")
    expect(archive.job(f"{name} old"), None, "an abandoned job")
    expect(archive.job(f"{name} done"), None, "a job that is done")
    expect(archive.job(name).state, "running", "a running job")


# --- Deletion ------------------------------------------------------------------------------------


def _fill(archive: Any, name: str, thread: str, resource: str) -> None:
    archive.append(thread, resource, make_entries("a", "b"), after=None, now=at(0))
    archive.append(thread, resource, [("a", HumanMessage("edit"), True)], after=None, now=at(0))
    archive.append(thread, resource, make_entries("B"), after="a", now=at(0))
    archive.add_groups(thread, resource, [{"id": name}], at(0))
    archive.claim(f"{thread} j", "me", seconds=60, thread_id=thread, resource_id=resource)


def _expect_gone(archive: Any, thread: str) -> None:
    expect(archive.thread(thread), None, "the thread")
    expect(archive.messages(thread, limit=9, visible_only=False), [], "its messages")
    expect(archive.contains(thread, ["a", "b", "B"]), set(), "its messages on any branch")
    expect(archive.find("a", thread_id=thread), None, "its message by key")
    expect(archive.groups(thread_id=thread), [], "its groups")
    expect_not(archive.finish(f"{thread} j", "me", {}), "the end of its job")
    expect_not(archive.take_over(f"{thread} j", "me", "me", seconds=9), "its job's claim")
    expect(archive.job(f"{thread} j"), None, "its job")


def deleting_a_thread_leaves_nothing_of_it(archive: Any, name: str) -> None:
    """A deleted thread leaves no message, group or job, and its name is free."""
    r = f"{name} r"
    for thread in (f"{name} 1", f"{name} 2"):
        _fill(archive, name, thread, r)
    archive.commit_record(r, {"generation": 0}, expected=0, now=at(0))
    lease: dict[str, Any] = {"seconds": 60, "thread_id": f"{name} 2", "resource_id": r}
    for _ in range(2):
        archive.claim(f"{name} 2 about", "me", **lease, about=[f"{name} 1", f"{name} 3"])
    archive.delete_thread(f"{name} 1")
    archive.delete_thread(f"{name} 1")
    _expect_gone(archive, f"{name} 1")
    expect(archive.job(f"{name} 2 about"), None, "a job of another thread that was about it")
    expect_not(archive.finish(f"{name} 2 about", "me", {}), "the end of that job")
    expect(list_keys(archive, f"{name} 2"), ["a", "B"], "the other thread")
    expect(len(archive.groups(resource_id=r)), 1, "its groups")
    expect(archive.job(f"{name} 2 j").state, "running", "its job")
    record, _ = archive.load_record(r)
    expect(record["generation"], 0, "the resource's record")
    stale = archive.commit_record(r, {"generation": 0}, expected=1, now=at(0))
    expect_not(stale, "a commit by who has not heard of it")
    for thread, about in ((f"{name} 1", []), (f"{name} 2", [f"{name} 1"])):
        lease["thread_id"] = thread
        claim = archive.claim(f"{name} late", "me", **lease, about=about)
        expect(claim, "taken", "a claim of who has not heard of it")
        expect_not(archive.finish(f"{name} late", "me", {}), "the result of that")
        expect(archive.job(f"{name} late"), None, "that job")
    _check_jobs_of_nested_threads(archive, name)
    archive.append(f"{name} 1", f"{name} s", make_entries("a"), after="gone", now=at(1))
    expect_branch(archive, f"{name} 1", "a", "a new thread of the same name")
    lease.update(thread_id=f"{name} 1", resource_id=f"{name} s")
    expect(archive.claim(f"{name} new", "me", **lease), "mine", "a job of the new thread")


def _check_jobs_of_nested_threads(archive: Any, name: str) -> None:
    """Check that jobs of a nested thread without rows end with the thread around it."""
    outer = f"{name} 4"
    inner = f"{outer}|>helper"
    lease: dict[str, Any] = {"seconds": 60, "resource_id": None}
    whose = {"own": (inner, []), "told": (f"{name} 2", [inner])}
    for key, (thread, about) in whose.items():
        archive.claim(f"{name} {key}", "me", **lease, thread_id=thread, about=about)
    archive.delete_thread(outer)
    for key, (thread, about) in whose.items():
        expect_not(archive.finish(f"{name} {key}", "me", {}), "the end of a nested thread's job")
        claim = archive.claim(f"{name} {key}", "me", **lease, thread_id=thread, about=about)
        expect(claim, "taken", "a claim for a nested thread of who has not heard of the deletion")
        expect(archive.job(f"{name} {key}"), None, "the job of a nested thread")
    archive.append(inner, None, make_entries("a"), after=None, now=at(1), parent=outer)
    claim = archive.claim(f"{name} own", "me", **lease, thread_id=inner)
    expect(claim, "mine", "a job of a nested thread that goes on, in one that does not")


def deleting_a_resource_leaves_nothing_of_it(archive: Any, name: str) -> None:
    """A deleted resource leaves no thread, record, history or job; others keep theirs."""
    r, s = f"{name} r", f"{name} s"
    for thread, resource in (("1", r), ("2", r), ("3", s)):
        _fill(archive, name, f"{name} {thread}", resource)
    for resource in (r, s):
        archive.commit_record(resource, {"generation": 0}, expected=0, now=at(0))
        archive.commit_record(resource, {"generation": 1}, expected=1, now=at(0))
    archive.claim(f"{name} j", "me", seconds=60, thread_id=f"{name} 9", resource_id=r)
    archive.delete_resource(r)
    for thread in ("1", "2"):
        _expect_gone(archive, f"{name} {thread}")
    expect(archive.threads(r), ([], False), "its threads")
    gone, number = archive.load_record(r)
    expect(gone, None, "its record")
    expect(archive.record_history(r), [], "its history")
    expect_not(archive.finish(f"{name} j", "me", {}), "the end of its job")
    lease: dict[str, Any] = {"seconds": 60, "thread_id": f"{name} 9", "resource_id": r}
    expect(archive.claim(f"{name} j", "me", **lease), "taken", "a claim of who has not heard of it")
    stale = archive.commit_record(r, {"generation": 1}, expected=2, now=at(1))
    expect_not(stale, "a commit that was on its way")
    stale = archive.commit_record(r, {"generation": 0}, expected=0, now=at(1))
    expect_not(stale, "a first record of who read before the deletion that there is none")
    done = archive.commit_record(r, {"generation": 0}, expected=number, now=at(1))
    expect_that(done, "the first record after the deletion")
    expect_not(archive.load_record(r)[1] in {1, 2}, "a revision that was there before")
    archive.delete_resource(r)
    expect(list_keys(archive, f"{name} 3"), ["a", "B"], "another resource's thread")
    expect(len(archive.record_history(s)), 2, "another resource's history")


def what_was_deleted_stays_known_by_its_id(archive: Any, name: str) -> None:
    """Each deletion is counted, for a resource and all of its threads, and for no other."""
    r, s = f"{name} r", f"{name} s"
    threads = [f"{name} {number}" for number in range(1, 4)]
    for thread, resource in zip(threads, (r, r, s), strict=True):
        _fill(archive, name, thread, resource)
    expect(archive.deletions(r, threads), {}, "deletions before there is one")
    archive.delete_thread(threads[0])
    expect(archive.deletions(r, threads), {("thread", threads[0]): 1}, "after a deletion")
    archive.append(threads[0], r, make_entries("a"), after=None, now=at(1))
    archive.delete_thread(threads[0])
    expect(archive.deletions(None, threads), {("thread", threads[0]): 2}, "after another")
    archive.delete_resource(r)
    found = archive.deletions(r, threads)
    wanted = {("resource", r): 1, ("thread", threads[0]): 2, ("thread", threads[1]): 1}
    expect(found, wanted, "after its resource was deleted")
    expect(archive.deletions(s, threads[2:]), {}, "of another resource and its thread")
    expect(archive.deletions(r, []), {("resource", r): 1}, "of a resource alone")
    absent = f"{name} 9"
    archive.delete_thread(absent)
    expect(archive.deletions(None, [absent]), {("thread", absent): 1}, "of what was not there")


# --- Several threads at once ---------------------------------------------------------------------


WORK_CHECKS = (
    groups_only_grow,
    one_writer_replaces_a_record,
    a_deleted_thread_leaves_all_generations,
    one_owner_holds_a_job,
    an_abandoned_job_is_taken_over,
    jobs_are_given_back_and_forgotten,
    deleting_a_thread_leaves_nothing_of_it,
    deleting_a_resource_leaves_nothing_of_it,
    what_was_deleted_stays_known_by_its_id,
)


def archive_conformance(
    make_archive: Callable[[], Any],
) -> list[tuple[str, Callable[[], None]]]:
    """Return the checks of an archive: their names, and functions that raise.

    Each asks for an archive of its own, closes it, and uses names that nobody else does.
    """

    def bind(check: Callable[[Any, str], None]) -> Callable[[], None]:
        def run() -> None:
            with closing(make_archive()) as archive:
                check(archive, uuid4().hex[:12])

        return run

    checks = (*MESSAGE_CHECKS, *LIST_CHECKS, *WORK_CHECKS, *SEARCH_CHECKS)
    return [(check.__name__, bind(check)) for check in checks]
