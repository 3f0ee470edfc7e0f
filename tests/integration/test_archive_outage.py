"""An archive that fails: one warning an outage, with its place, and nothing that grows."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langgraph_om import ObservationalMemory
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.features.archive import MAX_KEYS_MISSED, MAX_THREADS, ArchiveWriter
from langgraph_om.testing import ScriptedChatModel


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("scope", ["thread", "resource"])
def test_an_outage_is_warned_of_once_with_its_place(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, scope: str
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    memory = ObservationalMemory(
        ScriptedChatModel(),
        observation={"buffer_tokens": False},
        archive=f"sqlite:///{folder / 'x.db'}",
        scope=scope,
    )
    folder.rmdir()  # which is not mounted when the first turns are spoken
    config = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
    messages, record = [], None

    def talk(turns: int) -> None:
        nonlocal record
        for _ in range(turns):
            messages.append(HumanMessage("hello", id=f"h{len(messages)}"))
            record = memory.step(record, messages, config=config).record

    talk(4)
    (first,) = said(caplog)
    assert "the archive failed" in first
    assert f"sqlite:///{folder / 'x.db'}" in first
    folder.mkdir()
    talk(2)
    assert len(said(caplog)) == 1
    archive = memory.archive
    assert archive is not None
    kept = [each.key for each in archive.messages("t", start=0, limit=99)]
    assert kept == [message.id for message in messages]


def test_the_place_of_an_archive_shows_no_password() -> None:
    archive = SQLAlchemyArchive("postgresql://ana:secret@host/db?password=secret")
    assert "secret" not in archive.place
    assert "host/db" in archive.place


def test_what_was_missed_is_bounded() -> None:
    writer = ArchiveWriter(SQLAlchemyArchive("sqlite://"))
    writer.note_missed("t", [f"h{at}" for at in range(MAX_KEYS_MISSED + 1)])
    assert len(writer.recall_thread("t", []).missed) == 1
    for at in range(MAX_THREADS + 50):
        writer.note_missed(f"t{at}", ["h"], "h")
    assert len(writer._threads) == MAX_THREADS
