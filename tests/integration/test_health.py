"""What a readiness probe is told of a memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from langgraph_om import ObservationalMemory
from langgraph_om.testing import ScriptedChatModel


async def test_a_memory_that_works_has_no_problems(tmp_path: Path) -> None:
    model = ScriptedChatModel(observer="here")
    memory = ObservationalMemory(model, archive=f"sqlite:///{tmp_path}/m.db")
    assert memory.check() == await memory.acheck() == []
    assert model.calls == []
    assert memory.check(ask=True) == []
    assert len(model.calls) == 1


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ObservationalMemory("openai/gpt-6-luna", archive=f"sqlite:///{tmp_path}/m.db") as memory:
        (problem,) = memory.check(ask=True)
        assert "'openai/gpt-6-luna' can't be asked" in problem
        assert "OPENAI_API_KEY" in problem
    assert "the memory is closed" in memory.check()[0]


def test_an_archive_that_is_away_and_a_model_that_fails_are_told(tmp_path: Path) -> None:
    model = ScriptedChatModel(observer=ValueError("overloaded"))
    assert "overloaded" in ObservationalMemory(model).check(ask=True)[0]
    (tmp_path / "m.db").write_text("this is no database, and is far too long to be taken for one")
    memory = ObservationalMemory(model, archive=f"sqlite:///{tmp_path}/m.db")
    assert "the archive cannot be reached" in memory.check()[0]
