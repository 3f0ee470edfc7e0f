"""A graph that carries out memory's background work, for a LangGraph server.

A job that was sent here is taken over, carried out once, and its result kept in the archive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.channels import UntrackedValue
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from langgraph_om.archive import Claim, MessageArchive
from langgraph_om.core.config.options import check_seconds
from langgraph_om.core.cycles.carry_out import fail_request
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.wire import JobRequest, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.memory import ObservationalMemory, check_memory, runner_of
from langgraph_om.runtime.drivers import adrive, drive
from langgraph_om.runtime.flows import RunContext
from langgraph_om.runtime.leases import PRUNE_SECONDS, Leases
from langgraph_om.runtime.server import LEASE_SECONDS

JobOutcome = Literal["done", "failed", "overtaken", "taken", "withdrawn"]
"""What came of a run: a result; a failure; a result that comes too late, because the job is another
worker's by now; or nothing, as another worker has the job, or has done it, or nobody wants it any
more."""


def carry_out_once(
    request: JobRequest, sender: str, work: EffectFlow[JobResult]
) -> EffectFlow[JobOutcome]:
    """Carry out a job, unless it is another worker's; driven with a `JobLease` as storage.

    Raises:
        ConfigurationError: When this process cannot do the job. That is kept as its failure.
        ArchiveError: When the storage fails; the job is then begun again elsewhere.
    """
    claim = yield from call_storage("take_over", request, sender)
    if claim != "mine":
        return "withdrawn" if claim is None else "taken"
    try:
        result = yield from work
    except ConfigurationError as error:
        yield from call_storage("keep", request["cycle_id"], fail_request(request, error))
        raise
    if not (yield from call_storage("keep", request["cycle_id"], result)):
        return "overtaken"
    return "failed" if result["type"] == "buffering-failed" else "done"


class JobLease:
    """One worker's lease of one job.

    Args:
        seconds: How long the lease lasts unless it is renewed.
        owner: Under which name it is held. That of who sent the job, so that the lease passes from
            one to the other without a gap; of a run that is tried again it is the same.
        prunes: Whether jobs that ended long ago are forgotten beside the work.
    """

    def __init__(
        self, archive: MessageArchive, seconds: float, owner: str | None, *, prunes: bool = False
    ) -> None:
        self._archive = archive
        self._leases = Leases(archive, seconds, owner or uuid4().hex, prunes=prunes)
        self._is_wanted = True
        self._cycle_id = ""

    def take_over(self, request: JobRequest, sender: str) -> Claim | None:
        """Ask for the job, and wait for the answer; `None` when it was withdrawn or deleted."""
        self._cycle_id = request["cycle_id"]
        if self._archive.job(self._cycle_id) is None:
            return None
        answers: list[Claim] = []
        is_answered = threading.Event()

        def tell(claim: Claim) -> bool:
            answers.append(claim)
            is_answered.set()
            return self._is_wanted

        about: Sequence[str] = request["about"]
        whose = (request["thread_id"], request["resource_id"])
        self._leases.ask(self._cycle_id, *whose, tell, about=about)
        is_answered.wait()
        return answers[0]

    def keep(self, cycle_id: str, result: JobResult) -> bool:
        """Keep the job's result, and return whether it counts."""
        return self._leases.finish(cycle_id, result) is not None

    def give_up(self) -> None:
        """Let any worker begin the job again, if it has no result; waits for nothing."""
        self._is_wanted = False
        self._leases.leave(self._cycle_id)


CARRY_OUT = "om_carry_out"
"""Carries out the job."""

MakeWork = Callable[[JobRequest, RunnableConfig], tuple[EffectFlow[JobResult], RunContext]]
"""Returns the flow that does a job, and what it is driven with."""


class WorkerInput(TypedDict):
    """What a run of the worker is given; never checkpointed."""

    request: Annotated[dict[str, Any], UntrackedValue]
    """The job, a `JobRequest`."""
    sender: Annotated[str, UntrackedValue]
    """Under which name who sent it holds a lease of it."""


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
    archive, prune_at = runner.archive, 0.0

    def make_lease(owner: str | None) -> JobLease:
        nonlocal prune_at
        now = time.monotonic()
        prunes = now >= prune_at  # once an hour, old jobs are forgotten
        prune_at = now + PRUNE_SECONDS if prunes else prune_at
        return JobLease(archive, lease, owner, prunes=prunes)

    return build_worker(runner.run_request, make_lease)


def build_worker(
    make_work: MakeWork, make_lease: Callable[[str | None], JobLease]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph from what does a job, and what makes leases."""

    @contextmanager
    def begin(
        state: WorkerInput, config: RunnableConfig
    ) -> Iterator[tuple[EffectFlow[str], RunContext]]:
        request: Any = state["request"]
        sender = state["sender"]
        held = make_lease(sender)
        work, context = make_work(request, config)
        flow = carry_out_once(request, sender, work)
        try:
            yield flow, replace(context, storage=(held, *context.storage))
        except BaseException:  # cancelled, too
            held.give_up()
            raise

    def carry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        with begin(state, config) as (flow, context):
            outcome = drive(flow, context).result
        return {"cycle_id": state["request"]["cycle_id"], "outcome": outcome}

    async def acarry_out(state: WorkerInput, config: RunnableConfig) -> Mapping[str, Any]:
        with begin(state, config) as (flow, context):
            outcome = (await adrive(flow, context)).result
        return {"cycle_id": state["request"]["cycle_id"], "outcome": outcome}

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
