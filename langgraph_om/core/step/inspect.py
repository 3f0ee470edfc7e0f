"""Inspect the conversation before a model call.

New messages are counted, finished jobs taken in, what is new is archived and exchanged with the
shared log, what is due is decided, and the state of both windows is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.actor.head import track_head
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import derive_id, key_of, keyed_messages
from langgraph_om.core.cycles.results import drop_stale_buffers, take_in_results
from langgraph_om.core.effects import EffectFlow, JobState, PeekJobs, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.plan import PROCEED, Decision, plan
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import select_valid_counts
from langgraph_om.core.record.span import Entry, Span
from langgraph_om.core.record.strays import check_observed, has_strays
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.archive import archive_new
from langgraph_om.core.step.resent import without_removed
from langgraph_om.core.step.shared_log import check_resource_id, exchange
from langgraph_om.core.step.status import build_status, build_trim_notice
from langgraph_om.core.wire import Counted, Event, MemoryRecord, ObservedPart, Operation


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found in the conversation."""

    record: MemoryRecord
    """The memory with the events below folded in."""
    window: Window
    decision: Decision
    events: list[Event]
    """What to fold and to show; ends with the status when the Actor goes on."""
    overlooked: int = 0
    """How many messages were put among the observed ones, where they can be neither shown nor
    observed."""

    @property
    def evicted(self) -> list[str]:
        """Ids of the messages that may be removed, because they are archived and observed."""
        gone = (event["ids"] for event in self.events if event["type"] == "evicted")
        return [key for ids in gone for key in ids]

    @property
    def changed(self) -> set[str]:
        """Keys of the messages that are new, or of another content than before."""
        counted = (event["counts"] for event in self.events if event["type"] == "counted")
        return {key for counts in counted for key in counts}


def inspect(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    now: datetime,
    *,
    must_proceed: bool = False,
    buffering_waits: bool = False,
    is_final: bool = False,
    before: Span | None = None,
) -> EffectFlow[Inspection]:
    """Inspect the conversation before a model call, and decide what is due.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        messages: The whole conversation.
        identity: Whose conversation it is.
        now: The current time.
        must_proceed: Whether there is no room left for work (few supersteps remain).
        buffering_waits: Whether the Actor goes on only after the buffering that is due.
        is_final: Whether the Actor has answered and no call follows; nothing is decided then.
        before: What an earlier inspection has read; it only saves time.

    Raises:
        ConfigurationError: When a log is to be shared and the run does not say with whom, or the
            archive says that the thread belongs to another resource.
    """
    is_shared = settings.scope == "resource"
    if is_shared:
        check_resource_id(identity)
    cycle_ids = {name: job["cycle_id"] for name, job in record["pending"].items()}
    jobs = (yield PeekJobs(cycle_ids)) if cycle_ids else {}
    found = count_and_collect(settings, record, messages, identity, now, jobs=jobs, before=before)
    if found.overlooked:
        text = (
            "thread %r: %d message(s) were put among those that are observed; memory does not read "
            "them, add history before the first turn or at the end"
        )
        yield Warn(text, (record["thread_id"] or identity.thread_id, found.overlooked))
    if settings.archives:
        # Nobody knows which ones were overlooked: the archive is shown the whole conversation.
        overlooked = {key_of(messages[0])} if found.overlooked else set()
        archived, events = yield from archive_new(
            settings,
            found.record,
            messages,
            now,
            changed={*found.changed, *overlooked},
            request=found.window.request,
        )
        former, window = messages, found.window
        removed = {key for event in events if event["type"] == "evicted" for key in event["ids"]}
        if any(entry.key in removed for entry in window.entries):  # sent again by the client
            messages = without_removed(messages, events)
        if messages is not former or archived["cursor"] != found.record["cursor"]:
            window = open_window(archived, messages, settings.counter, before=window.span)
        found = Inspection(archived, window, PROCEED, [*found.events, *events])
    if is_shared and identity.thread_id:
        synced, events = yield from exchange(settings, found.record, messages, found.window, now)
        if events:
            window = open_window(synced, messages, settings.counter, before=found.window.span)
            found = Inspection(synced, window, PROCEED, [*found.events, *events])
    if is_final:
        return found
    return decide(
        settings, found, messages, now, must_proceed=must_proceed, buffering_waits=buffering_waits
    )


def count_and_collect(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    now: datetime,
    *,
    jobs: Mapping[Operation, JobState] | None = None,
    before: Span | None = None,
) -> Inspection:
    """Count what is new and collect what is done; decide nothing.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        messages: The whole conversation.
        identity: Whose conversation it is.
        now: The current time.
        jobs: Per pending operation, what the executor knows of the job.
        before: What an earlier inspection has read; it only saves time.
    """
    opening = _open_record(settings, record, identity)
    is_new = not record["id"]
    record = fold(record, [opening])
    window = open_window(record, messages, settings.counter, before=before)
    observed, overlooked = check_observed(record, messages, window.start)
    looked: MemoryRecord = {**record, "observed": observed}
    if has_strays(looked) or window.strays.messages:
        window = open_window(looked, messages, settings.counter)
    counting = _count_new(
        settings, record, messages, window, now, observed=observed, first_look=is_new
    )
    record = fold(record, [counting])
    window.span.counted_in = select_valid_counts(record, settings.counter.identity)
    done = [
        *drop_stale_buffers(record, window, now),
        *take_in_results(settings, record, window, jobs or {}, now),
    ]
    events = [*opening, *counting, *done]
    return Inspection(fold(record, [done]), window, PROCEED, events, overlooked)


def decide(
    settings: Settings,
    seen: Inspection,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    must_proceed: bool = False,
    buffering_waits: bool = False,
) -> Inspection:
    """Decide from what was gathered, and state both windows when the Actor goes on.

    Args:
        settings: The settings in force.
        seen: What was gathered.
        messages: The whole conversation.
        now: The current time.
        must_proceed: Whether there is no room left for work (few supersteps remain).
        buffering_waits: Whether the Actor goes on only after the buffering that is due.
    """
    record, window, events = seen.record, seen.window, list(seen.events)
    decision = plan(record, window, settings.thresholds, now)
    if decision.kind == "abort":
        events.append(_build_tripwire(record, now))
    elif must_proceed:
        decision = PROCEED
    if decision.kind == "proceed" or (decision.kind == "buffer" and not buffering_waits):
        step = _count_step(record, window)
        head = track_head(settings, record, messages, window, now)
        stepped: Event = {
            "type": "stepped",
            "request": window.request,
            "step": step,
            "head": head,
        }
        record = fold(record, [stepped])
        data = build_status(record, window, settings.thresholds, step=step)
        events += [stepped, *build_trim_notice(settings, record, window)]
        events.append({"type": "status", "data": data})
    return Inspection(record, window, decision, events)


def _build_tripwire(record: MemoryRecord, now: datetime) -> Event:
    """Say why there is no answer, in the turn that failed and in each that repeats it."""
    tripwire: Mapping[str, Any] = record.get("tripwire") or {}
    return {
        "type": "tripwire",
        "operation": tripwire.get("operation"),
        "at": iso(now),
        "reason": tripwire.get("reason"),
        "last_message": tripwire.get("last_message"),
        "record_id": record["id"],
        "thread_id": record["thread_id"],
    }


def _count_step(record: MemoryRecord, window: Window) -> int:
    turn = record["turn"]
    step: int = turn["step"] + 1 if turn["request"] == window.request else 0
    return step


def _open_record(settings: Settings, record: MemoryRecord, identity: Identity) -> list[Event]:
    whose = (identity.thread_id, identity.resource_id)
    key = derive_id("om", settings.scope, *whose, *identity.place)
    if (record["id"], record["thread_id"], record["resource_id"]) == (key, *whose):
        return []
    return [
        {
            "type": "opened",
            "id": key,
            "thread_id": identity.thread_id,
            "resource_id": identity.resource_id,
            "scope": settings.scope,
        }
    ]


def _count_new(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    now: datetime,
    *,
    observed: ObservedPart | None,
    first_look: bool,
) -> list[Event]:
    """Note the tokens of new window messages, and when those were first seen that arrived now."""
    known = record["token_cache"]["counts"]
    valid = select_valid_counts(record, settings.counter.identity)
    counts: dict[str, list[Any]] = {}
    for entry in window.entries[window.known :]:
        cached = valid.get(entry.key)
        if cached is None or cached[0] != entry.digest:
            counts[entry.key] = [entry.digest, entry.tokens]
    stamps = {
        entry.key: iso(now)
        for entry in _select_arrived(record, window, first_look=first_look)
        if not settings.time_of(entry.key, entry.message, {})
    }
    # The live request is weighed at every call, also when it lies before the window.
    past = known.keys() - window.span.places.keys() - {window.request}
    gone = [key for key in known if key in past] if past else []
    is_same_place = observed == record["observed"]
    if gone or not is_same_place:
        present = {window.request, *window.span.places}
        left = {key: at for key, at in record["stamps"].items() if key not in present}
        kept = _select_stamps_to_keep(settings, record, messages, window) if left else set()
        gone += [key for key in left if key not in kept and key not in known]
        stamps |= {key: at for key, at in left.items() if key in kept and key in known}
    if is_same_place and not (counts or stamps or gone):
        return []
    counted: Counted = {
        "type": "counted",
        "counter": settings.counter.identity,
        "counts": counts,
        "stamps": stamps,
        "gone": gone,
    }
    if not is_same_place:
        counted["observed"] = observed
    return [counted]


def _select_stamps_to_keep(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage], window: Window
) -> set[str]:
    """Return the keys of observed messages whose first-seen times the record keeps on.

    These are all in the conversation that no archive has, and the last one before the window, which
    dates what follows it and has no time.
    """
    keys = [key for key, _ in keyed_messages(messages)]
    if settings.archives and record["archived"] in keys:
        del keys[: keys.index(record["archived"]) + 1]
    last = (key for key, _ in reversed(window.observed) if key in record["stamps"])
    return {*keys, *islice(last, 1)}


def _select_arrived(record: MemoryRecord, window: Window, *, first_look: bool) -> Sequence[Entry]:
    """Return the messages that have just arrived, as far as that is certain.

    These are the live user request and what follows it. What is new and stands before was said some
    time ago, while memory did not watch: in an adopted thread, in runs without memory, or in a
    history that was loaded late. Only messages of the user directly before the request, in a thread
    that is known, are taken for a part of it.
    """
    known, entries, start = record["token_cache"]["counts"], window.entries, window.fresh_from
    unseen = entries[window.known :]
    new = [False] * window.known
    new += [entry.key not in known and entry.key not in record["stamps"] for entry in unseen]
    if not first_look and window.request is None:
        behind = 0 if window.observed else len(entries)
        start = max((at + 1 for at, is_new in enumerate(new) if not is_new), default=behind)
    while not first_look and 0 < start < len(entries) and new[start - 1]:
        if not isinstance(entries[start - 1].message, HumanMessage):
            break
        start -= 1
    return [entries[at] for at in range(start, len(entries)) if new[at]]
