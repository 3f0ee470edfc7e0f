"""An Observer offline: it writes observations by quoting the conversation it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_om.errors import ConfigurationError
from langgraph_om.testing.offline import OfflineChatModel, Reply, Role
from langgraph_om.testing.quoting import (
    MAX_CHARACTERS_READ,
    QUESTION_MARKS,
    choose_sentence,
    cut,
    weigh,
)
from langgraph_om.testing.sections import (
    NO_OBSERVATIONS,
    find_last_block,
    read_sections,
    write_sections,
)

_SMALL_LOG = 400  # Characters: observations as short as this are not made shorter.
_TOOL_WEIGHT = 2
_KINDS = r"(?P<kind>User|Assistant|Earlier summary|Tool call|Tool result|Tool error)"
_HEAD = re.compile(
    _KINDS + r"(?: (?P<name>[^:]{1,120}?))??(?: \((?P<time>\d{1,2}:\d\d)\))?"
    r"(?P<reasoning> reasoning)?(?: \[[^\]]{0,200}\])?:(?: (?P<text>.*))?",
)
_NUMBER_OR_LIST = re.compile(r"\d|^ *[-*•] ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _TranscriptLine:
    """One message of a transcript, continuation lines included."""

    kind: str
    name: str
    date: str
    time: str
    text: str

    @property
    def label(self) -> str:
        """Who or what said it: people by their name, when they have one."""
        if self.kind in {"User", "Assistant"}:
            return self.name or self.kind
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class _Note:
    """What one message tells, and the item that it becomes, if any."""

    position: int
    line: _TranscriptLine
    text: str
    item: str


class ExtractiveObserver(OfflineChatModel):
    """Write valid observations by quoting the conversation it is shown; no model behind it.

    It reads the last `<conversation>` block of its messages. Of each message it quotes the sentence
    with the most numbers, names and long words: the user's as 🔴 (questions as 🟡), the assistant's
    as 🟢 when the message has a number or a list, or it is the third. Tool calls become sub-items;
    a message of short plain words alone ("Thanks!", "Please book a cabin.") becomes nothing, and so
    do those that tell least while the items are longer than a quarter of the conversation. It is
    not clever, but what it writes is drawn from the conversation and the same every time.

        >>> transcript = '''<conversation>
        ... Date: Dec 4, 2025
        ... User Ann (14:30): Hello! How are you? My dog Rex turned three last week.
        ... </conversation>'''
        >>> print(ExtractiveObserver().invoke(transcript).content)
        <observations>
        Date: Dec 4, 2025
        * 🔴 (14:30) Ann: My dog Rex turned three last week.
        </observations>
        <current-task>The user's newest message: My dog Rex turned three last week.</current-task>
        <suggested-response>Answer: My dog Rex turned three last…</suggested-response>

    `reply` is the same as a function, so one scripted model can play every role:

        >>> model = ScriptedChatModel("Nice!", observer=ExtractiveObserver().reply)
    """

    words: int = 16
    """The most words quoted from one message."""

    every: int = 3
    """Of the assistant's statements without numbers or lists, each how-manieth is kept."""

    def __init__(
        self, *, words: int = 16, every: int = 3, delay: float = 0.0, **kwargs: Any
    ) -> None:
        """Set how much is quoted.

        Args:
            words: The most words quoted from one message.
            every: Keep each how-manieth of the assistant's plain statements.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has.
        """
        for name, value in (("words", words), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                msg = f"`{name}` is {value!r}; pass a whole number of 1 or more."
                raise ConfigurationError(msg)
        super().__init__(words=words, every=every, delay=delay, **kwargs)

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("observer", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the observations for what the messages show.

        Args:
            messages: The messages of one Observer call.
        """
        prompt, transcript = find_last_block(messages, "conversation")
        sections = read_sections(transcript)
        if sections:
            return write_sections(
                [(tag, self._answer(prompt, body)) for tag, body in sections],
            )
        return self._answer(prompt, transcript)

    def _answer(self, prompt: str, transcript: str) -> str:
        """Return the observations of one conversation."""
        notes = self._take_notes(_read_transcript(transcript))
        items = self._write_items(notes, max(_SMALL_LOG, len(transcript) // 4))
        if not items:
            return NO_OBSERVATIONS
        answer = ["<observations>", *items, "</observations>"]
        said = [note.text for note in notes if note.line.kind == "User"]
        if said:
            newest = cut(said[-1], self.words)
            answer += [
                f"<current-task>The user's newest message: {newest}</current-task>",
                f"<suggested-response>Answer: {cut(newest, 6)}</suggested-response>",
            ]
        if "<thread-title>" in prompt:
            topic = said[0] if said else items[-1].rpartition(": ")[2]
            answer.append(f"<thread-title>{cut(topic, 5).rstrip('….,!?;:')}</thread-title>")
        return "\n".join(answer)

    def _take_notes(self, lines: Iterator[_TranscriptLine]) -> list[_Note]:
        """Return what each message tells, without those that tell nothing."""
        notes: list[_Note] = []
        plain = 0
        for line in lines:
            if text := self._choose_quote(line):
                plain += line.kind == "Assistant" and not text.endswith(QUESTION_MARKS)
                item = self._write_item(line, text, is_kept=plain % self.every == 0)
                notes.append(_Note(len(notes), line, text, item))
        return notes

    def _write_items(self, notes: list[_Note], room: int) -> list[str]:
        """Return the lines of the observations, those that tell least left out beyond the room."""
        items: list[str] = []
        date = ""
        for note in _choose_fitting([note for note in notes if note.item], room, self.words):
            if note.line.date != date:
                date = note.line.date
                items.append(f"Date: {date}")
            is_arrow = note.item.startswith("-> ")
            if is_arrow and items and not items[-1].startswith("Date: "):
                items.append(f"  * {note.item}")
            else:
                # An arrow that has no item to stand under becomes one.
                items.append(
                    _write_stamped("🟢", note.line, note.item[3:]) if is_arrow else note.item
                )
        if not items:
            # A window of tool results alone still leaves a trace.
            for line, quote in ((note.line, cut(note.text, self.words)) for note in notes[-1:]):
                items += [f"Date: {line.date}"] if line.date else []
                items.append(_write_stamped("🟢", line, f"{line.label}: {quote}"))
        return items

    def _write_item(self, line: _TranscriptLine, text: str, *, is_kept: bool) -> str:
        """Return the item of one message, empty when it is not worth one."""
        quote = cut(text, self.words)
        is_question = text.endswith(QUESTION_MARKS)
        if line.kind == "User":
            return _write_stamped("🟡" if is_question else "🔴", line, f"{line.label}: {quote}")
        if line.kind == "Assistant":
            is_worth_it = (is_kept and not is_question) or _NUMBER_OR_LIST.search(
                line.text[:MAX_CHARACTERS_READ]
            )
            return _write_stamped("🟢", line, f"{line.label}: {quote}") if is_worth_it else ""
        if line.kind == "Earlier summary":
            return _write_stamped("🟢", line, f"{line.label}: {quote}")
        if line.kind == "Tool call":
            return f"-> called {line.name} {quote}"
        return f"-> {line.name} failed: {quote}" if line.kind == "Tool error" else ""

    def _choose_quote(self, line: _TranscriptLine) -> str:
        """Return what to quote of a message: its most telling sentence, or the output of a tool."""
        text = line.text[:MAX_CHARACTERS_READ]
        return text if line.kind.startswith("Tool") else choose_sentence(text, self.words)


def _read_transcript(transcript: str) -> Iterator[_TranscriptLine]:
    """Yield the messages of a transcript; the private reasoning among them is left out."""
    date = ""
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in [*transcript.split("\n"), "Date: the end"]:
        if line.startswith("  "):
            body.append(line[2:])
            continue
        is_date, found = line.startswith("Date: "), _HEAD.match(line)
        if not is_date and not found:
            continue
        if head and not head["reasoning"]:
            text = "\n".join(body).strip()
            yield _TranscriptLine(head["kind"], head["name"] or "", date, head["time"] or "", text)
        date = line.removeprefix("Date: ").strip() if is_date else date
        head, body = found, [found["text"] or ""] if found else []


def _choose_fitting(notes: list[_Note], room: int, words: int) -> list[_Note]:
    """Return the notes that tell most and fit into so many characters, in their order."""

    def rank(note: _Note) -> tuple[int, int]:
        is_tool = note.line.kind.startswith("Tool")
        return _TOOL_WEIGHT if is_tool else weigh(note.text, words), note.position

    if sum(len(note.item) + 1 for note in notes) <= room:
        return notes
    kept: list[_Note] = []
    for note in sorted(notes, key=rank, reverse=True):
        if len(note.item) < room:
            room -= len(note.item) + 1
            kept.append(note)
    return sorted(kept, key=lambda note: note.position)


def _write_stamped(mark: str, line: _TranscriptLine, text: str) -> str:
    return f"* {mark} ({line.time}) {text}" if line.time else f"* {mark} {text}"
