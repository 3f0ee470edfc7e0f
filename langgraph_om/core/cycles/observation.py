"""Observation: messages of the thread become dated notes, while the turn waits or ahead of need."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.config.thresholds import resolve_previous_tokens
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import (
    Cycle,
    CycleInfo,
    Mode,
    run_blocking,
    select_hints,
    tell_left_out,
)
from langgraph_om.core.cycles.questions import (
    announce_found,
    ask_for_values,
    join_found,
    merge_answers,
    rewrite_answer,
    rewrite_by_hook,
    show_messages,
    split_further,
    tell_found,
)
from langgraph_om.core.effects import AskModel, EffectFlow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.items import find_spans, replace_spans
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.observe.observer import ObserverInput, build_question, observe
from langgraph_om.core.observe.parse_answer import LOG, ParsedAnswer, parse_output
from langgraph_om.core.observe.standing import (
    Mark,
    UserMessage,
    choose_words,
    drop_marks,
    find_room,
    list_held,
    read_marks,
    select_in_force,
)
from langgraph_om.core.observe.transcript import Transcript, format_day, says_much, to_local
from langgraph_om.core.record.record import (
    CURSOR_TAIL,
    HINTS,
    count_failures,
    find_newest_observed,
    place_reflection,
    replace_groups,
)
from langgraph_om.core.record.standing import (
    MARK,
    STANDING,
    read_group,
    select_log,
    select_standing,
    write_words,
)
from langgraph_om.core.record.users_log import drop_ended, list_kept_elsewhere
from langgraph_om.core.record.window import (
    Entry,
    Window,
    count_covered,
    digest_entries,
    select_live_chunks,
)
from langgraph_om.core.wire import (
    Chunk,
    CycleEnded,
    Found,
    Group,
    Hints,
    MemoryRecord,
    Moved,
    StandingEntry,
)
from langgraph_om.errors import ObserverError

# Split what was observed into days, each with the messages of that day.
#
# Rules of this file:
#
# 1. The transcript says of which day a message is. One without a day belongs to the day in whose
#    section it stands, and so does one that says an earlier day than the messages before it:
#    messages keep their order.
# 2. A section under a date of which there is a message gets the messages from that day up to the
#    next such section; those before the first section belong to it too. So each message belongs
#    to exactly one day.
# 3. What stands under another date joins the section before it, or the first one. So does a date
#    with nothing to note.
# 4. Where days cannot be told apart, all is one day: without dates, with one date, or where a
#    section could not be read by itself.


_BLANK_LINES = re.compile(r"\n{3,}")


def build_groups(
    info: CycleInfo,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
    text: str,
    *,
    first_id: str,
    thread_id: str,
    at: str,
) -> list[Group]:
    """Return a group of the log for each day; the ids of later ones derive from the first."""
    settings = info.settings
    days = split_days(text, times, timezone=settings.timezone)
    return [
        {
            "id": derive_id("day", first_id, number) if number else first_id,
            "kind": "observation",
            "ranges": [[entries[day.start].key, entries[day.stop - 1].key]],
            "thread_id": thread_id,
            "observed_at": at,
            "text": day.text,
            "tokens": settings.counter.count_text(day.text),
        }
        for number, day in enumerate(days)
    ]


@dataclass(frozen=True, slots=True)
class NotesOfDay:
    """What was observed of some messages that follow each other."""

    start: int
    stop: int
    """The messages from `start` up to `stop`."""
    text: str


@dataclass(slots=True)
class _Section:
    day: date
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return _BLANK_LINES.sub("\n\n", "\n".join(self.lines)).strip("\n")

    @property
    def is_empty(self) -> bool:
        return not find_spans(self.text)


def split_days(
    text: str, times: Sequence[datetime | None], *, timezone: tzinfo
) -> Sequence[NotesOfDay]:
    """Return the days of an observation, oldest first; at least one."""
    whole = [NotesOfDay(0, len(times), text)]
    dated = _split_sections(text)
    if len(dated) < 2:  # noqa: PLR2004 two days
        return whole
    days = _date_messages(times, timezone)
    if not days or days[0] == days[-1]:
        return whole
    sections = _join_others(dated, set(days))
    if len(sections) < 2 or not all(map(_is_readable, sections)):  # noqa: PLR2004 two days
        return whole
    begun = [section.day for section in sections]
    places = [max(0, bisect_right(begun, day) - 1) for day in days]
    starts = [places.index(at) for at in range(len(sections))]
    ends = pairwise([*starts, len(times)])
    return [
        NotesOfDay(start, stop, section.text)
        for (start, stop), section in zip(ends, sections, strict=True)
    ]


def _date_messages(times: Sequence[datetime | None], timezone: tzinfo) -> list[date]:
    local = [to_local(time, timezone) for time in times]
    known = [time.date() if time is not None else None for time in local]
    newest = next((day for day in known if day is not None), None)
    if newest is None:
        return []
    days: list[date] = []
    for day in known:
        newest = max(newest, day or newest)
        days.append(newest)
    return days


def _split_sections(text: str) -> list[_Section]:
    """Return what stands under each date, by day; what stands before all dates is of the first."""
    sections: dict[date, _Section] = {}
    before: list[str] = []
    section: _Section | None = None
    for line in text.split("\n"):
        day = observation_date(line)
        if day is None:
            (section.lines if section is not None else before).append(line)
        elif day in sections:
            section = sections[day]
        else:
            section = sections[day] = _Section(day, [*before, line])
            before = []
    return sorted(sections.values(), key=lambda each: each.day)


def _join_others(sections: Sequence[_Section], days: set[date]) -> list[_Section]:
    """Let sections without messages or items join the one before them, or the first one."""
    joined: list[_Section] = []
    early: list[str] = []
    for section in sections:
        if section.day in days and not section.is_empty:
            joined.append(_Section(section.day, [*early, *section.lines]))
            early = []
        else:
            (joined[-1].lines if joined else early).extend(section.lines)
    return joined


def _is_readable(section: _Section) -> bool:
    """Return whether a section alone is read as it was written."""
    parsed = parse_output(f"<{LOG}>\n{section.text}\n</{LOG}>")
    return (parsed.status, parsed.observations) == ("ok", section.text)


def observe_cycle(
    settings: Settings, record: MemoryRecord, window: Window, count: int, started: datetime
) -> EffectFlow[None]:
    """Observe the window's oldest messages while the turn waits."""
    cycle = describe_observation(settings, record, window, count, started, mode="blocking")
    end = yield from run_blocking(cycle, window.tokens, window.last_key)
    if end is not None:
        yield from announce_found(cycle.info, datetime.fromisoformat(end["at"]), end)


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
    chunks, moved = [part.chunk for part in live], describe_move(info, window, stop)
    work = _observe(info, entries, times, chunks, moved, is_edited=window.strays.is_edited)
    return Cycle(info, info.start(**fields), work)


def _observe(
    info: CycleInfo,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
    chunks: Sequence[Chunk],
    moved: Moved,
    *,
    is_edited: bool,
) -> EffectFlow[CycleEnded]:
    """Have messages observed; what is written goes to the log, or is kept until it is needed."""
    record, is_ahead = info.record, info.mode == "ahead"
    ahead = [group for chunk in chunks for group in chunk["groups"]]
    log = drop_ended([*list_kept_elsewhere(record), *apply_reflection(record), *ahead])
    known = select_in_force(log, [chunk.get("found", {}) for chunk in chunks])
    current = merge_hints(record, (chunk["hints"] for chunk in chunks))
    observed = yield from ask_observer(info, entries, times, known=known, hints=current)
    parsed, asked = observed.parsed, observed.asked
    found: Found = {}
    if asked is not None and parsed.status == "ok":
        found = yield from ask_for_values(info, asked, parsed.observations, chunks)
    tally: Tally = yield ReadTally()
    at = iso(info.last_reply(tally))
    text, own = parsed.observations, record["thread_id"]
    groups = build_groups(info, entries, times, text, first_id=info.cycle_id, thread_id=own, at=at)
    if is_edited:  # a range of their own would stand out of order among those of the log
        groups = [{**group, "ranges": [], "sources": group["ranges"]} for group in groups]
    groups, noticed = yield from keep_marked(info, groups, known, observed.cited)
    found = join_found([found, noticed])
    tokens = sum(group["tokens"] for group in groups)
    hints = select_hints(info.settings, parsed)
    written = {
        "observation_tokens": tokens,
        "observations": parsed.observations,
        **tell_left_out(observed.left_out_tokens),
        **({} if is_ahead else tell_found(found)),
    }
    if not is_ahead:
        return info.end(tally, groups=groups, **moved, **written, hints=hints)
    chunk = {
        "id": info.cycle_id,
        "cycle_id": info.cycle_id,
        "groups": groups,
        "tokens": tokens,
        "message_count": len(entries),
        "message_tokens": info.tokens,
        "digest": digest_entries(entries),
        "hints": hints,
        "created_at": at,
        **tell_found(found),
    }
    return info.end(tally, chunk=chunk, **written)


class ObserverOutcome(NamedTuple):
    """What came of asking the Observer about messages."""

    parsed: ParsedAnswer
    left_out_tokens: int = 0
    """About how many of their tokens no question had room for."""
    asked: AskModel | None = None
    """What was asked last."""
    cited: Mapping[int, UserMessage] = MappingProxyType({})
    """The messages of the user that were shown with numbers."""


def ask_observer(
    info: CycleInfo,
    entries: Sequence[Entry],
    times: Sequence[datetime | None],
    *,
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[ObserverOutcome]:
    """Have messages observed, in as many questions as it takes to show all of them."""
    settings = info.settings
    shown = yield from show_messages(info, entries, times)
    if shown is None:  # they are observed, and hold nothing worth noting
        return ObserverOutcome(ParsedAnswer("none"))
    try:
        parsed, asked, left_out = yield from _ask_part_by_part(info, shown.parts, known, hints)
    except ObserverError as error:
        if "after_observation" in settings.transforms:
            error.observations = ""  # no hook has seen what there is of an answer
        raise
    said = yield from rewrite_answer(info, parsed)
    left_out += shown.left_out_tokens
    return ObserverOutcome(said, left_out, asked, shown.cited)


def _ask_part_by_part(
    info: CycleInfo,
    parts: Sequence[Transcript],
    known: Sequence[Group],
    hints: Mapping[str, Any],
) -> EffectFlow[tuple[ParsedAnswer, AskModel | None, int]]:
    """Ask about one part after the other; each question knows what came of those before.

    A part that is refused for its length is split.
    """
    answers: list[ParsedAnswer] = []
    waiting, left_out, room = [*reversed(parts)], 0, 0
    question: AskModel | None = None
    while waiting:
        transcript = waiting.pop()
        groups = [*known, *(_note_answer(info, answer) for answer in answers)]
        newest = merge_hints(hints, (answer.hints for answer in answers))
        question = build_question(_build_observer_input(info, transcript, groups, newest, room))
        try:
            is_much = says_much(transcript.text, info.settings.counter.count_text)
            answer = yield from observe(question, is_much=is_much)
        except ObserverError as error:
            room = min(room or error.room, error.room)
            split = split_further(transcript, question, error.room, info.settings.counter)
            if split is None:
                raise
            waiting += reversed(split.parts)
            left_out += split.left_out_tokens
            continue
        answers.append(answer)
    return merge_answers(answers), question, left_out


def _note_answer(info: CycleInfo, answer: ParsedAnswer) -> Group:
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


def find_previous_tokens(info: CycleInfo, room: int) -> int | Literal[False]:
    """Return how many tokens of earlier observations a question shows; `False` for all."""
    tokens = resolve_previous_tokens(info.settings.observation, info.tokens)
    if not room:
        return tokens
    most = room // _PREVIOUS_SHARE
    return most if tokens is False else min(tokens, most)


_PREVIOUS_SHARE: Final = 8
"""Of a question that was refused for its length, no more than one part in so many."""


def _build_observer_input(
    info: CycleInfo, shown: Transcript, known: Sequence[Group], hints: Mapping[str, Any], room: int
) -> ObserverInput:
    """Return what the Observer is given."""
    observation = info.settings.observation
    return ObserverInput(
        transcript=shown.text,
        timezone=info.settings.timezone,
        attachments=shown.attachments,
        previous=select_previous(
            select_log(known),
            find_previous_tokens(info, room),
            info.settings.counter,
            shown.text,
        ),
        asked=info.settings.hints,
        held=list_held(known),
        hints={name: hints[name] for name in info.settings.hints},
        instruction=observation.instruction,
    )


def apply_reflection(record: MemoryRecord) -> Sequence[Group]:
    """Return the log with a buffered reflection in the place of the groups it read."""
    log, buffered = record["log"], record["reflection"]
    placed = place_reflection(log, buffered) if buffered is not None else None
    replaced = replace_groups(log, *placed) if placed is not None else None
    return log if replaced is None else replaced[0]


def merge_hints(known: Mapping[str, Any], stated: Iterable[Mapping[str, str | None]]) -> Hints:
    """Return the newest of each hint: the known one, where nothing newer states it."""
    merged: Hints = {name: known.get(name) for name in HINTS}
    for hints in stated:
        merged |= {name: hint for name, hint in hints.items() if hint is not None}
    return merged


# --- Standing instructions -----------------------------------------------------------------------
#
# Each is a group of the log of its own. So it follows forks and restarts, and the user's other
# threads are shown it, as every group is. A person can forget it, and no reflection is asked about
# it.


def keep_marked(
    info: CycleInfo,
    groups: Sequence[Group],
    known: Sequence[Group],
    cited: Mapping[int, UserMessage],
) -> EffectFlow[tuple[list[Group], Found]]:
    """Take the standing instructions out of what was observed."""
    if not any(MARK in group["text"] for group in groups):
        return [*groups], {}
    count = info.settings.counter.count_text
    held = select_standing(known)
    in_force = {read_group(group): group for group in held}
    room = find_room(info.settings) - sum(group["tokens"] for group in held)
    kept: list[Group] = []
    entries: list[StandingEntry] = []
    for group in groups:
        own: list[Group] = []
        cuts = {}
        for mark in read_marks(group["text"], cited, held):
            cuts[mark.span] = mark.fact
            words = yield from _read_cited(info, mark)
            if words is None or mark.cited is None:
                continue
            if mark.ended is not None:
                ended = read_group(mark.ended)
                if in_force.pop(ended, None) is not None:
                    entry: StandingEntry = {"change": "ended", "words": ended}
                    entries.append({**entry, "group": mark.ended["id"], "by": words})
                    cuts[mark.span] = ""
                continue
            if words in in_force:
                cuts[mark.span] = ""
                continue
            one = _build_group(info, group, mark.cited, words)
            if one["tokens"] > room:
                entries.append({"change": "no-room", "words": words})
                continue
            room -= one["tokens"]
            cuts[mark.span] = ""
            own.append(one)
            in_force[words] = one
            entries.append({"change": "began", "words": words, "group": one["id"]})
        text = drop_marks(replace_spans(group["text"], cuts))
        rest: Group = {**group, "text": text, "tokens": count(text)}
        kept += [rest if text != group["text"] else group, *own]
    return kept, {STANDING: entries} if entries else {}


def _read_cited(info: CycleInfo, mark: Mark) -> EffectFlow[str | None]:
    """Return the words that a mark cites; `None` where a hook would change them."""
    words = choose_words(mark, info.settings.counter.count_text)
    if not words:
        return None
    rewritten = yield from rewrite_by_hook(info, "after_observation", {STANDING: words})
    return words if rewritten[STANDING] == words else None


def _build_group(info: CycleInfo, group: Group, message: UserMessage, words: str) -> Group:
    day = format_day(message.time) if message.time is not None else ""
    text = write_words(day, message.time, words)
    return {
        "id": derive_id(STANDING, group["id"], words),
        "kind": "observation",
        "ranges": [],
        "thread_id": group["thread_id"],
        "observed_at": group["observed_at"],
        "text": text,
        "tokens": info.settings.counter.count_text(text),
        "sources": [[message.id, message.id]] if message.id else group["ranges"],
        "keep": {"by": "user", "how": STANDING, "since": group["observed_at"]},
    }
