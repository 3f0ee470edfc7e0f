"""Where the workers of a test meet."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from support.processes.workers import Place

pytest.register_assert_rewrite("support.processes.checks")


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
