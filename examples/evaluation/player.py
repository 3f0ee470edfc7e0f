"""A player without a model: it knows what should be done, but only what its prompt tells it.

The player has the ground truth of each part as its plan. All that the plan needs (the request, the
rules, values, what is already done) it has to read in its prompt; where that is missing, it does as
a model would: it asks, guesses, leaves the rule out or makes the call again. So a run with it shows
what is *readable* in the prompts of a memory, which is the most that a model could get right. It is
no model's score.

`write_summary` plays the model that summarises, as the doubles of `langgraph_om.testing` play the
Observer and the Reflector.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from evaluation.memories import WORDS_PER_TOKEN
from evaluation.shifts import SIGN_OFF, Call, Part, Shift, Step, Task
from langgraph_om import EstimatingCounter
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, check_message_sequence

NAME = "readable"
ASKS = "What should I do now?"
"""The answer of a player that does not find the request."""
UNKNOWN = "unknown"
PATIENCE = 2
"""How often a call is made again whose result does not show, until the player goes on without."""
LONG = 80
"""Characters from which on the beginning and the end of a text stand for it."""
QUOTED = 5
"""Words in a row by which a note is of a request."""
REFERENCE = re.compile(r"always set reference to (\w+-\w+)")
HISTORY_FILE = re.compile(r"(/\S+\.md)\b")


class RefusedPromptError(Exception):
    """A provider would refuse the prompt."""


@lru_cache(maxsize=64)
def plain(text: str) -> str:
    """Return a text in small letters, one space between its words and numbers."""
    return f" {' '.join(re.findall(r'[a-z0-9_.@#-]*[a-z0-9_]', text.lower()))} "


def shows(text: str, value: object) -> bool:
    """Tell whether a text, made plain, shows a value: a number, a word or a whole text."""
    if isinstance(value, bool) or value in ("", None):
        return True
    if isinstance(value, float) and value.is_integer():
        return any(plain(each) in text for each in (str(value), str(int(value))))
    if isinstance(value, list | tuple):
        return all(shows(text, each) for each in value)
    if isinstance(value, Mapping):
        return all(shows(text, each) for each in value.values())
    written = plain(str(value))
    if len(written) > LONG:
        return plain(written[: LONG // 2].rpartition(" ")[0]) in text
    return written in text or not written.strip()


@dataclass(slots=True)
class Reading:
    """What a prompt shows."""

    text: str
    """All of it, made plain."""
    notes: list[str]
    """The lines of what is remembered, without the messages that stand beside it."""
    statements: list[str]
    """The lines of all that was said or noted, without calls and results."""
    calls: Counter[str]
    """Calls behind the request, as they stand there."""
    has_request: bool


def read_prompt(prompt: Sequence[BaseMessage], part: Part) -> Reading:
    """Read a prompt in the part that is played."""
    said = [message.text for message in prompt]
    start = max(
        (
            at
            for at, each in enumerate(prompt)
            if each.type == "human" and part.heading in each.text
        ),
        default=-1,
    )
    written = [
        f"{call['name']} {json.dumps(call['args'])}"
        for message in prompt
        for call in (message.tool_calls if isinstance(message, AIMessage) else ())
    ]
    is_note = [message.type == "system" or not _is_part(message) for message in prompt]
    return Reading(
        text=plain("\n".join([*said, *written])),
        notes=[
            line
            for text, message, noted in zip(said, prompt, is_note, strict=True)
            if noted and message.type in {"system", "human"}
            for line in text.split("\n")
        ],
        statements=[
            line
            for text, message in zip(said, prompt, strict=True)
            if message.type in {"system", "human"}
            for line in text.split("\n")
        ],
        calls=Counter(
            write_call(call["name"], call["args"])
            for message in prompt[start + 1 :]
            for call in (message.tool_calls if isinstance(message, AIMessage) else ())
        ),
        has_request=any(part.heading in text for text in said),
    )


def _is_part(message: BaseMessage) -> bool:
    return message.text.startswith("Task ")


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call so that equal ones are equal, whatever its reference."""
    told = {key: value for key, value in arguments.items() if key != "reference"}
    return json.dumps([name, told], sort_keys=True, default=str)


@dataclass
class Player:
    """Plays the Actor in one shift."""

    shift: Shift
    looks_up: str = ""
    """The tool of memory that it has: `recall`, `grep`, or none."""
    made: Counter[str] = field(default_factory=Counter)
    """Calls of earlier parts."""
    part: Part | None = None
    task: Task | None = None

    def __post_init__(self) -> None:
        self._results: list[tuple[Call, str]] = []

    def start(self, task: Task, part: Part) -> None:
        """Begin a part."""
        self.task, self.part = task, part
        self._heard = plain("\n".join(each.text for each in task.parts[: part.number]))
        if part.number == 1:
            self._results.clear()
        self._tried: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._guessed: dict[str, Call] = {}
        self._said = 0

    def hear(self, call: Call, result: str) -> None:
        """Take note of a result: what was never shown can not be missing."""
        self._results.append((call, result))
        self._now[write_call(call["name"], call["arguments"])] += 1

    def end(self) -> None:
        """End a part."""
        self.made += self._now

    def reply(self, prompt: list[BaseMessage]) -> AIMessage:
        """Return the next calls or the answer, from what the prompt shows.

        Raises:
            RefusedPromptError: When a provider would refuse the prompt.
        """
        problems = check_message_sequence(prompt, "openai")
        if problems:
            raise RefusedPromptError(problems[0])
        assert self.part  # noqa: S101 a run starts each part
        self._said += 1
        said = self._go_on(prompt)
        # An id that is made at random would tell the time of today, not of the shift.
        said.id = f"answer-{self.part.task}-{self.part.number}-{self._said}"
        return said

    def _go_on(self, prompt: list[BaseMessage]) -> AIMessage:
        assert self.part and self.task  # noqa: S101, PT018
        reading = read_prompt(prompt, self.part)
        if not reading.has_request:
            return AIMessage(ASKS)
        needed: Counter[str] = Counter()
        for step in self._plan():
            call = self._obey(step, reading)
            if call is None:
                continue
            key = write_call(call["name"], call["arguments"])
            needed[key] += 1
            if self._is_done(call, key, needed[key], reading):
                continue
            return self._say(self._find(call, step, reading))
        is_last = self.part is self.task.parts[-1]
        told = [f"Done: {self.part.heading.lower()}."]
        if is_last and any(SIGN_OFF in line for line in reading.statements):
            told.append(SIGN_OFF)
        return AIMessage(" ".join(told))

    def _say(self, call: Call) -> AIMessage:
        assert self.part  # noqa: S101
        key = f"call-{self.part.task}-{self.part.number}-{self._said}"
        return AIMessage(
            "", tool_calls=[{"name": call["name"], "args": call["arguments"], "id": key}]
        )

    # --- Rules -----------------------------------------------------------------------------------

    def _plan(self) -> Iterator[Step]:
        """Yield the steps of the part, and the approvals that the prompt asks for in vain."""
        assert self.part and self.task  # noqa: S101, PT018
        guarded = self.shift.simulator.guarded
        for step in self.part.steps:
            if self.task.is_free and step.call["name"] == guarded:
                asked = {"name": "ask_approval", "arguments": {"call": guarded}}
                yield Step(asked, "rule", rule="approval")
            yield step

    def _obey(self, step: Step, reading: Reading) -> Call | None:
        """Return the call of a step by the rules that the prompt tells; none: it is not made."""
        rules = self.shift.simulator
        call = step.call
        if step.rule == "order":
            return call if _last(reading, rules.look, f"before {rules.guarded}") else None
        if step.rule == "approval":
            return call if self._wants_approval(reading) else None
        if step.rule == "forbidden" and not _last(reading, f"never call {rules.forbidden}"):
            return self._forbidden(reading)
        if call["name"] == rules.guarded:
            found = [match for line in reading.statements for match in REFERENCE.findall(line)]
            if found:
                return {**call, "arguments": {**call["arguments"], "reference": found[-1]}}
        return call

    def _wants_approval(self, reading: Reading) -> bool:
        told = [line for line in reading.statements if "ask_approval" in line]
        ruling = [line for line in told if "before" in line or "no longer" in line]
        return bool(ruling) and "no longer" not in ruling[-1]

    def _forbidden(self, reading: Reading) -> Call:
        """Make the call itself, with the newest values that could be meant."""
        name = self.shift.simulator.forbidden
        tool = next(each for each in self.shift.tools if each["name"] == name)
        wanted = tool["parameters"].get("required", [])
        arguments = {}
        for key in wanted:
            found = re.findall(rf" {key} ([\w.-]+)", reading.text)
            value = found[-1] if found else UNKNOWN
            kind = tool["parameters"]["properties"][key].get("type")
            is_number = kind in {"integer", "number"} and value.isdigit()
            arguments[key] = int(value) if is_number else value
        return {"name": name, "arguments": arguments}

    # --- What is done ----------------------------------------------------------------------------

    def _is_done(self, call: Call, key: str, times: int, reading: Reading) -> bool:
        """Tell whether the prompt shows that a call of this part was made so many times."""
        made = self._guessed.get(key, call)
        key = write_call(made["name"], made["arguments"])
        shown = reading.calls[key]
        if shown >= times or self._now[key] >= times + PATIENCE:
            return True
        if not self._now[key]:
            return False
        assert self.part  # noqa: S101
        noted = [at for at, line in enumerate(reading.notes) if _notes(line, made)]
        start = _find_start(reading.notes, self.part)
        behind = sum(at > start for at in noted)
        return max(behind, len(noted) - self.made[key]) + shown >= times

    # --- Values ----------------------------------------------------------------------------------

    def _find(self, call: Call, step: Step, reading: Reading) -> Call:
        """Return the call, or one that finds a value which the prompt does not show."""
        arguments = dict(call["arguments"])
        for key, value in arguments.items():
            if key == "reference" or not self._is_missing(value, step, reading):
                continue
            search = self._search(call, key, step, reading)
            if search:
                return search
            again = self._source(value)
            if again:
                return again
            arguments[key] = UNKNOWN if isinstance(value, str) else type(value)()
        made = {"name": call["name"], "arguments": arguments}
        self._guessed[write_call(call["name"], call["arguments"])] = made
        return made

    def _is_missing(self, value: object, step: Step, reading: Reading) -> bool:
        if shows(reading.text, value):
            return False
        # What nobody said or found the player works out, as a model does.
        # The handbook has so many numbers that some are the right ones by chance.
        found = (each for each in self._results if each[0]["name"] != "read_handbook")
        results = (result for _, result in found)
        was_told = shows(self._heard, value) or any(shows(plain(each), value) for each in results)
        return bool(step.fact) or was_told

    def _search(self, call: Call, key: str, step: Step, reading: Reading) -> Call | None:
        """Return a call of memory's tool, as long as the player has patience."""
        about = SUBJECTS.get(step.fact) or f"{call['name']} {key}"
        query = about.format(task=self.part.task if self.part else "").replace("_", " ")
        if not self.looks_up or self._tried[query] >= PATIENCE:
            return None
        self._tried[query] += 1
        if self.looks_up == "recall":
            return {"name": "recall", "arguments": {"mode": "search", "query": query}}
        path = HISTORY_FILE.findall("\n".join(reading.notes))
        if not path:
            return None
        found = {"pattern": query, "path": path[-1], "output_mode": "content"}
        return {"name": "grep", "arguments": found}

    def _source(self, value: object) -> Call | None:
        """Return the call that told a value, where making it again changes nothing."""
        assert self.task  # noqa: S101
        reads = [
            write_call(step.call["name"], step.call["arguments"])
            for part in self.task.parts
            for step in part.steps
            if not step.changes and step.call["name"] != "read_handbook"
        ]
        for call, result in reversed(self._results):
            key = write_call(call["name"], call["arguments"])
            if key in reads and not self._tried[key] and shows(plain(result), value):
                self._tried[key] += 1
                return call
        return None


SUBJECTS = {
    "said first": "report of task {task}",
    "said second": "report of task {task}",
    "told by a result": "report of task 3",
    "in the handbook": "code for late reports",
}
"""What to look for when a fact is missing: the user's words for it."""


def _last(reading: Reading, *words: str) -> bool:
    """Tell whether a line has all of these."""
    low = [word.lower() for word in words]
    return any(all(word in line.lower() for word in low) for line in reading.statements)


def _notes(line: str, call: Call) -> bool:
    """Tell whether a note says that a call was made, with as much of its arguments as it quotes."""
    _, found, rest = line.partition(f"called {call['name']}")
    if not found:
        return False
    values = [value for key, value in call["arguments"].items() if key != "reference"]
    shown = plain(rest)
    return all(shows(shown, value) for value in (values[:1] if "…" in rest else values))


def _find_start(notes: Sequence[str], part: Part) -> int:
    """Return the first note of a part: the one with its heading, or the last that quotes it."""
    headed = [at for at, line in enumerate(notes) if plain(part.heading) in plain(line)]
    quoted = [at for at, line in enumerate(notes) if _quotes(line, part.text)]
    return headed[0] if headed else quoted[-1] if quoted else len(notes)


def _quotes(line: str, request: str) -> bool:
    words, text = plain(line).split(), plain(request)
    runs = (f" {' '.join(words[at : at + QUOTED])} " for at in range(len(words) - QUOTED + 1))
    return any(run in text for run in runs)


# --- A summariser --------------------------------------------------------------------------------

MESSAGE = re.compile(r'<message type="(\w+)"[^>]{0,200}>(.*?)</message>', re.DOTALL)
CONTENT = re.compile(r"<content>(.*?)</content>", re.DOTALL)
TOOL_CALL = re.compile(r'<tool_call [^>]{0,200}name="([^"]*)">(.*?)</tool_call>', re.DOTALL)
NOTE = re.compile(r"^ {0,2}\* .*$", re.MULTILINE)
LIMIT = re.compile(r"Write at most (\d+) words\.")
SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool result tool"}
CURRENT = "* Current request: "
MARK = "📌"
ROOM = 2000
"""Tokens of a summary where no limit is told."""


def write_summary(prompt: list[BaseMessage]) -> str:
    """Return a summary that notes what the Observer's double would, and is condensed as its log.

    Standing instructions and the newest request are quoted in full and stay, which is what memory
    does with them. So the arms differ in when a model is asked, what it is shown and what becomes
    of its answer, and not in how well it writes.
    """
    text = prompt[-1].text
    limit = LIMIT.search(text)
    room = int(int(limit[1]) / WORDS_PER_TOKEN) if limit else ROOM
    said = list(_read_messages(text.rpartition("\n<messages>\n")[2]))
    transcript = "\n".join(
        f"{f'{who} #{at}' if who == 'User' else who}: {_indent(what)}"
        for at, (who, what, is_summary) in enumerate(said, 1)
        if not is_summary
    )
    block = f"{MARK}\n<conversation>\n{transcript}\n</conversation>"
    former = [note for _, what, is_summary in said if is_summary for note in NOTE.findall(what)]
    open_request = [note for note in former if note.startswith(CURRENT)][-1:]
    former = [note for note in former if not note.startswith(CURRENT)]
    notes = [*former, *NOTE.findall(ExtractiveObserver().reply([HumanMessage(block)]))]
    requests = [what for who, what, is_summary in said if who == "User" and not is_summary]
    asked = [f"{CURRENT}{' '.join(requests[-1].split())}"] if requests else open_request
    rules = [note for note in notes if MARK in note]
    others = [note for note in notes if MARK not in note]
    left = room - _count("\n".join([*rules, *asked]))
    return "\n".join([*rules, *_condense(others, left), *asked]) or "* nothing"


def _read_messages(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield who said what, and whether it is a summary of earlier messages."""
    for kind, body in MESSAGE.findall(text):
        content = CONTENT.search(body)
        calls = TOOL_CALL.findall(body)
        said = unescape(content[1] if content else "" if calls else body).strip()
        if said:
            is_summary = kind == "human" and "* " in said and not said.startswith("Task ")
            yield SPEAKERS[kind], said, is_summary
        for name, arguments in calls:
            yield f"Tool call {name}", unescape(arguments), False


def _condense(notes: Sequence[str], room: int) -> list[str]:
    text = "\n".join(notes)
    size = _count(text)
    if size <= room:
        return list(notes)
    if room <= 0:
        return []
    log = HumanMessage(f"<observation-log>\n{text}\n</observation-log>")
    return NOTE.findall(ExtractiveReflector(ratio=min(0.99, room / size)).reply([log]))


def _count(text: str) -> int:
    return EstimatingCounter().count_text(text)


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
