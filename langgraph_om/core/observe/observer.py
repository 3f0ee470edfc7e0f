"""Ask the Observer about one thread or several, and once more when the answer cannot be used.

`observe` and `observe_threads` are flows: they yield `AskModel` and are sent a `ModelReply`. They
return `Parsed` answers whose status is `ok` or `none`; anything else is an `ObserverError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.attachments import Attachment
from langgraph_om.core.content.text import escape, omit_middle, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.answer_tags import tag_of
from langgraph_om.core.observe.other_threads import (
    ThreadAnswers,
    escape_attribute,
    parse_sections,
    wrap_section,
)
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.record import HINTS
from langgraph_om.errors import ObserverError

MAX_ERROR_CHARACTERS = 1000
"""Kept of a provider's error, which is logged and may be stored in memory."""

MAX_QUOTED_CHARACTERS = 20_000
"""Kept of an answer that is shown to the model again."""

NO_HINTS: Final[Mapping[str, str]] = {}

AnswerT = TypeVar("AnswerT", Parsed, ThreadAnswers)


@dataclass(frozen=True, slots=True)
class ObserverInput:
    """All that the Observer is given about one thread."""

    transcript: str
    previous: str = ""
    """Earlier observations, already cut to their budget."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """The current ones, by name."""
    instruction: str | None = None
    prompt: str = "default"
    asked: Mapping[str, str] = field(default_factory=dict)
    """Hints of features that are asked for, by name, each with the section that says so."""
    states_hints: bool = True
    """Whether the current task and a suggested response are asked for."""
    attachments: Sequence[Attachment] = ()
    """Those named in the transcript that may be shown."""
    by_profile: bool = True
    """Whether a model is sent only what its profile says that it takes."""
    marks: str = ""
    """Lines about marks of features."""
    held: str = ""
    """Earlier notes that are always shown."""


@dataclass(frozen=True, slots=True)
class ThreadInput:
    """What the Observer is given about one of several threads."""

    thread_id: str
    shown_id: str
    """The id that the Observer is shown: the same, or a hash of it."""
    transcript: str
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """The current ones, by name."""
    attachments: Sequence[Attachment] = ()
    """Those named in the transcript that may be shown."""


@dataclass(frozen=True, slots=True)
class ThreadsInput:
    """All that the Observer is given about several threads."""

    threads: Sequence[ThreadInput]
    previous: Sequence[tuple[str, str]] = ()
    """Shown id and earlier observations of these or other threads, already cut to their budget."""
    instruction: str | None = None
    prompt: str = "default"
    asked: Mapping[str, str] = field(default_factory=dict)
    """Hints of features that are asked for, by name, each with the section that says so."""
    states_hints: bool = True
    """Whether the current task and a suggested response are asked for."""
    by_profile: bool = True
    """Whether a model is sent only what its profile says that it takes."""
    marks: str = ""
    """Lines about marks of features."""
    held: str = ""
    """Earlier notes that are always shown."""


def observe(request: ObserverInput) -> Flow[Parsed]:
    """Ask the Observer, and once more when its answer is not in the expected form.

    Returns:
        A parsed answer whose status is `ok` or `none`.

    Raises:
        ObserverError: When a call fails, or the second answer is not usable either.
    """
    return (yield from ask_about_thread(build_question(request)))


def ask_about_thread(question: AskModel) -> Flow[Parsed]:
    """Do the same as `observe` with the question that `build_question` has put together."""
    return (yield from _ask_until_usable(question, _read_answer, "observer_retry"))


def observe_threads(request: ThreadsInput) -> Flow[dict[str, Parsed]]:
    """Ask the Observer about several threads, and once more when nothing in its answer is usable.

    Of an answer that was cut off, the sections that are complete are used.

    Returns:
        The answer for each thread id, `ok` or `none`. A thread is missing when its section is
        missing or not in the expected form; it is not observed then.

    Raises:
        ObserverError: When a call fails, or the second answer holds nothing usable either.
        ValueError: When two threads are shown by the same id.
    """
    thread_ids = _map_shown_ids(request.threads)
    if not thread_ids:
        return {}
    question = build_threads_question(request)

    def read(reply: ModelReply) -> ThreadAnswers:
        return parse_sections(reply.text, thread_ids.keys(), cut_off=reply.cut_off)

    answers = yield from _ask_until_usable(question, read, "observer_threads_retry")
    return {thread_ids[shown_id]: parsed for shown_id, parsed in answers.threads.items()}


def _ask_until_usable(
    question: AskModel, read: Callable[[ModelReply], AnswerT], retry: str
) -> Flow[AnswerT]:
    """Ask the Observer, and once more when its answer cannot be used.

    Args:
        question: The question.
        read: Says what an answer holds.
        retry: The name of the prompt that asks once more.

    Raises:
        ObserverError: When a call fails, or the second answer is not usable either.
    """
    reply = yield question
    answer = _read_reply(reply, read)
    if answer.status not in ("ok", "none"):
        quoted: list[BaseMessage] = _quote_if_malformed(reply, answer.status)
        asked_again = HumanMessage(fill(retry, problem=answer.problem))
        reply = yield replace(question, messages=[*question.messages, *quoted, asked_again])
        answer = _read_reply(reply, read)
    if answer.status not in ("ok", "none"):
        msg = f"the Observer's answer is {answer.status}: {answer.problem}"
        error = ObserverError(msg)
        error.observations = answer.observations
        raise error
    return answer


def _read_reply(reply: ModelReply, read: Callable[[ModelReply], AnswerT]) -> AnswerT:
    if reply.error is not None:
        raise build_failure(reply.error, "Observer") from reply.error
    return read(reply)


def _quote_if_malformed(reply: ModelReply, status: str) -> list[BaseMessage]:
    """Return the model's own answer to show it again, unless that repeats itself or is empty."""
    if status != "malformed":
        return []
    return [AIMessage(omit_middle(sanitize(reply.text), MAX_QUOTED_CHARACTERS))]


def build_failure(error: Exception, model: str) -> ObserverError:
    """Return the error for a failed call of the Observer or the Reflector, its text sanitized."""
    reason = sanitize(str(error)[:MAX_ERROR_CHARACTERS])
    return ObserverError(f"the {model} failed: {type(error).__name__}: {reason}")


def render_output_format(
    asked: Mapping[str, str] = NO_HINTS, *, states_hints: bool = True, marks: str = ""
) -> str:
    """Return the description of an answer's form, for the Observer and for the Reflector.

    Args:
        asked: Hints of features that are asked for, by name, each with the section that says so.
        states_hints: Whether the current task and a suggested response are asked for.
        marks: Lines about marks of features.
    """
    return fill(
        "observer_output",
        hints_section=fill("observer_hints") if states_hints else "",
        more_sections="\n\n".join(asked.values()),
        hints_example=fill("observer_hints_example") if states_hints else "",
        marks=marks,
    )


def render_rules(prompt: str) -> str:
    """Return the Observer's rules alone, which tell the Reflector how its input was written."""
    return fill(f"observer_{prompt}", output_format="", custom="")


# --- One thread ----------------------------------------------------------------------------------


def build_question(request: ObserverInput) -> AskModel:
    """Return the question to the Observer about one thread."""
    system = fill(
        f"observer_{request.prompt}",
        output_format=render_output_format(
            request.asked, states_hints=request.states_hints, marks=request.marks
        ),
        custom=request.instruction or "",
    )
    task = fill(
        "observer_task",
        previous_observations=_build_previous(request.previous, request.held),
        hints="\n".join(_list_hints(request.hints, request)),
        conversation=request.transcript,
    )
    return AskModel(
        "observer",
        [SystemMessage(system), HumanMessage(task)],
        attachments=request.attachments,
        by_profile=request.by_profile,
    )


def _build_previous(previous: str, held: str) -> str:
    previous = "\n\n".join(filter(None, (held, previous)))
    if not previous:
        return "There are no earlier observations."
    return f"<previous-observations>\n{escape(previous)}\n</previous-observations>"


def _list_hints(
    hints: Mapping[str, str | None], request: ObserverInput | ThreadsInput
) -> list[str]:
    """Return the current hints that are asked for, each in its tag."""
    names = [*(HINTS if request.states_hints else ()), *request.asked]
    return [
        f"<{tag_of(name)}>{escape(text)}</{tag_of(name)}>"
        for name in names
        if (text := hints.get(name))
    ]


def _read_answer(reply: ModelReply) -> Parsed:
    return parse_output(reply.text, cut_off=reply.cut_off)


# --- Several threads -----------------------------------------------------------------------------


def _map_shown_ids(threads: Sequence[ThreadInput]) -> dict[str, str]:
    """Return the thread id for each shown id."""
    thread_ids: dict[str, str] = {}
    for thread in threads:
        if thread.shown_id in thread_ids:
            msg = (
                f"two threads have the `shown_id` {thread.shown_id!r}; show each thread once, and "
                "every one by an id of its own"
            )
            raise ValueError(msg)
        thread_ids[thread.shown_id] = thread.thread_id
    return thread_ids


def build_threads_question(request: ThreadsInput) -> AskModel:
    """Return the question to the Observer about several threads."""
    has_hints = request.states_hints
    form = fill(
        "observer_threads_output",
        hints_rule=fill("observer_threads_hints") if has_hints else "",
        first_hints=fill("observer_threads_hints_first") if has_hints else "",
        second_hints=fill("observer_threads_hints_second") if has_hints else "",
        section_form=render_output_format(
            request.asked, states_hints=has_hints, marks=request.marks
        ),
    )
    system = fill(
        f"observer_{request.prompt}", output_format=form, custom=request.instruction or ""
    )
    shown = [_build_thread_section(thread, request) for thread in request.threads]
    task = fill(
        "observer_threads_task",
        previous_observations=_build_previous_sections(request.previous, request.held),
        threads="\n\n".join(shown),
    )
    return AskModel(
        "observer",
        [SystemMessage(system), HumanMessage(task)],
        attachments=_label_attachments(request.threads),
        by_profile=request.by_profile,
    )


def _build_thread_section(thread: ThreadInput, request: ThreadsInput) -> str:
    """Return the section of a thread: its current hints, each in its tag, and its transcript."""
    lines = [*_list_hints(thread.hints, request), escape(thread.transcript)]
    return wrap_section(thread.shown_id, "\n".join(lines))


def _build_previous_sections(previous: Sequence[tuple[str, str]], held: str) -> str:
    shown = [escape(held)] if held else []
    shown += [wrap_section(shown_id, escape(text)) for shown_id, text in previous if text]
    if not shown:
        return "There are no earlier observations."
    sections = "\n\n".join(shown)
    return f"<previous-observations>\n{sections}\n</previous-observations>"


def _label_attachments(threads: Sequence[ThreadInput]) -> list[Attachment]:
    """Return the attachments of all threads; each says of which thread it is."""
    return [
        replace(
            attachment,
            label=f'thread "{escape_attribute(thread.shown_id)}": {attachment.label}',
        )
        for thread in threads
        for attachment in thread.attachments
    ]
