"""What a content block is: one reading of its type, its name and its text, whoever wrote it.

Providers and LangChain write the same thing in several forms; the tables name all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from langgraph_om.core.content.text import as_label

TEXT_KEYS: Final[Mapping[str, str]] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
"""Where each type of spoken block has its text."""

REASONING_TYPES: Final = frozenset({"reasoning", "thinking", "reasoning_content"})
REASONING_KEYS: Final = (
    "reasoning",
    "thinking",
    "reasoning_content",
    "summary",
    "text",
    "content",
)
"""Where a reasoning block may have its text, the likeliest first."""

CALL_TYPES: Final = frozenset(
    {"tool_use", "tool_call", "function_call", "invalid_tool_call"}
    | {"server_tool_call", "server_tool_use", "mcp_tool_use"}
)
CALL_CHUNK_TYPES: Final = frozenset({"tool_call_chunk", "server_tool_call_chunk"})
"""Calls that were still streaming."""

RESULT_TYPES: Final = frozenset(
    {"tool_result", "server_tool_result", "mcp_tool_result", "web_search_tool_result"}
    | {"function_call_output"}
)

ATTACHMENT_KINDS: Final[Mapping[str, str]] = {
    "image": "Image",
    "image_url": "Image",
    "input_image": "Image",
    "audio": "Audio",
    "audio_url": "Audio",
    "input_audio": "Audio",
    "video": "Video",
    "video_url": "Video",
    "input_video": "Video",
    "file": "File",
    "input_file": "File",
    "document": "File",
    "text-plain": "File",
    "media": "File",
}
"""What an attachment of each type is called."""

KINDS_BY_MIME: Final = {"image": "Image", "audio": "Audio", "video": "Video"}
NAME_KEYS: Final = ("filename", "file_name", "name", "title")
URL_KEYS: Final = ("url", "uri", "file_uri", "file_url", "file_data", "data", *ATTACHMENT_KINDS)
MIME_KEYS: Final = ("mime_type", "media_type", "mimeType", "format")
NESTED_KEYS: Final = ("extras", "metadata", "source", *ATTACHMENT_KINDS)
NESTED_LEVELS: Final = 2
WRAPPERS: Final = 3
"""How many wrappers around a block, or around its text, are taken off."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")


def unwrapped(block: object) -> object:
    """The block inside the wrappers around a foreign one."""
    for _ in range(WRAPPERS):
        if isinstance(block, dict) and block.get("type") == "non_standard" and "value" in block:
            block = block["value"]
    return block


def block_type(block: Mapping[Any, Any]) -> str:
    """The type of a block, which some providers state as its only key."""
    stated = block.get("type")
    if isinstance(stated, str):
        return stated
    return next((key for key in (*TEXT_KEYS, *ATTACHMENT_KINDS) if key in block), "")


def reasoning_text(block: object) -> str:
    """The readable reasoning in a block; nothing when it is redacted or encrypted."""
    for _ in range(WRAPPERS):
        if not isinstance(block, dict):
            break
        found = (block[key] for key in REASONING_KEYS if block.get(key))
        block = next(found, None)
    return _joined_texts(block)


def attachment_label(block: Mapping[Any, Any]) -> str:
    """What names an attachment: its name, else the end of its URL, else its MIME type."""
    places = block_places(block)
    names = map(as_label, block_strings(places, NAME_KEYS))
    urls = list(block_strings(places, URL_KEYS))
    mimes = map(as_label, block_strings(places, MIME_KEYS))
    candidates = (*names, *map(_url_name, urls), *mimes, *map(url_mime, urls))
    return next(filter(None, candidates), "")


def block_places(block: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    """The block, and the mappings in it that describe the same attachment, outermost first."""
    places = [block]
    for _ in range(NESTED_LEVELS):
        inner = (place.get(key) for place in places for key in NESTED_KEYS)
        found = [value for value in inner if isinstance(value, dict)]
        places += [value for value in found if all(value is not place for place in places)]
    return places


def block_strings(places: Sequence[Mapping[Any, Any]], keys: Sequence[str]) -> Iterator[str]:
    """The texts under `keys`, the outermost place first."""
    values = (place.get(key) for place in places for key in keys)
    return (value for value in values if isinstance(value, str))


def _url_name(url: str) -> str:
    """The last segment of the path of a URL, never its query; nothing for inline data."""
    if not SCHEME.match(url):
        return ""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return as_label(unquote(path.rstrip("/").rpartition("/")[2]))


def url_mime(url: str) -> str:
    """The MIME type that a `data:` URL states."""
    if not url.startswith("data:"):
        return ""
    stated = re.match(r"[\w.+-]{1,60}/[\w.+-]{1,60}", url[5:200])
    return stated.group() if stated else ""


def attachment_kind(block: Mapping[Any, Any], stated: str) -> str:
    """Which sequence an attachment is numbered in; a generic file is sorted by its MIME type."""
    kind = ATTACHMENT_KINDS[stated]
    if kind == "File" and isinstance(mime := block.get("mime_type"), str):
        return KINDS_BY_MIME.get(mime.partition("/")[0], kind)
    return kind


def inline_document(block: Mapping[Any, Any]) -> str:
    """The text of a document that came as text; nothing when it came in another form."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in ("text", "content"):
        return _joined_texts(source.get("data", source.get("content")))
    return _joined_texts(block.get("text"))


def _joined_texts(value: object) -> str:
    """The text in a string, or in a list of strings and text blocks."""
    if isinstance(value, list):
        texts = (item.get("text") if isinstance(item, dict) else item for item in value)
        return "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""
