"""What the Actor is shown: its parts with their sizes, and what is left out to fit into a size.

Only a view leaves something out. The memory and the conversation keep it all, and an observation of
left-out messages is tried as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.blocks import (
    answers_other_view,
    holds_bound_reasoning,
    without_bound_reasoning,
)
from langgraph_om.core.content.message_keys import GAP_ID, key_of
from langgraph_om.core.items import cut_spans, find_spans, is_protected, read_head, replace_spans
from langgraph_om.core.record.kept import list_pinned
from langgraph_om.core.record.standing import is_standing, select_log
from langgraph_om.core.record.window import Entry, Window, get_message
from langgraph_om.core.tokens import CONVERSATION_OVERHEAD
from langgraph_om.core.wire import Group, MemoryRecord

_CUT: Final = (8000, 2000, 500)
"""Tokens above which messages are cut, one after the other, where a whole prompt was refused."""
_WEIGHTY: Final = ("🔴", "📌")
_TITLES: Final = {"standing": "Standing instructions", "pinned": "Pinned messages"}
_STEPS: Final = 10
"""How many times a view that keeps growing changes its beginning until all of it has changed.

A little more than needed is left out at a time, or no prompt would begin as the last one did.
"""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a view leaves out or shortens."""

    longest: int | None = None
    """The tokens of the longest message that is shown whole; `None`: no message is cut."""
    messages: int = 0
    """How many of the window's oldest messages are left out."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """By the id of a group of the log, what is left of its text."""
    sections: frozenset[str] = frozenset()
    """Names of what is left out beside them: `asides`, `hints`, `apart`."""

    def select(self, log: Sequence[Group]) -> list[Group]:
        """Return what is shown of a log."""
        return [
            group if text == group["text"] else {**group, "text": text}
            for group in log
            if (text := self.texts.get(group["id"], group["text"])) or not group["text"]
        ]

    def count_observations(self, record: MemoryRecord) -> int:
        """Count the observations and pinned messages that are left out."""
        cut = [group for group in record["log"] if group["id"] in self.texts]
        pinned = list_pinned(record) if "pinned" in self.sections else ()
        return len(pinned) + sum(
            len(find_spans(group["text"])) - len(find_spans(self.texts[group["id"]]))
            for group in cut
        )


class Block(NamedTuple):
    """A piece of the log as it is shown."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class MemoryText:
    """What the system message says of the memory; what there is nothing of is empty."""

    instructions: str = ""
    """What is the same in each call."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """By the feature that keeps it, what is shown before the observations."""
    note: str = ""
    """What is said of observations that are left out."""
    log: Sequence[Block] | None = None
    """The log: a block for each group, and what ends it."""
    hints: str = ""

    @property
    def pieces(self) -> list[str]:
        """The texts, one behind the other; each group of the log is one of its own."""
        head = "\n\n".join(filter(None, [self.instructions, *self.apart.values()]))
        if self.log is not None:
            note = f"{self.note}\n" if self.note else ""
            blocks = [block.text for block in self.log]
            return [f"{head}\n\n<observations>\n{note}", *blocks, *self._hints]
        return [head, *self._hints] if head else []

    @property
    def _hints(self) -> list[str]:
        return [self.hints] if self.hints else []


@dataclass(frozen=True, slots=True)
class View:
    """The parts of what the Actor is shown next; its digest and its messages are made of one."""

    day: date
    """The day that relative dates are relative to, in the memory's time zone."""
    log: str
    """Names the log by its groups."""
    memory: MemoryText
    reminder: str
    """What stands for the messages that are not shown; empty for nothing."""
    shown: ShownMessages
    asides: Sequence[BaseMessage]
    """What stands before the live request, what changes most often last."""
    lines: Mapping[str, str]
    """By the key of a message, a line that is shown before it."""
    instructions: Sequence[BaseMessage]
    """The agent's own system messages in the conversation, as far as they are shown."""
    leaves_out: bool
    """Whether older ones of these are not shown."""
    left: LeftOut = LeftOut()


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of what the Actor is sent."""

    name: str
    """What it is, such as `Observations`."""
    tokens: int
    count: int = 1
    """How many messages it is, where it is more than one."""
    is_bounded: bool = True
    """Whether a budget bounds it."""


def list_parts(
    settings: Settings, view: View, system: str | BaseMessage | None = None
) -> list[PromptPart]:
    """List the parts of what the Actor is sent in their order; none that is empty.

    Args:
        system: The agent's own system prompt, if it is not among the messages.
    """
    text, message = settings.counter.count_text, settings.counter.count_message
    memory, shown = view.memory, view.shown
    given = text(system if isinstance(system, str) else system.text) if system else 0
    own = given + sum(map(message, view.instructions))
    log = _sum_tokens(memory.log) + text(memory.note) if memory.log else 0
    earlier, live = shown.entries[: shown.live], shown.entries[shown.live :]
    places = ((shown.find(key), line) for key, line in view.lines.items())
    lines = [HumanMessage(line) for at, line in places if at is not None and at < shown.live]
    lead = sum(map(message, shown.lead))
    beside = sum(map(message, lines)) + (lead if shown.first is None else 0)
    since = _sum_tokens(live) + (0 if shown.first is None else lead)
    parts = [
        PromptPart("The agent's own instructions", own, is_bounded=False),
        PromptPart("How to read memory", text(memory.instructions), is_bounded=False),
        *[PromptPart(_TITLES.get(name, name), text(block)) for name, block in memory.apart.items()],
        PromptPart("Observations", log),
        PromptPart("Hints", text(memory.hints)),
        PromptPart("Reminder", text(view.reminder)),
        PromptPart("Earlier messages", beside + _sum_tokens(earlier), len(earlier)),
        *[PromptPart("Before the request", message(aside)) for aside in view.asides],
        PromptPart("The request and since", since, len(live), is_bounded=False),
    ]
    return [part for part in parts if part.tokens]


def _sum_tokens(entries: Iterable[Entry | Block]) -> int:
    return sum(entry.tokens for entry in entries)


# --- Fit a view into a size ----------------------------------------------------------------------

Ways = Iterator[tuple[float, LeftOut]]
"""What may be left out, one thing after the other: the tokens of the next one, about, and all that
is left out with it."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """Fits views of a conversation and its memory into a size."""

    settings: Settings
    window: Window
    log: Sequence[Group]
    build: Callable[[LeftOut], View]
    """Makes the view that leaves this out."""

    def keep_to_budget(self, view: View) -> View:
        """Return the view within the bound of a budget; the live request and our texts are beside.

        Earlier messages keep their part of it, or what the observations leave, and these the rest.
        """
        limits = self.settings.thresholds
        bound = limits.bound
        over = 0 if bound is None else self._count(view, is_bounded=True) - bound
        if bound is None or over <= 0:
            return view
        step = max(1, bound // _STEPS)
        most = bound + over - math.ceil(over / step) * step
        keep = limits.block_after * bound // limits.largest_tokens
        earlier = self.window.fresh_from
        for find_ways in (
            partial(self._leave_messages, stop=earlier, keep=keep),
            self._leave_observations,
            partial(self._leave_messages, stop=earlier),
        ):
            view = self._leave_out(view, find_ways, most, is_bounded=True)
        return view

    def keep_to(self, view: View, most: int, *, cuts: bool = False) -> View:
        """Return the view within so many tokens in all, long messages cut first with `cuts`."""
        leave_messages = partial(self._leave_messages, stop=len(self.window.entries))
        stages = (_cut_messages, leave_messages, self._leave_observations)
        for find_ways in stages if cuts else stages[1:]:
            view = self._leave_out(view, find_ways, most, is_bounded=False)
        return view

    def _count(self, view: View, *, is_bounded: bool) -> int:
        parts = list_parts(self.settings, view)
        tokens = sum(part.tokens for part in parts if part.is_bounded or not is_bounded)
        return tokens + CONVERSATION_OVERHEAD

    def _leave_out(
        self, view: View, find_ways: Callable[[View], Ways], most: int, *, is_bounded: bool
    ) -> View:
        """Return the view that leaves out as much as it has to, or as there is."""
        over, left = float(self._count(view, is_bounded=is_bounded) - most), view.left
        if over <= 0:
            return view
        for tokens, left in find_ways(view):
            over -= tokens
            if over <= 0:
                view = self.build(left)
                over = self._count(view, is_bounded=is_bounded) - most
                if over <= 0:
                    return view
        return view if left is view.left else self.build(left)

    def _leave_messages(self, view: View, *, stop: int, keep: int = 0) -> Ways:
        """Leave out the oldest messages: whole turns, and exchanges of the newest one.

        The live request is always shown, and so is the newest exchange.

        Args:
            stop: How many messages may be left out.
            keep: Tokens that stay if there is more.
        """
        window, before = self.window, view.left.messages
        sizes = [0 if each.key == window.request else each.tokens for each in view.shown.entries]
        done, rest = before, sum(sizes[: max(0, stop - before)])
        for cut in window.cuts:
            if cut <= done or (cut < window.fresh_from and not self._starts_turn(cut)):
                continue
            if cut > stop or cut == len(window.entries) or rest <= keep:
                return
            tokens = sum(sizes[done - before : cut - before])
            if tokens:  # the live request leaves its place, never the view
                yield tokens, replace(view.left, messages=cut)
                rest, done = rest - tokens, cut

    def _starts_turn(self, at: int) -> bool:
        window = self.window
        return window.request is None or isinstance(window.entries[at].message, HumanMessage)

    def _leave_observations(self, view: View) -> Ways:
        """Leave out the oldest observations, and last of all those that are to stay.

        First go items without a mark of weight, then these, then what is shown beside the
        observations, what a person keeps, and what features keep.
        """
        count, left, log = self.settings.counter.count_text, view.left, self.log
        shown = [*filter(_get_text, select_log(left.select(log)))]
        blocks = view.memory.log or []
        known = {group["id"]: block.text for group, block in zip(shown, blocks, strict=False)}
        texts, sizes = dict(left.texts), dict[str, int]()

        def cut(group: Group, text: str) -> float:
            """Note what is left of a group; return the tokens of what is not."""
            key, before = group["id"], texts.get(group["id"], group["text"])
            if len(text) >= len(before):
                return 0
            beside = 0 if text else (len(known.get(key, before)) - len(before)) // 4
            size, sizes[key] = sizes.get(key, group["tokens"]), count(text) if text else 0
            texts[key] = text
            return size - sizes[key] + beside

        free = [group for group in log if not is_protected(group)]
        for group in free:
            yield cut(group, select_weighty(group["text"])), replace(left, texts=texts)
        for group in free:
            yield cut(group, ""), replace(left, texts=texts)
        kept = [group for group in log if is_protected(group)]
        owners = {group["keep"]["how"] for group in kept}
        for name in (
            "asides",
            "hints",
            *(name for name in view.memory.apart if name not in owners),
        ):
            left = replace(left, texts=texts, sections=left.sections | {name})
            yield math.inf, left
        for group in sorted(kept, key=is_standing):
            yield cut(group, ""), replace(left, texts=texts)


_get_text = itemgetter("text")


def cut_messages(settings: Settings, shown: ShownMessages, longest: int) -> ShownMessages:
    """Return messages of which those of more tokens are cut, with the tokens that are left."""

    def cut(message: BaseMessage, key: str) -> BaseMessage:
        plain = without_bound_reasoning(message)
        short = message if plain is None else settings.parts.cut(plain, key, longest)
        return message if short is plain else short

    short, count = shown.replace_messages(cut), settings.counter.count_message
    entries = list(short.entries)
    changed = [at for at, entry in enumerate(entries) if entry is not shown.entries[at]]
    for at in changed:
        entries[at] = entries[at]._replace(tokens=count(entries[at].message))
    return short._replace(entries=entries, cut=len(changed))


def _cut_messages(view: View) -> Ways:
    for longest in _CUT:
        yield math.inf, replace(view.left, longest=longest)


def select_weighty(text: str) -> str:
    """Return the items of a group that are marked as facts, wishes and decisions."""
    spans = find_spans(text)
    items = zip(spans, cut_spans(text, spans), strict=True)
    light = {span: "" for span, item in items if read_head(item).mark not in _WEIGHTY}
    return replace_spans(text, light) if light else text


# --- The messages of a view ----------------------------------------------------------------------
#
# No message is changed but for reasoning that a provider would not accept where it stands.

_PLAIN: Final = frozenset({HumanMessage, ToolMessage})
"""Classes of messages that hold no reasoning; a look at each message takes longer."""


class ShownMessages(NamedTuple):
    """The messages of a view."""

    dropped: int
    """How many of the window's oldest messages are left out."""
    first: BaseMessage | None
    """The live request, where it stands before the rest of the window."""
    calls: list[BaseMessage]
    """Calls before the window whose results are in it."""
    entries: Sequence[Entry]
    """The rest of the window."""
    request: int | None
    """Index of the live request in `entries`; `None` where it is none of them."""
    live: int
    """How many of these are earlier than the live request and what followed it."""
    window: Window
    """The whole window."""
    cut: int = 0
    """Of how many more of the rest only the beginning and the end are shown."""

    @property
    def lead(self) -> list[BaseMessage]:
        """What stands before the rest of the window."""
        return [*([] if self.first is None else [self.first]), *self.calls]

    @property
    def newest(self) -> str | None:
        """Key of the newest message; `None` without any."""
        return self.entries[-1].key if self.entries else None

    def find(self, key: str | None) -> int | None:
        """Return the index of a message in `entries`; `None` where it is none of them."""
        at = self.window.find(key) - self.dropped
        return at if at >= 0 else None

    def replace_messages(self, show: Callable[[BaseMessage, str], BaseMessage]) -> ShownMessages:
        """Return the same messages as a function of message and key shows them."""
        entries = [
            entry
            if (other := show(entry.message, entry.key)) is entry.message
            else entry._replace(message=other)
            for entry in self.entries
        ]
        calls = [show(message, key_of(message)) for message in self.calls]
        first = None if self.first is None else show(self.first, key_of(self.first))
        return self._replace(entries=entries, calls=calls, first=first)


def select_shown(messages: Sequence[BaseMessage], window: Window, dropped: int) -> ShownMessages:
    """Select the messages of a view but for the oldest ones, in their order."""
    at, calls = window.find(window.request), _find_missing_calls(window, dropped, messages)
    return ShownMessages(
        dropped,
        window.entries[at].message if 0 <= at < dropped else window.request_message,
        [*filter(None, map(without_bound_reasoning, calls))],
        window.entries[dropped:],
        at - dropped if at >= dropped else None,
        max(0, window.fresh_from - dropped),
        window,
    )


def write_messages(
    record: MemoryRecord,
    shown: ShownMessages,
    asides: Sequence[BaseMessage] = (),
    *,
    lines: Mapping[str, str] | None = None,
    with_reasoning: bool = True,
) -> list[BaseMessage]:
    """Return the messages of a view, reasoning left out where it is not valid any more.

    Args:
        record: The memory of the thread, which knows since when the head is what it is.
        asides: What is shown before the live request and is no part of the conversation.
        lines: By the key of a message, a line that is shown before it.
        with_reasoning: Whether reasoning is shown at all where a provider binds it to its prefix.
    """
    entries, lines = shown.entries, lines or {}
    stop = _count_unbound(record, shown) if with_reasoning else len(entries)
    # Looked at anew: what a message holds may be changed in place.
    stripped = {
        at
        for at, (_, message, *_) in enumerate(entries[:stop])
        if type(message) not in _PLAIN and holds_bound_reasoning(message)
    }
    found = [shown.request, *map(shown.find, lines)]
    places = {*stripped, *(at for at in found if at is not None)}
    out = [*asides] if shown.request is None else []
    out += shown.lead
    begun = 0
    for at in sorted(places):
        out += map(get_message, entries[begun:at])
        entry, begun = entries[at], at + 1
        if at == shown.request:
            out += asides
        if entry.key in lines:  # in no state
            out.append(HumanMessage(lines[entry.key], id=GAP_ID))
        message = without_bound_reasoning(entry.message) if at in stripped else entry.message
        if message is not None:
            out.append(message)
    out += map(get_message, entries[begun:])
    return out


def _find_missing_calls(
    window: Window, dropped: int, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the calls whose results are shown, but which were observed before those arrived."""
    calls, missing = set[str](), set[str]()
    for _, message, *_ in window.entries[dropped:]:
        if type(message) is HumanMessage:  # a check by class takes longer
            continue
        if isinstance(message, AIMessage):
            calls.update(str(call["id"]) for call in message.tool_calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id not in calls:
            missing.add(message.tool_call_id)
    if not missing:
        return []
    present = {id(entry.message) for entry in window.entries[dropped:]}
    return _collect_exchanges(missing, [m for m in messages if id(m) not in present])


def _collect_exchanges(
    call_ids: AbstractSet[str], messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the newest messages that make these calls, each with its other results."""
    brought: list[BaseMessage] = []
    missing = set(call_ids)
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not missing:
            break
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        if isinstance(message, AIMessage):
            ids = {str(call["id"]) for call in message.tool_calls}
            if ids & missing:
                missing -= ids
                brought += [result for result in results if result.tool_call_id in ids]
                brought.append(message)
        results = []
    return brought[::-1]


def _count_unbound(record: MemoryRecord, shown: ShownMessages) -> int:
    """Count the oldest messages that were said behind another head than that of this view."""
    head = record.get("head")
    if head is None:  # of a record that another version wrote
        return len(shown.entries) if record["log"] else 0
    after = shown.find(head["after"])
    others = (at for at, entry in enumerate(shown.entries) if answers_other_view(entry.message))
    return max(-1 if after is None else after, *others, -1) + 1
