"""What things count in tokens: messages by one set of rules, texts by estimate.

A count never raises, whatever a message holds. Counters differ only in what a text counts. The
rules of messages:

1. A count is never negative, and an empty message still counts its role and framing.
2. Adding text or another part never lowers a count.
3. Encoded binary data is never counted as text: an attachment counts by its provider's formula.
4. What is not understood is over-estimated as its JSON text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import groupby, pairwise, product
from operator import ne
from string import ascii_lowercase
from typing import Any, Final, Literal, NamedTuple, Protocol, cast, runtime_checkable

import imagesize
from langchain_core.messages import BaseMessage, FunctionMessage, ToolMessage

from langgraph_om.core.content.blocks import PDF, Payload, first_string
from langgraph_om.core.content.message_keys import is_plain
from langgraph_om.core.content.parts import (
    EMPTY_RESULT,
    Part,
    Placeholders,
    all_parts,
    result_parts,
)
from langgraph_om.core.content.text import write_json, write_json_without_payloads
from langgraph_om.errors import ConfigurationError

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
    """What a token counter must provide; any object with these three members works."""

    identity: str
    """Names the counter, its encoding and its version; a different rule needs a different name."""

    def count_text(self, text: str) -> int:
        """Return the tokens of a text, 0 for an empty one."""
        ...

    def count_message(self, message: BaseMessage) -> int:
        """Return the tokens of a message with its role and framing."""
        ...


class ViewCounter:
    """Counts messages as `show` has the Actor see them; `rules` names what `show` does."""

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
        """Return the tokens of a message as the Actor sees it."""
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


# --- Attachments ---------------------------------------------------------------------------------
#
# Nothing is fetched. Of binary data only the header is decoded, wherever the block keeps it; a size
# that is not known counts a fixed estimate.

ImageProvider = Literal["openai", "google", "anthropic"]

FILE_FALLBACK_TOKENS: Final = 1000
"""What an audio, a video, or a document of unknown size counts."""


class ImageSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Formula:
    """How a provider counts: an image is shrunk to its sides, and cut into tiles."""

    longest: int
    shortest: int
    tile: int
    base: int
    per_tile: int
    unknown: int
    """Tokens of an image of unknown size, as if it were large."""
    levels: Mapping[str, int]
    """Tokens by what a block asks for in words, whatever the size."""
    pdf: tuple[int, int]
    """The least tokens of a PDF, and its bytes per token."""

    def count_image(self, size: ImageSize | None, level: str) -> int:
        """Return the tokens of an image."""
        if level in self.levels:
            return self.levels[level]
        if size is None:
            return self.unknown
        scale = min(1.0, self.longest / max(size))
        scale *= min(1.0, self.shortest / (min(size) * scale))
        across, down = (max(1, -(-int(side * scale + 0.5) // self.tile)) for side in size)
        return self.base + self.per_tile * across * down


_GOOGLE: Final = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}
_FORMULAS: Final[Mapping[ImageProvider, _Formula]] = {
    "openai": _Formula(2048, 768, 512, 85, 170, 765, {"low": 85}, (500, 4)),
    "google": _Formula(3072, 3072, 3072, 1120, 0, 1120, _GOOGLE, (258, 20)),
    "anthropic": _Formula(1568, 1568, 28, 0, 1, 1600, {}, (1500, 3)),
}


def check_provider(provider: ImageProvider) -> ImageProvider:
    """Refuse a provider without a formula."""
    if provider not in _FORMULAS:
        msg = f"`provider` is {provider!r}; pass 'openai', 'google', 'anthropic' or None"
        raise ConfigurationError(msg)
    return provider


def count_attachment(part: Part, provider: ImageProvider) -> int:
    """Return the tokens of an attachment."""
    formula, places, payload = _FORMULAS[provider], part.places, part.payload
    if part.kind == "image" or part.mime.startswith("image/"):
        size = _stated_size(places) or (_read_size(payload) if payload else None)
        level = first_string(places, _LEVEL_KEYS).lower()
        return formula.count_image(size, level.removeprefix("media_resolution_"))
    if part.kind != "file" or part.mime.startswith(("audio/", "video/")) or payload is None:
        return FILE_FALLBACK_TOKENS
    least, per_token = formula.pdf if part.mime == PDF else (1, 4)
    return max(least, -(-payload.size // per_token))


_LEVEL_KEYS: Final = ("detail", "media_resolution", "mediaResolution")


def _stated_size(places: Sequence[Mapping[str, Any]]) -> ImageSize | None:
    for place in places:
        width, height = place.get("width"), place.get("height")
        if isinstance(width, int) and isinstance(height, int) and min(width, height) > 0:
            return ImageSize(width, height)
    return None


_MOST_BYTES: Final = 1 << 20
"""How much is decoded: a preface of a photo may be long."""
_MAX_READS: Final = 4_000
_RASTER: Final = re.compile(
    rb"\x89PNG|GIF8|\xff\xd8\xff|RIFF....WEBP|BM|II\*\x00|MM\x00\*|....ftyp|\x00\x00\x00\x0cjP",
    re.DOTALL,
)


class _Header(BytesIO):
    """The first bytes of an image, which end after too many reads: hostile ones need a million."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size) if self.reads <= _MAX_READS else b""


def _read_size(payload: Payload) -> ImageSize | None:
    """Return what the header of an image says; `None` when it says nothing sensible."""
    if not _RASTER.match(payload.head()):  # a drawing in XML has no pixels
        return None
    with suppress(Exception):  # whatever is wrong with the data, the size is not known
        size = ImageSize(*imagesize.get(_Header(payload.head(_MOST_BYTES))))
        return size if min(size) > 0 else None
    return None


# --- Texts by estimate ---------------------------------------------------------------------------
#
# The tokens of `o200k_base`, without its vocabulary. A text is split nearly as that vocabulary
# splits it, into words, digits, marks and white space, and each piece has a cost that was fitted to
# true counts of prose, code and data. A text counts less than a beginning of it at most where a
# word at the end becomes a frequent one.

# A word takes one mark or space before it along. Pieces are bounded: what is kept is small. Most
# repetitions are possessive: none of them could give back what the next one would take.
_ASCII_PIECES = re.compile(
    r"[ !-/:-@[-`{-~]?+[A-Z]{0,32}+[a-z]{1,32}+|[ !-/:-@[-`{-~]?+[A-Z]{1,32}+"
    r"| ?+[0-9]{1,3}+"
    r"| ?+[^\sA-Za-z0-9]{1,64}+[\r\n/]{0,64}+"
    r"|\s*[\r\n]+|\s+(?!\S)"
)
_UPPER = r"A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0400-\u042f"
# The letters and accents of all other alphabets, without their digits and punctuation.
_LOWER = (
    r"a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u0390\u03aa-\u03ff\u0430-\u060b\u060d-\u061a"
    r"\u0620-\u065f\u066e-\u06ef\u06fa-\u0963\u0971-\u1fff\u2c00-\u2dff\ua640-\uabff\uac00-\ud7ff"
    r"\ufb00-\ufdff\ufe70-\ufefc"
)
_HAN = r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = r"\u3041-\u309f"
_KATAKANA = r"\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_NO_MARK = rf"\d{_UPPER}{_LOWER}{_HAN}{_HIRAGANA}{_KATAKANA}"
_PIECES = re.compile(
    rf"[{_HAN}]{{1,16}}+|[{_HIRAGANA}]{{1,16}}+|[{_KATAKANA}]{{1,16}}+"
    rf"|[^\t-\r{_NO_MARK}]?+[{_UPPER}]{{0,32}}+[{_LOWER}]{{1,32}}+"
    rf"|[^\t-\r{_NO_MARK}]?+[{_UPPER}]{{1,32}}+"
    r"| ?+\d{1,3}+"
    rf"| ?+[^\s{_NO_MARK}]{{1,64}}+[\r\n/]{{0,64}}+"
    r"|\s*[\r\n]+|\s+(?!\S)"
)
_STRETCH: Final = 1 << 12  # a few letters that are not ASCII slow down no more than this
_MOST_READ: Final = 1 << 20


class EstimatingCounter(MessageCounter):
    """An estimate that needs no vocabulary and no network, fitted to OpenAI's tokens.

    Args:
        provider: Whose formula counts images and files: `"openai"`, `"google"` or `"anthropic"`;
            `None`: OpenAI's.

    Raises:
        ConfigurationError: For another provider.
    """

    identity: str = "estimate/1"

    @classmethod
    def named(cls, identity: str) -> EstimatingCounter | None:
        """Return the counter of a provider's images that has an identity; `None` for any other."""
        found = _OF_PROVIDER.match(identity)
        return cls(provider=cast("Any", found[1])) if found else None

    def count_text(self, text: str) -> int:
        """Return the estimated tokens of a text, 0 only for an empty one.

        Above a million characters, only a part is read, taken evenly from the whole text.
        """
        if len(text) <= _STRETCH:
            cost = _cost_stretch(text)
        elif len(text) <= _MOST_READ:
            cost = sum(map(_cost_stretch, _cut(text)))
        else:
            cost = sum(map(_cost_stretch, _sample(text))) * len(text) // _MOST_READ
        return max((cost + _TOKEN // 2) // _TOKEN, 1 if text else 0)


_OF_PROVIDER: Final = re.compile(r"estimate/1\+(openai|google|anthropic)")


def _cost_stretch(text: str) -> int:
    pieces = _ASCII_PIECES if text.isascii() else _PIECES
    return sum(map(_cost, pieces.findall(text)))


def _cut(text: str) -> Iterator[str]:
    """Yield a text in stretches, which are counted one by one."""
    start = 0
    while len(text) - start > _STRETCH:
        # Before a space, where vocabularies split anyway; inside a longer run the count is close.
        space = text.rfind(" ", start + 1, start + _STRETCH)
        end = space if space > start else start + _STRETCH
        yield text[start:end]
        start = end
    yield text[start:]


def _sample(text: str) -> Iterator[str]:
    """Yield stretches of a long text, as far from each other as they fill what is read."""
    count = _MOST_READ // _STRETCH
    for number in range(count):
        start = len(text) * number // count
        yield text[start : start + _STRETCH]


# --- Costs ---------------------------------------------------------------------------------------

_TOKEN: Final = 32
"""The cost of one token; all costs are whole numbers."""

_PAIRS: Final = (
    "l863n30b8hg002t8l07017j11fk"
    "btno5uiof1n0od4sv56l2e5pbzv"
    "8qbr1mt05n06cw4me0g07slnaam"
    "eroc2qgsaeg50hajoc9q7gptl0u"
    "8eb5ic9oklobc6fe945bg9g0alw"
    "asvr65aw8zt88m8wuar00ntob6p"
    "oxor5rd0fzn6mcftzcgiavuzsrz"
    "euzm8yeobxlc907ou3i06roih0o"
    "d255652eqgk6a3004640o5h9g0k"
    "aspa1m6p5q0sl3ccpn6ye54wj1e"
    "bce93hc9izgqjkk9zrd8ml4zijq"
    "a1jc659h9niacobbktd76d4y0zn"
    "81mo0tgvgzs98t60yw7oewomxsm"
    "er37881ghiegl6ecwn30h8ckjdp"
    "ac76640tdeb89095c2c924896gj"
    "eio51up7dzq7gla503b6fjkzars"
    "uutszzuwuzzhrzzvokyw0szzxzc"
    "ffd15bbe9ygf067eoba9faej4jr"
    "grfg4db6azlifqd29h25cq0z7ln"
    "eh7i5ca45z0ggnd4z669bjci4am"
    "60ha3e4p5nf177s4y092mbm7ixq"
    "gxyz3yjudztnvwfvtluytsfsjsu"
    "arzh7sr5ezj9t09zzc0rvkbdizz"
    "jq7wgqzwnzzynzt7qxwcvzwg4zz"
    "lvkykzpznzdkgbmkzh6izklsjsu"
    "jzgu8xdwhzwkremeyyoafplo9ct"
    "aj5e4010lme5a0b86599i9c02fm"
)
"""What two neighbouring letters add to a word: a row for the first, a column for the second one.

The last row and column stand for every letter that is not ASCII. A digit is of base 36.
"""

_OTHER_LETTER: Final = "~"
_LETTERS: Final = ascii_lowercase + _OTHER_LETTER
_PAIR_COSTS: Final[dict[tuple[str, str], int]] = dict(
    zip(product(_LETTERS, _LETTERS), (int(digit, 36) for digit in "".join(_PAIRS)), strict=True)
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD: Final = 3
_AFTER_SPACE: Final = -7
_CAPITAL: Final = 5
_CAPITAL_AFTER_SPACE: Final = 11
_MORE_CAPITALS: Final = 3

_WORD_LIST: Final = """
algorithm already anyone anything anywhere application appropriate arbeit ascii assistant
associated asynchronous automatically available background behavior behind believe between beyond
birthday bootstrap business callbacks capabilities capability certificate channels characteristics
characters checkpoint children column commands community company compatibility compiled completely
concurrency configurable configuration constraint constructor containing correctness corresponding
customize database definition definitions demonstrate dependencies dependency deprecated destroyed
details deutschland development diagnostics differences difficult directly directories directory
disconnect discuss discussed distributed documentation dynamic dynamically einem embedding
encryption endpoint enumerable environment especially everyone everything everywhere exactly
executable explicitly favorite feedback fields filesystem following foreign friends gateway
generator government hostname hundred husband identifiers imagine immediately immutable
implementation implementations implemented implementing implements important including initialize
inputs installation installed interrupts keywords knowledge lambda libraries lifecycle likely
localhost looking making manifest mappings maximum metadata minutes modified modifiers music
myself navigate necessary neighbor neither normalize obwohl offset organization organize organized
otherwise overlapping overridden parameter parameters particular payload perhaps placeholders
pointers political primitive programming programs projects properties protocol prototype purposes
reasoning receive received recommend recommended recursive recursively references register
registers release relevant replica repository representation representations resolve resolved
responsibilities responsibility restaurant retrieve returned running sandbox schema screen seinen
separate serialized settings signature signatures significantly similar similarity sleep snapshot
someone something sometimes somewhere specifying statements straightforward structs structure
structured structures students subclass subprocess successful successfully suddenly suggest
supported supports synchronous talking tasks terminal themselves therefore thousand together
tomorrow transform typeof undefined underlying understand university unknown unsupported upgrade
validate validator variable variables verbose verwenden visibility vulnerabilities walking
warnings weekend welcome width working workspace yesterday yield yourself zwischen
"""
_CAPITALS_LIST: Final = """
BEGIN BETWEEN CLASS COLUMN CONFIG CREATE DATABASE DEBUG DEFAULT DELETE DESCRIPTION DISTINCT DROP
ELSE ERROR EXISTS FLOAT FOREIGN FROM FUNCTION GROUP HTTPS INSERT INTEGER JOIN LANGUAGE LIMIT NULL
NUMBER OPTIONS OTHER PASSWORD PRIMARY PUBLIC REFERENCES REQUEST RESPONSE RETURN RETURNS SELECT
SERIAL SERVER STATUS STRICT STRING TABLE TODO UNION UNIQUE UPDATE USING UUID VALUE VALUES VARCHAR
VERSION VIEW WARNING
"""
_MARKS_LIST: Final = r"""
":" "," ":[ "], "}, "}} "): "), "); "). ',' '], '): '). ]); ()) (); (){ (): ()` )), )); }); }).
})( ]}, },{ }," ]," ],[ ][] :// !== --> "/> ="" ("/ ('/ `${ ({" ({'
"""
_WORDS: Final = frozenset(_WORD_LIST.split())
_CAPITALIZED: Final = frozenset(_CAPITALS_LIST.split())
_FREQUENT_MARKS: Final = frozenset(_MARKS_LIST.split())
"""What is one token, though its letters or marks cost more."""

_JOINED: Final = {
    " ": 0, "’": 0, "_": 2, "&": 3, ".": 5, "-": 14, ",": 16, "(": 17, "/": 17, ";": 19, "\\": 20,
    "$": 20, "=": 21, "[": 23, "%": 25, ")": 26, ":": 27, "<": 27, ">": 27, "'": 28, "+": 28,
}  # fmt: skip
"""What a mark adds to the word that follows it at once."""
_JOINED_MARK: Final = 31
_CONTRACTIONS: Final = frozenset({"s", "t", "m", "d", "re", "ve", "ll"})
_CONTRACTION: Final = 14

_MARKS: Final = 14
_ANOTHER_MARK: Final = 18
_SAME_MARK: Final = 1
_WIDE_MARK: Final = 8
_EMOJI: Final = 45

_SCRIPTS: Final[tuple[tuple[str, int, int, int], ...]] = (
    # From which character on: the cost of a word, of each character in it after a space, and else.
    ("\u0300", 0, 32, 32),
    ("\u0370", 25, 10, 13),  # Greek
    ("\u0400", 22, 6, 8),  # Cyrillic
    ("\u0530", 0, 20, 20),
    ("\u0590", 8, 14, 15),  # Hebrew
    ("\u0600", 18, 8, 11),  # Arabic
    ("\u0700", 0, 32, 32),
    ("\u0900", 8, 10, 13),  # Devanagari
    ("\u0980", 10, 11, 14),  # other scripts of India
    ("\u0e00", 6, 13, 13),  # Thai
    ("\u0e80", 0, 32, 32),
    ("\u3005", 12, 23, 23),  # Han
    ("\u3041", 6, 16, 16),  # Hiragana
    ("\u30a0", 3, 20, 20),  # Katakana
    ("\u3400", 12, 23, 23),  # Han
    ("\ua000", 0, 32, 32),
    ("\uac00", 27, 15, 18),  # Hangul
    ("\uf900", 12, 23, 23),  # Han
    ("\ufb00", 16, 32, 32),
    ("\uff66", 3, 20, 20),  # Katakana
    ("\U00020000", 0, 64, 64),
)
_STARTS: Final = [start for start, *_ in _SCRIPTS]
_LATIN: Final = re.compile("[A-Za-z\u00aa-\u036f\u1e00-\u1eff]")
_MARK: Final = re.compile(rf"[^\s{_NO_MARK}]")


@lru_cache(maxsize=1 << 15)  # words come again: a text is counted in a fifth of the time
def _cost(piece: str) -> int:
    first, last = piece[0], piece[-1]
    if piece.isspace():
        return _TOKEN * (1 + len(piece) // _SPACES_PER_TOKEN)
    if last.isdecimal():
        return 2 * _TOKEN if first == " " else _TOKEN
    if last in "\r\n" or _MARK.match(last):
        return _marks_cost(piece.strip(" \r\n"))
    if first.isspace() or _MARK.match(first):
        return _joined_cost(first, piece[1:])
    return _word_cost(piece)


def _joined_cost(first: str, word: str) -> int:
    if first == "'" and word in _CONTRACTIONS:
        return _CONTRACTION
    if len(word) == 1 and word.isascii() and first.isascii():
        return _TOKEN
    return _JOINED.get(first, _JOINED_MARK) + _word_cost(word, after_space=first == " ")


_SPACES_PER_TOKEN: Final = 48


def _word_cost(word: str, *, after_space: bool = False) -> int:
    if word.isascii():
        return _latin_cost(word, after_space=after_space)
    cost = 0
    for at, (script, run) in enumerate(groupby(word, _find_script)):
        letters = "".join(run)
        is_spaced = after_space and not at
        if script is None:
            cost += _latin_cost(letters, after_space=is_spaced)
        else:
            _, first, spaced, bare = script
            cost += max(_TOKEN, first + (spaced if is_spaced else bare) * len(letters))
    return cost


def _find_script(letter: str) -> tuple[str, int, int, int] | None:
    """Return the costs of a letter's alphabet, `None` for Latin letters and their accents."""
    if _LATIN.match(letter):
        return None
    return _SCRIPTS[bisect_right(_STARTS, letter) - 1]


def _latin_cost(word: str, *, after_space: bool) -> int:
    letters = word.lower()
    if (letters in _WORDS and word[1:].islower()) or word in _CAPITALIZED:
        return _TOKEN
    cost = _WORD + (_AFTER_SPACE if after_space else 0)
    if letters != word:
        cost += _MORE_CAPITALS * sum(map(str.isupper, word[1:]))
        if word[0].isupper():
            cost += _CAPITAL_AFTER_SPACE if after_space else _CAPITAL
    if not letters.isascii():
        letters = _NOT_ASCII.sub(_OTHER_LETTER, letters)
    cost += sum(map(_PAIR_COSTS.__getitem__, pairwise(letters)))
    return max(_TOKEN, cost)


def _marks_cost(marks: str) -> int:
    if marks in _FREQUENT_MARKS:
        return _TOKEN
    changes: int = sum(map(ne, marks, marks[1:]))
    cost = _MARKS + _ANOTHER_MARK * changes + _SAME_MARK * (len(marks) - 1 - changes)
    if not marks.isascii():
        cost += _WIDE_MARK * sum(mark > "\x7f" for mark in marks)
        cost += _EMOJI * sum(mark > "\uffff" for mark in marks)
    return max(_TOKEN, cost)
