"""The conversation with the Reflector: ever denser requests, of which the best result wins.

`reflect` is a flow like `observe`. It starts without guidance (level 0) and climbs to level 4; the
first valid answer under the target is taken, else the smallest valid one that is smaller than the
log.
"""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.observe.observer import (
    Flow,
    ModelCall,
    failure,
    observer_rules,
    output_format,
)
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.errors import ObserverError

HIGHEST_LEVEL = 4


@dataclass(frozen=True, slots=True)
class ReflectorInput:
    """All that the Reflector is told."""

    log: str
    tokens: int
    """Tokens of the log; an answer has to be smaller."""
    target: int
    """Tokens under which an answer is taken at once."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A valid answer that is smaller than the log it read."""

    text: str
    tokens: int
    current_task: str | None
    level: int


def reflect(request: ReflectorInput, counter: TokenCounter) -> Flow[Reflection]:
    """Ask the Reflector until an answer is small enough, and take the best.

    Raises:
        ObserverError: When no answer was valid and smaller than the log.
    """
    best: Reflection | None = None
    tokens, problem = request.tokens, ""
    for level in range(HIGHEST_LEVEL + 1):
        reply = yield ModelCall("reflector", _question(request, level, tokens))
        if reply.error is not None:
            if best is None:
                raise failure(reply.error, "Reflector") from reply.error
            break
        parsed = parse_output(reply.text, cut_off=reply.cut_off)
        if parsed.status != "ok":
            problem = _problem(parsed)
            continue
        tokens = counter.count_text(parsed.observations)
        if tokens >= request.tokens:
            problem = f"it has {tokens} tokens, the log it replaces {request.tokens}"
        elif best is None or tokens < best.tokens:
            best = Reflection(parsed.observations, tokens, parsed.current_task, level)
        if best is not None and best.tokens < request.target:
            break
    if best is None:
        msg = f"the Reflector gave no usable answer in {HIGHEST_LEVEL + 1} attempts: {problem}"
        raise ObserverError(msg)
    return best


def _problem(parsed: Parsed) -> str:
    if parsed.status == "none":
        return "it leaves nothing of the log"
    return f"it is {parsed.status}: {parsed.problem}"


def reflector_question(
    task: str,
    log: str,
    level: int,
    previous_tokens: int,
    *,
    target: int,
    instruction: str | None,
    prompt: str,
) -> list[BaseMessage]:
    """Write the question to the Reflector.

    Args:
        task: The prompt that holds the log.
        log: The log, its tags escaped.
        level: How dense the answer has to be, 0 to 4.
        previous_tokens: Tokens of the answer before.
        target: Tokens to stay under.
        instruction: The developer's own.
        prompt: Which of the Observer's prompts wrote the log.
    """
    system = fill(
        "reflector",
        output_format=output_format(thread_title=False),
        observer_rules=observer_rules(prompt),
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
    asked = fill(task, observations=log, level_guidance=guidance)
    return [SystemMessage(system), HumanMessage(asked)]


def _question(request: ReflectorInput, level: int, previous_tokens: int) -> list[BaseMessage]:
    return reflector_question(
        "reflector_task",
        escape(request.log),
        level,
        previous_tokens,
        target=request.target,
        instruction=request.instruction,
        prompt=request.prompt,
    )
