"""Show a working memory in each step, and have the Actor keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from langchain_core.runnables import ensure_config
from langchain_core.tools import BaseTool
from langgraph.config import get_store

from langgraph_om.archive import StoreUse
from langgraph_om.core.effects import EffectFlow, call_storage, find_part
from langgraph_om.core.step.step import StateKey, Step
from langgraph_om.features.working.memory import (
    SHOWN_KEY,
    UPDATE_TOOL,
    VALUE_KEY,
    Stored,
    Working,
    WorkingMemory,
    fold_state_value,
    read_shown,
    take_last,
)
from langgraph_om.runtime.runner import RunScope, StepRunner


class KnownOfUser:
    """Reads the working memory where a turn begins, and shows it."""

    writing_tools = (UPDATE_TOOL,)
    store_use: ClassVar[StoreUse] = "working"

    def __init__(self, memory: WorkingMemory | None = None) -> None:
        self.memory = WorkingMemory() if memory is None else memory
        self.uses_store = self.memory.scope == "resource"
        self._working = Working(self.memory)
        self._tools: Sequence[BaseTool] = ()

    def connect(self, runner: StepRunner) -> Sequence[object]:
        """Return what writes and reads the memory in the runs of an agent."""
        self._working = Working(self.memory, runner.runs, runner.messages_key, runner.archive)
        self._tools = self._working.tools if runner.runs.enabled else ()
        return (self._working,) if runner.runs.enabled else ()

    def list_tools(self) -> Sequence[BaseTool]:
        """Return the tool with which the Actor keeps it up to date."""
        return self._tools

    @property
    def state_keys(self) -> Mapping[str, StateKey]:
        """Return the keys of the value, and of the block as it is shown."""
        is_input = self.memory.scope == "thread"
        return {
            VALUE_KEY: StateKey(Stored, fold_state_value, is_input=is_input),
            SHOWN_KEY: StateKey(str, take_last, is_private=True, is_shown=True),
        }

    def accept(self, scope: RunScope, value: Any) -> None:
        """Take the value that the caller of a step hands in.

        Raises:
            ConfigurationError: When it cannot be meant.
        """
        scope.working = self._working.render(self.memory.check(value), scope.config)

    def read_text(self, state: Any) -> str:
        """Return the block that a graph's state holds; empty for none."""
        return read_shown(state) or ""

    def refresh(self, step: Step) -> EffectFlow[None]:
        """Read the memory where a turn begins."""
        is_in_graph = step.scope is not None and step.scope.state is not None
        if not (step.is_final and is_in_graph):
            yield from self.read(step)

    def read(self, step: Step) -> EffectFlow[None]:
        """Read the memory, once in a run, and show it."""
        scope = step.scope
        if scope is None:  # a look alone
            return
        if scope.working is None:
            if scope.state is None:  # as where a thread is adopted
                return
            known = {key: scope.state.get(key) for key in (VALUE_KEY, SHOWN_KEY)}
            config, store = scope.config, scope.store
            if config is None:
                config, store = ensure_config(), get_store()
            working = yield from find_part(Working)
            changes = yield from call_storage(
                working.refresh_working_memory, known, step.messages, config, store
            )
            scope.changes |= changes
            scope.working = read_shown({**known, **changes}) or ""
        step.show_working(scope.working)


def find_working_memory(runner: StepRunner) -> WorkingMemory | None:
    """Return the working memory of the option."""
    working = runner.settings.parts.working
    return None if working is None else working.memory
