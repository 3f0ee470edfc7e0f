"""What the threads of a user know of each other, with `scope="resource"`.

Each thread observes and condenses its own messages, and the archive has each thread's own log. At
the beginning of a turn a thread reads what the Actor is shown of the others: what is known from
them, within a part of the budget, and their newest unobserved words (`features/leftovers.py`).

Beside the turn, one thread at a time observes what quiet threads left, and condenses the oldest of
what is known into the user's own log. What a thread changes in its log is read anew, so a deletion
or a correction holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, cast

from langgraph_om.archive.types import CLAIM_SECONDS
from langgraph_om.core.actor.prompt import Framing
from langgraph_om.core.actor.view import select_weighty
from langgraph_om.core.config.settings import Identity, Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.cycle import (
    Cycle,
    CycleInfo,
    Mode,
    run_blocking,
    tell_left_out,
    waive,
)
from langgraph_om.core.cycles.questions import tell_found
from langgraph_om.core.cycles.reflection import condense
from langgraph_om.core.edits import Division
from langgraph_om.core.effects import (
    EffectFlow,
    ReadTally,
    Storage,
    Tally,
    call_storage,
)
from langgraph_om.core.events import iso
from langgraph_om.core.items import is_protected
from langgraph_om.core.observe.threads import frame_sections, wrap_section
from langgraph_om.core.plan import is_waived, may_begin
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import count_failures, write_log
from langgraph_om.core.record.users_log import (
    believe,
    complete_log,
    count_due,
    take_in,
    to_record,
    without_leftover,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.step import Step
from langgraph_om.core.wire import (
    OTHERS,
    CycleEnded,
    Group,
    MemoryRecord,
    OthersDescribed,
    UserLog,
)
from langgraph_om.errors import ArchiveError, ConfigurationError, ItemError, ObserverError
from langgraph_om.features.archive import Archiving, find_archive
from langgraph_om.features.leftovers import (
    Leftovers,
    build_excerpts,
    choose_due,
    find_observed_elsewhere,
    observe_others,
    read_leftovers,
)

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

KNOWN_PART = 0.3
"""How much of the log's threshold is shown of what is known from other threads."""
MOST_SHOWN = 50
"""How many groups of other threads are shown, as a record has them."""
MAX_GROUPS = 1000
"""How many groups beside the user's log are read, of the newest threads; more are condensed."""
_MAX_TRIES = 20
_MAX_GENERATIONS = 1000


@dataclass(frozen=True)
class Sharing:
    """Has the threads of a user know of each other."""

    archiving: Archiving

    def check(self, identity: Identity) -> None:
        """Check that the run says whose thread it is.

        Raises:
            ConfigurationError: When it does not.
        """
        if not identity.resource_id:
            msg = (
                '`scope` is "resource" and the run has no resource id; add one to the '
                'configuration, {"configurable": {"resource_id": "..."}}, or set `resource_id`'
            )
            raise ConfigurationError(msg)

    def look(self, step: Step) -> EffectFlow[None]:
        """Once in a turn, take over what others observed of this thread, and look at the others."""
        record = step.record
        is_new = "others" not in record or step.window.request != record["turn"]["request"]
        if step.is_final or not step.identity.thread_id or not is_new:
            return
        try:
            archive, resource_id = self.archiving.storage, str(record["resource_id"])
            known = yield from call_storage(read_known, archive, resource_id)
            if known.present and not known.is_begun:  # says that these share what they know
                yield from call_storage(
                    archive.commit_record,
                    resource_id,
                    dict(complete_log(None)),
                    expected=known.revision,
                    now=step.now,
                )
            event = yield from find_observed_elsewhere(step, known.present)
            if event is not None:
                step.apply([event])
                step.open()
            _do_acts(step, known.log)
            own = {group["id"] for group in step.record["log"]}
            if own != {*known.present.get(record["thread_id"], ())}:  # such as of another branch
                self.archiving.forget(record["thread_id"])
            leftovers = yield from read_leftovers(step.settings, record)
        except ArchiveError as error:
            text = "thread %r: the user's other threads cannot be read; it goes on alone: %s"
            yield from self.archiving.warn_of_outage(text, (record["thread_id"], error))
            return
        others = _describe_others(step, known, leftovers)
        if others["others"] != record.get("others"):
            step.apply([others])

    def frame(self, settings: Settings, record: MemoryRecord, groups: Sequence[Group]) -> Framing:
        """Put the observations of each thread into a section of its own."""
        others = {group["id"] for group in record.get("others", {}).get("known", [])}
        threads = [
            group["thread_id"] if group["id"] in others else record["thread_id"] for group in groups
        ]
        frames = frame_sections(threads, settings.show_id, current=record["thread_id"])
        is_needed = bool(record.get("others", {}).get("recent"))
        return Framing(load("actor_threads"), frames, is_needed)

    def find_due(self, record: MemoryRecord, window: Window) -> str | None:
        """Find out whether something is to be observed or condensed of other threads."""
        size = count_due(record)
        if not size or is_waived(record, window, OTHERS):
            return None
        return OTHERS if may_begin(record, OTHERS, size) else None

    def begin(
        self,
        settings: Settings,
        record: MemoryRecord,
        window: Window,
        now: datetime,
        *,
        mode: Mode,
        cycle_id: str | None = None,
    ) -> Cycle:
        """Describe the cycle that observes and condenses what is due of other threads.

        It looks at them once more when it begins, and does nothing where another thread is at it.

        Args:
            cycle_id: The id of a job that was asked for already.
        """
        due, tokens = record.get("others", {}).get("due", []), count_due(record)
        attempt = count_failures(record, OTHERS)
        new_id = derive_id("others", record["id"], attempt, window.turn, tokens, *due)
        info = CycleInfo(settings, record, OTHERS, cycle_id or new_id, tokens, now, mode)
        covers = {"covers": {"thread_ids": due, "turn": window.turn}} if mode == "ahead" else {}
        return Cycle(info, info.start(**covers, thread_ids=due), _work(info))

    def work(
        self, settings: Settings, record: MemoryRecord, window: Window, now: datetime
    ) -> EffectFlow[None]:
        """Observe and condense what is due of other threads while the turn waits, once a turn."""
        cycle = self.begin(settings, record, window, now, mode="blocking")
        yield from run_blocking(cycle, count_due(record), window.last_key)
        yield waive(window, OTHERS)

    def read_history(
        self,
        archive: SQLAlchemyArchive,
        resource_id: str,
        limit: int,
        until: datetime | None = None,
    ) -> list[MemoryRecord]:
        """Return the last record of each generation of a user's log, newest first."""
        return [
            to_record(complete_log(entry["record"]), resource_id)
            for entry in archive.record_history(resource_id, limit=limit, until=until)
        ]

    def restore(
        self, archive: SQLAlchemyArchive, resource_id: str, generation: int, now: datetime
    ) -> MemoryRecord:
        """Restore an earlier generation of a user's log as a new generation."""
        for _ in range(_MAX_TRIES):
            entries = archive.record_history(resource_id, limit=_MAX_GENERATIONS)
            by_number = {entry["record"]["generation"]: entry["record"] for entry in entries}
            if generation not in by_number:
                known = ", ".join(map(str, by_number)) or "none"
                msg = f"`generation` is {generation!r}; those of {resource_id!r} are {known}"
                raise ConfigurationError(msg)
            newest = complete_log(entries[0]["record"])
            log = complete_log(by_number[generation])
            log |= {"generation": newest["generation"] + 1, "acts": newest.get("acts", [])}
            revision = entries[0]["revision"]
            if archive.commit_record(resource_id, dict(log), expected=revision, now=now):
                return to_record(log, resource_id)
        msg = f"the log of {resource_id!r} changed {_MAX_TRIES} times while it was being restored"
        raise ArchiveError(msg)


# --- What is known, and shown of it --------------------------------------------------------------


class Known(NamedTuple):
    """What is known of all threads of a user."""

    log: UserLog
    is_begun: bool
    """Whether there is a user's log."""
    revision: int
    """The archive's, of the log or of there being none."""
    present: Mapping[str, Sequence[str]]
    """By thread, the ids of the groups that its log has."""
    groups: Sequence[Group]
    """Those that the user's log does not hold: the newest thread first, its newest first."""

    @property
    def tokens(self) -> int:
        """Of all that is known."""
        return sum(group["tokens"] for group in [*self.log["log"], *self.groups])


def read_known(archive: SQLAlchemyArchive, resource_id: str) -> Known:
    """Read what is known of all threads of a user.

    Raises:
        ArchiveError: When the storage fails.
    """
    stored, revision = archive.load_record(resource_id)
    present = archive.log_ids(resource_id)
    log = believe(complete_log(stored), present)
    ids = [
        group_id
        for thread_id, own in present.items()
        for group_id in own
        if group_id not in log["of"].get(thread_id, ())
    ]
    read = archive.read_groups(resource_id, ids[:MAX_GROUPS])
    groups = [group for thread_id in present for group in read.get(thread_id, [])]
    return Known(log, stored is not None, revision, present, cast("list[Group]", groups))


def _find_part(settings: Settings) -> int:
    """Return the tokens within which the Actor is shown what is known from other threads."""
    return max(1, round(settings.thresholds.observation_tokens * KNOWN_PART))


def _describe_others(step: Step, known: Known, leftovers: Leftovers) -> OthersDescribed:
    settings, near, waiting = step.settings, leftovers.near, leftovers.waiting
    due = choose_due(settings, step.record, near, step.now)
    tokens = sum(thread.tokens for thread in due) + len(waiting)
    recent = build_excerpts(near, settings)
    return {
        "type": "others",
        "others": {
            "known": _choose_known(settings, step.record, known),
            "recent": recent,
            "hidden": len(near) + len(leftovers.behind) - len(recent),
            "due": [*(thread.id for thread in due), *(each.thread.id for each in waiting)],
            "due_tokens": tokens + (known.tokens if _is_condensing_due(settings, known) else 0),
        },
    }


def _choose_known(settings: Settings, record: MemoryRecord, known: Known) -> list[Group]:
    """Return what a thread is shown of the others, in the order in which that stands.

    Where not all fits: what people keep and standing instructions first, then what weighs most of
    each, then the rest, each from the newest thread on.
    """
    own = {group["id"] for group in record["log"]}  # a copied thread has groups of another one
    others = [
        without_leftover(group)
        for group in [*known.groups, *reversed(known.log["log"])]
        if group["thread_id"] != record["thread_id"] and group["id"] not in own and _says(group)
    ]
    part = _find_part(settings)
    if sum(group["tokens"] for group in others) > part or len(others) > MOST_SHOWN:
        others = _fit(others, part, settings.counter.count_text)
    return others[::-1]


def _says(group: Group) -> bool:
    return bool(group["text"] or group.get("ends"))


def _fit(groups: Sequence[Group], room: int, count: Callable[[str], int]) -> list[Group]:
    """Return the groups that fit, as far as they do."""
    chosen: dict[int, Group] = {}
    for choose in (_choose_nothing, select_weighty, str):
        for at, group in enumerate(groups):
            text = group["text"] if is_protected(group) else choose(group["text"])
            before = chosen[at]["tokens"] if at in chosen else 0
            tokens = group["tokens"] if text == group["text"] else count(text)
            has_place = at in chosen or len(chosen) < MOST_SHOWN
            if (text or is_protected(group)) and tokens - before <= room and has_place:
                room -= tokens - before
                chosen[at] = {**group, "text": text, "tokens": tokens}
    return [chosen[at] for at in sorted(chosen)]


def _choose_nothing(_: str) -> str:
    return ""


# --- The work beside a turn ----------------------------------------------------------------------


def _work(info: CycleInfo) -> EffectFlow[CycleEnded]:
    archive = find_archive(info.settings)
    resource_id, thread_id = str(info.record["resource_id"]), info.record["thread_id"]
    claim, owner = derive_id("others", resource_id), f"{info.record['id']} {info.cycle_id}"
    try:
        claimed = yield from call_storage(
            archive.claim,
            claim,
            owner,
            seconds=CLAIM_SECONDS,
            thread_id=thread_id,
            resource_id=resource_id,
        )
        if claimed != "mine":
            return info.end((yield ReadTally()), observation_tokens=0, observations="")
        end = yield from _observe_and_condense(info, resource_id)
    except Exception as error:
        yield Storage(archive.release, (claim, owner))
        if isinstance(error, ArchiveError):
            msg = f"the archive failed: {error}"
            raise ObserverError(msg) from error
        raise
    yield Storage(archive.release, (claim, owner))
    return end


def _observe_and_condense(info: CycleInfo, resource_id: str) -> EffectFlow[CycleEnded]:
    groups, found, left_out, failure = yield from observe_others(info, resource_id)
    condensed: Sequence[Group] = []
    try:
        condensed = yield from _condense_known(info, resource_id)
    except ObserverError as error:
        failure = failure or error
    if failure is not None and not groups and not condensed:
        raise failure
    return info.end(
        (yield ReadTally()),
        observation_tokens=sum(group["tokens"] for group in [*groups, *condensed]),
        # Of the user's log no words: a job keeps them, and is not about all threads in it.
        observations=write_log(groups),
        **tell_left_out(left_out),
        **tell_found(found),
    )


def _is_condensing_due(settings: Settings, known: Known) -> bool:
    """Return whether more is known than is shown, and not only what was condensed in vain."""
    is_large = known.tokens > max(_find_part(settings), known.log.get("rest", 0))
    return (is_large and bool(known.groups)) or len(known.groups) >= MAX_GROUPS


def _condense_known(info: CycleInfo, resource_id: str) -> EffectFlow[Sequence[Group]]:
    """Take the oldest of what is known into the user's log, condensed, and return what that holds.

    Nothing comes of it where somebody deleted or noted something meanwhile.

    Raises:
        ArchiveError: When the storage fails.
        ObserverError: When the Reflector does not answer.
    """
    archive = find_archive(info.settings)
    settings, part, now = info.settings, _find_part(info.settings), info.started
    known = yield from call_storage(read_known, archive, resource_id)
    if not _is_condensing_due(settings, known) or not known.is_begun:
        return []  # a deletion changes the revision of what is there alone
    log = take_in(known.log, _choose_oldest(known.groups, part // 4)[: MAX_GROUPS // 2])
    free = [group for group in log["log"] if not is_protected(group)]
    if sum(group["tokens"] for group in free) > part // 2:

        def wrap(thread_id: str, text: str) -> str:
            return wrap_section(settings.show_id(thread_id), text)

        division = Division(wrap, fill("reflector_threads"))
        edited = yield from condense(info, log["log"], target=part // 2, division=division)
        tally: Tally = yield ReadTally()
        at = iso(info.last_reply(tally))
        becomes, _ = edited.list_changes(cycle_id=info.cycle_id, reflected_at=at)
        changed = [becomes.get(group["id"], group) for group in log["log"]]
        log["log"] = [group for group in changed if _says(group)]
    size = sum(group["tokens"] for group in log["log"])
    log["generation"] += log["log"] != known.log["log"]
    log["rest"] = size + part // 2 if size > part // 2 else 0  # it did not become small
    is_ours = yield from call_storage(
        archive.commit_record, resource_id, dict(log), expected=known.revision, now=now
    )
    return log["log"] if is_ours else []


def _choose_oldest(groups: Sequence[Group], kept: int) -> list[Group]:
    """Return the groups of the quietest threads, oldest first, so that about `kept` tokens stay."""
    chosen: list[Group] = []
    for group in groups:
        kept -= group["tokens"]
        if kept < 0 or chosen:
            chosen.append(group)
    return chosen[::-1]


# --- What a person did through the archive -------------------------------------------------------


def _do_acts(step: Step, log: UserLog) -> None:
    """Do to the thread's own log what a person did to it through the archive."""
    done = {act["id"] for act in step.record.get("steered", [])}
    for act in log.get("acts", []):
        if act["thread_id"] == step.record["thread_id"] and act["id"] not in done:
            with suppress(ItemError):  # this branch has no such item, or the act was done long ago
                step.apply([act["event"]])
