"""A graph that carries out memory's background work, for a LangGraph server.

A job that was sent here is taken over, carried out once, and its result kept in the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.channels import UntrackedValue
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.cycles.carry_out import fail_request
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.flows import RunContext, adrive, drive

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

JobOutcome = Literal["done", "failed", "overtaken", "withdrawn"]
"""A run's outcome: a result; a failure; a result that comes too late, because another worker has
since claimed the job; or nothing, because the job is no longer wanted, or not from here."""

CARRY_OUT = "om_carry_out"
"""Carries out the job."""

MakeWork = Callable[[JobRequest, RunnableConfig], tuple[EffectFlow[JobResult], RunContext]]
"""Returns the flow that does a job, and what it is driven with."""


class WorkerInput(TypedDict):
    """What a run of the worker is given; never checkpointed."""

    request: Annotated[dict[str, Any], UntrackedValue]
    """The job, a `JobRequest`."""
    sender: Annotated[str, UntrackedValue]
    """The name under which its sender claimed it."""


class WorkerOutput(TypedDict):
    """The result of a run."""

    cycle_id: str
    """The job."""
    outcome: str
    """`done`, `failed`, `overtaken` or `withdrawn`."""


class WorkerState(WorkerInput, WorkerOutput):
    """The state of a run."""


def worker_graph(memory: ObservationalMemory) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph that carries out the jobs that `ServerBuffering` sends.

    For `langgraph.json`, with the agent or on another server:

        om_worker = worker_graph(memory)  # "graphs": {"om_worker": "./graphs.py:om_worker"}

    A run takes a `request`, a `JobRequest`, and writes the result into the archive, where the
    agent's next step finds it. Several runs of one job, and a run that the server retries, do the
    work once.

    Args:
        memory: A memory with the agent's options and archive; the same object will do.

    Raises:
        ConfigurationError: When the memory has no archive.
    """
    runner = runner_of(check_memory(memory))
    if runner.archive is None:
        msg = (
            "`memory` has no `archive`, through which the agent and the worker share jobs; set the "
            "same `archive` for both"
        )
        raise ConfigurationError(msg)
    seconds = max(CLAIM_SECONDS, runner.job_seconds)
    return build_worker(runner.archive, runner.run_request, seconds)


def build_worker(
    archive: SQLAlchemyArchive, make_work: MakeWork, seconds: float = CLAIM_SECONDS
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph of a worker from what does a job.

    Args:
        seconds: How long a worker's claim lasts.
    """

    def begin(
        state: WorkerInput, config: RunnableConfig
    ) -> tuple[EffectFlow[JobOutcome], RunContext]:
        request: Any = state["request"]
        # A run that the server tries again has the same id, and so the same claim.
        owner = str(config.get("configurable", {}).get("run_id") or uuid4().hex)
        work, context = make_work(request, config)

        def take_over() -> bool:
            return archive.take_over(request["cycle_id"], state["sender"], owner, seconds=seconds)

        finish = partial(archive.finish, request["cycle_id"], owner)
        return _carry_out_once(request, take_over, work, finish), context

    def carry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        outcome = drive(*begin(state, config)).result
        return {"cycle_id": state["request"]["cycle_id"], "outcome": outcome}

    async def acarry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        outcome = (await adrive(*begin(state, config))).result
        return {"cycle_id": state["request"]["cycle_id"], "outcome": outcome}

    builder = StateGraph(WorkerState, input_schema=WorkerInput, output_schema=WorkerOutput)
    builder.add_node(CARRY_OUT, RunnableLambda(carry_out, afunc=acarry_out, name=CARRY_OUT))
    builder.add_edge(START, CARRY_OUT)
    return _WorkerGraph(**vars(builder.compile(name="om_worker")))


def _carry_out_once(
    request: JobRequest,
    take_over: Callable[[], bool],
    work: EffectFlow[JobResult],
    finish: Callable[[JobResult], bool],
) -> EffectFlow[JobOutcome]:
    """Carry out a job, unless nobody wants it from here.

    Raises:
        Exception: Whatever keeps this process from doing the job. It is kept as the job's failure,
            unless the archive fails; the job is then begun again when its claim ends.
    """
    if not (yield from call_storage(take_over)):
        return "withdrawn"
    try:
        result = yield from work
    except Exception as error:
        yield from call_storage(finish, fail_request(request, error))
        raise
    if not (yield from call_storage(finish, result)):
        return "overtaken"
    return "failed" if result["type"] == "buffering-failed" else "done"


class _WorkerGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """Leaves out `durability` where nothing is checkpointed.

    A server gives it to each run, even to one without a checkpointer, and LangGraph then warns.
    """

    def astream(self, *args: Any, **options: Any) -> Any:
        if self.checkpointer is None:
            options.pop("durability", None)
        return super().astream(*args, **options)
