"""A thread that is given to another user: all of it is theirs, and nothing the former owner's."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from sqlalchemy import create_engine, text

from langgraph_om import (
    BackgroundBuffering,
    ConfigurationError,
    ObservationalMemory,
    ThreadBusyError,
    WorkingMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.archive.search import mark
from langgraph_om.testing import ExtractiveObserver
from support.agents import actor, on_thread, say, scripted, search, turn, turns, values
from support.clock import START, Clock
from support.inside import nest_thread_id
from support.recalling import embed, index_of, recalled, recalling

WORD = "zanzibarquux"
SECRET = HumanMessage(
    f"My {WORD} 7412 stands in Lisbon, Kyoto, Bergen, Quito, Cork and Oaxaca, at 9, 10 and 11.",
    id="secret",
)
ANA, BEN = on_thread("trip", resource_id="ana"), on_thread("trip", resource_id="ben")
ANAS_OTHER, BENS_OTHER = on_thread("a2", resource_id="ana"), on_thread("b2", resource_id="ben")


def one_of_anas(archive: Any, saver: Any = None, **options: Any) -> Any:
    """An agent with a thread of Ana's in which she tells a secret, observed by its end."""
    agent = recalling(saver=saver or InMemorySaver(), archive=archive, log=9000, **options)
    for said in [SECRET, *turns(6)]:
        say(agent.graph, ANA, said)
    say(agent.graph, ANAS_OTHER, turn(20))
    say(agent.graph, BENS_OTHER, turn(30))
    assert agent.memory.flush(60)
    return agent


def found(memory: ObservationalMemory, user: str, word: str = WORD, **options: Any) -> set[str]:
    """The threads and kinds in which a user finds a word."""
    hits = memory.search(word, resource_id=user, **options)
    return {f"{hit.thread_id} {hit.kind}" for hit in hits}


def listed(memory: ObservationalMemory, user: str) -> set[str]:
    return {thread.id for thread in memory.threads(user)}


@pytest.fixture
def rows(url: str) -> Iterator[Any]:
    """Returns the owners that rows of a table have; of texts, their words."""
    engine = create_engine(url)

    def read(table: str, thread: str = "trip") -> list[Any]:
        column = "id" if table == "om_threads" else "thread_id"
        told = "words" if table == "om_texts" else "resource_id"
        query = text(f"SELECT {told} FROM {table} WHERE {column} = :thread")  # noqa: S608
        with closing(engine.connect()) as connection:
            return sorted(
                {str(each) for each in connection.execute(query, {"thread": thread}).scalars()}
            )

    yield read
    engine.dispose()


@pytest.mark.parametrize("evict", [False, True])
def test_search_lists_and_recall_are_the_new_owners(url: str, rows: Any, *, evict: bool) -> None:
    archive = SQLAlchemyArchive(url)
    agent = one_of_anas(archive, retrieval={"scope": "resource"}, evict=evict)
    memory = agent.memory
    assert found(memory, "ana") == {"trip message", "trip observations"}
    assert (found(memory, "ben"), listed(memory, "ben")) == (set(), {"b2"})
    said = len(archive.messages("trip", limit=100))
    before = archive.groups(resource_id="ana")
    memory.move_thread("trip", "ana", "ben")
    assert found(memory, "ben") == {"trip message", "trip observations"}
    assert found(memory, "ana") == set()
    assert (listed(memory, "ana"), listed(memory, "ben")) == ({"a2"}, {"trip", "b2"})
    for user, wanted in (("ana", {"a2"}), ("ben", {"trip", "b2"})):  # as the inspector lists them
        assert {e.thread.id for e in archive.list_threads(resource_id=user, limit=9)} == wanted
    assert rows("om_threads") == rows("om_groups") == ["ben"]
    for words in rows("om_texts"):  # which begin with whose they are
        assert mark("resource", "ben") in words
        assert mark("resource", "ana") not in words
    moved = archive.groups(thread_id="trip")
    assert archive.groups(resource_id="ben")[-len(moved) :] == moved
    assert [each for each in before if each not in moved] == archive.groups(resource_id="ana")
    # The tool, in another thread of each.
    assert "[trip]" in recalled(agent, "b2", "ben", mode="search", query=WORD)["results"]
    assert "trip" not in str(recalled(agent, "a2", "ana", mode="search", query=WORD)["results"])
    assert archive.find("secret", resource_id="ana") is None
    found_at = archive.find("secret", resource_id="ben")
    assert found_at is not None
    # The conversation goes on, with all that memory knew.
    log = len(values(agent.graph, BEN)["om"]["log"])
    say(agent.graph, BEN, turn(40))
    record = values(agent.graph, BEN)["om"]
    assert record["resource_id"] == "ben"
    assert len(record["log"]) >= log > 0
    assert len(archive.messages("trip", limit=100)) == said + 2
    assert rows("om_groups") == ["ben"]
    with pytest.raises(ConfigurationError, match="belongs to another"):
        say(agent.graph, ANA, turn(41))
    memory.close()
    archive.close()


def test_what_is_written_later_is_found_by_the_new_owner_alone(archive: SQLAlchemyArchive) -> None:
    memory = one_of_anas(archive).memory
    memory.move_thread("trip", "ana", "ben")
    later = [("later", HumanMessage("The quuxword is new."), True)]
    archive.append("trip", None, later, after="secret", now=START)
    assert found(memory, "ben", "quuxword") == {"trip message"}
    assert found(memory, "ana", "quuxword") == set()


def test_moving_again_and_back(archive: SQLAlchemyArchive) -> None:
    agent = one_of_anas(archive)
    for _ in range(2):
        agent.memory.move_thread("trip", "ana", "ben")
    agent.memory.move_thread("trip", "ben", "ana")
    say(agent.graph, ANA, turn(40))
    assert found(agent.memory, "ana") == {"trip message", "trip observations"}
    assert found(agent.memory, "ben") == set()


def test_the_same_call_moves_the_rest_where_the_state_was_not_reached(
    archive: SQLAlchemyArchive,
) -> None:
    agent = one_of_anas(archive)
    agent.memory.move_thread("trip", "ana", "ben")  # as a call does that fails behind the archive
    agent.memory.of(agent.graph, ANA).move_to("ben")
    assert values(agent.graph, BEN)["om"]["resource_id"] == "ben"
    with pytest.raises(ConfigurationError, match="belongs to another resource"):
        agent.memory.of(agent.graph, ANA).move_to("carl")
    assert "trip" in listed(agent.memory, "ben")


async def test_awaited(archive: SQLAlchemyArchive) -> None:
    agent = one_of_anas(archive)
    await agent.memory.amove_thread("trip", "ana", "ben")
    assert archive.threads("ana")[0][0].id == "a2"
    await agent.memory.of(agent.graph, BEN).amove_to("carl")
    assert "trip" in listed(agent.memory, "carl")


def test_a_thread_that_was_nobodys(archive: SQLAlchemyArchive) -> None:
    agent = recalling(archive=archive)
    say(agent.graph, on_thread("trip"), SECRET)
    agent.memory.move_thread("trip", None, "ben")
    assert found(agent.memory, "ben") == {"trip message"}


def test_what_runs_within_it_goes_with_it(archive: SQLAlchemyArchive) -> None:
    inner, expert = nest_thread_id("trip", ["research"]), nest_thread_id("trip", ["expert"])
    row = [("a", HumanMessage(f"The {WORD} again."), True)]
    archive.append("trip", "ana", row, after=None, now=START)
    archive.append(inner, "ana", row, after=None, now=START, parent="trip")
    archive.append(expert, "expert", row, after=None, now=START, parent="trip")
    memory = ObservationalMemory(scripted(), archive=archive)
    with pytest.raises(ConfigurationError, match="runs within 'trip'"):
        memory.move_thread(inner, "ana", "ben")
    memory.move_thread("trip", "ana", "ben")
    owners = {key: archive.thread(key).resource_id for key in ("trip", inner, expert)}
    assert owners == {"trip": "ben", inner: "ben", expert: "expert"}
    assert archive.search(WORD, resource_id="ana") == []
    assert {hit.thread_id for hit in archive.search(WORD, resource_id="ben")} == {"trip", inner}


def test_jobs_of_the_thread_cannot_finish(archive: SQLAlchemyArchive) -> None:
    one_of_anas(archive)
    for name, thread in (("j", "trip"), ("other", "a2")):
        archive.claim(name, "me", seconds=60, thread_id=thread, resource_id="ana")
    archive.move_thread("trip", "ana", "ben")
    assert archive.job("j") is None
    assert not archive.finish("j", "me", {})
    assert archive.finish("other", "me", {})


# --- What is refused -----------------------------------------------------------------------------


def test_a_thread_takes_what_is_known_of_it_along(archive: SQLAlchemyArchive) -> None:
    """Of the former owner's other threads it knows nothing any more, nor they of it."""
    shared = recalling(archive=archive, scope="resource")
    for said in [SECRET, *turns(6)]:
        say(shared.graph, ANA, said)
    say(shared.graph, ANAS_OTHER, turn(20))
    assert listed(shared.memory, "ana") == {"trip", "a2"}
    shared.memory.of(shared.graph, ANA).move_to("ben")
    moved = on_thread("trip", resource_id="ben")
    say(shared.graph, BENS_OTHER, turn(30))
    assert {group["thread_id"] for group in known(shared, BENS_OTHER)} == {"trip"}
    say(shared.graph, moved, turn(31))
    state = values(shared.graph, moved)["om"]["others"]
    assert "a2" not in str(state)
    say(shared.graph, ANAS_OTHER, turn(21))
    assert known(shared, ANAS_OTHER) == []


def known(agent: Any, config: Any) -> list[Any]:
    return list(values(agent.graph, config)["om"]["others"]["known"])


def test_what_cannot_be_meant(archive: SQLAlchemyArchive) -> None:
    agent = one_of_anas(archive)
    move = agent.memory.move_thread
    for asked, wanted in (
        (("nowhere", "ana", "ben"), "no thread 'nowhere'"),
        (("trip", "carl", "ben"), r"`resource_id` is 'carl'.*another resource"),
        (("trip", None, "ben"), r"`resource_id` is None.*another resource"),
        (("trip", "ana", ""), "to_resource_id"),
    ):
        with pytest.raises(ConfigurationError, match=wanted) as refused:
            move(*asked)
        assert "ana" not in str(refused.value).replace("'ana', ''", "") or asked[1] == "ana"
    thread = agent.memory.of(agent.graph, on_thread("trip", resource_id="ana", checkpoint_ns="x"))
    with pytest.raises(ConfigurationError, match="checkpoint_ns"):
        thread.move_to("ben")
    assert listed(agent.memory, "ana") == {"trip", "a2"}


def test_without_an_archive_it_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match=r"without an `archive`.*`resource_id`"):
        ObservationalMemory(scripted()).move_thread("trip", "ana", "ben")


# --- The thread's state --------------------------------------------------------------------------


def test_a_thread_is_moved_with_its_state(archive: SQLAlchemyArchive) -> None:
    saver = InMemorySaver()
    agent = one_of_anas(archive, saver)
    log = values(agent.graph, ANA)["om"]["log"]
    asked = len(agent.prompts())
    agent.memory.of(agent.graph, ANA).move_to("ben")
    record = values(agent.graph, BEN)["om"]
    assert (record["resource_id"], record["log"]) == ("ben", log)
    with pytest.raises(ConfigurationError, match="belongs to another"):
        say(agent.graph, ANA, turn(40))
    assert len(agent.prompts()) == asked  # nothing was answered
    say(agent.graph, BEN, turn(41))
    assert WORD in str(archive.messages("trip", limit=1))
    threads = {each.id for each in agent.memory.threads("ben", graph=agent.graph)}
    assert threads == {"trip", "b2"}
    assert {each.id for each in agent.memory.threads("ana", graph=agent.graph)} == {"a2"}
    # Erasing one of them reaches what is theirs now.
    assert agent.memory.delete_resource("ana", checkpointer=saver) == ["trip"]
    assert found(agent.memory, "ben") == {"trip message", "trip observations"}
    assert agent.memory.delete_resource("ben", checkpointer=saver) == []
    assert [*saver.list(None)] == []


def test_a_former_owner_is_not_answered(archive: SQLAlchemyArchive) -> None:
    agent = recalling(archive=archive, messages=9000)
    say(agent.graph, ANA, SECRET)
    agent.memory.move_thread("trip", "ana", "ben")
    for number in range(3):
        with pytest.raises(ConfigurationError, match="belongs to another"):
            say(agent.graph, ANA, turn(40 + number))
    assert len(agent.prompts()) == 1
    say(agent.graph, BEN, turn(50))
    with pytest.raises(ConfigurationError, match="belongs to another"):
        say(agent.graph, ANA, turn(51))
    assert archive.find("h50", resource_id="ben") is not None


@pytest.mark.parametrize("deleted", ["ben", "ana", "trip"])
def test_memory_is_kept_where_something_was_deleted_before(
    archive: SQLAlchemyArchive, deleted: str
) -> None:
    saver = InMemorySaver()
    agent = one_of_anas(archive, saver)
    if deleted == "trip":
        agent.memory.delete_thread("trip", checkpointer=saver)
    else:
        agent.memory.delete_resource(deleted, checkpointer=saver)
    for said in [SECRET, *turns(6)]:
        say(agent.graph, ANA, said)
    agent.memory.move_thread("trip", "ana", "ben")
    log = values(agent.graph, ANA)["om"]["log"]
    say(agent.graph, BEN, turn(50))
    # Another process, which asks the archive what it has.
    other = recalling(saver=saver, archive=archive, log=9000)
    say(other.graph, BEN, turn(51))
    assert values(other.graph, BEN)["om"]["log"][: len(log)] == log
    assert found(other.memory, "ben") == {"trip message", "trip observations"}
    # A later deletion is seen as one.
    other.memory.delete_resource("ben")
    third = recalling(saver=saver, archive=archive, log=9000)
    say(third.graph, BEN, turn(52))
    assert found(third.memory, "ben") == set()
    assert archive.find("h52", resource_id="ben") is not None


def test_what_was_deleted_under_the_former_owner_does_not_come_back(
    archive: SQLAlchemyArchive,
) -> None:
    saver = InMemorySaver()
    agent = one_of_anas(archive, saver)
    agent.memory.delete_thread("trip")  # its checkpoint outlives it
    say(agent.graph, ANA, turn(40))
    say(agent.graph, ANA, turn(41))
    agent.memory.move_thread("trip", "ana", "ben")
    for process in (agent, recalling(saver=saver, archive=archive, log=9000)):
        for number in range(4):
            say(process.graph, BEN, turn(42 + number))
    assert found(agent.memory, "ben") == set()
    assert archive.find("h40", resource_id="ben") is not None
    kept = [each.key for each in archive.messages("trip", limit=100)]
    assert kept[0] == "h40"


@pytest.mark.parametrize("with_state", [False, True])
def test_what_is_known_of_the_former_owner_is_not_shown_to_the_new_one(
    archive: SQLAlchemyArchive, *, with_state: bool
) -> None:
    """Nor what was found in other threads of theirs for the last request."""
    store = InMemoryStore()
    agent = recalling(
        archive=archive,
        store=store,
        messages=9000,
        retrieval={"scope": "resource", "inject": True},
        working_memory=WorkingMemory(),
    )
    working = agent.memory.working_memory
    assert working is not None
    working.put(store, "ana", "# Ana\n- has a quuxdog")
    working.put(store, "ben", "# Ben\n- likes tea")
    say(agent.graph, ANAS_OTHER, SECRET)
    say(agent.graph, ANA, HumanMessage(f"Where does my {WORD} stand, at which numbers?", id="q"))
    before = str(agent.prompts()[-1])
    assert "quuxdog" in before
    assert "Oaxaca" in before
    if with_state:
        agent.memory.of(agent.graph, ANA).move_to("ben")
    else:
        agent.memory.move_thread("trip", "ana", "ben")
    say(agent.graph, BEN, turn(1))
    shown = str(agent.prompts()[-1])
    assert "likes tea" in shown
    assert "quuxdog" not in shown + str(values(agent.graph, BEN).get("om_working"))
    assert "Oaxaca" not in shown


# --- The store -----------------------------------------------------------------------------------


def by_owner(store: InMemoryStore) -> dict[str, int]:
    """How many items of the trip stand under each owner."""
    items = store.search(("langgraph_om",), limit=1000)
    found: dict[str, int] = {}
    for item in items:
        if item.value["thread_id"] == "trip":
            found[item.namespace[1]] = found.get(item.namespace[1], 0) + 1
    return found


def test_texts_in_a_store_go_with_it(archive: SQLAlchemyArchive) -> None:
    store = InMemoryStore(index=index_of())
    agent = one_of_anas(archive, store=store, retrieval={"vector": True, "scope": "resource"})
    for memory in (agent.memory, ObservationalMemory(scripted(), archive=archive)):
        with pytest.raises(ConfigurationError, match=r"search by meaning.*'trip'.*`store="):
            memory.move_thread("trip", "ana", "ben")
    assert listed(agent.memory, "ana") == {"trip", "a2"}
    (count,) = by_owner(store).values()
    agent.memory.move_thread("trip", "ana", "ben", store=store)
    ((owner, moved),) = by_owner(store).items()
    assert moved == count > 0
    assert "trip message" in found(agent.memory, "ben", store=store)
    assert "trip" not in str(found(agent.memory, "ana", store=store))
    say(agent.graph, BEN, turn(60))
    assert agent.memory.flush(60)
    assert by_owner(store).keys() == {owner}
    agent.memory.delete_resource("ben", store=store)
    assert by_owner(store) == {}


def test_a_store_that_fails_is_moved_by_the_same_call(archive: SQLAlchemyArchive) -> None:
    fails: list[int] = []

    def embedding(texts: Sequence[str]) -> list[list[float]]:
        if fails:
            fails.pop()
            msg = "no embeddings"
            raise ConnectionError(msg)
        return embed(texts)

    store = InMemoryStore(index=index_of(embedding))
    agent = one_of_anas(archive, store=store, retrieval={"vector": True, "scope": "resource"})
    (count,) = by_owner(store).values()
    fails.append(1)
    with pytest.raises(ConnectionError):
        agent.memory.move_thread("trip", "ana", "ben", store=store)
    # Nothing that is still there is shown to her.
    assert "trip" not in str(found(agent.memory, "ana", store=store))
    agent.memory.move_thread("trip", "ana", "ben", store=store)
    assert [*by_owner(store).values()] == [count]


def test_texts_that_are_embedded_while_the_thread_is_moved_are_not_left(
    archive: SQLAlchemyArchive,
) -> None:
    """The move is another process's, which cannot wait for this one."""
    late: list[str] = []

    def embedding(texts: Sequence[str]) -> list[list[float]]:
        if late and "quuxlate" in str(texts):
            late.clear()
            archive.move_thread("trip", "ana", "ben")
        return embed(texts)

    store = InMemoryStore(index=index_of(embedding))
    agent = one_of_anas(archive, store=store, retrieval={"vector": True, "scope": "resource"})
    (anas,) = by_owner(store)
    late.append("now")
    with suppress(ConfigurationError):  # where it is moved before the answer is archived
        say(agent.graph, ANA, HumanMessage("The quuxlate comes late, remember that.", id="late"))
    assert agent.memory.flush(60)
    assert not late
    assert "quuxlate" not in str(store.search(("langgraph_om", anas), limit=1000))
    agent.memory.move_thread("trip", "ana", "ben", store=store)
    say(agent.graph, BEN, turn(60))
    assert agent.memory.flush(60)
    assert anas not in by_owner(store)


# --- While a turn runs ---------------------------------------------------------------------------


class Gate:
    """Lets a call of a model wait until the test goes on."""

    def __init__(self) -> None:
        self.is_shut = False
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait(self) -> None:
        if self.is_shut:
            self.is_shut = False
            self.reached.set()
            assert self.opened.wait(60)


class Worker:
    """A process's share: a memory of its own over the same archive and checkpoints."""

    def __init__(self, url: str, saver: Any, role: str = "", **options: Any) -> None:
        self.gate = Gate()
        self.errors: list[Exception] = []
        self.archive = SQLAlchemyArchive(url)
        self.hooked: list[Any] = []

        def speak(messages: list[BaseMessage]) -> AIMessage:
            if role == "actor":
                self.gate.wait()
            return actor(messages)

        def observe(messages: list[BaseMessage]) -> Any:
            if role == "observer":
                self.gate.wait()
            return ExtractiveObserver().reply(messages)

        model = scripted(actor=speak, observer=observe)
        self.store = InMemoryStore()
        self.memory = ObservationalMemory(
            model, archive=self.archive, retrieval=True, clock=Clock(), **options
        )
        self.graph = create_memory_agent(
            model, [search], memory=self.memory, checkpointer=saver, store=self.store
        )

    def begin(self, said: HumanMessage) -> threading.Thread:
        """Begin a turn of Ana's that stands still at the gate."""
        self.gate.is_shut = True

        def run() -> None:
            try:
                say(self.graph, ANA, said)
            except Exception as error:  # noqa: BLE001 what it is is asserted
                self.errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert self.gate.reached.wait(60)
        return thread

    def close(self) -> None:
        self.memory.close()
        self.archive.close()


SMALL = {"message_tokens": 400, "buffer_tokens": False}


@pytest.mark.parametrize("role", ["actor", "observer"])
def test_a_turn_of_the_former_owner_loses_nothing_and_leaks_nothing(
    url: str, role: str, rows: Any
) -> None:
    saver = InMemorySaver()
    with (
        closing(Worker(url, saver, role, observation=SMALL)) as a,
        closing(Worker(url, saver, observation=SMALL)) as b,
    ):
        for number in range(3):
            say(b.graph, ANA, turn(number))
        said = HumanMessage(f"{SECRET.text} {turn(3).text * 4}", id="secret")
        running = a.begin(said)
        b.memory.move_thread("trip", "ana", "ben")
        a.gate.opened.set()
        running.join(60)
        assert not running.is_alive()
        assert "belongs to another" in str(a.errors)
        assert a.memory.flush(60)
        for table in ("om_threads", "om_groups"):
            assert set(rows(table)) <= {"ben"}
        assert a.archive.search(WORD, resource_id="ana") == []
        for number in range(4, 8):
            say(b.graph, BEN, turn(number))
        kept = [each.key for each in b.archive.messages("trip", limit=100)]
        assert ("secret-answer" in kept) == (role == "actor")
        assert [key for key in kept if not key.endswith("-answer")] == [
            *("h0", "h1", "h2", "secret", "h4", "h5", "h6", "h7")
        ]
        assert {f"{hit.thread_id}" for hit in b.memory.search(WORD, resource_id="ben")} == {"trip"}
        assert b.memory.search(WORD, resource_id="ana") == []
        record = values(b.graph, BEN)["om"]
        assert WORD in str(record["log"])  # what she said was observed, for the new owner
        assert rows("om_groups") == ["ben"]


@pytest.mark.parametrize("is_same", [False, True])
def test_a_job_of_the_former_owner_is_done_for_the_new_one(
    url: str, rows: Any, *, is_same: bool
) -> None:
    """It stands still while the thread is moved, and what it finds is nobody's then."""
    saver = InMemorySaver()
    small = {"message_tokens": 1000, "buffer_tokens": 0.2}
    options: dict[str, Any] = {"observation": small}
    with (
        closing(Worker(url, saver, "observer", buffering=BackgroundBuffering(), **options)) as a,
        closing(Worker(url, saver, buffering=BackgroundBuffering(), **options)) as b,
    ):
        a.gate.is_shut = True
        say(a.graph, ANA, SECRET)
        number = 0
        while not a.gate.reached.is_set() and number < 12:
            say(a.graph, ANA, turn(number))
            a.gate.reached.wait(1)
            number += 1
        assert a.gate.reached.is_set()
        assert rows("om_jobs") == ["ana"]
        (a if is_same else b).memory.move_thread("trip", "ana", "ben")
        assert rows("om_jobs") == []
        a.gate.opened.set()
        assert a.memory.flush(60)
        goes_on = a if is_same else b
        for more in range(number, number + 12):
            say(goes_on.graph, BEN, turn(more))
            assert goes_on.memory.flush(60)
        record = values(goes_on.graph, BEN)["om"]
        assert WORD in str(record["log"])
        assert set(rows("om_groups")) == {"ben"}
        assert set(rows("om_jobs")) <= {"ben"}
        assert b.memory.search(WORD, resource_id="ana") == []


def test_a_thread_in_the_middle_of_a_run_is_not_moved_with_its_state(url: str) -> None:
    saver = InMemorySaver()
    with closing(Worker(url, saver, "actor")) as a, closing(Worker(url, saver)) as b:
        say(b.graph, ANA, turn(0))
        running = a.begin(turn(1))
        with pytest.raises(ThreadBusyError):
            b.memory.of(b.graph, ANA, wait=0.1).move_to("ben")
        assert listed(b.memory, "ana") == {"trip"}
        a.gate.opened.set()
        running.join(60)
        assert a.errors == []
        b.memory.of(b.graph, ANA).move_to("ben")
        assert listed(b.memory, "ben") == {"trip"}
