"""What a turn puts into the archive when its server, its thread or its process goes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
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


def test_a_question_of_another_user_is_refused_before_it_is_answered(url: str) -> None:
    with closing(Talk(url)) as talk:
        talk.say("First?")
        talk.during = []
        bob: Any = {"configurable": {"thread_id": "t", "resource_id": "bob"}}
        with pytest.raises(ConfigurationError, match="belongs to another"):
            talk.agent.invoke({"messages": [("user", "Second?")]}, bob)
        assert not talk.during


@pytest.mark.parametrize("who", ["this process", "another"])
def test_a_question_is_not_archived_again_once_its_thread_is_deleted(who: str, url: str) -> None:
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


# --- Results of tools ----------------------------------------------------------------------------


class Errand(Talk):
    """An agent that calls a tool three times in each turn but its first, then answers."""

    def __init__(self, url: str, saver: Any = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.state: Any = None
        self.use: Callable[[int], str] = lambda number: f"Result {number}."

        @tool
        def fetch(number: int, state: Annotated[Any, InjectedState]) -> str:
            """Fetch a result."""
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


@pytest.mark.parametrize("checkpointer", [None, True])
def test_results_in_a_graph_within_another_are_archived_at_once(
    checkpointer: Any, url: str
) -> None:
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


def _crash() -> str:
    raise _CrashError


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


@pytest.mark.parametrize("who", ["this process", "another"])
@pytest.mark.parametrize("recalls", [False, True])
def test_results_are_not_archived_again_once_their_thread_is_deleted(
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


def test_threads_of_others_and_backslashes(postgres_database: str) -> None:
    with closing(SQLAlchemyArchive(postgres_database)) as archive:
        end = archive.append(
            "t\\0", "ada\\", [("a\\", HumanMessage("a", id="a\\"), True)], after=None, now=NOW
        )
        later = NOW + timedelta(hours=1)
        archive.append(
            "t\\0",
            "ada\\",
            [("b\x00", HumanMessage("b", id="b"), True)],
            after="a\\",
            branch=end,
            now=later,
        )
        assert [each.key for each in archive.messages("t\\0", limit=9)] == ["a\\", "b\x00"]
        thread = archive.thread("t\\0")
        assert thread is not None
        assert thread.updated == later
