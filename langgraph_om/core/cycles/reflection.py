"""Reflection: the log becomes denser, while the turn waits or ahead of need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import escape
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode, fit_room, run_blocking
from langgraph_om.core.cycles.questions import rewrite_by_hook
from langgraph_om.core.edits import (
    CheckedEdits,
    Division,
    Item,
    check_edits,
    number_items,
    pair_spans,
    parse_edits,
    render_items,
)
from langgraph_om.core.effects import AskModel, EffectFlow, Flow, ReadTally, Tally
from langgraph_om.core.events import iso
from langgraph_om.core.items import LineSpan, is_protected, replace_spans
from langgraph_om.core.observe.observer import build_failure, write_hints
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import (
    Substitution,
    collect_sources,
    count_failures,
    log_tokens,
    place_reflection,
    write_log,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.tokens import TokenCounter, count_messages
from langgraph_om.core.wire import BufferedReflection, CycleEnded, Group, MemoryRecord
from langgraph_om.errors import ObserverError


def reflect_cycle(
    settings: Settings, record: MemoryRecord, window: Window, started: datetime
) -> EffectFlow[None]:
    """Condense the whole log while the turn waits."""
    cycle = describe_reflection(settings, record, started, mode="blocking")
    yield from run_blocking(cycle, cycle.info.tokens, window.last_key)


def describe_reflection(
    settings: Settings, record: MemoryRecord, now: datetime, *, mode: Mode
) -> Cycle:
    """Describe the cycle that reflects the log as it is now."""
    ids = [group["id"] for group in record["log"]]
    name = "buffer-reflection" if mode == "ahead" else "reflect"
    attempt = count_failures(record, "reflection")
    cycle_id = derive_id(name, record["id"], attempt, *ids)
    tokens = log_tokens(record)
    info = CycleInfo(settings, record, "reflection", cycle_id, tokens, now, mode)
    start = info.start(covers={"group_ids": ids}) if mode == "ahead" else info.start()
    return Cycle(info, start, _reflect(info))


def _reflect(info: CycleInfo) -> EffectFlow[CycleEnded]:
    """Have the log condensed; what is written takes its place, or is kept until it is needed."""
    sources = info.record["log"]
    log = yield from condense(info, sources, target=_find_target(info, sources))
    text = write_log(log.groups)
    tally: Tally = yield ReadTally()
    answered = iso(info.last_reply(tally))
    becomes, together = log.list_changes(cycle_id=info.cycle_id, reflected_at=answered)
    tokens = info.tokens - sum(group["tokens"] for group in log.given) + log.tokens
    buffered: BufferedReflection = {
        "cycle_id": info.cycle_id,
        "group_ids": [*becomes],
        "groups": [*becomes.values()],
        "together": together,
        "input_tokens": info.tokens,
        "tokens": tokens,
        "created_at": answered,
    }
    written = {"observation_tokens": tokens, "observations": text, **log.edited}
    if info.mode == "ahead":
        return info.end(tally, reflection=buffered, **written)
    placed = place_reflection(sources, buffered) or Substitution([], [])
    replaced = {**placed._asdict(), **written, **info.rest_after(tokens)}
    return info.end(tally, **replaced)


def condense(
    cycle: CycleInfo,
    sources: Sequence[Group],
    *,
    target: int,
    division: Division | None = None,
) -> EffectFlow[EditedLog]:
    """Have the groups edited, but for what a person pinned or wrote: that is not shown."""
    settings = cycle.settings
    free = [group for group in sources if not is_protected(group)]
    if not write_log(free):
        msg = "everything in the log was pinned or written by a person, and so is never condensed"
        raise ObserverError(msg)
    shown = yield from _show_groups(cycle, free, division)
    # A hook that hides something from the Reflector is told of the log alone, not of hints; and
    # what the Actor is not shown as a hint has to stand in the log.
    hides = "before_reflection" in settings.transforms
    request = ReflectorInput(
        free,
        target=target,
        shown=shown,
        division=division,
        hints={} if hides else settings.list_closing(cycle.record),
        instruction=settings.reflection.instruction,
    )
    log = yield from reflect(request, settings.counter)
    yield from _rewrite_by_hook(cycle, log)
    return log


def _show_groups(
    cycle: CycleInfo, groups: Sequence[Group], division: Division | None
) -> EffectFlow[list[str]]:
    """Return what the Reflector is shown of each group, as a hook leaves it."""
    given: dict[str, str | None] = {
        group["id"]: group["text"]
        for group in groups
        if group["text"] and (division is None or group["thread_id"])
    }
    shown = yield from rewrite_by_hook(cycle, "before_reflection", given, "observations")
    return [
        _check_left(shown[group["id"]], "before_reflection") if group["id"] in shown else ""
        for group in groups
    ]


def _rewrite_by_hook(cycle: CycleInfo, log: EditedLog) -> EffectFlow[None]:
    """Let a hook change what became of the changed groups."""
    if log.tokens >= sum(group["tokens"] for group in log.given):
        msg = "the Reflector's edits don't make the log smaller"
        raise ObserverError(msg)
    written: dict[str, str | None] = {
        str(at): log.groups[at]["text"] for at in log.find_changed() if log.groups[at]["text"]
    }
    kept = yield from rewrite_by_hook(cycle, "after_reflection", written, "observations")
    for at, text in kept.items():
        if text != written[at]:
            left = _check_left(text, "after_reflection")
            log.replace_text(int(at), left, cycle.settings.counter)


REFLECTION_TARGET = 0.75
"""A reflection is dense enough below this part of the log it read (or below the threshold).

Of a terse log more can only be freed by leaving out facts by the dozen.
"""

_BELOW_THRESHOLD = 0.97
"""What is taken for small enough is then still below the threshold."""


def _check_left(text: object, hook: str) -> str:
    """Return what a hook left of a group; nothing would take the place of all that is known."""
    if not str(text).strip():
        msg = f"the hook `{hook}` removed the whole log"
        raise ObserverError(msg)
    return str(text)


def _find_target(cycle: CycleInfo, groups: Sequence[Group]) -> int:
    """Tell the size under which groups are dense enough, with what is protected as it is."""
    limits = cycle.settings.thresholds
    rest = sum(group["tokens"] for group in groups if is_protected(group))
    target = min(
        round(limits.observation_tokens * _BELOW_THRESHOLD), round(cycle.tokens * REFLECTION_TARGET)
    )
    return max(1, target - rest)


# --- The question ---------------------------------------------------------------------------------
#
# An edit leaves what it does not name as it is: each question shows the log as it stands, with
# numbers of its own, and says how many tokens are still to go. What was achieved stays.

MAX_QUESTIONS: Final = 3
"""So often a log is asked about that can be read whole, until it is small enough."""

_TOLERANCE: Final = 1.03


def is_small_enough(tokens: int, target: int) -> bool:
    """Return whether a log is dense enough: another question is not worth less than 3 %."""
    return tokens < target * _TOLERANCE


# Put checked edits into the log: what they do not name stays byte for byte.
#
# Joined items stand where the last of them stood, and its group names the ranges of all of them.
# A group never goes: where all of its items are gone it keeps its ranges with an empty text.


@dataclass
class EditedLog:
    """A log while it is edited: group by group what has become of the log that was given."""

    given: Sequence[Group]
    views: list[str] = field(default_factory=list)
    """What the Reflector is shown of each group; the texts as they are, where nothing is given."""
    groups: list[Group] = field(init=False)
    """As many, in the same order."""
    edited: Counter[str] = field(default_factory=Counter)
    """What was done to it, in the words of `wire.Edited`."""
    _links: dict[int, int] = field(default_factory=dict)
    """Per group, one before it with which it has to be changed together."""

    def __post_init__(self) -> None:
        self.groups = list(self.given)
        self.views = list(self.views) or [group["text"] for group in self.given]

    @property
    def tokens(self) -> int:
        """Tokens of the log as it is now."""
        return sum(group["tokens"] for group in self.groups)

    def apply(self, checked: CheckedEdits, items: Sequence[Item], counter: TokenCounter) -> None:
        """Apply checked edits."""
        cuts: dict[int, dict[LineSpan, str]] = {}
        for number in checked.dropped:
            item = items[number - 1]
            cuts.setdefault(item.group, {})[item.span] = ""
        joins: dict[int, set[int]] = {}
        for replacement in checked.replacements:
            *others, last = (items[number - 1] for number in replacement.sources)
            for item in others:
                cuts.setdefault(item.group, {})[item.span] = ""
                if item.group != last.group:
                    joins.setdefault(last.group, set()).add(item.group)
            cuts.setdefault(last.group, {})[last.span] = replacement.text
        before = self.groups
        self.groups = list(before)
        for at, cut in cuts.items():
            self._rewrite(at, cut, [before[other] for other in sorted(joins.get(at, ()))], counter)
        for at, others_of in joins.items():
            for other in others_of:
                self._link(at, other)
        self.edited.update(checked.counts)

    def replace_text(self, at: int, text: str, counter: TokenCounter) -> None:
        """Give a group another text."""
        group: Group = {**self.groups[at], "text": text, "tokens": counter.count_text(text)}
        self.groups[at] = group

    def find_changed(self) -> list[int]:
        """Return the places of the groups that are not as they were given."""
        return [at for at, given in enumerate(self.given) if self.groups[at] is not given]

    def list_changes(
        self, *, cycle_id: str, reflected_at: str
    ) -> tuple[dict[str, Group], list[list[str]]]:
        """Return by id what has become of the changed groups, and which ids go together."""
        together: dict[int, list[str]] = {}
        becomes: dict[str, Group] = {}
        for at in self.find_changed():
            group_id = self.given[at]["id"]
            together.setdefault(self._find_root(at), []).append(group_id)
            becomes[group_id] = {
                **self.groups[at],
                "id": derive_id("group", cycle_id, at),
                "kind": "reflection",
                "observed_at": reflected_at,
            }
        return becomes, list(together.values())

    def _rewrite(
        self, at: int, cuts: Mapping[LineSpan, str], joined: Sequence[Group], counter: TokenCounter
    ) -> None:
        group = self.groups[at]
        text = replace_spans(group["text"], cuts)
        places = pair_spans(group["text"], self.views[at])
        self.views[at] = replace_spans(
            self.views[at], {places[span]: new for span, new in cuts.items()}
        )
        changed: Group = {**group, "text": text, "tokens": counter.count_text(text)}
        if joined:
            changed["sources"] = collect_sources(group, joined)
        if not text:
            changed.pop("sources", None)
        self.groups[at] = changed

    def _link(self, one: int, other: int) -> None:
        first, last = sorted((self._find_root(one), self._find_root(other)))
        if first != last:
            self._links[last] = first

    def _find_root(self, at: int) -> int:
        root = at
        while root in self._links:
            root = self._links[root]
        while at != root:
            self._links[at], at = root, self._links[at]
        return root


_ASKED_PER_NEEDED: Final = 1.1
"""Models free 3 to 17 % less than they think: they are asked for a tenth more than is needed."""

MAX_REASONS: Final = 5
"""Why edits were left out is said of so many of them."""


@dataclass(frozen=True, slots=True)
class ReflectorInput:
    """All that the Reflector is given about a log."""

    groups: Sequence[Group]
    target: int
    """Tokens of all groups together, to stay under."""
    shown: Sequence[str] = ()
    """What it is shown of each group; the texts as they are, where nothing is given."""
    division: Division | None = None
    """How threads are told apart; `None` where the log is about one thread."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """Those behind the log, by name."""
    instruction: str | None = None


def reflect(request: ReflectorInput, counter: TokenCounter) -> Flow[EditedLog]:
    """Ask for edits until the log is small enough, three times at most.

    A log that is too long for one question is read part by part, the oldest groups first. If no
    edit of an answer can be applied, the Reflector is told why and asked once more.
    """
    log = EditedLog(request.groups, list(request.shown))
    given, progress, problem = log.tokens, "", ""
    examples = parse_edits(load("reflector").partition("<example>")[2])
    start, most, asked = 0, given, 0
    while asked < (MAX_QUESTIONS if most >= given else _MOST_PARTS):
        stop = _find_stop(log, start, most)
        is_part = stop - start < len(log.groups)
        views = [view if start <= at < stop else "" for at, view in enumerate(log.views)]
        items = number_items(log.groups, counter, views)
        tokens = sum(item.tokens for item in items) if is_part else log.tokens
        free = round((log.tokens - request.target) * _ASKED_PER_NEEDED) + 1
        free = max(1, min(free, tokens // 2 if is_part else tokens))
        question = _build_question(request, items, progress, tokens, free)
        reply = yield AskModel("reflector", question)
        if (reply.error or not reply.text.strip()) and reply.room and stop - start > 1:
            shown = sum(group["tokens"] for group in log.groups[start:stop])
            most = fit_room(shown, count_messages(counter, question) - shown, reply.room)
            continue
        if reply.error is not None:
            if not log.edited:
                raise build_failure(reply, "Reflector") from reply.error
            break
        asked += 1
        edits = parse_edits(reply.text, cut_off=reply.cut_off)
        own = [edit for edit in edits if edit not in examples]
        checked = check_edits(own, items, counter, may_stay=tokens - free)
        if checked.counts["edits"]:
            log.apply(checked, items, counter)
            progress = _tell_progress(given - log.tokens, checked.refused)
        elif not log.edited and not problem:
            problem = "\n".join(_list_reasons(checked.refused)) or NO_EDITS
            progress = fill("reflector_retry", problem=problem)
            continue
        elif not is_part:
            break
        if is_small_enough(log.tokens, request.target) or (is_part and stop == len(log.groups)):
            break
        start = stop if is_part else 0
    if not log.edited:
        msg = f"the Reflector, asked twice, gave no usable edit: {problem}"
        raise ObserverError(msg)
    return log


NO_EDITS: Final = "It holds no line that begins with `drop` or with the number of an item."


_MOST_PARTS: Final = 12
"""How many parts of a log that is too long for one question are read in one reflection."""


def _find_stop(log: EditedLog, start: int, most: int) -> int:
    """Return where a part of so many tokens ends; it holds one group at least."""
    stop, tokens = start, 0
    while stop < len(log.groups):
        tokens += log.groups[stop]["tokens"]
        if tokens > most and stop > start:
            break
        stop += 1
    return stop


def _build_question(
    request: ReflectorInput, items: Sequence[Item], progress: str, tokens: int, free: int
) -> list[BaseMessage]:
    """Return the question: the log as it is now, or a part of it, and what is still to go."""
    task = fill(
        "reflector_task",
        observations=render_items(items, request.division),
        hints=write_hints(request.hints),
        threads=request.division.rule if request.division is not None else "",
        progress=progress,
        log_tokens=str(tokens),
        free_tokens=str(free),
    )
    return [SystemMessage(fill("reflector", custom=request.instruction or "")), HumanMessage(task)]


def _tell_progress(freed: int, refused: Sequence[str]) -> str:
    reasons = "\n".join(_list_reasons(refused))
    if reasons:
        reasons = f"Left out of your last answer, by its numbers:\n{reasons}"
    return fill("reflector_progress", freed_tokens=str(freed), refused=reasons)


def _list_reasons(refused: Sequence[str]) -> Iterator[str]:
    yield from (f"- {escape(reason)}" for reason in refused[:MAX_REASONS])
    if len(refused) > MAX_REASONS:
        yield f"- and {len(refused) - MAX_REASONS} more"
