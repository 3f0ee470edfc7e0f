"""What of a message can be found by words, and the part of it around those that were found."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.content.parts import Part, part_text, parts_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.search.words import find_words, fold

RECALL: Final = "recall"
"""The name of the tool that looks things up."""
EXCERPT_CHARACTERS: Final = 240
_LEAD: Final = 60
"""Characters of an excerpt before the first word that was found."""
_LONG: Final = 40
"""A stretch of this many characters is not searched as a whole: the word is found in it."""


def read_text(message: BaseMessage) -> str:
    """Return what of a message can be searched: texts, calls, results, and names of attachments.

    Reasoning is left out, which is not what was said, and so is what `recall` was asked and
    answered, which would be found in the place of what it repeats.
    """
    return read_parts(parts_of(message))


def read_parts(parts: Iterable[Part]) -> str:
    """Do the same as `read_text` for a message whose parts are at hand."""
    return "\n".join(text for part in parts if (text := _read(part)))


def _read(part: Part) -> str:
    is_recall = part.kind.startswith("tool-") and part.name == RECALL
    if is_recall or part.kind == "reasoning":
        return ""
    text = part_text(part)
    return f"{part.name} {text}" if part.name else text


def cut_excerpt(text: str, words: Sequence[str], characters: int = EXCERPT_CHARACTERS) -> str:
    """Return the stretch of a text that holds the most different words; `…` marks what is cut.

    Args:
        text: The text.
        words: The words to look for, as `query_words` gives them.
        characters: About how long the stretch is.
    """
    text = sanitize(text).strip()
    if len(text) <= characters:
        return text
    places = _find_places(text, set(words))
    lead = min(_LEAD, characters // 4)
    start = max(0, _find_densest(places, characters - lead) - lead)
    start = max(0, min(start, len(text) - characters))
    end = min(len(text), start + characters)
    start, end = _to_blanks(text, start, end)
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _find_places(text: str, wanted: set[str]) -> list[tuple[int, str]]:
    """Return where the words that are looked for stand."""
    places: list[tuple[int, str]] = []
    for start, end, words in find_words(text):
        for word in wanted.intersection(words):
            at = fold(text[start:end]).find(word) if end - start > _LONG else 0
            places.append((start + max(0, at), word))
    return sorted(places)


def _find_densest(places: Sequence[tuple[int, str]], width: int) -> int:
    """Return where the stretch begins that holds the most different words, the first of these."""
    best, at = 0, places[0][0] if places else 0
    window: deque[tuple[int, str]] = deque()
    for place in places:
        window.append(place)
        while place[0] - window[0][0] > width:
            window.popleft()
        found = len({word for _, word in window})
        if found > best:
            best, at = found, window[0][0]
    return at


def _to_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """Move both ends of a stretch to a blank that is near."""
    if start and (blank := text.find(" ", start, start + _LEAD // 2)) >= 0:
        start = blank + 1
    if end < len(text) and (blank := text.rfind(" ", end - _LEAD // 2, end)) > start:
        end = blank
    return start, end
