"""Text and values fit a budget: what is left out is named with its size, and nothing breaks a line.

Control characters and lone surrogates go before anything is measured or cut. A text is cut in a
bounded number of counts, however long it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from unicodedata import normalize

LABEL_CHARACTERS: Final = 120
MAX_TOKENS_PER_CHARACTER: Final = 4
"""More than any tokenizer makes of a character: the bytes of its UTF-8 form."""
CHARACTERS_PER_TOKEN_CEILING: Final = 16
"""No text longer than this many characters per allowed token is counted: it is cut unread."""
SEARCH_STEPS: Final = 16
LARGE_INTEGER_BITS: Final = 4096
"""Python refuses to write out an integer of thousands of digits."""

LINE_BREAKS: Final = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
"""What ends a line besides a line feed."""
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]+")
SURROGATE = re.compile("[\ud800-\udfff]")
DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = re.compile("[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
"""What would hide or reorder the letters of a label; what emoji are joined by is not among them."""
_PLAIN_LABEL = re.compile(rf"[A-Za-z0-9_.-]{{1,{LABEL_CHARACTERS}}}")
_LABEL_END = re.compile(r":(?=[\s\u200c\u200d\ufe00-\ufe0f]|$)")


def sanitize(text: str) -> str:
    """Return a text with plain line breaks, without control characters, encodable as UTF-8."""
    # What can be printed holds none of all that, and most texts are of it, in lines.
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    for foreign in LINE_BREAKS:
        text = text.replace(foreign, "\n")
    text = CONTROL.sub("", text)
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def for_terminal(text: str) -> str:
    """Return a text without what steers a terminal or turns the direction of what is read."""
    return DIRECTION.sub("", sanitize(text))


def as_label(value: object) -> str:
    """Return a name, an id or another short label, which cannot end the label it stands in."""
    if isinstance(value, str) and _PLAIN_LABEL.fullmatch(value):  # as most names and ids are
        return value
    if value is None or not isinstance(value, str | int):
        return ""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return ""
    # A label is short, so only the head of a long one is worth reading.
    text = _HIDDEN.sub("", sanitize(str(value)[: LABEL_CHARACTERS * 10]))
    text = " ".join(text.split()).replace("[", "(").replace("]", ")")
    text = _LABEL_END.sub("", text).strip()
    return text if len(text) <= LABEL_CHARACTERS else f"{text[:LABEL_CHARACTERS]}…"


KEY_UNITS: Final = 200
"""Of UTF-16: a character beyond the basic plane counts twice, and so it does in tokens."""


def show_key(key: str) -> str:
    """Write an id on one line, unchanged unless it is unfit to be one."""
    # Only the head is worth reading: what is longer is cut anyway.
    text = " ".join(sanitize(key[: KEY_UNITS * 10]).split())
    units = text.encode("utf-16-le")
    if len(units) <= 2 * KEY_UNITS:
        return text
    return f"{units[: 2 * KEY_UNITS].decode('utf-16-le', 'ignore')}…"


# --- Cutting -------------------------------------------------------------------------------------


def omit_middle(text: str, kept: int) -> str:
    """Return a text of which so many characters stay, a fifth of them at the end."""
    if kept >= len(text):
        return text
    tail = kept // 5
    note = f"[... {len(text) - kept:,} characters omitted ...]"
    return "\n".join(filter(None, (text[: kept - tail], note, text[len(text) - tail :])))


def truncate_to_tokens(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Return a text, or as much of its head and end as `tokens` allow."""
    if len(text) * MAX_TOKENS_PER_CHARACTER <= tokens:
        return text  # most texts are short, and counting is what costs
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if high == len(text) and head <= tokens:
        return text
    guess = min(high, high * tokens // max(head, 1))
    return omit_middle(
        text, _find_longest(lambda kept: count(omit_middle(text, kept)) <= tokens, high, guess)
    )


def find_longest_head(text: str, tokens: int, count: Callable[[str], int]) -> int:
    """Return about the greatest length at which the head of a text has no more than `tokens`."""
    high = min(len(text), tokens * CHARACTERS_PER_TOKEN_CEILING)
    head = count(text[:high])
    if head <= tokens:
        return high
    low = _find_longest(lambda n: count(text[:n]) <= tokens, high, high * tokens // head)
    return to_whole_character(text, 0, low) if low else 0


def _find_longest(fits: Callable[[int], bool], high: int, guess: int) -> int:
    """Return nearly the greatest length that fits: within 2 %, in a bounded number of tries.

    Args:
        fits: Tells whether a length fits; 0 does.
        high: A length that does not.
        guess: What is tried first.
    """
    low = 0
    for _ in range(SEARCH_STEPS):
        if fits(guess):
            low = guess
        else:
            high = guess
        if high - low <= max(1, low // 50):
            break
        guess = (low + high) // 2
    return low


def to_whole_character(text: str, start: int, end: int) -> int:
    """Move an end within a surrogate pair to before the pair, or after it to make progress."""
    pair = text[end - 1 : end + 1] if end else ""
    if len(pair) < 2 or not "\ud800" <= pair[0] <= "\udbff" or not "\udc00" <= pair[1] <= "\udfff":  # noqa: PLR2004 a pair
        return end
    return end - 1 if end - 1 > start else end + 1


# --- Values --------------------------------------------------------------------------------------

UNREADABLE: Final = "[unreadable]"
OMITTED: Final = "[omitted]"

_ENCODED_MIN_LENGTH: Final = 256  # a shorter one may be a word or an id
_DATA_URI = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_ENCODED_RUN = re.compile(
    r"(?:data:[^,:\s]{0,200};base64,)?+[A-Za-z0-9+/_-]{40,}+"
    r"(?:(?:\r?\n|\\n)[ \t]*+[A-Za-z0-9+/_-]{40,}+)*+"
    r"(?:(?:\r?\n|\\n)[ \t]*+[A-Za-z0-9+/_-]{1,39}+={1,2}|={0,2})"
)
"""Base64, its URL-safe form or digits, in one run or in long lines. Possessive, hence linear."""
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
        return _write_compact(value)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        return write_repr(value)


def write_repr(value: object) -> str:
    """Return the `repr` of a value, or a note when it has none."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (counting must not raise for what a caller put in a message)
        return UNREADABLE


def _describe(value: object) -> object:
    """Return what stands for a value that JSON does not have; never an address in memory."""
    if isinstance(value, Enum):
        return str(value.name)
    is_simple = isinstance(value, date | time | timedelta | Decimal)
    return str(value) if is_simple else f"[{type(value).__name__}]"


_write_compact = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, default=_describe
).encode


def write_json_without_payloads(value: object) -> tuple[str, int]:
    """Return the JSON text of a value without binary data, and how many payloads were left out."""
    payloads: list[str] = []
    try:
        return write_json(_make_readable(value, payloads, frozenset())), len(payloads)
    except Exception:  # noqa: BLE001  (nested too deep to be walked: count it as one attachment)
        return UNREADABLE, 1


def write_short_json(value: object, characters: int) -> str:
    """Return the JSON of a value without binary data, its middle left out to so many characters."""
    written = write_json_without_payloads([value])[0][1:-1]  # in a list: a text is quoted too
    return omit_middle(sanitize(omit_encoded(written)), characters)


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
    if _DATA_URI.match(text):
        return True
    run = _ENCODED_RUN.fullmatch(text.rstrip()) if len(text) > _ENCODED_MIN_LENGTH else None
    return run is not None and _name_run(run) != run[0]


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return a list or tuple as it is, and an empty one for anything else."""
    return value if isinstance(value, (list, tuple)) else ()


# --- Tags ----------------------------------------------------------------------------------------

# The tags that structure our prompts, and how other text is kept from posing as them.
#
# A tag counts however it is disguised: letters that look alike, full-width signs, characters that
# nobody sees, spaces, an escaped slash. So a name is compared as a careless reader sees it.

_TAGS: Final = (
    *("observations", "previous-observations", "observation-log", "observer-rules", "conversation"),
    *("other-conversation", "thread", "thread-title", "current-task", "suggested-response"),
    *("working-memory", "recalled-messages", "pinned-message", "state", "system-reminder"),
)
"""All tags of ours that stand around text of others, or that such text could imitate."""

TAG_ENDS: Final = tuple(dict.fromkeys(name.rpartition("-")[2] for name in _TAGS))
"""What completes one of them after a `<`, or after the words before its last."""

_ALIKE: Final = str.maketrans(
    {
        like: letters[0]
        for letters in (
            *("aаαɑ", "bьƅʙвβ", "cсϲ", "dԁժ", "eєεҽ℮е", "gɡցԍ", "hһհн", "iіıιɩӏ1l|", "kкκ"),
            *("mмμ", "nпոη", "oоοօσ0", "pрρ", "rгᴦʀ", "sѕꜱ", "tтτ", "uυսᴜц", "vѵᴠν", "yуγү"),
            *("-_‐‒–—―⁃−", "/\\⁄∕⧸╱"),
        )
        for like in letters[1:]
    }
)
"""Signs of other alphabets that are drawn like one of our tags, and what they are read as."""
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-"
    "\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]+"
)
"""Control characters, accents, and what a reader does not see."""

OPENERS: Final = "<\uff1c\ufe64\u2039\u2329\u27e8\u3008\u276c"
"""What a reader may take for the beginning of a tag."""
# Only what begins like one of the names is looked at closely.
_OPENED: Final = re.compile(
    rf"[{OPENERS}](?=[\s/\\]*+((?:[co0prstw]|[^!-~]).{{0,59}}))", re.DOTALL | re.IGNORECASE
)


def _see(text: str) -> str:
    """Return a text as it looks: in plain small letters, without what is not seen."""
    plain = text.lower().translate(_ALIKE)  # before its form is changed: of ϲ it makes a sigma
    plain = plain if plain.isascii() else normalize("NFKD", plain)
    return _UNSEEN.sub("", plain).lower().translate(_ALIKE)


def tag_pattern(*names: str) -> re.Pattern[str]:
    """Return what matches these names of tags in a text as it looks."""
    written = "|".join(_see(name).replace("-", r"[-\s]{0,3}") for name in names)
    return re.compile(rf"[\s/]*(?:{written})(?!\w)")


_OWN_TAG: Final = tag_pattern(*_TAGS)


def escape(text: str) -> str:
    """Make text unable to open or close one of our tags."""
    return escape_tags(text, _OWN_TAG)


def escape_tags(text: str, tags: re.Pattern[str]) -> str:
    """Make text unable to open or close the tags of a `tag_pattern`."""
    # To look for single characters takes next to no time, and most texts have none of them.
    if not any(map(text.__contains__, OPENERS)):
        return text
    return _OPENED.sub(lambda at: "&lt;" if tags.match(_see(at[1])) else at[0], text)


_NAMED: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot"}


def escape_attribute(text: str) -> str:
    """Escape any text for use between the quotes of an attribute."""
    return _ODD.sub(_escape_character, text)


_ODD: Final = re.compile(r"[^a-zA-Z0-9 _.:/-]")


def _escape_character(found: re.Match[str]) -> str:
    char = found[0]
    if char in _NAMED:
        return f"&{_NAMED[char]};"
    is_plain = char.isprintable() and char != "'" and char not in OPENERS
    return char if is_plain else f"&#{ord(char)};"
