"""Inspect the conversation before a model call.

New messages are counted, finished jobs taken in, what is new is archived and exchanged with the
shared log, what is due is decided, and the state of both windows is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.head import track_head
from langgraph_om.core.actor.recalled import find_recalled
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import derive_id, key_of
from langgraph_om.core.cycles.observation import describe_observation
from langgraph_om.core.cycles.results import drop_stale_buffers, take_in_results
from langgraph_om.core.effects import EffectFlow, JobState, PeekJobs, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.plan import PROCEED, Decision, plan, plan_pause
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import select_valid_counts
from langgraph_om.core.record.span import Span
from langgraph_om.core.record.strays import check_observed, has_strays
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.step.archive import archive_new, take_out_resent
from langgraph_om.core.step.count_new import (
    build_status,
    build_trim_notice,
    count_new,
    note_left_behind,
    select_refused,
)
from langgraph_om.core.step.recalled import search_for_request
from langgraph_om.core.step.resent import list_removed, without_messages
from langgraph_om.core.step.shared_log import check_resource_id, exchange
from langgraph_om.core.step.title import note_words, tell_of_person
from langgraph_om.core.wire import Event, Group, Head, MemoryRecord, Operation, SteeringNoted

# Take in what was observed while a conversation paused, which its record does not know of.


def take_in_pause(
    settings: Settings,
    before: MemoryRecord,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    *,
    now: datetime,
) -> EffectFlow[list[Event]]:
    """Look for the job of the pause before this turn; the same messages make the same job.

    Args:
        settings: The settings in force.
        before: The memory as the last turn left it, which has counted what was said by then.
        record: The memory with all counted.
        messages: The whole conversation.
        window: Its unobserved messages.
        now: The current time.

    Returns:
        Its start, and its result where it is there by now.
    """
    head, seconds = before.get("head"), settings.observation.buffer_on_idle
    if head is None or seconds is None or record["pending"].get("observation"):
        return []
    if (now - datetime.fromisoformat(head["at"])).total_seconds() < seconds:
        return []
    known = before["token_cache"]["counts"]
    new = next((entry for entry in window.entries if entry.key not in known), None)
    if new is None:
        return []
    at = next(at for at in range(len(messages) - 1, -1, -1) if messages[at] is new.message)
    then = open_window(record, messages[:at], settings.counter)
    decision = plan_pause(record, then, settings.thresholds)
    if decision.kind == "proceed":
        return []
    job = describe_observation(settings, record, then, decision.count, now, mode="ahead")
    state = (yield PeekJobs({"observation": job.cycle_id}))["observation"]
    if state is None or state == "expired":
        return []
    started = fold(record, [job.start])
    return [job.start, *take_in_results(settings, started, window, {"observation": state}, now)]


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

    def with_events(self, events: Sequence[Event]) -> Inspection:
        """Return it with further events, folded in its memory."""
        if not events:
            return self
        record = fold(self.record, [events])
        return replace(self, record=record, events=[*self.events, *events])

    @property
    def evicted(self) -> list[str]:
        """Ids of the messages that may be removed, because they are archived and observed."""
        return list_removed(self.events)

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
    working: str = "",
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
        working: The block of working memory that the Actor is shown; empty for none.

    Raises:
        ConfigurationError: When a log is to be shared and the run does not say with whom, or the
            archive says that the thread belongs to another resource.
    """
    found = yield from _gather(settings, record, messages, identity, now, before=before)
    if is_final:
        return found
    decision = _choose(settings, found, now, must_proceed=must_proceed)
    if not goes_on(decision, buffering_waits=buffering_waits):
        return _build_pause(found, decision, now)
    recalled = yield from search_for_request(
        settings, found.record, messages, found.window, identity=identity, now=now, working=working
    )
    found = found.with_events(recalled)
    return _go_on(settings, found, decision, messages, now, working=working)


def _gather(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    identity: Identity,
    now: datetime,
    *,
    before: Span | None,
) -> EffectFlow[Inspection]:
    """Count what is new, collect what is done, archive, and exchange with the shared log."""
    is_shared = settings.scope == "resource"
    if is_shared:
        check_resource_id(identity)
    cycle_ids = {name: job["cycle_id"] for name, job in record["pending"].items()}
    jobs = (yield PeekJobs(cycle_ids)) if cycle_ids else {}
    resent: list[Event] = []
    if settings.archives:
        resent = yield from take_out_resent(settings, record, messages, identity.thread_id, now)
        messages = without_messages(messages, list_removed(resent))
    found = count_and_collect(settings, record, messages, identity, now, jobs=jobs, before=before)
    window = found.window
    paused = yield from take_in_pause(settings, record, found.record, messages, window, now=now)
    found = found.with_events(paused)
    if found.overlooked:
        text = (
            "thread %r: %d message(s) were put among those that are observed; memory does not read "
            "them, add history before the first turn or at the end"
        )
        yield Warn(text, (record["thread_id"] or identity.thread_id, found.overlooked))
    if settings.archives:
        found = yield from _archive(settings, found.with_events(resent), messages, now)
    if is_shared and identity.thread_id:
        found = yield from _share(settings, found, messages, now)
    return found


def _archive(
    settings: Settings,
    found: Inspection,
    messages: Sequence[BaseMessage],
    now: datetime,
) -> EffectFlow[Inspection]:
    """Archive what is new."""
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
    window = found.window
    if archived["cursor"] != found.record["cursor"]:
        window = open_window(archived, messages, settings.counter, before=window.span)
    return Inspection(archived, window, PROCEED, [*found.events, *events])


def _share(
    settings: Settings, found: Inspection, messages: Sequence[BaseMessage], now: datetime
) -> EffectFlow[Inspection]:
    """Exchange what is new with the shared log."""
    exchanged = yield from exchange(settings, found.record, messages, found.window, now)
    synced, events = exchanged.record, exchanged.events
    if not events:
        return found
    window = open_window(synced, messages, settings.counter, before=found.window.span)
    refused = select_refused(found.record, synced, messages[: window.start])
    unobserved = {*found.window.span.places, *refused}
    noted = note_left_behind(settings, exchanged, messages, window, unobserved)
    if noted:
        synced = fold(synced, [noted])
        window = open_window(synced, messages, settings.counter)
    return Inspection(synced, window, PROCEED, [*found.events, *events, *noted])


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
    record = _fold_if_any(record, opening)
    window = open_window(record, messages, settings.counter, before=before)
    observed, overlooked = check_observed(record, messages, window.start)
    looked: MemoryRecord = {**record, "observed": observed}
    if has_strays(looked) or window.strays.messages:
        window = open_window(looked, messages, settings.counter)
    counting = count_new(
        settings, record, messages, window, now, observed=observed, first_look=is_new
    )
    record = _fold_if_any(record, counting)
    window.span.counted_in = select_valid_counts(record, settings.counter.identity)
    done = [
        *drop_stale_buffers(record, window, now),
        *take_in_results(settings, record, window, jobs or {}, now),
    ]
    events = [*opening, *counting, *done]
    words = note_words(settings, record, messages)
    record = _fold_if_any(record, [*done, *words])
    return Inspection(record, window, PROCEED, [*events, *words], overlooked)


def _fold_if_any(record: MemoryRecord, events: Sequence[Event]) -> MemoryRecord:
    """Fold events; a record that nothing happens to need not be made anew."""
    return fold(record, [events]) if events else record


def _choose(settings: Settings, seen: Inspection, now: datetime, *, must_proceed: bool) -> Decision:
    """Decide from what was gathered; with no room left for work, the Actor goes on."""
    decision = plan(seen.record, seen.window, settings.thresholds, now)
    return PROCEED if must_proceed and decision.kind != "abort" else decision


def goes_on(decision: Decision, *, buffering_waits: bool) -> bool:
    """Return whether the Actor is called next."""
    return decision.kind == "proceed" or (decision.kind == "buffer" and not buffering_waits)


def _build_pause(seen: Inspection, decision: Decision, now: datetime) -> Inspection:
    """Return what is due before the Actor may go on."""
    tripwire = [_build_tripwire(seen.record, now)] if decision.kind == "abort" else []
    return Inspection(seen.record, seen.window, decision, [*seen.events, *tripwire])


def _go_on(
    settings: Settings,
    seen: Inspection,
    decision: Decision,
    messages: Sequence[BaseMessage],
    now: datetime,
    *,
    working: str,
) -> Inspection:
    """State both windows, as the Actor is called next.

    Args:
        settings: The settings in force.
        seen: What was gathered.
        decision: What is done beside the call.
        messages: The whole conversation.
        now: The current time.
        working: The block of working memory that the Actor is shown; empty for none.
    """
    record, window = seen.record, seen.window
    step = _count_step(record, window)
    head = track_head(settings, record, messages, window, now, working=working)
    stepped: Event = {"type": "stepped", "request": window.request, "step": step, "head": head}
    record = fold(record, [stepped])
    events: list[Event] = [
        *seen.events,
        *_tell_of_acts(seen.record),
        *tell_of_person(settings, seen.record, now),
        stepped,
        *build_trim_notice(settings, record, window, working),
    ]
    data = build_status(record, window, settings.thresholds, step=step)
    events.append({"type": "status", "data": data})
    return Inspection(record, window, decision, events)


def _tell_of_acts(record: MemoryRecord) -> list[SteeringNoted]:
    """Tell of what a person did to the log since the last step."""

    def text_of(group: Group | None) -> str | None:
        return group["text"] if group is not None else None

    return [
        {
            "type": "steering",
            "id": act["id"],
            "action": act["action"],
            "at": act["at"],
            "before": text_of(act["before"]),
            "after": text_of(act["after"]),
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
        for act in record.get("steered", ())
        if act["is_new"]
    ]


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


# What a run that may write nothing is shown: the memory as it is, before a new live request.


def freeze_view(found: Inspection, today: date, now: datetime) -> MemoryRecord:
    """Return a record from which the Actor's view is made, and which nobody keeps.

    Reasoning that its provider has bound to what stands before it is shown from the live request
    on: since then the view holds still, and what was before nobody has tracked.

    Args:
        found: What an inspection would have counted.
        today: The day, where the record knows of none that its dates are relative to.
        now: The current time.
    """
    record, window = found.record, found.window
    blank: Head = {
        "after": None,
        "seen": None,
        "digest": "",
        "log": "",
        "as_of": today.isoformat(),
        "at": iso(now),
    }
    head: Head = {**(record.get("head") or blank), "after": window.request}
    frozen: MemoryRecord = {
        **record,
        "turn": {"request": window.request, "step": 0},
        "head": head,
    }
    if not find_recalled(record, window.request):  # of another request
        frozen.pop("recalled", None)
    return frozen
