"""Parse an answer of the Observer or Reflector into typed fields, or say why it cannot be used.

The steps, in order: drop control characters and reasoning, settle the spelling of the tags, split
the text at its structural tags, then tidy and judge what is between them. Every step is linear in
the length of the text, and parsed text never contains a structural tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from langgraph_om.core.content.text import sanitize
from langgraph_om.core.observe.answer_tags import (
    ITEM,
    ITEM_LINE,
    ITEM_START,
    LOG,
    REPLY,
    TASK,
    TITLE,
    defuse_tags,
    find_tags,
    split_best,
)
from langgraph_om.core.observe.repetition import is_degenerate

Status = Literal["ok", "none", "empty", "malformed", "degenerate", "cut_off"]

MAX_LINE_CHARS = 10_000
"""A longer line is cut, with a mark that says how many characters were left out."""

MIN_TITLE_CHARS = 3
MAX_TITLE_CHARS = 100

_MAX_SHOWN_CHARS = 1_000_000
"""No more is read of an answer that was cut off, because it is only displayed."""

_PROBLEMS: dict[Status, str] = {
    "empty": "The answer holds no observations, and does not say `(none)` either.",
    "malformed": "The answer holds no list of observations inside `<observations>` tags.",
    "degenerate": "The answer repeats itself over and over.",
    "cut_off": "The answer was cut off before its end.",
}
_PARTIAL_TAG = re.compile(r"^[ \t]*+<[/\w \t-]{0,24}\Z", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The fields of one answer of the Observer or Reflector.

    `problem` is one sentence that names what is wrong; it is empty for `ok` and `none`.
    """

    status: Status
    observations: str = ""
    current_task: str | None = None
    suggested_response: str | None = None
    thread_title: str | None = None
    problem: str = ""


def parse_output(text: str, *, cut_off: bool = False) -> Parsed:
    """Return the fields of an answer of the Observer or Reflector, or why it cannot be used.

    Args:
        text: The whole answer, as the model wrote it.
        cut_off: Whether the provider said that the answer ended too early. The status is then
            `cut_off`, and `observations` is what arrived, for display only.
    """
    text = sanitize(text[:_MAX_SHOWN_CHARS] if cut_off else text)
    if cut_off:
        partial = _parse(_PARTIAL_TAG.sub("", text))
        return replace(partial, status="cut_off", problem=_PROBLEMS["cut_off"])
    if text.strip() and is_degenerate(text):
        return _reject("degenerate")
    return _parse(text)


def render_output(parsed: Parsed) -> str:
    """Render a parsed answer in the expected form.

    `parse_output` returns the same value again for everything that it found `ok` or `none`. In a
    value built by hand, a structural tag inside a text is escaped as `&lt;` and stays so, and a
    text that `parse_output` would tidy comes back tidied.
    """
    if parsed.status == "none":
        blocks = [f"<{LOG}>(none)</{LOG}>"]
    else:
        blocks = [f"<{LOG}>\n{defuse_tags(parsed.observations, LOG)}\n</{LOG}>"]
    hints = (
        (TASK, parsed.current_task),
        (REPLY, parsed.suggested_response),
        (TITLE, parsed.thread_title),
    )
    for name, value in hints:
        if value:
            safe = defuse_tags(value, name)
            body = f"\n{safe}\n" if "\n" in safe else safe
            blocks.append(f"<{name}>{body}</{name}>")
    return "\n".join(blocks)


def _parse(text: str) -> Parsed:
    text = strip_reasoning(text)
    if not text.strip():
        return _reject("empty")
    split = split_best(text)
    status, observations = (
        _judge_tagged(split.inside) if split.tagged else _judge_untagged(split.outside)
    )
    return Parsed(
        status,
        observations,
        current_task=_read_hint(split.hints, TASK),
        suggested_response=_read_hint(split.hints, REPLY),
        thread_title=_read_title(_read_hint(split.hints, TITLE)),
        problem=_PROBLEMS.get(status, ""),
    )


def _reject(status: Status) -> Parsed:
    return Parsed(status, problem=_PROBLEMS[status])


# --- Reasoning: what the model thought before it answered ----------------------------------------


_LT, _GT = r"(?:\\?<|&lt;)", r"(?:\\?>|&gt;)"
_THINK = r"(?:think(?:ing)?|reasoning)[ \t]{0,3}"
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


def strip_reasoning(text: str) -> str:
    """Drop what is in think tags before the first block, even when one of the tags is missing."""
    kept, at = [], 0
    while (head := _HEAD_HERE.match(text, at) or _HEAD_LINE.search(text, at)) and head["think"]:
        kept.append(text[at : head.start()])
        end = _THINK_END.search(text, head.end())
        if end is None:
            return "".join(kept)
        at = end.end()
    text = "".join(kept) + text[at:]
    return text[_find_orphan_end(text) :]


def _find_orphan_end(text: str) -> int:
    """Return where reasoning without an opening tag ends; 0 if there is none."""
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


# --- Judging: from the text between the tags to observations -------------------------------------


_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = re.compile(
    r"(?:date[ \t]*:.*|(?:[a-z]{3,9},?[ ])?"
    rf"(?:{_MONTH}[ ]\d\d?,?[ ]\d{{4}}|\d\d?[ ]{_MONTH},?[ ]\d{{4}}|\d{{4}}-\d\d-\d\d):?)",
    re.IGNORECASE,
)
_MAX_DATE_LINE_CHARS = 80
_MAX_NOTHING_CHARS = 40
_NOTHING = {"none", "n/a"}


def _judge_tagged(pieces: list[str]) -> tuple[Status, str]:
    """Judge text inside `<observations>`: all of it is kept, or nothing."""
    texts = [
        text
        for piece in pieces
        if (text := _tidy_text(_unwrap_fence(_strip_leading_blanks(piece))))
    ]
    kept = [text for text in texts if not _says_nothing(_strip_dates(text))]
    if not any(_strip_dates(text) for text in kept):
        said_none = len(kept) < len(texts)
        return ("none" if said_none else "malformed" if kept else "empty"), ""
    log = _clean_log("\n".join(kept))
    dated = any(_is_date_line(line) for line in log.split("\n"))
    has_items = _strip_dates(log) and (dated or ITEM_LINE.search(log))
    return ("ok", log) if has_items else ("malformed", "")


def _judge_untagged(pieces: list[str]) -> tuple[Status, str]:
    """Judge text without tags: only its list items and date headings count."""
    text = "\n".join(pieces)
    unwrapped = _unwrap_fence(text).strip()
    if not unwrapped:
        return "empty", ""
    log = _clean_log("\n".join(_select_list(text)))
    if unwrapped.casefold() == "(none)" or _says_nothing(_strip_dates(log)):
        return "none", ""
    return ("ok", log) if ITEM_LINE.search(log) else ("malformed", "")


def _clean_log(text: str) -> str:
    return _tidy_text(defuse_tags(_tidy_text(_unwrap_fence(text)), LOG))


def _strip_leading_blanks(piece: str) -> str:
    """Drop the blanks between a tag and what follows on its line; real indentation stays."""
    stripped = piece.lstrip(" \t")
    return piece if stripped.startswith("\n") else stripped


def _select_list(text: str) -> Iterator[str]:
    """Yield list items with what is indented below them, date headings, and blank lines."""
    in_item = False
    for line in text.split("\n"):
        is_item = ITEM_START.match(line) is not None
        goes_on = in_item and line[:1] in {" ", "\t"}
        if not line.strip():
            yield ""
            continue
        if is_item or goes_on or _is_date_line(line):
            yield line
        in_item = is_item or goes_on


def _is_date_line(line: str) -> bool:
    if len(line) > _MAX_DATE_LINE_CHARS or ITEM_START.match(line):
        return False
    return _DATE.fullmatch(line.strip(" \t#*_>`")) is not None


def _strip_dates(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _is_date_line(line)).strip()


def _says_nothing(text: str) -> bool:
    if len(text) > _MAX_NOTHING_CHARS:
        return False
    return text.strip(" \t\n*-_`'\"().[]").casefold() in _NOTHING


# --- Hints ---------------------------------------------------------------------------------------


_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "*": "*"}


def _read_hint(hints: dict[str, str], name: str) -> str | None:
    text = _unwrap_fence(hints.get(name, "").strip())
    text = _tidy_text(defuse_tags(_tidy_text(text).strip(), name))
    return None if not text or _says_nothing(text) else text


def _read_title(hint: str | None) -> str | None:
    """Return a hint as one line without quotes that is short enough for a title, or `None`."""
    title, before = (hint or "").split("\n", 1)[0], None
    while title != before:
        before = title
        title = defuse_tags(title[:MAX_TITLE_CHARS].strip(), TITLE)
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= MIN_TITLE_CHARS and not _says_nothing(title) else None


# --- Tidying -------------------------------------------------------------------------------------


_FENCE = re.compile(r"\s*+(?:```+|~~~+)[ \t]*(?P<info>[\w+.-]{0,30})\s*")


def _tidy_text(text: str) -> str:
    lines = "\n".join(_clip_line(line.rstrip()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


def _clip_line(line: str) -> str:
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
    """Map every fence line to its partner, or to itself when it has none."""
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
