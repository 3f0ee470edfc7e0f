"""The conversation with the Reflector: ever denser requests, of which the best result wins.

`reflect` is a flow like `observe`. It starts without guidance (level 0) and climbs to level 4; the
first valid answer under the target is taken, else the smallest valid one that is smaller than the
log.
"""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.observer import (
    Flow,
    ModelCall,
    failure,
    observer_rules,
    output_format,
)
from langgraph_om.core.parsing import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.tags import escape
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.errors import ObserverError

__all__ = ["Reflection", "ReflectorInput", "reflect"]

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


def _question(request: ReflectorInput, level: int, previous_tokens: int) -> list[BaseMessage]:
    system = fill(
        "reflector",
        output_format=output_format(thread_title=False),
        observer_rules=observer_rules(request.prompt),
        custom=request.instruction or "",
    )
    guidance = (
        fill(
            f"reflector_level_{level}",
            previous_tokens=str(previous_tokens),
            target_tokens=str(request.target),
        )
        if level
        else ""
    )
    task = fill("reflector_task", observations=escape(request.log), level_guidance=guidance)
    return [SystemMessage(system), HumanMessage(task)]
