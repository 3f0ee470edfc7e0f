"""Every token count goes through one protocol, and a count never raises, whatever a message holds.

What a message counts is one set of rules (`MessageCounter`); counters differ only in what a text
counts. Rules of this module:

1. A count is never negative, and an empty message still counts its role and framing.
2. Adding text or a tool call never lowers a count.
3. Encoded binary data is never counted as text: an attachment counts a fixed estimate.
4. What is not understood is over-estimated as its JSON text.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import tiktoken

from langgraph_om.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.messages import BaseMessage

__all__ = [
    "CONVERSATION_OVERHEAD",
    "EMPTY_RESULT",
    "FILE_FALLBACK_TOKENS",
    "IMAGE_FALLBACK_TOKENS",
    "MessageCounter",
    "TiktokenCounter",
    "TokenCounter",
    "TokenxCounter",
    "content_digest",
    "count_messages",
]

CONVERSATION_OVERHEAD: Final = 24
"""Tokens that frame a conversation, once per list of messages."""

IMAGE_FALLBACK_TOKENS: Final = 1600
"""What an image counts while its size and the model's formula are not known."""

FILE_FALLBACK_TOKENS: Final = 1000
"""What an audio, video or document attachment counts while its size is not known."""

EMPTY_RESULT: Final = "[empty result]"
"""The text that an empty tool result counts as; no tool result counts less."""

REDACTED_REASONING: Final = "[redacted reasoning]"
"""The text that a reasoning block without readable text counts as."""

# 3.8 tokens per message, in tenths, so that rounding is exact.
MESSAGE_OVERHEAD_TENTHS: Final = 38


@runtime_checkable
class TokenCounter(Protocol):
    """What a token counter has to offer; any object with these three members will do."""

    identity: str
    """Names the counter, its encoding and its version; another rule means another identity."""

    def count_text(self, text: str) -> int:
        """Return the tokens of a text, 0 for an empty one."""
        ...

    def count_message(self, message: BaseMessage) -> int:
        """Return the tokens of a message with its role and framing."""
        ...


def count_messages(counter: TokenCounter, messages: Iterable[BaseMessage]) -> int:
    """Return the tokens of a conversation with its framing, 0 when it has no messages."""
    counts = [counter.count_message(message) for message in messages]
    return CONVERSATION_OVERHEAD + sum(counts) if counts else 0


# --- The rules of messages ---------------------------------------------------------------------

ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "FunctionMessageChunk": "tool",
}
"""The role name that a message type counts; every other type counts as `system`."""


class MessageCounter(ABC):
    """The rules of messages, shared by all counters; a subclass says what a text counts."""

    identity: str

    @abstractmethod
    def count_text(self, text: str) -> int:
        """Return the tokens of a text, 0 for an empty one."""

    def count_message(self, message: BaseMessage) -> int:
        """Return the tokens of a message with its role and framing."""
        # The fields as they are: a message need not be a valid one.
        fields = vars(message)
        role = ROLES.get(str(fields.get("type")), "system")
        tally = _Tally(self.count_text)
        add = tally.add_result if role == "tool" else tally.add_content
        add(fields.get("content"))
        _add_calls(tally, fields)
        _add_kwargs(tally, fields)
        tokens = self.count_text(role) + tally.total
        # In tenths and half up.
        return (10 * tokens + MESSAGE_OVERHEAD_TENTHS * (1 + tally.extra_messages) + 5) // 10


def _add_calls(tally: _Tally, fields: Mapping[str, Any]) -> None:
    for name in ("tool_calls", "invalid_tool_calls"):
        for call in _sequence(fields.get(name)):
            tally.add_call(call)


def _add_kwargs(tally: _Tally, fields: Mapping[str, Any]) -> None:
    extras = _mapping(fields.get("additional_kwargs"))
    if extras.get("function_call") and not fields.get("tool_calls"):
        tally.add_call(extras["function_call"])
    reasoning = extras.get("reasoning_content")
    if isinstance(reasoning, str) and not tally.has_reasoning:
        tally.add_text(reasoning)


# Blocks inside blocks inside blocks: deeper ones count as JSON, so a recursive block ends.
MAX_BLOCK_DEPTH: Final = 6


@dataclass(slots=True)
class _Tally:
    """The running count of one message."""

    count: Callable[[str], int]
    tokens: int = 0
    extra_messages: int = 0
    has_reasoning: bool = False
    depth: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    """Tokens by tool call id: a call may be both in the content and in `tool_calls`."""

    @property
    def total(self) -> int:
        return self.tokens + sum(self.calls.values())

    def add_text(self, text: str) -> None:
        self.tokens += self.count(text)

    def add_content(self, content: object) -> None:
        if isinstance(content, str):
            self.add_text(content)
        elif isinstance(content, (list, tuple)):
            for block in content:
                self.add_block(block)
        elif content is not None:
            self.add_block(content)

    def add_block(self, block: object) -> None:
        if isinstance(block, str):
            self.add_text(block)
        elif not isinstance(block, Mapping) or self.depth >= MAX_BLOCK_DEPTH:
            self.add_unknown(block)
        else:
            self.depth += 1
            _rule_for(block)(self, block)
            self.depth -= 1

    def add_unknown(self, value: object) -> None:
        text, payloads = _json_without_payloads(value)
        self.tokens += self.count(text) + FILE_FALLBACK_TOKENS * payloads

    def add_result(self, content: object) -> None:
        # A floor, not a substitute: a short result must not count less than an empty one.
        before = self.tokens
        self.add_content(content)
        self.tokens = max(self.tokens, before + self.count(EMPTY_RESULT))

    def add_call(self, call: object) -> None:
        if not isinstance(call, Mapping):
            self.add_unknown(call)
            return
        arguments = next((call[key] for key in ARGUMENT_KEYS if call.get(key) is not None), "")
        tokens = self.count(_json_text(call.get("name") or "")) + self.count(_json_text(arguments))
        ids = (call.get("call_id"), call.get("id"))
        call_id = next((value for value in ids if isinstance(value, str) and value), None)
        if call_id is None:
            self.tokens += tokens
        else:
            # The larger of two forms: while streaming, the one in the content is incomplete.
            self.calls[call_id] = max(tokens, self.calls.get(call_id, 0))


ARGUMENT_KEYS: Final = ("args", "arguments", "input", "partial_json")

_Rule = Callable[[_Tally, Mapping[str, Any]], None]


def _text_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    text = block.get("refusal" if block.get("type") == "refusal" else "text")
    if isinstance(text, str):
        tally.add_text(text)
    else:
        tally.add_unknown(block)


def _reasoning_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    tally.has_reasoning = True
    texts = list(_reasoning_texts(block))
    for text in texts or [REDACTED_REASONING]:
        tally.add_text(text)


def _reasoning_texts(block: Mapping[str, Any]) -> Iterable[str]:
    for key in ("reasoning", "thinking", "text", "summary", "content", "reasoning_content"):
        value = block.get(key)
        for item in value if isinstance(value, (list, tuple)) else (value,):
            text = item.get("text") if isinstance(item, Mapping) else item
            if isinstance(text, str) and text:
                yield text


def _result_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    tally.extra_messages += 1
    tally.add_result(block.get("content", block.get("output")))


def _image_block(tally: _Tally, _block: Mapping[str, Any]) -> None:
    tally.tokens += IMAGE_FALLBACK_TOKENS


def _file_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    source = _mapping(block.get("source"))
    mimes = (block.get("mime_type"), block.get("mimeType"), source.get("media_type"))
    if isinstance(block.get("text"), str):
        tally.add_text(block["text"])
    elif source.get("type") == "text" and isinstance(source.get("data"), str):
        tally.add_text(source["data"])
    elif source.get("type") == "content":
        tally.add_content(source.get("content"))
    elif any(isinstance(mime, str) and mime.startswith("image/") for mime in mimes):
        tally.tokens += IMAGE_FALLBACK_TOKENS
    else:
        tally.tokens += FILE_FALLBACK_TOKENS


def _wrapped_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    tally.add_block(block.get("value"))


_RULES: Final[Sequence[tuple[_Rule, Sequence[str]]]] = (
    (_text_block, ("text", "input_text", "output_text", "refusal")),
    (_reasoning_block, ("reasoning", "reasoning_content", "thinking", "redacted_thinking")),
    (_Tally.add_call, ("tool_use", "server_tool_use", "mcp_tool_use")),
    (_Tally.add_call, ("tool_call", "tool_call_chunk", "invalid_tool_call")),
    (_Tally.add_call, ("server_tool_call", "server_tool_call_chunk")),
    (_Tally.add_call, ("function_call", "custom_tool_call")),
    (_result_block, ("tool_result", "server_tool_result", "mcp_tool_result")),
    (_result_block, ("web_search_tool_result", "function_call_output")),
    (_image_block, ("image", "image_url", "input_image")),
    (_file_block, ("file", "input_file", "document", "media", "text-plain")),
    (_file_block, ("audio", "input_audio", "audio_url", "video", "video_url")),
    (_wrapped_block, ("non_standard",)),
)
BLOCK_RULES: Final[Mapping[str, _Rule]] = {kind: rule for rule, kinds in _RULES for kind in kinds}
"""The rule of each type of content block; other types are counted as JSON."""


def _rule_for(block: Mapping[str, Any]) -> _Rule:
    kind = block.get("type")
    if isinstance(kind, str):
        return BLOCK_RULES.get(kind, _Tally.add_unknown)
    return _text_block if set(block) == {"text"} else _Tally.add_unknown


# --- Values as text ----------------------------------------------------------------------------

UNREADABLE: Final = "[unreadable]"
OMITTED: Final = "[omitted]"

# Base64 or its URL-safe form, in one run or in long lines. Possessive, hence linear.
_ENCODED = re.compile(r"(?:[A-Za-z0-9+/_-]{40,}+\r?\n)*+[A-Za-z0-9+/_-]*+={0,2}\s*+")
_ENCODED_MIN_LENGTH: Final = 256  # a shorter one may be a word or an id
_DATA_URI = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)


def _json_text(value: object) -> str:
    """Return a text as it is and any other value as compact JSON, or as close as it gets."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        return _repr_text(value)


def _repr_text(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (counting must not raise for what a caller put in a message)
        return UNREADABLE


def _json_without_payloads(value: object) -> tuple[str, int]:
    """Return the JSON text of a value without binary data, and how many payloads were left out."""
    payloads: list[str] = []
    try:
        return _json_text(_readable(value, payloads, frozenset())), len(payloads)
    except Exception:  # noqa: BLE001  (nested too deep to be walked: count it as one attachment)
        return UNREADABLE, 1


def _readable(value: object, payloads: list[str], parents: frozenset[int]) -> object:
    if isinstance(value, str) and not _is_encoded(value):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        payloads.append(OMITTED)
        return OMITTED
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if id(value) in parents:
        return OMITTED
    parents |= {id(value)}
    if not isinstance(value, Mapping):
        return [_readable(item, payloads, parents) for item in value]
    # Encrypted fields mean nothing to a reader: they are noted, not estimated.
    return {
        key: OMITTED if _is_encrypted(key) else _readable(item, payloads, parents)
        for key, item in value.items()
    }


def _is_encrypted(key: object) -> bool:
    return isinstance(key, str) and ("encrypted" in key or "signature" in key.lower())


def _is_encoded(text: str) -> bool:
    if len(text) <= _ENCODED_MIN_LENGTH:
        return _DATA_URI.match(text) is not None
    return (_DATA_URI.match(text) or _ENCODED.fullmatch(text)) is not None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


# --- Counters ----------------------------------------------------------------------------------

# White space as JavaScript has it: the counts must not depend on Python's wider notion.
_SPACE = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_PUNCTUATION = ".,!?;(){}[]<>:/\\|@#$%^&*+=`~_-"
_MARKS = re.escape(_PUNCTUATION)
_SEGMENT = re.compile(f"[^{_SPACE}{_MARKS}]+|[{_MARKS}]+")
# Hiragana is not among them.
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u2eff\u3000-\u303f\u30a0-\u30ff\u3130-\u318f\u31c0-\u31ef"
    "\u3200-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uff00-\uffef]"
)
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")  # two UTF-16 units each
_SHORT: Final = 3
_CHARACTERS_PER_TOKEN: Final = 6
_LANGUAGES: Final = (
    # The letters that give a language away, and its characters per two tokens.
    (re.compile("[äöüßÄÖÜẞ]"), 6),
    (re.compile("[éèêëàâîïôûùüÿçœæáíóúñÉÈÊËÀÂÎÏÔÛÙÜŸÇŒÆÁÍÓÚÑ]"), 6),
    (re.compile("[ąćęłńóśźżěščřžýůúďťňĄĆĘŁŃÓŚŹŻĚŠČŘŽÝŮÚĎŤŇ]"), 7),
)
_PIECE_LENGTH: Final = 1 << 18  # bounds the memory for the segments of a long text
_FEW_SEGMENTS: Final = 100


class TokenxCounter(MessageCounter):
    """An estimate that needs no vocabulary and no network; its counts never depend on a model."""

    identity: str = "tokenx/1"

    def count_text(self, text: str) -> int:
        """Return the estimated tokens of a text: the sum over its words and punctuation runs."""
        tokens = start = 0
        while start < len(text):
            # A match that starts inside a segment still ends where the segment ends.
            last = _SEGMENT.search(text, start + _PIECE_LENGTH)
            end = last.end() if last else len(text)
            segments = _SEGMENT.findall(text, start, end)
            if len(segments) < _FEW_SEGMENTS:
                tokens += sum(map(_segment_tokens, segments))
            else:
                repeats = Counter(segments)
                tokens += sum(_segment_tokens(segment) * n for segment, n in repeats.items())
            start = end
        return tokens


def _segment_tokens(segment: str) -> int:
    length = len(segment)
    if not segment.isascii():
        return _foreign_tokens(segment)
    if length <= _SHORT or segment.isdigit():
        return 1
    per_token = 2 if segment[0] in _PUNCTUATION else _CHARACTERS_PER_TOKEN
    return -(-length // per_token)


def _foreign_tokens(segment: str) -> int:
    if _CJK.search(segment):
        return len(segment)
    length = len(segment)
    if _ASTRAL.search(segment):
        length = len(segment.encode("utf-16-le", "surrogatepass")) // 2
    if length <= _SHORT:
        return 1
    for letters, per_two_tokens in _LANGUAGES:
        if letters.search(segment):
            return -(-2 * length // per_two_tokens)
    return -(-length // _CHARACTERS_PER_TOKEN)


# tiktoken needs more than linear time, and much stack, for one long run of letters.
_RUN_LENGTH: Final = 4000


class TiktokenCounter(MessageCounter):
    """The exact tokens of one of tiktoken's vocabularies, which is loaded at once or not at all."""

    def __init__(self, encoding: str | tiktoken.Encoding) -> None:
        """Load the vocabulary, or raise `ConfigurationError` when it can not be had.

        `encoding` is a name that tiktoken knows, such as `o200k_base`, or an encoding of your own.
        """
        self._encoding = _load_encoding(encoding)
        self.identity = f"tiktoken:{self._encoding.name}/1"

    def count_text(self, text: str) -> int:
        """Return the tokens of a text; names of special tokens in it are plain text."""
        encode = self._encoding.encode_ordinary
        return sum(len(encode(piece)) for piece in _pieces(text))


def _load_encoding(encoding: object) -> tiktoken.Encoding:
    try:
        found = tiktoken.get_encoding(encoding) if isinstance(encoding, str) else encoding
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        msg = (
            f"`encoding` {encoding!r} can not be loaded ({reason}). Write a name that tiktoken "
            "knows, such as 'o200k_base'. It downloads a vocabulary on first use: without a "
            "network, set the environment variable TIKTOKEN_CACHE_DIR to a folder that holds it, "
            "or give a `tiktoken.Encoding`"
        )
        raise ConfigurationError(msg) from error
    if not isinstance(found, tiktoken.Encoding):
        msg = f"`encoding` must be a name such as 'o200k_base' or an Encoding, not {encoding!r}"
        raise ConfigurationError(msg)
    return found


def _pieces(text: str) -> Iterable[str]:
    start = 0
    while len(text) - start > _RUN_LENGTH:
        # Before a space, where vocabularies split anyway; inside a longer run the count is close.
        space = text.rfind(" ", start + 1, start + _RUN_LENGTH)
        end = space if space > start else start + _RUN_LENGTH
        yield text[start:end]
        start = end
    yield text[start:]


# --- The identity of content -------------------------------------------------------------------


def content_digest(message: BaseMessage) -> str:
    """Return 16 hex digits that change when what a reader sees of the message changes.

    Type, content, tool calls, reasoning, `tool_call_id` and `status` count; the message's id,
    usage and response metadata do not.
    """
    fields = vars(message)
    content = fields.get("content")
    # The separator tells a text from a list of blocks; a head holds neither byte.
    body = b"\0" + _utf8(content) if isinstance(content, str) else b"\1" + _canonical(content)
    return hashlib.blake2b(_digest_head(fields) + body, digest_size=8).hexdigest()


def _digest_head(fields: Mapping[str, Any]) -> bytes:
    # A streamed message and its whole form read alike.
    kind = _WHOLE_TYPES.get(str(fields.get("type")), fields.get("type"))
    extras = _mapping(fields.get("additional_kwargs"))
    parts = [
        _call_identities(fields.get("tool_calls")),
        _call_identities(fields.get("invalid_tool_calls")),
        *(fields.get(name) for name in ("tool_call_id", "status", "role")),
        *(extras.get(name) for name in ("function_call", "reasoning_content")),
    ]
    return _canonical([kind, *parts]) if any(parts) else _canonical(kind)


_WHOLE_TYPES: Final[Mapping[str, str]] = {
    "HumanMessageChunk": "human",
    "AIMessageChunk": "ai",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
    "ChatMessageChunk": "chat",
}


def _call_identities(calls: object) -> list[Any]:
    return [
        [call.get(key) for key in ("name", "args", "id")] if isinstance(call, Mapping) else call
        for call in _sequence(calls)
    ]


def _canonical(value: object) -> bytes:
    """Return the one JSON form of a value; keys are sorted, and escapes keep it plain ASCII."""
    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        text = json.dumps(_repr_text(value))
    return text.encode("ascii")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Halves of one pair become one character, as JSON would read them.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "surrogatepass")
