"""Sessions of coding agents, read from the markdown in which SpecStory keeps them.

A file is one session: `_**User (time)**_` and `_**Agent (model time)**_` begin what each said, and
a call of a tool with its result stands in `<tool-use data-tool-type="shell" data-tool-name="Bash">
... </tool-use>`. Left out, because the Actor's prompt never had it: private reasoning, and what
agents that were started beside this one said. The arguments of a call are not in the file, so the
text above its result stands for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

SPEAKER = re.compile(r"_\*\*(User|Agent)( - sidechain)?(?: \((.*)\))?\*\*_")
SESSION = re.compile(r"<!-- [\w ]+ Session (\S+) ")
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?")
TOOL = re.compile(r'<tool-use data-tool-type="(\w+)" data-tool-name="([^"]+)">')
TOOL_END = re.compile(r"(?:</details>)?</tool-use>")
SUMMARY = re.compile(r"<summary>Tool use: \*\*.*?\*\*(.*?)</summary>")
FENCE = re.compile(r"(`{3,})(\w*)$")
THINK, THINK_END = "<think>", "</think>"
RULE = "---"
ANSWERED = "**Answer:**"


class TranscriptError(ValueError):
    """A file is no session."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was said, or one call of a tool with its result."""

    who: str
    """`user`, `agent` or `tool`."""
    text: str
    """What was said; of a tool, what it was called with."""
    at: datetime
    tool: str = ""
    kind: str = ""
    """What the tool does: `shell`, `write`, `read`, `task` ..."""
    result: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One session, in the order of time."""

    id: str
    entries: tuple[Entry, ...]


def read_transcript(path: Path) -> Transcript:
    """Read a session.

    Raises:
        TranscriptError: When nobody says anything in it.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    found = SESSION.search(text)
    entries = tuple(_Reader().read(text.splitlines()))
    if not entries:
        msg = f"{path} is no session: no line like '_**User (2026-01-31 10:00:00Z)**_' begins one"
        raise TranscriptError(msg)
    return Transcript(found[1] if found else path.stem, entries)


def read_transcripts(folder: Path, sizes: range) -> Iterator[Transcript]:
    """Yield the sessions below a folder in the order of their names, each session once.

    Args:
        folder: With files of SpecStory's history at any depth.
        sizes: The bytes that a file may have.

    Raises:
        TranscriptError: When there is none.
    """
    seen: set[str] = set()
    for path in sorted(folder.rglob("*.md"), key=lambda path: path.name):
        if path.stat().st_size not in sizes:
            continue
        try:
            transcript = read_transcript(path)
        except TranscriptError:
            continue  # A folder also holds other pages.
        if transcript.id not in seen:
            seen.add(transcript.id)
            yield transcript
    if not seen:
        msg = (
            f"{folder} holds no session of {sizes.start} to {sizes.stop} bytes; name a folder of "
            f"SpecStory's history, or its repository"
        )
        raise TranscriptError(msg)


@dataclass
class _Reader:
    """Goes through the lines of one file."""

    who: str = ""
    at: datetime = field(default=datetime(1970, 1, 1, tzinfo=UTC))
    said: list[str] = field(default_factory=list)

    def read(self, lines: Sequence[str]) -> Iterator[Entry]:
        rest = iter(lines)
        fence = ""
        for line in rest:
            if not fence and (speaker := SPEAKER.fullmatch(line)):
                yield from self._take_said()
                self._begin(speaker)
            elif not fence and (tool := TOOL.match(line)):
                yield from self._take_said()
                body = list(_until(TOOL_END, rest))
                if self.who == "agent":
                    yield _read_tool(tool, [line, *body], self.at)
            elif not fence and line.startswith(THINK):
                if THINK_END not in line:
                    for each in rest:
                        if THINK_END in each:
                            break
            else:
                fence = _follow(fence, line)
                if fence or line != RULE:
                    self.said.append(line)
        yield from self._take_said()

    def _begin(self, speaker: re.Match[str]) -> None:
        self.who = "" if speaker[2] else speaker[1].lower()
        if time := TIME.search(speaker[3] or ""):
            self.at = datetime.fromisoformat(time[0].rstrip("Z")).replace(tzinfo=UTC)

    def _take_said(self) -> Iterator[Entry]:
        text = "\n".join(self.said).strip()
        self.said = []
        if text and self.who:
            yield Entry(self.who, text, self.at)


def _until(end: re.Pattern[str], lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines before one that ends a block; what is fenced in ends nothing."""
    fence = ""
    for line in lines:
        if not fence and end.search(line):
            yield end.sub("", line)
            return
        fence = _follow(fence, line)
        yield line


def _follow(fence: str, line: str) -> str:
    """Return the fence that is open after a line, empty for none."""
    found = FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    closes = not found[2] and len(found[1]) >= len(fence)
    return "" if closes else fence


def _read_tool(tool: re.Match[str], lines: Sequence[str], at: datetime) -> Entry:
    """Read a call and its result: the last fenced block, or the answer to a question."""
    kind, name = tool[1], tool[2]
    text = "\n".join(lines)
    summary = SUMMARY.search(text)
    body = text[summary.end() :] if summary else text.partition(">")[2]
    before, blocks = _part_blocks(body.splitlines())
    if ANSWERED in body:
        asked, _, answer = body.rpartition(ANSWERED)
        given, result = asked, answer
    elif blocks and (len(blocks) > 1 or blocks[0][0] in ("", "text", "json")):
        given = "\n".join([before, *(block for _, block in blocks[:-1])])
        result = blocks[-1][1]
    else:
        given, result = "\n".join([before, *(block for _, block in blocks)]), ""
    told = "\n".join(filter(None, [summary[1].strip() if summary else "", given.strip()]))
    return Entry("tool", told.replace("</details>", "").strip(), at, name, kind, result.strip())


def _part_blocks(lines: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """Return the plain text, and each fenced block with its language."""
    plain: list[str] = []
    blocks: list[tuple[str, str]] = []
    fence, language, inside = "", "", []
    for line in lines:
        after = _follow(fence, line)
        if after and not fence:
            found = FENCE.match(line)
            fence, language, inside = after, found[2] if found else "", []
        elif fence and not after:
            blocks.append((language, "\n".join(inside)))
            fence = ""
        else:
            (inside if fence else plain).append(line)
    if fence:
        blocks.append((language, "\n".join(inside)))
    return "\n".join(plain).strip(), blocks
