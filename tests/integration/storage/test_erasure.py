"""Once a deletion returns, no byte of what was said is left; or else it raises and says what is."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore
from sqlalchemy import create_engine, inspect, text

from langgraph_om import (
    BackgroundBuffering,
    InlineBuffering,
    ObservationalMemory,
    WorkingMemory,
    create_memory_agent,
)
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ArchiveError, ConfigurationError
from support.agents import on_thread, say, scripted, search, turn, turns
from support.clock import START, Clock
from support.edits import edited
from support.inside import Identity, nest_thread_id
from support.recalling import WALNUTS, embed, index_of, meaning_index, recalling

WORD = "zanzibarquux"
ANA, ANAS_OTHER = on_thread("trip", resource_id="ana"), on_thread("work", resource_id="ana")
BEN = on_thread("ben", resource_id="ben")


def secret(number: int, lookups: str = "") -> HumanMessage:
    """What is to be erased; the word is found nowhere else."""
    said = turn(number, lookups)
    return HumanMessage(f"{WORD}{number}: my sister hides it in safe {number}. {said.content}")


def title(messages: Sequence[BaseMessage]) -> str:
    return f"About {WORD}" if WORD in str(messages) else "Trips"


class Home:
    """All that one application keeps, and how often a word stands there."""

    def __init__(self, url: str, folder: Path, *, vector: bool = True, **options: Any) -> None:
        self.folder = folder
        self.url = url if url.startswith("sqlite") else create_engine(url).url
        self.archive = SQLAlchemyArchive(url)
        self.store = InMemoryStore(index=index_of())
        self.saver = InMemorySaver()
        model = scripted(title=title)
        self.memory = ObservationalMemory(
            model,
            archive=self.archive,
            retrieval={"vector": vector, "inject": True},
            reflection={"observation_tokens": 300},
            thread_title=True,
            working_memory=WorkingMemory(),
            obscure_thread_ids=False,
            clock=Clock(),
            **options,
        )
        self.graph = create_memory_agent(
            model, [search], memory=self.memory, checkpointer=self.saver, store=self.store
        )

    def talk(self, *threads: Any, times: int = 10) -> None:
        """Say the secret in the first thread, and other things in the others, by turns."""
        for number in range(times):
            for at, thread in enumerate(threads):
                lookups = "1" if number % 4 == 1 else ""
                said = turn(number + 100 * at, lookups) if at else secret(number, lookups)
                say(self.graph, thread, said)
            assert self.memory.flush(60)

    def find(self, word: str = WORD) -> dict[str, int]:
        """Return where a word stands: files, tables, items of the store, checkpoints by thread."""
        places = {f"file {file.name}": file.read_bytes() for file in self.folder.iterdir()}
        found = {place: _count(body, word) for place, body in places.items()}
        if not str(self.url).startswith("sqlite"):
            found |= self._find_in_tables(word)
        found["store"] = sum(
            _count(str(item.value).encode(), word)
            for item in self.store.search(("langgraph_om",), limit=10_000)
        )
        found["vectors"] = _count(repr(self.store._vectors).encode(), word)
        for thread in ("trip", "work", "ben"):
            found[f"checkpoints of {thread}"] = sum(
                _count(repr(each).encode(), word) for each in self.saver.list(on_thread(thread))
            )
        return {place: count for place, count in found.items() if count}

    def _find_in_tables(self, word: str) -> dict[str, int]:
        engine = create_engine(self.url)
        with closing(engine.connect()) as connection:
            found = {
                f"table {table}": sum(
                    _count(repr(row).encode(), word)
                    for row in connection.execute(text(f"SELECT * FROM {table}"))  # noqa: S608
                )
                for table in inspect(engine).get_table_names()
            }
        engine.dispose()
        return found

    def newest(self, config: Any) -> str:
        """The newest checkpoint of a thread."""
        return repr(self.graph.get_state(config).values)


def _count(body: bytes, word: str) -> int:
    return body.lower().count(word.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


BUFFERED = {"buffering": BackgroundBuffering, "observation": {"buffer_tokens": 0.25}}
AT_ONCE = {"buffering": InlineBuffering, "observation": {"buffer_tokens": False}}


@pytest.fixture
def home(
    url: str, folder: Path, scope: str, work: str, *, evict: bool, vector: bool
) -> Iterator[Home]:
    given: Any = BUFFERED if work == "buffered" else AT_ONCE
    home = Home(
        url,
        folder,
        vector=vector,
        scope=scope,
        evict=evict,
        buffering=given["buffering"](),
        observation={"message_tokens": 400, **given["observation"]},
    )
    with home.memory, closing(home.archive):
        yield home


SETTINGS = ("url", "scope", "work", "evict", "vector")
EACH_PAIR = [
    ("sqlite", "thread", "buffered", False, False),
    ("postgres", "resource", "at once", False, False),
    ("postgres", "resource", "buffered", True, False),
    ("postgres", "thread", "at once", False, True),
    ("sqlite", "resource", "buffered", True, True),
    ("sqlite", "thread", "at once", True, True),
]
"""Values of `SETTINGS`, each beside each value of any other."""


def expect_left_alone(home: Home, left: list[str]) -> None:
    """Nothing of a thread is anywhere but in these threads' former checkpoints."""
    assert home.find().keys() <= {f"checkpoints of {thread}" for thread in left}
    say(home.graph, ANAS_OTHER, turn(700))
    assert home.memory.flush(60)
    assert WORD not in home.newest(ANAS_OTHER)
    assert home.find().keys() <= {f"checkpoints of {thread}" for thread in left}


@pytest.mark.parametrize(SETTINGS, EACH_PAIR, indirect=["url"])
def test_no_byte_of_a_deleted_thread_is_left(home: Home) -> None:
    home.talk(ANA, ANAS_OTHER, BEN)
    others = [len(home.archive.messages(thread, limit=99)) for thread in ("work", "ben")]
    left = home.memory.delete_thread("trip", store=home.store, checkpointer=home.saver)
    # What is left is said: where something of one thread is shown in others, their checkpoints.
    assert left == ["work"]
    kept = [len(home.archive.messages(thread, limit=99)) for thread in ("work", "ben")]
    assert kept == others
    expect_left_alone(home, left)


@pytest.mark.parametrize(
    (*SETTINGS, "is_async"),
    [
        ("sqlite", "thread", "buffered", True, False, False),
        ("postgres", "resource", "buffered", True, True, False),
        ("postgres", "resource", "buffered", True, False, True),
        ("postgres", "thread", "buffered", True, True, True),
        ("sqlite", "resource", "buffered", True, True, True),
    ],
    indirect=["url"],
)
async def test_no_byte_of_a_deleted_user_is_left(home: Home, *, is_async: bool) -> None:
    working = home.memory.working_memory
    assert working is not None
    working.put(home.store, "ana", f"# Ana\n- {WORD}")
    # A thread from before there was memory, which the archive does not know.
    plain = create_memory_agent(scripted(), [search], checkpointer=home.saver)
    say(plain, on_thread("old", resource_id="ana", om_enabled=False), secret(1))
    home.talk(ANA, ANAS_OTHER, BEN, times=6)
    if is_async:
        left = await home.memory.adelete_resource("ana", store=home.store, checkpointer=home.saver)
    else:
        left = home.memory.delete_resource("ana", store=home.store, checkpointer=home.saver)
    assert left == []
    assert home.find() == {}
    assert {each.config["configurable"]["thread_id"] for each in home.saver.list(None)} == {"ben"}


@pytest.mark.parametrize(
    (*SETTINGS, "is_all"),
    [
        ("sqlite", "thread", "buffered", False, True, False),
        ("sqlite", "resource", "at once", False, True, False),
        ("postgres", "resource", "buffered", False, True, False),
        ("sqlite", "resource", "buffered", False, True, True),
        ("postgres", "thread", "at once", False, True, True),
    ],
    indirect=["url"],
)
def test_no_byte_of_what_a_person_did_in_a_deleted_thread_is_left(
    home: Home, *, is_all: bool
) -> None:
    home.talk(ANA, ANAS_OTHER, BEN, times=3)
    trip = home.memory.of(home.graph, ANA)
    trip.remember(f"The word is {WORD}, said by hand")
    trip.remember(f"It was {WORD} once")
    trip.correct("It was", f"Now it is {WORD}")
    trip.pin("said by hand")
    trip.set_title(f"All of {WORD}")
    first = home.graph.get_state(ANA).values["messages"][0]
    trip.pin_message(str(first.id))
    home.talk(ANA, ANAS_OTHER, BEN, times=5)
    trip.forget("Now it is")
    home.talk(ANA, ANAS_OTHER, BEN, times=2)
    assert WORD in home.newest(ANA)
    if is_all:
        left = home.memory.delete_resource("ana", store=home.store, checkpointer=home.saver)
        assert home.find() == {}
    else:
        left = home.memory.delete_thread("trip", store=home.store, checkpointer=home.saver)
        expect_left_alone(home, left)


# --- What a call cannot reach --------------------------------------------------------------------


def small(**options: Any) -> Any:
    """An agent with vectors, whose first thread has something in all places."""
    store = InMemoryStore(index=index_of())
    agent = recalling(store=store, retrieval={"vector": True}, **options)
    for said in [WALNUTS, *turns(3)]:
        say(agent.graph, ANA, said)
    assert agent.memory.flush(60)
    return agent, store


def indexed(store: InMemoryStore) -> int:
    return len(store.search(("langgraph_om",), limit=1000))


def test_a_missing_store_is_said_before_anything_is_deleted(archive: SQLAlchemyArchive) -> None:
    agent, store = small(archive=archive)
    before = indexed(store)
    with pytest.raises(ConfigurationError, match=r"search by meaning.*`store="):
        agent.memory.delete_thread("trip")
    with pytest.raises(ConfigurationError, match=r"search by meaning.*`store="):
        agent.memory.delete_resource("ana")
    assert archive.thread("trip") is not None
    assert indexed(store) == before > 0
    assert agent.memory.delete_thread("trip", store=store) == ["trip"]  # its checkpoints
    assert archive.thread("trip") is None
    assert indexed(store) == 0


def test_a_memory_without_vectors_knows_of_those_of_another(archive: SQLAlchemyArchive) -> None:
    _, store = small(archive=archive)
    plain = ObservationalMemory(scripted(), archive=archive)
    with pytest.raises(ConfigurationError, match="search by meaning"):
        plain.delete_resource("ana")
    assert plain.delete_resource("ana", store=store) == ["trip"]
    assert indexed(store) == 0


def test_working_memory_in_a_store_is_not_left_silently(archive: SQLAlchemyArchive) -> None:
    memory = ObservationalMemory(scripted(), archive=archive, working_memory=WorkingMemory())
    with pytest.raises(ConfigurationError, match=r"working memory.*`store="):
        memory.delete_resource("ana")
    assert memory.delete_thread("trip") == ["trip"]  # which has none


def test_what_a_former_version_left_in_the_store_is_deleted_by_a_second_call(
    archive: SQLAlchemyArchive,
) -> None:
    agent, store = small(archive=archive)
    archive.delete_thread("trip")  # whose it was is not known any more
    agent.memory.delete_thread("trip", store=store)
    assert indexed(store) == 0


def test_without_an_archive_a_deletion_says_that_it_reaches_nothing() -> None:
    saver = InMemorySaver()
    agent = recalling(saver=saver)
    say(agent.graph, ANA, WALNUTS)
    for delete, name in (
        (agent.memory.delete_thread, "trip"),
        (agent.memory.delete_resource, "ana"),
    ):
        with pytest.raises(ConfigurationError, match="`checkpointer="):
            delete(name)
    assert agent.memory.delete_thread("trip", checkpointer=saver) == []
    assert [*saver.list(None)] == []


def test_a_thread_that_is_another_users_is_not_deleted_and_said(archive: SQLAlchemyArchive) -> None:
    saver = InMemorySaver()
    agent = recalling(archive=archive, saver=saver)
    say(agent.graph, BEN, turn(1))
    with pytest.raises(ConfigurationError, match="belongs to another"):
        say(agent.graph, on_thread("ben", resource_id="ana"), turn(2))
    say(agent.graph, ANA, turn(3))
    assert agent.memory.delete_resource("ana", checkpointer=saver) == ["ben"]
    assert archive.thread("ben") is not None
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {"ben"}


def test_checkpoints_are_deleted_in_their_database(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "saver.db")) as saver:
        agent = recalling(archive=f"sqlite:///{tmp_path / 'archive.db'}", saver=saver)
        for number in range(3):
            for config in (ANA, ANAS_OTHER, BEN):
                say(agent.graph, config, turn(number))
        assert agent.memory.delete_resource("ana", checkpointer=saver) == []
        threads = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    assert threads == {"ben"}


# --- The file of SQLite --------------------------------------------------------------------------


def test_rows_that_were_moved_within_the_file_leave_no_copy(tmp_path: Path) -> None:
    """Pages of a tree that grows keep copies of what was moved, also with `secure_delete`."""
    file, chance = tmp_path / "archive.db", random.Random(0)  # noqa: S311 - not for secrets
    last: dict[str, str] = {}
    with closing(SQLAlchemyArchive(f"sqlite:///{file}")) as archive:
        for number in range(600):
            thread = chance.choice("abcd")
            word = f"secret{thread}zz"
            is_edit = chance.random() >= 0.8
            key = f"{thread}-{chance.randrange(number + 1) if is_edit else number}"
            if key == last.get(thread):
                continue
            words = [word, f"{word}{number}", f"{word}{chance.randrange(9)}", "plain"]
            said = " ".join(chance.choices(words, k=chance.choice([3, 30, 300, 3000])))
            row = (key, HumanMessage(said, id=key), True)
            archive.append(thread, "ana", [row], after=last.get(thread), now=START)
            last[thread] = key
        for thread in "ab":
            archive.delete_thread(thread)
            for part in tmp_path.iterdir():
                assert f"secret{thread}zz".encode() not in part.read_bytes()
        assert archive.thread("c") is not None


def test_a_reader_in_the_way_of_an_erasure_is_said(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    with closing(SQLAlchemyArchive(f"sqlite:///{file}?timeout=0.1")) as archive:
        row = ("a", HumanMessage(WORD, id="a"), True)
        archive.append("trip", "ana", [row], after=None, now=START)
        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM om_messages").fetchall()
            with pytest.raises(ArchiveError, match=r"traces of their text remain.*delete again"):
                archive.delete_thread("trip")
        archive.delete_thread("trip")
        for part in tmp_path.iterdir():
            assert WORD.encode() not in part.read_bytes()


# --- The store -----------------------------------------------------------------------------------


def test_what_runs_within_a_thread_goes_with_it() -> None:
    store, index = InMemoryStore(index=index_of()), meaning_index()
    for name in ("trip", nest_thread_id("trip", ["research"]), "trips"):
        for resource in (None, "ana"):  # it may have begun before it was known whose it is
            record = edited(None, {"thread_id": name})
            index.add(record, [("walnuts", WALNUTS)], store, Identity(name, resource))
    assert index.flush(60)
    assert indexed(store) == 6
    index.delete_thread("trip", "ana", store)
    assert {item.value["thread_id"] for item in store.search(("langgraph_om",))} == {"trips"}


@pytest.mark.parametrize("goes_on", [False, True])
def test_texts_that_are_embedded_while_their_thread_is_deleted_are_not_kept(
    archive: SQLAlchemyArchive, *, goes_on: bool
) -> None:
    """The deletion is another process's, which cannot wait for this one."""
    deleted: list[str] = []

    def racing(texts: Sequence[str]) -> list[list[float]]:
        if not deleted:
            deleted.append("trip")
            archive.delete_thread("trip")
            if goes_on:
                archive.append("trip", "ana", [row], after=None, now=START)
        return embed(texts)

    row = ("next", HumanMessage("Hello again."), True)
    store, index = InMemoryStore(index=index_of(racing)), meaning_index(archive)
    archive.append("trip", "ana", [("walnuts", WALNUTS, True)], after=None, now=START)
    record = edited(None, {"thread_id": "trip"})
    index.add(record, [("walnuts", WALNUTS)], store, Identity("trip", "ana"))
    assert index.flush(60)
    assert deleted
    assert indexed(store) == 0


# --- What is known of deletions ------------------------------------------------------------------


def test_what_was_deleted_long_ago_is_forgotten(archive: SQLAlchemyArchive) -> None:
    archive.note_store("index")
    archive.delete_thread("trip")
    archive.delete_resource("ana")
    assert archive.prune_deletions(older_than=3600) == 0
    assert archive.deletions("ana", ["trip"]) == {("thread", "trip"): 1, ("resource", "ana"): 1}
    assert archive.prune_deletions(older_than=0) == 2
    assert archive.deletions("ana", ["trip"]) == {}
    assert archive.noted_stores() == {"index"}  # a store has its texts however long
    with pytest.raises(ConfigurationError, match="older_than"):
        archive.prune_deletions(older_than=-1)
