"""An Observer and a Reflector without a model: they quote, keep and shorten the most telling text.

This is found by counting what each sentence has that can be asked about later: numbers,
names and long words. Short plain words, as in greetings and thanks, weigh nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from langchain_core.messages import BaseMessage
from pydantic import Field

from langgraph_om.testing.offline import OfflineChatModel, Reply, Role, join_text

# --- What a text tells ---------------------------------------------------------------------------

_MAX_CHARACTERS_READ = 4_000
"""Characters of one message that are looked at."""

_QUESTION_MARKS = ("?", "？")

_CHARACTERS_PER_WORD = 10
_LONG_WORD = 7
_ASKS_SOMETHING = 4  # A question of so many words is worth a quote, even of plain ones.
_TITLES = "".join(rf"(?<!\b{title}\.)" for title in ("Dr", "Mr", "Ms", "St", "Mrs", "vs", "etc"))
_SENTENCE_END = re.compile(rf"(?<=[.!?]){_TITLES}\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")
_FIRST_PERSON = re.compile(r"(?:I|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur)(?:['’]\w+)?[,.!?]?")
_SELF = re.compile(r"I(?:['’]\w+)?\W*")
_DIGIT = re.compile(r"\d")
# Words that a note does without, long ones among them that tell nothing.
_PLAIN_WORDS = frozenset(
    {"a", "an", "the", "that", "so", "just", "really", "very", "quite", "also", "too", "some"}
    | {"super", "definitely", "absolutely", "totally", "actually", "honestly", "basically"}
    | {"especially", "something", "everything", "anything"}
)


def _choose_sentence(text: str) -> str:
    """Return the sentence of a text that tells most; empty when none tells anything."""
    sentences = _split_sentences(text[:_MAX_CHARACTERS_READ])
    best = max(sentences, key=lambda sentence: _weigh(sentence, _WORDS))
    return best if _weigh(best, _WORDS) else ""


def _split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, without the bullets of lists."""
    return [_BULLET.sub("", part.strip(), count=1) for part in _SENTENCE_END.split(text)]


def _weigh(text: str, words: int) -> int:
    """Return how much a sentence tells, 0 when it says nothing.

    Args:
        words: How many of its words weigh.
    """
    if text.startswith("["):
        return 1  # The placeholder of a picture or a file: better than nothing.
    found, total, is_own = text.split(), 0, False
    for at, word in enumerate(found[:words]):
        bare = word.strip(".,!?;:")
        total += len(bare) >= _LONG_WORD and bare.lower() not in _PLAIN_WORDS
        total += 3 if _DIGIT.search(word) else 0
        # A name, where it does not begin the sentence.
        if at and word.lstrip("\"'“‘(")[:1].isupper() and not _SELF.fullmatch(word):
            total += 2
        is_own = is_own or _FIRST_PERSON.fullmatch(word) is not None
    total += is_own
    if text.endswith(_QUESTION_MARKS) and (total or len(found) >= _ASKS_SOMETHING):
        return max(2, total - 2)  # A fact before a question.
    return total


def _shorten(text: str, words: int) -> str:
    """Return a text in so many words: first without the plain ones, then cut."""
    found = text.split()
    if len(found) > words:
        found = [word for word in found if word.lower() not in _PLAIN_WORDS] or found
    return _cut(" ".join(found), words)


def _cut(text: str, words: int) -> str:
    """Return the first words on one line, with an ellipsis when some are missing."""
    found = text[:_MAX_CHARACTERS_READ].rstrip("… ").split()
    kept = " ".join(found[:words])
    if len(kept) > words * _CHARACTERS_PER_WORD:
        # Some scripts and all encoded data have no spaces to cut at.
        kept = kept[: words * _CHARACTERS_PER_WORD].rstrip() + "…"
    elif len(found) > words or text.rstrip().endswith("…"):
        kept += "…"
    # A quoted tag must not open or close one of the answer's own.
    return re.sub(r"<(?=[/A-Za-z])", "‹", kept)


# What the offline Observer and Reflector share: finding their block, and sections by thread.


_NO_OBSERVATIONS = "<observations>(none)</observations>"
"""The answer when there is nothing to observe."""

_SECTION = re.compile(r'<thread id="[^"<>]*">')


def _find_last_block(messages: list[BaseMessage], tag: str) -> tuple[str, str]:
    """Return the text outside and inside the last `<tag>` block of the messages."""
    text = "\n".join(join_text(message) for message in messages)
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, max(end, 0))
    if start < 0:
        return text, ""
    return text[:start] + text[end:], text[start + len(tag) + 2 : end]


def _read_sections(text: str) -> list[tuple[str, str]]:
    """Return the sections of several threads in a text: the tag that opens each, and its text."""
    sections: list[tuple[str, list[str]]] = []
    is_open = False
    for line in text.split("\n"):
        if _SECTION.fullmatch(line):
            sections.append((line, []))
            is_open = True
        elif line == "</thread>":
            is_open = False
        elif is_open:
            sections[-1][1].append(line)
    return [(tag, "\n".join(lines)) for tag, lines in sections]


def _write_sections(answers: list[tuple[str, str]]) -> str:
    """Return the answers, each in the section that its tag opens."""
    return "\n".join(f"{tag}\n{answer}\n</thread>" for tag, answer in answers)


# --- An Observer ---------------------------------------------------------------------------------

_WORDS = 16  # The most that are quoted of one message.
_EVERY = 3  # Of the assistant's statements without numbers or lists, this one is kept.
_SMALL_LOG = 400  # Characters: observations as short as this are not made shorter.
_MUCH_SAID = 120  # Bytes, which no script says in more than 60 tokens: more needs an item.
_TOOL_WEIGHT = 2
_KINDS = r"(?P<kind>User|Assistant|Earlier summary|Tool call|Tool result|Tool error)"
_HEAD = re.compile(
    _KINDS + r"(?: #(?P<number>\d{1,6}))?(?: (?P<name>[^:]{1,120}?))??"
    r"(?: \((?P<time>\d{1,2}:\d\d)\))?"
    r"(?P<reasoning> reasoning)?(?: \[[^\]]{0,200}\])?:(?: (?P<text>.*))?",
)
_ORDER_MARK = "📌"
_ORDER = re.compile(r"\b(?:always|never|from now on|immer|niemals|ab jetzt)\b", re.IGNORECASE)
"""Words of a standing instruction."""
_NUMBER_OR_LIST = re.compile(r"\d|^ *[-*•] ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _TranscriptLine:
    """One message of a transcript, continuation lines included."""

    kind: str
    name: str
    date: str
    time: str
    text: str
    number: str = ""
    """By which a mark cites it; empty for none."""

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
    """Write valid observations by quoting about a quarter of the conversation; no model behind it.

    It reads the last `<conversation>` block of its messages. From each message, it quotes the
    sentence with the most numbers, names and long words: the user's as 🔴 (questions as 🟡), the
    assistant's as 🟢 if the message has a number or a list (and every third one). Tool calls become
    sub-items. A message of only short plain words ("Thanks!", "Please book a cabin.") is dropped,
    unless many such words are all that is said. While the items are longer than a quarter of the
    conversation, those that tell least are dropped too, but no call after the user's newest
    message. If told about 📌, it marks what the user wants "always", "never" or "from now on". It
    isn't clever, but what it writes comes from the conversation and is the same every time.

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

    `reply` is the same, as a function, so one scripted model can play every role:

        >>> model = ScriptedChatModel("Nice!", observer=ExtractiveObserver().reply)
    """

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("observer", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the observations for what the messages show."""
        prompt, transcript = _find_last_block(messages, "conversation")
        sections = _read_sections(transcript)
        if sections:
            return _write_sections(
                [(tag, self._answer(prompt, body)) for tag, body in sections],
            )
        return self._answer(prompt, transcript)

    def _answer(self, prompt: str, transcript: str) -> str:
        lines = [*_read_transcript(transcript)]
        notes = self._take_notes(lines, marks=_ORDER_MARK in prompt)
        spoken = [line for line in lines if line.kind in {"User", "Assistant"}]
        if not notes and sum(len(line.text.encode()) for line in spoken) > _MUCH_SAID:
            longest = max(spoken, key=lambda line: len(line.text))
            notes = [_Note(0, longest, longest.text[:_MAX_CHARACTERS_READ], "")]
        items = self._write_items(notes, max(_SMALL_LOG, len(transcript) // 4))
        if not items:
            return _NO_OBSERVATIONS
        answer = ["<observations>", *items, "</observations>"]
        said = [note.text for note in notes if note.line.kind == "User"]
        if said:
            newest = _cut(said[-1], _WORDS)
            answer += [
                f"<current-task>The user's newest message: {newest}</current-task>",
                f"<suggested-response>Answer: {_cut(newest, 6)}</suggested-response>",
            ]
        if "<thread-title>" in prompt:
            topic = said[0] if said else items[-1].rpartition(": ")[2]
            answer.append(f"<thread-title>{_cut(topic, 5).rstrip('….,!?;:')}</thread-title>")
        return "\n".join(answer)

    def _take_notes(self, lines: Iterable[_TranscriptLine], *, marks: bool) -> list[_Note]:
        """Return what each message tells, without those that tell nothing."""
        notes: list[_Note] = []
        plain = 0
        for line in lines:
            for order in _find_orders(line) if marks else ():
                item = _write_stamped(_ORDER_MARK, line, f"#{line.number} {order}")
                notes.append(_Note(len(notes), line, order, item))
            if text := self._choose_quote(line):
                plain += line.kind == "Assistant" and not text.endswith(_QUESTION_MARKS)
                item = self._write_item(line, text, is_kept=plain % _EVERY == 0)
                notes.append(_Note(len(notes), line, text, item))
        return notes

    def _write_items(self, notes: list[_Note], room: int) -> list[str]:
        """Return the lines of the observations, those that tell least left out beyond the room."""
        items: list[str] = []
        date = ""
        for note in _choose_fitting([note for note in notes if note.item], room):
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
            for line, quote in ((note.line, _cut(note.text, _WORDS)) for note in notes[-1:]):
                items += [f"Date: {line.date}"] if line.date else []
                items.append(_write_stamped("🟢", line, f"{line.label}: {quote}"))
        return items

    def _write_item(self, line: _TranscriptLine, text: str, *, is_kept: bool) -> str:
        """Return the item of one message, empty when it is not worth one."""
        quote = _cut(text, _WORDS)
        is_question = text.endswith(_QUESTION_MARKS)
        if line.kind == "User":
            return _write_stamped("🟡" if is_question else "🔴", line, f"{line.label}: {quote}")
        if line.kind == "Assistant":
            is_worth_it = (is_kept and not is_question) or _NUMBER_OR_LIST.search(
                line.text[:_MAX_CHARACTERS_READ]
            )
            return _write_stamped("🟢", line, f"{line.label}: {quote}") if is_worth_it else ""
        if line.kind == "Earlier summary":
            return _write_stamped("🟢", line, f"{line.label}: {quote}")
        if line.kind == "Tool call":
            return f"-> called {line.name} {quote}"
        return f"-> {line.name} failed: {quote}" if line.kind == "Tool error" else ""

    def _choose_quote(self, line: _TranscriptLine) -> str:
        """Return what to quote of a message: its most telling sentence, or the output of a tool."""
        text = line.text[:_MAX_CHARACTERS_READ]
        return text if line.kind.startswith("Tool") else _choose_sentence(text)


def _find_orders(line: _TranscriptLine) -> list[str]:
    """Return the sentences of the user that are standing instructions."""
    text = line.text[:_MAX_CHARACTERS_READ]
    if not line.number or not _ORDER.search(text):
        return []
    sentences = _split_sentences(text)
    return [
        each for each in sentences if _ORDER.search(each) and not each.endswith(_QUESTION_MARKS)
    ]


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
            told = (head["kind"], head["name"] or "", date, head["time"] or "", text)
            yield _TranscriptLine(*told, head["number"] or "")
        date = line.removeprefix("Date: ").strip() if is_date else date
        head, body = found, [found["text"] or ""] if found else []


def _choose_fitting(notes: list[_Note], room: int) -> list[_Note]:
    """Return the notes that tell most and fit into so many characters, in their order."""

    def rank(note: _Note) -> tuple[int, int]:
        is_tool = note.line.kind.startswith("Tool")
        return _TOOL_WEIGHT if is_tool else _weigh(note.text, _WORDS), note.position

    if sum(len(note.item) + 1 for note in notes) <= room:
        return notes
    # Work done since the user last spoke is repeated if no observation mentions it.
    spoken = max((note.position for note in notes if note.line.kind == "User"), default=-1)
    kept = [
        note
        for note in notes
        if _ORDER_MARK in note.item or (note.item.startswith("-> ") and note.position > spoken)
    ]
    stays = {note.position for note in kept}
    others = (note for note in notes if note.position not in stays)
    for note in sorted(others, key=rank, reverse=True):
        if len(note.item) < room:
            room -= len(note.item) + 1
            kept.append(note)
    return sorted(kept, key=lambda note: note.position)


def _write_stamped(mark: str, line: _TranscriptLine, text: str) -> str:
    return f"* {mark} ({line.time}) {text}" if line.time else f"* {mark} {text}"


# --- A Reflector ---------------------------------------------------------------------------------

_CAPS = (20, 16, 12, 10, 8)
"""The most words of an item, tried one after the other."""
_DAYS_PER_WEIGHT = 4  # So many days older, an item of the same weight counts one less.
_NUMBERED = re.compile(r"\[(\d+) ~(\d+)[^\]]*\] (.*)")
_QUOTES = frozenset('"`“„«「『')
"""Words left out within a quotation would change it."""
_LOG_ITEM = re.compile(r"[*-] (?:(🔴|🟡|🟢|✅)\ufe0f? ?)?(?:\((\d{1,2}:\d\d)\) ?)?(.*)")


@dataclass(frozen=True, slots=True)
class _LogItem:
    """One top-level observation of a log."""

    position: int
    day: int
    date: str
    age: int
    mark: str
    time: str
    text: str

    def rank(self, cap: int) -> tuple[int, int]:
        """Return what orders the items by what they tell, the newer one last of two equals."""
        return _DAYS_PER_WEIGHT * _weigh(self.text, cap) - self.age, self.position

    def write(self, cap: int) -> str:
        """Return the item in `cap` words, two fewer for each newer day, eight at least."""
        stamp = f"({self.time})" if self.time else ""
        parts = (
            "*",
            self.mark,
            stamp,
            _shorten(self.text, max(_CAPS[-1], cap - 2 * self.age)),
        )
        return " ".join(part for part in parts if part)


class ExtractiveReflector(OfflineChatModel):
    """Condense an observation log by keeping its weightiest observations; no model behind it.

    It answers with edits of the numbered items in the last `<observation-log>` block of its
    messages: it shortens every 🔴 and ✅ (older days more, articles and the like first), and drops
    🟢 and sub-items. The newest 🟡 stay while there is room. Below eight words, an observation says
    nothing: instead of shortening further, it drops those with the fewest numbers, names and long
    words.

        >>> log = '''<observation-log>
        ... Date: Dec 4, 2025
        ... [1 ~14] * 🔴 (14:30) User: my dog Rex turned three last week
        ... [2 ~19] * 🟢 (14:31) Assistant: wrote a long list of the best walks around the lake
        ... </observation-log>'''
        >>> print(ExtractiveReflector().invoke(log).content)
        drop 2
    """

    ratio: float = Field(default=0.5, gt=0, lt=1)
    """The part of the log's length to stay under."""

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("reflector", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the condensed log."""
        log = _find_last_block(messages, "observation-log")[1].strip()
        return "\n".join(self._edit_all([body for _, body in _read_sections(log)] or [log]))

    def _edit_all(self, logs: list[str]) -> list[str]:
        """Return edits of all conversations, the quietest of which comes first.

        Where something of each would be too much, nothing is left of the quietest.
        """
        edits = [self._edit(log) for log in logs]
        if len(logs) == 1:
            return edits[0]
        over = sum(self._measure(log) for log in logs) - int(sum(map(len, logs)) * self.ratio)
        for at, log in enumerate(logs[:-1]):
            if over <= 0:
                break
            over -= self._measure(log)
            edits[at] = [f"drop {', '.join(item[1] for item in _find_numbered(log))}"]
        return [line for part in edits for line in part]

    def _measure(self, log: str) -> int:
        """Return the length of what is left of a conversation's numbered items."""
        plain = _write_plain(log)
        return len(self._condense(_read_log(plain), len(plain)))

    def _edit(self, log: str) -> list[str]:
        numbered = _find_numbered(log)
        plain = _write_plain(log)
        items = _read_log(plain)
        if not items or len(items) != len(numbered):
            return []
        chosen, cap = self._choose(items, len(plain))
        kept = {item.position: item.write(cap) for item in chosen}
        dropped = [each[1] for at, each in enumerate(numbered) if at not in kept]
        edits = [f"drop {', '.join(dropped)}"] if dropped else []
        for at, text in kept.items():
            number, _, before = numbered[at].groups()
            if len(text) < len(before) and _QUOTES.isdisjoint(before):
                edits.append(f"{number}: {text}")
        if not edits:
            first = items[0]
            edits.append(f"{numbered[0][1]}: * {first.mark} {first.text.split()[0]}")
        return edits

    def _condense(self, items: list[_LogItem], size: int) -> str:
        return _write_log(*self._choose(items, size))

    def _choose(self, items: list[_LogItem], size: int) -> tuple[list[_LogItem], int]:
        """Return the items to keep, and the words of each."""
        target = int(size * self.ratio)
        weighty = [item for item in items if item.mark in {"🔴", "✅"}]
        cap = _CAPS[-1]
        for cap in _CAPS:
            text = _write_log(weighty, cap)
            if len(text) <= target:
                break
        else:
            # No item can say what it says in fewer words: the lightest ones are left out.
            return _choose_heaviest(weighty, cap, target) or weighty[-1:], cap
        lighter = [item for item in items if item.mark in {"🟡", ""}]
        added = _choose_newest(lighter, cap, target - len(text))
        if not weighty and not added:
            added = _choose_newest(items, cap, target)
        chosen = {item.position for item in (*weighty, *added)}
        return [item for item in items if item.position in chosen], cap


def _find_numbered(log: str) -> list[re.Match[str]]:
    return [item for line in log.split("\n") if (item := _NUMBERED.match(line))]


def _write_plain(log: str) -> str:
    return "\n".join(_NUMBERED.sub(r"\3", line) for line in log.split("\n"))


def _read_log(log: str) -> list[_LogItem]:
    """Read the top-level items of a log."""
    dates: list[str] = [""]
    found: list[tuple[int, str, str, str]] = []
    for line in log.split("\n"):
        if line.startswith("Date:"):
            if line.strip() != dates[-1]:
                dates.append(line.strip())
        elif item := _LOG_ITEM.match(line):
            found.append((len(dates) - 1, item[1] or "", item[2] or "", item[3].strip()))
    last = len(dates) - 1
    return [
        _LogItem(position, day, dates[day], last - day, mark, stamp, text)
        for position, (day, mark, stamp, text) in enumerate(found)
        if text
    ]


def _write_log(items: list[_LogItem], cap: int) -> str:
    lines: list[str] = []
    day = -1
    for item in items:
        if item.day != day and item.date:
            lines.append(item.date)
        day = item.day
        lines.append(item.write(cap))
    return "\n".join(lines)


def _choose_heaviest(items: list[_LogItem], cap: int, room: int) -> list[_LogItem]:
    """Return the items that tell most and fit into so many characters, in their order."""
    kept: list[_LogItem] = []
    days: set[int] = set()
    for item in sorted(items, key=lambda item: item.rank(cap), reverse=True):
        heading = 0 if item.day in days or not item.date else len(item.date) + 1
        size = len(item.write(cap)) + 1 + heading
        if size <= room:
            room -= size
            kept.append(item)
            days.add(item.day)
    return sorted(kept, key=lambda item: item.position)


def _choose_newest(items: list[_LogItem], cap: int, room: int) -> list[_LogItem]:
    """Return the newest items that fit into so many characters, oldest first."""
    kept: list[_LogItem] = []
    for item in reversed(items):
        heading = 0 if kept and kept[-1].day == item.day else len(item.date) + 1
        room -= len(item.write(cap)) + 1 + heading
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]
