"""A process that forks with work in flight, as servers do that load an application first."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.programs import run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

_FORKS = """
import json, os, sys, threading, time
from datetime import UTC, datetime
from uuid import uuid4
from langchain_core.messages import AIMessage, HumanMessage
from langgraph_om import ObservationalMemory
from langgraph_om.memory import runner_of
from support.agents import scripted
from langgraph_om.testing import ExtractiveObserver

archive, parent = sys.argv[1] or None, os.getpid()

def observe(messages):
    if os.getpid() == parent:
        time.sleep(3600)
    return ExtractiveObserver().reply(messages)

memory = ObservationalMemory(
    scripted(observer=observe),
    observation={"message_tokens": 600},
    deadline=1.0,
    archive=archive,
)

def talk(thread, turns):
    record, messages, kinds = None, [], []
    for at in range(turns):
        messages += [
            HumanMessage(f"I plan trip {at} with my sister to the old town. " * 6, id=str(uuid4())),
            AIMessage("Noted. I suggest three walks along the river.", id=f"lc_run--{uuid4()}-0"),
        ]
        step = memory.step(record, messages, thread_id=thread)
        record = step.record
        kinds += [part["type"].removeprefix("data-om-") for part in step.events]
        memory.flush(0 if os.getpid() == parent else 60)
    return record, kinds

threads = [threading.Thread(target=talk, args=(f"t{at}", 3), daemon=True) for at in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not memory.flush(0.1), "nothing was in flight"

held = threading.Event()
def hold():
    runner = runner_of(memory)
    locks = [runner.buffering._lock]
    if archive:
        locks.append(runner.archive._lock)
    for lock in locks:
        lock.acquire()
    held.set()
    time.sleep(3600)
threading.Thread(target=hold, daemon=True).start()
assert held.wait(60), "a lock could not be held"

read, write = os.pipe()
child = os.fork()
if child == 0:
    began = time.monotonic()
    record, kinds = talk("child", 20)
    told = {
        "flushed": memory.flush(60),
        "buffered": kinds.count("buffering-end"),
        "blocked": kinds.count("observation-start"),
        "failed": kinds.count("buffering-failed"),
        "log": len(record["log"]),
        "pid": os.getpid() != parent,
        "seconds": time.monotonic() - began,
    }
    os.write(write, json.dumps(told).encode())
    os._exit(0)
os.close(write)
for _ in range(2000):
    done, _ = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    os.waitpid(child, 0)
print(os.read(read, 65536).decode() or "{}", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("has_archive", [False, True], ids=["alone", "archive"])
def test_a_forked_process_observes_in_the_background(tmp_path: Path, *, has_archive: bool) -> None:
    archive = f"sqlite:///{tmp_path / 'archive.db'}" if has_archive else ""
    done = run_program("-W", "ignore", "-c", _FORKS, archive)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.get("flushed") is True, (told, done.stderr)
    assert told["buffered"] >= 5
    assert (told["blocked"], told["failed"]) == (0, 0)
    assert told["log"] >= 1
