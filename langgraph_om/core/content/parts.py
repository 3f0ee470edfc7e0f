"""What a message holds: its texts, reasoning, tool calls, results and attachments, in their order.

One reading for the transcript and for recall. Nothing is cut here: a part keeps what the message
says, and its text is made when it is read.

A placeholder such as `[Image #1: plan.png]` is all that a transcript holds of an attachment. Its
bytes stay where the message has them until a question is put together for a model that takes them.
Nothing is fetched: an attachment is in the message, or behind a URL that the provider itself reads.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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

from langgraph_om.core.content.blocks import (
    MEDIA,
    NAME_KEYS,
    PDF,
    Payload,
    attachment_kind,
    attachment_label,
    block_places,
    find_payload,
    find_url,
    first_string,
    inline_document,
    kind_of,
    reasoning_text,
    tell_mime,
    unwrapped,
)
from langgraph_om.core.content.message_keys import (
    INSTRUCTION_ROLES,
    is_plain,
    is_reminder,
    said_beside,
)
from langgraph_om.core.content.text import (
    as_label,
    as_mapping,
    escape,
    omit_middle,
    write_json,
    write_json_without_payloads,
)

EMPTY_RESULT: Final = "(empty result)"
NOTE_CHARACTERS: Final = 300
UNHEARD_ROLES: Final = INSTRUCTION_ROLES | {"remove"}
ROLES: Final[Mapping[str, str]] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
}
SUMMARY: Final = "earlier summary"
"""The role of what a summarisation put in the place of messages: nobody said it."""
NOTIFICATION: Final = "notification"
"""The role of any other `HumanMessage` that the agent's harness wrote."""


@dataclass(eq=False)
class Part:
    """One part of a message; what it says is read when it is asked for."""

    kind: str
    """`text`, `reasoning`, `tool-call`, `tool-result`, `tool-error`, `image`, `audio`, `video`,
    `file` or `other`."""

    block: Any
    """What it is read from: a text, a content block, a call, or what stands for a result."""

    number: str = ""
    """Of what is attached, such as `Image #1`."""

    is_document: bool = False
    """Whether it is a file that came as text."""

    @cached_property
    def body(self) -> Any:
        """Its text, or its placeholder; of a call the arguments, of a result the content."""
        if isinstance(self.block, str):
            return self.block
        if self.number:
            label = attachment_label(self.places)
            return f"[{self.number}: {label}]" if label else f"[{self.number}]"
        read = _BODIES.get(self.kind)
        return read(self.block) if read else self.block

    @cached_property
    def name(self) -> str:
        """The name of the tool, or of a file that came as text."""
        if self.is_document:
            return attachment_label(self.places) or "text"
        name = as_label(self.block.get("name")) if self.kind.startswith("tool-") else ""
        return name or ("tool" if self.kind == "tool-call" else "")

    @cached_property
    def call_id(self) -> str:
        """The id that a call shares with its result."""
        if self.kind == "tool-call":
            return as_label(self.block.get("call_id") or self.block.get("id"))
        keys = ("tool_use_id", "tool_call_id", "call_id") if self.kind.startswith("tool-") else ()
        return next(filter(None, (as_label(self.block.get(key)) for key in keys)), "")

    @cached_property
    def places(self) -> list[Mapping[Any, Any]]:
        """The block, and the mappings in it that describe the same attachment."""
        return block_places(self.block)

    @cached_property
    def payload(self) -> Payload | None:
        """What it holds; perhaps no bytes, and none when it is elsewhere."""
        return find_payload(self.places)

    @property
    def holds_bytes(self) -> bool:
        """Return whether its bytes are in the message."""
        return self.payload is not None and self.payload.holds_bytes

    @property
    def can_be_shown(self) -> bool:
        """Return whether its bytes are in the message, and of a known type."""
        return self.holds_bytes and not self.mime.endswith("*")

    @property
    def url(self) -> str:
        """Where it is, when the message does not hold it."""
        return "" if self.holds_bytes else find_url(self.places)

    @property
    def file_name(self) -> str:
        """Its name, if it has one."""
        return as_label(first_string(self.places, NAME_KEYS))

    @cached_property
    def mime(self) -> str:
        """Its MIME type; perhaps only `image/*`."""
        head = self.payload.head() if self.payload and self.holds_bytes else b""
        names = self.file_name, self.url.partition("?")[0]
        return tell_mime(self.places, self.kind, names, head)


class Placeholders:
    """Numbers attachments in the order in which they are met, and remembers them."""

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()
        self.parts: list[Part] = []

    def add(self, block: Mapping[Any, Any]) -> Part:
        """Return what is attached by a block, with its number."""
        kind = attachment_kind(block)
        self._numbers[kind] += 1
        self.parts.append(Part(kind.lower(), block, f"{kind} #{self._numbers[kind]}"))
        return self.parts[-1]


def role_of(message: BaseMessage) -> str | None:
    """Tell whose words a message holds; None when it is no part of the conversation."""
    if isinstance(message, SystemMessage | RemoveMessage) or is_reminder(message):
        return None
    if isinstance(message, HumanMessage):
        if not message.additional_kwargs.get("lc_source"):
            return "user"
        return SUMMARY if is_summary(message) else NOTIFICATION
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, ToolMessage | FunctionMessage):
        return "tool"
    role = as_label(message.role if isinstance(message, ChatMessage) else message.type)
    lowered = role.casefold()
    return None if lowered in UNHEARD_ROLES else ROLES.get(lowered, role or "participant")


def is_summary(message: BaseMessage) -> bool:
    """Return whether a summarisation of LangChain or deepagents wrote a message, by their mark."""
    return message.additional_kwargs.get("lc_source") == "summarization"


def plain_text(message: BaseMessage) -> str | None:
    """Return the text of a message that says nothing else; `None` for one with other parts."""
    fields = vars(message)
    content = fields.get("content")
    is_said = type(message) in (HumanMessage, AIMessage) and isinstance(content, str)
    return content if is_said and is_plain(fields) else None


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
    """Give the content in its order, blank texts too, then the calls that only the list has."""
    fields = vars(message)
    if isinstance(message, ToolMessage | FunctionMessage):
        yield _result({**fields, "content": _result_content(message)})
        return
    listed = _listed_calls(fields)
    shown = {call.call_id for call in listed}
    blocks = content_blocks(fields.get("content"))
    parts = [part for block in blocks for part in _block_parts(block, placeholders)]
    texts = [part.body for part in parts if part.kind == "text"]
    parts += [Part("text", said) for said in said_beside(fields) if said not in texts]
    if all(part.kind != "reasoning" for part in parts):
        extra = as_mapping(fields.get("additional_kwargs"))
        yield Part("reasoning", extra.get("reasoning_content") or extra.get("reasoning"))
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
    for block in content_blocks(content):
        for part in _block_parts(block, placeholders):
            is_foreign = part.kind.startswith(("tool-", "reason"))
            yield Part("other", block) if is_foreign else part


def call_names(message: BaseMessage) -> Iterator[tuple[str, str]]:
    """Give the id and the tool's name of every call in a message that has an id."""
    if isinstance(message, AIMessage):
        for part in all_parts(message, Placeholders()):
            if part.kind == "tool-call" and part.call_id:
                yield part.call_id, part.name


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


def content_blocks(content: object) -> list[Any]:
    """List the content blocks, with wrappers around foreign ones taken off."""
    blocks = content if isinstance(content, list) else [content]
    return [unwrapped(block) for block in blocks if block is not None]


def _block_parts(block: object, placeholders: Placeholders) -> Iterator[Part]:
    """Give the part that a content block is, if it shows anything."""
    if not isinstance(block, dict):
        yield Part("text" if isinstance(block, str) else "other", block)
        return
    kind = kind_of(block)
    if kind.istitle():
        is_document = bool(inline_document(block))
        yield Part("file", block, is_document=True) if is_document else placeholders.add(block)
        if transcript := first_string(block_places(block), ["transcript"]):
            yield Part("text", transcript)
    elif kind == "result":
        yield _result(block)
    elif kind == "text" and not isinstance(_text(block), str):
        yield Part("other", block)
    elif kind:
        yield Part("tool-call" if kind == "call" else kind, block)


def _text(block: Mapping[Any, Any]) -> object:
    return block.get("refusal" if block.get("type") == "refusal" else "text")


def _arguments(call: Mapping[Any, Any]) -> object:
    """Return the arguments of a call; those that nobody could parse come with the error."""
    keys = ("args", "input", "arguments")
    arguments: object = next((call[key] for key in keys if key in call), {})
    if error := call.get("error"):
        note = omit_middle(error if isinstance(error, str) else "", NOTE_CHARACTERS)
        arguments = f"{arguments if isinstance(arguments, str) else ''}\n[invalid: {note}]"
    return arguments


def _content(result: Mapping[Any, Any]) -> object:
    return next((result[key] for key in ("content", "output") if key in result), None)


_BODIES: Final[Mapping[str, Callable[[Any], object]]] = {
    "text": _text,
    "reasoning": reasoning_text,
    "tool-call": _arguments,
    "tool-result": _content,
    "tool-error": _content,
    "file": inline_document,
}


def _result(block: Mapping[Any, Any]) -> Part:
    failed = block.get("is_error") is True or block.get("status") == "error"
    return Part("tool-error" if failed else "tool-result", block)


def _result_content(message: BaseMessage) -> object:
    """Return the content of a result, and behind it what its artifact holds of attachments."""
    artifact = getattr(message, "artifact", None)
    attached = [
        block
        for block in _dicts(artifact if isinstance(artifact, list) else [artifact])
        # Only with its bytes: a list of files has the same form.
        if isinstance(block.get("type"), str) and kind_of(block).istitle()
        if Part(attachment_kind(block).lower(), block).can_be_shown
    ]
    return [*content_blocks(message.content), *attached] if attached else message.content


def _listed_calls(fields: Mapping[str, Any]) -> list[Part]:
    """List the calls that stand beside the content, those with unusable arguments too."""
    invalid = _dicts(fields.get("invalid_tool_calls"))
    calls = [
        *_dicts(fields.get("tool_calls")),
        *({**call, "error": call.get("error") or "arguments"} for call in invalid),
    ]
    legacy = as_mapping(fields.get("additional_kwargs")).get("function_call")
    return [Part("tool-call", call) for call in calls or _dicts([legacy])]


def _dicts(value: object) -> list[dict[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content if content.strip() else EMPTY_RESULT
    if content is not None and not isinstance(content, list):
        return write_json_without_payloads(content)[0]
    text = "\n".join(part_text(part) for part in result_parts(content, Placeholders()))
    return text if text.strip() else EMPTY_RESULT


MAX_ATTACHMENTS: Final = 20
"""In one question; more of them, and some providers shrink or refuse images."""
MAX_ATTACHED_CHARACTERS: Final = 18_000_000
"""Of base64 in one question; the tightest provider takes requests of 20 MB."""

ATTACHED: Final = "Attachments of these messages, each after its placeholder:"
NOT_SENT: Final = "Not sent, being too large or too many:"
MAX_NAMED: Final = 20
"""Of those that are not sent."""

_COMMON_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""What every model takes that takes images."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment that can be sent."""

    label: str
    """Its placeholder in the transcript."""
    kind: str
    """`image`, `audio`, `video` or `file`."""
    mime: str
    """Its MIME type; of one behind a URL perhaps only `image/*`."""
    name: str = ""
    data: str | bytes = b""
    """Its bytes, or their base64."""
    url: str = ""
    """Where it is, when the message does not hold it."""

    @property
    def characters(self) -> int:
        """What it takes of a request."""
        if isinstance(self.data, str):
            return len(self.data)
        return len(self.url) or -(-len(self.data) // 3) * 4

    def block(self) -> dict[str, Any]:
        """Make the standard content block that chat models take."""
        block: dict[str, Any] = {"type": self.kind}
        block |= {"url": self.url} if self.url else {"base64": self._base64()}
        if not self.mime.endswith("*"):
            block["mime_type"] = self.mime
        if self.kind == "file" and not self.url:  # OpenAI takes no file without a name
            block["extras"] = {"filename": self.name or f"file.{self.mime.rpartition('/')[2]}"}
        return block

    def _base64(self) -> str:
        if isinstance(self.data, bytes):
            return b64encode(self.data).decode("ascii")
        return "".join(self.data.split())


def find_attachments(parts: Iterable[Part]) -> list[Attachment]:
    """Return what can be sent of what is attached: no mere id, nor data of no known type."""
    return [_attachment(part) for part in parts if part.can_be_shown or part.url]


def _attachment(part: Part) -> Attachment:
    family = part.mime.partition("/")[0]
    kind = family if part.kind == "file" and family in MEDIA else part.kind
    held = part.payload if part.holds_bytes else None
    data = held.data[held.start :] if held else b""
    return Attachment(str(part.body), kind, part.mime, part.file_name, data, part.url)


def is_profiled(attachment: Attachment, profile: Mapping[str, Any] | None) -> bool:
    """Return whether a model takes an attachment, as far as its profile says."""
    if attachment.kind == "image":
        is_usual = attachment.mime in _COMMON_IMAGES or bool(attachment.url)
    else:
        is_usual = attachment.kind != "file" or attachment.mime == PDF
    known = profile or {}
    if not is_usual or known.get("attachment") is False:
        return False
    if attachment.url and known.get("image_url_inputs") is False:
        return False
    key = "pdf_inputs" if attachment.kind == "file" else f"{attachment.kind}_inputs"
    says_nothing = not any(f"{kind}_inputs" in known for kind in (*MEDIA, "pdf"))
    return says_nothing or known.get(key) is True


# --- Sending -------------------------------------------------------------------------------------


def with_attachments(
    messages: Sequence[BaseMessage],
    attachments: Sequence[Attachment],
    accepts: Callable[[Attachment], bool],
) -> list[BaseMessage]:
    """Put a question together for a model: the attachments it takes stand after the transcript."""
    taken = [each for each in attachments if accepts(each)]
    at = next((n for n, each in enumerate(messages) if isinstance(each, HumanMessage)), None)
    if not taken or at is None or not isinstance(messages[at].content, str):
        return list(messages)
    before, end_tag, after = str(messages[at].content).rpartition(_CONVERSATION_END)
    if not end_tag:
        before, after = after, ""
    content = [{"type": "text", "text": before.rstrip("\n")}, *_section(taken)]
    if end_tag:
        content.append({"type": "text", "text": f"{end_tag}{after}"})
    question = messages[at].model_copy(update={"content": content})
    return [*messages[:at], question, *messages[at + 1 :]]


_CONVERSATION_END: Final = "</conversation>"
"""The last one is ours: in what is said, the tag is escaped."""


def _section(taken: Sequence[Attachment]) -> Iterator[dict[str, Any]]:
    """Give the blocks that show attachments, and name those that do not fit."""
    kept = _within_limits(taken)
    for nth, at in enumerate(kept):
        label = escape(taken[at].label)
        yield {"type": "text", "text": label if nth else f"{ATTACHED}\n{label}"}
        yield taken[at].block()
    left = [each.label for at, each in enumerate(taken) if at not in kept]
    if left:
        more = [f"and {len(left) - MAX_NAMED} more"] if len(left) > MAX_NAMED else []
        named = ", ".join([*left[:MAX_NAMED], *more])
        yield {"type": "text", "text": f"{NOT_SENT} {escape(named)}"}


def _within_limits(taken: Sequence[Attachment]) -> list[int]:
    """Return the places of those that fit: the newest first, and older ones in what is left."""
    kept: list[int] = []
    room = MAX_ATTACHED_CHARACTERS
    for at in reversed(range(len(taken))):
        size = taken[at].characters
        if size <= room and len(kept) < MAX_ATTACHMENTS:
            kept.append(at)
            room -= size
    return kept[::-1]
