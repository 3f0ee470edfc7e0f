"""Texts of the page can be read, in light and in dark (WCAG 2.2, 1.4.3: 4.5 to 1)."""

from __future__ import annotations

import re

import pytest

from langgraph_om.core.page.html import STYLE

LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", part))
    for part in STYLE.split("@media (prefers-color-scheme:dark)", 1)
)
PAIRS = [
    *((ink, on) for ink in ("ink", "soft", "faint", "accent", "green") for on in ("paper", "card")),
    *((f"{name}-ink", name) for name in ("warn", "add", "cut", "pin")),
]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) > 4 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "on"), PAIRS)
def test_texts_stand_out(colours: dict[str, str], ink: str, on: str) -> None:
    dark, bright = sorted((luminance(colours[ink]), luminance(colours[on])))
    assert (bright + 0.05) / (dark + 0.05) >= 4.5
