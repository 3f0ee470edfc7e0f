"""Have the Reflector edit the log: what it does not name stays as it is.

A flow like `observe`. Each question shows the log as it stands by then, with numbers of its own,
and says how many tokens are still to go; what was achieved stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import escape
from langgraph_om.core.effects import AskModel, Flow
from langgraph_om.core.items import Span, replace_spans
from langgraph_om.core.observe.observer import build_failure, write_hints
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.groups import Changes, collect_sources
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
from langgraph_om.core.reflect.reflector import MAX_QUESTIONS, is_small_enough
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group

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
    edits: int = 0
    dropped: int = 0
    joined: int = 0
    shortened: int = 0
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
        """Apply checked edits.

        Args:
            checked: The edits.
            items: The numbered items that they name.
            counter: What counts tokens.
        """
        cuts: dict[int, dict[Span, str]] = {}
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
        self.edits += checked.count
        self.dropped += len(checked.dropped)
        self.joined += checked.joined
        self.shortened += checked.shortened

    def replace_text(self, at: int, text: str, counter: TokenCounter) -> None:
        """Give a group another text."""
        group: Group = {**self.groups[at], "text": text, "tokens": counter.count_text(text)}
        self.groups[at] = group

    def find_changed(self) -> list[int]:
        """Return the places of the groups that are not as they were given."""
        return [
            at
            for at, (group, given) in enumerate(zip(self.groups, self.given, strict=True))
            if group is not given
        ]

    def list_changes(self, *, cycle_id: str, reflected_at: str) -> Changes:
        """Return what has become of the changed groups.

        Args:
            cycle_id: Id of the cycle; the groups' ids are derived from it.
            reflected_at: ISO time.
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
        return Changes(becomes, list(together.values()))

    def _rewrite(
        self, at: int, cuts: Mapping[Span, str], joined: Sequence[Group], counter: TokenCounter
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
class EditsInput:
    """All that the Reflector is given about a log that it edits."""

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


def reflect_by_edits(request: EditsInput, counter: TokenCounter) -> Flow[EditedLog]:
    """Ask for edits until the log is small enough, three times at most.

    Returns:
        The log with all valid edits; without any when the first answer held none.

    Raises:
        ObserverError: When the first question is not answered.
    """
    log = EditedLog(request.groups, list(request.shown))
    given, refused = log.tokens, list[str]()
    for _ in range(MAX_QUESTIONS):
        items = number_items(log.groups, counter, log.views)
        if not items:
            break
        reply = yield AskModel("reflector", _build_question(request, log, items, given, refused))
        if reply.error is not None:
            if not log.edits:
                raise build_failure(reply.error, "Reflector") from reply.error
            break
        edits = parse_edits(reply.text, cut_off=reply.cut_off)
        checked = check_edits(edits, items, counter)
        if not checked.count:
            break
        log.apply(checked, items, counter)
        refused = checked.refused
        if is_small_enough(log.tokens, request.target):
            break
    return log


def _build_question(
    request: EditsInput, log: EditedLog, items: Sequence[Item], given: int, refused: Sequence[str]
) -> list[BaseMessage]:
    """Return the question: the log as it is now, and what is still to go.

    Args:
        request: What the Reflector is given.
        log: The log with the edits so far.
        items: Its items.
        given: Tokens of the log at first.
        refused: Why edits of the former answer were left out.
    """
    tokens = log.tokens
    free = min(tokens, round((tokens - request.target) * _ASKED_PER_NEEDED) + 1)
    progress = ""
    if log.edits:
        progress = fill(
            "reflector_edits_progress",
            freed_tokens=str(given - tokens),
            refused=_list_reasons(refused),
        )
    task = fill(
        "reflector_edits_task",
        observations=render_items(items, request.division),
        hints=write_hints(request.hints),
        threads=request.division.rule if request.division is not None else "",
        progress=progress,
        log_tokens=str(tokens),
        free_tokens=str(max(1, free)),
    )
    system = fill("reflector_edits", custom=request.instruction or "")
    return [SystemMessage(system), HumanMessage(task)]


def _list_reasons(refused: Sequence[str]) -> str:
    if not refused:
        return ""
    lines = [f"- {escape(reason)}" for reason in refused[:MAX_REASONS]]
    more = len(refused) - len(lines)
    lines += [f"- and {more} more"] if more else []
    return "\n".join(["Left out of your last answer, by its numbers:", *lines])
