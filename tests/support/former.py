"""Memory as version 1 of the record's form wrote it, with its conversation and its events.

`thread` has chunks ahead of need, `blocking` an observation that the turn waited for, `resource` a
log that threads share.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import BaseMessage, messages_from_dict

FILE = Path(__file__).parents[1] / "data" / "record_version_1.json"

Case = Literal["thread", "blocking", "resource"]


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def former(case: Case, what: str = "record") -> Any:
    """What version 1 wrote."""
    return deepcopy(_read()[case][what])


def former_messages(case: Case) -> list[BaseMessage]:
    """The conversation that it is about."""
    return messages_from_dict(former(case, "messages"))
