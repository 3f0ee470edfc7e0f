from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from support.edits import edited
from support.flows import settings
from support.inside import SHORTEST, find_gaps, open_window, write_line
from support.words import Words

MAY = datetime(2026, 5, 4, 9, 12, tzinfo=UTC)
MARKING = settings()


def said(kind: Any, key: str, time: datetime | None = None, **fields: Any) -> Any:
    told = {} if time is None else {"created_at": time.isoformat()}
    return kind("x", id=key, additional_kwargs=told, **fields)


def gaps(*messages: BaseMessage, cursor: Any = (), marking: Any = MARKING, **stamps: str) -> Any:
    record = edited(None, {"stamps": stamps, "cursor": list(cursor)})
    settings = replace(marking, shortest_gap=SHORTEST)
    return find_gaps(settings, record, open_window(record, messages, Words()))


@pytest.mark.parametrize(
    ("pause", "line"),
    [
        (timedelta(minutes=1), "[1 minute later: Mon, May 4, 2026, 09:12]"),
        (timedelta(minutes=59), "[59 minutes later: Mon, May 4, 2026, 09:12]"),
        (timedelta(hours=1), "[1 hour later: Mon, May 4, 2026, 09:12]"),
        (timedelta(hours=23, minutes=59), "[23 hours later: Mon, May 4, 2026, 09:12]"),
        (timedelta(days=1), "[1 day later: Mon, May 4, 2026, 09:12]"),
        (timedelta(days=2, hours=9), "[2 days later: Mon, May 4, 2026, 09:12]"),
        (timedelta(days=30), "[1 month later: Mon, May 4, 2026, 09:12]"),
        (timedelta(days=800), "[2 years later: Mon, May 4, 2026, 09:12]"),
    ],
)
def test_line_says_how_long_the_pause_was_and_when_it_ended(pause: timedelta, line: str) -> None:
    assert write_line(pause, MAY) == line


def test_only_user_messages_after_ten_minutes_or_more_get_a_line() -> None:
    hour = timedelta(hours=1)
    talk = [
        said(HumanMessage, "h1", MAY),
        said(AIMessage, "a1"),
        said(HumanMessage, "h2", MAY + hour * 0.16),
        said(AIMessage, "a2", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        said(ToolMessage, "t2", MAY + 9 * hour, tool_call_id="c"),
        said(HumanMessage, "h3", MAY + 9.5 * hour),
        said(HumanMessage, "h4", MAY + 12 * hour),
    ]
    assert gaps(*talk) == {
        "h3": "[30 minutes later: Mon, May 4, 2026, 18:42]",
        "h4": "[2 hours later: Mon, May 4, 2026, 21:12]",
    }


def test_answer_that_is_first_seen_with_the_next_request_hides_no_pause() -> None:
    late = (MAY + timedelta(days=2)).isoformat()
    talk = [said(HumanMessage, "h1"), said(AIMessage, "a1"), said(HumanMessage, "h2")]
    found = gaps(*talk, h1=MAY.isoformat(), a1=late, h2=late)
    assert found == {"h2": "[2 days later: Wed, May 6, 2026, 09:12]"}
