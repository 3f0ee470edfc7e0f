"""Find the window of unobserved messages, and count its tokens.

The window is found from the message ids in the record's cursor, so that the cost grows with the
window and not with the conversation. Nothing here decides; `plan` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, cast
from zlib import crc32

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    derive_id,
    fingerprint,
    is_conversation,
    is_reminder,
    key_of,
    keyed_conversation,
    keyed_messages,
)
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    find_newest_observed,
    has_strays,
    select_valid_counts,
)
from langgraph_om.core.tokens import CONVERSATION_OVERHEAD, TokenCounter
from langgraph_om.core.wire import Chunk, MemoryRecord, ObservedPart


class Entry(NamedTuple):
    """One message of the window."""

    key: str
    """The message's id, or one derived from it or from its content."""
    message: BaseMessage
    digest: str
    tokens: int


get_message, _get_tokens = attrgetter("message"), attrgetter("tokens")


@dataclass(frozen=True)
class Window:
    """The unobserved part of a conversation."""

    entries: tuple[Entry, ...]
    request: str | None
    """Key of the newest human message of the whole conversation: the live user request."""
    request_message: BaseMessage | None
    """The live user request, when it is before the window."""
    observed: tuple[tuple[str, BaseMessage], ...]
    """The last messages before the window with their keys, as many as a cursor names."""
    last_key: str | None
    """Key of the conversation's last message."""
    start: int
    """Index of the first message behind the cursor."""
    strays: Strays
    """The first entries, when these stand before the cursor; observed by themselves."""
    known_cuts: Sequence[int] | None = None
    """Where it may be cut, if all of it was counted in the step before, in the same turn."""

    @cached_property
    def sums(self) -> list[int]:
        """The tokens before each entry, and of all."""
        return [*accumulate(map(_get_tokens, self.entries), initial=0)]

    @cached_property
    def cuts(self) -> Sequence[int]:
        """Where the window may be cut."""
        return find_safe_cuts(self.entries) if self.known_cuts is None else self.known_cuts

    @property
    def uncounted(self) -> Sequence[Entry]:
        """The entries that no step of this turn has looked at."""
        return self.entries if self.known_cuts is None else ()

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each entry, by its key."""
        return {entry.key: at for at, entry in enumerate(self.entries)}

    @property
    def tokens(self) -> int:
        """Tokens of all entries, with the overhead of a conversation; 0 when empty."""
        return self.sums[-1] + CONVERSATION_OVERHEAD if self.entries else 0

    @property
    def fresh_from(self) -> int:
        """Index of the first entry of the turn: the live user request, or behind all entries.

        It is 0 when the request is before the window.
        """
        if self.request_message is not None:
            return 0
        at = self.find(self.request)
        return at if at >= 0 else len(self.entries)

    @property
    def turn(self) -> str | None:
        """Key of the message by which a turn is known: the live user request, if there is one."""
        return self.last_key if self.request is None else self.request

    def find(self, key: str | None) -> int:
        """Return the index of an entry; -1 if there is none of this key."""
        return self.places.get(key, -1) if key is not None else -1

    def weight(self, start: int, stop: int) -> int:
        """Count the tokens of the entries from `start` up to `stop`."""
        return self.sums[min(stop, len(self.entries))] - self.sums[start]

    def cursor_after(self, count: int) -> list[str]:
        """Return the cursor once the first `count` entries are observed."""
        keys = [key for key, message in self.observed if message.id]
        keys += [entry.key for entry in self.entries[len(self.strays.messages) : count]]
        return keys[-CURSOR_TAIL:]


def open_window(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    counter: TokenCounter,
    *,
    is_counted: bool = False,
    request: str | None = None,
) -> Window:
    """Return the messages after the cursor with their tokens.

    Args:
        counter: What counts tokens; counts in the record's cache are used where they are of the
            same counter and content.
        is_counted: Whether this step has just counted these messages, so that its counts can be
            used without reading the messages again.
        request: Key of the live user request, where it is known: the Actor's messages may end with
            one that the user never wrote.
    """
    counts = select_valid_counts(record, counter.identity)

    def read(key: str, message: BaseMessage) -> Entry:
        cached = counts.get(key)
        if cached is not None and is_counted:
            return Entry(key, message, cached[0], cached[1])
        digest = content_digest(message)
        if cached is not None and cached[0] == digest:
            return Entry(key, message, digest, cached[1])
        return Entry(key, message, digest, counter.count_message(message))

    keyed, start = find_cursor(record, messages)
    strays = select_strays(record, messages, start)
    unread = (*strays.messages, *keyed)
    entries = tuple(read(key, message) for key, message in unread if is_conversation(message))
    request_at = find_newest_human(messages, request)
    request_key, pinned = None, None
    if request_at is not None and request_at >= start:
        request_key = keyed[request_at - start][0]
    elif request_at is not None:
        request_key = key_of(messages[request_at])
        if request_key not in dict(strays.messages):
            pinned = messages[request_at]
    return Window(
        entries=entries,
        request=request_key,
        request_message=pinned,
        observed=_collect_before(messages, start),
        last_key=keyed[-1][0] if keyed else (key_of(messages[-1]) if messages else None),
        start=start,
        strays=strays,
    )


def advance(window: Window, record: MemoryRecord, messages: Sequence[BaseMessage]) -> Window | None:
    """Return the window of the same messages, of which the first entries may be observed by now.

    A long thread that is adopted would be read anew for each batch otherwise.

    Returns:
        `None` where anything else has changed.
    """
    stop = window.find(find_newest_observed(record)) + 1
    is_all = stop == len(window.entries) or 0 <= window.find(window.request) < stop
    if is_all or window.strays.messages or has_strays(record):
        return None
    if record["cursor"] != window.cursor_after(stop):
        return None
    start = window.start
    if stop:
        newest = window.entries[stop - 1].message
        start = next(at + 1 for at in range(start, len(messages)) if messages[at] is newest)
    return replace(
        window,
        entries=window.entries[stop:],
        observed=_collect_before(messages, start),
        start=start,
        known_cuts=[cut - stop for cut in window.cuts if cut > stop],
    )


# --- Where the window begins ----------------------------------------------------------------------


def find_cursor(record: MemoryRecord, messages: Sequence[BaseMessage]) -> tuple[Keyed, int]:
    """Return the messages after the cursor with their keys, and the index of the first of them.

    The common case walks back from the end and stops at the cursor. With messages without ids,
    duplicate ids or removed messages, the whole list is read.
    """
    cursor = record["cursor"]
    if begins_at_first(record):
        return keyed_messages(messages), 0
    quick = walk_back(cursor, messages)
    if quick is not None:
        return quick
    keyed = keyed_messages(messages)
    start = _search_start(record, {key: at for at, (key, _) in enumerate(keyed)})
    return keyed[start:], start


def begins_at_first(record: MemoryRecord) -> bool:
    """Return whether nothing of the conversation is observed."""
    return not record["cursor"] and not record["log"]


def walk_back(cursor: Sequence[str], messages: Sequence[BaseMessage]) -> tuple[Keyed, int] | None:
    """Return what `find_cursor` returns, searched from the end; `None` when anything is unusual."""
    if not cursor:
        return None
    newest = cursor[-1]
    found: dict[str, BaseMessage] = {}
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if not message.id or (key := key_of(message)) in found:
            return None
        if key == newest:
            is_cursor = is_tail_at(cursor, messages, at)
            return ([*found.items()][::-1], at + 1) if is_cursor else None
        found[key] = message
    return None


def is_tail_at(cursor: Sequence[str], messages: Sequence[BaseMessage], at: int) -> bool:
    """Return whether the messages up to `at` are the cursor's tail, not just one of the same id."""
    wanted = len(cursor) - 1
    while at >= 0 and wanted >= 0:
        if is_conversation(messages[at]):
            if key_of(messages[at]) != cursor[wanted]:
                return False
            wanted -= 1
        at -= 1
    if wanted >= 0:
        return False
    # A tail that is not full names all observed messages: nothing else may be before it.
    return len(cursor) == CURSOR_TAIL or not any(map(is_conversation, messages[: at + 1]))


def _search_start(record: MemoryRecord, positions: dict[str, int]) -> int:
    """Return the start of the window when the newest observed message is not where it was."""
    for key in reversed(record["cursor"]):
        if key in positions:
            return positions[key] + 1
    # Messages with a count were in the window at the last step.
    counts = record["token_cache"]["counts"]
    unobserved = min((positions[key] for key in counts if key in positions), default=0)
    ranges = [ends for group in record["log"] for ends in group["ranges"]]
    for passed, (first, last) in enumerate(reversed(ranges)):
        if last in positions:
            return max(positions[last] + 1, unobserved if passed else 0)
        if first in positions:
            return max(positions[first] + 1, unobserved)
    return unobserved if ranges else 0


def select_observed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages before the window, which are observed."""
    if has_strays(record):  # until these are observed, nothing is known to be
        return []
    _, start = find_cursor(record, messages)
    return [message for message in messages[:start] if is_conversation(message)]


def select_needed(record: MemoryRecord, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that give the same window as the whole conversation.

    They are the window, as many messages before it as a cursor names, and the live user request.
    """
    found = walk_back(record["cursor"], messages)
    if found is None or len(record["cursor"]) < CURSOR_TAIL or has_strays(record):
        return list(messages)
    first, named = found[1], 0
    while first > 0 and named < CURSOR_TAIL:
        first -= 1
        named += is_conversation(messages[first])
    request = find_newest_human(messages)
    pinned = [messages[request]] if request is not None and request < first else []
    return [*pinned, *messages[first:]]


def find_newest_human(messages: Sequence[BaseMessage], request: str | None = None) -> int | None:
    """Return the index of the live user request: that of this key, or the newest human message."""
    if request is not None:
        for at in range(len(messages) - 1, -1, -1):
            if key_of(messages[at]) == request:
                return at
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage) and not is_reminder(messages[at]):
            return at
    return None


def _collect_before(
    messages: Sequence[BaseMessage], start: int
) -> tuple[tuple[str, BaseMessage], ...]:
    tail = messages[max(0, start - CURSOR_TAIL) : start]
    return tuple((key_of(message), message) for message in tail if is_conversation(message))


# --- Where it may be cut --------------------------------------------------------------------------


def find_safe_cuts(entries: Sequence[Entry]) -> list[int]:
    """Return where the window may be cut: counts of leading entries that form complete exchanges.

    A tool call stays with all of its results, and both stay until the Actor has gone on from them,
    because an Actor that never sees a result asks for it again. A call without a result closes once
    the conversation has gone on without it, so that an abandoned call does not stop memory forever.
    """
    cuts: list[int] = []
    reach = -1
    for at, end in enumerate(_find_exchange_ends(entries)):
        reach = max(reach, end)
        if at >= reach:
            cuts.append(at + 1)
    return cuts


def _find_exchange_ends(entries: Sequence[Entry]) -> list[int]:
    """Return for each message the index at which its exchange ends; its own when it opens none.

    A result belongs to the nearest call of its id before it, since some models number their calls
    from 1 in every message.
    """
    ends = list(range(len(entries)))
    open_calls: dict[str, int] = {}
    newest_other = -1
    for at, entry in enumerate(entries):
        if entry.message.type == "tool":
            called = open_calls.pop(cast("ToolMessage", entry.message).tool_call_id, None)
            if called is not None:
                ends[called] = at
            continue
        newest_other = at
        open_calls.update(dict.fromkeys(_collect_call_ids(entry.message), at))
    for called in open_calls.values():
        if called >= newest_other:  # the conversation has not gone on: the result may still come
            ends[called] = len(entries)
    if newest_other >= 0 and entries[-1].message.type == "tool":
        ends[newest_other] = len(entries)  # the Actor has not seen these results yet
    return ends


def _collect_call_ids(message: BaseMessage) -> list[str]:
    if message.type != "ai" or not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [str(call["id"]) for call in calls if call.get("id")]


# Decide which chunks, observations made ahead of need, still fit, and how many to activate.
#
# A chunk fits as long as its messages are unchanged and directly follow those of the chunk before
# it. Where one does not fit, none of the later ones does.


MIN_REMAINING = 1000
"""Tokens of messages that an activation leaves, or the retention floor where that is lower."""

_OVERSHOOT = 0.95
"""The share of the retention floor that an activation may take to end on a chunk's boundary."""

_TURN_ALIGNED = 0.9
"""A chunk ends before a human message if it keeps at least this share of its size."""


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk that fits the current window."""

    chunk: Chunk
    stop: int
    """How many of the window's messages are covered by the chunks up to this one."""
    tokens: int
    """The current tokens of its messages."""


def digest_entries(entries: Sequence[Entry]) -> str:
    """Return a digest of the ids and contents of a run of messages."""
    return derive_id("messages", *(f"{entry.key}:{entry.digest}" for entry in entries))


def select_live_chunks(record: MemoryRecord, window: Window) -> list[LiveChunk]:
    """Return the chunks that fit, oldest first."""
    if not record["chunks"]:
        return []
    live: list[LiveChunk] = []
    start = 0
    for chunk in record["chunks"]:
        ranges = [each for group in chunk["groups"] for each in group["ranges"]]
        first, last = ranges[0][0], ranges[-1][1]
        stop = window.find(last) + 1
        if window.find(first) != start or stop <= start:
            break
        if digest_entries(window.entries[start:stop]) != chunk["digest"]:
            break
        live.append(LiveChunk(chunk, stop, window.weight(start, stop)))
        start = stop
    return live


def count_covered(live: Sequence[LiveChunk]) -> int:
    """Count the window's messages that are covered by chunks."""
    return live[-1].stop if live else 0


def choose_chunks(sizes: Sequence[int], window_tokens: int, *, keep: int, force_at: int) -> int:
    """Return how many chunks one activation takes, oldest first.

    The goal is to leave `keep` tokens of messages. The boundary above the goal is taken, unless it
    takes too much of what is to be kept (more than 95 % of it, while the window is below its
    blocking threshold) or leaves too little; then it is the boundary below.

    Args:
        sizes: Message tokens of each chunk; at least one chunk.
        window_tokens: Tokens of the window now.
        keep: The retention floor, in tokens.
        force_at: The window's blocking threshold, in tokens.
    """
    removed = list(accumulate(sizes))
    target = max(0, window_tokens - keep)
    over = next((at for at, total in enumerate(removed) if total >= target), None)
    under = len(removed) - 1 if over is None else over - 1
    min_remaining = min(MIN_REMAINING, keep)

    def leaves_enough(at: int) -> bool:
        return window_tokens - removed[at] >= min_remaining

    if over is not None and leaves_enough(over):
        overshoot = removed[over] - target
        if window_tokens >= force_at or overshoot <= _OVERSHOOT * keep:
            return over + 1
    if under >= 0 and leaves_enough(under):
        return under + 1
    return 1 if over is None else over + 1


def find_chunk_end(
    window: Window, start: int, *, interval: int, most: int, stop: int | None = None
) -> int:
    """Return where the next chunk would end, or 0 where no exchange is complete that makes one.

    Args:
        start: How many of them are covered by chunks.
        interval: Tokens of uncovered messages that make a chunk due; there are as many.
        most: Tokens that a chunk should not exceed; a single exchange may.
        stop: How many of the messages may be covered; `None`: all.
    """
    total = window.sums
    last = len(window.entries) if stop is None else stop
    cuts = [cut for cut in window.cuts if start < cut <= last]
    fitting = [cut for cut in cuts if total[cut] - total[start] <= most] or cuts[:1]
    if not fitting:
        return 0
    size = total[fitting[-1]] - total[start]
    if size * 2 < interval:  # most of the growth is an exchange that is not complete yet
        return 0
    for cut in reversed(fitting):
        if total[cut] - total[start] < size * _TURN_ALIGNED:
            break
        if cut < len(window.entries) and isinstance(window.entries[cut].message, HumanMessage):
            return cut
    return fitting[-1]


# --- Messages put before the window --------------------------------------------------------------

# History that is loaded late, a note in front, a conversation that is written anew: such messages
# are behind the cursor and in no range. The record keeps how many messages stand before the window,
# which a look compares; only where that has grown are they searched for. Those that are certainly
# in no range are part of the window, in their order, until they are observed by themselves. Of the
# others, which stand within a range or beside one whose ends are gone, only the number is known.


@dataclass(frozen=True, slots=True)
class Strays:
    """The messages before the window that are not observed."""

    messages: tuple[tuple[str, BaseMessage], ...] = ()
    """Each with its key, in the order of the conversation."""
    run: int = 0
    """How many of the first follow each other."""
    is_edited: bool = False
    """Whether this run was observed before, in other words."""
    before: str | None = None
    """The group in front of which the observations of this run belong; `None`: behind all."""
    earlier: tuple[tuple[str, BaseMessage], ...] = ()
    """Some messages directly before the run."""
    later: tuple[tuple[str, BaseMessage], ...] = ()
    """Some messages directly after the run."""


NO_STRAYS = Strays()


def check_observed(
    record: MemoryRecord, messages: Sequence[BaseMessage], start: int
) -> tuple[ObservedPart | None, int]:
    """Compare what stands before the window with what the record says.

    Args:
        start: The index of the window's first message.

    Returns:
        What the record shall keep of it, and how many messages were put there that can be neither
        shown nor observed.
    """
    last = next((at for at in range(start - 1, -1, -1) if is_conversation(messages[at])), None)
    if last is None:
        return None, 0
    newest = key_of(messages[last])
    old = record["observed"]
    if old is None:
        count = sum(map(is_conversation, messages[: last + 1]))
        return {"last": newest, "index": last, "count": count, "strays": []}, 0
    moved, at = 0, last
    while at >= 0 and key_of(messages[at]) != old["last"]:
        moved += is_conversation(messages[at])
        at -= 1
    if at == old["index"]:
        return {**old, "last": newest, "index": last, "count": old["count"] + moved}, 0
    keyed = keyed_conversation(messages[:start])
    before = [key for key, _ in keyed]
    removed = record.get("evicted")
    if removed in before:  # the caller kept what may be removed
        del before[: before.index(removed) + 1]
    count = len(before)
    grown = count - old["count"] - moved if at >= 0 else 0
    strays = [key for key in before if key in set(old["strays"])]
    if grown > 0:
        unread = {*_find_uncovered(record, before), *_find_among_named(record, keyed)} - {*strays}
        new = [key for key in before if key in unread]
        unnamed = [key for key in before if key not in {*record["cursor"], *strays}]
        if removed is not None and len(unnamed) == grown:
            # Most ends of ranges are gone, but the cursor names what is left.
            ends = {end for group in record["log"] for ends in group["ranges"] for end in ends}
            new = [key for key in unnamed if key not in ends]
        if len(new) <= grown:  # more were left uncovered on purpose: their group was deleted
            strays, grown = [*strays, *new], grown - len(new)
    found: ObservedPart = {"last": newest, "index": last, "count": count, "strays": strays}
    found["edited"] = old.get("edited", [])
    overlooked = old.get("overlooked", 0) + max(0, grown)
    if overlooked:
        found["overlooked"] = overlooked
    return found, max(0, grown)


WATCHED: Final = 128
"""How many of the newest observed messages are watched for edits: a person edits what is in sight,
and neither a step nor a record shall grow with the conversation."""
_KEY_DIGITS: Final = 6
_MARK_DIGITS: Final = _KEY_DIGITS + 4


def _mark(message: BaseMessage) -> str:
    """Return six digits for a message's key and four for what it says."""
    key = key_of(message).encode(errors="surrogatepass")
    return f"{crc32(key) & 0xFFFFFF:06x}{fingerprint(message)}"


def _key_of_mark(mark: str) -> str:
    return mark[:_KEY_DIGITS]


def find_edited(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    observed: ObservedPart | None,
) -> tuple[ObservedPart | None, Keyed]:
    """Find observed messages that say something else than when they were last looked at.

    Args:
        observed: What `check_observed` says of the messages before the window.

    Returns:
        What the record shall keep, in which words of the user are strays again, and all that were
        edited.
    """
    if observed is None:
        return None, []
    newest = reversed(messages[: observed["index"] + 1])
    watched = [*islice(filter(is_conversation, newest), WATCHED)][::-1]
    marks = [*map(_mark, watched)]
    kept: ObservedPart = {**observed, "said": "".join(marks)}
    known = (record["observed"] or observed).get("said", "")
    former = (known[at : at + _MARK_DIGITS] for at in range(0, len(known), _MARK_DIGITS))
    before, times = {_key_of_mark(mark): mark for mark in former}, Counter(map(_key_of_mark, marks))
    edited = [
        (key_of(message), message)
        for mark, message in zip(marks, watched, strict=True)
        if before.get(key := _key_of_mark(mark), mark) != mark and times[key] == 1
    ]
    asked = [key for key, message in edited if role_of(message) == "user"]
    if again := [key for key in asked if key not in observed["strays"]]:
        kept["strays"] = [*observed["strays"], *again]
        kept["edited"] = [*observed.get("edited", ()), *again]
    return kept, edited


def select_strays(record: MemoryRecord, messages: Sequence[BaseMessage], start: int) -> Strays:
    """Return the messages before the window that are not observed."""
    if record["observed"] is None or not has_strays(record):
        return NO_STRAYS
    keys = set(record["observed"]["strays"])
    before = keyed_conversation(messages[:start])
    places = [at for at, (key, _) in enumerate(before) if key in keys]
    if not places:
        return NO_STRAYS
    first = places[0]
    edited = record["observed"].get("edited", ())
    is_edited = [before[at][0] in edited for at in places]
    breaks = (i for i, at in enumerate(places) if at != first + i or is_edited[i] != is_edited[0])
    run = next(breaks, len(places))
    positions = {key: at for at, (key, _) in enumerate(before)}
    behind = (
        group["id"]
        for group in record["log"]
        if any(
            positions.get(start, positions.get(end, -1)) > first for start, end in group["ranges"]
        )
    )
    rest = keyed_conversation(messages)
    return Strays(
        tuple(before[at] for at in places),
        run,
        is_edited[0],
        next(behind, None),
        tuple(before[max(0, first - CURSOR_TAIL) : first]),
        tuple(rest[first + run : first + run + CURSOR_TAIL]),
    )


def _find_among_named(record: MemoryRecord, keyed: Keyed) -> list[str]:
    """Return the keys that stand behind one that the cursor names, and are not named.

    It names the newest observed messages, and leaves out none that has an id of its own; where
    messages share an id, it names nobody for certain.
    """
    if any(message.id and key != message.id for key, message in keyed):
        return []
    named = set(record["cursor"])
    first = next((at for at, (key, _) in enumerate(keyed) if key in named), len(keyed))
    return [key for key, message in keyed[first:] if message.id and key not in named]


def _find_uncovered(record: MemoryRecord, keys: Sequence[str]) -> list[str]:
    """Return the keys that are certainly in no range.

    A range whose first or last message is gone may cover whatever stands on that side of it.
    """
    positions = {key: at for at, key in enumerate(keys)}
    # Observations of strays were joined with those of what stands behind them: in any order.
    placed: list[tuple[int, list[str]]] = []
    for group in record["log"]:
        for ends in group["ranges"]:
            before = placed[-1][0] if placed else 0
            at = next((positions[end] for end in ends if end in positions), before)
            placed.append((at, ends))
    uncovered: list[str] = []
    reached, is_sure = 0, True
    for _, ends in sorted(placed, key=itemgetter(0)):
        first, last = (positions.get(end) for end in ends)
        if first is not None and is_sure:
            uncovered += keys[reached:first]
        known = [at for at in (first, last) if at is not None]
        reached = max([reached, *(at + 1 for at in known)])
        is_sure = last is not None
    return [*uncovered, *keys[reached:]] if is_sure else uncovered
