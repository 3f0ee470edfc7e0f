"""Ask the Observer and the Reflector about several threads at once.

Flows as `core/observe/observer.py:observe` and `core/reflect/reflector.py:reflect`. A thread that
an answer leaves out, or tells of in another form, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_om.core.config.settings import NO_FEATURES, Features
from langgraph_om.core.content.attachments import Attachment
from langgraph_om.core.content.message_keys import ShowId, derive_id
from langgraph_om.core.content.text import escape, escape_attribute
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.observer import ask_until_usable, render_output_format, write_hints
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.record import group_by_thread
from langgraph_om.core.reflect.reflector import (
    MAX_QUESTIONS,
    Attempt,
    ask_reflector,
    build_question,
    regroup,
)
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group
from langgraph_om.features.shared_log.sections import (
    ThreadAnswers,
    parse_sections,
    render_for_reflector,
    wrap_section,
)


@dataclass(frozen=True, slots=True)
class ThreadInput:
    """What the Observer is given about one of several threads."""

    thread_id: str
    shown_id: str
    """The id that the Observer is shown: the same, or a hash of it."""
    transcript: str
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """The current ones of those that are asked for, by name."""
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
    features: Features = NO_FEATURES
    """Those that tell of hints and marks."""
    by_profile: bool = True
    """Whether a model is sent only what its profile says that it takes."""
    held: str = ""
    """Earlier notes that are always shown."""


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

    answers = yield from ask_until_usable(question, read, "observer_threads_retry")
    return {thread_ids[shown_id]: parsed for shown_id, parsed in answers.threads.items()}


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
    join_texts = request.features.join_texts
    form = fill(
        "observer_threads_output",
        hints_rule=join_texts("tell_hints", "threads"),
        first_hints=join_texts("tell_hints", "first thread"),
        second_hints=join_texts("tell_hints", "second thread"),
        section_form=render_output_format(request.features),
    )
    system = fill(
        f"observer_{request.prompt}", output_format=form, custom=request.instruction or ""
    )
    shown = [_build_thread_section(thread) for thread in request.threads]
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


def _build_thread_section(thread: ThreadInput) -> str:
    """Return the section of a thread: its current hints, each in its tag, and its transcript."""
    texts = (write_hints(thread.hints), escape(thread.transcript))
    return wrap_section(thread.shown_id, "\n".join(filter(None, texts)))


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


# --- The Reflector -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThreadsReflectorInput:
    """All that the Reflector is given about the log of several threads."""

    groups: Sequence[Group]
    show_id: ShowId
    target: int
    """Tokens of all groups together, to stay under."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""
    features: Features = NO_FEATURES
    """Those that tell of hints."""


@dataclass(frozen=True, slots=True)
class ThreadsReflection:
    """Condensed observations of threads, each smaller than what it replaces."""

    texts: Mapping[str, str]
    """By thread id; the observations of all other threads stay."""
    tokens: int
    """Tokens of all groups that were read, with the new texts in place."""


def reflect_threads(
    request: ThreadsReflectorInput, counter: TokenCounter, *, questions: int = MAX_QUESTIONS
) -> Flow[ThreadsReflection]:
    """Ask the Reflector until the log is small enough, and return the best of its answers.

    Raises:
        ObserverError: When no answer makes the observations of any thread smaller.
    """
    log = render_for_reflector(request.groups, request.show_id)
    tokens = sum(group["tokens"] for group in request.groups)
    messages = build_question(request, "reflector_threads_task", log, tokens)
    read = partial(_read_sections, request, counter)
    return (yield from ask_reflector(messages, read, request.target, questions))


def _read_sections(
    request: ThreadsReflectorInput, counter: TokenCounter, reply: ModelReply
) -> Attempt[ThreadsReflection]:
    sizes = _count_by_thread(request.groups)
    thread_ids = {request.show_id(thread): thread for thread in sizes}
    answers = parse_sections(reply.text, thread_ids.keys(), cut_off=reply.cut_off)
    texts = _select_smaller(answers, thread_ids, sizes, counter)
    if not texts:
        problem = answers.problem or "it makes the observations of no thread smaller"
        return Attempt(None, problem, answers.status in ("ok", "malformed"))
    return Attempt(ThreadsReflection(texts, _count_after(request.groups, texts, counter)))


def _count_by_thread(groups: Sequence[Group]) -> dict[str, int]:
    """Count the tokens of each thread with observations."""
    sizes: dict[str, int] = {}
    for group in groups:
        if group["thread_id"] is not None and group["text"]:
            sizes[group["thread_id"]] = sizes.get(group["thread_id"], 0) + group["tokens"]
    return sizes


def _select_smaller(
    answers: ThreadAnswers,
    thread_ids: Mapping[str, str],
    sizes: Mapping[str, int],
    counter: TokenCounter,
) -> dict[str, str]:
    """Return by thread id the texts that are smaller than what they replace."""
    return {
        thread_ids[shown_id]: parsed.observations
        for shown_id, parsed in answers.threads.items()
        if parsed.status == "ok"
        and counter.count_text(parsed.observations) < sizes[thread_ids[shown_id]]
    }


def _count_after(groups: Sequence[Group], texts: Mapping[str, str], counter: TokenCounter) -> int:
    kept = sum(group["tokens"] for group in groups if group["thread_id"] not in texts)
    return kept + sum(map(counter.count_text, texts.values()))


def regroup_threads(
    sources: Sequence[Group],
    texts: Mapping[str, str],
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Return the groups that replace exactly those that a reflection read.

    What a group covered is covered by exactly one group of the same thread afterwards. A thread
    without a text, and a group without a thread, stay as they are.

    Args:
        sources: The groups that were read, in log order.
        texts: What the Reflector wrote, by thread id.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.

    Returns:
        All groups, each at the place of the first group that it replaces.
    """
    placed: list[tuple[int, Group]] = [
        (at, group)
        for at, group in enumerate(sources)
        if not texts.get(group["thread_id"] or "", "").strip() or group["thread_id"] is None
    ]
    for thread, own in group_by_thread(sources).items():
        text = texts.get(thread, "")
        if not text.strip():
            continue
        written = regroup(
            own,
            text,
            cycle_id=derive_id("thread", cycle_id, thread),
            reflected_at=reflected_at,
            counter=counter,
        )
        starts = [at for at, group in enumerate(sources) if group["thread_id"] == thread]
        placed += zip(_find_places(own, written, starts), written, strict=True)
    return [group for _, group in sorted(placed, key=lambda pair: pair[0])]


def _find_places(
    own: Sequence[Group], written: Sequence[Group], starts: Sequence[int]
) -> list[int]:
    """Return for each written group the place of its first source."""
    places: list[int] = []
    at = 0
    for group in written:
        first = group["ranges"][0][0] if group["ranges"] else None
        while at < len(own) - 1 and all(first != start for start, _ in own[at]["ranges"]):
            at += 1
        places.append(starts[at])
    return places
