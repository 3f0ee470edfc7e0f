"""One thread at a time works on what all threads of a resource share, over all workers.

The lease is a job in the archive without a result. It is renewed while the work goes on, and held
until the shared log has what came of it, so that who gets it next sees that; where a process ends
before, it ends by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import Mode
from langgraph_om.core.effects import EffectFlow, KeepLease, Storage, call_storage
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.wire import LogChange, MemoryRecord, Operation
from langgraph_om.errors import ArchiveError

LEASE_SECONDS: Final = 120.0
"""How long the work of a process that ended, or of a thread that does not go on, keeps others from
beginning anew."""
AHEAD_SECONDS: Final = 600.0
"""The same for a reflection ahead of need, which the thread keeps until the log has grown."""


def claim_log(
    record: MemoryRecord, operation: Operation, mode: Mode = "blocking"
) -> EffectFlow[bool]:
    """Ask to be the one that works on the log of a resource.

    Returns:
        Whether the thread is; not while another one is at it, or the archive fails.
    """
    try:
        claim = yield from call_storage(
            "claim",
            _name_job(record, operation, mode),
            record["id"],
            seconds=_choose_seconds(operation, mode),
            thread_id=record["thread_id"],
            resource_id=record["resource_id"],
        )
    except ArchiveError:
        return False
    return bool(claim == "mine")


def keep_log(record: MemoryRecord, operation: Operation, mode: Mode) -> EffectFlow[None]:
    """Keep what the thread claimed for as long as its work takes."""
    name, seconds = _name_job(record, operation, mode), _choose_seconds(operation, mode)
    yield KeepLease(name, record["id"], seconds)


def claim_reflection(record: MemoryRecord, mode: Mode, *, leave_below: int = 0) -> EffectFlow[bool]:
    """Ask to be the one that condenses the log, as it is by now.

    Args:
        record: The memory of the thread.
        mode: Whether the turn waits for it.
        leave_below: Tokens of the log below which a turn leaves it to another thread that has, or
            makes, a reflection ahead of need.

    Returns:
        Whether the thread is; not while another one is at it, or has condensed the log since. What
        others added to it since does no harm.
    """
    if log_tokens(record) < leave_below and (yield from _is_ahead_elsewhere(record)):
        return False
    if not (yield from claim_log(record, "reflection", mode)):
        return False
    if (yield from _is_not_condensed_since(record)):
        return True
    yield from release_log(record, "reflection")
    return False


def _is_not_condensed_since(record: MemoryRecord) -> EffectFlow[bool]:
    try:
        shared = yield from call_storage("read_log", record["resource_id"])
    except ArchiveError:
        return False
    return bool(shared["generation"] == record["generation"])


def _is_ahead_elsewhere(record: MemoryRecord) -> EffectFlow[bool]:
    try:
        job = yield from call_storage("job", _name_job(record, "reflection", "ahead"))
    except ArchiveError:
        return False
    return job is not None and job.state == "running" and job.owner != record["id"]


def release_log(record: MemoryRecord, operation: Operation) -> EffectFlow[None]:
    """Let the next one work; a lease that the archive does not take back ends by itself."""
    names = {_name_job(record, operation, mode) for mode in ("blocking", "ahead")}
    for name in sorted(names):
        yield Storage("release", (name, record["id"]))


def release_after(record: MemoryRecord, sent: Sequence[LogChange]) -> EffectFlow[None]:
    """Let the next one work where the log has, or has refused, what came of this thread's."""
    if any(
        change["kind"] == "extend" and change["thread_id"] != record["thread_id"] for change in sent
    ):
        yield from release_log(record, "others")
    if any(change["kind"] == "replace" for change in sent):
        yield from release_log(record, "reflection")


def _choose_seconds(operation: Operation, mode: Mode) -> float:
    is_kept = operation == "reflection" and mode == "ahead"
    return AHEAD_SECONDS if is_kept else LEASE_SECONDS


def _name_job(record: MemoryRecord, operation: Operation, mode: Mode) -> str:
    """Name the job; a turn that waits does not wait for a reflection that is ready elsewhere."""
    kept = "ahead" if operation == "reflection" and mode == "ahead" else ""
    return derive_id("shared-log", operation, record["resource_id"], kept)
