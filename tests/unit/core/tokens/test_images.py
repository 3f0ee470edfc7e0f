"""What images and files count, by formula, in every form in which a block may come."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_om.errors import ConfigurationError
from support.inside import FILE_FALLBACK_TOKENS, EstimatingCounter

pytest.importorskip("imagesize")


# --- The formulas --------------------------------------------------------------------------------


def image(size: tuple[int, int] | None, **fields: Any) -> dict[str, Any]:
    known = {} if size is None else dict(zip(("width", "height"), size, strict=True))
    return {"type": "image", "url": "https://example.com/a", **known, **fields}


@pytest.mark.parametrize(
    ("provider", "size", "level", "tokens"),
    [
        ("openai", (1024, 1024), "high", 85 + 170 * 4),
        ("openai", (2048, 4096), "", 85 + 170 * 6),
        ("openai", (4096, 8192), "low", 85),
        ("openai", (512, 512), "", 85 + 170),
        ("openai", (2**31, 1), "", 85 + 170 * 4),
        ("openai", None, "", 85 + 170 * 4),
        ("google", (1920, 1080), "", 1120),
        ("google", None, "low", 280),
        ("google", None, "MEDIA_RESOLUTION_MEDIUM", 560),
        ("google", None, "unspecified", 1120),
        ("anthropic", (200, 200), "", 64),
        ("anthropic", (1000, 1000), "low", 1296),
        ("anthropic", (3136, 1568), "", 1568),
        ("anthropic", (2**31, 1), "", 56),
        ("anthropic", (1, 1), "", 1),
        ("anthropic", None, "", 1600),
    ],
)
def test_an_image_counts_by_its_size(
    provider: Any, size: tuple[int, int] | None, level: str, tokens: int
) -> None:
    key = "media_resolution" if provider == "google" else "detail"
    assert tokens_of(image(size, **{key: level}), provider=provider) == tokens


@pytest.mark.parametrize("provider", ["mistral", "", "OpenAI"])
def test_an_unknown_provider_is_refused(provider: Any) -> None:
    with pytest.raises(ConfigurationError, match="`provider`"):
        EstimatingCounter(provider=provider)


# --- Blocks --------------------------------------------------------------------------------------


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def tokens_of(block: dict[str, Any], **formula: Any) -> int:
    counter = EstimatingCounter(**formula)
    message = HumanMessage.model_construct(content=[block])
    return counter.count_message(message) - counter.count_message(HumanMessage(""))


PDF = base64(b"%PDF-1.7" + bytes(30_000 - 8))


@pytest.mark.parametrize(
    ("block", "provider", "tokens"),
    [
        ({"type": "file", "base64": PDF, "mime_type": "application/pdf"}, None, 7_500),
        ({"type": "file", "base64": PDF, "mime_type": "application/pdf"}, "google", 1_500),
        ({"type": "file", "base64": PDF, "mime_type": "application/pdf"}, "anthropic", 10_000),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            },
            "anthropic",
            10_000,
        ),
        ({"type": "media", "mime_type": "application/pdf", "data": PDF}, "google", 1_500),
        ({"type": "file", "data": b"%PDF", "mime_type": "application/pdf"}, None, 500),
        ({"type": "file", "data": b"%PDF", "mime_type": "application/pdf"}, "anthropic", 1_500),
        ({"type": "file", "base64": base64(bytes(10)), "mime_type": "text/csv"}, None, 3),
        ({"type": "file", "url": "https://example.com/a.pdf"}, None, FILE_FALLBACK_TOKENS),
        ({"type": "file", "file_id": "file-1"}, "openai", FILE_FALLBACK_TOKENS),
        ({"type": "media", "file_uri": "gs://b/a", "mime_type": "video/mp4"}, "google", 1_000),
        ({"type": "audio", "base64": PDF, "mime_type": "audio/wav"}, None, FILE_FALLBACK_TOKENS),
        ({"type": "document", "source": {"type": "text", "data": "hello world"}}, None, 2),
    ],
)
def test_what_a_file_counts(block: dict[str, Any], provider: Any, tokens: int) -> None:
    assert tokens_of(block, provider=provider) == tokens
