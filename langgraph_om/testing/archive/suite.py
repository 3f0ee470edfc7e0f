"""What every archive has to do, as checks to run against one's own.

Each check takes an archive of its own and uses names that nobody else does. What the checks wrote
stays, and jobs that ended a moment ago are forgotten, those of others too: run them on a storage
for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

from langgraph_om.testing.archive.ends import ENDS_CHECKS
from langgraph_om.testing.archive.messages import MESSAGE_CHECKS
from langgraph_om.testing.archive.searching import SEARCH_CHECKS
from langgraph_om.testing.archive.work import WORK_CHECKS


def archive_conformance(
    make_archive: Callable[[], Any],
) -> list[tuple[str, Callable[[], None]]]:
    """Return the checks that an archive has to pass: their names, and functions that raise.

    The names do not depend on the archive, so that pytest can collect them before there is one:

        CHECKS = [name for name, _ in archive_conformance(MyArchive)]

        @pytest.mark.parametrize("name", CHECKS)
        def test_archive(name, tmp_path):
            dict(archive_conformance(lambda: MyArchive(tmp_path)))[name]()

    Args:
        make_archive: Makes a `MessageArchive`, asked once by each check, which closes it. The
            archives may share one storage, and it need not be empty.
    """

    def bind(check: Callable[[Any, str], None]) -> Callable[[], None]:
        def run() -> None:
            with closing(make_archive()) as archive:
                check(archive, uuid4().hex[:12])

        return run

    checks = (*MESSAGE_CHECKS, *ENDS_CHECKS, *WORK_CHECKS, *SEARCH_CHECKS)
    return [(check.__name__, bind(check)) for check in checks]
