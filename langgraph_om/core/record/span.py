"""What is read of a window's messages, where it may be cut, and what a later look knows again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, count
from operator import attrgetter, is_, itemgetter
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.additions import is_shared
from langgraph_om.core.content.blocks import answers_other_view
from langgraph_om.core.content.message_keys import (
    OWN_IDS,
    SPEAKERS,
    Keyed,
    content_digest,
    is_conversation,
    key_of,
    keyed_messages,
)
from langgraph_om.core.record.record import CURSOR_TAIL, has_strays, select_own_groups
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import MemoryRecord, TokenCount


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
    return not record["cursor"] and (not record["log"] or is_shared(record))


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


def names_all(cursor: Sequence[str], tail: Sequence[BaseMessage]) -> bool:
    """Return whether a cursor names just these messages, by their ids; `False` where in doubt."""
    return (
        [*map(_get_id, tail)] == cursor
        and SPEAKERS.issuperset(map(type, tail))
        and OWN_IDS.isdisjoint(cursor)
    )


def is_tail_at(cursor: Sequence[str], messages: Sequence[BaseMessage], at: int) -> bool:
    """Return whether the messages up to `at` are the cursor's tail, not just one of the same id."""
    if len(cursor) == CURSOR_TAIL and names_all(
        cursor, messages[max(0, at + 1 - CURSOR_TAIL) : at + 1]
    ):
        return True
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
    ranges = [ends for group in select_own_groups(record) for ends in group["ranges"]]
    for passed, (first, last) in enumerate(reversed(ranges)):
        if last in positions:
            return max(positions[last] + 1, unobserved if passed else 0)
        if first in positions:
            return max(positions[first] + 1, unobserved)
    return unobserved if ranges else 0


# The digest of a view: what stands before its messages, then each of these with what precedes it.
#
# A view grows at its end from call to call, so its digest goes on from the former one.


Entries = Sequence[tuple[str, Any, str, int]]
"""Messages of a window; of each, its key and its digest count."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewDigest:
    """The digest of a view with so many messages; one of more messages is made from it."""

    parts: Sequence[str]
    """What stands before the messages."""
    lines: Mapping[str, str]
    """By key, what is put before a message."""
    dropped: int
    """How many messages of the window are left out of the view."""
    start: hashlib.blake2b
    """The state of the hash before the messages; a state is copied before anything is added."""
    state: hashlib.blake2b
    """The state of the hash behind them."""
    count: int = 0
    """How many messages it is of."""

    @classmethod
    def begin(cls, parts: Sequence[str], lines: Mapping[str, str], dropped: int) -> ViewDigest:
        """Return the digest of a view without messages; for the arguments see the fields."""
        start = hashlib.blake2b(_encode("\x1f".join(parts)), digest_size=8)
        return cls([*parts], dict(lines), dropped, start, start)

    def extend(self, entries: Entries) -> ViewDigest:
        """Return the digest of a view with further messages; this one stays as it is."""
        if not entries:
            return self
        state, lines = self.state.copy(), self.lines
        text = [f"\x1f{lines.get(key, '')}{key} {digest}" for key, _, digest, _ in entries]
        state.update(_encode("".join(text)))
        return replace(self, state=state, count=self.count + len(entries))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


Source = tuple[str, list[str], list[str], list[str]]
"""The day that dates are relative to, what frames the groups, their texts, what ends them."""


@dataclass(slots=True, eq=False)
class RenderedLog:
    """A log as the view shows it, as long as its source is the same."""

    source: Source
    blocks: list[str]
    """A text for each group, and what ends the log."""
    tokens: int | None = None
    """Of the texts, once they were counted."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What was found in the messages of a window, by their indexes."""

    count: int = 0
    """How many messages were looked at."""
    other_view: int = -1
    """The last answer to a view that later views do not continue; -1 for none."""
    calls: frozenset[str] = frozenset()
    """The ids of all calls."""
    missing: frozenset[str] = frozenset()
    """The ids of the results before which there is no such call."""

    def extend(self, messages: Iterable[BaseMessage]) -> Traits:
        """Return what is found with the messages that come next."""
        other_view, at = self.other_view, self.count - 1
        calls, missing = set(self.calls), set(self.missing)
        for at, message in enumerate(messages, self.count):
            if type(message) is HumanMessage:  # a check by class takes longer
                continue
            if isinstance(message, AIMessage):
                other_view = at if answers_other_view(message) else other_view
                if message.tool_calls:
                    calls.update(str(call["id"]) for call in message.tool_calls)
            elif isinstance(message, ToolMessage) and message.tool_call_id not in calls:
                missing.add(message.tool_call_id)
        return Traits(at + 1, other_view, frozenset(calls), frozenset(missing))


NO_TRAITS = Traits()


class Entry(NamedTuple):
    """One message of the window; a tuple, because each step makes one per message."""

    key: str
    """The message's id, or one derived from it or from its content."""
    message: BaseMessage
    digest: str
    tokens: int


_get_id, _get_content = attrgetter("id"), attrgetter("content")
_get_key, get_message, _get_tokens = map(attrgetter, ("key", "message", "tokens"))


@dataclass(eq=False)
class Span:
    """The messages from the window's start to the end of the conversation, as they were read.

    A later look that finds the same objects goes on from it. What is worked out of the messages is
    kept with them, so that it is worked out once.
    """

    start: int
    names: list[str]
    """The names of all messages from the start on."""
    messages: list[BaseMessage]
    contents: list[object]
    """What the messages held when they were read; one that is changed in place holds another."""
    entries: tuple[Entry, ...]
    sums: list[int]
    """A total before each entry, and behind the last one; only the differences count."""
    digests: dict[tuple[int, int], str] = field(default_factory=dict)
    """Those of runs of entries that were asked for."""
    counted_in: Mapping[str, TokenCount] | None = None
    """Counts of a record that are known to be those of all entries."""
    view: ViewDigest | None = None
    """The digest of the view that was made of it last, which the next one goes on from."""
    rendered: tuple[RenderedLog, ...] = ()
    """The log as views showed it last: whole, and without what had no room."""
    shorter: Span | None = None
    """What it was extended from."""

    @cached_property
    def _places(self) -> tuple[Mapping[str, int], int]:
        """The indexes of a longer span's entries, and where in that this one begins."""
        return dict(zip(map(_get_key, self.entries), count(), strict=False)), 0

    def find(self, key: str | None) -> int:
        """Return the index of an entry; -1 where there is none of this key."""
        places, start = self._places
        at = places.get(key, -1) - start if key is not None else -1
        return at if 0 <= at < len(self.entries) and self.entries[at].key == key else -1

    @cached_property
    def cuts(self) -> list[int]:
        """Where the window may be cut."""
        return find_safe_cuts(self.entries)

    @cached_property
    def traits(self) -> Traits:
        """What a view depends on beside the texts."""
        return NO_TRAITS.extend(map(get_message, self.entries))

    @cached_property
    def is_plain(self) -> bool:
        """Whether each message was said in the conversation and has an id of its own."""
        ids = [*map(_get_id, self.messages)]
        return len(ids) == len(self.entries) and ids == self.names

    def count_known(self, counts: Mapping[str, TokenCount]) -> int | None:
        """Count the first entries that a record counts as they were counted here.

        Returns:
            `None` when it counts one of the others too, in another way or behind one it lacks.
        """
        if self.counted_in is counts or self.counted_in == counts:
            return len(self.entries)
        known = 0
        for key, _, digest, tokens in self.entries:
            if counts.get(key) != [digest, tokens]:
                break
            known += 1
        rest = map(_get_key, self.entries[known:])
        return known if counts.keys().isdisjoint(rest) else None

    def holds(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether these are its messages, whatever was changed in them."""
        # The same objects: of equal ones the view may differ, as pydantic takes `1` for `True`.
        return len(messages) == len(self.messages) and all(map(is_, messages, self.messages))

    @property
    def is_unchanged(self) -> bool:
        """Whether no message was changed in place since it was read."""
        ids, contents = map(_get_id, self.messages), map(_get_content, self.messages)
        return [*ids] == self.names and [*contents] == self.contents

    def count_unchanged(self, messages: Sequence[BaseMessage]) -> int:
        """Count the first messages that are still its own, and were not changed in place."""
        for at, (message, own) in enumerate(zip(messages, self.messages, strict=False)):
            is_read = message.id == self.names[at] and message.content == self.contents[at]
            if message is not own or not is_read:
                return at
        return min(len(messages), len(self.messages))

    def first(self, count: int) -> Span:
        """Return the span of its first entries, behind which other messages stand now."""
        if count == len(self.entries):
            return self
        known = self.shorter
        if known is not None and len(known.entries) <= count:
            return known.extend(self.entries[len(known.entries) : count])
        return self._cut(0, count)

    def drop(self, count: int) -> Span:
        """Return the span without its first entries, which were observed."""
        rest = self._cut(count, len(self.entries))
        rest.counted_in = self.counted_in
        cuts = vars(self).get("cuts", ())
        if count in cuts:  # no exchange goes across
            rest.cuts = [cut - count for cut in cuts if cut > count]
        return rest

    def _cut(self, start: int, stop: int) -> Span:
        rest = Span(
            self.start + start,
            self.names[start:stop],
            self.messages[start:stop],
            self.contents[start:stop],
            self.entries[start:stop],
            self.sums[start : stop + 1],
        )
        rest.is_plain = True
        if "_places" in vars(self):
            rest._places = (self._places[0], self._places[1] + start)
        rest.take_over(self)
        return rest

    def take_over(self, before: Span) -> None:
        """Take over what holds with other messages too."""
        view = before.view  # what it begins with, which has no messages yet
        self.view = replace(view, state=view.start, count=0) if view is not None else None
        self.rendered = before.rendered

    def extend(self, entries: Sequence[Entry]) -> Span:
        """Return the span with the messages that came since."""
        if not entries:
            return self
        messages = [*map(get_message, entries)]
        whole = Span(
            self.start,
            [*self.names, *map(_get_key, entries)],
            [*self.messages, *messages],
            [*self.contents, *map(_get_content, messages)],
            (*self.entries, *entries),
            [*self.sums[:-1], *accumulate(map(_get_tokens, entries), initial=self.sums[-1])],
            digests=dict(self.digests),
            view=self.view,
            rendered=self.rendered,
            shorter=self,
        )
        self.shorter = None
        whole.is_plain = True
        if "traits" in vars(self):
            whole.traits = self.traits.extend(messages)
        places, start = self._places
        if not start:
            new = zip(map(_get_key, entries), count(len(self.entries)), strict=False)
            whole._places = ({**places, **dict(new)}, 0)
        return whole


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


# --- Reading -------------------------------------------------------------------------------------


def read_entry(
    message: BaseMessage,
    key: str,
    counts: Mapping[str, TokenCount],
    counter: TokenCounter,
    *,
    is_counted: bool,
) -> Entry:
    """Read a message; a count of the record is used where it is of this content."""
    cached = counts.get(key)
    if cached is not None and is_counted:
        return Entry(key, message, cached[0], cached[1])
    digest = content_digest(message)
    if cached is not None and cached[0] == digest:
        return Entry(key, message, digest, cached[1])
    return Entry(key, message, digest, counter.count_message(message))


def read_span(
    start: int,
    keyed: Keyed,
    strays: Sequence[tuple[str, BaseMessage]],
    counts: Mapping[str, TokenCount],
    counter: TokenCounter,
    *,
    is_counted: bool,
) -> Span:
    """Read all messages of a window."""
    entries = [
        read_entry(message, key, counts, counter, is_counted=is_counted)
        for key, message in (*strays, *keyed)
        if is_conversation(message)
    ]
    sums = [*accumulate(map(_get_tokens, entries), initial=0)]
    names, messages = [*map(itemgetter(0), keyed)], [*map(itemgetter(1), keyed)]
    span = Span(start, names, messages, [*map(_get_content, messages)], tuple(entries), sums)
    if strays:
        span.is_plain = False
    return span


def go_on(
    before: Span | None,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    counts: Mapping[str, TokenCount],
    *,
    is_counted: bool,
) -> tuple[Span, int, Sequence[Entry]] | None:
    """Return what of an earlier span is in the window still; `None` when anything is unusual.

    Returns:
        The span, how many of its first entries the record counts, and what was read behind it, for
        the case that it only came in another object.
    """
    if before is None or not before.is_plain or has_strays(record):
        return None
    cursor = record["cursor"]
    dropped = before.find(cursor[-1]) + 1 if cursor else 0
    start, stop = before.start + dropped, before.start + len(before.messages)
    if not cursor and (start or not begins_at_first(record)):
        return None
    if cursor and not _ends_at(cursor, messages, start):
        return None
    span, seen = before.drop(dropped) if dropped else before, messages[start:stop]
    is_same = span.holds(seen)
    if is_same and is_counted and span.count_known(counts) == len(span.entries):
        return span, len(span.entries), ()
    unchanged = len(seen) if is_same and span.is_unchanged else span.count_unchanged(seen)
    if span.entries and not unchanged:
        return None
    read, span = span.entries[unchanged:], span.first(unchanged)
    known = span.count_known(counts)
    return (span, known, read) if known is not None else None


def _ends_at(cursor: Sequence[str], messages: Sequence[BaseMessage], start: int) -> bool:
    """Return whether the window begins there, where all messages behind have ids of their own."""
    if not 0 < start <= len(messages) or not messages[start - 1].id:
        return False
    return key_of(messages[start - 1]) == cursor[-1] and is_tail_at(cursor, messages, start - 1)


def extend_span(
    span: Span,
    cursor: Sequence[str],
    new: Sequence[BaseMessage],
    counts: Mapping[str, TokenCount],
    counter: TokenCounter,
    *,
    is_counted: bool,
) -> Span | None:
    """Return the span with new messages; `None` when anything is unusual."""
    taken, entries = set(cursor[-1:]), []
    for message in new:
        key = key_of(message)
        is_known = span.find(key) >= 0 or key in taken
        if is_known or key != message.id or not is_conversation(message):
            return None
        taken.add(key)
        entries.append(read_entry(message, key, counts, counter, is_counted=is_counted))
    return span.extend(entries)


# --- Cuts ----------------------------------------------------------------------------------------


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
