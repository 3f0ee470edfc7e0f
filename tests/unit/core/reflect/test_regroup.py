from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.record.record import MAX_RANGES, MAX_SHOWN_RANGES, write_range
from langgraph_om.core.reflect.reflector import regroup
from langgraph_om.core.wire import Group
from support.groups import AT, day_log, group, heading
from support.real_ids import MESSAGE_IDS
from support.words import Words

# --- What a reflection makes of it ---------------------------------------------------------------


def reflect(sources: list[Group], text: str) -> list[Group]:
    return regroup(sources, text, cycle_id="c1", reflected_at=AT, counter=Words())


def ends(groups: list[Group]) -> list[list[list[str]]]:
    return [entry["ranges"] for entry in groups]


DAYS = [
    group("a", day_log(0, "* old"), 0, 4),
    group("b", day_log(1, "* mid"), 5, 9),
    group("c", day_log(2, "* new"), 10, 14),
]
OLD_AND_MID = [["t0", "t4"], ["t5", "t9"]]
NEW = [["t10", "t14"]]
WHOLE = [[*OLD_AND_MID, *NEW]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\n".join([day_log(0, "* a"), day_log(1, "* b"), day_log(2, "* c")]),
            [[["t0", "t4"]], [["t5", "t9"]], [["t10", "t14"]]],
        ),
        (
            "\n\n".join([day_log(0, "* a"), day_log(2, "* c")]),
            [OLD_AND_MID, NEW],
        ),
        ("\n".join([day_log(1, "* b"), day_log(2, "* c")]), [OLD_AND_MID, NEW]),
        ("\n".join([day_log(2, "* c"), day_log(0, "* a")]), WHOLE),
        ("\n".join(["* before", day_log(1, "* b"), day_log(2, "* c")]), WHOLE),
        ("* no days at all", WHOLE),
        (day_log(0, "* a"), WHOLE),
        (day_log(7, "* later than all"), WHOLE),
        ("Date: unknown\n* a", WHOLE),
        (
            "\n".join([day_log(0, "* a"), day_log(0, "* again"), day_log(2, "* c")]),
            [OLD_AND_MID, NEW],
        ),
    ],
)
def test_each_day_takes_over_the_groups_of_its_days(
    text: str, expected: list[list[list[str]]]
) -> None:
    assert ends(reflect(DAYS, text)) == expected


def test_a_reflected_group_says_what_it_is() -> None:
    text = "\n".join([day_log(0, "* a"), day_log(1, "* b c"), day_log(2, "* d")])
    groups = reflect(DAYS, text)
    assert [entry["text"] for entry in groups] == [
        f"{heading(0)}\n* a",
        f"{heading(1)}\n* b c",
        f"{heading(2)}\n* d",
    ]
    assert [entry["tokens"] for entry in groups] == [6, 7, 6]
    assert {entry["kind"] for entry in groups} == {"reflection"}
    assert {entry["observed_at"] for entry in groups} == {AT}
    assert {entry["thread_id"] for entry in groups} == {"t"}
    assert len({entry["id"] for entry in groups}) == 3
    assert groups == reflect(DAYS, text), "the same cycle gives the same ids"
    other = regroup(DAYS, text, cycle_id="c2", reflected_at=AT, counter=Words())
    assert not {entry["id"] for entry in groups} & {entry["id"] for entry in other}


def test_undated_sources_stay_with_what_came_before_them() -> None:
    sources = [DAYS[0], group("u", "* undated", 5, 9), DAYS[2]]
    text = "\n".join([day_log(0, "* a"), day_log(1, "* b"), day_log(2, "* c")])
    assert ends(reflect(sources, text)) == [OLD_AND_MID, NEW]


def test_ranges_of_different_threads_are_not_joined() -> None:
    sources = [group("a", "* a", 0, 4), group("b", "* b", 0, 2, "u"), group("c", "* c", 5, 9)]
    assert ends(reflect(sources, "* all")) == [[["t0", "t4"], ["u0", "u2"], ["t5", "t9"]]]


# --- The ranges of a group -----------------------------------------------------------------------


def day_of(count: int, thread: str = "t", start: int = 0) -> list[Group]:
    """Groups of one day, two messages each."""
    return [
        group(f"{thread}{at}", day_log(0, f"* item {at}"), 2 * at, 2 * at + 1, thread)
        for at in range(start, start + count)
    ]


def test_the_groups_of_one_day_keep_their_ranges_apart() -> None:
    [written] = reflect(day_of(5), day_log(0, "* all of it"))
    assert written["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 10, 2)]
    # A reflection of reflections keeps them too.
    [again] = reflect([written, *day_of(2, start=5)], day_log(0, "* shorter"))
    assert again["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 14, 2)]


def test_of_too_many_ranges_the_oldest_neighbours_are_joined() -> None:
    [written] = reflect(day_of(MAX_RANGES), day_log(0, "* all"))
    assert len(written["ranges"]) == MAX_RANGES
    [more] = reflect(day_of(MAX_RANGES + 2), day_log(0, "* all"))
    assert more["ranges"][:3] == [["t0", "t3"], ["t4", "t7"], ["t8", "t9"]]
    assert len(more["ranges"]) == MAX_RANGES
    [many] = reflect(day_of(1000), day_log(0, "* all"))
    assert len(many["ranges"]) == MAX_RANGES
    assert span(many["ranges"]) == [("t", at) for at in range(2000)]
    sizes = [len(span([ends])) for ends in many["ranges"]]
    assert sizes == sorted(sizes, reverse=True), "the newest are the finest"
    assert max(sizes) < 2000 / 10


def test_too_many_ranges_of_threads_in_turn_stay() -> None:
    sources = [each for pair in zip(day_of(30), day_of(30, "u"), strict=True) for each in pair]
    [written] = reflect(sources, "* all")
    assert written["ranges"] == [ends for each in sources for ends in each["ranges"]]


def test_the_range_line_of_many_ranges_stays_readable() -> None:
    def line(count: int) -> str:
        return write_range(reflect(day_of(count), day_log(0, "* all"))[0])

    assert line(1) == "_range: `t0:t1`_"
    assert line(3) == "_range: `t0:t1,t2:t3,t4:t5`_"
    assert line(5) == "_range: `t0:t1,t2:t3,t4:t5,t6:t7,t8:t9`_"
    assert line(7) == "_range: `t0:t1,t2:t3,t4:t7,t8:t9,t10:t13`_"
    assert len(line(500).split(",")) == MAX_SHOWN_RANGES


@given(st.lists(MESSAGE_IDS, min_size=2, max_size=60, unique=True), st.integers(0, 3))
def test_ranges_of_real_ids_stay_in_order_and_whole(keys: list[str], undated: int) -> None:
    pairs = [[first, last] for first, last in zip(keys[::2], keys[1::2], strict=False)]
    sources: list[Group] = [
        {**group(f"g{at}", "* x" if at < undated else day_log(at // 9, "* x")), "ranges": [ends]}
        for at, ends in enumerate(pairs)
    ]
    text = "\n".join(day_log(day, "* y") for day in range(4))
    written = reflect(sources, text)
    flat = [key for entry in written for ends in entry["ranges"] for key in ends]
    order = {key: at for at, key in enumerate(keys)}
    assert flat == sorted(flat, key=order.__getitem__)
    assert {flat[0], flat[-1]} == {pairs[0][0], pairs[-1][1]}
    for entry in written:
        assert len(entry["ranges"]) <= MAX_RANGES
        starts = [order[first] for first, _ in entry["ranges"]]
        stops = [order[last] for _, last in entry["ranges"]]
        assert [at + 1 for at in stops[:-1]] == starts[1:], "no message between them is lost"
        shown = write_range(entry).removeprefix("_range: `").removesuffix("`_").split(",")
        assert len(shown) <= MAX_SHOWN_RANGES
        assert all(key in order for pair in shown for key in pair.split(":"))


def span(ranges: list[list[str]]) -> list[tuple[str, int]]:
    return [
        (first[0], at) for first, last in ranges for at in range(int(first[1:]), int(last[1:]) + 1)
    ]


@st.composite
def sources_of_days(draw: st.DrawFn) -> list[Group]:
    """Groups of one or two threads, each going on where its thread's last one ended."""
    reached = dict.fromkeys("tu", 0)
    groups: list[Group] = []
    day = 0
    for at in range(draw(st.integers(1, 7))):
        thread = draw(st.sampled_from("tttu"))
        count = draw(st.integers(1, 4))
        day += draw(st.integers(0, 2))
        dated = draw(st.booleans())
        text = day_log(day, f"* item {at}") if dated else f"* item {at}"
        first = reached[thread]
        groups.append(group(f"g{at}", text, first, first + count - 1, thread))
        reached[thread] = first + count
    return groups


SECTION = st.one_of(
    st.integers(0, 14).map(heading),
    st.sampled_from(["* 🔴 kept", "  * -> detail", "", "prose", "Date: unknown", "```", "Date: x"]),
)


@given(sources_of_days(), st.lists(SECTION, max_size=12).filter(any))
def test_reflected_groups_cover_exactly_what_their_sources_covered(
    sources: list[Group], lines: list[str]
) -> None:
    text = "\n".join(lines)
    groups = reflect(sources, text)
    covered = [place for entry in groups for place in span(entry["ranges"])]
    assert covered == [place for entry in sources for place in span(entry["ranges"])]
    kept = [line for entry in groups for line in entry["text"].split("\n") if line.strip()]
    assert kept == [line for line in lines if line.strip()]
    assert len({entry["id"] for entry in groups}) == len(groups)
    assert all(entry["tokens"] == Words().count_text(entry["text"]) for entry in groups)


@given(sources_of_days(), st.lists(st.integers(0, 14), min_size=1, unique=True).map(sorted))
def test_no_group_of_an_ordered_reflection_holds_a_source_of_a_later_section(
    sources: list[Group], days: list[int]
) -> None:
    groups = reflect(sources, "\n".join(day_log(day, f"* day {day}") for day in days))
    for entry in groups[:-1]:
        last_own = [day for day in days if f"* day {day}" in entry["text"].split("\n")][-1]
        later = days[days.index(last_own) + 1]
        places = set(span(entry["ranges"]))
        for source in sources:
            dated = re.match(r"Date: (\w+ \d+), ", source["text"])
            if dated and set(span(source["ranges"])) <= places:
                assert source["text"].split("\n")[0] in {heading(day) for day in range(later)}


def test_a_long_log_is_cut_and_reflected() -> None:
    marks = "🔴🟡🟢✅"
    texts = [
        day_log(day, *(f"* {marks[at % 4]} item {at} of day {day}" for at in range(100)))
        for day in range(200)
    ]
    log = [group(f"g{at}", text, at, at) for at, text in enumerate(texts)]
    text = select_previous(log, 5000, Words())
    assert len(text.split()) <= 5000
    groups = reflect(log, "\n".join(texts))
    assert ends(groups) == ends(log)
