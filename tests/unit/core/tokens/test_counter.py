from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_om.core.content.message_keys import content_digest
from langgraph_om.core.content.parts import EMPTY_RESULT
from langgraph_om.core.tokens.counter import (
    CONVERSATION_OVERHEAD,
    MessageCounter,
    TokenCounter,
    count_messages,
)
from langgraph_om.core.tokens.counters import TiktokenCounter, TokenxCounter
from langgraph_om.core.tokens.images import FILE_FALLBACK_TOKENS
from langgraph_om.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNTER = TokenxCounter()
FRAME = {"user": 5, "assistant": 6, "tool": 5, "system": 5}
BASE64 = "iVBORw0KGgo" * 20_000
END = "<|end|>"
IMAGE = 85 + 4 * 170  # of unknown size
SMALL_IMAGE = 85  # unreadable, but not long
BYTES = len(BASE64) * 3 // 4


def tiny_encoding() -> tiktoken.Encoding:
    ranks = {bytes([value]): value for value in range(256)}
    for word in (b"he", b"ll", b"hell", b"hello", b" w", b"aa", b"aaaa"):
        ranks[word] = len(ranks)
    return tiktoken.Encoding(
        "tiny",
        pat_str=r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+",
        mergeable_ranks=ranks,
        special_tokens={END: len(ranks)},
    )


TINY = TiktokenCounter(tiny_encoding())
COUNTERS: list[MessageCounter] = [COUNTER, TINY]
each_counter = pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.identity)


# --- Text: the estimate ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \t\r\n\u00a0\u3000\ufeff", 0),
        ("hello", 1),
        ("hello world", 2),
        ("internationalization", 4),
        ("Hello, world!", 4),
        ("1,234.56", 5),
        ("12345678901", 1),
        ("foo_bar(baz);", 6),
        ("===========", 6),
        ("日本語テキスト", 7),
        ("日本語abc", 6),
        ("über größe", 4),
        ("ÜBER GRÖẞE", 4),
        ("naïveté", 3),
        ("https://example.com/a/b?c=1", 14),
        ("🔴 (14:30) User prefers tea", 10),
        ('{"a":1,"b":[1,2,3]}', 13),
        ("abcd", 1),
        ("abcdefg", 2),
        ("a.b", 3),
        ("Привет мир", 2),
        ("😀😀", 1),
        ("😀😀😀😀", 2),  # eight UTF-16 units
        ("日😀😀😀", 4),  # code points beside a CJK letter
        ("łódź", 2),
        ("don't stop", 2),
        ('"quoted text here"', 4),
        ("assistant", 2),
        ("user", 1),
        ('{"q":"cats"}', 5),
        ("search", 1),
        ("ひらがなひらがな", 2),  # hiragana counts as any script, 8 letters
        ("ひらがなの本", 6),
        ("한국어", 3),
        ("a\x1cb", 1),  # no white space to JavaScript
        ("٣٤٥٦٧٨٩", 2),  # no ASCII digits
        ("...", 1),
        ("....", 2),
        ("źdźbłoo", 2),  # 7 letters by 3.5
        ("źdźbłooo", 3),
        ("\ud800abcdef", 2),
    ],
)
def test_estimate_of_a_text(text: str, tokens: int) -> None:
    assert COUNTER.count_text(text) == tokens


PUNCTUATION = re.escape(".,!?;(){}[]<>:/\\|@#$%^&*+=`~_-")
SPACE = "\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
DELIMITER = re.compile(f"([{SPACE}]+|[{PUNCTUATION}]+)")
any_text = st.text(st.characters(exclude_categories=()), max_size=60)
wordy_text = st.text(st.sampled_from("ab1 ,.-é日ね😀\ud800\n"), max_size=80)


@settings(deadline=None, max_examples=200)
@given(any_text | wordy_text)
def test_a_text_counts_the_sum_of_its_segments(text: str) -> None:
    segments = [part for part in DELIMITER.split(text) if part]
    assert COUNTER.count_text(text) == sum(map(COUNTER.count_text, segments))
    assert all(
        COUNTER.count_text(part) >= 1 for part in segments if not re.match(f"[{SPACE}]", part)
    )


@settings(deadline=None, max_examples=10)
@given(wordy_text.filter(bool), st.integers(1, 3))
def test_a_long_text_counts_as_its_parts_do(part: str, size: int) -> None:
    # Longer than what is counted at once; the parts are kept apart by a space.
    repeats = size * 300_000 // (len(part) + 1)
    assert COUNTER.count_text((part + " ") * repeats) == repeats * COUNTER.count_text(part)


@each_counter
@pytest.mark.parametrize(
    "unit",
    ["a", "=", "é", "\ud800", " ", "1.", "hello wörld, ", '{"key": 1},\n'],
    ids=ascii,
)
def test_big_texts_are_counted_in_linear_time(counter: MessageCounter, unit: str) -> None:
    size = 10_000_000 if counter is COUNTER and len(unit) == 1 else 500_000
    tokens = counter.count_text(unit * (size // len(unit)))
    assert (tokens > 0) is (counter is TINY or unit != " ")


@pytest.mark.parametrize("length", [3, 262_143, 262_144, 262_145, 1_000_000])
def test_a_segment_is_never_cut(length: int) -> None:
    assert COUNTER.count_text("." * length) == (1 if length == 3 else -(-length // 2))
    assert COUNTER.count_text("a" * length) == -(-length // 6)


# --- Text: tiktoken ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),
        ("hello hello", 3),
        ("hellow", 2),
        ("aaaaaa", 2),
        ("é", 2),
        (END, 7),
        (f"hello{END}", 8),
        ("hello " * 10_000, 1 + 9_999 * 2 + 1),
    ],
    ids=range(9),
)
def test_tiktoken_counts_its_own_tokens(text: str, tokens: int) -> None:
    assert TINY.count_text(text) == tokens


@settings(deadline=None, max_examples=100)
@given(any_text | st.text(alphabet="<|end> hello\ud83d\ude00"))
def test_tiktoken_counts_any_text(text: str) -> None:
    assert (TINY.count_text(text) > 0) is bool(text)


def test_a_long_run_counts_close_to_the_whole() -> None:
    text = "xaaa" * 50_000
    whole = len(tiny_encoding().encode_ordinary(text))
    assert abs(TINY.count_text(text) - whole) <= len(text) // 1000


@pytest.mark.parametrize("encoding", ["no-such-vocabulary", "", None, 3])
def test_an_unknown_encoding_is_refused(encoding: Any) -> None:
    with pytest.raises(ConfigurationError, match="`encoding`") as caught:
        TiktokenCounter(encoding)
    assert repr(encoding) in str(caught.value)
    assert "o200k_base" in str(caught.value)


def test_a_vocabulary_out_of_reach_is_refused_in_the_constructor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigurationError, match=r"`encoding` 'p50k_edit'.*TIKTOKEN_CACHE_DIR"):
        TiktokenCounter("p50k_edit")


# --- Messages ----------------------------------------------------------------------------------


def call(name: str = "search", args: Any = None, call_id: str | None = "c1") -> dict[str, Any]:
    return {"name": name, "args": {"q": "cats"} if args is None else args, "id": call_id}


def ai(*content: Any, calls: tuple[Any, ...] = (), **fields: Any) -> AIMessage:
    return AIMessage(content=list(content), tool_calls=list(calls), **fields)


TOOL_USE = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "cats"}}
FUNCTION_CALL = {"name": "search", "arguments": '{"q":"cats"}'}
RAW_CALL = {"type": "function_call", "id": "fc", "call_id": "c1", **FUNCTION_CALL}
CALL = 1 + 5  # `search` and `{"q":"cats"}`
EMPTY = COUNTER.count_text(EMPTY_RESULT)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (HumanMessage("hello world"), 7),
        (HumanMessage(["hello", " world"]), 7),
        (HumanMessage([{"type": "text", "text": "hello world"}]), 7),
        (HumanMessage([{"text": "hello world"}]), 7),
        (HumanMessage("hello world", name="a name is not counted"), 7),
        (HumanMessage(""), FRAME["user"]),
        (SystemMessage("hello world"), FRAME["system"] + 2),
        (ChatMessage(content="hello world", role="critic"), FRAME["system"] + 2),
        (RemoveMessage("an-id"), FRAME["system"]),
        (AIMessage(""), 6),
        (AIMessageChunk(content="hello world"), FRAME["assistant"] + 2),
        (ai({"type": "refusal", "refusal": "hello world"}), FRAME["assistant"] + 2),
        # Reasoning
        (ai({"type": "reasoning", "reasoning": "hello world"}), FRAME["assistant"] + 2),
        (ai({"type": "thinking", "thinking": "hello world", "signature": BASE64}), 8),
        (ai({"type": "redacted_thinking", "data": BASE64}), FRAME["assistant"] + 6),
        (ai({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hello"}]}), 7),
        (ai({"type": "reasoning_content", "reasoning_content": {"text": "hello"}}), 7),
        (AIMessage("", additional_kwargs={"reasoning_content": "hello world"}), 8),
        (
            ai(
                {"type": "reasoning", "reasoning": "hello"},
                additional_kwargs={"reasoning_content": "hello"},
            ),
            7,
        ),
        (AIMessage("", additional_kwargs={"reasoning_content": {"not": "a text"}}), 6),
        # Tool calls
        (ai(calls=(call(),)), FRAME["assistant"] + CALL),
        (ai(calls=(call(), call(call_id="c2"))), FRAME["assistant"] + 2 * CALL),
        (ai(calls=(call(call_id=None), call(call_id=None))), FRAME["assistant"] + 2 * CALL),
        (ai(TOOL_USE), FRAME["assistant"] + CALL),
        (ai(TOOL_USE, calls=(call(),)), FRAME["assistant"] + CALL),
        (ai({**TOOL_USE, "input": {}}, calls=(call(),)), FRAME["assistant"] + CALL),
        (ai(TOOL_USE, calls=(call(call_id="c2"),)), FRAME["assistant"] + 2 * CALL),
        (ai(RAW_CALL, calls=(call(),)), FRAME["assistant"] + CALL),
        (ai({"type": "server_tool_call", **call(call_id="s1")}), FRAME["assistant"] + CALL),
        (
            AIMessage(
                "",
                invalid_tool_calls=[
                    {"name": "search", "args": '{"q":"cats"}', "id": "c1", "error": "bad " * 99}
                ],
            ),
            FRAME["assistant"] + CALL,
        ),
        (
            AIMessage("", additional_kwargs={"function_call": FUNCTION_CALL}),
            FRAME["assistant"] + CALL,
        ),
        (
            ai(calls=(call(),), additional_kwargs={"function_call": FUNCTION_CALL}),
            FRAME["assistant"] + CALL,
        ),
        # Tool results
        (ToolMessage("hello big wide world", tool_call_id="c1"), FRAME["tool"] + 4),
        (ToolMessage("hello big wide world " * 50, tool_call_id="c1"), FRAME["tool"] + 200),
        (ToolMessage("one two three four five", tool_call_id="c1", status="error"), 10),
        (ToolMessage("", tool_call_id="c1"), FRAME["tool"] + EMPTY),
        (ToolMessage("  \n", tool_call_id="c1"), FRAME["tool"] + EMPTY),
        (ToolMessage([], tool_call_id="c1", status="error"), FRAME["tool"] + EMPTY),
        (ToolMessage("ok", tool_call_id="c1"), FRAME["tool"] + EMPTY),
        (FunctionMessage(content="hello big wide world", name="search"), FRAME["tool"] + 4),
        (FunctionMessage(content="", name="search"), FRAME["tool"] + EMPTY),
        (
            ToolMessage(["hello big wide world", {"type": "image", "url": "u"}], tool_call_id="c"),
            FRAME["tool"] + 4 + IMAGE,
        ),
        # A result inside a message is one more message: 1 + 3.8 + 3.8 + 4 and 2 + 3.8 + 3.8 + 5.
        (HumanMessage([{"type": "tool_result", "content": "a bb ccc dddd"}]), 13),
        (ai({"type": "server_tool_result", "output": "a b c d e"}), 15),
        (HumanMessage([{"type": "tool_result", "content": ""}]), 13),
        # Attachments
        (HumanMessage([{"type": "image", "base64": BASE64}]), 5 + SMALL_IMAGE),
        (
            HumanMessage([{"type": "image_url", "image_url": {"url": "data:;base64," + BASE64}}]),
            5 + SMALL_IMAGE,
        ),
        (HumanMessage([{"type": "input_image", "image_url": "u"}]), 5 + IMAGE),
        (
            HumanMessage([{"type": "file", "mime_type": "image/png", "base64": BASE64}]),
            5 + SMALL_IMAGE,
        ),
        *(
            (HumanMessage([{"type": kind, "base64": BASE64}]), 5 + FILE_FALLBACK_TOKENS)
            for kind in ("audio", "video")
        ),
        *(
            (HumanMessage([{"type": kind}]), 5 + FILE_FALLBACK_TOKENS)
            for kind in ("audio", "file", "video", "document", "media", "text-plain")
        ),
        *(
            (HumanMessage([{"type": kind, "base64": BASE64}]), 5 + BYTES // 4)
            for kind in ("file", "document", "media", "text-plain")
        ),
        (HumanMessage([{"type": "text-plain", "text": "hello world"}]), 7),
        (
            HumanMessage([{"type": "document", "source": {"type": "text", "data": "hello world"}}]),
            7,
        ),
        (
            HumanMessage(
                [
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [{"type": "image"}, "hello"]},
                    }
                ]
            ),
            6 + IMAGE,
        ),
        (HumanMessage([{"type": "non_standard", "value": {"type": "image"}}]), 5 + IMAGE),
        # What is not known: JSON, and never its binary data
        (
            HumanMessage([{"type": "odd", "n": 1}]),
            FRAME["user"] + COUNTER.count_text('{"type":"odd","n":1}'),
        ),
        (
            ai({"type": "image_generation_call", "result": BASE64}),
            FRAME["assistant"]
            + COUNTER.count_text('{"type":"image_generation_call","result":"[omitted]"}')
            + FILE_FALLBACK_TOKENS,
        ),
        (
            ai({"type": "odd", "encrypted_content": BASE64}),
            FRAME["assistant"]
            + COUNTER.count_text('{"type":"odd","encrypted_content":"[omitted]"}'),
        ),
    ],
)
def test_what_a_message_counts(message: BaseMessage, tokens: int) -> None:
    assert COUNTER.count_message(message) == tokens


@pytest.mark.parametrize(
    "payload",
    [
        BASE64,
        "data:audio/wav;base64,UklGRg==",
        "\n".join(BASE64[start : start + 76] for start in range(0, len(BASE64), 76)),
        "\r\n".join(BASE64[start : start + 76] for start in range(0, len(BASE64), 76)) + "=\r\n",
        BASE64.replace("G", "_") + "==",
        b"\x00\xff" * 50_000,
    ],
    ids=["plain", "data uri", "lines", "crlf lines", "url safe", "bytes"],
)
def test_binary_data_in_an_unknown_block_is_estimated(payload: str | bytes) -> None:
    message = HumanMessage([{"type": "odd", "deep": [{"er": payload}]}])
    assert FILE_FALLBACK_TOKENS < COUNTER.count_message(message) < FILE_FALLBACK_TOKENS + 50


def test_long_plain_text_in_an_unknown_block_is_counted_in_full() -> None:
    message = HumanMessage([{"type": "odd", "text": "some plain words\n" * 10_000}])
    assert COUNTER.count_message(message) > 30_000


@each_counter
def test_no_message_of_a_tool_exchange_counts_nothing(counter: MessageCounter) -> None:
    request = ai(calls=({"name": "f", "args": {}, "id": "c1"},))
    result = ToolMessage("", tool_call_id="c1")
    assert counter.count_message(request) > counter.count_message(ai())
    assert counter.count_message(result) > counter.count_text("tool") + 3


def test_a_conversation_counts_its_frame_once() -> None:
    message = HumanMessage("hello world")
    assert CONVERSATION_OVERHEAD == 24
    assert count_messages(COUNTER, []) == 0
    assert count_messages(COUNTER, [message]) == 31
    assert count_messages(COUNTER, [message, message]) == 38


def test_counters_name_themselves() -> None:
    assert COUNTER.identity == "tokenx/2"
    assert TINY.identity == "tiktoken:tiny/2"
    assert isinstance(COUNTER, TokenCounter)
    assert isinstance(TINY, TokenCounter)
    assert not isinstance(object(), TokenCounter)


class Unprintable:
    def __str__(self) -> str:
        msg = "no text"
        raise RuntimeError(msg)

    __repr__ = __str__


def recursive(make: Callable[[], Any]) -> Any:
    value = make()
    if isinstance(value, list):
        value.append(value)
    else:
        value["value"] = value["content"] = value["input"] = value
    return value


def deep(levels: int) -> Any:
    value: Any = {"type": "non_standard"}
    for _ in range(levels):
        value = {"type": "non_standard", "value": value, "content": [value]}
    return value


def nested_list(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ODD_VALUES: list[Any] = [
    None,
    3,
    float("nan"),
    b"bytes",
    "\ud800",
    object(),
    Unprintable(),
    {1: 2, "a": 3, (4, 5): 6},
    {"type": None},
    {"type": ["text"]},
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "odd", "at": Unprintable()},
    {"type": "tool_use", "id": [], "name": 3, "input": Unprintable()},
    {"type": "tool_use", "id": {}, "input": {1, 2}},
    {"type": "tool_result", "content": {"type": "tool_result"}},
    {"type": "thinking", "thinking": [None, 3, {"text": 4}]},
    {"type": "file", "source": 3, "mime_type": 4},
    recursive(list),
    recursive(lambda: {"type": "odd"}),
    recursive(lambda: {"type": "tool_result"}),
    recursive(lambda: {"type": "tool_use"}),
    recursive(lambda: {"type": "non_standard"}),
    deep(8),
    nested_list(100_000),
]


@each_counter
@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_odd_content_counts_without_raising(counter: MessageCounter, value: Any) -> None:
    messages = [
        HumanMessage.model_construct(content=value),
        ToolMessage.model_construct(content=[value, "text"], tool_call_id=value, status=value),
        AIMessage.model_construct(content=[value], tool_calls=value, invalid_tool_calls=[value]),
        AIMessage.model_construct(content="", tool_calls=[value, {"args": value, "name": value}]),
        AIMessage.model_construct(content="", additional_kwargs=value),
        AIMessage.model_construct(
            content="", additional_kwargs={"function_call": value, "reasoning_content": value}
        ),
        ChatMessage.model_construct(content=value, role=value),
    ]
    for message in messages:
        assert counter.count_message(message) >= 5
        assert re.fullmatch("[0-9a-f]{16}", content_digest(message))


def test_a_recursive_block_counts_as_text() -> None:
    block: dict[str, Any] = {"type": "odd", "text": "hello " * 2_000}
    block["again"] = [block]
    assert 2_000 < COUNTER.count_message(HumanMessage.model_construct(content=[block])) < 2_050


def test_a_message_without_any_field_counts_its_frame() -> None:
    assert COUNTER.count_message(BaseMessage.model_construct()) == FRAME["system"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
BLOCK_TYPES = [
    "text", "reasoning", "thinking", "redacted_thinking", "tool_use", "tool_call",
    "function_call", "server_tool_call", "tool_result", "server_tool_result", "image",
    "image_url", "file", "document", "media", "text-plain", "non_standard", "odd",
]  # fmt: skip
BLOCK_KEYS = [
    "text", "thinking", "summary", "id", "call_id", "name", "args", "input", "arguments",
    "content", "output", "source", "mime_type", "value", "data", "url",
]  # fmt: skip
blocks = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(BLOCK_TYPES),
    st.dictionaries(st.sampled_from(BLOCK_KEYS), json_values, max_size=4),
)
contents = st.lists(blocks | any_text, max_size=4)
tool_calls = st.lists(
    st.builds(
        call,
        st.text(max_size=9),
        st.dictionaries(st.text(max_size=5), json_values, max_size=2),
        st.none() | st.sampled_from(["c1", "c2", "c3"]),
    ),
    max_size=3,
)


@settings(deadline=None, max_examples=80)
@given(contents, tool_calls)
def test_generated_content_never_raises_and_is_never_negative(
    content: list[Any], calls: list[Any]
) -> None:
    assert COUNTER.count_message(AIMessage(content=content, tool_calls=calls)) >= 6
    assert COUNTER.count_message(ToolMessage(content=content, tool_call_id="c1")) >= 9
    assert TINY.count_message(HumanMessage(content=content)) >= 5


@settings(deadline=None, max_examples=80)
@given(contents, tool_calls, blocks | any_text, tool_calls)
def test_what_is_added_never_lowers_a_count(
    content: list[Any], calls: list[Any], block: Any, more_calls: list[Any]
) -> None:
    before = COUNTER.count_message(AIMessage(content=content, tool_calls=calls))
    assert COUNTER.count_message(AIMessage(content=[*content, block], tool_calls=calls)) >= before
    more = AIMessage(content=content, tool_calls=[*calls, *more_calls])
    assert COUNTER.count_message(more) >= before
    result = COUNTER.count_message(ToolMessage(content=content, tool_call_id="c"))
    longer = ToolMessage(content=[*content, block], tool_call_id="c")
    assert COUNTER.count_message(longer) >= result


@settings(deadline=None, max_examples=100)
@given(wordy_text, wordy_text)
def test_more_words_never_lower_a_count(text: str, more: str) -> None:
    for make in (HumanMessage, lambda content: ToolMessage(content, tool_call_id="c")):
        assert COUNTER.count_message(make(f"{text} {more}")) >= COUNTER.count_message(make(text))


# --- Digests -----------------------------------------------------------------------------------

DISTINCT: list[BaseMessage] = [
    HumanMessage("hello"),
    HumanMessage("hello "),
    HumanMessage(""),
    HumanMessage([]),
    HumanMessage(["hello"]),
    HumanMessage([{"type": "text", "text": "hello"}]),
    HumanMessage('["hello"]'),
    HumanMessage("\ud800"),
    HumanMessage("\udc00"),
    AIMessage("hello"),
    SystemMessage("hello"),
    ChatMessage(content="hello", role="critic"),
    ChatMessage(content="hello", role="author"),
    ai("hello", calls=(call(),)),
    AIMessage("hello", tool_calls=[call()]),
    AIMessage("hello", tool_calls=[call(name="find")]),
    AIMessage("hello", tool_calls=[call(args={"q": "dogs"})]),
    AIMessage("hello", tool_calls=[call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(), call(call_id="c2")]),
    AIMessage("hello", tool_calls=[call(call_id="c2"), call()]),
    AIMessage("hello", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": ""}]),
    AIMessage("hello", additional_kwargs={"function_call": FUNCTION_CALL}),
    AIMessage("hello", additional_kwargs={"reasoning_content": "hm"}),
    ToolMessage("hello", tool_call_id="c1"),
    ToolMessage("hello", tool_call_id="c2"),
    ToolMessage("hello", tool_call_id="c1", status="error"),
]


def test_messages_that_read_differently_have_other_digests() -> None:
    digests = [content_digest(message) for message in DISTINCT]
    assert len(set(digests)) == len(DISTINCT)
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


@pytest.mark.parametrize("message", DISTINCT, ids=range(len(DISTINCT)))
def test_id_and_metadata_do_not_change_a_digest(message: BaseMessage) -> None:
    extras = {**message.additional_kwargs, "created_at": "2026-01-01"}
    update = {"id": "other", "response_metadata": {"model": "m"}, "additional_kwargs": extras}
    assert content_digest(message.model_copy(update=update)) == content_digest(message)


def test_usage_and_streaming_do_not_change_a_digest() -> None:
    whole = AIMessage(
        "hello", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    )
    assert content_digest(whole) == content_digest(AIMessageChunk(content="hello"))


def test_digests_do_not_change_between_releases() -> None:
    assert content_digest(HumanMessage("hello")) == "281687396d55dbc3"
    assert content_digest(AIMessage("hello", tool_calls=[call()])) == "3df89b2556bd9c86"


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, (list, tuple)) else value


jsonable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=80)
@given(any_text | st.lists(st.dictionaries(st.text(max_size=5), jsonable, max_size=4), max_size=3))
def test_a_digest_outlives_a_json_round_trip(content: Any) -> None:
    digest = content_digest(HumanMessage(content))
    assert content_digest(HumanMessage(json.loads(json.dumps(content)))) == digest
    assert content_digest(HumanMessage(shuffled(content))) == digest


@settings(deadline=None, max_examples=100)
@given(any_text, any_text)
def test_texts_share_a_digest_only_when_they_are_equal(one: str, other: str) -> None:
    # Equal as JSON reads them: two halves of a surrogate pair are one character.
    equal = json.loads(json.dumps(one)) == json.loads(json.dumps(other))
    assert (content_digest(HumanMessage(one)) == content_digest(HumanMessage(other))) is equal
