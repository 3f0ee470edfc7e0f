"""Pages of messages, in full or as an overview, single parts, and how reading goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from support.counters import COUNTER, COUNTERS
from support.examples import examples
from support.inside import TokenCounter, is_visible
from support.recall_talk import (
    BUDGET,
    TALK,
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


# --- Detail --------------------------------------------------------------------------------------


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


# --- Detail --------------------------------------------------------------------------------------


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
