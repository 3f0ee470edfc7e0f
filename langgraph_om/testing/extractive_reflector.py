"""A Reflector offline: it condenses a log by keeping and shortening its weightiest items."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing.offline import OfflineChatModel, Reply, Role
from langgraph_om.testing.quoting import shorten, weigh
from langgraph_om.testing.sections import (
    NO_OBSERVATIONS,
    find_last_block,
    read_sections,
    write_sections,
)

_CAPS = (20, 16, 12, 10, 8)
"""The most words of an item, tried one after the other."""
_DAYS_PER_WEIGHT = 4  # So many days older, an item of the same weight counts one less.
NUMBERED = re.compile(r"\[(\d+) ~(\d+)[^\]]*\] (.*)")
_QUOTES = frozenset('"`“„«「『')
"""Words left out within a quotation would change it."""
_LOG_ITEM = re.compile(r"[*-] (?:(🔴|🟡|🟢|✅)\ufe0f? ?)?(?:\((\d{1,2}:\d\d)\) ?)?(.*)")


@dataclass(frozen=True, slots=True)
class _LogItem:
    """One top-level observation of a log."""

    position: int
    day: int
    date: str
    age: int
    mark: str
    time: str
    text: str

    def rank(self, cap: int) -> tuple[int, int]:
        """Return what orders the items by what they tell, the newer one last of two equals."""
        return _DAYS_PER_WEIGHT * weigh(self.text, cap) - self.age, self.position

    def write(self, cap: int) -> str:
        """Return the item in `cap` words, two fewer for each newer day, eight at least."""
        stamp = f"({self.time})" if self.time else ""
        parts = (
            "*",
            self.mark,
            stamp,
            shorten(self.text, max(_CAPS[-1], cap - 2 * self.age)),
        )
        return " ".join(part for part in parts if part)


class ExtractiveReflector(OfflineChatModel):
    """Condense an observation log by keeping its weightiest items; no model behind it.

    It reads the last `<observation-log>` block of its messages and keeps the dates, shortens every
    🔴 and ✅ item (older days more, articles and the like first), drops 🟢 and sub-items, and adds
    the newest 🟡 while there is room. Below eight words an item says nothing: rather than cut it
    shorter, those with the fewest numbers, names and long words are left out. Of a log with
    numbered items it does the same by edits.

        >>> log = '''<observation-log>
        ... Date: Dec 4, 2025
        ... * 🔴 (14:30) User: my dog Rex turned three last week
        ... * 🟢 (14:31) Assistant: wrote a long list of the best walks around the lake
        ... </observation-log>'''
        >>> print(ExtractiveReflector().invoke(log).content)
        <observations>
        Date: Dec 4, 2025
        * 🔴 (14:30) User: my dog Rex turned three last week
        </observations>
    """

    ratio: float = 0.5
    """The part of the log's length to stay under."""

    def __init__(self, *, ratio: float = 0.5, delay: float = 0.0, **kwargs: Any) -> None:
        """Set how much is kept.

        Args:
            ratio: The part of the log's length to stay under, between 0 and 1.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has.
        """
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < 1:
            msg = f"`ratio` is {ratio!r}; pass a number between 0 and 1, such as 0.5."
            raise ConfigurationError(msg)
        super().__init__(ratio=ratio, delay=delay, **kwargs)

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("reflector", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the condensed log.

        Args:
            messages: The messages of one Reflector call.
        """
        log = find_last_block(messages, "observation-log")[1].strip()
        sections = read_sections(log)
        if any(map(NUMBERED.match, log.split("\n"))):
            return "\n".join(self._edit_all([body for _, body in sections] or [log]))
        if sections:
            return write_sections([(tag, self._answer(body.strip())) for tag, body in sections])
        return self._answer(log)

    def _answer(self, log: str) -> str:
        """Return the condensed observations of one conversation."""
        items = _read_log(log)
        if not items:
            return NO_OBSERVATIONS
        text = self._condense(items, len(log))
        if not text or len(text) >= len(log):
            text = _shorten(items[-1], len(log))
        return f"<observations>\n{text}\n</observations>"

    def _edit_all(self, logs: list[str]) -> list[str]:
        """Return edits of all conversations, the quietest of which comes first.

        Where something of each would be too much, nothing is left of the quietest.
        """
        edits = [self._edit(log) for log in logs]
        over = sum(self._measure(log) for log in logs) - int(sum(map(len, logs)) * self.ratio)
        for at, log in enumerate(logs[:-1]):
            if over <= 0:
                break
            over -= self._measure(log)
            edits[at] = [f"drop {', '.join(item[1] for item in _find_numbered(log))}"]
        return [line for part in edits for line in part]

    def _measure(self, log: str) -> int:
        """Return the length of what is left of a conversation's numbered items."""
        plain = _write_plain(log)
        return len(self._condense(_read_log(plain), len(plain)))

    def _edit(self, log: str) -> list[str]:
        """Return edits of one conversation's numbered items."""
        numbered = _find_numbered(log)
        plain = _write_plain(log)
        items = _read_log(plain)
        if len(items) != len(numbered):
            return []
        chosen, cap = self._choose(items, len(plain))
        kept = {item.position: item.write(cap) for item in chosen}
        dropped = [each[1] for at, each in enumerate(numbered) if at not in kept]
        edits = [f"drop {', '.join(dropped)}"] if dropped else []
        for at, text in kept.items():
            number, _, before = numbered[at].groups()
            if len(text) < len(before) and _QUOTES.isdisjoint(before):
                edits.append(f"{number}: {text}")
        if not edits:
            first = items[0]
            edits.append(f"{numbered[0][1]}: * {first.mark} {first.text.split()[0]}")
        return edits

    def _condense(self, items: list[_LogItem], size: int) -> str:
        return _write_log(*self._choose(items, size))

    def _choose(self, items: list[_LogItem], size: int) -> tuple[list[_LogItem], int]:
        """Return the items to keep, and the words of each."""
        target = int(size * self.ratio)
        weighty = [item for item in items if item.mark in {"🔴", "✅"}]
        cap = _CAPS[-1]
        for cap in _CAPS:
            text = _write_log(weighty, cap)
            if len(text) <= target:
                break
        else:
            # No item can say what it says in fewer words: the lightest ones are left out.
            return _choose_heaviest(weighty, cap, target) or weighty[-1:], cap
        lighter = [item for item in items if item.mark in {"🟡", ""}]
        added = _choose_newest(lighter, cap, target - len(text))
        if not weighty and not added:
            added = _choose_newest(items, cap, target)
        chosen = {item.position for item in (*weighty, *added)}
        return [item for item in items if item.position in chosen], cap


def _find_numbered(log: str) -> list[re.Match[str]]:
    return [item for line in log.split("\n") if (item := NUMBERED.match(line))]


def _write_plain(log: str) -> str:
    """Return a log without the numbers of its items."""
    return "\n".join(NUMBERED.sub(r"\3", line) for line in log.split("\n"))


def _read_log(log: str) -> list[_LogItem]:
    """Read the top-level items of a log, or its lines when it has no list at all."""
    dates: list[str] = [""]
    found: list[tuple[int, str, str, str]] = []
    prose: list[tuple[int, str, str, str]] = []
    for line in log.split("\n"):
        if line.startswith("Date:"):
            if line.strip() != dates[-1]:
                dates.append(line.strip())
        elif item := _LOG_ITEM.match(line):
            found.append((len(dates) - 1, item[1] or "", item[2] or "", item[3].strip()))
        elif line.strip() and not line.startswith((" ", "<")):
            prose.append((len(dates) - 1, "", "", line.strip()))
    last = len(dates) - 1
    return [
        _LogItem(position, day, dates[day], last - day, mark, stamp, text)
        for position, (day, mark, stamp, text) in enumerate(found or prose)
        if text
    ]


def _write_log(items: list[_LogItem], cap: int) -> str:
    lines: list[str] = []
    day = -1
    for item in items:
        if item.day != day and item.date:
            lines.append(item.date)
        day = item.day
        lines.append(item.write(cap))
    return "\n".join(lines)


def _choose_heaviest(items: list[_LogItem], cap: int, room: int) -> list[_LogItem]:
    """Return the items that tell most and fit into so many characters, in their order."""
    kept: list[_LogItem] = []
    days: set[int] = set()
    for item in sorted(items, key=lambda item: item.rank(cap), reverse=True):
        heading = 0 if item.day in days or not item.date else len(item.date) + 1
        size = len(item.write(cap)) + 1 + heading
        if size <= room:
            room -= size
            kept.append(item)
            days.add(item.day)
    return sorted(kept, key=lambda item: item.position)


def _choose_newest(items: list[_LogItem], cap: int, room: int) -> list[_LogItem]:
    """Return the newest items that fit into so many characters, oldest first."""
    kept: list[_LogItem] = []
    for item in reversed(items):
        heading = 0 if kept and kept[-1].day == item.day else len(item.date) + 1
        room -= len(item.write(cap)) + 1 + heading
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def _shorten(item: _LogItem, size: int) -> str:
    """Return something of the item that is shorter than `size`, and never nothing."""
    word = item.text.split()[0]
    dated = [item.date, item.write(_CAPS[-1])] if item.date else [item.write(_CAPS[-1])]
    choices = (
        "\n".join(dated),
        item.write(_CAPS[-1]),
        f"* {item.mark} {word}",
        f"* {word}",
        word,
    )
    return next((text for text in choices if len(text) < size), word[: max(1, size - 1)])
