"""Every token count goes through one protocol, and a count never raises, whatever a message holds.

What a message counts is one set of rules (`MessageCounter`); counters differ only in what a text
counts. Rules of this module:

1. A count is never negative, and an empty message still counts its role and framing.
2. Adding text or a tool call never lowers a count.
3. Encoded binary data is never counted as text: an attachment counts by its provider's formula.
4. What is not understood is over-estimated as its JSON text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.blocks import (
    REASONING_KEYS,
    find_transcript,
    inline_document,
    known_type,
)
from langgraph_om.core.content.message_keys import is_plain, said_beside
from langgraph_om.core.content.parts import EMPTY_RESULT, Part
from langgraph_om.core.content.text import (
    as_mapping,
    as_sequence,
    write_json,
    write_json_without_payloads,
)
from langgraph_om.core.tokens.images import FILE_FALLBACK_TOKENS, AttachmentFormula, ImageProvider

CONVERSATION_OVERHEAD: Final = 24
"""Tokens that frame a conversation, once per list of messages."""

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


@runtime_checkable
class BoundingCounter(TokenCounter, Protocol):
    """A counter that knows, without counting, what texts count at most when they are joined.

    A message counts no less than its text does.
    """

    def bound_joined(self, tokens: int, parts: int, indents: int, characters: int) -> int | None:
        """Return what a text counts at most that was joined of parts; `None` where nobody knows.

        Args:
            tokens: The tokens of the parts. Some may have been counted together, or with more white
                space around them.
            parts: How many there are; each begins and ends with something that can be seen, and
                between two of them is a space or a line break.
            indents: How many of their line breaks got two spaces behind them since.
            characters: How long the text is.
        """
        ...


class ViewCounter:
    """Counts messages as the Actor is shown them, and texts as another counter does.

    Args:
        counter: The other counter.
        show: Returns what stands for a message in the Actor's view.
        rules: Names the rules of `show`; others mean other counts.
    """

    def __init__(
        self, counter: TokenCounter, show: Callable[[BaseMessage], BaseMessage], rules: str
    ) -> None:
        self.base, self._show = counter, show
        self.identity = f"{counter.identity}, {rules}"
        bound = getattr(counter, "bound_joined", None)
        if bound is not None:  # what it counts of texts is the same
            self.bound_joined = bound

    def __repr__(self) -> str:
        return f"{self.base!r} ({self.identity.removeprefix(self.base.identity + ', ')})"

    def count_text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.base.count_text(text)

    def count_message(self, message: BaseMessage) -> int:
        """Return the tokens of what stands for a message in the Actor's view."""
        return self.base.count_message(self._show(message))


def base_of(counter: TokenCounter) -> TokenCounter:
    """Return what counts texts for a counter of views; any other counter itself."""
    return counter.base if isinstance(counter, ViewCounter) else counter


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
    attachments: AttachmentFormula = AttachmentFormula()

    def __init__(self, *, provider: ImageProvider | None = None) -> None:
        """Count images and files as the models of a provider do; `None`: as OpenAI's do."""
        self.attachments = AttachmentFormula("openai" if provider is None else provider)
        if provider is not None:
            self.identity = f"{self.identity}+{provider}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identity}>"

    @abstractmethod
    def count_text(self, text: str) -> int:
        """Return the tokens of a text, 0 for an empty one."""

    def count_message(self, message: BaseMessage) -> int:
        """Return the tokens of a message with its role and framing."""
        # The fields as they are: a message need not be a valid one.
        fields = vars(message)
        role = ROLES.get(str(fields.get("type")), "system")
        content = fields.get("content")
        if isinstance(content, str) and role != "tool" and is_plain(fields):  # nearly all are
            tokens = self.count_text(role) + self.count_text(content)
            return (10 * tokens + MESSAGE_OVERHEAD_TENTHS + 5) // 10
        tally = _Tally(self.count_text, self.attachments)
        add = tally.add_result if role == "tool" else tally.add_content
        add(content)
        for name in ("tool_calls", "invalid_tool_calls"):
            for call in as_sequence(fields.get(name)):
                tally.add_call(call)
        extras = as_mapping(fields.get("additional_kwargs"))
        if extras.get("function_call") and not fields.get("tool_calls"):
            tally.add_call(extras["function_call"])
        reasoning = extras.get("reasoning_content")
        if isinstance(reasoning, str) and not tally.has_reasoning:
            tally.add_text(reasoning)
        for said in said_beside(fields):
            tally.add_text(said)
        tokens = self.count_text(role) + tally.total
        # In tenths and half up.
        return (10 * tokens + MESSAGE_OVERHEAD_TENTHS * (1 + tally.extra_messages) + 5) // 10


# Blocks inside blocks inside blocks: deeper ones count as JSON, so a recursive block ends.
MAX_BLOCK_DEPTH: Final = 6


@dataclass(slots=True)
class _Tally:
    """The running count of one message."""

    count: Callable[[str], int]
    attachments: AttachmentFormula
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
        text, payloads = write_json_without_payloads(value)
        self.tokens += self.count(text) + FILE_FALLBACK_TOKENS * payloads

    def add_result(self, content: object) -> None:
        # A floor, not a substitute: no result counts less than an empty one.
        before = self.tokens
        self.add_content(content)
        self.tokens = max(self.tokens, before + self.count(EMPTY_RESULT))

    def add_call(self, call: object) -> None:
        if not isinstance(call, Mapping):
            self.add_unknown(call)
            return
        arguments = next((call[key] for key in ARGUMENT_KEYS if call.get(key) is not None), "")
        tokens = self.count(write_json(call.get("name") or "")) + self.count(write_json(arguments))
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
    text = block.get(known_type(block).key)
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
    for key in REASONING_KEYS:
        value = block.get(key)
        for item in value if isinstance(value, (list, tuple)) else (value,):
            text = item.get("text") if isinstance(item, Mapping) else item
            if isinstance(text, str) and text:
                yield text


def _result_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    tally.extra_messages += 1
    tally.add_result(block.get("content", block.get("output")))


def _attachment_block(tally: _Tally, block: Mapping[str, Any]) -> None:
    part = Part(known_type(block).name.lower(), block)
    source = as_mapping(block.get("source"))
    tally.add_text(find_transcript(block))
    document = "" if part.kind == "image" else inline_document(block)
    if part.kind == "image" or (part.holds_bytes and not document):
        tally.tokens += tally.attachments.tokens(part)
    elif isinstance(block.get("text"), str):
        tally.add_text(block["text"])
    elif source.get("type") == "text" and isinstance(source.get("data"), str):
        tally.add_text(source["data"])
    elif source.get("type") == "content":
        tally.add_content(source.get("content"))
    elif part.holds_bytes:
        tally.add_text(document)
    else:
        tally.tokens += tally.attachments.tokens(part)


RULES: Final[Mapping[str, _Rule]] = {
    "text": _text_block,
    "reasoning": _reasoning_block,
    "call": _Tally.add_call,
    "result": _result_block,
    "attachment": _attachment_block,
    "wrapper": lambda tally, block: tally.add_block(block.get("value")),
    "other": _Tally.add_unknown,
}
"""The rule of each form of content block; what is not known is counted as JSON."""


def _rule_for(block: Mapping[str, Any]) -> _Rule:
    if isinstance(block.get("type"), str) or set(block) == {"text"}:
        return RULES[known_type(block).form]
    # Without a type, what looks like an attachment is one if it holds bytes.
    is_attachment = known_type(block).form == "attachment" and Part("file", block).holds_bytes
    return RULES["attachment" if is_attachment else "other"]


class FunctionCounter(MessageCounter):
    """Counts texts by a function of the user's."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self.identity = f"function:{getattr(count, '__qualname__', type(count).__qualname__)}"
        super().__init__()
        self._count = count

    def count_text(self, text: str) -> int:
        """Return what the function says, 0 for an empty text."""
        return max(0, self._count(text)) if text else 0


def cut_for_count(text: str, characters: int) -> Iterable[str]:
    """Yield a text in pieces of so many characters at most, which are counted one by one."""
    start = 0
    while len(text) - start > characters:
        # Before a space, where vocabularies split anyway; inside a longer run the count is close.
        space = text.rfind(" ", start + 1, start + characters)
        end = space if space > start else start + characters
        yield text[start:end]
        start = end
    yield text[start:]
