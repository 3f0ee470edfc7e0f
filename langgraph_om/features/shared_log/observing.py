"""Messages of other threads of a resource are observed, batch beside batch.

What comes of the cycles is put into the shared log as it fits there by then, so nothing has to be
judged here when it is collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import (
    Cycle,
    CycleInfo,
    Mode,
    guard,
    run_blocking,
    select_hints,
    tell_left_out,
    waive,
)
from langgraph_om.core.cycles.observation import (
    apply_reflection,
    build_groups,
    find_previous_tokens,
    merge_hints,
)
from langgraph_om.core.cycles.questions import (
    announce_found,
    ask_for_values,
    join_found,
    merge_answers,
    rewrite_answer,
    show_messages,
    split_further,
    tell_found,
)
from langgraph_om.core.cycles.standing import keep_marked
from langgraph_om.core.effects import AskModel, EffectFlow, ReadTally, Tally, Together
from langgraph_om.core.events import iso
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.observe.standing import UserMessage, list_held
from langgraph_om.core.observe.transcript import Transcript, says_much
from langgraph_om.core.record.outbox import count_others
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    count_failures,
    find_newest_observed,
    write_log,
)
from langgraph_om.core.record.standing import select_log
from langgraph_om.core.record.window import Window, digest_entries
from langgraph_om.core.wire import (
    OTHERS,
    CycleEnded,
    Found,
    Group,
    MemoryRecord,
    OthersEnd,
    Section,
)
from langgraph_om.errors import ObserverError
from langgraph_om.features.shared_log.sections import (
    ThreadInput,
    ThreadsInput,
    build_threads_question,
    observe_threads,
    select_previous_sections,
)
from langgraph_om.features.shared_log.threads import (
    OtherThread,
    claim_log,
    count_in_others,
    read_other_threads_if_possible,
    release_log,
    split_batches,
)

# Ask the Observer: in one question, or in rounds where one is too short. A thread counts as
# observed only when all of what was to be observed of it was shown and answered.


_Batch = Sequence[tuple[OtherThread, int]]
"""Threads of one question, each with the number of its oldest messages to observe."""


class _BatchAnswer(NamedTuple):
    """What came of one batch."""

    answers: dict[str, ParsedAnswer]
    """By thread id; a thread that is missing is not observed."""
    tally: Tally
    found: Found
    """The entries of features about the answers."""
    error: ObserverError | None = None
    left_out_tokens: int = 0
    """About how many tokens no question had room for."""
    cited: Mapping[str, Mapping[int, UserMessage]] = MappingProxyType({})
    """The messages of the user that were shown with numbers, by thread id."""


def ask_observer_of_threads(cycle: CycleInfo, batch: _Batch) -> EffectFlow[_BatchAnswer]:
    """Have the oldest messages of several other threads observed."""
    found: dict[str, ParsedAnswer] = {}
    left_out: dict[str, int] = {}
    cited: dict[str, Mapping[int, UserMessage]] = {}
    inputs: list[list[ThreadInput]] = []
    hints = cycle.settings.hints
    for thread, count in batch:
        own = _view_thread(cycle, thread)
        shown = yield from show_messages(own, thread.entries[:count], thread.times)
        if shown is None:
            found[thread.thread_id] = ParsedAnswer("none")
            continue
        left_out[thread.thread_id] = shown.left_out_tokens
        cited[thread.thread_id] = shown.cited
        about = ThreadInput(
            thread.thread_id,
            cycle.settings.show_id(thread.thread_id),
            "",
            {name: thread.hints.get(name) for name in hints},
        )
        inputs.append(
            [
                replace(about, transcript=part.text, attachments=part.attachments)
                for part in shown.parts
            ]
        )
    answers, asked, further = yield from _ask_in_rounds(cycle, inputs)
    for thread, _ in batch:
        if thread.thread_id in answers:
            own, parsed = _view_thread(cycle, thread), answers[thread.thread_id]
            found[thread.thread_id] = yield from rewrite_answer(own, parsed)
    noted = "\n\n".join(parsed.observations for parsed in found.values()).strip()
    noticed: Found = {}
    if asked is not None and noted:
        noticed = yield from ask_for_values(cycle, asked, noted)
    tokens = further + sum(left_out[thread_id] for thread_id in answers)
    return _BatchAnswer(found, (yield ReadTally()), noticed, left_out_tokens=tokens, cited=cited)


def _ask_in_rounds(
    cycle: CycleInfo, threads: Sequence[Sequence[ThreadInput]]
) -> EffectFlow[tuple[dict[str, ParsedAnswer], AskModel | None, int]]:
    """Ask about the first part of each thread, then about the second ones, and so on.

    A question that is refused for its length is divided.

    Returns:
        The answers by thread id, the last question, and about how many tokens no question had
        room for.
    """
    rounds = [[*filter(None, parts)] for parts in zip_longest(*threads)]
    waiting: list[Sequence[ThreadInput]] = [*reversed(rounds)]
    lost: set[str] = set()
    said: dict[str, list[ParsedAnswer]] = {}
    failure: ObserverError | None = None
    question: AskModel | None = None
    room = left_out = 0
    count = cycle.settings.counter.count_text
    while waiting:
        asked = [_carry_on(part, said) for part in waiting.pop() if part.thread_id not in lost]
        if not asked:
            continue
        latest = _build_threads_input(cycle, asked, said, room)
        question = build_threads_question(latest)
        much = [own.shown_id for own in asked if says_much(own.transcript, count)]
        try:
            answers = yield from observe_threads(latest, much)
        except ObserverError as error:
            room = min(room or error.room, error.room)
            parts, skipped = _divide(cycle, asked, question, error.room)
            waiting += reversed(parts or [asked])
            left_out += skipped
            if parts:
                continue
            failure = error
            break
        for thread_id, parsed in answers.items():
            said.setdefault(thread_id, []).append(parsed)
        lost |= {part.thread_id for part in asked if part.thread_id not in answers}
    lost |= {part.thread_id for parts in waiting for part in parts}
    whole = {key: merge_answers(own) for key, own in said.items() if key not in lost}
    if failure is not None and not whole:
        raise failure
    return whole, question, left_out


def _carry_on(part: ThreadInput, said: Mapping[str, Sequence[ParsedAnswer]]) -> ThreadInput:
    """Return a part of a thread with the hints that were stated of those before it."""
    before = said.get(part.thread_id, ())
    hints = merge_hints(part.hints, (answer.hints for answer in before))
    return replace(part, hints={name: hints[name] for name in part.hints})


def _divide(
    cycle: CycleInfo, asked: Sequence[ThreadInput], question: AskModel, room: int
) -> tuple[list[Sequence[ThreadInput]], int]:
    """Divide what was refused for its length by its threads, or the text of a single one.

    Returns:
        What to ask about instead, nothing where that is no use, and about how many tokens are left
        out of it.
    """
    if not room:
        return [], 0
    if len(asked) > 1:
        half = len(asked) // 2
        return [asked[:half], asked[half:]], 0
    transcript = Transcript(asked[0].transcript, asked[0].attachments)
    split = split_further(transcript, question, room, cycle.settings.counter)
    if split is None:
        return [], 0
    parts = [replace(asked[0], transcript=p.text, attachments=p.attachments) for p in split.parts]
    return [[part] for part in parts], split.left_out_tokens


def _view_thread(cycle: CycleInfo, thread: OtherThread) -> CycleInfo:
    """Return the cycle as a hook is told of it that sees one thread's texts."""
    record: MemoryRecord = {**cycle.record, "thread_id": thread.thread_id, "stamps": {}}
    return replace(cycle, record=record)


def _build_threads_input(
    cycle: CycleInfo,
    inputs: Sequence[ThreadInput],
    said: Mapping[str, Sequence[ParsedAnswer]],
    room: int,
) -> ThreadsInput:
    settings = cycle.settings
    log = apply_reflection(cycle.record)
    observation = settings.observation
    count = settings.counter.count_text
    noted = [
        cast("Group", {"thread_id": thread_id, "text": text, "tokens": count(text)})
        for thread_id, answers in said.items()
        for text in [answer.observations for answer in answers]
    ]
    return ThreadsInput(
        inputs,
        previous=select_previous_sections(
            [*select_log(log), *noted],
            find_previous_tokens(cycle, room),
            settings.counter,
            settings.show_id,
            first=[own.thread_id for own in inputs],
            about="\n".join(own.transcript for own in inputs),
        ),
        instruction=observation.instruction,
        asked=settings.hints,
        held=list_held(log),
        timezone=settings.timezone,
    )


def observe_others_cycle(
    settings: Settings, record: MemoryRecord, window: Window, now: datetime
) -> EffectFlow[None]:
    """Observe other threads while the turn waits; once in a turn, and one thread at a time."""
    found = yield from _begin(settings, record, window, now, mode="blocking")
    if found is not None:
        cycle, threads = found
        size = count_others(record)
        end = yield from run_blocking(cycle, size, window.last_key)
        if end is not None:
            tally: Tally = yield ReadTally()
            ended = cast("OthersEnd", cast("object", end))
            at = cycle.info.last_reply(tally)
            yield from _announce_hints(cycle.info, at, threads, ended["sections"])
            yield from announce_found(cycle.info, at, ended)
    yield waive(window, OTHERS)


def begin_others_ahead(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    now: datetime,
    *,
    cycle_id: str | None = None,
) -> EffectFlow[Cycle | None]:
    """Describe the job that observes other threads; `None` when another thread is at it.

    With a `cycle_id` it is one that was asked for, and is done with how the threads are by now.
    """
    found = yield from _begin(settings, record, window, now, mode="ahead", cycle_id=cycle_id)
    return None if found is None else found[0]


def _begin(
    settings: Settings,
    record: MemoryRecord,
    window: Window,
    now: datetime,
    *,
    mode: Mode,
    cycle_id: str | None = None,
) -> EffectFlow[tuple[Cycle, Sequence[OtherThread]] | None]:
    """Become the one that observes, and describe the cycle from how the threads are by then.

    It is named by what it reads, so that threads that want the same one share it.
    """
    if not (yield from claim_log(record, OTHERS, mode)):
        return None
    threads = yield from read_other_threads_if_possible(settings, record)
    counts = count_in_others(settings, record, threads, now)
    wanted = [(thread, counts[thread.thread_id]) for thread in threads if counts[thread.thread_id]]
    batches = split_batches(wanted, settings.observation.max_tokens_per_batch)
    parts = [part for batch in batches for part in batch]
    if not parts:
        yield from release_log(record, OTHERS)
        return None
    names = sorted(
        f"{thread.thread_id}:{find_newest_observed({'cursor': thread.cursor})}:"
        f"{digest_entries(thread.entries[:count])}"
        for thread, count in parts
    )
    attempt = count_failures(record, OTHERS)
    cycle_id = cycle_id or derive_id("observe-others", record["resource_id"], attempt, *names)
    tokens = sum(entry.tokens for thread, count in parts for entry in thread.entries[:count])
    info = CycleInfo(settings, record, OTHERS, cycle_id, tokens, now, mode)
    ids = [thread.thread_id for thread, _ in parts]
    covers = {"covers": {"thread_ids": ids, "turn": window.turn}} if mode == "ahead" else {}
    start = info.start(**covers, thread_ids=ids)
    return Cycle(info, start, _observe_others(info, batches)), threads


def _observe_others(info: CycleInfo, batches: Sequence[_Batch]) -> EffectFlow[CycleEnded]:
    """Ask about all batches at once; what is written goes to the shared log."""
    asked: list[_BatchAnswer] = yield Together([_observe_batch(info, batch) for batch in batches])
    sections: list[Section] = []
    noticed = [answered.found for answered in asked]
    for batch, answered in zip(batches, asked, strict=True):
        for thread, count in batch:
            parsed = answered.answers.get(thread.thread_id)
            if parsed is None:
                continue
            section = _build_section(info, thread, count, parsed, answered.tally)
            former = (group for own in sections for group in own["groups"])
            known = [*apply_reflection(info.record), *former]
            cited = answered.cited.get(thread.thread_id, {})
            own = _view_thread(info, thread)
            section["groups"], found = yield from keep_marked(own, section["groups"], known, cited)
            noticed.append(found)
            sections.append(section)
    if not sections:
        for answered in asked:
            if answered.error is not None:
                raise answered.error
        yield from release_log(info.record, OTHERS)
    tally: Tally = yield ReadTally()
    groups = [group for section in sections for group in section["groups"]]
    return info.end(
        tally,
        sections=sections,
        observation_tokens=sum(group["tokens"] for group in groups),
        observations=write_log(groups),
        **tell_left_out(sum(answered.left_out_tokens for answered in asked)),
        **tell_found(join_found(noticed)),
    )


def _observe_batch(cycle: CycleInfo, batch: _Batch) -> EffectFlow[_BatchAnswer]:
    try:
        return (yield from guard(cycle, ask_observer_of_threads(cycle, batch)))
    except ObserverError as error:
        return _BatchAnswer({}, (yield ReadTally()), {}, error)


def _build_section(
    cycle: CycleInfo, thread: OtherThread, count: int, parsed: ParsedAnswer, tally: Tally
) -> Section:
    """Write what was observed of one thread as a change of the shared log."""
    entries = thread.entries[:count]
    first_id = derive_id("section", cycle.cycle_id, thread.thread_id)
    at = iso(cycle.last_reply(tally))
    groups = build_groups(
        cycle,
        entries,
        thread.times[:count],
        parsed.observations,
        first_id=first_id,
        thread_id=thread.thread_id,
        at=at,
    )
    cursor = [*thread.cursor, *(entry.key for entry in entries)][-CURSOR_TAIL:]
    return {
        "thread_id": thread.thread_id,
        "after": find_newest_observed({"cursor": thread.cursor}),
        "cursor": cursor,
        "groups": groups,
        "hints": select_hints(cycle.settings, parsed),
    }


def _announce_hints(
    info: CycleInfo, at: datetime, threads: Sequence[OtherThread], sections: Sequence[Section]
) -> EffectFlow[None]:
    """Tell of new titles of other threads."""
    former = {thread.thread_id: thread for thread in threads}
    titles = info.settings.parts.titles
    if titles is None:
        return
    for section in sections:
        thread = former[section["thread_id"]]
        own, hints = _view_thread(info, thread), section["hints"]
        yield from titles.announce_of_other(own, at, hints, label=thread.title, fixed=thread.fixed)
