"""The Observer's answer becomes notes, or a failure with a reason.

All of its form is this:

1. `<observations>` opens the notes and `</observations>` closes them. Between them stand the notes,
   or `(none)` alone.
2. The hints that were asked for follow, each in its tag. The end of the last block may be missing.
   Nothing else stands around the blocks, but for reasoning in `<think>` that comes first, and a
   code fence.
3. A tag begins its line. Lines may name one, but none within a block begins with one.
4. Each line of the notes is blank, a date (`Date: Mar 3, 2026`, `Date: unknown`), or an item: a
   bullet of any kind, a mark and a time (`* 🔴 (09:12) text`). Details stand below it, indented.
5. One item at least has a mark or a time, no item is a blank to fill in, and not all of them say
   that there is nothing or that the model will not.

All else is asked for once more, with the reason, and fails then: nothing is committed, and the
messages stay. Reading is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.items import (
    ITEM_START,
    cut_spans,
    find_spans,
    is_date_line,
    read_head,
)
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import HINTS, TASK, TITLE

LOG: Final = "observations"
NOTHING: Final = "(none)"

AnswerStatus = Literal["ok", "none", "empty", "silent", "malformed", "degenerate", "cut_off"]

MAX_LINE_CHARS = 10_000
"""A longer line is cut, with a mark that says how many characters were left out."""

_MAX_SHOWN_CHARS = 1_000_000
"""More of an answer that was cut off is not read: what it holds is only shown."""

_PROBLEMS: Final[Mapping[AnswerStatus, str]] = {
    "empty": "The answer holds no observations.",
    "silent": "The answer notes nothing of a conversation in which much was said.",
    "degenerate": "The answer repeats itself over and over.",
    "cut_off": "The answer was cut off before its end.",
}


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What one answer of the Observer says.

    `problem` is one sentence that names what is wrong; it is empty for `ok` and `none`.
    """

    status: AnswerStatus
    observations: str = ""
    problem: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Those that it states, by name."""


class UnreadableError(Exception):
    """An answer in another form; the text is one sentence that says what is wrong."""


def tag_of(hint: str) -> str:
    """Return the name of the tag in which a hint is stated."""
    return hint.replace("_", "-")


def parse_output(text: str, *, cut_off: bool = False) -> ParsedAnswer:
    """Say what an answer holds, or why it cannot be used.

    Args:
        cut_off: Whether the provider said that the answer ended too early. The status is then
            `cut_off`, and `observations` holds what arrived, for display only.
    """
    text = sanitize(text[:_MAX_SHOWN_CHARS] if cut_off else text)
    if not cut_off and is_degenerate(text):
        return _fail("degenerate")
    try:
        parsed = _read(text, cut_off=cut_off)
    except UnreadableError as error:
        parsed = ParsedAnswer("malformed", problem=str(error))
    return replace(_fail("cut_off"), observations=parsed.observations) if cut_off else parsed


def _fail(status: AnswerStatus) -> ParsedAnswer:
    return ParsedAnswer(status, problem=_PROBLEMS[status])


def _read(text: str, *, cut_off: bool) -> ParsedAnswer:
    blocks = split_blocks(text, cut_off=cut_off)
    notes = _tidy(blocks.get(LOG, ""))
    if not notes:
        return _fail("empty")
    hints = {
        name: hint
        for name in HINTS
        if (said := blocks.get(tag_of(name))) is not None
        and (hint := _read_hint(name, said)) is not None
    }
    if notes == NOTHING:
        return ParsedAnswer("none", hints=hints)
    problem = _find_problem(notes)
    if problem:
        return ParsedAnswer("malformed", problem=problem)
    return ParsedAnswer("ok", notes, hints=hints)


# --- Blocks ---------------------------------------------------------------------------------------

_NAMES: Final = "|".join((LOG, *map(tag_of, HINTS)))
_OPENS: Final = re.compile(f"<({_NAMES})>")
_INSIDE: Final = re.compile(rf"^[ \t]*</?(?:{_NAMES})>", re.MULTILINE)
_REASONING: Final = re.compile(
    r"\s*<think(?:ing)?>.*?</think(?:ing)?>|.*?^</think(?:ing)?>[ \t]*$", re.DOTALL | re.MULTILINE
)
"""What opens with the tag or, where servers leave that out, ends with a line of the other tag."""
_FENCE: Final = re.compile(r"\A\s*```[\w-]*\n|\n```\s*\Z")
_PART_OF_TAG: Final = re.compile(r"\n[ \t]*<[/\w-]{0,24}\Z")


def strip_reasoning(text: str) -> str:
    """Return an answer without the reasoning and the code fence around it."""
    thought = _REASONING.match(text) if "</think" in text else None
    return _FENCE.sub("", text[thought.end() :] if thought else text).strip()


def split_blocks(text: str, *, cut_off: bool = False) -> dict[str, str]:
    """Return what stands in each block of an answer, by its tag.

    Raises:
        UnreadableError: When anything stands outside of them, or one ends within a line.
    """
    rest = _PART_OF_TAG.sub("", strip_reasoning(text))
    blocks: dict[str, str] = {}
    while rest:
        opened = _OPENS.match(rest)
        if opened is None:
            problem = "A text stands outside of the tags." if _OPENS.search(text) else _NO_TAGS
            raise UnreadableError(problem)
        name = opened[1]
        end = _find_end(rest, opened.end(), name)
        if end is None and not cut_off and f"</{name}>" in rest:
            problem = f"`</{name}>` stands on no line of its own."
            raise UnreadableError(problem)
        said = rest[opened.end() : end]
        if name in blocks or _INSIDE.search(said):
            problem = f"A tag stands within `<{name}>`, or the block is there twice."
            raise UnreadableError(problem)
        blocks[name] = said
        rest = "" if end is None else rest[end + len(f"</{name}>") :].strip()
    return blocks


_NO_TAGS: Final = "The answer holds no list of observations inside `<observations>` tags."


def _find_end(text: str, start: int, name: str) -> int | None:
    """Find the tag that closes a block: on the line that opens it, else on a line of its own."""
    close = f"</{name}>"
    line_end = text.find("\n", start)
    line = text[start : line_end if line_end >= 0 else len(text)].rstrip()
    if line.endswith(close):
        return start + len(line) - len(close)
    alone = re.compile(rf"^[ \t]*{close}[ \t]*$", re.MULTILINE).search(text, start)
    last = alone or re.compile(rf"{close}[ \t]*$", re.MULTILINE).search(text, start)
    return text.index(close, last.start()) if last else None


def _tidy(text: str) -> str:
    """Return a text without blanks at the ends of lines and more than one empty line."""
    lines = [line.rstrip() for line in text.split("\n")]
    clipped = [_clip(line) if len(line) > MAX_LINE_CHARS else line for line in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(clipped)).strip()


def _clip(line: str) -> str:
    kept = line[: MAX_LINE_CHARS - 40]  # room for the mark: a clipped line is not clipped again
    return f"{kept} [… {len(line) - len(kept)} characters left out]"


def _read_hint(name: str, text: str) -> str | None:
    """Return what a block states, empty where that is nothing; `None`: the former one holds."""
    said = "" if _says_nothing(text) else _tidy(text)
    if name == TITLE:
        return shorten_title(said)
    return said or None if name == TASK else said


def _says_nothing(text: str) -> bool:
    return text.strip(" \t\n(.)").casefold() in ("none", "n/a")


_MIN_TITLE_CHARS: Final = 3
_MAX_TITLE_CHARS: Final = 100
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "*": "*"}


def shorten_title(text: str) -> str | None:
    """Return the first line of a text without quotes, as long as it can be shown as a title."""
    title, before = text.strip().partition("\n")[0], None
    while title != before:
        before = title
        title = title[:_MAX_TITLE_CHARS].strip()
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= _MIN_TITLE_CHARS and not _says_nothing(title) else None


# --- Notes ----------------------------------------------------------------------------------------


def _find_problem(notes: str) -> str:
    """Tell which line is in another form, or why these are no notes; empty where they are."""
    items: list[str] = []
    in_item = is_noted = False
    for line in filter(str.strip, notes.split("\n")):
        if in_item and line[:1] in " \t":
            continue
        in_item = ITEM_START.match(line) is not None
        if in_item:
            head = read_head(line)
            is_noted = is_noted or bool(head.mark or head.time)
            items.append(line[head.end :].strip(" \t*_`"))
        elif not is_date_line(line):
            return "A line is no date, no item, and not indented below an item."
        elif observation_date(line) is None and not _UNKNOWN.search(line):
            return "A date is in another form than `Date: Mar 3, 2026` and `Date: unknown`."
    if not is_noted:
        return "No item has a mark or a time."
    if any(map(_BLANK.fullmatch, items)):
        return "An item is not filled in."
    if all(map(says_none, items)):
        return "The items say that there is nothing to note, or that you will not."
    return ""


_UNKNOWN: Final = re.compile(r":[*_ ]*unknown\b", re.IGNORECASE)
_BLANK: Final = re.compile(
    r"\W*|\([^()]{1,100}\)|[<{\[]{1,2}[^<>{}\[\]\d]{1,60}[>}\]]{1,2}|[<{\[(]{1,2}(?:HH?|XX):.*"
    r"|text|observation(?: text)?|none|nothing|n/a",
    re.IGNORECASE,
)
"""What stands in the form where a text belongs, or in brackets; a word for nothing."""

_CANNOT: Final = (
    r"(?:can't|cannot|can not|won't|will not|must decline|(?:am |'m |are |'re )(?:un|not )able)"
)
_SAYS_NONE: Final = re.compile(
    r"(?:unfortunately|sorry|(?:i'm|i am|we're)\b.{0,12}\bsorry|i apolog).{0,20}"
    rf"\b(?:i|we) ?{_CANNOT}"
    rf"|(?:i|we) ?(?:{_CANNOT}|(?:must |have to )?(?:decline|refuse)) .{{0,20}}?\b(?:assist|comply"
    r"|help|do (?:that|this)|fulfil|continue|engage|proceed|answer|create|generate|observe|process"
    r"|provide|record|summari[sz]e)\b"
    r"|as an ai\b"
    r"|(?:there (?:is|are|was|were) )?(?:no|nothing)\b[^,;:]{0,40}\b(?:conversation|content"
    r"|messages|note|noteworthy|noted|observations?|observed?|record|report"
    r"|summari[sz]e)\b[^,;:]{0,40}\Z",
    re.IGNORECASE,
)
"""A refusal, or that there is nothing to note, as an item."""


def says_none(item: str) -> bool:
    """Return whether a text refuses, or says that there is nothing to note."""
    return _SAYS_NONE.match(item[:300].replace("’", "'")) is not None


_FEW: Final = 2
_LEAST_BYTES: Final = 12
"""Of the words of a note without a time; a word for "nothing" has fewer, in whatever language."""


def hold_to_size(answer: ParsedAnswer, *, is_much: bool) -> ParsedAnswer:
    """Return an answer, unless it notes nothing where much was said: that is none.

    Args:
        is_much: Whether more was said than may need no note.
    """
    if not is_much or answer.status not in ("ok", "none"):
        return answer
    items = cut_spans(answer.observations, find_spans(answer.observations))
    if len(items) > _FEW or any(map(_tells_something, items)):
        return answer
    return _fail("silent")


def _tells_something(item: str) -> bool:
    head = read_head(item)
    is_long = len(item[head.end :].encode()) >= _LEAST_BYTES
    return bool(head.time) or (bool(head.mark) and is_long)


def names_items(text: str) -> bool:
    """Return whether a text holds items with a mark or a time, in whatever form it has."""
    heads = map(read_head, filter(ITEM_START.match, text.split("\n")))
    return any(head.mark or head.time for head in heads)


# --- Examples -------------------------------------------------------------------------------------

_EXAMPLE: Final = re.compile(
    r"<example>\n(.*?)\n</example>|<([a-z-]+)>([^<\n]+)</\2>|`(\* [^`\n]+)`", re.DOTALL
)
_TAG: Final = re.compile(r"</?[a-z-]+>")


def list_examples(prompt: str) -> frozenset[str]:
    """Return the words of each line that a prompt shows as an example of an answer."""
    blocks = [found[1] or found[3] or found[4] for found in _EXAMPLE.finditer(prompt)]
    lines = (_words_of(line) for block in blocks for line in block.split("\n"))
    return frozenset(lines) - {"", NOTHING}


def drop_examples(text: str, examples: Collection[str]) -> str:
    """Return an answer without the lines that small models copy from the examples."""
    return "\n".join(line for line in text.split("\n") if _words_of(line) not in examples)


def _words_of(line: str) -> str:
    bare = _TAG.sub("", line)
    return bare[read_head(bare).end :].strip()


# --- Endless repetition ---------------------------------------------------------------------------

# A model that got stuck, as opposed to an account of repetitive work. Only exact repetition counts;
# lines that merely resemble each other do not.

_MIN_DEGENERATE_CHARS = 2_000
_MAX_SANE_LINE_CHARS = 50_000
_MIN_COPIED_LINES = 40
_MIN_COPIES = 10
_MORE_TIMES = 3
"""How often a block comes again at least."""
_MIN_RUN = 50
"""The least words of all repetitions of a block."""
_MAX_LOOPED = 400
_MAX_LOOPED_SHARE = 0.4
_ALIKE = 8
"""So many words together tell where a text goes on as it did before."""
_WORD = re.compile(r"\S{1,20}")


def is_degenerate(text: str) -> bool:
    """Return whether the text runs away in repetition.

    It does when a line is longer than any sane one, when it ends in one block over and over, when
    such blocks fill a large share of it, or when a few lines make up nearly all of it, in whatever
    order. A block must repeat exactly: lines that differ by a time, a name or a number are a
    faithful account of repetitive work.
    """
    lines = [line for raw in text.split("\n") if (line := " ".join(raw.split()))]
    if sum(map(len, lines)) < _MIN_DEGENERATE_CHARS:
        return False
    if max(map(len, lines)) > _MAX_SANE_LINE_CHARS:
        return True
    if len(lines) >= max(_MIN_COPIED_LINES, _MIN_COPIES * len({*lines})):
        return True
    words = _WORD.findall(text)
    looped, ends_in_loop = _count_looped(words)
    return ends_in_loop or looped >= min(_MAX_LOOPED, _MAX_LOOPED_SHARE * len(words))


def _count_looped(words: Sequence[str]) -> tuple[int, bool]:
    """Return how many words stand in blocks that repeat at once, and whether the last ones do."""
    seen: dict[tuple[str, ...], int] = {}
    looped = run = period = repeated = 0
    for at in range(len(words) - _ALIKE + 1):
        here = tuple(words[at : at + _ALIKE])
        back = at - seen.get(here, at)
        seen[here] = at
        if back != period or not back:
            looped, run, repeated = looped + repeated, 0, 0
        period = back
        run += back > 0
        if run and run + _ALIKE >= max(_MIN_RUN, _MORE_TIMES * period):
            repeated = run + period
    return looped + repeated, repeated > 0


# --- What a prompt says of hints ------------------------------------------------------------------


HintPlace = Literal["observer", "threads", "actor", "example", "first thread", "second thread"]
"""Where a prompt tells of hints: in the form of the Observer's answer, in the rules for an Observer
of several threads or for the Actor, and in examples of an answer, of which there are two where
threads are observed together."""

_NUMBERED: Final = re.compile(r"^\d+\. `<([\w-]+)>`", re.MULTILINE)

_PROMPTS: Final[Mapping[HintPlace, str]] = {
    "observer": "observer_hints",
    "threads": "observer_threads_hints",
    "actor": "actor_hints",
    "example": "observer_hints_example",
    "first thread": "observer_threads_hints_first",
    "second thread": "observer_threads_hints_second",
}


_ALONE: Final[Mapping[HintPlace, str]] = {
    "threads": "observer_threads_hint",
    "actor": "actor_hint",
}
"""What is said in the place of these prompts where one hint is asked for."""


def tell_hints(names: Sequence[str], place: HintPlace) -> str:
    """Return what a prompt says in a place of the hints that are asked for; empty for nothing."""
    told = [_tell_continuation([name for name in names if name != TITLE], place)]
    if TITLE in names and place == "observer":
        told.append(f"\n{load('observer_title')}")
    return "\n".join(filter(None, told))


def _tell_continuation(names: Sequence[str], place: HintPlace) -> str:
    if len(names) != 1:
        return load(_PROMPTS[place]) if names else ""
    (name,) = names
    if place in _ALONE:
        words = {"tag": tag_of(name)} if place == "actor" else {"hint": name.replace("_", " ")}
        return fill(_ALONE[place], **words)
    return _keep_only(load(_PROMPTS[place]), tag_of(name))


def _keep_only(text: str, tag: str) -> str:
    """Return what a prompt says of one hint: its line of a numbered list, or its block."""
    lines = [line for line in text.split("\n") if line.strip()]
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if numbered:
        first = numbered[0].partition(".")[0]
        own = next(line for line in numbered if f"`<{tag}>`" in line.partition(":")[0])
        return f"{first}.{own.partition('.')[2]}"
    return text[text.index(f"<{tag}>") : text.index(f"</{tag}>")] + f"</{tag}>"
