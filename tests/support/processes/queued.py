"""Jobs in processes of their own that are killed: a queue in a folder stands for the server.

What a worker of a server does with a run is done here too: it takes one, carries it out with
`worker_graph`, and a run whose worker died is taken up by another one, or is gone, as with servers
that forget.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from langgraph_om import ServerBuffering
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.integrations.worker_graph import build_worker
from support.inside import runner_of
from support.processes.workers import Death, Place, worker


class FolderQueue:
    """A synchronous client of a server whose runs are files.

    Args:
        place: Where they are.
    """

    def __init__(self, place: Place) -> None:
        self.runs = self.threads = self
        self._place = place
        self._folder = Path(place.folder, "runs")
        self._folder.mkdir(exist_ok=True)

    def create(
        self, thread_id: str | None, graph: str, *, metadata: Mapping[str, Any], **options: Any
    ) -> dict[str, str]:
        path = self._folder / f"{time.time_ns()}-{uuid4().hex}.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps({"input": options["input"], "metadata": metadata}), "utf-8")
        draft.rename(path)
        self._place.note("sent", metadata["om_cycle_id"])
        return {"thread_id": path.stem}

    def search(self, *, metadata: Mapping[str, Any], **_options: Any) -> list[dict[str, Any]]:
        return [
            {"thread_id": path.stem, "metadata": run["metadata"]}
            for path, run in self._waiting()
            if metadata.items() <= run["metadata"].items()
        ]

    def _waiting(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                yield path, json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:  # carried out meanwhile
                continue

    @contextmanager
    def take(self) -> Iterator[tuple[str, dict[str, Any]] | None]:
        """Take the oldest run that no worker has; `None` where there is none."""
        for path, run in self._waiting():
            file = _lock(path)
            if file is None:
                continue
            with file:
                if path.stem[-1] in "01234567":  # a server that forgets what it has begun
                    path.unlink()
                yield path.stem, run
                path.unlink(missing_ok=True)
                return
        yield None


def _lock(path: Path) -> IO[str] | None:
    """Open a file that no other process has, nor has done with."""
    try:
        file = path.open(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    if not path.exists():
        file.close()
        return None
    return file


class NotedBuffering(ServerBuffering):
    """Sends jobs to the folder, and notes how long a turn waits for that."""

    def __init__(self, place: Place) -> None:
        super().__init__(client=FolderQueue(place))
        self._place = place

    def submit(self, *args: Any, **options: Any) -> bool:
        began = time.monotonic()
        is_taken = super().submit(*args, **options)
        self._place.note("sending", str(time.monotonic() - began))
        return is_taken


def work(place: Place, death: Death, life: int) -> None:
    """Carry out runs until the test is over, or until death."""
    come_to = death.watch(place)
    queue = FolderQueue(place)
    with worker(replace(place, buffering="inline"), come_to, life) as agent:
        runner: Any = runner_of(agent.memory)
        graph = build_worker(runner.archive, runner.run_request, place.lease)
        while not Path(place.folder, "over").exists():
            with queue.take() as taken:
                if taken is None:
                    time.sleep(0.02)
                    continue
                run_id, run = taken
                cycle_id = run["metadata"]["om_cycle_id"]
                place.note("begun", cycle_id)
                told = graph.invoke(run["input"], {"configurable": {"run_id": run_id}})
                place.note(told["outcome"], cycle_id)


def work_on(place: Place, seed: int) -> None:
    """Have runs carried out by a process that is killed, and followed by another, all the time."""
    for life, death in enumerate(_deaths(seed), 100):
        if Path(place.folder, "over").exists():
            return
        pid = os.fork()
        if pid == 0:
            try:
                work(place, death, life)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        place.note("worker ended", str(os.waitstatus_to_exitcode(status)))


def _deaths(seed: int) -> Iterator[Death]:
    """One death after another of those who carry out runs."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    points = ("observer", "reflector", "before commit", "after archive")
    while True:
        if chance.random() < 0.5:
            yield Death(chance.choice(points), chance.randint(1, 4))
        else:
            yield Death(seconds=chance.uniform(0.1, 1.0))


def tell(title: str, place: Place, killed: int) -> dict[str, Any]:
    """Print and return the figures."""
    sent, ended = place.noted("sent"), Counter(place.noted("done"))
    begun = Counter(place.noted("begun"))
    archive = SQLAlchemyArchive(place.archive)
    states = [job.state if (job := archive.job(key)) else None for key in dict.fromkeys(sent)]
    archive.close()
    waits = sorted(map(float, place.noted("sending")))
    figures = {
        "workers killed": killed,
        "jobs sent": len(set(sent)),
        "sent again": len(sent) - len(set(sent)),
        "carried out": len(ended),
        "taken back by a turn, or refused": states.count(None),
        "lost, and asked for anew": len(states) - states.count("done") - states.count(None),
        "begun again": sum(times > 1 for times in begun.values()),
        "carried out twice": sum(times > 1 for times in ended.values()),
        "ms a turn waits for sending, median": round(1000 * waits[len(waits) // 2]),
        "ms a turn waits for sending, most": round(1000 * waits[-1]),
    }
    print(f"\n{title}: {figures}")  # noqa: T201 for the docs
    return figures
