"""Keep a working memory in each step: write what the Observer found, and show it to the Actor."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings, Texts
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.core.working import find_unwritten, write_message
from langgraph_om.runtime.context import RunFlow
from langgraph_om.working.memory import read_shown
from langgraph_om.working.runs import WorkingOfGraph


class KnownOfUser(Feature):
    """Shows the Actor a working memory, and writes what the Observer finds for it."""

    name = "working_memory"

    def collect(self, step: Step) -> RunFlow[None]:
        """Write what observations found, and read the memory where a turn begins."""
        scope = step.scope
        if step.is_final and scope.state is not None:
            return
        source = self._source(step)
        if source is None:  # as where a thread is adopted
            return
        step.apply((yield from source.refresh(step.record)))
        self._show(step, source)

    def read(self, step: Step) -> RunFlow[None]:
        """Read the memory for a run in which nothing is written."""
        source = self._source(step)
        if source is not None:
            yield from source.refresh(step.record)
            self._show(step, source)

    def _source(self, step: Step) -> Any:
        scope = step.scope
        if self.name not in scope.kept and scope.state is not None:
            scope.kept[self.name] = WorkingOfGraph(
                scope.runner, scope.state, step.messages, scope.config, scope.store
            )
        return scope.kept.get(self.name)

    def _show(self, step: Step, source: Any) -> None:
        step.say(self.name, source.block)
        step.scope.changes |= getattr(source, "changes", {})

    def is_due(self, step: Step) -> bool:
        """Tell whether something waits to be written."""
        return step.settings.working is not None and bool(
            find_unwritten(step.record, step.record["resource_id"])
        )

    def read_text(self, state: Any) -> str:
        """Return the block that a graph's state holds."""
        return read_shown(state) or ""

    def aside(
        self, settings: Settings, record: MemoryRecord, request: str | None, texts: Texts
    ) -> BaseMessage | None:
        """Show the memory."""
        del settings, record, request
        return write_message(texts.get(self.name, ""))
