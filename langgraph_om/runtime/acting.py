"""A thread's memory outside of its runs: how it is read, and how a person's change is written."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langgraph_om.archive import ArchivedThread
from langgraph_om.core.content.message_keys import belongs_to
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.effects import Pause, Requests, call_function, call_graph
from langgraph_om.core.record.record import find_newest_observed
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ArchiveError, ArchiveLacksError, ConfigurationError, ThreadBusyError
from langgraph_om.models.retries import status_of
from langgraph_om.runtime.flows import afulfil, fulfil, run_in_thread
from langgraph_om.runtime.hooks import record_act
from langgraph_om.runtime.runner import StepRunner

logger = logging.getLogger("langgraph_om")

PAGE: Final = 20
"""How many states of a thread are read at once."""

Update = list[dict[str, Any]]
"""An update of `om`: events, each a mapping of JSON values; the first has the `id` of the act."""


class GraphThread:
    """A thread of a graph, as its memory is read and changed outside of its runs.

    Args:
        config: The thread; with a `checkpoint_id`, a change begins a fork there.
        as_node: The node as which updates are written; `None`: the one that ran last, or answers.
        wait: Seconds to wait at most for a run under way to end, before anything is written.

    Raises:
        ConfigurationError: When the graph has no state to read, or `config` names no thread.
    """

    def __init__(
        self,
        runner: StepRunner,
        graph: Any,
        config: RunnableConfig,
        *,
        as_node: str | None = None,
        wait: float = 30.0,
    ) -> None:
        given: object = config
        if not isinstance(given, Mapping):
            msg = f'`config` is {given!r}; pass {{"configurable": {{"thread_id": "..."}}}}'
            raise ConfigurationError(msg)
        if not hasattr(graph, "update_state"):
            msg = f"`graph` is {type(graph).__name__}; pass a compiled graph, or a `RemoteGraph`"
            raise ConfigurationError(msg)
        if getattr(graph, "checkpointer", True) is None and not _is_in_run(config):
            msg = (
                f"`graph` is {graph.name!r}, which has no checkpointer, so its threads have no "
                f"memory; compile it with one"
            )
            raise ConfigurationError(msg)
        thread_id = config.get("configurable", {}).get("thread_id")
        if not thread_id:
            msg = '`config` names no thread; pass {"configurable": {"thread_id": "..."}}'
            raise ConfigurationError(msg)
        self.runner, self.graph, self.config = runner, graph, config
        self.as_node, self._wait = as_node, wait
        self.id = str(thread_id)

    @property
    def store(self) -> Any:
        """The graph's store."""
        return getattr(self.graph, "store", None)

    @property
    def is_fork(self) -> bool:
        """Whether changes begin a fork, beside whatever runs."""
        return "checkpoint_id" in self.config.get("configurable", {})

    def get_state(self, where: RunnableConfig) -> Requests[Any]:
        """Read a state of the graph."""
        return call_graph(self.graph.get_state, self.graph.aget_state, where)

    def update_state(
        self, where: RunnableConfig, values: Any, as_node: str | None = None
    ) -> Requests[Any]:
        """Write into the graph's state."""
        options = {} if as_node is None else {"as_node": as_node}
        update, aupdate = self.graph.update_state, self.graph.aupdate_state
        return call_graph(update, aupdate, where, values, **options)

    def walk(self, take: Callable[[Any], bool], **options: Any) -> Requests[None]:
        """Read the thread's states, newest first, as long as a function takes more."""
        before: RunnableConfig | None = None
        while True:
            read, aread = self.graph.get_state_history, self.graph.aget_state_history
            limits = {"before": before, "limit": PAGE, **options}
            page = yield from call_graph(read, aread, self.config, **limits)
            if not all(map(take, page)) or len(page) < PAGE:
                return
            before = page[-1].config

    def list_generations(self, limit: int) -> Requests[list[Any]]:
        """Return the newest state of each generation; no more are read than are needed."""
        found: dict[int, Any] = {}

        def take(state: Any) -> bool:
            found.setdefault(self.runner.stored_record(state)["generation"], state)
            return len(found) <= limit

        yield from self.walk(take)
        return [*found.values()]

    def read(self, also_of: str | None = None) -> Requests[Any]:
        """Return the thread's state, where it is the user's whom `config` names.

        Args:
            also_of: Whose it may be, too: it is given to them, and may be theirs already.

        Raises:
            ConfigurationError: When it is another user's.
        """
        state = yield from self.get_state(self.config)
        yield from self._check_owner(state, also_of)
        return state

    def _check_owner(self, state: Any, also_of: str | None) -> Requests[None]:
        given = self._name_resource()
        if given is None:
            return
        record, archive = self.runner.stored_record(state), self.runner.archive
        # A copied thread has the record of another one until its first run.
        owner = record["resource_id"] if belongs_to(record["thread_id"], self.id) else None
        if archive is not None:
            # It knows of a thread that was moved; the record may name the former owner.
            with suppress(ArchiveError):
                look = partial(archive.thread, self.id)
                found: ArchivedThread | None = yield from call_function(look, "om_owner")
                owner = (found and found.resource_id) or owner
        if owner not in {None, given, also_of}:
            raise ConfigurationError(describe_anothers(self.id, given))

    def rest(self, also_of: str | None = None) -> Requests[Any]:
        """Return the thread's state, as `read`, once no run is under way."""
        check_graph(self.graph, self.runner.messages_key, self.config)
        is_certain = self.is_fork or self._wait <= 0
        if not is_certain and _is_in_run(var_child_runnable_config.get(), self):
            raise _describe_busy(self, "and this call is part of that run")
        waited_for, pause = 0.0, _FIRST_PAUSE
        while True:
            state = yield from self.get_state(self.config)
            is_over = is_certain or is_at_rest(self.graph, state)
            if is_over or not waited_for:  # it may have been moved meanwhile
                yield from self._check_owner(state, also_of)
            if is_over:
                return state
            if waited_for >= self._wait:
                raise _describe_busy(self, f"before {', '.join(map(repr, state.next))}")
            yield Pause(pause)
            waited_for, pause = waited_for + pause, min(2 * pause, _LONGEST_PAUSE)

    def act(self, build: Callable[[Any], Update]) -> Requests[str]:
        """Write an update into the thread, wherever its run stands, and see that it is kept."""
        update: Update = []
        began = time.time_ns()
        for _ in range(_ATTEMPTS):
            state = yield from self.rest()
            update = update or build(state)
            act = str(update[0]["id"])
            try:
                yield from self._write(update, state, act)
            except Exception as error:
                if status_of(error) != _CONFLICT:
                    raise
                yield Pause(_LONGEST_PAUSE)  # a server refuses while a run is under way
                continue
            before = self.runner.record(state)
            state = None if self.is_fork else (yield from self.get_state(self.config))
            if state is None or self._has(state, act):
                record_act(update, before, self.id, self._name_resource(), began)
                if state is not None:
                    yield from self._tell_archive(self.runner.record(state))
                return act
        raise _describe_busy(self, "which writes over every change")

    def _tell_archive(self, record: MemoryRecord) -> Requests[None]:
        """Have the archive serve the log as it is by now; the next turn does what fails here."""
        archive = self.runner.archive
        if archive is None or not record["thread_id"] or "archived" not in record:
            return
        groups, now = record["log"], self.runner.clock()
        tell = partial(
            archive.add_groups,
            *(record["thread_id"], record["resource_id"], groups, now),
            log=[group["id"] for group in groups],
            observed=find_newest_observed(record),
            deletion=(record.get("deletion") or 0),
        )
        try:
            yield from call_function(tell, "om_archive")
        except ArchiveLacksError:
            pass  # it was deleted, and nothing of it is served
        except ArchiveError as error:
            text = "thread %r: the archive failed and still serves the previous log: %s"
            logger.warning(text, self.id, error)

    def _write(self, update: Update, state: Any, act: str) -> Requests[None]:
        values, node = {"om": update}, self.as_node
        written = yield from self.update_state(self.config, values, as_node=node)
        if node is None and not self._has((yield from self.get_state(written)), act):
            # `create_agent` drops what stands for the input, so a node has to be named.
            nodes: Any = getattr(self.graph, "nodes", ())
            gate = [name for name in nodes if name.endswith("Middleware.before_model")]
            node = gate[0] if gate and state.next else choose_node(nodes)
            written = yield from self.update_state(self.config, values, as_node=node)
            if node in state.next:  # it is the one that waits, and has to go on waiting
                where = written if self.is_fork else self.config
                given: dict[str, Any] = {self.runner.messages_key: []}
                yield from self.update_state(where, given, as_node=_INPUT)
        if not state.next:
            yield from self.stay_at_rest(written if self.is_fork else self.config)

    def stay_at_rest(self, where: RunnableConfig) -> Requests[None]:
        """End what an update began as the last node, behind which a graph may go on."""
        if (yield from self.get_state(where)).next:
            yield from self.update_state(where, None, as_node=_END)

    def _name_resource(self) -> str | None:
        return self.runner.runs.name_resource(self.config)

    def _has(self, state: Any, act: str) -> bool:
        return act in str(self.runner.stored_record(state))


OwnerT = TypeVar("OwnerT")
ResultT = TypeVar("ResultT")
P = ParamSpec("P")


def waited(
    flow: Callable[Concatenate[OwnerT, P], Requests[ResultT]],
) -> Callable[Concatenate[OwnerT, P], ResultT]:
    """Return a method that runs a flow and waits for its result."""

    @wraps(flow)
    def wait(owner: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return fulfil(flow(owner, *args, **kwargs))

    _tell_result(wait, flow)
    return wait


def awaited(
    method: Callable[Concatenate[OwnerT, P], ResultT],
    fulfil: Callable[[Requests[ResultT]], Awaitable[ResultT]] = afulfil,
) -> Callable[Concatenate[OwnerT, P], Coroutine[Any, Any, ResultT]]:
    """Return the coroutine function of a method that `waited` made: the same flow, awaited."""
    flow: Callable[..., Requests[ResultT]] = getattr(method, "__wrapped__")  # noqa: B009 typed so

    @wraps(flow)
    async def run(owner: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return await fulfil(flow(owner, *args, **kwargs))

    _tell_result(run, flow)
    _name_after(run, flow)
    return run


def threaded(
    method: Callable[Concatenate[OwnerT, P], ResultT],
) -> Callable[Concatenate[OwnerT, P], Coroutine[Any, Any, ResultT]]:
    """Return the coroutine function of a method that blocks: the same, in a thread."""

    @wraps(method)
    async def run(owner: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return await run_in_thread(method, owner, *args, **kwargs)

    _name_after(run, method)
    return run


def _name_after(run: Any, method: Callable[..., Any]) -> None:
    """Name a coroutine function after the method of which it does the same."""
    run.__name__ = f"a{method.__name__}"
    run.__qualname__ = method.__qualname__.replace(method.__name__, run.__name__)
    run.__doc__ = f"Do the same as `{method.__name__}` without blocking the event loop."


def _tell_result(method: Any, flow: Callable[..., Any]) -> None:
    """Let `help` say what comes of a flow, instead of the flow."""
    told = signature(flow)
    result = str(told.return_annotation).removeprefix("Requests[").removesuffix("]")
    method.__signature__ = told.replace(return_annotation=result)
    method.__annotations__ = {**flow.__annotations__, "return": result}


# Whether a run is under way.


_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_ATTEMPTS: Final = 3
_ABANDONED: Final = timedelta(hours=1)
"""A run that has stored nothing for so long counts as over: its process was killed."""
_CONFLICT: Final = 409
"""The status with which a server refuses because a run is under way."""
_END: Final = "__end__"
_INPUT: Final = "__start__"
"""LangGraph's name for the node that stands for the input."""


def is_at_rest(graph: Any, state: Any) -> bool:
    """Return whether a state is one in which no run goes on by itself.

    LangGraph does not say whether somebody runs a thread. A thread waits where its turn is over, at
    an interrupt or a compiled breakpoint, after an error, and behind an update.
    """
    waiting = {*(state.next or ())}
    if not waiting or any(task.interrupts or task.error for task in state.tasks):
        return True
    if (state.metadata or {}).get("source") in ("update", "fork"):
        return True
    before: Any = getattr(graph, "interrupt_before_nodes", ())
    after: Any = getattr(graph, "interrupt_after_nodes", ())
    if before == "*" or waiting.intersection(before) or after:
        return True
    stored = datetime.fromisoformat(state.created_at) if state.created_at else None
    return stored is None or datetime.now(stored.tzinfo) - stored > _ABANDONED


def _is_in_run(config: RunnableConfig | None, thread: GraphThread | None = None) -> bool:
    """Return whether a configuration is a run's, and of this thread where one is given."""
    configurable = (config or {}).get("configurable", {})
    is_run = "__pregel_task_id" in configurable or "__pregel_checkpointer" in configurable
    return is_run and (thread is None or configurable.get("thread_id") == thread.id)


def _describe_busy(thread: GraphThread, where: str) -> ThreadBusyError:
    return ThreadBusyError(
        f"the thread {thread.id!r} is in the middle of a run, {where}, which would overwrite the "
        f"change; call again when it has ended, return the update from `memory.updates` in a node "
        f"or tool of the run, or, if nothing runs anymore (a killed process, a breakpoint of one "
        f"call), pass `wait=0` to `memory.of`"
    )


def describe_anothers(thread_id: str, resource_id: str) -> str:
    """Describe that a thread is not the user's who is named, and do not say whose it is."""
    return (
        f"`resource_id` is {resource_id!r}, and the thread {thread_id!r} belongs to another "
        f"resource; pass the one that its runs had"
    )


def make_act_id() -> str:
    """Return an id for an act."""
    return f"act-{uuid4().hex[:12]}"


def check_text(name: str, value: object) -> str:
    """Return a text that a person wrote without what databases refuse.

    Raises:
        ConfigurationError: When it is none, or blank.
    """
    if isinstance(value, str) and (clean := sanitize(value)).strip():
        return clean
    msg = f"`{name}` is {value!r}; pass a text that is not blank"
    raise ConfigurationError(msg)


def check_graph(graph: Any, messages_key: str, config: RunnableConfig) -> None:
    """Refuse a graph whose state has no place for a memory, or for the conversation.

    Only the outermost graph of this process is looked at: a namespace names a graph inside of it.
    """
    channels = getattr(graph, "channels", None)
    if channels is None or config.get("configurable", {}).get("checkpoint_ns"):
        return
    missing = [name for name in ("om", messages_key) if name not in channels]
    if missing:
        msg = (
            f"`graph` is {graph.name!r}, whose state has no {missing[0]!r}, so it cannot keep "
            f"memory; pass a graph with this memory: from `create_memory_agent`, from "
            f"`create_agent` with the middleware, or built with `add_observational_memory`"
        )
        raise ConfigurationError(msg)


def choose_node(nodes: Iterable[str]) -> str:
    """Return the node that answers, for a thread that was imported and has run none.

    Raises:
        ConfigurationError: When it cannot be told.
    """
    names = [name for name in nodes if not name.startswith(("__", "om_")) and "." not in name]
    answering = [name for name in names if name != "tools"]
    if len(answering) == 1:
        return str(answering[0])
    msg = (
        f"the thread has not run a node yet; pass `as_node` to `memory.of`, the node that answers, "
        f"one of {names}"
    )
    raise ConfigurationError(msg)
