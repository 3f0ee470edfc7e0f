"""Titles: their options, and those that the Observer suggests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from langgraph_om import ConfigurationError, ObservationalMemory
from langgraph_om.core.config.settings import Parts
from langgraph_om.core.cycles.observation import observe_cycle
from langgraph_om.core.events import to_part
from langgraph_om.core.observe.parse_answer import parse_output
from langgraph_om.core.record.fold import fold
from langgraph_om.features.titles import Titles
from support.edits import edited
from support.flows import GOOD, NOW, Talk, conversation, kinds, later, setup, texts
from support.rendering import render_output


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_whether_the_observer_suggests_a_title_is_a_flag(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"`observation\.thread_title` is"):
        ObservationalMemory("fake", observation={"thread_title": value}, enabled=False)


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("Tea", "Tea"),
        ("Te", None),
        ("none", None),
        ('"Tea party"', "Tea party"),
        ("“Tea party”", "Tea party"),
        ("**'Tea party'**", "Tea party"),
        ("the users' tea", "the users' tea"),
        ('"Te"', None),
        ("\n  Tea party\n\nHope this helps!\n", "Tea party"),
        ("a <b> c", "a <b> c"),
        ("t" * 101, "t" * 100),
        ("t" * 99 + " and more", "t" * 99),
    ],
)
def test_a_title_is_one_short_line(value: str, title: str | None) -> None:
    text = f"<observations>\n* 🔴 a\n</observations>\n<thread-title>{value}</thread-title>"
    parsed = parse_output(text)
    assert parsed.hints == ({} if title is None else {"thread_title": title})
    assert parse_output(render_output(parsed)) == parsed


@pytest.mark.parametrize(
    ("wanted", "title", "expected"),
    [
        (True, "Walks with Rex", ["observation-start", "observation-end", "thread-update"]),
        (True, "Old title", ["observation-start", "observation-end"]),
        (False, "Walks with Rex", ["observation-start", "observation-end"]),
    ],
)
def test_a_new_title_is_announced(*, wanted: bool, title: str, expected: list[str]) -> None:
    record, window = conversation()
    record = edited(record, {"thread_title": "Old title", "title": {}})
    told = f"{GOOD}\n<thread-title>{title}</thread-title>"
    hints = ("thread_title",) if wanted else ()
    talk = Talk([later(told)])
    flow = observe_cycle(
        replace(setup(), hints=hints, parts=Parts(titles=Titles())),
        record,
        window,
        1,
        NOW,
    )
    events = talk.run_cycle(flow)
    assert kinds(events) == expected
    system, task = texts(talk.calls[0])
    assert ("4. `<thread-title>`" in system) is wanted
    assert ("<thread-title>Old title</thread-title>" in task) is wanted
    after = fold(record, [events])
    assert after["thread_title"] == (title if wanted else "Old title")  # type: ignore[typeddict-item]
    if len(events) == 3:
        assert to_part(events[2]) == {
            "type": "data-om-thread-update",
            "data": {
                "cycleId": events[0]["cycle_id"],
                "threadId": "t",
                "oldTitle": "Old title",
                "newTitle": "Walks with Rex",
                "timestamp": "2026-03-02T09:00:01.500+00:00",
            },
        }
