"""An enormous message is shown as its beginning and its end; `recall` reads the rest, exactly."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om import EstimatingCounter, ObservationalMemory
from langgraph_om.features.previews import PreviewRule, preview_message
from langgraph_om.testing import ScriptedChatModel
from support.examples import examples

COUNTER = EstimatingCounter()
RULE = PreviewRule(1000, 2000, COUNTER.count_text)
CALL = re.compile(
    r"\n\[\.\.\. ([\d,]+) characters are left out here\. To read on: "
    r'recall\(cursor=("[^"]*"), part_index=(\d+), char_offset=(\d+)\) \.\.\.\]\n'
)


def rows(count: int, unit: str = "row {}: price {} euro") -> str:
    return "\n".join(unit.format(at, at * 7 % 991) for at in range(count))


def read_on(message: BaseMessage, cursor: str, part: str, offset: str) -> str:
    """What recall shows from there on, page by page, to the end of the part."""
    arguments: dict[str, Any] = {"cursor": json.loads(cursor), "part_index": int(part)}
    said: list[BaseMessage] = [message]
    if isinstance(message, AIMessage) and message.tool_calls:
        said.append(ToolMessage("done", tool_call_id=str(message.tool_calls[0]["id"]), id="r"))
    memory = ObservationalMemory(ScriptedChatModel(lambda _: ""), retrieval=True)
    pages, at = [], int(offset)
    while True:
        answer = memory.recall({"messages": said}, **arguments, char_offset=at)
        pages.append(answer["text"])
        if not answer["truncated"]:
            return "".join(pages)
        at = answer["next_char_offset"]


def check(text: str, shown: str, message: BaseMessage, whole: str | None = None) -> None:
    """Beginning, what the named call reads, and end give the text; `whole`: recall's part."""
    found = CALL.search(shown)
    assert found is not None, shown[:200]
    head, tail = shown[: found.start()], shown[found.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(found[1].replace(",", "")) == len(text) - len(head) - len(tail)
    rest = read_on(message, *found.groups()[1:])
    whole = text if whole is None else whole
    assert whole.endswith(rest)
    assert whole[: len(whole) - len(rest)] == whole[: int(found[4])]
    if whole == text:
        assert head + rest == text


UNITS = ["a", " ", "\n", "word ", '"\\', "é", "界", "😀", "e\u0301", "\u0301", "<b>", "0,1;"]
LONG = st.lists(
    st.tuples(st.sampled_from(UNITS), st.integers(1, 9000)), min_size=1, max_size=4
).map(lambda runs: "".join(unit * times for unit, times in runs))


@examples(25)
@given(LONG.filter(str.strip))
def test_the_call_in_a_preview_reads_exactly_what_is_left_out(text: str) -> None:
    for message in (ToolMessage(text, tool_call_id="c", id="m"), HumanMessage(text, id="m")):
        shown = preview_message(message, "m", RULE)
        limit = 1000 if isinstance(message, ToolMessage) else 2000
        if shown is message:
            assert COUNTER.count_text(text) <= limit
        else:
            check(text, shown.text, message)
            assert COUNTER.count_message(shown) <= limit // 10 * 1.4 + 60
        assert message.text == text


@pytest.mark.parametrize("text", [rows(9000), rows(1, "x" * 900_000), "\u0301" * 70_000])
def test_what_is_shown_is_a_tenth_of_the_limit_whatever_the_length(text: str) -> None:
    message = ToolMessage(text, tool_call_id="c", id="m")
    assert COUNTER.count_message(preview_message(message, "m", RULE)) < 200


def test_blocks_of_a_result_are_cut_as_one_text_and_images_stay() -> None:
    image = {"type": "image", "url": "https://example.org/a.png"}
    texts = [rows(300, f"{at} line {{}} {{}}") for at in range(4)]
    blocks: list[Any] = [{"type": "text", "text": text} for text in texts]
    message = ToolMessage([blocks[0], image, *blocks[1:]], tool_call_id="c", id="m")
    shown = preview_message(message, "m", RULE)
    assert image in shown.content
    found = CALL.search(shown.content[0]["text"])  # type: ignore[index]
    assert found is not None
    head = CALL.split(shown.content[0]["text"])[0]  # type: ignore[index]
    assert texts[0].startswith(head)
    rest = read_on(message, *found.groups()[1:])
    assert rest.startswith(texts[0][len(head) :])
    assert rest.endswith(texts[3])


def test_the_actors_own_answer_is_cut_behind_its_reasoning() -> None:
    text = rows(4000)
    blocks: list[Any] = [
        {"type": "reasoning", "reasoning": "Let me list them."},
        {"type": "text", "text": text[:60_000]},
        {"type": "text", "text": text[60_000:]},
    ]
    message = AIMessage(blocks, id="m", response_metadata={"model_provider": "openai"})
    shown = preview_message(message, "m", RULE)
    assert shown.content[0] == blocks[0]
    check(text, "".join(block["text"] for block in shown.content[1:]), message)  # type: ignore[index]


def test_an_answer_with_bound_reasoning_is_shown_whole() -> None:
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": rows(4000)},
    ]
    message = AIMessage(blocks, id="m", response_metadata={"model_name": "claude-sonnet-5"})
    assert preview_message(message, "m", RULE) is message


def test_long_arguments_are_cut_and_names_and_short_values_stay() -> None:
    text = rows(3000, 'row {} says "{}"')
    arguments = {"path": "/srv/report.md", "content": text, "mode": "w"}
    call = {"name": "write", "args": arguments, "id": "c1", "type": "tool_call"}
    block = {"type": "tool_use", "id": "c1", "name": "write", "input": arguments}
    raw = {"id": "c1", "function": {"name": "write", "arguments": json.dumps(arguments)}}
    message = AIMessage(
        [{"type": "text", "text": "I write it."}, block],
        tool_calls=[call],
        additional_kwargs={"tool_calls": [raw]},
        id="m",
    )
    shown = preview_message(message, "m", RULE)
    assert isinstance(shown, AIMessage)
    args = shown.tool_calls[0]["args"]
    assert (args["path"], args["mode"]) == ("/srv/report.md", "w")
    whole = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    check(text, args["content"], message, whole)
    assert shown.content[1]["input"] == args  # type: ignore[index]
    [other] = shown.additional_kwargs["tool_calls"]
    assert json.loads(other["function"]["arguments"]) == args
    assert message.tool_calls[0]["args"] == arguments


def test_without_recall_a_preview_says_that_the_rest_cannot_be_read() -> None:
    rule = PreviewRule(1000, 2000, COUNTER.count_text, reads_on=False)
    shown = preview_message(HumanMessage(rows(4000), id="m"), "m", rule)
    assert "cannot be read now" in shown.text
    assert "recall(" not in shown.text
