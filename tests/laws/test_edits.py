"""A reflection by edits invents nothing, and what it does not name stays as it is (law 12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from support import groups
from support.editing import as_reflection, long_log, numbered
from support.examples import examples
from support.groups import heading
from support.growth import check_growth
from support.inside import (
    CheckedEdits,
    EditedLog,
    EstimatingCounter,
    Group,
    Item,
    check_edits,
    find_spans,
    number_items,
    parse_edits,
    place_reflection,
    read_head,
)
from support.words import Words

COUNTER = EstimatingCounter()
WORDS = (
    *("user", "lives", "in", "Ghent", "with", "Ilse", "and", "3", "cats;", "paid", "€95.50", "on"),
    *("Mar", "2,", "2026", "`fx/rates.py`", "v2.1", '"thesis', 'dragon"', "two", "«amis»", "#7"),
    *("[photo:", "a", "grey", "dog]", "咖啡", "Straße", "likes", "tea", "because", "10:45"),
)
FOREIGN = (
    *("Brussels", "Will", "4", "1999", "Mar 3", '"never said"', "`rm -rf`", "tomorrow", "June"),
    *("twelve", "<observations>", "🔴", "½", "x@y.z", "</thread>", "Date:", "\n", "Paris\u2028"),
    *("\ufeff", "O'Neil", "İstanbul", "plain", "words"),
)
MARKS = ("🔴 ", "🟡 ", "🟢 ", "✅ ", "")

words = st.sampled_from(WORDS)
phrases = st.lists(words, min_size=1, max_size=8).map(" ".join)
times = st.sampled_from(("(09:12) ", "(9:05) ", "(23:59) ", ""))
items = st.builds(
    lambda bullet, mark, time, text, below: "\n".join(
        [f"{bullet}{mark}{time}{text}", *(f"  * -> {each}" for each in below)]
    ),
    st.sampled_from(("* ", "* ", "* ", "- ", "1. ", "")),
    st.sampled_from(MARKS),
    times,
    phrases,
    st.lists(phrases, max_size=2),
)
lines = st.one_of(items, items, items, st.sampled_from(("", "\n", "```\ncode 12\n```", "   ")))


@st.composite
def logs(draw: st.DrawFn) -> list[Group]:
    """A log of one or two threads, some groups of several days, some without text."""
    log: list[Group] = []
    for at in range(draw(st.integers(2, 5))):
        parts: list[str] = []
        for day in range(draw(st.sampled_from((1, 1, 2, 0)))):
            head = [heading(2 * at + day)] if draw(st.booleans()) else []
            parts.append("\n".join([*head, *draw(st.lists(lines, min_size=1, max_size=3))]))
        text = "\n\n".join(parts)
        log.append(
            groups.group(
                f"g{at}",
                text,
                thread=draw(st.sampled_from("aab")),
                ranges=[[f"m{2 * at}", f"m{2 * at + 1}"]],
                tokens=COUNTER.count_text(text),
            )
        )
    return log


@st.composite
def answers(draw: st.DrawFn, numbered: list[Item]) -> str:
    """An answer with good edits, bad ones, and what is no edit at all."""
    there = st.integers(min(1, len(numbered)), len(numbered))
    numbers = st.one_of(there, there, there, there, st.integers(0, len(numbered) + 2))

    def names() -> str:
        parts = draw(st.lists(numbers, min_size=1, max_size=4))
        return draw(st.sampled_from(("+", ", ", "-"))).join(map(str, parts))

    def own(number: int) -> list[str]:
        if not 1 <= number <= len(numbered):
            return []
        text = numbered[number - 1].text
        return [word for word in text[read_head(text).end :].split() if word not in ("*", "->")]

    def reworded() -> str:
        """Words of one or two items, mostly fewer, at times with one that they lack."""
        named = draw(st.lists(numbers, min_size=1, max_size=2))
        pool = [word for number in named for word in own(number)]
        if draw(st.booleans()):
            pool = pool[: draw(st.integers(1, 8))]
        else:
            pool = [*draw(st.permutations(pool)), draw(st.sampled_from(FOREIGN))]
        text = " ".join(pool)
        return f"{'+'.join(map(str, named))}: * {draw(st.sampled_from(MARKS))}{text}"

    kinds: list[Callable[[], str]] = [
        reworded,
        reworded,
        lambda: f"drop {names()}",
        lambda: f"{names()}: {draw(st.sampled_from(FOREIGN))}",
        lambda: draw(st.text(max_size=40)),
        lambda: "drop 1-999999999",
        lambda: f"{(at := draw(there))}: * {' '.join([*own(at), *own(at)])}",
        lambda: f"{draw(numbers)}: * 🟡 {draw(phrases)}\n  * -> {draw(phrases)}",
    ]
    picked = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8))
    return "\n".join(kind() for kind in picked)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Group], list[Item], str]:
    log = draw(logs())
    numbered = number_items(log, COUNTER)
    return log, numbered, draw(answers(numbered))


def cut(text: str) -> list[str]:
    split = text.split("\n")
    return ["\n".join(split[span.start : span.end]) for span in find_spans(text)]


def filled_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


NUMBER = re.compile(r"\d+")
CAPITALISED = re.compile(r"[^\W_]*[A-ZİÀ-Þ][^\W_]*")
QUOTED = re.compile(r'"([^"]*)"|`([^`]*)`|«([^»]*)»')
ORDINARY = {"user", "assistant", "i"}


def check_nothing_invented(checked: CheckedEdits, numbered: list[Item]) -> None:
    """Read each new text in another way than the package does."""
    for replacement in checked.replacements:
        sources = [numbered[number - 1] for number in replacement.sources]
        given = "\n".join(f"{source.span.heading}\n{source.text}" for source in sources)
        spelled = {"2"} if "two" in given else set()
        assert set(NUMBER.findall(replacement.text)) <= {*NUMBER.findall(given), *spelled}
        known = {word.casefold() for word in re.findall(r"[^\W_]+", given)}
        named = {word.casefold() for word in CAPITALISED.findall(replacement.text)}
        assert named - ORDINARY <= known
        plain = " ".join(given.split())
        for found in QUOTED.finditer(" ".join(replacement.text.split())):
            assert "".join(filter(None, found.groups())).strip(" .,…") in plain
        assert "<observations>" not in replacement.text


def check_the_rest_is_as_it_was(
    log: list[Group], edited: EditedLog, checked: CheckedEdits, numbered: list[Item]
) -> None:
    named = {*checked.dropped, *(at for each in checked.replacements for at in each.sources)}
    for at, (before, after) in enumerate(zip(log, edited.groups, strict=True)):
        own = [item for item in numbered if item.group == at]
        if named.isdisjoint(item.number for item in own):
            assert after is before
            continue
        last = {each.sources[-1]: each.text for each in checked.replacements}
        kept = [
            last.get(item.number, item.text)
            for item in own
            if item.number not in named or item.number in last
        ]
        assert cut(after["text"]) == kept
        assert after["ranges"] == before["ranges"]
        said = "\n".join([before["text"], *last.values()])
        assert Counter(filled_lines(after["text"])) <= Counter(filled_lines(said))


@examples(100)
@given(cases())
def test_a_reflection_by_edits_invents_nothing_and_keeps_the_rest(
    case: tuple[list[Group], list[Item], str],
) -> None:
    log, numbered, answer = case
    edited = EditedLog(log)
    checked = check_edits(parse_edits(answer), numbered, COUNTER)
    edited.apply(checked, numbered, COUNTER)
    event("applied" if checked.replacements else "dropped" if checked.dropped else "nothing")
    check_nothing_invented(checked, numbered)
    check_the_rest_is_as_it_was(log, edited, checked, numbered)
    assert sum(len(group["text"]) for group in edited.groups) <= sum(
        len(group["text"]) for group in log
    )
    assert edited.edited["edits"] == len(checked.dropped) + len(checked.replacements)


@examples(60)
@given(cases(), st.data())
def test_every_range_is_kept_and_newer_groups_are_not_touched(
    case: tuple[list[Group], list[Item], str], data: st.DataObject
) -> None:
    log, numbered, answer = case
    edited = EditedLog(log)
    edited.apply(check_edits(parse_edits(answer), numbered, COUNTER), numbered, COUNTER)
    changes = as_reflection(edited)
    gone = data.draw(st.sets(st.sampled_from([group["id"] for group in log]), max_size=1))
    newer: Group = {**log[0], "id": "newer", "ranges": [["n0", "n1"]], "text": "* newer"}
    now = [*(group for group in log if group["id"] not in gone), newer]
    placed = place_reflection(now, changes)
    if placed is None:
        assert all(not gone.isdisjoint(ids) for ids in changes["together"])
        return
    ids = [group["id"] for group in now]
    start = ids.index(placed.group_ids[0])
    assert ids[start : start + len(placed.group_ids)] == placed.group_ids
    after = [*now[:start], *placed.groups, *now[start + len(placed.group_ids) :]]
    assert after[-1] is newer
    for thread in "ab":
        assert ranges_of(after, thread) == ranges_of(now, thread)
    untouched = [group for group in log if group["id"] not in changes["group_ids"]]
    for group in untouched:
        assert group["id"] in gone or group in after or not group["text"]
    assert len({group["id"] for group in after}) == len(after)


def ranges_of(log: list[Group], thread: str) -> list[list[str]]:
    return [ends for group in log if group["thread_id"] == thread for ends in group["ranges"]]


def answer_all(numbered: list[Item]) -> str:
    return "\n".join(
        f"drop {item.number}" if item.number % 3 else f"{item.number}: User asked about subject"
        for item in numbered
    )


def answer_joins(numbered: list[Item]) -> str:
    return "\n".join(
        f"{item.number}+{item.number + 1}: * 🟡 User asked {item.text.split()[5]} about subject"
        for item in numbered[:-1]
    )


HOSTILE: dict[str, Callable[[list[Item]], str]] = {
    "edits of all": answer_all,
    "joins of all": answer_joins,
    "plus": lambda numbered: "1" + "+1" * 40 * len(numbered) + ": x",
    "quotes": lambda numbered: '1: "' + "a'`«" * 20 * len(numbered),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_reading_and_applying_is_linear(kind: str) -> None:
    def prepare(size: int) -> Callable[[], object]:
        log = long_log(size)
        shown = numbered(log)
        answer = HOSTILE[kind](shown)

        def work() -> None:
            edited = EditedLog(log)
            edited.apply(check_edits(parse_edits(answer), shown, Words()), shown, Words())

        return work

    check_growth(prepare, 250)
