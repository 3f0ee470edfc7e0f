"""What a message holds: its texts, reasoning, tool calls, results and attachments, in their order.

One reading for the transcript and for recall. Nothing is cut here: a part keeps what the message
says, and its text is made when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.attachments import Placeholders, attachment_of
from langgraph_om.core.content.blocks import (
    ATTACHMENT_KINDS,
    CALL_CHUNK_TYPES,
    CALL_TYPES,
    REASONING_TYPES,
    RESULT_TYPES,
    TEXT_KEYS,
    attachment_kind,
    attachment_label,
    block_type,
    inline_document,
    reasoning_text,
    unwrapped,
)
from langgraph_om.core.content.message_keys import CONTINUATION_ID
from langgraph_om.core.content.text import (
    as_label,
    omit_middle,
    write_json,
    write_json_without_payloads,
)

EMPTY_RESULT: Final = "(empty result)"
NOTE_CHARACTERS: Final = 300
SILENT_TYPES: Final = CALL_CHUNK_TYPES | {"redacted_thinking", "input_json_delta"}
UNHEARD_ROLES: Final = frozenset({"system", "developer", "remove"})
ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message."""

    kind: str
    """`text`, `reasoning`, `tool-call`, `tool-result`, `tool-error`, `image`, `audio`, `video`,
    `file` or `other`."""

    body: object
    name: str = ""
    """Of the tool, or of a file that came as text."""

    call_id: str = ""

    @property
    def is_document(self) -> bool:
        """Return whether it is a file that came as text."""
        return self.kind == "file" and bool(self.name)


def role_of(message: BaseMessage) -> str | None:
    """Tell whose words a message holds; None when it is no part of the conversation."""
    if isinstance(message, SystemMessage | RemoveMessage) or message.id == CONTINUATION_ID:
        return None
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, ToolMessage | FunctionMessage):
        return "tool"
    role = as_label(message.role if isinstance(message, ChatMessage) else message.type)
    lowered = role.casefold()
    return None if lowered in UNHEARD_ROLES else ROLES.get(lowered, role or "participant")


def is_visible(message: BaseMessage) -> bool:
    """Return whether a message has content that a person could read."""
    content = message.content
    if isinstance(content, str) and content and not content.isspace():
        return role_of(message) is not None  # the common case, without making parts
    return next(parts_of(message), None) is not None


def parts_of(message: BaseMessage) -> Iterator[Part]:
    """Give the parts of a message that can be read, in order; the same message, the same parts."""
    if role_of(message) is None:
        return
    parts = all_parts(message, Placeholders())
    for part in _joined(parts) if isinstance(message, AIMessage) else parts:
        if part.kind not in {"text", "reasoning"} or str(part.body).strip():
            yield part


def part_text(part: Part) -> str:
    """Give the whole text of a part; what is attached stands in it by name only."""
    if part.kind in {"tool-result", "tool-error"}:
        return _result_text(part.body)
    if part.kind == "other":
        label, rest = unknown_block(part.body)
        return f"{label} {write_json_without_payloads(rest)[0]}"
    return write_json(part.body) if part.kind == "tool-call" else str(part.body)


def all_parts(message: BaseMessage, placeholders: Placeholders) -> Iterator[Part]:
    """Give the content in its order, blank texts too, then the calls that only the list has.

    Args:
        message: The message.
        placeholders: Names what is attached.
    """
    if isinstance(message, ToolMessage | FunctionMessage):
        failed = getattr(message, "status", "") == "error"
        call_id = as_label(getattr(message, "tool_call_id", ""))
        kind = "tool-error" if failed else "tool-result"
        yield Part(kind, _result_body(message), as_label(message.name), call_id)
        return
    listed = _listed_calls(message)
    shown = {call.call_id for call in listed}
    parts = [
        part for block in _blocks(message.content) for part in _block_parts(block, placeholders)
    ]
    if all(part.kind != "reasoning" for part in parts):
        extra = message.additional_kwargs
        yield Part(
            "reasoning", reasoning_text(extra.get("reasoning_content") or extra.get("reasoning"))
        )
    for part in parts:
        # A call among the blocks is usually one of the listed ones in the provider's form.
        if part.kind == "tool-call":
            if part.call_id in shown or (listed and not part.call_id):
                continue
            shown |= {part.call_id} - {""}
        yield part
    yield from listed


def result_parts(content: object, placeholders: Placeholders) -> Iterator[Part]:
    """Give the parts of a result; what it should not hold, such as another one, is unknown."""
    for block in _blocks(content):
        for part in _block_parts(block, placeholders):
            is_foreign = part.kind.startswith(("tool-", "reason"))
            yield Part("other", block) if is_foreign else part


def call_names(message: BaseMessage) -> Iterator[tuple[str, str]]:
    """Give the id and the tool's name of every call in a message that has an id."""
    blocks = _dicts(_blocks(message.content))
    called = (_call(block) for block in blocks if block_type(block) in CALL_TYPES)
    for call in (*_listed_calls(message), *called):
        if call.call_id:
            yield call.call_id, call.name


def unknown_block(block: object) -> tuple[str, object]:
    """Return the label of a block that nobody here can read, and what there is in it."""
    if not isinstance(block, dict):
        return "[block]", block
    rest = {key: value for key, value in block.items() if key != "type"}
    return f"[{as_label(block.get('type')) or 'block'}]", rest


def _joined(parts: Iterator[Part]) -> Iterator[Part]:
    """Join neighbouring texts: models send one sentence in several blocks."""
    texts: list[str] = []
    for part in parts:
        if part.kind == "text":
            texts.append(str(part.body))
            continue
        if texts and (part.kind != "reasoning" or str(part.body).strip()):
            yield Part("text", "".join(texts))
            texts = []
        yield part
    yield Part("text", "".join(texts))


def _blocks(content: object) -> list[object]:
    """List the content blocks, with wrappers around foreign ones taken off."""
    blocks = content if isinstance(content, list) else [content]
    return [unwrapped(block) for block in blocks if block is not None]


def _block_parts(block: object, placeholders: Placeholders) -> Iterator[Part]:
    """Give the part that a content block is, if it shows anything."""
    if not isinstance(block, dict):
        yield Part("text" if isinstance(block, str) else "other", block)
        return
    stated = block_type(block)
    if stated in CALL_TYPES:
        yield _call(block)
    elif stated in RESULT_TYPES or stated.endswith("_tool_result"):
        yield _block_result(block)
    elif stated in REASONING_TYPES:
        yield Part("reasoning", reasoning_text(block))
    elif stated not in SILENT_TYPES:
        yield _plain_part(block, stated, placeholders)


def _plain_part(block: Mapping[Any, Any], stated: str, placeholders: Placeholders) -> Part:
    """Read a block that is a text, a document, an attachment or something unknown."""
    text = block.get(TEXT_KEYS.get(stated, ""))
    if isinstance(text, str):
        return Part("text", text)
    if stated not in ATTACHMENT_KINDS:
        return Part("other", block)
    kind = attachment_kind(block, stated)
    if kind == "File" and (document := inline_document(block)):
        return Part("file", document, attachment_label(block) or "text")
    return Part(kind.lower(), placeholders.add(block, stated))


def _call(call: Mapping[Any, Any]) -> Part:
    """Read a tool call, in whichever form; arguments nobody could parse come with the error."""
    arguments: object = next(
        (call[key] for key in ("args", "input", "arguments") if key in call), {}
    )
    if error := call.get("error"):
        note = omit_middle(error if isinstance(error, str) else "", NOTE_CHARACTERS)
        arguments = f"{arguments if isinstance(arguments, str) else ''}\n[invalid: {note}]"
    call_id = call.get("call_id") or call.get("id")
    return Part("tool-call", arguments, as_label(call.get("name")) or "tool", as_label(call_id))


def _block_result(block: Mapping[Any, Any]) -> Part:
    """Read a result that stands among the content blocks of a message."""
    failed = block.get("is_error") is True or block.get("status") == "error"
    body = next((block[key] for key in ("content", "output") if key in block), None)
    ids = (block.get(key) for key in ("tool_use_id", "tool_call_id", "call_id"))
    call_id = next(filter(None, map(as_label, ids)), "")
    kind = "tool-error" if failed else "tool-result"
    return Part(kind, body, as_label(block.get("name")), call_id)


def _result_body(message: BaseMessage) -> object:
    """Return the content of a result, and behind it what its artifact holds of attachments."""
    artifact = getattr(message, "artifact", None)
    attached = []
    for block in _dicts(artifact if isinstance(artifact, list) else [artifact]):
        # Only with its bytes: a list of files has the same form.
        stated = block.get("type")
        if isinstance(stated, str) and stated in ATTACHMENT_KINDS:
            found = attachment_of("", block, stated)
            attached += [block] if found and found.data else []
    return [*_blocks(message.content), *attached] if attached else message.content


def _listed_calls(message: BaseMessage) -> list[Part]:
    """List the calls that stand beside the content, those with unusable arguments too."""
    invalid = _dicts(getattr(message, "invalid_tool_calls", None))
    calls = [
        *_dicts(getattr(message, "tool_calls", None)),
        *({**call, "error": call.get("error") or "arguments"} for call in invalid),
    ]
    legacy = message.additional_kwargs.get("function_call")
    return [_call(call) for call in calls or _dicts([legacy])]


def _dicts(value: object) -> list[dict[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content if content.strip() else EMPTY_RESULT
    if content is not None and not isinstance(content, list):
        return write_json_without_payloads(content)[0]
    text = "\n".join(part_text(part) for part in result_parts(content, Placeholders()))
    return text if text.strip() else EMPTY_RESULT
