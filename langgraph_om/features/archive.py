"""Archive what is new of a conversation in each step."""

from __future__ import annotations

from typing import Self

from langgraph_om.core.config.settings import Setup
from langgraph_om.core.content.message_keys import key_of
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step.archive import archive_new
from langgraph_om.core.step.step import Feature, Step


class Archiving(Feature):
    """Archives messages and observations."""

    name = "archive"
    has_last_step = True

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `archive`."""
        return cls() if setup.options["archive"] is not None else None

    def collect(self, step: Step) -> EffectFlow[None]:
        """Archive what is new; leave the archive to what asks it next, unless it failed."""
        # Nobody knows which ones were overlooked: the archive is shown the whole conversation.
        overlooked = {key_of(step.messages[0])} if step.overlooked else set()
        cursor = step.record["cursor"]
        step.kept[self.name], events = yield from archive_new(
            step.settings,
            step.record,
            step.messages,
            step.now,
            changed={*step.changed, *overlooked},
            request=step.window.request,
        )
        step.apply(events)
        if step.record["cursor"] != cursor:
            step.open()
