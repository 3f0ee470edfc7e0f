"""Ask the Observer about a thread, and once more when the answer cannot be used.

`observe` is a flow: it yields `AskModel` and is sent a `ModelReply`. It returns a `ParsedAnswer`
whose status is `ok` or `none`; anything else is an `ObserverError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.parts import Attachment
from langgraph_om.core.content.text import escape, omit_middle, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.items import cut_spans, find_spans, read_head, replace_spans
from langgraph_om.core.observe.parse_answer import (
    ParsedAnswer,
    drop_examples,
    hold_to_size,
    list_examples,
    names_items,
    parse_output,
    tag_of,
    tell_hints,
)
from langgraph_om.core.prompts import fill, load
from langgraph_om.errors import ObserverError

MAX_ERROR_CHARACTERS = 1000
"""Kept of a provider's error, which is logged and may be stored in memory."""

MAX_QUOTED_CHARACTERS = 20_000
"""Kept of an answer that is shown to the model again."""


AnswerT = TypeVar("AnswerT", bound=ParsedAnswer)


@dataclass(frozen=True, slots=True)
class ObserverInput:
    """All that the Observer is given about one thread."""

    transcript: str
    previous: str = ""
    """Earlier observations, already cut to their budget."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """The current ones of those that are asked for, by name."""
    instruction: str | None = None
    asked: Sequence[str] = ()
    """Names of the hints that are asked for."""
    attachments: Sequence[Attachment] = ()
    """Those named in the transcript that may be shown."""
    held: str = ""
    """Earlier notes that are always shown."""
    timezone: tzinfo = UTC
    """Of the times in the transcript."""


def observe(question: AskModel, *, is_much: bool = False) -> Flow[ParsedAnswer]:
    """Ask the Observer about one thread, and once more when its answer cannot be used.

    Args:
        question: From `build_question`.
        is_much: Whether more was said than may need no note.

    Returns:
        A parsed answer whose status is `ok` or `none`.

    Raises:
        ObserverError: When a call fails, or the second answer is not usable either.
    """
    examples = list_examples(question.messages[0].text)

    def read(reply: ModelReply) -> ParsedAnswer:
        text = drop_examples(reply.text, examples)
        return hold_to_size(parse_output(text, cut_off=reply.cut_off), is_much=is_much)

    return (yield from ask_until_usable(question, read, "observer_retry", is_much=is_much))


_LEAST: Final = {
    False: "Where nothing is worth noting, the first block is "
    "`<observations>(none)</observations>`.",
    True: "Of whatever was talked about, at least one item says what it was.",
}
"""The least that an answer holds, by whether more was said than may need no note."""


def ask_until_usable(
    question: AskModel, read: Callable[[ModelReply], AnswerT], retry: str, *, is_much: bool
) -> Flow[AnswerT]:
    """Ask the Observer, and once more when its answer cannot be used.

    Args:
        retry: The name of the prompt that asks once more.
        is_much: As for `observe`.

    Raises:
        ObserverError: When a call fails, or the second answer is not usable either.
    """
    reply = yield question
    answer = _read_reply(reply, read)
    if answer.status not in ("ok", "none"):
        # One that repeats itself or is empty is not shown again.
        quoted: list[BaseMessage] = []
        if answer.status == "malformed":
            quoted.append(AIMessage(omit_middle(sanitize(reply.text), MAX_QUOTED_CHARACTERS)))
        asked_again = HumanMessage(fill(retry, problem=answer.problem, least=_LEAST[is_much]))
        first, refused = reply, answer
        reply = yield replace(question, messages=[*question.messages, *quoted, asked_again])
        answer = _read_reply(reply, read)
        said_more = refused.status in ("degenerate", "cut_off") or names_items(first.text)
        if answer.status == "none" and said_more:
            answer = refused  # there was something to note
    if answer.status not in ("ok", "none"):
        msg = f"the Observer's answer is {answer.status}: {answer.problem}"
        error = ObserverError(msg)
        error.observations = answer.observations
        if not reply.text.strip():  # by which some servers refuse what is too long
            error.room = reply.room
        raise error
    return answer


def _read_reply(reply: ModelReply, read: Callable[[ModelReply], AnswerT]) -> AnswerT:
    if reply.error is not None:
        raise build_failure(reply, "Observer") from reply.error
    return read(reply)


def build_failure(reply: ModelReply, model: str) -> ObserverError:
    """Return the error for a failed call of the Observer or the Reflector, its text sanitized."""
    reason = sanitize(str(reply.error)[:MAX_ERROR_CHARACTERS])
    failure = ObserverError(f"the {model} failed: {type(reply.error).__name__}: {reason}")
    failure.room = reply.room
    return failure


def render_output_format(asked: Sequence[str], held: str) -> str:
    """Return the description of an answer's form.

    Args:
        asked: Names of the hints that are asked for.
        held: Earlier notes that are always shown.
    """
    return fill(
        "observer_output",
        hints=tell_hints(asked, "observer"),
        hints_example=tell_hints(asked, "example"),
        ends=load("standing_ends") if held else "",
    )


# --- One thread ----------------------------------------------------------------------------------


def build_question(request: ObserverInput) -> AskModel:
    """Return the question to the Observer about one thread."""
    system = fill(
        "observer",
        output_format=render_output_format(request.asked, request.held),
        custom=request.instruction or "",
    )
    task = fill(
        "observer_task",
        previous_observations=_build_previous(request.previous, request.held),
        hints=write_hints(request.hints),
        conversation=request.transcript,
        timezone=str(request.timezone),
    )
    return AskModel(
        "observer",
        [SystemMessage(system), HumanMessage(task)],
        attachments=request.attachments,
    )


def _build_previous(previous: str, held: str) -> str:
    previous = "\n\n".join(filter(None, (held, tell_plainly(previous))))
    if not previous:
        return "There are no earlier observations."
    return f"<previous-observations>\n{escape(previous)}\n</previous-observations>"


def tell_plainly(log: str) -> str:
    """Return observations without marks and times: small models copy what looks like an answer."""
    spans = find_spans(log)
    items = cut_spans(log, spans)
    plain = {
        span: f"- {item[read_head(item).end :]}" for span, item in zip(spans, items, strict=True)
    }
    return replace_spans(log, plain)


def write_hints(hints: Mapping[str, str | None]) -> str:
    """Return hints by name as lines, each in its tag."""
    tagged = ((tag_of(name), text) for name, text in hints.items() if text)
    return "\n".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in tagged)
