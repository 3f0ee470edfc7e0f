"""Calls of a server that is not there."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from langgraph_om import ServerBuffering
from langgraph_om.archive import SQLAlchemyArchive
from support.clock import START


def test_a_server_that_is_not_there_holds_no_turn(tmp_path: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{found.getsockname()[1]}"
    executor, began = ServerBuffering(url), time.monotonic()
    executor.share(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db"))
    request: Any = {"cycle_id": "c1", "thread_id": "t", "resource_id": None, "about": []}
    request |= {
        "operation": "observation",
        "count": 1,
        "record": {"id": "r"},
        "at": START.isoformat(),
    }
    assert executor.submit("c1", "k", dict, thread_id="t", request=lambda: request)
    assert time.monotonic() - began < 60
    told: Any = executor.peek("c1")
    assert told["type"] == "buffering-failed"
    assert "refused" in told["error"]
    executor.close()
