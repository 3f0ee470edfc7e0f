"""Have the Reflector write the log anew, in fewer tokens, and take the best answer.

`reflect` and `reflect_threads` are flows like `observe`. The question names the size that is
wanted. An answer that misses it, or cannot be read, is shown again with what is wrong; the first
one that is small enough is taken, else the smallest valid one that is smaller than the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final, Generic, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import ShowId, derive_id
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.observer import build_failure, render_output_format, render_rules
from langgraph_om.core.observe.other_threads import ThreadAnswers, parse_sections, wrap_section
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.groups import collect_ranges
from langgraph_om.core.record.record import group_by_thread, write_log
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError

# Render the log for the Reflector, and make groups of what it wrote.
#
# The log is a list of immutable groups; text exists only on the way to a model. A reflection is
# tied to its sources by date: each section of the new text replaces the groups of its days, so
# that every covered range of messages stays in exactly one group. A group keeps the ranges of its
# sources apart, so that each still leads to few messages.


def render_for_reflector(groups: Sequence[Group], show_id: ShowId) -> str:
    """Render a log to condense: one section per thread, in the order of their first groups."""
    texts = {thread: write_log(own) for thread, own in group_by_thread(groups).items()}
    return "\n\n".join(
        wrap_section(show_id(thread), escape(text)) for thread, text in texts.items() if text
    )


def regroup(
    sources: Sequence[Group],
    text: str,
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Return groups with a reflection's text that together cover what its sources covered.

    The text is split at its date headings. A source belongs to the last section whose day is not
    after the source's own last day; a section without a source joins the next one that has one.
    A text without days, or with days that are not in order, becomes one group over everything.

    Args:
        sources: The groups that were read, in log order.
        text: What the Reflector wrote.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.
    """
    sections = _split_sections(text)
    days = [section.day for section in sections]
    known = [day for day in days if day is not None]
    if not known or len(known) != len(days) or known != sorted(known):
        sections, known = [_DaySection(None, text)], []
    shares = _assign_sources(sources, known) if known else [list(sources)]
    groups: list[Group] = []
    carried = ""
    for section, share in zip(sections, shares, strict=True):
        carried = f"{carried}\n{section.text}" if carried else section.text
        if not share:
            continue
        groups.append(
            {
                "id": derive_id("group", cycle_id, len(groups)),
                "kind": "reflection",
                "ranges": collect_ranges(share),
                "thread_id": share[0]["thread_id"],
                "observed_at": reflected_at,
                "text": carried,
                "tokens": counter.count_text(carried),
            }
        )
        carried = ""
    if carried:
        last = groups[-1]
        joined = f"{last['text']}\n{carried}"
        groups[-1] = {**last, "text": joined, "tokens": counter.count_text(joined)}
    return groups


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


# --- Sections and their sources ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DaySection:
    day: date | None
    text: str


def _split_sections(text: str) -> list[_DaySection]:
    """Split a text before each date heading of a new day."""
    sections: list[_DaySection] = []
    lines: list[str] = []
    day: date | None = None
    for line in text.split("\n"):
        found = observation_date(line)
        if found is not None and found != day:
            if any(map(str.strip, lines)):
                sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
            lines, day = [], found
        lines.append(line)
    if any(map(str.strip, lines)):
        sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
    return sections


def _assign_sources(sources: Sequence[Group], days: Sequence[date]) -> list[list[Group]]:
    """Assign each source to a section, never an earlier one than that of the source before it."""
    shares: list[list[Group]] = [[] for _ in days]
    earliest = 0
    for source in sources:
        own = [day for line in source["text"].split("\n") if (day := observation_date(line))]
        place = bisect_right(days, own[-1]) - 1 if own else earliest
        earliest = max(earliest, place)
        shares[earliest].append(source)
    return shares


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


MAX_QUESTIONS: Final = 3
"""A reflection asks no more often."""

_TOLERANCE: Final = 1.03


def is_small_enough(tokens: int, target: int) -> bool:
    """Return whether a log is dense enough: another question is not worth less than 3 %."""
    return tokens < target * _TOLERANCE


@dataclass(frozen=True, slots=True)
class ReflectorInput:
    """All that the Reflector is given about the log of one thread."""

    log: str
    tokens: int
    """Tokens of the log; an answer has to have fewer."""
    target: int
    """Tokens to stay under."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


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


@dataclass(frozen=True, slots=True)
class Reflection:
    """A valid answer that is smaller than the log it condenses."""

    text: str
    tokens: int
    current_task: str | None


@dataclass(frozen=True, slots=True)
class ThreadsReflection:
    """Condensed observations of threads, each smaller than what it replaces."""

    texts: Mapping[str, str]
    """By thread id; the observations of all other threads stay."""
    tokens: int
    """Tokens of all groups that were read, with the new texts in place."""


ResultT = TypeVar("ResultT", Reflection, ThreadsReflection)


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[ResultT]):
    """What one answer comes to."""

    result: ResultT | None = None
    """`None` for one that cannot be used."""
    problem: str = ""
    is_shown: bool = False
    """Whether the next question shows the answer again."""


def reflect(
    request: ReflectorInput, counter: TokenCounter, *, questions: int = MAX_QUESTIONS
) -> Flow[Reflection]:
    """Ask the Reflector until an answer is small enough, and return the best one.

    Raises:
        ObserverError: When no answer is valid and smaller than the log.
    """
    messages = _build_question(request, "reflector_task", escape(request.log), request.tokens)
    read = partial(_read_answer, request, counter)
    return (yield from _ask(messages, read, request.target, questions))


def reflect_threads(
    request: ThreadsReflectorInput, counter: TokenCounter, *, questions: int = MAX_QUESTIONS
) -> Flow[ThreadsReflection]:
    """Ask the Reflector until the log is small enough, and return the best of its answers.

    Raises:
        ObserverError: When no answer makes the observations of any thread smaller.
    """
    log = render_for_reflector(request.groups, request.show_id)
    tokens = sum(group["tokens"] for group in request.groups)
    messages = _build_question(request, "reflector_threads_task", log, tokens)
    read = partial(_read_sections, request, counter)
    return (yield from _ask(messages, read, request.target, questions))


def _ask(
    messages: Sequence[BaseMessage],
    read: Callable[[ModelReply], _Attempt[ResultT]],
    target: int,
    questions: int,
) -> Flow[ResultT]:
    """Ask until an answer is small enough, and return the best one.

    Args:
        messages: The question.
        read: Says what an answer comes to.
        target: Tokens to stay under.
        questions: How often it is asked at most.

    Raises:
        ObserverError: When no answer is of use.
    """
    best: ResultT | None = None
    problem = ""
    added: list[BaseMessage] = []
    for _ in range(questions):
        reply = yield AskModel("reflector", [*messages, *added])
        if reply.error is not None:
            if best is None:
                raise build_failure(reply.error, "Reflector") from reply.error
            break
        attempt = read(reply)
        result, problem = attempt.result, attempt.problem
        if result is not None and (best is None or result.tokens < best.tokens):
            best = result
        if best is not None and is_small_enough(best.tokens, target):
            break
        if result is not None:
            problem = _describe_excess(result.tokens, target)
        is_shown = result is not None or attempt.is_shown
        added = [AIMessage(sanitize(reply.text))] if is_shown else []
        added.append(HumanMessage(fill("reflector_retry", problem=_write_sentence(problem))))
    if best is None:
        times = f"{questions} attempts" if questions > 1 else "1 attempt"
        msg = f"the Reflector gave no usable answer in {times}: {problem}"
        raise ObserverError(msg)
    return best


def _describe_excess(tokens: int, target: int) -> str:
    over = tokens - target + 1
    return f"it has {tokens} tokens, {over} too many: fewer than {target} are needed"


def _write_sentence(problem: str) -> str:
    return f"{problem[:1].upper()}{problem[1:]}".rstrip(".") + "."


# --- One thread ----------------------------------------------------------------------------------


def _read_answer(
    request: ReflectorInput, counter: TokenCounter, reply: ModelReply
) -> _Attempt[Reflection]:
    parsed = parse_output(reply.text, cut_off=reply.cut_off)
    if parsed.status != "ok":
        return _Attempt(None, _describe_problem(parsed), parsed.status == "malformed")
    tokens = counter.count_text(parsed.observations)
    if tokens >= request.tokens:
        problem = f"it has {tokens} tokens, the log it replaces {request.tokens}"
        wanted = f"fewer than {request.target} are needed"
        return _Attempt(None, f"{problem}; {wanted}", is_shown=True)
    return _Attempt(Reflection(parsed.observations, tokens, parsed.current_task))


def _describe_problem(parsed: Parsed) -> str:
    if parsed.status == "none":
        return "it leaves nothing of the log"
    return f"it is {parsed.status}: {parsed.problem}"


# --- Several threads -----------------------------------------------------------------------------


def _read_sections(
    request: ThreadsReflectorInput, counter: TokenCounter, reply: ModelReply
) -> _Attempt[ThreadsReflection]:
    sizes = _count_by_thread(request.groups)
    thread_ids = {request.show_id(thread): thread for thread in sizes}
    answers = parse_sections(reply.text, thread_ids.keys(), cut_off=reply.cut_off)
    texts = _select_smaller(answers, thread_ids, sizes, counter)
    if not texts:
        problem = answers.problem or "it makes the observations of no thread smaller"
        return _Attempt(None, problem, answers.status in ("ok", "malformed"))
    return _Attempt(ThreadsReflection(texts, _count_after(request.groups, texts, counter)))


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


# --- Both ----------------------------------------------------------------------------------------


def _build_question(
    request: ReflectorInput | ThreadsReflectorInput, task: str, log: str, tokens: int
) -> list[BaseMessage]:
    """Return the question to the Reflector.

    Args:
        request: What it is given.
        task: The name of the prompt that contains the log.
        log: The log, its tags escaped.
        tokens: Tokens of the log.
    """
    system = fill(
        "reflector",
        output_format=render_output_format(),
        observer_rules=render_rules(request.prompt),
        custom=request.instruction or "",
    )
    target = str(request.target)
    question = fill(task, observations=log, log_tokens=str(tokens), target_tokens=target)
    return [SystemMessage(system), HumanMessage(question)]
