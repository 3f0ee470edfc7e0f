"""`WorkingMemory`: what is always known of a user or within a thread, and the tool for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langgraph.config import get_store
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from langgraph_om.archive import StoreUse
from langgraph_om.archive.types import sum_deletions
from langgraph_om.core.config.options import check_flag
from langgraph_om.core.content.text import escape
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.forms import (
    MAX_CHARACTERS,
    Form,
    InvalidError,
    SchemaForm,
    TemplateForm,
    Value,
    merge,
)
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.step import StateKey, Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.working_store import (
    ConflictError,
    check_resource_id,
    check_store,
    delete_stored,
    put_stored,
    read_stored,
    update_stored,
)
from langgraph_om.runtime.acting import threaded
from langgraph_om.runtime.run import Runs, channel_of
from langgraph_om.runtime.runner import RunScope, StepRunner
from langgraph_om.runtime.tools import MemoryTool

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

WORKING_NAME = "working_memory"
"""The feature's name, and the state's key of the value."""


PATCH = "om_patch"
"""The key of an update in a graph's state that is merged; any other value replaces what is there.
"""


def read_state_value(stored: Any) -> Value:
    """Return the value that a channel holds; nothing for what is empty."""
    if isinstance(stored, Mapping) and set(stored) == {PATCH}:  # the first update of a channel
        stored = merge(None, stored[PATCH])
    return stored or None


def fold_state_value(stored: Any, update: Any) -> Any:
    """Reduce a channel: a marked update is merged, anything else replaces."""
    if isinstance(update, Mapping) and set(update) == {PATCH}:
        return merge(read_state_value(stored), update[PATCH]) or {}
    return update


Stored = dict[str, Any] | str
"""What a channel of the state holds: a JSON object, a text, or an empty one of both."""


def take_last(former: str, update: str) -> str:
    """Replace the block; hooks and nodes of one superstep may both write it."""
    del former
    return update


UPDATE_TOOL: Final = "update_working_memory"
"""The tool's name."""

_READ: Final = "__pregel_read"
"""Where LangGraph keeps, in a node's configuration, what reads the state's channels."""

_OUTSIDE: Final = "; run it in a `ToolNode`, or call `working.update(store, resource_id, memory)`"

_WHAT: Final = "Keep what is to be known in every conversation with this user up to date."
_TEXT: Final = "Write the whole text anew: it replaces the former one."
_JSON: Final = "Write the fields that change: they are merged into the rest."
_DONE: Final = "Updated."
_DELETED: Final = "Nothing was written: this conversation was deleted."


def read_channel(runtime: ToolRuntime[Any, Any], key: str) -> Any:
    """Return the value of a channel, also where the node of the tools does not see it."""
    state = runtime.state
    if isinstance(state, Mapping) and key in state:
        return state[key]
    read = runtime.config.get("configurable", {}).get(_READ)
    for channels in read.args if isinstance(read, partial) else ():
        channel = channels.get(key) if isinstance(channels, Mapping) else None
        if channel is not None:
            return channel.get() if channel.is_available() else None
    return channel_of(state, key)


def choose_form(template: object, schema: Any) -> Form:
    """Return the form that a user chose; without a choice, our own template."""
    if template is not None and schema is not None:
        msg = (
            "`template` and `schema` are both given; pass `template` for a text in Markdown, or "
            "`schema` for JSON"
        )
        raise ConfigurationError(msg)
    if schema is not None:
        return SchemaForm(schema)
    if template is None:
        return TemplateForm(load("working_memory_template"))
    if not isinstance(template, str) or not template.strip():
        msg = f"`template` is {template!r}; pass a text in Markdown, or `schema` for JSON"
        raise ConfigurationError(msg)
    if len(template) > MAX_CHARACTERS:
        msg = (
            f"`template` has {len(template)} characters; pass at most {MAX_CHARACTERS}, as it is "
            f"part of every prompt"
        )
        raise ConfigurationError(msg)
    return TemplateForm(template.strip())


VALUE_KEY = WORKING_NAME
"""The state's key of the value: what the Actor knows of it."""
SHOWN_KEY = "om_working"
"""The state's key of the block as it is shown in the current turn."""


class WorkingMemory:
    """A text that is always in view: a user's profile, a list of tasks, the state of a project.

    The Actor sees it in every call and updates it with the tool
    `update_working_memory`. Pass it as `ObservationalMemory(..., working_memory=...)`.

    Args:
        template: Markdown that the Actor fills in; each update replaces the whole text.
        schema: Instead of a template: a pydantic model, a TypedDict, a dataclass or a JSON Schema
            (which needs the extra `jsonschema`). The memory is then JSON, and updates are merged:
            objects deeply; lists are replaced; `null` deletes. With neither, a default template is
            used.
        scope: `"resource"`: one for all threads of a `resource_id`, in the graph's store.
            `"thread"`: one per thread, in the state's key `working_memory`, which an input or
            `update_state` may set too; it follows forks and time travel.
        read_only: Whether the Actor can only read it. `om_read_only` sets the same for one run.

    Raises:
        ConfigurationError: When both `template` and `schema` are given, or an option is out of
            range.
    """

    def __init__(
        self,
        template: str | None = None,
        *,
        schema: Any = None,
        scope: Literal["resource", "thread"] = "resource",
        read_only: bool = False,
    ) -> None:
        if scope not in ("resource", "thread"):
            msg = f"`scope` is {scope!r}; pass 'resource' or 'thread'"
            raise ConfigurationError(msg)
        self.scope = scope
        self.read_only = check_flag("read_only", read_only)
        self.form = choose_form(template, schema)

    def __repr__(self) -> str:
        return f"WorkingMemory(scope={self.scope!r}, read_only={self.read_only})"

    # --- What programs ask -----------------------------------------------------------------------

    def get(self, store: BaseStore, resource_id: str) -> Any:
        """Return the value of a resource.

        Args:
            store: The graph's store.
            resource_id: The user or entity.

        Returns:
            A text, or with a schema a JSON object; `None` if there is nothing yet.
        """
        return read_stored(self.form, *self._check_place(store, resource_id))

    def put(self, store: BaseStore, resource_id: str, value: Any) -> None:
        """Replace the value of a resource.

        Args:
            store: The graph's store.
            resource_id: The user or entity.
            value: A text, or with a schema a JSON object; `None` forgets everything.

        Raises:
            ConfigurationError: When the value has the wrong form, or is too long; the message
                names the field.
        """
        put_stored(self.form, *self._check_place(store, resource_id), self.check(value))

    def update(self, store: BaseStore, resource_id: str, memory: Any) -> Any:
        """Update the value of a resource as the tool does.

        Args:
            store: The graph's store.
            resource_id: The user or entity.
            memory: The whole text, or with a schema the fields that change.

        Returns:
            The value as it is now.

        Raises:
            ConfigurationError: As `put`; nothing is written then.
        """
        place = self._check_place(store, resource_id)
        try:
            patch = self.form.read_patch(memory)
            while True:
                try:
                    return update_stored(self.form, *place, patch, read_stored(self.form, *place))
                except ConflictError:  # somebody else wrote in between
                    continue
        except InvalidError as error:
            raise _refused(error) from error

    aget, aput, aupdate = threaded(get), threaded(put), threaded(update)

    def merge(self, value: Any, memory: Any) -> Any:
        """Return a value with an update merged into it as the tool does; for a thread's memory.

        Args:
            value: A text or a JSON object; `None` for nothing yet.
            memory: The whole text, or with a schema the fields that change.

        Raises:
            ConfigurationError: When the result has the wrong form, or is too long.
        """
        try:
            return self.check(merge(read_state_value(value), self.form.read_patch(memory)))
        except InvalidError as error:
            raise _refused(error) from error

    def check(self, value: Any) -> Value:
        """Return a value that has the form of this memory; `None` for an empty one.

        Raises:
            ConfigurationError: When it does not.
        """
        if not value:
            return None
        try:
            whole: Value = self.form.read_patch(value)
            self.form.check(whole)
        except InvalidError as error:
            raise _refused(error) from error
        return whole or None

    def _check_place(self, store: BaseStore, resource_id: str) -> tuple[BaseStore, str]:
        if self.scope == "thread":
            msg = (
                "the working memory has the scope 'thread': read its value, the state's "
                "`working_memory`, with `graph.get_state`, and set it with `graph.update_state`"
            )
            raise ConfigurationError(msg)
        return check_store(store), check_resource_id(resource_id)


class KnownOfUser:
    """A working memory in the runs of an agent: read where a turn begins, shown, and written."""

    writing_tools = (UPDATE_TOOL,)
    store_use: ClassVar[StoreUse] = "working"

    def __init__(self, memory: WorkingMemory) -> None:
        self.memory = memory
        self.uses_store = memory.scope == "resource"
        self._runs, self._messages_key = Runs(), "messages"
        self._archive: SQLAlchemyArchive | None = None

    def connect(self, runner: StepRunner) -> None:
        """Take over what the runs of an agent have."""
        self._runs, self._messages_key = runner.runs, runner.messages_key
        self._archive = runner.archive

    @property
    def state_keys(self) -> Mapping[str, StateKey]:
        """Return the keys of the value, and of the block as it is shown."""
        is_input = self.memory.scope == "thread"
        return {
            VALUE_KEY: StateKey(Stored, fold_state_value, is_input=is_input),
            SHOWN_KEY: StateKey(str, take_last, is_private=True, is_shown=True),
        }

    def list_tools(self) -> Sequence[BaseTool]:
        """Return the tool to bind to the Actor's model; none for a memory that is only read."""
        if self.memory.read_only or not self._runs.enabled:
            return []
        form = self.memory.form

        def update(runtime: ToolRuntime, arguments: dict[str, Any]) -> Command[Any]:
            # Some models leave the one argument out and write the fields themselves.
            memory = arguments.get("memory", arguments)
            known = read_channel(runtime, VALUE_KEY)
            record = complete_record(read_channel(runtime, "om") or {})
            text, change = self._answer(memory, known, record, runtime.config, runtime.store)
            status = "success" if text == _DONE else "error"
            message = ToolMessage(
                text, tool_call_id=runtime.tool_call_id, name=UPDATE_TOOL, status=status
            )
            changes = {} if change is None else {VALUE_KEY: change}
            return Command(update={self._messages_key: [message], **changes})

        tool = MemoryTool(
            name=UPDATE_TOOL,
            description=f"{_WHAT} {_TEXT if isinstance(form, TemplateForm) else _JSON}",
            args_schema={"title": UPDATE_TOOL, **form.arguments},
            func=update,
            outside=_OUTSIDE,
        )
        return [tool]

    # --- Show it ---------------------------------------------------------------------------------

    def accept(self, scope: RunScope, value: Any) -> None:
        """Take the value that the caller of a step hands in.

        Raises:
            ConfigurationError: When it cannot be meant.
        """
        scope.working = self.render(self.memory.check(value), scope.config)

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
            changes = yield from call_storage(self._look, known, step.messages, config, store)
            scope.changes |= changes
            scope.working = read_shown({**known, **changes}) or ""
        step.show_working(scope.working)

    def _look(
        self, state: Any, messages: Sequence[BaseMessage], config: RunnableConfig, store: Any
    ) -> dict[str, Any]:
        """Read the memory where a turn begins; return what changes in the graph's state.

        Within a turn the block holds still: reasoning may be bound to all that stands before it.

        Raises:
            ConfigurationError: When there is no store or nobody to keep it for, or a value in the
                state does not have the form.
        """
        shown, known = read_shown(state), read_state_value(channel_of(state, VALUE_KEY))
        if shown is not None and messages and not isinstance(messages[-1], HumanMessage):
            return {}
        if self.memory.scope == "thread":
            value = self.memory.check(known)
        else:
            who, there = check_resource_id(self._runs.find_resource(config)), check_store(store)
            value = read_stored(self.memory.form, there, who)
        text = self.render(value, config)
        return {
            **({VALUE_KEY: value or {}} if value != known else {}),
            **({SHOWN_KEY: text} if text != (shown or "") else {}),
        }

    def _is_read_only(self, config: RunnableConfig | None) -> bool:
        return self.memory.read_only or self._runs.is_read_only(config)

    def render(self, value: Any, config: RunnableConfig | None) -> str:
        """Render the block for a value that the form allows.

        Returns:
            The text; empty where there is nothing to show and the Actor can write nothing.
        """
        form, kept = self.memory.form, read_state_value(value)
        content, purpose = form.write(kept), ""
        if not self._is_read_only(config):
            kind = "text" if isinstance(form, TemplateForm) else "json"
            purpose = load(f"working_memory_{kind}")
            content = "{}" if not kept and kind == "json" else content
        elif not kept:
            return ""
        return fill("working_memory", purpose=purpose, content=escape(content))

    # --- Write it --------------------------------------------------------------------------------

    def _count_deletions(self, record: MemoryRecord) -> Mapping[Any, int] | None:
        """Return how often a record's thread and resource were deleted, if that is known."""
        if self._archive is None or not record["thread_id"]:
            return None
        try:
            return self._archive.deletions(record["resource_id"], [record["thread_id"]])
        except ArchiveError:  # which no deletion gets past, either
            return None

    def _answer(
        self, given: Any, known: Any, record: MemoryRecord, config: RunnableConfig, store: Any
    ) -> tuple[str, Any]:
        """Carry out a call of the tool.

        Args:
            given: What the model wrote as `memory`.
            known: The value that it has been shown, from the state.
            record: The memory of the thread.

        Returns:
            What the model is told, and what changes in the state: an update, or the whole value
            where the model is shown that; `None` for nothing.
        """
        if not self._runs.is_on(config) or self._is_read_only(config):
            return "The memory can only be read in this run; nothing was written.", None
        form, seen = self.memory.form, read_state_value(known)
        try:
            patch = form.read_patch(given)
            if self.memory.scope == "thread":
                form.check(merge(seen, patch))
            else:
                who, there = check_resource_id(self._runs.find_resource(config)), check_store(store)
                before = self._count_deletions(record)
                if before is not None and sum_deletions(before) > (record.get("deletion") or 0):
                    return _DELETED, None
                update_stored(form, there, who, patch, seen)
                after, kind = self._count_deletions(record), ("resource", who)
                if before is not None and after is not None and after.get(kind) != before.get(kind):
                    delete_stored(there, who)  # the deletion may have looked before this was there
                    return _DELETED, None
        except InvalidError as error:
            return f"Nothing was written: {error}.", None
        except ConflictError as conflict:
            where = f" ({conflict})" if str(conflict) else ""
            told = (
                f"Nothing was written: another conversation has changed it meanwhile{where}. It "
                f"reads now:\n\n{form.write(conflict.current)}\n\nWrite your update anew, with "
                f"what is new there kept."
            )
            return told, conflict.current
        return _DONE, patch if isinstance(patch, str) else {PATCH: patch}


def read_shown(state: Any) -> str | None:
    """Return the block of a state; `None` where nothing was shown yet."""
    shown = channel_of(state, SHOWN_KEY)
    return shown if isinstance(shown, str) else None


def _refused(error: InvalidError) -> ConfigurationError:
    return ConfigurationError(f"the working memory is invalid: {error}")
