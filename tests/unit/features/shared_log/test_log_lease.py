"""Who works on a shared log: one thread at a time, on the log as it is by then."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_om.core.effects import KeepLease
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError
from langgraph_om.features.shared_log.reading import (
    claim_reflection,
    keep_log,
)
from langgraph_om.testing import drive

DOWN = ArchiveError("the disk is full")


def record() -> MemoryRecord:
    known: Any = {"id": "r", "thread_id": "t", "resource_id": "ada", "revision": 7, "generation": 2}
    return {**blank_record(), **known}


@pytest.mark.parametrize(
    ("shared", "is_claimed"),
    [({"generation": 2}, True), ({"generation": 3}, False), (DOWN, False)],
)
def test_a_log_is_condensed_unless_another_thread_did_so(shared: Any, is_claimed: Any) -> None:
    """What others added since does not matter: where many write, somebody always did."""
    run = drive(claim_reflection(record(), "blocking"), ["mine", shared, None, None])
    assert run.result is is_claimed
    released = [effect.method for effect in run.effects].count("release")
    assert released == (0 if is_claimed else 2)


def test_nothing_is_done_while_another_thread_is_at_it() -> None:
    assert not drive(claim_reflection(record(), "ahead"), ["taken"]).result
    assert not drive(claim_reflection(record(), "ahead"), [DOWN]).result


def test_what_was_claimed_is_what_is_kept() -> None:
    for operation, mode in (("others", "ahead"), ("reflection", "ahead")):
        run = drive(claim_reflection(record(), "ahead"), ["taken"])
        [claimed] = run.effects
        [kept] = drive(keep_log(record(), operation, mode)).effects  # type: ignore[arg-type]
        assert isinstance(kept, KeepLease)
        same = (kept.job_id, kept.owner) == tuple(claimed.arguments)
        assert same is (operation == "reflection")
        assert (kept.seconds == claimed.options["seconds"]) is same
