"""Ask the Observer about other threads: in one question, or in rounds where one is too short.

A thread counts as observed only when all of what was to be observed of it was shown and answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple, cast

from langgraph_om.core.config.thresholds import resolve_previous_tokens
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.cycles.hooks import rewrite_answer, show_messages
from langgraph_om.core.cycles.long_transcript import merge_answers
from langgraph_om.core.cycles.observation import merge_hints
from langgraph_om.core.effects import AskModel, EffectFlow
from langgraph_om.core.observe.log_excerpt import select_previous_sections
from langgraph_om.core.observe.observer import (
    ThreadInput,
    ThreadsInput,
    build_threads_question,
    observe_threads,
)
from langgraph_om.core.observe.other_threads import OtherThread
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import Transcript
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ObserverError


class ThreadsObserved(NamedTuple):
    """What came of asking the Observer about several threads."""

    answers: dict[str, Parsed]
    """By thread id; a thread that is missing is not observed."""
    left_out_tokens: int
    """About how many tokens no question had room for."""
    asked: AskModel | None
    """What was asked last."""


def ask_observer_of_threads(
    cycle: CycleInfo, threads: Sequence[tuple[OtherThread, int]]
) -> EffectFlow[ThreadsObserved]:
    """Have the oldest messages of several other threads observed.

    Args:
        cycle: The cycle.
        threads: Each with the number of messages to observe.

    Raises:
        ObserverError: When there is no usable answer, or a hook failed.
    """
    found: dict[str, Parsed] = {}
    left_out: dict[str, int] = {}
    inputs: list[list[ThreadInput]] = []
    for thread, count in threads:
        own = _view_thread(cycle, thread)
        shown = yield from show_messages(own, thread.entries[:count], thread.times)
        if shown is None:
            found[thread.thread_id] = Parsed("none")
            continue
        left_out[thread.thread_id] = shown.left_out_tokens
        inputs.append([_build_input(cycle, thread, transcript) for transcript in shown.parts])
    answers, asked = yield from _ask_in_rounds(cycle, inputs)
    for thread, _ in threads:
        if thread.thread_id in answers:
            own, parsed = _view_thread(cycle, thread), answers[thread.thread_id]
            found[thread.thread_id] = yield from rewrite_answer(own, parsed)
    return ThreadsObserved(found, sum(left_out[thread_id] for thread_id in answers), asked)


def _ask_in_rounds(
    cycle: CycleInfo, threads: Sequence[Sequence[ThreadInput]]
) -> EffectFlow[tuple[dict[str, Parsed], AskModel | None]]:
    """Ask about the first part of each thread, then about the second ones, and so on.

    Raises:
        ObserverError: When no thread was answered as a whole.
    """
    said: dict[str, list[Parsed]] = {}
    failure: ObserverError | None = None
    request: ThreadsInput | None = None
    for number in range(max(map(len, threads), default=0)):
        asked = [
            _continue_input(parts[number], said)
            for parts in threads
            if number < len(parts) and len(said.get(parts[0].thread_id, ())) == number
        ]
        latest = _build_threads_input(cycle, asked, said)
        try:
            answers = yield from observe_threads(latest)
        except ObserverError as error:
            failure = error
            break
        request = latest
        for thread_id, parsed in answers.items():
            said.setdefault(thread_id, []).append(parsed)
    whole = {
        parts[0].thread_id: merge_answers(said[parts[0].thread_id])
        for parts in threads
        if len(said.get(parts[0].thread_id, ())) == len(parts)
    }
    if failure is not None and not whole:
        raise failure
    return whole, build_threads_question(request) if request is not None else None


def _continue_input(part: ThreadInput, said: Mapping[str, Sequence[Parsed]]) -> ThreadInput:
    """Return a part with the hints that came of the parts before it."""
    answers = said.get(part.thread_id)
    if not answers:
        return part
    return replace(part, hints=merge_hints(part.hints, [asdict(answer) for answer in answers]))


def _build_input(cycle: CycleInfo, thread: OtherThread, transcript: Transcript) -> ThreadInput:
    return ThreadInput(
        thread.thread_id,
        cycle.settings.show_id(thread.thread_id),
        transcript.text,
        title=thread.hints.get("thread_title"),
        hints=thread.hints,
        attachments=transcript.attachments,
    )


def _view_thread(cycle: CycleInfo, thread: OtherThread) -> CycleInfo:
    """Return the cycle as a hook is told of it that sees one thread's texts."""
    record = cast("MemoryRecord", {**cycle.record, "thread_id": thread.thread_id, "stamps": {}})
    return replace(cycle, record=record)


def _build_threads_input(
    cycle: CycleInfo, inputs: Sequence[ThreadInput], said: Mapping[str, Sequence[Parsed]]
) -> ThreadsInput:
    settings = cycle.settings
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
            [*cycle.record["log"], *noted],
            resolve_previous_tokens(observation),
            settings.counter,
            settings.show_id,
            first=[own.thread_id for own in inputs],
        ),
        instruction=observation.instruction,
        prompt=observation.prompt,
        thread_title=observation.thread_title,
        states_hints=settings.continuation_hints,
        by_profile=observation.observe_attachments == "auto",
    )
