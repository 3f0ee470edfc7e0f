"""What the Actor's models read at most, and the limits that memory keeps to for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.prompt import count_instructions
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.config.thresholds import (
    ANY_MODEL,
    find_smallest,
    join_windows,
    select_learned,
)
from langgraph_om.core.tokens import EstimatingCounter
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.models.providers import (
    find_image_provider,
    find_tools,
    find_window,
    name_actor,
    write_schema,
)
from langgraph_om.parts import ActorWindow
from langgraph_om.runtime.run import Runs, find_acting

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
                "`token_budget` is a part of what the Actor's model reads, %d tokens, and cannot "
                "be kept: %s. The limits are scaled down from those without it",
                window,
                error,
            )
            return self._configured
