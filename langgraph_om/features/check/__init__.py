"""Check what the Observer wrote: what can be looked up has to stand in what it was shown.

Looked up are numbers, identifiers, paths, versions and quotations. Lines that hold something else
are named to it in one further question. What it does not mend is cut
out of them, or the line is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from html import unescape
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from langchain_core.messages import AIMessage, HumanMessage
from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, name_fields
from langgraph_om.core.config.options import Hint, Preset
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.content.text import compile_late, escape
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.effects import AskModel, EffectFlow, ModelReply
from langgraph_om.core.items import LineSpan, cut_spans, find_spans, read_head, replace_spans
from langgraph_om.core.observe.answer_tags import LOG
from langgraph_om.core.observe.parse_answer import ParsedAnswer, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.reflect.facts import (
    DAYS,
    NUMBER_WORDS,
    find_identifiers,
    normalize,
)
from langgraph_om.core.step.step import Feature
from langgraph_om.core.wire import Event

NAME: Final = "check"

_MOST_NAMED: Final = 6
"""Words of one item that the further question names."""
_ANSWER: Final = compile_late(r"^\[(\d{1,4})\][ \t]*(.*(?:\n(?!\[\d).*)*)", re.MULTILINE)


class CheckOptions(TypedDict, total=False):
    """The option of the check."""

    check_observations: Annotated[bool, Hint("True or False"), Preset(value=False)]
    """Whether numbers from 100 on, names of code and quotations in a note are looked up in the
    Observer's messages. Names of code are identifiers, paths, addresses and versions. The
    Observer is asked once more about a line that fails; parts that it does not mend are cut
    out."""


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """An item of an answer with words that are not founded."""

    key: str
    """Of the answer."""
    span: LineSpan
    text: str
    words: Sequence[str]


class Check(Feature):
    """Has the Observer mend what it was not shown."""

    name = NAME
    prompts = __name__
    additions = Additions(
        streamed={
            "checked": name_fields("cycle_id", "thread_id", "mended", "cut", "left_out", "at")
        },
    )
    job_settings: ClassVar[Mapping[str, Any]] = {"check_observations": True}

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `check_observations`."""
        return cls() if setup.options["check_observations"] else None

    def review(
        self, info: CycleInfo, asked: AskModel, answers: Mapping[str, ParsedAnswer]
    ) -> EffectFlow[tuple[dict[str, ParsedAnswer], list[Any]]]:
        """Return the answers with what the Observer mended, or without what it did not."""
        checked = dict(answers)
        if asked.attachments:  # what a picture shows cannot be looked up
            return checked, []
        shown = Shown(
            [str(asked.messages[-1].content), info.settings.observation.instruction or ""]
        )
        doubtful = [
            item for key, parsed in answers.items() for item in _list_doubtful(key, parsed, shown)
        ]
        if not doubtful:
            return checked, []
        reply: ModelReply = yield _ask(asked, doubtful, answers)
        mended = {} if reply.error is not None else _read_mended(reply.text, doubtful, shown)
        # Items that the Observer mended, those that something was cut out of, and the others.
        entry = {"mended": len(mended), "cut": 0, "left_out": 0}
        cuts: dict[str, dict[LineSpan, str]] = {}
        for item in doubtful:
            text = mended.get(item)
            if text is None:
                text = cut_unfounded(item.text, shown)
                entry["cut" if text else "left_out"] += 1
            cuts.setdefault(item.key, {})[item.span] = text
        for key, spans in cuts.items():
            text = replace_spans(answers[key].observations, spans)
            status = answers[key].status if text else "none"
            checked[key] = replace(answers[key], observations=text, status=status)
        return checked, [entry]

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
        """Return an event for each answer that held something else."""
        return [info.event("checked", at, **entry) for entry in entries]


def _list_doubtful(key: str, parsed: ParsedAnswer, shown: Shown) -> list[_Doubtful]:
    spans = find_spans(parsed.observations)
    found: list[_Doubtful] = []
    for span, text in zip(spans, cut_spans(parsed.observations, spans), strict=True):
        words = [word.text for line in text.split("\n") for word in find_unfounded(line, shown)]
        if words:
            found.append(_Doubtful(key, span, text, tuple(dict.fromkeys(words))))
    return found


def _ask(
    asked: AskModel, doubtful: Sequence[_Doubtful], answers: Mapping[str, ParsedAnswer]
) -> AskModel:
    """Return the further question, on the same prompt."""
    lines: list[str] = []
    for number, item in enumerate(doubtful, 1):
        words = ", ".join(f"`{word}`" for word in item.words[:_MOST_NAMED])
        lines += [f"[{number}] {item.text}", f"    stands nowhere: {words}"]
    said = "\n\n".join(parsed.observations for parsed in answers.values())
    answer = f"<{LOG}>\n{escape(said)}\n</{LOG}>"
    task = fill("check_again", items=escape("\n".join(lines)))
    return replace(asked, messages=[*asked.messages, AIMessage(answer), HumanMessage(task)])


def _read_mended(text: str, doubtful: Sequence[_Doubtful], shown: Shown) -> dict[_Doubtful, str]:
    """Return the items that an answer mends; one that it leaves out is empty."""
    mended: dict[_Doubtful, str] = {}
    for match in _ANSWER.finditer(text):
        number, said = int(match[1]), match[2].strip()
        if not 1 <= number <= len(doubtful):
            continue
        item = doubtful[number - 1]
        if said.casefold().strip(".()") == "none":
            mended[item] = ""
            continue
        head = item.text[: read_head(item.text).end]
        said = said if read_head(said).mark else f"{head}{said[read_head(said).end :]}"
        parsed = parse_output(f"<{LOG}>\n{said}\n</{LOG}>")
        is_one = parsed.status == "ok" and len(find_spans(parsed.observations)) == 1
        lines = parsed.observations.split("\n")
        if is_one and not any(find_unfounded(line, shown) for line in lines):
            mended[item] = parsed.observations
    return mended


# --- Words that can be looked up -----------------------------------------------------------------

# A word is founded where the Observer was shown it, in this or another form. The reading is by form
# and errs on the mild side: times, dates and years are not looked up, since they may follow from
# others, nor are numbers below 100. A capitalised word is not taken for a name.

LEAST_NUMBER: Final = 100
LEAST_QUOTED: Final = 4
"""Characters of a quotation that is looked for, spaces apart."""
_LEAST_PART: Final = 2
"""Characters of a part of a path that is looked for."""
_REWORDED: Final = 0.9
"""How many of its words have to stand in what was shown."""
_YEARS: Final = range(1900, 2101)
_ROUNDED: Final = 0.06
"""How far a number in thousands or millions may be from the one that was said."""
_MOST_DIGITS: Final = 15
"""Of a number that may be rounded."""
_MOST_WORDS: Final = 200
"""Words of one line that are looked up; a line with more of them is a table."""

_CLOSING_DATE: Final = compile_late(r"\((?:meaning|estimated)\b[^()]*\)", re.IGNORECASE)
_TIME: Final = compile_late(r"(?<![\d.:])\d{1,2}:\d\d(?::\d\d)?(?![\d:])")
_ISO_DAY: Final = compile_late(
    r"(?<!\d)(?:\d{4}([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2\d{4})(?!\d)"
)
_NUMBER: Final = compile_late(
    r"(?<![^\W_])(?<!\d\.)\d+(?:[.,'’_\u00a0\u202f]\d+)*(?:[kKM](?![^\W_]))?"
)
_RUN: Final = compile_late(r"\d+")
_VERSION: Final = compile_late(r"(?<![\w.])v?(\d+(?:\.\d+){2,}[\w.+-]*)")
_SHAPELESS: Final = compile_late(
    r"(?<!\w)(?=[a-z]*\d)(?=\d*[a-z])(?=(?:[a-z]*\d){3})[a-z\d]{6,}(?!\w)"
)
"""An id of letters and digits without a sign."""
_QUOTED: Final = compile_late(
    r"(?<!\w)\"([^\"\n]+)\"(?!\w)|[“„]([^“”„\n]+)[“”]|«([^«»\n]+)»|[「『]([^「」『』\n]+)[」』]"
)
_BETWEEN: Final = compile_late(r"[^\w.-]+")
"""What parts the folders of a path, and the words of a text."""
_FILE: Final = compile_late(r".+\.[a-z]\w{0,4}")
"""A file with its extension, which is looked for as a whole."""
_PASSED: Final = compile_late(r"[\s\"'“”‘’„‟«»‹›「」『』`´*_\\]+")
"""What is passed over when texts are compared."""
_GAP: Final = compile_late(r"\[?(?:…|\.\.\.)\]?")
_TENS: Final = {"k": 1_000, "K": 1_000, "M": 1_000_000}
_PHRASE: Final = compile_late(
    rf"\b(?:(?P<times>{'|'.join(NUMBER_WORDS)}|a|\d{{1,15}})[ -])?"
    r"(?P<unit>hundred|thousand|million)\b"
)


def fold(text: str) -> str:
    """Return a text in the form in which words are compared: without case, spaces and quotes."""
    return _PASSED.sub("", unescape(normalize(text)).casefold())


@dataclass(frozen=True)
class Shown:
    """Texts in which words of a note are looked up."""

    texts: Sequence[str]

    @cached_property
    def _plain(self) -> Sequence[str]:
        return [unescape(normalize(text)).casefold() for text in self.texts]

    @cached_property
    def _text(self) -> str:
        return "\n".join(map(fold, self.texts))

    @cached_property
    def _tokens(self) -> frozenset[str]:
        found = {token.strip("._-") for text in self._plain for token in _BETWEEN.split(text)}
        return frozenset(chain(found, *(token.split(".") for token in found)))

    @cached_property
    def _runs(self) -> frozenset[str]:
        return frozenset(run for text in self.texts for run in _RUN.findall(text))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """All numbers, as digits alone."""
        matches = chain.from_iterable(map(_NUMBER.finditer, self._plain))
        found = (_write_digits(match[0]) for match in matches)
        return frozenset(chain(found, *map(_read_phrases, self._plain)))

    @cached_property
    def _values(self) -> Sequence[int]:
        """All numbers that a rounded one may stand for, in order."""
        known = self._numbers | self._runs
        return sorted(int(digits) for digits in known if len(digits) <= _MOST_DIGITS)

    def has(self, text: str) -> bool:
        """Return whether a text stands there, whatever its case, spaces and quotation marks."""
        return fold(text) in self._text

    def has_number(self, number: str) -> bool:
        """Return whether a number stands there, in one way of writing or another."""
        digits = _write_digits(number)
        if digits in self._numbers or digits in self._runs:
            return True
        unit = _TENS.get(number[-1], 1)
        if unit == 1:
            return False
        parts = _RUN.findall(number)
        is_decimal = len(parts) == 2 and len(parts[1]) != 3  # noqa: PLR2004 else they are thousands
        text = ".".join(parts) if is_decimal else "".join(parts)
        if len(text) > _MOST_DIGITS:
            return False
        value = float(text) * unit
        at = bisect_left(self._values, (1 - _ROUNDED) * value)
        return at < len(self._values) and self._values[at] <= (1 + _ROUNDED) * value

    def has_parts(self, name: str) -> bool:
        """Return whether all parts of a name stand there, such as the folders of a path."""
        parts = [part.strip("._-") for part in _BETWEEN.split(name.casefold())]
        return all(map(self._has_part, filter(None, parts)))

    def is_reworded(self, quotation: str) -> bool:
        """Return whether the words of a quotation stand there, though not in this order."""
        words = [word.strip("._-") for word in _BETWEEN.split(normalize(quotation).casefold())]
        found = [word for word in words if word]
        return bool(found) and sum(map(self._tokens.__contains__, found)) >= _REWORDED * len(found)

    def _has_part(self, part: str) -> bool:
        if part in self._tokens or len(part) < _LEAST_PART:
            return True
        pieces = part.split(".")
        return not _FILE.fullmatch(part) and len(pieces) > 1 and self._tokens.issuperset(pieces)


@dataclass(frozen=True, slots=True)
class Word:
    """Something in a note that can be looked up."""

    kind: Literal["number", "version", "name", "quotation"]
    text: str


def find_unfounded(text: str, shown: Shown) -> list[Word]:
    """Return the words of a note that stand nowhere in what was shown, in their order.

    Args:
        text: Lines of a note; bullet, mark and time may stand before.
    """
    plain = normalize(text)
    words = islice(dict.fromkeys(_list_checked(plain)), _MOST_WORDS)
    found, folded = [word for word in words if not _is_founded(word, shown)], plain.casefold()
    return sorted(found, key=lambda word: folded.find(word.text.casefold()))


def _list_checked(text: str) -> Iterator[Word]:
    """Yield the words of a text that are looked up."""
    for match in _QUOTED.finditer(text):
        yield Word("quotation", match[match.lastindex or 0])
    text = _CLOSING_DATE.sub(" ", text)
    for form in (*DAYS, _ISO_DAY):
        text = form.sub(" ", text)
    for match in _VERSION.finditer(text):
        yield Word("version", match[1].rstrip(".-+"))
    for name in chain(find_identifiers(text), (match[0] for match in _SHAPELESS.finditer(text))):
        yield Word("name", name)
    for match in _NUMBER.finditer(_TIME.sub(" ", _VERSION.sub(" ", text))):
        if not _is_small(match[0]):
            yield Word("number", match[0])


def _is_small(number: str) -> bool:
    digits = "".join(_RUN.findall(number))
    is_year = len(number) == len("2026") and digits == number and int(digits) in _YEARS
    return is_year or int(digits[:30]) < LEAST_NUMBER


def _is_founded(word: Word, shown: Shown) -> bool:
    if word.kind == "quotation":
        parts = map(fold, _GAP.split(word.text.strip(" .,;:!?")))
        return all(len(part) < LEAST_QUOTED or shown.has(part) for part in parts)
    if word.kind == "number":
        return shown.has_number(word.text)
    return shown.has(word.text) or (word.kind == "name" and shown.has_parts(word.text))


def _write_digits(number: str) -> str:
    """Return a number as digits alone, without zeros that end its decimals."""
    number = number.rstrip("kKM")
    head, sign, decimals = number.rpartition(".")
    if sign and "." not in head and len(decimals) != 3:  # noqa: PLR2004 else they are thousands
        number = f"{head}{decimals.rstrip('0')}"
    return "".join(_RUN.findall(number))


def _read_phrases(text: str) -> Iterator[str]:
    """Yield the numbers of phrases such as "two hundred"."""
    for match in _PHRASE.finditer(text):
        times = match["times"] or "1"
        count = int(NUMBER_WORDS.get(times, times if times.isdigit() else "1"))
        yield str(count * int(NUMBER_WORDS[match["unit"]]))


# --- What becomes of a note that holds such words ------------------------------------------------


_MOST_CUTS: Final = 20
"""Words that are cut out of one line; with more of them, it goes."""
_HEAD_CHARACTERS: Final = 12
"""About what bullet, mark and time take, before which nothing is cut."""
_PARENTHESIS: Final = compile_late(r"\([^()]*\)")
_MARKS_AROUND: Final = '"“”„«»「」『』'
_UNIT: Final = compile_late(r"(?:[ \u00a0]?[%€$£]|[^\W\d_]{1,4}\b)?")
"""What belongs to a number behind it, such as `ms`."""


def cut_unfounded(item: str, shown: Shown) -> str:
    """Return an item without what is not founded; empty where nothing can be kept.

    A quotation in other words becomes ordinary text. Else the parenthesis goes that holds the word,
    or a version or a number alone, or the clause behind a sign; or the whole line. With its first
    line an item goes as a whole.
    """
    first, *below = item.split("\n")
    kept = [_cut_line(line, shown) for line in (first, *below)]
    return "\n".join(line for line in kept if line) if kept[0] else ""


def _cut_line(line: str, shown: Shown) -> str:
    for _ in range(_MOST_CUTS):
        unfounded = find_unfounded(line, shown)
        if not unfounded:
            return line
        shorter = _cut_word(line, unfounded[0], shown)
        if shorter == line:
            break
        line = shorter
    return ""


def _cut_word(line: str, word: Word, shown: Shown) -> str:
    """Return a line without a word; the line itself where it cannot be cut."""
    folded = line.casefold()
    start = folded.find(word.text.casefold())
    stop = start + len(word.text)
    if start < 0 or len(folded) != len(line):
        return line
    before, behind = line[:start], line[stop:]
    is_whole = before[-1:] in _MARKS_AROUND and behind[:1] in _MARKS_AROUND
    if word.kind == "quotation" and is_whole and shown.is_reworded(word.text):
        return f"{before[:-1]}{line[start:stop]}{behind[1:]}"
    for match in _PARENTHESIS.finditer(line, _HEAD_CHARACTERS):
        if match.start() <= start and stop <= match.end():
            return f"{line[: match.start()].rstrip()}{line[match.end() :]}"
    for sign in ("; ", ", "):
        begin, end = line.rfind(sign, _HEAD_CHARACTERS, start), line.find(sign, stop)
        if begin >= 0 and word.kind != "version":
            return line[:begin] + (line[end:] if end >= 0 else "")
    if word.kind in ("version", "number") and before.strip():
        unit = _UNIT.match(behind)
        rest = behind[unit.end() if unit is not None else 0 :]
        return f"{before.rstrip('v#€$£~ ')}{rest}"
    return line
