"""What the user's other threads said that is not observed yet: read, shown, and observed.

Every conversation is shown the newest words of the others at once. What quiet threads left is
observed by one thread at a time, beside its turn, batch beside batch. It becomes a part of their
own logs in the archive: where somebody has gone on with one meanwhile, nothing is written. The
thread takes that over when it goes on, where its own conversation has these messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import content_digest, derive_id, is_conversation
from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.cycles.cycle import CycleInfo, guard, select_hints
from langgraph_om.core.cycles.observation import (
    ObserverOutcome,
    ask_observer,
    build_groups,
    find_previous_tokens,
    keep_marked,
    merge_hints,
)
from langgraph_om.core.cycles.questions import (
    ask_for_values,
    join_found,
    rewrite_answer,
    show_messages,
)
from langgraph_om.core.effects import EffectFlow, ReadTally, Tally, Together, call_storage
from langgraph_om.core.events import iso
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.observe.standing import list_held
from langgraph_om.core.observe.threads import (
    ThreadInput,
    ThreadsInput,
    build_threads_question,
    observe_threads,
)
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    TranscriptLimits,
    says_much,
    transcribe,
)
from langgraph_om.core.record.record import find_newest_observed, log_tokens
from langgraph_om.core.record.standing import STANDING, select_log, select_standing
from langgraph_om.core.record.steering import build_end
from langgraph_om.core.record.users_log import list_in_sight, without_leftover
from langgraph_om.core.record.window import Entry, digest_entries, find_safe_cuts
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Excerpt, Found, Group, Leftover, MemoryRecord, TakenOver
from langgraph_om.errors import ObserverError
from langgraph_om.features.archive import find_archive

if TYPE_CHECKING:
    from langgraph_om.archive import ArchivedMessage, UnobservedThread

RECENT_PART: Final = 0.2
"""How much of the window's threshold the newest words of other threads may take."""
MOST_NEAR: Final = 10
"""Of how many threads with unobserved words the Actor is shown the newest."""
MOST_BEHIND: Final = 50
"""How many of those behind are looked at; a question to the Observer has so many at most."""
LEAST_BEHIND: Final = 10
"""How many of those behind are observed together; before, recall alone finds what they said."""
MAX_MESSAGES: Final = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
_LEAST_EXCERPT: Final = 40
"""Tokens without which nothing is shown of a thread."""
_BUSY: Final = timedelta(minutes=30)
"""For so long after its last message a thread is left to observe itself ahead of need."""


@dataclass(frozen=True, slots=True)
class OtherThread:
    """A thread other than the Actor's, with its unobserved messages."""

    unobserved: UnobservedThread
    entries: Sequence[Entry]
    """Its unobserved messages, oldest first; only the beginning of a very long backlog."""
    times: Sequence[datetime | None]
    """When each of them was written, where that is known."""

    @property
    def id(self) -> str:
        """Of the thread."""
        return self.unobserved.thread.id

    @property
    def tokens(self) -> int:
        """Tokens of `entries`."""
        return sum(entry.tokens for entry in self.entries)


# --- Read and shown ------------------------------------------------------------------------------


class Leftovers(NamedTuple):
    """What is unobserved in a user's other threads."""

    near: Sequence[OtherThread]
    """The newest threads, with their messages; the newest first."""
    behind: Sequence[UnobservedThread]
    """Those that come behind them."""

    @property
    def waiting(self) -> Sequence[UnobservedThread]:
        """What nobody is shown any more and is to be observed, where it is of enough threads."""
        return self.behind if len(self.behind) >= LEAST_BEHIND else ()


def read_leftovers(settings: Settings, record: MemoryRecord) -> EffectFlow[Leftovers]:
    """Read what is unobserved in a user's other threads.

    Raises:
        ArchiveError: When the storage fails.
    """
    archive = find_archive(settings)
    listed = yield from call_storage(
        archive.unobserved, str(record["resource_id"]), limit=MOST_NEAR + MOST_BEHIND + 1
    )
    others = [each for each in listed if each.thread.id != record["thread_id"]]
    near = yield from _read_threads(settings, others[:MOST_NEAR])
    return Leftovers(near, others[MOST_NEAR : MOST_NEAR + MOST_BEHIND])


def _read_threads(
    settings: Settings, threads: Sequence[UnobservedThread]
) -> EffectFlow[list[OtherThread]]:
    if not threads:
        return []
    spans = [
        (each.thread.id, each.start, min(each.stop, each.start + MAX_MESSAGES)) for each in threads
    ]
    read = yield from call_storage(find_archive(settings).spans, spans)
    return [_read_thread(settings, each, read.get(each.thread.id, [])) for each in threads]


def _read_thread(
    settings: Settings, unobserved: UnobservedThread, read: Sequence[ArchivedMessage]
) -> OtherThread:
    said = [archived for archived in read if is_conversation(archived.message)]
    count = settings.counter.count_message
    entries = [
        Entry(own.key, own.message, content_digest(own.message), count(own.message)) for own in said
    ]
    seen = {own.key: own.at.isoformat() for own in said if own.at is not None}
    times = settings.times_of([(own.key, own.message) for own in said], seen)
    return OtherThread(unobserved, entries, times)


def build_excerpts(threads: Sequence[OtherThread], settings: Settings) -> list[Excerpt]:
    """Return the newest words of other threads, the newest thread last, as far as they fit.

    Nothing of a very long backlog, of which only the beginning was read.
    """
    left = max(1, round(settings.thresholds.message_tokens * RECENT_PART))
    shown: list[Excerpt] = []
    for thread in threads:
        if left < _LEAST_EXCERPT:
            break
        write, count = partial(_write_excerpt, thread, settings), settings.counter.count_text
        is_cut = thread.unobserved.stop > thread.unobserved.start + MAX_MESSAGES
        fits = 0 if is_cut else len(thread.entries)
        text = write(fits) if fits else ""
        if count(text) > left:
            fits = bisect_right(range(1, fits), left, key=lambda most: count(write(most)))
            text = write(fits) if fits else ""
        if text:
            left -= count(text)
            shown.append({"thread_id": thread.id, "text": text})
    return shown[::-1]


_MOST_OF_TEXT: Final = 120
"""Tokens that are shown of one text, call or result."""
_LIMITS: Final = TranscriptLimits(_MOST_OF_TEXT, _MOST_OF_TEXT, _MOST_OF_TEXT)


def _write_excerpt(thread: OtherThread, settings: Settings, count: int) -> str:
    start = len(thread.entries) - count
    newest = zip(thread.entries[start:], thread.times[start:], strict=True)
    timed = [TimedMessage(entry.message, time) for entry, time in newest]
    zone, counter = settings.timezone, settings.counter
    text = transcribe(timed, timezone=zone, counter=counter, limits=_LIMITS).text
    left_out = f"[{start} earlier message{'' if start == 1 else 's'} left out]\n" if start else ""
    label = thread.unobserved.thread.title
    title = f' title="{escape_attribute(label)}"' if label else ""
    name = f'id="{escape_attribute(settings.show_id(thread.id))}"{title}'
    return f"<other-conversation {name}>\n{left_out}{escape(text)}\n</other-conversation>"


# --- Chosen to observe ---------------------------------------------------------------------------


def choose_due(
    settings: Settings, record: MemoryRecord, near: Sequence[OtherThread], now: datetime
) -> list[OtherThread]:
    """Return the threads to observe now: at the limit, down to half of it, the quietest first."""
    limits = settings.thresholds
    limit, observes_ahead = limits.messages_at(log_tokens(record)), limits.buffer_tokens is not None
    quiet = [
        thread
        for thread in reversed(near)
        if thread.unobserved.thread.updated < now - _BUSY or not observes_ahead
    ]
    left, due = sum(thread.tokens for thread in quiet), list[OtherThread]()
    for thread in quiet:
        if left <= (limit // 2 if due else limit):
            break
        due.append(thread)
        left -= thread.tokens
    return due


def _split_batches(threads: Sequence[OtherThread], most: int) -> list[list[OtherThread]]:
    """Group threads into batches, each observed in one question, with what fits of each.

    The rest of a thread that is larger than a batch follows once this is observed.
    """
    batches, size = list[list[OtherThread]](), 0
    for thread in threads:
        cuts = [cut for cut in find_safe_cuts(thread.entries) if cut]
        if not cuts:
            continue
        sizes = [*accumulate(entry.tokens for entry in thread.entries)]
        count = max((cut for cut in cuts if sizes[cut - 1] <= most), default=cuts[0])
        if not batches or size + sizes[count - 1] > most:
            batches.append([])
            size = 0
        part = replace(thread, entries=thread.entries[:count], times=thread.times[:count])
        batches[-1].append(part)
        size += sizes[count - 1]
    return batches


# --- Observed ------------------------------------------------------------------------------------


class Observed(NamedTuple):
    """What came of observing other threads."""

    groups: list[Group]
    found: Found
    left_out_tokens: int
    """About how many tokens no question had room for."""
    error: ObserverError | None


class _Answer(NamedTuple):
    """What came of one batch."""

    outcomes: Mapping[str, ObserverOutcome]
    """By thread id; a thread that is missing is not observed."""
    tally: Tally
    found: Found
    error: ObserverError | None = None


def observe_others(info: CycleInfo, resource_id: str) -> EffectFlow[Observed]:
    """Observe what other threads left, all batches at once, and put it into their logs.

    Raises:
        ArchiveError: When the storage fails.
    """
    settings, record = info.settings, info.record
    leftovers = yield from read_leftovers(settings, record)
    due = choose_due(settings, record, leftovers.near, info.started)
    due += yield from _read_threads(settings, leftovers.waiting)
    batches = _split_batches(due, settings.observation.max_tokens_per_batch)
    if not batches:
        return Observed([], {}, 0, None)
    archive = find_archive(settings)
    ids = [thread.id for batch in batches for thread in batch]
    deletions = yield from call_storage(archive.deletions, resource_id, ids)
    present = yield from call_storage(archive.log_ids, resource_id)
    theirs = [key for thread_id in ids for key in present.get(thread_id, ())]
    read = yield from call_storage(archive.read_groups, resource_id, theirs)
    log = [group for key in ids for group in reversed(read.get(key, []))]
    known = [*list_in_sight(record), *cast("list[Group]", log)]
    asked: list[_Answer] = yield Together([_guard(info, each, known) for each in batches])
    groups, noticed, left_out = list[Group](), [answer.found for answer in asked], 0
    for batch, answer in zip(batches, asked, strict=True):
        for thread in batch:
            outcome = answer.outcomes.get(thread.id)
            if outcome is None:
                continue
            left_out += outcome.left_out_tokens
            at = iso(info.last_reply(answer.tally))
            section = yield from _build_section(info, thread, outcome, [*known, *groups], at)
            number = deletions.get(("resource", resource_id), 0)
            number += deletions.get(("thread", thread.id), 0)
            kept = yield from call_storage(
                archive.add_groups,
                thread.id,
                resource_id,
                section,
                info.started,
                deletion=number,
                observed=thread.entries[-1].key,
                behind=thread.unobserved.observed,
            )
            groups += section if kept else []
    failure = next((answer.error for answer in asked if answer.error is not None), None)
    return Observed(groups, join_found(noticed), left_out, failure)


def _guard(
    info: CycleInfo, batch: Sequence[OtherThread], known: Sequence[Group]
) -> EffectFlow[_Answer]:
    try:
        return (yield from guard(info, _ask(info, batch, known)))
    except ObserverError as error:
        return _Answer({}, (yield ReadTally()), {}, error)


def _ask(
    info: CycleInfo, batch: Sequence[OtherThread], known: Sequence[Group]
) -> EffectFlow[_Answer]:
    """Have threads observed in one question; one by one those that are too long for that."""
    outcomes = yield from _ask_together(info, batch, known)
    failure: ObserverError | None = None
    for thread in batch if outcomes is None else ():
        view, own = _view_thread(info, thread), _select_known(known, thread)
        outcomes = outcomes or {}
        try:
            outcomes[thread.id] = yield from ask_observer(
                view, thread.entries, thread.times, known=own, hints={}
            )
        except ObserverError as error:
            failure = failure or error
    found: Found = {}
    answered = [each for each in (outcomes or {}).values() if each.asked is not None]
    noted = "\n\n".join(each.parsed.observations for each in answered).strip()
    question = answered[-1].asked if answered else None
    if question is not None and noted:
        found = yield from ask_for_values(info, question, noted)
    return _Answer(outcomes or {}, (yield ReadTally()), found, failure)


def _ask_together(
    info: CycleInfo, batch: Sequence[OtherThread], known: Sequence[Group]
) -> EffectFlow[dict[str, ObserverOutcome] | None]:
    """Have threads observed in one question; `None` where that is too long, or they are one.

    A thread is missing where the answer has no usable section of it.
    """
    if len(batch) == 1:
        return None
    settings, outcomes = info.settings, dict[str, ObserverOutcome]()
    inputs, previous, shown_of = list[ThreadInput](), list[tuple[str, str]](), {}
    share = find_previous_tokens(info, 0)
    for thread in batch:
        shown = yield from show_messages(_view_thread(info, thread), thread.entries, thread.times)
        if shown is None:
            outcomes[thread.id] = ObserverOutcome(ParsedAnswer("none"))
            continue
        if len(shown.parts) > 1:
            return None
        (part,), shown_id = shown.parts, settings.show_id(thread.id)
        budget = share if share is False else share // len(batch)
        own = select_log(_select_known(known, thread))
        previous.append((shown_id, select_previous(own, budget, settings.counter, part.text)))
        inputs.append(ThreadInput(thread.id, shown_id, part.text, attachments=part.attachments))
        shown_of[thread.id] = shown
    request = ThreadsInput(
        inputs,
        previous=previous,
        instruction=settings.observation.instruction,
        asked=settings.hints,
        held=list_held(known),
        timezone=settings.timezone,
    )
    count = settings.counter.count_text
    try:
        answers = yield from observe_threads(
            request, [own.shown_id for own in inputs if says_much(own.transcript, count)]
        )
    except ObserverError as error:
        if error.room:
            return None
        raise
    question = build_threads_question(request)
    for thread in batch:
        if thread.id in answers:
            shown, answer = shown_of[thread.id], answers[thread.id]
            parsed = yield from rewrite_answer(_view_thread(info, thread), answer)
            outcomes[thread.id] = ObserverOutcome(
                parsed, shown.left_out_tokens, question, shown.cited
            )
    return outcomes


def _view_thread(info: CycleInfo, thread: OtherThread) -> CycleInfo:
    """Return the cycle as a hook is told of it that sees one thread's texts."""
    record: MemoryRecord = {**info.record, "thread_id": thread.id, "stamps": {}}
    return replace(info, record=record)


def _select_known(known: Sequence[Group], thread: OtherThread) -> list[Group]:
    """Return what is known of one thread, and all standing instructions, which have numbers."""
    own = [group for group in known if group["thread_id"] == thread.id]
    return [*select_standing(known), *select_log(own)]


def _build_section(
    info: CycleInfo,
    thread: OtherThread,
    outcome: ObserverOutcome,
    known: Sequence[Group],
    at: str,
) -> EffectFlow[list[Group]]:
    """Return what was observed of one thread as groups of its log, with what it takes over."""
    view, thread_id = _view_thread(info, thread), thread.id
    written = build_groups(
        info,
        thread.entries,
        thread.times,
        outcome.parsed.observations,
        first_id=derive_id("section", info.cycle_id, thread_id),
        thread_id=thread_id,
        at=at,
    )
    groups, found = yield from keep_marked(view, written, known, outcome.cited)
    ended = [entry for entry in found.get(STANDING, []) if entry["change"] == "ended"]
    groups += [build_end(info.cycle_id, thread_id, entry["group"], at) for entry in ended]
    leftover: Leftover = {
        "last": thread.entries[-1].key,
        "digest": digest_entries(thread.entries),
        "hints": select_hints(info.settings, outcome.parsed),
        "found": found,
    }
    return [{**group, "leftover": leftover} for group in groups]


# --- Taken over ----------------------------------------------------------------------------------


def find_observed_elsewhere(
    step: Step, present: Mapping[str, Sequence[str]]
) -> EffectFlow[TakenOver | None]:
    """Return what others observed of a thread, where its window begins with these messages.

    Args:
        present: By thread, the ids of the groups that the archive has for its log.

    Raises:
        ArchiveError: When the storage fails.
    """
    record, window = step.record, step.window
    known = {group["id"] for group in record["log"]}
    new = [key for key in present.get(record["thread_id"], ()) if key not in known]
    if not new or window.strays.messages:
        return None
    read_groups = find_archive(step.settings).read_groups
    read = yield from call_storage(read_groups, str(record["resource_id"]), new)
    written = cast("list[Group]", read.get(record["thread_id"], []))
    told = [(group["leftover"], group) for group in reversed(written) if "leftover" in group]
    groups, stop, taken = list[Group](), 0, list[Leftover]()
    for _, own in groupby(told, key=lambda pair: pair[0]["digest"]):
        part = [*own]
        leftover = part[-1][0]
        end = window.find(leftover["last"]) + 1
        if end <= stop or digest_entries(window.entries[stop:end]) != leftover["digest"]:
            break
        groups += [without_leftover(group) for _, group in part]
        stop, taken = end, [*taken, leftover]
    if not stop:
        return None
    return {
        "type": "taken-over",
        "cycle_id": derive_id("take-over", record["id"], *(group["id"] for group in groups)),
        "at": iso(step.now),
        "after": find_newest_observed(record),
        "cursor": window.cursor_after(stop),
        "groups": groups,
        "hints": merge_hints({}, (each["hints"] for each in taken)),
        "found": join_found([each["found"] for each in taken]),
    }
