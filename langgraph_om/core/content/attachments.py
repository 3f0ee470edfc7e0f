"""What is attached to messages is named where it stands, and shown to a model behind that name.

A placeholder such as `[Image #1: plan.png]` is all that a transcript holds of an attachment. Its
bytes stay where the message has them until a question is put together for a model that takes them.
Nothing is fetched: an attachment is in the message, or behind a URL that the provider itself reads.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error as BadBase64
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.content.blocks import (
    MIME_KEYS,
    NAME_KEYS,
    URL_KEYS,
    attachment_kind,
    attachment_label,
    block_places,
    block_strings,
    url_mime,
)
from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import as_label

MAX_ATTACHMENTS: Final = 20
"""In one question; more of them, and some providers shrink or refuse images."""
MAX_ATTACHED_CHARACTERS: Final = 18_000_000
"""Of base64 in one question; the tightest provider takes requests of 20 MB."""

ATTACHED: Final = "Attachments of these messages, each after its placeholder:"
NOT_SENT: Final = "Not sent, being too large or too many:"
MAX_NAMED: Final = 20
"""Of those that are not sent."""

_MEDIA: Final = frozenset({"image", "audio", "video"})
_COMMON_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""What every model takes that takes images."""
_PDF: Final = "application/pdf"
_UNKNOWN_FILE: Final = "application/octet-stream"
_BASE64_KEYS: Final = frozenset({"base64", "data", "file_data", "bytes"})

_MIME = re.compile(r"[a-z0-9.+-]{1,80}/[a-z0-9.+-]{1,80}")
_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_SPACE = re.compile(r"\s")
_SAME_MIME: Final[Mapping[str, str]] = {"image/jpg": "image/jpeg", "application/x-pdf": _PDF}
_ENDINGS: Final[Mapping[str, str]] = {
    **{ending: f"image/{ending}" for ending in ("png", "jpeg", "webp", "gif")},
    "jpg": "image/jpeg",
    "pdf": _PDF,
}
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), _PDF),
)
_HEAD: Final = 32


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


class Placeholders:
    """Names attachments in the order in which they are met, and remembers where they are."""

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()
        self._met: list[tuple[str, Mapping[Any, Any], str]] = []

    def add(self, block: Mapping[Any, Any], stated: str) -> str:
        """Return the placeholder of an attachment.

        Args:
            block: The content block.
            stated: Its type.
        """
        kind = attachment_kind(block, stated)
        self._numbers[kind] += 1
        number, label = f"{kind} #{self._numbers[kind]}", attachment_label(block)
        placeholder = f"[{number}: {label}]" if label else f"[{number}]"
        self._met.append((placeholder, block, stated))
        return placeholder

    def attachments(self) -> list[Attachment]:
        """Return those that can be sent, in their order."""
        found = (attachment_of(*met) for met in self._met)
        return [attachment for attachment in found if attachment]


# --- Reading -------------------------------------------------------------------------------------


def attachment_of(label: str, block: Mapping[Any, Any], stated: str) -> Attachment | None:
    """Find an attachment in its block, whichever provider's form it has.

    Args:
        label: Its placeholder.
        block: The content block.
        stated: Its type.

    Returns:
        The attachment; None when there is only an id, or data of which nobody could tell the type.
    """
    places = block_places(block)
    data, start, url = _source(places)
    if not data and not url:
        return None
    kind = attachment_kind(block, stated).lower()
    name = next(filter(None, map(as_label, block_strings(places, NAME_KEYS))), "")
    mime = _mime_of(places, kind, (name, url.partition("?")[0]), _head(data, start))
    if kind == "file" and mime.partition("/")[0] in _MEDIA:
        kind = mime.partition("/")[0]
    if data and mime.endswith("*"):
        return None
    return Attachment(label, kind, mime, name, data, start, url)


def _source(places: Sequence[Mapping[Any, Any]]) -> tuple[str | bytes, int, str]:
    """Find the bytes, or where base64 of them begins, or else a URL."""
    url = ""
    for place in places:
        for key in ("base64", "bytes", *URL_KEYS):
            value = place.get(key)
            if isinstance(value, bytes | bytearray) and value:
                return bytes(value), 0, ""
            if not isinstance(value, str) or not value:
                continue
            if value[:5].casefold() == "data:":
                comma = value.find(",", 0, 300)
                if (
                    comma > 0
                    and value[:comma].casefold().endswith(";base64")
                    and value[comma + 1 :]
                ):
                    return value, comma + 1, ""
            elif _WEB.match(value):
                url = url or value
            elif key in _BASE64_KEYS and ":" not in value[:_HEAD]:
                return value, 0, ""
    return b"", 0, url


def _mime_of(
    places: Sequence[Mapping[Any, Any]], kind: str, names: Sequence[str], head: bytes
) -> str:
    """Tell a MIME type: as stated, else by the first bytes, else by the end of a name."""
    stated = [*block_strings(places, MIME_KEYS), *map(url_mime, block_strings(places, URL_KEYS))]
    family = kind if kind in _MEDIA else "application"
    for value in filter(None, stated):
        mime = value[:200].lower().partition(";")[0].strip()
        mime = mime if "/" in mime else f"{family}/{mime}"
        if _MIME.fullmatch(mime) and (kind not in _MEDIA or mime.startswith(f"{kind}/")):
            return _SAME_MIME.get(mime, mime)
    by_bytes = (mime for signature, mime in _SIGNATURES if signature.match(head))
    by_name = (_ENDINGS.get(name.lower().rpartition(".")[2], "") for name in names)
    guess = next(filter(None, (*by_bytes, *by_name)), "")
    if kind in _MEDIA:
        return guess if guess.startswith(f"{kind}/") else f"{kind}/*"
    return guess or _UNKNOWN_FILE


def _head(data: str | bytes, start: int) -> bytes:
    if isinstance(data, bytes):
        return data[:_HEAD]
    letters = _SPACE.sub("", data[start : start + 2 * _HEAD])[:_HEAD]
    try:
        return a2b_base64(letters.replace("-", "+").replace("_", "/"))
    except (BadBase64, ValueError):
        return b""


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
        is_usual = attachment.kind != "file" or attachment.mime == _PDF
    known = profile or {}
    if not is_usual or known.get("attachment") is False:
        return False
    if attachment.url and known.get("image_url_inputs") is False:
        return False
    key = "pdf_inputs" if attachment.kind == "file" else f"{attachment.kind}_inputs"
    says_nothing = not any(f"{kind}_inputs" in known for kind in (*_MEDIA, "pdf"))
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
