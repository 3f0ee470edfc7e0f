"""A world in which anything may happen to conversations with memory, and the laws are checked.

The world holds what is real (checkpointers, an archive, processes with their memory and graph) and
what is true (what was said in each thread, on each branch). `talk` is where both meet: every call
of the Actor in a turn becomes a `Moment`, and the laws are asked about it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import StateSnapshot

from langgraph_om import InlineBuffering, ObservationalMemory, WorkingMemory
from support.agents import Graph, Part, Saver, dumped, of_kind
from support.claims import end_claims
from support.clock import Clock
from support.inside import MIN_REMAINING, fold, open_window, runner_of
from support.laws.cast import (
    CALLED,
    Actor,
    ActorDownError,
    Held,
    HeldBuffering,
    Oracle,
    TurnWithoutEnd,
    label_of,
    request,
    spoken,
    words,
)
from support.laws.doors import WITHIN, actor_node, build, last_node
from support.laws.laws import Moment, Record, Told, archived_otherwise, broken, groups_ahead
from support.laws.served import Served
from support.laws.shares import Shares, Unreliable
from support.real_ids import Naming
from support.words import Words

MAX_SUPERSTEPS = 100_000
"""LangGraph's own limit is out of the way: with few supersteps left, memory would step back."""
MAX_QUESTIONS = 1000
"""More than the Observer and the Reflector are asked in any turn of a world that ends."""
SHORT, LONG = 0.1, 60.0
"""Deadlines in seconds: for a model that hangs, and for one that answers."""
LABEL_WORDS = 10
"""More than a line of a transcript has beside its message."""
COMMITTED = ("observation-end", "observation-failed", "activation", "buffering-end")
"""Events that may come again after a crash, and count once."""


MAX_PINS = 2
"""So many have room, however long an edit makes them."""

_READ = {"type": "object", "additionalProperties": {"type": "integer"}}
LIKES = "# The user\n\n- Likes: long walks"
KEPT = {"type": "object", "properties": {"read": _READ}, "additionalProperties": False}
"""The form of a value that is extracted: the requests that were observed."""


@dataclass(frozen=True)
class Rules:
    """How the world is set up."""

    door: str = "agent"
    buffering: str = "held"
    """"held": in the background, ends when the test says so; "inline", "off"; "server":
    sent to another process, needs an archive."""
    saver: str = "memory"
    """The first checkpointer: "memory" or "sqlite"."""
    storage: str = "checkpoints"
    """"archive" keeps messages beside the checkpoints, "evicting" also removes them from there."""
    messages: int = 200
    log: int = 60
    buffer_tokens: float = 0.2
    buffer_activation: float = 0.8
    max_input_tokens: int | None = None
    token_budget: int | None = None
    """Of window and log together, in the place of `messages`, `log` and `buffer_tokens`."""
    shares_budget: bool = False
    recalls: bool = False
    thinks: bool = False
    """Whether the Actor answers in reasoning that is bound to its prompt."""
    activates_after: float | None = None
    """Seconds of a pause after which all that is ready is activated."""
    marks_gaps: bool = False
    hints: bool = True
    knows: bool = False
    """Whether the Actor is also shown a working memory, which it leaves as it is."""
    keeps: bool = False
    """Whether the Observer also extracts a value."""
    scope: str = "thread"
    """"resource": all threads share one log, of which each channel carries a copy."""
    naming: Naming = field(default_factory=Naming)
    """Who gives messages their ids and times."""

    @property
    def is_shared(self) -> bool:
        return self.scope == "resource"

    @property
    def is_within(self) -> bool:
        """Whether all that memory does in a step is written with the answer alone."""
        return self.door in WITHIN and self.storage != "evicting"


@dataclass
class Worker:
    """A process: its memory and its graph."""

    memory: ObservationalMemory
    graph: Graph

    @property
    def gate(self) -> HeldBuffering | None:
        buffering = self.memory.buffering
        return buffering if isinstance(buffering, HeldBuffering) else None


@dataclass(frozen=True)
class Point:
    """A checkpoint at the end of a turn, and what was true then."""

    config: RunnableConfig
    told: Told
    last: Moment
    values: Mapping[str, Any]
    view: list[BaseMessage]
    """What the Actor would have got."""


@dataclass
class Thread:
    """One line of a conversation, and the points from which it can be taken up again."""

    name: str
    told: Told = field(default_factory=Told)
    last: Moment | None = None
    fallen: tuple[StateSnapshot, list[BaseMessage]] | None = None
    """The state before a call that failed, and its prompt, where what memory did is not written."""
    points: list[Point] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Checkpoints that were looked at."""
    resource: str = "ana"
    is_branched: bool = False
    """Whether it went on from an earlier point at some time."""

    @property
    def config(self) -> RunnableConfig:
        whose = {"thread_id": self.name, "resource_id": self.resource}
        return {"configurable": whose, "recursion_limit": MAX_SUPERSTEPS}


class World:
    """Threads, processes and storage under one set of rules."""

    def __init__(self, rules: Rules, workers: int = 2) -> None:
        self.rules = rules
        self.clock = Clock()
        self.oracle = Oracle()
        self.actor = Actor(naming=rules.naming, clock=self.clock, thinks=rules.thinks)
        self.said = 0
        self.spoken: dict[str, set[int]] = {}
        """By thread, the numbers of what users said there since it began."""
        self.gone: set[int] = set()
        """Those of deleted threads."""
        self.gone_groups: set[str] = set()
        """The ids of what was observed of these."""
        self.gone_jobs: set[str] = set()
        """The jobs that ended with them."""
        self.gates: list[HeldBuffering] = []
        self.dead: list[HeldBuffering] = []
        self.archive: Unreliable | None = None
        if rules.storage != "checkpoints":
            self.archive = Unreliable("sqlite:///:memory:")
        self.served: Served | None = None
        if rules.buffering == "server":
            assert self.archive is not None
            self.served = Served(self.archive, self.oracle, partial(self._new_memory, None))
        self.saver_kind = rules.saver
        self.saver = self._new_saver(rules.saver)
        self.threads = {name: Thread(name) for name in ("a", "b")}
        self.shares: Shares | None = None
        if rules.is_shared and self.archive is not None:
            self.threads |= {"c": Thread("c"), "z": Thread("z", resource="bob")}
            self.shares = Shares(self.archive, self.oracle)
        self.workers = [self._new_worker() for _ in range(workers)]

    # --- What is real ----------------------------------------------------------------------------

    def _new_saver(self, kind: str) -> Saver:
        if kind == "memory":
            return InMemorySaver()
        return SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))

    def _new_worker(self) -> Worker:
        memory = self._new_memory(self._new_buffering())
        return Worker(memory, build(self.rules.door, memory, self.actor, self.saver))

    def _new_memory(self, buffering: Any) -> ObservationalMemory:
        rules = self.rules
        is_off = rules.buffering == "off"
        sizes: dict[str, Any] = {
            "message_tokens": rules.messages,
            "buffer_tokens": False if is_off else rules.buffer_tokens,
            "buffer_activation": rules.buffer_activation,
        }
        budget: dict[str, Any] = {"share_token_budget": rules.shares_budget}
        if rules.token_budget is not None:
            sizes = {"buffer_tokens": False} if is_off else {}
            budget = {"token_budget": rules.token_budget}
        return ObservationalMemory(
            self.oracle.model(),
            scope=rules.scope,  # type: ignore[arg-type]
            observation={
                **sizes,
                "activate_after_idle": rules.activates_after,
                **({"extract": {"seen": KEPT}} if rules.keeps else {}),
            },
            reflection={} if rules.token_budget else {"observation_tokens": rules.log},
            archive=self.archive,
            evict=rules.storage == "evicting",
            **budget,
            retrieval=rules.recalls,
            max_input_tokens=rules.max_input_tokens,
            gap_markers=rules.marks_gaps,
            continuation_hints=rules.hints,
            working_memory=WorkingMemory(LIKES, scope="thread") if rules.knows else None,
            buffering=buffering,
            token_counter=Words(),
            clock=self.clock,
            deadline=LONG,
        )

    def _new_buffering(self) -> Any:
        if self.served is not None:
            return self.served.executor()
        if self.rules.buffering == "inline":
            return InlineBuffering()
        return HeldBuffering(self.gates, self.oracle)

    def held(self) -> list[tuple[HeldBuffering, Held]]:
        """The background jobs that wait to be let go."""
        return [(gate, job) for gate in self.gates for job in gate.held()]

    def close(self) -> None:
        """End everything."""
        self.oracle.over.set()
        for gate in (*self.gates, *self.dead):
            gate.die()
        if self.archive is not None:
            self.archive.close()
        if isinstance(self.saver, SqliteSaver):
            self.saver.conn.close()

    # --- What may happen -------------------------------------------------------------------------

    def talk(
        self,
        thread: Thread,
        worker: Worker,
        size: int,
        *,
        config: RunnableConfig | None = None,
        is_async: bool = False,
        resumes: bool = True,
        number: int | None = None,
        resent: Sequence[BaseMessage] = (),
        **plan: Any,
    ) -> list[Part]:
        """A turn, after which all laws are asked.

        Args:
            thread: The thread.
            worker: The process that serves it.
            size: Words of the user's message.
            config: Where to go on from; the thread's newest checkpoint otherwise.
            is_async: Whether the graph is run asynchronously.
            resumes: Whether a turn is taken up again in which the Actor's provider was away.
            number: The number of the user's message; a new one otherwise.
            resent: Earlier messages that the client sends once more.
            plan: What the Actor does, see `request`.
        """
        if number is None:
            self.said, number = self.said + 1, self.said
        self.spoken.setdefault(thread.name, set()).add(number)
        if self.shares is not None:
            self.shares.spoken[number] = thread.resource
        given: Any = {"messages": [*resent, self._request(number, size, plan)]}
        where: RunnableConfig = {**thread.config}
        if config:
            where["configurable"] = {**where["configurable"], **config["configurable"]}
        parts, fell = self._run(thread, worker, given, where, is_async=is_async)
        if fell and resumes:
            again, fell = self._run(
                thread, worker, None, thread.config, is_async=is_async, is_resumed=True
            )
            assert not fell
            parts += again
        if not fell:
            thread.points.append(self._point(thread, worker))
        return parts

    def _request(self, number: int, size: int, plan: Mapping[str, Any]) -> HumanMessage:
        return request(number, size, self.rules.naming, self.clock(), **plan)

    def _run(
        self,
        thread: Thread,
        worker: Worker,
        given: Any,
        config: RunnableConfig,
        *,
        is_async: bool,
        is_resumed: bool = False,
    ) -> tuple[list[Part], bool]:
        """Run the graph until it ends or the Actor falls, and ask the laws about it."""
        prompts, asked = len(self.actor.prompts), len(self.oracle.asked)
        self.oracle.most = asked + MAX_QUESTIONS
        self._set_deadline(worker)
        parts: list[Part] = []
        fell = False
        try:
            if is_async:
                asyncio.run(_collect(worker.graph, given, config, parts))
            else:
                for part in worker.graph.stream(given, config, stream_mode="custom"):
                    parts.append(part)  # noqa: PERF402 what came before a fall counts
        except ActorDownError:
            fell = True
        except TurnWithoutEnd:
            msg = f"the turn has no end: {MAX_QUESTIONS} questions"
            raise AssertionError(msg) from None
        self._end_hanging()
        if worker.gate is not None:
            worker.gate.settle()
        steps = self._new_checkpoints(thread, worker)
        got = self.actor.prompts[prompts:]
        called, judged, trimmed = steps, got, _trimmed(parts)
        if is_resumed:
            called, judged = self._take_up(thread, steps, got)
            trimmed = trimmed[len(trimmed) - len(judged) :]
        assert len(of_kind(parts, "status")) >= len(judged)
        thread.fallen = None
        if fell and self.rules.is_within:
            called, thread.fallen = steps[:-1], (steps[-1], got[-1])
            judged, trimmed = got[:-1], trimmed[:-1]
        moments = self._moments(thread, called, judged, trimmed)
        thread.told.learn(steps[-1].values["messages"])
        ended = [*of_kind(parts, "observation-end"), *of_kind(parts, "buffering-end")]
        self.oracle.landed.update(part["cycleId"] for part in ended)
        with self.archive.reached() if self.archive is not None else nullcontext():
            problems = broken(moments, thread.last, self.archive)
        problems += self._folded_otherwise(thread, steps)
        problems += self._endless(len(got), steps, asked)
        problems += self._lost_jobs(parts)
        problems += self._wrong_share(thread, moments, steps)
        problems += self._not_gone(thread, moments)
        if self.archive is not None and not (self.archive.away or fell):
            record = steps[-1].values["om"]
            problems += archived_otherwise(thread.name, thread.told, record, self.archive)
        assert problems == [], "\n".join(problems)
        thread.last = moments[-1] if moments else thread.last
        return parts, fell

    def _wrong_share(
        self, thread: Thread, moments: Sequence[Moment], steps: Sequence[StateSnapshot]
    ) -> list[str]:
        """What is wrong with a shared log, and with the copy of a thread."""
        if self.shares is None:
            return []
        known = {each.name: each.told for each in self.threads.values()}
        problems = self.shares.broken(thread.resource, moments)
        return [*problems, *self.shares.wrong_in_archive(known)]

    def _take_up(
        self, thread: Thread, steps: list[StateSnapshot], got: list[list[BaseMessage]]
    ) -> tuple[list[StateSnapshot], list[list[BaseMessage]]]:
        """Check that a resumed turn has its prompt; return the calls that laws are asked about."""
        if thread.fallen is not None:  # what memory did before it is written by now
            before, prompt = thread.fallen
            found = [before, *steps], got
        else:
            assert thread.last is not None
            prompt, found = thread.last.prompt, (steps, got[1:])
        assert dumped(got[0]) == dumped(prompt), "a resumed turn has its own prompt"
        return found

    def _set_deadline(self, worker: Worker) -> None:
        runner_of(worker.memory).deadline = SHORT if self.oracle.hangs else LONG

    def _end_hanging(self) -> None:
        if self.oracle.hangs:
            self.oracle.over.set()
            self.oracle.over = type(self.oracle.over)()

    def _new_checkpoints(self, thread: Thread, worker: Worker) -> list[StateSnapshot]:
        """The checkpoints since the laws were asked last, oldest first."""
        limit, found, is_all = 3, list[StateSnapshot](), False
        while not is_all:
            limit *= 4  # LangGraph reads as many as it may, however few are looked at
            states = list(worker.graph.get_state_history(thread.config, limit=limit))
            found = list(takewhile(lambda state: _key(state) not in thread.seen, states))
            is_all = len(found) < len(states) or len(states) < limit
        thread.seen.update(map(_key, found))
        return found[::-1]

    def _moments(
        self,
        thread: Thread,
        steps: Sequence[StateSnapshot],
        prompts: Sequence[list[BaseMessage]],
        trimmed: Sequence[tuple[int, int]],
    ) -> list[Moment]:
        """The calls of the Actor, each with the state that was given to it."""
        node = actor_node(self.rules.door)
        ends: list[StateSnapshot | None] = [*steps[1:], None]
        states = [
            _as_entered(step, end) if self.rules.is_within else step.values
            for step, end in zip(steps, ends, strict=True)
            if node in step.next
        ]
        assert len(states) == len(prompts) == len(trimmed)
        moments = []
        for state, prompt, (left_out, hidden) in zip(states, prompts, trimmed, strict=True):
            thread.told.learn(state["messages"])
            moments.append(
                Moment(
                    thread=thread.name,
                    told=thread.told.copy(),
                    messages=state["messages"],
                    record=state["om"],
                    prompt=prompt,
                    left_out=left_out,
                    hidden_groups=hidden,
                    today=self.clock.now.date(),
                    is_branched=thread.is_branched,
                    shows_hints=self.rules.hints,
                    unread=self.oracle.unread,
                    longest=self.workers[0].memory.thresholds.message_tokens - LABEL_WORDS,
                )
            )
        return moments

    def _point(self, thread: Thread, worker: Worker) -> Point:
        state = worker.graph.get_state(thread.config)
        assert thread.last is not None
        view = worker.memory.llm_input_messages(state.values)
        return Point(state.config, thread.told.copy(), thread.last, state.values, view)

    def fork(self, thread: Thread, worker: Worker, point: Point, size: int, **plan: Any) -> None:
        """Go on from an earlier point, three times: the last two have the same memory.

        Where threads know of each other, the others are not as they were the first time.
        """
        thread.is_branched = True
        if self.shares is not None:
            self._go_back(thread, worker, point)
            self.talk(thread, worker, size, config=point.config, **plan)
            return
        outcomes, deferred = [], list[int]()
        self.said, number = self.said + 1, self.said
        gates = [*self.gates, *([self.served] if self.served is not None else [])]
        patience = [gate.is_patient for gate in gates]
        for gate in gates:
            gate.is_patient = False  # a job that is let go in the first try is there in the second
        # So is one that was given up by then, and that the first try sends anew: the second would
        # find it at work. What it is to be compared with found it given up.
        forget_first = None
        if self.served is not None:
            forget_first = self.served.remember()
        # With the first try a process learns how long prompts and questions may be.
        for at in range(3):
            if at and forget_first is not None:
                forget_first()
            self._go_back(thread, worker, point)
            parts = self.talk(thread, worker, size, config=point.config, number=number, **plan)
            deferred.append(sum(map(_is_deferred, of_kind(parts, "buffering-failed"))))
            values = worker.graph.get_state(thread.config).values
            outcomes.append(
                {
                    "record": self._drop_unsteady(values["om"]),
                    "messages": dumped(values["messages"]),
                    "prompt": dumped(thread.last.prompt) if thread.last else None,
                }
            )
        for gate, is_patient in zip(gates, patience, strict=True):
            gate.is_patient = is_patient
        *_, one, other = outcomes
        if deferred[-1] > deferred[-2]:
            return  # the job that the first try left at work has the second's place in the process
        is_away = self.archive is not None and self.archive.away
        for key in one:
            if is_away and key == "messages":
                continue  # what leaves the state depends on what was known of it before
            assert one[key] == other[key], f"two forks differ in their {key}"

    def _drop_unsteady(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record without what depends on when a job, or the archive, is heard of."""
        # Two forks are two branches in the archive, each with a name of its own.
        unsteady = {"usage", "branch"} | (set() if self.served is None else {"attempts"})
        kept = dict(record)
        # A job that the first try found given up, and began anew, is at work for the second.
        pending = record["pending"].items()
        kept["pending"] = {what: {**job, "at": None} for what, job in pending}
        if self.archive is not None and self.archive.away:
            unsteady |= {"attempts", "archived", "evicted", "evicted_tokens"}
            kept["observed"] = {**(record["observed"] or {}), "index": None}
        return {key: value for key, value in kept.items() if key not in unsteady}

    def _go_back(self, thread: Thread, worker: Worker, point: Point) -> None:
        state = worker.graph.get_state(point.config).values
        assert state["om"] == point.values["om"]
        assert dumped(state["messages"]) == dumped(point.values["messages"])
        # Within a context window, a process that has not called the model yet knows no tools' size.
        is_same_day = point.last.today == self.clock.now.date()
        if is_same_day and self.rules.max_input_tokens is None:
            view = worker.memory.llm_input_messages(state)
            assert dumped(view) == dumped(point.view)
        thread.told, thread.last = point.told.copy(), point.last

    def add(self, thread: Thread, worker: Worker, size: int) -> None:
        """Put a request and its answer behind a conversation by hand, as from elsewhere."""
        self.said, number = self.said + 1, self.said
        self.spoken.setdefault(thread.name, set()).add(number)
        if self.shares is not None:
            self.shares.spoken[number] = thread.resource
        label, naming, now = f"u{number}.answer", self.rules.naming, self.clock()
        key, told = naming.name(label, "ai", now), naming.date(label, now)
        answer = AIMessage(words(label, size), id=key, response_metadata=told)
        added = [self._request(number, size, {}), answer]
        self._update(thread, worker, {"messages": added})
        thread.told.learn(added)

    def edit(self, thread: Thread, worker: Worker, key: str, text: str) -> None:
        """Change the words of a message."""
        old = thread.told.messages[key]
        edited = old.model_copy(update={"content": text})
        self._update(thread, worker, {"messages": [edited]})
        thread.told.messages[key] = edited
        thread.told.versions.setdefault(key, []).append(old)
        thread.told.edited.add(key)
        thread.told.replaced.add(label_of(old).partition(".")[0])

    def take_back(self, thread: Thread, worker: Worker, keys: Sequence[str]) -> None:
        """Remove messages."""
        state = worker.graph.get_state(thread.config).values
        left = {message.id for message in state.get("messages", [])} - set(keys)
        named = (state.get("om") or {}).get("cursor")
        thread.told.is_adrift |= bool(named) and left.isdisjoint(named)
        self._update(thread, worker, {"messages": [RemoveMessage(id=key) for key in keys]})
        thread.told.taken_back.update(keys)
        thread.told.removed.update(keys)

    def pin(self, thread: Thread, worker: Worker, key: str) -> None:
        """Pin a message; one that is pinned is let go."""
        state = worker.graph.get_state(thread.config)
        updates, pinned = worker.memory.updates, thread.told.pinned
        if key in pinned:
            change = updates.unpin_message(key, state=state)
            pinned.remove(key)
        else:
            change = updates.pin_message(key, state=state)
            pinned.append(key)
        is_folded = self.rules.door != "step"  # whose channel takes a record as it is
        value = change if is_folded else fold(state.values["om"], [change])
        self._update(thread, worker, {"om": value})

    def delete(self, threads: Sequence[Thread], worker: Worker, resource: str | None) -> None:
        """Delete threads everywhere: each by itself, or with their resource; they begin anew."""
        assert self.archive is None or not self.archive.away
        jobs = self._list_jobs()
        for thread in threads:
            self.gone |= self.spoken.pop(thread.name, set())
            self.gone_groups |= self._list_groups(thread)
            state = worker.graph.get_state(thread.config).values.get("om")
            log = [*state["log"], *groups_ahead(state)] if state else []
            own = (None, thread.name)
            self.gone_groups |= {each["id"] for each in log if each["thread_id"] in own}
        if self.served is not None:  # a call that meets one which is away is made again
            self.served.double.refuses = None
        if resource is not None:
            worker.memory.delete_resource(resource, checkpointer=self.saver)
        else:
            for thread in threads:
                name, owner = thread.name, thread.resource
                worker.memory.delete_thread(name, resource_id=owner, checkpointer=self.saver)
        for thread in threads:
            thread.told, thread.last, thread.fallen, thread.points = Told(), None, None, []
            thread.is_branched = False
        self.gone_jobs |= jobs - self._list_jobs()
        problems = self._not_gone(threads[0], ())
        assert problems == [], "\n".join(problems)

    def _list_groups(self, thread: Thread) -> set[str]:
        if self.archive is None:
            return set()
        return {each["id"] for each in self.archive.groups(thread_id=thread.name, limit=10_000)}

    def _list_jobs(self) -> set[str]:
        if self.archive is None:
            return set()
        with self.archive.reached(), self.archive._reading("look") as connection:
            return {*connection.exec_driver_sql("SELECT id FROM om_jobs").scalars()}

    def _update(self, thread: Thread, worker: Worker, values: Mapping[str, Any]) -> None:
        node = last_node(self.rules.door, worker.memory)
        worker.graph.update_state(thread.config, values, as_node=node)
        self._new_checkpoints(thread, worker)

    def standing(self, thread: Thread, worker: Worker) -> list[BaseMessage]:
        """The messages in a thread's state; none while a turn is not over."""
        state = worker.graph.get_state(thread.config)
        return [] if state.next else list(state.values.get("messages", []))

    def restart(self, at: int, *, is_sudden: bool) -> None:
        """Put a new process in the place of one; what was at work there is lost.

        Args:
            at: Which process.
            is_sudden: Whether it had no time to say so to other processes.
        """
        gate = self.workers[at].gate
        if gate is not None:
            gate.settle()
            self.gates.remove(gate)
            self.dead.append(gate)
            if not is_sudden:
                gate.leave()
        self.workers[at] = self._new_worker()
        if self.served is not None:
            self.served.restart()

    def leases_run_out(self) -> None:
        """Let other processes take over what processes left that died."""
        for gate in self.dead if self.archive is not None else ():
            end_claims(self.archive, "", *gate.jobs)
        if self.served is not None:
            self.served.leases_run_out()

    def swap_saver(self) -> None:
        """Move all threads to a checkpointer of the other kind."""
        old, old_saver = self.workers[0].graph, self.saver
        self.saver_kind = "sqlite" if self.saver_kind == "memory" else "memory"
        self.saver = self._new_saver(self.saver_kind)
        for worker in self.workers:
            worker.graph = build(self.rules.door, worker.memory, self.actor, self.saver)
        for thread in self.threads.values():
            state = old.get_state(thread.config)
            thread.points, thread.seen = [], set()
            if state.values:
                kept = ("messages", "om", "working_memory")
                moved = {key: state.values[key] for key in kept if key in state.values}
                self._update(thread, self.workers[0], moved)
                here = self.workers[0].graph.get_state(thread.config).values
                assert here["om"] == moved["om"]
                assert dumped(here["messages"]) == dumped(moved["messages"])
        if isinstance(old_saver, SqliteSaver):
            old_saver.conn.close()

    # --- More laws: about what happened between the calls -----------------------------------------

    def _folded_otherwise(self, thread: Thread, steps: Sequence[StateSnapshot]) -> list[str]:
        """Law 3: events give the same record one by one, all at once, and when they come again."""
        if self.rules.door == "step" or not steps or not steps[-1].values.get("om"):
            return []
        problems, everything = [], list[Any]()
        first = steps[0].values.get("om")
        for state, after in pairwise(steps):
            record = state.values.get("om") or None
            events = [event for task in state.tasks for event in (task.result or {}).get("om", [])]
            everything += events
            for event in events:
                record = fold(record, [event])
                problems += self._too_little_left(event, record, after.values["messages"])
            if (record or {}) != (after.values.get("om") or {}):
                problems.append(f"step {after.metadata}: the events give another record")
        last = steps[-1].values["om"]
        if everything and fold(first, [everything]) != last:
            problems.append("all events at once give another record")
        again = fold(last, [[event for event in everything if event["type"] in COMMITTED]])
        values: Mapping[str, Any] = again
        keys = ("log", "cursor", "generation", "chunks", "reflection")
        return [*problems, *(f"events count twice in {k}" for k in keys if values[k] != last[k])]

    def _too_little_left(
        self, event: Record, record: Record, messages: Sequence[BaseMessage]
    ) -> list[str]:
        """Law 5: after an activation of several chunks, the safety minimum is left.

        After a pause, and for another provider, all that is ready is activated.
        """
        if event["type"] != "activation" or event["operation"] != "observation":
            return []
        if event["triggered_by"] != "threshold":
            return []
        window = open_window(record, messages, Words())  # type: ignore[arg-type]
        least = min(MIN_REMAINING, self.workers[0].memory.thresholds.keep_tokens)
        is_enough = event["chunks"] == 1 or window.tokens >= least
        return [] if is_enough else [f"{window.tokens} tokens are left after {event['chunks']}"]

    def _not_gone(self, thread: Thread, moments: Sequence[Moment]) -> list[str]:
        """Law 11: nothing of what was deleted is in the archive, or shown in any thread."""
        problems: list[str] = []
        if not self.gone:
            return problems
        if self.archive is not None:
            with self.archive.reached(), self.archive._reading("look") as connection:
                names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'om_%'"
                for name in [*connection.exec_driver_sql(names).scalars()]:
                    rows = connection.exec_driver_sql(f"SELECT * FROM {name}").all()  # noqa: S608
                    problems += [f"{found} is in {name}" for found in self._find_gone(repr(rows))]
        if self.archive is None or not self.archive.away:
            for now in moments:
                text = "\n".join(message.text for message in now.prompt)
                shown = spoken(text) & self.gone
                problems += [f"{thread.name} is shown u{key}, which is deleted" for key in shown]
                found = self._find_gone(repr(now.record))
                problems += [f"the record of {thread.name} has {each}, deleted" for each in found]
        return problems

    def _find_gone(self, text: str) -> list[str]:
        words = [f"words of u{number}" for number in sorted(spoken(text) & self.gone)]
        return [*words, *(key for key in sorted(self.gone_groups) if key in text)]

    def _endless(self, calls: int, steps: Sequence[StateSnapshot], asked: int) -> list[str]:
        """Law 2: the gate ends, after as many supersteps and questions as there are messages."""
        rounds = len(steps[-1].values["messages"]) + 3
        if self.shares is not None:  # other threads may be observed too
            rounds += sum(len(thread.told.messages) for thread in self.threads.values())
        questions = len(self.oracle.asked) - asked
        problems = []
        if len(steps) > 4 * calls + 4 * rounds:
            problems.append(f"{len(steps)} supersteps for {calls} calls of the Actor")
        if questions > (2 + 5) * rounds:
            problems.append(f"{questions} questions for {calls} calls of the Actor")
        return problems

    def _lost_jobs(self, parts: Sequence[Part]) -> list[str]:
        """Law 10: with an archive, what one process works on is never lost to another."""
        if self.archive is None:
            return []
        known = self.served.withdrawn if self.served is not None else set[str]()
        known = known | self.gone_jobs | self.archive.refused
        return [
            each["error"]
            for each in of_kind(parts, "buffering-failed")
            if each["error"].startswith("lost") and each["cycleId"] not in known
        ]


def exchanges(messages: Sequence[BaseMessage]) -> list[list[str]]:
    """The Actor's messages in pieces that can be missed: calls with their results, and answers."""
    pieces: list[list[str]] = []
    for message in messages:
        if isinstance(message, ToolMessage) and pieces:
            pieces[-1].append(str(message.id))
        elif isinstance(message, AIMessage):
            pieces.append([str(message.id)])
    return pieces


def turns(messages: Sequence[BaseMessage]) -> list[list[str]]:
    """The messages turn by turn, each from what the user says."""
    found: list[list[str]] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            found.append([])
        if found:
            found[-1].append(str(message.id))
    return found


async def _collect(graph: Graph, given: Any, config: RunnableConfig, parts: list[Part]) -> None:
    async for part in graph.astream(given, config, stream_mode="custom"):
        parts.append(part)  # noqa: PERF401 what came before a fall counts


def _as_entered(before: StateSnapshot, after: StateSnapshot | None) -> Mapping[str, Any]:
    """The state that the Actor's model was called with behind the middleware.

    It inspects within the model's node, and what that came to is written with the answer.
    """
    state = before.values
    if after is None:
        return state
    kept = {message.id for message in after.values["messages"]}
    left = [message for message in state["messages"] if message.id in kept]
    return {**state, "messages": left, "om": after.values["om"]}


def _trimmed(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """How many messages and observations each call of the Actor was said to leave out.

    The view may leave some out, which is told with the status, and the call itself some more, which
    is told behind it and counts all of them.
    """
    counts: list[tuple[int, int]] = []
    told = (0, 0)
    for part in parts:
        if part["type"] == CALLED:
            counts.append(told)
            told = (0, 0)
        elif part["type"] == "data-om-view-trimmed":
            told = part["data"]["droppedMessages"], part["data"]["droppedObservations"]
    return counts


def _is_deferred(failed: Mapping[str, Any]) -> bool:
    return str(failed["error"]).startswith("deferred")


def _key(state: StateSnapshot) -> str:
    return str(state.config["configurable"]["checkpoint_id"])
