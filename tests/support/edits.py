"""A record with other values, as a test needs it; nobody but a test changes single keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from support.inside import MemoryRecord, complete_record


def edited(record: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> MemoryRecord:
    return cast("MemoryRecord", {**complete_record(record), **keys})
