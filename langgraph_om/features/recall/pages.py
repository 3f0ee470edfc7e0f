"""Write messages for recall within a budget: an overview of a page, one message, or one part.

Every line at the left edge is ours: the head of a message, or a note. Content is indented. The size
of an answer is the tokens of its JSON text, because that is what the model reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, Final

from langgraph_om.core.content.parts import Part, part_text, parts_of, role_of
from langgraph_om.core.content.text import (
    CHARACTERS_PER_TOKEN_CEILING,
    SEARCH_STEPS,
    SURROGATE,
    as_label,
    escape,
    find_longest_head,
    sanitize,
    show_key,
    to_whole_character,
)
from langgraph_om.core.search import name_calls
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.reading import RecallMessage, RecallScope


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of messages that are asked for; `None`: all are."""

    kind: str | None = None
    """Their type; `tool-result` stands for failed ones too."""
    tool: str | None = None
    """The tool that they call, or whose results they are."""

    @property
    def is_all(self) -> bool:
        """Whether every part is."""
        return self == Wanted()

    def takes(self, part: Part, names: Mapping[str, str]) -> bool:
        """Return whether a part is one of them.

        Args:
            part: The part.
            names: Of calls, the tools by the calls' ids.
        """
        kind = "tool-result" if part.kind == "tool-error" else part.kind
        is_of_tool = kind in ("tool-call", "tool-result")
        tool = (part.name or names.get(part.call_id, "")) if is_of_tool else ""
        return self.kind in (None, kind) and self.tool in (None, tool)


# Render an overview of messages, and hold how much of each part it shows.
#
# Only our own lines begin at the left edge; further lines of a content are indented.


USER_TEXT_CAP: Final = 200
"""Tokens up to which a user's texts are expanded before other parts."""


@dataclass(slots=True)
class PartLine:
    """One part in an overview."""

    index: int
    label: str
    text: str
    note: str
    usual: int
    """The tokens of its text that an overview usually shows."""
    rank: int
    """Parts of a lower rank are expanded first."""
    tokens: int
    """The tokens of its text that this overview shows."""
    kept: dict[int, int] = field(default_factory=dict)
    """How many characters are shown, per allowed tokens."""


@dataclass(slots=True)
class MessageEntry:
    """One message in an overview."""

    key: str
    """Its id, as it is shown."""
    head: str
    lines: list[PartLine]


@dataclass(slots=True)
class Overview:
    """The text of an overview, and how much of each part it shows."""

    entries: list[MessageEntry]
    count: Callable[[str], int]
    is_backward: bool
    is_beginning: bool
    max_parts: int | None = None
    dropped: list[str] = field(default_factory=list)

    def render(self) -> str:
        """Return the messages as text, with blank lines between them."""
        blocks: list[str] = []
        for entry in self.entries:
            shown = entry.lines[: self.max_parts]
            lines = [entry.head, *map(self.render_line, shown)]
            if rest := entry.lines[len(shown) :]:
                last = f" to {rest[-1].index}" if len(rest) > 1 else ""
                lines.append(f"  (+{len(rest)} parts: part_index {rest[0].index}{last})")
            blocks.append("\n".join(lines))
        if self.dropped:
            # The next page by number begins behind them.
            where, page = (0, -1) if self.is_backward else (len(blocks), 1)
            note = f"({len(self.dropped)} more of this page do not fit: go on with cursor "
            blocks.insert(where, f"{note}{self.dropped[-1]}, page {page})")
        elif self.is_backward and self.is_beginning:
            blocks.insert(0, "(the conversation begins here)")
        return escape("\n\n".join(blocks))

    def render_line(self, line: PartLine) -> str:
        """Return a part as text, with a mark that says how to read the rest."""
        head = line.text[: self._count_kept(line)]
        if len(head) < len(line.text):
            head = head.rstrip()
        left_out = len(line.text) - len(head)
        mark = f"… (+{left_out:,} characters, part_index {line.index})" if left_out else ""
        return f"  [p{line.index}] {line.label}{indent(head)}{mark}{line.note}"

    def shrink(self, share: float, max_parts: int) -> None:
        """Show only a share of the usual tokens, and only the first parts of a message."""
        self.max_parts = max_parts
        for entry in self.entries:
            for line in entry.lines:
                line.tokens = int(line.usual * share)

    def drop_farthest(self) -> None:
        """Leave out the message that is farthest from the cursor."""
        self.dropped.append(self.entries.pop(0 if self.is_backward else -1).key)

    def list_cut_lines(self) -> Iterator[tuple[PartLine, int]]:
        """Yield the parts that are cut, in the order of expanding, with the tokens to stop at."""
        lines = [line for entry in self.entries for line in entry.lines[: self.max_parts]]
        cut = sorted((line for line in lines if self._is_cut(line)), key=lambda line: line.rank)
        yield from ((line, USER_TEXT_CAP if line.rank == 0 else len(line.text)) for line in cut)
        yield from ((line, len(line.text)) for line in cut if self._is_cut(line))

    def _is_cut(self, line: PartLine) -> bool:
        return self._count_kept(line) < len(line.text)

    def _count_kept(self, line: PartLine) -> int:
        """Return how many characters of a part its tokens allow, in a bounded number of counts."""
        if line.tokens not in line.kept:
            line.kept[line.tokens] = find_longest_head(line.text, line.tokens, self.count)
        return line.kept[line.tokens]


def indent(text: str) -> str:
    """Indent the further lines of a text; only our own lines begin at the left edge."""
    return sanitize(text).replace("\n", "\n      ")


RecallAnswer = dict[str, Any]

ANSWER_TOKENS: Final = 2000
TEXT_TOKENS: Final = 100
RESULT_TOKENS: Final = 20
OTHER_TOKENS: Final = 30
"""How many tokens an answer, and each kind of part in an overview, may take."""

MIN_ROOM: Final = 12
"""With fewer tokens left, nothing more is expanded."""

LEVELS: Final = (
    *((1.0, 40), (0.7, 20), (0.45, 12), (0.3, 8), (0.2, 5), (0.1, 3), (0.05, 2)),
    *((0.0, 1), (0.0, 0)),
)
"""What is tried in turn when a page is too large: a share of the usual tokens per part, and the
number of parts of a message that are shown."""


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes answers about messages within the limits of a scope."""

    scope: RecallScope
    counter: TokenCounter

    def count_tokens(self, answer: Mapping[str, Any]) -> int:
        """Count the tokens of a whole answer."""
        return self.counter.count_text(json.dumps(answer, ensure_ascii=False))

    def fits(self, answer: Mapping[str, Any]) -> bool:
        """Return whether an answer keeps to the budget."""
        return self.count_tokens(answer) <= ANSWER_TOKENS

    def write_head(self, message: RecallMessage) -> str:
        """Return the line above a message: who, when, and its id."""
        role = role_of(message.message) or "participant"
        name = "" if role == "tool" else as_label(message.message.name)
        time = show_time(message.at, self.scope.timezone)
        who = " ".join(filter(None, (role, name, f"({time})" if time else "")))
        return f"**{who}** [{show_key(message.key)}]:"

    # --- A page at low detail --------------------------------------------------------------------

    def write_overview(
        self,
        page: Sequence[RecallMessage],
        answer: RecallAnswer,
        wanted: Wanted,
        *,
        is_backward: bool,
    ) -> RecallAnswer:
        """Answer with the start of each part of these messages, and more where there is room.

        Args:
            is_backward: Whether the last message is the one nearest to the cursor.
        """
        overview = Overview(
            [*self._build_entries(page, wanted)],
            self.counter.count_text,
            is_backward,
            is_beginning=not answer["has_prev_page"],
        )
        whole = {**answer, "messages": overview.render(), "count": len(page)}
        if self.fits(whole):
            self._expand(overview, whole)
            return {**whole, "messages": overview.render()}
        all_tokens = self.counter.count_text(whole["messages"])
        whole |= {"truncated": True, "token_offset": all_tokens}
        for share, max_parts in LEVELS:
            overview.shrink(share, max_parts)
            if self.fits({**whole, "messages": overview.render()}):
                break
        while len(overview.entries) > 1 and not self.fits({**whole, "messages": overview.render()}):
            overview.drop_farthest()
            whole |= {"has_prev_page" if is_backward else "has_next_page": True}
        self._expand(overview, whole)
        text = overview.render()
        trimmed = max(1, all_tokens - self.counter.count_text(text))
        return {**whole, "messages": text, "count": len(overview.entries), "token_offset": trimmed}

    def _build_entries(
        self, page: Sequence[RecallMessage], wanted: Wanted
    ) -> Iterator[MessageEntry]:
        parts = [[*parts_of(message.message)] for message in page]
        names = name_calls(message.message for message in page)
        for message, shown in zip(page, parts, strict=True):
            is_user = role_of(message.message) == "user"
            lines = [
                self._build_line(index, part, names, is_user=is_user)
                for index, part in enumerate(shown)
                if wanted.takes(part, names)
            ]
            yield MessageEntry(show_key(message.key), self.write_head(message), lines)

    def _build_line(
        self, index: int, part: Part, names: Mapping[str, str], *, is_user: bool
    ) -> PartLine:
        label = _write_label(part, names)
        if _is_call(part):
            note = f" (arguments: part_index {index})" if part.body else ""
            return PartLine(index, label, "", note, 0, 0, 0)
        kinds = {"text": (TEXT_TOKENS, 0 if is_user else 1)}
        kinds |= dict.fromkeys(("tool-result", "tool-error"), (RESULT_TOKENS, 2))
        usual, rank = kinds.get(part.kind, (OTHER_TOKENS, 3))
        rank = 1 if part.kind == "reasoning" else rank
        return PartLine(index, label, part_text(part), "", usual, rank, usual)

    def _expand(self, overview: Overview, whole: RecallAnswer) -> None:
        """Use the rest of the budget for parts that are cut, the most informative ones first."""
        room = ANSWER_TOKENS - self.count_tokens({**whole, "messages": overview.render()})
        done: list[tuple[PartLine, int]] = []
        for line, cap in overview.list_cut_lines():
            if room < MIN_ROOM:
                break
            before, tokens = self._count_line(overview, line), line.tokens
            for share in (0.9, 0.5):
                line.tokens = max(tokens, min(cap, tokens + int(room * share)))
                grown = self._count_line(overview, line) - before
                if grown <= room:
                    done.append((line, tokens))
                    room -= grown
                    break
            else:
                line.tokens = tokens
        # The counts of the pieces do not add up exactly.
        while done and not self.fits({**whole, "messages": overview.render()}):
            line, line.tokens = done.pop()

    def _count_line(self, overview: Overview, line: PartLine) -> int:
        return self.count_tokens({"": overview.render_line(line)})

    # --- Whole parts -----------------------------------------------------------------------------

    def write_first_part(
        self, message: RecallMessage, answer: RecallAnswer, wanted: Wanted, hints: Sequence[str]
    ) -> RecallAnswer:
        """Answer with the first part of a message in full, or as much of it as fits.

        Args:
            hints: How to go on to other messages.
        """
        parts = [*parts_of(message.message)]
        names = name_calls([message.message])
        index = next((at for at, part in enumerate(parts) if wanted.takes(part, names)), 0)
        label = _write_label(parts[index], {})
        colon = ": " if _is_call(parts[index]) else ""
        text = part_text(parts[index])
        key = show_key(message.key)
        more = f"Next part: cursor {key}, part_index {index + 1} (of 0 to {len(parts) - 1})."

        def build(end: int) -> RecallAnswer:
            is_cut = end < len(text)
            body = f"{colon}{indent(text[:end])}{'…' if is_cut else ''}"
            rest = f"Rest of this part: cursor {key}, part_index {index}, char_offset {end}."
            lines = [
                f"{self.write_head(message)}\n  [p{index}] {label}{body}",
                *([rest] if is_cut else []),
                *([more] if len(parts) > index + 1 else []),
                *hints,
            ]
            cut = {"truncated": True, "token_offset": len(text), "next_char_offset": end}
            shown = {**answer, "messages": escape("\n".join(lines)), "count": 1}
            return shown | cut if is_cut else shown

        end = self._find_end(text, 0, build)
        built = build(end)
        if end < len(text):
            built["token_offset"] = max(1, self.counter.count_text(text[end:]))
        return built

    def write_part(self, message: RecallMessage, index: int, offset: int) -> RecallAnswer:
        """Answer with a part from a character on; following `next_char_offset` gives all of it.

        Args:
            offset: The character to begin with, within the text.
        """
        parts = [*parts_of(message.message)]
        part = parts[index]
        text = part_text(part)

        def build(end: int) -> RecallAnswer:
            answer: RecallAnswer = {
                "text": escape(_make_readable(text[offset:end])),
                "message_id": escape(show_key(message.key)),
                "part_index": index,
                "role": role_of(message.message),
                "type": part.kind,
                "truncated": end < len(text),
                "char_offset": offset,
            }
            notes = [_write_origin(part)]
            if end < len(text):
                answer["next_char_offset"] = end
                said = f"The part has {len(text):,} characters; go on with char_offset {end}."
                notes.append(said)
            elif index + 1 < len(parts):
                notes.append(f"Next part: part_index {index + 1} (of 0 to {len(parts) - 1}).")
            note = escape(" ".join(filter(None, notes)))
            return answer | ({"note": note} if note else {})

        return build(self._find_end(text, offset, build))

    def _find_end(self, text: str, start: int, build: Callable[[int], RecallAnswer]) -> int:
        """Return how far a text can be shown; at least one character, and never half of one."""
        limit = min(len(text), start + ANSWER_TOKENS * CHARACTERS_PER_TOKEN_CEILING)
        if limit == start or self.fits(build(limit)):
            return to_whole_character(text, start, limit)
        low, high = start, limit
        for _ in range(SEARCH_STEPS):
            if high - low <= max(1, (low - start) // 50):
                break
            middle = (low + high) // 2
            if self.fits(build(middle)):
                low = middle
            else:
                high = middle
        return to_whole_character(text, start, max(low, start + 1))


def show_time(moment: datetime | None, timezone: tzinfo) -> str:
    """Return a time in a zone, to the minute; empty when it is unknown."""
    if moment is None:
        return ""
    try:
        local = moment if moment.tzinfo is None else moment.astimezone(timezone)
    except (OverflowError, ValueError):  # At the very ends of the calendar.
        return ""
    return local.replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")


def _is_call(part: Part) -> bool:
    return part.kind == "tool-call"


def _write_label(part: Part, names: Mapping[str, str]) -> str:
    """Return what a part is, where its text does not say it."""
    if part.kind == "reasoning":
        return "(reasoning) "
    if part.kind.startswith("tool-"):
        name = part.name or names.get(part.call_id, "")
        call_id = f"[{part.call_id}]" if part.call_id else ""
        label = " ".join(filter(None, (part.kind.replace("-", " "), name, call_id)))
        return label if _is_call(part) else f"{label}: "
    return f"(file {part.name}) " if part.name else ""


def _write_origin(part: Part) -> str:
    """Return the tool and call, or the file, of a part; empty when it has none."""
    if not part.kind.startswith("tool-"):
        return f"File {part.name}." if part.name else ""
    call = f"call {part.call_id}" if part.call_id else ""
    tool = f"tool {part.name}" if part.name else ""
    text = ", ".join(filter(None, (tool, call)))
    return f"{text[0].upper()}{text[1:]}." if text else ""


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _make_readable(text: str) -> str:
    """Return the text with a mark for each control character and each lone surrogate."""
    text = _UNPRINTABLE.sub("\ufffd", text)
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
