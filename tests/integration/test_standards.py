"""The standard tests of `langchain-tests`, for the tools that an agent is given.

Its pytest plugins are pinned to other versions than ours, so it is in an environment of its own in
`.ci/run`; elsewhere these tests are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime

from support.agents import on_thread, talk, turns
from support.recalling import recalling

pytest.importorskip("langchain_tests", exc_type=ImportError)

from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

pytestmark = pytest.mark.needs("recall")


class _Recall:
    """`recall` of a memory, called as `ToolNode` calls it: with the state of a thread."""

    @property
    def tool_constructor(self) -> BaseTool:
        tool = recalling().memory.recall_tool
        assert tool is not None
        return tool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        agent = recalling()
        talk(agent.graph, on_thread(), turns(4))
        config: RunnableConfig = on_thread()
        runtime: ToolRuntime = ToolRuntime(
            state=agent.graph.get_state(config).values,
            context=None,
            config=config,
            stream_writer=print,
            tool_call_id="123",
            store=None,
        )
        return {"page": 1, "limit": 2, "runtime": runtime}


class TestRecallUnit(_Recall, ToolsUnitTests):
    pass


class TestRecallIntegration(_Recall, ToolsIntegrationTests):
    pass
