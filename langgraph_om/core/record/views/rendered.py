"""The log as it was rendered for a view, and what it was rendered from."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

Source = tuple[date, list[str], list[str], list[str]]
"""The day that dates are relative to, what frames the groups, their texts, what ends them."""


class Rendered(NamedTuple):
    """A log that need not be rendered again as long as its source is the same."""

    source: Source
    blocks: list[str]
