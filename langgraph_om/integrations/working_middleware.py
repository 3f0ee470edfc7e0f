"""For `create_agent`: working memory as a middleware, by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired, cast, get_type_hints

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr
from langchain_core.messages import AnyMessage
from langchain_core.runnables import ensure_config
from langgraph.config import get_store
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from langgraph_om.core.working.merge import fold_state_value
from langgraph_om.integrations.working_channels import Stored, ValueChannel, take_last
from langgraph_om.working.memory import (
    SHOWN_KEY,
    VALUE_KEY,
    Working,
    WorkingMemory,
    check_working,
    insert_block,
    read_shown,
)
from langgraph_om.working.tool import UPDATE_TOOL


class WorkingMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """What is always known of a user, for an agent of `create_agent`, without other memory.

    With observations too: `ObservationalMemory(..., working_memory=...)` and its middleware.

    Args:
        working: The memory.

    Raises:
        ConfigurationError: When it is something else.
    """

    def __init__(self, working: WorkingMemory) -> None:
        super().__init__()
        self.working = check_working(working)
        self._of_runs = Working(working)
        self.tools = self._of_runs.tools
        self.state_schema = state_schema_of(working, AgentState)

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Read the memory where a turn begins."""
        return self._refresh(state) or None

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Do the same as `before_model` without blocking the event loop."""
        return await asyncio.to_thread(self._refresh, state) or None

    def _refresh(self, state: Any) -> dict[str, Any]:
        if not self._of_runs.runs.is_on(None):
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
        if not self._of_runs.runs.is_on(None):
            return without_update_tool(request)
        if self._of_runs.is_read_only():
            request = without_update_tool(request)
        view = insert_block(request.messages, read_shown(request.state))
        return request.override(messages=cast("list[AnyMessage]", view))


def state_schema_of(working: WorkingMemory, base: Any) -> Any:
    """Return a state schema with what a working memory keeps in the state."""
    of_thread, of_resource = ValueChannel, Annotated[Stored, OmitFromInput, fold_state_value]
    fields = {
        VALUE_KEY: NotRequired[
            cast("Any", of_thread if working.scope == "thread" else of_resource)
        ],
        SHOWN_KEY: NotRequired[Annotated[str, PrivateStateAttr, take_last]],
    }
    make: Any = TypedDict
    name = f"{base.__name__}WithWorkingMemory"
    return make(name, {**get_type_hints(base, include_extras=True), **fields})


def without_update_tool(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """Return a request without the tool, for a run in which nothing can be written."""
    tools: Sequence[Any] = request.tools
    kept = [tool for tool in tools if getattr(tool, "name", None) != UPDATE_TOOL]
    return request.override(tools=kept) if len(kept) < len(tools) else request
