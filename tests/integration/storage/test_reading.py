"""How recall reads an archive: as it would a state, and nothing of others."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from sqlalchemy import create_engine, text

from langgraph_om import EstimatingCounter
from langgraph_om.archive import SQLAlchemyArchive
from support.flows import setup
from support.inside import ArchiveSource, Asker, Identity, is_visible, recall
from support.processes.archive_workers import NOW
from support.recall_talk import read_talk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


COUNTER = EstimatingCounter()


def entries(visible: Sequence[bool]) -> list[tuple[str, BaseMessage]]:
    return [
        (f"m{at}", HumanMessage(f"says {at}") if is_seen else SystemMessage("hidden"))
        for at, is_seen in enumerate(visible)
    ]


def filled(said: Sequence[tuple[str, BaseMessage]], resource: str | None = "r") -> Any:
    archive = SQLAlchemyArchive("sqlite://")
    rows = [(key, message, is_visible(message)) for key, message in said]
    archive.append("t", resource, rows, after=None, now=NOW)
    return archive


def source_of(archive: Any, who: Identity, *, is_shared: bool = True) -> ArchiveSource:
    return ArchiveSource(who=who, archive=archive, settings=setup(), is_shared=is_shared)


# --- Pages ---------------------------------------------------------------------------------------


@given(
    st.lists(st.booleans(), min_size=1, max_size=9),
    st.integers(0, 8),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_page_is_what_the_state_would_show(
    visible: list[bool],
    place: int,
    page: int,
    limit: int,
    is_anchored: bool,  # noqa: FBT001
) -> None:
    said = entries(visible)
    state = Asker(source=read_talk([(key, m, None) for key, m in said], "t"), counter=COUNTER)
    arguments: dict[str, Any] = {"page": page, "limit": limit}
    if is_anchored:
        arguments["cursor"] = f"m{place % len(visible)}"
    with closing(filled(said)) as archive:
        for who in (Identity("t", "r"), Identity("t", None)):
            asker = Asker(source=source_of(archive, who), counter=COUNTER)
            assert recall(arguments, asker) == recall(arguments, state)


# --- Whose ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("asks", [None, "r", "other"])
@pytest.mark.parametrize("owner", [None, "r"])
@pytest.mark.parametrize("current", ["t", "mine"])
def test_only_what_is_theirs_is_found(
    current: str, owner: str | None, asks: str | None, *, is_shared: bool
) -> None:
    is_own = current == "t" and (owner == asks or None in {owner, asks})
    may_see = is_own or (is_shared and asks is not None and owner == asks)
    with closing(filled(entries([True] * 3), owner)) as archive:
        for first in ("find", "messages", "thread"):
            source = source_of(archive, Identity(current, asks), is_shared=is_shared)
            if first == "messages":
                source.messages("t", start=0, stop=None, limit=1, newest_first=False)
            if first == "thread":
                source.may_read("t")
            assert (source.find("m1", "t") is not None) == may_see
            assert source.may_read("t") == may_see
            span = source.messages("t", start=1, stop=None, limit=5, newest_first=False)
            assert [each.key for each in span] == (["m1", "m2"] if may_see else [])
            beside = source.messages("t", start=None, stop=1, limit=1, newest_first=True)
            assert [each.key for each in beside] == (["m0"] if may_see else [])
            assert source.find("m9", "t") is None


# --- Transactions in PostgreSQL ------------------------------------------------------------------


@pytest.mark.parametrize("make", [str, create_engine])
def test_a_reader_sees_one_state(make: Callable[[str], Any], postgres_sqlalchemy_url: str) -> None:
    count = text("SELECT count(*) FROM om_threads")
    with ExitStack() as stack:
        reader = stack.enter_context(closing(SQLAlchemyArchive(make(postgres_sqlalchemy_url))))
        writer = stack.enter_context(closing(SQLAlchemyArchive(postgres_sqlalchemy_url)))
        with reader._reading("look") as connection:
            assert connection.execute(count).scalar() == 0
            writer.append("t", None, [("a", HumanMessage("a"), True)], after=None, now=NOW)
            assert connection.execute(count).scalar() == 0
        with reader._reading("look") as connection:
            assert connection.execute(count).scalar() == 1
        reader.engine.dispose()


def test_a_reader_of_an_archive_on_a_server_does_not_wait_for_ever(
    postgres_sqlalchemy_url: str,
) -> None:
    with closing(SQLAlchemyArchive(postgres_sqlalchemy_url)) as archive:
        for _ in range(20):  # a driver prepares what it is told often
            with archive._reading("look") as connection:
                assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "30s"
        with archive._writing("look") as connection:
            # Writers look again at what they have locked.
            shown = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
        assert shown == "read committed"


def test_what_failed_is_undone(postgres_sqlalchemy_url: str) -> None:
    with closing(SQLAlchemyArchive(postgres_sqlalchemy_url)) as archive:

        def fail() -> None:
            with archive._writing("fail") as connection:
                connection.exec_driver_sql("INSERT INTO om_threads VALUES ('t', '', '', 0, 0)")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert archive.thread("t") is None
