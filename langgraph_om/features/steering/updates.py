"""What a person changes in a memory: acts on a thread, and the updates of `om` they write."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final

from langgraph_om.core.effects import Requests
from langgraph_om.core.events import iso
from langgraph_om.core.items import list_items
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.errors import ConfigurationError
from langgraph_om.features.steering.acts import (
    CORRECTED,
    NOTED,
    SteeringAction,
    find_item,
    write_item,
)
from langgraph_om.runtime.acting import (
    Handle,
    Update,
    Updates,
    awaited,
    check_text,
    make_act_id,
    waited,
)

MAX_ITEM_CHARACTERS: Final = 4000
"""Of what a person has noted, which no reflection shortens."""
_TYPICAL_HEAD = "* 🔴 (09:12) "


class SteeringUpdates(Updates):
    """The updates with which a person changes the log."""

    def remember(self, text: str, *, date: date | str | None = None) -> Update:
        """Return the update of `om` that adds what a person wants to be remembered.

        The log says that a person noted it, and no reflection changes it.

        Args:
            text: What to remember, such as `"User lives in Ghent"`.
            date: The day it is about: a date, or its ISO text. `None`: today.

        Raises:
            ConfigurationError: When the text is blank or has more than 4000 characters, or the date
                cannot be read.
        """
        settings, now = self._runner.settings, self._runner.clock()
        words, local = _check_item(text), now.astimezone(settings.timezone)
        heading = f"Date: {format_day(_read_day(date) or local.date())}"
        head = f"* 🔴 ({local:%H:%M}) " if date is None else "* 🔴 "
        item = write_item(head, words, NOTED)
        tokens = settings.counter.count_text(f"{heading}\n{item}")
        return [{**_start("remember", now), "text": item, "day": heading, "tokens": tokens}]

    def forget(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` that takes an item out of the log.

        The messages it was noted from stay where they are, and so do earlier checkpoints.

        Args:
            item: The item's id, as `view` shows it, or words of it, in any case.
            state: As for `llm_input_messages`. With one, the item is looked up in it at once, and
                an `ItemError` is raised here; else when the update is written, which in a tool
                would end the run.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: When the state's log has no such item, or several; the message lists
                candidates.
        """
        return self._change("forget", item, state)

    def correct(self, item: str, text: str, *, state: Any = None) -> Update:
        """Return the update of `om` that puts another text in the place of an item.

        The log says that a person corrected it, and no reflection changes it.

        Args:
            item: As for `forget`.
            text: What is right.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` or `text` is blank.
            ItemError: As `forget` does.
        """
        return self._change("correct", item, state, text)

    def pin(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` after which no reflection changes an item.

        Args:
            item: As for `forget`.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: As `forget` does.
        """
        return self._change("pin", item, state)

    def unpin(self, item: str, *, state: Any = None) -> Update:
        """Return the update of `om` after which reflections may change an item again.

        Args:
            item: As for `forget`; one that a person pinned or wrote.
            state: As for `forget`.

        Raises:
            ConfigurationError: When `item` is blank.
            ItemError: As `forget` does; when the update is written, also where the item is not
                pinned.
        """
        return self._change("unpin", item, state)

    def undo(self, act: str | None = None) -> Update:
        """Return the update of `om` that takes back what a person did to the log.

        Args:
            act: The `id` of an update of `remember`, `forget`, `correct`, `pin`, `unpin` or `undo`,
                as `om["steered"]` and `view` have it. `None`: the newest that still stands.
        """
        return [{**_start("undo", self._runner.clock()), "item": act}]

    def _change(
        self, action: SteeringAction, item: str, state: Any, text: str | None = None
    ) -> Update:
        wanted, runner = check_text("item", item), self._runner
        if state is not None:
            record = runner.record(state)
            wanted = find_item(wanted, list_items(record["log"], record["chunks"])).id
        event = {**_start(action, runner.clock()), "item": wanted}
        if text is not None:
            event["text"] = _check_item(text)
            typical = f"Date: Sep 30, 2026\n{_TYPICAL_HEAD}{event['text']} {CORRECTED}"
            event["tokens"] = runner.settings.counter.count_text(typical)
        return [event]


class SteeringActs(Handle):
    """The methods of a thread's memory with which a person changes the log.

    They return the id of the act, as `om["steered"]` has it and `undo` takes it.
    """

    @property
    def _changes(self) -> SteeringUpdates:
        return SteeringUpdates(self._runner)

    @waited
    def remember(self, text: str, *, date: date | str | None = None) -> Requests[str]:
        """Add what a person wants to be remembered; no reflection changes it."""
        return self._act(lambda _: self._changes.remember(text, date=date))

    @waited
    def forget(self, item: str) -> Requests[str]:
        """Take an item out of the log; its messages and earlier checkpoints stay."""
        return self._change(self._changes.forget, item)

    @waited
    def correct(self, item: str, text: str) -> Requests[str]:
        """Put another text in the place of an item; no reflection changes it."""
        return self._change(self._changes.correct, item, text)

    @waited
    def pin(self, item: str) -> Requests[str]:
        """Let no reflection change an item."""
        return self._change(self._changes.pin, item)

    @waited
    def unpin(self, item: str) -> Requests[str]:
        """Let reflections change an item again that a person pinned or wrote."""
        return self._change(self._changes.unpin, item)

    @waited
    def undo(self, act: str | None = None) -> Requests[str]:
        """Take back what a person did: the act of this id, or the newest that stands."""
        return self._act(lambda _: self._changes.undo(act))

    aremember, aforget, acorrect = awaited(remember), awaited(forget), awaited(correct)
    apin, aunpin, aundo = awaited(pin), awaited(unpin), awaited(undo)


def _start(action: SteeringAction, now: datetime) -> dict[str, Any]:
    return {"type": "steered", "id": make_act_id(), "action": action, "at": iso(now)}


def _check_item(text: object) -> str:
    words = check_text("text", text)
    if len(words) > MAX_ITEM_CHARACTERS:
        msg = (
            f"`text` has {len(words)} characters; pass {MAX_ITEM_CHARACTERS} at most, as it stands "
            f"in every prompt and is never condensed"
        )
        raise ConfigurationError(msg)
    return words


def _read_day(value: date | str | None) -> date | None:
    """Read the day that a person names.

    Raises:
        ConfigurationError: When it is none.
    """
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return datetime.fromisoformat(value).date()
    except (TypeError, ValueError):
        msg = f"`date` is {value!r}; pass a date, or ISO text such as '2026-03-02'"
        raise ConfigurationError(msg) from None
