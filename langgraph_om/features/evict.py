"""Let observed messages leave the conversation once the archive has them.

What is removed is always the conversation's beginning, and nothing that the archive does not have.

A client that knows nothing of eviction sends the whole history in each turn. What was removed would
come back behind what stayed, as if it was said now: shown, and observed once more. It is taken out
before anything else looks at the conversation, because each other rule takes the messages that the
record names for marks of how far things are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.effects import EffectFlow, call_storage, find_part
from langgraph_om.core.record.record import CURSOR_TAIL, find_deleted
from langgraph_om.core.record.window import find_newest_human, select_observed
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Event, Evicted, MemoryRecord
from langgraph_om.errors import ArchiveError
from langgraph_om.features.archive.archiving import (
    StepArchive,
    is_survivor,
    look_for_deletion,
    warn_of_loss,
)
from langgraph_om.features.archive.writer import ArchiveWriter, find_archive


class Evicting:
    """Removes observed messages that the archive has."""

    def take_out_resent(self, step: Step) -> EffectFlow[None]:
        """Take out what was removed before and has come back with a request."""
        step.apply((yield from take_out_resent(step)))

    def evict(self, step: Step, archive: StepArchive) -> EffectFlow[None]:
        """Name what leaves the conversation with this step, in `step.removed`."""
        request, cursor = step.window.request, step.record["cursor"]
        try:
            events = yield from find_removable(
                archive, step.record, step.messages, request, step.settings.counter
            )
        except ArchiveError as error:
            yield from archive.note_failure(error, step.changed)
            return
        step.apply(events)
        step.removed += [key for each in events if each["type"] == "evicted" for key in each["ids"]]
        if step.record["cursor"] != cursor:
            step.open()


# --- What came back ------------------------------------------------------------------------------


def take_out_resent(step: Step) -> EffectFlow[list[Event]]:
    """Take out what was removed before and has come back with a request; return what to note.

    The archive is asked only in a turn that begins with more than its request. While it is away,
    nobody can tell.
    """
    record, thread_id = step.record, step.identity.thread_id
    if not thread_id or record["thread_id"] != thread_id:
        return []
    arrival = find_arrival(record, step.messages)
    if arrival is None:
        return []
    _, dubious = arrival
    writer = yield from find_part(ArchiveWriter)
    memory = writer.recall_thread(thread_id, [])
    archive = StepArchive.of(step.settings, record, step.now)
    try:
        resent = yield from find_resent(record, dubious, archive)
    except ArchiveError as error:
        yield from archive.note_failure(error, memory.missed)
        return []
    step.take_out(resent)
    noted = archive.note_branch(record, record.get("archived"))
    if not resent:
        return noted
    # They are removed once more, which changes nothing of the record.
    last = str(record.get("evicted"))
    removal: Evicted = {"type": "evicted", "last": last, "ids": resent, "tokens": 0}
    return [removal, *noted]


def find_arrival(record: MemoryRecord, messages: Sequence[BaseMessage]) -> tuple[str, Keyed] | None:
    """Return what came in with a request; `None` where that can be nothing that was removed.

    It stands behind all that the record knows to have been there.

    Returns:
        The key of the live user request, and all that came in but for a request at the end.
    """
    if record.get("evicted") is None or not messages:
        return None
    # The newest observed messages, and all that followed them at the last step.
    known = {*record["cursor"], *record["token_cache"]["counts"]}
    start = len(messages)
    while start and key_of(messages[start - 1]) not in known:
        start -= 1
    at = find_newest_human(messages)
    if at is None or at < start:
        return None
    stop = len(messages) - (at == len(messages) - 1)
    dubious = [(key_of(message), message) for message in messages[start:stop]]
    dubious = [entry for entry in dubious if entry[1].id == entry[0] and is_conversation(entry[1])]
    return (key_of(messages[at]), dubious) if dubious else None


def find_resent(
    record: MemoryRecord, dubious: Keyed, archive: StepArchive
) -> EffectFlow[list[str]]:
    """Return which messages that came in were removed from this branch before.

    What has other words than before was edited: the archive takes these, as it does when an
    observed message is edited that was not removed yet, and what was observed of it stays.
    """
    words = dict(dubious)
    known = yield from archive.archived_keys([*words])
    if not known:
        return []
    removed = yield from _read_removed(record, known, archive)
    edited = [
        at
        for at, each in enumerate(removed)
        if each.key in known
        and (at or each.position == 0)
        and content_digest(each.message) != content_digest(words[each.key])
    ]
    if edited:
        first, last = edited[0], edited[-1] + 1
        before = removed[first - 1].key if first else None
        # What stands between them as it is, so that all of it is one change.
        said = [
            (each.key, words[each.key] if at in edited else each.message)
            for at, each in enumerate(removed[first:last], start=first)
        ]
        yield from archive.append(said, after=before)
    there = {each.key for each in removed}
    return [key for key in words if key in there]


def _read_removed(
    record: MemoryRecord, known: set[str], archive: StepArchive
) -> EffectFlow[Sequence[Any]]:
    """Read what was removed from this branch, from the oldest known message on if not before.

    A client sends the end of what was removed, or all of it.
    """
    last = record.get("evicted")
    read: Sequence[Any] = yield from _read_back(archive, last, len(known) + 1)
    if read and not known <= {each.key for each in read}:
        read = yield from _read_back(archive, last, read[-1].position + 1)
    return read


def _read_back(archive: StepArchive, last: str | None, most: int) -> EffectFlow[Sequence[Any]]:
    """Read so many messages of the branch up to one; none where that is not on it any more."""
    if last is None:
        return []
    kept, thread_id = (yield from find_archive()), archive.thread_id
    place = yield from call_storage(kept.find, last, thread_id=thread_id, branch=archive.branch)
    if place is None or not place.is_current:
        return []
    return (
        yield from call_storage(
            kept.messages,
            thread_id,
            stop=place.position + 1,
            limit=most,
            newest_first=True,
            visible_only=False,
            branch=archive.branch,
        )
    )


# --- What memory needs no more -------------------------------------------------------------------


def _drop_floor(
    record: MemoryRecord, messages: Sequence[BaseMessage], observed: Sequence[BaseMessage]
) -> Sequence[BaseMessage]:
    """Leave out the messages that the thread had when it was deleted, which stay."""
    last = find_deleted(record)
    if last is None or all(key_of(message) != last for message in messages):
        return observed
    places = [at for at, message in enumerate(observed) if key_of(message) == last]
    return observed[places[-1] + 1 :] if places else []


def find_evictable(
    record: MemoryRecord, messages: Sequence[BaseMessage], request: str | None
) -> list[str]:
    """Return the ids of the messages that memory does not need any more, in order.

    These are the observed ones before the live user request, but for as many as the cursor names,
    by which the window is found: always the conversation's beginning, so that what stays is in one
    piece. System messages stay, and so does a message whose id does not name it in the archive.
    """
    if record.get("outbox"):  # others may have observed these messages otherwise meanwhile
        return []
    observed = _drop_floor(record, messages, select_observed(record, messages)[:-CURSOR_TAIL])
    old = takewhile(lambda message: message.id == key_of(message) != request, observed)
    return [str(message.id) for message in old]


def find_removable(
    archive: StepArchive,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    request: str | None,
    counter: TokenCounter,
) -> EffectFlow[list[Event]]:
    """Tell what may be removed; what was edited since it was archived is archived anew."""
    keys = find_evictable(record, messages, request)
    if not keys:
        return []
    kept = yield from archive.archived_keys(keys)
    if len(kept) < len(keys):
        noted = yield from look_for_deletion(record)
        if is_survivor(noted):  # what it had then stays, and the next look notes it
            return []
        yield from warn_of_loss(record)
        yield from archive.append_all(record, messages)
        kept = yield from archive.archived_keys(keys)
    ids = list(takewhile(kept.__contains__, keys))
    if not ids:
        return []
    known = {message.id: message for message in messages}
    stored = yield from _read_back(archive, ids[-1], len(ids))
    said = [(each.key, content_digest(each.message)) for each in stored]
    if said != [(key, content_digest(known[key])) for key in ids]:
        yield from archive.append_all(record, messages)
    former = record.get("evicted")
    new = ids[ids.index(former) + 1 :] if former in ids else ids
    tokens = sum(counter.count_message(known[key]) for key in new)
    evicted: Evicted = {"type": "evicted", "last": ids[-1], "ids": ids, "tokens": tokens}
    return [evicted, *archive.note_branch(record, keyed_conversation(messages)[-1][0])]
