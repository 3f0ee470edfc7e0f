"""Show the Actor the block of a working memory that a graph's state holds, whoever put it there.

A `WorkingMemoryMiddleware` beside memory does, whose own messages memory's view replaces.
"""

from __future__ import annotations

from typing import Any, Self

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings, Setup, Texts
from langgraph_om.core.record.window import Window
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.core.working import WORKING_NAME, write_message
from langgraph_om.working.memory import read_shown


class WorkingText(Feature):
    """Shows a block before the live request."""

    name = WORKING_NAME

    @classmethod
    def build(cls, setup: Setup) -> Self:  # noqa: ARG003 any graph's state may hold a block
        """Return the feature, which is always on."""
        return cls()

    def read_text(self, state: Any) -> str:
        """Return the block that a graph's state holds."""
        return read_shown(state) or ""

    def aside(
        self, settings: Settings, record: MemoryRecord, window: Window, texts: Texts
    ) -> BaseMessage | None:
        """Show it."""
        del settings, record, window
        return write_message(texts.get(self.name, ""))
