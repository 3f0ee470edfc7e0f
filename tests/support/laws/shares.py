"""The laws of what threads of a user know of each other, and an archive that is away at times."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.errors import ArchiveError
from support.laws.cast import Oracle, spoken
from support.laws.laws import Moment, Told

_READS = {"unobserved", "log_ids", "read_groups", "spans", "threads", "messages"}
AWAY = {
    "before": {"commit_record"},
    "after": set[str](),
    "reading": _READS,
    "wholly": {"commit_record", "load_record", *_READS},
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
    """What must be true of what threads know of each other."""

    archive: Unreliable
    oracle: Oracle
    spoken: dict[int, str] = field(default_factory=dict)
    """The resource in which each request was made."""

    def broken(self, resource: str, moments: Sequence[Moment]) -> list[str]:
        """What is wrong with the prompts of a turn, and with what the record has of the others."""
        problems = [problem for now in moments for problem in self._of_somebody_else(resource, now)]
        for now in moments:
            known = now.record.get("others", {}).get("known", [])
            own = {group["id"] for group in now.record["log"]}
            problems += [f"{group['id']} is known twice" for group in _doubled(known)]
            problems += [
                f"{group['id']} of {group['thread_id']} is known of others"
                for group in known
                if group["thread_id"] == now.thread or group["id"] in own
            ]
        return problems

    def _of_somebody_else(self, resource: str, now: Moment) -> list[str]:
        text = "\n".join(message.text for message in now.prompt)
        numbers = self._numbers_of(text)
        return [
            f"{now.thread} is shown u{number} of {self.spoken[number]}"
            for number in sorted(numbers)
            if self.spoken[number] != resource
        ]

    def _numbers_of(self, text: str) -> set[int]:
        numbers = {*spoken(text)}
        for mark in set(re.findall(r"\b[0-9a-f]{8}\b", text)) & self.oracle.read.keys():
            numbers |= self.oracle.read[mark]
        return numbers

    def wrong_in_archive(self, told: Mapping[str, Told]) -> list[str]:
        """What is wrong with what the archive has of all threads."""
        problems: list[str] = []
        for resource in sorted(set(self.spoken.values())):
            with self.archive.reached():
                stored, _ = self.archive.load_record(resource)
                logs = self.archive.log_ids(resource)
                ids = [key for own in logs.values() for key in own]
                groups = self.archive.read_groups(resource, ids)
            for name, own in groups.items():
                for group in own:
                    problems += self._misplaced(resource, name, group, told)
            for group in stored["log"] if stored is not None else []:
                name = group["thread_id"]
                problems += self._misplaced(resource, name, group, told)
        return problems

    def _misplaced(
        self, resource: str, name: str, group: Mapping[str, Any], told: Mapping[str, Told]
    ) -> list[str]:
        """Groups that name messages which their thread never had, or text of other users."""
        known = told[name].former
        problems = [
            f"{group['id']} names {key}, which is not of {name}"
            for ends in group["ranges"]
            for key in ends
            if key not in known
        ]
        strange = [key for key in self._numbers_of(group["text"]) if self.spoken[key] != resource]
        return problems + [f"{group['id']} is made of u{number}" for number in strange]


def _doubled(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    seen: set[str] = set()
    return [group for group in log if group["id"] in seen or seen.add(group["id"])]  # type: ignore[func-returns-value]
