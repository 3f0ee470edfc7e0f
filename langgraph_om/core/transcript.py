"""A transcript holds only what was really said and done, and no content can pass for its structure.

Every line at the left edge is ours: a `Date:` line, or a label, then `: `, then content. So:

1. Further lines of a content are indented, and no label holds a line break or `: ` of its own.
2. Control characters and lone surrogates are gone before anything is measured or cut.
3. The tag in which the caller wraps a transcript is escaped once, over the whole text.
4. What is left out is named with its size. Bytes of attachments are never shown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langgraph_om.core.tokens import TokenCounter

CONVERSATION_TAG: Final = "conversation"
"""The tag a caller wraps a transcript in; no content can open or close it."""

EMPTY_RESULT: Final = "(empty result)"
UNKNOWN_BLOCK_CHARACTERS: Final = 300
LABEL_CHARACTERS: Final = 120
CHARACTERS_PER_TOKEN_CEILING: Final = 16
"""No text longer than this many characters per allowed token is counted: it is cut unread."""
SEARCH_STEPS: Final = 12
WHOLE_VALUE_NODES: Final = 20_000
LARGE_INTEGER_BITS: Final = 4096
"""Python refuses to write out an integer of thousands of digits."""
WRAPPED_BLOCKS: Final = 3

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

KINDS: Final = {
    "image": "Image",
    "image_url": "Image",
    "input_image": "Image",
    "audio": "Audio",
    "audio_url": "Audio",
    "input_audio": "Audio",
    "video": "Video",
    "video_url": "Video",
    "input_video": "Video",
    "file": "File",
    "input_file": "File",
    "document": "File",
    "text-plain": "File",
    "media": "File",
}
KINDS_BY_MIME: Final = {"image": "Image", "audio": "Audio", "video": "Video"}
NAME_KEYS: Final = ("filename", "file_name", "name", "title")
URL_KEYS: Final = ("url", "uri", "file_uri", "file_url", "file_data", "data", *KINDS)
MIME_KEYS: Final = ("mime_type", "media_type", "mimeType", "format")
NESTED_KEYS: Final = ("extras", "metadata", "source", *KINDS)
TEXT_KEYS: Final = {"text": "text", "input_text": "text", "output_text": "text"} | {
    "refusal": "refusal"
}
REASONING_TYPES: Final = frozenset({"reasoning", "thinking", "reasoning_content"})
REASONING_KEYS: Final = (
    "reasoning",
    "thinking",
    "reasoning_content",
    "summary",
    "text",
    "content",
)
CALL_TYPES: Final = frozenset(
    {"tool_use", "tool_call", "function_call", "invalid_tool_call"}
    | {"server_tool_call", "server_tool_use", "mcp_tool_use"}
)
RESULT_TYPES: Final = frozenset({"tool_result", "server_tool_result", "function_call_output"})
SILENT_TYPES: Final = frozenset(
    {"redacted_thinking", "tool_call_chunk", "server_tool_call_chunk", "input_json_delta"}
)
ROLES: Final = {"user": "User", "human": "User", "assistant": "Assistant", "ai": "Assistant"}
UNHEARD_ROLES: Final = frozenset({"system", "developer", "remove"})

LINE_BREAKS: Final = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
"""What ends a line besides a line feed."""
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]+")
SURROGATE = re.compile("[\ud800-\udfff]")
SPACES = re.compile(r"\s+")
FURTHER_LINE = re.compile(r"\n(?=[^\n])")
FURTHER_LINE_INDENT: Final = "\n  "
LABEL_END = re.compile(r":(?=\s|$)")
ENCODED = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_=-]{40,}")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")
# Possessive, so that a long run of spaces is read once; invisible characters count as spaces.
UNSEEN = r"[\s\u200b-\u200f\u2060\ufeff\xad]*+"
WRAPPING_TAG = re.compile(rf"<(?={UNSEEN}/?+{UNSEEN}{CONVERSATION_TAG})", re.IGNORECASE)


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
    transcript = _Transcript(_tool_names(messages), timezone, counter, limits)
    for timed in messages:
        transcript.add(timed)
    return WRAPPING_TAG.sub("&lt;", "\n".join(transcript.lines))


# --- Text that can be neither mistaken for structure nor broken ---


def _clean(text: str, line_break: str = "\n") -> str:
    """`text` with plain line breaks, without control characters, encodable as UTF-8."""
    for foreign in LINE_BREAKS:
        text = text.replace(foreign, line_break)
    text = CONTROL.sub("", text)
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def _one_line(value: object) -> str:
    """A name, an id or another short label, which can not end the label it stands in."""
    if not isinstance(value, str | int):
        return ""
    # A label is short, so only the head of a long one is worth reading.
    text = SPACES.sub(" ", _clean(str(value)[: LABEL_CHARACTERS * 10])).strip()
    text = LABEL_END.sub("", text.replace("[", "(").replace("]", ")")).strip()
    return text if len(text) <= LABEL_CHARACTERS else f"{text[:LABEL_CHARACTERS]}…"


def _omit_middle(text: str, kept: int) -> str:
    """`text` with the middle left out so that `kept` characters stay, a fifth of them the end."""
    if kept >= len(text):
        return text
    tail = kept // 5
    note = f"[... {len(text) - kept:,} characters omitted ...]"
    return "\n".join(filter(None, (text[: kept - tail], note, text[len(text) - tail :])))


def _cut(text: str, tokens: int, counter: TokenCounter) -> str:
    """`text`, or as much of its head and end as `tokens` allow, in a bounded number of counts."""
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    count = counter.count_text(text[:high])
    if high == len(text) and count <= tokens:
        return text
    # Between a length known to fit and one known not to; the first guess is proportional.
    low, guess = 0, min(high, high * tokens // max(count, 1))
    for _ in range(SEARCH_STEPS):
        if counter.count_text(_omit_middle(text, guess)) <= tokens:
            low = guess
        else:
            high = guess
        if high - low <= max(16, low // 50):
            break
        guess = (low + high) // 2
    return _omit_middle(text, low)


# --- Values as bounded JSON ---


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How much of a value an outline shows; `nodes` are shared fairly among siblings."""

    characters: int
    entries: int = 400
    depth: int = 6
    nodes: int = 2000
    encoded: bool = True
    """Whether long strings that look like encoded bytes show their head too."""


OUTLINES: Final = (
    *(_Bounds(characters) for characters in (2560, 1280, 640, 320, 160, 80, 40, 20)),
    _Bounds(20, entries=100, depth=4, nodes=400),
    _Bounds(20, entries=20, depth=3, nodes=100),
)
KEY_BOUNDS: Final = _Bounds(160)
UNKNOWN_BLOCK_BOUNDS: Final = _Bounds(80, entries=20, depth=4, nodes=60, encoded=False)


def _describe(value: object) -> object:
    """What stands for a value that JSON does not have; never an address in memory."""
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value):,} bytes]"
    return f"[{type(value).__name__}]"


def _whole_json(value: object) -> str | None:
    """`value` as JSON, or None when it is recursive, too large to walk, or has no JSON."""
    waiting, nodes = [value], 0
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict | list | tuple):
            continue
        nodes += len(item)
        if nodes > WHOLE_VALUE_NODES:
            return None
        waiting.extend(item.values() if isinstance(item, dict) else item)
    try:
        return json.dumps(value, ensure_ascii=False, default=_describe)
    except (TypeError, ValueError, RecursionError):
        return None


def _short_string(text: str, bounds: _Bounds) -> str:
    """A string value of an outline, with the amount left out named."""
    if not bounds.encoded and ENCODED.fullmatch(text):
        return f"[{len(text):,} characters omitted]"
    if len(text) <= bounds.characters:
        return text
    omitted = f"[{len(text) - bounds.characters:,} characters omitted]"
    return f"{text[: bounds.characters]} … {omitted}"


def _outline(value: object, bounds: _Bounds, depth: int, nodes: int) -> object:
    """A JSON value that keeps the keys of `value` and shortens what they hold."""
    if isinstance(value, str):
        return _short_string(value, bounds)
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, dict | list | tuple):
        return _container_outline(value, bounds, depth, nodes)
    return _describe(value)


def _container_outline(
    value: dict[Any, Any] | Sequence[Any],
    bounds: _Bounds,
    depth: int,
    nodes: int,
) -> object:
    """The outline of a mapping or list, whose entries share the `nodes` that are left."""
    size = min(len(value), bounds.entries, nodes)
    if value and (not size or depth == 0):
        return f"[{len(value):,} entries omitted]"
    share = (nodes - size) // max(size, 1)
    left_out = f"[{len(value) - size:,} entries omitted]" if len(value) > size else ""
    if isinstance(value, dict):
        shown = {
            _key(key): _outline(item, bounds, depth - 1, share)
            for key, item in islice(value.items(), size)
        }
        return shown | ({"…": left_out} if left_out else {})
    items = [_outline(item, bounds, depth - 1, share) for item in value[:size]]
    return [*items, left_out] if left_out else items


def _key(key: object) -> str:
    """The name of an entry, long enough in every outline to tell it from its neighbours."""
    return str(_outline(key, KEY_BOUNDS, depth=0, nodes=0))


def _outline_json(value: object, bounds: _Bounds) -> str:
    outline = _outline(value, bounds, bounds.depth, bounds.nodes)
    return _clean_json(json.dumps(outline, ensure_ascii=False))


def _clean_json(text: str) -> str:
    """JSON that `_clean` would not break: what ends a line in it stands in a string."""
    return _clean(text, r"\n")


def _bounded_json(value: object, tokens: int, counter: TokenCounter) -> str:
    """`value` as JSON within `tokens`: whole, else its fullest outline that fits, else cut."""
    ceiling = tokens * CHARACTERS_PER_TOKEN_CEILING
    whole = _whole_json(value)
    shown_whole = [] if whole is None or len(whole) > ceiling else [_clean_json(whole)]
    text = ""
    for text in chain(shown_whole, (_outline_json(value, bounds) for bounds in OUTLINES)):
        if len(text) <= ceiling and counter.count_text(text) <= tokens:
            return text
    return _cut(text, tokens, counter)


# --- Attachments ---


def _attachment_label(block: Mapping[Any, Any]) -> str:
    """What names an attachment: its name, else the end of its URL, else its MIME type."""
    places = [block, *(block[key] for key in NESTED_KEYS if isinstance(block.get(key), dict))]
    names = [_one_line(value) for value in _strings(places, NAME_KEYS)]
    urls = list(_strings(places, URL_KEYS))
    mimes = [_one_line(value) for value in _strings(places, MIME_KEYS)]
    candidates = (*names, *map(_url_name, urls), *mimes, *map(_url_mime, urls))
    return next(filter(None, candidates), "")


def _strings(places: Sequence[Mapping[Any, Any]], keys: Sequence[str]) -> Iterator[str]:
    """The texts under `keys`, the outermost place first."""
    values = (place.get(key) for place in places for key in keys)
    return (value for value in values if isinstance(value, str))


def _url_name(url: str) -> str:
    """The last segment of the path of a URL, never its query; nothing for inline data."""
    if not SCHEME.match(url):
        return ""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return _one_line(unquote(path.rstrip("/").rpartition("/")[2]))


def _url_mime(url: str) -> str:
    """The MIME type that a `data:` URL states."""
    if not url.startswith("data:"):
        return ""
    stated = re.match(r"[\w.+-]{1,60}/[\w.+-]{1,60}", url[5:200])
    return stated.group() if stated else ""


def _attachment_kind(block: Mapping[Any, Any], block_type: str) -> str:
    """Which sequence an attachment is numbered in; a generic file is sorted by its MIME type."""
    kind = KINDS[block_type]
    if kind == "File" and isinstance(mime := block.get("mime_type"), str):
        return KINDS_BY_MIME.get(mime.partition("/")[0], kind)
    return kind


def _inline_document(block: Mapping[Any, Any]) -> str:
    """The text of a document that came as text; nothing when it came in another form."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in {"text", "content"}:
        return _joined_texts(source.get("data", source.get("content")))
    return _joined_texts(block.get("text"))


def _joined_texts(value: object) -> str:
    """The text in a string, or in a list of strings and text blocks."""
    if isinstance(value, list):
        texts = (item.get("text") if isinstance(item, dict) else item for item in value)
        return "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


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
    return [_unwrapped(block) for block in blocks if block is not None]


def _unwrapped(block: object) -> object:
    for _ in range(WRAPPED_BLOCKS):
        if isinstance(block, dict) and block.get("type") == "non_standard" and "value" in block:
            block = block["value"]
    return block


def _block_type(block: Mapping[Any, Any]) -> str:
    """The type of a block, which some providers state as its only key."""
    stated = block.get("type")
    if isinstance(stated, str):
        return stated
    return next((key for key in (*TEXT_KEYS, *KINDS) if key in block), "")


def _reasoning(block: object) -> str:
    """The readable reasoning in a block; nothing when it is redacted or encrypted."""
    for _ in range(WRAPPED_BLOCKS):
        if not isinstance(block, dict):
            break
        found = (block[key] for key in REASONING_KEYS if block.get(key))
        block = next(found, None)
    return _joined_texts(block)


def _dicts(value: object) -> list[dict[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _call(call: Mapping[Any, Any]) -> _Piece:
    """A tool call, in whichever form; arguments that could not be parsed come with the error."""
    arguments: object = next(
        (call[key] for key in ("args", "input", "arguments") if key in call), {}
    )
    if error := call.get("error"):
        note = _omit_middle(error if isinstance(error, str) else "", UNKNOWN_BLOCK_CHARACTERS)
        arguments = f"{arguments if isinstance(arguments, str) else ''}\n[invalid: {note}]"
    call_id = call.get("call_id") or call.get("id")
    return _Piece("call", arguments, _one_line(call.get("name")) or "tool", _one_line(call_id))


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
        called = (_call(block) for block in blocks if _block_type(block) in CALL_TYPES)
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
    role = _one_line(message.role if isinstance(message, ChatMessage) else message.type)
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
        counter: TokenCounter,
        limits: TranscriptLimits,
    ) -> None:
        self.lines: list[str] = []
        self._names = names
        self._timezone = timezone
        self._counter = counter
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
            call_id = _one_line(getattr(message, "tool_call_id", ""))
            kind = "error" if getattr(message, "status", "") == "error" else "result"
            result = _Piece(kind, message.content, _one_line(message.name), call_id)
            yield self._tool_line(result, clock)
            return
        name = _one_line(message.name)
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
            text = _reasoning(extra.get("reasoning_content") or extra.get("reasoning"))
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
        block_type = _block_type(block)
        if block_type in CALL_TYPES:
            yield _call(block)
        elif block_type in RESULT_TYPES or block_type.endswith("_tool_result"):
            yield _block_result(block)
        elif block_type in REASONING_TYPES:
            yield _Piece("reasoning", _reasoning(block))
        elif block_type not in SILENT_TYPES:
            yield self._plain_piece(block, block_type)

    def _plain_piece(self, block: Mapping[Any, Any], block_type: str) -> _Piece:
        """A block that is spoken: a text, a document, an attachment or something unknown."""
        text = block.get(TEXT_KEYS.get(block_type, ""))
        if isinstance(text, str):
            return _Piece("text", text)
        if block_type not in KINDS:
            return self._unknown(block, block_type)
        kind = _attachment_kind(block, block_type)
        if kind == "File" and (document := _inline_document(block)):
            return _Piece("document", document)
        self._numbers[kind] += 1
        label = _attachment_label(block)
        number = f"{kind} #{self._numbers[kind]}"
        return _Piece("inline", f"[{number}: {label}]" if label else f"[{number}]")

    @staticmethod
    def _unknown(block: object, block_type: str) -> _Piece:
        if isinstance(block, dict):
            block = {key: value for key, value in block.items() if key != "type"}
        text = _outline_json(block, UNKNOWN_BLOCK_BOUNDS)
        bounded = _omit_middle(text, UNKNOWN_BLOCK_CHARACTERS)
        return _Piece("inline", f"[{_one_line(block_type) or 'block'}] {bounded}")

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
            text = _clean(joint.join(texts))
            if kind == "document":
                text = self._cut_result(text)
            elif kind == "text" and self._limits.text_tokens is not None:
                text = _cut(text, self._limits.text_tokens, self._counter)
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
            return _cut(_clean(arguments), tokens, self._counter)
        return _bounded_json(arguments, tokens, self._counter)

    def _result(self, content: object) -> str:
        """A tool result within its limit; placeholders of attachments stay when it is cut."""
        if content is not None and not isinstance(content, str | list):
            return _bounded_json(content, self._limits.result_tokens, self._counter)
        # What a result may not hold, such as another result, is shown as unknown.
        pieces = [
            piece
            if piece.kind in {"text", "inline", "document"}
            else self._unknown(block, piece.kind)
            for block in _blocks(content)
            for piece in self._block_pieces(block)
        ]
        whole = _clean("\n".join(str(piece.body) for piece in pieces))
        cut = _cut(whole, self._limits.result_tokens, self._counter)
        if cut == whole:
            return whole
        marks = [str(piece.body) for piece in pieces if piece.kind == "inline"]
        texts = "\n".join(str(piece.body) for piece in pieces if piece.kind != "inline")
        return "\n".join((self._cut_result(texts), *marks)) if marks and texts else cut

    def _cut_result(self, text: str) -> str:
        return _cut(_clean(text), self._limits.result_tokens, self._counter)


def _block_result(block: Mapping[Any, Any]) -> _Piece:
    """A result that stands among the content blocks of a message."""
    failed = block.get("is_error") is True or block.get("status") == "error"
    keys = ("content", "output")
    body = next((block[key] for key in keys if key in block), None)
    ids = (block.get(key) for key in ("tool_use_id", "tool_call_id", "call_id"))
    call_id = next(filter(None, map(_one_line, ids)), "")
    return _Piece("error" if failed else "result", body, _one_line(block.get("name")), call_id)


def _line(label: str, body: str) -> Iterator[str]:
    """The labelled lines of a content, or none when there is nothing in it."""
    text = body.lstrip("\n").rstrip()
    if text:
        yield f"{label}: {FURTHER_LINE.sub(FURTHER_LINE_INDENT, text)}"
