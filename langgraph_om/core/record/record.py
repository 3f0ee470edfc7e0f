"""Make, complete and read the memory of one thread, which is plain JSON values.

`fold` changes records. Here is also where a reflection fits into the log as it is by now, and what
events make of the title, the current task and the suggested response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from operator import eq, itemgetter
from typing import Any, Final, NamedTuple, cast

from langgraph_om.core.content.message_keys import Keyed, derive_id
from langgraph_om.core.content.text import show_key
from langgraph_om.core.items import keep_protected
from langgraph_om.core.wire import (
    BufferedReflection,
    Group,
    MemoryRecord,
    ObservationBuffered,
    Operation,
    TitleAsked,
    TitleChanged,
    Titled,
    TokenCount,
    Turn,
    Usage,
)
from langgraph_om.errors import ConfigurationError

RECORD_VERSION: Final = 1
"""Of the form of a record, and of what an archive keeps for a resource; another one is refused."""

TASK: Final = "current_task"
RESPONSE: Final = "suggested_response"
TITLE: Final = "thread_title"
HINTS: Final = (TASK, RESPONSE, TITLE)
"""What the Observer may state beside its items; a record has each under its name."""

CURSOR_TAIL = 16
"""How many of the newest observed message ids the cursor keeps, in case some are removed."""


def blank_record() -> MemoryRecord:
    """Return the record of a thread without memory.

    The fields that a person wants to read in a state come first, the bookkeeping last.
    """
    return {
        "log": [],
        "chunks": [],
        "reflection": None,
        "pending": {},
        "attempts": {},
        "usage": {},
        "generation": 0,
        "tripwire": None,
        "thread_id": "",
        "resource_id": None,
        "scope": "thread",
        "id": "",
        "version": RECORD_VERSION,
        "turn": {"request": None, "step": -1},
        "cursor": [],
        "observed": None,
        "stamps": {},
        "token_cache": {"counter": "", "counts": {}},
        TASK: None,
        RESPONSE: None,
        TITLE: None,
    }


FIRST_KEYS = frozenset(blank_record())
"""What each record has."""

RECORD_KEYS = frozenset(MemoryRecord.__annotations__)
"""What a record can have."""


def forget_wait(record: MemoryRecord) -> None:
    """Note that a new wait begins, in a record that nobody else holds."""
    turn = {key: value for key, value in record["turn"].items() if key != "waited_ms"}
    record["turn"] = cast("Turn", turn)


def add_up(before: Usage, spent: Usage) -> Usage:
    """Return what questions have cost, with what some more cost."""
    known, new = cast("Mapping[str, int]", before), cast("Mapping[str, int]", spent)
    total = {**known, **{key: known.get(key, 0) + value for key, value in new.items()}}
    return cast("Usage", total)


_get_tokens = itemgetter("tokens")


def log_tokens(record: MemoryRecord) -> int:
    """Count the tokens of the observation log."""
    return sum(map(_get_tokens, record["log"]))


def count_failures(record: MemoryRecord, operation: Operation) -> int:
    """Count the consecutive failures of an operation."""
    attempt = record["attempts"].get(operation)
    return attempt.get("failures", 0) if attempt is not None else 0


def find_newest_observed(record: Mapping[str, Any]) -> str | None:
    """Return the id of the newest observed message, from the cursor."""
    cursor: list[str] = record["cursor"]
    return cursor[-1] if cursor else None


def select_valid_counts(record: MemoryRecord, counter: str) -> dict[str, TokenCount]:
    """Return the cached token counts if they are of a counter of this identity."""
    cache = record["token_cache"]
    return cache["counts"] if cache["counter"] == counter else {}


def complete_record(value: object) -> MemoryRecord:
    """Return a record with all fields from the channel's value: `None`, `{}` or a record.

    Raises:
        ConfigurationError: When it is not a mapping, has an unknown key, or is of another version.
    """
    if not value:
        return blank_record()
    if not isinstance(value, Mapping):
        msg = f"`om` is {type(value).__name__}; it must be a memory record (a mapping) or absent"
        raise ConfigurationError(msg)
    check_version("`om.version`", value)
    unknown = value.keys() - RECORD_KEYS
    if unknown:
        msg = f"`om` has the key {min(map(str, unknown))!r}, which a memory record does not have"
        raise ConfigurationError(msg)
    if value.keys() >= FIRST_KEYS:
        return cast("MemoryRecord", value)
    return cast("MemoryRecord", {**blank_record(), **value})


def check_version(name: str, stored: Mapping[str, Any]) -> None:
    """Refuse what is of another version than ours; a record or edit that says none is of ours.

    Raises:
        ConfigurationError: When it says another one; it begins with `name`.
    """
    version = stored.get("version", RECORD_VERSION)
    if type(version) is not int or version != RECORD_VERSION:
        msg = (
            f"{name} is {version!r}, and this package reads version {RECORD_VERSION}; upgrade "
            f"langgraph-om"
        )
        raise ConfigurationError(msg)


def read_closing(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the hints behind the log of a record, by name; none that is empty."""
    return {name: record[name] for name in (TASK, RESPONSE) if record.get(name)}


def find_end(group: Mapping[str, Any]) -> str | None:
    """Return the newest message of a group, with which it goes; `None` where somebody keeps it."""
    ranges = group.get("ranges") or group.get("sources")
    return ranges[-1][1] if ranges and not group.get("keep") else None


def drop_deleted(record: MemoryRecord, entries: Keyed) -> Keyed:
    """Leave out the messages that the thread had when it was deleted."""
    floor = record.get("floor")
    gone = floor["messages"] if floor is not None else ()
    places = [at for at, (key, _) in enumerate(entries) if key in gone]
    return entries[places[-1] + 1 :] if places else entries


def find_groups(log: Sequence[Group], ids: Sequence[str]) -> int | None:
    """Return the index of a run of groups in a log; `None` when it is not there any more."""
    present = [group["id"] for group in log]
    if not ids or ids[0] not in present:
        return None
    start = present.index(ids[0])
    return start if present[start : start + len(ids)] == list(ids) else None


def write_log(groups: Sequence[Group]) -> str:
    """Render groups as one text, with blank lines between them."""
    return "\n\n".join(group["text"] for group in groups if group["text"])


MAX_SHOWN_RANGES: Final = 5
"""Of one group; with more, the line would soon be longer than the text above it."""


Ends = tuple[tuple[str, ...], ...]
"""The first and the last message of each range."""


def list_ranges(group: Group) -> Ends:
    """Return the ranges of a group; those come first from which items were joined into it."""
    return tuple(map(tuple, (*group.get("sources", ()), *group["ranges"])))


def write_range(group: Group) -> str:
    """Return the line that names the messages of a group; empty when it has no ranges."""
    return write_ranges(list_ranges(group))


def write_ranges(ranges: Ends) -> str:
    """Return the line that names the messages of these ranges; empty without any.

    Of many ranges, neighbours are shown as one; any id in the line is a place to read from.
    """
    size = len(ranges)
    parts = min(size, MAX_SHOWN_RANGES)
    runs = (ranges[size * at // parts : size * (at + 1) // parts] for at in range(parts))
    shown = ",".join(f"{show_key(run[0][0])}:{show_key(run[-1][1])}" for run in runs)
    return f"_range: `{shown}`_" if shown else ""


MAX_RANGES: Final = 20
"""More ranges of one group are joined in pairs, the oldest first."""

_OwnedRange = tuple[str | None, str, str]
"""A range of messages behind the thread they belong to: thread, first, last."""


def collect_ranges(groups: Sequence[Group]) -> list[list[str]]:
    """Return the ranges of groups, each for itself as long as there are not too many of them.

    Ranges are joined only with the next one of the same thread, which continues where the one
    before it ended.
    """
    ranges = [
        (group["thread_id"], first, last) for group in groups for first, last in group["ranges"]
    ]
    return [[first, last] for _, first, last in _limit(ranges)]


def collect_sources(group: Group, others: Sequence[Group]) -> list[list[str]]:
    """Return the ranges of other groups of its thread from which a group's items come.

    Args:
        others: Groups before it from which items were joined into it.
    """
    found = [(*ends,) for each in others for ends in (*each.get("sources", ()), *each["ranges"])]
    found += [(*ends,) for ends in group.get("sources", ())]
    ranges = [(None, first, last) for first, last in dict.fromkeys(found)]
    return [[first, last] for _, first, last in _limit(ranges)]


def join_empty(log: Sequence[Group], cycle_id: str) -> list[Group]:
    """Return a log in which neighbouring groups of one thread without text are one.

    Args:
        cycle_id: Id of the cycle that emptied some; the id of a joined group is derived from it.
    """
    runs: list[list[Group]] = []
    newest: dict[str | None, list[Group]] = {}
    for group in log:
        if is_void(group):
            continue
        run = newest.get(group["thread_id"])
        if run is not None and _is_empty(run[-1]) and _is_empty(group):
            run.append(group)
            continue
        newest[group["thread_id"]] = [group]
        runs.append(newest[group["thread_id"]])
    return [run[0] if len(run) == 1 else _join(run, cycle_id) for run in runs]


def _is_empty(group: Group) -> bool:
    return not group["text"] and "ends" not in group


def is_void(group: Group) -> bool:
    """Return whether a group says nothing, also of what is observed."""
    return _is_empty(group) and not group["ranges"]


def _join(run: Sequence[Group], cycle_id: str) -> Group:
    return {
        "id": derive_id("group", cycle_id, "empty", run[0]["id"]),
        "kind": "reflection",
        "ranges": collect_ranges(run),
        "thread_id": run[0]["thread_id"],
        "observed_at": run[-1]["observed_at"],
        "text": "",
        "tokens": 0,
    }


def _limit(ranges: Sequence[_OwnedRange]) -> Sequence[_OwnedRange]:
    while len(ranges) > MAX_RANGES and len(joined := _join_oldest(ranges)) < len(ranges):
        ranges = joined
    return ranges


def _join_oldest(ranges: Sequence[_OwnedRange]) -> list[_OwnedRange]:
    """Join pairs of neighbours of one thread, from the oldest on, while there are too many."""
    joined: list[_OwnedRange] = []
    at = 0
    while at < len(ranges):
        owner, first, last = ranges[at]
        excess = len(joined) + len(ranges) - at - MAX_RANGES
        if excess > 0 and at + 1 < len(ranges) and ranges[at + 1][0] == owner:
            at += 1
            last = ranges[at][2]
        joined.append((owner, first, last))
        at += 1
    return joined


class Substitution(NamedTuple):
    """A run of the log's groups, and what takes its place."""

    group_ids: list[str]
    groups: list[Group]


def place_reflection(log: Sequence[Group], reflection: BufferedReflection) -> Substitution | None:
    """Return what a reflection replaces in a log; `None` when nothing that it read is there.

    It applies to the groups that are still the same; what it replaces is the shortest run with all
    of these.
    """
    before = [group["id"] for group in log]
    together = (run for run in reflection["together"] if {*before}.issuperset(run))
    fitting = {group_id for run in together for group_id in run}
    if not fitting:
        return None
    becomes = dict(zip(reflection["group_ids"], reflection["groups"], strict=True))
    changed = [becomes[group["id"]] if group["id"] in fitting else group for group in log]
    groups = join_empty(changed, reflection["cycle_id"])
    after = [group["id"] for group in groups]
    start = _count_equal(before, after)
    rest = _count_equal(before[start:][::-1], after[start:][::-1])
    return Substitution(before[start : len(before) - rest], groups[start : len(groups) - rest])


def replace_groups(
    log: Sequence[Group], read: Sequence[str], written: Sequence[Group]
) -> tuple[list[Group], list[Group]] | None:
    """Replace exactly the groups that a reflection read; `None` when they are not there any more.

    Args:
        read: Their ids, in log order.

    Returns:
        The new log, and what stands there in their place, with those that nobody else may change.
    """
    start = find_groups(log, read)
    if start is None:
        return None
    stop = start + len(read)
    groups = keep_protected(log[start:stop], written)
    return [*log[:start], *groups, *log[stop:]], groups


def has_strays(record: MemoryRecord) -> bool:
    """Return whether there are messages before the window that are not observed."""
    return bool(record["observed"] and record["observed"]["strays"])


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(takewhile(bool, map(eq, one, other)))


# --- Titles and hints -----------------------------------------------------------------------------


def is_named(record: MemoryRecord) -> bool:
    """Return whether a person set the thread's title."""
    return record.get("title", {}).get("by") == "person"


def note_asked(record: MemoryRecord, event: TitleAsked) -> None:
    """Note that a title is asked for."""
    state = record.get("title", {})
    tries = state.get("tries", 0) + (state.get("cycle_id") != event["cycle_id"])
    record["title"] = {**state, "cycle_id": event["cycle_id"], "tries": tries}


def set_title(record: MemoryRecord, event: Titled) -> None:
    """Set the title, which a model's answer never does over one that is there."""
    state = record.get("title", {})
    if event["by"] == "person":
        if state.get("id") != event["id"]:
            record["thread_title"] = event["title"]
            record["title"] = {
                **state,
                "by": None if event["title"] is None else "person",
                "id": event["id"],
                "at": event["at"],
                "cycle_id": None,
                "tries": 0,
            }
        return
    if state.get("cycle_id") != event["id"]:
        return
    state = {**state, "cycle_id": None}
    if "usage" in event:
        state["usage"] = add_up(state.get("usage", {}), event["usage"])
    if event["title"] is not None and record["thread_title"] is None and not is_named(record):
        record["thread_title"] = event["title"]
        state = {**state, "by": "memory", "id": event["id"], "at": event["at"]}
    record["title"] = state


def take_hints(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over what the Observer stated; the rest stays, and so does a person's title."""
    stated = event.get("hints", {})
    if stated.get(TASK) is not None:
        record[TASK] = stated[TASK] or None
    if stated.get(RESPONSE) is not None:
        record[RESPONSE] = stated[RESPONSE] or None
    _suggest(record, stated, event["cycle_id"])


def take_buffered_title(record: MemoryRecord, event: ObservationBuffered) -> None:
    """Take over a title before its observations take effect, which need not tell of it again."""
    _suggest(record, event["chunk"]["hints"], event["cycle_id"])
    *others, chunk = record["chunks"]
    left = {name: hint for name, hint in chunk["hints"].items() if name != TITLE}
    record["chunks"] = [*others, {**chunk, "hints": left}]


def _suggest(record: MemoryRecord, stated: Mapping[str, str | None], cycle_id: str) -> None:
    if stated.get(TITLE) and not is_named(record):
        record["thread_title"] = stated[TITLE]
        record["title"] = {**record.get("title", {}), "id": cycle_id}


def note_told(record: MemoryRecord, event: TitleChanged) -> None:
    """Note what the stream was told of the title."""
    record["title"] = {**record.get("title", {}), "told": event["new_title"]}
