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

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_om.core.actor.view import (
    Block,
    Fitting,
    LeftOut,
    MemoryText,
    ShownMessages,
    View,
    cut_messages,
    select_shown,
    write_messages,
)
from langgraph_om.core.config.settings import NOTHING_IN_STATE, InState, Settings
from langgraph_om.core.content.blocks import holds_bound_reasoning
from langgraph_om.core.content.dates import annotate, observation_date, track_fence
from langgraph_om.core.content.message_keys import (
    CONTINUATION_ID,
    OTHERS_ID,
    RECALLED_ID,
    STATE_ID,
    WORKING_ID,
    content_digest,
    derive_id,
    find_others,
    is_instruction,
    key_of,
)
from langgraph_om.core.content.text import (
    TAG_ENDS,
    as_label,
    escape,
    escape_attribute,
    truncate_to_tokens,
    write_json,
)
from langgraph_om.core.events import iso
from langgraph_om.core.observe.parse_answer import tag_of, tell_hints
from langgraph_om.core.observe.standing import write_rules
from langgraph_om.core.observe.transcript import find_gaps, format_weekday
from langgraph_om.core.plan import is_reasoning_under_way
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.kept import write_pinned
from langgraph_om.core.record.record import blank_record, write_ranges
from langgraph_om.core.record.standing import STANDING, select_log
from langgraph_om.core.record.users_log import list_in_sight
from langgraph_om.core.record.window import Entry, Window
from langgraph_om.core.wire import Group, Head, MemoryRecord

_LOW_MARK = re.compile(r"(\s*[*+-] )(?:🟡|🟢)\ufe0f? ?")


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
    in_state: InState = NOTHING_IN_STATE,
    most: int | None = None,
) -> View:
    """Choose what the Actor is shown: all of it, or what fits.

    Args:
        messages: The whole conversation; no message is changed.
        day: The day that relative dates are relative to; `None`: it is chosen.
        most: Tokens of a prompt that is sent again because a longer one was refused.
    """
    record = {**record, "log": list_in_sight(record)}
    log, asides = _name_log(record), list_asides(settings, record, window, in_state)
    day = day or _choose_day(settings, record, window, log, now)
    instructions, leaves_out = _select_instructions(settings, messages)
    lines = find_lines(settings, record, window)

    def build(left: LeftOut) -> View:
        shown = select_shown(messages, window, left.messages)
        if settings.parts.shortens:
            shown = shown.replace_messages(settings.parts.show)
        if left.longest is not None:
            shown = cut_messages(settings, shown, left.longest)
        return View(
            day,
            log,
            render_memory(settings, record, day, left),
            write_reminder(settings, record, window, left.messages),
            shown,
            [] if "asides" in left.sections else asides,
            lines,
            instructions,
            leaves_out,
            left,
        )

    fitting = Fitting(settings, window, record["log"], build)
    view = fitting.keep_to_budget(build(LeftOut()))
    if settings.max_input_tokens is not None:
        view = fitting.keep_to(view, settings.max_input_tokens)
    return view if most is None else fitting.keep_to(view, most, cuts=True)


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
    head, memory = _join_system_messages(system, view.instructions), view.memory.pieces
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


def list_asides(
    settings: Settings, record: MemoryRecord, window: Window, in_state: InState
) -> list[BaseMessage]:
    """List what is shown before the live request, what changes most often last.

    Each text stands in `<system-reminder>` and comes from the record or the state, so that it is
    the same in each call of a turn: another one would make signed reasoning invalid.
    """
    texts = {
        OTHERS_ID: _write_others(record),
        WORKING_ID: in_state.working,
        STATE_ID: write_channels(settings, window, in_state.channels),
        RECALLED_ID: _read_recalled(record, window),
    }
    return [HumanMessage(text, id=key) for key, text in texts.items() if text]


def _write_others(record: MemoryRecord) -> str:
    """Write the recent words of other threads, with a line on those that have no room."""
    others = record.get("others")
    texts = [thread["text"] for thread in others["recent"]] if others is not None else []
    hidden = others["hidden"] if others is not None else 0
    if hidden:
        texts.insert(0, f"[{hidden} other conversation{'' if hidden == 1 else 's'} left out]")
    return fill("other_conversations", conversations="\n\n".join(texts)) if texts else ""


def _read_recalled(record: MemoryRecord, window: Window) -> str:
    """Return what was found for the live request."""
    block = record.get("recalled")
    return block["text"] if block is not None and block["request"] == window.request else ""


def find_lines(settings: Settings, record: MemoryRecord, window: Window) -> Mapping[str, str]:
    """Find the lines that are shown before messages of a window, by key; most tell of pauses.

    Where what stood between two answers is observed, a line stands for it: a provider refuses an
    answer with calls of tools directly behind another answer.
    """
    found: dict[str, str] = {}
    at = len(window.strays.messages)
    if 0 < at < len(window.entries):
        before, behind = window.entries[at - 1].message, window.entries[at]
        if isinstance(before, AIMessage) and isinstance(behind.message, AIMessage):
            found[behind.key] = load("continuation")
    found.update(find_gaps(settings, record, window))
    return found


def write_reminder(settings: Settings, record: MemoryRecord, window: Window, dropped: int) -> str:
    """Return what stands for the messages that are not shown; empty for nothing."""
    said = [load("continuation")] if record["log"] else []
    gone = [entry.key for entry in window.entries[:dropped] if entry.key != window.request]
    if gone:
        can = _READ_FROM if _can_recall(settings) else _READ_BY_HANDLE
        ranges = escape(write_ranges(((gone[0], gone[-1]),)))
        said.append(fill("trimmed", count=str(len(gone)), ranges=ranges, how=can))
    return "\n".join(said)


_READ_FROM = "Call `recall` with one of these two ids as `cursor` to read them."
_SEARCH = "Call `recall` in the mode `search` to find what they were made from."
_READ_BY_HANDLE = "Whoever runs this agent reads them with `memory.of(graph, config)`."


def _can_recall(settings: Settings) -> bool:
    recall = settings.parts.recall
    return recall is not None and recall.is_bound


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
    settings: Settings,
    record: MemoryRecord,
    today: date,
    left: LeftOut = LeftOut(),  # noqa: B008 nothing of it changes
) -> MemoryText:
    """Render what the system message says of the memory."""
    note = _note_left_out(settings, record, left)
    if left.texts:
        record = {**record, "log": left.select(record["log"])}
    apart = {STANDING: write_rules(record), "pinned": write_pinned(record)}
    apart = {name: text for name, text in apart.items() if text and name not in left.sections}
    log = select_log(record["log"])
    groups = [group for group in log if group["text"]]  # the others held nothing worth noting
    framing = _frame(settings, record, groups)
    if not (log or note or apart or framing.is_needed):
        return MemoryText(_tell_of_recall(settings, record, has_memory=False))
    hints = {} if "hints" in left.sections else settings.list_closing(record)
    return MemoryText(
        _write_instructions(settings, record, framing),
        apart,
        note,
        _render_log(settings, groups, framing, today) if log or note else None,
        _write_hints(hints),
    )


def count_instructions(settings: Settings) -> int:
    """Count what memory says to the Actor in each call once it holds something."""
    text = _write_instructions(settings, blank_record(), _frame(settings, blank_record(), []))
    return sum(map(settings.counter.count_text, (text, load("continuation"))))


def _write_instructions(settings: Settings, record: MemoryRecord, framing: Framing) -> str:
    rules = tell_hints(settings.hints, "actor")
    told = _tell_of_recall(settings, record, has_memory=True)
    texts = [fill("actor_instructions", hints=rules), framing.instruction, told]
    return "\n\n".join(filter(None, texts))


def _frame(settings: Settings, record: MemoryRecord, groups: Sequence[Group]) -> Framing:
    sharing = settings.parts.sharing
    return Framing() if sharing is None else sharing.frame(settings, record, groups)


def _note_left_out(settings: Settings, record: MemoryRecord, left: LeftOut) -> str:
    """Return the line that stands for the observations that are left out; empty for none."""
    count = left.count_observations(record)
    how = _SEARCH if _can_recall(settings) else _READ_BY_HANDLE
    return fill("shortened_log", count=str(count), how=how) if count else ""


def _tell_of_recall(settings: Settings, record: MemoryRecord, *, has_memory: bool) -> str:
    recall = settings.parts.recall
    return "" if recall is None else recall.instructions(record, has_memory=has_memory)


def _render_log(
    settings: Settings,
    groups: Sequence[Group],
    framing: Framing,
    today: date,
) -> list[Block]:
    """Render the log, one block per group; a text stays the same when the log grows."""
    frames = list(framing.frames) or [""] * (len(groups) + 1)
    end = "" if framing.frames else "\n\n"
    recall = settings.parts.recall  # it names the ids behind a group, which are no dates
    ids = ["" if recall is None else recall.line_after(group) for group in groups]
    tails = [f"\n{line}{end}" if line else end for line in ids]
    as_of = _AS_OF.format(format_weekday(today), settings.timezone)
    count = settings.counter.count_text
    blocks: list[Block] = []
    previous: date | None = None
    for frame, group, tail in zip(frames, groups, tails, strict=False):
        if frame.strip():  # each section has its own headings
            previous = None
        block, previous = _render_group(
            count, frame, group["text"], tail, today=today, previous=previous
        )
        blocks.append(block)
    end = f"{as_of}\n</observations>"
    if frames[-1]:
        end = f"{frames[-1]}\n\n{end}"
    return [*blocks, Block(end, count(end))]


@lru_cache(maxsize=1024)  # each call of the Actor shows them, as they never change
def _render_group(
    count: Callable[[str], int],
    frame: str,
    text: str,
    tail: str,
    *,
    today: date,
    previous: date | None,
) -> tuple[Block, date | None]:
    """Render a group as of a day; return the last day that it names, too."""
    shown = escape(hide_low_marks(text))
    for tag in TAG_ENDS:  # the next group may begin with it
        shown = escape(f"{shown}{tag}").removesuffix(tag)
    shown, last = annotate(shown, today, previous)
    first, _, rest = text.partition("\n")
    if previous is not None and rest and observation_date(first) == previous:
        shown = shown.partition("\n")[2]  # the day goes on, under the heading that it has
    whole = f"{frame}{shown}{tail}"
    return Block(whole, count(whole)), last


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


CACHE_SECONDS: Final = 300
"""So long a provider keeps a prompt at least; the day of relative dates holds still meanwhile."""


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
    if pause > CACHE_SECONDS and not is_reasoning_under_way(window):
        return today
    return date.fromisoformat(former["as_of"])


def _name_log(record: MemoryRecord) -> str:
    """Name the log by its groups, whose texts never change but by hand."""
    return derive_id("log", *[f"{group['id']} {len(group['text'])}" for group in record["log"]])


def _list_parts(view: View) -> list[str]:
    """List what stands before the window."""
    parts = [*view.memory.pieces, view.reminder]
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
    said = [f"\x1f{lines.get(key, '')}{key} {digest}" for key, _, digest, _ in shown.entries]
    before = hashlib.blake2b(_encode("\x1f".join(parts)), digest_size=8)
    before.update(_encode("".join(said[:seen])))
    whole = before.copy()
    whole.update(_encode("".join(said[seen:])))
    return before.hexdigest(), whole.hexdigest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _was_answered_elsewhere(entries: Sequence[Entry]) -> bool:
    """Return whether one of these answers was not made to the Actor's last view.

    That view is followed by its answer; memory was off, or another agent spoke, for all others.
    """
    return any(holds_bound_reasoning(entry.message) for entry in entries[1:])


# --- The graph's state in sight ------------------------------------------------------------------
#
# A tool such as `write_todos` leaves the plan in a message, which is observed in time. The state
# still has it. So it is shown before the live request once no message of the window says it.

STATE_CHANNELS: Final = ("todos",)
"""The channels that are shown: the plan of LangChain's to-do list, which deep agents have."""
MOST_TOKENS: Final = 1000
"""Of one channel; of more, the beginning and the end are shown."""

_MARKS: Final[Mapping[str, str]] = {"completed": "x", "in_progress": "~", "pending": " "}


def write_channels(settings: Settings, window: Window, channels: Mapping[str, Any]) -> str:
    """Return the block of the channels that no message of the window says; empty for none."""
    hidden = {name: value for name, value in channels.items() if not is_said(name, value, window)}
    blocks = [
        f'<state name="{escape_attribute(name)}">\n{write_state(value, settings)}\n</state>'
        for name, value in hidden.items()
    ]
    return fill("state_in_sight", blocks="\n\n".join(blocks)) if blocks else ""


def list_channels(settings: Settings, channels: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and text of the channels as the Actor reads them."""
    return [(as_label(key), write_state(kept, settings)) for key, kept in channels.items()]


def is_said(name: str, value: Any, window: Window) -> bool:
    """Return whether a call in the window wrote a channel as it is now.

    A call counts that has an argument of the channel's name with its value; nothing after it in
    the window changed the channel then.
    """
    for entry in reversed(window.entries):
        calls = entry.message.tool_calls if isinstance(entry.message, AIMessage) else ()
        for call in calls:
            if name in call["args"]:
                return bool(call["args"][name] == value)
    return False


def write_state(value: Any, settings: Settings) -> str:
    """Return a channel's value as the Actor reads it: a task a line, or else as JSON."""
    lines = [_write_task(task) for task in value] if isinstance(value, list) else []
    is_plan = lines and all(line is not None for line in lines)
    text = "\n".join(filter(None, lines)) if is_plan else write_json(value)
    return escape(truncate_to_tokens(text, MOST_TOKENS, settings.counter.count_text))


def _write_task(task: Any) -> str | None:
    """Return the line of a task as LangChain's to-do list has it; `None` for anything else."""
    if not isinstance(task, Mapping) or not {"content", "status"} <= set(task):
        return None
    mark = _MARKS.get(str(task["status"]), str(task["status"]))
    return f"- [{mark}] {task['content']}"
