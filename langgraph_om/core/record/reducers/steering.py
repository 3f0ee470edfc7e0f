"""The event by which a person changes the log."""

from __future__ import annotations

from langgraph_om.core.items.steer import steer
from langgraph_om.core.record.reducers.draft import add_to_outbox
from langgraph_om.core.wire import MemoryRecord, Steered


def steer_log(record: MemoryRecord, event: Steered) -> None:
    """Do to the log what a person wants."""
    acts = record.get("steered", [])
    if any(act["id"] == event["id"] for act in acts):
        return
    thread_id = record["thread_id"]
    done = steer(record["log"], record["chunks"], acts, event, thread_id=thread_id)
    record["log"], record["chunks"], record["steered"] = done.log, done.chunks, done.acts
    if record["scope"] == "resource":
        act, replaced, groups = done.acts[-1], done.replaced, done.groups
        whole = {"before": act["before"], "after": act["after"]}
        add_to_outbox(record, event["id"], kind="steer", replaced=replaced, groups=groups, **whole)
