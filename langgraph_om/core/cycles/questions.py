"""Split what is too long for one question, and ask beside an observation for what features want.

All of a long text is read, over several questions. Lines stay whole where they fit. A longer one is
shown in parts whose labels count them.

The values that features want are asked for in one question, after the Observer's answer and on the
same prompt. A value that cannot be told is noted with the reason, and never fails the observation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.content.parts import Attachment
from langgraph_om.core.content.text import MAX_TOKENS_PER_CHARACTER, escape, sanitize
from langgraph_om.core.cycles.cycle import CycleInfo, fit_room
from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    CallReply,
    EffectFlow,
    Flow,
    LateError,
    ModelReply,
)
from langgraph_om.core.forms import Form, InvalidError, TemplateForm, Value, join, merge
from langgraph_om.core.observe.observer import build_failure
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.observe.standing import UserMessage, is_tasked, number_messages
from langgraph_om.core.observe.transcript import (
    LEFT_EDGE,
    TimedMessage,
    Transcript,
    mark_gaps,
    transcribe,
)
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.kept import EXTRACT
from langgraph_om.core.record.record import count_failures
from langgraph_om.core.record.standing import STANDING
from langgraph_om.core.record.window import Entry
from langgraph_om.core.tokens import TokenCounter, count_messages
from langgraph_om.core.wire import Chunk, Found
from langgraph_om.errors import ObserverError

MAX_QUESTIONS: Final = 8
"""How many questions the enormous messages of one observation take; the middle of what is longer is
left out, and told. All other messages are shown whole, in as many questions as that takes."""
MIN_QUESTIONS: Final = 2
"""The same for each enormous message, however many there are, and after failures."""
_SLACK: Final = 1.25
"""How much longer than the limit a transcript may be before it is worth another question."""
_SURE: Final = 1.1
"""The same for what a transcript counts at most by its messages, which may be some percent too low
where thousands of letters stand without a space."""
_LABEL_TOKENS: Final = 40
"""Set aside for the label of a part."""
_BREAK_WITHIN: Final = 0.2
"""A part ends at a line break or a blank in its last fifth, if there is one."""

_DAY = "Date: "


@dataclass(frozen=True, slots=True)
class SplitTranscript:
    """A transcript as one question after the other shows it."""

    parts: Sequence[Transcript]
    left_out_tokens: int = 0
    """About how many tokens of the inside of enormous messages no question shows."""
    cited: Mapping[int, UserMessage] = field(default_factory=dict)
    """The messages that the user typed, by the numbers that they are shown with."""


def split_transcript(
    transcript: Transcript, tokens: int, count: Callable[[str], int], most: int = MAX_QUESTIONS
) -> SplitTranscript:
    """Split a transcript into as many parts as it takes to show each message whole.

    Args:
        tokens: About how many tokens one question holds.
        most: How many questions the messages may take that are longer than one question, together.
            The middle of a longer one is left out; nothing else ever is.
    """
    text = transcript.text
    if len(text) * MAX_TOKENS_PER_CHARACTER <= tokens or count(text) <= tokens * _SLACK:
        return SplitTranscript([transcript])
    lines, left_out = _split_lines(LEFT_EDGE.split(text), tokens, count, most)
    texts = list(_pack(lines, tokens))
    attached: list[list[Attachment]] = [[] for _ in texts]
    for attachment in transcript.attachments:
        place = next((at for at, shown in enumerate(texts) if attachment.label in shown), 0)
        attached[place].append(attachment)
    return SplitTranscript([*map(Transcript, texts, attached)], left_out)


def split_further(
    transcript: Transcript, question: AskModel, room: int, counter: TokenCounter
) -> SplitTranscript | None:
    """Split what was refused for its length so that each part fits; `None` if that is no use."""
    shown = counter.count_text(transcript.text)
    if not room or shown <= _LEAST_PART:
        return None
    beside = count_messages(counter, question.messages) - shown
    tokens = max(_LEAST_PART, fit_room(shown, beside, room))
    split = split_transcript(transcript, int(tokens / _SLACK), counter.count_text)
    return split if len(split.parts) > 1 or split.left_out_tokens else None


_LEAST_PART: Final = 200
"""Tokens; shorter parts are not worth a question."""


def merge_answers(answers: Sequence[ParsedAnswer]) -> ParsedAnswer:
    """Return what the answers to the parts of one transcript say together."""
    if len(answers) == 1:
        return answers[0]
    text = _join_days([answer.observations for answer in answers if answer.observations])
    hints = {name: hint for answer in answers for name, hint in answer.hints.items()}
    return ParsedAnswer("ok" if text else "none", text, hints=hints)


def _join_days(texts: Sequence[str]) -> str:
    """Join observations; a day that goes on is named once."""
    lines, day = list[str](), None
    for text in texts:
        for line in text.split("\n"):
            heading = observation_date(line)
            if heading is not None and heading == day:
                continue
            if heading is not None and lines and lines[-1]:
                lines.append("")
            day = heading or day
            lines.append(line)
    return "\n".join(lines)


class _Line(NamedTuple):
    """A line of a transcript, or a part of one that is longer than a question."""

    text: str
    tokens: int


def _split_lines(
    lines: Sequence[str], tokens: int, count: Callable[[str], int], most: int
) -> tuple[list[_Line], int]:
    """Split the lines that are longer than a question, and count tokens that are left out."""
    counted = [_Line(line, 0 if line.startswith(_DAY) else count(line)) for line in lines]
    long = sum(line.tokens > tokens for line in counted)
    share = max(MIN_QUESTIONS, most // max(1, long))
    left_out, found = 0, list[_Line]()
    for line in counted:
        if line.tokens <= tokens:
            found.append(line)
            continue
        parts, skipped = _split_line(line, tokens, count, share)
        found += parts
        left_out += skipped
    return found, left_out


def _pack(lines: Sequence[_Line], tokens: int) -> Iterator[str]:
    """Yield texts of about so many tokens, each of which begins with its day."""
    day, packed, size = "", list[str](), 0
    for line, weight in lines:
        if line.startswith(_DAY):
            day = line
            if packed:
                packed.append(line)
            continue
        if packed and size + weight > tokens:
            yield "\n".join(_without_last_day(packed))
            packed, size = [], 0
        if not packed and day:
            packed = [day]
        packed.append(line)
        size += weight
    if packed:
        yield "\n".join(_without_last_day(packed))


def _without_last_day(lines: Sequence[str]) -> Sequence[str]:
    return lines[:-1] if lines[-1].startswith(_DAY) else lines


def _split_line(
    line: _Line, tokens: int, count: Callable[[str], int], most: int
) -> tuple[list[_Line], int]:
    """Return the parts of a long line, with labels that count them.

    No more than `most`, the first and the last ones, and nothing between these is counted: a line
    may be a whole book.

    Returns:
        The parts, and about how many tokens are left out between them.
    """
    label, colon, body = line.text.partition(": ")
    if not colon:
        return [line], 0
    room, last = max(1, tokens - _LABEL_TOKENS), max(1, most // 4)
    slices = _slice(body, room, line.tokens)
    skipped = max(0, len(slices) - most)
    behind = slices[len(slices) - last :] if skipped else []
    before = slices[: most - last] if skipped else slices
    first = [part for each in before for part in split_text(each, room, count)]
    rest = [part for each in behind for part in split_text(each, room, count)]
    total = len(first) + skipped + len(rest)
    numbered = [*enumerate(first, 1), *enumerate(rest, total - len(rest) + 1)]
    is_whole = total <= most
    shown = numbered if is_whole else [*numbered[: most - last], *numbered[-last:]]
    texts = [f"{label} [part {number} of {total}]: {part}" for number, part in shown]
    parts = [_Line(text, count(text)) for text in texts]
    if is_whole:
        return parts, 0
    left_out = max(1, line.tokens - sum(part.tokens for part in parts))
    note = f"[about {left_out:,} tokens of this message are left out here]"
    edge = parts[most - last - 1]
    parts[most - last - 1] = edge._replace(text=f"{edge.text}\n{note}")
    return parts, left_out


_FILLED = 0.9
"""How much of its room a piece takes, where the whole text is as dense as it is on average."""


def split_text(text: str, tokens: int, count: Callable[[str], int]) -> list[str]:
    """Split a text into pieces of so many tokens at most; one character may count more."""
    total = count(text)
    if total <= tokens or len(text) < 2:  # noqa: PLR2004 a character is not split
        return [text]
    return [
        part for piece in _slice(text, tokens, total) for part in split_text(piece, tokens, count)
    ]


def _slice(text: str, tokens: int, total: int) -> list[str]:
    """Cut a text that counts too much into pieces of about as many tokens, so many at most.

    A piece that counts more than the average would be cut once more, into two that are half full.
    """
    left, start, pieces = -(-total // max(1, int(tokens * _FILLED))), 0, list[str]()
    while start < len(text):
        step = max(1, min(len(text) - 1, -(-(len(text) - start) // max(1, left))))
        left -= 1
        stop = _find_break(text, start, min(len(text), start + step))
        pieces.append(text[start:stop])
        start = stop
    return pieces


def _find_break(text: str, start: int, stop: int) -> int:
    """Return where a piece ends: behind a line break or a blank near `stop`, if there is one."""
    if stop == len(text):
        return stop
    earliest = stop - int((stop - start) * _BREAK_WITHIN)
    for mark in ("\n", " "):
        at = text.rfind(mark, earliest, stop)
        if at >= 0:
            return at + 1
    return stop


# What Observer and Reflector are told, and what is taken of their answers.
#
# The same for a cycle that the turn waits for and for one in the background; the user's transform
# hooks stand between the memory and the models.


def show_messages(
    cycle: CycleInfo, entries: Sequence[Entry], times: Sequence[datetime | None]
) -> EffectFlow[SplitTranscript | None]:
    """Return the parts of the transcript, as a hook leaves them; `None` if there is nothing.

    After failures a question holds less, and of an enormous message less is read: what takes longer
    than a cycle may, or is more than a model reads, would fail for ever.
    """
    settings = cycle.settings
    shown = [TimedMessage(entry.message, time) for entry, time in zip(entries, times, strict=False)]
    if "before_observation" in settings.transforms:
        known = {entry.key: each.time for entry, each in zip(entries, shown, strict=True)}
        messages = [entry.message.model_copy(update={"id": entry.key}) for entry in entries]
        changed = yield from transform_messages(messages, cycle.about())
        shown = [TimedMessage(message, known.get(str(message.id))) for message in changed]
    if not shown:
        return None
    shown, cited = [*mark_gaps(settings, shown)], dict[int, UserMessage]()
    if not is_tasked(cycle):
        shown, cited = number_messages(shown, settings.timezone)
    transcript = transcribe(
        shown,
        timezone=settings.timezone,
        counter=settings.counter,
        hidden_tools=settings.writing_tools,
    )
    if not transcript.text:
        return None
    failures = count_failures(cycle.record, cycle.operation)
    most = max(MIN_QUESTIONS, MAX_QUESTIONS >> max(0, failures - 1))
    count = settings.counter.count_text
    tokens = max(settings.thresholds.message_tokens, settings.question_tokens >> failures)
    split = split_transcript(transcript, tokens, count, most)
    return replace(split, cited=cited)


def rewrite_answer(cycle: CycleInfo, parsed: ParsedAnswer) -> EffectFlow[ParsedAnswer]:
    """Let a hook change what the Observer wrote."""
    said = {"observations": parsed.observations, **parsed.hints}
    kept = yield from rewrite_by_hook(cycle, "after_observation", said)
    return replace(parsed, observations=kept.pop("observations"), hints=kept)


def rewrite_by_hook(
    cycle: CycleInfo, hook: str, texts: Mapping[str, str | None], field: str | None = None
) -> EffectFlow[dict[str, Any]]:
    """Let a hook change each text, with the name of the text."""
    if hook not in cycle.settings.transforms:
        return dict(texts)
    changed = dict(texts)
    for name, text in texts.items():
        if text:
            value = yield from _call_hook(hook, text, {**cycle.about(), "field": field or name})
            if value is not None and not isinstance(value, str):
                raise _read_returned(hook, f"`{type(value).__name__}`", "a text")
            if value is not None:  # a checkpoint holds no subclass of `str`
                changed[name] = sanitize(str.__str__(value))
    return changed


TRANSFORMS = ("before_observation", "after_observation", "before_reflection", "after_reflection")
"""Hooks whose result is used in the place of what they are given."""


# --- Transforms ----------------------------------------------------------------------------------


def transform_messages(
    messages: Sequence[BaseMessage], about: Mapping[str, Any]
) -> EffectFlow[list[BaseMessage]]:
    """Let `before_observation` change what the Observer is shown."""
    name, wanted = "before_observation", "a list of messages"
    copies = [
        message.model_copy(update={name: _copy_of(value) for name, value in message})
        for message in messages
    ]
    value = yield from _call_hook(name, copies, about)
    if value is None:
        return copies
    if not isinstance(value, list | tuple):
        raise _read_returned(name, f"`{type(value).__name__}`", wanted)
    for each in value:
        if not isinstance(each, BaseMessage):
            raise _read_returned(name, f"a list with `{type(each).__name__}`", wanted)
    return list(value)


def _copy_of(value: Any) -> Any:
    """Copy a value; what cannot be copied, as a lock in an artifact, is shared."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return value


def _read_returned(name: str, what: str, wanted: str) -> ObserverError:
    """Make the error for a hook's wrong answer; what it holds may be what no record shall keep."""
    msg = f"the hook `{name}` returned {what}; return {wanted}, or None to keep what was given"
    return ObserverError(msg)


def _call_hook(name: str, value: object, about: Mapping[str, Any]) -> EffectFlow[Any]:
    reply: CallReply = yield CallHook(name, (value, dict(about)))
    if isinstance(reply.error, LateError):
        msg = f"the hook `{name}` failed: it did not return within the deadline"
        raise ObserverError(msg) from reply.error
    if reply.error is not None:  # its text may quote what the hook was to hide
        msg = f"the hook `{name}` failed: {type(reply.error).__name__}; see the log"
        raise ObserverError(msg) from reply.error
    return reply.value


@dataclass(frozen=True, slots=True)
class AskedValue:
    """A value that a feature asks for."""

    name: str
    form: Form
    known: Value
    """As the Observer is shown it."""
    had_failed: bool = False
    """Whether it could not be told when it was asked for before."""


@dataclass(frozen=True, slots=True)
class ValueAnswer:
    """The answer about one value; with neither a patch nor an error, a former error is over."""

    value: AskedValue
    patch: Any = None
    """What changes in it: fields, or the whole text; `None` where that could not be told."""
    error: str | None = None
    """Why not."""


def ask_for_values(
    info: CycleInfo, asked: AskModel, text: str, chunks: Sequence[Chunk] = ()
) -> EffectFlow[Found]:
    """Ask for the values that the user wants; without any, nothing is asked."""
    extract = info.settings.parts.extract
    if extract is None:
        return {}
    wanted = extract.values(info, chunks)
    answers = dict[str, ValueAnswer]()
    for answer in (yield from _ask(info, asked, text, wanted)):
        is_told = answer.error is not None
        kept = answer if is_told else (yield from _redact(info, answer))
        answers[answer.value.name] = kept
    own = [
        answers.get(value.name, ValueAnswer(value))
        for value in wanted
        if value.name in answers or value.had_failed
    ]
    return {EXTRACT: (yield from extract.write_entries(info, own))} if own else {}


def _ask(
    info: CycleInfo, asked: AskModel, text: str, wanted: Sequence[AskedValue]
) -> Flow[list[ValueAnswer]]:
    """Ask for values, and return an answer for each that changes or cannot be told.

    If the conversation is too long, what was observed of it is asked about, part by part.
    """
    if not wanted:
        return []
    log, task = _write_log(text), HumanMessage(fill("observer_values", **_tell(wanted)))
    reply: ModelReply = yield replace(asked, messages=[*asked.messages, AIMessage(log), task])
    if not reply.room:
        return _read_answers(reply, wanted)
    waiting, found = [text], dict[str, ValueAnswer]()
    values = {value.name: value for value in wanted}
    while waiting:
        part = waiting.pop()
        told = _tell([*values.values()])
        task = HumanMessage(fill("observer_log_values", log=_write_log(part), **told))
        question = AskModel("observer", [task])
        reply = yield question
        split = split_further(Transcript(part, ()), question, reply.room, info.settings.counter)
        if split is not None:
            waiting += [each.text for each in reversed(split.parts)]
            continue
        for answer in _read_answers(reply, [*values.values()]):
            value = answer.value
            found[value.name] = _join_answers(found.get(value.name), answer)
            if answer.error is None:
                values[value.name] = replace(value, known=merge(value.known, answer.patch))
    return [replace(found[value.name], value=value) for value in wanted if value.name in found]


def _join_answers(first: ValueAnswer | None, then: ValueAnswer) -> ValueAnswer:
    if first is None or then.error is not None:
        return then
    return first if first.error is not None else replace(then, patch=join(first.patch, then.patch))


def _write_log(text: str) -> str:
    return f"<observations>\n{escape(text)}\n</observations>"


def _tell(wanted: Sequence[AskedValue]) -> dict[str, str]:
    """Return what a question says of values: the form of each, and what it is so far."""
    forms = {value.name: value.form.json_schema for value in wanted}
    return {"forms": _write(forms), "known": escape(_write({v.name: _show(v) for v in wanted}))}


def _read_answers(reply: ModelReply, wanted: Sequence[AskedValue]) -> list[ValueAnswer]:
    if reply.error is not None:
        error = str(build_failure(reply, "Observer"))
        return [ValueAnswer(value, error=error) for value in wanted]
    said = _read_object(reply.text)
    if said is None:
        return [ValueAnswer(value, error="the answer is not a JSON object") for value in wanted]
    return [
        _read(value, said[value.name])
        for value in wanted
        if said.get(value.name) and said[value.name] != _show(value)
    ]


def _read(value: AskedValue, given: Any) -> ValueAnswer:
    """Read the answer about one value; an error where the value would not have its form."""
    try:
        patch = value.form.read_patch(given)
        value.form.check(merge(value.known, patch))
    except InvalidError as error:
        return ValueAnswer(value, error=str(error))
    return ValueAnswer(value, patch)


def _show(value: AskedValue) -> Any:
    """Return a value as the Observer is shown it: an empty text is its template."""
    is_text = isinstance(value.form, TemplateForm)
    return value.form.write(value.known) if is_text else value.known


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer, which models like to put between fences or words."""
    start, stop = text.find("{"), text.rfind("}")
    try:
        # Some models break the lines of a text as they are.
        found = json.loads(sanitize(text[start : stop + 1]), strict=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _redact(info: CycleInfo, answer: ValueAnswer) -> EffectFlow[ValueAnswer]:
    """Let the hook that rewrites what was written rewrite an answer: a text, or fields as JSON."""
    value, is_text = answer.value, isinstance(answer.value.form, TemplateForm)
    text = answer.patch if is_text else json.dumps(answer.patch, ensure_ascii=False)
    field = f"extracted.{value.name}"
    try:
        said = yield from rewrite_by_hook(info, "after_observation", {field: text})
    except ObserverError as error:
        return ValueAnswer(value, error=str(error))
    return _read(value, said[field])


def join_found(parts: Iterable[Mapping[str, list[Any]]]) -> Found:
    """Return the entries of several observations together, by feature and in their order."""
    joined: Found = {}
    for part in parts:
        for name, entries in part.items():
            joined[name] = [*joined.get(name, ()), *entries]
    return joined


def tell_found(found: Found) -> dict[str, Found]:
    """Return the field of an event, or of a chunk, with entries; none where there are none."""
    return {"found": found} if found else {}


def announce_found(info: CycleInfo, at: datetime, event: Mapping[str, Any]) -> EffectFlow[None]:
    """Tell of values and standing instructions of an observation that has taken effect."""
    found: Found = event.get("found", {})
    extract = info.settings.parts.extract
    if extract is not None and (values := found.get(EXTRACT)):
        yield from extract.announce(info, at, values)
    for entry in found.get(STANDING, []):
        told = {name: entry[name] for name in ("change", "words", "by") if name in entry}
        yield info.event("standing", at, **told)
