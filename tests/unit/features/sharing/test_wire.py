"""What is stored of other threads has the form that its types say."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import TypeAdapter

from support.clock import Clock
from support.inside import UserLog, blank_record
from support.shared_world import said, sharing
from support.wire import check, check_all, take_turn

LOG: TypeAdapter[Any] = TypeAdapter(UserLog)


@pytest.mark.parametrize("buffers", [True, False])
def test_what_is_kept_of_other_threads(*, buffers: bool) -> None:
    clock = Clock()
    limits = {"message_tokens": 300, "buffer_tokens": 0.2 if buffers else False}
    memory = sharing(
        "sqlite://", observation=limits, reflection={"observation_tokens": 400}, clock=clock
    )
    threads = [*["one"] * 10, *(thread for thread in ("two", "three", "four") for _ in range(4))]
    records = {thread: blank_record() for thread in threads}
    talks: dict[str, list[BaseMessage]] = {thread: [] for thread in threads}
    seen: set[Any] = set()
    for at, thread in enumerate(threads):
        clock.advance(hours=1)
        talks[thread].append(said(thread, at))
        outcome = take_turn(memory, records[thread], talks[thread], thread)
        seen |= check_all(outcome.events, records[thread])
        records[thread] = outcome.record
        talks[thread].append(AIMessage("Noted.", id=f"{thread}.a{at}"))
    talks["two"].append(said("two", 99))  # what another thread observed of it
    outcome = take_turn(memory, records["two"], talks["two"], "two")
    seen |= check_all(outcome.events, records["two"])
    assert memory.archive is not None
    stored, _ = memory.archive.load_record("ada")
    check(LOG, stored)
    assert {("others", None), ("taken-over", None), ("archived", None)} <= seen
    ends = "buffering-end" if buffers else "observation-end"
    assert {(ends, "observation"), (ends, "others")} <= seen
