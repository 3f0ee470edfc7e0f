"""The conversation with the Reflector about several threads: it condenses each in its section.

Like `reflect`, it climbs from level to level until an answer is small enough, and the best wins. A
thread whose section is missing, unusable or not smaller keeps its observations as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langgraph_om.core.observe.observer import Flow, ModelCall, failure
from langgraph_om.core.observe.thread_sections import ShowId
from langgraph_om.core.record.record import Group
from langgraph_om.core.reflect.reflector import HIGHEST_LEVEL, reflector_question
from langgraph_om.core.threads.log import render_for_reflector
from langgraph_om.core.threads.sections import Answers, parse_sections
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.errors import ObserverError


@dataclass(frozen=True, slots=True)
class ThreadsReflectorInput:
    """All that the Reflector is told of several threads."""

    groups: Sequence[Group]
    show_id: ShowId
    target: int
    """Tokens of all groups together under which an answer is taken at once."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


@dataclass(frozen=True, slots=True)
class ThreadsReflection:
    """Condensed observations of threads, each smaller than what it takes the place of."""

    texts: Mapping[str, str]
    """By thread id; the observations of other threads stay."""
    tokens: int
    """Of all groups that were read, with the new texts in place."""
    level: int


def reflect_threads(
    request: ThreadsReflectorInput, counter: TokenCounter
) -> Flow[ThreadsReflection]:
    """Ask the Reflector until the log is small enough, and take the best of its answers.

    Raises:
        ObserverError: When no answer makes the observations of any thread smaller.
    """
    best: ThreadsReflection | None = None
    sizes = _sizes(request.groups)
    names = {request.show_id(thread): thread for thread in sizes}
    tokens, problem = sum(group["tokens"] for group in request.groups), ""
    for level in range(HIGHEST_LEVEL + 1):
        reply = yield ModelCall("reflector", _question(request, level, tokens))
        if reply.error is not None:
            if best is None:
                raise failure(reply.error, "Reflector") from reply.error
            break
        answers = parse_sections(reply.text, names.keys(), cut_off=reply.cut_off)
        texts = _condensed(answers, names, sizes, counter)
        if not texts:
            problem = answers.problem or "it makes the observations of no thread smaller"
            continue
        tokens = _tokens_with(request.groups, texts, counter)
        if best is None or tokens < best.tokens:
            best = ThreadsReflection(texts, tokens, level)
        if best.tokens < request.target:
            break
    if best is None:
        msg = f"the Reflector gave no usable answer in {HIGHEST_LEVEL + 1} attempts: {problem}"
        raise ObserverError(msg)
    return best


def _sizes(groups: Sequence[Group]) -> dict[str, int]:
    """Count the tokens of each thread that has observations."""
    sizes: dict[str, int] = {}
    for group in groups:
        if group["thread_id"] is not None and group["text"]:
            sizes[group["thread_id"]] = sizes.get(group["thread_id"], 0) + group["tokens"]
    return sizes


def _condensed(
    answers: Answers,
    names: Mapping[str, str],
    sizes: Mapping[str, int],
    counter: TokenCounter,
) -> dict[str, str]:
    """Return the texts that are smaller than what they take the place of."""
    return {
        names[shown_id]: parsed.observations
        for shown_id, parsed in answers.threads.items()
        if parsed.status == "ok"
        and counter.count_text(parsed.observations) < sizes[names[shown_id]]
    }


def _tokens_with(groups: Sequence[Group], texts: Mapping[str, str], counter: TokenCounter) -> int:
    kept = sum(group["tokens"] for group in groups if group["thread_id"] not in texts)
    return kept + sum(map(counter.count_text, texts.values()))


def _question(
    request: ThreadsReflectorInput, level: int, previous_tokens: int
) -> list[BaseMessage]:
    return reflector_question(
        "reflector_threads_task",
        render_for_reflector(request.groups, request.show_id),
        level,
        previous_tokens,
        target=request.target,
        instruction=request.instruction,
        prompt=request.prompt,
    )
