"""Questions about the work of a coding agent, with keys that code makes from its transcript.

A session is interrupted and its agent is asked what it has to know to go on. Each kind is found by
form alone, so no model has to be trusted with the keys:

- `error`: the first and the last line by which a command failed.
- `files`: all files that were changed.
- `decision`: what the user chose when they were asked, and why the agent did what it did.
- `next`: the open items of the last list of tasks.
- `rules`: what the user demanded or forbade.

A key is a few words, the rarest ones of a line; it is found where all of them stand close together.
So a note may put the line in other words, as long as it keeps the names and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from pathlib import PurePosixPath

from evaluation.formats import Conversation, Question, Session, Turn
from evaluation.transcripts import Entry, Transcript
from langgraph_om import EstimatingCounter

STEP_TOKENS = 2_000
"""Memory takes a session in by steps of about so many tokens."""
WITHIN = 400
"""The words of a key stand in so many characters."""
WORDS = 4
MAX_ASKED = 3
"""Questions of one kind about one session."""
MAX_RULES = 8
MANY = 2
"""So many open items are much to do."""
STALE = 80
"""A list of tasks that is so many entries old says nothing of what is next."""

FAILED = re.compile(r"Exit code [1-9]|\AChunk ID[^\0]{0,120}?exited with code [1-9]")
REFUSED = "<tool_use_error>"
TELLING = re.compile(
    r"error|fail|not found|cannot|undefined|unused|illegal|no such|panic|fatal|not properly|want\b"
    r"|expected|denied|invalid",
    re.IGNORECASE,
)
IDLE = re.compile(
    r"\s*(?:=== RUN|--- PASS|ok\s|\?\s|Exit code|\d{4}/\d\d/\d\d|throw |raise |func |if |return )"
    r"|.*:\s*(?:throw |func |raise |if |return )"
)
"""Lines that pass, log, or are code."""
CHANGED = re.compile(
    r"The file (\S+) has been (?:updated|created)"
    r"|File created successfully at: (\S+)"
    r"|^(?:Path: |\*\*(?:Add|Update): )`([^`]+)`|^`([^`\s]+\.\w+)`$",
    re.MULTILINE,
)
OPEN = re.compile(r"^- \[(?:[ ~>]|⚡|-)\] (.+)", re.MULTILINE)
ASKED = re.compile(r"^\*\*(.+?)\*\*$", re.MULTILINE)
OPTION = re.compile(r"^- \*\*(.+?)\*\* - (.+)", re.MULTILINE)
RULE = re.compile(
    r"\b(?:should|must|please|just|to) (?:\w+ )?(?:always|never)\b|\bfrom now on\b|\bmust not\b"
    r"|^(?:please )?(?:always|never|do not|don't(?! think)|make sure|be sure|avoid)\b"
    r"|^only \w+ .*\b(?:when|if|for)\b|\b(?:we|i) (?:don't|do not) want\b",
    re.IGNORECASE,
)
BECAUSE = re.compile(r"\bbecause\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
TERM = re.compile(r"[\w./@#-]*\w")
SPACES = re.compile(r"\s+|\\n|\\t")
PASTED = 2_000
"""A user who writes more characters has pasted them."""
LINE = 300
MIN_WORD = 4
COMMON = frozenset(
    (
        *(
            "about",
            "been",
            "before",
            "does",
            "from",
            "have",
            "into",
            "just",
            "make",
            "only",
            "over",
        ),
        *("some", "something", "such", "than", "that", "them", "then", "there", "these", "they"),
        *("this", "those", "used", "want", "were", "what", "when", "where", "which", "will"),
        *("with", "would", "your"),
    )
)
"""Words that no key needs."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a question is made of."""

    kind: str
    text: str
    keys: tuple[Key, ...]
    lines: tuple[str, ...]
    """The key in full, for reading."""


# --- Grading -------------------------------------------------------------------------------------


def normalise(text: str) -> str:
    """Write a text as keys are compared: lower case, one space, no escapes."""
    plain = unescape(text.replace('\\"', '"').replace("`", ""))
    return SPACES.sub(" ", plain).lower()


def holds(text: str, key: Key) -> bool:
    """Tell whether a normalised text has all words of a key close together."""
    first, *others = sorted(key, key=len, reverse=True)
    at = text.find(first)
    while at >= 0:
        around = text[max(0, at - WITHIN) : at + len(first) + WITHIN]
        if all(word in around for word in others):
            return True
        at = text.find(first, at + 1)
    return False


def score(question: Question, answer: str) -> float:
    """Return the share of a question's keys that an answer has."""
    text = normalise(answer)
    return sum(holds(text, key) for key in question.keys) / len(question.keys)


# --- Making --------------------------------------------------------------------------------------


def make_conversation(transcript: Transcript) -> Conversation | None:
    """Return an interrupted session and the questions about it; `None` where there are none."""
    entries = interrupt(transcript.entries)
    said = normalise("\n".join(f"{each.text}\n{each.result}" for each in entries))
    found = [each for make in MAKERS for each in make(entries, said)]
    if not found:
        return None
    questions = tuple(
        Question(
            id=f"{transcript.id}/{number}",
            text=each.text,
            answer="\n".join(each.lines),
            category=each.kind,
            asked_at=entries[-1].at,
            keys=each.keys,
        )
        for number, each in enumerate(found, start=1)
    )
    return Conversation(transcript.id, tuple(cut_into_steps(entries)), questions)


def interrupt(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return what came before the last list of tasks with much to do was changed again."""
    lists = [at for at, each in enumerate(entries) if each.kind == "task"]
    opened = [at for at in lists if len(OPEN.findall(entries[at].text)) >= MANY]
    after = [at for at in lists if opened and at > opened[-1]]
    return entries[: after[0]] if after else entries


def cut_into_steps(entries: Sequence[Entry]) -> Iterator[Session]:
    """Yield the session in steps; a call stays with its result."""
    counter = EstimatingCounter()
    turns: list[Turn] = []
    number = tokens = 0
    for entry in entries:
        new = list(_turns(entry))
        turns += new
        tokens += sum(counter.count_text(turn.text) for turn in new)
        if tokens >= STEP_TOKENS:
            number += 1
            yield Session(number, turns[0].at, tuple(turns), opens=False)
            turns, tokens = [], 0
    if turns:
        yield Session(number + 1, turns[0].at, tuple(turns), opens=False)


def _turns(entry: Entry) -> Iterator[Turn]:
    if entry.who != "tool":
        yield Turn("user" if entry.who == "user" else "assistant", entry.text, entry.at)
        return
    yield Turn("assistant", entry.text, entry.at, tool=entry.tool)
    result = entry.result or "(no output)"
    yield Turn("tool", result, entry.at, tool=entry.tool, failed=has_failed(entry))


def has_failed(entry: Entry) -> bool:
    """Tell whether a call ended with an error."""
    return bool(FAILED.match(entry.result)) or entry.result.startswith(REFUSED)


def make_key(line: str, said: str) -> Key:
    """Return the rarest words of a line, in their order."""
    terms = dict.fromkeys(TERM.findall(normalise(line)))
    words = [word for word in terms if len(word) >= MIN_WORD and word not in COMMON]
    rarest = sorted(words, key=lambda word: (said.count(word), -len(word)))[:WORDS]
    return tuple(word for word in words if word in rarest)


# --- What is asked -------------------------------------------------------------------------------


def find_errors(entries: Sequence[Entry], said: str) -> Iterator[Found]:
    """Yield a question about the first and the last command that failed."""
    lines: list[str] = []
    for entry in entries:
        if entry.kind == "shell" and FAILED.match(entry.result):
            told = (line.strip()[:LINE] for line in entry.result.splitlines())
            lines += [line for line in told if TELLING.search(line) and not IDLE.match(line)][:1]
    for which, line in (("last", lines[-1:]), ("first", lines[:1])):
        if line and len(key := make_key(line[0], said)) > 1 and (which == "last" or len(lines) > 1):
            text = f"With which error did a command fail {which}? Quote the line that says it."
            yield Found("error", text, (key,), (line[0],))


def find_files(entries: Sequence[Entry], said: str) -> Iterator[Found]:  # noqa: ARG001 one form
    """Yield a question about all files that were changed."""
    changed: dict[str, None] = {}
    for entry in entries:
        if entry.kind == "write" and not has_failed(entry):
            for match in CHANGED.finditer(f"{entry.text}\n{entry.result}"):
                changed[next(filter(None, match.groups())).rstrip(".")] = None
    if changed:
        tails = _tails(list(changed))
        text = "Which files have been changed so far? List all of them."
        yield Found("files", text, tuple((normalise(tail),) for tail in tails), tuple(tails))


def _tails(paths: Sequence[str]) -> list[str]:
    """Return the shortest end of each path that no other one has."""
    parts = [PurePosixPath(path).parts for path in paths]
    tails: list[str] = []
    for own in parts:
        size = 1
        while size < len(own) and sum(each[-size:] == own[-size:] for each in parts) > 1:
            size += 1
        tails.append("/".join(own[-size:]))
    return list(dict.fromkeys(tails))


def find_decisions(entries: Sequence[Entry], said: str) -> Iterator[Found]:
    """Yield questions about what the user chose, and about reasons of the agent."""
    chosen = [each for entry in entries for each in _find_choices(entry, said)]
    reasons = [each for entry in entries for each in _find_reasons(entry, said)]
    yield from _spread(chosen)
    yield from _spread(reasons)


def _find_choices(entry: Entry, said: str) -> Iterator[Found]:
    if entry.who != "tool" or not OPTION.search(entry.text):
        return
    answer = entry.result
    places = [match.start() for match in ASKED.finditer(entry.text)] + [len(entry.text)]
    for start, end in pairwise(places):
        part = entry.text[start:end]
        asked = ASKED.match(part)
        options = [(label, why) for label, why in OPTION.findall(part) if label in answer]
        if asked and len(options) == 1:
            ((label, why),) = options
            keys = (make_key(label, said), make_key(why, said))
            text = (
                f'You asked the user: "{_short(asked[1])}" What did they choose, and what had been '
                f"said for it?"
            )
            if all(keys):
                yield Found("decision", text, keys, (label, why))


def _find_reasons(entry: Entry, said: str) -> Iterator[Found]:
    if entry.who != "agent":
        return
    for sentence in SENTENCE_END.split(entry.text):
        what, *why = BECAUSE.split(sentence, maxsplit=1)
        if why and len(what) > LINE // 10 and len(sentence) < LINE:
            key = make_key(why[0], said)
            if len(key) == WORDS:
                text = f'You wrote: "{what.strip()} because ..." What was the reason?'
                yield Found("decision", text, (key,), (why[0].strip(),))


def find_next(entries: Sequence[Entry], said: str) -> Iterator[Found]:
    """Yield a question about what is open in the last list of tasks."""
    lists = [at for at, each in enumerate(entries) if each.kind == "task"]
    if not lists or len(entries) - lists[-1] > STALE:
        return
    lines = tuple(OPEN.findall(entries[lists[-1]].text))
    keys = tuple(filter(None, (make_key(line, said) for line in lines)))
    if keys:
        text = "What is next? Name each open item of the newest list of tasks."
        yield Found("next", text, keys, lines)


def find_rules(entries: Sequence[Entry], said: str) -> Iterator[Found]:
    """Yield a question about what the user demanded and forbade."""
    lines = [
        sentence.strip()
        for entry in entries
        if entry.who == "user" and len(entry.text) < PASTED
        for sentence in SENTENCE_END.split(entry.text)
        if _is_rule(sentence.strip())
    ]
    kept = [(line, key) for line in dict.fromkeys(lines) if len(key := make_key(line, said)) > 1]
    if kept:
        told, keys = zip(*kept[-MAX_RULES:], strict=True)
        text = (
            f"What has the user demanded or forbidden so far, for all that is done? Quote the last "
            f"{len(told)} of such sentences."
        )
        yield Found("rules", text, keys, told)


def _is_rule(sentence: str) -> bool:
    """Tell whether a sentence demands or forbids; one with a mark such as `<` was pasted."""
    is_said = len(sentence) < LINE and not sentence.endswith("?") and "<" not in sentence
    return is_said and bool(RULE.search(sentence))


Maker = Callable[[Sequence[Entry], str], Iterable[Found]]
MAKERS: tuple[Maker, ...] = (find_errors, find_files, find_decisions, find_next, find_rules)


def _spread(found: Sequence[Found]) -> Sequence[Found]:
    """Return a few, from the whole session."""
    unique = list({each.text: each for each in found}.values())
    if len(unique) <= MAX_ASKED:
        return unique
    return [unique[at * (len(unique) - 1) // (MAX_ASKED - 1)] for at in range(MAX_ASKED)]


def _short(text: str) -> str:
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."
