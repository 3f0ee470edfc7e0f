"""A turn in which nothing is due: how often it goes to PostgreSQL, and when a question waits there.

The question is archived with its answer, in one transaction and one way to the server and back. It
is archived before where the checkpoint does not have it, or somebody reads the archive meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import interrupt
from sqlalchemy import create_engine

from langgraph_om import (
    ConfigurationError,
    ObservationalMemory,
    SQLAlchemyArchive,
    create_memory_agent,
)
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel
from support.clock import Clock

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
CONFIG: Any = {"configurable": {"thread_id": "t", "resource_id": "ada"}}


def make_memory(archive: Any, observer: Any = None, **options: Any) -> ObservationalMemory:
    model = ScriptedChatModel(observer=observer or ExtractiveObserver().reply)
    return ObservationalMemory(model, archive=archive, **{"evict": True, **options})


class Talk:
    """An agent whose Actor tells which texts the archive has while it answers."""

    def __init__(self, url: str, **options: Any) -> None:
        self.archive = SQLAlchemyArchive(url)
        self.memory = make_memory(url, self._observe, **options)
        self.during: list[str] = []
        self.deed: Any = None
        self.is_observing = False
        self.agent = create_memory_agent(
            ScriptedChatModel(self._answer), memory=self.memory, checkpointer=InMemorySaver()
        )

    def _observe(self, messages: list[BaseMessage]) -> AIMessage:
        self.is_observing = True
        if self.deed is not None:
            self.deed()
        self.is_observing = False
        return ExtractiveObserver().reply(messages)

    def _answer(self, messages: list[BaseMessage]) -> str:
        self.during = self.texts()
        if self.deed is not None:
            self.deed()
        return "Noted."

    def texts(self) -> list[str]:
        return [each.message.text for each in self.archive.messages("t", limit=100)]

    def say(self, text: str, **options: Any) -> None:
        self.agent.invoke({"messages": [("user", text)]}, CONFIG, **options)

    def close(self) -> None:
        self.memory.close()
        self.archive.close()


CUT_ONCE = """
CREATE SEQUENCE cuts;
CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('cuts') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER cut BEFORE INSERT ON om_messages FOR EACH ROW EXECUTE FUNCTION cut();
"""


def test_what_a_lost_connection_did_not_write_is_archived_in_the_next_turn(
    postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Talk(postgres_database)) as talk:
        talk.say("First?")
        with psycopg.connect(postgres_database, autocommit=True) as server:
            server.execute(CUT_ONCE)
            talk.say("Second?")
        talk.say("Third?")
        assert talk.texts()[2:] == ["Second?", "Noted.", "Third?", "Noted."]
    assert "the next step tries again" in caplog.text


def test_turns_go_on_while_the_server_takes_no_connections(
    postgres_url: str, postgres_database: str
) -> None:
    name = urlsplit(postgres_database).path[1:]
    with (
        closing(Talk(postgres_database)) as talk,
        psycopg.connect(postgres_url, autocommit=True) as server,
    ):
        talk.say("First?")
        talk.say("Second?")
        talk.texts = list
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        server.execute(ends, (name,))
        for text in ("Third?", "Fourth?"):
            talk.say(text)
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        del talk.texts
        talk.say("Fifth?")
        assert talk.texts()[4:] == ["Third?", "Noted.", "Fourth?", "Noted.", "Fifth?", "Noted."]


def test_a_question_waits_for_its_answer(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        assert talk.during == ["First?"]
        talk.say("Second?")
        assert talk.during == ["First?", "Noted."]
        assert talk.texts() == ["First?", "Noted.", "Second?", "Noted."]


def test_a_question_that_no_checkpoint_has_does_not_wait(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        talk.say("Second?", durability="exit")
        assert talk.during[-1] == "Second?"


def test_a_question_of_another_user_is_refused_before_it_is_answered(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        talk.during = []
        bob: Any = {"configurable": {"thread_id": "t", "resource_id": "bob"}}
        with pytest.raises(ConfigurationError, match="another resource"):
            talk.agent.invoke({"messages": [("user", "Second?")]}, bob)
        assert not talk.during


def test_a_question_of_a_shared_log_does_not_wait(url: str) -> None:
    with closing(Talk(url, scope="resource")) as talk:
        talk.say("First?")
        talk.say("Second?")
        assert talk.during[-1] == "Second?"


def test_a_question_without_a_graph_does_not_wait(url: str) -> None:
    with closing(make_memory(url)) as memory, closing(SQLAlchemyArchive(url)) as archive:
        said: list[BaseMessage] = [HumanMessage("First?", id="h1")]
        done = memory.step(None, said, config=CONFIG)
        said += [AIMessage("Noted.", id="a1")]
        done = memory.step(done.record, said, config=CONFIG, final=True)
        said += [HumanMessage("Second?", id="h2")]
        memory.step(done.record, said, config=CONFIG)
        assert [each.key for each in archive.messages("t", limit=9)] == ["h1", "a1", "h2"]


def fail() -> None:
    msg = "the model is away"
    raise ValueError(msg)


def test_a_question_of_a_turn_that_failed_is_archived_with_the_next_one(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        talk.deed = fail
        with pytest.raises(ValueError, match="away"):
            talk.say("Second?")
        assert talk.texts() == ["First?", "Noted."]
        talk.deed = None
        talk.say("Third?")
        assert talk.texts()[2:] == ["Second?", "Third?", "Noted."]


def test_another_process_archives_what_waited_when_one_dies(url: str) -> None:
    with closing(Talk(url)) as talk, closing(make_memory(url)) as other:
        talk.say("First?")
        talk.deed = fail
        with pytest.raises(ValueError, match="away"):
            talk.say("Second?")
        saver = talk.agent.checkpointer
        again = create_memory_agent(ScriptedChatModel("Back."), memory=other, checkpointer=saver)
        again.invoke(None, CONFIG)
        assert talk.texts()[2:] == ["Second?", "Back."]


@pytest.mark.parametrize("who", ["this process", "another"])
def test_a_question_that_waited_is_not_archived_once_its_thread_is_deleted(
    who: str, url: str
) -> None:
    with closing(Talk(url)) as talk, closing(make_memory(url)) as other:
        talk.say("First?")
        talk.deed = lambda: (talk.memory if who == "this process" else other).delete_thread("t")
        talk.say("Second?")
        talk.deed = None
        assert talk.texts() == ["Noted."]
        talk.say("Third?")
        assert talk.texts() == ["Noted.", "Third?", "Noted."]


def test_what_is_observed_while_another_process_deletes_the_thread_stays_deleted(url: str) -> None:
    options = {"observation": {"message_tokens": 60, "buffer_tokens": False}}
    with closing(Talk(url, **options)) as talk, closing(make_memory(url)) as other:
        talk.say("First? " + "We go to the coast. " * 4)
        talk.deed = lambda: talk.is_observing and other.delete_thread("t")
        talk.say("Second? " + "We go to the hills. " * 12)
        talk.deed = None
        assert talk.texts() == ["Noted."]
        assert talk.archive.groups(thread_id="t") == []
        talk.say("Third?")
        assert talk.texts() == ["Noted.", "Third?", "Noted."]


def test_a_fork_has_its_own_question(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        before = talk.agent.get_state(CONFIG).config
        talk.say("Second?")
        talk.agent.invoke({"messages": [("user", "Instead?")]}, before)
        assert talk.texts() == ["First?", "Noted.", "Instead?", "Noted."]
        found = talk.archive.search("second", thread_id="t", branches={"t": ""})
        assert not found


def test_what_is_observed_is_archived_before(url: str) -> None:
    options = {"observation": {"message_tokens": 60, "buffer_tokens": False}}
    with closing(Talk(url, **options)) as talk:
        talk.say("First? " + "We go to the coast. " * 4)
        talk.say("Second? " + "We go to the hills. " * 12)
        assert talk.agent.get_state(CONFIG).values["om"]["log"]
        assert len(talk.texts()) == 4
        assert any(text.startswith("Second?") for text in talk.during)


# --- Results of tools ----------------------------------------------------------------------------


class Errand(Talk):
    """An agent that calls a tool three times in each turn but its first, then answers."""

    def __init__(self, url: str, saver: Any = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.calls: list[int] = []
        self.state: Any = None
        self.use: Callable[[int], str] = lambda number: f"Result {number}."

        @tool
        def fetch(number: int, state: Annotated[Any, InjectedState]) -> str:
            """Fetch a result."""
            self.calls.append(number)
            self.state = state
            return self.use(number)

        self.agent = create_memory_agent(
            ScriptedChatModel(self._act), [fetch], memory=self.memory, checkpointer=saver
        )

    def _act(self, messages: list[BaseMessage]) -> AIMessage:
        self.during = self.texts()
        asked = max(at for at, message in enumerate(messages) if message.type == "human")
        number = len([message for message in messages[asked:] if message.type == "tool"])
        if self.deed is not None:
            self.deed(number)
        if number == 3 or messages[asked].text == "First?":
            return AIMessage("Noted.")
        call = {"name": "fetch", "args": {"number": number}, "id": f"c{number}"}
        # An id that tells no time: that would be another clock's than the one of some tests.
        return AIMessage("", tool_calls=[call], id=str(uuid4()))

    def results(self) -> list[str]:
        """What the archive has of the results of tools."""
        return [text for text in self.texts() if text.startswith("Result")]

    def has_all(self) -> bool:
        """Whether the archive has what the state has, in its order."""
        state = self.agent.get_state(CONFIG).values["messages"]
        return [each.key for each in self.archive.messages("t", limit=100)] == [
            message.id for message in state
        ]


def test_a_result_does_not_wait_with_a_question_that_a_client_dates_ahead(url: str) -> None:
    with closing(Errand(url, InMemorySaver(), clock=Clock(NOW))) as errand:
        errand.say("First?")
        ahead = HumanMessage("Second?", additional_kwargs={"created_at": "2026-03-02T10:00:00Z"})
        errand.agent.invoke({"messages": [ahead]}, CONFIG)
        assert "Result 0." in errand.during
        assert errand.has_all()


@pytest.mark.parametrize("checkpointer", [None, True])
def test_results_in_a_graph_within_another_do_not_wait(checkpointer: Any, url: str) -> None:
    """It may hand over to the graph around it, and without a state of its own never goes on."""
    with closing(Errand(url, checkpointer)) as errand:
        builder = StateGraph(MessagesState)
        builder.add_node("errand", errand.agent)
        builder.add_edge(START, "errand")
        around = builder.compile(checkpointer=InMemorySaver())
        errand.use = lambda number: _crash() if number == 2 else f"Result {number}."
        with pytest.raises(_CrashError):
            around.invoke({"messages": [("user", "Second?")]}, CONFIG)
        kept = errand.archive.messages("t|>errand", limit=100)
        texts = [each.message.text for each in kept]
        assert [text for text in texts if text.startswith("Result")] == ["Result 0.", "Result 1."]


class _CrashError(BaseException):
    """The end of a process."""


def _fail() -> str:
    msg = "away"
    raise ValueError(msg)


def _crash() -> str:
    raise _CrashError


def _stop() -> str:
    return str(interrupt("May I?"))


@contextmanager
def taken_over(url: str) -> Iterator[Errand]:
    """A process beside one that died in the third call of a tool."""
    saver = InMemorySaver()
    with closing(Errand(url, saver)) as dying, closing(Errand(url, saver)) as other:
        dying.say("First?")
        dying.use = lambda number: _crash() if number == 2 else f"Result {number}."
        with pytest.raises(_CrashError):
            dying.say("Second?")
        assert dying.results() == []
        yield other


def test_results_of_a_process_that_dies_before_their_step_is_written_are_dated(url: str) -> None:
    saver, clock = InMemorySaver(), Clock(NOW)
    both = [Errand(url, saver, clock=clock) for _ in range(2)]
    with closing(both[0]) as dying, closing(both[1]) as other:
        dying.say("First?")
        dying.deed = lambda number: number == 2 and _crash()
        with pytest.raises(_CrashError):
            dying.say("Second?")
        clock.advance(hours=1)
        other.say("Third?")
        kept = other.archive.messages("t", limit=100)
        dates = [each.at for each in kept if each.message.text.startswith("Result")]
        assert dates[:2] == [NOW, NOW]


def test_recall_finds_results_that_wait(url: str) -> None:
    with closing(Errand(url, InMemorySaver(), retrieval=True)) as errand:
        errand.say("First?")
        found: list[str] = []

        def use(number: int) -> str:
            if number == 2:
                asked = errand.memory.recall(errand.state, mode="search", query="result")
                found.append(str(asked))
            return f"Result {number}."

        errand.use = use
        errand.say("Second?")
        assert "Result 0." in found[0]
        assert errand.has_all()


@pytest.mark.parametrize("who", ["this process", "another"])
@pytest.mark.parametrize("recalls", [False, True])
def test_results_that_waited_are_not_archived_once_their_thread_is_deleted(
    who: str, url: str, *, recalls: bool
) -> None:
    agent = Errand(url, InMemorySaver(), retrieval=True)
    with closing(agent) as errand, closing(make_memory(url)) as other:
        memory = errand.memory if who == "this process" else other

        def use(number: int) -> str:
            if number == 2 and recalls:
                errand.memory.recall(errand.state, mode="search", query="result")
            return f"Result {number}."

        errand.use = use
        errand.say("First?")
        errand.deed = lambda number: number == 2 and memory.delete_thread("t")
        errand.say("Second?")
        assert {"Result 0.", "Result 1."}.isdisjoint(errand.results())
        errand.deed = None
        errand.say("Third?")
        assert errand.results()[-3:] == ["Result 0.", "Result 1.", "Result 2."]
        assert errand.texts()[-1] == "Noted."
        assert len(errand.results()) <= 4


# --- Behind the last message, by what the server finds -------------------------------------------


def said(*names: str) -> list[tuple[str, BaseMessage, bool]]:
    return [(name, HumanMessage(f"text of {name}", id=name), True) for name in names]


def test_the_server_does_as_the_process_would(postgres_database: str) -> None:
    """One archive whose statements go at once, and one that asks step by step, say the same."""
    dsn = postgres_database.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(dsn)
    with (
        closing(SQLAlchemyArchive(postgres_database)) as quick,
        closing(SQLAlchemyArchive(engine)) as slow,
    ):
        ends: dict[str, list[Any]] = {}
        for name, archive in (("quick", quick), ("slow", slow)):
            put = partial(archive.append, name, "ada", now=NOW)
            end = put(said("a", "b"), after=None)
            first = put(said("c", "d"), after="b", branch=end)
            again = put(said("c", "d"), after="b", branch=end)
            fork = put(said("e"), after="b", branch=end)
            back = put(said("f"), after="d", branch=first)
            ends[name] = [end, first, again, fork, back]
            for branch in (None, fork):
                shown = archive.messages(name, limit=99, branch=branch)
                ends[name] += [(each.key, each.position) for each in shown]
            ends[name] += sorted(hit.found.key for hit in archive.search("text", thread_id=name))
        assert ends["quick"] == ends["slow"]
    engine.dispose()


def test_threads_of_others_and_backslashes(postgres_database: str) -> None:
    with closing(SQLAlchemyArchive(postgres_database)) as archive:
        end = archive.append("t\\0", "ada\\", said("a\\"), after=None, now=NOW)
        later = NOW + timedelta(hours=1)
        archive.append("t\\0", "ada\\", said("b\x00"), after="a\\", branch=end, now=later)
        assert [each.key for each in archive.messages("t\\0", limit=9)] == ["a\\", "b\x00"]
        thread = archive.thread("t\\0")
        assert thread is not None
        assert thread.updated == later
