"""Titles of threads: made after the first answer, renewed by the Observer, or set by a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, cast

from langgraph_om.core.config.options import Role, TitleConfig
from langgraph_om.core.content.text import LABEL_CHARACTERS
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.effects import CallReply, EffectFlow, Storage, Warn
from langgraph_om.core.events import iso
from langgraph_om.core.record.record import TITLE, find_label
from langgraph_om.core.record.titles import is_named
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Event, Hints, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.archive.writer import find_archive
from langgraph_om.features.titles.title import (
    describe_title,
    note_words,
    take_in_title,
    tell_found,
    tell_title,
)
from langgraph_om.runtime.acting import Update, check_text, make_act_id
from langgraph_om.runtime.executors import BackgroundBuffering
from langgraph_om.runtime.flows import drive
from langgraph_om.runtime.runner import StepRunner


def set_title(runner: StepRunner, text: str | None) -> Update:
    """Return the update that gives the thread a title, or gives it back."""
    title = None if text is None else " ".join(check_text("text", text).split())
    if title is not None and not 0 < len(title) <= LABEL_CHARACTERS:
        msg = f"`text` is {text!r}; pass a title of 1 to {LABEL_CHARACTERS} characters, or None"
        raise ConfigurationError(msg)
    told = {"id": make_act_id(), "title": title, "at": iso(runner.clock())}
    return [{"type": "titled", "by": "person", **told}]


MODEL_SETTINGS: Final[Mapping[str, Any]] = {
    "temperature": 0.3,
    "max_output_tokens": 2_000,
    "thinking_budget": 0,
}
"""What is sent with the question for a title."""


class Titles:
    """Gives threads titles, tells of those that a person set, and keeps them up.

    Args:
        config: How a title is asked for after the first answer; `None`: it is not.
    """

    def __init__(self, config: TitleConfig | None = None) -> None:
        self._config = config

    @property
    def are_asked(self) -> bool:
        """Whether a title is asked for after the first answer."""
        return self._config is not None

    @property
    def roles(self) -> list[Role]:
        """The model that is asked, if one is."""
        if self._config is None:
            return []
        return [Role("title", "thread_title.model", self._config.model, MODEL_SETTINGS)]

    def ask(self, step: Step) -> EffectFlow[None]:
        """Take in the thread's title, or have one made: in a thread beside the run, or else now.

        It is no job for another process, which an executor of the user's own may need.
        """
        config, scope = self._config, step.scope
        if config is None or scope is None:
            return
        step.apply(note_words(step.record, step.messages))
        step.apply((yield from take_in_title(step.settings, step.record, step.now)))
        job = describe_title(step, config.instructions, min_messages=config.min_messages)
        if job is None:
            return
        runner, record = scope.runner, step.record
        if isinstance(runner.buffering, BackgroundBuffering):
            context = runner.context(scope.config)
            is_taken = runner.buffering.submit(
                job.cycle_id,
                job.key,
                lambda: cast("JobResult", drive(job.ask(), context).result),
                thread_id=record["thread_id"],
                resource_id=record["resource_id"],
            )
            step.apply([job.start] if is_taken else [])
        else:
            found = yield from job.ask()
            step.apply([job.start])
            step.apply(tell_found(step.settings, step.record, found, step.now))

    def tell(self, step: Step) -> None:
        """Tell the stream, once, of a title that a person set."""
        state = step.record.get("title", {})
        if state.get("is_new") and (title := step.record["thread_title"]) is not None:
            info = CycleInfo(step.settings, step.record, "observation", state["id"], 0, step.now)
            step.events.append(tell_title(info, step.now, state["before"], title))

    def forget_archived(self, step: Step) -> EffectFlow[None]:
        """Let the archive forget a title that a person has given back."""
        if not step.record.get("title", {}).get("before") or find_label(step.record) is not None:
            return
        archiving = step.settings.parts.archive
        if archiving is None:
            return
        if archiving.kept_until(step.record) != archiving.kept_until(step.former):
            thread_id = step.record["thread_id"]
            arguments = (thread_id, None, step.now)
            archive = yield from find_archive()
            reply: CallReply = yield Storage(archive.set_title, arguments)
            if reply.error is not None:
                yield Warn("thread %r: its title is still archived: %s", (thread_id, reply.error))

    def announce(self, info: CycleInfo, at: datetime, hints: Hints) -> list[Event]:
        """Return the event that shows a title that an observation suggests; a person's stays."""
        old, new = info.record["thread_title"], hints.get(TITLE)
        is_new = new != old and not is_named(info.record)
        return [tell_title(info, at, old, new)] if new and is_new else []

    def announce_of_other(
        self,
        info: CycleInfo,
        at: datetime,
        hints: Hints,
        *,
        label: str | None,
        fixed: Collection[str],
    ) -> list[Event]:
        """Return the event that shows a new title of another thread."""
        new = hints.get(TITLE)
        is_new = new != label and TITLE not in fixed
        return [tell_title(info, at, label, new)] if new and is_new else []
