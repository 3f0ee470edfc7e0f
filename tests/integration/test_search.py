"""Search by words: in a conversation, in an archive, by recall's tool and by the user's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.store.memory import InMemoryStore

from langgraph_om import InlineBuffering, SearchHit
from langgraph_om.archive import SQLAlchemyArchive
from support.agents import (
    on_thread,
    record_of,
    remembering,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)
from support.clock import Clock
from support.inside import list_items
from support.recalling import (
    WALNUTS,
    embed,
    index_of,
    recalled,
    recalling,
    three_threads,
)

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
SAID: list[BaseMessage] = [
    HumanMessage("The gate code of the flat in Bergen is 4711.", id="gate"),
    AIMessage("Noted.", id="noted"),
    HumanMessage("I painted the kitchen with Ana.", id="paint"),
    HumanMessage("東京で寿司を食べました。", id="sushi"),
]


@pytest.fixture
def archive() -> Iterator[SQLAlchemyArchive]:
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        for n, (thread, owner) in enumerate((("a1", "ana"), ("a2", "ana"), ("b1", "bob"))):
            rows = [(str(each.id), each, True) for each in SAID]
            times = {str(each.id): NOON + timedelta(days=n) for each in SAID}
            now = NOON + timedelta(days=n)
            archive.append(
                thread, owner, rows, after=None, now=now, times=times, title=f"Talk {thread}"
            )
        yield archive


# --- The tool ------------------------------------------------------------------------------------


def test_a_search_without_an_archive_finds_messages_and_observations() -> None:
    agent = recalling()
    talk(agent.graph, on_thread(), [WALNUTS, *turns(6)])
    found = recalled(agent, mode="search", query="allergic to walnuts")
    assert "- user, " in found["results"]
    assert "cursor walnuts" in found["results"]
    noted = recalled(agent, mode="search", query="trip to Lisbon")
    # These it sees, and so it is told where they begin.
    assert "- observations, observed" not in noted["results"]
    assert "(your observations match too: those from walnuts on)" in noted["results"]
    own = agent.memory.of(agent.graph, on_thread()).search("trip to Lisbon")
    assert "observations" in {hit.kind for hit in own}
    page = recalled(agent, cursor="walnuts", limit=1)
    assert "walnuts" in page["messages"]
    none = recalled(agent, mode="search", query="zeppelin")
    assert (none["results"], none["count"]) == ("(nothing found)", 0)


def test_a_search_looks_in_one_conversation_where_one_is_named() -> None:
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        agent = three_threads(archive)
        everywhere = recalled(agent, "work", "ana", mode="search", query="4711")
        assert "[trip]" in everywhere["results"]
        assert "[work]" in everywhere["results"]
        assert "bobs" not in everywhere["results"]
        found = recalled(agent, "work", "ana", mode="search", query="4711", thread_id="trip")
        assert "[trip]" in found["results"]
        assert "[work]" not in found["results"]
        hidden = recalled(agent, "work", "ana", mode="search", query="4711", thread_id="bobs")
        assert "no such conversation" in hidden["error"]


# --- What a person forgot ------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["forget", "correct"])
@pytest.mark.parametrize("where", ["state", "archive", "shared log"])
def test_a_search_finds_no_observation_that_a_person_took_out(where: str, act: str) -> None:
    query, ana = "trip to Lisbon", {"resource_id": "ana"}
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        store = InMemoryStore(index=index_of())
        agent = recalling(
            store=store,
            archive=None if where == "state" else archive,
            retrieval={"vector": True},
            scope="resource" if where == "shared log" else "thread",
        )
        graph, memory, config = agent.graph, agent.memory, on_thread(**ana)
        talk(graph, config, turns(6))
        asking_threads = ["t"] if where == "state" else ["t", "other"]
        talk(graph, on_thread("other", **ana), turns(2, start=22))

        def found() -> tuple[list[set[str]], list[set[str]]]:
            """The kinds of what each thread finds of Lisbon, and each of the user's calls."""
            assert memory.flush(60)
            told_kinds = []
            for thread in asking_threads:
                state = values(graph, on_thread(thread, **ana))
                asked = {"mode": "search", "query": query, "limit": 10, "store": store}
                told = memory.recall(state, on_thread(thread, **ana), **asked)["results"]
                hits = [each for each in told.split("\n- ") if "Lisbon" in each]
                told_kinds.append({each.partition(",")[0] for each in hits})
            if where == "state":
                own = [memory.search(query, state=graph.get_state(config))]
            else:
                own = [
                    memory.search(query, **name, store=store) for name in ({"thread_id": "t"}, ana)
                ]
            own_kinds = [{hit.kind for hit in hits if "Lisbon" in hit.excerpt} for hits in own]
            return told_kinds, own_kinds

        def is_noted() -> bool:
            """Whether all find the observations, but an Actor that sees them."""
            told, own = found()
            assert "observations" not in told[0]
            assert where != "archive" or "observations" in told[1]
            return all("observations" in kinds for kinds in own)

        assert is_noted()
        before = record_of(graph, config)
        items = [item.id for item in list_items(before["log"]) if "Lisbon" in item.words]
        words = () if act == "forget" else ("User stays at home",)
        for item in items:
            getattr(memory.of(graph, config), act)(item, *words)
        say(graph, config, turn(30))
        say(graph, on_thread("other", **ana), turn(31))
        # What was said is found as it was.
        assert all(kinds and "observations" not in kinds for kinds in chain(*found()))
        for _ in items:
            memory.of(graph, config).undo()
        say(graph, config, turn(32))
        say(graph, on_thread("other", **ana), turn(33))
        assert is_noted()


# --- By meaning: what is indexed, and when -------------------------------------------------------

CAR = "My automobile is red and stands in the second street."


class Counting:
    """A store in which words for a car are near each other, and what it has embedded how often."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.store = InMemoryStore(index=index_of(self.embed))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen.update(texts)
        return embed([text.replace("automobile", "vehicle") for text in texts])

    def texts(self, kind: str) -> list[str]:
        """Return what is in the store."""
        items = self.store.search(("langgraph_om",), limit=1000)
        return [item.value["text"] for item in items if item.namespace[-1] == kind]


@pytest.mark.slow
@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_short_chats_are_found_by_meaning_before_anything_is_observed(door: str) -> None:
    found, wide = Counting(), {"messages": 30_000, "log": 40_000}
    retrieval = {"vector": True, "inject": {"message_range": 0, "top_k": 2}}
    with closing(SQLAlchemyArchive("sqlite://")) as archive:
        given: Any = {"archive": archive, "store": found.store, "retrieval": retrieval}
        agent = recalling(door, **given, **wide)
        for chat in range(10):
            said = [turn(number, "1" if number == 2 else "") for number in range(chat, chat + 3)]
            red = [HumanMessage(CAR, id="car")] if chat == 3 else []
            talk(agent.graph, on_thread(f"chat{chat}", resource_id="ana"), [*said, *red])
        assert agent.memory.flush(60)
        assert record_of(agent.graph, on_thread("chat3"))["log"] == []
        asks = HumanMessage("Vehicle?", id="ask")
        (part,) = [
            part
            for part in say(agent.graph, on_thread("new", resource_id="ana"), asks)
            if part["type"] == "data-om-recalled"
        ]
        assert {hit["id"] for hit in part["data"]["hits"]} == {"car", "car-answer"}
        found_hits = recalled(agent, "new", "ana", mode="search", query="vehicle")
        assert "cursor car" in found_hits["results"]
        assert agent.memory.flush(60)


def test_observations_are_searchable_while_they_are_buffered() -> None:
    found = Counting()
    agent = recalling(
        store=found.store,
        retrieval={"vector": True},
        messages=2000,
        observation={"buffer_tokens": 0.1},
        buffering=InlineBuffering(),
    )
    talk(agent.graph, on_thread(), turns(6))
    record = record_of(agent.graph, on_thread())
    assert record["log"] == []
    buffered = [group["text"] for chunk in record["chunks"] for group in chunk["groups"]]
    talk(agent.graph, on_thread(), turns(24, start=6))  # they are activated, and indexed once
    assert agent.memory.flush(60)
    assert record_of(agent.graph, on_thread())["log"] != []
    assert set(buffered) <= set(found.texts("groups"))
    assert {found.seen[text] for text in buffered} == {1}


def test_a_message_that_was_removed_is_not_found_by_meaning() -> None:
    found = Counting()
    agent = recalling(store=found.store, retrieval={"vector": True}, messages=30_000)
    talk(agent.graph, on_thread(), [HumanMessage(CAR, id="car"), turn(1)])
    assert agent.memory.flush(60)
    removed = [RemoveMessage(id="car"), RemoveMessage(id="car-answer")]
    agent.graph.update_state(on_thread(), {"messages": removed})
    answer = recalled(agent, mode="search", query="vehicle")
    assert "cursor car" not in answer["results"]


def test_words_and_meaning_are_joined_and_what_is_unlike_is_left_out() -> None:
    store = InMemoryStore(index=index_of())
    agent = recalling(store=store, retrieval={"vector": True})
    talk(agent.graph, on_thread(), [*turns(3), WALNUTS, *turns(4, start=4)])
    assert agent.memory.flush(60)
    found = recalled(agent, mode="search", query="allergic walnuts", limit=20)
    assert "score 0.00" not in found["results"]
    assert found["results"].count("cursor walnuts") == 1


# --- For users' code -----------------------------------------------------------------------------


def test_a_user_searches_all_threads_or_one(archive: SQLAlchemyArchive) -> None:
    memory = remembering(scripted(), Clock(), archive=archive)
    found = memory.search("gate code", resource_id="ana")
    assert {(hit.thread_id, hit.id) for hit in found} == {("a1", "gate"), ("a2", "gate")}
    (hit,) = memory.search("paintings", thread_id="a2")
    assert hit == SearchHit(
        kind="message",
        id="paint",
        thread_id="a2",
        thread_title="Talk a2",
        role="user",
        at=NOON + timedelta(days=1),
        excerpt="I painted the kitchen with Ana.",
        score=hit.score,
    )
    assert 0 < hit.score < 1
    assert [hit.id for hit in memory.search("寿司", thread_id="a1")] == ["sushi"]
    assert memory.search("gate", thread_id="b1", resource_id="ana") == []
    assert len(memory.search("gate", resource_id="ana", limit=1)) == 1


def test_threads_are_listed_with_titles_and_times(archive: SQLAlchemyArchive) -> None:
    memory = remembering(scripted(), Clock(), archive=archive)
    listed = memory.threads("ana")
    assert [(each.id, each.title) for each in listed] == [("a2", "Talk a2"), ("a1", "Talk a1")]
    assert listed[1].created == NOON
    assert [each.id for each in memory.threads("ana", limit=1, page=1)] == ["a1"]
    assert [each.id for each in memory.threads("ana", before="2026-03-16")] == ["a1"]
    assert memory.threads("nobody") == []


# --- A store that cannot search ------------------------------------------------------------------


def test_a_store_that_fails_leaves_what_words_find_and_tells_no_thread_from_another(
    archive: SQLAlchemyArchive, caplog: Any
) -> None:
    class Fails(InMemoryStore):
        def search(self, *_: Any, **__: Any) -> Any:
            msg = "the embedding is away"
            raise OSError(msg)

    store = Fails(index=index_of())
    memory = remembering(scripted(), Clock(), archive=archive, retrieval={"vector": True})
    assert [hit.id for hit in memory.search("gate", thread_id="a1", store=store)] == ["gate"]
    assert "the embedding is away" in caplog.text
    for thread in ("b1", "nowhere"):  # Bob's, and none
        found = memory.search("gate", thread_id=thread, resource_id="ana", store=store)
        assert found == []
