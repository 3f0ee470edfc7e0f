"""Ask the Actor again with less, after its provider refused the input.

To shorten it, features cut what is enormous first, then the oldest messages of the window are left
out, then the oldest observations. The memory itself does not change by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.actor.prompt import assemble
from langgraph_om.core.config.thresholds import ANY_MODEL, mark_learned
from langgraph_om.core.content.blocks import holds_bound_reasoning, mark_other_view
from langgraph_om.core.content.parts import content_blocks, part_text, parts_of
from langgraph_om.core.effects import Call, CallReply, Requests
from langgraph_om.core.events import to_part
from langgraph_om.core.step import Step, describe_trim
from langgraph_om.core.tokens import count_messages
from langgraph_om.models.retries import (
    find_allowed,
    is_refusal,
    may_be_too_long,
    speaks_of_reasoning,
)
from langgraph_om.runtime.flows import afulfil, fulfil
from langgraph_om.runtime.run import find_writer, record_of
from langgraph_om.runtime.runner import StepRunner

AnswerT = TypeVar("AnswerT")
MarkAnswer = Callable[[BaseMessage], BaseMessage]

_MOST_LENGTHS: Final = 3
"""How often a prompt is made shorter whose length is refused in so many words."""
_SURE: Final = 0.95
"""Of the length that is allowed, so much is used: memory and provider count differently."""
_MOST_UNCLEAR: Final = 2
"""How many inputs follow one that is refused without a word of its length, of a text alone."""
_LONG: Final = 500
_VERY_LONG: Final = 8000
"""Tokens; what is shorter is not refused for its length, unless an error says so, and what is
longer may be refused once more."""

_WITHOUT: Final = {
    "attachments": "what is attached to them, which is named instead",
    "blocks": "blocks of content, as plain texts",
}


def _mark_message(answer: Any, mark: MarkAnswer) -> Any:
    return mark(answer) if isinstance(answer, BaseMessage) else answer


class SecondTries:
    """Inputs for one call of the Actor, each with less than the one that was refused before.

    A refusal that speaks of a length is followed by shorter and shorter inputs. One that may mean
    anything is followed by plain texts in the place of blocks, which costs nothing, then by a part
    of the length, then without attachments; that is all. What helped is remembered: a length by the
    thread, plain texts for the model.

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
        self._window: int | None = None
        self._look: Step | None = None
        self._shown = None if refused is None else list(refused)
        self._without = {"blocks"} & runner.actor.left_out.get(model, frozenset())
        self._tried: list[str] = []

    def _count(self, messages: Iterable[BaseMessage]) -> int:
        runner = self._runner
        return count_messages(runner.settings.counter, messages) + runner.actor.tool_tokens

    def find(self, error: Exception) -> list[BaseMessage]:
        """Return the next input, with less than the last one.

        Raises:
            Exception: The error itself, where another input would not help, or memory is off.
        """
        found = self._find(error) if is_refusal(error) else None
        if found is None:
            raise error
        return found

    def _find(self, error: Exception | None) -> list[BaseMessage] | None:
        """Return the next input; `None` where nothing is left to leave out.

        Args:
            error: What was raised; `None`: a long prompt had an empty answer.
        """
        if not self._runner.runs.is_on(self._config):
            return None
        if self._shown is None:
            self._shown = self._runner.actor_input(self._open(), self._system)
        before = self._shown
        size = self._count(before)
        is_long = error is not None and may_be_too_long(error)
        allowed = None if error is None else find_allowed(error, size)
        for way in self._order(error, size, is_long=is_long):
            found: list[BaseMessage] | None = None
            if way == "reasoning" and any(map(holds_bound_reasoning, before)):
                runner, look = self._runner, self._open()
                found = runner.actor_input(look, self._system, with_reasoning=False)
            elif way == "length" and (is_long or size > _LONG):
                share = 2 if is_long or not self._tried else 4
                target = size // share if allowed is None else int(allowed * _SURE)
                found = self._shorten(size, target, allowed)
            elif way in _WITHOUT:
                self._without.add(way)
                found = self._write(before)
            if found is not None and found != before:
                lost = way == "length" and holds_blocks(before) and not holds_blocks(found)
                self._tried += [way, "blocks"] if lost and allowed is None else [way]
                self._window = size - 1 if allowed is None else min(allowed, size - 1)
                self._shown = found
                return found
        return None

    def _order(self, error: Exception | None, size: int, *, is_long: bool) -> list[str]:
        """Return what may be left out next, the first choice first."""
        left = [way for way in _WITHOUT if way not in self._without]
        if "reasoning" not in self._tried and error is not None and speaks_of_reasoning(error):
            return ["reasoning", "length", *left]
        if is_long:
            return ["length", *left] if self._tried.count("length") < _MOST_LENGTHS else left
        if "length" not in self._tried:
            return [way for way in ("blocks", "length", "attachments") if way not in self._without]
        most = _MOST_UNCLEAR + (size > _VERY_LONG)
        return [*left, *(["length"] if len(self._tried) < most else [])]

    def _write(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        if not self._without:
            return messages
        return [
            as_text(each)
            if ("attachments" if holds_attachments(each) else "blocks") in self._without
            else each
            for each in messages
        ]

    def _open(self) -> Step:
        if self._look is None:
            runner, state = self._runner, self._state
            in_state = runner.read_state(state)
            messages = runner.conversation(state)
            self._look = runner.look(record_of(state), messages, in_state, self._config)
        return self._look

    def _shorten(
        self, size: int, target: int, limit: int | None = None
    ) -> list[BaseMessage] | None:
        """Return an input that is shorter than `size`, and say what it leaves out."""
        look = self._open()
        own = SystemMessage(self._system) if isinstance(self._system, str) else self._system
        view = look.shorten(max(1, target - self._count([] if own is None else [own])))
        shown = assemble(view, look.record, system=self._system, with_reasoning=False)
        messages = self._write(shown)
        if self._count(messages) >= size:
            return None
        notice = describe_trim(look.record, look.window, view, target if limit is None else limit)
        part = to_part(notice)
        if part is not None:
            find_writer(self._config)(part)
        return messages

    def _begin(self, view: list[BaseMessage]) -> list[BaseMessage]:
        """Return the first input: in the form that the model takes, in the window that is known."""
        runner = self._runner
        self._shown = view
        if not runner.runs.is_on(self._config):
            return view
        self._shown = self._write(view)
        window = runner.actor.find_window(runner.record(self._state), self._model)
        if window is not None:
            size, most = self._count(self._shown), int(window * _SURE)
            if size > most:
                shorter = self._shorten(size, int(most * _SURE), window)
                self._shown = shorter or self._shown
        return self._shown

    # --- Calls -----------------------------------------------------------------------------------

    def ask(self, call: Callable[[list[BaseMessage]], AnswerT], view: list[BaseMessage]) -> AnswerT:
        """Call the model until it takes the input, and return its answer, marked where needed."""
        return cast("AnswerT", fulfil(self._talk(call, view)))

    async def aask(
        self, call: Callable[[list[BaseMessage]], Awaitable[AnswerT]], view: list[BaseMessage]
    ) -> AnswerT:
        """Do the same as `ask` with a model that is awaited."""
        return cast("AnswerT", await afulfil(self._talk(call, view)))

    def _talk(self, call: Callable[..., Any], view: list[BaseMessage]) -> Requests[Any]:
        shown = self._begin(view)
        while True:
            reply: CallReply = yield Call(partial(call, shown), "om_actor", None)
            if reply.error is not None:
                shown = self.find(reply.error)
                continue
            again = self._find_for_empty(reply.value)
            if again is None:
                return self._mark(reply.value, view)
            shown = again

    def _find_for_empty(self, answer: Any) -> list[BaseMessage] | None:
        """Return the next input behind an empty answer, by which some servers refuse long prompts.

        Behind a tool's result an agent may well have nothing to add.
        """
        shown = self._shown or []
        is_after_tool = bool(shown) and isinstance(shown[-1], ToolMessage)
        if is_after_tool or not self._is_empty(answer) or self._count(shown) <= 2 * _LONG:
            return None
        return self._find(None)

    def _is_empty(self, answer: Any) -> bool:
        found: list[BaseMessage] = []

        def note(message: BaseMessage) -> BaseMessage:
            found.append(message)
            return message

        self._mark_in(answer, note)
        if not found or getattr(answer, "structured_response", None) is not None:
            return False
        return not any(
            message.content or message.additional_kwargs or getattr(message, "tool_calls", None)
            for message in found
        )

    def _mark(self, answer: AnswerT, view: list[BaseMessage]) -> AnswerT:
        """Remember what helped, and mark the answer: later views do not continue its own.

        A length is learned by the thread alone, and only where nothing else was left out: the words
        of one user are no reason to show others less.
        """
        if self._shown is view:
            return answer
        is_answered = bool(self._tried) and not self._is_empty(answer)
        if is_answered and self._tried[-1] in self._without:
            self._runner.actor.note_left_out(
                self._model, self._tried[-1], _WITHOUT[self._tried[-1]]
            )
        window = self._window if is_answered and self._tried[-1] == "length" else None
        if window is not None:
            record = self._runner.record(self._state)
            self._runner.actor.learn_window_of(record, self._model, window)

        def mark(message: BaseMessage) -> BaseMessage:
            marked = mark_other_view(message)
            return marked if window is None else mark_learned(marked, self._model, window)

        return cast("AnswerT", self._mark_in(answer, mark))


def as_text(message: BaseMessage) -> BaseMessage:
    """Return a message whose content is one text, which names what is attached to it."""
    if isinstance(message.content, str):
        return message
    if isinstance(message, SystemMessage):
        return message.model_copy(update={"content": message.text})
    kinds = {"text"} if isinstance(message, AIMessage) else None
    parts = [part for part in parts_of(message) if kinds is None or part.kind in kinds]
    return message.model_copy(update={"content": "\n\n".join(map(part_text, parts))})


def holds_blocks(messages: Iterable[BaseMessage]) -> bool:
    """Return whether the content of any message is a list of blocks."""
    return any(isinstance(message.content, list) for message in messages)


def holds_attachments(message: BaseMessage) -> bool:
    """Return whether a message of a user or a tool holds anything but text."""
    if isinstance(message, AIMessage | SystemMessage) or isinstance(message.content, str):
        return False
    blocks = content_blocks(message.content)
    return any(isinstance(each, dict) and each.get("type") != "text" for each in blocks)
