"""For `create_agent`: a working memory by itself, as a middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage
from langchain_core.runnables import ensure_config
from langgraph.config import get_store
from langgraph.runtime import Runtime

from langgraph_om.features.working import state_keys_of
from langgraph_om.features.working.memory import (
    UPDATE_TOOL,
    Working,
    WorkingMemory,
    check_working,
    insert_block,
    read_shown,
)
from langgraph_om.integrations.middleware import add_keys, without_tools


class WorkingMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """What is always known of a user, for an agent of `create_agent`, without other memory.

    With observations too: `ObservationalMemory(..., working_memory=...)` and its middleware.

    Raises:
        ConfigurationError: When it is something else.
    """

    def __init__(self, working: WorkingMemory) -> None:
        super().__init__()
        self.working = check_working(working)
        self._of_runs = Working(working)
        self.tools = self._of_runs.tools
        self.state_schema = add_keys(AgentState, state_keys_of(working))

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Read the memory where a turn begins."""
        return self._refresh(state) or None

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `before_model` without blocking the event loop."""
        return await asyncio.to_thread(self._refresh, state) or None

    def _refresh(self, state: Any) -> dict[str, Any]:
        if not self._of_runs.runs.is_on():
            return {}
        messages = state.get("messages") or []
        return self._of_runs.refresh_working_memory(
            state, messages, ensure_config(), get_store()
        ).changes

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the memory before the newest message of the user."""
        return handler(self._projected(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        return await handler(self._projected(request))

    def _projected(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if not self._of_runs.runs.is_on():
            return without_tools(request, {UPDATE_TOOL})
        if self._of_runs.is_read_only():
            request = without_tools(request, {UPDATE_TOOL})
        view = insert_block(request.messages, read_shown(request.state))
        return request.override(messages=cast("list[AnyMessage]", view))
