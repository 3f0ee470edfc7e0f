"""What the Actor is asked with once more when its provider refused the input."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from langgraph_om.core.actor.prompt import assemble, count_extra
from langgraph_om.core.content.bound_reasoning import holds_bound_reasoning
from langgraph_om.core.events import to_part
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.step.count_new import build_trim_notice
from langgraph_om.core.step.step import Step
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
) -> SecondTry:
    """Return a smaller input for the Actor: with fewer messages, or without old reasoning.

    Its answer is to be marked (`mark_other_view`), since later views do not continue this one.

    Args:
        runner: What the memory runs its steps with.
        state: The graph's state.
        error: What the provider said.
        system: The agent's own system prompt.

    Raises:
        Exception: The error itself, where another input would not help, or memory is off.
    """
    is_too_long = is_context_overflow(error)
    if not runner.is_on() or not (is_too_long or is_refused_reasoning(error)):
        raise error
    texts = runner.read_texts(state)
    look = runner.look(record_of(state), runner.conversation(state), texts)
    found = (_leave_messages_out if is_too_long else _leave_reasoning_out)(runner, look, system)
    if found is None:
        raise error
    return found


def _leave_messages_out(
    runner: StepRunner, look: Step, system: str | SystemMessage | None
) -> SecondTry | None:
    """Leave out the older half of the window, whole exchanges only."""
    record, window = look.record, look.window
    overhead = log_tokens(record) + window.request_tokens
    overhead += count_extra(record, runner.settings.guide, look.view.asides)
    limit = overhead + window.tokens // 2
    view = look.make_view(limit)
    notice = build_trim_notice(record, window, view.shown.dropped, limit)
    part = to_part(notice[0]) if notice else None
    shown = assemble(view, record, look.messages, system=system, with_reasoning=False)
    return (shown, part) if part is not None else None


def _leave_reasoning_out(
    runner: StepRunner, look: Step, system: str | SystemMessage | None
) -> SecondTry | None:
    """Leave out the reasoning that its provider binds to what stands before it."""
    if not any(map(holds_bound_reasoning, runner.actor_input(look, system))):
        return None
    return runner.actor_input(look, system, with_reasoning=False), None
