"""Assemble what the Actor sees: one system message, a reminder, and the unobserved messages.

The order keeps the longest prefix unchanged from call to call, so that a provider's prompt cache
can hold it: the agent's own prompt, our constant instructions, the observations group by group, and
only then what changes often. Text of users and models is escaped, so that it cannot open or close
one of our tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.actor.relative_dates import annotate
from langgraph_om.core.config.settings import RecallGuide
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.message_keys import CONTINUATION_ID, ShowId, is_instruction
from langgraph_om.core.observe.thread_sections import CLOSE, write_opening
from langgraph_om.core.prompts import load
from langgraph_om.core.record.record import log_tokens, write_range
from langgraph_om.core.record.window import Window
from langgraph_om.core.wire import Excerpt, Group, MemoryRecord

_FIXED_TOKENS = 600
"""A lower bound of what our constant instructions, the reminder and the tags cost."""

_REMINDER_TOKENS = 80
"""What the reminder of left-out messages costs where there are no observations."""

_TAG_ENDS = (
    *("thread", "observations", "log", "conversation", "task", "response", "title", "reminder"),
)
"""What completes one of our tags after a `<`, or after the first word of the tag's name."""

ContentBlock = str | dict[str, Any]


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
    """Assemble the Actor's input.

    Args:
        record: The memory of the thread.
        messages: The whole conversation; no message is changed.
        window: Its unobserved messages.
        today: The day that relative dates are relative to, in the memory's time zone.
        system: The agent's own system prompt, if it is not among the messages.
        max_input_tokens: Above this, the oldest messages of the window are left out of the view.
        guide: With recall, what the Actor is told about it; groups then name their messages.
        show_id: With a shared log, writes a thread's id for the model; observations are then in
            sections.

    Returns:
        At most one system message, then the conversation. Without observations these are the given
        messages, unchanged.
    """
    head = _join_system_messages(system, messages)
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
    request = _find_pinned_request(window, dropped)
    if request is not None:
        out.append(request)
    return [*out, *_find_missing_calls(shown, messages), *shown]


def count_extra(record: MemoryRecord, guide: RecallGuide | None) -> int:
    """Estimate the tokens in the prompt beside window and log: recall, and other threads."""
    return _count_recall(record, guide) + sum(
        len(thread["text"]) // 3 for thread in record["others"] if thread["text"]
    )


def count_left_out(window: Window, log: int, limit: int | None, *, extra: int = 0) -> int:
    """Count the window's oldest messages that are left out of the view to keep to a limit.

    Only whole exchanges are left out, and the newest one always stays; the live user request is
    always shown.

    Args:
        window: The unobserved messages.
        log: Tokens of the observation log.
        limit: Tokens of observations and messages together; `None`: no limit.
        extra: Tokens that recall and other threads add to the observations, from `count_extra`.
    """
    if limit is None:
        return 0
    has_memory = bool(log or extra)
    room = limit - window.request_tokens - ((log + _FIXED_TOKENS + extra) if has_memory else 0)
    if window.tokens <= room:
        return 0
    room -= 0 if has_memory else _REMINDER_TOKENS
    size, before, dropped = window.tokens, 0, 0
    for cut in window.span.cuts:
        if cut == len(window.entries) or size <= room:
            break
        leaving = [
            entry.tokens for entry in window.entries[before:cut] if entry.key != window.request
        ]
        if leaving:  # the live request leaves its place, never the view
            size -= sum(leaving)
            before = dropped = cut
    return dropped


# --- The system message --------------------------------------------------------------------------

_INSTRUCTION_TYPES = (SystemMessage, ChatMessage)
"""The classes of messages that may be system messages."""


def _join_system_messages(
    system: str | SystemMessage | None, messages: Sequence[BaseMessage]
) -> BaseMessage | None:
    """Join the agent's own system messages into one; a single one stays as it is."""
    given = SystemMessage(system) if isinstance(system, str) else system
    # The few types are checked instead of each message: a conversation may be very long.
    kinds = {kind for kind in set(map(type, messages)) if issubclass(kind, _INSTRUCTION_TYPES)}
    own = [message for message in messages if is_instruction(message)] if kinds else []
    systems: list[BaseMessage] = [given, *own] if given is not None else own
    if len(systems) <= 1:
        return systems[0] if systems else None
    return SystemMessage([block for message in systems for block in _to_blocks(message)])


def _to_blocks(message: BaseMessage | None) -> list[ContentBlock]:
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
    """Render the memory as content blocks; `lead` separates the first from what precedes it."""
    others = _render_others(record["others"]) if show_id is not None else ""
    if not record["log"] and not others:
        return []
    instructions = [load("actor_instructions")]
    if show_id is not None:
        instructions.append(load("actor_threads"))
    if guide is not None:
        instructions.append(guide.text)
    text = "\n\n".join(instructions)
    blocks = [f"{lead}{text}"]
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


def _render_others(others: Sequence[Excerpt]) -> str:
    """Render the excerpts of other threads, with a line on those for which there was no room."""
    texts = [thread["text"] for thread in others if thread["text"]]
    hidden = len(others) - len(texts)
    if hidden:
        texts.insert(0, f"[{hidden} other conversation{'' if hidden == 1 else 's'} left out]")
    return "\n\n".join(texts)


def _build_log_blocks(
    record: MemoryRecord, today: date, guide: RecallGuide | None, show_id: ShowId | None
) -> list[str]:
    """Render the log, one text per group; a text stays the same when the log grows."""
    groups = _select_groups(record)
    frames = [""] * (len(groups) + 1)
    if show_id is not None:
        frames = frame_sections(groups, show_id, current=record["thread_id"])
    blocks: list[str] = []
    previous: date | None = None
    for group, frame in zip(groups, frames, strict=False):
        if frame.strip():  # each section has its own headings
            previous = None
        text, previous = _render_group(group["text"], today, previous)
        line = _escape_range(group) if guide is not None else ""
        end = "" if show_id is not None else "\n\n"
        blocks.append(f"{frame}{text}\n{line}{end}" if line else f"{frame}{text}{end}")
    return [*blocks, f"{frames[-1]}\n</observations>" if frames[-1] else "</observations>"]


def _select_groups(record: MemoryRecord) -> list[Group]:
    """Return the groups with a text; the messages of the others held nothing worth noting."""
    return [group for group in record["log"] if group["text"]]


def _escape_range(group: Group) -> str:
    """Return the escaped range line of a group; it is not annotated, as ids are not dates."""
    return escape(write_range(group))


@lru_cache(maxsize=1024)
def _render_group(text: str, today: date, previous: date | None) -> tuple[str, date | None]:
    """Render a group as of a day; cached, because groups never change and every call shows them."""
    text = escape(text)
    for rest in _TAG_ENDS:  # the next group may begin with it
        text = escape(f"{text}{rest}").removesuffix(rest)
    return annotate(text, today, previous)


def _build_hints(record: Mapping[str, Any]) -> str:
    tags = {"current-task": "current_task", "suggested-response": "suggested_response"}
    return "".join(
        f"\n\n<{tag}>\n{escape(record[key])}\n</{tag}>" for tag, key in tags.items() if record[key]
    )


def _count_recall(record: MemoryRecord, guide: RecallGuide | None) -> int:
    """Estimate the tokens that recall adds: the guide, and the range line of each group.

    A group's own count leaves the range line out, because the thresholds are about what the
    Observer and the Reflector write, and neither sees a range line.
    """
    if guide is None or not record["log"]:
        return 0
    # A token of an id has two characters or more.
    return guide.tokens + sum(len(_escape_range(group)) // 2 for group in _select_groups(record))


# --- The sections of a shared log ----------------------------------------------------------------


def frame_sections(
    groups: Sequence[Group], show_id: ShowId, *, current: str | None = None
) -> list[str]:
    """Return the text before each group, and as the last item the text after all of them.

    A closing tag belongs to the frame that follows it, so that all but the last frame stay the
    same, byte by byte, when the log grows.

    Args:
        groups: The groups that are shown, which are those with a text.
        show_id: Writes a thread's id for the model.
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
            tag = _open_section(thread, show_id, current)
            frames.append(f"{close}{gap}{tag}")
        before = thread
    return [*frames, f"\n{CLOSE}" if before is not None else ""]


def _open_section(thread: str | None, show_id: ShowId, current: str | None) -> str:
    if thread is None:
        return ""
    return f"{write_opening(show_id(thread), current=thread == current)}\n"


# --- The messages --------------------------------------------------------------------------------


def _find_pinned_request(window: Window, dropped: int) -> BaseMessage | None:
    """Return the live user request when it would not be shown otherwise."""
    if window.request_message is not None:
        return window.request_message
    for entry in window.entries[:dropped]:
        if entry.key == window.request:
            return entry.message
    return None


def _find_missing_calls(
    shown: Sequence[BaseMessage], messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the calls whose results are shown, but which were observed before those arrived."""
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
    """Return the newest messages that make these calls, each with its other results."""
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
                brought += [result for result in results if result.tool_call_id in ids]
                brought.append(message)
        results = []
    return brought[::-1]
