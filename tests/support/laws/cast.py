"""Who takes part in the laws' conversations: an Actor with a plan, an Observer with moods, jobs.

Nothing here is left to chance, and nothing waits for time to pass: the Actor does what the user's
message carries as its plan, the Observer and the Reflector answer in the mood that they are in, and
a background job ends when it is let go.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from pydantic import Field, PrivateAttr

from langgraph_om import BackgroundBuffering
from langgraph_om.testing import ExtractiveReflector
from support.agents import live_request
from support.clock import Clock
from support.inside import Event, JobState, find_writer, hidden_id, load
from support.real_ids import Naming
from support.reasoning import thinking


class ActorDownError(ConnectionError):
    """The Actor's provider is away."""


def find_usable(answer: AIMessage, names: list[str]) -> Mapping[str, Any]:
    """The threads, by the ids that were asked about, of which an answer can be used."""
    from langgraph_om.core.observe.threads import parse_sections  # noqa: PLC0415

    is_cut = "finish_reason" in answer.response_metadata
    return parse_sections(answer.text, names, cut_off=is_cut).threads


class ProcessEnded(BaseException):
    """The process of a job is over."""


class TurnWithoutEnd(BaseException):
    """The models are asked again and again; no failure of theirs, which memory would take in."""


def words(label: str, count: int) -> str:
    """A text of so many words, each of them found nowhere else."""
    return " ".join(f"{label}:{at}" for at in range(count))


# --- The Actor -----------------------------------------------------------------------------------

CALLED = "laws-actor-called"
"""Type of the part that stands in the stream where the Actor is called."""


def request(number: int, size: int, naming: Naming, now: datetime, **plan: Any) -> HumanMessage:
    """What the user says, with what the Actor shall do about it.

    Args:
        number: Makes the message's label, and those of all that follows from it.
        size: Words of the message.
        naming: Makes ids of labels, and times.
        now: The current time.
        plan: `rounds`, per round of tool calls the words of each result, negative for a call that
            fails; `answer`, words of the answer; `falls_at`, the round in which the Actor's
            provider is away once.
    """
    label = f"u{number}"
    told = {"plan": {**plan, "label": label}, **naming.date(label, now)}
    key = naming.name(label, "human", now)
    return HumanMessage(words(label, size), id=key, additional_kwargs=told)


def label_of(message: BaseMessage) -> str:
    """The label in the first word of a message, which is found in its words only."""
    found = re.search(r"\bu\d[\w.]*", message.text)
    return found[0] if found else "message"


@tool
def look_up(
    size: int, label: str, key: str, tool_call_id: Annotated[str, InjectedToolCallId]
) -> ToolMessage:
    """Find so many words; a negative number is a failure."""
    return ToolMessage(
        words(label, abs(size)),
        tool_call_id=tool_call_id,
        name="look_up",
        id=key,
        status="error" if size < 0 else "success",
    )


class Actor(BaseChatModel):
    """Does what the live request plans, and keeps every prompt that it was given."""

    thinks: bool = False
    """Whether it answers in reasoning that is bound to the prompt."""
    naming: Naming = Naming()
    clock: Clock = Field(default_factory=Clock)
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _fallen: set[str] = PrivateAttr(default_factory=set)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "laws-actor"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self._prompts.append(list(messages))
        find_writer()({"type": CALLED})
        answer = self._next(messages)
        if self.thinks:
            answer.content = thinking(messages, answer.text)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        asked, now = live_request(messages), self.clock()
        plan = asked.additional_kwargs["plan"]
        rounds, mine = plan.get("rounds", []), f"{plan['label']}."
        ids = [
            [self.naming.name(f"{mine}{at}.{number}", "call", now) for number in range(len(sizes))]
            for at, sizes in enumerate(rounds)
        ]
        done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        at = max((at for at, calls in enumerate(ids) if done & set(calls)), default=-1) + 1
        if plan.get("falls_at") == at and asked.id not in self._fallen:
            self._fallen.add(str(asked.id))
            msg = "the Actor's provider is away"
            raise ActorDownError(msg)
        if at >= len(rounds):
            label = f"{mine}answer"
            return self._answer(label, words(label, plan.get("answer", 5)))
        calls = []
        for number, (size, key) in enumerate(zip(rounds[at], ids[at], strict=True)):
            label = f"{mine}{at}.{number}"
            result = self.naming.name(f"{label}.result", "tool", now)
            args = {"size": size, "label": label, "key": result}
            calls.append({"name": "look_up", "args": args, "id": key})
        return self._answer(f"{mine}{at}", "", tool_calls=calls)

    def _answer(self, label: str, text: str, **fields: Any) -> AIMessage:
        now = self.clock()
        key = self.naming.name(label, "ai", now)
        return AIMessage(text, id=key, response_metadata=self.naming.date(label, now), **fields)


# --- The Observer and the Reflector --------------------------------------------------------------

_DATE = "Date: Mar 2, 2026"
_DAYS = re.compile(r"^Date: [A-Z][a-z]{2} \d.*$", re.MULTILINE)


def _short(seen: str) -> str:
    return f"<observations>\n{_DATE}\n* 🔴 (09:00) Noted {_mark(seen)}\n</observations>"


def _long(seen: str) -> str:
    mark = _mark(seen)
    items = "\n".join(
        f"* 🟡 (09:0{at}) {mark} {words(f'{mark}.{at}', 7)}" for at in range(len(mark) // 2)
    )
    return (
        f"<observations>\n{_DATE}\n{items}\n</observations>\n"
        f"<current-task>Go on with {mark}</current-task>\n"
        f"<suggested-response>Say {mark}</suggested-response>"
    )


_SAID = re.compile(r"^User (#\d+)[^:]*: u\d+:0(?: u\d+:\d+){2,8}", re.MULTILINE)
_HELD = re.compile(r"^S\d+: ", re.MULTILINE)


def _orders(seen: str) -> str:
    """Notes with a standing instruction of the user; one that nobody gave, and an end likewise."""
    said = _SAID.search(seen)
    order = f"* 📌 (09:00) {said[1]} so it was said\n" if said else ""
    words = f"#9999 nobody ever said {_mark(seen)}"
    end = "* 📌 (09:01) #9999 ends S1\n" if _HELD.search(seen) else ""
    forged = f"* 📌 (09:01) {words}\n{end}"
    return (
        f"<observations>\n{_DATE}\n{order}{forged}* 🔴 (09:02) Noted {_mark(seen)}\n</observations>"
    )


def _two_days(seen: str) -> str:
    mark = _mark(seen)
    return (
        f"<observations>\nDate: Mar 1, 2026\n* 🔴 (09:00) Began {mark}\n\n"
        f"Date: Mar 2, 2026\n* ✅ (10:00) Ended {mark} <b>&amp; more</b> -> `x[0] < 3`\n"
        f"  * if a > b:\n    * return 1\n</observations>"
    )


def _day_by_day(seen: str) -> str:
    days = list(dict.fromkeys(_DAYS.findall(seen))) or [_DATE]
    items = [f"{day}\n* 🔴 (09:00) Noted {_mark(seen)} {at}" for at, day in enumerate(days)]
    text = "\n\n".join(items)
    return f"<observations>\n{text}\n</observations>"


def _cut(seen: str) -> AIMessage:
    text = f"<observations>\n{_DATE}\n* 🔴 (09:00) Noted {_mark(seen)}</observations>"
    return AIMessage(text, response_metadata={"finish_reason": "length"})


def _of_others(seen: str) -> str:
    return (
        f'<observations>\n<thread id="nobody">\n{_DATE}\n* 🔴 (09:00) Of somebody {_mark(seen)}\n'
        f"</thread>\n</observations>"
    )


def _fails(seen: str) -> str:
    msg = f"the model is down for {_mark(seen)}"
    raise RuntimeError(msg)


def _mark(seen: str) -> str:
    return hashlib.blake2b(seen.encode(), digest_size=4).hexdigest()


MOODS: dict[str, Callable[[str], str | AIMessage]] = {
    "short": _short,
    "long": _long,
    "orders": _orders,
    "two days": _two_days,
    "day by day": _day_by_day,
    "nothing": lambda seen: "<observations>(none)</observations>",
    "of others": _of_others,
    "empty": lambda seen: "",
    "prose": lambda seen: "Sure! It sounds like a wonderful trip. Anything else?",
    "loop": lambda seen: "<observations>\n" + "* 🔴 (09:00) again\n" * 300 + "</observations>",
    "cut": _cut,
    "fails": _fails,
}
"""What the Observer, or the Reflector, makes of what it is shown."""

SECTION_MOODS = ("leaves out", "wrong names", "unclosed", "twice", "breaks off")
"""What may be wrong with an answer about several threads; one about a single thread is short."""

HANGS = "hangs"
"""The mood in which no answer comes before the deadline."""
SILENT = ("nothing", "two days")
"""The moods in which no value is told."""
UNUSABLE = ("empty", "prose", "loop", "cut")
"""The moods in which an answer about one thread is thrown away as a whole."""
EXTRACTS = load("observer_values").split("{")[0]
"""How the question about values begins."""
CONDENSES = "condenses"
"""The Reflector's good mood."""


@dataclass
class Oracle:
    """The Observer's and the Reflector's model."""

    observer: str = "short"
    reflector: str = CONDENSES
    asked: list[str] = field(default_factory=list)
    """The operation of each call."""
    most: int = sys.maxsize
    """How many calls there may be, until the turn is taken for one without an end."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set once those that hang may end."""
    shown: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Per cycle, and thread where it is about several: the words of its usable questions."""
    landed: set[str] = field(default_factory=set)
    """The cycles that ended well, as the world was told."""
    read: dict[str, set[int]] = field(default_factory=dict)
    """Per mark in an answer, the requests about which the question was."""

    @property
    def hangs(self) -> bool:
        return HANGS in (self.observer, self.reflector)

    def model(self) -> RunnableLambda[Any, Any]:
        return RunnableLambda(self._answer, name="oracle")

    def _answer(self, messages: list[BaseMessage], config: RunnableConfig) -> AIMessage:
        if messages[-1].text.startswith(EXTRACTS):
            return self._extract(messages)
        operation = config.get("metadata", {})["om_operation"]
        self.asked.append(operation)
        if len(self.asked) > self.most:
            raise TurnWithoutEnd
        if self.hangs:
            self.over.wait(60)
        mood = self.observer if operation == "observation" else self.reflector
        if mood == CONDENSES:
            return AIMessage(ExtractiveReflector().reply(messages))
        seen = "\n".join(message.text for message in messages)
        sections = _sections(seen)
        cycle_id = config.get("metadata", {})["om_cycle_id"]
        asked = {(cycle_id, key): text for key, text in sections or [("", seen)]}
        for text in (seen, *(text for _, text in sections)):
            self.read[_mark(text)] = spoken(text)
        if sections and mood not in ("prose", "empty", "loop"):
            said: str | AIMessage = _in_sections(mood, sections)
        else:
            said = MOODS.get("short" if mood in SECTION_MOODS else mood, _fails)(seen)
        answer = said if isinstance(said, AIMessage) else AIMessage(said)
        if operation != "reflection" and not self.hangs:
            self._note_shown(asked, answer, is_usable=mood not in UNUSABLE)
        return answer

    def _note_shown(
        self, asked: Mapping[tuple[str, str], str], answer: AIMessage, *, is_usable: bool
    ) -> None:
        """Note the words of a question, or of those threads of which an answer can be used."""
        names = [name for _, name in asked if name]
        usable = find_usable(answer, names) if names else {}
        for part, text in asked.items():
            if part[1] in usable or (is_usable and not names):
                self.shown.setdefault(part, set()).update(words_in(text))

    def unread(self, words: set[str]) -> set[str]:
        """The words of a message that no cycle was shown, of the cycle that was shown most.

        What comes of one about other threads is theirs at once, whoever hears of it.
        """
        ended = (*self.landed, "others-")
        shown = ((key, seen) for (key, _), seen in self.shown.items() if key.startswith(ended))
        return min((words - seen for _, seen in shown), key=len, default=words)

    def _extract(self, messages: list[BaseMessage]) -> AIMessage:
        """Tell which requests were read, as far as the mood allows."""
        if self.observer in SILENT:
            return AIMessage("I do not know.")
        read = {f"u{number}": 1 for number in spoken("\n".join(m.text for m in messages[:-2]))}
        return AIMessage(json.dumps({"seen": {"read": read}}))


_LINES = re.MULTILINE | re.DOTALL


def words_in(text: str) -> set[str]:
    """The words that somebody said, and the labels of calls; an edited message has one word."""
    return set(
        re.findall(r'\b(?:u\d[\w.]*|edited):\d+|(?<="label":)"[^"]+"', text.replace(": ", ":"))
    )


def words_of(message: BaseMessage) -> set[str]:
    """The same of a message."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return words_in(message.text) | {f'"{call["args"]["label"]}"' for call in calls}


def spoken(text: str) -> set[int]:
    """The numbers of the requests from whose turns a text has words."""
    return set(map(int, re.findall(r"\bu(\d+)[\w.]*:\d", text)))


def _sections(seen: str) -> list[tuple[str, str]]:
    """Id and text of each thread that a question is about; none for a single thread's."""
    found = re.findall(
        r"^<(conversation|observation-log)>$\n(.*?)\n</\1>$", seen, re.MULTILINE | re.DOTALL
    )
    if not found:
        return []
    pattern = r'^<thread id="([^"]*)">\n(.*?)\n</thread>$'
    return [(key, text) for key, text in re.findall(pattern, found[-1][1], _LINES)]


def _in_sections(mood: str, sections: Sequence[tuple[str, str]]) -> str | AIMessage:
    """Answer about several threads, with a section for each; the mood tells what goes wrong."""
    each = MOODS.get("short" if mood in (*SECTION_MOODS, "cut") else mood, _fails)
    parts = [f'<thread id="{key}">\n{each(text)}\n</thread>' for key, text in sections]
    if mood == "leaves out":
        parts = parts[1:]
    elif mood == "wrong names":
        nobody, own = (f'<thread id="{key}">' for key in ("nobody", hidden_id("a")))
        parts = [re.sub("<thread id=.*>", nobody, parts[0]), *parts[1:]]
        parts.append(re.sub("<thread id=.*>", own, parts[0]))
    elif mood == "unclosed":
        parts[0] = parts[0].removesuffix("\n</thread>")
    elif mood == "twice":
        parts.append(parts[0])
    elif mood in ("cut", "breaks off"):
        kept = len(parts) - 1 if mood == "cut" else 1
        text = "\n".join([*parts[:kept], sections[-1][0].join(('<thread id="', '">\n<obs'))])
        return AIMessage(text, response_metadata={"finish_reason": "length"})
    return "\n".join(parts)


# --- Background jobs -----------------------------------------------------------------------------


@dataclass(eq=False)
class Held:
    """A background job that waits to be let go."""

    cycle_id: str
    thread_id: str
    arrived: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    is_dead: bool = False

    def run(self, work: Callable[[], Event]) -> Event:
        self.arrived.set()
        self.go.wait()
        if self.is_dead:
            raise ProcessEnded
        return work()


class HeldBuffering(BackgroundBuffering):
    """Background jobs that end when the test says so, and a turn's wait for them that does too."""

    def __init__(self, gates: list[HeldBuffering], oracle: Oracle) -> None:
        super().__init__(workers=32, exit_timeout=0)
        self.jobs: dict[str, Held] = {}
        self.is_patient = True
        """Whether a turn that waits for a job sees its end."""
        self._gates, self._oracle = gates, oracle
        gates.append(self)

    def submit(self, cycle_id: str, key: str, work: Callable[[], Event], **whose: Any) -> bool:
        job = Held(cycle_id, whose.get("thread_id", ""))
        if self._known(cycle_id) != "running":
            self.jobs[cycle_id] = job
        is_taken = super().submit(cycle_id, key, partial(job.run, work), **whose)
        if not self.is_patient:  # forks are compared: each hears alike what the archive knows of it
            self.settle()
        return is_taken

    def _known(self, cycle_id: str) -> Any:
        """What this process knows of a job, without the archive."""
        job = self._jobs.get(cycle_id)
        return job and ("running" if job.result is None else job.result)

    def settle(self) -> None:
        """Wait until every job has come to where it is held, or is another worker's."""
        for job in list(self.jobs.values()):
            while not job.arrived.wait(0.001) and self._known(job.cycle_id) == "running":
                pass

    def held(self) -> list[Held]:
        """Jobs that can be let go."""
        self.settle()
        return [
            job
            for key, job in sorted(self.jobs.items())
            if job.arrived.is_set() and not job.go.is_set() and self._known(key) == "running"
        ]

    def let_go(self, job: Held) -> None:
        """Let a job run to its end."""
        job.go.set()
        super().wait(job.cycle_id, 60)

    def die(self) -> None:
        """End the process: whatever is at work comes to nothing."""
        for job in self.jobs.values():
            job.is_dead = True
            job.go.set()
        self.flush(60)

    def wait(self, cycle_id: str, timeout: float) -> JobState:
        """Wait for a job without any time passing."""
        for gate in self._gates:
            for job in gate.held():
                if job.cycle_id != cycle_id:
                    continue
                if not self.is_patient or self._oracle.hangs:
                    return "running"
                gate.let_go(job)
        return self.peek(cycle_id)
