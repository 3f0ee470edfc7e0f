"""Logs to edit, and what an answer makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from support.groups import AT, day_log, group
from support.inside import (
    BufferedReflection,
    CheckedEdits,
    EditedLog,
    Group,
    Item,
    check_edits,
    number_items,
    parse_edits,
)
from support.words import Words

TALK: list[Group] = [
    group(
        "g1",
        "Date: May 3, 2026\n"
        "* 🔴 (09:12) User lives in Ghent now (replaces: Lyon)\n"
        "* 🟡 (09:14) User asked for quiet cafés near the station; assistant recommended 2: 1. Brug"
        " (opens 07:00, no music), 2. Opaal (garden)\n"
        "  * -> search `cafés gent`: 14 hits\n"
        "\n"
        "Date: May 4, 2026\n"
        "* ✅ (00:08) `fx/rates.py` line 42 now raises a `ValueError`",
        0,
        3,
    ),
    group(
        "g2",
        "Date: May 5, 2026\n"
        "* 🟢 (10:00) User said hello and thanks\n"
        '* 🔴 (10:10) User will meet Ilse, her "thesis dragon", on Thursday (meaning May 7, 2026)\n'
        "* 🟡 (10:02) User asked for the address of Brug",
        4,
        6,
    ),
]
"""A log of six items: 1 to 3 in the first group, 4 to 6 in the second."""


def numbered(log: Sequence[Group] = TALK) -> list[Item]:
    return number_items(log, Words())


def checked(answer: str, log: Sequence[Group] = TALK) -> CheckedEdits:
    return check_edits(parse_edits(answer), numbered(log), Words())


def edited(answer: str, log: Sequence[Group] = TALK) -> EditedLog:
    """The log after an answer."""
    result = EditedLog(log)
    items = numbered(log)
    result.apply(check_edits(parse_edits(answer), items, Words()), items, Words())
    return result


def as_reflection(log: EditedLog, cycle_id: str = "c") -> BufferedReflection:
    """What becomes of an edited log, until it is put into the log as it is by then."""
    becomes, together = log.list_changes(cycle_id=cycle_id, reflected_at=AT)
    return {
        "cycle_id": cycle_id,
        "group_ids": [*becomes],
        "groups": [*becomes.values()],
        "input_tokens": 0,
        "tokens": log.tokens,
        "created_at": AT,
        "together": together,
    }


def long_log(groups: int, items: int = 8) -> list[Group]:
    """So many groups, a day each, of so many items that differ."""
    return [
        group(
            f"g{day}",
            day_log(
                day % 365,
                *(
                    f"* 🟡 (09:{at:02}) User asked Person{day} about subject {day * items + at} "
                    "and heard that it would take a while until it was done"
                    for at in range(items)
                ),
            ),
            2 * day,
            2 * day + 1,
        )
        for day in range(groups)
    ]
