"""The Actor's input once more with less, after its provider refused it as too long.

What is enormous is shown as previews first, then the oldest messages of the window are left out,
then the oldest observations. The memory itself does not change by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_om.core.actor.preview import PreviewRule, preview_message
from langgraph_om.core.actor.prompt import assemble, choose_reminder, render_memory
from langgraph_om.core.actor.shown import select_shown
from langgraph_om.core.content.bound_reasoning import without_bound_reasoning
from langgraph_om.core.content.message_keys import key_of
from langgraph_om.core.prompts import load
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import ViewTrimmed

_PREVIEWED: Final = (8000, 2000, 500)
"""Tokens above which results of tools are previewed, one after the other; other texts at as many
times as `preview_tokens` allows them by default."""
_TEXTS: Final = 2.5


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
    reads_on: bool,
) -> Shorter | None:
    """Return the input that leaves out the least and keeps to a target, or else the shortest one.

    Args:
        step: A look at the conversation.
        target: Tokens.
        system: The agent's own system prompt.
        reads_on: Whether `recall` can read what a preview leaves out.

    Returns:
        `None` where nothing can be left out.
    """

    def build(previewed: int, dropped: int = 0, groups: int = 0) -> Shorter:
        count = step.settings.counter.count_text
        rule = PreviewRule(previewed, int(previewed * _TEXTS), count, reads_on=reads_on)
        return _build(step, system, rule, max(dropped, step.view.shown.dropped), groups)

    def find_first(ways: Sequence[int], make: Callable[[int], Shorter]) -> int:
        """Return the first way that fits, each of which is shorter than the one before."""
        fits = bisect_left(ways, 1, key=lambda way: make(way).tokens <= target)
        return ways[min(fits, len(ways) - 1)]

    least = _PREVIEWED[-1]
    for previewed in _PREVIEWED:
        found = build(previewed)
        if found.tokens <= target:
            break
    else:
        cuts = [cut for cut in step.window.span.cuts if cut < len(step.window.entries)]
        dropped = find_first([0, *cuts], partial(build, least))
        groups = 0
        if build(least, dropped).tokens > target:
            every = range(len(step.record["log"]) + 1)
            groups = find_first(every, partial(build, least, dropped))
        found = build(least, dropped, groups)
    found.notice["limit"] = target
    shown = assemble(step.view, step.record, step.messages, system=system)
    is_shorter = found.tokens < count_messages(step.settings.counter, shown)
    return found if is_shorter else None


def _build(
    step: Step, system: str | SystemMessage | None, rule: PreviewRule, dropped: int, groups: int
) -> Shorter:
    """Return the input without the window's first messages and the log's first groups.

    Args:
        step: A look at the conversation.
        system: The agent's own system prompt.
        rule: What is shown as a preview.
        dropped: How many of the first messages are left out.
        groups: How many of the oldest groups of observations.
    """
    whole = select_shown(step.messages, step.window, dropped)
    entries = [entry._replace(message=_cut(entry.message, rule)) for entry in whole.entries]
    previewed = sum(
        before.message.content != after.message.content
        for before, after in zip(whole.entries, entries, strict=True)
    )
    record, memory = step.record, step.view.memory
    if groups:
        record = {**record, "log": record["log"][groups:]}
        memory = render_memory(step.settings, record, step.view.day)
        if record["log"]:
            memory[0] += f"{load('shortened_log')}\n"
    view = replace(
        step.view,
        shown=whole._replace(entries=entries, lead=[_cut(each, rule) for each in whole.lead]),
        memory=memory,
        reminder=choose_reminder(step.record, dropped),
    )
    messages = assemble(view, step.record, step.messages, system=system, with_reasoning=False)
    left_out = [
        entry for entry in step.window.entries[:dropped] if entry.key != step.window.request
    ]
    notice: ViewTrimmed = {
        "type": "view-trimmed",
        "dropped_messages": len(left_out),
        "dropped_tokens": sum(entry.tokens for entry in left_out),
        "previewed_messages": previewed,
        "dropped_groups": groups,
        "limit": 0,
        "record_id": record["id"],
        "thread_id": record["thread_id"],
    }
    return Shorter(messages, count_messages(step.settings.counter, messages), notice)


def _cut(message: BaseMessage, rule: PreviewRule) -> BaseMessage:
    plain = without_bound_reasoning(message)
    return message if plain is None else preview_message(plain, key_of(message), rule)
