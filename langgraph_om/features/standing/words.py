"""Standing instructions: demands of the user that hold until the user ends them, in their words.

The Observer marks them with 📌 and quotes the user. Code takes a mark for one only where the quoted
words stand in a message of the user that this question showed. So no page, tool or answer of the
assistant can make one. The words that are kept are those of the message, not those of the Observer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from langgraph_om.core.items import find_spans, read_head, replace_spans

MARK: Final = "📌"
FACT: Final = "🔴"

_QUOTES: Final = frozenset("\"'`´‘’‚‛“”„‟«»‹›「」『』*_")
"""Characters that are passed over when words are compared."""
_OPEN: Final = r"[\"“„«‹「『‘']"
_CLOSE: Final = r"[\"”“»›」』’']"
_QUOTED: Final = re.compile(rf"{_OPEN}(?P<words>.+){_CLOSE}", re.DOTALL)
_END: Final = re.compile(
    rf"ends?\s*:?\s*{_OPEN}(?P<which>.+?){_CLOSE}\s*(?:,\s*)?by\s*:?\s*{_OPEN}(?P<words>.+){_CLOSE}",
    re.IGNORECASE | re.DOTALL,
)
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_CITED: Final = re.compile(r"^ {0,3}>.*$", re.MULTILINE)
_BORDER: Final = re.compile(r"[.!?;](?=[\s\"”»)\]]|$)|[。！？；\n]")
_GAP: Final = "\n\0\n"
"""Stands for what was pasted, so that no quotation reaches across it."""
LEAST_WORDS: Final = 6
"""Characters that a quotation needs, spaces apart; shorter ones stand in too many messages."""
MOST_WORDS: Final = 400
"""Characters of a sentence that is kept whole; of a longer one, the quotation alone is."""
MOST_READ: Final = 200_000
"""Characters of a message in which a quotation is looked for."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A text without spaces, quotation marks and letter case, with the place of each character."""

    text: str
    places: Sequence[int]


def fold_text(text: str) -> Folded:
    """Return a text in the form in which words are compared."""
    letters: list[str] = []
    places: list[int] = []
    for at, letter in enumerate(text):
        if letter.isspace() or letter in _QUOTES:
            continue
        for part in letter.casefold():
            letters.append(part)
            places.append(at)
    return Folded("".join(letters), places)


def is_same(words: str, others: str) -> bool:
    """Return whether two texts have the same words, spaces and quotation marks aside."""
    return fold_text(words).text == fold_text(others).text


def find_said(quotation: str, said: Sequence[str], *, whole: bool = True) -> str | None:
    """Return the words of a user that an Observer quoted; `None` where no message has them.

    What stands in a code fence, or is cited with `>`, was pasted and does not count.

    Args:
        quotation: The words as the Observer wrote them.
        said: The messages of the user that it was shown.
        whole: Whether the sentence around the words is returned, so that no negation before them
            is lost.
    """
    wanted = fold_text(quotation).text
    if len(wanted) < LEAST_WORDS:
        return None
    for message in reversed(said):
        own = _CITED.sub(_GAP, _FENCE.sub(_GAP, message[:MOST_READ]))
        folded = fold_text(own)
        at = folded.text.find(wanted)
        if at >= 0:
            start, stop = folded.places[at], folded.places[at + len(wanted) - 1] + 1
            return _cut_sentence(own, start, stop) if whole else own[start:stop]
    return None


def _cut_sentence(text: str, start: int, stop: int) -> str:
    """Return the sentences of a text that hold a stretch of it, on one line."""
    behind = [found.end() for found in _BORDER.finditer(text, 0, start)]
    first = behind[-1] if behind else 0
    ahead = _BORDER.search(text, max(start, stop - 1))
    last = ahead.end() if ahead is not None else len(text)
    if last - first > MOST_WORDS:
        first, last = start, stop
    return " ".join(text[first:last].split())


@dataclass(slots=True)
class Reading:
    """What an answer of the Observer says of standing instructions."""

    rest: str
    """The text without them; a mark that does not hold is an ordinary fact in it."""
    found: list[str] = field(default_factory=list)
    """New ones, each with its date heading: what becomes a group of the log."""
    ended: list[str] = field(default_factory=list)
    """The words of those that the user ended, as they stand in the log."""
    refused: int = 0
    """How many marks did not hold, because no message of the user has the words."""


def read_marks(
    text: str, said: Sequence[str], held: Sequence[str], *, whole: bool = True
) -> Reading:
    """Take the standing instructions out of what an Observer wrote.

    Args:
        text: Dated items.
        said: The messages of the user that the Observer was shown.
        held: The words of those that are in force.
        whole: Whether the sentence around quoted words is kept; not where a hook has rewritten
            the answer, which may have taken words out.
    """
    if MARK not in text:
        return Reading(text)
    reading = Reading(text)
    lines = text.split("\n")
    known = list(held)
    cuts = {}
    for span in find_spans(text):
        item = "\n".join(lines[span.start : span.end])
        head = read_head(item)
        if head.mark != MARK:
            continue
        words = item[head.end :]
        ending = _END.match(words.strip())
        if ending is not None:
            ended = _find_ended(ending["which"], known)
            if ended is not None and find_said(ending["words"], said) is not None:
                reading.ended.append(ended)
                known.remove(ended)
                cuts[span] = ""
                continue
        quoted = _QUOTED.search(words)
        own = find_said(quoted["words"] if quoted else words, said, whole=whole)
        if ending is not None or own is None:
            reading.refused += 1
            cuts[span] = item.replace(MARK, FACT, 1)
            continue
        cuts[span] = ""
        if not any(is_same(own, other) for other in known):
            known.append(own)
            heading = f"{span.heading}\n" if span.heading else ""
            reading.found.append(f'{heading}{item[: head.end]}"{own}"')
    reading.rest = replace_spans(text, cuts)
    return reading


def read_words(text: str) -> str:
    """Return the user's words of an instruction as the log has it."""
    item = text.rpartition("\n")[2]
    words = item[read_head(item).end :]
    return words.strip().removeprefix('"').removesuffix('"')


def _find_ended(first_words: str, held: Sequence[str]) -> str | None:
    """Return the one instruction in force that begins with words, or has them within."""
    wanted = fold_text(first_words.rstrip(". …")).text
    if not wanted:
        return None
    folded = [(words, fold_text(words).text) for words in held]
    begun = [words for words, text in folded if text.startswith(wanted)]
    found = begun or [words for words, text in folded if wanted in text]
    return found[0] if len(found) == 1 else None
