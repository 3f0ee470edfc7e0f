"""Ask the Actor again with less, after its provider refused the input as too long.

Features cut what is enormous first, then the oldest messages of the window are left out, then the
oldest observations. The memory itself does not change by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.actor.prompt import View, assemble, choose_reminder, render_memory
from langgraph_om.core.actor.shown import select_shown
from langgraph_om.core.config.settings import Features
from langgraph_om.core.config.thresholds import ANY_MODEL, mark_learned
from langgraph_om.core.content.blocks import (
    holds_bound_reasoning,
    mark_other_view,
    without_bound_reasoning,
)
from langgraph_om.core.content.text import write_json
from langgraph_om.core.events import to_part
from langgraph_om.core.prompts import load
from langgraph_om.core.step.inspect import describe_trim
from langgraph_om.core.step.step import Step
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import MemoryRecord, ViewTrimmed
from langgraph_om.models.retries import is_context_overflow, is_refused_reasoning, read_overflow
from langgraph_om.runtime.run import find_writer
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import record_of

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
        target: Tokens.
        limit: The Actor's window, in tokens, which the notice names; `None`: it names the target.
    """
    named = target if limit is None else limit

    @cache
    def build(tokens: int, dropped: int = 0, groups: int = 0) -> Shorter:
        dropped = max(dropped, step.view.shown.dropped)
        view, changed = _leave_out(step, tokens, dropped, groups)
        messages = assemble(view, step.record, system=system, with_reasoning=False)
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


AnswerT = TypeVar("AnswerT")
MarkAnswer = Callable[[BaseMessage], BaseMessage]

_MOST_TRIES: Final = 4
_SURE: Final = 0.95
"""Of the length that an error allows, so much is used: memory and provider count differently."""
_LEAST_LEARNED: Final = 1000
"""Tokens; no model reads less, and an error may hold other numbers than those of a window."""
_HOPELESS: Final = 1.1
"""What is longer by so much than an error allows is not tried."""


def _mark_message(answer: Any, mark: MarkAnswer) -> Any:
    return mark(answer) if isinstance(answer, BaseMessage) else answer


class SecondTries:
    """Inputs for one call of the Actor, each smaller than the one that was refused before.

    Args:
        model: The name of the Actor's model; empty where it is not known.
        config: The run's configuration, where it is not found around the call.
        refused: The input that was refused; `None`: the one of the state.
        mark: Marks the messages in an answer to such an input.
    """

    def __init__(
        self,
        runner: StepRunner,
        state: Any,
        system: str | SystemMessage | None = None,
        *,
        model: str = ANY_MODEL,
        config: RunnableConfig | None = None,
        refused: Iterable[BaseMessage] | None = None,
        mark: Callable[[Any, MarkAnswer], Any] = _mark_message,
    ) -> None:
        self._runner, self._state, self._system = runner, state, system
        self._model, self._config, self._mark_in = model, config, mark
        self._learned: int | None = None
        self._left = _MOST_TRIES
        self._look: Step | None = None
        self._size = None if refused is None else self._count(refused)
        self._shows_reasoning = True

    def _count(self, messages: Iterable[BaseMessage]) -> int:
        return count_messages(self._runner.settings.counter, messages)

    def find(self, error: Exception) -> list[BaseMessage]:
        """Return the next input: one that is shorter, or without old reasoning.

        Raises:
            Exception: The error itself, where another input would not help, or memory is off.
        """
        is_too_long = is_context_overflow(error)
        may_help = is_too_long or (is_refused_reasoning(error) and self._shows_reasoning)
        if not self._left or not may_help or not self._runner.runs.is_on(self._config):
            raise error
        self._left -= 1
        look = self._open()
        found = self._shorten(look, error) if is_too_long else self._leave_reasoning_out(look)
        self._shows_reasoning = False
        if found is None:
            raise error
        return found

    def _open(self) -> Step:
        if self._look is None:
            runner, state = self._runner, self._state
            texts = runner.read_texts(state)
            messages = runner.conversation(state)
            self._look = runner.look(record_of(state), messages, texts, self._config)
        return self._look

    def _shorten(self, look: Step, error: Exception) -> list[BaseMessage] | None:
        runner = self._runner
        size = self._size
        if size is None:
            size = self._count(runner.actor_input(look, self._system))
        asked, allowed = read_overflow(error)
        target, is_told = size // 2, False
        if asked and allowed and asked > allowed:
            target, is_told = int(size * allowed / asked * _SURE), True
        if allowed is not None and allowed >= _LEAST_LEARNED:  # the next call is not refused
            self._learned = allowed
            runner.learn_window(allowed, "refused", self._model)
        most = target * _HOPELESS if is_told else size
        return self._leave_out(look, size, target, most=most, limit=allowed)

    def _fit(self, view: list[BaseMessage]) -> list[BaseMessage] | None:
        """Return a shorter input before any is refused, where the window is known not to hold it.

        What is short in characters is not counted.
        """
        runner = self._runner
        if not runner.runs.is_on(self._config):
            return None
        window = runner.find_window(runner.record(self._state), self._model)
        if window is None or sum(map(_count_characters, view)) <= 2 * window:
            return None
        size = self._count(view)
        if size <= window * _SURE:
            return None
        target = int(window * _SURE * _SURE)
        return self._leave_out(self._open(), size, target, most=size, limit=window)

    def _leave_out(
        self, look: Step, size: int, target: int, *, most: float, limit: int | None
    ) -> list[BaseMessage] | None:
        """Return an input that is shorter than `size`; `None` where none has `most` tokens."""
        shorter = find_shorter(look, target, system=self._system, limit=limit)
        if shorter.tokens >= size or shorter.tokens > most:
            return None
        self._size = shorter.tokens
        part = to_part(shorter.notice)
        if part is not None:
            find_writer(self._config)(part)
        return shorter.messages

    def _leave_reasoning_out(self, look: Step) -> list[BaseMessage] | None:
        """Leave out the reasoning that its provider binds to what stands before it."""
        if not any(map(holds_bound_reasoning, self._runner.actor_input(look, self._system))):
            return None
        return self._runner.actor_input(look, self._system, with_reasoning=False)

    # --- Calls -----------------------------------------------------------------------------------

    def ask(self, call: Callable[[list[BaseMessage]], AnswerT], view: list[BaseMessage]) -> AnswerT:
        """Call the model until it takes the input, and return its answer, marked where needed."""
        shown = self._fit(view) or view
        while True:
            try:
                answer = call(shown)
            except Exception as error:  # noqa: BLE001 raised again where nothing helps
                shown = self.find(error)
            else:
                return answer if shown is view else self._mark(answer)

    async def aask(
        self, call: Callable[[list[BaseMessage]], Awaitable[AnswerT]], view: list[BaseMessage]
    ) -> AnswerT:
        """Do the same as `ask` with a model that is awaited."""
        shown = self._fit(view) or view
        while True:
            try:
                answer = await call(shown)
            except Exception as error:  # noqa: BLE001 raised again where nothing helps
                shown = self.find(error)
            else:
                return answer if shown is view else self._mark(answer)

    def _mark(self, answer: AnswerT) -> AnswerT:
        """Mark an answer: later views do not continue its own, and how long a prompt may be."""

        def mark(message: BaseMessage) -> BaseMessage:
            marked = mark_other_view(message)
            return (
                marked
                if self._learned is None
                else mark_learned(marked, self._model, self._learned)
            )

        return cast("AnswerT", self._mark_in(answer, mark))


def _count_characters(message: BaseMessage) -> int:
    content = message.content
    return len(content) if isinstance(content, str) else sum(map(len, map(write_json, content)))
