"""The parts of a message in every form, and attachments: named, found again, and sent."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
)

from langgraph_om.core.content import parts
from support.inside import (
    MAX_ATTACHMENTS,
    Attachment,
    ObserverInput,
    build_question,
    is_profiled,
    observe,
    with_attachments,
)

# --- Detail --------------------------------------------------------------------------------------


RAW = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
SHOT = b64encode(RAW).decode()
WEB = "https://x.org/a/cat.png?signature=secret"
PDF_TYPE = "application/pdf"


def sent(attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    return [attachment.block() for attachment in attachments]


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
