"""What the servers of tests serve: an agent, memory's worker, and a note of what is done when.

The environment says where the archive is (`OM_ARCHIVE`), where notes are written (`OM_NOTES`), how
long a model takes (`OM_DELAY`, seconds), and when jobs count as lost (`OM_LEASE`).
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from langgraph_om import ObservationalMemory, ServerBuffering, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.integrations.worker_graph import build_worker
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.inside import JobRequest, runner_of

NOTES: queue.Queue[dict[str, Any]] = queue.Queue()


def write_notes() -> None:
    """Write what is noted, in a thread: the server refuses files on its event loop."""
    with open(os.environ["OM_NOTES"], "a", encoding="utf-8", buffering=1) as file:  # noqa: PTH123
        while True:
            file.write(json.dumps({**NOTES.get(), "pid": os.getpid()}) + "\n")


threading.Thread(target=write_notes, daemon=True).start()


def note(what: str) -> Any:
    """A hook that notes the cycle it is told of."""

    def write(about: Mapping[str, Any]) -> None:
        told = {"what": what, "job": about["cycle_id"], "error": about.get("error")}
        NOTES.put({**told, "trigger": about["trigger"], "at": time.time()})

    return write


class NotedBuffering(ServerBuffering):
    """Notes how long a turn waits for a job to be sent."""

    def submit(self, cycle_id: str, *args: Any, **options: Any) -> bool:
        began = time.monotonic()
        taken = super().submit(cycle_id, *args, **options)
        seconds = time.monotonic() - began
        NOTES.put({"what": "sent" if taken else "refused", "job": cycle_id, "seconds": seconds})
        return taken


DELAY = float(os.environ.get("OM_DELAY", "0.3"))
LEASE = float(os.environ.get("OM_LEASE", "300"))
ARCHIVE = SQLAlchemyArchive(os.environ["OM_ARCHIVE"])
SETTINGS: dict[str, Any] = {
    "observation": {
        "message_tokens": 600,
        "buffer_tokens": 100,
    },
    "reflection": {"observation_tokens": 900},
    "archive": ARCHIVE,
    "hooks": {
        "on_observation_start": note("begun"),
        "on_observation_end": note("done"),
        "on_reflection_start": note("begun"),
        "on_reflection_end": note("done"),
    },
}

buffering = NotedBuffering(os.environ.get("OM_WORKERS"))
buffering.share(ARCHIVE, LEASE)
memory = ObservationalMemory(
    ScriptedChatModel(
        observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply, delay=DELAY
    ),
    buffering=buffering,
    **SETTINGS,
)
agent = create_memory_agent(ScriptedChatModel("Noted, and I suggest a walk."), memory=memory)
om_worker = build_worker(ARCHIVE, runner_of(memory).run_request, LEASE)

# --- The checks of executors ---------------------------------------------------------------------


def _ask(request: JobRequest) -> Any:
    """Have the process that runs the checks say what the job comes to."""
    url = os.environ["OM_CHECKS"]
    with urllib.request.urlopen(f"{url}/{request['cycle_id']}", timeout=120) as answer:  # noqa: S310
        return json.load(answer)


def _work(request: JobRequest, config: Any) -> Any:
    def flow() -> Iterator[Any]:
        from langgraph_om.core.effects import CallWithConfig  # noqa: PLC0415

        reply = yield CallWithConfig("check", lambda _config: _ask(request))
        if reply.error is not None:
            raise reply.error
        return reply.value

    return flow(), runner_of(memory).context(config)


checks = build_worker(ARCHIVE, _work, LEASE)
