"""Ask the Reflector to condense the log, each time more firmly, and take the best answer.

`reflect` and `reflect_threads` are flows like `observe`. They start without guidance (level 0) and
climb to level 4; the first valid answer under the target is taken, else the smallest valid one that
is smaller than the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.observer import build_failure, render_output_format, render_rules
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.observe.thread_sections import ThreadAnswers, parse_sections
from langgraph_om.core.prompts import fill
from langgraph_om.core.reflect.regroup import render_for_reflector
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError

MAX_LEVEL = 4


@dataclass(frozen=True, slots=True)
class ReflectorInput:
    """All that the Reflector is given about the log of one thread."""

    log: str
    tokens: int
    """Tokens of the log; an answer has to have fewer."""
    target: int
    """Tokens under which an answer is taken at once."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


@dataclass(frozen=True, slots=True)
class ThreadsReflectorInput:
    """All that the Reflector is given about the log of several threads."""

    groups: Sequence[Group]
    show_id: ShowId
    target: int
    """Tokens of all groups together, under which an answer is taken at once."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A valid answer that is smaller than the log it condenses."""

    text: str
    tokens: int
    current_task: str | None
    level: int


@dataclass(frozen=True, slots=True)
class ThreadsReflection:
    """Condensed observations of threads, each smaller than what it replaces."""

    texts: Mapping[str, str]
    """By thread id; the observations of all other threads stay."""
    tokens: int
    """Tokens of all groups that were read, with the new texts in place."""
    level: int


ResultT = TypeVar("ResultT", Reflection, ThreadsReflection)


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[ResultT]):
    """What one answer comes to."""

    result: ResultT | None = None
    """`None` for one that cannot be used."""
    tokens: int | None = None
    """What the next question is told of it; `None` leaves what was told before."""
    problem: str = ""


def reflect(request: ReflectorInput, counter: TokenCounter) -> Flow[Reflection]:
    """Ask the Reflector until an answer is small enough, and return the best one.

    Raises:
        ObserverError: When no answer is valid and smaller than the log.
    """
    build_question = partial(_build_question, request)
    read = partial(_read_answer, request, counter)
    return (yield from _climb(build_question, read, request.tokens, request.target))


def reflect_threads(
    request: ThreadsReflectorInput, counter: TokenCounter
) -> Flow[ThreadsReflection]:
    """Ask the Reflector until the log is small enough, and return the best of its answers.

    Raises:
        ObserverError: When no answer makes the observations of any thread smaller.
    """
    sizes = _count_by_thread(request.groups)
    thread_ids = {request.show_id(thread): thread for thread in sizes}

    def read(reply: ModelReply, level: int) -> _Attempt[ThreadsReflection]:
        answers = parse_sections(reply.text, thread_ids.keys(), cut_off=reply.cut_off)
        texts = _select_smaller(answers, thread_ids, sizes, counter)
        if not texts:
            problem = answers.problem or "it makes the observations of no thread smaller"
            return _Attempt(problem=problem)
        tokens = _count_after(request.groups, texts, counter)
        return _Attempt(ThreadsReflection(texts, tokens, level), tokens)

    build_question = partial(_build_threads_question, request)
    size = sum(group["tokens"] for group in request.groups)
    return (yield from _climb(build_question, read, size, request.target))


def _climb(
    build_question: Callable[[int, int], list[BaseMessage]],
    read: Callable[[ModelReply, int], _Attempt[ResultT]],
    tokens: int,
    target: int,
) -> Flow[ResultT]:
    """Ask level by level until an answer is small enough, and return the best one.

    Args:
        build_question: Writes the question of a level; it is told the tokens of the last answer.
        read: Says what an answer of a level comes to.
        tokens: Tokens of the log.
        target: Tokens under which an answer is taken at once.

    Raises:
        ObserverError: When no answer is of use.
    """
    best: ResultT | None = None
    problem = ""
    for level in range(MAX_LEVEL + 1):
        reply = yield AskModel("reflector", build_question(level, tokens))
        if reply.error is not None:
            if best is None:
                raise build_failure(reply.error, "Reflector") from reply.error
            break
        attempt = read(reply, level)
        problem = attempt.problem
        tokens = tokens if attempt.tokens is None else attempt.tokens
        result = attempt.result
        if result is not None and (best is None or result.tokens < best.tokens):
            best = result
        if best is not None and best.tokens < target:
            break
    if best is None:
        msg = f"the Reflector gave no usable answer in {MAX_LEVEL + 1} attempts: {problem}"
        raise ObserverError(msg)
    return best


# --- One thread ----------------------------------------------------------------------------------


def _build_question(request: ReflectorInput, level: int, previous_tokens: int) -> list[BaseMessage]:
    return _fill_question(
        "reflector_task",
        escape(request.log),
        level,
        previous_tokens,
        target=request.target,
        instruction=request.instruction,
        prompt=request.prompt,
    )


def _read_answer(
    request: ReflectorInput, counter: TokenCounter, reply: ModelReply, level: int
) -> _Attempt[Reflection]:
    parsed = parse_output(reply.text, cut_off=reply.cut_off)
    if parsed.status != "ok":
        return _Attempt(problem=_describe_problem(parsed))
    tokens = counter.count_text(parsed.observations)
    if tokens >= request.tokens:
        problem = f"it has {tokens} tokens, the log it replaces {request.tokens}"
        return _Attempt(tokens=tokens, problem=problem)
    return _Attempt(Reflection(parsed.observations, tokens, parsed.current_task, level), tokens)


def _describe_problem(parsed: Parsed) -> str:
    if parsed.status == "none":
        return "it leaves nothing of the log"
    return f"it is {parsed.status}: {parsed.problem}"


# --- Several threads -----------------------------------------------------------------------------


def _count_by_thread(groups: Sequence[Group]) -> dict[str, int]:
    """Count the tokens of each thread with observations."""
    sizes: dict[str, int] = {}
    for group in groups:
        if group["thread_id"] is not None and group["text"]:
            sizes[group["thread_id"]] = sizes.get(group["thread_id"], 0) + group["tokens"]
    return sizes


def _build_threads_question(
    request: ThreadsReflectorInput, level: int, previous_tokens: int
) -> list[BaseMessage]:
    return _fill_question(
        "reflector_threads_task",
        render_for_reflector(request.groups, request.show_id),
        level,
        previous_tokens,
        target=request.target,
        instruction=request.instruction,
        prompt=request.prompt,
    )


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


def _fill_question(
    task: str,
    log: str,
    level: int,
    previous_tokens: int,
    *,
    target: int,
    instruction: str | None,
    prompt: str,
) -> list[BaseMessage]:
    """Return the question to the Reflector.

    Args:
        task: The name of the prompt that contains the log.
        log: The log, its tags escaped.
        level: How dense the answer has to be, 0 to 4.
        previous_tokens: Tokens of the previous answer.
        target: Tokens to stay under.
        instruction: The developer's own instruction.
        prompt: Which of the Observer's prompts wrote the log.
    """
    system = fill(
        "reflector",
        output_format=render_output_format(thread_title=False),
        observer_rules=render_rules(prompt),
        custom=instruction or "",
    )
    guidance = (
        fill(
            f"reflector_level_{level}",
            previous_tokens=str(previous_tokens),
            target_tokens=str(target),
        )
        if level
        else ""
    )
    request = fill(task, observations=log, level_guidance=guidance)
    return [SystemMessage(system), HumanMessage(request)]
