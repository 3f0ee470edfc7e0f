"""Write a transcript in which no content can pass for structure, and lines that show pauses.

Every line at the left edge is ours: a `Date:` line, or a label, then `: `, then content. So:

1. Further lines of a content are indented, and no label contains a line break or `: `.
2. Control characters and lone surrogates are removed before anything is measured or cut.
3. The tag in which the caller wraps a transcript is escaped once, over the whole text.
4. What is left out is stated with its size. Encoded bytes are never shown, wherever they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.dates import MONTHS, WEEKDAYS, describe_duration
from langgraph_om.core.content.parts import (
    EMPTY_RESULT,
    Attachment,
    Part,
    Placeholders,
    all_parts,
    call_names,
    find_attachments,
    plain_text,
    result_parts,
    role_of,
    unknown_block,
)
from langgraph_om.core.content.text import (
    as_label,
    escape_tags,
    omit_encoded,
    sanitize,
    tag_pattern,
    truncate_to_tokens,
    write_json_without_payloads,
    write_short_json,
)
from langgraph_om.core.record.window import Window
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.core.wire import MemoryRecord

CONVERSATION_TAG: Final = "conversation"
"""The tag a caller wraps a transcript in; no content can open or close it."""

_UNKNOWN_BLOCK_CHARACTERS: Final = 300

SPEAKER_NAMES: Final = {"user": "User", "assistant": "Assistant"}
"""What nearly all roles are at the start of a line."""
_OWN_LABELS: Final = frozenset({"date", "tool"})
"""Words that our own lines begin with."""

LEFT_EDGE: Final = re.compile(r"\n(?=[^ \n])")
"""What separates the lines of a transcript: those of a content are indented."""
MUCH_SAID: Final = 60
"""Tokens. Greetings, thanks and an "ok" have fewer; who says more tells something."""

_FURTHER_LINE = re.compile(r"\n(?=[^\n])")
_FURTHER_LINE_INDENT: Final = "\n  "
_WRAPPING_TAG = tag_pattern(CONVERSATION_TAG)


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A message and when it was written."""

    message: BaseMessage
    time: datetime | None
    """An aware time, or None when unknown; a naive one is in the transcript's zone."""
    before: str = ""
    """A line of its own before the message; empty for none."""
    number: int = 0
    """By which a mark may cite it; 0 for none."""


@dataclass(frozen=True, slots=True)
class TranscriptLimits:
    """How many tokens of each kind of content are shown in a transcript."""

    arguments_tokens: int = 2000
    """Of the arguments of one tool call."""

    result_tokens: int = 5000
    """Of one tool result, or one inline document."""

    text_tokens: int | None = None
    """Of one text of a participant; None shows it whole."""


DEFAULT_LIMITS: Final = TranscriptLimits()


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of some messages, and what is attached to them."""

    text: str
    """Not wrapped in a tag; empty when no message has anything to show."""
    attachments: Sequence[Attachment]
    """Those that can be sent, in the order of their placeholders in the text."""


def transcribe(
    messages: Sequence[TimedMessage],
    *,
    timezone: tzinfo,
    counter: TokenCounter,
    limits: TranscriptLimits = DEFAULT_LIMITS,
    hidden_tools: Collection[str] = (),
) -> Transcript:
    """Return what the Observer is shown of these messages.

    Args:
        messages: The messages, oldest first; system messages and removals are skipped.
        hidden_tools: Names of tools whose calls and results are left out.
    """
    texts = [plain_text(timed.message) for timed in messages]
    names: dict[str, str] = {}
    for timed, plain in zip(messages, texts, strict=True):
        for call_id, name in call_names(timed.message) if plain is None else ():
            names.setdefault(call_id, name)
    writer = _TranscriptWriter(names, timezone, counter.count_text, limits, hidden_tools)
    for timed, plain in zip(messages, texts, strict=True):
        writer.add(timed, plain)
    text = escape_tags("\n".join(writer.lines), _WRAPPING_TAG)
    return Transcript(text, find_attachments(writer.placeholders.parts))


def says_much(transcript: str, count: Callable[[str], int]) -> bool:
    """Return whether user and assistant say more in a transcript than may need no note."""
    said = 0
    for line in LEFT_EDGE.split(transcript):
        label, _, body = line.partition(": ")
        if label.partition(" ")[0] in SPEAKER_NAMES.values():
            said += count(body)
            if said > MUCH_SAID:
                return True
    return False


def format_day(day: date) -> str:
    """Return a day in the form of the transcript and the log, such as `Dec 4, 2025`."""
    return f"{MONTHS[day.month - 1][:3]} {day.day}, {day.year}"


def format_weekday(day: date) -> str:
    """Return a day with its weekday, such as `Thu, Dec 4, 2025`."""
    return f"{WEEKDAYS[day.weekday()][:3]}, {format_day(day)}"


def to_local(moment: datetime | None, timezone: tzinfo) -> datetime | None:
    """Return a time as the transcript writes it; a naive one is of that zone already."""
    if moment is None or moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(timezone)
    except OverflowError:  # At the very ends of the calendar.
        return None


class _TranscriptWriter:
    """Collects the lines, the current day, and the attachments that the lines name."""

    def __init__(
        self,
        names: Mapping[str, str],
        timezone: tzinfo,
        count: Callable[[str], int],
        limits: TranscriptLimits,
        hidden_tools: Collection[str],
    ) -> None:
        self.lines: list[str] = []
        self.placeholders = Placeholders()
        self._names = names
        self._timezone = timezone
        self._count = count
        self._limits = limits
        self._hidden_tools = hidden_tools
        self._day: date | None = None

    def add(self, timed: TimedMessage, plain: str | None) -> None:
        """Add the lines of a message, after a line with its day when that has changed.

        Args:
            plain: Its text, when it says nothing else.
        """
        message, moment = timed.message, to_local(timed.time, self._timezone)
        role = role_of(message)
        if role is None:
            return
        clock = f" ({moment.hour:02}:{moment.minute:02})" if moment else ""
        name = f"#{timed.number}" if timed.number else as_label(message.name)
        speaker = SPEAKER_NAMES.get(role) or _name_speaker(role)
        who = f"{speaker} {name}{clock}" if name else f"{speaker}{clock}"
        if plain is None:
            lines = [*filter(None, self._write_message(message, who, clock))]
        else:
            lines = [*filter(None, [_write_line(who, self._cut(plain, self._limits.text_tokens))])]
        if not lines:
            return
        day = moment.date() if moment else None
        if day != self._day or not self.lines:
            self.lines.append(f"Date: {format_day(day) if day else 'unknown'}")
            self._day = day
        if timed.before:
            self.lines.append(timed.before)
        self.lines.extend(lines)

    def _write_message(self, message: BaseMessage, who: str, clock: str) -> Iterator[str]:
        """Yield the lines of a message; some may be empty."""
        joint = "" if isinstance(message, AIMessage) else "\n"
        spoken: list[Part] = []
        for part in (*all_parts(message, self.placeholders), None):
            if part and part.kind != "reasoning" and not part.kind.startswith("tool-"):
                spoken.append(part)
                continue
            yield _write_line(who, self._join_speech(spoken, joint))
            spoken.clear()
            if (
                part
                and part.kind != "reasoning"
                and self._name_tool(part) not in self._hidden_tools
            ):
                yield self._write_tool_line(part, clock)

    def _join_speech(self, spoken: Sequence[Part], joint: str) -> str:
        """Join what was said without a break: texts, documents and placeholders."""
        runs: list[tuple[Part, list[str]]] = []
        for part in spoken:
            if part.kind == "text" and runs and runs[-1][0].kind == "text":
                runs[-1][1].append(_write_part(part))
            else:
                runs.append((part, [_write_part(part)]))
        pieces = []
        for part, texts in runs:
            text = sanitize(joint.join(texts))
            if part.is_document:
                text = self._cut_result(text)
            elif part.kind == "text":
                text = self._cut(text, self._limits.text_tokens)
            pieces.append(text)
        return "\n".join(filter(str.strip, pieces))

    def _write_tool_line(self, part: Part, clock: str) -> str:
        is_call = part.kind == "tool-call"
        if is_call:
            given = part.body
            given = given if isinstance(given, str) else write_json_without_payloads(given)[0]
            body = self._cut(given, self._limits.arguments_tokens)
        else:
            body = self._write_result(part.body)
        name = self._name_tool(part)
        call_id = f" [{part.call_id}]" if part.call_id else ""
        label = f"Tool {part.kind.removeprefix('tool-')} {name}{clock}{call_id}"
        return _write_line(label, body) or f"{label}: {'' if is_call else EMPTY_RESULT}"

    def _name_tool(self, part: Part) -> str:
        return part.name or self._names.get(part.call_id) or "tool"

    def _write_result(self, content: object) -> str:
        """Return a tool result within its limit; placeholders of attachments are kept."""
        if content is not None and not isinstance(content, str | list):
            return self._cut_result(write_json_without_payloads(content)[0])
        parts = list(result_parts(content, self.placeholders))
        text = omit_encoded(sanitize("\n".join(map(_write_part, parts))))
        shown = self._cut_result(text)
        if shown == text:
            return text
        marks = [_write_part(part) for part in parts if not _is_long(part)]
        texts = "\n".join(_write_part(part) for part in parts if _is_long(part))
        return "\n".join((self._cut_result(texts), *marks)) if marks and texts else shown

    def _cut_result(self, text: str) -> str:
        return self._cut(text, self._limits.result_tokens)

    def _cut(self, text: str, tokens: int | None) -> str:
        text = omit_encoded(sanitize(text))
        return text if tokens is None else truncate_to_tokens(text, tokens, self._count)


def _name_speaker(role: str) -> str:
    """Return the role for the start of a line; one that reads like our own labels is prefixed."""
    if role.casefold().partition(" ")[0] in _OWN_LABELS:
        return f"Participant {role}"
    return role[0].upper() + role[1:]


def _write_line(label: str, body: str) -> str:
    """Return the labelled lines of a content as one text; empty when it is."""
    text = body.lstrip("\n").rstrip()
    if "\n" in text:
        text = _FURTHER_LINE.sub(_FURTHER_LINE_INDENT, text)
    return text and f"{label}: {text}"


def _write_part(part: Part) -> str:
    if part.kind != "other":
        return str(part.body)
    label, rest = unknown_block(part.body)
    return f"{label} {write_short_json(rest, _UNKNOWN_BLOCK_CHARACTERS)}"


def _is_long(part: Part) -> bool:
    """Return whether a part may be long, unlike a placeholder."""
    return part.kind == "text" or part.is_document


# --- Pauses ---------------------------------------------------------------------------------------


SHORTEST: Final = timedelta(minutes=10)
"""The shortest pause that is shown, unless the option sets another."""
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


def find_gaps(settings: Settings, record: MemoryRecord, window: Window) -> Mapping[str, str]:
    """Return the line of each user message that follows a pause, by key; none where they are off.

    Answers count by a time of their own alone: one that has none is first seen when the
    conversation goes on.
    """
    if settings.shortest_gap is None:
        return {}
    gaps: dict[str, str] = {}
    last: datetime | None = None
    shown = [(entry.key, entry.message) for entry in window.entries]
    strays = len(window.strays.messages)
    for key, message in [*shown[:strays], *window.observed, *shown[strays:]]:
        stamps = {} if isinstance(message, AIMessage) else record["stamps"]
        time = settings.time_of(key, message, stamps)
        if time is None:
            continue
        is_late = last is not None and time - last >= settings.shortest_gap
        if isinstance(message, HumanMessage) and last is not None and is_late:
            gaps[key] = write_line(time - last, time.astimezone(settings.timezone))
        last = time
    return gaps


def mark_gaps(settings: Settings, messages: Sequence[TimedMessage]) -> Sequence[TimedMessage]:
    """Return what the Observer is shown, with the same lines where messages have times."""
    if settings.shortest_gap is None:
        return messages
    marked, last = list[TimedMessage](), None
    for timed in messages:
        time = to_local(timed.time, settings.timezone)
        pause = time - last if time is not None and last is not None else timedelta()
        if time is not None and pause >= settings.shortest_gap and timed.message.type == "human":
            timed = replace(timed, before=write_line(pause, time))  # noqa: PLW2901 marked
        marked.append(timed)
        last = time or last
    return marked


def write_line(pause: timedelta, time: datetime) -> str:
    """Return the line after a pause, such as `[2 days later: Mon, May 4, 2026, 09:12]`."""
    unit, word = (_HOUR, "hour") if pause >= _HOUR else (_MINUTE, "minute")
    count = pause // unit
    many = "s" * (count > 1)
    length = describe_duration(pause.days) if pause >= _DAY else f"{count} {word}{many}"
    return f"[{length} later: {format_weekday(time.date())}, {time:%H:%M}]"
