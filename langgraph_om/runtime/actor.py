"""What the Actor's models read at most, the limits that fit that, and calls of them with less.

A provider that refuses the input is asked again with a shorter one: features cut what is enormous
first, then the oldest messages of the window are left out, then the oldest observations. The memory
itself does not change by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_om.core.actor.prompt import assemble, count_instructions
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.config.thresholds import (
    ANY_MODEL,
    find_smallest,
    join_windows,
    mark_learned,
    select_learned,
)
from langgraph_om.core.content.blocks import holds_bound_reasoning, mark_other_view
from langgraph_om.core.content.parts import content_blocks, part_text, parts_of
from langgraph_om.core.effects import Call, CallReply, Requests
from langgraph_om.core.events import to_part
from langgraph_om.core.step import Step, describe_trim
from langgraph_om.core.tokens import EstimatingCounter, count_messages
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.providers import (
    find_image_provider,
    find_tools,
    find_window,
    name_actor,
    write_schema,
)
from langgraph_om.models.retries import (
    find_allowed,
    is_refusal,
    may_be_too_long,
    speaks_of_reasoning,
)
from langgraph_om.parts import ActorWindow
from langgraph_om.runtime.flows import afulfil, fulfil
from langgraph_om.runtime.run import Runs, find_acting, find_writer, record_of

if TYPE_CHECKING:
    from langgraph_om.runtime.runner import StepRunner

AnswerT = TypeVar("AnswerT")
MarkAnswer = Callable[[BaseMessage], BaseMessage]

_WINDOW_PART: Final = 0.8
"""How much of the Actor's window a prompt may take; the rest is for its answer, and for what is
counted otherwise."""
_LEAST_ROOM: Final = 300
_MOST_LEARNED: Final = 15
"""Threads for which it is kept how long a prompt was refused: their records have it soon."""


class Actor:
    """The agent's models as far as this process knows them, and the settings that fit these.

    Args:
        settings: Those while nobody knows what the models read.
        runs: Says whether memory is on, and warns once.
        clock: Tells the time.
        budget: Returns the settings for a window, in tokens, where the budget is a part of it.
    """

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        clock: Callable[[], datetime],
        budget: Callable[[int], Settings] | None,
    ) -> None:
        self.settings = self._configured = settings
        self._runs, self._clock, self.budget = runs, clock, budget
        self.windows: dict[str, ActorWindow] = {}
        """How long a prompt the models read, by their names, as far as this process knows."""
        self.learned: dict[str, dict[str, ActorWindow]] = {}
        """The same for one thread alone, by the id of its record, where a prompt was refused."""
        self.left_out: dict[str, frozenset[str]] = {}
        """By the names of the models, the forms of content that helped when left out."""
        self.tool_tokens = 0
        """What the tools count, as far as they are known."""
        self.prompt: Any = None
        """The agent's own system prompt, a text or a message, as far as it is known."""
        self._tools: Sequence[Any] = ()
        self._models: dict[str, Any] = {}
        """The models that were told so far, by their names."""
        self._met: Any = None
        """The one that was told last."""
        self._images: EstimatingCounter | None = None
        """Counts as the model counts images; `None` where that is the usual way."""
        self.learn_window(settings.max_input_tokens, "option")

    @property
    def window(self) -> int | None:
        """The most that the Actor's models read, in tokens; `None` where nobody has said."""
        smallest = find_smallest(self.windows)
        return None if smallest is None else smallest["tokens"]

    def find_window(self, record: MemoryRecord, model: str) -> int | None:
        """Return the most that one of the Actor's models reads, as far as that is known.

        Args:
            record: The memory of the thread, which may know it from another process.
        """
        windows = self.list_windows(record)
        own = {name: windows[name] for name in {ANY_MODEL, model} & windows.keys()}
        smallest = find_smallest(own if model else windows)
        return None if smallest is None else smallest["tokens"]

    def list_windows(self, record: MemoryRecord) -> dict[str, ActorWindow]:
        """Return the windows that count for a thread, by the names of models."""
        known = self.windows
        learned = self.learned.get(record["id"])
        if learned is not None:
            known = join_windows(known, learned)
        if "windows" not in record or not self._runs.enabled or self._configured.max_input_tokens:
            return known
        return join_windows(known, select_learned(record, self._models))

    def settings_of(self, record: MemoryRecord) -> Settings:
        """Return the settings of a thread, with what it has learned.

        These do not hold for other threads: whoever may write to a thread may write to its record.
        """
        windows, settings = self.list_windows(record), self.settings
        smallest = None if windows is self.windows else find_smallest(windows)
        if smallest is not None:
            settings = self._warn_of_scaling(smallest["tokens"], self._fit(smallest["tokens"]))
        return settings.count_like(record).in_zone(record.get("timezone"))

    def settings_for(
        self, record: MemoryRecord, messages: Sequence[BaseMessage], who: Identity | None = None
    ) -> Settings:
        """Return the settings of a thread where no step looks at it, in its user's zone.

        Args:
            who: Who the run is for, which dates as its step would; `None` outside of a run, where
                the zone so far counts, if there was a step.
        """
        settings = self.settings_of(record)
        if who is None and record["id"]:
            return settings
        said = None if who is None else who.timezone
        return settings.in_zone(settings.choose_zone(messages, said, self._clock()))

    def read_window(self, record: MemoryRecord) -> tuple[Settings, ActorWindow | None]:
        """Return the settings and the Actor's window as somebody sees them who looks at a thread.

        Where this process has met no Actor, as in the command, the record tells of its window.
        """
        smallest = find_smallest(self.list_windows(record))
        if smallest is not None:
            return self.settings_of(record), smallest
        kept = find_smallest(record.get("windows", {}))
        settings = self.settings if kept is None else self._fit(kept["tokens"])
        return settings.count_like(record).in_zone(record.get("timezone")), kept

    def meet(self, model: Any, tools: Sequence[Any] = (), system: Any = None) -> None:
        """Keep messages and observations to what the Actor's model can read.

        Limits are scaled down together where a prompt might grow beyond a part of the window; of
        several models the smallest one counts. What is too small is never made larger again.
        Images count as the first model with a formula of its own counts them.

        Args:
            model: The chat model, perhaps with tools bound or with fallbacks, or a method of one.
            system: The agent's own system prompt: a text, a message or `None`.
        """
        name = name_actor(model)
        if model is not None:
            self._met = self._models[name] = model
        self._count_images_as(model)
        before = (self._tools, self.prompt)
        self._tools = self._tools or tools or find_tools(model)
        self.prompt = self.prompt or system
        if (self._tools, self.prompt) != before:
            count = self.settings.counter.count_text
            self.tool_tokens = sum(map(count, map(write_schema, self._tools)))
            self._fit_all()
        if not self._configured.max_input_tokens:  # which says it in the place of the profile
            self.learn_window(find_window(model), "profile", name)

    def find(self, name: str = "") -> Any:
        """Return the Actor's model: of the run around, of a name, or else the one met last."""
        return find_acting() or (self._models.get(name) if name else None) or self._met

    def _count_images_as(self, model: Any) -> None:
        if self._images is not None or not self._configured.counts_as_actor:
            return
        provider = find_image_provider(model)
        if provider is not None:
            self._images = EstimatingCounter(provider=provider)
            self._configured = self._configured.count_with(self._images)
            self.settings = self.settings.count_with(self._images)
            self._fit_all()

    def learn_window_of(self, record: MemoryRecord, model: str, tokens: int) -> None:
        """Note how long a prompt one of the Actor's models reads, for one thread alone."""
        known = self.learned.get(record["id"], {})
        told: dict[str, ActorWindow] = {model: {"tokens": tokens, "source": "refused"}}
        others = [(key, each) for key, each in self.learned.items() if key != record["id"]]
        own = (record["id"], join_windows(known, told))
        self.learned = dict([*others[-_MOST_LEARNED:], own])

    def learn_window(
        self,
        tokens: int | None,
        source: Literal["option", "profile"],
        model: str = ANY_MODEL,
    ) -> None:
        """Note how long a prompt one of the Actor's models reads; a larger window changes nothing.

        Args:
            tokens: The most that it reads; `None` where that is not known.
        """
        known = self.windows.get(model)
        if not self._runs.enabled or tokens is None or (known and known["tokens"] <= tokens):
            return
        self.windows = {**self.windows, model: {"tokens": tokens, "source": source}}
        self._fit_all()

    def note_left_out(self, model: str, form: str, what: str) -> None:
        """Note that one of the Actor's models took a prompt without a form that it refused."""
        self.left_out[model] = self.left_out.get(model, frozenset()) | {form}
        self._runs.warn_once(
            "the Actor's model %r rejected a prompt and accepted it without %s", model, what
        )

    def _fit_all(self) -> None:
        if self.window is not None:
            self.settings = self._warn_of_scaling(self.window, self._fit(self.window))

    def _fit(self, window: int) -> Settings:
        """Return the settings for a window."""
        before, system = self._resolve_budget(window), self.prompt
        if self._images is not None:
            before = before.count_with(self._images)
        own = system.text if isinstance(system, BaseMessage) else system or ""
        beside = before.counter.count_text(own) + self.tool_tokens + count_instructions(before)
        return before.fit(max(_LEAST_ROOM, int(window * _WINDOW_PART) - beside))

    def _warn_of_scaling(self, window: int, settings: Settings) -> Settings:
        limits = settings.thresholds
        if limits.scaled_from is not None:
            self._runs.warn_once(
                "the Actor's model reads %d tokens, and messages and observations may grow to %d "
                "before a turn waits: all limits are scaled down, so that they grow to %d; set a "
                "smaller `token_budget` to choose them yourself",
                window,
                limits.scaled_from,
                limits.largest_tokens,
            )
        return settings

    def _resolve_budget(self, window: int) -> Settings:
        if self.budget is None:
            return self._configured
        try:
            return self.budget(window)
        except ConfigurationError as error:  # no reason to end a turn
            self._runs.warn_once(
                "`token_budget` is a fraction of the %d tokens that the Actor's model reads, and "
                "cannot be met: %s. The limits without it are scaled down instead",
                window,
                error,
            )
            return self._configured


# --- Calls with less ------------------------------------------------------------------------------

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
        mark: Callable[[Any, MarkAnswer], Any] = _mark_message,
    ) -> None:
        self._runner, self._state, self._system = runner, state, system
        self._model, self._config, self._mark_in = model, config, mark
        self._window: int | None = None
        self._look: Step | None = None
        self._shown: list[BaseMessage] = []
        self._without = {"blocks"} & runner.actor.left_out.get(model, frozenset())
        self._tried: list[str] = []

    def _count(self, messages: Iterable[BaseMessage]) -> int:
        runner = self._runner
        return count_messages(runner.settings.counter, messages) + runner.actor.tool_tokens

    def _find(self, error: Exception | None) -> list[BaseMessage] | None:
        """Return the next input; `None` where nothing is left to leave out.

        Args:
            error: What was raised; `None`: a long prompt had an empty answer.
        """
        if not self._runner.runs.is_on(self._config):
            return None
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
            error = reply.error
            is_refused = is_refusal(error) if error else self._is_refused_in_silence(reply.value)
            again = self._find(error) if is_refused else None
            if again is None:
                return self._mark(reply.unwrap(), view)
            shown = again

    def _is_refused_in_silence(self, answer: Any) -> bool:
        """Return whether an answer is empty, by which some servers refuse long prompts.

        Behind a tool's result an agent may well have nothing to add.
        """
        is_after_tool = bool(self._shown) and isinstance(self._shown[-1], ToolMessage)
        return not is_after_tool and self._is_empty(answer) and self._count(self._shown) > 2 * _LONG

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
