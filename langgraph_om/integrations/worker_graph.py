"""A graph that carries out memory's background work, for a LangGraph server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.channels import UntrackedValue
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import check_seconds
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.context import RunContext
from langgraph_om.runtime.drivers import adrive, drive
from langgraph_om.runtime.jobs.server import LEASE_SECONDS
from langgraph_om.runtime.jobs.worker import JobLease, JobLeases, carry_out_once

if TYPE_CHECKING:
    from collections.abc import Iterator


CARRY_OUT = "om_carry_out"
"""Carries out the job."""

MakeWork = Callable[[JobRequest, RunnableConfig], tuple[EffectFlow[JobResult], RunContext]]
"""Returns the flow that does a job, and what it is driven with."""


class WorkerInput(TypedDict):
    """What a run of the worker is given; never checkpointed."""

    request: Annotated[dict[str, Any], UntrackedValue]
    """The job, a `JobRequest`."""
    sender: Annotated[str | None, UntrackedValue]
    """Under which name who sent it holds a lease of it; `None`: nobody holds one."""


class WorkerOutput(TypedDict):
    """What is left of a run."""

    cycle_id: str
    """The job."""
    outcome: str
    """`done`, `failed`, `overtaken`, `taken` or `withdrawn`."""


class WorkerState(WorkerInput, WorkerOutput):
    """The state of a run."""


def worker_graph(
    memory: ObservationalMemory, *, lease: float = LEASE_SECONDS
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph that carries out the jobs that `ServerBuffering` sends.

    For `langgraph.json`, beside the agent or on a server of its own:

        om_worker = worker_graph(memory)  # "graphs": {"om_worker": "./graphs.py:om_worker"}

    A run takes a `request`, a `JobRequest`, and writes the result into the archive, where the
    agent's next step finds it. Several runs of one job, and a run that the server tries again,
    carry it out once.

    Args:
        memory: A memory with the agent's options and archive; the same object will do.
        lease: Seconds after which a job of a worker that died is begun again.

    Raises:
        ConfigurationError: When the memory has no archive.
    """
    runner = runner_of(check_memory(memory))
    if runner.archive is None:
        msg = (
            "`memory` has no `archive`, by which the agent and the worker know each other's jobs; "
            "set `archive`, the same for both"
        )
        raise ConfigurationError(msg)
    check_seconds("lease", lease)
    return build_worker(runner.run_request, JobLeases(runner.archive, lease).make)


def build_worker(
    make_work: MakeWork, make_lease: Callable[[str | None], JobLease]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph from what does a job, and what makes leases."""

    @contextmanager
    def begin(
        state: WorkerInput, config: RunnableConfig
    ) -> Iterator[tuple[EffectFlow[str], RunContext]]:
        request: Any = state["request"]
        sender = state.get("sender")
        held = make_lease(sender or config.get("configurable", {}).get("run_id"))
        work, context = make_work(request, config)
        flow = carry_out_once(request, sender, work)
        try:
            yield flow, replace(context, storage=(held, *context.storage))
        except BaseException:  # cancelled, too
            held.give_up()
            raise

    def carry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        with begin(state, config) as (flow, context):
            return _tell(state, drive(flow, context).result)

    async def acarry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        with begin(state, config) as (flow, context):
            return _tell(state, (await adrive(flow, context)).result)

    builder = StateGraph(WorkerState, input_schema=WorkerInput, output_schema=WorkerOutput)
    builder.add_node(CARRY_OUT, RunnableLambda(carry_out, afunc=acarry_out, name=CARRY_OUT))
    builder.add_edge(START, CARRY_OUT)
    return _WorkerGraph(**vars(builder.compile(name="om_worker")))


class _WorkerGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """Leaves out `durability` where nothing is checkpointed.

    A server gives it to each run, even to one without a checkpointer, and LangGraph then warns.
    """

    def astream(self, *args: Any, **options: Any) -> Any:
        if self.checkpointer is None:
            options.pop("durability", None)
        return super().astream(*args, **options)


def _tell(state: WorkerInput, outcome: str) -> dict[str, str]:
    return {"cycle_id": state["request"]["cycle_id"], "outcome": outcome}
