"""Let the Actor read earlier messages: what it is told, and what answers: who may read what.

Who asks comes from the run's configuration. What a storage fails at is answered like anything else
that cannot be shown: memory failing is not the product failing.

The option `retrieval` has settings of features that need recall, too. To remove one of these,
delete the lines here that name it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore

from langgraph_om.core.config.options import RetrievalConfig
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import (
    find_parent_thread,
    key_of,
    keyed_messages,
)
from langgraph_om.core.content.text import escape
from langgraph_om.core.observe.standing import select_log
from langgraph_om.core.record.record import find_label, write_range
from langgraph_om.core.search import RECALL
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.recall.answer import recall, write_guidance
from langgraph_om.features.recall.arguments import (
    MODES,
    RECALL_ARGUMENTS,
    refuse_unknown_arguments,
)
from langgraph_om.features.recall.lists import read_answers
from langgraph_om.reading import (
    ArchiveSource,
    InSight,
    RecallHit,
    RecallScope,
    RecallSource,
    SearchError,
    StateSource,
    list_groups,
    list_searched,
)
from langgraph_om.runtime.drivers import drive
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import values_of
from langgraph_om.runtime.telemetry import record_search
from langgraph_om.runtime.tools import MemoryTool

if TYPE_CHECKING:
    from langgraph_om.features.meaning import Meaning

logger = logging.getLogger("langgraph_om")

# --- The tool ------------------------------------------------------------------------------------

_WHAT: Final = "Read or search earlier messages of this conversation word for word."
_THREADS: Final = " Earlier conversations with the same user can be read too."

_OUTSIDE: Final = (
    ", and reads the conversation from the graph's state; run it in a `ToolNode`, or call "
    "`memory.recall(state, config, ...)`"
)


def build_recall_tool(
    answer: Callable[..., dict[str, Any]], *, reaches_others: bool, near: str = ""
) -> BaseTool:
    """Make the tool of a memory.

    Args:
        answer: Answers a call, given the state, what the model wrote, and the run's `config` and
            `store`.
        near: What is said of a search beside the words.
    """

    def recall(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
        found = answer(
            runtime.state,
            arguments,
            config=runtime.config,
            store=runtime.store,
            is_called=True,
        )
        return json.dumps(found, ensure_ascii=False)

    return MemoryTool(
        name=RECALL,
        description=_WHAT + (_THREADS if reaches_others else ""),
        # No pydantic model, which would keep what it does not understand from recall's own answer.
        args_schema=_build_schema(reaches_others=reaches_others, near=near),
        func=recall,
        outside=_OUTSIDE,
    )


def _build_schema(*, reaches_others: bool, near: str) -> dict[str, Any]:
    """State the arguments that a model is told of, as JSON Schema."""
    properties: dict[str, dict[str, Any]] = {
        name: {"type": argument.kind, "description": argument.description}
        for name, argument in RECALL_ARGUMENTS.items()
        if argument.description and (reaches_others or argument.needs is None)
    }
    properties["mode"]["enum"] = [*MODES] if reaches_others else [*MODES[:-1]]
    properties["mode"]["description"] += near + (', or list "threads"' if reaches_others else "")
    properties["detail"]["enum"] = [*RECALL_ARGUMENTS["detail"].choices]
    return {"title": RECALL, "type": "object", "properties": properties}


_UNREADABLE = "Earlier messages can not be read at the moment; go on without them, or try again."


def _find_in_sight(step: Step, messages: Sequence[BaseMessage]) -> InSight:
    """Find what the Actor is shown beside an answer; not what is answered at the same time.

    Args:
        messages: The conversation; empty where nothing in it has asked.
    """
    record, parts = step.record, step.settings.parts
    shown = select_log(record["log"])
    groups = frozenset(each["id"] for each in shown) - step.view.left.texts.keys()
    observed, answers = {*record["cursor"]}, list[Mapping[str, Any]]()
    for message in reversed(messages):
        if isinstance(message, HumanMessage) or key_of(message) in observed:
            break
        if isinstance(message, ToolMessage) and message.name == RECALL:
            answers.append(_read_answer(parts.show(message, key_of(message)).text))
    return read_answers(answers, groups)


def _read_answer(text: str) -> Mapping[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:  # somebody has written it anew
        answer = None
    return answer if isinstance(answer, dict) else {"text": text}


def _say_unreadable(who: Identity, error: Exception) -> dict[str, Any]:
    """Answer that a storage failed, and log what it said."""
    logger.warning("thread %r: recall failed: %s", who.thread_id, error)
    return {"error": _UNREADABLE}


class Recall:
    """Tells the Actor of the tool `recall`, and answers its calls."""

    name = "recall"
    _runner: StepRunner
    tool: BaseTool

    def __init__(self, config: RetrievalConfig, near: Meaning | None) -> None:
        self.config, self.near = config, near
        self.is_bound = True
        """Whether the Actor can call the tool; not where its model takes no tools."""
        self._text = write_guidance(config.instructions)

    def connect(self, runner: StepRunner) -> None:
        """Keep what says whose a call is."""
        self._runner = runner
        reaches_others = self.config.scope == "resource"
        near = "" if self.near is None else self.near.told
        self.tool = build_recall_tool(self.answer_call, reaches_others=reaches_others, near=near)

    def list_tools(self) -> Sequence[BaseTool]:
        """Return the tool `recall`."""
        return [self.tool] if self.is_bound else []

    def instructions(self, record: MemoryRecord, *, has_memory: bool) -> str:
        """Tell of the tool once there is something to recall: in this thread, or in others."""
        is_there = has_memory or (self.config.scope == "resource" and record["resource_id"])
        if self.is_bound and is_there:
            return self._text
        return ""

    def line_after(self, group: Group) -> str:
        """Return the line that names the messages behind a group."""
        return escape(write_range(group)) if self.is_bound else ""

    # --- Answers ---------------------------------------------------------------------------------

    def answer_call(
        self,
        state: Any,
        arguments: Mapping[str, Any],
        *,
        config: RunnableConfig | None = None,
        store: Any = None,
        is_called: bool = False,
    ) -> dict[str, Any]:
        """Answer what a model wrote, names and values of any kind.

        Args:
            is_called: Whether the conversation's last answer has called the tool.
        """
        runner = self._runner
        values, who = values_of(state, runner.messages_key), runner.identity(config)
        record, messages = runner.stored_record(values), runner.conversation(values)
        if who.thread_id and who.thread_id == find_parent_thread(record["thread_id"]):
            who = replace(who, thread_id=record["thread_id"])
        step = Step(runner.settings_of(record), record, messages, who, runner.clock())
        try:
            if not runner.runs.is_read_only(config):
                drive(runner.catch_up(step), runner.context(config))
            in_sight = InSight()
            if arguments.get("query") and runner.runs.is_on(config):  # else it is shown no log
                called = messages if is_called else ()
                seen = runner.look(step.record, messages, runner.read_state(values))
                in_sight = _find_in_sight(seen, called)
        except ArchiveError as error:
            return _say_unreadable(who, error)
        return self.answer(arguments, who, step.record, messages, store, in_sight=in_sight)

    def answer(
        self,
        arguments: Mapping[str, Any],
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
        *,
        in_sight: InSight = InSight(),  # noqa: B008 nothing of it changes
    ) -> dict[str, Any]:
        """Answer one call, in or outside of a graph.

        Args:
            messages: The conversation of the thread, which the archive has too.
            in_sight: What who asks is shown beside the answer.

        Raises:
            ConfigurationError: When there is a search and no store for it.
        """
        try:
            source = self.build_source(who, record, messages, store)
            scope = self._build_scope(who, record, messages, source, in_sight)
            search = partial(recall, arguments, source, scope, self._runner.settings.counter)
            return record_search(search, who.thread_id, who.resource_id, arguments.get("mode"))
        except ArchiveError as error:
            return _say_unreadable(who, error)

    def _build_scope(
        self,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        source: RecallSource,
        in_sight: InSight,
    ) -> RecallScope:
        last = messages[-1] if messages else None
        is_answered = isinstance(last, ToolMessage) or bool(getattr(last, "tool_calls", None))
        request = record["turn"]["request"]
        if request is None and is_answered:  # the tools of this graph are not shown its memory
            said = (key_of(each) for each in reversed(messages) if isinstance(each, HumanMessage))
            request = next(said, None)
        return RecallScope(
            scope=self.config.scope,
            current_thread=who.thread_id,
            timezone=self._runner.settings_for(record, messages, who).timezone,
            hidden=frozenset() if request is None else frozenset({request}),
            end=request if is_answered else None,
            in_sight=in_sight,
            hides_ids=self._runner.settings.hides_ids,
        )

    def build_source(
        self,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
        *,
        finds_messages: bool = False,
    ) -> RecallSource:
        """Return where a thread's calls read from.

        Args:
            who: The current thread, and whose it is.
            record: The memory of the thread.
            messages: Its conversation, which the archive has too.
            store: The run's store.
            finds_messages: Whether only messages are searched beside the words, and by words alone
                where there is no store.
        """
        # Without a thread id nothing is archived.
        archive = self._runner.archive if who.thread_id else None
        in_resource = archive is not None and self.config.scope == "resource"

        meaning = None if finds_messages and store is None else self.near

        def find_near(query: str, limit: int) -> list[RecallHit]:
            if meaning is None:
                return []
            options = {"in_resource": in_resource, "finds_messages": finds_messages}
            try:
                return meaning.find_near(query, limit, who, store, **options)
            except SearchError as error:  # words are found all the same
                logger.warning("thread %r: %s", who.thread_id, error)
                return []

        find_groups = None if meaning is None else find_near
        if archive is not None:
            is_own = record["thread_id"] == who.thread_id
            return ArchiveSource(
                archive,
                who,
                self.config.scope,
                self._runner.settings.times_of,
                find_groups,
                record["stamps"],
                record.get("branch") if is_own else None,
                list_searched(record) if is_own else {},
                knows_all=is_own and record["scope"] == "resource",
            )
        keyed = keyed_messages(messages)
        times = self._runner.settings.times_of(keyed, record["stamps"])
        entries = [(key, message, at) for (key, message), at in zip(keyed, times, strict=True)]
        groups = [
            group
            for group in list_groups(record)
            if group["thread_id"] in {None, record["thread_id"]}
        ]
        title = find_label(record)
        return StateSource(who.thread_id, entries, title, groups, find_groups)


def find_tool(runner: StepRunner) -> BaseTool | None:
    """Return the tool that the Actor's model is given."""
    recall = runner.settings.parts.recall
    return recall.tool if recall is not None and recall.is_bound and runner.enabled else None


def answer_call(
    runner: StepRunner,
    state: Any,
    args: Mapping[str, Any],
    config: RunnableConfig | None,
    store: Any,
) -> dict[str, Any]:
    """Answer as the tool does, without a graph."""
    refuse_unknown_arguments(args)
    recall = runner.settings.parts.recall
    if recall is None:
        msg = "`retrieval` is off, so there is nothing to recall from; pass retrieval=True"
        raise ConfigurationError(msg)
    return recall.answer_call(state, args, config=config, store=store)
