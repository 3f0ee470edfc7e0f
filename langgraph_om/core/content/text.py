"""Text and values fit a budget: what is left out is named with its size, and nothing breaks a line.

Control characters and lone surrogates go before anything is measured or cut. A text is cut in a
bounded number of counts, however long it is, and a value is shown as JSON in the fullest outline
that fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain, islice
from typing import Any, Final, cast


class _LatePattern:
    def __init__(self, source: str, flags: int) -> None:
        self._made = (source, flags)

    def __getattr__(self, name: str) -> Any:
        """Return a method of the compiled pattern, and keep it."""
        if name.startswith("_"):  # as copies ask for
            raise AttributeError(name)
        value = getattr(re.compile(*self._made), name)
        setattr(self, name, value)
        return value


def compile_late(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used.

    Together they would be an eighth of the time of the package's import, and a run needs few.
    """
    return cast("re.Pattern[str]", _LatePattern(source, flags))


LABEL_CHARACTERS: Final = 120
MAX_TOKENS_PER_CHARACTER: Final = 4
"""More than any tokenizer makes of a character: the bytes of its UTF-8 form."""
CHARACTERS_PER_TOKEN_CEILING: Final = 16
"""No text longer than this many characters per allowed token is counted: it is cut unread."""
SEARCH_STEPS: Final = 16
WHOLE_VALUE_NODES: Final = 20_000
LARGE_INTEGER_BITS: Final = 4096
"""Python refuses to write out an integer of thousands of digits."""

LINE_BREAKS: Final = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
"""What ends a line besides a line feed."""
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]+")
SURROGATE = re.compile("[\ud800-\udfff]")
HIGH_SURROGATE = re.compile("[\ud800-\udbff]")
LOW_SURROGATE = re.compile("[\udc00-\udfff]")
SPACES = re.compile(r"\s+")
DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
HIDDEN = re.compile("[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
"""What would hide or reorder the letters of a label; what emoji are joined by is not among them."""
_PLAIN_LABEL = re.compile(rf"[A-Za-z0-9_.-]{{1,{LABEL_CHARACTERS}}}")
LABEL_END = re.compile(r":(?=[\s\u200c\u200d\ufe00-\ufe0f]|$)")
ENCODED = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_=-]{40,}")
"""What is encoded bytes, unless it is put together like an id."""


def sanitize(text: str, line_break: str = "\n") -> str:
    """`text` with plain line breaks, without control characters, encodable as UTF-8."""
    # What can be printed holds none of all that, and most texts are of it, in lines.
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    for foreign in LINE_BREAKS:
        text = text.replace(foreign, line_break)
    text = CONTROL.sub("", text)
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def for_terminal(text: str) -> str:
    """`text` without what steers a terminal or turns the direction of what is read."""
    return DIRECTION.sub("", sanitize(text))


def as_label(value: object) -> str:
    """A name, an id or another short label, which cannot end the label it stands in."""
    if isinstance(value, str) and _PLAIN_LABEL.fullmatch(value):  # as most names and ids are
        return value
    if value is None or not isinstance(value, str | int):
        return ""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return ""
    # A label is short, so only the head of a long one is worth reading.
    text = HIDDEN.sub("", sanitize(str(value)[: LABEL_CHARACTERS * 10]))
    text = SPACES.sub(" ", text).strip()
    text = LABEL_END.sub("", text.replace("[", "(").replace("]", ")")).strip()
    return text if len(text) <= LABEL_CHARACTERS else f"{text[:LABEL_CHARACTERS]}…"


def omit_middle(text: str, kept: int) -> str:
    """`text` with the middle left out so that `kept` characters stay, a fifth of them the end."""
    if kept >= len(text):
        return text
    tail = kept // 5
    note = f"[... {len(text) - kept:,} characters omitted ...]"
    return "\n".join(filter(None, (text[: kept - tail], note, text[len(text) - tail :])))


def truncate_to_tokens(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """`text`, or as much of its head and end as `tokens` allow, in a bounded number of counts."""
    if len(text) * MAX_TOKENS_PER_CHARACTER <= tokens:
        return text  # most texts are short, and counting is what costs
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if high == len(text) and head <= tokens:
        return text
    guess = min(high, high * tokens // max(head, 1))
    kept = _find_longest(
        lambda kept: count(omit_middle(text, kept)) <= tokens, high, guess, least=16, part=50
    )
    return omit_middle(text, kept)


def _find_longest(
    fits: Callable[[int], bool], high: int, guess: int, *, least: int, part: int
) -> int:
    """Search between a length that fits and one that does not; the first guess is proportional.

    Args:
        fits: Tells whether a length fits; 0 does.
        high: A length that does not.
        guess: What is tried first.
        least: How near is near enough, in characters,
        part: or as a part of what fits, whichever is more.
    """
    low = 0
    for _ in range(SEARCH_STEPS):
        if fits(guess):
            low = guess
        else:
            high = guess
        if high - low <= max(least, low // part):
            break
        guess = (low + high) // 2
    return low


def find_longest_head(text: str, tokens: int, count: Callable[[str], int]) -> int:
    """Return about the greatest length at which the head of a text has no more than `tokens`."""
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if head <= tokens:
        return high
    guess = high * tokens // head
    low = _find_longest(lambda n: count(text[:n]) <= tokens, high, guess, least=1, part=20)
    return to_whole_character(text, 0, low) if low else 0


def to_whole_character(text: str, start: int, end: int) -> int:
    """Move an end within a surrogate pair to before the pair, or after it to make progress."""
    splits_pair = (
        0 < end < len(text)
        and HIGH_SURROGATE.match(text[end - 1])
        and LOW_SURROGATE.match(text[end])
    )
    if not splits_pair:
        return end
    return end - 1 if end - 1 > start else end + 1


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
SHORT_BOUNDS: Final = _Bounds(80, entries=20, depth=4, nodes=60, encoded=False)


def _describe_value(value: object) -> object:
    """What stands for a value that JSON does not have; never an address in memory."""
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value):,} bytes]"
    return f"[{type(value).__name__}]"


def _write_whole(value: object) -> str | None:
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
        return json.dumps(value, ensure_ascii=False, default=_describe_value)
    except (TypeError, ValueError, RecursionError):
        return None


def describe_omitted(text: str) -> str:
    """Return what stands for a text that is not shown at all."""
    return f"[{len(text):,} characters omitted]"


def _shorten_string(text: str, bounds: _Bounds) -> str:
    """A string value of an outline, with the amount left out named."""
    if not bounds.encoded and looks_encoded(text):
        return describe_omitted(text)
    if len(text) <= bounds.characters:
        return text
    return f"{text[: bounds.characters]} … {describe_omitted(text[bounds.characters :])}"


def _outline_value(value: object, bounds: _Bounds, depth: int, nodes: int) -> object:
    """A JSON value that keeps the keys of `value` and shortens what they hold."""
    if isinstance(value, str):
        return _shorten_string(value, bounds)
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, dict | list | tuple):
        return _container_outline(value, bounds, depth, nodes)
    return _describe_value(value)


def _container_outline(
    value: dict[Any, Any] | Sequence[Any], bounds: _Bounds, depth: int, nodes: int
) -> object:
    """The outline of a mapping or list, whose entries share the `nodes` that are left."""
    size = min(len(value), bounds.entries, nodes)
    if value and (not size or depth == 0):
        return f"[{len(value):,} entries omitted]"
    share = (nodes - size) // max(size, 1)
    left_out = f"[{len(value) - size:,} entries omitted]" if len(value) > size else ""
    if isinstance(value, dict):
        shown: dict[str, object] = {}
        for key, item in islice(value.items(), size):
            # Long enough in every outline to tell it from its neighbours.
            name = str(_outline_value(key, KEY_BOUNDS, depth=0, nodes=0))
            shown[name] = _outline_value(item, bounds, depth - 1, share)
        return shown | ({"…": left_out} if left_out else {})
    items = [_outline_value(item, bounds, depth - 1, share) for item in value[:size]]
    return [*items, left_out] if left_out else items


def _outline_json(value: object, bounds: _Bounds) -> str:
    outline = _outline_value(value, bounds, bounds.depth, bounds.nodes)
    return _sanitize_json(json.dumps(outline, ensure_ascii=False))


def _sanitize_json(text: str) -> str:
    """JSON that `_clean` would not break: what ends a line in it stands in a string."""
    return sanitize(text, r"\n")


def write_bounded_json(value: object, tokens: int, count: Callable[[str], int]) -> str:
    """`value` as JSON within `tokens`: whole, else its fullest outline that fits, else cut.

    Args:
        value: Any value; what JSON does not have is described.
    """
    ceiling = tokens * CHARACTERS_PER_TOKEN_CEILING
    whole = _write_whole(value)
    whole = None if whole is None else omit_encoded(whole)
    shown_whole = [] if whole is None or len(whole) > ceiling else [_sanitize_json(whole)]
    text = ""
    for text in chain(shown_whole, (_outline_json(value, bounds) for bounds in OUTLINES)):
        if len(text) <= ceiling and count(text) <= tokens:
            return text
    return truncate_to_tokens(text, tokens, count)


def write_short_json(value: object, characters: int) -> str:
    """The outline of a value in about so many characters; encoded bytes in it are not shown."""
    return omit_middle(_outline_json(value, SHORT_BOUNDS), characters)


UNREADABLE: Final = "[unreadable]"
OMITTED: Final = "[omitted]"

# Base64 or its URL-safe form, in one run or in long lines. Possessive, hence linear.
_ENCODED = re.compile(r"(?:[A-Za-z0-9+/_-]{40,}+\r?\n)*+[A-Za-z0-9+/_-]*+={0,2}\s*+")
_ENCODED_MIN_LENGTH: Final = 256  # a shorter one may be a word or an id
_DATA_URI = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_ENCODED_RUN = re.compile(
    r"(?:data:[^,:\s]{0,200};base64,)?+[A-Za-z0-9+/_-]{40,}+"
    r"(?:(?:\r?\n|\\n)[ \t]*+[A-Za-z0-9+/_-]{40,}+)*+"
    r"(?:(?:\r?\n|\\n)[ \t]*+[A-Za-z0-9+/_-]{1,39}+={1,2}|={0,2})"
)
_HEX: Final = frozenset("0123456789abcdefABCDEF")


def omit_encoded(text: str) -> str:
    """Return a text with the size of encoded bytes in the place of each long run of them."""
    return _ENCODED_RUN.sub(_name_run, text) if len(text) > _ENCODED_MIN_LENGTH else text


def _name_run(run: re.Match[str]) -> str:
    found, signs = run[0], set(run[0])
    is_base64 = all(any(map(kind, signs)) for kind in (str.isdigit, str.islower, str.isupper))
    is_hex = signs <= _HEX and not found.isdigit() and not found.isalpha()
    if len(found) <= _ENCODED_MIN_LENGTH or not (is_base64 or is_hex or found.startswith("data:")):
        return found
    return f"[{len(found):,} characters of encoded data]"


def write_json(value: object) -> str:
    """Return a text as it is and any other value as compact JSON, or as close as it gets."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        return write_repr(value)


def write_repr(value: object) -> str:
    """Return the `repr` of a value, or a note when it has none."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (counting must not raise for what a caller put in a message)
        return UNREADABLE


def write_json_without_payloads(value: object) -> tuple[str, int]:
    """Return the JSON text of a value without binary data, and how many payloads were left out."""
    payloads: list[str] = []
    try:
        return write_json(_make_readable(value, payloads, frozenset())), len(payloads)
    except Exception:  # noqa: BLE001  (nested too deep to be walked: count it as one attachment)
        return UNREADABLE, 1


def _make_readable(value: object, payloads: list[str], parents: frozenset[int]) -> object:
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
        return [_make_readable(item, payloads, parents) for item in value]
    # Encrypted fields mean nothing to a reader: they are noted, not estimated.
    return {
        key: OMITTED
        if isinstance(key, str) and ("encrypted" in key or "signature" in key.lower())
        else _make_readable(item, payloads, parents)
        for key, item in value.items()
    }


def _is_encoded(text: str) -> bool:
    is_long = len(text) > _ENCODED_MIN_LENGTH
    return bool(_DATA_URI.match(text) or (is_long and _ENCODED.fullmatch(text)))


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return a list or tuple as it is, and an empty one for anything else."""
    return value if isinstance(value, (list, tuple)) else ()


KEY_UNITS: Final = 200
"""Of UTF-16: a character beyond the basic plane counts twice, and so it does in tokens."""
_KEY_JOINTS = re.compile(r"[-_/]+")
_PLAIN_PIECE = re.compile(r"[0-9a-f]{1,64}|[0-9a-z]{1,32}|[0-9A-Z]{1,32}|[A-Z][a-z]{1,31}")
_MIXED_PIECE = re.compile(r"[0-9A-Za-z]{1,32}")


def looks_encoded(text: str) -> bool:
    """Return whether a text is encoded bytes, such as base64, and neither words nor an id."""
    return ENCODED.fullmatch(text) is not None and not _is_built_like_key(text)


def _is_built_like_key(text: str) -> bool:
    """Return whether a text reads like an id: words, numbers and digests, one random piece at most.

    So are `lc_run--<uuid>-0`, `resp_<48 hex digits>` and `chatcmpl-<29 letters>`. Encoded bytes are
    longer without a joint, or mix capitals, small letters and digits on both sides of one.
    """
    if len(text) > KEY_UNITS:
        return False
    pieces = filter(None, _KEY_JOINTS.split(text))
    mixed = [piece for piece in pieces if not _PLAIN_PIECE.fullmatch(piece)]
    return len(mixed) <= 1 and all(map(_MIXED_PIECE.fullmatch, mixed))


def show_key(key: str) -> str:
    """Write an id on one line, unchanged unless it is unfit to be one."""
    # Only the head is worth reading: what is longer is cut anyway.
    text = " ".join(sanitize(key[: KEY_UNITS * 10]).split())
    units = text.encode("utf-16-le")
    if len(units) <= 2 * KEY_UNITS:
        return text
    return f"{units[: 2 * KEY_UNITS].decode('utf-16-le', 'ignore')}…"


# The tags that structure our prompts, and how other text is kept from posing as them.
#
# A tag counts however it is disguised: letters that look alike, full-width signs, characters that
# nobody sees, spaces, an escaped slash.


_TAGS: Final = (
    "observations",
    "previous-observations",
    "observation-log",
    "observer-rules",
    "conversation",
    "other-conversation",
    "thread",
    "thread-title",
    "current-task",
    "suggested-response",
    "working-memory",
    "recalled-messages",
    "pinned-message",
    "state",
    "system-reminder",
)
"""All tags of ours that stand around text of others, or that such text could imitate."""

TAG_ENDS: Final = tuple(dict.fromkeys(name.rpartition("-")[2] for name in _TAGS))
"""What completes one of them after a `<`, or after the words before its last."""

_LOOKALIKES: Final[Mapping[str, str]] = {
    "a": "аαɑ",
    "b": "ЬβƄʙвВΒ",
    "c": "сϲСⅽ",
    "d": "ԁժⅾ",
    "e": "еєεҽ℮ЕΕ",
    "g": "ɡցԍ",
    "h": "һհНΗ",
    "i": "іıιɩΙӏ1lⅰ|",
    "k": "кκКΚ",
    "l": "ⅼ1ıӏ|iІ",
    "m": "мⅿМΜ",
    "n": "пոηΝ",
    "o": "оοօσОΟ0",
    "p": "рρРΡ",
    "r": "гᴦʀ",
    "s": "ѕꜱЅ",
    "t": "тτТΤ",
    "u": "υսᴜц",
    "v": "ѵνᴠⅴѴ",
    "y": "уγүУΥ",
}
"""Letters and digits of other alphabets that are drawn like a letter of our tags."""

_STYLED: Final = (0xFF41, 0x24D0, *range(0x1D400, 0x1D6A4, 0x1A))
"""Where alphabets of full-width, circled and mathematical letters begin."""

_HIDDEN: Final = (
    r"\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff"
)
"""Control characters, and characters that a reader does not see."""

OPENERS: Final = "<\uff1c\ufe64\u2039\u2329\u27e8\u3008\u276c"
"""What a reader may take for the beginning of a tag."""
_OPEN: Final = f"[{OPENERS}]"
_SLASH: Final = r"[/\\\u2044\u2215\u29f8\uff0f\u2571]"
_JOINT: Final = r"[-_\s\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d\uff3f]"
_ACCENTS: Final = r"\u0300-\u0344\u0346-\u036f"  # U+0345 is an iota, ignoring case


def tag_pattern(*names: str) -> re.Pattern[str]:
    """Match the `<` of every opening or closing tag of these names, however it is written."""
    # All repetitions are possessive: a long run is read once.
    gap = rf"[\s{_HIDDEN}]*+(?:{_SLASH}[\s{_HIDDEN}]*+)*+"
    written = "|".join(map(_disguised, names))
    # Some hidden characters are spaces to Python, and end a name before a letter too.
    end = rf"(?:(?<=[{_HIDDEN}])|(?!\w))"
    return compile_late(rf"{_OPEN}(?={gap}(?:{written}){end})", re.IGNORECASE)


def _disguised(name: str) -> str:
    return "".join(f"{_letter(char)}[{_ACCENTS}{_HIDDEN}]*+" for char in name)


def _letter(char: str) -> str:
    if char == "-":
        return f"{_JOINT}{{0,3}}+"
    styled = "".join(chr(start + ord(char) - ord("a")) for start in _STYLED)
    return f"[{re.escape(char + _LOOKALIKES.get(char, ''))}{styled}]"


_OWN_TAG: Final = tag_pattern(*_TAGS)


def escape(text: str) -> str:
    """Make text unable to open or close one of our tags."""
    return escape_tags(text, _OWN_TAG)


def escape_tags(text: str, tags: re.Pattern[str]) -> str:
    """Make text unable to open or close the tags of a `tag_pattern`."""
    # To look for single characters takes next to no time, and most texts have none of them.
    return tags.sub("&lt;", text) if any(map(text.__contains__, OPENERS)) else text


_NAMED: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot"}


def escape_attribute(text: str) -> str:
    """Escape any text for use between the quotes of an attribute."""
    return "".join(map(_escape_character, text))


def _escape_character(char: str) -> str:
    if char in _NAMED:
        return f"&{_NAMED[char]};"
    is_plain = char.isprintable() and char != "'" and char not in OPENERS
    return char if is_plain else f"&#{ord(char)};"
