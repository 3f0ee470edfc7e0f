"""Every form of a content block reads the same to transcript, recall, attachments and counter."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)

from langgraph_om.core.content.parts import Part
from support.inside import (
    EstimatingCounter,
    TimedMessage,
    Transcript,
    holds_bound_reasoning,
    part_text,
    parts_of,
    transcribe,
    without_bound_reasoning,
)

pytest.importorskip("imagesize")

COUNTER = EstimatingCounter()
NOON = datetime(2025, 12, 4, 12, 0, tzinfo=UTC)
IMAGE = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 999, 999, 8, 2, 0, 0, 0, 0)
REPORT = b"%PDF-1.7" + bytes(3992)
SOUND = b"RIFF" + bytes(896)


def base64(data: bytes) -> str:
    return b64encode(data).decode()


PNG, PDF, WAV = base64(IMAGE), base64(REPORT), base64(SOUND)
PNG_URI, PDF_URI = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
WEB = "https://x.org/a/cat.png?key=secret"

SIZED, UNSIZED = 765, 765
FLAT = 1000
"""What images count, with pixels, without bytes, and with a few bytes; and a file."""


def form(block: Any, label: str, data: bytes | None, sent: str, tokens: int) -> Any:
    """One row of the table.

    Args:
        block: The content block.
        label: What transcript and recall write.
        data: The bytes that are found, if there are any.
        sent: The MIME type of what is sent, its URL, or nothing when nothing is.
        tokens: What it counts.
    """
    return pytest.param(block, label, data, sent, tokens, id=f"{block.get('type')}: {label[:30]}")


png = {"mime_type": "image/png", "data": PNG}
pdf = {"mime_type": "application/pdf", "data": PDF}
named = "[Image #1: image/png]"
PICTURE, PAPER = (IMAGE, "image/png", SIZED), (REPORT, "application/pdf", FLAT)
UNSEEN, LINKED = (None, "", UNSIZED), ("[Image #1: cat.png]", None, WEB, UNSIZED)
TERMS = ("the terms", None, "", 2)

FORMS = [
    # LangChain, both versions of its standard blocks
    form({"type": "image", "base64": PNG, "mime_type": "image/png"}, named, *PICTURE),
    form({"type": "image", "source_type": "base64", **png}, named, *PICTURE),
    form({"type": "image", "base64": PNG}, "[Image #1]", *PICTURE),
    form({"type": "image", "url": PNG_URI}, named, *PICTURE),
    form({"type": "image", "url": WEB}, *LINKED),
    form({"type": "image", "file_id": "file-1"}, "[Image #1]", *UNSEEN),
    form({"type": "image", "data": IMAGE}, "[Image #1]", *PICTURE),
    form({"type": "file", "base64": PDF}, "[File #1]", *PAPER),
    form({"type": "file", **png}, named, *PICTURE),
    form(
        {"type": "audio", "base64": WAV, "mime_type": "audio/wav"},
        "[Audio #1: audio/wav]",
        SOUND,
        "audio/wav",
        FLAT,
    ),
    form({"type": "text-plain", "text": "the terms"}, *TERMS),
    form({"type": "file", "source_type": "text", "text": "the terms"}, *TERMS),
    form({"type": "non_standard", "value": {"type": "image", **png}}, named, *PICTURE),
    # OpenAI
    form({"type": "image_url", "image_url": {"url": PNG_URI}}, named, *PICTURE),
    form({"type": "image_url", "image_url": PNG_URI}, named, *PICTURE),
    form({"type": "image_url", "image_url": WEB}, *LINKED),
    form({"type": "input_image", "image_url": PNG_URI}, named, *PICTURE),
    form(
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        "[Audio #1: wav]",
        SOUND,
        "audio/wav",
        FLAT,
    ),
    form(
        {"type": "file", "file": {"file_data": PDF_URI, "filename": "r.pdf"}},
        "[File #1: r.pdf]",
        *PAPER,
    ),
    form({"type": "input_file", "file_data": PDF_URI}, "[File #1: application/pdf]", *PAPER),
    # Anthropic
    form(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        named,
        *PICTURE,
    ),
    form({"type": "image", "source": {"type": WEB, "url": WEB}}, *LINKED),
    form(
        {
            "type": "document",
            "title": "Lease",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
        "[File #1: Lease]",
        *PAPER,
    ),
    form({"type": "document", "source": {"type": "text", "data": "the terms"}}, *TERMS),
    # Google
    form({"type": "media", **png}, named, *PICTURE),
    form(
        {"type": "media", "inlineData": {"mimeType": "image/png", "data": PNG}},
        "[File #1: image/png]",
        *PICTURE,
    ),
    form(
        {"type": "media", "mime_type": "video/mp4", "file_uri": "gs://b/i.mp4"},
        "[Video #1: i.mp4]",
        None,
        "",
        FLAT,
    ),
    # Amazon, and the Model Context Protocol
    form({"image": {"format": "png", "source": {"bytes": IMAGE}}}, "[Image #1: png]", *PICTURE),
    form(
        {"document": {"format": "pdf", "name": "r", "source": {"bytes": REPORT}}},
        "[File #1: r]",
        *PAPER,
    ),
    form({"type": "image", "data": PNG, "mimeType": "image/png"}, named, *PICTURE),
    # What only looks like bytes, and what there is nothing in
    form({"type": "image", "url": "file:///etc/passwd"}, "[Image #1: passwd]", *UNSEEN),
    form({"type": "image", "base64": "not, base64!"}, "[Image #1]", *UNSEEN),
    form(
        {"type": "image", "url": "data:image/svg+xml,<svg/>"},
        "[Image #1: image/svg+xml]",
        None,
        "",
        UNSIZED,
    ),
    form({"type": "image", "base64": WAV}, "[Image #1]", SOUND, "", UNSIZED),
]


def read(message: BaseMessage) -> Transcript:
    return transcribe([TimedMessage(message, NOON)], timezone=UTC, counter=COUNTER)


@pytest.mark.parametrize(("block", "label", "data", "sent", "tokens"), FORMS)
def test_every_form_reads_the_same_to_all(
    block: Any, label: str, data: bytes | None, sent: str, tokens: int
) -> None:
    message = HumanMessage.model_construct(content=[block])
    transcript = read(message)
    wrapped = [{"type": "tool_result", "tool_use_id": "c", "content": [block]}]
    places: dict[str, BaseMessage] = {
        "User (12:00)": message,
        "Assistant (12:00)": AIMessage.model_construct(content=[block]),
        "Tool result look (12:00) [c]": ToolMessage.model_construct(
            content=[block], tool_call_id="c", name="look"
        ),
        "Tool result tool (12:00) [c]": HumanMessage.model_construct(content=wrapped),
    }
    for place, each in places.items():
        found = read(each)
        assert found.text == f"Date: Dec 4, 2025\n{place}: {label}"
        assert found.attachments == transcript.attachments
    (part,) = parts_of(message)
    assert part_text(part) == label
    assert [attachment.url or attachment.mime for attachment in transcript.attachments] == (
        [sent] if sent else []
    )
    if sent and not sent.startswith("https:"):
        assert transcript.attachments[0].block()["base64"] == base64(data or b"")
    assert bytes_of(part) == data
    assert tokens_of(block) == tokens


def bytes_of(part: Part) -> bytes | None:
    """The bytes that the finder found."""
    found = part.payload
    if part.is_document or found is None or not found.holds_bytes:
        return None
    held = found.data
    return b64decode(held[found.start :]) if isinstance(held, str) else bytes(held)


def tokens_of(block: Any) -> int:
    message = HumanMessage.model_construct(content=[block])
    return COUNTER.count_message(message) - COUNTER.count_message(HumanMessage(""))


TEXT = {"type": "text", "text": "Yes."}
CALL = {"name": "f", "args": {}, "id": "c"}

BOUND: dict[str, Any] = {
    "Anthropic": {"type": "thinking", "thinking": "Hm.", "signature": "s"},
    "Anthropic, not shown": {"type": "thinking", "thinking": "", "signature": "s"},
    "Anthropic, redacted": {"type": "redacted_thinking", "data": "x"},
    "LangChain v1": {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "s"}},
    "LangChain v1, redacted": {
        "type": "non_standard",
        "value": {"type": "redacted_thinking", "data": "x"},
    },
    "Bedrock": {
        "type": "reasoning_content",
        "reasoning_content": {"text": "Hm.", "signature": "s"},
    },
    "Bedrock, redacted": {
        "type": "reasoning_content",
        "reasoning_content": {"redacted_content": "x"},
    },
    "Bedrock, v1 and redacted": {"type": "reasoning", "extras": {"redacted_content": "x"}},
    "Bedrock, raw": {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
}
FREE: dict[str, Any] = {
    "a text": TEXT,
    "unsigned": {"type": "thinking", "thinking": "Hm."},
    "OpenAI": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    "LangChain v1 of OpenAI": {"type": "reasoning", "id": "rs_1", "reasoning": "Hm."},
    "a signed text": {"type": "text", "text": "Yes.", "extras": {"signature": "s"}},
    "Bedrock without a signature": {"type": "reasoning_content", "reasoning_content": {"text": ""}},
    "a text alone": "thinking",
}


@pytest.mark.parametrize("form", BOUND)
def test_reasoning_that_is_bound_is_left_out_and_all_else_stays(form: str) -> None:
    message = AIMessage([BOUND[form], TEXT, BOUND[form]], tool_calls=[CALL], id="a")
    assert holds_bound_reasoning(message)
    rest = without_bound_reasoning(message)
    assert rest == AIMessage([TEXT], tool_calls=[CALL], id="a")
    assert message.content == [BOUND[form], TEXT, BOUND[form]]
    assert rest is not None
    assert without_bound_reasoning(rest) is rest


@pytest.mark.parametrize("form", FREE)
def test_reasoning_that_is_not_bound_stays(form: str) -> None:
    message = AIMessage([FREE[form]])
    assert not holds_bound_reasoning(message)
    assert without_bound_reasoning(message) is message


def test_reasoning_beside_the_content_is_left_out_too() -> None:
    said = AIMessage("Yes.", additional_kwargs={"thinking": {"text": "Hm.", "signature": "s"}})
    assert without_bound_reasoning(said) == AIMessage("Yes.")
    free = AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm."})
    assert without_bound_reasoning(free) is free
