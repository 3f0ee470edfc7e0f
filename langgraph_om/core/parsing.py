"""What the Observer or Reflector wrote becomes typed parts, or a failure with a name.

The rule for tags: a tag is *structural* when it starts its line, when it directly follows another
structural tag, or when it closes what is open at the end of a line or right before another tag.
Everywhere else it is text that somebody wrote about. A close tag at the end of a line yields to
one that starts a line, and to list items that follow it, so an item may end with a tag it
mentions. Parsed text never holds a structural tag.

The steps, in order: reasoning is dropped, the spelling of the tags is settled, the text is split
at its structural tags, and what lies between them is tidied and judged. Every step is linear in
the length of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Status = Literal["ok", "none", "empty", "malformed", "degenerate", "cut_off"]

MAX_LINE_CHARS = 10_000
"""A longer line is cut, with a mark that says how many characters were left out."""

_MAX_SHOWN_CHARS = 1_000_000
"""More of an answer that was cut off is not read: what it holds is only shown."""

MIN_TITLE_CHARS = 3
MAX_TITLE_CHARS = 100

_LOG, _TASK, _REPLY, _TITLE = "observations", "current-task", "suggested-response", "thread-title"
_TAG_NAMES = {name.replace("-", ""): name for name in (_LOG, _TASK, _REPLY, _TITLE)}

_NO_JOINT = str.maketrans("", "", "-_ \\")
_JOINT = r"[-_ \\]{0,2}"
_NAME = rf"observations|current{_JOINT}task|suggested{_JOINT}response|thread{_JOINT}title"
_TAG = re.compile(
    rf"<[ \t]{{0,3}}(?P<slash>/?)[ \t]{{0,3}}(?P<name>{_NAME})"
    r"(?:(?P<rest>(?:[ \t/][^<>\n]{0,200})?)>|(?P<unended>[ \t]{0,3}$))",
    re.IGNORECASE | re.MULTILINE,
)
_MARKDOWN_TAG = re.compile(
    rf"\\?<[ \t]{{0,3}}\\?/?[ \t]{{0,3}}(?:{_NAME})[ \t]{{0,3}}\\?>", re.IGNORECASE
)
_PARTIAL_TAG = re.compile(r"^[ \t]*+<[/\w \t-]{0,24}\Z", re.MULTILINE)

_LT, _GT = r"(?:\\?<|&lt;)", r"(?:\\?>|&gt;)"
_THINK = r"(?:think(?:ing)?|reasoning)[ \t]{0,3}"
_LOG_OPENS = rf"{_LT}[ \t]{{0,3}}{_LOG}\b"
_HEAD = rf"(?:(?P<think>{_LT}[ \t]{{0,3}}{_THINK}{_GT})|{_LOG_OPENS})"
_HEAD_HERE = re.compile(rf"\s*+{_HEAD}", re.IGNORECASE)
_HEAD_LINE = re.compile(rf"^[ \t]*+{_HEAD}", re.IGNORECASE | re.MULTILINE)
_THINK_END = re.compile(rf"{_LT}\\?/[ \t]{{0,3}}{_THINK}{_GT}", re.IGNORECASE)
_LOG_LINE = re.compile(
    rf"(?:^|{_THINK_END.pattern})[ \t]*+{_LOG_OPENS}", re.IGNORECASE | re.MULTILINE
)

_ITEM = r"[ \t]*+(?:(?:[-*+•]|\d{1,4}[.)]|->|→)[ \t]|[-*+•]?[🔴🟡🟢✅]|\(\d{1,2}:\d\d)"
_ITEM_START = re.compile(_ITEM)
_ITEM_LINE = re.compile(f"^{_ITEM}", re.MULTILINE)
_THINK_END_LINE = re.compile(
    rf"^(?!{_ITEM})(?P<before>[^\n]*?){_THINK_END.pattern}(?P<after>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = re.compile(
    r"(?:date[ \t]*:.*|(?:[a-z]{3,9},?[ ])?"
    rf"(?:{_MONTH}[ ]\d\d?,?[ ]\d{{4}}|\d\d?[ ]{_MONTH},?[ ]\d{{4}}|\d{{4}}-\d\d-\d\d):?)",
    re.IGNORECASE,
)
_MAX_DATE_LINE_CHARS = 80
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
    """Say what an answer of the Observer or Reflector holds, or why it can not be used.

    Args:
        text: The whole answer, as the model wrote it.
        cut_off: Whether the provider said that the answer ended too early. The status is then
            `cut_off`, and `observations` holds what arrived, for display only.
    """
    if cut_off:
        partial = _read(_PARTIAL_TAG.sub("", text[:_MAX_SHOWN_CHARS]))
        return replace(partial, status="cut_off", problem=_PROBLEMS["cut_off"])
    if text.strip() and is_degenerate(text):
        return _failed("degenerate")
    return _read(text)


def render_output(parsed: Parsed) -> str:
    """Write a parsed answer in the well-formed shape.

    `parse_output` gives the same value back for everything it called `ok` or `none`. In a value
    built by hand, a structural tag inside a text is written with `&lt;` and stays so, and a text
    that `parse_output` would tidy comes back tidied.
    """
    if parsed.status == "none":
        blocks = [f"<{_LOG}>(none)</{_LOG}>"]
    else:
        blocks = [f"<{_LOG}>\n{_defused(parsed.observations, _LOG)}\n</{_LOG}>"]
    hints = (
        (_TASK, parsed.current_task),
        (_REPLY, parsed.suggested_response),
        (_TITLE, parsed.thread_title),
    )
    for name, value in hints:
        if value:
            safe = _defused(value, name)
            body = f"\n{safe}\n" if "\n" in safe else safe
            blocks.append(f"<{name}>{body}</{name}>")
    return "\n".join(blocks)


def _read(text: str) -> Parsed:
    text = _without_reasoning(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        return _failed("empty")
    split = _split_best(text)
    status, observations = _judge_block(split.inside) if split.tagged else _judge(split.outside)
    return Parsed(
        status,
        observations,
        current_task=_hint(split.hints, _TASK),
        suggested_response=_hint(split.hints, _REPLY),
        thread_title=_title(_hint(split.hints, _TITLE)),
        problem=_PROBLEMS.get(status, ""),
    )


def _failed(status: Status) -> Parsed:
    return Parsed(status, problem=_PROBLEMS[status])


# --- Judging: from the text between the tags to observations ----------------------------------


def _judge_block(pieces: list[str]) -> tuple[Status, str]:
    """Judge text that the model put inside `<observations>`: all of it is kept, or none."""
    texts = [text for piece in pieces if (text := _tidy(_unfenced(_from_line_start(piece))))]
    told = [text for text in texts if not _says_nothing(_undated(text))]
    if not any(_undated(text) for text in told):
        said_none = len(told) < len(texts)
        return ("none" if said_none else "malformed" if told else "empty"), ""
    log = _log_text("\n".join(told))
    dated = any(_is_date_line(line) for line in log.split("\n"))
    has_items = _undated(log) and (dated or _ITEM_LINE.search(log))
    return ("ok", log) if has_items else ("malformed", "")


def _judge(pieces: list[str]) -> tuple[Status, str]:
    """Judge text without the tags: only its list and its date headings count."""
    text = "\n".join(pieces)
    whole = _unfenced(text).strip()
    if not whole:
        return "empty", ""
    log = _log_text("\n".join(_list_lines(text)))
    if whole.casefold() == "(none)" or _says_nothing(_undated(log)):
        return "none", ""
    return ("ok", log) if _ITEM_LINE.search(log) else ("malformed", "")


def _log_text(text: str) -> str:
    return _tidy(_defused(_tidy(_unfenced(text)), _LOG))


def _from_line_start(piece: str) -> str:
    """Drop the blank between a tag and what follows it on its line; real indentation stays."""
    stripped = piece.lstrip(" \t")
    return piece if stripped.startswith("\n") else stripped


def _list_lines(text: str) -> Iterator[str]:
    """Yield list items with what is indented below them, date headings, and blank lines."""
    in_item = False
    for line in text.split("\n"):
        is_item = _ITEM_START.match(line) is not None
        goes_on = in_item and line[:1] in {" ", "\t"}
        if not line.strip():
            yield ""
            continue
        if is_item or goes_on or _is_date_line(line):
            yield line
        in_item = is_item or goes_on


def _is_date_line(line: str) -> bool:
    if len(line) > _MAX_DATE_LINE_CHARS or _ITEM_START.match(line):
        return False
    return _DATE.fullmatch(line.strip(" \t#*_>`")) is not None


def _undated(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _is_date_line(line)).strip()


def _says_nothing(text: str) -> bool:
    if len(text) > _MAX_NOTHING_CHARS:
        return False
    return text.strip(" \t\n*-_`'\"().[]").casefold() in _NOTHING


def _hint(hints: dict[str, str], name: str) -> str | None:
    text = _unfenced(hints.get(name, "").strip())
    text = _tidy(_defused(_tidy(text).strip(), name))
    return None if not text or _says_nothing(text) else text


def _title(hint: str | None) -> str | None:
    """Reduce a hint to one line without quotes, of a length that can be shown as a title."""
    title, before = (hint or "").split("\n", 1)[0], None
    while title != before:
        before = title
        title = _defused(title[:MAX_TITLE_CHARS].strip(), _TITLE)
        if len(title) > 1 and _QUOTES.get(title[0]) == title[-1]:
            title = title[1:-1]
    return title if len(title) >= MIN_TITLE_CHARS and not _says_nothing(title) else None


def _tidy(text: str) -> str:
    lines = "\n".join(_clipped(line.rstrip()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


def _clipped(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    kept = line[: MAX_LINE_CHARS - 40]  # room for the mark: a clipped line is not clipped again
    return f"{kept} [… {len(line) - len(kept)} characters left out]"


def _unfenced(text: str) -> str:
    """Drop code fences that wrap the text, and leave those that belong to an item.

    A fence before the first item wraps, with the one that closes it; so does a fence at the very
    end that closes nothing.
    """
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.split("\n")
    partner = _fence_partners(lines)
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


def _fence_partners(lines: list[str]) -> dict[int, int]:
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


def _without_reasoning(text: str) -> str:
    """Drop what stands in think tags before the first block, even when one tag is missing."""
    kept, at = [], 0
    while (head := _HEAD_HERE.match(text, at) or _HEAD_LINE.search(text, at)) and head["think"]:
        kept.append(text[at : head.start()])
        end = _THINK_END.search(text, head.end())
        if end is None:
            return "".join(kept)
        at = end.end()
    text = "".join(kept) + text[at:]
    return text[_orphan_reasoning_end(text) :]


def _orphan_reasoning_end(text: str) -> int:
    """Find where reasoning ends whose open tag was never written; 0 if there is none."""
    if _THINK_END.search(text) is None:
        return 0
    block = _LOG_LINE.search(text)
    first = block.end() if block else len(text) + 1
    last = max((tag.start for tag in _tags(text) if tag.leads and tag.opens_log), default=0)
    found = 0
    for mark in _THINK_END_LINE.finditer(text):
        end = mark.start("after")
        alone = not mark["before"].strip() and not mark["after"].strip()
        if end < first or (alone and end < last):
            found = end
    return found


# --- Splitting: which tags are structural, and what lies between them ---------------------------


class _Tag(NamedTuple):
    """A tag in a text, and how it stands in its line."""

    name: str
    closes: bool
    start: int
    end: int
    leads: bool
    trails: bool

    @property
    def opens_log(self) -> bool:
        return self.name == _LOG and not self.closes


@dataclass(slots=True)
class _Split:
    """A text cut at its structural tags."""

    tagged: bool
    inside: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    hints: dict[str, str] = field(default_factory=dict)


def _split_best(text: str) -> _Split:
    """Split the text in the first spelling of its tags that shows a block."""
    first = _split(text)
    if first.tagged:
        return first
    spelled = (_split(spelling) for spelling in _spellings(text))
    return next((split for split in spelled if split.tagged), first)


def _spellings(text: str) -> Iterator[str]:
    """Yield what the text may have meant: escapes undone, a block put on a line of its own."""
    if "&lt;" in text:
        plain = text
        for entity, char in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("#39", "'"), ("amp", "&")):
            plain = plain.replace(f"&{entity};", char)
        yield plain
    if "\\" in text:
        yield _MARKDOWN_TAG.sub(lambda tag: tag[0].replace("\\", ""), text)
    tags = _tags(text)
    late = next((tag for tag in tags if tag.opens_log), None)
    if late is None:
        return
    line = text[text.rfind("\n", 0, late.start) + 1 : late.start]
    ends_line = not text[late.end :].partition("\n")[0].strip()
    closed = any(tag.name == _LOG and tag.closes for tag in tags)
    if not line.endswith("`") and not _ITEM_START.match(line) and (ends_line or closed):
        yield f"{text[: late.start]}\n{text[late.start :]}"


def _split(text: str) -> _Split:
    tags = _tags(text)
    split = _Split(tagged=any(tag.leads and tag.opens_log for tag in tags))
    cursor, in_block = 0, False
    closer: _Tag | None = None
    for index, tag in enumerate(tags):
        is_closer = tag is closer or (tag.trails and not split.tagged)
        if tag.start < cursor or not (tag.leads or is_closer):
            continue
        (split.inside if in_block else split.outside).append(text[cursor : tag.start])
        cursor = tag.end
        if tag.opens_log:
            in_block, closer = True, _block_closer(text, tags, index)
        elif tag.name == _LOG:
            in_block = False
        elif not tag.closes:
            end, cursor = _hint_span(text, tags, index)
            split.hints[tag.name] = text[tag.end : end]
    (split.inside if in_block else split.outside).append(text[cursor:])
    return split


def _block_closer(text: str, tags: list[_Tag], index: int) -> _Tag | None:
    """Find the tag that closes a block; without one, the block runs on to the next or the end."""
    region: list[_Tag] = []
    limit = len(text)
    for position in range(index + 1, len(tags)):
        if tags[position].leads and tags[position].opens_log:
            limit = tags[position].start
            break
        region.append(tags[position])
    closers = [tag for tag in region if tag.name == _LOG and tag.closes]
    leading = next((tag for tag in closers if tag.leads), None)
    if leading is not None or not closers:
        return leading
    trailing = {tag.start for tag in closers if tag.trails}
    unquoted = {tag.start for tag in closers if text[tag.start - 1] != "`"}
    return _before_no_item(text, region, trailing, limit) or _before_no_item(
        text, region, unquoted, limit
    )


def _before_no_item(text: str, region: list[_Tag], starts: set[int], limit: int) -> _Tag | None:
    """Pick the first tag of some that no list item follows before the next structural tag."""
    first: _Tag | None = None
    clear = True
    for tag in reversed(region):
        if tag.leads:
            clear, limit = True, tag.start
        elif clear and tag.start in starts:
            clear = _ITEM_LINE.search(text, tag.end, limit) is None
            first, limit = (tag if clear else first), tag.end
    return first


def _hint_span(text: str, tags: list[_Tag], index: int) -> tuple[int, int]:
    """Say where the text of a hint ends, and where reading goes on after it."""
    opened, limit = tags[index], len(text)
    closers: list[_Tag] = []
    others: list[_Tag] = []
    for position in range(index + 1, len(tags)):
        tag = tags[position]
        if tag.closes and tag.name == opened.name:
            closers.append(tag)
        elif tag.leads:
            limit = tag.start
            break
        elif tag.trails:
            others.append(tag)
    ranked = [tag for tag in closers if tag.leads] or [tag for tag in closers if tag.trails]
    if not ranked and closers and "\n" not in text[opened.end : closers[-1].start]:
        ranked = closers[-1:]
    if ranked:
        return ranked[0].start, ranked[0].end
    limit = others[0].start if others else limit
    return limit, limit


def _tags(text: str) -> list[_Tag]:
    """Find the tags of a text, each with whether it leads or trails its line."""
    found = list(_found_tags(text))
    if not found:
        return []
    before = [text[: found[0][2]], *(text[a[3] : b[2]] for a, b in pairwise(found))]
    after = [*before[1:], text[found[-1][3] :]]
    tags: list[_Tag] = []
    opened = ""
    chained = True
    for (name, closes, start, end), gap, rest, code in zip(
        found, before, after, _in_code(before, after), strict=True
    ):
        _, newline, lead = gap.rpartition("\n")
        leads = (chained or bool(newline)) and not lead.strip()
        trails = closes and end > start and not code and not rest.partition("\n")[0].strip()
        tags.append(_Tag(name, closes, start, end, leads, trails))
        chained = leads or (trails and name == opened)
        opened = name if leads and not closes else opened
    return tags


def _found_tags(text: str) -> Iterator[tuple[str, bool, int, int]]:
    """Yield name, whether it closes, start and end of everything that looks like a tag."""
    for match in _TAG.finditer(text):
        closes, rest = bool(match["slash"]), match["rest"]
        if match["unended"] is not None and not closes:
            continue
        name = _TAG_NAMES[match["name"].lower().translate(_NO_JOINT)]
        yield name, closes, match.start(), match.end()
        if rest and rest.rstrip().endswith("/") and not closes:
            yield name, True, match.end(), match.end()


def _in_code(before: list[str], after: list[str]) -> list[bool]:
    """Say for each tag whether it stands between backticks on its line."""
    ticks_after: list[bool] = []
    later = False
    for gap in reversed(after):
        line, newline, _ = gap.partition("\n")
        later = "`" in line or (later and not newline)
        ticks_after.append(later)
    ticks_after.reverse()
    quoted: list[bool] = []
    count = 0
    for gap, later in zip(before, ticks_after, strict=True):
        _, newline, line = gap.rpartition("\n")
        count = line.count("`") + (0 if newline else count)
        quoted.append(count % 2 == 1 and later)
    return quoted


def _defused(text: str, name: str) -> str:
    """Write the structural tags of a text that is to stand inside a tag so that they are none."""
    shift = len(name) + 3
    parts, cursor = [], 0
    for tag in _tags(f"<{name}>\n{text}")[1:]:
        if tag.leads and tag.end > tag.start:
            start = tag.start - shift
            parts += [text[cursor:start], "&lt;"]
            cursor = start + 1
    return "".join(parts) + text[cursor:]


# --- Runaway repetition -------------------------------------------------------------------------

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
    """Say whether the text runs away in repetition.

    It does when a line is longer than any sane one, when its last part is a block over and over,
    when such blocks fill a large share of it, or when a few lines make up nearly all of it, in
    whatever order. A block must repeat exactly: lines that differ by a time, a name or a number
    are a faithful account of repetitive work. Blank space does not count.
    """
    if len(text) < _MIN_DEGENERATE_CHARS:
        return False
    lines = [line for raw in text.split("\n") if (line := " ".join(raw.split()))]
    if any(len(line) > _MAX_SANE_LINE_CHARS for line in lines):
        return True
    if len(lines) >= max(_MIN_COPIED_LINES, _MIN_COPIES * len(set(lines))):
        return True
    compact = "\n".join(lines)
    if len(compact) < _MIN_DEGENERATE_CHARS:
        return False
    return _ends_in_run(compact) or _is_filled_with_runs(compact)


def _ends_in_run(text: str) -> bool:
    """Say whether the last part of the text is one block, again and again."""
    probe = len(text) - _PROBE_CHARS
    window = min(len(text) // _MIN_REPEATS + 1, _MAX_PERIOD)
    twin = text.rfind(text[probe:], max(0, probe - window), len(text) - 1)
    if twin < 0:
        return False
    period = probe - twin
    return _is_run(_same_behind(text, len(text) - period, len(text)) + period, period)


def _is_filled_with_runs(text: str) -> bool:
    """Say whether repeated blocks, looked for at evenly spaced places, fill the text."""
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
        first = probe - _same_behind(text, probe, twin)
        last = twin + _same_ahead(text, probe, twin)
        if _is_run(last - first, period):
            covered += last - max(first, reached)
            reached = last
        if covered >= allowed:
            return True
    return False


def _is_run(length: int, period: int) -> bool:
    # The last block of a text lacks the newline that ends the others.
    return length + 1 >= max(_MIN_RUN_CHARS, _MIN_REPEATS * period)


def _same_ahead(text: str, left: int, right: int) -> int:
    """Count the characters from two places onward that are the same."""
    same, size, growing = 0, 64, True
    while size:
        ahead = text[right + same : right + same + size]
        fits = len(ahead) == size and text[left + same : left + same + size] == ahead
        same += size if fits else 0
        growing = growing and fits
        size = size * 2 if growing else size // 2
    return same


def _same_behind(text: str, left: int, right: int) -> int:
    """Count the characters before two places, going back, that are the same."""
    same, size, growing = 0, 64, True
    while size:
        start = left - same - size
        fits = start >= 0 and text[start : left - same] == text[right - same - size : right - same]
        same += size if fits else 0
        growing = growing and fits
        size = size * 2 if growing else size // 2
    return same
