"""What a text counts exactly, by one of tiktoken's vocabularies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import tiktoken

from langgraph_om.core.tokens.counter import MessageCounter
from langgraph_om.core.tokens.images import Provider
from langgraph_om.errors import ConfigurationError

# tiktoken needs more than linear time, and much stack, for one long run of letters.
_RUN_LENGTH: Final = 4000


class TiktokenCounter(MessageCounter):
    """The exact tokens of one of tiktoken's vocabularies, which is loaded at once or not at all.

    Args:
        encoding: A name that tiktoken knows, such as `"o200k_base"`, or an encoding of your own.
        provider: Whose formula images and files are counted by: `"openai"`, `"google"` or
            `"anthropic"`; `None`: OpenAI's.
        model: The model's name, where the provider counts its images in another way.

    Raises:
        ConfigurationError: For another provider, or when the vocabulary cannot be had.
    """

    def __init__(
        self,
        encoding: str | tiktoken.Encoding,
        *,
        provider: Provider | None = None,
        model: str = "",
    ) -> None:
        self._encoding = _load_encoding(encoding)
        self.identity = f"tiktoken:{self._encoding.name}/2"
        super().__init__(provider=provider, model=model)

    def count_text(self, text: str) -> int:
        """Return the tokens of a text; names of special tokens in it are plain text."""
        encode = self._encoding.encode_ordinary
        return sum(len(encode(piece)) for piece in _split_pieces(text))


def _load_encoding(encoding: object) -> tiktoken.Encoding:
    try:
        found = tiktoken.get_encoding(encoding) if isinstance(encoding, str) else encoding
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        msg = (
            f"`encoding` {encoding!r} cannot be loaded ({reason}). Write a name that tiktoken "
            "knows, such as 'o200k_base'. It downloads a vocabulary on first use: without a "
            "network, set the environment variable TIKTOKEN_CACHE_DIR to a folder that holds it, "
            "or give a `tiktoken.Encoding`"
        )
        raise ConfigurationError(msg) from error
    if not isinstance(found, tiktoken.Encoding):
        msg = f"`encoding` must be a name such as 'o200k_base' or an Encoding, not {encoding!r}"
        raise ConfigurationError(msg)
    return found


def _split_pieces(text: str) -> Iterable[str]:
    start = 0
    while len(text) - start > _RUN_LENGTH:
        # Before a space, where vocabularies split anyway; inside a longer run the count is close.
        space = text.rfind(" ", start + 1, start + _RUN_LENGTH)
        end = space if space > start else start + _RUN_LENGTH
        yield text[start:end]
        start = end
    yield text[start:]
