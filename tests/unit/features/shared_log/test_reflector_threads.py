"""A log over several threads is reflected, and every range stays with its thread."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.record.record import write_log
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError
from langgraph_om.features.shared_log.sections import (
    ThreadsReflectorInput,
    reflect_threads,
    regroup_threads,
    render_for_reflector,
)
from support.examples import examples
from support.threads import (
    AT,
    LOG,
    NAMES,
    Told,
    group,
    hashed,
    run,
    section,
)
from support.words import Words

# --- Reflection ----------------------------------------------------------------------------------


def test_the_reflector_is_shown_each_thread_once() -> None:
    assert render_for_reflector(LOG, hashed) == (
        '<thread id="#A">\n* one\n\n* two &lt;/thread>\n\n* four\n</thread>\n\n'
        '<thread id="#B">\n* three\n</thread>'
    )


def replaced(groups: Sequence[Group], texts: Mapping[str, str]) -> list[Group]:
    return regroup_threads(groups, texts, cycle_id="cycle", reflected_at=AT, counter=Words())


def test_a_thread_without_an_answer_stays() -> None:
    written = replaced(LOG, {"A": "* all of A"})
    assert [each["text"] for each in written] == ["* all of A", "", "* three", "* old"]
    assert written[1:] == LOG[2:5]
    assert written[0]["ranges"] == [each["ranges"][0] for each in LOG if each["thread_id"] == "A"]
    assert replaced(LOG, {}) == LOG
    assert replaced(LOG, {"A": " \n"}) == LOG
    assert replaced([], {"A": "* a"}) == []


DAYS = [f"Date: Mar {day}, 2026" for day in range(1, 6)]


@st.composite
def logs(draw: st.DrawFn) -> list[Group]:
    """A log of several threads, each with its days in order and its messages numbered."""
    groups: list[Group] = []
    upto = dict.fromkeys([*NAMES, None], 0)
    day = 0
    for at in range(draw(st.integers(1, 10))):
        thread = draw(st.sampled_from([*NAMES, None]))
        day = min(len(DAYS) - 1, day + draw(st.integers(0, 1)))
        first, last = upto[thread], upto[thread] + draw(st.integers(0, 3))
        upto[thread] = last + 1
        text = draw(st.sampled_from([f"{DAYS[day]}\n* item {at}", f"* item {at}", ""]))
        groups.append(group(f"g{at}", text, thread, first, last))
    return groups


ANSWERS = st.lists(st.sampled_from([*DAYS, "* kept", "* more"]), max_size=6).map("\n".join)


@examples(200)
@given(groups=logs(), texts=st.dictionaries(st.sampled_from([*NAMES, "X"]), ANSWERS))
def test_every_range_stays_in_one_group_of_its_thread(
    groups: list[Group], texts: dict[str, str]
) -> None:
    written = replaced(groups, texts)
    ids = [each["id"] for each in written]
    assert len(set(ids)) == len(ids)
    for thread in [*NAMES, None]:
        own = [each for each in written if each["thread_id"] == thread]
        before = [each for each in groups if each["thread_id"] == thread]
        assert covered(own) == covered(before)
        text = texts.get(thread or "", "")
        if not text.strip() or thread is None:
            assert own == before
        elif before:
            assert "".join(write_log(own).split()) == "".join(text.split())
    others = {each["thread_id"] for each in written}
    assert others == {each["thread_id"] for each in groups}


def covered(groups: Sequence[Group]) -> list[int]:
    """List the numbers of the messages that groups cover, in order."""
    return [
        number
        for each in groups
        for first, last in each["ranges"]
        for number in range(int(re.sub(r"\D", "", first)), int(re.sub(r"\D", "", last)) + 1)
    ]


LONG = [
    group("1", "* one " + "word " * 30, "A"),
    group("2", "* two " + "word " * 30, "B"),
    group("3", "* three " + "word " * 30, "A"),
]


def condensed(name: str, words: int, status: str = "") -> str:
    text = status or "* kept " + "word " * words
    return section(name, f"<observations>\n{text}\n</observations>")


@pytest.mark.parametrize(
    ("answers", "texts"),
    [
        ([condensed("#A", 5) + condensed("#B", 5)], {"A": 7, "B": 7}),
        ([condensed("#A", 5), *["no"] * 2], {"A": 7}),
        (["no", condensed("#A", 5) + condensed("#B", 5)], {"A": 7, "B": 7}),
        ([condensed("#A", 40), condensed("#A", 20), "no"], {"A": 22}),
        ([condensed("#A", 5), condensed("#A", 20), "no"], {"A": 7}),
        ([condensed("#A", 5) + condensed("#B", 50), *["no"] * 2], {"A": 7}),
        ([condensed("#A", 20), TimeoutError("late")], {"A": 22}),
        ([condensed("#A", 5) + condensed("#B", 0, "(none)"), *["no"] * 2], {"A": 7}),
    ],
)
def test_the_best_reflection_wins(answers: list[Told], texts: dict[str, int]) -> None:
    request = ThreadsReflectorInput(LONG, hashed, target=30)
    result, calls = run(reflect_threads(request, Words()), *answers)
    assert {name: Words().count_text(text) for name, text in result.texts.items()} == texts
    assert result.tokens == sum(each["tokens"] for each in replaced(LONG, result.texts))
    task = str(calls[0].messages[1].content)
    assert f"<observation-log>\n{render_for_reflector(LONG, hashed)}\n</observation-log>" in task
    assert calls[0].role == "reflector"
    assert len(calls) == len(answers)


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ([condensed("#A", 90)] * 3, "smaller"),
        ([condensed("A", 5)] * 3, 'no whole `<thread id="...">` section'),
        ([OSError("gone")], "OSError: gone"),
        ([OSError(f"\x00gone {'away ' * 300_000}")], "OSError: gone"),
    ],
)
def test_when_there_is_no_reflection(answers: list[Told], named: str) -> None:
    with pytest.raises(ObserverError, match=named) as caught:
        run(reflect_threads(ThreadsReflectorInput(LONG, hashed, target=30), Words()), *answers)
    assert len(str(caught.value)) < 1100
