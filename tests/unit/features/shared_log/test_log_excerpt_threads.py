"""A log over several threads: what the Actor and the Observer are shown of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_om.core.content.message_keys import ShowId
from langgraph_om.core.content.text import escape
from langgraph_om.core.wire import Group
from langgraph_om.features.shared_log.sections import frame_sections, select_previous_sections
from support.threads import (
    LOG,
    group,
    hashed,
)
from support.words import Words

# --- The log -------------------------------------------------------------------------------------


def render_log(groups: Sequence[Group], show_id: ShowId, *, current: str | None = None) -> str:
    """Put the frames around the texts."""
    told = [group for group in groups if group["text"]]
    frames = frame_sections(told, show_id, current=current)
    texts = [escape(group["text"]) for group in told]
    return "".join(part for pair in zip(frames, [*texts, ""], strict=True) for part in pair)


def test_the_log_stands_in_sections() -> None:
    assert render_log(LOG, hashed, current="A") == (
        '<thread id="#A" current="yes">\n* one\n\n* two &lt;/thread>\n</thread>\n\n'
        '<thread id="#B">\n* three\n</thread>\n\n'
        "* old\n\n"
        '<thread id="#A" current="yes">\n* four\n</thread>'
    )
    assert render_log([], hashed) == ""
    assert "current" not in render_log(LOG, hashed)


GROUPS = st.lists(
    st.builds(
        group,
        st.uuids().map(str),
        st.text(max_size=40).map("* a".__add__),
        st.sampled_from(["A", "B", 'C">', None]),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(groups=GROUPS, more=GROUPS)
def test_a_growing_log_keeps_its_beginning(groups: list[Group], more: list[Group]) -> None:
    before = frame_sections(groups, hashed, current="A")
    after = frame_sections([*groups, *more], hashed, current="A")
    assert after[: len(groups)] == before[:-1]
    assert len(before) == len(groups) + 1
    text = render_log(groups, hashed, current="A")
    assert text.count("</thread>") == len(re.findall(r"<thread id=", text))
    assert text == render_log(groups, hashed, current="A")


def test_what_the_observer_is_shown_keeps_to_its_budget() -> None:
    log = [
        group(f"{at}", "\n".join(f"* item {at} {n} and some words" for n in range(20)), f"T{at}")
        for at in range(6)
    ]
    for budget in (0, 1, 30, 100, 200, 400, 10_000):
        shown = select_previous_sections(log, budget, Words(), hashed, first=["T0"])
        assert sum(Words().count_text(text) for _, text in shown) <= budget
        assert [name for name, _ in shown] == sorted(name for name, _ in shown)
        if budget >= 100:
            assert "#T0" in dict(shown), "those asked about come first"
            assert "#T5" in dict(shown), "then the most recent"
    everything = [(f"#T{at}", each["text"]) for at, each in enumerate(log)]
    assert shown == everything
    assert (
        select_previous_sections(log, budget=False, counter=Words(), show_id=hashed) == everything
    )
    assert select_previous_sections([LOG[4]], 100, Words(), hashed) == []
