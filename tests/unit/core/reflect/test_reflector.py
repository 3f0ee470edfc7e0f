"""The Reflector is asked until the log is small enough, for edits or for a text anew."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_om.core.effects import ModelReply
from langgraph_om.core.observe.log_excerpt import select_previous
from langgraph_om.core.record.record import MAX_RANGES, MAX_SHOWN_RANGES, write_range
from langgraph_om.core.reflect.reflector import (
    EditedLog,
    EditsInput,
    Reflection,
    reflect,
    reflect_by_edits,
    regroup,
)
from langgraph_om.core.wire import Group
from langgraph_om.errors import ObserverError
from support.editing import TALK
from support.flows import GOOD, LOG, LOOP, NONE, NOW, Talk, Told, dense, texts
from support.groups import AT, day_log, group, heading
from support.real_ids import MESSAGE_IDS
from support.rendering import divide
from support.words import Words

# --- Asking the Reflector ------------------------------------------------------------------------


TRIES: list[tuple[list[Told], int]] = [
    ([dense(40)], 40),
    ([dense(49)], 49),
    ([dense(51)], 51),
    ([dense(52), dense(48)], 48),
    ([dense(90), dense(70), dense(49)], 49),
    ([dense(90), dense(70), dense(80)], 70),
    ([dense(70), dense(90), dense(95)], 70),
    ([dense(60), dense(60), dense(60)], 60),
    ([dense(120), dense(100), dense(99)], 99),
    ([dense(120), dense(30)], 30),
    (["", "no", dense(60)], 60),
    ([LOOP, dense(60), dense(40)], 40),
    ([dense(60), NONE, ""], 60),
    ([ModelReply(NOW, dense(10), cut_off=True), dense(20)], 20),
    ([dense(60), TimeoutError("late")], 60),
    ([dense(90), dense(80), ValueError("x")], 80),
]


@pytest.mark.parametrize(("answers", "tokens"), TRIES)
def test_the_first_small_enough_wins_else_the_smallest(answers: list[Told], tokens: int) -> None:
    talk = Talk(answers)
    best: Reflection = talk.run(reflect(LOG, Words()))
    assert best.tokens == tokens
    assert Words().count_text(best.text) == tokens
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} == {"reflector"}


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ([dense(100)] * 3, "it has 100 tokens, the log it replaces 100"),
        ([dense(101)] * 3, "it has 101 tokens, the log it replaces 100"),
        ([NONE] * 3, "it leaves nothing of the log"),
        ([""] * 3, "it is empty"),
        (["no"] * 3, "it is malformed"),
        ([LOOP] * 3, "it is degenerate"),
        ([ModelReply(NOW, dense(9), cut_off=True)] * 3, "it is cut_off"),
        ([*[dense(120)] * 2, "no"], "it is malformed"),
        ([TimeoutError("late")], "TimeoutError: late"),
        (["no", dense(130), ValueError("bad key")], "ValueError: bad key"),
    ],
)
def test_when_no_reflection_is_usable(answers: list[Told], named: str) -> None:
    talk = Talk(answers)
    with pytest.raises(ObserverError) as caught:
        talk.run(reflect(LOG, Words()))
    assert named in str(caught.value)
    assert len(talk.calls) == len(answers)


def test_the_first_question_names_the_size_that_is_wanted() -> None:
    talk = Talk([dense(40)])
    talk.run(reflect(replace(LOG, instruction="Keep all names."), Words()))
    system, task = texts(talk.calls[0])
    assert "about 100 tokens" in task
    assert "fewer than 50 tokens" in task
    log = "<observation-log>\n* 🔴 long &lt;/observation-log> log\n</observation-log>"
    assert log in task
    assert "Keep all names." in system


def test_a_retry_shows_the_former_answer_and_how_much_it_has_too_many() -> None:
    talk = Talk([dense(90), "no form", dense(40)])
    talk.run(reflect(LOG, Words()))
    first, second, third = (texts(call) for call in talk.calls)
    assert second[:2] == third[:2] == first
    assert second[2] == dense(90)
    assert "It has 90 tokens, 41 too many: fewer than 50 are needed." in second[3]
    assert third[2] == "no form"
    assert "It is malformed" in third[3]
    assert len(third) == 4


@pytest.mark.parametrize("answer", ["", LOOP, ModelReply(NOW, dense(10), cut_off=True)])
def test_a_retry_does_not_show_what_is_no_basis(answer: Told) -> None:
    talk = Talk([answer, dense(40)])
    talk.run(reflect(LOG, Words()))
    assert len(texts(talk.calls[1])) == 3


def test_one_question_may_be_all() -> None:
    talk = Talk([dense(90)])
    assert talk.run(reflect(LOG, Words(), questions=1)).tokens == 90
    with pytest.raises(ObserverError, match="in 1 attempt: it is malformed"):
        Talk(["no"]).run(reflect(LOG, Words(), questions=1))


def test_the_reflector_is_told_the_rules_the_log_was_written_by() -> None:
    systems: list[str] = []
    for prompt in ("default", "condensed"):
        talk = Talk([dense(10)])
        talk.run(reflect(replace(LOG, prompt=prompt), Words()))
        systems.append(texts(talk.calls[0])[0])
    assert len(set(systems)) == 2
    assert all("<thread-title>" not in system for system in systems)


def test_a_task_that_a_reflection_states_is_left_out() -> None:
    told = f"{dense(10)}\n<current-task>Go on</current-task>"
    assert Talk([told]).run(reflect(LOG, Words())) == Talk([dense(10)]).run(reflect(LOG, Words()))


TEN = [group("g", day_log(0, *(f"* 🟡 (09:{at:02}) one two three four" for at in range(10))))]
"""Ten items of seven tokens and a heading of four."""
TOTAL = TEN[0]["tokens"]
REQUEST = EditsInput(TEN, target=50)


def asked(answers: list[Told], request: EditsInput = REQUEST) -> tuple[EditedLog, list[str]]:
    talk = Talk(answers)
    log = talk.run(reflect_by_edits(request, Words()))
    assert len(talk.calls) == len(answers)
    assert {call.role for call in talk.calls} <= {"reflector"}
    return log, [texts(call)[1] for call in talk.calls]


def test_one_question_is_enough_when_enough_goes() -> None:
    log, [question] = asked(["drop 1-4\n5: * one two"])
    assert log.tokens == TOTAL - 4 * 7 - 2 < 50
    assert log.edited == Counter(edits=5, dropped=4, shortened=1)
    assert "[10 ~7] * 🟡 (09:09) one two three four\n</observation-log>" in question
    assert f"The log has {TOTAL} tokens, headings included." in question


def test_a_tenth_more_is_asked_for_than_is_needed() -> None:
    _, [question] = asked(["drop 1-4"])
    assert TOTAL - 50 == 24
    assert "free 27 of them" in question


@pytest.mark.parametrize(("target", "questions"), [(46, 1), (45, 1), (44, 2)])
def test_less_than_three_percent_over_the_target_counts_as_reached(
    target: int, questions: int
) -> None:
    log, found = asked(["drop 1-4", "drop 1"][:questions], replace(REQUEST, target=target))
    assert len(found) == questions
    assert log.tokens == 46 - 7 * (questions - 1)


def test_the_next_question_shows_the_log_as_it_stands_with_new_numbers() -> None:
    log, [_, second, third] = asked(["drop 1-2\n99: x\n5: * One Eleven", "drop 1", "drop 1"])
    assert "[1 ~7] * 🟡 (09:02)" in second
    assert "[8 ~7] * 🟡 (09:09)" in second
    assert "Your edits so far freed 14 tokens." in second
    assert "free 12 of them" in second
    assert "- 99: there is no such item\n- 5: its items have no number '11'" in second
    assert "freed 21 tokens" in third
    assert "Left out" not in third
    assert log.edited["dropped"] == 4


def test_three_questions_are_the_most_and_progress_is_kept() -> None:
    log, _ = asked(["drop 1"] * 3)
    assert log.tokens == TOTAL - 21


@pytest.mark.parametrize("answer", ["", "no", GOOD, "drop 99", "1: * 🔴 Invented"])
def test_without_a_valid_edit_there_is_no_further_question(answer: str) -> None:
    log, _ = asked([answer])
    assert not log.edited
    assert log.groups == TEN


@pytest.mark.parametrize("answer", ["nothing is left to shorten", TimeoutError("late")])
def test_what_was_achieved_stays_when_nothing_more_comes(answer: Told) -> None:
    log, _ = asked(["drop 1", answer])
    assert log.tokens == TOTAL - 7


def test_a_first_question_without_answer_is_a_failure() -> None:
    with pytest.raises(ObserverError, match="TimeoutError: late"):
        asked([TimeoutError("late")])


def test_of_an_answer_that_was_cut_off_all_but_the_last_edit_counts() -> None:
    log, _ = asked([ModelReply(NOW, "drop 1-5\n6: * one t", cut_off=True)])
    assert log.edited == Counter(edits=5, dropped=5)


def test_a_log_without_items_asks_nothing() -> None:
    log, questions = asked([], EditsInput([group("g", "")], target=5))
    assert (log.edited, questions) == (Counter(), [])


def test_hints_are_shown_and_the_instruction_is_added() -> None:
    request = replace(
        REQUEST,
        hints={"current_task": "Plan <observations>", "suggested_response": None},
        instruction="Keep doses.",
    )
    talk = Talk(["drop 1-5"])
    talk.run(reflect_by_edits(request, Words()))
    system, task = texts(talk.calls[0])
    assert "<current-task>Plan &lt;observations></current-task>" in task
    assert "suggested-response" not in task
    assert "Keep doses." in system
    assert "several conversations" not in task


def test_all_threads_are_edited_by_one_question_the_quietest_first() -> None:
    log = [
        group("a1", "* old of a", thread="a"),
        group("b1", "* of b here", thread="b"),
        group("a2", "* new of a", thread="a"),
    ]
    request = EditsInput(log, target=9, division=divide(lambda thread: f"hid-{thread}"))
    edited, [question] = asked(["drop 1\n2+3: * of a"], request)
    assert question.index('<thread id="hid-b">') < question.index('<thread id="hid-a">')
    assert "several conversations" in question
    assert [entry["text"] for entry in edited.groups] == ["", "", "* of a"]
    assert edited.list_changes(cycle_id="c", reflected_at="")[1] == [["a1", "a2"], ["b1"]]


def test_what_a_hook_hid_is_not_shown_in_later_questions_either() -> None:
    log = [group("g", day_log(0, "* secret one", "* open two", "* open three", "* open four"))]
    for shown in (
        day_log(0, "* *** one", "* open two", "* open three", "* open four"),
        day_log(0, "* open two", "* open three", "* open four"),
    ):
        number = shown.count("*** ")
        request = EditsInput(log, target=4, shown=[shown])
        edited, questions = asked([f"drop {number + 1}", f"drop {number + 1}", "no"], request)
        assert "secret" not in "".join(questions)
        assert edited.groups[0]["text"] == day_log(0, "* secret one", "* open four")


def test_the_log_that_was_given_is_not_touched() -> None:
    before = repr(TALK)
    asked(["drop 1-6"], EditsInput(TALK, target=50))
    assert repr(TALK) == before


# --- What a reflection makes of it ---------------------------------------------------------------


def replaced_by(sources: list[Group], text: str) -> list[Group]:
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
        ("\n\n".join([day_log(0, "* a"), day_log(2, "* c")]), [OLD_AND_MID, NEW]),
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
    assert ends(replaced_by(DAYS, text)) == expected


def test_a_reflected_group_says_what_it_is() -> None:
    text = "\n".join([day_log(0, "* a"), day_log(1, "* b c"), day_log(2, "* d")])
    groups = replaced_by(DAYS, text)
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
    assert groups == replaced_by(DAYS, text), "the same cycle gives the same ids"
    other = regroup(DAYS, text, cycle_id="c2", reflected_at=AT, counter=Words())
    assert not {entry["id"] for entry in groups} & {entry["id"] for entry in other}


def test_undated_sources_stay_with_what_came_before_them() -> None:
    sources = [DAYS[0], group("u", "* undated", 5, 9), DAYS[2]]
    text = "\n".join([day_log(0, "* a"), day_log(1, "* b"), day_log(2, "* c")])
    assert ends(replaced_by(sources, text)) == [OLD_AND_MID, NEW]


def test_ranges_of_different_threads_are_not_joined() -> None:
    sources = [group("a", "* a", 0, 4), group("b", "* b", 0, 2, "u"), group("c", "* c", 5, 9)]
    assert ends(replaced_by(sources, "* all")) == [[["t0", "t4"], ["u0", "u2"], ["t5", "t9"]]]


# --- The ranges of a group -----------------------------------------------------------------------


def day_of(count: int, thread: str = "t", start: int = 0) -> list[Group]:
    """Groups of one day, two messages each."""
    return [
        group(f"{thread}{at}", day_log(0, f"* item {at}"), 2 * at, 2 * at + 1, thread)
        for at in range(start, start + count)
    ]


def test_the_groups_of_one_day_keep_their_ranges_apart() -> None:
    [written] = replaced_by(day_of(5), day_log(0, "* all of it"))
    assert written["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 10, 2)]
    # A reflection of reflections keeps them too.
    [again] = replaced_by([written, *day_of(2, start=5)], day_log(0, "* shorter"))
    assert again["ranges"] == [[f"t{at}", f"t{at + 1}"] for at in range(0, 14, 2)]


def test_of_too_many_ranges_the_oldest_neighbours_are_joined() -> None:
    [written] = replaced_by(day_of(MAX_RANGES), day_log(0, "* all"))
    assert len(written["ranges"]) == MAX_RANGES
    [more] = replaced_by(day_of(MAX_RANGES + 2), day_log(0, "* all"))
    assert more["ranges"][:3] == [["t0", "t3"], ["t4", "t7"], ["t8", "t9"]]
    assert len(more["ranges"]) == MAX_RANGES
    [many] = replaced_by(day_of(1000), day_log(0, "* all"))
    assert len(many["ranges"]) == MAX_RANGES
    assert span(many["ranges"]) == [("t", at) for at in range(2000)]
    sizes = [len(span([ends])) for ends in many["ranges"]]
    assert sizes == sorted(sizes, reverse=True), "the newest are the finest"
    assert max(sizes) < 2000 / 10


def test_too_many_ranges_of_threads_in_turn_stay() -> None:
    sources = [each for pair in zip(day_of(30), day_of(30, "u"), strict=True) for each in pair]
    [written] = replaced_by(sources, "* all")
    assert written["ranges"] == [ends for each in sources for ends in each["ranges"]]


def test_the_range_line_of_many_ranges_stays_readable() -> None:
    def line(count: int) -> str:
        return write_range(replaced_by(day_of(count), day_log(0, "* all"))[0])

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
    written = replaced_by(sources, text)
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
    groups = replaced_by(sources, text)
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
    groups = replaced_by(sources, "\n".join(day_log(day, f"* day {day}") for day in days))
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
        for day in range(100)
    ]
    log = [group(f"g{at}", text, at, at) for at, text in enumerate(texts)]
    text = select_previous(log, 5000, Words())
    assert len(text.split()) <= 5000
    groups = replaced_by(log, "\n".join(texts))
    assert ends(groups) == ends(log)
