"""Edits change what they name and nothing else."""

from __future__ import annotations

from langgraph_om.core.record.record import (
    MAX_RANGES,
    collect_sources,
    join_empty,
    place_changes,
    write_range,
)
from langgraph_om.core.reflect.reflector import EditedLog
from langgraph_om.core.wire import Group
from support.editing import TALK, edited, texts
from support.groups import day_log, group

FIRST, SECOND = (entry["text"] for entry in TALK)


def changes(log: EditedLog) -> list[tuple[list[str], list[str]]]:
    listed = log.list_changes(cycle_id="c", reflected_at="2026-05-06T00:00:00.000+00:00")
    return [([*ids], [listed.becomes[key]["text"] for key in ids]) for ids in listed.together]


def test_what_is_not_named_stays_byte_for_byte() -> None:
    lines = FIRST.split("\n")
    lines[1] = "* 🔴 (09:12) User lives in Ghent"
    assert texts("1: User lives in Ghent") == ["\n".join(lines), SECOND]
    after = edited("1: User lives in Ghent")
    assert after.groups[1] is TALK[1]
    assert after.tokens == sum(entry["tokens"] for entry in TALK) - 3


def test_dropped_items_go_with_their_sub_items() -> None:
    assert texts("drop 2")[0] == "\n".join(FIRST.split("\n")[:2] + FIRST.split("\n")[4:])


def test_a_heading_without_items_goes_and_no_blank_line_is_left_over() -> None:
    assert texts("drop 3")[0] == "\n".join(FIRST.split("\n")[:4])
    assert texts("drop 1-2")[0] == "\n".join(FIRST.split("\n")[5:])
    three = "\n\n".join(day_log(day, f"* item {day}") for day in range(3))
    assert texts("drop 2", [group("g", three)]) == [
        "\n\n".join(day_log(day, f"* item {day}") for day in (0, 2))
    ]


def test_odd_blank_lines_and_empty_headings_of_what_stays_are_left_alone() -> None:
    odd = "Date: May 1, 2026\n\n\n* a\n\n\n\n* b\n* c\n"
    assert texts("drop 3", [group("g", odd)]) == ["Date: May 1, 2026\n\n\n* a\n\n\n\n* b"]


def test_joined_items_stand_where_the_last_of_them_stood() -> None:
    first, second = texts("1+2+6: User lives in Ghent; asked for cafés: Brug, Opaal")
    assert first == "\n".join(FIRST.split("\n")[5:])
    assert second == SECOND.replace(
        "* 🟡 (10:02) User asked for the address of Brug",
        "* 🔴 (10:02) User lives in Ghent; asked for cafés: Brug, Opaal",
    )


def test_the_range_line_names_all_ranges_that_joined_items_came_from() -> None:
    after = edited("1+6: User lives in Ghent; asked for Brug")
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert write_range(after.groups[1]) == "_range: `t0:t3,t4:t6`_"
    assert write_range(after.groups[0]) == "_range: `t0:t3`_"
    assert changes(after)[0][0] == ["g1", "g2"]


def test_sources_do_not_grow_without_bound() -> None:
    others = [group(f"g{at}", "* x", 2 * at, 2 * at + 1) for at in range(100)]
    last = group("last", "* y", 200, 201)
    found = collect_sources(last, others)
    assert len(found) <= MAX_RANGES
    assert (found[0][0], found[-1][1]) == ("t0", "t199")


def test_a_group_whose_items_are_gone_keeps_its_range() -> None:
    after = edited("drop 4-6")
    assert (after.groups[1]["text"], after.groups[1]["tokens"]) == ("", 0)
    assert after.groups[1]["ranges"] == TALK[1]["ranges"]
    assert (after.edits, after.dropped, after.joined, after.shortened) == (3, 3, 0, 0)


def test_neighbours_without_text_are_joined_thread_by_thread() -> None:
    log: list[Group] = [
        group("a1", "", 0, 1, "a"),
        group("b1", "* b", 0, 1, "b"),
        group("a2", "", 2, 3, "a"),
        group("a3", "* a", 4, 5, "a"),
        group("a4", "", 6, 7, "a"),
        group("b2", "", 2, 3, "b"),
    ]
    joined = join_empty(log, "c")
    assert [entry["ranges"] for entry in joined] == [
        [["a0", "a1"], ["a2", "a3"]],
        [["b0", "b1"]],
        [["a4", "a5"]],
        [["a6", "a7"]],
        [["b2", "b3"]],
    ]
    assert joined[1:] == [log[1], *log[3:]]
    assert join_empty(joined, "d") == joined


def test_edits_apply_to_the_groups_that_are_still_the_same() -> None:
    log = [group(f"g{at}", day_log(at, f"* one {at}", f"* two {at}"), at, at) for at in range(5)]
    answer = "drop 1\n5+7: one\ndrop 9"
    after = edited(answer, log)
    listed = after.list_changes(cycle_id="c", reflected_at="")
    assert listed.together == [["g0"], ["g2", "g3"], ["g4"]]
    newer = group("new", "* new")

    def placed(*now: Group) -> tuple[list[str], list[str]] | None:
        found = place_changes(list(now), listed, "c")
        return found and (found.group_ids, [entry["text"] for entry in found.groups])

    whole = placed(*log, newer)
    assert whole is not None
    assert whole[0] == ["g0", "g1", "g2", "g3", "g4"]
    assert whole[1][1] == log[1]["text"]
    other = group("other", "* otherwise")
    assert placed(log[0], log[1], other, log[3], log[4], newer) == (
        ["g0", "g1", "other", "g3", "g4"],
        [
            day_log(0, "* two 0"),
            log[1]["text"],
            "* otherwise",
            log[3]["text"],
            day_log(4, "* two 4"),
        ],
    )
    assert placed(log[1], log[4]) == (["g4"], [day_log(4, "* two 4")])
    assert placed(log[1], other, newer) is None


def test_a_changed_group_has_an_id_of_its_own() -> None:
    after = edited("drop 4")
    listed = after.list_changes(cycle_id="c", reflected_at="2026-05-06T00:00:00.000+00:00")
    [changed] = listed.becomes.values()
    assert changed["id"] not in {"g1", "g2"}
    assert (changed["kind"], changed["thread_id"]) == ("reflection", "t")
