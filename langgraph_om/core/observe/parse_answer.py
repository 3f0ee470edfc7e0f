"""What the Observer or Reflector wrote becomes typed parts, or a failure with a name.

The steps, in order: control characters and reasoning are dropped, the spelling of the tags is
settled, the text is split at its structural tags, and what lies between them is tidied and judged.
Every step is linear in the length of the text, and parsed text never holds a structural tag.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import Any, Final, Literal, NamedTuple

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.items import (
    ITEM,
    ITEM_START,
    cut_spans,
    find_spans,
    is_date_line,
    read_head,
    replace_spans,
    strip_date_marks,
)
from langgraph_om.core.observe.answer_tags import (
    ITEM_LINE,
    LOG,
    Block,
    Split,
    defuse_tags,
    find_tags,
    split_best,
    tag_of,
)
from langgraph_om.core.observe.non_answers import (
    denies_all,
    is_blank_form,
    is_refused,
    is_verdict,
    says_nothing_to_note,
)
from langgraph_om.core.record.record import HINTS, TASK, TITLE

# Detect runaway repetition: a model that got stuck, as opposed to an account of repetitive work.
#
# Only exact repetition counts; lines that merely resemble each other do not.


_MIN_DEGENERATE_CHARS = 2_000
_MAX_SANE_LINE_CHARS = 50_000
_MIN_REPEATS = 4
_MIN_RUN_CHARS = 500
_MAX_RUN_CHARS = 4_000
_MAX_RUN_SHARE = 0.4
_MIN_COPIED_LINES = 40
_MIN_COPIES = 10
_PROBE_CHARS = 80
_PROBES = 1024
_MAX_PERIOD = 100_000


def is_degenerate(text: str) -> bool:
    """Return whether the text runs away in repetition.

    It does when a line is longer than any sane one, when it ends in one block over and over, when
    such blocks fill a large share of it, or when a few lines make up nearly all of it, in whatever
    order. A block must repeat exactly: lines that differ by a time, a name or a number
    are a faithful account of repetitive work. White space is ignored.
    """
    if len(text) < _MIN_DEGENERATE_CHARS:
        return False
    lines = [line for raw in text.split("\n") if (line := " ".join(raw.split()))]
    longest, counts = max(map(len, lines), default=0), Counter(lines)
    if longest > _MAX_SANE_LINE_CHARS:
        return True
    if len(lines) >= max(_MIN_COPIED_LINES, _MIN_COPIES * len(counts)):
        return True
    # A run lies within one line, or half of it at least is whole lines that come again.
    copied = sum((len(line) + 1) * count for line, count in counts.items() if count > 1)
    if longest + 1 < _MIN_RUN_CHARS and 2 * copied < _MIN_RUN_CHARS:
        return False
    compact = "\n".join(lines)
    if len(compact) < _MIN_DEGENERATE_CHARS:
        return False
    return _ends_in_run(compact) or _is_filled_with_runs(compact)


def _ends_in_run(text: str) -> bool:
    probe = len(text) - _PROBE_CHARS
    window = min(len(text) // _MIN_REPEATS + 1, _MAX_PERIOD)
    twin = text.rfind(text[probe:], max(0, probe - window), len(text) - 1)
    if twin < 0:
        return False
    period = probe - twin
    return _is_run(_count_same(text, len(text) - period, len(text), ahead=False) + period, period)


def _is_filled_with_runs(text: str) -> bool:
    """Return whether repeated blocks, searched for at evenly spaced places, fill the text."""
    allowed = min(_MAX_RUN_CHARS, int(_MAX_RUN_SHARE * len(text)))
    window = min(len(text) // _MIN_REPEATS + 1, _MAX_PERIOD)
    covered, reached = 0, 0
    for probe in range(0, len(text) - _PROBE_CHARS, max(1, len(text) // _PROBES)):
        if probe < reached:
            continue
        end = probe + _PROBE_CHARS
        twin = text.find(text[probe:end], probe + 1, end + window)
        if twin < 0:
            continue
        period = twin - probe
        first = probe - _count_same(text, probe, twin, ahead=False)
        last = twin + _count_same(text, probe, twin, ahead=True)
        if _is_run(last - first, period):
            covered += last - max(first, reached)
            reached = last
        if covered >= allowed:
            return True
    return False


def _is_run(length: int, period: int) -> bool:
    # The last block of a text lacks the newline that ends the others.
    return length + 1 >= max(_MIN_RUN_CHARS, _MIN_REPEATS * period)


def _count_same(text: str, left: int, right: int, *, ahead: bool) -> int:
    """Count the equal characters from two places onward, or before them, going back."""
    same, size, growing = 0, 64, True
    while size:
        shift = same if ahead else -same - size
        start, other = left + shift, text[right + shift : right + shift + size]
        fits = start >= 0 and len(other) == size and text[start : start + size] == other
        same += size if fits else 0
        growing = growing and fits
        size = size * 2 if growing else size // 2
    return same


def strip_dates(text: str) -> str:
    """Drop the date headings of a text."""
    return "\n".join(filterfalse(is_date_line, text.split("\n"))).strip()


def are_days_apart(blocks: Iterable[list[str]]) -> bool:
    """Return whether each block has date headings, and no two blocks have the same."""
    seen: set[str] = set()
    for texts in blocks:
        lines = (line for text in texts for line in text.split("\n") if is_date_line(line))
        days = {strip_date_marks(line).casefold() for line in lines}
        if not days or not seen.isdisjoint(days):
            return False
        seen |= days
    return True


class Lines:
    """The lines of a log by what they are; blank ones, and those below an item, are left out."""

    def __init__(self, log: str) -> None:
        self.dates: list[str] = []
        self.items: list[str] = []
        self.before: list[str] = []
        """What stands before the first item and is no date heading."""
        self.after: list[str] = []
        """What stands after the first item and belongs to none; code in fences is one line."""
        in_item = in_code = False
        for line in filter(str.strip, log.split("\n")):
            is_fence = line.lstrip().startswith(("```", "~~~"))
            if in_code or (in_item and line[:1] in " \t"):
                in_code ^= is_fence and in_code
                continue
            in_item = ITEM_START.match(line) is not None
            if in_item:
                self.items.append(line)
            elif is_date_line(line):
                self.dates.append(line)
            else:
                (self.after if self.items else self.before).append(line)
                in_code = is_fence

    @property
    def are_doubtful(self) -> bool:
        """Whether they refuse, tell of nothing, or are the form not filled in."""
        entries = [*self.before, *self.items, *self.after]
        refused = is_refused(self.before, self.items, self.after)
        return refused or denies_all(entries) or is_blank_form(self.dates, entries)


_CDATA_OPENS: Final = re.compile(r"\s*+(?:<!\[CDATA\[\s*+)+")
_CDATA_CLOSES: Final = "]]>"


_MAX_DEPTH: Final = 8
_LIST_TAG: Final = r"<(?P<closes>/?)(?P<name>[uo]l|li)(?:[ \t][^<>\n]{0,100})?>"
_LIST_LINE: Final = re.compile(rf"^[ \t]*+{_LIST_TAG}", re.IGNORECASE | re.MULTILINE)
_LIST_PARTS: Final = re.compile(r"(?=</?[uo]l\b|<li\b)|(?P<ends></li[ \t]{0,3}>)", re.IGNORECASE)


def read_html_list(text: str) -> str:
    """Write a list of HTML as our list; a text that is none stays as it is."""
    if "<" not in text or ITEM_LINE.search(text) or not _LIST_LINE.search(text):
        return text
    lines: list[str] = []
    depth, is_opened = 0, False
    for line in _LIST_PARTS.sub("\n", text).split("\n"):
        tag = _LIST_LINE.match(line)
        rest = line[tag.end() :].strip() if tag else line.rstrip()
        if tag and tag["name"].lower() != "li":
            depth = max(0, depth - 1) if tag["closes"] else min(_MAX_DEPTH, depth + 1)
        is_opened = is_opened or (tag is not None and tag["name"].lower() == "li")
        if rest:
            mark = f"{'  ' * max(0, depth - 1)}* " if is_opened else ""
            lines.append(f"{mark}{rest.lstrip() if mark else rest}")
            is_opened = False
    written = "\n".join(lines)
    return written if ITEM_LINE.search(written) else text


def read_json(text: str) -> Split | None:
    """Read an answer that is a JSON object with our blocks as its fields.

    Returns:
        The text of `observations`, one text or a list of lines, as text without tags; `None` when
        the answer is anything else.
    """
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        fields: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = {name.strip().lower().replace("-", "_"): value for name, value in fields.items()}
    told = named.get(LOG)
    lines = [told] if isinstance(told, str) else told
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return None
    return Split(
        tagged=False,
        outside=[sanitize(line) for line in lines],
        hints={
            tag_of(name): sanitize(value)
            for name in HINTS
            if isinstance(value := named.get(name), str)
        },
    )


AnswerStatus = Literal["ok", "none", "empty", "silent", "malformed", "degenerate", "cut_off"]

MAX_LINE_CHARS = 10_000
"""A longer line is cut, with a mark that says how many characters were left out."""

_MAX_SHOWN_CHARS = 1_000_000
"""More of an answer that was cut off is not read: what it holds is only shown."""


_PARTIAL_TAG = re.compile(r"^[ \t]*+<[/\w \t-]{0,24}\Z", re.MULTILINE)

_LT, _GT = r"(?:\\?<|&lt;)", r"(?:\\?>|&gt;)"
_THINK = r"(?:think(?:ing)?|reasoning|thoughts?|scratch[-_ ]?pad|analysis|draft)[ \t]{0,3}"
_LOG_OPENS = rf"{_LT}[ \t]{{0,3}}{LOG}\b"
_HEAD = rf"(?:(?P<think>{_LT}[ \t]{{0,3}}{_THINK}{_GT})|{_LOG_OPENS})"
_HEAD_HERE = re.compile(rf"\s*+{_HEAD}", re.IGNORECASE)
_HEAD_LINE = re.compile(rf"^[ \t]*+{_HEAD}", re.IGNORECASE | re.MULTILINE)
_THINK_END = re.compile(rf"{_LT}\\?/[ \t]{{0,3}}{_THINK}{_GT}", re.IGNORECASE)
_LOG_LINE = re.compile(
    rf"(?:^|{_THINK_END.pattern})[ \t]*+{_LOG_OPENS}", re.IGNORECASE | re.MULTILINE
)

_THINK_END_LINE = re.compile(
    rf"^(?!{ITEM})(?P<before>[^\n]*?){_THINK_END.pattern}(?P<after>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_TABLE_ROW = re.compile(r"^[ \t]*+\|[^\n🔴🟡🟢✅📌]*+[🔴🟡🟢✅📌]", re.MULTILINE)
_ABOUT_SOMEBODY = re.compile(r"(?:User|Assistant) [a-z]")
_MARKED = re.compile(rf"(?={ITEM})[ \t]*+[^\s🔴🟡🟢✅📌]{{0,5}}[ \t]*+[*_]{{0,3}}[🔴🟡🟢✅📌]")
_FENCE = re.compile(r"\s*+(?:```+|~~~+)[ \t]*(?P<info>[\w+.-]{0,30})\s*")
_MAX_NOTHING_CHARS = 40
_NOTHING = {"none", "n/a"}

_PROBLEMS: dict[AnswerStatus, str] = {
    "empty": "The answer holds no observations.",
    "silent": "The answer notes nothing of a conversation in which much was said.",
    "malformed": "The answer holds no list of observations inside `<observations>` tags.",
    "degenerate": "The answer repeats itself over and over.",
    "cut_off": "The answer was cut off before its end.",
}


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What one answer of the Observer or Reflector says.

    `problem` is one sentence that names what is wrong; it is empty for `ok` and `none`.
    """

    status: AnswerStatus
    observations: str = ""
    problem: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Those that it states, by name."""


def list_examples(prompt: str) -> frozenset[str]:
    """Return the words of each line that a prompt shows as an example of an answer."""
    blocks = [found[1] or found[3] or found[4] for found in _EXAMPLE.finditer(prompt)]
    return frozenset(_words_of(line) for block in blocks for line in block.split("\n")) - {""}


def drop_examples(answer: ParsedAnswer, examples: Collection[str]) -> ParsedAnswer:
    """Return an answer without the items and hints that small models copy from the examples."""
    text = answer.observations
    copied = {
        span: "" for span in find_spans(text) if _words_of(text.split("\n")[span.start]) in examples
    }
    hints = {name: hint for name, hint in answer.hints.items() if hint not in examples}
    answer = replace(answer, hints=hints)
    if not copied:
        return answer
    left = replace_spans(text, copied)
    return replace(answer, status=answer.status if left else "none", observations=left)


_EXAMPLE = re.compile(
    r"<example>\n(.*?)\n</example>|<([a-z-]+)>([^<\n]+)</\2>|`(\* [^`\n]+)`", re.DOTALL
)
_TAG = re.compile(r"</?[a-z-]+>")


def _words_of(line: str) -> str:
    bare = _TAG.sub("", line)
    return bare[read_head(bare).end :].strip()


def hold_to_size(answer: ParsedAnswer, *, is_much: bool) -> ParsedAnswer:
    """Return an answer, unless it notes nothing where much was said: that is none.

    One or two lines without mark and time are not in the form that is asked for; so does a model
    write, in any language, that there is nothing, or that it will not.

    Args:
        is_much: Whether more was said than may need no note.
    """
    if not is_much or answer.status not in ("ok", "none"):
        return answer
    text = answer.observations
    heads = [read_head(item) for item in cut_spans(text, find_spans(text))]
    if len(heads) > _FEW or any(head.mark or head.time for head in heads):
        return answer
    return _build_failed("silent")


_FEW: Final = 2


def parse_output(text: str, *, cut_off: bool = False) -> ParsedAnswer:
    """Say what an answer of the Observer or Reflector holds, or why it cannot be used.

    Args:
        cut_off: Whether the provider said that the answer ended too early. The status is then
            `cut_off`, and `observations` holds what arrived, for display only.
    """
    text = sanitize(text[:_MAX_SHOWN_CHARS] if cut_off else text)
    if cut_off:
        partial = _read(_PARTIAL_TAG.sub("", text))
        return replace(partial, status="cut_off", problem=_PROBLEMS["cut_off"])
    if text.strip() and is_degenerate(text):
        return _build_failed("degenerate")
    return _read(text)


def _read(text: str) -> ParsedAnswer:
    text = strip_reasoning(text, may_be_open=True)
    if not text.strip():
        return _build_failed("empty")
    split = split_best(text)
    if not split.tagged:
        split = read_json(unwrap_fence(text).strip()) or split
    status, observations = _judge_blocks(split) if split.tagged else _judge(split)
    return ParsedAnswer(
        status,
        observations,
        problem=_PROBLEMS.get(status, ""),
        hints={
            name: hint
            for name in HINTS
            if (said := read_hint(split, name)) is not None
            and (hint := _shape_hint(name, said)) is not None
        },
    )


def _shape_hint(name: str, said: str) -> str | None:
    """Return a hint as it is kept; `None` for none, and for an empty task: the former one holds."""
    if name == TITLE:
        return shorten_title(said)
    return said or None if name == TASK else said


def _build_failed(status: AnswerStatus) -> ParsedAnswer:
    return ParsedAnswer(status, problem=_PROBLEMS[status])


# --- Judging: from the text between the tags to observations ----------------------------------


def _judge_blocks(split: Split) -> tuple[AnswerStatus, str]:
    """Judge text that the model put inside `<observations>`: all of a block is kept, or none."""
    written = [(block, _read_pieces(block)) for block in split.inside]
    told = [(block, texts) for block, texts in written if any(map(_is_told, texts))]
    if not told:
        texts = [text for _, texts in written for text in texts]
        if not texts and any(block.is_self_closed for block in split.inside):
            return ("empty" if unwrap_fence("\n".join(split.outside)).strip() else "none"), ""
        said_none = any(text.says_nothing for text in texts)
        return ("none" if said_none else "malformed" if texts else "empty"), ""
    log = _settle_log("\n".join(_choose_texts(told)))
    if log is None:
        return "malformed", ""
    bare = strip_dates(log)
    if says_nothing_to_note(bare):
        return "none", ""
    lines = Lines(log)
    has_form = lines.dates or ITEM_LINE.search(log) or _TABLE_ROW.search(log)
    if not has_form and not all(map(_ABOUT_SOMEBODY.match, lines.before)):
        return "malformed", ""
    is_answer = bare and not lines.are_doubtful
    return ("ok", log) if is_answer else ("malformed", "")


class _Piece(NamedTuple):
    """A text of a block."""

    text: str
    bare: str
    """The same without date headings."""
    says_nothing: bool


def _read_pieces(block: Block) -> list[_Piece]:
    texts = (_from_line_start(_strip_wrapping(piece)) for piece in block.pieces)
    tidy = [text for piece in texts if (text := _tidy_text(unwrap_fence(piece)))]
    return [_Piece(text, bare := strip_dates(text), says_nothing_to_note(bare)) for text in tidy]


def _is_told(piece: _Piece) -> bool:
    return bool(piece.bare) and not piece.says_nothing


def _choose_texts(told: list[tuple[Block, list[_Piece]]]) -> list[str]:
    """Choose the texts of the last whole block; blocks of different days count together."""
    blocks = [[piece.text for piece in pieces] for _, pieces in told]
    if len(told) > 1 and not are_days_apart(blocks):
        told = ([pair for pair in told if pair[0].is_whole] or told)[-1:]
    return [piece.text for _, pieces in told for piece in pieces if not piece.says_nothing]


def _judge(split: Split) -> tuple[AnswerStatus, str]:
    """Judge text without the tags: it counts when every line of it is in our form.

    That there is nothing counts in brackets or as an item: bare words may be what is left of a
    failed call. Of a list, a date heading or a mark has to show that it is one of observations; a
    close tag alone shows it too, with whatever text after it.
    """
    before, after = split.outside[: split.before_close], split.outside[split.before_close or 0 :]
    is_closed = split.before_close is not None and "".join(before).strip() != ""
    if is_closed and ITEM_LINE.search("\n".join(after)):
        is_closed = False
    whole = unwrap_fence("\n".join(before if is_closed else split.outside)).strip()
    if not whole:
        return "empty", ""
    bare = strip_dates(whole)
    if says_nothing_to_note(bare):
        is_in_form = bare.startswith(("(", "（")) or ITEM_START.match(bare)
        return ("none" if is_in_form else "malformed"), ""
    log = _settle_log(whole)
    lines = Lines(log or "")
    if log is None or lines.before or lines.after or not lines.items or lines.are_doubtful:
        return "malformed", ""
    marked = [item for item in lines.items if _MARKED.match(item)]
    has_mark = bool(marked) and not any(map(is_verdict, marked))
    return ("ok", log) if is_closed or lines.dates or has_mark else ("malformed", "")


_MAX_WRAPPINGS = 3


def _settle_log(text: str) -> str | None:
    """Return a text as it is kept, in the form in which it is read again; `None` if it has none."""
    log = _read_log(text)
    for _ in range(_MAX_WRAPPINGS):
        before, log = log, _read_log(_strip_wrapping(log))
        if log == before:
            return log
    return None


def _read_log(text: str) -> str:
    plain = read_html_list(_tidy_text(unwrap_fence(text)))
    return _tidy_text(defuse_tags(_tidy_text(plain), LOG))


def _from_line_start(piece: str) -> str:
    """Drop the blank between a tag and what follows it on its line; real indentation stays."""
    stripped = piece.lstrip(" \t")
    return piece if stripped.startswith("\n") else stripped


def says_nothing(text: str) -> bool:
    """Return whether a hint is a word for nothing."""
    if len(text) > _MAX_NOTHING_CHARS:
        return False
    return text.strip(" \t\n*-_`'\"().[]").casefold() in _NOTHING


def read_hint(split: Split, name: str) -> str | None:
    """Return a hint of an answer, empty where its block is; `None` where there is no block."""
    tag = tag_of(name)
    if tag not in split.hints:
        return None
    text = unwrap_fence(split.hints[tag].strip())
    text = _tidy_text(defuse_tags(_tidy_text(text).strip(), tag))
    return "" if not text or says_nothing(text) else text


_MIN_TITLE_CHARS: Final = 3
_MAX_TITLE_CHARS: Final = 100
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "*": "*"}


def shorten_title(text: str) -> str | None:
    """Return the first line of a text without quotes, as long as it can be shown as a title."""
    title, before = text.split("\n", 1)[0], None
    while title != before:
        before = title
        title = defuse_tags(title[:_MAX_TITLE_CHARS].strip(), tag_of(TITLE))
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= _MIN_TITLE_CHARS and not says_nothing(title) else None


def _tidy_text(text: str) -> str:
    lines = [line.rstrip() for line in text.split("\n")]
    clipped = [_clip(line) if len(line) > MAX_LINE_CHARS else line for line in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(clipped)).strip("\n")


def _clip(line: str) -> str:
    kept = line[: MAX_LINE_CHARS - 40]  # room for the mark: a clipped line is not clipped again
    return f"{kept} [… {len(line) - len(kept)} characters left out]"


def unwrap_fence(text: str) -> str:
    """Drop code fences that wrap the text, and leave those that belong to an item.

    A fence before the first item wraps, with the one that closes it; so does a fence at the very
    end that closes nothing.
    """
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    partner = _pair_fences(lines)
    dropped: set[int] = set()
    for index, line in enumerate(lines):
        if index in partner:
            dropped |= {index, partner[index]}
        elif line.strip():
            break
    end = len(lines)
    while end and (not lines[end - 1].strip() or partner.get(end - 1) == end - 1):
        end -= 1
    return "\n".join(line for index, line in enumerate(lines[:end]) if index not in dropped)


def _pair_fences(lines: list[str]) -> dict[int, int]:
    """Map every fence line to the one it belongs with, itself if it stands alone."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        if fence["info"] or not opened:
            opened.append(index)
            partner[index] = index
        else:
            start = opened.pop()
            partner[index], partner[start] = start, index
    return partner


# --- Reasoning: what the model thought before it answered --------------------------------------


def strip_reasoning(text: str, *, may_be_open: bool = False) -> str:
    """Drop what stands in think tags before the first block, even when one tag is missing.

    Args:
        may_be_open: Whether a block that ends the answer counts although it stands in reasoning
            that was never closed.
    """
    kept, at = [], 0
    while (head := _HEAD_HERE.match(text, at) or _HEAD_LINE.search(text, at)) and head["think"]:
        kept.append(text[at : head.start()])
        end = _THINK_END.search(text, head.end())
        if end is None:
            return "".join(kept) + (_find_last_block(text[head.end() :]) if may_be_open else "")
        at = end.end()
    text = "".join(kept) + text[at:]
    return text[_find_orphan_end(text) :]


def _find_last_block(text: str) -> str:
    """Return the whole block that ends a text, with the hints after it; nothing if none does."""
    last = max((tag.start for tag in find_tags(text) if tag.leads and tag.opens_log), default=None)
    if last is None:
        return ""
    split = split_best(text[last:])
    ends = split.inside[-1].is_whole and not unwrap_fence("\n".join(split.outside)).strip()
    return text[last:] if ends else ""


def _strip_wrapping(text: str) -> str:
    """Drop reasoning and marks of CDATA that open a block."""
    at = 0
    while (head := _HEAD_HERE.match(text, at)) and head["think"]:
        end = _THINK_END.search(text, head.end())
        if end is None:
            break
        at = end.end()
    opened = _CDATA_OPENS.match(text, at)
    return text[opened.end() :].rstrip().removesuffix(_CDATA_CLOSES) if opened else text[at:]


def _find_orphan_end(text: str) -> int:
    """Find where reasoning ends whose open tag was never written; 0 if there is none."""
    if _THINK_END.search(text) is None:
        return 0
    block = _LOG_LINE.search(text)
    first = block.end() if block else len(text) + 1
    last = max((tag.start for tag in find_tags(text) if tag.leads and tag.opens_log), default=0)
    found = 0
    for mark in _THINK_END_LINE.finditer(text):
        end = mark.start("after")
        alone = not mark["before"].strip() and not mark["after"].strip()
        if end < first or (alone and end < last):
            found = end
    return found
