"""What an attachment counts: the provider's formula, on the size that its own bytes state.

Nothing is fetched. Of binary data only the header is decoded, wherever the block keeps it; a size
that is not known counts a fixed estimate. A caller who knows better writes `om_tokens` into the
block, or into its `extras` or `metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Literal, NamedTuple, get_args

import imagesize

from langgraph_om.core.content.blocks import (
    LINK_KEYS,
    MIME_KEYS,
    NAME_KEYS,
    PDF,
    Payload,
    first_string,
)
from langgraph_om.core.content.parts import Part
from langgraph_om.errors import ConfigurationError

ImageProvider = Literal["openai", "google", "anthropic"]

FILE_FALLBACK_TOKENS: Final = 1000
"""What an audio, a video, or a document of unknown size counts."""

KIB: Final = 1024
MIB: Final = KIB * KIB


class ImageSize(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class AttachmentFormula:
    """What images and files count for one provider; `None` counts as OpenAI's models do."""

    provider: ImageProvider | None = None
    model: str = ""

    def __post_init__(self) -> None:
        """Refuse a provider without formulas."""
        if self.provider is not None and self.provider not in get_args(ImageProvider):
            msg = f"`provider` is {self.provider!r}; pass 'openai', 'google', 'anthropic' or None"
            raise ConfigurationError(msg)

    def tokens(self, part: Part) -> int:
        """Return the tokens of an attachment; its kind says whether it was declared an image."""
        stated = _stated_tokens(part.block)
        if stated is not None:
            return stated
        places, payload = part.places, part.payload
        if part.kind == "image":
            return self._image(places, payload)
        mime = first_string(places, MIME_KEYS) or (payload.mime if payload else "")
        mime = mime.lower() or _mime_of_name(first_string(places, (*NAME_KEYS, *LINK_KEYS)))
        if mime.startswith("image/"):
            return self._image(places, payload)
        if part.kind != "file" or mime.startswith(("audio/", "video/")) or payload is None:
            return FILE_FALLBACK_TOKENS
        least, per_token = _FILES[self.provider] if mime == PDF else (1, 4)
        return max(least, -(-payload.size // per_token))

    def _image(self, places: Sequence[Mapping[str, Any]], payload: Payload | None) -> int:
        size = _stated_size(places)
        if size is None and payload:
            size = _read_size(payload)
        length = payload.size if payload else None
        if self.provider == "google":
            return google_tokens(size, self.model, first_string(places, _RESOLUTION_KEYS))
        if self.provider == "anthropic":
            return anthropic_tokens(size, length)
        return openai_tokens(size, length, first_string(places, _DETAIL_KEYS), self.model)


def name_formula(provider: ImageProvider, model: str) -> tuple[ImageProvider, str] | None:
    """Return provider and model as far as these tell the formula; `None` for the usual one."""
    if provider == "anthropic":
        return provider, ""
    if provider == "google":
        return provider, model if _is_gemini_3(model) else ""
    own, _ = next(row for row in _OPENAI if row[0].search(model))
    return (provider, model) if own.pattern else None


# --- The formulas --------------------------------------------------------------------------------

_OPENAI: Final = (
    # Models, and the tokens of an image, of a tile in it, and the tiles of an unknown size.
    (re.compile("computer-use"), (65, 129, 4)),
    (re.compile("gpt-4o-mini"), (2833, 5667, 1)),
    (re.compile("^gpt-5"), (70, 140, 4)),
    (re.compile("^o[13]"), (75, 150, 4)),
    (re.compile(""), (85, 170, 4)),
)
_TILES_BY_LENGTH: Final = ((512 * KIB, 1), (2 * MIB, 4), (4 * MIB, 6))
_MAX_TILES: Final = 8
_TILE: Final = 512
_LONGEST_SIDE: Final = 2048
_SHORT_SIDE: Final = 768


def openai_tokens(size: ImageSize | None, length: int | None, detail: str, model: str) -> int:
    """Return the tokens of an image in tiles; of one without size and length, as if it were large.

    `detail` is `low` or `high`; anything else goes by the size in pixels, then in bytes.
    """
    base, per_tile, unknown = next(row for models, row in _OPENAI if models.search(model))
    if detail not in {"low", "high"}:
        small = max(size) <= _SHORT_SIDE if size else length is not None and length <= MIB
        detail = "low" if small else "high"
    if detail == "low":
        return base
    if size:
        tiles = _tiles(size)
    elif length is None:
        tiles = unknown
    else:
        tiles = next((n for most, n in _TILES_BY_LENGTH if length <= most), _MAX_TILES)
    return base + per_tile * tiles


def _tiles(size: ImageSize) -> int:
    scale = min(1.0, _LONGEST_SIDE / max(size))
    scale *= min(1.0, _SHORT_SIDE / (min(size) * scale))
    across, down = (max(1, -(-int(side * scale + 0.5) // _TILE)) for side in size)
    return across * down


_GOOGLE_TILE: Final = 768
_GOOGLE_TOKENS: Final = 258
_GEMINI_3: Final = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}


def google_tokens(size: ImageSize | None, model: str, resolution: str) -> int:
    """Return the tokens of an image: by the media resolution for Gemini 3, else by tiles."""
    if _is_gemini_3(model):
        level = resolution.lower().removeprefix("media_resolution_")
        return _GEMINI_3.get(level, _GEMINI_3["high"])
    if not size:
        return _GOOGLE_TOKENS
    return _GOOGLE_TOKENS * -(-size.width // _GOOGLE_TILE) * -(-size.height // _GOOGLE_TILE)


def _is_gemini_3(model: str) -> bool:
    return model.removeprefix("models/").startswith("gemini-3")


_ANTHROPIC_SIDE: Final = 1568
_ANTHROPIC_PIXELS: Final = 750
_ANTHROPIC_BY_LENGTH: Final = ((512 * KIB, 341), (2 * MIB, 1366), (4 * MIB, 2048))
_ANTHROPIC_MOST: Final = 2731
_ANTHROPIC_UNKNOWN: Final = 1600


def anthropic_tokens(size: ImageSize | None, length: int | None) -> int:
    """Return the tokens of an image by its pixels, once its long side is at most 1568."""
    if size:
        longest = max(size)
        shrunk = max(longest, _ANTHROPIC_SIDE) ** 2 * _ANTHROPIC_PIXELS
        return -(-size.width * size.height * _ANTHROPIC_SIDE**2 // shrunk)
    if length is None:
        return _ANTHROPIC_UNKNOWN
    return next((n for most, n in _ANTHROPIC_BY_LENGTH if length <= most), _ANTHROPIC_MOST)


_FILES: Final[Mapping[str | None, tuple[int, int]]] = {
    # The least tokens of a PDF, and its bytes per token.
    "google": (258, 20),
    "anthropic": (1500, 3),
    "openai": (500, 4),
    None: (500, 4),
}

# --- What a block says ---------------------------------------------------------------------------

_DETAIL_KEYS: Final = ("detail", "image_detail", "imageDetail")
_RESOLUTION_KEYS: Final = ("media_resolution", "mediaResolution")
_SIZE_KEYS: Final = (("width", "height"), ("imageWidth", "imageHeight"))
_IMAGE_NAME: Final = re.compile(
    r"\.(?:png|jpe?g|webp|gif|bmp|tiff?|hei[cf]|avif)(?:[?#].{0,2000})?\Z",
    re.IGNORECASE | re.DOTALL,
)


def _stated_tokens(block: Mapping[str, Any]) -> int | None:
    for place in (block, block.get("extras"), block.get("metadata")):
        tokens = place.get("om_tokens") if isinstance(place, Mapping) else None
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
            return tokens
    return None


def _stated_size(places: Sequence[Mapping[str, Any]]) -> ImageSize | None:
    for place in places:
        for across, down in _SIZE_KEYS:
            width, height = place.get(across), place.get(down)
            if isinstance(width, int) and isinstance(height, int) and min(width, height) > 0:
                return ImageSize(width, height)
    return None


def _mime_of_name(name: str) -> str:
    """Return what the end of a name or a URL says of images and PDF."""
    if name.lower().endswith(".pdf"):
        return PDF
    return "image/*" if _IMAGE_NAME.search(name[-4000:]) else ""


# --- Its bytes -----------------------------------------------------------------------------------

_MOST_BYTES: Final = (64 * KIB, 4 * MIB)
"""How much is decoded: enough for nearly all, then for those with a long preface."""
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
    for most in _MOST_BYTES:
        head = payload.head(most)
        if not _RASTER.match(head):  # a drawing in XML has no pixels
            return None
        with suppress(Exception):  # whatever is wrong with the data, the size is not known
            size = ImageSize(*imagesize.get(_Header(head)))
            if min(size) > 0:
                return size
    return None
