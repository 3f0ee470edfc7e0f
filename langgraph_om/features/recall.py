"""Let the Actor read earlier messages: the tool, its answers, and the check of who may read them.

The user comes from the run's configuration. If a storage fails, the answer says that the messages
can't be shown, and the turn continues.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
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
from langgraph_om.core.content.message_keys import find_parent_thread, key_of
from langgraph_om.core.content.text import escape
from langgraph_om.core.record.record import write_range
from langgraph_om.core.record.standing import select_log
from langgraph_om.core.search import RECALL
from langgraph_om.core.step import Step
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.recall_answer import (
    Asker,
    InSight,
    ThreadArguments,
    UserArguments,
    describe_error,
    read_answers,
    recall,
    write_guidance,
)
from langgraph_om.reading import Source, read_archive, read_state
from langgraph_om.runtime.flows import drive
from langgraph_om.runtime.hooks import record_search
from langgraph_om.runtime.run import values_of
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.tools import MemoryTool

if TYPE_CHECKING:
    from langgraph_om.features.meaning import Meaning

logger = logging.getLogger("langgraph_om")

# --- The tool ------------------------------------------------------------------------------------

_WHAT: Final = "Read earlier messages of this conversation, or search them by words"
_MEANING: Final = " and meaning"
_THREADS: Final = ". mode threads lists the user's other conversations."

_OUTSIDE: Final = (
    ", and reads the conversation from the graph's state; run it in a `ToolNode`, or call "
    "`memory.recall(state, config, ...)`"
)
_UNREADABLE: Final = (
    "Earlier messages can not be read at the moment; go on without them, or try again."
)


class Recall:
    """Tells the Actor of the tool `recall`, and answers its calls."""

    _runner: StepRunner
    tool: BaseTool

    def __init__(self, config: RetrievalConfig, near: Meaning | None) -> None:
        self.config, self.near = config, near
        self.is_bound = True
        """Whether the Actor can call the tool; not where its model takes no tools."""
        self._text = write_guidance(config.instructions)

    def connect(self, runner: StepRunner) -> None:
        """Keep what says whose a call is, and make the tool."""
        self._runner = runner

        def call(runtime: ToolRuntime, arguments: dict[str, Any]) -> str:
            config, store = runtime.config, runtime.store
            state = runtime.state
            found = self.answer_call(state, arguments, config=config, store=store, is_called=True)
            return json.dumps(found, ensure_ascii=False)

        reaches_others = self.config.scope == "resource"
        told = _WHAT + ("" if self.near is None else _MEANING)
        self.tool = MemoryTool(
            name=RECALL,
            description=told + (_THREADS if reaches_others else "."),
            args_schema=UserArguments if reaches_others else ThreadArguments,
            handle_validation_error=_answer_error,
            func=call,
            outside=_OUTSIDE,
        )

    def list_tools(self) -> Sequence[BaseTool]:
        """Return the tool `recall`."""
        return [self.tool] if self.is_bound else []

    def instructions(self, record: MemoryRecord, *, has_memory: bool) -> str:
        """Tell of the tool once there is something to recall: in this thread, or in others."""
        is_there = has_memory or (self.config.scope == "resource" and record["resource_id"])
        return self._text if self.is_bound and is_there else ""

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
        step = Step(runner.actor.settings_of(record), record, messages, who, runner.clock())
        try:
            if not runner.runs.is_read_only(config):
                drive(runner.catch_up(step), runner.context(config))
            in_sight = InSight()
            if arguments.get("query") and runner.runs.is_on(config):  # else it is shown no log
                seen = runner.look(step.record, messages, runner.read_state(values))
                in_sight = _find_in_sight(seen, messages if is_called else ())
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
        settings, last = self._runner.settings, messages[-1] if messages else None
        is_answered = isinstance(last, ToolMessage) or bool(getattr(last, "tool_calls", None))
        request = record["turn"]["request"]
        if request is None and is_answered:  # the tools of this graph are not shown its memory
            said = (key_of(each) for each in reversed(messages) if isinstance(each, HumanMessage))
            request = next(said, None)
        asker = Asker(
            source=self.read(who, record, messages, self.near, store),
            counter=settings.counter,
            timezone=self._runner.actor.settings_for(record, messages, who).timezone,
            hides_ids=settings.hides_ids,
            reaches_others=self.config.scope == "resource",
            request=request,
            is_answered=is_answered,
            in_sight=in_sight,
        )
        try:
            find = partial(recall, arguments, asker)
            about = (record, who.thread_id, who.resource_id)
            return record_search(find, *about, arguments.get("mode"))
        except ArchiveError as error:
            return _say_unreadable(who, error)

    def read(
        self,
        who: Identity,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        near: Meaning | None,
        store: Any,
    ) -> Source:
        """Return what a thread's calls read: the archive, where there is one, or its state."""
        settings, archive = self._runner.settings, self._runner.archive
        if archive is None or not who.thread_id:  # without a thread id nothing is archived
            return read_state(settings, who, record, messages, meaning=near, store=store)
        known, is_shared = record["thread_id"] == who.thread_id, self.config.scope == "resource"
        return read_archive(
            settings,
            archive,
            who,
            record if known else None,
            is_shared=is_shared,
            meaning=near,
            store=store,
        )


def _answer_error(error: Any) -> str:
    return json.dumps({"error": escape(describe_error(error))}, ensure_ascii=False)


def _say_unreadable(who: Identity, error: Exception) -> dict[str, Any]:
    """Answer that a storage failed, and log what it said."""
    logger.warning("thread %r: recall failed: %s", who.thread_id, error)
    return {"error": _UNREADABLE}


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


def find_tool(runner: StepRunner) -> BaseTool | None:
    """Return the tool that the Actor's model is given."""
    recall = runner.settings.parts.recall
    return recall.tool if recall is not None and recall.is_bound and runner.runs.enabled else None


def answer_call(
    runner: StepRunner,
    state: Any,
    args: Mapping[str, Any],
    config: RunnableConfig | None,
    store: Any,
) -> dict[str, Any]:
    """Answer as the tool does, without a graph."""
    recall = runner.settings.parts.recall
    if recall is None:
        msg = "`retrieval` is off, so nothing can be recalled; pass retrieval=True"
        raise ConfigurationError(msg)
    return recall.answer_call(state, args, config=config, store=store)
