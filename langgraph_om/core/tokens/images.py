"""What an attachment counts: by its provider, on the size that its own bytes state.

Nothing is fetched. Of binary data only the header is decoded, wherever the block keeps it; a size
that is not known counts a fixed estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Literal, NamedTuple

import imagesize

from langgraph_om.core.content.blocks import PDF, Payload, first_string
from langgraph_om.core.content.parts import Part
from langgraph_om.errors import ConfigurationError

ImageProvider = Literal["openai", "google", "anthropic"]

FILE_FALLBACK_TOKENS: Final = 1000
"""What an audio, a video, or a document of unknown size counts."""


class ImageSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Formula:
    """How a provider counts: an image is shrunk to its sides, and cut into tiles."""

    longest: int
    shortest: int
    tile: int
    base: int
    per_tile: int
    unknown: int
    """Tokens of an image of unknown size, as if it were large."""
    levels: Mapping[str, int]
    """Tokens by what a block asks for in words, whatever the size."""
    pdf: tuple[int, int]
    """The least tokens of a PDF, and its bytes per token."""

    def count_image(self, size: ImageSize | None, level: str) -> int:
        """Return the tokens of an image."""
        if level in self.levels:
            return self.levels[level]
        if size is None:
            return self.unknown
        scale = min(1.0, self.longest / max(size))
        scale *= min(1.0, self.shortest / (min(size) * scale))
        across, down = (max(1, -(-int(side * scale + 0.5) // self.tile)) for side in size)
        return self.base + self.per_tile * across * down


_GOOGLE: Final = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}
_FORMULAS: Final[Mapping[ImageProvider, _Formula]] = {
    "openai": _Formula(2048, 768, 512, 85, 170, 765, {"low": 85}, (500, 4)),
    "google": _Formula(3072, 3072, 3072, 1120, 0, 1120, _GOOGLE, (258, 20)),
    "anthropic": _Formula(1568, 1568, 28, 0, 1, 1600, {}, (1500, 3)),
}


def check_provider(provider: ImageProvider) -> ImageProvider:
    """Refuse a provider without a formula."""
    if provider not in _FORMULAS:
        msg = f"`provider` is {provider!r}; pass 'openai', 'google', 'anthropic' or None"
        raise ConfigurationError(msg)
    return provider


def count_attachment(part: Part, provider: ImageProvider) -> int:
    """Return the tokens of an attachment."""
    formula, places, payload = _FORMULAS[provider], part.places, part.payload
    if part.kind == "image" or part.mime.startswith("image/"):
        size = _stated_size(places) or (_read_size(payload) if payload else None)
        level = first_string(places, _LEVEL_KEYS).lower()
        return formula.count_image(size, level.removeprefix("media_resolution_"))
    if part.kind != "file" or part.mime.startswith(("audio/", "video/")) or payload is None:
        return FILE_FALLBACK_TOKENS
    least, per_token = formula.pdf if part.mime == PDF else (1, 4)
    return max(least, -(-payload.size // per_token))


_LEVEL_KEYS: Final = ("detail", "media_resolution", "mediaResolution")


def _stated_size(places: Sequence[Mapping[str, Any]]) -> ImageSize | None:
    for place in places:
        width, height = place.get("width"), place.get("height")
        if isinstance(width, int) and isinstance(height, int) and min(width, height) > 0:
            return ImageSize(width, height)
    return None


_MOST_BYTES: Final = 1 << 20
"""How much is decoded: a preface of a photo may be long."""
_MAX_READS: Final = 4_000
_RASTER: Final = re.compile(
    rb"\x89PNG|GIF8|\xff\xd8\xff|RIFF....WEBP|BM|II\*\x00|MM\x00\*|....ftyp|\x00\x00\x00\x0cjP",
    re.DOTALL,
)


class _Header(BytesIO):
    """The first bytes of an image, which end after too many reads: hostile ones need a million."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size) if self.reads <= _MAX_READS else b""


def _read_size(payload: Payload) -> ImageSize | None:
    """Return what the header of an image says; `None` when it says nothing sensible."""
    if not _RASTER.match(payload.head()):  # a drawing in XML has no pixels
        return None
    with suppress(Exception):  # whatever is wrong with the data, the size is not known
        size = ImageSize(*imagesize.get(_Header(payload.head(_MOST_BYTES))))
        return size if min(size) > 0 else None
    return None
