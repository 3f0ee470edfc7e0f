"""Additions of features to the record: keys, events that change it, and parts of the stream.

The table is filled once, when the package is imported, whether a feature is on or off in this
process: a checkpoint that has a feature's keys and events outlives the options of whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, NamedTuple, cast, get_type_hints

from typing_extensions import TypedDict

from langgraph_om.core.content.message_keys import OWN_IDS
from langgraph_om.core.wire import Event, Group, Hints, MemoryRecord

Reducer = Callable[[Any, Any], None]
"""Changes a record, which nobody else holds, by an event."""

Log = Mapping[str, Any]
"""The log that the threads of a resource share, as an archive keeps it."""

ReadHint = Callable[[str], str | None]
"""Returns a hint as it is kept; `None` for what is none."""

Moment = Literal[
    "observed",
    "buffered",
    "reflected",
    "changed",
    "synced",
    "opened",
    "deleted",
]
"""When the reducer of a feature runs beside one of the core.

`observed`: observations took effect, with the event of the cycle or activation. `buffered`: an
observation made ahead waits in its chunk. `reflected`: a reflection took effect, with its event, of
which `groups` are those that stand in the log now. `changed`: something else was changed that
several threads may know of, with a mapping that has an `id` and a `kind`. `synced`: the shared log
was taken over, with the hints that came of another thread's observation. `opened`: the record is
about to get another thread or resource. `deleted`: what the record has of a deleted thread or
resource is about to go.
"""


class LogChange(TypedDict):
    """A change of the log that threads share, as a thread keeps it until the log has it."""

    id: str
    groups: list[Group]
    """What it adds."""
    cursor: list[str]
    """The newest observed messages of the thread then, newest last."""
    hints: Hints


@dataclass(frozen=True, slots=True)
class AddedChange:
    """A kind of change that a feature makes in the log that threads share."""

    form: type
    """A `LogChange`."""
    apply: Callable[[Log, Any], Log]
    """Returns the log with such a change, or as it is where the change does not fit any more."""


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value that a record holds beside the log, as a person is shown it."""

    name: str
    value: Any
    """A text or a JSON value; `None` where there is none yet."""
    notes: tuple[str, ...] = ()
    """What is to be said of it, such as a failure."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that a person should do about a memory."""

    kind: str
    """One word, for programs."""
    text: str
    """What is the case, and what to do."""


class Removal(NamedTuple):
    """The messages that a feature has taken out of the conversation, oldest first."""

    last: str | None = None
    """The newest of them; `None` where there are none."""
    tokens: int = 0
    """Of all of them."""


class Deletions(NamedTuple):
    """What a record knows of deletions of its thread."""

    number: int = 0
    """How often thread and resource had been deleted when it last looked."""
    last: str | None = None
    """The newest message that it had then; `None` for none."""


@dataclass(frozen=True, kw_only=True)
class AddedOperation:
    """A kind of work that a feature brings, beside observation and reflection."""

    finish: Reducer
    """Puts into the record the result of a cycle, of the turn or ahead of need."""
    count: Callable[[MemoryRecord], int]
    """Counts the tokens that it is about."""
    shown_as: Literal["observation", "reflection"]
    """The `operationType` of its parts of the stream."""
    label: str
    """What is done, in lists that people read, such as `observing messages`."""


@dataclass(frozen=True, kw_only=True)
class ResourceForm:
    """How the record is read and changed that an archive keeps for a resource."""

    read: Callable[[Mapping[str, Any], str, int], MemoryRecord]
    """Returns it, with the resource's id and its revision, as the record of no thread."""
    complete: Callable[[Mapping[str, Any]], Log]
    """Returns it with all of its fields."""
    erase: Callable[[Mapping[str, Any], str], dict[str, Any]]
    """Returns it without a thread of this id."""
    owner: Callable[[MemoryRecord], str | None]
    """Returns whose the log of a thread's record is; `None` where it is the thread's own."""


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What one feature adds."""

    keys: type | None = None
    """A `TypedDict` of keys; a record has each only once there is something to note."""
    types: Callable[[], Mapping[str, Any]] | None = None
    """Returns types of keys that follow from what other features add."""
    blank: Mapping[str, Any] = field(default_factory=dict)
    """Of these keys, the values of those that each record has from the beginning."""
    hints: Mapping[str, ReadHint] = field(default_factory=dict)
    """Hints that the Observer may state beside its items, by name, with functions that read what it
    wrote. The tag of `my_mood` is `<my-mood>`."""
    closing: Sequence[str] = ()
    """Those of them that a record keeps under their names and that stand behind its log."""
    labels: Sequence[str] = ()
    """Paths of a record to what lists call its thread, such as `place.name`; the first that leads
    to a text counts."""
    reducers: Mapping[str, Reducer] = field(default_factory=dict)
    """By the type of an event of the feature, what it changes."""
    streamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the type of an event, the field of its part that each of its keys becomes."""
    beside: Mapping[Moment, Reducer] = field(default_factory=dict)
    """What it does when events of the core take effect."""
    told: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """By key, what returns its value once the stream was told of it, which is as the Actor goes on.
    """
    ended: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Returns the fields that it adds to the part of an event that ends a cycle."""
    changes: Mapping[str, AddedChange] = field(default_factory=dict)
    """By its `kind`, a change of the log that threads share."""
    written: Mapping[str, Callable[[Log, Any], Log]] = field(default_factory=dict)
    """By the type of an event that a person writes into that log itself, within no thread, what
    returns the log with it."""
    erase: Callable[[Log, str], dict[str, Any]] | None = None
    """Returns that log without a thread of this id, and without what runs within it."""
    shown: Callable[[MemoryRecord], Iterable[ShownValue]] | None = None
    """Returns the values that a record holds, for its page."""
    advice: Callable[[MemoryRecord, datetime], Iterable[Advice]] | None = None
    """Returns what to do about the state of a record, as of a time."""
    message_ids: tuple[str, ...] = ()
    """Ids of the messages that it shows the Actor, which no conversation has."""
    of_log: tuple[str, ...] = ()
    """Keys that tell of the log: they go with one that threads share, where that is deleted, or
    left for another one."""
    removed: Callable[[MemoryRecord], Removal] | None = None
    """Reads which messages it has taken out of a record's conversation."""
    operations: Mapping[str, AddedOperation] = field(default_factory=dict)
    """Its kinds of work, by name."""
    waits: Callable[[MemoryRecord], bool] | None = None
    """Tells of a record whether something of it is still to be sent, and may be refused."""
    has_sent: Callable[[MemoryRecord], bool] | None = None
    """Tells of a record whether something of it was sent to an archive."""
    of_resource: ResourceForm | None = None
    """Its form of the record that an archive keeps for a resource."""
    deletions: Callable[[MemoryRecord], Deletions] | None = None
    """Reads what a record knows of deletions, where the feature looks for them."""


def as_event(event: Mapping[str, object]) -> Event:
    """Return an event of a feature, JSON values only, as one that a step takes in."""
    return cast("Event", event)


def name_fields(*keys: str) -> dict[str, str]:
    """Return the fields of a part that keys of an event become: `cycle_id` is `cycleId`."""
    words = {key: key.split("_") for key in keys}
    fields = {key: first + "".join(map(str.title, rest)) for key, (first, *rest) in words.items()}
    return fields | ({"at": "timestamp"} if "at" in keys else {})


_TABLE: dict[str, Additions] = {}

# What all features add together.

blank_keys: Final[dict[str, Any]] = {}
"""The keys of features that each record has, with their first values."""
added_hints: Final[dict[str, ReadHint]] = {}
closing_hints: Final[list[str]] = []
"""The hints that stand behind a log."""
label_paths: Final[list[str]] = []
"""The paths of a record to what lists call its thread, those that count more first."""
added_reducers: Final[dict[str, Reducer | None]] = {}
"""By the type of each event of a feature, its reducer; `None`: it is only streamed."""
added_parts: Final[dict[str, Mapping[str, str]]] = {}
"""By the type of each event that is streamed, the fields of its part."""
told_keys: Final[dict[str, Callable[[Any], Any]]] = {}
added_operations: Final[dict[str, AddedOperation]] = {}
added_changes: Final[dict[str, AddedChange]] = {}


def add(name: str, additions: Additions) -> None:
    """Add a feature's row; called at import alone, before a record is read."""
    _TABLE[name] = additions
    OWN_IDS.update(additions.message_ids)
    blank_keys.update(additions.blank)
    added_hints.update(additions.hints)
    closing_hints.extend(additions.closing)
    label_paths.extend(additions.labels)
    added_reducers.update({**dict.fromkeys(additions.streamed), **additions.reducers})
    added_parts.update(additions.streamed)
    told_keys.update(additions.told)
    added_operations.update(additions.operations)
    added_changes.update(additions.changes)
    for known in (added_types, _beside, _all):
        known.cache_clear()


@cache
def added_types() -> Mapping[str, Any]:
    """Return the type of each key that features add."""
    found: dict[str, Any] = {}
    for each in _TABLE.values():
        found |= get_type_hints(each.keys) if each.keys is not None else {}
        found |= each.types() if each.types is not None else {}
    return found


def read_closing(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the hints behind the log of a record, by name; none that is empty."""
    return {name: str(record[name]) for name in closing_hints if record.get(name)}


def write_label(label: str | None) -> dict[str, str | None]:
    """Return the keys of a record whose thread lists call so; none where no feature has a place."""
    return dict.fromkeys(label_paths[:1], label)


def find_label(record: Mapping[str, Any]) -> str | None:
    """Return what lists call the thread of a record; `None` where nothing was noted."""
    for path in label_paths:
        found: Any = record
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, str) and found:
            return found
    return None


def tell_end(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that features add to the part of an event that ends a cycle."""
    return {name: value for ended in _all("ended") for name, value in ended(event).items()}


def write_into_log(log: Log, event: Mapping[str, Any]) -> Log | None:
    """Return the log that threads share after a person's event, written within no thread.

    Returns:
        `None` for an event that is about a thread.
    """
    kind = event["type"]
    write = next((each.written[kind] for each in _TABLE.values() if kind in each.written), None)
    return None if write is None else write(log, event)


def erase_thread(log: Log, thread_id: str) -> dict[str, Any]:
    """Return the log that threads share without what features have of one thread there."""
    left = dict(log)
    for erase in _all("erase"):
        left = erase(left, thread_id)
    return left


def forget_log(record: MemoryRecord) -> None:
    """Let go of what features have noted of a log that threads share, in a record of one's own."""
    draft = cast("dict[str, Any]", record)
    for each in _TABLE.values():
        for key in each.of_log:
            draft.pop(key, None)
            draft.update({key: each.blank[key]} if key in each.blank else {})


def waits_to_send(record: MemoryRecord) -> bool:
    """Return whether something of a record is still to be sent elsewhere, and may be refused."""
    return any(waits(record) for waits in _all("waits"))


def has_sent(record: MemoryRecord) -> bool:
    """Return whether an archive has something of a record beside its messages and observations."""
    return any(has_sent(record) for has_sent in _all("has_sent"))


def resource_form() -> ResourceForm | None:
    """Return the form of the record that an archive keeps for a resource; `None`: it keeps none."""
    return next(iter(_all("of_resource")), None)


def find_sharing_owner(record: MemoryRecord) -> str | None:
    """Return who owns the log that a record shares with others; `None` for a log of its own."""
    form = resource_form()
    return None if form is None else form.owner(record)


def is_shared(record: MemoryRecord) -> bool:
    """Return whether the log of a record is about other threads, too."""
    return find_sharing_owner(record) is not None


@cache
def _beside(moment: Moment) -> tuple[Reducer, ...]:
    return tuple(each.beside[moment] for each in _TABLE.values() if moment in each.beside)


@cache
def _all(name: str) -> tuple[Any, ...]:
    return tuple(filter(None, (getattr(each, name) for each in _TABLE.values())))


def find_removed(record: MemoryRecord) -> Removal:
    """Return which messages were taken out of a record's conversation."""
    return next((read(record) for read in _all("removed")), Removal())


def find_deletions(record: MemoryRecord) -> Deletions:
    """Return what a record knows of deletions of its thread."""
    return next((read(record) for read in _all("deletions")), Deletions())


def run_beside(moment: Moment, record: MemoryRecord, event: Any) -> None:
    """Let features change a record at a moment of the core."""
    for reduce in _beside(moment):
        reduce(record, event)


def list_shown(record: MemoryRecord) -> Iterator[ShownValue]:
    """Yield the values that a record holds beside the log, in the order of the features."""
    for shown in _all("shown"):
        yield from shown(record)


def list_advice(record: MemoryRecord, now: datetime) -> Iterator[Advice]:
    """Yield what features advise to do about the state of a record."""
    for advise in _all("advice"):
        yield from advise(record, now)
