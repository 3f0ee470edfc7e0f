"""What a content block is: one reading of its type, its name, its text and its bytes.

Providers and LangChain write the same thing in several forms; the tables name all of them, and
nobody else looks for a type, a place or a key.

A provider may sign reasoning together with all that stood before it: Claude's reasoning is accepted
again only behind the system prompt, the tools and the messages that it was made behind, whoever
serves the model. Reasoning of other providers belongs to its own answer alone: OpenAI's items, and
the signatures of Gemini's thoughts.
"""

from __future__ import annotations

import re
from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om.core.content.text import as_label

# --- Types ---------------------------------------------------------------------------------------

_TYPES_BY_KIND: Final[Mapping[str, str]] = {
    "text": "text input_text output_text refusal",
    "reasoning": "reasoning thinking reasoning_content redacted_thinking",
    "call": "tool_use tool_call function_call custom_tool_call invalid_tool_call server_tool_call "
    "server_tool_use mcp_tool_use",
    "result": "tool_result server_tool_result mcp_tool_result function_call_output",
    # Calls that were still streaming.
    "": "tool_call_chunk server_tool_call_chunk input_json_delta",
    "Image": "image image_url input_image",
    "Audio": "audio audio_url input_audio",
    "Video": "video video_url input_video",
    "File": "file input_file document text-plain media",
}
"""What blocks are, by their types; an attachment by the sequence it is numbered in."""
KINDS: Final = {name: kind for kind, names in _TYPES_BY_KIND.items() for name in names.split()}
_ATTACHED: Final = tuple(name for name, kind in KINDS.items() if kind.istitle())
_KEYS_OF_TYPE: Final = ("text", "refusal", *_ATTACHED)
"""The types that some providers state as the only key of a block."""
_WRAPPERS: Final = 3
"""How many wrappers around a block, or around its text, are taken off."""

# --- Places and keys -----------------------------------------------------------------------------

REASONING_KEYS: Final = (
    *("reasoning", "thinking", "reasoning_content", "summary", "text", "content"),
)
"""Where a reasoning block may have its text, the likeliest first."""

NESTED_KEYS: Final = ("extras", "metadata", "source", "inline_data", "inlineData", *_ATTACHED)
_NESTED_LEVELS: Final = 2
NAME_KEYS: Final = ("filename", "file_name", "name", "title")
URL_KEYS: Final = ("url", "uri", "file_uri", "file_url", "file_data", "data", *_ATTACHED)
BYTES_KEYS: Final = ("base64", "bytes", *URL_KEYS)
"""Where the bytes of an attachment, or what leads to them, may be."""
BASE64_KEYS: Final = frozenset({"base64", "bytes", "file_data", "data", "image"})
"""Where a text may be base64 that nothing announces."""
FORMAT_KEYS: Final = ("mime_type", "media_type", "mimeType", "format")
"""Where a MIME type is, or the end of one."""

_Places = Sequence[Mapping[Any, Any]]


def unwrapped(block: object) -> object:
    """Return the block inside the wrappers around a foreign one."""
    for _ in range(_WRAPPERS):
        if isinstance(block, dict) and block.get("type") == "non_standard" and "value" in block:
            block = block["value"]
    return block


def kind_of(block: Mapping[Any, Any]) -> str:
    """Return what a block is: a kind of the table, or `other`."""
    stated = block.get("type")
    if not isinstance(stated, str):
        stated = next((key for key in _KEYS_OF_TYPE if key in block), "")
    return KINDS.get(stated, "result" if stated.endswith("_tool_result") else "other")


def attachment_kind(block: Mapping[Any, Any]) -> str:
    """Return the sequence an attachment is numbered in; a mere file is sorted by its MIME type."""
    kind = kind_of(block)
    family = str(block.get("mime_type")).partition("/")[0].title() if kind == "File" else ""
    return family if family in {"Image", "Audio", "Video"} else kind


def block_places(block: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    """Return the block, and what in it describes the same attachment, the outermost first."""
    places = found = [block]
    for _ in range(_NESTED_LEVELS):
        inner = [place[key] for place in found for key in NESTED_KEYS if key in place]
        found = [value for value in inner if isinstance(value, Mapping)]
        places = [*places, *found]
    return places


def block_strings(places: _Places, keys: Sequence[str]) -> Iterator[str]:
    """Give the texts under `keys`, the outermost place first."""
    values = (place[key] for place in places for key in keys if key in place)
    return (value for value in values if isinstance(value, str))


def first_string(places: _Places, keys: Sequence[str]) -> str:
    """Return the first text under `keys` that is not empty, if there is one."""
    return next(filter(None, block_strings(places, keys)), "")


# --- Texts ---------------------------------------------------------------------------------------


def reasoning_text(block: object) -> str:
    """Return the readable reasoning in a block; nothing when it is redacted or encrypted."""
    for _ in range(_WRAPPERS):
        if not isinstance(block, dict):
            break
        found = (block[key] for key in REASONING_KEYS if block.get(key))
        block = next(found, None)
    return _join_texts(block)


def inline_document(block: Mapping[Any, Any]) -> str:
    """Return the text of a file that came as text; nothing when it came in another form."""
    if attachment_kind(block) != "File":
        return ""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in ("text", "content"):
        return _join_texts(source.get("data", source.get("content")))
    return _join_texts(block.get("text"))


def _join_texts(value: object) -> str:
    if isinstance(value, list):
        texts = (item.get("text") if isinstance(item, dict) else item for item in value)
        return "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


# --- Names ---------------------------------------------------------------------------------------

_URI_MIME = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})")


def attachment_label(places: _Places) -> str:
    """Return what names an attachment: its name, else the end of its URL, else its MIME type."""
    names = map(as_label, block_strings(places, NAME_KEYS))
    urls = map(_url_name, block_strings(places, URL_KEYS))
    mimes = map(as_label, _list_mimes(places))
    return next(filter(None, (*names, *urls, *mimes)), "")


def _url_name(url: str) -> str:
    """Return the last segment of the path of a URL, never its query; nothing for inline data."""
    try:
        parts = urlsplit(url[:_LONGEST_URL])
    except ValueError:
        return ""
    path = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return as_label(path) if parts.netloc or parts.scheme == "file" else ""


_LONGEST_URL: Final = 4000


def _list_mimes(places: _Places) -> list[str]:
    """Return the MIME types that are stated, and those of data URIs."""
    uris = filter(None, map(_URI_MIME.match, block_strings(places, URL_KEYS)))
    return [*block_strings(places, FORMAT_KEYS), *(found[1] for found in uris)]


# --- Bytes ---------------------------------------------------------------------------------------

_WEB = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_URI_HEAD: Final = 330
# The head of base64; a URL and a path soon show another mark.
_ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]{1,64}")
_SHORTEST_IMAGE: Final = 16
_HEAD: Final = 24


class Payload(NamedTuple):
    """What an attachment holds: bytes, or a text that has them as base64 from `start` on."""

    data: str | bytes
    start: int = 0
    holds_bytes: bool = True
    """False when it is empty, or a data URI that is not base64."""

    @property
    def size(self) -> int:
        """How many bytes there are; nothing is decoded."""
        if not isinstance(self.data, str):
            return len(self.data)
        padding = 2 if self.data.endswith("==") else int(self.data.endswith("="))
        return max(0, (len(self.data) - self.start) * 3 // 4 - padding)

    def head(self, count: int = _HEAD) -> bytes:
        """Return the first bytes, about so many, or none when they cannot be decoded."""
        if not isinstance(self.data, str):
            return self.data[:count]
        letters = "".join(self.data[self.start : self.start + 2 * count].split()).rstrip("=")
        letters = letters[: -(-count // 3) * 4].replace("-", "+").replace("_", "/")
        try:
            return a2b_base64(letters + "=" * (-len(letters) % 4))
        except (BadBase64, ValueError):
            return b""


def find_payload(places: _Places) -> Payload | None:
    """Find the bytes of an attachment, the outermost first, or else what should have held them."""
    values = ((key, place[key]) for place in places for key in BYTES_KEYS if key in place)
    found = [payload for key, value in values if (payload := _read_payload(key, value))]
    return next((payload for payload in found if payload.holds_bytes), found[0] if found else None)


def _read_payload(key: str, value: object) -> Payload | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return Payload(bytes(value), holds_bytes=len(value) > 0)
    if not isinstance(value, str):
        return None
    if value[:5].casefold() == "data:":
        start = value.find(",", 0, _URI_HEAD) + 1
        is_base64 = value[: max(start - 1, 0)].casefold().endswith(";base64")
        return Payload(value, start, is_base64 and len(value) > start) if start else None
    # A short text under `image` may be any word.
    least = _SHORTEST_IMAGE if key == "image" else 1
    is_encoded = key in BASE64_KEYS and len(value) >= least and _ENCODED.fullmatch(value, 0, 64)
    return Payload(value) if is_encoded else None


def find_url(places: _Places) -> str:
    """Find the URL behind which an attachment is, when a provider could read it."""
    return next(filter(_WEB.match, block_strings(places, BYTES_KEYS)), "")


# --- MIME types ----------------------------------------------------------------------------------

PDF: Final = "application/pdf"
MEDIA: Final = frozenset({"image", "audio", "video"})
_UNKNOWN_FILE: Final = "application/octet-stream"
_MIME = re.compile(r"[a-z0-9.+-]{1,80}/[a-z0-9.+-]{1,80}")
_SAME_MIME: Final[Mapping[str, str]] = {"image/jpg": "image/jpeg", "application/x-pdf": PDF}
_ENDINGS: Final[Mapping[str, str]] = {
    **{ending: f"image/{ending}" for ending in ("png", "jpeg", "webp", "gif")},
    "jpg": "image/jpeg",
    "pdf": PDF,
}
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), PDF),
)


def tell_mime(places: _Places, kind: str, names: Sequence[str], head: bytes) -> str:
    """Tell a MIME type, perhaps only `image/*`: as stated, else by the first bytes, else by a name.

    Args:
        kind: `image`, `audio`, `video` or `file`.
        names: Its name and its URL.
    """
    is_media = kind in MEDIA
    for value in filter(None, _list_mimes(places)):
        mime = value[:200].lower().partition(";")[0].strip()
        mime = mime if "/" in mime else f"{kind if is_media else 'application'}/{mime}"
        if _MIME.fullmatch(mime) and (not is_media or mime.startswith(f"{kind}/")):
            return _SAME_MIME.get(mime, mime)
    by_bytes = (mime for signature, mime in _SIGNATURES if signature.match(head))
    by_name = (_ENDINGS.get(name.lower().rpartition(".")[2], "") for name in names)
    guess = next(filter(None, (*by_bytes, *by_name)), "")
    if is_media:
        return guess if guess.startswith(f"{kind}/") else f"{kind}/*"
    return guess or _UNKNOWN_FILE


# --- Reasoning that is bound to its prefix -------------------------------------------------------

_OTHER_PROVIDERS: Final = ("google_", "openai", "azure", "xai", "groq", "mistral", "deepseek")
"""How the names begin of providers whose reasoning is not bound, but where they serve Claude."""

_BOUND_SIGNATURES: Final = ("signature", "redacted_content", "redactedContent")
_LEVELS: Final = 3
"""How deep in a block its signature may be."""

_OTHER_VIEW: Final = "om_other_view"
"""In the response metadata of an answer to a view that only its own call was given."""


def holds_bound_reasoning(message: BaseMessage) -> bool:
    """Return whether an answer holds reasoning that is valid behind one prefix alone."""
    if not isinstance(message, AIMessage):
        return False
    blocks = message.content if isinstance(message.content, list) else []
    beside = message.additional_kwargs.get("thinking")  # as in ChatBedrock
    return (any(map(_is_signed, blocks)) or _is_signed_value(beside)) and _may_be_claude(message)


def without_bound_reasoning(message: BaseMessage) -> BaseMessage | None:
    """Return an answer without its bound reasoning, all else as it is; `None` when nothing is left.

    A message that holds none is returned itself.
    """
    if not holds_bound_reasoning(message) or not isinstance(message, AIMessage):
        return message
    update: dict[str, Any] = {}
    if isinstance(message.content, list):
        update["content"] = [block for block in message.content if not _is_signed(block)]
    extras = message.additional_kwargs
    if _is_signed_value(extras.get("thinking")):
        update["additional_kwargs"] = {k: v for k, v in extras.items() if k != "thinking"}
    rest = message.model_copy(update=update)
    return rest if rest.content or rest.tool_calls or rest.invalid_tool_calls else None


def mark_other_view(message: BaseMessage) -> BaseMessage:
    """Mark an answer to a view that later views do not continue: it was made shorter for a retry.

    The mark is part of the message, so it holds wherever the conversation is taken up again.
    """
    return mark_answer(message, _OTHER_VIEW, value=True)


def mark_answer(message: BaseMessage, key: str, value: object) -> BaseMessage:
    """Return an answer with something in its response metadata; other messages as they are."""
    if not isinstance(message, AIMessage):
        return message
    metadata = {**message.response_metadata, key: value}
    return message.model_copy(update={"response_metadata": metadata})


def answers_other_view(message: BaseMessage) -> bool:
    """Return whether an answer was made to a view that later views do not continue."""
    return isinstance(message, AIMessage) and bool(message.response_metadata.get(_OTHER_VIEW))


def _is_signed(block: object) -> bool:
    """Return whether a block of content is reasoning with a signature, or redacted reasoning."""
    block = unwrapped(block)
    if not isinstance(block, Mapping):
        return False
    if kind_of(block) != "reasoning" and "reasoningContent" not in block:
        return False
    return block.get("type") == "redacted_thinking" or _is_signed_value(block)


def _is_signed_value(value: object, levels: int = _LEVELS) -> bool:
    if not isinstance(value, Mapping) or not levels:
        return False
    is_signed = any(value.get(name) for name in _BOUND_SIGNATURES)
    return is_signed or any(_is_signed_value(inner, levels - 1) for inner in value.values())


def _may_be_claude(message: AIMessage) -> bool:
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model") or metadata.get("model_id") or ""
    if "claude" in str(model).casefold():
        return True
    return not str(metadata.get("model_provider", "")).startswith(_OTHER_PROVIDERS)


def find_provider(message: BaseMessage) -> str | None:
    """Return the provider that an answer names; `None` where it names none."""
    if not isinstance(message, AIMessage):
        return None
    named = message.response_metadata.get("model_provider")
    return named if isinstance(named, str) and named else None


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
USUAL_CACHE_SECONDS: Final = 5 * _MINUTE
"""How long a provider keeps a prompt of which nothing else is known."""
_CACHE_SECONDS: Final = (
    (re.compile("openai|azure"), re.compile(r"gpt-4|gpt-5\.[1-4]($|-)"), 5 * _MINUTE),
    (re.compile("openai|azure"), re.compile(""), _HOUR),
    (re.compile("google|gemini"), re.compile("gemini|^$"), 24 * _HOUR),
    (re.compile("deepseek"), re.compile(""), _HOUR),
    (re.compile("groq"), re.compile(""), 2 * _HOUR),
)
"""Of a provider's models, how many seconds their prompts are kept; those of Anthropic, xAI and
OpenRouter are usual."""


def find_cache_life(newest_first: Iterable[BaseMessage]) -> int:
    """Return how many seconds the provider of the newest answer keeps a prompt in its cache."""
    for provider, model in _list_models(newest_first):
        for providers, models, seconds in _CACHE_SECONDS:
            if providers.match(provider.lower()) and models.match(model.lower()):
                return seconds
        break
    return USUAL_CACHE_SECONDS


def find_provider_change(newest_first: Iterable[BaseMessage]) -> tuple[str, str] | None:
    """Return the models of the two newest answers where their providers differ, the newest last.

    Answers that name no provider are passed over. A model is its provider, a slash and its name,
    or the provider alone.
    """
    models = [*islice(_list_models(newest_first), 2)]
    if len({provider for provider, _ in models}) < 2:  # noqa: PLR2004 two answers
        return None
    newest, before = ("/".join(filter(None, model)) for model in models)
    return before, newest


def _list_models(messages: Iterable[BaseMessage]) -> Iterator[tuple[str, str]]:
    """Give provider and model of each answer that names its provider."""
    for message in messages:
        if provider := find_provider(message):
            yield provider, str(message.response_metadata.get("model_name") or "")
