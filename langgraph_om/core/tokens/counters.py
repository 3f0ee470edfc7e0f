"""What a text counts: by an estimate that needs no vocabulary, or exactly by one of tiktoken's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import tiktoken
from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.tokens.counter import MessageCounter, TokenCounter
from langgraph_om.core.tokens.images import Provider
from langgraph_om.errors import ConfigurationError

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
    """An estimate that needs no vocabulary and no network; counts of text depend on no model.

    Args:
        provider: Whose formula images and files are counted by: `"openai"`, `"google"` or
            `"anthropic"`; `None`: OpenAI's.
        model: The model's name, where the provider counts its images in another way.

    Raises:
        ConfigurationError: For another provider.
    """

    identity: str = "tokenx/2"

    def count_text(self, text: str) -> int:
        """Return the estimated tokens of a text: the sum over its words and punctuation runs."""
        tokens = start = 0
        while start < len(text):
            # A match that starts inside a segment still ends where the segment ends.
            last = _SEGMENT.search(text, start + _PIECE_LENGTH)
            end = last.end() if last else len(text)
            segments = _SEGMENT.findall(text, start, end)
            if len(segments) < _FEW_SEGMENTS:
                tokens += sum(map(_count_segment, segments))
            else:
                repeats = Counter(segments)
                tokens += sum(_count_segment(segment) * n for segment, n in repeats.items())
            start = end
        return tokens


def _count_segment(segment: str) -> int:
    length = len(segment)
    if not segment.isascii():
        return _count_foreign(segment)
    if length <= _SHORT or segment.isdigit():
        return 1
    per_token = 2 if segment[0] in _PUNCTUATION else _CHARACTERS_PER_TOKEN
    return -(-length // per_token)


def _count_foreign(segment: str) -> int:
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


MIN_FACTOR, MAX_FACTOR = 0.5, 2.0
"""Bounds of a factor: beyond them the reports are about something else than these messages."""
PRIOR_TOKENS = 1000
"""So many tokens speak for the counter as it is, so that a few messages do not outweigh it."""
MAX_STEP = 4.0
"""A growth that differs by more than this factor has another cause, such as an activation."""


def calibration_of(messages: Sequence[BaseMessage], counter: TokenCounter) -> float:
    """Tell by what factor a provider counts more than a counter does.

    Args:
        messages: A conversation whose AI messages carry `usage_metadata`.
        counter: What is to be calibrated.

    Returns:
        A factor in 0.5..2; 1 where nothing is known.
    """
    reported, estimated = float(PRIOR_TOKENS), float(PRIOR_TOKENS)
    before: int | None = None
    growth = 0
    for message in messages:
        now = _read_input_tokens(message)
        if now is not None:
            if before is not None and _is_growth(now - before, growth):
                reported += now - before
                estimated += growth
            before, growth = now, 0
        if message.type != "system":
            growth += counter.count_message(message)
    return min(MAX_FACTOR, max(MIN_FACTOR, reported / estimated))


def _read_input_tokens(message: BaseMessage) -> int | None:
    if not isinstance(message, AIMessage) or message.usage_metadata is None:
        return None
    return message.usage_metadata["input_tokens"] or None


def _is_growth(reported: int, estimated: int) -> bool:
    """Return whether the prompt grew by these messages, and by nothing else."""
    if reported <= 0 or estimated <= 0:
        return False
    return 1 / MAX_STEP <= reported / estimated <= MAX_STEP


class CalibratedCounter:
    """A counter whose counts are multiplied by a factor.

    Args:
        counter: The counter.
        factor: In 0.5..2, as `calibration_of` tells it.

    Raises:
        ConfigurationError: When the factor is out of range.
    """

    def __init__(self, counter: TokenCounter, factor: float) -> None:
        value = _check_factor(factor)
        self._counter = counter
        self._factor = value
        self.identity = f"{counter.identity}*{value:.3f}"

    def __repr__(self) -> str:
        return f"CalibratedCounter({self._counter!r}, {self._factor!r})"

    def count_text(self, text: str) -> int:
        """Count the tokens of a text."""
        return round(self._counter.count_text(text) * self._factor)

    def count_message(self, message: BaseMessage) -> int:
        """Count the tokens of a message."""
        return round(self._counter.count_message(message) * self._factor)


def _check_factor(value: object) -> float:
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and MIN_FACTOR <= value <= MAX_FACTOR
    ):
        return float(value)
    msg = f"`factor` is {value!r}; pass a number in {MIN_FACTOR}..{MAX_FACTOR}"
    raise ConfigurationError(msg)
