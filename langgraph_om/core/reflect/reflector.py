"""Have the Reflector edit the log, so that it has fewer tokens.

A flow like `observe`. An edit leaves what it does not name as it is: each question shows the log as
it stands, with numbers of its own, and says how many tokens are still to go. What was achieved
stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import escape
from langgraph_om.core.effects import AskModel, Flow
from langgraph_om.core.items import LineSpan, replace_spans
from langgraph_om.core.observe.observer import build_failure, write_hints
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import collect_sources
from langgraph_om.core.reflect.edits import (
    CheckedEdits,
    Division,
    Item,
    check_edits,
    number_items,
    pair_spans,
    parse_edits,
    render_items,
)
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError

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
        """Return by id what has become of the changed groups, and which ids go together.

        Args:
            cycle_id: Id of the cycle; the groups' ids are derived from it.
        """
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

    Returns:
        The log with all valid edits.

    Raises:
        ObserverError: When no answer holds a valid edit.
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
        msg = f"the Reflector gave no edit that can be applied, asked twice: {problem}"
        raise ObserverError(msg)
    return log


NO_EDITS: Final = "It holds no line that begins with `drop` or with the number of an item."


_MOST_PARTS: Final = 12
"""How many parts of a log that is too long for one question are read in one reflection."""


def fit_room(shown: int, beside: int, room: int) -> int:
    """Return how many tokens to show where a question with so many was refused for its length.

    Args:
        beside: The tokens of the question without them.
        room: The tokens that a question may have; those of the refused one where nobody knows.
    """
    known = int(room * _FILLED) - beside
    return max(1, min(known, shown // 2) if room >= shown + beside - 1 else min(known, shown - 1))


_FILLED: Final = 0.9
"""A part of the room: pieces are not cut to the token."""


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
