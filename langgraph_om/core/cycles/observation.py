"""Observation: messages of the thread become dated notes, while the turn waits or ahead of need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import resolve_previous_tokens
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import (
    Cycle,
    CycleInfo,
    Mode,
    announce_title,
    run_blocking,
    select_hints,
    tell_left_out,
)
from langgraph_om.core.cycles.days import Noted, build_groups
from langgraph_om.core.cycles.extraction.values import announce_extracted, extract_values
from langgraph_om.core.cycles.hooks import rewrite_answer, show_messages
from langgraph_om.core.cycles.long_transcript import merge_answers
from langgraph_om.core.effects import AskModel, EffectFlow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.observer import ObserverInput, ask_about_thread, build_question
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import Transcript
from langgraph_om.core.record.chunks import count_covered, digest_entries, select_live_chunks
from langgraph_om.core.record.record import CURSOR_TAIL, count_failures, find_newest_observed
from langgraph_om.core.record.reflections import place_reflection, replace_groups
from langgraph_om.core.record.span import Entry
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import (
    Chunk,
    CycleEnded,
    Group,
    MemoryRecord,
    Moved,
    ObservationEnd,
)
from langgraph_om.errors import ObserverError


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
    cycle = describe_observation(settings, record, window, count, started, mode="blocking")
    end = yield from run_blocking(cycle, window.tokens, window.last_key)
    if end is not None:
        tally: Tally = yield ReadTally()
        ended, at = cast("ObservationEnd", end), cycle.info.last_reply(tally)
        yield from announce_title(cycle.info, at, ended["thread_title"])
        yield from announce_extracted(cycle.info, at, ended)


def describe_observation(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    stop: int,
    now: datetime,
    *,
    mode: Mode,
) -> Cycle:
    """Describe the cycle that observes the window up to `stop`; ahead, behind its live chunks."""
    live = select_live_chunks(record, window) if mode == "ahead" else []
    start = count_covered(live)
    entries = window.entries[start:stop]
    attempt = count_failures(record, "observation")
    if mode == "ahead":
        digest = digest_entries(entries)
        cycle_id = derive_id("buffer", record["id"], attempt, digest)
        fields = {"covers": {"ids": [entry.key for entry in entries], "digest": digest}}
    else:
        parts = [f"{entry.key}:{entry.digest}" for entry in entries]
        after = find_newest_observed(record)
        cycle_id, fields = derive_id("observe", record["id"], after, attempt, *parts), {}
    tokens = window.weight(start, stop)
    info = CycleInfo(settings, record, "observation", cycle_id, tokens, now, mode)
    times = _read_times(info, window, stop)[start:stop]
    work = _observe(
        info, entries, times, [part.chunk for part in live], describe_move(info, window, stop)
    )
    return Cycle(info, info.start(**fields), work)


def _observe(
    info: CycleInfo,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
    chunks: Sequence[Chunk],
    moved: Moved,
) -> EffectFlow[CycleEnded]:
    """Have messages observed; what is written goes to the log, or is kept until it is needed.

    Args:
        info: The cycle.
        entries: The messages.
        times: When they were written.
        chunks: What was observed ahead of the messages before them.
        moved: How far the conversation is observed then.
    """
    settings, record = info.settings, info.record
    is_ahead = info.mode == "ahead"
    ahead = [group for chunk in chunks for group in chunk["groups"]]
    known = [*_apply_reflection(record), *ahead] if is_ahead else record["log"]
    parsed, left_out, asked = yield from ask_observer(
        info, entries, times, known=known, hints=merge_hints(record, chunks)
    )
    values: dict[str, Any] = {}
    if asked is not None and parsed.status == "ok":
        values = yield from extract_values(info, asked, parsed.observations, chunks)
    tally: Tally = yield ReadTally()
    at = iso(info.last_reply(tally))
    noted = Noted(info.cycle_id, record["thread_id"], parsed.observations, at)
    groups = build_groups(info, noted, entries, times)
    tokens = sum(group["tokens"] for group in groups)
    hints = select_hints(settings, parsed)
    written = {
        "observation_tokens": tokens,
        "observations": parsed.observations,
        **tell_left_out(left_out),
        **({} if is_ahead else values),
    }
    if not is_ahead:
        return info.end(tally, groups=groups, **moved, **written, **hints)
    chunk = {**_describe_chunk(info, entries, groups), **hints, "created_at": at, **values}
    return info.end(tally, chunk=chunk, **written)


def _describe_chunk(
    info: CycleInfo, entries: Sequence[Entry], groups: Sequence[Group]
) -> dict[str, Any]:
    """Say what a chunk holds, and of which messages."""
    return {
        "id": info.cycle_id,
        "cycle_id": info.cycle_id,
        "groups": groups,
        "tokens": sum(group["tokens"] for group in groups),
        "message_count": len(entries),
        "message_tokens": info.tokens,
        "digest": digest_entries(entries),
    }


class Observed(NamedTuple):
    """What came of asking the Observer about messages."""

    parsed: Parsed
    left_out_tokens: int = 0
    """About how many of their tokens no question had room for."""
    asked: AskModel | None = None
    """What was asked last."""


def ask_observer(
    info: CycleInfo,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
    *,
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[Observed]:
    """Have messages observed, in one question or in as many as it takes to show all of them.

    Args:
        info: The cycle.
        entries: The messages to observe.
        times: When they were written.
        known: The observations that it shall not repeat.
        hints: Where the continuation hints stand.

    Returns:
        What the Observer answered, `ok` or `none`, and how much it was not shown.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    settings = info.settings
    shown = yield from show_messages(info, entries, times)
    if shown is None:  # they are observed, and hold nothing worth noting
        return Observed(Parsed("none"))
    try:
        parsed, asked = yield from _ask_part_by_part(info, shown.parts, known, hints)
    except ObserverError as error:
        if "after_observation" in settings.transforms:
            error.observations = ""  # no hook has seen what there is of an answer
        raise
    return Observed((yield from rewrite_answer(info, parsed)), shown.left_out_tokens, asked)


def _ask_part_by_part(
    info: CycleInfo,
    parts: Sequence[Transcript],
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[tuple[Parsed, AskModel | None]]:
    """Ask about one part after the other; each question knows what came of those before."""
    answers: list[Parsed] = []
    question: AskModel | None = None
    for transcript in parts:
        groups = [*known, *(_note_answer(info, answer) for answer in answers)]
        newest = merge_hints(hints, [asdict(answer) for answer in answers])
        question = build_question(_build_observer_input(info, transcript, groups, newest))
        answers.append((yield from ask_about_thread(question)))
    return merge_answers(answers), question


def _note_answer(info: CycleInfo, answer: Parsed) -> Group:
    """Return an answer as the next question is shown it."""
    text = answer.observations
    return cast("Group", {"text": text, "tokens": info.settings.counter.count_text(text)})


def describe_move(info: CycleInfo, window: Window, stop: int) -> Moved:
    """Return how far a conversation is observed once its window is up to `stop`."""
    moved: Moved = {
        "after": find_newest_observed(info.record),
        "cursor": window.cursor_after(stop),
    }
    strays = window.strays
    if strays.messages:
        moved["before"] = strays.before
        moved["strays"] = [key for key, _ in strays.messages[stop:]]
    return moved


def _read_times(info: CycleInfo, window: Window, stop: int) -> list[datetime | None]:
    """Return when the messages of the window up to `stop` were written, as neighbours tell it too.

    These are as many on either side as a cursor names: a look at all that follows would make an
    adoption cost the square of its length. Strays have other neighbours than the rest of the
    window: then only theirs are returned.
    """
    strays, stamps = window.strays, info.record["stamps"]
    if strays.messages:
        keyed = [*strays.earlier, *strays.messages[: strays.run], *strays.later]
        return info.settings.times_of(keyed, stamps)[len(strays.earlier) :]
    entries = window.entries[: stop + CURSOR_TAIL]
    keyed = [*window.observed, *((entry.key, entry.message) for entry in entries)]
    return info.settings.times_of(keyed, stamps)[len(window.observed) :]


def _build_observer_input(
    info: CycleInfo, shown: Transcript, known: Sequence[Group], hints: Mapping[str, Any]
) -> ObserverInput:
    observation = info.settings.observation
    return ObserverInput(
        transcript=shown.text,
        attachments=shown.attachments,
        by_profile=observation.observe_attachments == "auto",
        previous=select_previous(
            known, resolve_previous_tokens(observation), info.settings.counter
        ),
        hints={
            "current_task": hints["current_task"],
            "suggested_response": hints["suggested_response"],
            "thread_title": info.record["thread_title"] if observation.thread_title else None,
        },
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
        states_hints=info.settings.continuation_hints,
    )


def _apply_reflection(record: MemoryRecord) -> Sequence[Group]:
    """Return the log with a buffered reflection in the place of the groups it read."""
    buffered = record["reflection"]
    if buffered is None:
        return record["log"]
    log = record["log"]
    placed = place_reflection(log, buffered)
    replaced = replace_groups(log, placed.group_ids, placed.groups) if placed is not None else None
    return log if replaced is None else replaced.log


def merge_hints(record: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the newest hints: those of the newest chunk that has them, else the record's."""
    hints = {}
    for name in ("current_task", "suggested_response"):
        said = [chunk[name] for chunk in chunks if chunk[name] is not None]
        hints[name] = said[-1] if said else record.get(name)
    return hints
