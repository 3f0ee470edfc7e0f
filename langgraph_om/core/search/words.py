"""The words by which a text is found; the same for what is kept and for what is asked.

One tokenisation for every place that is searched, so that SQLite, PostgreSQL and a conversation in
memory find the same. It knows no language: no word is left out for being frequent, as ranking gives
such words next to no weight.

- Letters are folded: compatible forms (NFKC), case, accents, and the vowel marks of Arabic and
  Hebrew.
- What is written without blanks (Chinese, Japanese, Korean, Thai ...) becomes overlapping pairs of
  characters, and single characters.
- Of longer words the first five letters count too, so that "painted" finds "painting": less than
  the word itself, and in any language whose words change at their end.
- What is put together (`parse_rate`, `parseRate`, `fx/rates.py`, an id, an address) is found whole
  and by its parts.

A word begins with a letter or a digit and holds, beside these, only `JOINERS`. The beginning of a
longer word is marked by a `+` at its end, where no other word has one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

JOINERS: Final = "_-./:@#+&',"
"""What joins the parts of a word that is put together. A backslash is read as a slash."""

MAX_WORD_CHARACTERS: Final = 64
"""A longer word is cut, where it is kept and where it is asked for."""
MAX_GROWTH: Final = 2
"""One character may stand for eighteen; of stretches that become longer, the end is not read."""
BEGINNING: Final = 5
MAX_QUERY_WORDS: Final = 32
"""Of a longer query the longest words are looked for, which are seldom the frequent ones."""
PIECE_CHARACTERS: Final = 16_000
MAX_PIECES: Final = 64
"""Of a text longer than so many pieces, a million characters, the end is not searchable."""

_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without blanks between words, and Hangul, whose words carry their particles with them."""
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
"""Marks on letters that are left out, and the stroke that only lengthens an Arabic word."""
_VOWELS: Final = "\u0900-\u0963\u0971-\u0df3\u0e31-\u0e4e\u0eb1-\u0ece\u1000-\u109f\u17b4-\u17d3"
"""Parts of words which are no letters to Python: the vowel signs of Indic scripts."""
_LETTER: Final = rf"(?:[^\W_]|[{_MARKS}{_VOWELS}\u3099\u309a\uff9e\uff9f])"

_CHUNK: Final = re.compile(rf"{_LETTER}(?:{_LETTER}|[_\-./\\:@#+&'’,]+(?={_LETTER}))*")
"""A stretch of letters, digits and what joins them."""
_RUN: Final = re.compile(
    rf"([{_UNSPACED}]+)|(?:(?![{_UNSPACED}]){_LETTER}|[{re.escape(JOINERS)}])+"
)
_PARTS: Final = re.compile(rf"[{re.escape(JOINERS)}]+")
_HUMPS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MARK: Final = re.compile(f"[{_MARKS}]+")
_REMEMBERED_CHARACTERS: Final = 32


def split_words(text: str) -> list[str]:
    """Return the words of a text in their order, those that come again too."""
    return [word for chunk in _CHUNK.findall(text) for word in _read(chunk)]


def find_words(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield where a stretch of words begins and ends in a text, and its words."""
    for match in _CHUNK.finditer(text):
        if words := _read(match[0]):
            yield match.start(), match.end(), words


def query_words(query: str) -> list[str]:
    """Return the words to look for, each once.

    Of a stretch without blanks these are the pairs of characters; of what is put together, the
    whole and its parts.
    """
    found: dict[str, None] = {}
    for _, _, words in find_words(query[: PIECE_CHARACTERS * 2]):
        pairs = {word for word in words if len(word) > 1}
        covered = {character for pair in pairs if _is_unspaced(pair) for character in pair}
        found |= dict.fromkeys(word for word in words if word not in covered)
    if len(found) <= MAX_QUERY_WORDS:
        return [*found]
    longest = sorted(found, key=len, reverse=True)[:MAX_QUERY_WORDS]
    return [word for word in found if word in set(longest)]


def split_pieces(text: str) -> list[str]:
    """Part a text into pieces that are indexed one by one, at a blank where there is one near."""
    pieces: list[str] = []
    start = 0
    while start < len(text) and len(pieces) < MAX_PIECES:
        end = min(len(text), start + PIECE_CHARACTERS)
        if end < len(text):
            blank = max(text.rfind(each, end - 400, end) for each in " \n")
            end = blank + 1 if blank > start else end
        pieces.append(text[start:end])
        start = end
    return pieces


def fold(text: str) -> str:
    """Return a text in the form in which words are compared."""
    return text.lower() if text.isascii() else _strip_marks(text).casefold()


def _strip_marks(text: str) -> str:
    if text.isascii():
        return text
    plain = _MARK.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", plain)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and all(match[1] for match in _RUN.finditer(word))


def _read(chunk: str) -> tuple[str, ...]:
    return _read_often(chunk) if len(chunk) <= _REMEMBERED_CHARACTERS else _read_chunk(chunk)


def _read_chunk(chunk: str) -> tuple[str, ...]:
    plain = _strip_marks(chunk).replace("\\", "/").replace("’", "'")
    plain = plain[: MAX_GROWTH * len(chunk) + MAX_WORD_CHARACTERS]
    words: list[str] = []
    for run in _RUN.finditer(plain):
        if run[1] is None:
            words += _read_word(run[0].strip(JOINERS))
        else:
            words += run[1]
            words += (run[1][at : at + 2] for at in range(len(run[1]) - 1))
    return tuple(words)


_read_often = lru_cache(maxsize=20_000)(_read_chunk)


def _read_word(word: str) -> tuple[str, ...]:
    return _read_joined_often(word) if len(word) <= _REMEMBERED_CHARACTERS else _read_joined(word)


def _read_joined(whole: str) -> tuple[str, ...]:
    """Return a word as it is written, and what it is put together of."""
    if not whole:
        return ()
    words = dict.fromkeys([whole])
    parts = [part for part in _PARTS.split(whole) if part]
    words |= dict.fromkeys(parts)
    for part in parts:
        if part.isascii() and not (part.islower() or part.isupper() or part.isdigit()):
            words |= dict.fromkeys(_HUMPS.findall(part))
    folded = dict.fromkeys(word.casefold()[:MAX_WORD_CHARACTERS] for word in words)
    return tuple(dict.fromkeys([*folded, *map(find_beginning, folded)]))


_read_joined_often = lru_cache(maxsize=20_000)(_read_joined)


def find_beginning(word: str) -> str:
    """Return the marked beginning of a longer word, which every text with the word has too."""
    is_long = len(word) > BEGINNING and word.isalpha()
    return f"{word[:BEGINNING]}+" if is_long and not _is_unspaced(word) else word
