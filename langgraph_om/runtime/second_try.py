"""What the Actor is asked with once more when its provider refused the input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_om.core.actor.prompt import count_extra
from langgraph_om.core.content.bound_reasoning import holds_bound_reasoning
from langgraph_om.core.events import to_part
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step.count_new import build_trim_notice
from langgraph_om.core.wire import Part
from langgraph_om.models.retries import is_context_overflow, is_refused_reasoning
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import record_of

SecondTry = tuple[list[BaseMessage], Part | None]
"""An input, and the `data-om-view-trimmed` part where messages are left out of it."""


def find_second_try(
    runner: StepRunner,
    state: Any,
    error: Exception,
    *,
    system: str | SystemMessage | None = None,
    working: str = "",
) -> SecondTry:
    """Return a smaller input for the Actor: with fewer messages, or without old reasoning.

    Its answer is to be marked (`mark_other_view`), since later views do not continue this one.

    Args:
        runner: What the memory runs its steps with.
        state: The graph's state.
        error: What the provider said.
        system: The agent's own system prompt.
        working: The block of working memory; empty for none.

    Raises:
        Exception: The error itself, where another input would not help, or memory is off.
    """
    is_too_long = is_context_overflow(error)
    if not runner.is_on() or not (is_too_long or is_refused_reasoning(error)):
        raise error
    found = (_leave_messages_out if is_too_long else _leave_reasoning_out)(
        runner, state, system, working
    )
    if found is None:
        raise error
    return found


def _leave_messages_out(
    runner: StepRunner, state: Any, system: str | SystemMessage | None, working: str
) -> SecondTry | None:
    """Leave out the older half of the window, whole exchanges only."""
    messages = runner.conversation(state)
    record = runner.record_to_show(record_of(state), messages)
    window = open_window(record, messages, runner.settings.counter, is_counted=True)
    overhead = log_tokens(record) + window.request_tokens
    overhead += count_extra(record, runner.settings.guide, working)
    limit = overhead + window.tokens // 2
    limited = replace(runner.settings, max_input_tokens=limit)
    notice = build_trim_notice(limited, record, window, working)
    part = to_part(notice[0]) if notice else None
    view = runner.actor_input(
        record,
        messages,
        system,
        max_input_tokens=limit,
        with_reasoning=False,
        working=working,
    )
    return (view, part) if part is not None else None


def _leave_reasoning_out(
    runner: StepRunner, state: Any, system: str | SystemMessage | None, working: str
) -> SecondTry | None:
    """Leave out the reasoning that its provider binds to what stands before it."""
    messages = runner.conversation(state)
    record = runner.record_to_show(record_of(state), messages)
    ask = partial(runner.actor_input, record, messages, system, working=working)
    refused = ask()
    if not any(map(holds_bound_reasoning, refused)):
        return None
    return ask(with_reasoning=False), None
