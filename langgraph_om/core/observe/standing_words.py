"""Standing instructions: demands of the user that hold until the user ends them, in their words.

The Observer marks them with 📌 and quotes the user. Code takes a mark for one only where the quoted
words stand in a message of the user that this question showed. So no page, tool or answer of the
assistant can make one. The words that are kept are those of the message, not those of the Observer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.items import LineSpan, find_spans, read_head, replace_spans
from langgraph_om.core.observe.transcript import format_day
from langgraph_om.core.record.standing import fold_letter, fold_text, is_same

MARK: Final = "📌"
FACT: Final = "🔴"

_OPEN: Final = "\"“„«‹「『‘'"
_CLOSE: Final = "\"”“»›」』’'"
_END: Final = re.compile(
    rf"ends? ?:? ?[{_OPEN}](?P<which>.+?)[{_CLOSE}],? ?by ?:? ?[{_OPEN}](?P<words>.+)[{_CLOSE}]",
    re.IGNORECASE,
)
_MARK_BELOW: Final = re.compile(rf"^([ \t]*(?:[-*+•][ \t]*)?){MARK}", re.MULTILINE)
_BORDER: Final = re.compile(r"[.!?;](?=[\s\"”»)\]]|$)|[。！？；\0]|\n(?![ \t]*[a-zß-öø-ÿа-я])")
"""Where a sentence ends; a line that goes on in small letters was only broken."""
LEAST_WORDS: Final = 6
"""Characters that a quotation needs, spaces apart; shorter ones stand in too many messages."""
MOST_WORDS: Final = 1200
"""Characters of what is kept; a part of a longer sentence could say the opposite of it."""
MOST_READ: Final = 100_000
"""Characters of a message in which a quotation is looked for."""
MOST_MARKS: Final = 50
"""Marks that are read in one observation; further ones are ordinary facts."""


# The words of a message that are the user's own. All of it is read in linear time.


_LINE_ENDS: Final = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
_FENCE: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})(.*)")
_CITED: Final = re.compile(r"[ \t]*(?:>|＞|&gt;)")
_FORWARDED: Final = re.compile(
    r"[ \t]*(?:-{2,}[ \t]*(?:original|forwarded)[ ]message|begin[ ]forwarded[ ]message:)",
    re.IGNORECASE,
)
_ELEMENT: Final = re.compile(
    r"^[ \t]*<(?!(?:a|b|br|code|em|i|p|span|strong|u)\b)(?P<name>[a-z][\w.:-]{0,60})"
    r"(?:\s[^<>]{0,500})?>",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING: Final = re.compile(r"</(?P<name>[a-z][\w.:-]{0,60})\s*>", re.IGNORECASE)
_GAP: Final = "\0"
"""Stands for what was pasted, so that no quotation reaches across it."""
_TICKS: Final = re.compile(r"`+|\0")
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
    text = _cut_elements(_LINE_ENDS.sub("\n", message[:MOST_READ]))
    kept, fence = list[str](), ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if line.strip().startswith(fence) and not line.strip(" \t`~"):
                fence = ""
            continue
        if _FORWARDED.match(line):
            kept.append(_GAP)
            break
        if found is not None and ("`" not in found[2] or found[1][0] == "~"):
            fence = found[1]
        kept.append(_GAP if fence or _CITED.match(line) else line)
    return "\n".join(kept)


def _cut_elements(text: str) -> str:
    """Leave out elements up to their last closing tag, since what they hold may close them too."""
    ends = {found["name"].casefold(): found.end() for found in _CLOSING.finditer(text)}
    pieces, at = list[str](), 0
    for opened in _ELEMENT.finditer(text):
        end = ends.get(opened["name"].casefold(), -1)
        if opened.start() >= at and end >= opened.end():
            pieces += [text[at : opened.start()], f"\n{_GAP}\n"]
            at = end
    return "".join([*pieces, text[at:]])


def find_quotations(text: str) -> list[tuple[int, int]]:
    """Return where quotations and code stand in a text, without their marks.

    Whether a mark opens or closes one is told by what stands around it, so that an apostrophe or
    the sign for inches does neither. An inner quotation does not end the one around it. One that is
    never closed goes as far as the last mark that closes any, and at least up to what was pasted.
    """
    spans = [*_find_code(text)]
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
    unclosed = [at for is_single, at in open_ones if not is_single]
    ends = [max(last, text.find(_GAP, at)) for at in unclosed]
    return [*spans, *((at, end) for at, end in zip(unclosed, ends, strict=True) if at < end)]


def _find_code(text: str) -> Iterator[tuple[int, int]]:
    """Yield code between as many backticks, or from these to what was pasted."""
    begun: dict[str, int] = {}
    for ticks in _TICKS.finditer(text):
        start = begun.pop(ticks[0], None)
        if ticks[0] == _GAP:
            yield from ((at, ticks.start()) for at in begun.values())
            begun = {}
        elif start is None:
            begun[ticks[0]] = ticks.end()
        else:
            yield start, ticks.start()
            begun = {mark: at for mark, at in begun.items() if at < start}


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


@dataclass(frozen=True, slots=True)
class OwnWords:
    """What the user wrote of a message."""

    text: str
    folded: str
    places: Sequence[int]
    """Where each folded letter stands in the text."""
    quoted: Sequence[tuple[int, int]]
    """Where quotations stand, in order and apart from each other."""

    def is_quoted(self, start: int, stop: int) -> bool:
        """Return whether a stretch lies within a quotation."""
        at = bisect_right(self.quoted, start, key=lambda span: span[0]) - 1
        return at >= 0 and stop <= self.quoted[at][1]


def read_own(said: Sequence[str]) -> list[OwnWords]:
    """Return what the user wrote of messages, the newest first."""
    read: list[OwnWords] = []
    for message in reversed(said):
        text = cut_pasted(message)
        letters = [*map(fold_letter, text)]
        places = [place for place, folded in enumerate(letters) for _ in folded]
        quoted: list[tuple[int, int]] = []
        for start, stop in sorted(find_quotations(text)):
            if quoted and start <= quoted[-1][1]:
                start, stop = quoted[-1][0], max(stop, quoted.pop()[1])  # noqa: PLW2901 joined
            quoted.append((start, stop))
        read.append(OwnWords(text, "".join(letters), places, quoted))
    return read


def find_said(quotation: str, said: Sequence[OwnWords], *, whole: bool = True) -> str | None:
    """Return the words of a user that an Observer quoted; `None` where no message has them.

    What was pasted does not count, nor what stands within a quotation of the user's.

    Args:
        whole: Whether the sentence around the words is returned, so that no negation before them
            is lost.
    """
    wanted = fold_text(quotation[: 2 * MOST_WORDS])
    if not LEAST_WORDS <= len(wanted) <= MOST_WORDS or _GAP in wanted:
        return None
    for own in said:
        at = own.folded.find(wanted)
        while at >= 0:
            stop = at + len(wanted)
            first, last = own.places[at], own.places[stop - 1] + 1
            if not own.is_quoted(first, last):
                return _cut_sentence(own.text, first, last) if whole else own.text[first:last]
            at = own.folded.find(wanted, stop)
    return None


def _cut_sentence(text: str, start: int, stop: int) -> str | None:
    """Return the sentences that hold a stretch of a text, on one line; `None` when too long."""
    first = max(0, start - MOST_WORDS - 1)
    borders = (found.end() for found in _BORDER.finditer(text, first, stop + MOST_WORDS))
    first = max(takewhile(lambda end: end <= start, borders), default=first)
    ahead = _BORDER.search(text, max(start, stop - 1), stop + MOST_WORDS + 1)
    last = ahead.end() if ahead is not None else len(text)
    return " ".join(text[first:last].split()) if last - first <= MOST_WORDS else None


# What an answer of the Observer says of them.


@dataclass(slots=True)
class Reading:
    """What an answer of the Observer says of standing instructions."""

    rest: str
    """The text without them; a mark that does not hold is an ordinary fact in it."""
    found: dict[str, str] = field(default_factory=dict)
    """New ones by the user's words, each with its date heading: what becomes a group of the log."""
    ended: list[str] = field(default_factory=list)
    """The words of those that the user ended, as they stand in the log."""


def read_marks(
    text: str, said: Sequence[OwnWords], held: Sequence[str], *, whole: bool = True
) -> Reading:
    """Take the standing instructions out of what an Observer wrote.

    One that is given and taken back in the same answer is in neither list.

    Args:
        whole: Whether the sentence around quoted words is kept; not where a hook has rewritten
            the answer, which may have taken words out.
    """
    reading = Reading(text)
    lines = text.split("\n")
    known = [*held]
    cuts: dict[LineSpan, str] = {}
    for span in find_spans(text):
        item = "\n".join(lines[span.start : span.end])
        head = read_head(item)
        if head.mark != MARK or len(cuts) == MOST_MARKS:
            continue
        words = " ".join(item[head.end :].split())
        cuts[span] = item.replace(MARK, FACT)
        if (ending := _END.match(words)) is not None:
            ended = _find_ended(ending["which"], known)
            if ended is not None and find_said(ending["words"], said) is not None:
                if reading.found.pop(ended, None) is None:
                    reading.ended.append(ended)
                known.remove(ended)
                cuts[span] = ""
            continue
        own = find_said(_unquote(words), said, whole=whole)
        if own is None:
            continue
        cuts[span] = ""
        if not any(is_same(own, other) for other in known):
            known.append(own)
            day = observation_date(span.heading)
            heading = f"Date: {format_day(day)}\n" if day is not None else ""
            reading.found[own] = f'{heading}{item[: head.end]}"{own}"'
    reading.rest = _MARK_BELOW.sub(rf"\g<1>{FACT}", replace_spans(text, cuts))
    return reading


def _unquote(words: str) -> str:
    """Return what stands between the first mark that opens a quotation and the last that closes."""
    start = next((at for at, letter in enumerate(words) if letter in _OPEN), -1)
    stop = max(map(words.rfind, _CLOSE))
    return words[start + 1 : stop] if 0 <= start < stop - 1 else words


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
