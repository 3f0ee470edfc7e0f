"""Checks of an archive: messages, branches, threads, and who may see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.errors import ArchiveLacksError, ConfigurationError

# What the checks of an archive share: entries and times to write, and expectations.


START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return the time so many minutes after the start."""
    return START + timedelta(minutes=minutes)


def make_entries(*keys: str) -> list[tuple[str, BaseMessage, bool]]:
    """Return entries to append, one for each key."""
    return [(key, HumanMessage(f"says {key}", id=key), True) for key in keys]


def expect(found: object, wanted: object, what: str) -> None:
    """Compare what was found with what was wanted."""
    if found != wanted:
        msg = f"{what}: found {found!r}, expected {wanted!r}"
        raise AssertionError(msg)


def expect_that(found: object, what: str) -> None:
    """Expect `True`."""
    expect(found, wanted=True, what=what)


def expect_not(found: object, what: str) -> None:
    """Expect `False`."""
    expect(found, wanted=False, what=what)


def expect_refusal(call: Callable[[], object], *words: str, secret: str | None = None) -> None:
    """Expect a `ConfigurationError` that says these words, and not the secret one."""
    try:
        call()
    except ConfigurationError as error:
        missing = [word for word in words if word not in str(error)]
        expect(missing, [], f"words of the error {str(error)!r}")
        if secret is not None:
            expect_not(secret in str(error), f"another's name in the error {str(error)!r}")
    else:
        msg = "a call passed that has to raise ConfigurationError"
        raise AssertionError(msg)


def list_keys(archive: Any, thread: str, **options: Any) -> list[str]:
    """Return the keys of a page of messages."""
    return [row.key for row in archive.messages(thread, **{"limit": 1000, **options})]


def expect_branch(archive: Any, thread: str, keys: Iterable[str], what: str) -> None:
    """Expect the current branch to hold these messages, at positions from 0 on."""
    found = archive.messages(thread, limit=1000, visible_only=False)
    wanted = list(enumerate(keys))
    expect([(row.position, row.key) for row in found], wanted, what)
    expect_that(all(row.is_current for row in found), f"{what}, all current")
    expect(archive.last_position(thread), len(wanted) - 1 if wanted else None, f"{what}, length")


# --- Messages ------------------------------------------------------------------------------------


def pages_of_a_conversation(archive: Any, name: str) -> None:
    """Pages come from either end, within positions, with or without what users may not see."""
    keys = [f"m{i}" for i in range(10)]
    hidden = [(key, message, key not in {"m3", "m8"}) for key, message, _ in make_entries(*keys)]
    archive.append(name, None, hidden[:4], after=None, now=at(0))
    archive.append(name, None, hidden[4:], after="m3", now=at(1))
    expect_branch(archive, name, keys, "the conversation")
    for options, wanted in (
        ({}, [0, 1, 2, 4, 5, 6, 7, 9]),
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 3, "newest_first": True}, [6, 7, 9]),
        ({"limit": 2, "offset": 1}, [1, 2]),
        ({"limit": 2, "offset": 1, "newest_first": True}, [6, 7]),
        ({"start": 3, "stop": 9, "limit": 2}, [4, 5]),
        ({"start": 3, "stop": 9, "limit": 2, "newest_first": True}, [6, 7]),
        ({"start": 3, "stop": 5, "visible_only": False}, [3, 4]),
        ({"start": 10}, []),
        ({"limit": 0}, []),
    ):
        found = list_keys(archive, name, **options)
        expect(found, [f"m{i}" for i in wanted], f"messages with {options}")
    expect_refusal(lambda: archive.messages(name, limit=-1), "`limit`", "-1")


def what_is_known_is_not_added_again(archive: Any, name: str) -> None:
    """A known key changes neither the branch nor the time of the last news."""
    archive.append(name, None, make_entries("a", "b", "c"), after=None, now=at(0))
    for keys, after in ((("a", "b", "c"), None), (("b",), "a"), (("a",), None), (("c",), "gone")):
        archive.append(name, None, make_entries(*keys), after=after, now=at(5))
        expect_branch(archive, name, "abc", f"after {keys} again")
        expect(archive.thread(name).updated, at(0), "the time of the last news")
    archive.append(name, None, make_entries("b", "c", "d"), after="a", now=at(6))
    expect_branch(archive, name, "abcd", "after news behind what is known")
    expect(archive.thread(name).updated, at(6), "the time of the last news")


def what_must_follow_is_written_behind_what_is_there_alone(archive: Any, name: str) -> None:
    """With `must_follow` nothing is written behind a message that is not there (any more)."""
    new, must = make_entries("b"), {"must_follow": True}
    expect_lack(lambda: archive.append(name, None, new, after="a", now=at(0), **must), "no thread")
    expect(archive.thread(name), None, "the thread after that")
    branch = archive.append(name, None, make_entries("a"), after=None, now=at(1), **must)
    expect_lack(lambda: archive.append(name, None, new, after="?", now=at(2), **must), "another")
    expect_branch(archive, name, "a", "the thread after both")
    branch = archive.append(name, None, new, after="a", now=at(3), branch=branch, **must)
    expect_that(branch is not None, "a branch's name")
    expect_branch(archive, name, "ab", "the thread with both")
    archive.delete_thread(name)
    options = {"after": "b", "now": at(4), "branch": branch, **must}
    expect_lack(lambda: archive.append(name, None, make_entries("c"), **options), "a deleted one")
    expect(archive.thread(name), None, "the deleted thread")


def nothing_is_written_by_who_missed_a_deletion(archive: Any, name: str) -> None:
    """Messages and groups that name another number of deletions are refused, all of them."""
    r, groups = f"{name} r", [{"id": "g", "text": "of before"}]
    archive.append(name, r, make_entries("a"), after=None, now=at(0), deletion=0)
    archive.delete_thread(name)
    archive.append(name, r, make_entries("b"), after=None, now=at(1), deletion=1)
    for number in (0, 2):
        options = {"after": None, "now": at(2), "deletion": number}
        expect_lack(lambda: archive.append(name, r, make_entries("a"), **options), "messages")  # noqa: B023
        expect_lack(lambda: archive.add_groups(name, r, groups, at(2), deletion=number), "groups")  # noqa: B023
    expect_branch(archive, name, "b", "the thread")
    expect(archive.groups(thread_id=name), [], "the groups")
    expect(archive.add_groups(name, r, groups, at(3), deletion=1), ["g"], "of who knows it")
    archive.delete_resource(r)
    expect_lack(lambda: archive.add_groups(name, r, groups, at(4), deletion=1), "of the resource")
    expect(archive.thread(name), None, "the thread of the deleted resource")


def expect_lack(act: Callable[[], object], what: str) -> None:
    """Expect that the archive refuses what is written by who does not know of a deletion."""
    try:
        act()
    except ArchiveLacksError:
        return
    msg = f"{what}: written, expected an ArchiveLacksError"
    raise AssertionError(msg)


def forks_are_kept_and_can_be_returned_to(archive: Any, name: str) -> None:
    """What left the current branch stays, and appending it again makes it current."""
    archive.append(name, None, make_entries("a", "b", "c", "d"), after=None, now=at(0))
    archive.append(name, None, make_entries("B", "C"), after="a", now=at(1))
    expect_branch(archive, name, "aBC", "the fork")
    former = archive.find("c", thread_id=name)
    expect((former.position, former.is_current), (2, False), "a message off the branch")
    archive.append(name, None, make_entries("b", "c", "d"), after="a", now=at(2))
    expect_branch(archive, name, "abcd", "the branch returned to")
    expect(archive.thread(name).updated, at(1), "the time of the last news")
    archive.append(name, None, make_entries("D"), after="C", now=at(3))
    expect_branch(archive, name, "aBCD", "a branch that goes on where the fork ended")
    archive.append(name, None, make_entries("x"), after=None, now=at(4))
    expect_branch(archive, name, "x", "a conversation that starts again")
    archive.append(name, None, make_entries("e"), after="d", now=at(5))
    expect_branch(archive, name, "abcde", "the first branch, from its end")
    texts = [message.content for message in archive.branch(name, ["a", "B", "C", "D"])]
    expect(texts, [f"says {key}" for key in "aBCD"], "a branch by its keys")


def a_branch_keeps_its_words_and_its_way(archive: Any, name: str) -> None:
    """Who knows the name of a branch reads it as it was told, whatever others removed or edited."""

    def read(branch: str | None, **options: Any) -> list[tuple[int, str, bool]]:
        options = {"limit": 9, **options}
        found = archive.messages(name, branch=branch, **options)
        return [(row.position, row.message.text, row.is_current) for row in found]

    def told(*texts: str) -> list[tuple[int, str, bool]]:
        return [(at, text, True) for at, text in enumerate(texts)]

    abc = ("says a", "says b", "says c")
    one = archive.append(name, None, make_entries("a", "b", "c"), after=None, now=at(0))
    again = archive.append(name, None, make_entries("c"), after="b", now=at(0), branch=one)
    expect(again, one, "the name after writing again")
    edited = [("b", HumanMessage("edited", id="b"), True), *make_entries("c", "d")]
    two = archive.append(name, None, edited, after=None, now=at(1), branch=one)
    expect(read(None), told("edited", "says c", "says d"), "the current branch")
    expect(read(two), read(None), "the same by its name")
    expect(read(one), told(*abc), "the branch that was left")
    expect(read(one, start=1, limit=1), told(*abc)[1:2], "a page of it")
    for options in ({"limit": 2}, {"limit": 1, "offset": 1}, {"stop": 2}):
        wanted = told(*abc)[-2:] if "stop" not in options else told(*abc)[:2]
        wanted = wanted[:1] if "offset" in options else wanted
        expect(read(one, newest_first=True, **options), wanted, f"its end with {options}")
    found = archive.find("b", thread_id=name, branch=one)
    expect((found.message.text, found.position), ("says b", 1), "a message of it")
    expect_that(found.is_current, "that it is on the branch")
    expect_not(archive.find("d", thread_id=name, branch=one).is_current, "what is on another one")
    expect(archive.find("b", thread_id=name).message.text, "edited", "the message without a name")
    texts = [message.text for message in archive.branch(name, ["a", "b"], branch=one)]
    expect(texts, ["says a", "says b"], "its words by keys")
    three = archive.append(name, None, make_entries("e"), after="c", now=at(2), branch=one)
    expect(read(None), told(*abc, "says e"), "the branch that goes on where it was left")
    expect(read(one), told(*abc), "how it was before")
    expect(read(two), told("edited", "says c", "says d"), "the other branch")
    edited = [("a", HumanMessage("new", id="a"), True)]
    four = archive.append(name, None, edited, after=None, now=at(3), branch=three)
    expect(read(four), told("new", "says b", "says c", "says e"), "an edit, and what follows")
    expect(read("no such branch"), read(four), "a branch that is not there")


def an_unknown_predecessor_stands_for_the_end(archive: Any, name: str) -> None:
    """An unknown `after` means the end of the current branch."""
    archive.append(name, None, make_entries("a"), after="never seen", now=at(0))
    archive.append(name, None, make_entries("b", "c"), after="never seen", now=at(0))
    expect_branch(archive, name, "abc", "messages after something unknown")


def messages_left_out_or_moved_follow_the_conversation(archive: Any, name: str) -> None:
    """The branch follows a conversation that drops or moves a message."""
    archive.append(name, None, make_entries("a", "b", "c", "d"), after=None, now=at(0))
    archive.append(name, None, make_entries("a", "c", "d"), after=None, now=at(1))
    expect_branch(archive, name, "acd", "a conversation that left a message out")
    archive.append(name, None, make_entries("a"), after="d", now=at(2))
    expect_branch(archive, name, "cda", "a conversation that moved a message")
    expect_refusal(
        lambda: archive.append(name, None, make_entries("c"), after="c", now=at(3)), "after"
    )


def many_keys_at_once(archive: Any, name: str) -> None:
    """Thousands of keys may be appended and asked for in one call."""
    keys = [f"key {i}" for i in range(2500)]
    archive.append(name, None, make_entries(*keys), after=None, now=at(0))
    asked = [*keys, "gone"]
    expect_that(archive.contains(name, asked) == set(keys), "keys that are kept")
    expect(archive.contains(name, []), set(), "no keys")
    expect(archive.contains(f"{name} other", keys[:2]), set(), "keys of another thread")
    found = [message.id for message in archive.branch(name, asked[::-1])]
    expect_that(found == keys[::-1], "messages in the order asked for")


# --- Threads -------------------------------------------------------------------------------------


def a_thread_keeps_its_resource(archive: Any, name: str) -> None:
    """A thread stays with its first resource, and the refusal does not name that one."""
    archive.append(name, None, make_entries("a"), after=None, now=at(0))
    archive.add_groups(name, None, [{"id": "g"}], at(0))
    expect(archive.thread(name).resource_id, None, "the resource before one was given")
    archive.append(name, f"{name} r", make_entries("b"), after="a", now=at(1))
    archive.append(name, None, make_entries("c"), after="b", now=at(1))
    expect(archive.thread(name).resource_id, f"{name} r", "the resource")
    expect(archive.groups(resource_id=f"{name} r"), [{"id": "g"}], "groups from before")
    for write in (
        lambda: archive.append(name, f"{name} s", make_entries("d"), after="c", now=at(2)),
        lambda: archive.add_groups(name, f"{name} s", [{"id": "h"}], at(2)),
    ):
        expect_refusal(write, repr(name), repr(f"{name} s"), secret=f"{name} r")
    expect_branch(archive, name, "abc", "after refusals")
    expect(len(archive.groups(thread_id=name)), 1, "groups after refusals")


def pages_of_threads(archive: Any, name: str) -> None:
    """A resource's threads come by page, newest updated first, within times of creation."""
    resource = f"{name} r"
    for i in range(5):
        archive.append(f"{name} {i}", resource, make_entries("a"), after=None, now=at(i))
    archive.append(f"{name} x", f"{name} s", make_entries("a"), after=None, now=at(9))
    archive.append(f"{name} y", None, make_entries("a"), after=None, now=at(9))
    archive.append(f"{name} 1", resource, make_entries("b"), after="a", now=at(10))
    for options, wanted, more in (
        ({}, "14320", False),
        ({"limit": 2}, "14", True),
        ({"limit": 2, "page": 1}, "32", True),
        ({"limit": 2, "page": 2}, "0", False),
        ({"limit": 5}, "14320", False),
        ({"page": 7}, "", False),
        ({"before": at(3), "limit": 2}, "12", True),
        ({"before": at(3), "limit": 2, "page": 1}, "0", False),
        ({"after": at(3)}, "43", False),
        ({"after": at(0), "before": at(2)}, "10", False),
    ):
        found, has_more = archive.threads(resource, **options)
        ids = [thread.id.removeprefix(f"{name} ") for thread in found]
        expect(("".join(ids), has_more), (wanted, more), f"threads with {options}")
    expect(archive.threads(f"{name} nobody"), ([], False), "threads of nobody")


def nothing_is_found_across_resources(archive: Any, name: str) -> None:
    """`find` answers within one thread or resource alone."""
    r, s = f"{name} r", f"{name} s"
    archive.append(f"{name} 1", r, make_entries("shared", "one"), after=None, now=at(2))
    archive.append(f"{name} 2", r, make_entries("shared"), after=None, now=at(1))
    archive.append(f"{name} 3", s, make_entries("shared", "three"), after=None, now=at(9))
    archive.append(f"{name} 4", None, make_entries("four"), after=None, now=at(9))
    for key, thread, resource, wanted in (
        ("shared", None, r, "1"),
        ("shared", None, s, "3"),
        ("shared", "2", None, "2"),
        ("shared", "2", r, "2"),
        ("shared", "2", s, None),
        ("three", None, r, None),
        ("three", "1", None, None),
        ("four", None, r, None),
        ("four", "4", r, None),
        ("four", "4", None, "4"),
    ):
        options = {"thread_id": thread and f"{name} {thread}", "resource_id": resource}
        found = archive.find(key, **options)
        got = found and found.thread_id.removeprefix(f"{name} ")
        expect(got, wanted, f"the thread of {key!r} asked for with {options}")
    expect_refusal(lambda: archive.find("shared"), "`thread_id`", "`resource_id`")


MESSAGE_CHECKS = (
    pages_of_a_conversation,
    what_is_known_is_not_added_again,
    what_must_follow_is_written_behind_what_is_there_alone,
    nothing_is_written_by_who_missed_a_deletion,
    forks_are_kept_and_can_be_returned_to,
    a_branch_keeps_its_words_and_its_way,
    an_unknown_predecessor_stands_for_the_end,
    messages_left_out_or_moved_follow_the_conversation,
    many_keys_at_once,
    a_thread_keeps_its_resource,
    pages_of_threads,
    nothing_is_found_across_resources,
)


# Checks of an archive: search by words.


def say(*texts: str) -> list[tuple[str, BaseMessage, bool]]:
    """Return messages of a user to append, with the keys `m0`, `m1` ..."""
    return [(f"m{n}", HumanMessage(text, id=f"m{n}"), True) for n, text in enumerate(texts)]


def find(archive: Any, query: str, **options: Any) -> list[str]:
    """Return the keys that a search finds, the best first."""
    return [hit.found.key for hit in archive.search(query, **options)]


LANGUAGES = (
    ("The gate code of the flat in Bergen is 4711.", ("bergen", "GATE code", "4711")),
    ("Die Straße nach München ist gesperrt.", ("strasse", "MÜNCHEN", "Munchen")),
    ("東京で寿司を食べました。猫もいた。", ("寿司", "東京", "猫")),
    ("我们在北京吃了烤鸭", ("北京", "烤鸭")),
    ("ذهب أَحْمَد إلى السُّوق", ("احمد", "السوق")),
    ("우리는 제주도에서 만났다", ("제주도",)),
    ("Fix parse_rate in fx/rates.py, then parseRate.", ("parse_rate", "fx/rates.py", "rates")),
    ("The run was lc_run--01a201e6-d64f-7353-ae96-92c394cad9fd-0", ("01a201e6", "lc_run")),
    ("See https://example.org/a/b?c=1 or mail ana@example.org", ("example.org/a/b", "ana@example")),
)
"""A text in each kind of script, and what has to find it."""


def words_of_any_language_are_found(archive: Any, name: str) -> None:
    """A text is found by its words, whatever their script, case and form."""
    archive.append(name, name, say(*(text for text, _ in LANGUAGES)), after=None, now=at(0))
    for number, (_, queries) in enumerate(LANGUAGES):
        for query in queries:
            found = find(archive, query, resource_id=name)
            expect(found[:1], [f"m{number}"], f"the best hit for {query!r}")
    expect(find(archive, "Hamburg 9999 犬", resource_id=name), [], "words that nobody said")


def filters_narrow_a_search(archive: Any, name: str) -> None:
    """Time, role and tool narrow a search down; who has no time passes no limit of time."""
    call = {"name": "lookup", "args": {"city": "Ghent"}, "id": "c1"}
    rows: list[tuple[str, BaseMessage, bool]] = [
        ("ask", HumanMessage("Is Ghent sunny?"), True),
        ("call", AIMessage("", tool_calls=[call]), True),
        ("result", ToolMessage("Ghent: rain", tool_call_id="c1", name="lookup"), True),
        ("hidden", HumanMessage("Ghent, unseen"), False),
        ("undated", HumanMessage("Ghent again"), True),
    ]
    times = {key: at(n) for n, (key, _, _) in enumerate(rows) if key != "undated"}
    archive.append(name, name, rows, after=None, now=at(9), times=times)
    group = {"id": "g", "text": "User asked about Ghent", "ranges": [["ask", "result"]]}
    archive.add_groups(name, name, [{**group, "observed_at": at(5).isoformat()}], at(9))
    for options, wanted in (
        ({}, {"ask", "call", "result", "undated", "g"}),
        ({"role": "user"}, {"ask", "undated"}),
        ({"role": "human"}, {"ask", "undated"}),
        ({"role": "tool"}, {"result"}),
        ({"role": "nobody"}, set()),
        ({"tool_name": "lookup"}, {"call", "result"}),
        ({"tool_name": "look"}, set()),
        ({"before": at(1)}, {"ask"}),
        ({"after": at(1)}, {"call", "result", "g"}),
        ({"after": at(1), "before": at(5), "role": "tool"}, {"result"}),
    ):
        found = set(find(archive, "ghent", resource_id=name, **options))
        expect(found, wanted, f"what is found with {options}")
    (hit,) = (h for h in archive.search("ghent asked", resource_id=name) if h.found.key == "g")
    seen = (hit.found.kind, hit.found.cursor, hit.found.at)
    expect(seen, ("observations", "ask", at(5)), "a group")
    (hit,) = archive.search("ghent", thread_id=name, role="tool")
    expect((hit.thread_id, hit.found.role, hit.found.at), (name, "tool", at(2)), "a message")


def a_search_stays_in_its_scope(archive: Any, name: str) -> None:
    """A thread is searched alone, a resource with all of its threads, and nobody else."""
    ana, bob = f"{name}-ana", f"{name}-bob"
    for thread, owner in (("1", ana), ("2", ana), ("3", bob), ("4", None)):
        archive.append(f"{name}-{thread}", owner, say(f"zebra {thread}"), after=None, now=at(0))

    def threads(**options: Any) -> set[str]:
        return {hit.thread_id[-1] for hit in archive.search("zebra", **options)}

    expect(threads(resource_id=ana), {"1", "2"}, "the threads of ana")
    expect(threads(thread_id=f"{name}-2"), {"2"}, "one thread")
    expect(threads(thread_id=f"{name}-3", resource_id=ana), set(), "another one's thread")
    expect(threads(resource_id=f"{name}-an"), set(), "a name that begins alike")
    archive.append(f"{name}-4", bob, [], after=None, now=at(1))
    expect(threads(resource_id=bob), {"3", "4"}, "a thread that bob got later")
    expect_refusal(lambda: archive.search("zebra"), "`thread_id`", "`resource_id`")


def a_search_follows_the_conversation(archive: Any, name: str) -> None:
    """An edit is found by its new words alone; what left the branch or was deleted is not found."""
    archive.append(name, name, say("apple", "banana", "cherry"), after=None, now=at(0))
    edited: list[tuple[str, BaseMessage, bool]] = [("m1", HumanMessage("blueberry"), True)]
    archive.append(name, name, edited, after="m0", now=at(1))
    expect(find(archive, "banana", resource_id=name), [], "the former words")
    expect(find(archive, "blueberry", resource_id=name), ["m1"], "the new words")
    fork: list[tuple[str, BaseMessage, bool]] = [("f", HumanMessage("date palm"), True)]
    archive.append(name, name, fork, after="m0", now=at(2))
    expect(find(archive, "cherry", resource_id=name), [], "what left the branch")
    expect(find(archive, "palm", resource_id=name), ["f"], "what took its place")
    archive.delete_thread(name)
    expect(find(archive, "apple palm", resource_id=name), [], "a deleted thread")
    archive.append(f"{name}-2", name, say("apple"), after=None, now=at(3))
    expect(find(archive, "apple palm", resource_id=name), ["m0"], "a new thread")
    archive.delete_resource(name)
    expect(find(archive, "apple palm", resource_id=name), [], "a deleted resource")


def a_search_follows_a_branch(archive: Any, name: str) -> None:
    """With the name of a branch its words are found, and no other's."""
    one = archive.append(name, name, say("apple", "banana"), after=None, now=at(0))
    edited: list[tuple[str, BaseMessage, bool]] = [("m1", HumanMessage("blueberry"), True)]
    two = archive.append(name, name, edited, after="m0", now=at(1), branch=one)
    more = [(f"n{n}", HumanMessage(f"apple banana {n}"), True) for n in range(200)]
    archive.append(name, name, more, after=None, now=at(2))
    for branch, wanted in ((one, ["m0", "m1"]), (two, ["m0"])):
        for scope in ({"thread_id": name}, {"resource_id": name}):
            found = find(archive, "apple banana", branches={name: branch}, **scope)
            expect(sorted(found), wanted, f"what {scope} finds")
    expect(find(archive, "blueberry", resource_id=name, branches={name: two}), ["m1"], "an edit")
    expect(find(archive, "blueberry", resource_id=name), [], "the edit on the current branch")
    archive.append(name, name, say("apple", "banana")[1:], after="m0", now=at(3), branch=one)
    expect(find(archive, "banana", thread_id=name), ["m1"], "the branch that was returned to")


def a_search_keeps_to_the_log(archive: Any, name: str) -> None:
    """Groups that left the log of their thread are history, which no search finds."""

    def log() -> list[str]:
        return [group["id"] for group in archive.groups(thread_id=name, in_log=True)]

    groups = [{"id": key, "text": f"{key} likes tea"} for key in ("old", "new", "other")]
    archive.add_groups(name, name, groups[:1], at(0))
    expect(find(archive, "tea", resource_id=name), ["old"], "a log that was not told")
    archive.add_groups(name, name, groups[1:], at(1), log=["new", "other"])
    expect(sorted(find(archive, "tea", resource_id=name)), ["new", "other"], "the log")
    expect(sorted(log()), ["new", "other"], "its groups")
    expect(len(archive.groups(thread_id=name)), 3, "all groups")
    known = {name: ["old", "other"]}
    found = find(archive, "tea", thread_id=name, groups=known)
    expect(sorted(found), ["old", "other"], "a log that the asker knows")
    archive.add_groups(name, name, [], at(2), log=["old"])
    expect(find(archive, "tea", resource_id=name), ["old"], "a group that is back")
    archive.add_groups(name, name, [], at(3), log=[])
    expect(find(archive, "tea", resource_id=name), [], "an empty log")


SEARCH_CHECKS = (
    words_of_any_language_are_found,
    filters_narrow_a_search,
    a_search_stays_in_its_scope,
    a_search_follows_the_conversation,
    a_search_follows_a_branch,
    a_search_keeps_to_the_log,
)
