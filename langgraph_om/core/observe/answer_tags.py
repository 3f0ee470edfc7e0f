"""An answer cut at its tags: which of them are structural, and what lies between them.

A tag is *structural* when it starts its line, when it directly follows another structural tag, or
when it closes what is open at the end of a line or right before another tag. Everywhere else it is
text that somebody wrote about. A close tag at the end of a line yields to one that starts a line,
and to list items that follow it, so an item may end with a tag it mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from langgraph_om.core.items import ITEM, ITEM_START
from langgraph_om.core.record.record import HINTS

LOG = "observations"

_NO_JOINT = str.maketrans("", "", "-_ \\")
_JOINT = r"[-_ \\]{0,2}"


def tag_of(hint: str) -> str:
    """Return the name of the tag in which a hint is stated."""
    return hint.replace("_", "-")


_TAGS = (LOG, *map(tag_of, HINTS))
_NAMES = {tag.replace("-", ""): tag for tag in _TAGS}
_NAME = "|".join(tag.replace("-", _JOINT) for tag in _TAGS)
_TAG = re.compile(
    rf"<[ \t]{{0,3}}(?P<slash>/?)[ \t]{{0,3}}(?P<name>{_NAME})"
    r"(?:(?P<rest>(?:[ \t/][^<>\n]{0,200})?)>|(?P<unended>[ \t]{0,3}$))",
    re.IGNORECASE | re.MULTILINE,
)
_MARKDOWN_TAG = re.compile(
    rf"\\?<[ \t]{{0,3}}\\?/?[ \t]{{0,3}}(?:{_NAME})[ \t]{{0,3}}\\?>", re.IGNORECASE
)
ITEM_LINE = re.compile(f"^{ITEM}", re.MULTILINE)


class Tag(NamedTuple):
    """A tag in a text, and how it stands in its line."""

    name: str
    closes: bool
    start: int
    end: int
    leads: bool
    trails: bool

    @property
    def opens_log(self) -> bool:
        """Whether it opens a block of observations."""
        return self.name == LOG and not self.closes


@dataclass(slots=True)
class Block:
    """What stands between the tags of one block of observations."""

    pieces: list[str] = field(default_factory=list)
    is_whole: bool = False
    """Whether it is closed."""
    is_self_closed: bool = False


@dataclass(slots=True)
class Split:
    """A text cut at its structural tags."""

    tagged: bool
    inside: list[Block] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    hints: dict[str, str] = field(default_factory=dict)
    before_close: int | None = None
    """How many of the pieces outside stand before a close tag whose block was never opened."""


def split_best(text: str) -> Split:
    """Split the text in the first spelling of its tags that shows a block."""
    first = _split_at(text)
    if first.tagged:
        return first
    spelled = (_split_at(spelling) for spelling in _spell_variants(text))
    return next((split for split in spelled if split.tagged), first)


def _spell_variants(text: str) -> Iterator[str]:
    """Yield what the text may have meant: escapes undone, a block put on a line of its own."""
    if "&lt;" in text:
        plain = text
        for entity, char in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("#39", "'"), ("amp", "&")):
            plain = plain.replace(f"&{entity};", char)
        yield plain
    if "\\" in text:
        yield _MARKDOWN_TAG.sub(lambda tag: tag[0].replace("\\", ""), text)
    tags = find_tags(text)
    late = next((tag for tag in tags if tag.opens_log), None)
    if late is None:
        return
    line = text[text.rfind("\n", 0, late.start) + 1 : late.start]
    ends_line = not text[late.end :].partition("\n")[0].strip()
    closed = any(tag.name == LOG and tag.closes for tag in tags)
    if not line.endswith("`") and not ITEM_START.match(line) and (ends_line or closed):
        yield f"{text[: late.start]}\n{text[late.start :]}"


def _split_at(text: str) -> Split:
    tags = find_tags(text)
    split = Split(tagged=any(tag.leads and tag.opens_log for tag in tags))
    cursor, in_block = 0, False
    closer: Tag | None = None
    for index, tag in enumerate(tags):
        is_closer = tag is closer or (tag.trails and not split.tagged)
        if tag.start < cursor or not (tag.leads or is_closer):
            continue
        (split.inside[-1].pieces if in_block else split.outside).append(text[cursor : tag.start])
        cursor = tag.end
        if tag.opens_log:
            if not in_block:
                split.inside.append(Block())
            in_block, closer = True, _find_block_closer(text, tags, index)
        elif tag.name == LOG:
            if in_block:
                split.inside[-1].is_whole = True
                split.inside[-1].is_self_closed = tag.start == tag.end
            elif split.before_close is None and not split.tagged:
                split.before_close = len(split.outside)
            in_block = False
        elif not tag.closes:
            end, cursor = _find_hint_span(text, tags, index)
            split.hints[tag.name] = text[tag.end : end]
    (split.inside[-1].pieces if in_block else split.outside).append(text[cursor:])
    return split


def _find_block_closer(text: str, tags: list[Tag], index: int) -> Tag | None:
    """Find the tag that closes a block; without one, the block runs on to the next or the end."""
    region: list[Tag] = []
    limit = len(text)
    for position in range(index + 1, len(tags)):
        if tags[position].leads and tags[position].opens_log:
            limit = tags[position].start
            break
        region.append(tags[position])
    closers = [tag for tag in region if tag.name == LOG and tag.closes]
    leading = next((tag for tag in closers if tag.leads), None)
    if leading is not None or not closers:
        return leading
    trailing = {tag.start for tag in closers if tag.trails}
    unquoted = {tag.start for tag in closers if text[tag.start - 1] != "`"}
    return _stands_before_no_item(text, region, trailing, limit) or _stands_before_no_item(
        text, region, unquoted, limit
    )


def _stands_before_no_item(
    text: str, region: list[Tag], starts: set[int], limit: int
) -> Tag | None:
    """Pick the first tag of some that no list item follows before the next structural tag."""
    first: Tag | None = None
    clear = True
    for tag in reversed(region):
        if tag.leads:
            clear, limit = True, tag.start
        elif clear and tag.start in starts:
            clear = ITEM_LINE.search(text, tag.end, limit) is None
            first, limit = (tag if clear else first), tag.end
    return first


def _find_hint_span(text: str, tags: list[Tag], index: int) -> tuple[int, int]:
    """Say where the text of a hint ends, and where reading goes on after it."""
    opened, limit = tags[index], len(text)
    closers: list[Tag] = []
    others: list[Tag] = []
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


def find_tags(text: str) -> list[Tag]:
    """Find the tags of a text, each with whether it leads or trails its line."""
    found = list(_collect_tags(text))
    if not found:
        return []
    before = [text[: found[0][2]], *(text[a[3] : b[2]] for a, b in pairwise(found))]
    after = [*before[1:], text[found[-1][3] :]]
    tags: list[Tag] = []
    opened = ""
    chained = True
    for (name, closes, start, end), gap, rest, code in zip(
        found, before, after, _mark_code(before, after), strict=True
    ):
        _, newline, lead = gap.rpartition("\n")
        leads = (chained or bool(newline)) and not lead.strip()
        trails = closes and end > start and not code and not rest.partition("\n")[0].strip()
        tags.append(Tag(name, closes, start, end, leads, trails))
        chained = leads or (trails and name == opened)
        opened = name if leads and not closes else opened
    return tags


def _collect_tags(text: str) -> Iterator[tuple[str, bool, int, int]]:
    """Yield name, whether it closes, start and end of everything that looks like a tag."""
    for match in _TAG.finditer(text):
        closes, rest = bool(match["slash"]), match["rest"]
        if match["unended"] is not None and not closes:
            continue
        name = _NAMES[match["name"].lower().translate(_NO_JOINT)]
        yield name, closes, match.start(), match.end()
        if rest and rest.rstrip().endswith("/") and not closes:
            yield name, True, match.end(), match.end()


def _mark_code(before: list[str], after: list[str]) -> list[bool]:
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


def defuse_tags(text: str, name: str) -> str:
    """Write the structural tags of a text that is to stand inside a tag so that they are none."""
    shift = len(name) + 3
    parts, cursor = [], 0
    for tag in find_tags(f"<{name}>\n{text}")[1:]:
        if tag.leads and tag.end > tag.start:
            start = tag.start - shift
            parts += [text[cursor:start], "&lt;"]
            cursor = start + 1
    return "".join(parts) + text[cursor:]
