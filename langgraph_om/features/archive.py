"""Archive what is new of a conversation in each step, and let what is observed leave it."""

from __future__ import annotations

from typing import Self

from langgraph_om.core.config.settings import Setup
from langgraph_om.core.content.message_keys import key_of
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step.archive import archive_new, take_out_resent
from langgraph_om.core.step.resent import list_removed
from langgraph_om.core.step.step import Feature, Step


class Archiving(Feature):
    """Archives messages and observations, and evicts them where that is wanted."""

    name = "archive"
    has_last_step = True

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `archive`."""
        return cls() if setup.options["archive"] is not None else None

    def enter(self, step: Step) -> EffectFlow[None]:
        """Take out what was removed before and has come back with a request."""
        thread_id = step.identity.thread_id
        resent = yield from take_out_resent(
            step.settings, step.record, step.messages, thread_id, step.now
        )
        step.take_out(list_removed(resent))
        step.kept[self.name] = resent

    def collect(self, step: Step) -> EffectFlow[None]:
        """Archive what is new."""
        step.apply(step.kept.pop(self.name, []))
        # Nobody knows which ones were overlooked: the archive is shown the whole conversation.
        overlooked = {key_of(step.messages[0])} if step.overlooked else set()
        cursor = step.record["cursor"]
        archived, events = yield from archive_new(
            step.settings,
            step.record,
            step.messages,
            step.now,
            changed={*step.changed, *overlooked},
            request=step.window.request,
        )
        step.take_in(archived, events)
        if archived["cursor"] != cursor:
            step.open()
