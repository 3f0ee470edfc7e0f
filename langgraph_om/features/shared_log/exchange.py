"""The log that a resource's threads share: each step takes in what is new, and gives what it has.

A thread works with its own copy of the log, in its checkpoint, and notes what it changes. A step
puts these changes into the archive by compare-and-set, on top of whatever other threads have put
there meanwhile, and brings the copy up to date. When the archive fails the thread goes on with its
copy, and the next step tries again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import keyed_conversation, keyed_messages
from langgraph_om.core.effects import CallReply, EffectFlow, Storage, Warn, call_storage, find_part
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    find_deleted,
    find_label,
    find_newest_observed,
    select_own_groups,
)
from langgraph_om.core.record.sharing import (
    apply_changes,
    complete_log,
    diff_record,
    drop_lost_acts,
    find_unsent,
    join_again,
    lacks_groups,
    list_own_groups,
    make_blank_log,
    without_groups,
)
from langgraph_om.core.record.window import Window, check_observed, open_window
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import (
    Counted,
    Event,
    Extension,
    Group,
    LogChange,
    MemoryRecord,
    OthersDescribed,
    SharedLog,
    SharedThread,
)
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.archive import (
    find_archive,
    is_survivor,
    look_for_deletion,
    warn_of_loss,
    warn_of_outage,
)
from langgraph_om.features.shared_log.cache import LogCache
from langgraph_om.features.shared_log.threads import (
    build_excerpts,
    count_in_others,
    read_other_threads,
    release_after,
)

OTHERS_PART = 0.2
"""How much of the window's threshold the unobserved messages of other threads may take."""
MAX_COMMITS = 50
"""How often a commit is tried before the step goes on without it."""


class _BusyLogError(ArchiveError):
    """The log changes all the time."""


class ExchangeOutcome(NamedTuple):
    """What came of an exchange."""

    record: MemoryRecord
    """The memory, with the events folded in it."""
    events: list[Event]
    named: Sequence[str] = ()
    """The newest observed messages, as the observation named them that the log took last."""


def exchange(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    now: datetime,
) -> EffectFlow[ExchangeOutcome]:
    """Exchange what is new with the shared log.

    Args:
        record: The memory of the thread, with what this step found folded in.
        window: Its unobserved messages, by the thread's own copy.
    """
    is_new_turn = window.request != record["turn"]["request"]
    archive = yield from find_archive()
    cache = yield from find_part(LogCache)
    try:
        # Once in a turn the log itself is read: one that was begun anew counts from 1 again.
        if not (is_new_turn or record["outbox"]):
            revision = yield from call_storage(archive.record_revision, str(record["resource_id"]))
            if revision == record["revision"]:
                return ExchangeOutcome(record, [])
        # At once, threads of a resource would refuse each other's commits, and read the same.
        with (yield from call_storage(cache.wait_for_log, str(record["resource_id"]))):
            done = yield from _exchange_log(settings, record, messages, now)
            if done.events or is_new_turn:
                described = yield from _describe_others(settings, done.record, now)
                record_now = fold(done.record, [described])
                done = ExchangeOutcome(record_now, [*done.events, *described], done.named)
    except ArchiveError as error:
        text = "thread %r: the shared log cannot be reached, the thread goes on with its copy: %s"
        arguments = (record["thread_id"], error)
        if isinstance(error, _BusyLogError):  # it does answer
            yield Warn(text, arguments)
        else:
            yield from warn_of_outage(text, arguments)
        return ExchangeOutcome(record, [])
    return done


def select_refused(
    known: MemoryRecord, record: MemoryRecord, observed: Sequence[BaseMessage]
) -> list[str]:
    """Return the keys behind the place from which the log did not take the thread's observations.

    Args:
        known: The memory before the exchange, with what it had to send.
        record: The memory as the log has it.
        observed: The messages before the window.
    """
    refused = find_unsent(known, {group["id"] for group in record["log"]})
    if refused is None:
        return []
    keys = [key for key, _ in keyed_messages(observed)]
    if refused["after"] is None:
        return keys
    return keys[keys.index(refused["after"]) + 1 :] if refused["after"] in keys else []


def note_left_behind(
    settings: Settings,
    exchanged: ExchangeOutcome,
    messages: Sequence[BaseMessage],
    window: Window,
    unobserved: AbstractSet[str],
) -> list[Event]:
    """Note which messages are in no window any more, and are not observed either.

    Args:
        exchanged: What came of the exchange.
        window: Its unobserved messages, by the log.
        unobserved: Keys of those that were unobserved before.
    """
    record = exchanged.record
    waiting = {key for key in unobserved if window.find(key) < 0}
    if not waiting:
        return []
    missed = find_left_behind(record, messages, window.start, waiting, exchanged.named)
    observed, _ = check_observed(record, messages, window.start)
    if not missed or observed is None:
        return []
    keys = [*dict.fromkeys([*observed["strays"], *missed])]
    counted: Counted = {
        "type": "counted",
        "counter": settings.counter.identity,
        "counts": {},
        "stamps": {},
        "gone": [],
        "observed": {**observed, "strays": keys},
    }
    return [counted]


def find_left_behind(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    start: int,
    waiting: AbstractSet[str],
    named: Sequence[str],
) -> list[str]:
    """Return the keys of messages that a shared log's cursor went past without their observation.

    The cursor is that of another branch, on which these were removed.

    Args:
        record: The memory of the thread, as the shared log has it.
        waiting: Keys of the messages that are unobserved as the thread knows it.
        named: The cursor as the observation left it that wrote it.
    """
    keys = [key for key, _ in keyed_conversation(messages[:start])]
    deleted = find_deleted(record)
    if deleted in keys:  # what a copy still has of the time before is not observed once more
        del keys[: keys.index(deleted) + 1]
    if waiting.isdisjoint(keys):
        return []
    places = {key: at for at, key in enumerate(keys)}
    ranges = [ends for group in select_own_groups(record) for ends in group["ranges"]]
    begins = sorted(places[first] for first, _ in ranges if first in places)
    stops = sorted(places[last] + 1 for _, last in ranges if last in places)
    covered: set[str] = set()
    for first, last in ranges:
        # One end may be of another branch: then it reaches to where the next one begins.
        if first in places:
            begin = places[first]
            beyond = next((at for at in begins if at > begin), len(keys))
            covered.update(keys[begin : places[last] + 1 if last in places else beyond])
        elif last in places:
            stop = places[last] + 1
            covered.update(keys[next((at for at in reversed(stops) if at < stop), 0) : stop])
        elif last in named[-1:]:  # both were removed here; all that fits is of this range
            covered.update(named[named.index(first) if first in named else 0 :])
    return [key for key in keys if key in waiting and key not in covered]


# --- The log -------------------------------------------------------------------------------------


def _exchange_log(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    now: datetime,
) -> EffectFlow[ExchangeOutcome]:
    resource, changes = str(record["resource_id"]), record["outbox"]
    shared, revision, noted, named = yield from _commit_changes(settings, record, messages, now)
    kept = fold(record, [noted])
    yield from _archive_groups(resource, kept, shared, now)
    yield from release_after(record, changes)
    events = [*noted, diff_record(kept, shared, revision, changes)]
    events += drop_lost_acts(kept, shared)
    synced = fold(record, [events])
    if synced == record:
        return ExchangeOutcome(record, [])
    return ExchangeOutcome(synced, events, named)


def _commit_changes(
    settings: Settings, record: MemoryRecord, messages: Sequence[BaseMessage], now: datetime
) -> EffectFlow[tuple[SharedLog, int, list[Event], Sequence[str]]]:
    """Put the thread's changes into the log, whatever that is by now.

    Returns:
        The log with its revision, what to note of a deletion, and `named` as of an exchange.
    """
    resource = str(record["resource_id"])
    archive = yield from find_archive()
    cache = yield from find_part(LogCache)
    is_lost = False
    for _ in range(MAX_COMMITS):
        stored, revision = yield from call_storage(archive.load_record, resource)
        before = complete_log(stored)
        # Asked last: what is missing in the log because of a deletion is never taken for lost.
        noted = yield from look_for_deletion(record)
        kept = fold(record, [noted])
        changes = kept["outbox"]
        if is_survivor(noted):
            own = without_groups(before, record["thread_id"], list_own_groups(record))
        elif is_lost or lacks_groups(before, revision, kept):
            is_lost = True  # though a blank log may be committed by then
            yield from warn_of_loss(record)
            own, changes = before, join_again(kept)
        else:
            own = rewind_if_forked(before, kept, messages, settings.counter)
        sent, deleted = yield from drop_deleted_threads(kept, changes)
        for change in deleted:  # it may have been sent before that was known
            ids = {group["id"] for group in change["groups"]}
            own = without_groups(own, change["thread_id"], ids)
        shared = apply_changes(own, sent)
        if shared != before:
            # A deletion gives a log another revision, so there has to be one: first a blank one.
            # What is deleted later is found by who deletes it.
            new = shared if revision else make_blank_log()
            is_ours = yield from call_storage(
                archive.commit_record, resource, dict(new), expected=revision, now=now
            )
            if not (is_ours and revision):
                continue
            revision += 1
        cache.remember_log(resource, revision, shared)
        known = before["threads"].get(record["thread_id"])
        named = known["cursor"] if known is not None and not known.get("is_own") else ()
        return shared, revision, noted, named
    msg = f"the shared log of {resource!r} changed {MAX_COMMITS} times while it was read"
    raise _BusyLogError(msg)


def drop_deleted_threads(
    record: MemoryRecord, changes: Sequence[LogChange]
) -> EffectFlow[tuple[list[LogChange], list[Extension]]]:
    """Part what was observed of other threads that are deleted by now from what is left."""
    archive = yield from find_archive()
    kept: list[LogChange] = []
    deleted: list[Extension] = []
    for change in changes:
        if change["kind"] == "extend" and change["thread_id"] != record["thread_id"]:
            newest = change["cursor"][-1:]
            if not (yield from call_storage(archive.contains, change["thread_id"], newest)):
                deleted.append(change)
                continue
        kept.append(change)
    return kept, deleted


def _archive_groups(
    resource: str, record: MemoryRecord, shared: SharedLog, now: datetime
) -> EffectFlow[None]:
    """Archive what the log took of other threads; of its own the thread archives it itself.

    Raises:
        ArchiveError: When the storage fails; the next step tries again.
    """
    taken = {group["id"] for group in shared["log"]}
    others: dict[str, list[Group]] = {}
    titles: dict[str, str] = {}
    for change in record["outbox"]:
        groups = [group for group in change["groups"] if group["id"] in taken]
        for group in groups:
            if group["thread_id"] not in (None, record["thread_id"]):
                others.setdefault(str(group["thread_id"]), []).append(group)
        if change["kind"] == "extend" and change["thread_id"] != record["thread_id"]:
            fixed = shared.get("fixed", {}).get(change["thread_id"], {})
            title = find_label({**change["hints"], **dict.fromkeys(fixed)})
            titles.update({change["thread_id"]: title} if groups and title else {})
    archive = yield from find_archive()
    for thread_id, groups in others.items():
        if (yield from call_storage(archive.thread, thread_id)) is not None:
            log = [group["id"] for group in shared["log"] if group["thread_id"] == thread_id]
            yield from call_storage(archive.add_groups, thread_id, resource, groups, now, log=log)
    for thread_id, title in titles.items():
        reply: CallReply = yield Storage(archive.set_title, (thread_id, title, now))
        if isinstance(reply.error, ArchiveError | ConfigurationError):  # no storage takes any text
            yield Warn("thread %r: its title is not kept: %s", (thread_id, reply.error))
        elif reply.error is not None:
            raise reply.error


# --- Forks ---------------------------------------------------------------------------------------


def rewind_if_forked(
    shared: SharedLog,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    counter: TokenCounter,
) -> SharedLog:
    """Let the thread go on from its own last message when the log names messages it never had.

    So it is in a fork from before these, and in the conversation that was forked.
    """
    thread_id = record["thread_id"]
    known = shared["threads"].get(thread_id)
    if known is None or not messages:
        return shared
    # Another branch leaves no cursor where it removed all that both have in common.
    newest = find_newest_observed(known)
    own = [group for group in shared["log"] if group["thread_id"] == thread_id]
    ends = {end for group in own for ends in group["ranges"] for end in ends}
    ends |= _find_known_end(record, own)
    for message in reversed(messages):
        if newest is not None and message.id == newest:
            return shared
        if message.id in ends:
            break
    keys = [key for key, _ in keyed_conversation(messages)]
    places = {key: at for at, key in enumerate(keys)}
    if places.keys().isdisjoint(record["cursor"]):
        record = {**record, "log": own, "cursor": known["cursor"]}
    stop = max(
        _find_own_end(record, messages, places, counter, {group["id"] for group in own}),
        max((places[key] + 1 for key in known["cursor"] if key in places), default=0),
        _find_covered_end(own, places),
    )
    if (stop and keys[stop - 1] == newest) or (
        not stop and record.get("evicted") in known["cursor"]
    ):
        return shared
    cursor = keys[:stop][-CURSOR_TAIL:]
    thread: SharedThread = {"cursor": cursor, "hints": known["hints"], "is_own": True}
    return {**shared, "threads": {**shared["threads"], thread_id: thread}}


def _find_known_end(record: MemoryRecord, own: Sequence[Group]) -> set[str]:
    """Return the newest message that the thread knows as observed, where its copy still holds.

    In a fork it may lie within a range that goes on in the other conversation. Groups that were
    reflected since are gone, and what stands for them has their ranges.
    """
    present = {group["id"] for group in own}
    unsent = {group["id"] for change in record["outbox"] for group in change["groups"]}
    gone = [
        ends
        for group in record["log"]
        if group["thread_id"] == record["thread_id"] and group["id"] not in present | unsent
        for ends in group["ranges"]
    ]
    known = {(first, last) for group in own for first, last in group["ranges"]}
    return set(record["cursor"][-1:]) if _are_kept(gone, known) else set()


def _are_kept(ranges: Sequence[Sequence[str]], known: AbstractSet[tuple[str, str]]) -> bool:
    """Return whether a log knows ranges, some of them perhaps joined with those behind them."""
    at = 0
    while at < len(ranges):
        first = ranges[at][0]
        stops = (stop for stop in range(at, len(ranges)) if (first, ranges[stop][1]) in known)
        at = next(stops, -1) + 1
        if not at:
            return False
    return True


def _find_own_end(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    places: Mapping[str, int],
    counter: TokenCounter,
    present: AbstractSet[str],
) -> int:
    """Count the messages that are observed as the thread knows it, unsent ones left out.

    What the log has was sent, though the thread may not have heard of it.
    """
    window = open_window(record, messages, counter)
    # The window may begin with messages before its start, which were left behind.
    stop = len(keyed_conversation(messages[: window.start]))
    unsent = find_unsent(record, present)
    if unsent is None:
        return stop
    if unsent["after"] is None:
        return 0
    if unsent["after"] in places:
        return min(stop, places[unsent["after"]] + 1)
    # The message before them was removed: all that stands before the first of them was sent.
    first = next((ends[0] for group in unsent["groups"] for ends in group["ranges"]), "")
    return min(stop, places.get(first, 0))


def _find_covered_end(groups: Sequence[Group], places: Mapping[str, int]) -> int:
    """Count the messages up to the newest of those at which a range begins or ends.

    Whoever observed it had observed all before it, in any branch that has it.
    """
    named = (end for group in groups for ends in group["ranges"] for end in ends)
    return max((places[end] + 1 for end in named if end in places), default=0)


# --- Other threads -------------------------------------------------------------------------------


def _describe_others(
    settings: Settings, record: MemoryRecord, now: datetime
) -> EffectFlow[list[Event]]:
    """Describe the other threads, when that is news."""
    threads, rest = yield from read_other_threads(settings, record)
    counts = count_in_others(settings, record, threads, now)
    if rest is not None and not any(counts[each.thread_id] for each in threads if each.is_behind):
        cache = yield from find_part(LogCache)
        cache.leave_rest(str(record["resource_id"]), rest)
    budget = max(1, round(settings.thresholds.message_tokens * OTHERS_PART))
    found = build_excerpts(threads, counts, budget, settings)
    if found == record["others"]:
        return []
    event: OthersDescribed = {"type": "others", "others": found}
    return [event]
