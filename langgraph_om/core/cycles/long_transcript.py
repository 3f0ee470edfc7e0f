"""Split what is too long for one question over several, so that the Observer reads all of it.

Lines stay whole where they fit. A longer one is shown in parts whose labels count them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.text import MAX_TOKENS_PER_CHARACTER
from langgraph_om.core.observe.parse_answer import Parsed
from langgraph_om.core.observe.transcript import Transcript

MAX_QUESTIONS: Final = 8
"""How many questions the enormous messages of one observation take; the middle of what is longer is
left out, and told. All other messages are shown whole, in as many questions as that takes."""
MIN_QUESTIONS: Final = 2
"""The same for each enormous message, however many there are, and after failures."""
_SLACK: Final = 1.25
"""How much longer than the limit a transcript may be before it is worth another question."""
_SURE: Final = 1.1
"""The same for what a transcript counts at most by its messages, which may be some percent too low
where thousands of letters stand without a space."""
_LABEL_TOKENS: Final = 40
"""Set aside for the label of a part."""
_BREAK_WITHIN: Final = 0.2
"""A part ends at a line break or a blank in its last fifth, if there is one."""

_LEFT_EDGE = re.compile(r"\n(?=[^ \n])")
"""What separates the lines of a transcript: those of a content are indented."""
_DAY = "Date: "


@dataclass(frozen=True, slots=True)
class SplitTranscript:
    """A transcript as one question after the other shows it."""

    parts: Sequence[Transcript]
    left_out_tokens: int = 0
    """About how many tokens of the inside of enormous messages no question shows."""


def split_transcript(
    transcript: Transcript, tokens: int, count: Callable[[str], int], most: int = MAX_QUESTIONS
) -> SplitTranscript:
    """Split a transcript into as many parts as it takes to show each message whole.

    Args:
        transcript: The messages to read.
        tokens: About how many tokens one question holds.
        count: Returns the tokens of a text.
        most: How many questions the messages may take that are longer than one question, together.
            The middle of a longer one is left out; nothing else ever is.
    """
    text, most_tokens = transcript.text, transcript.most_tokens
    if len(text) * MAX_TOKENS_PER_CHARACTER <= tokens:
        return SplitTranscript([transcript])
    is_bounded = most_tokens is not None and most_tokens <= tokens * _SURE
    if is_bounded or count(text) <= tokens * _SLACK:
        return SplitTranscript([transcript])
    lines, left_out = _split_lines(_LEFT_EDGE.split(text), tokens, count, most)
    texts = list(_pack(lines, tokens))
    places = _find_places(transcript, texts)
    parts = [
        Transcript(
            shown,
            [
                attachment
                for attachment, place in zip(transcript.attachments, places, strict=True)
                if place == at
            ],
        )
        for at, shown in enumerate(texts)
    ]
    return SplitTranscript(parts, left_out)


def merge_answers(answers: Sequence[Parsed]) -> Parsed:
    """Return what the answers to the parts of one transcript say together.

    Args:
        answers: Usable answers, in the order of the parts; at least one.
    """
    if len(answers) == 1:
        return answers[0]
    text = _join_days([answer.observations for answer in answers if answer.observations])
    hints: dict[str, Any] = {
        name: next((hint for answer in reversed(answers) if (hint := getattr(answer, name))), None)
        for name in ("current_task", "suggested_response", "thread_title")
    }
    return Parsed("ok" if text else "none", text, **hints)


def _join_days(texts: Sequence[str]) -> str:
    """Join observations; a day that goes on is named once."""
    lines, day = list[str](), None
    for text in texts:
        for line in text.split("\n"):
            heading = observation_date(line)
            if heading is not None and heading == day:
                continue
            if heading is not None and lines and lines[-1]:
                lines.append("")
            day = heading or day
            lines.append(line)
    return "\n".join(lines)


def _find_places(transcript: Transcript, texts: Sequence[str]) -> list[int]:
    """Return in which text each attachment's placeholder stands first."""
    return [
        next((at for at, text in enumerate(texts) if attachment.label in text), 0)
        for attachment in transcript.attachments
    ]


class _Line(NamedTuple):
    """A line of a transcript, or a part of one that is longer than a question."""

    text: str
    tokens: int


def _split_lines(
    lines: Sequence[str], tokens: int, count: Callable[[str], int], most: int
) -> tuple[list[_Line], int]:
    """Split the lines that are longer than a question.

    Returns:
        All lines and parts, and how many tokens of the inside of long ones are left out.
    """
    counted = [_Line(line, 0 if line.startswith(_DAY) else count(line)) for line in lines]
    long = sum(line.tokens > tokens for line in counted)
    share = max(MIN_QUESTIONS, most // max(1, long))
    left_out, found = 0, list[_Line]()
    for line in counted:
        if line.tokens <= tokens:
            found.append(line)
            continue
        parts, skipped = _split_line(line, tokens, count, share)
        found += parts
        left_out += skipped
    return found, left_out


def _pack(lines: Sequence[_Line], tokens: int) -> Iterator[str]:
    """Yield texts of about so many tokens, each of which begins with its day."""
    day, packed, size = "", list[str](), 0
    for line, weight in lines:
        if line.startswith(_DAY):
            day = line
            if packed:
                packed.append(line)
            continue
        if packed and size + weight > tokens:
            yield "\n".join(_without_last_day(packed))
            packed, size = [], 0
        if not packed and day:
            packed = [day]
        packed.append(line)
        size += weight
    if packed:
        yield "\n".join(_without_last_day(packed))


def _without_last_day(lines: Sequence[str]) -> Sequence[str]:
    """Leave out a day that nothing follows."""
    return lines[:-1] if lines[-1].startswith(_DAY) else lines


def _split_line(
    line: _Line, tokens: int, count: Callable[[str], int], most: int
) -> tuple[list[_Line], int]:
    """Return the parts of a long line, with labels that count them.

    No more than `most`, the first and the last ones, and nothing between these is counted: a line
    may be a whole book.

    Returns:
        The parts, and about how many tokens are left out between them.
    """
    label, colon, body = line.text.partition(": ")
    if not colon:
        return [line], 0
    room, last = max(1, tokens - _LABEL_TOKENS), max(1, most // 4)
    slices = _slice(body, room, line.tokens)
    skipped = max(0, len(slices) - most)
    behind = slices[len(slices) - last :] if skipped else []
    before = slices[: most - last] if skipped else slices
    first = [part for each in before for part in split_text(each, room, count)]
    rest = [part for each in behind for part in split_text(each, room, count)]
    total = len(first) + skipped + len(rest)
    numbered = [*enumerate(first, 1), *enumerate(rest, total - len(rest) + 1)]
    is_whole = total <= most
    shown = numbered if is_whole else [*numbered[: most - last], *numbered[-last:]]
    texts = [f"{label} [part {number} of {total}]: {part}" for number, part in shown]
    parts = [_Line(text, count(text)) for text in texts]
    if is_whole:
        return parts, 0
    left_out = max(1, line.tokens - sum(part.tokens for part in parts))
    note = f"[about {left_out:,} tokens of this message are left out here]"
    edge = parts[most - last - 1]
    parts[most - last - 1] = edge._replace(text=f"{edge.text}\n{note}")
    return parts, left_out


def split_text(text: str, tokens: int, count: Callable[[str], int]) -> list[str]:
    """Split a text into pieces of so many tokens at most, which together are the text.

    Args:
        text: The text.
        tokens: Tokens of a piece; one character may count more.
        count: Says what a text counts.
    """
    total = count(text)
    if total <= tokens or len(text) < 2:  # noqa: PLR2004 a character is not split
        return [text]
    return [
        part for piece in _slice(text, tokens, total) for part in split_text(piece, tokens, count)
    ]


def _slice(text: str, tokens: int, total: int) -> list[str]:
    """Cut a text that counts too much into pieces of about so many tokens."""
    step = max(1, min(len(text) - 1, len(text) * tokens // total))
    pieces, start = list[str](), 0
    while start < len(text):
        stop = _find_break(text, start, min(len(text), start + step))
        pieces.append(text[start:stop])
        start = stop
    return pieces


def _find_break(text: str, start: int, stop: int) -> int:
    """Return where a piece ends: behind a line break or a blank near `stop`, if there is one."""
    if stop == len(text):
        return stop
    earliest = stop - int((stop - start) * _BREAK_WITHIN)
    for mark in ("\n", " "):
        at = text.rfind(mark, earliest, stop)
        if at >= 0:
            return at + 1
    return stop
