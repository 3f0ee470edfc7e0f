"""The identity of content: equal to a reader means an equal digest, in every release."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.text import SURROGATE, as_label, as_mapping, as_sequence, write_repr

SPEAKERS: Final = frozenset({HumanMessage, AIMessage, ToolMessage})
"""The classes of nearly all messages, which are said in a conversation."""


def find_others(messages: Sequence[Any]) -> list[int]:
    """Return the indexes of what is neither a `HumanMessage`, an `AIMessage` nor a `ToolMessage`.

    Subclasses of these are other classes.
    """
    # By class first, as a loop takes longer, and each step asks whatever a thread's length.
    if SPEAKERS.issuperset(map(type, messages)):
        return []
    return [at for at, each in enumerate(messages) if type(each) not in SPEAKERS]


def content_digest(message: BaseMessage) -> str:
    """Return 16 hex digits that change when what a reader sees of the message changes.

    Type, content, tool calls, reasoning, `tool_call_id` and `status` count; the message's id,
    usage and response metadata do not.
    """
    fields = vars(message)
    content = fields.get("content")
    content = "" if content is None else content
    head = _PLAIN_HEADS.get(type(message))
    # The separator tells a text from a list of blocks; a head holds neither byte.
    if isinstance(content, str):
        body = b"\0" + content.encode(errors=_JOINED)
    else:
        head, body = None, b"\1" + _canonical(content)
    if head is None or not is_plain(fields):
        head = _digest_head(fields)
    return hashlib.blake2b(head + body, digest_size=8).hexdigest()


def fingerprint(message: BaseMessage) -> str:
    """Return 4 hex digits that nearly always change when `content_digest` does; it takes longer."""
    fields = vars(message)
    content = fields.get("content")
    if not isinstance(content, str) or not is_plain(fields):
        return content_digest(message)[:4]
    return f"{crc32(content.encode(errors=_JOINED)) & 0xFFFF:04x}"


def is_plain(fields: Mapping[str, Any]) -> bool:
    """Return whether a message says nothing beside its content: no calls, reasoning, transcript.

    Nearly all are so, and are read often. Other extras may be there.
    """
    extras = fields.get("additional_kwargs")
    return (
        not fields.get("tool_calls")
        and not fields.get("invalid_tool_calls")
        and isinstance(extras, dict)
        and not any(map(extras.get, _SAID_BESIDE))
    )


_SAID_BESIDE: Final = ("function_call", "reasoning_content", "reasoning", "audio", "refusal")
"""Extras of a message in which providers state what is part of it."""


def said_beside(fields: Mapping[str, Any]) -> list[str]:
    """Return what a message says beside its content: spoken, or as a refusal."""
    extras = as_mapping(fields.get("additional_kwargs"))
    said = (as_mapping(extras.get("audio")).get("transcript"), extras.get("refusal"))
    return [text for text in said if isinstance(text, str) and text.strip()]


_PLAIN_HEADS: Final[Mapping[type[BaseMessage], bytes]] = {
    HumanMessage: b'"human"',
    AIMessage: b'"ai"',
}
"""What `_digest_head` gives for messages that are text and nothing else."""


def _digest_head(fields: Mapping[str, Any]) -> bytes:
    kind = fields.get("type")
    if isinstance(kind, str) and kind.endswith(_STREAMED):  # it reads as its whole form does
        kind = kind.removesuffix(_STREAMED).lower()
    extras = as_mapping(fields.get("additional_kwargs"))
    parts = [
        [_call_identity(call) for call in as_sequence(fields.get("tool_calls"))],
        [_call_identity(call) for call in as_sequence(fields.get("invalid_tool_calls"))],
        *map(fields.get, ("tool_call_id", "status", "role")),
        *map(extras.get, ("function_call", "reasoning_content")),
        *(said_beside(fields) if extras else ()),
    ]
    return _canonical([kind, *parts]) if any(parts) else _canonical(kind)


_STREAMED: Final = "MessageChunk"
"""How the types of `AIMessageChunk` and its like end."""


def _call_identity(call: Any) -> Any:
    return [call.get(key) for key in ("name", "args", "id")] if isinstance(call, Mapping) else call


_write_canonical = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=str).encode


def _canonical(value: object) -> bytes:
    """Return the one JSON form of a value; keys are sorted, and escapes keep it plain ASCII."""
    try:
        text = _write_canonical(value)
    except Exception:  # noqa: BLE001  (recursive, too deep, odd keys, a failing `__str__`)
        text = json.dumps(write_repr(value))
    return text.encode("ascii")


def _join_halves(error: Any) -> tuple[bytes, int]:
    """Encode a run of surrogates: halves of one pair become one character, as JSON reads them."""
    halves = error.object[error.start : error.end].encode("utf-16-le", "surrogatepass")
    joined = halves.decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "surrogatepass"), error.end


_JOINED: Final = "om-join-halves"
codecs.register_error(_JOINED, _join_halves)


def derive_id(prefix: str, *parts: object) -> str:
    """Name something by its content, so that repeating the work repeats the name."""
    text = "".join(map("{}\x1f".format, parts))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return f"{prefix}-{digest.hexdigest()}"


ShowId = Callable[[str], str]
"""Tells how models are shown a thread's id: as it is, or as a hash. No two ids look the same."""


def hidden_id(thread_id: str) -> str:
    """Write a thread id so that it cannot be read, always the same way."""
    return derive_id("thread", thread_id)


_NESTED: Final = "|>"


def nest_thread_id(thread_id: str, place: Sequence[str]) -> str:
    """Name the conversation of an agent that runs within another graph on that one's thread."""
    return f"{thread_id}{_NESTED}{'|'.join(place)}" if thread_id and place else thread_id


def find_parent_thread(thread_id: str) -> str | None:
    """Return the thread within which a nested conversation runs; `None` for any other thread."""
    parent, mark, _ = thread_id.partition(_NESTED)
    return parent if mark and parent else None


def add_parents(thread_ids: Iterable[str]) -> set[str]:
    """Return threads, and those within which they run."""
    return {each for key in thread_ids for each in (key, find_parent_thread(key)) if each}


def belongs_to(key: str | None, thread_id: str) -> bool:
    """Return whether a thread is another one, or runs within that."""
    return key is not None and thread_id in (key, find_parent_thread(key))


def runs_in_tool(thread_id: str) -> bool:
    """Return whether a nested conversation runs within a tool, so that an agent speaks as user."""
    return "tools" in thread_id.partition(_NESTED)[2].split("|")


CONTINUATION_ID = "om-continuation"
"""Id of the reminder that stands for the observed part of the conversation in the Actor's prompt.
"""

GAP_ID = "om-gap"
"""Id of the lines that tell the Actor of pauses."""

OTHERS_ID = "om-other-conversations"
"""Id of what shows the Actor the recent messages of other threads."""

RECALLED_ID = "om-recalled"
"""Id of what shows the Actor earlier messages that a search for its request has found."""

WORKING_ID = "om-working-memory"
"""Id of what shows the Actor its working memory."""

STATE_ID = "om-state"
"""Id of what shows the Actor parts of the graph's state."""

OWN_IDS: Final = frozenset({CONTINUATION_ID, GAP_ID, OTHERS_ID, RECALLED_ID, WORKING_ID, STATE_ID})
"""The ids of all that memory shows the Actor as messages."""

_OPENING, _CLOSING = "<system-reminder>", "</system-reminder>"
"""What our reminders begin and end with."""

MAX_ID_CHARACTERS = 500
"""A database takes no longer key, and every checkpoint holds a message's key several times."""


Keyed = list[tuple[str, BaseMessage]]
"""Messages, each with its key."""


INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
"""Roles, in small letters, whose words tell the Actor what to do and are no part of what is said.
"""


def is_conversation(message: BaseMessage) -> bool:
    """Return whether a message was said in the conversation.

    Instructions were not, nor was our reminder, nor a request to remove a message.
    """
    if type(message) in SPEAKERS and message.id not in OWN_IDS:  # nearly all are
        return True
    return not (message.type == "remove" or is_instruction(message) or is_reminder(message))


def is_instruction(message: BaseMessage) -> bool:
    """Return whether a message is a system message, by its class, its role or its type."""
    role = message.role if isinstance(message, ChatMessage) else message.type
    return isinstance(message, SystemMessage) or as_label(role).casefold() in INSTRUCTION_ROLES


def is_reminder(message: BaseMessage) -> bool:
    """Return whether a message is one of ours: by its id and its text, as users choose ids too."""
    if message.id not in OWN_IDS or not isinstance(message, HumanMessage):
        return False
    text = message.content
    if message.id == GAP_ID:
        return isinstance(text, str) and text.startswith("[") and text.endswith("]")
    return isinstance(text, str) and text.startswith(_OPENING) and text.rstrip().endswith(_CLOSING)


def keyed_messages(messages: Sequence[BaseMessage]) -> Keyed:
    """Give every message a key of its own, numbered where messages share one."""
    keys = [*map(key_of, messages)]
    if len({*keys}) == len(keys):  # as nearly always
        return [*zip(keys, messages, strict=True)]
    seen: dict[str, int] = {}
    taken: set[str] = set()
    keyed: Keyed = []
    for key, message in zip(keys, messages, strict=True):
        count = seen.get(key, 0) + 1
        name = f"{key}#{count}" if count > 1 else key
        while name in taken:  # at most once for each name, as no number is tried again
            count += 1
            name = f"{key}#{count}"
        seen[key] = count
        taken.add(name)
        keyed.append((name, message))
    return keyed


def keyed_conversation(messages: Sequence[BaseMessage]) -> Keyed:
    """Return what was said in the conversation, each message with its key."""
    return [entry for entry in keyed_messages(messages) if is_conversation(entry[1])]


def key_of(message: BaseMessage) -> str:
    """Name a message by its id, or by its content where it has none.

    An id that is too long for a key, or no text that can be encoded, is named by its digest.
    """
    key = message.id
    if key and len(key) <= MAX_ID_CHARACTERS and (key.isascii() or not SURROGATE.search(key)):
        return key
    return derive_id("message", key or content_digest(message))
