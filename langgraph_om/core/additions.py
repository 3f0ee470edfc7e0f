"""Additions of features to the record: keys, events that change it, and parts of the stream.

The table is filled once, when the package is imported, whether a feature is on or off in this
process: a checkpoint that has a feature's keys and events outlives the options of whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, cast, get_type_hints

from typing_extensions import ReadOnly, TypedDict

from langgraph_om.core.content.message_keys import OWN_IDS
from langgraph_om.core.content.text import add_tags
from langgraph_om.core.wire import Event, MemoryRecord

Reducer = Callable[[Any, Any], None]
"""Changes a record, which nobody else holds, by an event."""

Moment = Literal["observed", "stepped", "opened", "deleted", "edited"]
"""When the reducer of a feature runs beside one of the core.

`observed`: observations took effect, with the event of the cycle or activation. `stepped`: the
Actor goes on. `opened`: the record is about to get another thread or resource. `deleted`: what the
record has of a deleted thread or resource is about to go. `edited`: a person's edit, a mapping of
record keys, is about to be merged.
"""


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


class Removed(NamedTuple):
    """The messages that a feature has taken out of the conversation, oldest first."""

    last: str | None = None
    """The newest of them; `None` where there are none."""
    tokens: int = 0
    """Of all of them."""


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What one feature adds."""

    keys: type | None = None
    """A `TypedDict` of keys; a record has each only once there is something to note."""
    reducers: Mapping[str, Reducer] = field(default_factory=dict)
    """By the type of an event of the feature, what it changes."""
    streamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the type of an event, the field of its part that each of its keys becomes."""
    beside: Mapping[Moment, Reducer] = field(default_factory=dict)
    """What it does when events of the core take effect."""
    shown: Callable[[MemoryRecord], Iterable[ShownValue]] | None = None
    """Returns the values that a record holds, for its page."""
    advice: Callable[[MemoryRecord], Iterable[Advice]] | None = None
    """Returns what to do about the state of a record."""
    message_ids: tuple[str, ...] = ()
    """Ids of the messages that it shows the Actor, which no conversation has."""
    tags: tuple[str, ...] = ()
    """Names of tags in its prompts; other text cannot open or close them."""
    stored: Mapping[str, str] = field(default_factory=dict)
    """By the name that an archive notes, what it keeps of a resource in a graph's store."""
    removed: Callable[[MemoryRecord], Removed] | None = None
    """Reads which messages it has taken out of a record's conversation."""


class FeatureEvent(TypedDict):
    """An event of a feature, JSON values only."""

    type: ReadOnly[str]


def as_event(event: FeatureEvent) -> Event:
    """Return an event of a feature as one that a step takes in."""
    return cast("Event", event)


_TABLE: dict[str, Additions] = {}


def add(name: str, additions: Additions) -> None:
    """Add a feature's row; called at import alone, before a record is read."""
    _TABLE[name] = additions
    OWN_IDS.update(additions.message_ids)
    add_tags(*additions.tags)
    for known in (added_types, added_reducers, added_parts, _beside, _removals):
        known.cache_clear()


@cache
def added_types() -> Mapping[str, Any]:
    """Return the type of each key that features add."""
    hints = (get_type_hints(each.keys) for each in _TABLE.values() if each.keys is not None)
    return {name: kind for keys in hints for name, kind in keys.items()}


@cache
def added_reducers() -> Mapping[str, Reducer | None]:
    """Return, by the type of each event of a feature, its reducer; `None`: it is only streamed."""
    reducers: dict[str, Reducer | None] = {}
    for each in _TABLE.values():
        reducers.update(dict.fromkeys(each.streamed), **each.reducers)
    return reducers


@cache
def added_parts() -> Mapping[str, Mapping[str, str]]:
    """Return, by the type of each event that is streamed, the fields of its part."""
    return {kind: names for each in _TABLE.values() for kind, names in each.streamed.items()}


@cache
def _beside(moment: Moment) -> tuple[Reducer, ...]:
    return tuple(each.beside[moment] for each in _TABLE.values() if moment in each.beside)


@cache
def _removals() -> tuple[Callable[[MemoryRecord], Removed], ...]:
    return tuple(each.removed for each in _TABLE.values() if each.removed is not None)


def find_removed(record: MemoryRecord) -> Removed:
    """Return which messages were taken out of a record's conversation."""
    found = (read(record) for read in _removals())
    return next((removed for removed in found if removed.last is not None), Removed())


def run_beside(moment: Moment, record: MemoryRecord, event: Any) -> None:
    """Let features change a record at a moment of the core."""
    for reduce in _beside(moment):
        reduce(record, event)


def list_stored() -> dict[str, str]:
    """Return, by the name that an archive notes, what features keep in a graph's store."""
    return {name: words for each in _TABLE.values() for name, words in each.stored.items()}


def list_shown(record: MemoryRecord) -> Iterator[ShownValue]:
    """Yield the values that a record holds beside the log, in the order of the features."""
    for each in _TABLE.values():
        if each.shown is not None:
            yield from each.shown(record)


def list_advice(record: MemoryRecord) -> Iterator[Advice]:
    """Yield what features advise to do about the state of a record."""
    for each in _TABLE.values():
        if each.advice is not None:
            yield from each.advice(record)
