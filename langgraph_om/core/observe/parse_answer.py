"""What the Observer or Reflector wrote becomes typed parts, or a failure with a name.

The steps, in order: control characters and reasoning are dropped, the spelling of the tags is
settled, the text is split at its structural tags, and what lies between them is tidied and judged.
Every step is linear in the length of the text, and parsed text never holds a structural tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.items.lines import ITEM, ITEM_START
from langgraph_om.core.observe.answer_forms import read_html_list, read_json, strip_cdata
from langgraph_om.core.observe.answer_lines import Lines, are_days_apart, strip_dates
from langgraph_om.core.observe.answer_tags import (
    ITEM_LINE,
    LOG,
    REPLY,
    TASK,
    TITLE,
    Block,
    Split,
    defuse_tags,
    find_tags,
    split_best,
)
from langgraph_om.core.observe.non_answers import is_verdict, says_nothing_to_note
from langgraph_om.core.observe.repetition import is_degenerate

Status = Literal["ok", "none", "empty", "malformed", "degenerate", "cut_off"]

MAX_LINE_CHARS = 10_000
"""A longer line is cut, with a mark that says how many characters were left out."""

_MAX_SHOWN_CHARS = 1_000_000
"""More of an answer that was cut off is not read: what it holds is only shown."""

MIN_TITLE_CHARS = 3
MAX_TITLE_CHARS = 100


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
_TABLE_ROW = re.compile(r"^[ \t]*+\|[^\n🔴🟡🟢✅]*+[🔴🟡🟢✅]", re.MULTILINE)
_ABOUT_SOMEBODY = re.compile(r"(?:User|Assistant) [a-z]")
_MARKED = re.compile(rf"(?={ITEM})[ \t]*+[^\s🔴🟡🟢✅]{{0,5}}[ \t]*+[*_]{{0,3}}[🔴🟡🟢✅]")
_FENCE = re.compile(r"\s*+(?:```+|~~~+)[ \t]*(?P<info>[\w+.-]{0,30})\s*")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "*": "*"}
_MAX_NOTHING_CHARS = 40
_NOTHING = {"none", "n/a"}

_PROBLEMS: dict[Status, str] = {
    "empty": "The answer holds no observations, and does not say `(none)` either.",
    "malformed": "The answer holds no list of observations inside `<observations>` tags.",
    "degenerate": "The answer repeats itself over and over.",
    "cut_off": "The answer was cut off before its end.",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one answer of the Observer or Reflector says.

    `problem` is one sentence that names what is wrong; it is empty for `ok` and `none`.
    """

    status: Status
    observations: str = ""
    current_task: str | None = None
    suggested_response: str | None = None
    thread_title: str | None = None
    problem: str = ""


def parse_output(text: str, *, cut_off: bool = False) -> Parsed:
    """Say what an answer of the Observer or Reflector holds, or why it cannot be used.

    Args:
        text: The whole answer, as the model wrote it.
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


def _read(text: str) -> Parsed:
    text = strip_reasoning(text, may_be_open=True)
    if not text.strip():
        return _build_failed("empty")
    split = split_best(text)
    if not split.tagged:
        split = read_json(_unwrap_fence(text).strip()) or split
    status, observations = _judge_blocks(split) if split.tagged else _judge(split)
    return Parsed(
        status,
        observations,
        current_task=_read_hint(split.hints, TASK),
        suggested_response=_read_hint(split.hints, REPLY),
        thread_title=_read_title(_read_hint(split.hints, TITLE)),
        problem=_PROBLEMS.get(status, ""),
    )


def _build_failed(status: Status) -> Parsed:
    return Parsed(status, problem=_PROBLEMS[status])


# --- Judging: from the text between the tags to observations ----------------------------------


def _judge_blocks(split: Split) -> tuple[Status, str]:
    """Judge text that the model put inside `<observations>`: all of a block is kept, or none."""
    written = [(block, _read_pieces(block)) for block in split.inside]
    told = [(block, texts) for block, texts in written if _is_told(texts)]
    if not told:
        texts = [text for _, texts in written for text in texts]
        if not texts and any(block.is_self_closed for block in split.inside):
            return ("empty" if _unwrap_fence("\n".join(split.outside)).strip() else "none"), ""
        said_none = any(says_nothing_to_note(strip_dates(text)) for text in texts)
        return ("none" if said_none else "malformed" if texts else "empty"), ""
    log = _settle_log("\n".join(_choose_texts(told)))
    if log is None:
        return "malformed", ""
    if says_nothing_to_note(strip_dates(log)):
        return "none", ""
    lines = Lines(log)
    has_form = lines.dates or ITEM_LINE.search(log) or _TABLE_ROW.search(log)
    if not has_form and not all(map(_ABOUT_SOMEBODY.match, lines.before)):
        return "malformed", ""
    is_answer = strip_dates(log) and not lines.are_doubtful
    return ("ok", log) if is_answer else ("malformed", "")


def _read_pieces(block: Block) -> list[str]:
    texts = (_from_line_start(_strip_wrapping(piece)) for piece in block.pieces)
    return [text for piece in texts if (text := _tidy_text(_unwrap_fence(piece)))]


def _is_told(texts: list[str]) -> bool:
    rests = map(strip_dates, texts)
    return any(rest and not says_nothing_to_note(rest) for rest in rests)


def _choose_texts(told: list[tuple[Block, list[str]]]) -> list[str]:
    """Choose the texts of the last whole block; blocks of different days count together."""
    if not are_days_apart([texts for _, texts in told]):
        told = ([pair for pair in told if pair[0].is_whole] or told)[-1:]
    return [
        text for _, texts in told for text in texts if not says_nothing_to_note(strip_dates(text))
    ]


def _judge(split: Split) -> tuple[Status, str]:
    """Judge text without the tags: it counts when every line of it is in our form.

    That there is nothing counts in brackets or as an item: bare words may be what is left of a
    failed call. Of a list, a date heading or a mark has to show that it is one of observations; a
    close tag alone shows it too, with whatever text after it.
    """
    before, after = split.outside[: split.before_close], split.outside[split.before_close or 0 :]
    is_closed = split.before_close is not None and "".join(before).strip() != ""
    if is_closed and ITEM_LINE.search("\n".join(after)):
        is_closed = False
    whole = _unwrap_fence("\n".join(before if is_closed else split.outside)).strip()
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
    plain = read_html_list(_tidy_text(_unwrap_fence(text)))
    return _tidy_text(defuse_tags(_tidy_text(plain), LOG))


def _from_line_start(piece: str) -> str:
    """Drop the blank between a tag and what follows it on its line; real indentation stays."""
    stripped = piece.lstrip(" \t")
    return piece if stripped.startswith("\n") else stripped


def _says_nothing(text: str) -> bool:
    if len(text) > _MAX_NOTHING_CHARS:
        return False
    return text.strip(" \t\n*-_`'\"().[]").casefold() in _NOTHING


def _read_hint(hints: dict[str, str], name: str) -> str | None:
    text = _unwrap_fence(hints.get(name, "").strip())
    text = _tidy_text(defuse_tags(_tidy_text(text).strip(), name))
    return None if not text or _says_nothing(text) else text


def parse_title(text: str) -> str | None:
    """Read an answer that shall be a title and nothing else; `None` where it holds none."""
    text = strip_reasoning(sanitize(text), may_be_open=True)
    split = split_best(text)
    if TITLE in split.hints:
        return _read_title(_read_hint(split.hints, TITLE))
    if split.tagged:
        return None
    lines = [line for line in _unwrap_fence(text).strip().split("\n") if line.strip()]
    if len(lines) != 1:
        return None
    bare = _TITLE_MARKS.sub("", lines[0]).strip().strip("*_").strip()
    return _read_title(bare) if len(bare.split()) <= _MAX_TITLE_WORDS else None


_TITLE_MARKS = re.compile(r"(?i)^\W*title\W*[:：]\s*|^#+\s*|^\*+\s*")
_MAX_TITLE_WORDS = 12
"""Of a title without its tag; more is an answer to the conversation."""


def _read_title(hint: str | None) -> str | None:
    """Reduce a hint to one line without quotes, of a length that can be shown as a title."""
    title, before = (hint or "").split("\n", 1)[0], None
    while title != before:
        before = title
        title = defuse_tags(title[:MAX_TITLE_CHARS].strip(), TITLE)
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= MIN_TITLE_CHARS and not _says_nothing(title) else None


def _tidy_text(text: str) -> str:
    lines = "\n".join(_clip(line.rstrip()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


def _clip(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    kept = line[: MAX_LINE_CHARS - 40]  # room for the mark: a clipped line is not clipped again
    return f"{kept} [… {len(line) - len(kept)} characters left out]"


def _unwrap_fence(text: str) -> str:
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
        text: The answer.
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
    ends = split.inside[-1].is_whole and not _unwrap_fence("\n".join(split.outside)).strip()
    return text[last:] if ends else ""


def _strip_wrapping(text: str) -> str:
    """Drop reasoning and marks of CDATA that open a block."""
    at = 0
    while (head := _HEAD_HERE.match(text, at)) and head["think"]:
        end = _THINK_END.search(text, head.end())
        if end is None:
            break
        at = end.end()
    return strip_cdata(text[at:])


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
