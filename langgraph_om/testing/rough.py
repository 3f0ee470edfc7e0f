"""An Observer and a Reflector offline that behave as models do: roughly, and each time otherwise.

They obey sizes only about, write more than they were asked for, and forget the form at times. What
they do follows from a seed and from what they are asked, so the same calls give the same answers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing.extractive import NUMBERED, ExtractiveObserver, ExtractiveReflector
from langgraph_om.testing.offline import (
    OfflineChatModel,
    Reply,
    Role,
    find_last_block,
    join_text,
    shorten,
    weigh,
)

_WANTED = re.compile(r"free (\d+) of them")
_HEAD = re.compile(r"([*-] (?:[🔴🟡🟢✅📌]\ufe0f? )?(?:\(\d{1,2}:\d\d\) )?)(.*)")
_QUOTES = frozenset('"`“„«「『')
_TERSE_WORDS = 8
_JOINS = 0.1
_HEAD_TOKENS = 8
_PROSE = "I went through the notes, and everything in them seems worth keeping as it is."


class _Chance:
    """Numbers that follow from a seed and a question."""

    def __init__(self, seed: int, messages: list[BaseMessage]) -> None:
        said = "\0".join(join_text(message) for message in messages)
        self._state = f"{seed}\0{said}".encode("utf-8", "replace")

    def draw(self) -> float:
        self._state = hashlib.blake2b(self._state, digest_size=8).digest()
        return int.from_bytes(self._state, "big") / 2**64

    def around(self, spread: float) -> float:
        return 1 + spread * (2 * self.draw() - 1)


def _check_fraction(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        msg = f"`{name}` is {value!r}; pass a number from 0 to 1, such as 0.1."
        raise ConfigurationError(msg)


class RoughObserver(ExtractiveObserver):
    r"""An `ExtractiveObserver` that writes more or less than it should, and at times no form.

    >>> question = "<conversation>\nUser (14:30): My dog Rex is three.\n</conversation>"
    >>> RoughObserver(forgets=1.0).invoke(question).content
    'I went through the notes, and everything in them seems worth keeping as it is.'
    """

    seed: int = 0
    """What its chances follow from."""
    spread: float = 0.5
    """By how much it misses the usual length of an item, up or down."""
    forgets: float = 0.05
    """How often it forgets the form."""

    def __init__(
        self, seed: int = 0, *, spread: float = 0.5, forgets: float = 0.05, **kwargs: Any
    ) -> None:
        """Set how rough it is."""
        _check_fraction("spread", spread)
        _check_fraction("forgets", forgets)
        super().__init__(**kwargs)
        self.seed, self.spread, self.forgets = seed, spread, forgets

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return observations, or a sentence that is none."""
        chance = _Chance(self.seed, messages)
        if chance.draw() < self.forgets:
            return _PROSE
        words = max(1, round(self.words * chance.around(self.spread)))
        return ExtractiveObserver(words=words, every=self.every).reply(messages)


@dataclass(slots=True)
class _Numbered:
    """One numbered item of a question, and what becomes of it."""

    number: int
    size: int
    head: str
    text: str
    date: str

    @property
    def is_quoting(self) -> bool:
        """Whether fewer words would change a quotation."""
        return not _QUOTES.isdisjoint(self.text)

    def reworded(self) -> str | None:
        """Return the item in few words; `None` when it has no more already."""
        if len(self.text.split()) <= _TERSE_WORDS or self.is_quoting:
            return None
        return self.head + shorten(self.text, _TERSE_WORDS)

    def joined(self, other: _Numbered) -> str | None:
        """Return both items as one; `None` when they are not of one day."""
        if other.date != self.date or self.is_quoting or other.is_quoting:
            return None
        halves = (shorten(item.text, _TERSE_WORDS // 2 + 1) for item in (self, other))
        return f"{other.head}{'; '.join(halves)}"


class RoughReflector(OfflineChatModel):
    """Answer the Reflector's questions with edits that free about what is asked, give or take.

    It shortens items that are long, joins some of the same day, and drops the lightest ones, until
    it believes that enough has gone; its belief is off by `spread`. Now and then an edit of its
    own invents something or names an item that is not there, and at times it forgets the form and
    writes prose, or the log anew.
    """

    seed: int = 0
    """What its chances follow from."""
    spread: float = 0.15
    """By how much it misses a size, up or down."""
    forgets: float = 0.05
    """How often it forgets the form."""
    errs: float = 0.03
    """How often an edit of its own is not valid."""

    def __init__(
        self,
        seed: int = 0,
        *,
        spread: float = 0.15,
        forgets: float = 0.05,
        errs: float = 0.03,
        delay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Set how rough it is."""
        for name, value in (("spread", spread), ("forgets", forgets), ("errs", errs)):
            _check_fraction(name, value)
        super().__init__(
            seed=seed, spread=spread, forgets=forgets, errs=errs, delay=delay, **kwargs
        )

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("reflector", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return edits, or what cannot be read as such."""
        chance = _Chance(self.seed, messages)
        around, log = find_last_block(messages, "observation-log")
        wanted = _WANTED.search(around)
        if wanted is None or chance.draw() < self.forgets:
            return _PROSE if chance.draw() < 1 / 2 else ExtractiveReflector().reply(messages[:1])
        goal = int(wanted[1]) * chance.around(self.spread)
        return "\n".join(self._edit(list(_read_items(log)), goal, chance))

    def _edit(self, items: list[_Numbered], goal: float, chance: _Chance) -> Iterator[str]:
        """Yield edits, by wording first, until as much as it believes has gone."""
        left: list[_Numbered] = []
        at = 0
        while at < len(items):
            sources = items[at : at + (2 if chance.draw() < _JOINS else 1)]
            first, last = sources[0], sources[-1]
            text = first.joined(last) if last is not first else first.reworded()
            at += 1
            if goal <= 0 or text is None:
                left.append(first)
                continue
            at += len(sources) - 1
            if chance.draw() < self.errs:
                text += f" {int(1e6 * chance.draw())}"  # an edit that invents a number
            else:
                goal -= _guess_saving(sources, text)
            yield f"{'+'.join(str(item.number) for item in sources)}: {text}"
        yield from self._drop(left, len(items), goal, chance)

    def _drop(
        self, items: list[_Numbered], most: int, goal: float, chance: _Chance
    ) -> Iterator[str]:
        """Yield a list of the items that tell least, if more has to go."""
        dropped: list[int] = []
        for item in sorted(items, key=lambda item: weigh(item.text, _TERSE_WORDS)):
            if goal <= 0:
                break
            is_there = chance.draw() >= self.errs
            dropped.append(item.number if is_there else most + item.number)
            goal -= item.size
        if dropped:
            yield f"drop {', '.join(map(str, dropped))}"


def _guess_saving(sources: list[_Numbered], text: str) -> float:
    """Return about how many tokens go, by characters; mark and time count as much as they do."""
    size = sum(item.size for item in sources)
    words = max(1, size - _HEAD_TOKENS * len(sources))
    before = max(1, sum(len(item.text) for item in sources))
    after = _HEAD_TOKENS + words * (len(text) - len(sources[-1].head)) / before
    return size - after


def _read_items(log: str) -> Iterator[_Numbered]:
    date = ""
    for line in log.split("\n"):
        if line.startswith("Date:"):
            date = line
        elif found := NUMBERED.match(line):
            head = _HEAD.match(found[3])
            opening, text = (head[1], head[2]) if head else ("", found[3])
            yield _Numbered(int(found[1]), int(found[2]), opening, text, date)
