"""Standing instructions: demands of the user that hold until the user ends them, in their words.

The Observer marks them with 📌 and quotes the user. Code takes a mark for one only where the quoted
words stand in a message of the user that this question showed. So no page, tool or answer of the
assistant can make one. The words that are kept are those of the message, not those of the Observer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import Final
from unicodedata import category, normalize

from langgraph_om.core.content.text import compile_late
from langgraph_om.core.items import find_spans, read_head, replace_spans

MARK: Final = "📌"
FACT: Final = "🔴"

_MARKS_OF_QUOTES: Final = frozenset("\"'`´‘’‚‛“”„‟«»‹›「」『』*_")
"""Characters that are passed over when words are compared."""
_OPEN: Final = r"[\"“„«‹「『‘']"
_CLOSE: Final = r"[\"”“»›」』’']"
_QUOTED: Final = compile_late(rf"{_OPEN}(?P<words>.+){_CLOSE}", re.DOTALL)
_END: Final = compile_late(
    rf"ends?\s*:?\s*{_OPEN}(?P<which>.+?){_CLOSE}\s*(?:,\s*)?by\s*:?\s*{_OPEN}(?P<words>.+){_CLOSE}",
    re.IGNORECASE | re.DOTALL,
)
_MARK_BELOW: Final = compile_late(rf"^([ \t]*(?:[-*+•][ \t]*)?){MARK}", re.MULTILINE)
_BORDER: Final = compile_late(r"[.!?;](?=[\s\"”»)\]]|$)|[。！？；]|\n(?![ \t]*[a-zß-öø-ÿа-я])")
"""Where a sentence ends; a line that goes on in small letters was only broken."""
LEAST_WORDS: Final = 6
"""Characters that a quotation needs, spaces apart; shorter ones stand in too many messages."""
MOST_WORDS: Final = 400
"""Characters of a sentence that is kept whole; of a longer one, the quotation alone is."""
MOST_READ: Final = 200_000
"""Characters of a message in which a quotation is looked for."""


# The words of a message that are the user's own.


_LINE_ENDS: Final = compile_late(r"\r\n?|[\v\f\x85\u2028\u2029]")
_FENCE: Final = compile_late(
    r"^[ \t]*(`{3,}(?![^\n]*`)|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_CITED: Final = compile_late(r"^[ \t]*(?:>|＞|&gt;).*$", re.MULTILINE)
_FORWARDED: Final = compile_late(
    r"^[ \t]*(?:-{2,}[ \t]*(?:original|forwarded)[ ]message|begin[ ]forwarded[ ]message:).*",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_ELEMENT: Final = compile_late(
    r"^[ \t]*<(?!(?:a|b|br|code|em|i|p|span|strong|u)\b)(?P<name>[a-z][\w.:-]{0,60})"
    r"(?:[ \t][^<>\n]{0,500})?>",
    re.MULTILINE | re.IGNORECASE,
)
_MOST_ELEMENTS: Final = 50
"""Names of elements that are looked for in one message."""
_GAP: Final = "\n\0\n"
"""Stands for what was pasted, so that no quotation reaches across it."""
_CODE: Final = compile_late(r"(?<!`)(`+)(?!`)(?P<inside>[^\0]{1,2000}?)(?<!`)\1(?!`)")
_QUOTES: Final = frozenset("\"“”„‟«»‹›「」『』'‘’‚")
_SINGLE: Final = frozenset("'‘’‚")
_ALWAYS: Final = {"「": True, "『": True, "„": True, "‚": True, "」": False, "』": False}
"""Quotation marks that always open, or always close."""
_USUALLY_OPENS: Final = frozenset("“‟«‹‘")
_MOST_NESTED: Final = 16
"""Quotations within each other."""
_BEFORE: Final = frozenset("([{:=-–—/,„“«‹\"'‘")
_BEHIND: Final = frozenset(")]}.,;:!?…-–—/”“»›\"'’")


def cut_pasted(message: str) -> str:
    """Return what the user wrote of a message.

    Code fences, lines cited with `>`, forwarded mail and elements such as `<document>` that begin a
    line are left out. Nobody can tell what was pasted without any of these.
    """
    text = _LINE_ENDS.sub("\n", message[:MOST_READ])
    return _FORWARDED.sub(_GAP, _CITED.sub(_GAP, _FENCE.sub(_GAP, _cut_elements(text))))


def _cut_elements(text: str) -> str:
    """Leave out elements up to their last closing tag, since what they hold may close them too."""
    ends: dict[str, int] = {}
    pieces, at = list[str](), 0
    for opened in _ELEMENT.finditer(text):
        name = opened["name"].casefold()
        if opened.start() < at or (name not in ends and len(ends) == _MOST_ELEMENTS):
            continue
        if name not in ends:
            closing = re.finditer(rf"</{re.escape(name)}\s*>", text, re.IGNORECASE)
            ends[name] = max((found.end() for found in closing), default=-1)
        if ends[name] >= opened.end():
            pieces += [text[at : opened.start()], _GAP]
            at = ends[name]
    return "".join([*pieces, text[at:]])


def find_quotations(text: str) -> list[tuple[int, int]]:
    """Return where quotations and code stand in a text, without their marks.

    Whether a mark opens or closes one is told by what stands around it, so that an apostrophe or
    the sign for inches does neither. An inner quotation does not end the one around it, and one
    that is never closed goes as far as the last mark that closes any.
    """
    spans = [found.span("inside") for found in _CODE.finditer(text)]
    open_ones: list[tuple[bool, int]] = []
    last = -1
    for at, mark in enumerate(text):
        if mark not in _QUOTES:
            continue
        is_single = mark in _SINGLE
        same = [n for n, (kind, _) in enumerate(open_ones) if kind == is_single]
        turn = _read_turn(text, at, is_within=bool(same))
        if turn == "opens" and len(open_ones) < _MOST_NESTED:
            open_ones.append((is_single, at + 1))
        elif turn == "closes" and same and (not is_single or same[-1] == len(open_ones) - 1):
            spans.append((open_ones[same[-1]][1], at))
            del open_ones[same[-1] :]
            last = last if is_single else at
    return [*spans, *((at, last) for is_single, at in open_ones if not is_single and at < last)]


def _read_turn(text: str, at: int, *, is_within: bool) -> str:
    """Return whether a quotation mark `opens`, `closes`, or does neither."""
    mark, before, behind = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    may_open = not before or before.isspace() or before in _BEFORE
    may_close = not behind or behind.isspace() or behind in _BEHIND
    if mark in _ALWAYS:
        opens = _ALWAYS[mark]
    elif may_open != may_close:
        opens = may_open
    elif not may_open and (mark in _SINGLE or (mark == '"' and behind.isascii())):
        return ""  # within a word
    else:
        opens = not is_within if mark in "\"'" else mark in _USUALLY_OPENS
    return "opens" if opens else "closes"


def fold_text(text: str) -> str:
    """Return a text in the form in which words are compared.

    Spaces, quotation marks, invisible characters and letter case do not count, nor in which of
    Unicode's ways a letter is written. A letter of another script is another letter.
    """
    return "".join(map(_fold, text))


@cache
def _fold(letter: str) -> str:
    if letter in _MARKS_OF_QUOTES or letter.isspace() or category(letter) == "Cf":
        return ""
    folded = normalize("NFKD", normalize("NFKD", letter).casefold())
    return "".join(part for part in folded if not part.isspace())


def is_same(words: str, others: str) -> bool:
    """Return whether two texts have the same words, spaces and quotation marks aside."""
    return fold_text(words) == fold_text(others)


def find_said(quotation: str, said: Sequence[str], *, whole: bool = True) -> str | None:
    """Return the words of a user that an Observer quoted; `None` where no message has them.

    What was pasted does not count, nor what stands within a quotation of the user's.

    Args:
        whole: Whether the sentence around the words is returned, so that no negation before them
            is lost.
    """
    wanted = fold_text(quotation)
    if len(wanted) < LEAST_WORDS or "\0" in wanted:
        return None
    for message in reversed(said):
        own = cut_pasted(message)
        folded = fold_text(own)
        at = folded.find(wanted)
        if at < 0:
            continue
        quoted = find_quotations(own)
        places = [place for place, letter in enumerate(own) for _ in _fold(letter)]
        while at >= 0:
            start, stop = places[at], places[at + len(wanted) - 1] + 1
            if not any(first <= start and stop <= last for first, last in quoted):
                return _cut_sentence(own, start, stop) if whole else own[start:stop]
            at = folded.find(wanted, at + 1)
    return None


def _cut_sentence(text: str, start: int, stop: int) -> str:
    """Return the sentences of a text that hold a stretch of it, on one line."""
    first = max(0, start - MOST_WORDS - 1)
    borders = (found.end() for found in _BORDER.finditer(text, first))
    first = max(takewhile(lambda end: end <= start, borders), default=first)
    ahead = _BORDER.search(text, max(start, stop - 1))
    last = ahead.end() if ahead is not None else len(text)
    if last - first > MOST_WORDS:
        first, last = start, stop
    return " ".join(text[first:last].split())


# What an answer of the Observer says of them.


@dataclass(slots=True)
class Reading:
    """What an answer of the Observer says of standing instructions."""

    rest: str
    """The text without them; a mark that does not hold is an ordinary fact in it."""
    found: list[str] = field(default_factory=list)
    """New ones, each with its date heading: what becomes a group of the log."""
    ended: list[str] = field(default_factory=list)
    """The words of those that the user ended, as they stand in the log."""


def read_marks(
    text: str, said: Sequence[str], held: Sequence[str], *, whole: bool = True
) -> Reading:
    """Take the standing instructions out of what an Observer wrote.

    Args:
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
            cuts[span] = item.replace(MARK, FACT)
            continue
        cuts[span] = ""
        if not any(is_same(own, other) for other in known):
            known.append(own)
            heading = f"{span.heading}\n" if span.heading else ""
            reading.found.append(f'{heading}{item[: head.end]}"{own}"')
    reading.rest = _MARK_BELOW.sub(rf"\g<1>{FACT}", replace_spans(text, cuts))
    return reading


def read_words(text: str) -> str:
    """Return the user's words of an instruction as the log has it."""
    item = text.rpartition("\n")[2]
    words = item[read_head(item).end :]
    return words.strip().removeprefix('"').removesuffix('"')


def _find_ended(first_words: str, held: Sequence[str]) -> str | None:
    """Return the one instruction in force that begins with words, or has them within."""
    wanted = fold_text(first_words.rstrip(". …"))
    folded = [(words, fold_text(words)) for words in held]
    same = [words for words, text in folded if text == wanted]
    if len(wanted) < LEAST_WORDS:
        return same[0] if same else None
    begun = same or [words for words, text in folded if text.startswith(wanted)]
    found = begun or [words for words, text in folded if wanted in text]
    return found[0] if len(found) == 1 else None
