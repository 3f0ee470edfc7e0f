"""The Actor's input once more with less, after its provider refused it as too long.

Features cut what is enormous first, then the oldest messages of the window are left out, then the
oldest observations. The memory itself does not change by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_om.core.actor.prompt import View, assemble, choose_reminder, render_memory
from langgraph_om.core.actor.shown import select_shown
from langgraph_om.core.config.settings import Features
from langgraph_om.core.content.bound_reasoning import without_bound_reasoning
from langgraph_om.core.prompts import load
from langgraph_om.core.step.count_new import describe_trim
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import MemoryRecord, ViewTrimmed

_CUT: Final = (8000, 2000, 500)
"""Tokens above which messages are cut, one after the other."""
_FIELDS: Final = ("content", "tool_calls", "invalid_tool_calls")
"""Fields of a message that may be cut."""


@dataclass(frozen=True, slots=True)
class Shorter:
    """An input with less than the view has."""

    messages: list[BaseMessage]
    tokens: int
    """As memory counts them, with the agent's own prompt and without its tools."""
    notice: ViewTrimmed
    """What is left out."""


def find_shorter(
    step: Step,
    target: int,
    *,
    system: str | SystemMessage | None = None,
    limit: int | None = None,
) -> Shorter:
    """Return the input that leaves out the least and keeps to a target, or else the shortest one.

    Where nothing can be left out, it is no shorter than the one of the view.

    Args:
        step: A look at the conversation.
        target: Tokens.
        system: The agent's own system prompt.
        limit: The Actor's window, in tokens, which the notice names; `None`: it names the target.
    """
    named = target if limit is None else limit

    @cache
    def build(tokens: int, dropped: int = 0, groups: int = 0) -> Shorter:
        dropped = max(dropped, step.view.shown.dropped)
        view, changed = _leave_out(step, tokens, dropped, groups)
        messages = assemble(view, step.record, step.messages, system=system, with_reasoning=False)
        notice = describe_trim(
            step.record, step.window, dropped, named, previewed=changed, groups=groups
        )
        return Shorter(messages, count_messages(step.settings.counter, messages), notice)

    def find_first(ways: Sequence[int], make: Callable[[int], Shorter]) -> int:
        """Return the first way that fits, each of which is shorter than the one before."""
        fits = bisect_left(ways, 1, key=lambda way: make(way).tokens <= target)
        return ways[min(fits, len(ways) - 1)]

    least = _CUT[-1]
    for tokens in _CUT:
        found = build(tokens)
        if found.tokens <= target:
            break
    else:
        cuts = [cut for cut in step.window.span.cuts if cut < len(step.window.entries)]
        dropped = find_first([0, *cuts], partial(build, least))
        every = range(len(step.record["log"]) + 1)
        found = build(least, dropped, find_first(every, partial(build, least, dropped)))
    return found


def _leave_out(step: Step, tokens: int, dropped: int, groups: int) -> tuple[View, int]:
    """Return the view without the window's first messages and the log's first groups.

    Args:
        step: A look at the conversation.
        tokens: Above how many a message is cut.
        dropped: How many of the first messages are left out.
        groups: How many of the oldest groups of observations.

    Returns:
        The view, and how many of its messages are cut.
    """
    whole = select_shown(step.messages, step.window, dropped)
    shown = whole.replace_messages(partial(_cut, features=step.settings.features, tokens=tokens))
    previewed = sum(
        any(
            getattr(before.message, part, None) != getattr(after.message, part, None)
            for part in _FIELDS
        )
        for before, after in zip(whole.entries, shown.entries, strict=True)
    )
    memory = step.view.memory
    if groups:
        log = step.record["log"]
        kept = [group for group in log[:groups] if group.get("feature")]
        record: MemoryRecord = {**step.record, "log": [*kept, *log[groups:]]}
        memory = render_memory(step.settings, record, step.view.day)
        if record["log"]:
            memory[0] += f"{load('shortened_log')}\n"
    reminder = choose_reminder(step.record, dropped)
    return replace(step.view, shown=shown, memory=memory, reminder=reminder), previewed


def _cut(message: BaseMessage, key: str, *, features: Features, tokens: int) -> BaseMessage:
    plain = without_bound_reasoning(message)
    return message if plain is None else features.cut(plain, key, tokens)
