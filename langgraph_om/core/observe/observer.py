"""The conversation with the Observer: what it is asked, and what counts as an answer.

`observe` is a flow: it yields a `ModelCall`, is sent a `ModelReply`, and returns an `Observation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.attachments import Attachment
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import omit_middle, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.observe.thread_sections import (
    Answers,
    escape_attribute,
    parse_sections,
    wrap_section,
)
from langgraph_om.core.prompts import fill
from langgraph_om.errors import ObserverError

MAX_ERROR_CHARACTERS = 1000
"""Of what a provider says, which is logged and may be kept in memory."""
MAX_QUOTED_CHARACTERS = 20_000
"""Of an answer that is shown to the model again."""


@dataclass(frozen=True, slots=True)
class ObserverInput:
    """All that the Observer is told."""

    transcript: str
    previous: str = ""
    """Earlier observations, already cut to their budget."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """`current_task`, `suggested_response` and `thread_title` as they stand."""
    instruction: str | None = None
    prompt: str = "default"
    thread_title: bool = False
    attachments: Sequence[Attachment] = ()
    """Of that which the transcript names, what may be shown."""
    by_profile: bool = True
    """Whether a model is shown only what its profile says that it takes."""


def observe(request: ObserverInput) -> Flow[Parsed]:
    """Ask the Observer, and once more when its answer is not in the form.

    Returns:
        A parsed answer whose status is `ok` or `none`.

    Raises:
        ObserverError: When the call failed or the second answer is not usable either.
    """
    messages = _build_question(request)
    reply = yield _build_call(request, messages)
    parsed = _read_reply(reply)
    if parsed.status not in ("ok", "none"):
        again = [*messages, *_quote_answer(reply, parsed), _ask_again(parsed)]
        reply = yield _build_call(request, again)
        parsed = _read_reply(reply)
    if parsed.status not in ("ok", "none"):
        msg = f"the Observer's answer is {parsed.status}: {parsed.problem}"
        error = ObserverError(msg)
        error.observations = parsed.observations
        raise error
    return parsed


def _build_call(request: ObserverInput, messages: list[BaseMessage]) -> AskModel:
    return AskModel(
        "observer", messages, attachments=request.attachments, by_profile=request.by_profile
    )


def _read_reply(reply: ModelReply) -> Parsed:
    if reply.error is not None:
        raise build_failure(reply.error, "Observer") from reply.error
    return parse_output(reply.text, cut_off=reply.cut_off)


def _quote_answer(reply: ModelReply, parsed: Parsed) -> list[BaseMessage]:
    """Show the model its own answer, unless that is a flood or nothing."""
    return [quote(reply)] if parsed.status == "malformed" else []


def build_failure(error: Exception, model: str) -> ObserverError:
    """Say why the Observer or the Reflector gave no answer, in so much text as can be kept."""
    told = sanitize(str(error)[:MAX_ERROR_CHARACTERS])
    return ObserverError(f"the {model} failed: {type(error).__name__}: {told}")


def quote(reply: ModelReply) -> AIMessage:
    """Show a model its answer, in a form that any provider takes."""
    return AIMessage(omit_middle(sanitize(reply.text), MAX_QUOTED_CHARACTERS))


def _ask_again(parsed: Parsed) -> HumanMessage:
    return HumanMessage(fill("observer_retry", problem=parsed.problem))


def _build_question(request: ObserverInput) -> list[BaseMessage]:
    system = fill(
        f"observer_{request.prompt}",
        output_format=render_output_format(thread_title=request.thread_title),
        custom=request.instruction or "",
    )
    task = fill(
        "observer_task",
        previous_observations=_build_previous(request.previous),
        hints=_build_hints(request.hints),
        conversation=request.transcript,
    )
    return [SystemMessage(system), HumanMessage(task)]


def _build_previous(previous: str) -> str:
    if not previous:
        return "There are no earlier observations."
    return f"<previous-observations>\n{escape(previous)}\n</previous-observations>"


def _build_hints(hints: Mapping[str, str | None]) -> str:
    """Quote the continuation hints as they stand, each in its tag."""
    tags = {"current_task": "current-task", "suggested_response": "suggested-response"}
    tags["thread_title"] = "thread-title"
    return "\n".join(
        f"<{tag}>{escape(text)}</{tag}>" for name, tag in tags.items() if (text := hints.get(name))
    )


def render_output_format(*, thread_title: bool) -> str:
    """Describe the form of an answer, for the Observer and for the Reflector."""
    title = fill("observer_title") if thread_title else ""
    return fill("observer_output", thread_title_section=title)


def render_rules(prompt: str) -> str:
    """Return the Observer's rules alone, so that the Reflector knows what it reads."""
    return fill(f"observer_{prompt}", output_format="", custom="")


@dataclass(frozen=True, slots=True)
class ThreadInput:
    """What the Observer is told of one thread."""

    thread_id: str
    shown_id: str
    """The id as the Observer is shown it: the same, or a hash of it."""
    transcript: str
    title: str | None = None
    """Its title as it stands, where titles are asked for."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """`current_task` and `suggested_response` as they stand."""
    attachments: Sequence[Attachment] = ()
    """Of that which the transcript names, what may be shown."""


@dataclass(frozen=True, slots=True)
class ThreadsInput:
    """All that the Observer is told of several threads."""

    threads: Sequence[ThreadInput]
    previous: Sequence[tuple[str, str]] = ()
    """Shown id and earlier observations of threads, these or others, already cut to their budget.
    """
    instruction: str | None = None
    prompt: str = "default"
    thread_title: bool = False
    by_profile: bool = True
    """Whether a model is shown only what its profile says that it takes."""


def observe_threads(request: ThreadsInput) -> Flow[dict[str, Parsed]]:
    """Ask the Observer about several threads, and once more when nothing of its answer is usable.

    Sections that are complete before the end of an answer that was cut off are used: each holds
    all there is to say on its thread. The section that was cut is not.

    Returns:
        By thread id, what was answered, `ok` or `none`. A thread that is missing was not answered,
        or not in the form: it is not observed.

    Raises:
        ObserverError: When the call failed, or the second answer holds nothing usable either.
        ValueError: When two threads are shown by the same id.
    """
    names = _list_ids(request.threads)
    if not names:
        return {}
    messages = _build_threads_question(request)
    reply = yield _build_threads_call(request, messages)
    answers = _read_threads(reply, names)
    if not answers.threads:
        again = [*messages, *_quote_threads(reply, answers), _ask_threads_again(answers)]
        reply = yield _build_threads_call(request, again)
        answers = _read_threads(reply, names)
    if not answers.threads:
        msg = f"the Observer's answer is {answers.status}: {answers.problem}"
        error = ObserverError(msg)
        error.observations = ""
        raise error
    return {names[shown_id]: parsed for shown_id, parsed in answers.threads.items()}


def _list_ids(threads: Sequence[ThreadInput]) -> dict[str, str]:
    names: dict[str, str] = {}
    for thread in threads:
        if thread.shown_id in names:
            msg = (
                f"two threads have the `shown_id` {thread.shown_id!r}; show each thread once, and "
                "every one by an id of its own"
            )
            raise ValueError(msg)
        names[thread.shown_id] = thread.thread_id
    return names


def _build_threads_call(request: ThreadsInput, messages: list[BaseMessage]) -> AskModel:
    attachments = [
        replace(each, label=f'thread "{escape_attribute(thread.shown_id)}": {each.label}')
        for thread in request.threads
        for each in thread.attachments
    ]
    return AskModel("observer", messages, attachments=attachments, by_profile=request.by_profile)


def _read_threads(reply: ModelReply, names: Mapping[str, str]) -> Answers:
    if reply.error is not None:
        raise build_failure(reply.error, "Observer") from reply.error
    return parse_sections(reply.text, names.keys(), cut_off=reply.cut_off)


def _quote_threads(reply: ModelReply, answers: Answers) -> list[BaseMessage]:
    """Show the model its own answer, unless that is a flood or nothing."""
    return [quote(reply)] if answers.status == "malformed" else []


def _ask_threads_again(answers: Answers) -> HumanMessage:
    return HumanMessage(fill("observer_threads_retry", problem=answers.problem))


def _build_threads_question(request: ThreadsInput) -> list[BaseMessage]:
    form = fill(
        "observer_threads_output",
        section_form=render_output_format(thread_title=request.thread_title),
    )
    system = fill(
        f"observer_{request.prompt}", output_format=form, custom=request.instruction or ""
    )
    shown = [_build_thread_section(thread, request) for thread in request.threads]
    task = fill(
        "observer_threads_task",
        previous_observations=_build_previous_of_thread(request.previous),
        threads="\n\n".join(shown),
    )
    return [SystemMessage(system), HumanMessage(task)]


def _build_thread_section(thread: ThreadInput, request: ThreadsInput) -> str:
    """Show the hints of a thread as they stand, each in its tag, and what was said in it."""
    hints = {
        "current-task": thread.hints.get("current_task"),
        "suggested-response": thread.hints.get("suggested_response"),
        "thread-title": thread.title if request.thread_title else None,
    }
    tagged = [f"<{tag}>{escape(text)}</{tag}>" for tag, text in hints.items() if text]
    lines = [*tagged, escape(thread.transcript)]
    return wrap_section(thread.shown_id, "\n".join(lines))


def _build_previous_of_thread(previous: Sequence[tuple[str, str]]) -> str:
    shown = [wrap_section(shown_id, escape(text)) for shown_id, text in previous if text]
    if not shown:
        return "There are no earlier observations."
    sections = "\n\n".join(shown)
    return f"<previous-observations>\n{sections}\n</previous-observations>"
