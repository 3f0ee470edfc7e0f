"""Tell threads apart where a model reads or writes of several: the section of each, and its id.

An id is any text. In the tag it is one line without a character that could end the attribute. Of an
answer, only sections whose bounds are certain are read.

Questions about several threads are flows as `core/observe/observer.py:observe` and
`core/cycles/reflection.py:reflect`. A thread that an answer leaves out, or tells of in another
form, stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final

from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.content.parts import Attachment
from langgraph_om.core.content.text import escape, escape_attribute, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.items import ITEM_START
from langgraph_om.core.observe.observer import (
    ask_until_usable,
    render_output_format,
    tell_plainly,
)
from langgraph_om.core.observe.parse_answer import (
    ParsedAnswer,
    drop_examples,
    hold_to_size,
    list_examples,
    parse_output,
    strip_reasoning,
    tell_hints,
)
from langgraph_om.core.prompts import fill

CLOSE: Final = "</thread>"
_NO_SECTION: Final = (
    'The answer holds no whole `<thread id="...">` section with an id of the request.'
)


@dataclass(frozen=True, slots=True)
class ThreadAnswers(ParsedAnswer):
    """The answers for each thread in one answer of a model; `ok` unless there are none."""

    threads: Mapping[str, ParsedAnswer] = field(default_factory=dict)
    """By shown id, in the order of the answer; `ok` or `none` only."""


def write_opening(shown_id: str, *, current: bool = False) -> str:
    """Return the tag that opens a section."""
    mark = ' current="yes"' if current else ""
    return f'<thread id="{escape_attribute(shown_id)}"{mark}>'


def wrap_section(shown_id: str, text: str) -> str:
    """Wrap a text, in which such tags are escaped already, in the section of a thread."""
    return f"{write_opening(shown_id)}\n{text}\n{CLOSE}"


def parse_sections(text: str, known: Collection[str], *, cut_off: bool = False) -> ThreadAnswers:
    """Return what an answer says about each thread.

    Args:
        cut_off: Whether the provider said that the answer ended too early; the sections that were
            closed before that are complete.

    Returns:
        The usable answers. A thread with two sections has none.
    """
    plain = strip_reasoning(sanitize(text))
    _, *parts = _OPENS.split(plain)
    if not parts:
        return _parse_without_sections(plain, known, cut_off=cut_off)
    names = {escape_attribute(shown_id): shown_id for shown_id in known}
    counts = Counter(parts[::2])
    read = [
        (names[name], parsed)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
        if name in names and counts[name] == 1 and (parsed := _parse_section(body)) is not None
    ]
    usable = {shown_id: parsed for shown_id, parsed in read if parsed.status in ("ok", "none")}
    if usable:
        return ThreadAnswers("ok", threads=usable)
    if cut_off:
        problem = "The answer was cut off before the end of its first section."
        return ThreadAnswers("cut_off", problem=problem)
    if read:
        return ThreadAnswers(read[-1][1].status, problem=read[-1][1].problem)
    return ThreadAnswers("malformed", problem=_NO_SECTION)


# --- Answers -------------------------------------------------------------------------------------


_OPENS: Final = re.compile(r'^[ \t]*<thread id="([^"<>]*)">[ \t]*$', re.MULTILINE)
_CLOSES: Final = re.compile(rf"^[ \t]*{CLOSE}[ \t]*$", re.MULTILINE)
_MENTION: Final = re.compile(r"</?thread[\s>]")


def _parse_section(body: str) -> ParsedAnswer | None:
    """Parse what stands behind an opening tag; `None` where nothing tells where it ends."""
    inner, *others = _CLOSES.split(body)
    lines = [line for line in inner.split("\n") if _MENTION.search(line)]
    # Of two closing tags one was quoted. Within an item a tag is quoted; elsewhere it may be meant.
    is_sure = len(others) == 1 and all(ITEM_START.match(line.strip(" \t")) for line in lines)
    return parse_output(inner) if is_sure else None


def _parse_without_sections(text: str, known: Collection[str], *, cut_off: bool) -> ThreadAnswers:
    """Parse an answer without sections, which is usable when only one thread was asked about."""
    alone = parse_output(text, cut_off=cut_off)
    if alone.status in ("ok", "none") and len(known) == 1:
        return ThreadAnswers("ok", threads={next(iter(known)): alone})
    if alone.status in ("ok", "none", "malformed"):
        return ThreadAnswers("malformed", problem=_NO_SECTION)
    return ThreadAnswers(alone.status, problem=alone.problem)


# --- Sections of a log ---------------------------------------------------------------------------


def frame_sections(
    threads: Sequence[str | None], show_id: ShowId, *, current: str | None = None
) -> list[str]:
    """Return the text before each group, and as the last item the text after all of them.

    A closing tag belongs to the frame that follows it, so that all but the last frame stay the
    same, byte by byte, when the log grows.

    Args:
        threads: Of each group that is shown, the thread that it is about.
        current: The thread that the Actor is in; its sections are marked.
    """
    frames: list[str] = []
    before: str | None = None
    for at, thread in enumerate(threads):
        gap = "\n\n" if at else ""
        if at and thread == before:
            frames.append(gap)
        else:
            close = f"\n{CLOSE}" if before else ""
            tag = f"{write_opening(show_id(thread), current=thread == current)}\n" if thread else ""
            frames.append(f"{close}{gap}{tag}")
        before = thread
    return [*frames, f"\n{CLOSE}" if before else ""]


@dataclass(frozen=True, slots=True)
class ThreadInput:
    """What the Observer is given about one of several threads."""

    thread_id: str
    shown_id: str
    """The id that the Observer is shown: the same, or a hash of it."""
    transcript: str
    attachments: Sequence[Attachment] = ()
    """Those named in the transcript that may be shown."""


@dataclass(frozen=True, slots=True)
class ThreadsInput:
    """All that the Observer is given about several threads."""

    threads: Sequence[ThreadInput]
    previous: Sequence[tuple[str, str]] = ()
    """Shown id and earlier observations of these or other threads, already cut to their budget."""
    instruction: str | None = None
    asked: Sequence[str] = ()
    """Names of the hints that are asked for."""
    held: str = ""
    """Earlier notes that are always shown."""
    timezone: tzinfo = UTC
    """Of the times in the transcripts."""


def observe_threads(
    request: ThreadsInput, much: Collection[str] = ()
) -> Flow[dict[str, ParsedAnswer]]:
    """Ask the Observer about several threads, and once more when nothing in its answer is usable.

    Of an answer that was cut off, the sections that are complete are used.

    Args:
        much: The shown ids of the threads in which more was said than may need no note.

    Returns:
        The answer for each thread id, `ok` or `none`. A thread is missing when its section is
        missing or not in the expected form; it is not observed then.

    Raises:
        ObserverError: When a call fails, or the second answer holds nothing usable either.
    """
    thread_ids = {thread.shown_id: thread.thread_id for thread in request.threads}
    if not thread_ids:
        return {}
    question = build_threads_question(request)
    examples = list_examples(question.messages[0].text)

    def read(reply: ModelReply) -> ThreadAnswers:
        text = drop_examples(reply.text, examples)
        answers = parse_sections(text, thread_ids.keys(), cut_off=reply.cut_off)
        held = {
            shown_id: hold_to_size(parsed, is_much=shown_id in much)
            for shown_id, parsed in answers.threads.items()
        }
        usable = {key: parsed for key, parsed in held.items() if parsed.status in ("ok", "none")}
        if held and not usable:
            worst = next(iter(held.values()))
            return ThreadAnswers(worst.status, problem=worst.problem)
        return replace(answers, threads=usable)

    answers = yield from ask_until_usable(
        question, read, "observer_threads_retry", is_much=bool(much)
    )
    return {thread_ids[shown_id]: parsed for shown_id, parsed in answers.threads.items()}


def build_threads_question(request: ThreadsInput) -> AskModel:
    """Return the question to the Observer about several threads."""
    asked = request.asked
    form = fill(
        "observer_threads_output",
        hints_rule=tell_hints(asked, "threads"),
        first_hints=tell_hints(asked, "first thread"),
        second_hints=tell_hints(asked, "second thread"),
        section_form=render_output_format(asked, request.held),
    )
    system = fill("observer", output_format=form, custom=request.instruction or "")
    shown = [wrap_section(each.shown_id, escape(each.transcript)) for each in request.threads]
    attachments = [
        replace(each, label=f'thread "{escape_attribute(thread.shown_id)}": {each.label}')
        for thread in request.threads
        for each in thread.attachments
    ]
    task = fill(
        "observer_threads_task",
        previous_observations=_build_previous_sections(request.previous, request.held),
        threads="\n\n".join(shown),
        timezone=str(request.timezone),
    )
    return AskModel(
        "observer",
        [SystemMessage(system), HumanMessage(task)],
        attachments=attachments,
    )


def _build_previous_sections(previous: Sequence[tuple[str, str]], held: str) -> str:
    shown = [escape(held)] if held else []
    shown += [
        wrap_section(shown_id, escape(tell_plainly(text))) for shown_id, text in previous if text
    ]
    if not shown:
        return "There are no earlier observations."
    sections = "\n\n".join(shown)
    return f"<previous-observations>\n{sections}\n</previous-observations>"
