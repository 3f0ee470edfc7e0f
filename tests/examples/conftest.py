"""What tests of examples share; the example that is imported has its rooms beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from langgraph_om.testing import ScriptedChatModel
from support.evaluation import Evaluation, Judged


@pytest.fixture
def evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluation:
    """Return what runs the evaluation, in a folder of its own."""
    return Evaluation(tmp_path, capsys)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Return what lets a scripted model stand for the judge that is named."""

    def judge(reply: Callable[[str], str]) -> list[str]:
        asked: list[str] = []

        def answer(prompt: list[BaseMessage]) -> str:
            asked.append(prompt[0].text)
            return reply(prompt[0].text)

        def make(name: str, **settings: Any) -> ScriptedChatModel:
            return ScriptedChatModel(actor=answer)

        monkeypatch.setattr("langchain.chat_models.init_chat_model", make)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        return asked

    return judge
