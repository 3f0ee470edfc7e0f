"""Other threads of a resource: read from the archive, and observed batch beside batch.

What comes of the cycles is put into the shared log as it fits there by then, so nothing has to be
judged here when it is collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import content_digest, derive_id, is_conversation
from langgraph_om.core.cycles.cycle import (
    Cycle,
    CycleInfo,
    Mode,
    run_blocking,
    select_hints,
    tell_left_out,
)
from langgraph_om.core.cycles.days import Noted, build_groups
from langgraph_om.core.cycles.threads_question import ask_observer_of_threads
from langgraph_om.core.effects import (
    EffectFlow,
    ReadTally,
    Storage,
    Tally,
    Together,
    call_storage,
    warn_once_an_outage,
)
from langgraph_om.core.events import iso
from langgraph_om.core.observe.other_threads import OtherThread, count_to_observe, split_batches
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.plan import count_others_tokens
from langgraph_om.core.record.chunks import digest_entries
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    count_failures,
    find_newest_observed,
    write_log,
)
from langgraph_om.core.record.shared_log import apply_changes
from langgraph_om.core.record.span import Entry
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import (
    CycleEnded,
    Excerpt,
    Hints,
    MemoryRecord,
    OthersDescribed,
    OthersEnd,
    Section,
    SharedLog,
    ThreadUpdate,
)
from langgraph_om.errors import ArchiveError, ObserverError

MAX_THREADS = 200
"""How many of a resource's threads are looked at for unobserved messages, newest updated first."""
MAX_MESSAGES = 400
"""How many unobserved messages of another thread are read at once, the oldest."""
MAX_ENDS = 4
"""How many of a thread's newest ranges are looked at for where its unobserved messages begin."""

_Part = tuple[OtherThread, int]


class _Answered(NamedTuple):
    """What came of one batch."""

    answers: dict[str, Parsed]
    tally: Tally
    error: ObserverError | None = None
    left_out_tokens: int = 0


class _Observed(NamedTuple):
    """What came of all batches."""

    sections: list[Section]
    """What to put into the shared log."""
    error: ObserverError | None
    """The first, if a batch failed."""
    left_out_tokens: int


# --- Reading -------------------------------------------------------------------------------------


def read_other_threads(settings: Settings, record: MemoryRecord) -> EffectFlow[list[OtherThread]]:
    """Read the other threads of a resource with their unobserved messages.

    What the thread could not send yet counts as observed: it is not asked for once more.

    Raises:
        ArchiveError: When the storage fails.
    """
    resource = str(record["resource_id"])
    log = yield from call_storage("read_log", resource)
    shared = apply_changes(log, record["outbox"])
    listed, _ = yield from call_storage("threads", resource, page=0, limit=MAX_THREADS)
    threads = [thread for thread in listed if thread.id != record["thread_id"]]
    observed = [
        (thread.id, find_newest_observed({"cursor": _find_cursor(shared, thread.id)}))
        for thread in threads
    ]
    news = yield from call_storage("find_news", observed)
    found: list[OtherThread] = []
    for thread, mark in zip(threads, news, strict=True):
        other = None if mark is None else (yield from _read_thread(settings, shared, thread, mark))
        if other is not None:
            found.append(other)
    return found


def read_other_threads_if_possible(
    settings: Settings, record: MemoryRecord
) -> EffectFlow[list[OtherThread]]:
    """Read the other threads of a resource; none when the archive fails."""
    try:
        return (yield from read_other_threads(settings, record))
    except ArchiveError as error:
        text = "thread %r: other threads cannot be read: %s"
        yield from warn_once_an_outage(text, (record["thread_id"], error))
        return []


def _find_cursor(shared: SharedLog, thread_id: str) -> list[str]:
    known = shared["threads"].get(thread_id)
    return known["cursor"] if known else []


def _read_thread(
    settings: Settings, shared: SharedLog, thread: Any, mark: Any
) -> EffectFlow[OtherThread | None]:
    """Read the unobserved messages of a thread, as the archive lists it; `None` without any."""
    known, cursor = shared["threads"].get(thread.id), _find_cursor(shared, thread.id)
    start = yield from _find_start(thread.id, cursor, shared)
    if start is None:
        yield Storage("note_without_news", (mark,))
        return None
    read = yield from call_storage(
        "messages", thread.id, start=start, limit=MAX_MESSAGES, visible_only=False
    )
    entries, times = _time_messages(settings, read)
    if not entries:
        yield Storage("note_without_news", (mark,))
        return None
    hints = known["hints"] if known else {}
    found = OtherThread(thread.id, thread.title, thread.updated, cursor, entries, times, hints)
    if len(read) < MAX_MESSAGES:
        return found
    return (yield from _read_end(settings, found, read[-1].position))


def _time_messages(
    settings: Settings, read: Sequence[Any]
) -> tuple[list[Entry], list[datetime | None]]:
    """Return what of archived messages is conversation, and when it was said."""
    counter = settings.counter
    entries = [
        Entry(
            archived.key,
            archived.message,
            content_digest(archived.message),
            counter.count_message(archived.message),
        )
        for archived in read
        if is_conversation(archived.message)
    ]
    seen = {archived.key: archived.at.isoformat() for archived in read if archived.at is not None}
    return entries, settings.times_of([(entry.key, entry.message) for entry in entries], seen)


def _read_end(settings: Settings, thread: OtherThread, last: int) -> EffectFlow[OtherThread]:
    """Add what is shown of a backlog that is too long to be read as a whole: its end."""
    end = yield from call_storage("last_position", thread.thread_id)
    if end is None or end <= last:
        return thread
    read = yield from call_storage(
        "messages",
        thread.thread_id,
        start=last + 1,
        limit=MAX_MESSAGES,
        newest_first=True,
        visible_only=False,
    )
    newest, times = _time_messages(settings, read)
    return replace(thread, rest=end - last, newest=newest, newest_times=times)


def _find_start(thread_id: str, cursor: Sequence[str], shared: SharedLog) -> EffectFlow[int | None]:
    """Find the position of a thread's first unobserved message on its current branch.

    The cursor may stand before messages that were observed and then removed by hand: the archive
    has these still, and ranges of the log tell that they are observed.

    Returns:
        The position; `None` where the archive does not have the newest observed message yet, as all
        that it has of the thread is observed then.
    """
    if not cursor:
        return 0
    found = yield from call_storage("find", cursor[-1], thread_id=thread_id)
    if found is None:
        return None
    ends = [
        last
        for group in reversed(shared["log"])
        if group["thread_id"] == thread_id
        for _, last in reversed(group["ranges"])
    ]
    newest = found.position + 1 if found.is_current else 0
    for key in ends[:MAX_ENDS]:
        newest = max(newest, (yield from _find_behind(thread_id, key)))
    for key in [] if newest else [*reversed(cursor[:-1]), *ends[MAX_ENDS:]]:
        newest = yield from _find_behind(thread_id, key)
        if newest:
            break
    return newest


def _find_behind(thread_id: str, key: str) -> EffectFlow[int]:
    """Return the position behind a message; 0 when it is not on the current branch."""
    found = yield from call_storage("find", key, thread_id=thread_id)
    return found.position + 1 if found is not None and found.is_current else 0


# --- Observing -----------------------------------------------------------------------------------


def observe_others_cycle(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    threads: Sequence[OtherThread],
    started: datetime,
) -> EffectFlow[None]:
    """Observe other threads while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread that the turn is in.
        window: Its unobserved messages.
        threads: The other threads, as they are now.
        started: The current time.
    """
    cycle = describe_others(settings, record, threads, started, mode="blocking")
    if cycle is None:
        yield build_nothing_left(record)
        return
    end = yield from run_blocking(cycle, count_others_tokens(record["others"]), window.last_key)
    if end is not None:
        tally: Tally = yield ReadTally()
        sections = cast("OthersEnd", end)["sections"]
        yield from _announce_titles(cycle.info, tally, threads, sections)


def describe_others(
    settings: Settings,
    record: MemoryRecord,
    threads: Sequence[OtherThread],
    now: datetime,
    *,
    mode: Mode,
) -> Cycle | None:
    """Describe the cycle that observes other threads; `None` without anything to observe.

    It is named by what it reads, so that threads that want the same one share it.
    """
    counts = count_to_observe(threads, settings.thresholds.others_tokens)
    parts = [(thread, counts[thread.thread_id]) for thread in threads if counts[thread.thread_id]]
    if not parts:
        return None
    names = sorted(
        f"{thread.thread_id}:{find_newest_observed({'cursor': thread.cursor})}:"
        f"{digest_entries(thread.entries[:count])}"
        for thread, count in parts
    )
    attempt = count_failures(record, "others")
    cycle_id = derive_id("observe-others", record["resource_id"], attempt, *names)
    tokens = sum(entry.tokens for thread, count in parts for entry in thread.entries[:count])
    info = CycleInfo(settings, record, "others", cycle_id, tokens, now, mode)
    ids = [thread.thread_id for thread, _ in parts]
    covers = {"covers": {"thread_ids": ids}} if mode == "ahead" else {}
    return Cycle(info, info.start(**covers, thread_ids=ids), _observe_others(info, parts))


def build_nothing_left(record: MemoryRecord) -> OthersDescribed:
    """Say that nothing of other threads is to be observed in this turn, after all.

    They were observed meanwhile, or cannot be read; the next turn looks at them anew.
    """
    shown: list[Excerpt] = [{**thread, "observable": 0} for thread in record["others"]]
    return {"type": "others", "others": shown}


def _observe_others(info: CycleInfo, parts: Sequence[_Part]) -> EffectFlow[CycleEnded]:
    """Have messages of other threads observed; what is written goes to the shared log."""
    sections, error, left_out = yield from _observe_batches(info, parts)
    if not sections and error is not None:
        raise error
    tally: Tally = yield ReadTally()
    groups = [group for section in sections for group in section["groups"]]
    return info.end(
        tally,
        sections=sections,
        observation_tokens=sum(group["tokens"] for group in groups),
        observations=write_log(groups),
        **tell_left_out(left_out),
    )


def _observe_batches(cycle: CycleInfo, parts: Sequence[_Part]) -> EffectFlow[_Observed]:
    """Ask about all batches at once."""
    batches = split_batches(parts, cycle.settings.observation.max_tokens_per_batch)
    asked: list[_Answered] = yield Together([_observe_batch(cycle, batch) for batch in batches])
    sections: list[Section] = []
    error: ObserverError | None = None
    for batch, answered in zip(batches, asked, strict=True):
        error = error or answered.error
        sections += [
            _build_section(cycle, thread, count, answered.answers[thread.thread_id], answered.tally)
            for thread, count in batch
            if thread.thread_id in answered.answers
        ]
    return _Observed(sections, error, sum(answered.left_out_tokens for answered in asked))


def _observe_batch(cycle: CycleInfo, batch: Sequence[_Part]) -> EffectFlow[_Answered]:
    try:
        answers, left_out = yield from ask_observer_of_threads(cycle, batch)
    except ObserverError as error:
        return _Answered({}, (yield ReadTally()), error)
    return _Answered(answers, (yield ReadTally()), left_out_tokens=left_out)


def _build_section(
    cycle: CycleInfo, thread: OtherThread, count: int, parsed: Parsed, tally: Tally
) -> Section:
    """Write what was observed of one thread as a change of the shared log."""
    entries = thread.entries[:count]
    first_id = derive_id("section", cycle.cycle_id, thread.thread_id)
    at = iso(cycle.last_reply(tally))
    noted = Noted(first_id, thread.thread_id, parsed.observations, at)
    groups = build_groups(cycle, noted, entries, thread.times[:count])
    cursor = [*thread.cursor, *(entry.key for entry in entries)][-CURSOR_TAIL:]
    return {
        "thread_id": thread.thread_id,
        "after": find_newest_observed({"cursor": thread.cursor}),
        "cursor": cursor,
        "groups": groups,
        "hints": cast("Hints", select_hints(cycle.settings, parsed)),
    }


def _announce_titles(
    cycle: CycleInfo,
    tally: Tally,
    threads: Sequence[OtherThread],
    sections: Sequence[Section],
) -> EffectFlow[None]:
    """Say which threads have a new title."""
    former = {thread.thread_id: thread.title for thread in threads}
    for section in sections:
        old, new = former[section["thread_id"]], section["hints"]["thread_title"]
        if new is not None and new != old:
            event = cycle.event(
                "thread-update", cycle.last_reply(tally), old_title=old, new_title=new
            )
            yield {**cast("ThreadUpdate", event), "thread_id": section["thread_id"]}
