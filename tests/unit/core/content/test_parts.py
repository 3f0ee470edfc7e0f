"""The parts of a message in every form, and attachments: named, found again, and sent."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content import parts
from langgraph_om.core.content.parts import (
    MAX_ATTACHMENTS,
    Attachment,
    is_profiled,
    is_visible,
    part_text,
    parts_of,
    with_attachments,
)
from langgraph_om.core.observe.observer import ObserverInput, build_question, observe
from langgraph_om.core.observe.transcript import (
    TimedMessage,
    Transcript,
    transcribe,
)
from langgraph_om.core.prompts import load
from langgraph_om.core.tokens.estimate import EstimatingCounter
from support.recall_talk import PNG

# --- Detail --------------------------------------------------------------------------------------


def read_parts(message: BaseMessage) -> list[tuple[str, str]]:
    return [(part.kind, part_text(part)) for part in parts_of(message)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HumanMessage(" \n"), []),
        (AIMessage([]), []),
        (AIMessage([{"type": "redacted_thinking", "data": "x"}]), []),
        (SystemMessage("x"), []),
        (ChatMessage(content="x", role="developer"), []),
        (HumanMessage(load("continuation"), id="om-continuation"), []),
        (HumanMessage(load("trimmed"), id="om-continuation"), []),
        (HumanMessage("x", id="om-continuation"), [("text", "x")]),
        (ChatMessage(content="x", role="guest"), [("text", "x")]),
        (ToolMessage("", tool_call_id="c"), [("tool-result", "(empty result)")]),
        (FunctionMessage(content="4", name="f"), [("tool-result", "4")]),
        (
            ToolMessage(
                [{"type": "text", "text": "a"}, {"type": "image", "base64": "AA"}], tool_call_id="c"
            ),
            [("tool-result", "a\n[Image #1]")],
        ),
        # A model sends one sentence in several blocks; a user's blocks are several texts.
        (AIMessage(["a", {"type": "text", "text": "b"}]), [("text", "ab")]),
        (HumanMessage(["a", {"type": "text", "text": "b"}]), [("text", "a"), ("text", "b")]),
        (
            AIMessage("a", additional_kwargs={"reasoning_content": "why"}),
            [("reasoning", "why"), ("text", "a")],
        ),
        (
            AIMessage(
                [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
                tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}],
            ),
            [("tool-call", '{"a":1}')],
        ),
        (
            AIMessage(
                "", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "bad"}]
            ),
            [("tool-call", "{\n[invalid: bad]")],
        ),
        (
            HumanMessage([{"type": "text-plain", "text": "a,b", "filename": "t.csv"}]),
            [("file", "a,b")],
        ),
        (HumanMessage([{"type": "odd", "x": PNG}]), [("other", '[odd] {"x":"[omitted]"}')]),
    ],
)
def test_parts_of_a_message(message: BaseMessage, expected: list[tuple[str, str]]) -> None:
    assert read_parts(message) == expected
    assert is_visible(message) is bool(expected)


NOON = datetime(2025, 12, 4, 12, 0, tzinfo=UTC)
RAW = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
SHOT = b64encode(RAW).decode()
JPEG = b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode()
PDF = b64encode(b"%PDF-1.7 " + bytes(60)).decode()
ODD = b64encode(bytes(60)).decode()
WEB = "https://x.org/a/cat.png?signature=secret"
PDF_TYPE = "application/pdf"


def read(*messages: BaseMessage) -> Transcript:
    timed = [TimedMessage(message, NOON) for message in messages]
    return transcribe(timed, timezone=UTC, counter=EstimatingCounter())


def sent(attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    return [attachment.block() for attachment in attachments]


def inline(kind: str, mime: str, data: str, name: str = "") -> dict[str, Any]:
    """The standard block of an attachment that the message holds."""
    block: dict[str, Any] = {"type": kind, "base64": data, "mime_type": mime}
    if kind == "file":
        block["extras"] = {"filename": name or f"file.{mime.partition('/')[2]}"}
    return block


def linked(kind: str, url: str, mime: str = "") -> dict[str, Any]:
    """The standard block of an attachment that the provider reads itself."""
    return {"type": kind, "url": url, **({"mime_type": mime} if mime else {})}


# --- What is sent; every form of a block: test_blocks -----------------------------------

IMAGE = inline("image", "image/png", SHOT)
DIALECTS: list[Any] = [
    ({"type": "image", "url": WEB}, "Image #1: cat.png", linked("image", WEB, "image/png")),
    (
        {"type": "image", "url": "https://x.org/1"},
        "Image #1: 1",
        linked("image", "https://x.org/1"),
    ),
    ({"type": "image", "base64": SHOT, "extras": {"name": "p.png"}}, "Image #1: p.png", IMAGE),
    (
        {"type": "input_file", "filename": "r.pdf", "file_data": f"data:{PDF_TYPE};base64,{PDF}"},
        "File #1: r.pdf",
        inline("file", PDF_TYPE, PDF, "r.pdf"),
    ),
    ({"type": "file", "base64": PDF}, "File #1", inline("file", PDF_TYPE, PDF)),
    (
        {"type": "file", "url": "https://x.org/r.pdf"},
        "File #1: r.pdf",
        linked("file", "https://x.org/r.pdf", PDF_TYPE),
    ),
    (
        {"type": "input_image", "image_url": f"data:image/jpg;base64,{JPEG}"},
        "Image #1: image/jpg",
        inline("image", "image/jpeg", JPEG),
    ),
    (
        {"type": "media", "mime_type": "video/mp4", "data": b64decode(ODD)},
        "Video #1: video/mp4",
        inline("video", "video/mp4", ODD),
    ),
    (
        {"type": "image", "base64": f"{SHOT[:40]}\n{SHOT[40:]}\n", "mime_type": "IMAGE/PNG"},
        "Image #1: IMAGE/PNG",
        IMAGE,
    ),
    ({"type": "image", "base64": ODD}, "Image #1", None),
]


@pytest.mark.parametrize(("block", "placeholder", "standard"), DIALECTS)
def test_what_is_sent_is_a_standard_block(
    block: dict[str, Any], placeholder: str, standard: dict[str, Any] | None
) -> None:
    found = read(HumanMessage([block]))
    assert found.text.endswith(f"[{placeholder}]")
    assert sent(found.attachments) == ([standard] if standard else [])
    assert all(each.label == f"[{placeholder}]" for each in found.attachments)


blocks = st.sampled_from([block for block, _, _ in DIALECTS])


@given(st.lists(st.lists(blocks, max_size=3), max_size=4), st.booleans())
def test_no_bytes_are_written_and_every_attachment_has_its_placeholder(
    contents: list[list[Any]],
    in_tools: bool,  # noqa: FBT001
) -> None:
    messages = [
        ToolMessage(content, tool_call_id="c") if in_tools else HumanMessage(content)
        for content in contents
    ]
    found = read(*messages)
    for secret in (SHOT, JPEG, PDF, ODD, "secret"):
        assert secret[:12] not in found.text
    assert len({each.label for each in found.attachments}) == len(found.attachments)
    places = [found.text.index(each.label) for each in found.attachments]
    assert places == sorted(places)


# --- Which of them -------------------------------------------------------------------------------


def attached(kind: str = "image", mime: str = "image/png", **fields: Any) -> Attachment:
    return Attachment(**{"label": "[Image #1]", "kind": kind, "mime": mime, "data": SHOT, **fields})


SEES = {"image_inputs": True, "pdf_inputs": False, "audio_inputs": False, "video_inputs": False}


@pytest.mark.parametrize(
    ("attachment", "profile", "expected"),
    [
        (attached(), SEES, True),
        (attached(), None, True),
        (attached(), {"max_input_tokens": 9}, True),
        (attached(), {"image_inputs": False}, False),
        (attached(), {"audio_inputs": True}, False),
        (attached(mime="image/svg+xml"), SEES, False),
        (attached(mime="image/*", data="", url=WEB), SEES, True),
        (attached(data="", url=WEB), {**SEES, "image_url_inputs": False}, False),
        (attached("file", PDF_TYPE), SEES, False),
        (attached("file", PDF_TYPE), {"pdf_inputs": True}, True),
        (attached("file", PDF_TYPE), {"pdf_inputs": True, "attachment": False}, False),
        (attached("file", "text/csv"), {"pdf_inputs": True}, False),
        (attached("file", "text/csv"), None, False),
        (attached("audio", "audio/wav"), {"audio_inputs": True}, True),
        (attached("video", "video/mp4"), SEES, False),
    ],
)
def test_what_a_profile_says(attachment: Attachment, profile: Any, expected: bool) -> None:  # noqa: FBT001
    assert is_profiled(attachment, profile) is expected


# --- The question --------------------------------------------------------------------------------


def question(transcript: str = "User: </conver") -> list[BaseMessage]:
    return [
        *next(observe(build_question(ObserverInput(transcript)))).messages,
        AIMessage("x"),
        HumanMessage("y"),
    ]


def texts(message: BaseMessage) -> str:
    return "\n".join(block.get("text", f"<{block['type']}>") for block in blocks_of(message))


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    assert isinstance(message.content, list)
    return [block for block in message.content if isinstance(block, dict)]


def test_a_model_is_sent_what_it_takes() -> None:
    two = [attached(), attached("audio", "audio/wav", label="[Audio #1]")]
    made = with_attachments(question(), two, lambda each: each.kind == "audio")
    assert "[Image #1]" not in texts(made[1])
    assert [b["type"] for b in blocks_of(made[1])] == ["text", "text", "audio", "text"]


def test_of_too_many_the_newest_are_sent_and_the_others_named() -> None:
    many = [attached(label=f"[Image #{n}]") for n in range(1, MAX_ATTACHMENTS + 31)]
    made = with_attachments(question(), many, lambda _: True)[1]
    shown = [block for block in blocks_of(made) if block["type"] == "image"]
    labels = [line for line in texts(made).splitlines() if line.startswith("[Image")]
    assert len(shown) == MAX_ATTACHMENTS
    assert labels == [each.label for each in many[-MAX_ATTACHMENTS:]]
    assert "Not sent, being too large or too many: [Image #1], [Image #2]," in texts(made)
    assert "[Image #20], and 10 more" in texts(made)


def test_what_is_too_large_gives_way_to_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_ATTACHED_CHARACTERS", 3 * len(SHOT))
    sizes = [("[Image #1]", 1), ("[Image #2]", 4), ("[Image #3]", 1), ("[Image #4]", 1)]
    some = [attached(label=label, data=SHOT * times) for label, times in sizes]
    made = with_attachments(question(), some, lambda _: True)[1]
    labels = [line for line in texts(made).splitlines() if line.startswith("[Image")]
    assert labels == ["[Image #1]", "[Image #3]", "[Image #4]"]
    assert texts(made).count("Not sent, being too large or too many: [Image #2]\n") == 1


@given(
    st.recursive(
        st.none() | st.text() | st.binary() | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        *("type", "url", "source", "data", "base64"),
                        *("mime_type", "image_url", "file"),
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ),
    st.sampled_from(["image", "file", "image_url", "media", "input_audio", "document"]),
)
def test_junk_is_read_without_an_error(junk: Any, kind: str) -> None:
    fields = junk if isinstance(junk, dict) else {"data": junk, "image_url": junk}
    for each in read(HumanMessage([{**fields, "type": kind}])).attachments:
        block = each.block()
        assert isinstance(block.get("url", block.get("base64")), str)
