"""The blocking cycles: observation and reflection while the turn waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.attachments import selected
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import (
    CycleInfo,
    Job,
    build_failed,
    build_job,
    build_title_change,
    select_hints,
)
from langgraph_om.core.cycles.hooks import check_input, pass_through_hook, write_transcripts
from langgraph_om.core.cycles.long_transcript import merge_answers
from langgraph_om.core.effects import EffectFlow, ReadTally
from langgraph_om.core.events import iso
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.observer import ObserverInput, observe
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import TimedMessage, Transcript
from langgraph_om.core.record.chunks import count_covered, digest_entries, select_live_chunks
from langgraph_om.core.record.record import count_failures, find_groups, find_newest_observed
from langgraph_om.core.record.window import Entry, Window
from langgraph_om.core.wire import Event, Group, MemoryRecord
from langgraph_om.errors import ObserverError

# --- Observation ---------------------------------------------------------------------------------


def observe_cycle(
    settings: Settings, record: MemoryRecord, window: Window, count: int, started: datetime
) -> EffectFlow[None]:
    """Observe the window's oldest messages while the turn waits.

    Args:
        settings: The settings in force.
        record: The memory of the thread.
        window: Its unobserved messages.
        count: How many of them to observe; 1 or more.
        started: The current time.
    """
    entries = window.entries[:count]
    after = find_newest_observed(record)
    attempt = count_failures(record, "observation")
    parts = [f"{entry.key}:{entry.digest}" for entry in entries]
    cycle_id = derive_id("observe", record["id"], after, attempt, *parts)
    tokens = window.weight(0, count)
    cycle = CycleInfo(settings, record, "observation", cycle_id, tokens, started)
    yield cycle.start("observation-start")
    try:
        parsed, left_out = yield from ask_observer(
            cycle, entries, known=record["log"], hints=record
        )
    except ObserverError as error:
        tally = yield ReadTally()
        yield from build_failed(cycle, tally, error, window.tokens, window.last_key)
        return
    tally = yield ReadTally()
    at = cycle.last_reply(tally)
    text = parsed.observations
    written = settings.counter.count_text(text)
    group: Group = {
        "id": cycle_id,
        "kind": "observation",
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": record["thread_id"],
        "observed_at": iso(at),
        "text": text,
        "tokens": written,
    }
    yield cycle.end(
        "observation-end",
        tally,
        after=after,
        cursor=window.cursor_after(count),
        group=group,
        observation_tokens=written,
        observations=text,
        **tell_left_out(left_out),
        **select_hints(settings, parsed),
    )
    yield from build_title_change(cycle, at, parsed.thread_title)


class Observed(NamedTuple):
    """What came of asking the Observer about messages."""

    parsed: Parsed
    left_out_tokens: int = 0
    """About how many of their tokens no question had room for."""


def ask_observer(
    cycle: CycleInfo,
    entries: Sequence[Entry],
    *,
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[Observed]:
    """Have messages observed, in one question or in as many as it takes to show all of them.

    Args:
        cycle: The cycle.
        entries: The messages to observe.
        known: The observations that it shall not repeat.
        hints: Where the continuation hints stand.

    Returns:
        What the Observer answered, `ok` or `none`, and how much it was not shown.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    shown = yield from _time_entries(cycle, entries)
    if not shown:  # a hook left nothing of them: they are observed, and hold nothing worth noting
        return Observed(Parsed("none"))
    split = write_transcripts(cycle, shown)
    try:
        parsed = yield from _ask_part_by_part(cycle, split.parts, known, hints)
    except ObserverError as error:
        if "after_observation" in cycle.settings.transforms:
            error.observations = ""  # no hook has seen what there is of an answer
        raise
    return Observed((yield from check_input(cycle, parsed)), split.left_out_tokens)


def _ask_part_by_part(
    cycle: CycleInfo,
    parts: Sequence[Transcript],
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[Parsed]:
    """Ask about one part after the other; each question knows what came of those before."""
    answers: list[Parsed] = []
    for transcript in parts:
        groups = [*known, *(_note_answer(cycle, answer) for answer in answers)]
        newest = merge_hints(hints, [asdict(answer) for answer in answers])
        request = _build_observer_input(cycle, transcript, groups, newest)
        answers.append((yield from observe(request)))
    return merge_answers(answers)


def _note_answer(cycle: CycleInfo, answer: Parsed) -> Group:
    """Return an answer as the next question is shown it."""
    text = answer.observations
    tokens = cycle.settings.counter.count_text(text)
    return cast("Group", {"text": text, "tokens": tokens})


def tell_left_out(tokens: int) -> dict[str, int]:
    """Return the field that tells how much no question had room for; none when all was shown."""
    return {"left_out_tokens": tokens} if tokens else {}


def _time_entries(cycle: CycleInfo, entries: Sequence[Entry]) -> EffectFlow[list[TimedMessage]]:
    """Return the messages as the Observer is shown them, with their times."""
    settings, stamps = cycle.settings, cycle.record["stamps"]
    timed = [
        TimedMessage(entry.message, settings.time_of(entry.key, entry.message, stamps))
        for entry in entries
    ]
    return (yield from pass_through_hook(cycle, entries, timed))


def _build_observer_input(
    cycle: CycleInfo,
    transcript: Transcript,
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> ObserverInput:
    settings = cycle.settings
    observation = settings.observation
    wanted = observation.observe_attachments
    return ObserverInput(
        transcript=transcript.text,
        attachments=selected(transcript.attachments, setting=wanted),
        by_profile=wanted == "auto",
        previous=select_previous(known, observation.previous_observer_tokens, settings.counter),
        hints={
            "current_task": hints["current_task"],
            "suggested_response": hints["suggested_response"],
            "thread_title": cycle.record["thread_title"] if observation.thread_title else None,
        },
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
    )


def describe_observation_job(
    settings: Settings, record: MemoryRecord, window: Window, stop: int, now: datetime
) -> Job:
    """Describe the job that observes the window up to `stop`, behind its live chunks."""
    live = select_live_chunks(record, window)
    start = count_covered(live)
    entries = window.entries[start:stop]
    digest = digest_entries(entries)
    cycle_id = derive_id("buffer", record["id"], count_failures(record, "observation"), digest)
    tokens = window.weight(start, stop)
    cycle = CycleInfo(settings, record, "observation", cycle_id, tokens, now, "buffer")
    covers = {"ids": [entry.key for entry in entries], "digest": digest}
    return build_job(cycle, covers, _observe_ahead(cycle, entries, digest, [p.chunk for p in live]))


# --- The work ------------------------------------------------------------------------------------


def _observe_ahead(
    cycle: CycleInfo,
    entries: Sequence[Entry],
    digest: str,
    chunks: Sequence[Mapping[str, Any]],
) -> EffectFlow[Event]:
    settings, record = cycle.settings, cycle.record
    known = [*_apply_reflection(record), *map(build_group, chunks)]
    hints = merge_hints(record, chunks)
    try:
        parsed, left_out = yield from ask_observer(cycle, entries, known=known, hints=hints)
    except ObserverError as error:
        partial = error.observations or None
        tally = yield ReadTally()
        return cycle.end("buffering-failed", tally, error=str(error), observations=partial)
    tally = yield ReadTally()
    text = parsed.observations
    tokens = settings.counter.count_text(text)
    chunk = {
        "id": cycle.cycle_id,
        "cycle_id": cycle.cycle_id,
        "ranges": [[entries[0].key, entries[-1].key]],
        "thread_id": record["thread_id"],
        "message_count": len(entries),
        "message_tokens": cycle.tokens,
        "text": text,
        "tokens": tokens,
        "digest": digest,
        **select_hints(settings, parsed),
        "created_at": iso(cycle.last_reply(tally)),
    }
    return cycle.end(
        "buffering-end",
        tally,
        chunk=chunk,
        observation_tokens=tokens,
        observations=text,
        **tell_left_out(left_out),
    )


def _apply_reflection(record: MemoryRecord) -> Sequence[Group]:
    """Return the log with a buffered reflection in the place of the groups it read."""
    buffered = record["reflection"]
    if buffered is None:
        return record["log"]
    start = find_groups(record["log"], buffered["group_ids"])
    if start is None:
        return record["log"]
    stop = start + len(buffered["group_ids"])
    return [*record["log"][:start], *buffered["groups"], *record["log"][stop:]]


def build_group(chunk: Mapping[str, Any]) -> Group:
    """Return what a chunk becomes in the log."""
    return {
        "id": chunk["id"],
        "kind": "observation",
        "ranges": chunk["ranges"],
        "thread_id": chunk["thread_id"],
        "observed_at": chunk["created_at"],
        "text": chunk["text"],
        "tokens": chunk["tokens"],
    }


def merge_hints(record: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the newest hints: those of the newest chunk that has them, else the record's."""
    hints = {}
    for name in ("current_task", "suggested_response"):
        said = [chunk[name] for chunk in chunks if chunk[name] is not None]
        hints[name] = said[-1] if said else record.get(name)
    return hints
