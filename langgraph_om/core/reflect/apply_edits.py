"""Put checked edits into the log: what they do not name stays byte for byte.

Joined items stand where the last of them stood, and its group names the ranges of all of them. A
group never goes: where all of its items are gone it keeps its ranges with an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.items.lines import Span, replace_spans
from langgraph_om.core.record.ranges import collect_sources
from langgraph_om.core.record.reflections import Changes
from langgraph_om.core.reflect.check_edits import CheckedEdits
from langgraph_om.core.reflect.items import Item, pair_spans
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group


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
