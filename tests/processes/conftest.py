"""Where the workers of a test meet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from support.processes.workers import Place

pytest.register_assert_rewrite("support.processes.checks")


@pytest.fixture(scope="session", autouse=True)
def _importable() -> Iterator[None]:
    """Let the server from which workers are forked import them ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent), prepend=os.pathsep)
        yield


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    """One checkpointer and one archive for all workers, in files."""
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    return Place("sqlite", str(tmp_path / "checkpoints.db"), url, str(tmp_path))


@pytest.fixture
def postgres_place(postgres_database: str, tmp_path: Path) -> Place:
    """The same on a server."""
    url = postgres_database.replace("postgresql://", "postgresql+psycopg://", 1)
    return Place("postgres", postgres_database, url, str(tmp_path))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of them."""
    return cast("Place", request.getfixturevalue(f"{request.param}_place"))
