"""The `recall` tool: its schema, and what answers a call: who may read what, from which source.

Who asks comes from the run's configuration. What a storage fails at is answered like anything else
that cannot be shown: memory failing is not the product failing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_store
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore

from langgraph_om.archive import MessageArchive
from langgraph_om.core.additions import find_label
from langgraph_om.core.config.options import RetrievalConfig
from langgraph_om.core.config.settings import Identity, RecallGuide, Settings
from langgraph_om.core.content.message_keys import hidden_id, keyed_messages
from langgraph_om.core.search import RECALL
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.recall.answer import recall, write_guidance
from langgraph_om.recall.archive_source import ArchiveSource, IndexedStateSource, read_hidden_id
from langgraph_om.recall.arguments import RECALL_ARGUMENTS, RecallArgument
from langgraph_om.recall.source import (
    NearSearch,
    RecallHit,
    RecallScope,
    SearchError,
    list_groups,
    list_searched,
)

# Part what a graph injects into the call of a tool from what a model wrote.


def part_runtime(parsed: object, tool: str, outside: str) -> tuple[ToolRuntime, dict[str, Any]]:
    """Return the runtime of a call, and what the model wrote.

    Args:
        parsed: The arguments of the call as its tool reads them.
        tool: The name of the tool.
        outside: What can not be done outside of a graph, and what to do; for the error.

    Raises:
        ConfigurationError: When no graph calls the tool.
    """
    given = parsed if isinstance(parsed, dict) else {}
    runtime = next((each for each in given.values() if isinstance(each, ToolRuntime)), None)
    if runtime is None:
        msg = f"the tool `{tool}` was called outside of a graph{outside}"
        raise ConfigurationError(msg)
    return runtime, {name: value for name, value in given.items() if value is not runtime}


logger = logging.getLogger("langgraph_om")

_WHAT: Final = (
    "Read earlier messages of this conversation word for word: those that your observations were "
    "made from. Start at an id of a `_range` line, or at the beginning, and read page by page."
)
_THREADS: Final = (
    'Earlier conversations with the same user can be read too: mode "threads" lists them, and '
    "`thread_id` opens one."
)
_SEARCH: Final = (
    'Mode "search" finds messages and observations by the words of a `query`{near}, and says '
    "where to read on."
)
_MODES: Final = {
    "messages": "reads messages page by page (the default)",
    "threads": "lists conversations",
    "search": "finds messages and observations by words",
}
_WHEN: Final = (
    "Use it when exact words, numbers or results are needed that you do not see, and before you "
    "say that you do not remember."
)

_OUTSIDE: Final = (
    ", and reads the conversation from the graph's state; run it in a `ToolNode`, or call "
    "`memory.recall(state, config, ...)`"
)


def refuse_second_recall_tool(tools: Iterable[Any], own: BaseTool | None) -> None:
    """Refuse another tool of the same name: a model could call only one of them.

    Args:
        tools: The agent's tools.
        own: The memory's recall tool; `None` without one.

    Raises:
        ConfigurationError: When there is one.
    """
    if own is None:
        return
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name or getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if name == RECALL and tool is not own:
            msg = (
                "a tool of the agent is called `recall`, and so is the memory's; give yours "
                "another name, or leave `retrieval` out"
            )
            raise ConfigurationError(msg)


class AnswerCall(Protocol):
    """Answers what a model wrote."""

    def __call__(
        self, state: Any, arguments: Mapping[str, Any], /, *, config: Any, store: Any
    ) -> dict[str, Any]:
        """Answer with the fields of the mode, or one field that says what to write instead."""


class _RecallTool(StructuredTool):
    """Takes whatever a model writes as arguments: recall itself answers what is wrong with them."""

    def _parse_input(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> str | dict[str, Any]:
        """Part what the graph injects from what the model wrote."""
        parsed = super()._parse_input(tool_input, tool_call_id)
        runtime, arguments = part_runtime(parsed, RECALL, _OUTSIDE)
        # In one argument, because a model may write names that a call takes for its own.
        return {"runtime": runtime, "arguments": arguments}


def build_recall_tool(
    answer: AnswerCall, *, reaches_others: bool, near: NearSearch | None
) -> BaseTool:
    """Make the tool of a memory.

    Args:
        answer: Answers a call, given the state, what the model wrote, and the run's `config` and
            `store`.
        reaches_others: Whether other conversations of the user can be read.
        near: What searches beside the words; `None` for nothing.
    """

    def recall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        found = answer(runtime.state, arguments, config=runtime.config, store=runtime.store)
        return json.dumps(found, ensure_ascii=False)

    async def arecall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        # It reads a database, and for a search it asks for an embedding.
        return await asyncio.to_thread(recall, runtime, arguments)

    search = _SEARCH.format(near="" if near is None else near.told)
    parts = (_WHAT, search, _THREADS if reaches_others else "", _WHEN)
    return _RecallTool(
        name=RECALL,
        description=" ".join(filter(None, parts)),
        args_schema=_build_schema(reaches_others=reaches_others),
        func=recall,
        coroutine=arecall,
    )


def _build_schema(*, reaches_others: bool) -> dict[str, Any]:
    """State the arguments that can be used, as JSON Schema.

    Not as a pydantic model, which would keep what it does not understand from recall's own answer.
    """
    offered = {"resource": reaches_others, None: True}
    modes = {"messages": True, "threads": reaches_others, "search": True}
    properties = {
        name: _build_property(argument)
        for name, argument in RECALL_ARGUMENTS.items()
        if offered[argument.needs]
    }
    chosen = [mode for mode, is_offered in modes.items() if is_offered]
    told = "; ".join(f'"{mode}" {_MODES[mode]}' for mode in chosen)
    properties["mode"] |= {"enum": chosen, "description": f"{told}."}
    return {"title": RECALL, "type": "object", "properties": properties}


def _build_property(argument: RecallArgument) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": argument.kind, "description": argument.description}
    limits = {
        "enum": list(argument.choices) or None,
        "minimum": argument.minimum,
        "maximum": argument.maximum,
        "default": argument.default,
    }
    return stated | {name: value for name, value in limits.items() if value is not None}


# --- Answers -------------------------------------------------------------------------------------

_UNREADABLE = "Earlier messages can not be read at the moment; go on without them, or try again."


def build_guide(
    config: RetrievalConfig, counter: TokenCounter, near: NearSearch | None
) -> RecallGuide:
    """Write what the Actor is told about recall."""
    search = "recall_search" if near is None else near.search_prompt
    text = write_guidance(config.scope, search, config.instructions)
    return RecallGuide(text, counter.count_text(text), config.scope == "resource")


def find_store() -> BaseStore | None:
    """Return the store of the run around this call; `None` outside of one."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None


def _is_being_answered(messages: Sequence[BaseMessage]) -> bool:
    """Return whether a turn is under way, which a call of a tool is a part of."""
    last = messages[-1] if messages else None
    return isinstance(last, ToolMessage) or (isinstance(last, AIMessage) and bool(last.tool_calls))


@dataclass(frozen=True)
class Recalling:
    """Answers the recall calls of one memory."""

    config: RetrievalConfig
    settings: Settings
    archive: MessageArchive | None
    hides_ids: bool
    """Whether a model is shown no thread id as it is."""
    near: NearSearch | None
    """What searches beside the words; `None` for nothing."""

    def answer(
        self,
        arguments: Mapping[str, Any],
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
    ) -> dict[str, Any]:
        """Answer one call.

        Args:
            arguments: What the model wrote.
            who: The current thread, and whose it is.
            record: The memory of the thread.
            messages: Its conversation, which the archive has too.
            store: The run's store.

        Raises:
            ConfigurationError: When there is a search and no store for it.
        """
        source = self.build_source(who, record, messages, store)
        request = record["turn"]["request"]

        def read_id(written: str) -> str | None:
            return read_hidden_id(written, source, who.thread_id) if self.hides_ids else written

        scope = RecallScope(
            scope=self.config.scope,
            current_thread=who.thread_id,
            timezone=self.settings.timezone,
            hidden=frozenset() if request is None else frozenset({request}),
            end=request if _is_being_answered(messages) else None,
            show_id=hidden_id if self.hides_ids else str,
            read_id=read_id,
        )
        try:
            return recall(arguments, source, scope, self.settings.counter)
        except ArchiveError as error:
            return self.unreadable(who, error)

    def unreadable(self, who: Identity, error: Exception) -> dict[str, Any]:
        """Answer that a storage failed, and log what it said."""
        logger.warning("thread %r: recall failed: %s", who.thread_id, error)
        return {"error": _UNREADABLE}

    def build_source(
        self,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
        *,
        finds_messages: bool = False,
    ) -> ArchiveSource | IndexedStateSource:
        """Return where a thread's calls read from.

        Args:
            who: The current thread, and whose it is.
            record: The memory of the thread.
            messages: Its conversation, which the archive has too.
            store: The run's store.
            finds_messages: Whether only messages are searched beside the words, and by words alone
                where there is no store.
        """
        find_groups = None
        if self.near is not None and not (finds_messages and store is None):
            find_groups = self._make_search(self.near, who, store, finds_messages=finds_messages)

        # Without a thread id nothing is archived.
        if self.archive is not None and who.thread_id:
            is_own = record["thread_id"] == who.thread_id
            return ArchiveSource(
                self.archive,
                who,
                self.config.scope,
                self.settings.times_of,
                find_groups,
                record["stamps"],
                cast("Mapping[str, Any]", record).get("branch") if is_own else None,
                list_searched(record) if is_own else {},
                knows_all=is_own and record["scope"] == "resource",
            )
        keyed = keyed_messages(messages)
        times = self.settings.times_of(keyed, record["stamps"])
        entries = [(key, message, at) for (key, message), at in zip(keyed, times, strict=True)]
        groups = [
            group
            for group in list_groups(record)
            if group["thread_id"] in {None, record["thread_id"]}
        ]
        title = find_label(record)
        return IndexedStateSource(who.thread_id, entries, title, groups, find_groups)

    def _make_search(
        self, near: NearSearch, who: Identity, store: BaseStore | None, *, finds_messages: bool
    ) -> Callable[[str, int], list[RecallHit]]:
        """Return what searches beside the words; a search that fails finds nothing."""

        def find_near(query: str, limit: int) -> list[RecallHit]:
            in_resource = self.config.scope == "resource"
            try:
                return near.find_near(
                    query,
                    limit,
                    who,
                    store,
                    in_resource=in_resource,
                    finds_messages=finds_messages,
                )
            except SearchError as error:  # words are found all the same
                logger.warning("thread %r: %s", who.thread_id, error)
                return []

        return find_near
