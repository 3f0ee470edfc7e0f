"""Choose what the Observer is shown of the log: earlier observations within a token budget.

Items are kept or left out whole, never changed, and what is left out is counted in its place. Some
of that stands behind the rest: what the conversation that is to be observed may deny or change.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.items import read_head
from langgraph_om.core.observe.transcript import SPEAKER_NAMES
from langgraph_om.core.record.record import write_log
from langgraph_om.core.search import distinct_words, weigh_rarity
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.core.wire import Group

_GAP_TOKENS = 10
"""About what a line that counts left-out lines costs."""
_BATCHES = 4
"""How many times a budget's worth of new items makes the choice anew."""


_TOUCHED: Final = "Of the lines left out, these may be about the same things as the conversation:"
_TELLING: Final = 3
"""How many of the words that an item shares with a message count, the rarest; with more of them,
long texts win."""
_MOST: Final = 32
"""How many items that hold a word are looked at, the newest: a word in more of them tells next to
nothing."""
_LOOKED: Final = 48
"""How many items are looked at for one message, those that hold its rarest words: to look for all
of its words at all that hold them would cost more than the rest of an observation."""
_BY_TURNS: Final = 2
"""How many items one message brings before the next one's turn; with 1, or without turns, a few
denials in a hundred are not found."""
_LEFT_EDGE: Final = re.compile(r"\n(?=[^ \n])")
"""What separates the messages of a transcript; further lines of a message are indented."""
_CODE: Final = re.compile(r"(?ms)^ *```.*?^ *```[ \t]*$")
"""A block of code in a message: its names come again in all that is about the same code."""


def select_previous(
    groups: Sequence[Group], budget: int | Literal[False], counter: TokenCounter, about: str = ""
) -> str:
    """Return the log cut to a budget: its newest items, important ones, and those touched now.

    A quarter of the room is for what is added from question to question. Of the rest, half goes
    to the newest items, the other half to older ones marked 🔴, then ✅; what these leave over goes
    to the newest again. Where a conversation is to be observed, this room is half of the budget.
    The other half is for further items that share rare words, names or numbers with a message, so
    that the Observer sees what it denies or changes. They come last: the beginning holds still.

    Args:
        budget: Tokens to keep within; 0 keeps nothing, `False` everything.
        about: The transcript of the conversation that is to be observed; empty for none.
    """
    if budget is False:
        return write_log(groups)
    if budget == 0:
        return ""
    text = write_log(groups)
    if sum(group["tokens"] for group in groups) <= budget:
        return text
    items = _split_items(text, counter)
    excerpt = _cut_log(items, budget - budget // 2 if about else budget, counter)
    return _add_touched(items, excerpt, about, budget, counter) if about else excerpt.text


class _Excerpt(NamedTuple):
    """Items of a log with what counts the others, and their numbers."""

    text: str
    kept: Collection[int]


def _cut_log(items: Sequence[_Item], budget: int, counter: TokenCounter) -> _Excerpt:
    room = budget
    while room > 0:
        kept = _choose_items(items, room)
        text = _mark_gaps(items, kept)
        excess = counter.count_text(text) - budget
        if excess <= 0:
            return _Excerpt(text, kept)
        room -= excess  # the lines that count left-out lines took more than was set aside
    return _Excerpt("", ())


def _add_touched(
    items: Sequence[_Item], excerpt: _Excerpt, about: str, budget: int, counter: TokenCounter
) -> str:
    """Return an excerpt with further items behind it that a conversation may touch."""
    intro = f"{excerpt.text}\n\n{_TOUCHED}".lstrip()
    usual = sum(map(_get_tokens, items)) // len(items)
    room = budget - counter.count_text(intro)
    while room > 0:
        picker = _Picker(items, room)
        for item in _rank_touched(items, excerpt.kept, about):
            picker.take(item)
            if picker.left < usual:
                break
        if not picker.kept:
            break
        shown = _without_repeats([items[at] for at in sorted(picker.kept)])
        text = "\n".join([intro, *(item.text for item in shown)])
        excess = counter.count_text(text) - budget
        if excess <= 0:
            return text
        room -= excess
    return excerpt.text


def _rank_touched(items: Sequence[_Item], kept: Container[int], about: str) -> Iterator[_Item]:
    """Yield the items that share words with a message and are not kept, the likeliest first.

    Words of code do not count. The two likeliest of each message come before further ones, those of
    the user's messages first: one that is long and touches much leaves room for the others.
    """
    lines = _LEFT_EDGE.split(_CODE.sub("", about))
    messages = [line for line in lines if observation_date(line) is None]
    said = [distinct_words(line.partition(": ")[2] or line) for line in messages]
    shared = _SharedWords.find(items, kept, said)
    ranked: dict[bool, list[list[tuple[float, int]]]] = {True: [], False: []}
    for line, words in zip(messages, said, strict=True):
        ranked[line.startswith(SPEAKER_NAMES["user"])].append(shared.rank(words))
    seen: set[int] = set()
    for start in range(0, _LOOKED, _BY_TURNS):
        for is_user in (True, False):
            turn = [each for likely in ranked[is_user] for each in likely[start:][:_BY_TURNS]]
            new = dict.fromkeys(-at for _, at in sorted(turn) if -at not in seen)
            seen.update(new)
            yield from [items[at] for at in new]


@dataclass(frozen=True, slots=True)
class _SharedWords:
    """Words that items share with a conversation; they count by how rare they are in both."""

    weights: Mapping[str, float]
    holders: Mapping[str, Mapping[int, None]]
    """The numbers of items that hold a word and are not kept, the `_MOST` newest first."""
    lengths: Mapping[int, float]
    """The lengths of items, by their numbers."""

    @classmethod
    def find(
        cls, items: Sequence[_Item], kept: Container[int], said: Sequence[frozenset[str]]
    ) -> _SharedWords:
        """Return those of the words of messages that stand in items."""
        in_talk, lengths = Counter(chain.from_iterable(said)), dict[int, float]()
        holders: dict[str, list[int]] = defaultdict(list)
        for item in reversed(items):
            if not item.is_heading:
                own = distinct_words(item.words)
                lengths[item.at] = math.sqrt(len(own))
                for word in own & in_talk.keys():
                    holders[word].append(item.at)
        weights = {
            word: weigh_rarity(len(found), len(lengths)) * weigh_rarity(in_talk[word], len(said))
            for word, found in holders.items()
        }
        shown = {
            word: dict.fromkeys(islice((at for at in found if at not in kept), _MOST))
            for word, found in holders.items()
        }
        return cls(weights, shown, lengths)

    def rank(self, words: frozenset[str]) -> list[tuple[float, int]]:
        """Return the items that a message may touch, as negative numbers, the likeliest first.

        An item is as likely as the message's rarest words say that stand in it, for both lengths;
        of equals, the newest is first.
        """
        shared = sorted(words & self.weights.keys(), key=lambda word: (-self.weights[word], word))
        found, wanting = dict[int, float](), dict[int, int]()
        for word in shared:
            held, is_full = self.holders[word], len(found) >= _LOOKED
            if is_full and not wanting:
                break
            for at in held.keys() & wanting.keys() if is_full else held:
                if at in wanting:
                    found[at] += self.weights[word]
                    wanting[at] -= 1
                    if not wanting[at]:
                        del wanting[at]
                elif at not in found and len(found) < _LOOKED:
                    found[at], wanting[at] = self.weights[word], _TELLING - 1
        length = -math.sqrt(len(words))
        return sorted((told / (length * self.lengths[at]), -at) for at, told in found.items())


class _Item(NamedTuple):
    """A heading, or an item with its sub-items, which mean nothing without it."""

    at: int
    text: str
    tokens: int
    is_heading: bool

    @property
    def words(self) -> str:
        """Its lines without bullet, mark and time."""
        return self.text[read_head(self.text).end :]

    @property
    def rank(self) -> int:
        """0 for facts and decisions, 1 for what was completed, 2 for the rest."""
        return 0 if "🔴" in self.text else 1 if "✅" in self.text else 2


_get_tokens = attrgetter("tokens")


def _split_items(text: str, counter: TokenCounter) -> list[_Item]:
    items: list[tuple[list[str], bool]] = []
    for line in filter(str.strip, text.split("\n")):
        if line[0].isspace() and items and not items[-1][1]:
            items[-1][0].append(line)
        else:
            items.append(([line], observation_date(line) is not None))
    return [
        _Item(at, whole := "\n".join(lines), counter.count_text(whole) + 1, is_heading)
        for at, (lines, is_heading) in enumerate(items)
    ]


def _choose_items(items: Sequence[_Item], budget: int) -> set[int]:
    """Return the numbers of the items to keep.

    The choice is made again only when a quarter of the budget was written since the last one; until
    then the newest items are added behind it, so that the beginning of what is shown holds still,
    which a provider's cache needs.
    """
    step = max(1, budget // _BATCHES)
    ends = list(accumulate(map(_get_tokens, items)))
    settled = bisect_right(ends, ends[-1] // step * step)
    newer = items[settled:]
    room = budget - step
    if sum(map(_get_tokens, newer)) > step:  # a long one began in the batch before
        settled, newer, room = len(items), [], budget
    return _choose_settled(items, settled, room) | {item.at for item in newer}


def _choose_settled(items: Sequence[_Item], stop: int, budget: int) -> set[int]:
    picker = _Picker(items, budget)
    newest = list(reversed(items[:stop]))
    if stop < len(items):
        picker.take_heading(items[stop])
    all(picker.take(item, leave=budget // 2) for item in newest)
    for rank in (0, 1):
        for item in newest:
            if item.rank == rank:
                picker.take(item, gap=_GAP_TOKENS)
    all(picker.take(item) for item in newest)
    return picker.kept


class _Picker:
    """Picks items while the budget lasts; a picked one brings its date heading."""

    def __init__(self, items: Sequence[_Item], budget: int) -> None:
        self.left = budget - _GAP_TOKENS
        self.kept: set[int] = set()
        self._headings = [item for item in items if item.is_heading]
        self._starts = [item.at for item in self._headings]

    def take(self, item: _Item, *, leave: int = 0, gap: int = 0) -> bool:
        """Pick an item if that leaves at least `leave` tokens; return whether it is picked."""
        if item.at in self.kept:
            return True
        picked = [item, *self._find_heading(item)]
        cost = sum(part.tokens + gap for part in picked)
        if self.left - cost < leave:
            return False
        self.left -= cost
        self.kept.update(part.at for part in picked)
        return True

    def take_heading(self, item: _Item) -> None:
        """Pick the heading of an item that is kept anyway."""
        for heading in self._find_heading(item):
            self.take(heading)

    def _find_heading(self, item: _Item) -> list[_Item]:
        above = bisect_right(self._starts, item.at) - 1
        if above < 0 or self._starts[above] == item.at or self._starts[above] in self.kept:
            return []
        return [self._headings[above]]


def _without_repeats(items: Sequence[_Item]) -> list[_Item]:
    """Return items without headings of the day under which the one before stands already."""
    shown: list[_Item] = []
    day = ""
    for item in items:
        if not item.is_heading or item.text != day:
            shown.append(item)
        day = item.text if item.is_heading else day
    return shown


def _mark_gaps(items: Sequence[_Item], kept: Container[int]) -> str:
    out: list[str] = []
    left_out = 0
    shown = {item.at for item in _without_repeats([item for item in items if item.at in kept])}
    for item in items:
        if item.at not in shown:  # a heading that stands already is not left out
            left_out += item.text.count("\n") + 1 if item.at not in kept else 0
            continue
        if left_out:
            out.append(_tell_of_gap(left_out))
        out.append(item.text)
        left_out = 0
    return "\n".join([*out, _tell_of_gap(left_out)] if left_out else out)


def _tell_of_gap(left_out: int) -> str:
    """Return the line for so many lines, as the Observer's rules name it."""
    return f"[{left_out} earlier line{'' if left_out == 1 else 's'} left out]"
