"""Databases for an archive in SQL, empty ones of each kind, and processes that share them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine

from langgraph_om.archive import SQLAlchemyArchive
from support.processes.archive_workers import WORKERS
from support.processes.forks import forking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'archive.db'}"
    found: str = request.getfixturevalue("postgres_sqlalchemy_url")
    return found


@pytest.fixture
def archive(url: str) -> Iterator[SQLAlchemyArchive]:
    with closing(SQLAlchemyArchive(url)) as archive:
        yield archive


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS, mp_context=forking()) as pool:
        yield pool
