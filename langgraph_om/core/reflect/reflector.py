"""Have the Reflector edit the log, or write it anew, in fewer tokens.

Flows like `observe`. An edit leaves what it does not name as it is: each question shows the log as
it stands, with numbers of its own, and says how many tokens are still to go. What was achieved
stays. Where the log is written anew, the question names the size that is wanted. An answer that
misses it, or cannot be read, is shown again with what is wrong; the first one that is small enough
is taken, else the smallest valid one that is smaller than the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.config.settings import NO_FEATURES
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.effects import AskModel, Flow, ModelReply
from langgraph_om.core.items import LineSpan, replace_spans
from langgraph_om.core.observe.observer import (
    build_failure,
    render_output_format,
    render_rules,
    write_hints,
)
from langgraph_om.core.observe.parse_answer import parse_output
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.record import collect_ranges, collect_sources
from langgraph_om.core.reflect.edits import (
    CheckedEdits,
    Division,
    Item,
    check_edits,
    number_items,
    pair_spans,
    parse_edits,
    render_items,
)
from langgraph_om.core.tokens.counter import TokenCounter, count_messages
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
        cycle_id: Id of the cycle; the groups' ids are derived from it.
    """
    sections = _split_sections(text)
    known = [day for day, _ in sections if day is not None]
    if not known or len(known) != len(sections) or known != sorted(known):
        sections, known = [(None, text)], []
    shares = _assign_sources(sources, known) if known else [list(sources)]
    groups: list[Group] = []
    carried = ""
    for (_, said), share in zip(sections, shares, strict=True):
        carried = f"{carried}\n{said}" if carried else said
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


def _split_sections(text: str) -> list[tuple[date | None, str]]:
    sections: list[tuple[date | None, list[str]]] = [(None, [])]
    for line in text.split("\n"):
        day = observation_date(line)
        if day is not None and day != sections[-1][0]:
            sections.append((day, []))
        sections[-1][1].append(line)
    texts = ((day, "\n".join(lines).strip("\n")) for day, lines in sections)
    return [(day, said) for day, said in texts if said.strip()]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedLog:
    """What is wanted of a condensed log."""

    target: int
    """Tokens to stay under."""
    instruction: str | None = None
    """Of the user."""
    prompt: str = "default"
    """Which of the Observer's prompts wrote the log."""


@dataclass(frozen=True, slots=True)
class ReflectorInput(WantedLog):
    """All that the Reflector is given about the log of one thread."""

    log: str
    tokens: int
    """Tokens of the log; an answer has to have fewer."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A valid answer that is smaller than the log it condenses."""

    text: str
    tokens: int


class CondensedLog(Protocol):
    """What of an answer takes the place of what was read."""

    @property
    def tokens(self) -> int:
        """Tokens of all that was read, with what is new in place."""


ResultT = TypeVar("ResultT", bound=CondensedLog)


@dataclass(frozen=True, slots=True)
class Trial(Generic[ResultT]):
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
    read: Callable[[ModelReply], Trial[ResultT]],
    target: int,
    questions: int,
) -> Flow[ResultT]:
    """Ask until an answer is small enough, and return the best one.

    Args:
        target: Tokens to stay under.

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
                raise build_failure(reply, "Reflector") from reply.error
            break
        attempt = read(reply)
        result, problem = attempt.result, attempt.problem
        if result is not None and (best is None or result.tokens < best.tokens):
            best = result
        if best is not None and is_small_enough(best.tokens, target):
            break
        if result is not None:
            over = result.tokens - target + 1
            problem = (
                f"it has {result.tokens} tokens, {over} too many: fewer than {target} are needed"
            )
        is_shown = result is not None or attempt.is_shown
        added = [AIMessage(sanitize(reply.text))] if is_shown else []
        said = f"{problem[:1].upper()}{problem[1:]}".rstrip(".") + "."
        added.append(HumanMessage(fill("reflector_retry", problem=said)))
    if best is None:
        times = f"{questions} attempts" if questions > 1 else "1 attempt"
        msg = f"the Reflector gave no usable answer in {times}: {problem}"
        raise ObserverError(msg)
    return best


# --- One thread ----------------------------------------------------------------------------------


def _read_answer(
    request: ReflectorInput, counter: TokenCounter, reply: ModelReply
) -> Trial[Reflection]:
    parsed = parse_output(reply.text, cut_off=reply.cut_off)
    if parsed.status != "ok":
        problem = f"it is {parsed.status}: {parsed.problem}"
        if parsed.status == "none":
            problem = "it leaves nothing of the log"
        return Trial(None, problem, parsed.status == "malformed")
    tokens = counter.count_text(parsed.observations)
    if tokens >= request.tokens:
        problem = f"it has {tokens} tokens, the log it replaces {request.tokens}"
        wanted = f"fewer than {request.target} are needed"
        return Trial(None, f"{problem}; {wanted}", is_shown=True)
    return Trial(Reflection(parsed.observations, tokens))


# --- Both ----------------------------------------------------------------------------------------


def build_question(request: WantedLog, task: str, log: str, tokens: int) -> list[BaseMessage]:
    """Return the question to the Reflector.

    Args:
        task: The name of the prompt that contains the log.
        log: The log, its tags escaped.
    """
    system = fill(
        "reflector",
        output_format=render_output_format(NO_FEATURES, held=""),
        observer_rules=render_rules(request.prompt),
        custom=request.instruction or "",
    )
    target = str(request.target)
    question = fill(task, observations=log, log_tokens=str(tokens), target_tokens=target)
    return [SystemMessage(system), HumanMessage(question)]


# Put checked edits into the log: what they do not name stays byte for byte.
#
# Joined items stand where the last of them stood, and its group names the ranges of all of them.
# A group never goes: where all of its items are gone it keeps its ranges with an empty text.


@dataclass
class EditedLog:
    """A log while it is edited: group by group what has become of the log that was given."""

    given: Sequence[Group]
    views: list[str] = field(default_factory=list)
    """What the Reflector is shown of each group; the texts as they are, where nothing is given."""
    groups: list[Group] = field(init=False)
    """As many, in the same order."""
    edited: Counter[str] = field(default_factory=Counter)
    """What was done to it, in the words of `wire.Edited`."""
    _links: dict[int, int] = field(default_factory=dict)
    """Per group, one before it with which it has to be changed together."""

    def __post_init__(self) -> None:
        self.groups = list(self.given)
        self.views = list(self.views) or [group["text"] for group in self.given]

    @property
    def tokens(self) -> int:
        """Tokens of the log as it is now."""
        return sum(group["tokens"] for group in self.groups)

    def apply(self, checked: CheckedEdits, items: Sequence[Item], counter: TokenCounter) -> None:
        """Apply checked edits."""
        cuts: dict[int, dict[LineSpan, str]] = {}
        for number in checked.dropped:
            item = items[number - 1]
            cuts.setdefault(item.group, {})[item.span] = ""
        joins: dict[int, set[int]] = {}
        for replacement in checked.replacements:
            *others, last = (items[number - 1] for number in replacement.sources)
            for item in others:
                cuts.setdefault(item.group, {})[item.span] = ""
                if item.group != last.group:
                    joins.setdefault(last.group, set()).add(item.group)
            cuts.setdefault(last.group, {})[last.span] = replacement.text
        before = self.groups
        self.groups = list(before)
        for at, cut in cuts.items():
            self._rewrite(at, cut, [before[other] for other in sorted(joins.get(at, ()))], counter)
        for at, others_of in joins.items():
            for other in others_of:
                self._link(at, other)
        self.edited.update(checked.counts)

    def replace_text(self, at: int, text: str, counter: TokenCounter) -> None:
        """Give a group another text."""
        group: Group = {**self.groups[at], "text": text, "tokens": counter.count_text(text)}
        self.groups[at] = group

    def find_changed(self) -> list[int]:
        """Return the places of the groups that are not as they were given."""
        return [at for at, given in enumerate(self.given) if self.groups[at] is not given]

    def list_changes(
        self, *, cycle_id: str, reflected_at: str
    ) -> tuple[dict[str, Group], list[list[str]]]:
        """Return by id what has become of the changed groups, and which ids go together.

        Args:
            cycle_id: Id of the cycle; the groups' ids are derived from it.
        """
        together: dict[int, list[str]] = {}
        becomes: dict[str, Group] = {}
        for at in self.find_changed():
            group_id = self.given[at]["id"]
            together.setdefault(self._find_root(at), []).append(group_id)
            becomes[group_id] = {
                **self.groups[at],
                "id": derive_id("group", cycle_id, at),
                "kind": "reflection",
                "observed_at": reflected_at,
            }
        return becomes, list(together.values())

    def _rewrite(
        self, at: int, cuts: Mapping[LineSpan, str], joined: Sequence[Group], counter: TokenCounter
    ) -> None:
        group = self.groups[at]
        text = replace_spans(group["text"], cuts)
        places = pair_spans(group["text"], self.views[at])
        self.views[at] = replace_spans(
            self.views[at], {places[span]: new for span, new in cuts.items()}
        )
        changed: Group = {**group, "text": text, "tokens": counter.count_text(text)}
        if joined:
            changed["sources"] = collect_sources(group, joined)
        if not text:
            changed.pop("sources", None)
        self.groups[at] = changed

    def _link(self, one: int, other: int) -> None:
        first, last = sorted((self._find_root(one), self._find_root(other)))
        if first != last:
            self._links[last] = first

    def _find_root(self, at: int) -> int:
        root = at
        while root in self._links:
            root = self._links[root]
        while at != root:
            self._links[at], at = root, self._links[at]
        return root


_ASKED_PER_NEEDED: Final = 1.1
"""Models free 3 to 17 % less than they think: they are asked for a tenth more than is needed."""

MAX_REASONS: Final = 5
"""Why edits were left out is said of so many of them."""


@dataclass(frozen=True, slots=True)
class EditsInput:
    """All that the Reflector is given about a log that it edits."""

    groups: Sequence[Group]
    target: int
    """Tokens of all groups together, to stay under."""
    shown: Sequence[str] = ()
    """What it is shown of each group; the texts as they are, where nothing is given."""
    division: Division | None = None
    """How threads are told apart; `None` where the log is about one thread."""
    hints: Mapping[str, str | None] = field(default_factory=dict)
    """Those behind the log, by name."""
    instruction: str | None = None


def reflect_by_edits(request: EditsInput, counter: TokenCounter) -> Flow[EditedLog]:
    """Ask for edits until the log is small enough, three times at most.

    A log that is too long for one question is read part by part, the oldest groups first.

    Returns:
        The log with all valid edits; without any when no answer held one.

    Raises:
        ObserverError: When the first question is not answered.
    """
    log = EditedLog(request.groups, list(request.shown))
    given, refused = log.tokens, list[str]()
    start, most, asked = 0, given, 0
    while asked < (MAX_QUESTIONS if most >= given else _MOST_PARTS):
        stop = _find_stop(log, start, most)
        is_part = stop - start < len(log.groups)
        views = [view if start <= at < stop else "" for at, view in enumerate(log.views)]
        items = number_items(log.groups, counter, views)
        if not items:
            break
        question = _build_question(request, log, items, given, refused, is_part=is_part)
        reply = yield AskModel("reflector", question)
        shown = sum(group["tokens"] for group in log.groups[start:stop])
        if (reply.error or not reply.text.strip()) and reply.room and stop - start > 1:
            beside = count_messages(counter, question) - shown
            most = fit_room(shown, beside, reply.room)
            continue
        if reply.error is not None:
            if not log.edited:
                raise build_failure(reply, "Reflector") from reply.error
            break
        asked += 1
        edits = parse_edits(reply.text, cut_off=reply.cut_off)
        checked = check_edits(edits, items, counter)
        if checked.counts["edits"]:
            log.apply(checked, items, counter)
            refused = checked.refused
        elif not is_part:
            break
        if is_small_enough(log.tokens, request.target) or (is_part and stop == len(log.groups)):
            break
        start = stop if is_part else 0
    return log


_MOST_PARTS: Final = 12
"""How many parts of a log that is too long for one question are read in one reflection."""


def fit_room(shown: int, beside: int, room: int) -> int:
    """Return how many tokens to show where a question with so many was refused for its length.

    Args:
        beside: The tokens of the question without them.
        room: The tokens that a question may have; those of the refused one where nobody knows.
    """
    known = int(room * _FILLED) - beside
    return max(1, min(known, shown // 2) if room >= shown + beside - 1 else min(known, shown - 1))


_FILLED: Final = 0.9
"""A part of the room: pieces are not cut to the token."""


def _find_stop(log: EditedLog, start: int, most: int) -> int:
    """Return where a part of so many tokens ends; it holds one group at least."""
    stop, tokens = start, 0
    while stop < len(log.groups):
        tokens += log.groups[stop]["tokens"]
        if tokens > most and stop > start:
            break
        stop += 1
    return stop


def _build_question(
    request: EditsInput,
    log: EditedLog,
    items: Sequence[Item],
    given: int,
    refused: Sequence[str],
    *,
    is_part: bool = False,
) -> list[BaseMessage]:
    """Return the question: the log as it is now, or a part of it, and what is still to go."""
    tokens = log.tokens
    free = min(tokens, round((tokens - request.target) * _ASKED_PER_NEEDED) + 1)
    if is_part:
        tokens = sum(item.tokens for item in items)
        free = min(free, tokens // 2)
    progress = ""
    if log.edited:
        progress = fill(
            "reflector_edits_progress",
            freed_tokens=str(given - tokens),
            refused="\n".join(_list_reasons(refused)),
        )
    task = fill(
        "reflector_edits_task",
        observations=render_items(items, request.division),
        hints=write_hints(request.hints),
        threads=request.division.rule if request.division is not None else "",
        progress=progress,
        log_tokens=str(tokens),
        free_tokens=str(max(1, free)),
    )
    system = fill("reflector_edits", custom=request.instruction or "")
    return [SystemMessage(system), HumanMessage(task)]


def _list_reasons(refused: Sequence[str]) -> Iterator[str]:
    if refused:
        yield "Left out of your last answer, by its numbers:"
    yield from (f"- {escape(reason)}" for reason in refused[:MAX_REASONS])
    if len(refused) > MAX_REASONS:
        yield f"- and {len(refused) - MAX_REASONS} more"
