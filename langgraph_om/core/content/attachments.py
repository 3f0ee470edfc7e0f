"""What is attached to messages is named where it stands, and shown to a model behind that name.

A placeholder such as `[Image #1: plan.png]` is all that a transcript holds of an attachment. Its
bytes stay where the message has them until a question is put together for a model that takes them.
Nothing is fetched: an attachment is in the message, or behind a URL that the provider itself reads.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.content.blocks import MEDIA, PDF
from langgraph_om.core.content.parts import Part
from langgraph_om.core.content.text import escape

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
    """Its bytes, or a text that has them as base64 from `start` on."""
    start: int = 0
    url: str = ""
    """Where it is, when the message does not hold it."""

    @property
    def characters(self) -> int:
        """What it takes of a request."""
        if isinstance(self.data, str):
            return len(self.data) - self.start
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
        return "".join(self.data[self.start :].split())


def find_attachments(parts: Iterable[Part]) -> list[Attachment]:
    """Return what can be sent of what is attached: no mere id, nor data of no known type."""
    return [_attachment(part) for part in parts if part.can_be_shown or part.url]


def _attachment(part: Part) -> Attachment:
    family = part.mime.partition("/")[0]
    kind = family if part.kind == "file" and family in MEDIA else part.kind
    held = part.payload if part.holds_bytes else None
    data = held.data if held else b""
    return Attachment(
        str(part.body),
        kind,
        part.mime,
        part.file_name,
        data if isinstance(data, str) else bytes(data),
        held.start if held else 0,
        part.url,
    )


# --- Choosing ------------------------------------------------------------------------------------


def selected(
    attachments: Sequence[Attachment], *, setting: bool | str | Sequence[str]
) -> list[Attachment]:
    """Return the attachments that a setting lets through: a flag, `auto`, or MIME patterns."""
    if isinstance(setting, bool | str):
        return list(attachments) if setting else []
    return [each for each in attachments if matches(each.mime, setting)]


def matches(mime: str, patterns: Sequence[str]) -> bool:
    """Return whether a MIME type is one of those that patterns such as `image/*` stand for."""
    family = f"{mime.partition('/')[0]}/*"
    return any(pattern.strip().lower() in {"*", "*/*", family, mime} for pattern in patterns)


def is_profiled(attachment: Attachment, profile: Mapping[str, Any] | None) -> bool:
    """Return whether a model takes an attachment as far as its profile says.

    Args:
        attachment: What is to be sent.
        profile: What is known of the model; one without a word on inputs rules nothing out.
    """
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
    """Put a question together for a model: the attachments it takes stand after the transcript.

    Args:
        messages: The question as text.
        attachments: What is attached to the messages in it, oldest first.
        accepts: Tells whether the model takes an attachment.

    Returns:
        The question; as it was when there is nothing that this model takes.
    """
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
