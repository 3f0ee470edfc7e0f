"""Let observed messages leave the conversation once the archive has them.

What is removed is always the conversation's beginning, and nothing that the archive does not have.

A client that knows nothing of eviction sends the whole history in each turn. What was removed would
come back behind what stayed, as if it was said now: shown, and observed once more. It is taken out
before anything else looks at the conversation, because each other rule takes the messages that the
record names for marks of how far things are. What has other words now stays, as news.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from langchain_core.messages import BaseMessage

from langgraph_om.archive import ArchivedMessage
from langgraph_om.core.content.message_keys import (
    Keyed,
    content_digest,
    is_conversation,
    key_of,
    keyed_conversation,
)
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.record.record import CURSOR_TAIL
from langgraph_om.core.record.window import find_newest_human, select_observed
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Event, Evicted, MemoryRecord
from langgraph_om.errors import ArchiveError
from langgraph_om.features.archive import (
    Archiving,
    StepArchive,
    is_survivor,
    look_for_deletion,
)


@dataclass(frozen=True)
class Evicting:
    """Removes observed messages that the archive has."""

    archiving: Archiving

    def take_out_resent(self, step: Step) -> EffectFlow[None]:
        """Take out what was removed before and has come back with a request.

        The archive is asked only in a turn that begins with more than its request. While it is
        away, nobody can tell.
        """
        record, thread_id = step.record, step.identity.thread_id
        if not thread_id or record["thread_id"] != thread_id:
            return
        arrived = find_arrived(record, step.messages)
        if not arrived:
            return
        archive = StepArchive(self.archiving, step.settings, record, step.now)
        try:
            resent = yield from find_resent(archive, arrived)
        except ArchiveError as error:
            yield from archive.note_failure(error)
            return
        step.take_out(resent)
        if resent:  # they are removed once more, which changes nothing of the record
            last = str(record.get("evicted"))
            step.apply([{"type": "evicted", "last": last, "ids": resent, "tokens": 0}])

    def evict(self, step: Step, archive: StepArchive) -> EffectFlow[None]:
        """Name what leaves the conversation with this step, in `step.removed`."""
        archive.record = step.record
        keys = find_evictable(step.record, step.messages, step.window.request)
        try:
            ids = yield from find_removable(archive, step.messages, keys)
        except ArchiveError as error:
            yield from archive.note_failure(error)
            return
        if not ids:
            return
        former, known = step.record.get("evicted"), {each.id: each for each in step.messages}
        new = ids[ids.index(former) + 1 :] if former in ids else ids
        tokens = sum(step.settings.counter.count_message(known[key]) for key in new)
        evicted: Evicted = {"type": "evicted", "last": ids[-1], "ids": ids, "tokens": tokens}
        events: list[Event] = [evicted]
        step.apply([*events, *archive.note_branch(keyed_conversation(step.messages)[-1][0])])
        step.take_out(ids)
        step.open()


# --- What came back ------------------------------------------------------------------------------


def find_arrived(record: MemoryRecord, messages: Sequence[BaseMessage]) -> Keyed:
    """Return what came in with a request that may have been removed before.

    It stands behind all that the record knows to have been there.
    """
    if record.get("evicted") is None or not messages:
        return []
    # The newest observed messages, and all that followed them at the last step.
    known = {*record["cursor"], *record["token_cache"]["counts"]}
    start = len(messages)
    while start and key_of(messages[start - 1]) not in known:
        start -= 1
    request = find_newest_human(messages)
    if request is None or request < start:
        return []
    stop = len(messages) - (request == len(messages) - 1)
    arrived = [(key_of(message), message) for message in messages[start:stop]]
    return [entry for entry in arrived if entry[1].id == entry[0] and is_conversation(entry[1])]


def find_resent(archive: StepArchive, arrived: Keyed) -> EffectFlow[list[str]]:
    """Return which messages that came in were removed from this branch before, as they are."""
    words, last = dict(arrived), archive.record.get("evicted")
    known = yield from archive.archived_keys([*words])
    if not known:
        return []
    # A client sends the end of what was removed, or all of it.
    removed = yield from _read_back(archive, last, len(known) + 1)
    if removed and not known <= {each.key for each in removed}:
        removed = yield from _read_back(archive, last, removed[-1].position + 1)
    there = {each.key: each for each in removed}
    return [key for key, message in arrived if key in there and is_same(there[key], message)]


def is_same(kept: ArchivedMessage, message: BaseMessage) -> bool:
    """Return whether a message says what it said when it was archived, as far as that is there."""
    return kept.is_pruned or content_digest(kept.message) == content_digest(message)


def _read_back(
    archive: StepArchive, last: str | None, most: int
) -> EffectFlow[Sequence[ArchivedMessage]]:
    """Read so many messages of the branch up to one; none where that is not on it any more."""
    if last is None:
        return []
    kept, thread_id = archive.archiving.storage, archive.record["thread_id"]
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


def find_evictable(
    record: MemoryRecord, messages: Sequence[BaseMessage], request: str | None
) -> list[str]:
    """Return the ids of the messages that memory does not need any more, in order.

    These are the observed ones before the live user request, but for as many as the cursor names,
    by which the window is found: always the conversation's beginning, so that what stays is in one
    piece. System messages stay, and so does a message whose id does not name it in the archive, and
    what the thread had when it was deleted.
    """
    observed = select_observed(record, messages)[:-CURSOR_TAIL]
    if floor := record.get("floor"):
        gone = [at for at, each in enumerate(messages) if key_of(each) in floor["messages"]]
        since = {key_of(each) for each in messages[gone[-1] + 1 if gone else 0 :]}
        observed = [each for each in observed if key_of(each) in since]
    old = takewhile(lambda message: message.id == key_of(message) != request, observed)
    return [str(message.id) for message in old]


def find_removable(
    archive: StepArchive, messages: Sequence[BaseMessage], keys: list[str]
) -> EffectFlow[list[str]]:
    """Tell what may be removed; what was edited since it was archived is archived anew."""
    if not keys:
        return []
    kept = yield from archive.archived_keys(keys)
    if len(kept) < len(keys):
        if is_survivor((yield from look_for_deletion(archive.archiving.storage, archive.record))):
            return []  # what it had then stays, and the next look notes it
        yield from archive.archiving.warn_of_loss(archive.record)
        yield from archive.append_all(messages)
        kept = yield from archive.archived_keys(keys)
    ids = list(takewhile(kept.__contains__, keys))
    if not ids:
        return []
    known = {message.id: message for message in messages}
    stored = yield from _read_back(archive, ids[-1], len(ids))
    if [each.key for each in stored] != ids or not all(
        is_same(each, known[each.key]) for each in stored
    ):
        yield from archive.append_all(messages)
    return ids
