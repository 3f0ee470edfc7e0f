"""One step before a call of the Actor's model: what is known, what is due, and the status.

A `Step` is made once, where a step is entered, and handed on. What is worked out of it, the window
and the view, is worked out once and kept with it. `inspect` says in order what a step does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import dropwhile
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.actor.prompt import make_view, track_head
from langgraph_om.core.actor.view import View
from langgraph_om.core.config.settings import NOTHING_IN_STATE, Identity, InState, Parts, Settings
from langgraph_om.core.config.thresholds import ActorWindows, Thresholds, find_smallest, list_known
from langgraph_om.core.content.dates import find_own_time, find_unread_time, name_zone
from langgraph_om.core.content.message_keys import Keyed, derive_id, keyed_messages
from langgraph_om.core.content.text import write_repr
from langgraph_om.core.cycles.carry_out import drop_stale_buffers, take_in_results
from langgraph_om.core.effects import EffectFlow, JobState, PeekJobs, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.plan import ABORT, PROCEED, Decision, count_to_activate, has_tripped, plan
from langgraph_om.core.record.fold import fold_events
from langgraph_om.core.record.record import log_tokens, select_valid_counts
from langgraph_om.core.record.steering import tell_acts
from langgraph_om.core.record.users_log import list_in_sight
from langgraph_om.core.record.window import (
    Entry,
    Window,
    advance,
    check_observed,
    find_edited,
    open_window,
    select_live_chunks,
)
from langgraph_om.core.wire import (
    Counted,
    Event,
    Head,
    MemoryRecord,
    ObservedPart,
    Opened,
    Operation,
    ViewTrimmed,
)
from langgraph_om.parts import ActorWindow, BufferedObservations, ReflectionState, StatusData

if TYPE_CHECKING:
    from langgraph_om.runtime.runner import RunScope


@dataclass(slots=True)
class Step:
    """A conversation and its memory, with what has been found in them so far."""

    settings: Settings
    record: MemoryRecord
    """The memory, complete, with the events below folded in."""
    messages: Sequence[BaseMessage]
    """The conversation without what has been removed from it."""
    identity: Identity
    now: datetime
    scope: RunScope | None = None
    """The run around the step; `None` for a look alone."""
    is_final: bool = False
    """Whether the Actor has answered and no call follows."""
    is_again: bool = False
    """Whether a step of the same turn has counted these very messages."""
    before: Window | None = None
    """The window of that step."""
    is_counted: bool = False
    """Whether another step has counted these messages, of which this is a look alone."""
    day: date | None = None
    """The day that the dates of the view are relative to; `None`: it is chosen."""
    in_state: InState = NOTHING_IN_STATE
    """What the Actor is shown that no record holds."""
    windows: ActorWindows = field(default_factory=dict)
    """How long a prompt the Actor's models read, as far as this process knows."""
    events: list[Event] = field(default_factory=list)
    """What to fold and to show; ends with the status when the Actor goes on."""
    decision: Decision = PROCEED
    removed: list[str] = field(default_factory=list)
    """Ids of the messages that leave the graph's state with this step."""
    overlooked: int = 0
    """How many messages were put among the observed ones, where they can be neither shown nor
    observed."""
    edited: Keyed = field(default_factory=list)
    """Observed messages that say something else now."""
    lost: Sequence[int] = ()
    """The tokens of each message that left the conversation before it was observed."""
    given: Sequence[BaseMessage] = field(init=False)
    """The conversation as it came, before anything was removed from it."""
    former: MemoryRecord = field(init=False)
    """The memory as the last step left it."""
    window: Window = field(init=False)
    """The unobserved messages, once `open` was called."""
    _view: View | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.former, self.given = self.record, self.messages

    def open(self) -> Window:
        """Open the window of the record as it is now."""
        before = None if self.removed else self.before
        known = before and advance(before, self.record, self.messages)
        self.window = known or open_window(
            self.record,
            self.messages,
            self.settings.counter,
            is_counted=self.is_counted or self.is_again,
            request=self.record["turn"]["request"] if self.is_counted else None,
        )
        self._view = None
        return self.window

    @property
    def view(self) -> View:
        """What the Actor is shown next."""
        if self._view is None:
            self._view = self.shorten(None)
        return self._view

    def shorten(self, most: int | None) -> View:
        """Return the view that keeps to so many tokens of a whole prompt, as far as that goes."""
        known = (self.settings, self.record, self.messages, self.window, self.now)
        return make_view(*known, day=self.day, in_state=self.in_state, most=most)

    def apply(self, events: Sequence[Event]) -> None:
        """Take in events: fold them in the memory, and keep them."""
        if events:  # a record that nothing happens to need not be made anew
            self.record = fold_events(self.record, events)
            self.events += events
            self._view = None

    def take_in(self, record: MemoryRecord, events: Sequence[Event]) -> None:
        """Take in events that are folded in a record already."""
        self.record = record
        self.events += events
        self._view = None

    def show_working(self, text: str) -> None:
        """Show a working memory, which no record holds."""
        self.in_state = replace(self.in_state, working=text)
        self._view = None

    def note(self, event: Event) -> None:
        """Take in an event that does not change what the Actor is shown."""
        self.record = fold_events(self.record, [event])
        self.events.append(event)

    def take_out(self, keys: Sequence[str]) -> None:
        """Go on without messages that leave the conversation."""
        gone = {*keys}
        self.removed += keys
        self.messages = [each for each in self.messages if each.id not in gone]

    @property
    def changed(self) -> set[str]:
        """Keys of the messages that are new, or of another content than before."""
        counted = (event["counts"] for event in self.events if event["type"] == "counted")
        return {key for counts in counted for key in counts}


@dataclass(frozen=True, slots=True)
class StateKey:
    """A key that a feature keeps in a graph's state."""

    type: Any
    reducer: Callable[[Any, Any], Any]
    is_input: bool = False
    """Whether an input may hold it."""
    is_private: bool = False
    """Whether it is left out of an agent's output."""
    is_shown: bool = False
    """Whether the node that calls the Actor's model sees it."""

    @property
    def channel(self) -> Any:
        """The type with its reducer, as a schema has it."""
        return Annotated[self.type, self.reducer]


# --- The status of both windows, and the notice of a trimmed view --------------------------------


def build_status(
    record: MemoryRecord,
    window: Window,
    thresholds: Thresholds,
    *,
    step: int,
    actor: ActorWindow | None = None,
) -> StatusData:
    """State both windows: the `data` of `data-om-status`."""
    observations = log_tokens(record)
    status: StatusData = {
        "windows": {
            "active": {
                "messages": {
                    "tokens": window.tokens,
                    "threshold": thresholds.messages_at(observations),
                },
                "observations": {
                    "tokens": observations,
                    "threshold": thresholds.observations_at(window.tokens),
                },
            },
            "buffered": {
                "observations": _sum_buffered(record, window, thresholds, observations),
                "reflection": _describe_reflection(record),
            },
        },
        "recordId": record["id"],
        "threadId": record["thread_id"],
        "stepNumber": step,
        "generationCount": record["generation"],
    }
    if actor is not None:
        status["actorWindow"] = {"tokens": actor["tokens"], "source": actor["source"]}
        if thresholds.scaled_from is not None:
            status["actorWindow"]["scaledFrom"] = thresholds.scaled_from
            status["actorWindow"]["scaledTo"] = thresholds.largest_tokens
    return status


def _sum_buffered(
    record: MemoryRecord, window: Window, thresholds: Thresholds, log: int
) -> BufferedObservations:
    live = select_live_chunks(record, window)
    count = count_to_activate(live, window.tokens, thresholds, log) if live else 0
    sizes = [part.tokens for part in live]
    return {
        "chunks": len(live),
        "messageTokens": sum(sizes),
        "projectedMessageRemoval": sum(sizes[:count]),
        "observationTokens": sum([part.chunk["tokens"] for part in live]),
        "status": _read_buffer_status(record, "observation", is_there=bool(live)),
    }


def _describe_reflection(record: MemoryRecord) -> ReflectionState:
    buffered = record["reflection"]
    return {
        "inputObservationTokens": buffered["input_tokens"] if buffered else 0,
        "observationTokens": buffered["tokens"] if buffered else 0,
        "status": _read_buffer_status(record, "reflection", is_there=buffered is not None),
    }


def _read_buffer_status(
    record: MemoryRecord, operation: Operation, *, is_there: bool
) -> Literal["idle", "running", "complete"]:
    if operation in record["pending"]:
        return "running"
    return "complete" if is_there else "idle"


def describe_trim(record: MemoryRecord, window: Window, view: View, limit: int) -> ViewTrimmed:
    """Return the event that says what a view leaves out to keep to so many tokens."""
    dropped, seen = view.left.messages, list_in_sight(record)
    left_out = [entry for entry in window.entries[:dropped] if entry.key != window.request]
    return {
        "type": "view-trimmed",
        "dropped_messages": len(left_out),
        "dropped_tokens": sum(entry.tokens for entry in left_out),
        "previewed_messages": view.shown.cut,
        "dropped_observations": view.left.count_observations({**record, "log": seen}),
        "limit": limit,
        "record_id": record["id"],
        "thread_id": record["thread_id"],
    }


# --- New messages --------------------------------------------------------------------------------


def count_new(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    now: datetime,
    *,
    observed: ObservedPart | None,
    gone: Sequence[str],
    first_look: bool,
) -> list[Event]:
    """Note the tokens of new window messages, and when those that arrived now were first seen."""
    known = record["token_cache"]["counts"]
    counts = _list_counts(settings, record, window)
    stamps = {
        entry.key: iso(now)
        for entry in _select_arrived(record, window, first_look=first_look)
        if not find_own_time(entry.message, settings.timezone, settings.message_time)
    }
    forgotten = [*gone]
    is_same_place = observed == record["observed"]
    if forgotten or not is_same_place:
        left = {key: at for key, at in record["stamps"].items() if _has_left(window, key)}
        kept = _select_stamps_to_keep(settings, record, messages, window) if left else set()
        forgotten += [key for key in left if key not in kept and key not in known]
        stamps |= {key: at for key, at in left.items() if key in kept and key in known}
    if is_same_place and not (counts or stamps or forgotten):
        return []
    counted: Counted = {
        "type": "counted",
        "counter": settings.counter.identity,
        "counts": counts,
        "stamps": stamps,
        "gone": forgotten,
    }
    if not is_same_place:
        counted["observed"] = observed
    return [counted]


def list_gone(record: MemoryRecord, window: Window) -> list[str]:
    """List the keys that have a count, and are in the window no more."""
    known = record["token_cache"]["counts"]
    gone = known.keys() - window.places.keys() - {window.request}
    return [key for key in known if key in gone] if gone else []


def find_lost(
    record: MemoryRecord, gone: Sequence[str], messages: Sequence[BaseMessage]
) -> list[int]:
    """Return the tokens of messages that left the conversation before they were observed.

    Only those before others that are still there: the last ones go when an answer is asked for
    again.
    """
    if not gone:
        return []
    counts = record["token_cache"]["counts"]
    here = {key for key, _ in keyed_messages(messages)}
    left = [*dropwhile(lambda key: key not in here, reversed(counts))]
    return [counts[key][1] for key in {*gone}.intersection(left) - here]


def _has_left(window: Window, key: str) -> bool:
    """Return whether a message is not weighed any more; the live request is, wherever it stands."""
    return key != window.request and window.find(key) < 0


def _list_counts(settings: Settings, record: MemoryRecord, window: Window) -> dict[str, list[Any]]:
    """Return digest and tokens of the new messages whose count the record does not have."""
    valid = select_valid_counts(record, settings.counter.identity)
    counts: dict[str, list[Any]] = {}
    for entry in window.uncounted:
        cached = valid.get(entry.key)
        if cached is None or cached[0] != entry.digest:
            counts[entry.key] = [entry.digest, entry.tokens]
    return counts


def _select_stamps_to_keep(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage], window: Window
) -> set[str]:
    """Return the keys of observed messages whose first-seen times the record keeps on.

    These are all in the conversation that nothing else keeps, and two before the window: the last
    one, which dates what follows it and has no time, and the last that a pause is told from.
    """
    keys = [key for key, _ in keyed_messages(messages)]
    archive = settings.parts.archive
    if archive is not None and (kept := archive.kept_until(record)) in keys:
        del keys[: keys.index(kept) + 1]
    stamped = [each for each in window.observed if each[0] in record["stamps"]]
    asked = [each for each in stamped if not isinstance(each[1], AIMessage)]
    return {*keys, *(key for key, _ in (*stamped[-1:], *asked[-1:]))}


def _select_arrived(record: MemoryRecord, window: Window, *, first_look: bool) -> Sequence[Entry]:
    """Return the messages that have just arrived, as far as that is certain.

    These are the live user request and what follows it. What is new and stands before was said some
    time ago, while memory did not watch: in an adopted thread, in runs without memory, or in a
    history that was loaded late. Only messages of the user directly before the request, in a thread
    that is known, are taken for a part of it.
    """
    known, entries, start = record["token_cache"]["counts"], window.uncounted, window.fresh_from
    new = [entry.key not in known and entry.key not in record["stamps"] for entry in entries]
    if not first_look and window.request is None:
        behind = 0 if window.observed else len(entries)
        start = max((at + 1 for at, is_new in enumerate(new) if not is_new), default=behind)
    while not first_look and 0 < start < len(entries) and new[start - 1]:
        if not isinstance(entries[start - 1].message, HumanMessage):
            break
        start -= 1
    return [entries[at] for at in range(start, len(entries)) if new[at]]


# --- What a step does ----------------------------------------------------------------------------


def inspect(  # noqa: C901, PLR0912 all that a step does, in order
    step: Step, *, must_proceed: bool = False, buffering_waits: bool = False
) -> EffectFlow[None]:
    """Inspect the conversation before a model call, and decide what is due.

    Args:
        must_proceed: Whether there is no room left for work (few supersteps remain).
        buffering_waits: Whether the Actor goes on only after the buffering that is due.
    """
    _note_zone(step)
    parts = step.settings.parts
    if parts.sharing is not None:
        parts.sharing.check(step.identity)
    if parts.evict is not None:
        yield from parts.evict.take_out_resent(step)
    pending = step.record["pending"]
    count_and_collect(step, (yield from peek_pending(step.record)) if pending else {})
    if step.overlooked:
        text = (
            "thread %r: %d message(s) were put among those that are observed; memory does not read "
            "them. Add history before the first turn or at the end"
        )
        thread_id = step.former["thread_id"] or step.identity.thread_id
        yield Warn(text, (thread_id, step.overlooked))
    if step.edited:
        yield Warn(_EDITED, (step.record["thread_id"], [key for key, _ in step.edited]))
    yield from _warn_of_unread_times(step)
    step.apply(list_known(step.record, step.windows, step.messages))
    if parts.sharing is not None:
        yield from parts.sharing.look(step)
    if parts.titles is not None:
        yield from parts.titles.ask(step)
        parts.titles.tell(step)
    if parts.archive is not None:
        archived = yield from parts.archive.write_new(step)
        if parts.evict is not None and archived is not None:
            yield from parts.evict.evict(step, archived)
    if parts.working is not None:
        yield from parts.working.refresh(step)
    if not step.is_final:
        step.decision = decide(step, must_proceed=must_proceed)
        if goes_on(step.decision, buffering_waits=buffering_waits):
            yield from _prepare_actor(step, parts)
            yield from _state_step(step)
        elif step.decision.kind == "abort":
            step.events.append(_build_tripwire(step.record, step.now))
    if parts.meaning is not None:
        parts.meaning.index(step)


def _prepare_actor(step: Step, parts: Parts) -> EffectFlow[None]:
    """Search for the live request, and tell the stream what people have changed."""
    if parts.inject is not None:
        yield from parts.inject.search(step)
    step.events += tell_acts(step.record)


_EDITED: Final = (
    "thread %r: messages were edited after they were observed: %s. A user's new words are observed "
    "again; what was noted before stays. Where it is wrong, correct it with "
    "`memory.of(graph, config).correct(...)`, or add a new message instead of an edit"
)


def _warn_of_unread_times(step: Step) -> EffectFlow[None]:
    """Warn of the first message that says when it was written in a form that is not read."""
    settings, counted = step.settings, step.former["token_cache"]["counts"]
    if settings.message_time is not None:
        return

    def find(entries: Iterable[Entry]) -> object:
        found = (find_unread_time(each.message, settings.timezone) for each in entries)
        return next((value for value in found if value is not None), None)

    value = find(each for each in step.window.uncounted if each.key not in counted)
    if (
        value is not None
        and find(each for each in step.window.entries if each.key in counted) is None
    ):
        text = (
            "thread %r: `created_at` is %.100s, which is not a readable time, so the message is "
            "dated when first seen; write ISO 8601 or seconds since 1970, or pass "
            "`message_time=`"
        )
        yield Warn(text, (step.record["thread_id"], write_repr(value)))


def _note_zone(step: Step) -> None:
    settings = step.settings
    name = settings.choose_zone(step.messages, step.identity.timezone, step.now)
    if name != name_zone(settings.timezone, step.now):
        step.note({"type": "zone-known", "timezone": name})
        step.settings = settings.in_zone(name)


def peek_pending(record: MemoryRecord) -> EffectFlow[dict[Operation, JobState]]:
    """Return, per pending operation, what the executor knows of the job."""
    cycle_ids = {name: job["cycle_id"] for name, job in record["pending"].items()}
    return (yield PeekJobs(cycle_ids)) if cycle_ids else {}


def count_and_collect(step: Step, jobs: Mapping[Operation, JobState] | None = None) -> None:
    """Count what is new and take in what is done; decide nothing."""
    settings = step.settings
    is_new = not step.record["id"]
    step.apply(_open_record(settings, step.record, step.identity))
    window = step.open()
    observed, step.overlooked = check_observed(step.record, step.messages, window.start)
    observed, step.edited = find_edited(step.record, step.messages, observed)
    known = step.record
    if (observed is not None and observed["strays"]) or window.strays.messages:
        step.record = {**known, "observed": observed}
        window = step.open()
        step.record = known  # an event says what has changed, or no state would have it
    gone = list_gone(known, window)
    if not step.is_again:
        step.lost = find_lost(known, gone, step.messages)
    step.apply(
        count_new(
            settings,
            known,
            step.messages,
            window,
            step.now,
            observed=observed,
            gone=gone,
            first_look=is_new,
        )
    )
    record = step.record
    if record["chunks"] or record["reflection"] or record["pending"]:
        stale = drop_stale_buffers(record, window, step.now)
        step.apply([*stale, *take_in_results(settings, record, window, jobs or {}, step.now)])


def decide(step: Step, *, must_proceed: bool = False) -> Decision:
    """Decide from what was gathered; with no room left for work, the Actor goes on."""
    if must_proceed:
        return ABORT if has_tripped(step.record, step.window) else PROCEED
    settings = step.settings
    return plan(step.record, step.window, settings.thresholds, step.now, settings.parts)


def goes_on(decision: Decision, *, buffering_waits: bool) -> bool:
    """Return whether the Actor is called next."""
    return decision.kind == "proceed" or (decision.kind == "buffer" and not buffering_waits)


def _state_step(step: Step) -> EffectFlow[None]:
    """State both windows, as the Actor is called next."""
    window, view, turn = step.window, step.view, step.record["turn"]
    number = turn["step"] + 1 if turn["request"] == window.request else 0
    head, former = track_head(step.record, view, step.now), step.record.get("head")
    bounds = (step.settings.max_input_tokens, step.settings.thresholds.bound)
    trim = describe_trim(step.record, window, view, min(filter(None, bounds), default=0))
    known = former.get("left_out") if former is not None else None
    left_out = [trim["dropped_messages"], trim["dropped_observations"]]
    if any(left_out) or known is not None:
        head["left_out"] = left_out
    step.note({"type": "stepped", "request": window.request, "step": number, "head": head})
    if any(left_out):
        step.events.append(trim)
        if known is None:
            text = (
                "thread %r does not fit into %d tokens: the prompt leaves out %d message(s) and %d "
                "observation(s), oldest first. Nothing is lost. See `langgraph-om doctor`"
            )
            yield Warn(text, (step.record["thread_id"], trim["limit"], *left_out))
    actor = find_smallest(step.windows)
    data = build_status(step.record, window, step.settings.thresholds, step=number, actor=actor)
    step.events.append({"type": "status", "data": data})


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


def _open_record(settings: Settings, record: MemoryRecord, identity: Identity) -> list[Event]:
    whose = (identity.thread_id, identity.resource_id)
    key = derive_id("om", settings.scope, *whose, *identity.place)
    if (record["id"], record["thread_id"], record["resource_id"]) == (key, *whose):
        return []
    opened: Opened = {
        "type": "opened",
        "id": key,
        "thread_id": identity.thread_id,
        "resource_id": identity.resource_id,
        "scope": settings.scope,
    }
    if identity.place:
        opened["place"] = [*identity.place]
    return [opened]


# What a run that may write nothing is shown: the memory as it is, before a new live request.


def freeze_view(step: Step, today: date) -> MemoryRecord:
    """Return a record from which the Actor's view is made, and which nobody keeps.

    Reasoning that its provider has bound to what stands before it is shown from the live request
    on: since then the view holds still, and what was before nobody has tracked.

    Args:
        step: What an inspection would have counted.
        today: The day, where the record knows of none that its dates are relative to.
    """
    record, window = step.record, step.window
    blank: Head = {
        "after": None,
        "seen": None,
        "digest": "",
        "log": "",
        "as_of": today.isoformat(),
        "at": iso(step.now),
    }
    head: Head = {**(record.get("head") or blank), "after": window.request}
    frozen: MemoryRecord = {
        **record,
        "turn": {"request": window.request, "step": 0},
        "head": head,
    }
    return frozen
