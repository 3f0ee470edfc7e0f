"""Every token count goes through one protocol, and a count never raises, whatever a message holds.

What a message counts is one set of rules (`MessageCounter`); counters differ only in what a text
counts. Rules of this module:

1. A count is never negative, and an empty message still counts its role and framing.
2. Adding text or another part never lowers a count.
3. Encoded binary data is never counted as text: an attachment counts by its provider's formula.
4. What is not understood is over-estimated as its JSON text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from langchain_core.messages import BaseMessage, FunctionMessage, ToolMessage

from langgraph_om.core.content.message_keys import is_plain
from langgraph_om.core.content.parts import (
    EMPTY_RESULT,
    Part,
    Placeholders,
    all_parts,
    result_parts,
)
from langgraph_om.core.content.text import write_json, write_json_without_payloads
from langgraph_om.core.tokens.images import (
    FILE_FALLBACK_TOKENS,
    ImageProvider,
    check_provider,
    count_attachment,
)

CONVERSATION_OVERHEAD: Final = 24
"""Tokens that frame a conversation, once per list of messages."""
MESSAGE_OVERHEAD: Final = 5
"""Tokens of a message's role and framing."""
RESULT_OVERHEAD: Final = 4
"""The same of a result that stands in the content of another message."""

REDACTED_REASONING: Final = "[redacted reasoning]"
"""The text that a reasoning block without readable text counts as."""


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


class MessageCounter(ABC):
    """The rules of messages, shared by all counters; a subclass says what a text counts."""

    identity: str

    def __init__(self, *, provider: ImageProvider | None = None) -> None:
        """Count images and files as the models of a provider do; `None`: as OpenAI's do."""
        self.provider = check_provider("openai" if provider is None else provider)
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
        content = fields.get("content")
        if isinstance(message, ToolMessage | FunctionMessage):
            return MESSAGE_OVERHEAD + self._count_result(content)
        if isinstance(content, str) and is_plain(fields):  # nearly all are
            return MESSAGE_OVERHEAD + self.count_text(content)
        try:
            parts = [*all_parts(message, Placeholders())]
        except Exception:  # noqa: BLE001  fields of any type, which nobody can read
            parts = [Part("other", content)]
        return MESSAGE_OVERHEAD + sum(map(self._count_part, parts))

    def _count_result(self, content: object) -> int:
        """Return what a result counts, which is no less than an empty one does."""
        if isinstance(content, str):
            tokens = self.count_text(content)
        elif isinstance(content, list):
            tokens = sum(map(self._count_part, result_parts(content, Placeholders())))
        else:
            tokens = 0 if content is None else self._count_unknown(content)
        return max(tokens, self.count_text(EMPTY_RESULT))

    def _count_part(self, part: Part) -> int:
        if part.number:
            return count_attachment(part, self.provider)
        if part.kind in ("tool-result", "tool-error"):
            return RESULT_OVERHEAD + self._count_result(part.body)
        if part.kind == "tool-call":
            return self.count_text(part.name) + self.count_text(write_json(part.body))
        if part.kind == "other":
            return self._count_unknown(part.block)
        is_redacted = part.kind == "reasoning" and part.block and not part.body
        return self.count_text(REDACTED_REASONING if is_redacted else part.body)

    def _count_unknown(self, value: object) -> int:
        text, payloads = write_json_without_payloads(value)
        return self.count_text(text) + FILE_FALLBACK_TOKENS * payloads


class FunctionCounter(MessageCounter):
    """Counts texts by a function of the user's."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self.identity = f"function:{getattr(count, '__qualname__', type(count).__qualname__)}"
        super().__init__()
        self._count = count

    def count_text(self, text: str) -> int:
        """Return what the function says, 0 for an empty text."""
        return max(0, self._count(text)) if text else 0
