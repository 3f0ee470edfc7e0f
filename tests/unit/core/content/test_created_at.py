"""`created_at` of a message is read in each form that programs write it in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from support.inside import message_time

NOON = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.isoformat(),
        NOON.timestamp(),
        int(NOON.timestamp() * 1000),
        str(int(NOON.timestamp())),
    ],
)
def test_each_form_of_a_time_is_read(value: object) -> None:
    """The day of a message decides what "tomorrow" means in it."""
    message = HumanMessage("Tomorrow, then.", additional_kwargs={"created_at": value})
    assert message_time(message, "a", {}, timezone=UTC) == NOON


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", float("nan"), float("inf"), 10**400, -5, True, [1], "9" * 9000, "\0,"),
        "Mon, 04 May 2026 14:30:00 +0200",
        "May 4, 2026 2:30 PM",  # read without its PM by a lenient parser
        "Mon May 04 2026 14:30:00 GMT+0200 (CEST)",  # without its zone
        *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),  # not set
    ],
)
def test_a_time_that_cannot_be_read_is_unknown(value: object) -> None:
    """It neither raises nor becomes a wrong date."""
    message = HumanMessage("Tomorrow, then.", additional_kwargs={"created_at": value})
    assert message_time(message, "a", {}, timezone=UTC) is None
