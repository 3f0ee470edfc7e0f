"""Checks of an archive: search by words. One that has no `search` passes them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.testing.archive.expectations import at, expect, expect_refusal, expect_that

Check = Callable[[Any, str], None]


def _where_it_searches(check: Check) -> Check:
    """Leave a check out where the archive has no `search`, which is optional."""

    @wraps(check)
    def run(archive: Any, name: str) -> None:
        if hasattr(archive, "search"):
            check(archive, name)

    return run


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


NOTHING = ("", " ", "*", '"', "'", "(", "-", "🎉", "\x00", "\ud800", "%", "_", "\\", "&", "|")
ALPHA = (
    *("alpha NOT beta", "NEAR(alpha beta, 1)", '"alpha', "alpha*", "-alpha", "^alpha"),
    *("words:alpha", "alpha & !beta", "alpha:*", "alpha '", "alpha;--", "{alpha}:beta"),
    *("alpha " * 2000, "alpha" + " x" * 5000, "alpha 🎉 \x00 \ud800 \\", "alpha AND beta OR"),
)


def a_query_is_text(archive: Any, name: str) -> None:
    """Nothing in a query is an operator, and none raises."""
    archive.append(name, name, say("alpha beta", "alpha", "gamma"), after=None, now=at(0))
    for query in NOTHING:
        expect(find(archive, query, resource_id=name), [], f"what {query!r} finds")
    for query in ALPHA:
        found = set(find(archive, query, resource_id=name))
        expect(found, {"m0", "m1"}, f"what {query[:40]!r} finds")
    many = " ".join(f"remarkable{chr(97 + n)}" * 4 for n in range(26))
    expect(find(archive, f"{many} {many[::-1]}", resource_id=name), [], "a query of long words")
    expect(find(archive, "alph", resource_id=name), [], "the beginning of a word")


def the_rarest_words_count_most(archive: Any, name: str) -> None:
    """A text with the rare word stands before those with the frequent ones; pages go on."""
    texts = [f"we talked about the weather on day {n}" for n in range(30)]
    texts[7] = "we talked about walnuts"
    archive.append(name, name, say(*texts), after=None, now=at(0))
    hits = archive.search("the talk about walnuts", resource_id=name, limit=3)
    expect(hits[0].found.key, "m7", "the best hit")
    scores = [hit.found.score for hit in hits]
    expect(scores, sorted(scores, reverse=True), "scores")
    expect_that(all(0 < score < 1 for score in scores), "scores between 0 and 1")
    everything = find(archive, "talked about", resource_id=name, limit=40)
    expect(len(everything), 30, "hits")
    pages = [find(archive, "talked about", resource_id=name, limit=7, offset=7 * n) for n in (0, 1)]
    expect([*pages[0], *pages[1]], everything[:14], "two pages")
    expect(find(archive, "talked", resource_id=name, limit=0), [], "no hits when none are wanted")


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
    archive.append(name, name, rows, after=None, now=at(9), times={"undated": at(7)})
    expect(find(archive, "again", resource_id=name, after=at(7)), ["undated"], "a time told later")


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


def long_texts_are_found_to_their_end(archive: Any, name: str) -> None:
    """A word at the end of a long text finds it, and the text that comes back holds it."""
    long = "lorem ipsum dolor " * 20_000 + " kumquat"
    archive.append(name, name, say("short", long, "😀" * 20_000), after=None, now=at(0))
    (hit,) = archive.search("kumquat", resource_id=name)
    expect(hit.found.key, "m1", "the hit")
    expect_that("kumquat" in hit.found.text, "the word in its text")


SEARCH_CHECKS = tuple(
    _where_it_searches(check)
    for check in (
        words_of_any_language_are_found,
        a_query_is_text,
        the_rarest_words_count_most,
        filters_narrow_a_search,
        a_search_stays_in_its_scope,
        a_search_follows_the_conversation,
        a_search_follows_a_branch,
        a_search_keeps_to_the_log,
        long_texts_are_found_to_their_end,
    )
)
