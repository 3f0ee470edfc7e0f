"""LangChain's own tests of tools, for `recall`: beside a conversation alone, and over an archive.

They need packages that the other tests cannot have beside theirs; `.ci/run` has an environment for
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.prebuilt import ToolRuntime

from langgraph_om import ObservationalMemory, SQLAlchemyArchive
from langgraph_om.testing import ScriptedChatModel

SAID = [HumanMessage("I land in Lisbon on Friday.", id="h1"), AIMessage("Noted.", id="a1")]
CONFIG = {"configurable": {"thread_id": "trip", "resource_id": "ana"}}


class RecallTests:
    """Build the tool, and pass the run that a graph would pass."""

    _memory: ObservationalMemory

    @pytest.fixture(autouse=True)
    def _build(self, tmp_path: Path) -> Iterator[None]:
        with ObservationalMemory(ScriptedChatModel(), **self.options(tmp_path)) as self._memory:
            yield

    def options(self, folder: Path) -> dict[str, Any]:
        """Return the options of the memory."""
        del folder
        return {"retrieval": True}

    @property
    def tool_constructor(self) -> BaseTool:
        """The tool of a memory, which has no other constructor."""
        (tool,) = self._memory.tools
        return tool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        """A search, with the runtime that a `ToolNode` injects."""
        runtime = ToolRuntime(
            state={"messages": SAID},
            context=None,
            config=CONFIG,
            stream_writer=print,
            tool_call_id="123",
            store=None,
        )
        return {"mode": "search", "query": "Lisbon", "runtime": runtime}

    def test_the_example_finds_what_was_said(self, tool: BaseTool) -> None:
        assert "Friday" in tool.invoke(self.tool_invoke_params_example)


class ArchivedRecallTests(RecallTests):
    """The same over an archive."""

    def options(self, folder: Path) -> dict[str, Any]:
        """Return the options of the memory, with an archive that has the conversation."""
        archive = SQLAlchemyArchive(f"sqlite:///{folder}/archive.db")
        rows = [(str(message.id), message, True) for message in SAID]
        archive.append("trip", "ana", rows, after=None, now=datetime.now(UTC))
        return {"retrieval": {"scope": "resource"}, "archive": archive}


class TestRecallUnit(RecallTests, ToolsUnitTests):
    """Without an archive."""


class TestRecallIntegration(RecallTests, ToolsIntegrationTests):
    """Without an archive."""


class TestArchivedRecallUnit(ArchivedRecallTests, ToolsUnitTests):
    """With an archive."""


class TestArchivedRecallIntegration(ArchivedRecallTests, ToolsIntegrationTests):
    """With an archive."""
