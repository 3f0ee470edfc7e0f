"""What tests of examples share; the example that is imported has its rooms beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.evaluation import Evaluation


@pytest.fixture
def evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluation:
    """Return what runs the evaluation, in a folder of its own."""
    return Evaluation(tmp_path, capsys)
