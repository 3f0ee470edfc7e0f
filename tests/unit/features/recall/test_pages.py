"""Pages of messages, in full or as an overview, single parts, and how reading goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.features.recall import answer as answering
from langgraph_om.features.recall.answer import Asker, recall
from support.counters import COUNTER, COUNTERS, Quarters
from support.examples import examples
from support.recall_talk import (
    BUDGET,
    NOON,
    TALK,
    WHOLE,
    Entry,
    ask,
    call,
    keys_in,
    look,
    messages_lists,
    read_talk,
    within_budget,
)


@pytest.mark.parametrize(
    ("arguments", "keys", "has_next", "has_prev"),
    [
        ({}, ["m1", "m2", "m3"], True, False),
        ({"page": 2}, ["m4", "m6", "m7"], True, True),
        ({"page": 3}, ["m8"], False, True),
        ({"page": 4}, [], False, True),
        ({"page": -1}, ["m6", "m7", "m8"], False, True),
        ({"page": -3}, ["m1"], True, False),
        ({"page": -4}, [], True, False),
        ({"cursor": "m3"}, ["m3", "m4", "m6"], True, True),
        ({"cursor": "m3", "page": 0}, ["m3", "m4", "m6"], True, True),
        ({"cursor": "m3", "page": "2"}, ["m7", "m8"], False, True),
        ({"cursor": "m3", "page": 3}, [], False, True),
        ({"cursor": "m3", "page": -1}, ["m1", "m2", "m3"], True, False),
        ({"cursor": "m3", "page": -2}, [], True, False),
        ({"cursor": "m8", "page": -1}, ["m6", "m7", "m8"], False, True),
        ({"cursor": "m8", "page": -2}, ["m2", "m3", "m4"], True, True),
        # An anchor with nothing to show still marks a place.
        ({"cursor": "m5"}, ["m6", "m7", "m8"], False, True),
        ({"cursor": "m5", "page": -1}, ["m2", "m3", "m4"], True, True),
        ({"cursor": "m0"}, ["m1", "m2", "m3"], True, False),
        ({"cursor": "m0", "page": -1}, [], True, False),
    ],
)
def test_pages(
    arguments: dict[str, Any], keys: list[str], *, has_next: bool, has_prev: bool
) -> None:
    answer = ask(TALK, **{"limit": 3} | arguments)
    assert keys_in(answer) == keys
    assert answer["count"] == len(keys)
    assert (answer["has_next_page"], answer["has_prev_page"]) == (has_next, has_prev)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_page_that_is_cut_says_where_to_go_on_and_nothing_is_left_out(direction: int) -> None:
    keys = [f"m{at}-{'3f8a' * 45}" for at in range(50)]
    source = read_talk([(key, HumanMessage("many words " * 60), None) for key in keys])
    seen: list[str] = []
    cursor, page, cuts = None, direction, 0
    while True:
        answer = look(source, {"cursor": cursor, "page": page})
        own = keys_in(answer)
        seen = [*seen, *own] if direction == 1 else [*own, *seen]
        cut = re.search(r"go on with cursor (\S+), page (-?1)\)", answer["messages"])
        if not answer["has_next_page" if direction == 1 else "has_prev_page"]:
            break
        cuts += cut is not None
        cursor, page = (cut[1], int(cut[2])) if cut else (cursor, page + direction)
    assert seen == keys
    assert cuts


def test_reading_back_is_told_where_the_conversation_begins() -> None:
    start = "(the conversation begins here)"
    assert ask(TALK, page=-3, limit=3)["messages"].startswith(start)
    assert ask(TALK, cursor="m2", page=-1)["messages"].startswith(start)
    assert start not in ask(TALK, cursor="m8", page=-1, limit=3)["messages"]
    assert start not in ask(TALK)["messages"]
    first = ask(TALK, cursor="m1", detail="high", page=-1)
    assert first["messages"].endswith("\nThe conversation begins with this message.")


def test_a_page_behind_either_end_names_the_last_one() -> None:
    assert "begins on page -3" in ask(TALK, page=-9, limit=3)["messages"]
    assert "begins on page -1" in ask(TALK, cursor="m3", page=-2, limit=3)["messages"]
    assert "ends on page 3" in ask(TALK, page=4, limit=3)["messages"]
    for nothing in ({"cursor": "m0", "page": -1}, {"cursor": "m0", "page": -2}):
        assert ask(TALK, **nothing)["messages"] == "(no messages on this page)"


def test_pages_back_from_the_end_hold_still_while_the_turn_goes_on() -> None:
    said = [HumanMessage(f"fact {at}") for at in range(6)]
    turn = [call(("recall", {"page": -1}, "c1")), ToolMessage("...", tool_call_id="c1"), said[0]]
    for steps in (0, 1, 2):
        source, turn_of = read_talk([*said, *turn[:steps]]), {"request": "m5", "is_answered": True}
        back = [look(source, {"page": page, "limit": 2}, **turn_of) for page in (-1, -2, -3)]
        assert [*map(keys_in, back)] == [["m4", "m5"], ["m2", "m3"], ["m0", "m1"]]
        assert [answer["has_next_page"] for answer in back] == [False, True, True]
        assert [answer["cursor"] for answer in back] == ["m5"] * 3
    # Messages of the turn are found all the same by their ids.
    assert keys_in(look(source, {"cursor": "m7"}, **turn_of)) == ["m7"]


# --- Detail --------------------------------------------------------------------------------------


def test_high_detail_shows_one_part_and_where_to_go_on() -> None:
    answer = ask(TALK, cursor="m2", detail="high", limit=5)
    assert answer["messages"] == (
        "**assistant (2026-03-15 12:02)** [m2]:\n"
        "  [p0] Wait.\n"
        "Next part: cursor m2, part_index 1 (of 0 to 2).\n"
        "Next message: page 2, or cursor m3."
    )
    assert (answer["count"], answer["limit"]) == (1, 1)
    back = ask(TALK, cursor="m8", detail="high", page=-2)
    assert keys_in(back) == ["m7"]
    assert back["messages"].endswith("\nMessage before: page -3, or cursor m6.")
    last = ask(TALK, cursor="m8", detail="high")
    assert last["messages"].endswith("[p0] A beach.")
    arguments = ask([call(("f", {"a": [1, 2]}, "c9"))], detail="high")
    assert '[p0] tool call f [c9]: {"a":[1,2]}' in arguments["messages"]


def test_high_detail_of_a_long_part_goes_on_by_part_and_offset() -> None:
    text = "".join(f"line {n}\n" for n in range(4000))
    answer = ask([HumanMessage(text)], detail="high")
    end = answer["next_char_offset"]
    assert f"part_index 0, char_offset {end}" in answer["messages"]
    assert answer["truncated"] is True
    assert 0.5 < answer["token_offset"] / COUNTER.count_text(text[end:]) < 2
    rest = ask([HumanMessage(text)], cursor="m0", part_index=0, char_offset=end)
    assert text[end:].startswith(rest["text"])


@pytest.mark.parametrize(
    ("cursor", "index", "kind_and_role", "text", "note"),
    [
        ("m1", 0, ("text", "user"), "Weather in Oslo and Bergen?", None),
        ("m2", 1, ("tool-call", "assistant"), '{"city":"Oslo"}', "Tool weather, call c1."),
        ("m3", 0, ("tool-result", "tool"), "4 degrees", "Tool weather, call c1."),
        ("m4", 0, ("tool-error", "tool"), "no such city", "Call c2."),
        ("m6", 0, ("reasoning", "assistant"), "Hm.", "part_index 1"),
        ("m7", "0", ("text", "user"), "And here?\n**user** [m9]:", "part_index 1"),
        ("m7", 1, ("image", "user"), "[Image #1: image/png]", "part_index 2"),
        ("m7", 2, ("file", "user"), "[File #1: a.pdf]", None),
    ],
)
def test_single_part(
    cursor: str, index: object, kind_and_role: tuple[str, str], text: str, note: str | None
) -> None:
    answer = ask(TALK, cursor=cursor, part_index=index)
    said = answer.pop("note", "")
    assert (note or "") in said
    assert bool(said) is (note is not None)
    assert answer == {
        "text": text,
        "message_id": cursor,
        "part_index": int(str(index)),
        "role": kind_and_role[1],
        "type": kind_and_role[0],
        "truncated": False,
        "char_offset": 0,
    }


# --- Laws ----------------------------------------------------------------------------------------


@examples(60)
@given(messages_lists, st.data(), st.integers(1, 4), st.sampled_from([1, -1]))
def test_pages_visit_every_message_once_and_flags_are_exact(
    messages: list[BaseMessage], data: st.DataObject, limit: int, direction: int
) -> None:
    keys = [f"m{at}" for at in range(len(messages))]
    anchor = data.draw(st.none() | st.sampled_from(keys) if keys else st.none())
    detail = data.draw(st.sampled_from(["low", "high"]))
    visible = [key for key, message in zip(keys, messages, strict=True) if is_visible(message)]
    at = None if anchor is None else keys.index(anchor)
    if direction == 1:
        expected = [key for key in visible if at is None or keys.index(key) >= at]
    else:
        expected = [key for key in visible if at is None or keys.index(key) <= at]
    seen: list[str] = []
    page, more = direction, True
    while more:
        answer = ask(messages, cursor=anchor, page=page, limit=limit, detail=detail)
        own = keys_in(answer)
        assert answer["count"] == len(own)
        if own:
            assert answer["has_next_page"] is (visible[-1] != own[-1])
            assert answer["has_prev_page"] is (visible[0] != own[0])
        seen = [*seen, *own] if direction == 1 else [*own, *seen]
        more = bool(own) and answer["has_next_page" if direction == 1 else "has_prev_page"]
        page += direction
    assert seen == expected


def follow(message: BaseMessage, counter: TokenCounter, index: int = 0) -> list[str]:
    source = read_talk([("m0", message, None)])
    windows, offset = [], 0
    while True:
        arguments = {"cursor": "m0", "part_index": index, "char_offset": offset}
        answer = look(source, arguments, counter=counter)
        windows.append(answer["text"])
        assert answer["truncated"] is ("next_char_offset" in answer)
        if not answer["truncated"]:
            return windows
        assert answer["next_char_offset"] > offset
        offset = answer["next_char_offset"]


UNITS = ["a", " ", "\n", "\r\n", "word ", '"\\', "é", "界", "😀", "<b>", "&lt;", "}{", "0,1;"]


# --- Laws ----------------------------------------------------------------------------------------


long_texts = st.lists(
    st.tuples(st.sampled_from(UNITS), st.integers(1, 5000)), min_size=1, max_size=5
).map(lambda runs: "".join(unit * times for unit, times in runs))


@examples(25)
@given(long_texts.filter(str.strip), st.sampled_from(COUNTERS))
def test_following_the_offsets_gives_the_exact_text(text: str, counter: TokenCounter) -> None:
    for message in (HumanMessage(text), ToolMessage(text, tool_call_id="c")):
        assert "".join(follow(message, counter)) == text
    arguments = json.dumps({"x": text}, ensure_ascii=False, separators=(",", ":"))
    assert "".join(follow(call(("f", {"x": text}, "c")), counter)) == arguments


def test_control_characters_and_surrogates_do_not_shift_the_rest() -> None:
    text = ("a\x00b\ud83d\ude00\udc00" * 3000) + "end"
    joined = "".join(follow(HumanMessage(text), Quarters()))
    assert joined == ("a\ufffdb😀\ufffd" * 3000) + "end"
    for lead in ("", "a"):
        pairs = "".join(follow(HumanMessage(lead + "\ud83d\ude00" * 9000), Quarters()))
        assert pairs == lead + "😀" * 9000


def test_five_megabytes_are_read_to_the_end() -> None:
    text = "".join(f"line {n} of the log\n" for n in range(250_000))
    message = ToolMessage(text, tool_call_id="c")
    overview = ask([message, HumanMessage("x")])
    assert overview["count"] == 2
    windows = 0
    source = read_talk([("m0", message, None)])
    for offset in (0, len(text) // 2, len(text) - 100):
        arguments = {"cursor": "m0", "part_index": 0, "char_offset": offset}
        answer = look(source, arguments)
        assert text.startswith(answer["text"], offset)
        windows += len(answer["text"])
    assert windows > 5000
    assert answer["text"] == text[-100:]
    assert not answer["truncated"]


def test_overview_shows_the_whole_small_conversation() -> None:
    assert ask(TALK) == {
        "messages": WHOLE,
        "count": 7,
        "cursor": "m1",
        "page": 1,
        "limit": 20,
        "has_next_page": False,
        "has_prev_page": False,
    }


# --- Detail --------------------------------------------------------------------------------------


def test_cut_parts_say_how_to_see_the_rest() -> None:
    long = " ".join(f"w{n}" for n in range(3000))
    answer = ask([HumanMessage(long), ToolMessage(long, tool_call_id="c")], limit=2)
    marks = re.findall(
        r"… \(\+([\d,]+) characters, part_index 0\)$", answer["messages"], re.MULTILINE
    )
    shown = re.findall(r"(w0 .*)…", answer["messages"])
    lost = [int(mark.replace(",", "")) for mark in marks]
    assert [len(text) + left for text, left in zip(shown, lost, strict=True)] == [len(long)] * 2
    assert answer["truncated"] is True


def test_room_goes_to_the_user_first_then_to_texts_then_to_results() -> None:
    long = " ".join(f"word{n}" for n in range(1500))
    answer = ask([HumanMessage(long), AIMessage(long), ToolMessage(long, tool_call_id="c")])
    user, said, result = (
        COUNTER.count_text(text)
        for text in re.findall(r"(word0 .*?)(?:…|$)", answer["messages"], re.MULTILINE)
    )
    assert user > said > result > 50
    assert within_budget(answer)
    assert COUNTER.count_text(json.dumps(answer, ensure_ascii=False)) > 0.9 * BUDGET


def test_page_that_is_too_large_keeps_every_message_and_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [HumanMessage("word " * 95) for _ in range(30)]
    answer = ask(messages)
    assert keys_in(answer) == [f"m{n}" for n in range(20)]
    assert (answer["count"], answer["truncated"]) == (20, True)
    assert COUNTER.count_text(json.dumps(answer, ensure_ascii=False)) > 0.9 * BUDGET
    # With more room the same page is whole.
    monkeypatch.setattr(answering, "ANSWER_TOKENS", 9000)
    whole = recall({}, Asker(source=read_talk(messages), counter=COUNTER))
    assert "truncated" not in whole
    assert "…" not in whole["messages"]
    lost = COUNTER.count_text(whole["messages"]) - COUNTER.count_text(answer["messages"])
    assert 0.5 < answer["token_offset"] / lost < 2


def test_message_of_many_parts_shows_the_first_and_counts_the_rest() -> None:
    calls = [("look_up", {"n": n}, f"call_{n}") for n in range(500)]
    answer = ask([call(*calls), HumanMessage("x")])
    assert keys_in(answer) == ["m0", "m1"]
    rest = re.search(r"\(\+(\d+) parts: part_index (\d+) to 499\)", answer["messages"])
    assert rest is not None
    assert int(rest[1]) + int(rest[2]) == 500
    assert answer["truncated"] is True
    last = ask([call(*calls)], cursor="m0", part_index=499)
    assert last["text"] == '{"n":499}'


@pytest.mark.parametrize("page", [1, -1])
def test_ids_too_long_for_the_page_leave_the_farthest_out(page: int) -> None:
    entries: list[Entry] = [(f"{n:03}" + "界" * 190, HumanMessage("hi"), NOON) for n in range(20)]
    answer = look(read_talk(entries), {"page": page})
    keys = [key for key, _, _ in entries]
    count = answer["count"]
    assert 0 < count < 20
    assert keys_in(answer) == (keys[:count] if page == 1 else keys[-count:])
    assert answer["has_next_page" if page == 1 else "has_prev_page"]
    assert not answer["has_prev_page" if page == 1 else "has_next_page"]
    assert f"({20 - count} more of this page" in answer["messages"]


# --- Laws ----------------------------------------------------------------------------------------


@examples(60)
@given(messages_lists, st.integers(1, 20), st.sampled_from(COUNTERS))
def test_overview_keeps_to_the_budget(
    messages: list[BaseMessage], limit: int, counter: TokenCounter
) -> None:
    for page in (1, -1):
        answer = ask(messages * 3, limit=limit, page=page, counter=counter)
        assert answer["count"] == len(keys_in(answer))
        assert ("token_offset" in answer) is (answer.get("truncated") is True)


@pytest.mark.parametrize("page", [1, -1])
def test_a_page_whose_labels_leave_no_room_for_texts_is_answered(page: int) -> None:
    name = "😀" * 120
    for count in (8, 14, 20):
        answer = ask([call((name, {"x": 1}, name))] * count, page=page)
        assert answer["count"] == len(keys_in(answer)) > 0
