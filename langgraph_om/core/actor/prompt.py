"""Assemble what the Actor sees: one system message, a reminder, and the unobserved messages.

The order keeps the longest prefix unchanged from call to call, so that a provider's prompt cache
can hold it: the agent's own prompt, our constant instructions, the observations group by group, and
only then what changes often. Text of users and models is escaped, so that it cannot open or close
one of our tags.

The head of a view is all that memory puts before the window: the system message, the reminder, the
live request. It changes with the log, with the window's start, and with the day. An answer that was
made behind another head cannot be sent again with reasoning that its provider has bound to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)

from langgraph_om.core.actor.shown import (
    ShownMessages,
    count_left_out,
    select_shown,
    write_messages,
)
from langgraph_om.core.config.settings import NO_TEXTS, Settings, Texts
from langgraph_om.core.content.blocks import holds_bound_reasoning
from langgraph_om.core.content.dates import annotate, observation_date, track_fence
from langgraph_om.core.content.message_keys import (
    CONTINUATION_ID,
    content_digest,
    derive_id,
    find_others,
    is_instruction,
    key_of,
)
from langgraph_om.core.content.text import TAG_ENDS, compile_late, escape
from langgraph_om.core.events import iso
from langgraph_om.core.observe.answer_tags import tag_of
from langgraph_om.core.observe.transcript import format_weekday
from langgraph_om.core.plan import is_reasoning_under_way
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import log_tokens
from langgraph_om.core.record.span import Entry, Span, ViewDigest
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import Group, Head, MemoryRecord

_LOW_MARK = compile_late(r"(\s*[*+-] )(?:🟡|🟢)\ufe0f? ?")


def hide_low_marks(text: str) -> str:
    """Return a stretch of a log without 🟡 and 🟢; what is in a code fence stays as it is."""
    if "🟡" not in text and "🟢" not in text:
        return text
    lines: list[str] = []
    fence = 0
    for line in text.split("\n"):
        is_code = fence > 0
        fence = track_fence(line, fence)
        mark = None if is_code or fence else _LOW_MARK.match(line)
        lines.append(f"{mark[1]}{line[mark.end() :]}" if mark else line)
    return "\n".join(lines)


_AS_OF = '["Today", "2 weeks ago" and the like are as of {}, times in {}]'
"""What says which day the relative dates of a log are relative to."""

ContentBlock = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The parts of what the Actor is shown next; its digest and its messages are made of one."""

    day: date
    """The day that relative dates are relative to, in the memory's time zone."""
    log: str
    """Names the log by its groups."""
    memory: Sequence[str]
    """What the system message says of the memory, in pieces; none where there is none."""
    reminder: str
    """What stands for the messages that are not shown; empty for nothing."""
    shown: ShownMessages
    asides: Sequence[BaseMessage]
    """What stands before the live request, what changes most often last."""
    lines: Mapping[str, str]
    """By the key of a message, a line that is shown before it."""
    instructions: Sequence[BaseMessage]
    """The agent's own system messages in the conversation, as far as they are shown."""
    leaves_out: bool
    """Whether older ones of these are not shown."""


@dataclass(frozen=True, slots=True)
class Framing:
    """What stands around the groups of a log that is about more than the Actor's thread."""

    instruction: str = ""
    """What the Actor is told about it."""
    frames: Sequence[str] = ()
    """The text before each group that is shown, and as the last item the text after all of them.
    """
    is_needed: bool = False
    """Whether the instructions are shown where the log is empty, too."""


def make_view(
    settings: Settings,
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    now: datetime,
    *,
    day: date | None = None,
    texts: Texts = NO_TEXTS,
) -> View:
    """Choose what the Actor is shown.

    Args:
        messages: The whole conversation; no message is changed.
        day: The day that relative dates are relative to; `None`: it is chosen.
    """
    log, asides = _name_log(record), list_asides(settings, record, window, texts)
    day = day or _choose_day(settings, record, window, log, now)
    instructions, leaves_out = _select_instructions(settings, messages)
    limit, dropped = settings.max_input_tokens, 0
    if limit is not None:
        limit -= sum(map(settings.counter.count_message, instructions))
        extra = count_extra(settings, record, asides)
        dropped = count_left_out(window, log_tokens(record), limit, extra=extra)
    shown = select_shown(messages, window, dropped)
    if settings.features.shorteners:
        shown = shown.replace_messages(settings.features.show)
    return View(
        day,
        log,
        render_memory(settings, record, day, span=window.span),
        choose_reminder(record, dropped),
        shown,
        asides,
        find_lines(settings, record, window),
        instructions,
        leaves_out,
    )


def _select_instructions(
    settings: Settings, messages: Sequence[BaseMessage]
) -> tuple[list[BaseMessage], bool]:
    """Return the agent's system messages that are shown, and whether there are others.

    The first one is its prompt. Of those that nodes added later, the newest are shown that fit into
    the threshold of messages; what is said again is shown once.
    """
    found = [messages[at] for at in find_others(messages) if is_instruction(messages[at])]
    if not found:
        return [], False
    unlike = {content_digest(message): message for message in found[::-1]}
    first = unlike.pop(content_digest(found[0]))
    room, shown = settings.thresholds.message_tokens, list[BaseMessage]()
    for message in unlike.values():
        room -= settings.counter.count_message(message)
        if room < 0 and shown:
            break
        shown.append(message)
    return [first, *reversed(shown)], len(shown) < len(unlike)


def assemble(
    view: View,
    record: MemoryRecord,
    *,
    system: str | SystemMessage | None = None,
    with_reasoning: bool = True,
) -> list[BaseMessage]:
    """Assemble the Actor's input; no message is changed.

    Args:
        system: The agent's own system prompt, if it is not among the messages.
        with_reasoning: Whether reasoning that is bound to its prefix is shown at all; it never is
            where that prefix changed.

    Returns:
        At most one system message, then the conversation. Without observations these are the given
        messages, unchanged.
    """
    head, memory = _join_system_messages(system, view.instructions), view.memory
    out: list[BaseMessage] = []
    if memory:
        own = _to_blocks(head)
        lead = "\n\n" if own else ""
        blocks = [*own, *_to_text_blocks([f"{lead}{memory[0]}", *memory[1:]])]
        out.append(
            SystemMessage(blocks) if head is None else head.model_copy(update={"content": blocks})
        )
    elif head is not None:
        out.append(head)
    if view.reminder:
        out.append(HumanMessage(view.reminder, id=CONTINUATION_ID))
    out += write_messages(
        record, view.shown, view.asides, lines=view.lines, with_reasoning=with_reasoning
    )
    return out


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of what the Actor is sent."""

    name: str
    """What it is, such as `Observations`."""
    tokens: int
    count: int = 1
    """How many messages it is, where it is more than one."""


def list_parts(
    settings: Settings,
    view: View,
    sent: Sequence[BaseMessage],
    texts: Mapping[str, int],
) -> list[PromptPart]:
    """List the parts of an input in their order, with the tokens of each.

    Args:
        texts: By title, the tokens of what the first piece of memory shows apart from the log.
    """
    count, pieces = settings.counter.count_text, view.memory
    is_log_end = [piece.endswith("</observations>") for piece in pieces]
    end = is_log_end.index(True) + 1 if True in is_log_end else 1
    own = {aside.id for aside in view.asides} | {CONTINUATION_ID}
    said = [message for message in sent if not is_instruction(message) and message.id not in own]
    agent = sum(map(count, (message.text for message in sent if is_instruction(message))))
    memory = count("".join(pieces))
    first = count(pieces[0]) if pieces else 0
    apart = {name: tokens for name, tokens in texts.items() if tokens}
    parts = [
        PromptPart("The agent's own instructions", max(0, agent - memory)),
        PromptPart("How to read memory", max(0, first - sum(apart.values()))),
        *[PromptPart(name, tokens) for name, tokens in apart.items()],
        PromptPart("Observations", sum(map(count, pieces[1:end]))),
        PromptPart("Hints", sum(map(count, pieces[end:]))),
        PromptPart("Reminder", count(view.reminder)),
        *[PromptPart("Before the request", count(aside.text)) for aside in view.asides],
        PromptPart("Messages", sum(map(settings.counter.count_message, said)), len(said)),
    ]
    return [part for part in parts if part.tokens]


def list_asides(
    settings: Settings, record: MemoryRecord, window: Window, texts: Texts
) -> list[BaseMessage]:
    """List what features show before the live request, what changes most often last."""
    shows = settings.features.of("aside", {*record, *texts})
    return [aside for show in shows if (aside := show(settings, record, window, texts))]


def find_lines(settings: Settings, record: MemoryRecord, window: Window) -> Mapping[str, str]:
    """Find the lines that are shown before messages of a window, by key; most are of features.

    Where what stood between two answers is observed, a line stands for it: a provider refuses an
    answer with calls of tools directly behind another answer.
    """
    found: dict[str, str] = {}
    at = len(window.strays.messages)
    if 0 < at < len(window.entries):
        before, behind = window.entries[at - 1].message, window.entries[at]
        if isinstance(before, AIMessage) and isinstance(behind.message, AIMessage):
            found[behind.key] = load("continuation")
    for find in settings.features.having("lines_before"):
        found.update(find(settings, record, window))
    return found


def choose_reminder(record: MemoryRecord, dropped: int) -> str:
    """Return the reminder that stands for the messages that are not shown; empty for none."""
    if record["log"]:
        return load("continuation")
    return load("trimmed") if dropped else ""


def count_extra(settings: Settings, record: MemoryRecord, asides: Sequence[BaseMessage]) -> int:
    """Estimate the tokens beside window and log: what features say and show.

    A group's own count leaves out the line behind it, because the thresholds are about what the
    Observer and the Reflector write, and neither sees these lines.
    """
    apart, log = _write_apart(settings, record), settings.features.select_log(record["log"])
    told = _list_instructions(settings, record, has_memory=bool(record["log"] or apart))
    said: int = sum(feature.instruction_tokens() for feature in told)
    # A token of an id has two characters or more.
    said += sum(len(line) // 2 for line in _write_lines(settings, _select_groups(log)))
    said += sum(len(block) // 3 for block in apart)
    # What is shown apart is counted as it is shown, not as it stands in the log.
    said += sum(group["tokens"] for group in log) - log_tokens(record)
    return said + sum(len(aside.text) // 3 for aside in asides)


# --- The system message --------------------------------------------------------------------------


def _join_system_messages(
    system: str | SystemMessage | None, own: Sequence[BaseMessage]
) -> BaseMessage | None:
    """Join the agent's own system messages into one; a single one stays as it is."""
    given = SystemMessage(system) if isinstance(system, str) else system
    systems = [given, *own] if given is not None else own
    if len(systems) <= 1:
        return systems[0] if systems else None
    return SystemMessage([block for message in systems for block in _to_blocks(message)])


def _to_blocks(message: BaseMessage | None) -> list[ContentBlock]:
    if message is None:
        return []
    content = message.content or []
    return _to_text_blocks([content] if isinstance(content, str) else content)


def _to_text_blocks(content: Iterable[ContentBlock]) -> list[ContentBlock]:
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]


def render_memory(
    settings: Settings, record: MemoryRecord, today: date, span: Span | None = None
) -> list[str]:
    """Render what the system message says of the memory, in pieces; none where there is none.

    The span of a window keeps the log as it was rendered, which a turn needs in each step.
    """
    apart = _write_apart(settings, record)
    log = settings.features.select_log(record["log"])
    groups = _select_groups(log)
    frame = settings.features.first("frame")
    framing: Framing = frame(settings, record, groups) if frame is not None else Framing()
    has_memory = bool(log or apart or framing.is_needed)
    told = [*_list_instructions(settings, record, has_memory=has_memory).values()]
    if not has_memory:
        return ["\n\n".join(told)] if told else []
    rules = settings.features.join_texts("tell_hints", "actor")
    instructions = [fill("actor_instructions", hints=rules)]
    if framing.instruction:
        instructions.append(framing.instruction)
    blocks = ["\n\n".join([*instructions, *told, *apart])]
    if log:
        blocks = [
            f"{blocks[0]}\n\n<observations>\n",
            *_build_log_blocks(settings, groups, framing, today, span),
        ]
    if tags := _write_hints(settings.features.list_closing(record)):
        blocks.append(tags)
    return blocks


def _write_apart(settings: Settings, record: MemoryRecord) -> list[str]:
    """Return what features show of the memory apart from the log."""
    owners = [group.get("feature", "") for group in record["log"]]
    writers = settings.features.of("memory_block", {*record, *owners})
    return [block for write in writers if (block := write(record))]


def _list_instructions(
    settings: Settings, record: MemoryRecord, *, has_memory: bool
) -> dict[Any, str]:
    """Return what the system message says of features, by the feature."""
    hooks = settings.features.having("instructions")
    return {
        write.__self__: text for write in hooks if (text := write(record, has_memory=has_memory))
    }


def _write_lines(settings: Settings, groups: Sequence[Group]) -> list[str]:
    """Return what features show behind groups; it is not annotated, as ids are not dates."""
    writers = settings.features.having("line_after")
    if not writers:
        return [""] * len(groups)
    return ["\n".join(filter(None, [write(group) for write in writers])) for group in groups]


def _build_log_blocks(
    settings: Settings,
    groups: Sequence[Group],
    framing: Framing,
    today: date,
    span: Span | None,
) -> list[str]:
    """Render the log, one text per group; a text stays the same when the log grows."""
    frames = list(framing.frames) or [""] * (len(groups) + 1)
    end = "" if framing.frames else "\n\n"
    tails = [f"\n{line}{end}" if line else end for line in _write_lines(settings, groups)]
    as_of = _AS_OF.format(format_weekday(today), settings.timezone)
    source = (as_of, frames, [group["text"] for group in groups], tails)
    if span is not None and span.rendered[0] == source:
        return span.rendered[1]
    blocks: list[str] = []
    previous: date | None = None
    for frame, text, tail in zip(*source[1:], strict=False):
        if frame.strip():  # each section has its own headings
            previous = None
        block, previous = _render_group(frame, text, tail, today, previous)
        blocks.append(block)
    end = f"{as_of}\n</observations>"
    blocks.append(f"{frames[-1]}\n\n{end}" if frames[-1] else end)
    if span is not None:
        span.rendered = source, blocks
    return blocks


def _select_groups(log: Sequence[Group]) -> list[Group]:
    """Return the groups with a text; the messages of the others held nothing worth noting."""
    return [group for group in log if group["text"]]


@lru_cache(maxsize=1024)
def _render_group(
    frame: str, text: str, tail: str, today: date, previous: date | None
) -> tuple[str, date | None]:
    """Render a group as of a day; cached, because groups never change and every call shows them."""
    shown = escape(hide_low_marks(text))
    for tag in TAG_ENDS:  # the next group may begin with it
        shown = escape(f"{shown}{tag}").removesuffix(tag)
    shown, last = annotate(shown, today, previous)
    first, _, rest = text.partition("\n")
    if previous is not None and rest and observation_date(first) == previous:
        shown = shown.partition("\n")[2]  # the day goes on, under the heading that it has
    return f"{frame}{shown}{tail}", last


def _write_hints(hints: Mapping[str, str]) -> str:
    tagged = ((tag_of(name), text) for name, text in hints.items())
    return "".join(f"\n\n<{tag}>\n{escape(text)}\n</{tag}>" for tag, text in tagged)


def track_head(
    record: MemoryRecord,
    view: View,
    now: datetime,
) -> Head:
    """Return the head of the view that the Actor is given next."""
    shown = view.shown
    parts, lines = _list_parts(view), _list_lines(view)
    is_plain = not (any(parts) or record["cursor"] or lines)
    former, seen = record.get("head"), _count_seen(record, shown)
    before, digest = _digest_view(shown, parts, lines, seen or 0)
    is_same = former is None and is_plain
    if former is not None and seen is not None:
        is_same = before == former["digest"] and (
            is_plain or not _was_answered_elsewhere(shown.entries[seen:])
        )
    known = former["after"] if former is not None else None
    return {
        "after": known if is_same else shown.newest,
        "seen": shown.newest,
        "digest": digest,
        "log": view.log,
        "as_of": view.day.isoformat(),
        "at": iso(now),
    }


def find_day(record: MemoryRecord, today: date) -> date:
    """Return the day that the dates of a view are relative to; today before the first one."""
    head = record.get("head")
    return date.fromisoformat(head["as_of"]) if head is not None else today


def _choose_day(
    settings: Settings, record: MemoryRecord, window: Window, log: str, now: datetime
) -> date:
    """Choose the day that relative dates are relative to from now on.

    It moves when the log has changed, and after a pause in which the provider's cache has lost the
    prompt anyway; never while reasoning waits for its tools, which the change would make invalid.
    """
    today, former = now.astimezone(settings.timezone).date(), record.get("head")
    if former is None or former["log"] != log:
        return today
    pause = (now - datetime.fromisoformat(former["at"])).total_seconds()
    if pause > settings.cache_seconds and not is_reasoning_under_way(window):
        return today
    return date.fromisoformat(former["as_of"])


def _name_log(record: MemoryRecord) -> str:
    """Name the log by its groups, whose texts never change but by hand."""
    return derive_id("log", *[f"{group['id']} {len(group['text'])}" for group in record["log"]])


def _list_parts(view: View) -> list[str]:
    """List what stands before the window."""
    parts = [*view.memory, view.reminder]
    parts += map(content_digest, view.instructions)
    parts += [f"{key_of(message)} {content_digest(message)}" for message in view.shown.lead]
    if view.shown.request is None:
        parts += [aside.text for aside in view.asides]
    return parts


def _list_lines(view: View) -> dict[str, str]:
    """List by key what is put before a message of the window.

    What is shown before the live request is no part of the prefix of the answers before it: it
    comes without making their reasoning invalid, and goes with all that was said behind it.
    """
    lines, shown = dict(view.lines), view.shown
    if shown.request is not None and view.asides:
        place = shown.entries[shown.request].key
        asides = [aside.text for aside in view.asides]
        lines[place] = "\x1e".join([*asides, lines.get(place, "")])
    return lines


def _count_seen(record: MemoryRecord, shown: ShownMessages) -> int | None:
    """Count the messages that the Actor's last view had too; `None` when that cannot be told."""
    former = record.get("head")
    if former is None:
        return None
    if former["seen"] is None:
        return 0
    at = shown.find(former["seen"])
    return None if at is None else at + 1


def _digest_view(
    shown: ShownMessages, parts: Sequence[str], lines: Mapping[str, str], seen: int
) -> tuple[str, str]:
    """Digest a view up to the messages that the last one had too, and all of it."""
    known, begun = shown.span.view, (shown.dropped, lines, parts)
    if known is None or known.count > seen or (known.dropped, known.lines, known.parts) != begun:
        known = ViewDigest.begin(parts, lines, shown.dropped)
    before = known.extend(shown.entries[known.count : seen])
    shown.span.view = whole = before.extend(shown.entries[seen:])
    return before.state.hexdigest(), whole.state.hexdigest()


def _was_answered_elsewhere(entries: Sequence[Entry]) -> bool:
    """Return whether one of these answers was not made to the Actor's last view.

    That view is followed by its answer; memory was off, or another agent spoke, for all others.
    """
    return any(holds_bound_reasoning(entry.message) for entry in entries[1:])
