"""The cycles that observe other threads of a resource, batch beside batch.

What comes of them is put into the shared log as it fits there by then, so nothing has to be judged
here when it is collected.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.attachments import selected
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import CycleInfo, Job, build_failed, build_job, select_hints
from langgraph_om.core.cycles.hooks import check_input, pass_through_hook, write_transcript
from langgraph_om.core.effects import Answer, CycleFlow, Step, Tally, Together
from langgraph_om.core.events import iso
from langgraph_om.core.observe.log_excerpt import select_previous_sections
from langgraph_om.core.observe.observer import ThreadInput, ThreadsInput, observe_threads
from langgraph_om.core.observe.other_threads import OtherThread, count_to_observe, split_batches
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import TimedMessage
from langgraph_om.core.plan import count_others_tokens
from langgraph_om.core.record.chunks import digest_entries
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    count_failures,
    find_newest_observed,
    write_log,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import Event, Group, MemoryRecord
from langgraph_om.errors import ObserverError

_Part = tuple[OtherThread, int]
_Outcome = tuple[dict[str, Parsed], Tally, ObserverError | None]


def observe_others_cycle(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    threads: Sequence[OtherThread],
    started: datetime,
) -> CycleFlow:
    """Observe other threads while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread that the turn is in.
        window: Its unobserved messages.
        threads: The other threads, as they are now.
        started: The current time.
    """
    parts = _split_parts(settings, threads)
    if not parts:
        yield build_nothing_left(record)
        return
    cycle = _run_cycle(settings, record, parts, started, "turn")
    tally = Tally(started)
    yield cycle.start("observation-start", thread_ids=[thread.thread_id for thread, _ in parts])
    sections, error = yield from _build_observed(cycle, tally, parts)
    if not sections and error is not None:
        yield from build_failed(
            cycle, tally, error, count_others_tokens(record["others"]), window.last_key
        )
        return
    yield cycle.end("observation-end", tally, **_collect_told(sections))
    yield from _collect_titles(cycle, tally, threads, sections)


def build_nothing_left(record: MemoryRecord) -> Event:
    """Say that nothing of other threads is to be observed in this turn, after all.

    They were observed meanwhile, or cannot be read; the next turn looks at them anew.
    """
    shown = [{**each, "observable": 0} for each in record["others"]]
    return {"type": "others", "others": shown}


def observe_others_ahead(
    settings: Settings, record: MemoryRecord, threads: Sequence[OtherThread], now: datetime
) -> Job | None:
    """Describe the job that observes other threads in the background; `None` without any."""
    parts = _split_parts(settings, threads)
    if not parts:
        return None
    cycle = _run_cycle(settings, record, parts, now, "buffer")
    ids = [thread.thread_id for thread, _ in parts]
    return build_job(cycle, {"thread_ids": ids}, _run_ahead(cycle, parts), thread_ids=ids)


def _run_ahead(cycle: CycleInfo, parts: Sequence[_Part]) -> CycleFlow:
    tally = Tally(cycle.started)
    sections, error = yield from _build_observed(cycle, tally, parts)
    if not sections and error is not None:
        yield cycle.end("buffering-failed", tally, error=str(error))
        return
    yield cycle.end("buffering-end", tally, **_collect_told(sections))


def _split_parts(settings: Settings, threads: Sequence[OtherThread]) -> list[_Part]:
    counts = count_to_observe(threads, settings.thresholds.others_tokens)
    return [(each, counts[each.thread_id]) for each in threads if counts[each.thread_id]]


def _run_cycle(
    settings: Settings,
    record: MemoryRecord,
    parts: Sequence[_Part],
    started: datetime,
    trigger: Literal["turn", "buffer"],
) -> CycleInfo:
    """Name the cycle by what it reads, so that threads that want the same one share it."""
    names = sorted(
        f"{thread.thread_id}:{find_newest_observed({'cursor': thread.cursor})}:"
        f"{digest_entries(thread.entries[:count])}"
        for thread, count in parts
    )
    attempt = count_failures(record, "others")
    cycle_id = derive_id("observe-others", record["resource_id"], attempt, *names)
    tokens = sum(entry.tokens for thread, count in parts for entry in thread.entries[:count])
    return CycleInfo(settings, record, "others", cycle_id, tokens, started, trigger)


def _build_observed(
    cycle: CycleInfo, tally: Tally, parts: Sequence[_Part]
) -> Generator[Step, Answer, tuple[list[dict[str, Any]], ObserverError | None]]:
    """Ask about all batches at once.

    Returns:
        What to put into the shared log, and an error if a batch failed.
    """
    most = cycle.settings.observation.max_tokens_per_batch
    asked = split_batches(parts, most)
    outcomes: Any = yield Together([_observe_batch(cycle, batch) for batch in asked])
    sections: list[dict[str, Any]] = []
    error: ObserverError | None = None
    for batch, outcome in zip(asked, outcomes, strict=True):
        answers, spent, wrong = outcome
        tally.add(spent)
        error = error or wrong
        sections += [
            _build_section(cycle, thread, count, answers[thread.thread_id], spent)
            for thread, count in batch
            if thread.thread_id in answers
        ]
    return sections, error


def _observe_batch(cycle: CycleInfo, batch: Sequence[_Part]) -> Generator[Step, Answer, _Outcome]:
    tally = Tally(cycle.started)
    try:
        answers = yield from ask_observer_of_threads(cycle, tally, batch)
    except ObserverError as error:
        return {}, tally, error
    return answers, tally, None


def _build_section(
    cycle: CycleInfo, thread: OtherThread, count: int, parsed: Parsed, tally: Tally
) -> dict[str, Any]:
    """Write what was observed of one thread as a change of the shared log."""
    entries = thread.entries[:count]
    group: Group = {
        "id": derive_id("section", cycle.cycle_id, thread.thread_id),
        "kind": "observation",
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": thread.thread_id,
        "observed_at": iso(tally.at),
        "text": parsed.observations,
        "tokens": cycle.settings.counter.count_text(parsed.observations),
    }
    cursor = [*thread.cursor, *(entry.key for entry in entries)][-CURSOR_TAIL:]
    return {
        "thread_id": thread.thread_id,
        "after": find_newest_observed({"cursor": thread.cursor}),
        "cursor": cursor,
        "groups": [group],
        "hints": select_hints(cycle.settings, parsed),
    }


def _collect_told(sections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    groups = [group for section in sections for group in section["groups"]]
    return {
        "sections": list(sections),
        "observation_tokens": sum(group["tokens"] for group in groups),
        "observations": write_log(groups),
    }


def _collect_titles(
    cycle: CycleInfo,
    tally: Tally,
    threads: Sequence[OtherThread],
    sections: Sequence[dict[str, Any]],
) -> CycleFlow:
    """Say which threads have a new title."""
    former = {thread.thread_id: thread.title for thread in threads}
    for section in sections:
        old, new = former[section["thread_id"]], section["hints"]["thread_title"]
        if new is not None and new != old:
            event = cycle.event("thread-update", tally.at, old_title=old, new_title=new)
            yield {**event, "thread_id": section["thread_id"]}


def ask_observer_of_threads(
    cycle: CycleInfo, tally: Tally, threads: Sequence[tuple[OtherThread, int]]
) -> Generator[Step, Answer, dict[str, Parsed]]:
    """Have the oldest messages of several other threads observed, in one question.

    Args:
        cycle: The cycle.
        tally: Where its costs are noted.
        threads: Each with the number of messages to observe.

    Returns:
        By thread id, what the Observer answered; a thread that is missing is not observed.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    settings, found = cycle.settings, dict[str, Parsed]()
    inputs: list[ThreadInput] = []
    for thread, count in threads:
        own, entries = _fit_input(cycle, thread), thread.entries[:count]
        timed = [
            TimedMessage(entry.message, time)
            for entry, time in zip(entries, thread.times, strict=False)
        ]
        shown = yield from pass_through_hook(own, entries, timed)
        if not shown:
            found[thread.thread_id] = Parsed("none")
            continue
        transcript = write_transcript(settings, shown)
        inputs.append(
            ThreadInput(
                thread.thread_id,
                settings.show_id(thread.thread_id),
                transcript.text,
                title=thread.hints.get("thread_title"),
                hints=thread.hints,
                attachments=selected(
                    transcript.attachments, setting=settings.observation.observe_attachments
                ),
            )
        )
    answers = yield from tally.metered(
        observe_threads(_build_threads_input(cycle, inputs)), cycle.about()
    )
    for thread, _ in threads:
        if thread.thread_id in answers:
            own, parsed = _fit_input(cycle, thread), answers[thread.thread_id]
            found[thread.thread_id] = yield from check_input(own, parsed)
    return found


def _fit_input(cycle: CycleInfo, thread: OtherThread) -> CycleInfo:
    """Return the cycle as a hook is told of it that sees one thread's texts."""
    record = cast("MemoryRecord", {**cycle.record, "thread_id": thread.thread_id, "stamps": {}})
    return replace(cycle, record=record)


def _build_threads_input(cycle: CycleInfo, inputs: Sequence[ThreadInput]) -> ThreadsInput:
    settings = cycle.settings
    observation = settings.observation
    return ThreadsInput(
        inputs,
        previous=select_previous_sections(
            cycle.record["log"],
            observation.previous_observer_tokens,
            settings.counter,
            settings.show_id,
            first=[each.thread_id for each in inputs],
        ),
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
        by_profile=observation.observe_attachments == "auto",
    )
