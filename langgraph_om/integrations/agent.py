"""An agent loop with memory, ready to run, every node visible.

An edge leads past `om_status` where the next inspection will only count, as far as the state tells.
What only the archive or another process knows is not asked: such a step is said to have work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.utils.uuid import uuid7
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.base import BaseStore
from langgraph.types import Command

from langgraph_om.core.config.settings import Identity
from langgraph_om.core.plan import plan
from langgraph_om.core.record.record import complete_record
from langgraph_om.core.record.window import find_newest_human
from langgraph_om.core.step.inspect import count_and_collect
from langgraph_om.core.step.step import Step
from langgraph_om.errors import ConfigurationError
from langgraph_om.integrations.nodes import (
    BESIDE,
    STATED,
    STATUS,
    Inspection,
    MemoryNodes,
    MemoryTransformer,
    PlainNode,
    StateUpdate,
    emit,
)
from langgraph_om.integrations.state_graph import (
    ObservationalMemoryState,
    PlainMemoryState,
    add_memory_nodes,
)
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.models.providers import chat_model, check_model, name_actor
from langgraph_om.runtime.drivers import adrive, drive, in_thread
from langgraph_om.runtime.flows import RunFlow
from langgraph_om.runtime.run import MemoryContext
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.second_try import SecondTries
from langgraph_om.runtime.tools import refuse_second_tools
from langgraph_om.runtime.turn import FINISH

_FOUND_AGAIN = frozenset({"opened", "counted", "buffering-end"})
"""Events that a later inspection finds again: what a job came to is looked at, not taken away."""

LEAVE_SECONDS: Final = 1.0
"""How long an answer waits in an asynchronous run for the last step behind it to be written too."""


def is_idle(runner: StepRunner, state: Mapping[str, Any]) -> bool:
    """Return whether the Actor is next, and nothing has happened that must be kept before it is.

    A job may be handed over, or be done: it is known by its id, and so is its result.

    It never raises: an error here would take the message or the tool's result with it that comes in
    with this step, and the inspection raises it again.

    Args:
        runner: What the memory runs its steps with.
        state: The graph's state before the Actor's call.
    """
    try:
        if not runner.runs.may_write():
            return True
        return _is_idle(runner, state)
    except Exception:  # noqa: BLE001 whatever a counter or a function of the user raises
        return False


def _is_idle(runner: StepRunner, state: Mapping[str, Any]) -> bool:
    record = complete_record(state.get("om"))
    settings = runner.settings_in_force(record)
    if not record["id"] or record["scope"] != settings.scope or record.get("tripwire") is not None:
        return False
    step = Step(
        settings,
        record,
        runner.conversation(state),
        Identity(record["thread_id"], record["resource_id"]),
        runner.clock(),
        before=runner.spans.recall(record["id"]),
    )
    return _asks_nothing(runner, step)


def _asks_nothing(runner: StepRunner, step: Step) -> bool:
    """Return whether the Actor's node does what is due; it goes on from what was counted here."""
    settings = step.settings
    for is_due in settings.features.of("is_due", step.record):
        if is_due(step):
            return False
    jobs = {name: job["cycle_id"] for name, job in step.record["pending"].items()}
    if jobs and not runner.jobs_are_here:
        return False  # only a look elsewhere would tell
    count_and_collect(step, {name: runner.buffering.peek(key) for name, key in jobs.items()})
    runner.spans.keep(step.former["id"], step.window.span)  # any inspection goes on from it
    if not _FOUND_AGAIN.issuperset(map(itemgetter("type"), step.events)):
        return False
    step.decision = plan(step.record, step.window, settings.thresholds, step.now, settings.features)
    is_job = step.decision.kind == "buffer" and runner.buffers_in_background
    if not is_job and step.decision.kind != "proceed":
        return False
    runner.looks.keep(step.former["id"], step)
    return True


def create_memory_agent(
    model: str | BaseChatModel,
    tools: Sequence[Any] = (),
    *,
    memory: ObservationalMemory | None = None,
    prompt: str | SystemMessage | None = None,
    system_prompt: str | SystemMessage | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    store: BaseStore | None = None,
    name: str | None = None,
    delta: bool = True,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build an agent that talks without end: model, tools, memory.

    A run may say `context={"om_enabled": False}` or `{"resource_id": ...}` (`MemoryContext`).

    Args:
        model: The Actor's model: a chat model, or its name such as `"openai/gpt-5-mini"` or
            `"openai:gpt-5-mini"`.
        tools: Tools or functions; those of the memory are added.
        memory: The memory; `None`: `ObservationalMemory()`.
        prompt: The agent's own system prompt.
        system_prompt: The same, as `create_agent` calls it.
        checkpointer: Where threads are kept; `None` under a server or Studio, which brings its own.
        store: A LangGraph store for the tools and for semantic search.
        name: The graph's name.
        delta: Whether a checkpoint holds only what changed. With `False` each one holds the whole
            conversation and memory, which `checkpointer.prune(..., strategy="keep_latest")` needs.

    Raises:
        ConfigurationError: When the model cannot be used, or two prompts are given.
    """
    if prompt is not None and system_prompt is not None:
        msg = "`prompt` and `system_prompt` are the same setting; pass one of them"
        raise ConfigurationError(msg)
    memory = check_memory(memory) if memory is not None else ObservationalMemory()
    check_model("model", model)
    chat = chat_model(model) if isinstance(model, str) else model
    refuse_second_tools(_check_tools(tools), runner_of(memory))
    all_tools = [*tools, *(tool for tool in memory.tools if tool not in tools)]
    if all_tools and not hasattr(chat, "bind_tools"):
        msg = f"`model` is {model!r}, which cannot be given tools; pass a chat model"
        raise ConfigurationError(msg)
    runner_of(memory).meet_actor(chat, all_tools, prompt or system_prompt)
    actor, reader = _bind_tools(chat, all_tools, memory)
    schema = ObservationalMemoryState if delta else PlainMemoryState
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema, context_schema=MemoryContext)
    nodes, view = add_memory_nodes(builder, memory, "agent", tells_actor=True)
    entry = IdleStep(nodes)
    node = _build_actor_node(actor, reader, memory, prompt or system_prompt, entry)
    builder.add_node("agent", node, input_schema=view)
    entry.draw_edge(builder, START)
    if all_tools:
        tool_node = ToolNode(
            all_tools, wrap_tool_call=entry.call_tool, awrap_tool_call=entry.acall_tool
        )
        builder.add_node("tools", tool_node)
        entry.draw_edge(builder, "tools")
    entry.draw_ways_on(builder, has_tools=bool(all_tools))
    return builder.compile(
        checkpointer=checkpointer, store=store, name=name, transformers=[MemoryTransformer]
    )


def _bind_tools(
    chat: BaseChatModel, tools: Sequence[Any], memory: ObservationalMemory
) -> tuple[Runnable[Any, BaseMessage], Runnable[Any, BaseMessage]]:
    """Return the Actor with its tools, and the one of a read-only run, which changes no memory."""
    actor: Runnable[Any, BaseMessage] = chat.bind_tools(tools) if tools else chat
    writing = runner_of(memory).settings.writing_tools
    readable = [tool for tool in tools if getattr(tool, "name", None) not in writing]
    if len(readable) == len(tools):
        return actor, actor
    return actor, chat.bind_tools(readable) if readable else chat


def _build_actor_node(
    actor: Runnable[Any, BaseMessage],
    reader: Runnable[Any, BaseMessage],
    memory: ObservationalMemory,
    prompt: str | SystemMessage | None,
    entry: IdleStep,
) -> PlainNode:
    """Build the node that calls the Actor, once more with less when its provider refuses that.

    Args:
        actor: The Actor's model with all tools.
        reader: The same without those that write memory, for runs in which nothing is written.
        prompt: The agent's own system prompt.
        entry: What the node begins with.
    """
    runner, name = runner_of(memory), name_actor(actor)

    def choose() -> Runnable[Any, BaseMessage]:
        return actor if actor is reader or runner.runs.may_write() else reader

    def show(state: Any, step: Step | None) -> list[BaseMessage]:
        if step is not None:
            return runner.actor_input(step, prompt)
        return memory.llm_input_messages(state, system=prompt)

    def agent(state: Any) -> dict[str, Any]:
        known, update, step = entry.enter(state)
        tries = SecondTries(runner, known, prompt, model=name)
        try:
            answer = tries.ask(choose().invoke, show(known, step))
        except Exception:
            entry.stop(known)
            raise
        return entry.leave(known, update, answer)

    async def aagent(state: Any) -> dict[str, Any]:
        known, update, step = await entry.aenter(state)
        tries = SecondTries(runner, known, prompt, model=name)
        try:
            answer = await tries.aask(choose().ainvoke, show(known, step))
        except Exception:
            await entry.astop(known)
            raise
        return await entry.aleave(known, update, answer)

    return PlainNode(agent, name="agent", afunction=aagent)


def _with_ids(result: Any, now: datetime) -> Any:
    """Give a tool's messages their ids, which LangGraph gives behind the edges.

    So the edge from the tools counts them under the ids by which the Actor's node knows them. The
    ids tell the time: nothing else does where the run is cancelled before that node has written.
    """
    update = result.update if isinstance(result, Command) else result
    values = update.values() if isinstance(update, Mapping) else [update]
    for value in values:
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, BaseMessage) and message.id is None:
                message.id = str(uuid7(max(0, int(now.timestamp() * 1000)) * 1_000_000))
    return result


def _check_tools(tools: object) -> Sequence[Any]:
    if isinstance(tools, Sequence) and not isinstance(tools, str):
        return tools
    msg = f"`tools` is {tools!r}; pass a list of tools or functions"
    raise ConfigurationError(msg)


# --- What the Actor's node begins and ends with --------------------------------------------------

State = Mapping[str, Any]
Entered = tuple[State, StateUpdate, Step | None]
"""The state that the Actor is called with, what is to be written of it beside the answer, and what
was inspected; `None` where `om_status` has done that."""


class IdleStep:
    """Inspects the state, unless `om_status` has just done so, and takes the last step of a turn.

    A superstep takes time and a checkpoint, which in plain channels holds the whole conversation.
    So `om_status` runs only where work is due, or something has happened that is to be kept even
    when the Actor's model fails. The edges tell that ahead; what has come up in between is left to
    the next step. `om_finish` runs only where the last step has failed or hangs here, so that the
    answer is kept, behind an answer that a person wrote, and where a job was done beside this node.

    Args:
        nodes: The memory nodes of the graph.
    """

    def __init__(self, nodes: MemoryNodes) -> None:
        self._nodes = nodes

    def enter(self, state: State) -> Entered:
        """Inspect the state."""
        return drive(self._enter(state), self._nodes.runner.context(emit=emit)).result

    async def aenter(self, state: State) -> Entered:
        """Inspect the state in a thread of its own: functions of the user may block.

        Not in one of the loop's few: where jobs are sent to the server that this runs in, it needs
        them to answer.
        """
        return await asyncio.wrap_future(in_thread(partial(self.enter, state), "om_enter"))

    def draw_edge(self, builder: StateGraph[Any, Any, Any, Any], source: str) -> None:
        """Draw the edge from a node after which the Actor is next, past `om_status` where idle."""
        ways: Any = {"idle": self._nodes.before, "due": STATUS}
        builder.add_conditional_edges(source, PlainNode(self._choose, name="om_look"), ways)

    def draw_ways_on(self, builder: StateGraph[Any, Any, Any, Any], *, has_tools: bool) -> None:
        """Draw the edges from the Actor's node to its tools and to the end."""
        node, ways = self._nodes.before, {END: END}
        if has_tools:
            ways["tools"] = "tools"
        if self._nodes.runner.has_last_step:
            ways[FINISH] = FINISH
        if len(ways) == 1:
            builder.add_edge(node, END)
            return
        path = PlainNode(self._choose_next, "om_next", self._achoose_next)
        builder.add_conditional_edges(node, path, cast("Any", ways))

    def leave(self, state: State, update: StateUpdate, answer: BaseMessage) -> StateUpdate:
        """Return the update with the Actor's answer, and with the last step where it is a turn's.

        Args:
            state: The state that the Actor was called with.
            update: What is written of the step before it.
        """
        written = _add_answer(update, answer)
        if not self._is_last(state, answer):
            return written
        try:
            return _add_last_step(written, self._take_last_step(state, answer), answer)
        except Exception:  # noqa: BLE001 `om_finish` raises it again, with the answer kept
            return written

    async def aleave(self, state: State, update: StateUpdate, answer: BaseMessage) -> StateUpdate:
        """Do the same in a thread of its own, as the archive blocks.

        While an archive hangs the run may be cancelled, and LangGraph keeps nothing of a node that
        is. So the answer is written first then, and `om_finish` waits for this thread.
        """
        written = _add_answer(update, answer)
        if not self._is_last(state, answer):
            return written
        begun = in_thread(partial(self._take_last_step, state, answer), "om_leave")
        future = asyncio.wrap_future(begun)
        try:
            done, _ = await asyncio.wait({future}, timeout=LEAVE_SECONDS)
            if done:
                return _add_last_step(written, future.result(), answer)
            self._nodes.last_steps.keep(self._nodes.name_answer(state, answer), begun)
        except Exception:  # noqa: BLE001 as in `leave`
            return written
        finally:
            future.cancel()  # or what comes later finds a loop that may be closed
        return written

    def call_tool(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        """Call a tool; its result has ids."""
        try:
            return _with_ids(execute(request), self._nodes.runner.clock())
        except Exception:
            self.stop(request.state, request.runtime.config)
            raise

    async def acall_tool(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Do the same as `call_tool` without blocking the event loop."""
        try:
            return _with_ids(await execute(request), self._nodes.runner.clock())
        except Exception:
            await self.astop(request.state, request.runtime.config)
            raise

    def stop(self, state: State, config: RunnableConfig | None = None) -> None:
        """Archive what waits for an answer, as the run fails or is interrupted."""
        with suppress(Exception):  # the next turn archives it; the error of the run counts
            drive(self._stop(state, config), self._nodes.runner.context(config))

    async def astop(self, state: State, config: RunnableConfig | None = None) -> None:
        """Do the same as `stop` without blocking the event loop."""
        with suppress(Exception):
            await adrive(self._stop(state, config), self._nodes.runner.context(config))

    def _stop(self, state: State, config: RunnableConfig | None) -> RunFlow[None]:
        runner, messages = self._nodes.runner, self._nodes.runner.conversation(state)
        # A request that nothing has followed waits for the next turn.
        if not runner.runs.may_write(config) or find_newest_human(messages) == len(messages) - 1:
            return
        record, who = runner.record(state), runner.identity(config)
        step = Step(runner.settings_of(record), record, messages, who, runner.clock())
        yield from runner.catch_up(step)

    def _is_last(self, state: State, answer: BaseMessage) -> bool:
        if getattr(answer, "tool_calls", None) or answer.id is None or "om" not in state:
            return False
        # Where `om_buffer` runs at the same time, `om_finish` takes its result in.
        return self._nodes.runner.has_last_step and state.get(STATED) != BESIDE

    def _take_last_step(self, state: State, answer: BaseMessage) -> StateUpdate:
        key = self._nodes.runner.messages_key
        return self._nodes.finish({**state, key: [*state[key], answer]})

    def _choose_next(self, state: Any) -> str:
        if tools_condition(state) == "tools":
            return "tools"
        is_over = not self._nodes.runner.has_last_step
        answer = state[self._nodes.runner.messages_key][-1]
        return END if is_over or state.get(STATED) == answer.id else FINISH

    async def _achoose_next(self, state: Any) -> str:
        return self._choose_next(state)

    def _choose(self, state: State) -> str:
        return "idle" if is_idle(self._nodes.runner, state) else "due"

    def _enter(self, state: State) -> RunFlow[Entered]:
        # A former turn may have left the id of its answer. Without memory in the state, the view
        # tells.
        if state.get(STATED) in {True, BESIDE} or "om" not in state:
            return state, {}, None
        found = yield from self._nodes.inspect(state, acts=True)
        step = None if found.outcome is None else found.outcome.step
        return self._show(state, found), found.update, step

    def _show(self, state: State, found: Inspection) -> State:
        """Return the state as it is once an inspection is written."""
        # What is written to `om` are events, or nothing, and not the record.
        after, outcome = {**state, **found.update, "om": state["om"]}, found.outcome
        if outcome is None:
            return after
        key = self._nodes.runner.messages_key
        return {**after, "om": outcome.record, key: outcome.messages}


def _add_answer(update: StateUpdate, answer: BaseMessage) -> StateUpdate:
    """Return an update with the Actor's answer, behind what leaves the conversation."""
    return {**update, "messages": [*update.get("messages", ()), answer]}


def _add_last_step(written: StateUpdate, last: StateUpdate, answer: BaseMessage) -> StateUpdate:
    """Return an update with that of the turn's last step, and with a word that it is taken."""
    both = {name: [*written.get(name, ()), *last[name]] for name in last}
    return {**written, **both, STATED: answer.id}
