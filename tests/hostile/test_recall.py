"""Recall answers whatever a model writes, within its budget, and never from others' threads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om import ObservationalMemory
from langgraph_om.archive import ArchivedHit, SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.counters import COUNTERS
from support.examples import examples
from support.inside import (
    Asker,
    Identity,
    SearchRequest,
    StateSource,
    StepRunner,
    TokenCounter,
    UserArguments,
    blank_record,
    recall,
    runner_of,
)
from support.material import CONTROL, deep, ids, long_texts, tags_in, texts
from support.recall_talk import hit_of, read_talk

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
BUDGET = 2000
KINDS = {"error", "hint", "messages", "threads", "results", "text"}

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
likely = st.sampled_from(
    [
        *("messages", "threads", "search", "low", "high", "current", "m0", "m1", "m2", "x0", "1"),
        *("m0:m2", "_range: `m0:m2`_", ":", "," * 1000, ":" * 1000, "x" * 100_000, "9" * 5000),
        *("2026-03-15", "0001-01-01", "9999-12-31T23:59:59.999999-23:59", "2026-W11-7", "\ud800"),
        *(10**400, -(10**400), 1e308, float("nan"), float("inf"), -0.0, 0, 1, 2, -1, 999),
        *(deep(2000), object(), b"m1", {"m1"}, Ellipsis, 1j, "thread-0000000000000000"),
    ]
)
arguments = st.dictionaries(
    st.sampled_from([*UserArguments.model_fields]) | ids, likely | ids | junk, max_size=5
)
"""Anything a model may write, and much that none would."""

pieces: st.SearchStrategy[list[str | dict[Any, Any]]] = st.lists(
    texts | texts.map(lambda text: {"type": "image", "filename": text, "url": "https://x.org/a"}),
    max_size=3,
)
messages = st.one_of(
    st.builds(HumanMessage, long_texts | pieces, name=st.none() | ids),
    st.builds(
        lambda text, name, call: AIMessage(
            text, tool_calls=[{"name": name, "args": {call: text}, "id": call}]
        ),
        texts,
        ids,
        ids,
    ),
    st.builds(ToolMessage, long_texts, name=ids, tool_call_id=ids),
)


class Searched(StateSource):
    """The messages of a thread, all of which any search finds."""

    def search_words(self, asked: SearchRequest) -> list[ArchivedHit]:
        """Find all messages."""
        return [
            hit_of(self.who.thread_id, m.key, 0.5, str(m.message.content), m.key, role="user")
            for m in self.said
        ]


def searched(thread: str, entries: list[Any], title: str) -> Searched:
    talk = read_talk(entries, thread, title)
    return Searched(who=talk.who, said=talk.said, label=title)


def answer(
    source: StateSource, asked: Any, counter: TokenCounter, *, reaches_others: bool = True
) -> dict[str, Any]:
    """What a call is answered, checked."""
    given = recall(asked, Asker(source=source, counter=counter, reaches_others=reaches_others))
    check(given, counter)
    return given


def check(answer: dict[str, Any], counter: TokenCounter) -> None:
    text = json.dumps(answer, ensure_ascii=False)
    text.encode()
    assert counter.count_text(text) <= BUDGET
    assert len(KINDS & set(answer)) == 1
    shown = [value for value in answer.values() if isinstance(value, str)]
    assert all(tags_in(value) == [] for value in shown)
    assert not any(
        CONTROL.search(value.replace("\r", "").replace("\u2028", "").replace("\u2029", ""))
        for value in shown
    )


@examples(30)
@given(
    st.lists(st.tuples(ids, messages), max_size=3),
    arguments,
    ids,
    texts,
    st.sampled_from(["thread", "resource"]),
    st.sampled_from(COUNTERS),
)
def test_no_argument_and_no_content_breaks_an_answer(  # noqa: PLR0917 examples come by place
    said: list[tuple[str, BaseMessage]],
    written: dict[str, Any],
    thread: str,
    title: str,
    reach: Literal["thread", "resource"],
    counter: TokenCounter,
) -> None:
    entries = [
        ("m0", HumanMessage("first"), None),
        *((key, message, NOON) for key, message in said),
    ]
    source = searched(thread, entries, title)
    keys = [key for key, _, _ in entries]
    for asked in (
        written,
        {},
        {"page": -1},
        {"mode": "threads"},
        {"mode": "search", "query": "x"},
        *({"cursor": key, "detail": "high"} for key in keys),
        *({"cursor": key, "part_index": 0} for key in keys),
    ):
        answer(source, asked, counter, reaches_others=reach == "resource")


# --- Who may see what ----------------------------------------------------------------------------

HIDDEN = "zebra pin 7431"
OWN = "own words of ana"
HERS, HIS = "ana", "bob"
RESOURCES = (HIS, "an", "ana2", "Ana", "ana ", "ana\x00", "ana\\", "ana%", "an_", None)
"""Whose threads ana must not see, though their names are near to hers."""
THREADS = ("t-ana", "t-ana-2")


def answer_call(memory: ObservationalMemory, state: Any, written: Any, *, config: Any) -> Any:
    """Answer what a model wrote, names of any kind."""
    recall: Any = runner_of(memory).settings.parts.recall
    return recall.answer_call(state, written, config=config)


@pytest.fixture(scope="module")
def archive() -> Iterator[SQLAlchemyArchive]:
    with closing(SQLAlchemyArchive("sqlite:///:memory:")) as archive:
        for at, thread in enumerate(THREADS):
            said = [
                (f"{thread}-{n}", HumanMessage(f"{OWN} {n}", id=f"{thread}-{n}"), True)
                for n in range(3)
            ]
            archive.append(
                thread, HERS, said, after=None, now=NOON + timedelta(minutes=at), title="own"
            )
        for at, resource in enumerate(RESOURCES):
            keys = (f"s{at}", "t-ana-0", "shared")
            hidden = [(key, HumanMessage(f"{HIDDEN} {key}", id=key), True) for key in keys]
            archive.append(f"t-secret-{at}", resource, hidden, after=None, now=NOON, title=HIDDEN)
        yield archive


@pytest.fixture(scope="module", params=["thread", "resource"])
def memory(request: pytest.FixtureRequest, archive: SQLAlchemyArchive) -> ObservationalMemory:
    model = ScriptedChatModel(observer=ExtractiveObserver().reply)
    return ObservationalMemory(model, retrieval={"scope": request.param}, archive=archive)


QUERIES = (
    HIDDEN,
    "zebra",
    "7431",
    OWN,
    "zebra* OR pin",
    "' OR 1=1 --",
    "=t =r =s",
    "🎉",
    "x" * 3000,
)
HIDDEN_NAMES = [f"t-secret-{at}" for at in range(len(RESOURCES))]
TRICKS = ("%", "_", "*", "t-%", "' OR 1=1 --", "t-secret-0' --", "\\", "", "../t-secret-0", "[s0]")
names = st.sampled_from(
    [
        *(*HIDDEN_NAMES, *THREADS, *TRICKS),
        *("s0", "s9", "shared", "t-ana-0", "t-ana-2-0", "current", "s0:s1"),
    ]
)


@examples(45)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from(["messages", "threads", "search"]),
            "query": st.sampled_from(QUERIES) | names | texts,
            "cursor": names | ids,
            "thread_id": names | ids,
            "page": st.integers(-3, 3),
            "limit": st.integers(1, 20),
            "detail": st.sampled_from(["low", "high"]),
            "part_index": st.integers(0, 2),
            "before": st.sampled_from(["2999-01-01", "2026-03-15T12:00:30"]),
            "after": st.sampled_from(["1999-01-01", "2026-03-15"]),
            "resource_id": names,
            "resourceId": names,
        },
    )
)
@example({"cursor": "shared"})
@example({"mode": "search", "query": HIDDEN})
@example({"mode": "search", "query": HIDDEN, "thread_id": "t-secret-0"})
@example({"mode": "search", "query": HIDDEN, "cursor": "s0"})
@example({"mode": "search", "query": f'{HIDDEN} OR "zebra" =r* pin:*', "limit": 20})
@example({"cursor": "t-ana-0"})
@example({"thread_id": "t-secret-0"})
@example({"cursor": "s0", "thread_id": "t-ana", "part_index": 0})
def test_nobody_reads_the_threads_of_somebody_else(
    memory: ObservationalMemory, written: dict[str, Any]
) -> None:
    config: Any = {"configurable": {"thread_id": "t-ana", "resource_id": HERS}}
    state = {"messages": []}
    answer = answer_call(memory, state, written, config=config)
    assert HIDDEN not in json.dumps(answer)
    guessed = {key: _unknown(value) for key, value in written.items()}
    if set(written) <= {"cursor", "thread_id"} and written != guessed:
        assert answer == answer_call(memory, state, guessed, config=config)


@pytest.fixture(scope="module", params=["thread", "resource"])
def injecting(
    request: pytest.FixtureRequest, archive: SQLAlchemyArchive
) -> tuple[StepRunner, frozenset[str]]:
    """What searches for a message of the user, and the threads in which ana's may be found."""
    model = ScriptedChatModel(observer=ExtractiveObserver().reply)
    inject = {"scope": request.param, "inject": {"top_k": 20, "message_range": 20}}
    memory = ObservationalMemory(model, retrieval=inject, archive=archive)
    return runner_of(memory), frozenset(THREADS if request.param == "resource" else THREADS[:1])


@examples(30)
@given(
    st.sampled_from(QUERIES) | names | texts, st.sampled_from([THREADS[0], "t-new", *HIDDEN_NAMES])
)
@example(HIDDEN, THREADS[0])
@example("zebra", "t-secret-0")
@example(f"{OWN} {HIDDEN}", "t-new")
@example(OWN, THREADS[0])
def test_nothing_is_found_for_a_message_that_somebody_else_said(
    injecting: tuple[StepRunner, frozenset[str]], text: str, thread: str
) -> None:
    runner, own = injecting
    assert runner.settings.parts.inject is not None
    finder = runner.settings.parts.inject.finder
    if len(own) == 1 and thread in HIDDEN_NAMES:
        return  # within one thread, that one is searched, whoever owns it: see docs/security.md
    who = Identity(thread, HERS)
    found = finder.find_earlier(text, who, blank_record(), [], set())
    assert not any(HIDDEN in f"{each.text} {each.title}" for each in found)
    assert {each.message.thread_id for each in found} <= own
    if (text, thread) == (OWN, THREADS[0]):
        assert {each.message.thread_id for each in found} == own


@pytest.mark.parametrize("resource", [HERS, *RESOURCES, "nobody"])
def test_a_turn_is_shown_what_its_own_user_said(resource: str | None) -> None:
    with closing(SQLAlchemyArchive("sqlite:///:memory:")) as archive:
        model = ScriptedChatModel(observer=ExtractiveObserver().reply)
        memory = ObservationalMemory(model, retrieval={"inject": True}, archive=archive)
        said = HumanMessage(HIDDEN, id="hers")
        hers: Any = {"configurable": {"thread_id": "t-hers", "resource_id": HERS}}
        memory.step(None, [said], config=hers)
        run: Any = {"configurable": {"thread_id": "t-other", "resource_id": resource}}
        asks = HumanMessage("What was the zebra pin?", id="asks")
        shown = memory.step(None, [asks], config=run).messages
        assert any(HIDDEN in message.text for message in shown) == (resource == HERS)


def test_what_was_found_goes_when_the_conversation_is_somebody_elses() -> None:
    with closing(SQLAlchemyArchive("sqlite:///:memory:")) as archive:
        model = ScriptedChatModel(observer=ExtractiveObserver().reply)
        memory = ObservationalMemory(model, retrieval={"inject": True}, archive=archive)
        hers: Any = {"configurable": {"thread_id": "t-hers", "resource_id": HERS}}
        memory.step(None, [HumanMessage(HIDDEN, id="hers")], config=hers)
        asks = HumanMessage("What was the zebra pin?", id="asks")
        mine: Any = {"configurable": {"thread_id": "t-new", "resource_id": HERS}}
        first = memory.step(None, [asks], config=mine)
        assert any(HIDDEN in message.text for message in first.messages)
        other: Any = {"configurable": {"thread_id": "t-copy", "resource_id": HIS}}
        copied = memory.step(first.record, [asks], config=other)
        assert not any(HIDDEN in message.text for message in copied.messages)
        assert HIDDEN not in json.dumps(copied.record)


def _unknown(value: object) -> object:
    """A name of the same length that nobody has."""
    return "q" * len(value) if value in {*HIDDEN_NAMES, "s0", "s9", "shared"} else value


def test_a_run_without_a_resource_reads_its_own_thread_alone(archive: SQLAlchemyArchive) -> None:
    model = ScriptedChatModel(observer=ExtractiveObserver().reply)
    memory = ObservationalMemory(model, retrieval={"scope": "resource"}, archive=archive)
    config: Any = {"configurable": {"thread_id": "t-new"}}
    for written in ({"thread_id": "t-ana"}, {"cursor": "t-ana-0"}, {"mode": "threads"}, {}):
        answer = answer_call(memory, {"messages": []}, written, config=config)
        assert OWN not in json.dumps(answer)
        assert HIDDEN not in json.dumps(answer)
    # Both belong to nobody, which makes them no one's together.
    last = HIDDEN_NAMES[RESOURCES.index(None)]
    answer = answer_call(memory, {"messages": []}, {"thread_id": last}, config=config)
    assert HIDDEN not in json.dumps(answer)


@pytest.mark.parametrize(
    "unit", ["😀🎉", "界", "zqxj", "<thread>", "\U00012000", "e\u0301", "𝐨", "\x00 "]
)
@pytest.mark.parametrize("counter", COUNTERS)
def test_long_names_and_ids_keep_to_the_budget(unit: str, counter: TokenCounter) -> None:
    name = (unit * 300)[:300]
    said = [
        HumanMessage(["a" * 5000, "b"], name=name),
        AIMessage("", tool_calls=[{"name": name, "args": {"x": "y" * 9000}, "id": name}] * 2),
        ToolMessage("r" * 9000, name=name, tool_call_id=name),
    ]
    entries = [(f"{at}{name}", each, NOON) for at, each in enumerate(said * 3)]
    source = searched(name, entries, name)
    for key, _, _ in entries[3:6]:
        for more in ({"detail": "high"}, {"detail": "high", "page": -1}, {"part_index": 0}, {}):
            answer(source, {"cursor": key, **more}, counter)
    for asked in ({"page": -1}, {"mode": "threads"}, {"mode": "search", "query": "x"}):
        answer(source, asked, counter)
