"""A transcript holds only what was really said and done, and no content can pass for its structure.

Every line at the left edge is ours: a `Date:` line, or a label, then `: `, then content. So:

1. Further lines of a content are indented, and no label holds a line break or `: ` of its own.
2. Control characters and lone surrogates are gone before anything is measured or cut.
3. The tag in which the caller wraps a transcript is escaped once, over the whole text.
4. What is left out is named with its size. Bytes of attachments are never shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.bounded import bounded_json, clean, cut, omit_middle, one_line, short_json
from langgraph_om.core.media import (
    ATTACHMENT_KINDS,
    CALL_CHUNK_TYPES,
    CALL_TYPES,
    REASONING_TYPES,
    RESULT_TYPES,
    TEXT_KEYS,
    attachment_kind,
    attachment_label,
    block_type,
    inline_document,
    reasoning_text,
    unwrapped,
)
from langgraph_om.core.tags import tag_pattern
from langgraph_om.core.tokens import TokenCounter

__all__ = [
    "CONVERSATION_TAG",
    "TimedMessage",
    "TranscriptLimits",
    "format_day",
    "render_transcript",
]

CONVERSATION_TAG: Final = "conversation"
"""The tag a caller wraps a transcript in; no content can open or close it."""

EMPTY_RESULT: Final = "(empty result)"
UNKNOWN_BLOCK_CHARACTERS: Final = 300

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

SILENT_TYPES: Final = CALL_CHUNK_TYPES | {"redacted_thinking", "input_json_delta"}
ROLES: Final = {"user": "User", "human": "User", "assistant": "Assistant", "ai": "Assistant"}
UNHEARD_ROLES: Final = frozenset({"system", "developer", "remove"})

FURTHER_LINE = re.compile(r"\n(?=[^\n])")
FURTHER_LINE_INDENT: Final = "\n  "
WRAPPING_TAG = tag_pattern(CONVERSATION_TAG)


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A message and when it was said."""

    message: BaseMessage
    time: datetime | None
    """An aware time, or None when it is not known; a naive one is read in the transcript's zone."""


@dataclass(frozen=True, slots=True)
class TranscriptLimits:
    """How many tokens of each kind of content a transcript shows."""

    arguments_tokens: int = 2000
    """Of the arguments of one tool call."""

    result_tokens: int = 5000
    """Of one tool result, one inline document, or one piece of reasoning."""

    text_tokens: int | None = None
    """Of one text of a participant; None shows it whole."""


DEFAULT_LIMITS: Final = TranscriptLimits()


def format_day(day: date) -> str:
    """The day as the transcript and the log write it, such as `Dec 4, 2025`.

    Args:
        day: The calendar day.

    Returns:
        The day in English, whatever the locale of the process.
    """
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def render_transcript(
    messages: Sequence[TimedMessage],
    *,
    timezone: tzinfo,
    counter: TokenCounter,
    limits: TranscriptLimits = DEFAULT_LIMITS,
) -> str:
    """What the Observer reads of these messages.

    Args:
        messages: The messages, oldest first; system messages and removals are passed over.
        timezone: The zone in which days and times are written.
        counter: Measures the texts that have a limit.
        limits: How much of each kind of content is shown.

    Returns:
        The transcript, without a tag around it; empty when no message has anything to show.
    """
    transcript = _Transcript(_tool_names(messages), timezone, counter.count_text, limits)
    for timed in messages:
        transcript.add(timed)
    return WRAPPING_TAG.sub("&lt;", "\n".join(transcript.lines))


# --- What a message holds ---


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of a message; `text`, `inline` and `document` are spoken in one breath."""

    kind: str
    """One of `text`, `inline`, `document`, `reasoning`, `call`, `result` and `error`."""

    body: object
    name: str = ""
    call_id: str = ""


def _blocks(content: object) -> list[object]:
    """The content blocks of a message, with wrappers around foreign ones taken off."""
    blocks = content if isinstance(content, list) else [content]
    return [unwrapped(block) for block in blocks if block is not None]


def _dicts(value: object) -> list[dict[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _call(call: Mapping[Any, Any]) -> _Piece:
    """A tool call, in whichever form; arguments that could not be parsed come with the error."""
    arguments: object = next(
        (call[key] for key in ("args", "input", "arguments") if key in call), {}
    )
    if error := call.get("error"):
        note = omit_middle(error if isinstance(error, str) else "", UNKNOWN_BLOCK_CHARACTERS)
        arguments = f"{arguments if isinstance(arguments, str) else ''}\n[invalid: {note}]"
    call_id = call.get("call_id") or call.get("id")
    return _Piece("call", arguments, one_line(call.get("name")) or "tool", one_line(call_id))


def _block_result(block: Mapping[Any, Any]) -> _Piece:
    """A result that stands among the content blocks of a message."""
    failed = block.get("is_error") is True or block.get("status") == "error"
    keys = ("content", "output")
    body = next((block[key] for key in keys if key in block), None)
    ids = (block.get(key) for key in ("tool_use_id", "tool_call_id", "call_id"))
    call_id = next(filter(None, map(one_line, ids)), "")
    return _Piece("error" if failed else "result", body, one_line(block.get("name")), call_id)


def _listed_calls(message: BaseMessage) -> list[_Piece]:
    """The calls that a message lists beside its content, those with unusable arguments too."""
    invalid = _dicts(getattr(message, "invalid_tool_calls", None))
    calls = [
        *_dicts(getattr(message, "tool_calls", None)),
        *({**call, "error": call.get("error") or "arguments"} for call in invalid),
    ]
    legacy = message.additional_kwargs.get("function_call")
    return [_call(call) for call in calls or _dicts([legacy])]


def _tool_names(messages: Sequence[TimedMessage]) -> dict[str, str]:
    """The name of the tool behind each call id."""
    names: dict[str, str] = {}
    for timed in messages:
        blocks = _dicts(_blocks(timed.message.content))
        called = (_call(block) for block in blocks if block_type(block) in CALL_TYPES)
        for call in (*_listed_calls(timed.message), *called):
            names.setdefault(call.call_id, call.name)
    names.pop("", None)
    return names


def _speaker(message: BaseMessage) -> str | None:
    """Whose words a message holds; None when it is no part of the conversation."""
    if isinstance(message, SystemMessage | RemoveMessage):
        return None
    if isinstance(message, HumanMessage | AIMessage):
        return "User" if isinstance(message, HumanMessage) else "Assistant"
    role = one_line(message.role if isinstance(message, ChatMessage) else message.type)
    lowered = role.casefold()
    if lowered in UNHEARD_ROLES:
        return None
    # A role is free text: one that reads like a label of ours is set apart from it.
    if not role or lowered == "date" or lowered.startswith("tool "):
        return f"Participant {role}".rstrip()
    return ROLES.get(lowered, role[0].upper() + role[1:])


class _Transcript:
    """The lines written so far, the day they stand under, and the attachments counted."""

    def __init__(
        self,
        names: Mapping[str, str],
        timezone: tzinfo,
        count: Callable[[str], int],
        limits: TranscriptLimits,
    ) -> None:
        self.lines: list[str] = []
        self._names = names
        self._timezone = timezone
        self._count = count
        self._limits = limits
        self._day: str | None = None
        self._numbers: Counter[str] = Counter()

    def add(self, timed: TimedMessage) -> None:
        """Write the lines of one message, and before them its day when that is a new one."""
        message, moment = timed.message, self._local(timed.time)
        speaker = _speaker(message)
        if speaker is None:
            return
        clock = f" ({moment:%H:%M})" if moment else ""
        lines = list(self._message_lines(message, speaker, clock))
        if not lines:
            return
        day = format_day(moment) if moment else "unknown"
        if day != self._day:
            self.lines.append(f"Date: {day}")
            self._day = day
        self.lines.extend(lines)

    def _local(self, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo is None:
            return moment
        try:
            return moment.astimezone(self._timezone)
        except OverflowError:  # At the very ends of the calendar.
            return None

    def _message_lines(self, message: BaseMessage, speaker: str, clock: str) -> Iterator[str]:
        if isinstance(message, ToolMessage | FunctionMessage):
            call_id = one_line(getattr(message, "tool_call_id", ""))
            kind = "error" if getattr(message, "status", "") == "error" else "result"
            result = _Piece(kind, message.content, one_line(message.name), call_id)
            yield self._tool_line(result, clock)
            return
        name = one_line(message.name)
        who = f"{speaker} {name}{clock}" if name else f"{speaker}{clock}"
        joint = "" if isinstance(message, AIMessage) else "\n"
        spoken: list[_Piece] = []
        for piece in (*self._pieces(message), _Piece("end", "")):
            if piece.kind in {"text", "inline", "document"}:
                spoken.append(piece)
                continue
            yield from _line(who, self._speech(spoken, joint))
            spoken.clear()
            if piece.kind == "reasoning":
                text = self._cut_result(str(piece.body))
                yield from _line(f"{who} reasoning", text)
            elif piece.kind != "end":
                yield self._tool_line(piece, clock)

    def _pieces(self, message: BaseMessage) -> Iterator[_Piece]:
        """The content of a message in its order, then the calls that only its list has."""
        listed = _listed_calls(message)
        shown = {call.call_id for call in listed}
        pieces = [
            piece for block in _blocks(message.content) for piece in self._block_pieces(block)
        ]
        if all(piece.kind != "reasoning" for piece in pieces):
            extra = message.additional_kwargs
            text = reasoning_text(extra.get("reasoning_content") or extra.get("reasoning"))
            yield _Piece("reasoning", text)
        for piece in pieces:
            # A call among the blocks is usually one of the listed ones in the provider's form.
            if piece.kind == "call":
                if piece.call_id in shown or (listed and not piece.call_id):
                    continue
                shown |= {piece.call_id} - {""}
            yield piece
        yield from listed

    def _block_pieces(self, block: object) -> Iterator[_Piece]:
        """The piece that a content block is, if it shows anything."""
        if not isinstance(block, dict):
            yield _Piece("text", block) if isinstance(block, str) else self._unknown(block, "")
            return
        stated = block_type(block)
        if stated in CALL_TYPES:
            yield _call(block)
        elif stated in RESULT_TYPES or stated.endswith("_tool_result"):
            yield _block_result(block)
        elif stated in REASONING_TYPES:
            yield _Piece("reasoning", reasoning_text(block))
        elif stated not in SILENT_TYPES:
            yield self._plain_piece(block, stated)

    def _plain_piece(self, block: Mapping[Any, Any], stated: str) -> _Piece:
        """A block that is spoken: a text, a document, an attachment or something unknown."""
        text = block.get(TEXT_KEYS.get(stated, ""))
        if isinstance(text, str):
            return _Piece("text", text)
        if stated not in ATTACHMENT_KINDS:
            return self._unknown(block, stated)
        kind = attachment_kind(block, stated)
        if kind == "File" and (document := inline_document(block)):
            return _Piece("document", document)
        self._numbers[kind] += 1
        label = attachment_label(block)
        number = f"{kind} #{self._numbers[kind]}"
        return _Piece("inline", f"[{number}: {label}]" if label else f"[{number}]")

    @staticmethod
    def _unknown(block: object, stated: str) -> _Piece:
        if isinstance(block, dict):
            block = {key: value for key, value in block.items() if key != "type"}
        shown = short_json(block, UNKNOWN_BLOCK_CHARACTERS)
        return _Piece("inline", f"[{one_line(stated) or 'block'}] {shown}")

    def _speech(self, spoken: Sequence[_Piece], joint: str) -> str:
        """What was said in one breath: texts, with documents and placeholders between them."""
        runs: list[tuple[str, list[str]]] = []
        for piece in spoken:
            if piece.kind == "text" and runs and runs[-1][0] == "text":
                runs[-1][1].append(str(piece.body))
            else:
                runs.append((piece.kind, [str(piece.body)]))
        parts = []
        for kind, texts in runs:
            text = clean(joint.join(texts))
            if kind == "document":
                text = self._cut_result(text)
            elif kind == "text" and self._limits.text_tokens is not None:
                text = cut(text, self._limits.text_tokens, self._count)
            parts.append(text)
        return "\n".join(filter(str.strip, parts))

    def _tool_line(self, piece: _Piece, clock: str) -> str:
        """The line of a call, a result or an error."""
        body = self._arguments(piece.body) if piece.kind == "call" else self._result(piece.body)
        name = piece.name or self._names.get(piece.call_id) or "tool"
        call_id = f" [{piece.call_id}]" if piece.call_id else ""
        empty = "" if piece.kind == "call" else EMPTY_RESULT
        label = f"Tool {piece.kind} {name}{clock}{call_id}"
        return next(_line(label, body), f"{label}: {empty}")

    def _arguments(self, arguments: object) -> str:
        tokens = self._limits.arguments_tokens
        if isinstance(arguments, str):
            return cut(clean(arguments), tokens, self._count)
        return bounded_json(arguments, tokens, self._count)

    def _result(self, content: object) -> str:
        """A tool result within its limit; placeholders of attachments stay when it is cut."""
        if content is not None and not isinstance(content, str | list):
            return bounded_json(content, self._limits.result_tokens, self._count)
        # What a result may not hold, such as another result, is shown as unknown.
        pieces = [
            piece
            if piece.kind in {"text", "inline", "document"}
            else self._unknown(block, piece.kind)
            for block in _blocks(content)
            for piece in self._block_pieces(block)
        ]
        whole = clean("\n".join(str(piece.body) for piece in pieces))
        shown = self._cut_result(whole)
        if shown == whole:
            return whole
        marks = [str(piece.body) for piece in pieces if piece.kind == "inline"]
        texts = "\n".join(str(piece.body) for piece in pieces if piece.kind != "inline")
        return "\n".join((self._cut_result(texts), *marks)) if marks and texts else shown

    def _cut_result(self, text: str) -> str:
        return cut(clean(text), self._limits.result_tokens, self._count)


def _line(label: str, body: str) -> Iterator[str]:
    """The labelled lines of a content, or none when there is nothing in it."""
    text = body.lstrip("\n").rstrip()
    if text:
        yield f"{label}: {FURTHER_LINE.sub(FURTHER_LINE_INDENT, text)}"
