"""Have the Reflector edit the log: what it does not name stays as it is.

A flow like `observe`. Each question shows the log as it stands by then, with numbers of its own,
and says how many tokens are still to go; what was achieved stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.effects import AskModel, Flow
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.prompts import fill
from langgraph_om.core.reflect.apply_edits import EditedLog
from langgraph_om.core.reflect.check_edits import check_edits
from langgraph_om.core.reflect.edits import parse_edits
from langgraph_om.core.reflect.items import Item, number_items, render_items
from langgraph_om.core.reflect.reflector import MAX_QUESTIONS, is_small_enough
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

_ASKED_PER_NEEDED: Final = 1.1
"""Models free 3 to 17 % less than they think: they are asked for a tenth more than is needed."""

MAX_REASONS: Final = 5
"""Why edits were left out is said of so many of them."""


@dataclass(frozen=True, slots=True)
class EditsInput:
    """All that the Reflector is given about a log that it edits."""

    groups: Sequence[Group]
    target: int
    """Tokens of all groups together, to stay under."""
    shown: Sequence[str] = ()
    """What it is shown of each group; the texts as they are, where nothing is given."""
    show_id: ShowId | None = None
    """How ids of threads are shown; `None` where the log is about one thread."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """The current task and the suggested response."""
    instruction: str | None = None


def reflect_by_edits(request: EditsInput, counter: TokenCounter) -> Flow[EditedLog]:
    """Ask for edits until the log is small enough, three times at most.

    Returns:
        The log with all valid edits; without any when the first answer held none.

    Raises:
        ObserverError: When the first question is not answered.
    """
    log = EditedLog(request.groups, list(request.shown))
    given, refused = log.tokens, list[str]()
    for _ in range(MAX_QUESTIONS):
        items = number_items(log.groups, counter, log.views)
        if not items:
            break
        reply = yield AskModel("reflector", _build_question(request, log, items, given, refused))
        if reply.error is not None:
            if not log.edits:
                raise build_failure(reply.error, "Reflector") from reply.error
            break
        edits = parse_edits(reply.text, cut_off=reply.cut_off)
        checked = check_edits(edits, items, counter)
        if not checked.count:
            break
        log.apply(checked, items, counter)
        refused = checked.refused
        if is_small_enough(log.tokens, request.target):
            break
    return log


def _build_question(
    request: EditsInput, log: EditedLog, items: Sequence[Item], given: int, refused: Sequence[str]
) -> list[BaseMessage]:
    """Return the question: the log as it is now, and what is still to go.

    Args:
        request: What the Reflector is given.
        log: The log with the edits so far.
        items: Its items.
        given: Tokens of the log at first.
        refused: Why edits of the former answer were left out.
    """
    tokens = log.tokens
    free = min(tokens, round((tokens - request.target) * _ASKED_PER_NEEDED) + 1)
    progress = ""
    if log.edits:
        progress = fill(
            "reflector_edits_progress",
            freed_tokens=str(given - tokens),
            refused=_list_reasons(refused),
        )
    task = fill(
        "reflector_edits_task",
        observations=render_items(items, request.show_id),
        hints=_render_hints(request.hints),
        threads=fill("reflector_edits_threads") if request.show_id is not None else "",
        progress=progress,
        log_tokens=str(tokens),
        free_tokens=str(max(1, free)),
    )
    system = fill("reflector_edits", custom=request.instruction or "")
    return [SystemMessage(system), HumanMessage(task)]


def _render_hints(hints: Mapping[str, str | None]) -> str:
    tags = {"current_task": "current-task", "suggested_response": "suggested-response"}
    return "\n".join(
        f"<{tag}>{escape(text)}</{tag}>" for name, tag in tags.items() if (text := hints.get(name))
    )


def _list_reasons(refused: Sequence[str]) -> str:
    if not refused:
        return ""
    lines = [f"- {escape(reason)}" for reason in refused[:MAX_REASONS]]
    more = len(refused) - len(lines)
    lines += [f"- and {more} more"] if more else []
    return "\n".join(["Left out of your last answer, by its numbers:", *lines])
