"""The conversation with the Observer: what it is asked, and what counts as an answer.

`observe` is a flow: it yields a `ModelCall`, is sent a `ModelReply`, and returns an `Observation`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.attachments import Attachment
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import clean, omit_middle
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.errors import ObserverError

MOST_ERROR_CHARACTERS = 1000
"""Of what a provider says, which is logged and may be kept in memory."""
MOST_QUOTED_CHARACTERS = 20_000
"""Of an answer that is shown to the model again."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A question to a model; whoever drives the flow asks it."""

    role: Literal["observer", "reflector"]
    messages: list[BaseMessage]
    """As text; what is attached is put in for the model that is really asked."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What it is asked for: the cycle, its trigger and whose conversation it is."""
    attachments: Sequence[Attachment] = ()
    """What is attached to the messages in it, oldest first."""
    by_profile: bool = True
    """Whether a model is sent only what its profile says that it takes."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came of a `ModelCall`."""

    at: datetime
    text: str = ""
    cut_off: bool = False
    """Whether the provider says that the output limit ended the answer."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """`inputTokens` and `outputTokens` as the provider counts them."""
    error: Exception | None = None
    """Why there is no answer."""


Flow = Generator[ModelCall, ModelReply, ResultT]
"""Yields questions, is sent replies, returns a result; written once for sync and async."""


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
    messages = _question(request)
    reply = yield _call(request, messages)
    parsed = _read(reply)
    if parsed.status not in ("ok", "none"):
        again = [*messages, *_quoted(reply, parsed), _asking_again(parsed)]
        reply = yield _call(request, again)
        parsed = _read(reply)
    if parsed.status not in ("ok", "none"):
        msg = f"the Observer's answer is {parsed.status}: {parsed.problem}"
        error = ObserverError(msg)
        error.observations = parsed.observations
        raise error
    return parsed


def _call(request: ObserverInput, messages: list[BaseMessage]) -> ModelCall:
    return ModelCall(
        "observer", messages, attachments=request.attachments, by_profile=request.by_profile
    )


def _read(reply: ModelReply) -> Parsed:
    if reply.error is not None:
        raise failure(reply.error, "Observer") from reply.error
    return parse_output(reply.text, cut_off=reply.cut_off)


def _quoted(reply: ModelReply, parsed: Parsed) -> list[BaseMessage]:
    """Show the model its own answer, unless that is a flood or nothing."""
    return [quoted(reply)] if parsed.status == "malformed" else []


def failure(error: Exception, model: str) -> ObserverError:
    """Say why the Observer or the Reflector gave no answer, in so much text as can be kept."""
    told = clean(str(error)[:MOST_ERROR_CHARACTERS])
    return ObserverError(f"the {model} failed: {type(error).__name__}: {told}")


def quoted(reply: ModelReply) -> AIMessage:
    """Show a model its answer, in a form that any provider takes."""
    return AIMessage(omit_middle(clean(reply.text), MOST_QUOTED_CHARACTERS))


def _asking_again(parsed: Parsed) -> HumanMessage:
    return HumanMessage(fill("observer_retry", problem=parsed.problem))


def _question(request: ObserverInput) -> list[BaseMessage]:
    system = fill(
        f"observer_{request.prompt}",
        output_format=output_format(thread_title=request.thread_title),
        custom=request.instruction or "",
    )
    task = fill(
        "observer_task",
        previous_observations=_previous_section(request.previous),
        hints=_hints_section(request.hints),
        conversation=request.transcript,
    )
    return [SystemMessage(system), HumanMessage(task)]


def _previous_section(previous: str) -> str:
    if not previous:
        return "There are no earlier observations."
    return f"<previous-observations>\n{escape(previous)}\n</previous-observations>"


def _hints_section(hints: Mapping[str, str | None]) -> str:
    """Quote the continuation hints as they stand, each in its tag."""
    tags = {"current_task": "current-task", "suggested_response": "suggested-response"}
    tags["thread_title"] = "thread-title"
    return "\n".join(
        f"<{tag}>{escape(text)}</{tag}>" for name, tag in tags.items() if (text := hints.get(name))
    )


def output_format(*, thread_title: bool) -> str:
    """Describe the form of an answer, for the Observer and for the Reflector."""
    title = fill("observer_title") if thread_title else ""
    return fill("observer_output", thread_title_section=title)


def observer_rules(prompt: str) -> str:
    """Return the Observer's rules alone, so that the Reflector knows what it reads."""
    return fill(f"observer_{prompt}", output_format="", custom="")
