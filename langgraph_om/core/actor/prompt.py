"""What the Actor sees: one system message, a reminder, and the messages that are not observed yet.

The order keeps the longest prefix unchanged from call to call, so that a provider's prompt cache
can hold it: the agent's own prompt, our constant instructions, the observations group by group, and
only then what changes often. Text of users and models is escaped, so that none of it closes or
opens a tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.core.actor.relative_dates import annotate
from langgraph_om.core.config.settings import RecallGuide
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import CONTINUATION_ID, ShowId
from langgraph_om.core.observe.thread_sections import CLOSE, write_opening
from langgraph_om.core.prompts import load
from langgraph_om.core.record.record import log_tokens, write_range
from langgraph_om.core.record.window import Window, find_safe_cuts
from langgraph_om.core.wire import Group, MemoryRecord

_FIXED_TOKENS = 600
"""At least what our constant instructions, the reminder and the tags cost."""

_REMINDER_TOKENS = 80
"""What the reminder costs that stands for left-out messages where there are no observations."""

_TAG_ENDS = (
    *("thread", "observations", "log", "conversation", "task", "response", "title", "reminder"),
)
"""What makes one of our tags of a text that ends in its sign, or in the first word of its name."""

ContentBlock = str | dict[str, Any]


def count_extra(record: MemoryRecord, guide: RecallGuide | None) -> int:
    """Estimate what stands in the prompt beside window and log: recall, and other threads."""
    return count_recall(record, guide) + sum(
        len(each["text"]) // 3 for each in record["others"] if each["text"]
    )


def count_recall(record: MemoryRecord, guide: RecallGuide | None) -> int:
    """Estimate what recall adds to the observations: the guide, and the range line of each group.

    The tokens of a group are those of its text, as the thresholds are about what the Observer and
    the Reflector write, and neither sees a range line.
    """
    if guide is None or not record["log"]:
        return 0
    # An id is read in small pieces, of two characters or more.
    return guide.tokens + sum(len(_write_range(group)) // 2 for group in _select_groups(record))


def assemble(
    record: MemoryRecord,
    messages: Sequence[BaseMessage],
    window: Window,
    *,
    today: date,
    system: str | SystemMessage | None = None,
    max_input_tokens: int | None = None,
    guide: RecallGuide | None = None,
    show_id: ShowId | None = None,
) -> list[BaseMessage]:
    """Put together the Actor's input.

    Args:
        record: The memory of the thread.
        messages: The whole conversation; none of them is changed.
        window: Its unobserved messages.
        today: The day from which relative dates are told, in the memory's time zone.
        system: The agent's own system prompt, if it is not among the messages.
        max_input_tokens: Above this, the oldest messages of the window are left out of the view.
        guide: With recall, what the Actor is told about it; groups then name their messages.
        show_id: With a shared log, how a thread's id is shown; observations then stand in sections.

    Returns:
        At most one system message, then the conversation. Without observations these are the given
        messages as they are.
    """
    head = _read_own_system(system, messages)
    lead = "\n\n" if _to_blocks(head) else ""
    memory = _build_memory_blocks(record, today, lead=lead, guide=guide, show_id=show_id)
    extra = count_extra(record, guide) if max_input_tokens is not None else 0
    dropped = count_left_out(window, log_tokens(record), max_input_tokens, extra=extra)
    shown: list[BaseMessage] = [entry.message for entry in window.entries[dropped:]]
    out: list[BaseMessage] = []
    if memory:
        blocks = [*_to_blocks(head), *memory]
        out.append(
            SystemMessage(blocks) if head is None else head.model_copy(update={"content": blocks})
        )
    elif head is not None:
        out.append(head)
    if record["log"] or dropped:
        reminder = load("continuation" if record["log"] else "trimmed")
        out.append(HumanMessage(reminder, id=CONTINUATION_ID))
    request = _pin_request(window, dropped)
    if request is not None:
        out.append(request)
    return [*out, *_collect_calls(shown, messages), *shown]


def _read_own_system(
    system: str | SystemMessage | None, messages: Sequence[BaseMessage]
) -> SystemMessage | None:
    """Join the agent's own system texts to one message; a single one stays as it is."""
    given = SystemMessage(system) if isinstance(system, str) else system
    # The few types are looked at instead of each message: a conversation may be very long.
    kinds = {kind for kind in set(map(type, messages)) if issubclass(kind, SystemMessage)}
    own = [m for m in messages if isinstance(m, SystemMessage)] if kinds else []
    parts = [given, *own] if given is not None else own
    if len(parts) <= 1:
        return parts[0] if parts else None
    return SystemMessage([block for part in parts for block in _to_blocks(part)])


def _to_blocks(message: SystemMessage | None) -> list[ContentBlock]:
    if message is None:
        return []
    content = message.content
    if isinstance(content, str):
        return [_to_text_block(content)] if content else []
    return [_to_text_block(block) if isinstance(block, str) else block for block in content]


def _to_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _build_memory_blocks(
    record: MemoryRecord,
    today: date,
    *,
    lead: str,
    guide: RecallGuide | None,
    show_id: ShowId | None,
) -> list[ContentBlock]:
    """Render the memory as content blocks; `lead` parts the first from what precedes it."""
    others = render_others(record["others"]) if show_id is not None else ""
    if not record["log"] and not others:
        return []
    told = [load("actor_instructions")]
    if show_id is not None:
        told.append(load("actor_threads"))
    if guide is not None:
        told.append(guide.text)
    instructions = "\n\n".join(told)
    blocks = [f"{lead}{instructions}"]
    if record["log"]:
        blocks = [
            f"{blocks[0]}\n\n<observations>\n",
            *_build_log_blocks(record, today, guide, show_id),
        ]
    if others:
        blocks.append(f"\n\n{others}")
    if hints := _build_hints(record):
        blocks.append(hints)
    return [_to_text_block(block) for block in blocks]


def _build_log_blocks(
    record: MemoryRecord, today: date, guide: RecallGuide | None, show_id: ShowId | None
) -> list[str]:
    """Render the log, a text for each group; a text stays as it is when the log grows."""
    groups = _select_groups(record)
    frames = [""] * (len(groups) + 1)
    if show_id is not None:
        frames = frame_sections(groups, show_id, current=record["thread_id"])
    blocks: list[str] = []
    previous: date | None = None
    for group, frame in zip(groups, frames, strict=False):
        if frame.strip():  # the days of another thread begin anew
            previous = None
        told, previous = _render_group(group["text"], today, previous)
        line = _write_range(group) if guide is not None else ""
        end = "" if show_id is not None else "\n\n"
        blocks.append(f"{frame}{told}\n{line}{end}" if line else f"{frame}{told}{end}")
    return [*blocks, f"{frames[-1]}\n</observations>" if frames[-1] else "</observations>"]


def _select_groups(record: MemoryRecord) -> list[Group]:
    """Return the groups with a text; the messages of others held nothing worth noting."""
    return [group for group in record["log"] if group["text"]]


def _write_range(group: Group) -> str:
    """Name the messages behind a group; ids are not dates, whatever they look like."""
    return escape(write_range(group))


@lru_cache(maxsize=1024)
def _render_group(text: str, today: date, previous: date | None) -> tuple[str, date | None]:
    """Render a group as of a day; kept, because groups never change and every call shows them."""
    text = escape(text)
    for rest in _TAG_ENDS:  # the group after this one may begin with it
        text = escape(f"{text}{rest}").removesuffix(rest)
    return annotate(text, today, previous)


def _build_hints(record: Mapping[str, Any]) -> str:
    tags = {"current-task": "current_task", "suggested-response": "suggested_response"}
    return "".join(
        f"\n\n<{tag}>\n{escape(record[key])}\n</{tag}>" for tag, key in tags.items() if record[key]
    )


def _pin_request(window: Window, dropped: int) -> BaseMessage | None:
    """Return the live user request when it would not be shown otherwise."""
    if window.request_message is not None:
        return window.request_message
    for entry in window.entries[:dropped]:
        if entry.key == window.request:
            return entry.message
    return None


def _collect_calls(
    shown: Sequence[BaseMessage], messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Bring back the calls whose results came so late that the calls were observed before them."""
    called: set[str] = set()
    missing: set[str] = set()
    for message in shown:
        if isinstance(message, AIMessage):
            called |= {str(call["id"]) for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id not in called:
            missing.add(message.tool_call_id)
    if not missing:
        return []
    present = {id(message) for message in shown}
    return _collect_exchanges(missing, [m for m in messages if id(m) not in present])


def _collect_exchanges(call_ids: set[str], messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Find the newest messages that make these calls, each with its other results."""
    brought: list[BaseMessage] = []
    missing = set(call_ids)
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not missing:
            break
        if isinstance(message, ToolMessage):
            results.append(message)
            continue
        if isinstance(message, AIMessage):
            ids = {str(call["id"]) for call in message.tool_calls}
            if ids & missing:
                missing -= ids
                brought += [r for r in results if r.tool_call_id in ids]
                brought.append(message)
        results = []
    return brought[::-1]


def count_left_out(window: Window, log: int, limit: int | None, *, extra: int = 0) -> int:
    """Count the window's oldest messages that the view leaves out to keep to a limit.

    Only whole exchanges are left out, and the newest one always stays; the live user request is
    shown whatever happens.

    Args:
        window: The unobserved messages.
        log: Tokens of the observation log.
        limit: Tokens of observations and messages together; `None`: no limit.
        extra: What recall and other threads add to the observations, as `extra_tokens` tells.
    """
    if limit is None:
        return 0
    told = log or extra
    room = limit - window.request_tokens - ((log + _FIXED_TOKENS + extra) if told else 0)
    if window.tokens <= room:
        return 0
    room -= 0 if told else _REMINDER_TOKENS
    size, before, dropped = window.tokens, 0, 0
    for cut in find_safe_cuts(window.entries):
        if cut == len(window.entries) or size <= room:
            break
        leaving = [e.tokens for e in window.entries[before:cut] if e.key != window.request]
        if leaving:  # the live request leaves its place, never the view
            size -= sum(leaving)
            before = dropped = cut
    return dropped


# --- What the Actor is shown ---------------------------------------------------------------------


def frame_sections(
    groups: Sequence[Group], show_id: ShowId, *, current: str | None = None
) -> list[str]:
    """Return what stands before each group, and last what stands after all of them.

    A closing tag is part of what follows it, so that all but the last frame stay the same, byte by
    byte, when the log grows.

    Args:
        groups: The groups that are shown; those without a text are not.
        show_id: Tells how a thread's id is shown.
        current: The thread that the Actor is in; its sections are marked.
    """
    frames: list[str] = []
    before: str | None = None
    for at, group in enumerate(groups):
        thread = group["thread_id"]
        gap = "\n\n" if at else ""
        if at and thread == before:
            frames.append(gap)
        else:
            close = f"\n{CLOSE}" if before is not None else ""
            tag = _write_opening(thread, show_id, current)
            frames.append(f"{close}{gap}{tag}")
        before = thread
    return [*frames, f"\n{CLOSE}" if before is not None else ""]


def _write_opening(thread: str | None, show_id: ShowId, current: str | None) -> str:
    if thread is None:
        return ""
    return f"{write_opening(show_id(thread), current=thread == current)}\n"


def render_others(others: Sequence[Mapping[str, Any]]) -> str:
    """Return the blocks to show, with a line about threads for which there is no room."""
    texts = [each["text"] for each in others if each["text"]]
    hidden = len(others) - len(texts)
    if hidden:
        texts.insert(0, f"[{hidden} other conversation{'' if hidden == 1 else 's'} left out]")
    return "\n\n".join(texts)
