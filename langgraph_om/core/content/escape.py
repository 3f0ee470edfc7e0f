"""The tags that structure our prompts, and how other text is kept from posing as them.

A tag counts however it is disguised: letters that look alike, full-width signs, characters that
nobody sees, spaces, an escaped slash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_OWN_TAGS: Final = (
    "observations",
    "previous-observations",
    "observation-log",
    "conversation",
    "other-conversation",
    "current-task",
    "suggested-response",
    "thread-title",
    "system-reminder",
    "thread",
    "working-memory",
    "recalled-messages",
)

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
    return re.compile(rf"{_OPEN}(?={gap}(?:{written})(?!\w))", re.IGNORECASE)


def _disguised(name: str) -> str:
    """Match a name in any spelling that a reader could take for it."""
    return "".join(f"{_letter(char)}[{_ACCENTS}{_HIDDEN}]*+" for char in name)


def _letter(char: str) -> str:
    if char == "-":
        return f"{_JOINT}{{0,3}}+"
    styled = "".join(chr(start + ord(char) - ord("a")) for start in _STYLED)
    return f"[{re.escape(char + _LOOKALIKES.get(char, ''))}{styled}]"


_TAG: Final = tag_pattern(*_OWN_TAGS)


def escape(text: str) -> str:
    """Make text unable to open or close one of our tags."""
    return escape_tags(text, _TAG)


def escape_tags(text: str, tags: re.Pattern[str]) -> str:
    """Make text unable to open or close the tags of a `tag_pattern`."""
    # To look for single characters takes next to no time, and most texts have none of them.
    return tags.sub("&lt;", text) if any(opener in text for opener in OPENERS) else text
