"""What a person pinned or wrote, and what a feature keeps, is changed by nobody else (law 15)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from langgraph_om.core.wire import Group
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock
from support.driving import drive
from support.edits import edited
from support.examples import examples
from support.flows import NOW, conversation, setup, texts
from support.groups import day_log, group
from support.inside import (
    NO_PARTS,
    AskModel,
    Keep,
    MemoryRecord,
    ObservationalMemory,
    fold,
    is_standing,
    keep_protected,
    list_items,
    reflect_cycle,
)
from support.views import SHARED
from support.words import Words

PERSON = ObservationalMemory(ScriptedChatModel(), clock=Clock(), token_counter=Words())
STANDING: Keep = {"by": "user", "how": "standing", "since": "2026-03-01T09:00:00Z"}
WORDS = ("user", "lives", "in", "Ghent", "tea", "3", "cats", "Rex", "because", '"quoted"', "咖啡")

phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
lines = st.builds(
    lambda bullet, mark, text, below: "\n".join([f"{bullet}{mark}{text}", *below]),
    st.sampled_from(("* ", "* ", "- ", "")),
    st.sampled_from(("🔴 ", "🟡 (09:12) ", "🟢 ", "✅ ", "")),
    phrases,
    st.sampled_from(([], [], ["  * -> below"])),
)


@st.composite
def logs(draw: st.DrawFn, *, threads: str = "t") -> list[Group]:
    groups: list[Group] = []
    for at in range(draw(st.integers(1, 4))):
        items = draw(st.lists(lines, min_size=1, max_size=4))
        parts = [day_log(2 * at, *items)]
        if draw(st.booleans()):
            parts.append(day_log(2 * at + 1, *draw(st.lists(lines, min_size=1, max_size=2))))
        thread = draw(st.sampled_from(threads))
        groups.append(group(f"g{at}", "\n\n".join(parts), 2 * at, 2 * at + 1, thread))
        if draw(st.booleans()):
            order = day_log(2 * at, f'* 📌 (09:12) "{draw(phrases)}"')
            own = group(f"o{at}", order, 2 * at, 2 * at + 1, thread)
            groups.append({**own, "ranges": [], "sources": own["ranges"], "keep": STANDING})
    return groups


acts = st.lists(
    st.tuples(
        st.sampled_from(("remember", "pin", "pin", "correct", "forget", "unpin")),
        st.integers(0, 30),
        phrases,
    ),
    max_size=5,
)


def do(record: MemoryRecord, wanted: list[tuple[str, int, str]]) -> MemoryRecord:
    """Do what a person wants, item by item of what is there then."""
    for action, number, words in wanted:
        items = list_items(record["log"])
        if action == "remember":
            record = fold(record, [PERSON.updates.remember(words)])
        elif items:
            item = items[number % len(items)]
            if action == "unpin" and item.group.get("keep", STANDING)["by"] != "person":
                continue
            given_ = (item.id, words) if action == "correct" else (item.id,)
            record = fold(record, [getattr(PERSON.updates, action)(*given_)])
    return record


def protected(log: list[Group]) -> list[Group]:
    return [entry for entry in log if "keep" in entry]


def orders(log: list[Group]) -> list[str]:
    return [entry["text"] for entry in log if is_standing(entry)]


def hostile(draw: Any, call: AskModel) -> str:
    """What a Reflector may say: it drops and rewrites all it can, and says what it was not told."""
    days = "\n".join(day_log(at, f"* 🔴 {draw(phrases)}") for at in range(draw(st.integers(0, 6))))
    return str(
        draw(
            st.sampled_from(
                (
                    "drop 1-999",
                    "1+2+3: * x",
                    "1: * 🔴 y\n2: * 🔴 z\ndrop 3-9",
                    f"<observations>\n{days}\n</observations>",
                    "<observations>\n* gone\n</observations>",
                    texts(call)[1],
                    "",
                )
            )
        )
    )


def ranges(log: list[Group]) -> Counter[tuple[str, str]]:
    return Counter((ends[0], ends[1]) for entry in log for ends in entry["ranges"])


@pytest.mark.parametrize("scope", ["thread", "resource"])
@examples(60)
@given(data=st.data())
def test_no_reflection_changes_what_a_person_pinned_or_wrote(
    scope: Literal["thread", "resource"], data: st.DataObject
) -> None:
    config = replace(setup(), parts=SHARED if scope == "resource" else NO_PARTS)
    record, window = conversation()
    log = data.draw(logs(threads="t" if scope == "thread" else "tu"))
    record = do(edited(record, {"log": log, "scope": scope, "thread_id": "t"}), data.draw(acts))
    before = protected(record["log"])
    asked: list[AskModel] = []

    def answer(call: AskModel) -> str:
        asked.append(call)
        return hostile(data.draw, call)

    run = drive(reflect_cycle(config, record, window, NOW), answer)
    after = fold(record, [run.events])
    event("reflected" if after["generation"] else "failed")
    assert protected(after["log"]) == before
    assert set(ranges(after["log"])) <= set(ranges(record["log"]))
    starts = {first for first, _ in ranges(record["log"])}
    assert min(starts, default="") == min((f for f, _ in ranges(after["log"])), default="")
    for call in asked:  # nor is it asked to
        for entry in before:
            alone = entry["text"].partition("\n")[2]
            others = "\n".join(e["text"] for e in record["log"] if e not in before)
            if len(alone) > 20 and alone not in others:
                assert alone not in texts(call)[1]


@examples(80)
@given(st.data())
def test_whatever_an_event_holds_the_record_keeps_a_persons_items(data: st.DataObject) -> None:
    record, _ = conversation()
    record = do(edited(record, {"log": data.draw(logs())}), data.draw(acts))
    before = protected(record["log"])
    written = [entry for entry in data.draw(logs()) if not is_standing(entry)]
    forged = [{**entry, "text": "* forged"} for entry in before if data.draw(st.booleans())]
    kept = keep_protected(record["log"], [*written, *forged])  # type: ignore[list-item]
    assert protected(kept) == before
    assert keep_protected(record["log"], kept) == kept


@examples(80)
@given(logs(), acts)
def test_all_that_a_person_did_can_be_undone(
    log: list[Group], wanted: list[tuple[str, int, str]]
) -> None:
    record, _ = conversation()
    record = edited(record, {"log": log})
    done = do(record, wanted)
    assert ranges(done["log"]) == ranges(log)
    for _ in done.get("steered", []):
        done = fold(done, [PERSON.updates.undo()])
    assert Counter(i.id for i in list_items(done["log"])) == Counter(i.id for i in list_items(log))
    assert Counter(orders(protected(done["log"]))) == Counter(orders(log))
    assert ranges(done["log"]) == ranges(log)
