"""Facts of several kinds that are told in a conversation, and whether a text still tells them.

A fact has a subject with a name of its own, so that nothing else in a conversation is taken for it.
It is told where one line of a text, an item of a log or a message, has all of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from langchain_core.messages import BaseMessage

_WORD = re.compile(r"\w[\w'-]*")


def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.replace("\\n", " ").lower()))


@lru_cache(maxsize=4)
def lines_of(text: str) -> tuple[frozenset[str], ...]:
    """The words of each line; of a prompt that is asked for many facts they are read once."""
    return tuple(words_of(line) for line in text.replace("\\n", "\n").split("\n"))


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a question at the end asks for."""

    message_id: str
    verbatim: str
    words: frozenset[str]
    """Words that tell this message from others, in small letters."""
    need: int
    """How many of them are enough."""
    kind: str = "code"

    def is_in(self, text: str, words: frozenset[str]) -> bool:
        """Whether a text, of which the words are given too, tells it."""
        return self.verbatim in text or len(self.words & words) >= self.need

    def is_known(self, prompt: str, answer: str) -> bool:
        """Whether the answer to a call tells it, beside the prompt that led to the call."""
        return self.is_in(answer, words_of(answer))

    def is_outdated_in(self, text: str) -> bool:
        """Whether a text tells what was so before, and not what is so now."""
        return False


@dataclass(frozen=True, slots=True)
class Told(Fact):
    """A fact that stands in one line, or, when it is to be counted, in so many of them."""

    times: int = 1
    former: frozenset[str] = frozenset()
    """The words of what was so before, if it was."""

    def is_in(self, text: str, words: frozenset[str]) -> bool:
        return self.words <= words and self._count(self.words, text) >= self.times

    def is_known(self, prompt: str, answer: str) -> bool:
        whole = f"{prompt}\n{answer}"
        return self.is_in(whole, words_of(whole))

    def is_outdated_in(self, text: str) -> bool:
        if not self.former or self._count(self.words, text):
            return False
        return self._count(self.former, text) > 0

    @staticmethod
    def _count(words: frozenset[str], text: str) -> int:
        return sum(words <= line for line in lines_of(text))


# --- What is told --------------------------------------------------------------------------------

_STARTS = ("Vel", "Tor", "Quin", "Bra", "Hes", "Lum", "Oss", "Pel", "Rud", "Sab", "Zan", "Mir")
_MIDDLES = ("da", "mo", "ri", "la", "ke", "vo", "ni", "tu")
_ENDS = ("rn", "st", "ck", "nd", "lm", "th", "x", "nne")
_MONTHS = ("February", "March", "April", "May", "June", "July", "September", "October")
_GOODS = ("marzipan", "quinces", "cardamom", "linseed", "plywood", "varnish", "sandpaper", "yeast")
_ADJECTIVES = ("dull", "moving", "overpriced", "splendid", "exhausting", "charming", "noisy")
_REASONS = ("the roof leaked", "nobody answered", "the lease ended", "the road was flooded")
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
_TEMPLATES: Mapping[str, str] = {
    "name": "The vet of {subject} is called {other}.",
    "number": "The bill for {subject} came to {number} euros.",
    "date": "We open {subject} on {day} {month}.",
    "list": "For {subject} we still need {goods[0]}, {goods[1]} and {goods[2]}.",
    "opinion": "I found {subject} {adjective}, and my sister did too.",
    "reason": "We gave up {subject} because {reason}.",
    "count": "I went swimming in {subject} again.",
    "change": "The choir of {subject} meets on {days[0]}.",
    "changed": "The choir of {subject} meets on {days[1]} now.",
    "assistant": "For {subject} I would set the oven to {number} degrees.",
}
"""What is told of a subject, in fewer words than an Observer quotes of a message."""
_TELLING = ("other", "number", "day", "month", "goods", "adjective", "reason")
KINDS = ("name", "number", "date", "list", "opinion", "reason", "count", "change", "assistant")
"""`count`: told once each time, and asked for how often; `change`: what holds is told later, after
something else; `assistant`: said by the Actor. What the others are their names say."""
TIMES = 3
ROUNDS_LATER = 2
"""How many rounds of facts lie between what was so and what is so now."""


@dataclass(slots=True)
class _Planned:
    """A fact to be told, in one message or several."""

    kind: str
    values: Mapping[str, object]
    told_in: list[str] = field(default_factory=list)

    def fact(self) -> Told | None:
        """Return it once all of it was told."""
        is_count, is_change = self.kind == "count", self.kind == "change"
        if len(self.told_in) < (TIMES if is_count else 2 if is_change else 1):
            return None
        template = _TEMPLATES["changed" if is_change else self.kind]
        verbatim = template.format(**self.values)
        words = words_of(str(self.values["subject"]))
        for name in re.findall(r"{(\w+)", template):
            told = self.values[name]
            if name in _TELLING:
                words |= words_of(" ".join(told) if isinstance(told, list) else str(told))
        days = self.values["days"]
        former: frozenset[str] = frozenset()
        if is_change and isinstance(days, list):
            former, words = words | words_of(days[0]), words | words_of(days[1])
        times = TIMES if is_count else 1
        return Told(self.told_in[-1], verbatim, words, len(words), self.kind, times, former)


def plant(
    messages: Sequence[BaseMessage], *, every: int = 5
) -> tuple[list[BaseMessage], list[Fact]]:
    """Let some messages tell a fact, or a part of one, and nothing else.

    Whether an Observer finds a fact among other things is thereby left out: what is measured is how
    long it stays.

    Args:
        messages: A conversation.
        every: In which messages something is told, at most.
    """
    random = Random("kinds")  # noqa: S311 repeatable text, no secret
    statements, planned = _statements(random), []
    told: list[BaseMessage] = []
    fact, template = next(statements)
    since = every
    for message in messages:
        since += 1
        speaker = "ai" if fact.kind == "assistant" else "human"
        if since < every or message.type != speaker or not message.text:
            told.append(message)
            continue
        told.append(message.model_copy(update={"content": template.format(**fact.values)}))
        fact.told_in.append(str(message.id))
        planned.append(fact)
        since = 0
        fact, template = next(statements)
    whole = [each.fact() for each in {id(each): each for each in planned}.values()]
    return told, [each for each in whole if each is not None]


def _statements(random: Random) -> Iterator[tuple[_Planned, str]]:
    """Yield what is told, one after the other, without end."""
    subjects = _subjects(random)
    rounds: list[dict[str, _Planned]] = []
    while True:
        rounds.append({kind: _Planned(kind, _values(random, subjects)) for kind in KINDS})
        for kind, fact in rounds[-1].items():
            yield fact, _TEMPLATES[kind]
        for before in rounds[-TIMES:-1]:
            yield before["count"], _TEMPLATES["count"]
        if len(rounds) > ROUNDS_LATER:
            yield rounds[-1 - ROUNDS_LATER]["change"], _TEMPLATES["changed"]


def _subjects(random: Random) -> Iterator[str]:
    """Yield names that are not given twice."""
    names = [f"{a}{b}{c}" for a in _STARTS for b in _MIDDLES for c in _ENDS]
    random.shuffle(names)
    yield from names


def _values(random: Random, subjects: Iterator[str]) -> Mapping[str, object]:
    return {
        "subject": next(subjects),
        "other": next(subjects),
        "number": random.randint(1000, 9999),
        "day": random.randint(1, 28),
        "month": random.choice(_MONTHS),
        "goods": random.sample(_GOODS, 3),
        "adjective": random.choice(_ADJECTIVES),
        "reason": random.choice(_REASONS),
        "days": random.sample(_DAYS, 2),
    }
