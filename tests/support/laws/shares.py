"""The laws of a log that several threads share, and an archive that is away at times."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.core.record.standing import is_standing
from langgraph_om.errors import ArchiveError
from support.laws.cast import Oracle, spoken
from support.laws.laws import DOUBLED, Moment, Record, Told

_READS = {"thread_ends", "threads", "messages"}
AWAY = {
    "before": {"commit_record"},
    "after": set[str](),
    "reading": _READS,
    "wholly": {"commit_record", "record_revision", "load_record", *_READS},
}
"""Ways in which an archive is away; `after`: it commits, and its answer is lost."""

FLICKERS = "flickering"
"""The way in which any call may fail, or succeed and its answer be lost."""
WRITES = {"append", "add_groups"}
FAULTS = {
    **AWAY,
    "asking": {"contains", "branch"},
    "writing": WRITES,
    "for good": {*AWAY["wholly"], *WRITES, "contains", "branch", "deletions", "thread"},
    FLICKERS: set[str](),
}
"""More ways; these concern threads with a log of their own too."""


class Unreliable(SQLAlchemyArchive):
    """An archive that is away, in part, while the test says so."""

    away = ""
    chance: Callable[[], float] = staticmethod(lambda: 1.0)
    """Decides whether a call fails while it flickers: below 0.2; below 0.1 after it was done."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.refused: set[str] = set()
        """Jobs that nobody got, as their thread was deleted and nothing of it is archived since."""

    def claim(self, job_id: str, *args: Any, **options: Any) -> Any:
        claim = super().claim(job_id, *args, **options)
        if claim == "taken" and self.job(job_id) is None:
            self.refused.add(job_id)
        return claim

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Reach it whatever happens."""
        away, self.away = self.away, ""
        yield
        self.away = away

    def _reach(self, what: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        flickers = self.away == FLICKERS and threading.current_thread() is threading.main_thread()
        chance = self.chance() if flickers else 1.0
        if 0.1 <= chance < 0.2 or (self.away and what in FAULTS[self.away]):
            msg = f"the archive is away for {what}"
            raise ArchiveError(msg)
        done = call(*args, **options)
        if chance < 0.1 or (self.away == "after" and what == "commit_record"):
            msg = "the answer is lost"
            raise ArchiveError(msg)
        return done


def _guard(name: str) -> Any:
    """A method of an archive that is reached, or not."""

    def reach(self: Unreliable, *args: Any, **options: Any) -> Any:
        call = getattr(super(Unreliable, self), name)
        return self._reach(name, call, *args, **options)

    return reach


for _name in FAULTS["for good"]:
    setattr(Unreliable, _name, _guard(_name))


@dataclass
class Shares:
    """What must be true of the logs of resources, and of the copies in threads."""

    archive: Unreliable
    oracle: Oracle
    spoken: dict[int, str] = field(default_factory=dict)
    """The resource in which each request was made."""
    newest: dict[str, str] = field(default_factory=dict)
    """The newest observed message of each thread, as the archive had it last."""
    judged: set[str] = field(default_factory=set)
    """Groups of the logs that were looked at."""
    orders: dict[str, dict[str, str]] = field(default_factory=dict)
    """The standing instructions of each resource, as the archive had them last."""

    def forget(self, names: Sequence[str]) -> None:
        """Forget what threads had in a log, as they were deleted."""
        for name in names:
            self.newest.pop(name, None)
        for resource in self.orders:
            stored, _ = self.archive.load_record(resource)
            log = stored["log"] if stored is not None else []
            kept = {group["id"] for group in log}
            orders = self.orders[resource].items()
            self.orders[resource] = {key: text for key, text in orders if key in kept}

    def noted(self, resource: str, thread: str, former: Mapping[str, str | None]) -> frozenset[str]:
        """All messages of a thread, on any branch, that the shared log ever covered."""
        with self.archive.reached():
            history = self.archive.record_history(resource, limit=1000)
        keys: set[str] = set()
        for first, last in {
            (first, last)
            for entry in history
            for group in entry["record"]["log"]
            for first, last in group["ranges"]
            if group["thread_id"] == thread
        }:
            at: str | None = last
            run: list[str] = []
            while at is not None and at != first:
                run.append(at)
                at = former.get(at)
            keys |= {first, last, *(run if at == first else [])}
        return frozenset(keys)

    def broken(self, resource: str, moments: Sequence[Moment], record: Record) -> list[str]:
        """What is wrong with the prompts of a turn, and with the copy at its end."""
        problems = [problem for now in moments for problem in self._of_somebody_else(resource, now)]
        problems += [f"{group['id']} is twice in the copy" for group in _doubled(record["log"])]
        if self.archive.away:
            return problems
        for now in moments:
            sent = [change["id"] for change in now.record.get("outbox", [])]
            problems += [f"{key} is not in the shared log" for key in sent]
        return [*problems, *self._differs(resource, record)]

    def _of_somebody_else(self, resource: str, now: Moment) -> list[str]:
        text = "\n".join(message.text for message in now.prompt)
        numbers = spoken(text)
        for mark in set(re.findall(r"\b[0-9a-f]{8}\b", text)) & self.oracle.read.keys():
            numbers |= self.oracle.read[mark]
        return [
            f"{now.thread} is shown u{number} of {self.spoken[number]}"
            for number in sorted(numbers)
            if self.spoken[number] != resource
        ]

    def _differs(self, resource: str, record: Record) -> list[str]:
        """Where a copy is not what the archive has."""
        with self.archive.reached():
            stored, revision = self.archive.load_record(resource)
        shared = stored or {"log": [], "threads": {}, "generation": 0}
        own = shared["threads"].get(record["thread_id"], {"cursor": []})
        expected = {
            "outbox": [],
            "revision": revision,
            "log": shared["log"],
            "generation": shared["generation"],
            "cursor": own["cursor"],
        }
        return [
            f"the copy has another {key}: {record[key]} instead of {value}"
            for key, value in expected.items()
            if record[key] != value
        ]

    def wrong_in_archive(self, told: Mapping[str, Told], forked: set[str]) -> list[str]:
        """What is wrong with what the archive has of all threads."""
        problems: list[str] = []
        for resource in sorted(set(self.spoken.values())):
            with self.archive.reached():
                stored, _ = self.archive.load_record(resource)
            if stored is None:
                continue
            problems += [f"{group['id']} is twice in the log" for group in _doubled(stored["log"])]
            problems += self._wrong_orders(resource, stored["log"])
            for group in stored["log"]:
                problems += self._misplaced(resource, group, told)
            for name, known in stored["threads"].items():
                problems += self._moved_back(name, known["cursor"], told[name], name in forked)
                if name not in forked:
                    problems += _covered_twice(name, stored["log"], told[name])
                elif not stored["generation"]:
                    problems += self._covered_anew(name, stored["log"], told[name])
            self.judged |= {group["id"] for group in stored["log"]}
        return problems

    def _covered_anew(
        self, name: str, log: Sequence[Mapping[str, Any]], told: Told
    ) -> Iterator[str]:
        """New groups about what ranges of this branch cover already.

        A range that ends on another branch does not tell how much of it is of this one. What both
        share is observed once more, and doubled when the other branch goes on. Nor does one whose
        last message was removed: beyond its first one, it is known to go as far as another range
        begins or ends, since that was observed later.
        """
        places, covered = told.places, set[int]()
        own = sorted(
            (group for group in log if group["thread_id"] == name),
            key=lambda group: group["id"] not in self.judged,
        )
        removed = {places[key] for key in told.taken_back}
        judged = (group for group in own if group["id"] in self.judged)
        ends = {end for group in judged for ends in group["ranges"] for end in ends}
        known = max({places[end] for end in ends & places.keys()} - removed, default=-1)
        ranges = [
            (group, places[first], places[last])
            for group in own
            for first, last in group["ranges"]
            if first in places and last in places
        ]
        for group, first, last in ranges:
            those = set(range(first, last + 1)) - removed
            if group["id"] not in self.judged and those & covered:
                yield f"{group['id']}: what {name} had from {first} to {last} {DOUBLED} already"
            covered |= {place for place in those if last not in removed or place <= known}

    def _misplaced(
        self, resource: str, group: Mapping[str, Any], told: Mapping[str, Told]
    ) -> list[str]:
        """Groups that name messages which their thread never had, or text of other threads."""
        known = told[group["thread_id"]].former
        problems = [
            f"{group['id']} names {key}, which is not of {group['thread_id']}"
            for ends in group["ranges"]
            for key in ends
            if key not in known
        ]
        numbers = {
            number
            for mark in set(re.findall(r"\b[0-9a-f]{8}\b", group["text"])) & self.oracle.read.keys()
            for number in self.oracle.read[mark]
        }
        strange = [number for number in numbers if self.spoken[number] != resource]
        return problems + [f"{group['id']} is made of u{number}" for number in strange]

    def _wrong_orders(self, resource: str, log: Sequence[Mapping[str, Any]]) -> list[str]:
        """Standing instructions that are of somebody else, or changed or lost though none ended."""
        before = self.orders.get(resource, {})
        now = {group["id"]: group["text"] for group in log if is_standing(group)}
        self.orders[resource] = now
        return [
            *(f"{resource} has lost {text!r}" for key, text in before.items() if key not in now),
            *(
                f"{resource} has {text!r}, which was {before.get(key)!r}"
                for key, text in now.items()
                if before.get(key, text) != text
                or {self.spoken.get(number) for number in spoken(text)} != {resource}
            ),
        ]

    def _moved_back(
        self,
        name: str,
        cursor: Sequence[str],
        told: Told,
        is_forked: bool,  # noqa: FBT001
    ) -> list[str]:
        before, now = self.newest.get(name), cursor[-1] if cursor else None
        if now is not None:
            self.newest[name] = now
        if is_forked or before is None or before in told.taken_back:
            return []
        if now is None or told.places[now] < told.places[before]:
            return [f"the shared cursor of {name} moved back from {before} to {now}"]
        return []


def _covered_twice(name: str, log: Sequence[Mapping[str, Any]], told: Told) -> list[str]:
    seen: set[int] = set()
    problems = []
    for group in log:
        for first, last in group["ranges"] if group["thread_id"] == name else []:
            removed = {told.places[key] for key in told.taken_back}
            places = set(told.within(first, last)) - removed
            if places & seen:
                problems.append(f"{first}..{last} of {name} are in the log already")
            seen |= places
    return problems


def _doubled(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    seen: set[str] = set()
    return [group for group in log if group["id"] in seen or seen.add(group["id"])]  # type: ignore[func-returns-value]
