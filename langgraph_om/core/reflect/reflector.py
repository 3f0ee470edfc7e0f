"""Have the Reflector write the log anew, in fewer tokens, and take the best answer.

`reflect` is a flow like `observe`. The question names the size that is
wanted. An answer that misses it, or cannot be read, is shown again with what is wrong; the first
one that is small enough is taken, else the smallest valid one that is smaller than the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.config.settings import NO_FEATURES, Features
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.observe.observer import build_failure, render_output_format, render_rules
from langgraph_om.core.observe.parse_answer import Parsed, parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.groups import collect_ranges
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError

# Render the log for the Reflector, and make groups of what it wrote.
#
# The log is a list of immutable groups; text exists only on the way to a model. A reflection is
# tied to its sources by date: each section of the new text replaces the groups of its days, so
# that every covered range of messages stays in exactly one group. A group keeps the ranges of its
# sources apart, so that each still leads to few messages.


def regroup(
    sources: Sequence[Group],
    text: str,
    *,
    cycle_id: str,
    reflected_at: str,
    counter: TokenCounter,
) -> list[Group]:
    """Return groups with a reflection's text that together cover what its sources covered.

    The text is split at its date headings. A source belongs to the last section whose day is not
    after the source's own last day; a section without a source joins the next one that has one.
    A text without days, or with days that are not in order, becomes one group over everything.

    Args:
        sources: The groups that were read, in log order.
        text: What the Reflector wrote.
        cycle_id: Id of the cycle; the groups' ids are derived from it.
        reflected_at: ISO time.
        counter: What counts tokens.
    """
    sections = _split_sections(text)
    days = [section.day for section in sections]
    known = [day for day in days if day is not None]
    if not known or len(known) != len(days) or known != sorted(known):
        sections, known = [_DaySection(None, text)], []
    shares = _assign_sources(sources, known) if known else [list(sources)]
    groups: list[Group] = []
    carried = ""
    for section, share in zip(sections, shares, strict=True):
        carried = f"{carried}\n{section.text}" if carried else section.text
        if not share:
            continue
        groups.append(
            {
                "id": derive_id("group", cycle_id, len(groups)),
                "kind": "reflection",
                "ranges": collect_ranges(share),
                "thread_id": share[0]["thread_id"],
                "observed_at": reflected_at,
                "text": carried,
                "tokens": counter.count_text(carried),
            }
        )
        carried = ""
    if carried:
        last = groups[-1]
        joined = f"{last['text']}\n{carried}"
        groups[-1] = {**last, "text": joined, "tokens": counter.count_text(joined)}
    return groups


# --- Sections and their sources ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DaySection:
    day: date | None
    text: str


def _split_sections(text: str) -> list[_DaySection]:
    """Split a text before each date heading of a new day."""
    sections: list[_DaySection] = []
    lines: list[str] = []
    day: date | None = None
    for line in text.split("\n"):
        found = observation_date(line)
        if found is not None and found != day:
            if any(map(str.strip, lines)):
                sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
            lines, day = [], found
        lines.append(line)
    if any(map(str.strip, lines)):
        sections.append(_DaySection(day, "\n".join(lines).strip("\n")))
    return sections


def _assign_sources(sources: Sequence[Group], days: Sequence[date]) -> list[list[Group]]:
    """Assign each source to a section, never an earlier one than that of the source before it."""
    shares: list[list[Group]] = [[] for _ in days]
    earliest = 0
    for source in sources:
        own = [day for line in source["text"].split("\n") if (day := observation_date(line))]
        place = bisect_right(days, own[-1]) - 1 if own else earliest
        earliest = max(earliest, place)
        shares[earliest].append(source)
    return shares


MAX_QUESTIONS: Final = 3
"""A reflection asks no more often."""

_TOLERANCE: Final = 1.03


def is_small_enough(tokens: int, target: int) -> bool:
    """Return whether a log is dense enough: another question is not worth less than 3 %."""
    return tokens < target * _TOLERANCE


@dataclass(frozen=True, slots=True)
class ReflectorInput:
    """All that the Reflector is given about the log of one thread."""

    log: str
    tokens: int
    """Tokens of the log; an answer has to have fewer."""
    target: int
    """Tokens to stay under."""
    instruction: str | None = None
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""
    features: Features = NO_FEATURES
    """Those that tell of hints."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A valid answer that is smaller than the log it condenses."""

    text: str
    tokens: int
    hints: Mapping[str, str] = field(default_factory=dict)


class Wanted(Protocol):
    """What is wanted of a condensed log."""

    @property
    def target(self) -> int:
        """Tokens to stay under."""

    @property
    def instruction(self) -> str | None:
        """Of the user."""

    @property
    def prompt(self) -> str:
        """Which of the Observer's prompts wrote the log."""

    @property
    def features(self) -> Features:
        """Those that tell of hints."""


class Condensed(Protocol):
    """What of an answer takes the place of what was read."""

    @property
    def tokens(self) -> int:
        """Tokens of all that was read, with what is new in place."""


ResultT = TypeVar("ResultT", bound=Condensed)


@dataclass(frozen=True, slots=True)
class Attempt(Generic[ResultT]):
    """What one answer comes to."""

    result: ResultT | None = None
    """`None` for one that cannot be used."""
    problem: str = ""
    is_shown: bool = False
    """Whether the next question shows the answer again."""


def reflect(
    request: ReflectorInput, counter: TokenCounter, *, questions: int = MAX_QUESTIONS
) -> Flow[Reflection]:
    """Ask the Reflector until an answer is small enough, and return the best one.

    Raises:
        ObserverError: When no answer is valid and smaller than the log.
    """
    messages = build_question(request, "reflector_task", escape(request.log), request.tokens)
    read = partial(_read_answer, request, counter)
    return (yield from ask_reflector(messages, read, request.target, questions))


def ask_reflector(
    messages: Sequence[BaseMessage],
    read: Callable[[ModelReply], Attempt[ResultT]],
    target: int,
    questions: int,
) -> Flow[ResultT]:
    """Ask until an answer is small enough, and return the best one.

    Args:
        messages: The question.
        read: Says what an answer comes to.
        target: Tokens to stay under.
        questions: How often it is asked at most.

    Raises:
        ObserverError: When no answer is of use.
    """
    best: ResultT | None = None
    problem = ""
    added: list[BaseMessage] = []
    for _ in range(questions):
        reply = yield AskModel("reflector", [*messages, *added])
        if reply.error is not None:
            if best is None:
                raise build_failure(reply.error, "Reflector") from reply.error
            break
        attempt = read(reply)
        result, problem = attempt.result, attempt.problem
        if result is not None and (best is None or result.tokens < best.tokens):
            best = result
        if best is not None and is_small_enough(best.tokens, target):
            break
        if result is not None:
            problem = _describe_excess(result.tokens, target)
        is_shown = result is not None or attempt.is_shown
        added = [AIMessage(sanitize(reply.text))] if is_shown else []
        added.append(HumanMessage(fill("reflector_retry", problem=_write_sentence(problem))))
    if best is None:
        times = f"{questions} attempts" if questions > 1 else "1 attempt"
        msg = f"the Reflector gave no usable answer in {times}: {problem}"
        raise ObserverError(msg)
    return best


def _describe_excess(tokens: int, target: int) -> str:
    over = tokens - target + 1
    return f"it has {tokens} tokens, {over} too many: fewer than {target} are needed"


def _write_sentence(problem: str) -> str:
    return f"{problem[:1].upper()}{problem[1:]}".rstrip(".") + "."


# --- One thread ----------------------------------------------------------------------------------


def _read_answer(
    request: ReflectorInput, counter: TokenCounter, reply: ModelReply
) -> Attempt[Reflection]:
    parsed = parse_output(reply.text, cut_off=reply.cut_off)
    if parsed.status != "ok":
        return Attempt(None, _describe_problem(parsed), parsed.status == "malformed")
    tokens = counter.count_text(parsed.observations)
    if tokens >= request.tokens:
        problem = f"it has {tokens} tokens, the log it replaces {request.tokens}"
        wanted = f"fewer than {request.target} are needed"
        return Attempt(None, f"{problem}; {wanted}", is_shown=True)
    return Attempt(Reflection(parsed.observations, tokens, parsed.hints))


def _describe_problem(parsed: Parsed) -> str:
    if parsed.status == "none":
        return "it leaves nothing of the log"
    return f"it is {parsed.status}: {parsed.problem}"


# --- Both ----------------------------------------------------------------------------------------


def build_question(request: Wanted, task: str, log: str, tokens: int) -> list[BaseMessage]:
    """Return the question to the Reflector.

    Args:
        request: What it is given.
        task: The name of the prompt that contains the log.
        log: The log, its tags escaped.
        tokens: Tokens of the log.
    """
    system = fill(
        "reflector",
        output_format=render_output_format(request.features, "reflector"),
        observer_rules=render_rules(request.prompt),
        custom=request.instruction or "",
    )
    target = str(request.target)
    question = fill(task, observations=log, log_tokens=str(tokens), target_tokens=target)
    return [SystemMessage(system), HumanMessage(question)]
