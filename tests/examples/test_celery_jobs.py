"""Celery as an executor, without a broker."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from langgraph_om import Executor
from support.executor_checks import executor_conformance

pytest.importorskip("celery", reason="Celery is for this example alone, in the extra `celery`")

EXAMPLE = Path(__file__).parents[2] / "examples" / "celery_jobs.py"
CHECKS = [name for name, _ in executor_conformance(lambda _run: None)]
pytestmark = pytest.mark.slow


def test_jobs_are_done_by_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLE))
    example["main"]()
    shown = capsys.readouterr().out
    assert shown.count("data-om-buffering-end observation") > 2
    assert "data-om-activation observation" in shown
    assert len(example["memory"].buffering.sent) > 2
    assert "museum" in shown


@pytest.mark.parametrize("name", CHECKS)
def test_it_is_an_executor(name: str) -> None:
    example = runpy.run_path(str(EXAMPLE))

    def make(run_job: Any) -> Executor:
        def run(request: Any) -> Any:
            return run_job(request)

        task = example["celery"].task(run, name=f"check_{uuid4()}", shared=False)
        made: Executor = example["CeleryBuffering"](task)
        return made

    dict(executor_conformance(make))[name]()
