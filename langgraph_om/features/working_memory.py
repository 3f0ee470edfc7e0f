"""Keep a working memory in each step: write what the Observer found, and read what there is."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import InstanceOf
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import Hint, Preset, Takes
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.working import WORKING_NAME, find_unwritten
from langgraph_om.runtime.context import RunFlow
from langgraph_om.working.memory import WorkingMemory
from langgraph_om.working.runs import WorkingOfGraph


class WorkingOptions(TypedDict, total=False):
    """The option of working memory."""

    working_memory: Annotated[
        WorkingMemory | None,
        Takes(InstanceOf[WorkingMemory] | None),
        Hint("a WorkingMemory(...)"),
        Preset(None),
    ]
    """A `WorkingMemory`: what is always known of a user. The Actor keeps it up to date with a tool,
    or the Observer with what it observes."""


class KnownOfUser(Feature):
    """Writes what the Observer finds for a working memory, and reads it where a turn begins."""

    name = "known_of_user"

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `working_memory`."""
        return cls() if setup.options["working_memory"] is not None else None

    def collect(self, step: Step) -> RunFlow[None]:
        """Write what observations found, and read the memory where a turn begins."""
        if step.is_final and step.scope.state is not None:
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
        if WORKING_NAME not in scope.kept and scope.state is not None:
            scope.kept[WORKING_NAME] = WorkingOfGraph(
                scope.runner, scope.state, step.messages, scope.config, scope.store
            )
        return scope.kept.get(WORKING_NAME)

    def _show(self, step: Step, source: Any) -> None:
        step.say(WORKING_NAME, source.block)
        step.scope.changes |= getattr(source, "changes", {})

    def is_due(self, step: Step) -> bool:
        """Tell whether something waits to be written."""
        return step.settings.working is not None and bool(
            find_unwritten(step.record, step.record["resource_id"])
        )
