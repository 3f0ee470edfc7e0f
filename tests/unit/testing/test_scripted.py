"""The test doubles: what they answer, how they stream, and what the sequence check refuses."""

from __future__ import annotations

import asyncio
import doctest
import functools
import operator
import re
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler, CallbackManager
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_om.core.effects import (
    AskModel,
    CallHook,
    HookReply,
    ReadTally,
    Storage,
    Together,
    Warn,
)
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.testing import (
    ExtractiveObserver,
    ExtractiveReflector,
    ScriptedChatModel,
    check_message_sequence,
    drive,
    extractive_observer,
    extractive_reflector,
    scripted,
    sequence,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable, RunnableConfig

    Model = Runnable[LanguageModelInput, AIMessage]

OBSERVER: RunnableConfig = {
    "run_name": "om_observer",
    "tags": ["nostream", "om_observer"],
    "metadata": {"om_role": "observer", "thread": "t"},
}


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def call(name: str = "search", call_id: str = "call_1", **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name=name, args=args, id=call_id)])


def result(call_id: str = "call_1", content: str = "found") -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id)


def merged(chunks: list[AIMessageChunk]) -> AIMessage:
    message = message_chunk_to_message(functools.reduce(operator.add, chunks))
    assert isinstance(message, AIMessage)
    return message


# --- scripts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "examples"),
    [(scripted, 4), (extractive_observer, 3), (extractive_reflector, 2), (sequence, 4)],
)
def test_docstring_examples_run(module: ModuleType, examples: int) -> None:
    known = {"ScriptedChatModel": ScriptedChatModel}
    outcome = doctest.testmod(module, extraglobs=known)
    assert outcome.failed == 0
    assert outcome.attempted >= examples


def test_replies_come_in_order_and_the_last_one_repeats() -> None:
    model = ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"got {len(messages)}"])
    assert [model.invoke("hi").content for _ in range(4)] == ["one", "two", "got 1", "got 1"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ((), "ok"),
        ("alone", "alone"),
        (AIMessage("alone"), "alone"),
        (lambda _: AIMessage("made"), "made"),
        (["", "later"], ""),
    ],
)
def test_an_actor_script_may_be_empty_or_a_single_reply(script: Any, expected: str) -> None:
    assert ScriptedChatModel(script).invoke("hi").content == expected


@pytest.mark.parametrize("role", ["observer", "reflector"])
def test_memory_roles_without_a_script_say_so_and_the_call_is_recorded(role: str) -> None:
    model = ScriptedChatModel("ok")
    with pytest.raises(AssertionError, match=f"no reply scripted for role '{role}'"):
        model.invoke("hi", {"run_name": f"om_{role}"})
    assert [entry["role"] for entry in model.calls] == [role]


@pytest.mark.parametrize(
    "options",
    [
        {"actor": 5},
        {"actor": ["fine", None]},
        {"observer": [int]},
        {"delay": -1},
        {"delay": "1"},
        {"delay": float("nan")},
        {"observers": ["typo"]},
    ],
)
def test_what_can_not_be_meant_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"`{next(iter(options))}`"):
        ScriptedChatModel(**options)


def test_a_reply_function_that_returns_nonsense_is_refused() -> None:
    broken: Any = lambda _: None  # noqa: E731
    with pytest.raises(ConfigurationError, match="returned None"):
        ScriptedChatModel(broken).invoke("hi")


def test_failures_are_raised_recorded_and_followed_by_the_next_reply() -> None:
    error = RuntimeError("overloaded")
    model = ScriptedChatModel([error, TimeoutError, "back"])
    with pytest.raises(RuntimeError, match="overloaded") as caught:
        model.invoke("a")
    assert caught.value is error
    with pytest.raises(TimeoutError):
        list(model.stream("b"))
    assert model.invoke("c").content == "back"
    assert [entry["messages"][0].content for entry in model.calls] == ["a", "b", "c"]


async def test_failures_are_raised_in_async_too() -> None:
    model = ScriptedChatModel([RuntimeError("a"), ValueError("b"), "back"])
    with pytest.raises(RuntimeError, match="a"):
        await model.ainvoke("hi")
    with pytest.raises(ValueError, match="b"):
        _ = [chunk async for chunk in model.astream("hi")]
    assert (await model.ainvoke("hi")).content == "back"
    assert len(model.calls) == 3


def test_an_answer_is_a_copy_that_can_be_changed_without_changing_the_script() -> None:
    scripted = call(query="cats")
    model = ScriptedChatModel(scripted)
    model.invoke("hi").tool_calls[0]["args"]["query"] = "dogs"
    assert model.invoke("hi").tool_calls[0]["args"] == {"query": "cats"}
    assert scripted.id is None
    assert scripted.usage_metadata is None


def test_an_id_is_given_out_once_so_that_a_repeat_is_appended() -> None:
    model = ScriptedChatModel(AIMessage("same", id="mine"))
    answers = [model.invoke("hi"), model.invoke("hi"), *[merged(list(model.stream("hi")))]]
    assert answers[0].id == "mine"
    assert len({answer.id for answer in answers}) == 3
    assert len(add_messages([], [*answers])) == 3  # type: ignore[arg-type]


def test_answers_without_an_id_get_a_new_one_each() -> None:
    model = ScriptedChatModel("same")
    assert len({model.invoke("hi").id for _ in range(5)} - {None}) == 5


def test_usage_is_made_up_from_characters_unless_scripted() -> None:
    usage = UsageMetadata(input_tokens=7, output_tokens=5, total_tokens=12)
    model = ScriptedChatModel(["x" * 40, AIMessage("", usage_metadata=usage)])
    assert model.invoke("y" * 81).usage_metadata == {
        "input_tokens": 20,
        "output_tokens": 10,
        "total_tokens": 30,
    }
    assert model.invoke("hi").usage_metadata == usage


def test_delay_comes_before_the_answer_and_async_delays_run_together() -> None:
    model = ScriptedChatModel("ok", delay=0.1)
    start = time.perf_counter()
    model.invoke("hi")
    assert time.perf_counter() - start >= 0.1

    told: list[str] = []

    class Listener(AsyncCallbackHandler):
        async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            told.append("start")

        async def on_llm_end(self, *_: Any, **__: Any) -> None:
            told.append("end")

    async def many() -> None:
        config: RunnableConfig = {"callbacks": [Listener()]}
        await asyncio.gather(*(model.ainvoke("hi", config) for _ in range(20)))

    start = time.perf_counter()
    asyncio.run(many())
    assert time.perf_counter() - start >= 0.1
    assert told == ["start"] * 20 + ["end"] * 20


def test_threads_share_one_script_without_losing_or_doubling_a_reply() -> None:
    replies = [str(number) for number in range(200)]
    model = ScriptedChatModel(replies)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: model.invoke("hi").text, range(200)))
    assert sorted(answers, key=int) == replies
    assert len(model.calls) == 200


@pytest.mark.parametrize(
    "copy",
    [
        lambda model: model.bind_tools([search]),
        lambda model: model.bind_tools([search], tool_choice="any").with_config(tags=["x"]),
        lambda model: model.with_config(run_name="agent"),
        lambda model: model.model_copy(),
        lambda model: model.model_copy(deep=True),
        lambda model: model.with_retry(),
    ],
)
def test_copies_share_calls_and_the_place_in_the_script(copy: Callable[..., Model]) -> None:
    model = ScriptedChatModel(["one", "two", "three"])
    model.invoke("a")
    assert copy(model).invoke("b").content == "two"
    assert model.invoke("c").content == "three"
    assert [entry["messages"][0].content for entry in model.calls] == ["a", "b", "c"]


# --- roles -----------------------------------------------------------------------------------


RUN_NAMES: list[tuple[Any, str]] = [
    ({"run_name": "om_observer"}, "observer"),
    ({"run_name": "om_reflector"}, "reflector"),
]
MARKED: list[tuple[Any, str]] = [
    ({}, "actor"),
    ({"run_name": "agent", "tags": ["nostream"], "metadata": {"om_role": "x"}}, "actor"),
    (OBSERVER, "observer"),
    ({"tags": ["x", "om_observer"]}, "observer"),
    ({"metadata": {"om_role": "observer"}}, "observer"),
    ({"tags": ["om_reflector"]}, "reflector"),
    ({"metadata": {"om_role": "reflector"}}, "reflector"),
    ({"callbacks": CallbackManager([], tags=["om_observer"])}, "observer"),
    ({"callbacks": CallbackManager([], metadata={"om_role": "reflector"})}, "reflector"),
]


@pytest.mark.parametrize(("config", "role"), [(None, "actor"), *RUN_NAMES, *MARKED])
async def test_the_role_is_known_through_the_four_doors(config: Any, role: str) -> None:
    model = ScriptedChatModel("actor", "observer", "reflector")
    answers = [
        model.invoke("hi", config).content,
        (await model.ainvoke("hi", config)).content,
        "".join(str(chunk.content) for chunk in model.stream("hi", config)),
        "".join([str(chunk.content) async for chunk in model.astream("hi", config)]),
        model.batch(["hi"], config)[0].content,
    ]
    assert answers == [role] * 5
    assert [entry["role"] for entry in model.calls] == [role] * 5


@pytest.mark.parametrize(("config", "role"), MARKED)
@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
async def test_the_lower_doors_know_the_role_by_tags_and_metadata(config: Any, role: str) -> None:
    model: Any = ScriptedChatModel("actor", "observer", "reflector")
    messages = [HumanMessage("hi")]
    answers = [
        model.generate([messages], **config).generations[0][0].text,
        (await model.agenerate([messages], **config)).generations[0][0].text,
        model.stream_events("hi", config, version="v3").output.text,
    ]
    assert answers == [role] * 3


PROMPT = ChatPromptTemplate([("user", "{text}")])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: PROMPT | model.with_config(OBSERVER),
        lambda model: PROMPT | model.with_config(run_name="om_observer"),
        lambda model: PROMPT | model.bind_tools([search]).with_config(run_name="om_observer"),
        lambda model: PROMPT | model.with_config(run_name="om_observer").bind(stop=["x"]),
        lambda model: PROMPT | model.with_config(tags=["om_observer"]).with_retry(),
        lambda model: (PROMPT | model).with_config(OBSERVER),
    ],
)
async def test_the_role_survives_wrapping(wrap: Callable[..., Runnable[Any, AIMessage]]) -> None:
    model = ScriptedChatModel("actor", "observer")
    wrapped = wrap(model)
    assert wrapped.invoke({"text": "hi"}).content == "observer"
    assert (await wrapped.ainvoke({"text": "hi"})).content == "observer"
    assert "".join(str(part.content) for part in wrapped.stream({"text": "hi"})) == "observer"


# --- streaming -------------------------------------------------------------------------------

USAGE = UsageMetadata(
    input_tokens=3, output_tokens=4, total_tokens=7, input_token_details={"cache_read": 2}
)
MESSAGES = [
    AIMessage("Two  words\n\n and more. ", id="m1"),
    AIMessage("", id="m2"),
    AIMessage("   ", id="m3"),
    AIMessage([], id="m4"),
    AIMessage([{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}, "d"], id="m5"),
    AIMessage(
        "Let me look.",
        id="m6",
        tool_calls=[
            tool_call(name="search", args={"query": "Ünïcode 🐈 " * 9, "deep": {"n": [1]}}, id="1"),
            tool_call(name="search", args={}, id="2"),
        ],
        usage_metadata=USAGE,
        response_metadata={"finish_reason": "tool_calls", "n": 2, "model_name": "m"},
        additional_kwargs={"refusal": None, "count": 3},
    ),
    AIMessage([{"type": "text", "text": "x"}], id="m7", tool_calls=call(a=1).tool_calls),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.id)
async def test_the_sum_of_the_stream_is_the_scripted_message(message: AIMessage) -> None:
    usage = message.usage_metadata or ScriptedChatModel(message).invoke("hi").usage_metadata
    expected = message.model_copy(update={"usage_metadata": usage})
    streams = (
        list(ScriptedChatModel(message).stream("hi")),
        [chunk async for chunk in ScriptedChatModel(message).astream("hi")],
    )
    for chunks in streams:
        assert chunks
        assert merged(chunks) == expected
        assert [chunk.chunk_position for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
        assert chunks[-1].chunk_position == "last"
    assert ScriptedChatModel(message).invoke("hi") == expected


def test_text_streams_word_by_word_and_tool_calls_in_pieces() -> None:
    chunks = list(ScriptedChatModel(MESSAGES[5]).stream("hi"))
    assert [chunk.content for chunk in chunks if chunk.content] == ["Let", " me", " look."]
    assert len(list(ScriptedChatModel("Let me look.").stream("hi"))) == 3
    parts = [part for chunk in chunks for part in chunk.tool_call_chunks]
    assert [part["name"] for part in parts if part["name"]] == ["search", "search"]
    assert len([part for part in parts if part["index"] == 0]) > 3
    assert {part["args"] for part in parts if part["index"] == 1} == {"", "{}"}


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()))
@settings(deadline=None, max_examples=25)
def test_streaming_loses_nothing(text: str, args: dict[str, Any]) -> None:
    message = AIMessage(text, id="m", tool_calls=[tool_call(name="search", args=args, id="c")])
    answer = merged(list(ScriptedChatModel(message).stream("hi")))
    assert (answer.content, answer.tool_calls) == (text, message.tool_calls)


def test_ten_megabytes_stream_in_a_bounded_number_of_chunks() -> None:
    text = "word and space " * 700_000 + " " * 100_000
    chunks = list(ScriptedChatModel(text).stream("hi"))
    assert len(chunks) <= 1_000
    assert "".join(str(chunk.content) for chunk in chunks) == text


def test_streaming_can_be_switched_off() -> None:
    chunks = list(ScriptedChatModel("two words", disable_streaming=True).stream("hi"))
    assert [chunk.content for chunk in chunks] == ["two words"]


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def test_an_agent_graph_streams_its_tool_calls_and_ends() -> None:
    model = ScriptedChatModel([call(query="cats"), "Cats are fine."])
    agent = model.bind_tools([search])

    async def ask(state: State) -> dict[str, list[AIMessage]]:
        return {"messages": [await agent.ainvoke(state["messages"])]}

    builder = StateGraph(State)
    builder.add_node("agent", ask)
    builder.add_node("tools", ToolNode([search]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    graph = builder.compile()

    state: State = {"messages": [HumanMessage("cats?")]}
    streamed = [part async for part, _ in graph.astream(state, stream_mode="messages")]
    chunks = [part for part in streamed if isinstance(part, AIMessageChunk)]
    first = [chunk for chunk in chunks if chunk.id == chunks[0].id]
    assert merged(first).tool_calls == call(query="cats").tool_calls
    assert "".join(str(chunk.content) for chunk in chunks) == "Cats are fine."
    assert [part.content for part in streamed if isinstance(part, ToolMessage)] == ["found cats"]
    assert [message.type for message in model.calls[1]["messages"]] == ["human", "ai", "tool"]


def test_it_works_as_the_model_of_create_agent() -> None:
    agents = pytest.importorskip("langchain.agents")
    model = ScriptedChatModel([call(query="cats"), "done"])
    state = agents.create_agent(model, tools=[search]).invoke({"messages": [HumanMessage("hi")]})
    assert [message.content for message in state["messages"]] == ["hi", "", "found cats", "done"]


# --- the extractive Observer -----------------------------------------------------------------

CONVERSATION = """\
Remember what matters.
<conversation>
Date: Dec 4, 2025
User Caroline (14:30): Hi there! I adopted a dog called Rex on Sunday, and he is already the \
king of the house.
  User: this line belongs to the message above.
Assistant (14:31): Congratulations! That sounds lovely, tell me more about him whenever you like.
Assistant (14:31) reasoning: secret thought about 42
Tool call search (14:31) [call_1]: {"query": "dog food"}
Tool result search (14:32) [call_1]: a very long result of 900 words
Tool error search (14:32) [call_1]: rate limit reached
Date: unknown
User: Thanks!
User: What should he eat in the first 3 weeks </observations> please?
Assistant: Feed him 3 times a day: small portions of puppy food, and always fresh water.
</conversation>
"""


def observed(text: str, **options: Any) -> str:
    return ExtractiveObserver(**options).reply([SystemMessage("Observe."), HumanMessage(text)])


QUESTION = "What should he eat in the first 3 weeks ‹/observations> please?"


def test_the_observer_quotes_what_was_said() -> None:
    assert observed(CONVERSATION, words=14).split("\n") == [
        "<observations>",
        "Date: Dec 4, 2025",
        "* 🔴 (14:30) Caroline: I adopted a dog called Rex on Sunday, and he is already the king…",
        '  * -> called search {"query": "dog food"}',
        "  * -> search failed: rate limit reached",
        "Date: unknown",
        f"* 🟡 User: {QUESTION}",
        "* 🟢 Assistant: Feed him 3 times a day: small portions of puppy food, and always fresh…",
        "</observations>",
        f"<current-task>The user's newest message: {QUESTION}</current-task>",
        "<suggested-response>Answer: What should he eat in the…</suggested-response>",
    ]


def test_a_quoted_tag_does_not_close_the_answer() -> None:
    text = "<conversation>\nUser: I </observations> <b>said</b> 1 < 2 a b c d e f g h i j k l m\n"
    answer = observed(text + "</conversation>")
    assert answer.count("</observations>") == 1
    assert "I ‹/observations> ‹b>said‹/b> 1 < 2" in answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no conversation here",
        "<conversation>\n</conversation>",
        "<conversation>\nDate: Dec 4, 2025\nsome line\n</conversation>",
        "<conversation>\nUser: Hi!\nUser: Thanks a lot!\n</conversation>",
        "<conversation> never closed\nUser: I am 5 years old",
        "</conversation> User: I am 5 years old <conversation>",
    ],
)
def test_nothing_to_observe_is_said_in_the_form(text: str) -> None:
    assert observed(text) == "<observations>(none)</observations>"


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("Tool result search (09:00) [c]: 42 hits", "* 🟢 (09:00) Tool result search: 42 hits"),
        ("Tool call search: {}", "* 🟢 called search {}"),
        ("Assistant: your table is reserved", "* 🟢 Assistant: your table is reserved"),
        ("Assistant Bo (9:04): it has 3 rooms", "* 🟢 (9:04) Bo: it has 3 rooms"),
        ("User Ann (admin) (9:05): I won", "* 🔴 (9:05) Ann (admin): I won"),
        ("User: [Image #1: cat.png]", "* 🔴 User: [Image #1: cat.png]"),
        ("User: 私は猫が好きです。", "* 🔴 User: 私は猫が好きです。"),
        ("User: Hey. ok. go on with chapter two", "* 🔴 User: go on with chapter two"),
        ("User: nice weather. My cat is 4.", "* 🔴 User: My cat is 4."),
        ("User: My cat is 4. Do you like cats too?", "* 🔴 User: My cat is 4."),
        ("User: Oh well. Which cat is the oldest?", "* 🟡 User: Which cat is the oldest?"),
        ("User: Dr. Moss saw him. All good.", "* 🔴 User: Dr. Moss saw him."),
        ("User: No milk in the house since Monday", "* 🔴 User: No milk in the house since Monday"),
    ],
)
def test_single_lines(line: str, item: str) -> None:
    assert observed(f"<conversation>\n{line}\n</conversation>").split("\n")[1] == item


@pytest.mark.parametrize(
    ("said", "quote"),
    [
        ("Hey Ann! So nice to see you. We came home from the lake.", "We came home from the lake."),
        ("Yeah Ann, I applied for the job at Orion.", "I applied for the job at Orion."),
        ("Wow, thanks! That sounds great, Ann. Rex has 2 sisters.", "Rex has 2 sisters."),
        ("Oh, hello there Ann, how lovely. Ann, the parcel arrived.", "Ann, the parcel arrived."),
        (
            "It was fun. We hiked 12 km around Lake Como. So good!",
            "We hiked 12 km around Lake Como.",
        ),
        ("- one thing\n  - the invoice of March is unpaid", "the invoice of March is unpaid"),
    ],
)
def test_the_sentence_that_tells_most_is_quoted_without_its_greeting(said: str, quote: str) -> None:
    answer = observed(f"<conversation>\nUser John (9:00): {said}\n</conversation>")
    assert answer.split("\n")[1] == f"* 🔴 (9:00) John: {quote}"


@pytest.mark.parametrize(
    "said",
    [
        "Hey Maria!",
        "Wow",
        "Yeah, thanks Ann!",
        "Thank you so much, Ann. Take care!",
        "Good to see you. How are you?",
        "That sounds great!",
        "ok",
        "...",
    ],
)
def test_small_talk_gives_no_item(said: str) -> None:
    lines = f"User John (9:00): {said}\nUser John (9:01): I sold the boat"
    answer = observed(f"<conversation>\n{lines}\n</conversation>")
    assert re.findall(r"^\* .*", answer, re.MULTILINE) == ["* 🔴 (9:01) John: I sold the boat"]


def test_the_last_conversation_counts_and_text_blocks_are_joined() -> None:
    blocks: list[str | dict[str, Any]] = [
        {"type": "text", "text": "<conversation>\nUser: I sold the boat\n</conversation>"},
        {"type": "image", "url": "https://example.com/cat.png"},
        {"type": "text", "text": "<conversation>\nUser: I bought a car"},
        "</conversation>",
    ]
    answer = ExtractiveObserver().reply([HumanMessage(blocks), HumanMessage("Keep to the form.")])
    assert "I bought a car" in answer
    assert "boat" not in answer


def test_a_title_is_given_when_asked_for() -> None:
    assert "<thread-title>" not in observed(CONVERSATION)
    answer = observed("Also write <thread-title>.\n" + CONVERSATION)
    assert answer.endswith("<thread-title>I adopted a dog called</thread-title>")


def test_every_third_plain_assistant_message_is_kept() -> None:
    lines = "\n".join(f"Assistant: calm remarks of {letter} sort" for letter in "abcdefg")
    text = f"<conversation>\n{lines}\n</conversation>"
    assert re.findall(r"remarks of (\w)", observed(text)) == ["c", "f"]
    assert re.findall(r"remarks of (\w)", observed(text, every=1)) == list("abcdefg")


def test_a_conversation_shrinks_to_less_than_a_third_and_keeps_what_tells_most() -> None:
    sentence = "I went to Lisbon with Ana and we ate grilled fish near the old harbour every night"
    reply = "That sounds like a wonderful trip, the harbour must have been beautiful at night"
    lines = [f"User (10:{m:02}): {sentence}.\nAssistant (10:{m:02}): {reply}." for m in range(60)]
    lines[20] = "User (10:20): The tickets for 14 June cost 230 euros at Rossio station."
    text = "<conversation>\nDate: Dec 4, 2025\n" + "\n".join(lines) + "\n</conversation>"
    answer = observed(text)
    assert 0.2 < len(answer) / len(text) < 0.3
    assert "(10:20) User: The tickets for 14 June cost 230 euros at Rossio station." in answer


LINES = st.lists(
    st.builds(
        "{}: {}".format,
        st.sampled_from(["User", "User Bo (12:00)", "Assistant (12:01)", "Tool call x [1]"]),
        st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=80),
    ),
    max_size=8,
)


@given(LINES)
@settings(deadline=None, max_examples=60)
def test_an_answer_always_has_the_form(lines: list[str]) -> None:
    answer = observed("<conversation>\n" + "\n".join(lines) + "\n</conversation>")
    assert answer == observed("<conversation>\n" + "\n".join(lines) + "\n</conversation>")
    body = answer.removeprefix("<observations>").partition("</observations>")[0]
    assert body == "(none)" or all(
        line.startswith(("* 🔴 ", "* 🟡 ", "* 🟢 ", "  * -> "))
        for line in body.strip("\n").split("\n")
    )


async def test_the_models_answer_through_every_door_with_usage_and_calls() -> None:
    models = (
        (ExtractiveObserver(), "observer", CONVERSATION),
        (ExtractiveReflector(), "reflector", LOG),
    )
    for model, role, text in models:
        expected = model.reply([HumanMessage(text)])
        answer = model.invoke(text)
        assert answer.content == expected
        assert (await model.ainvoke(text)).content == expected
        assert "".join(str(chunk.content) for chunk in model.stream(text)) == expected
        assert "".join([str(chunk.content) async for chunk in model.astream(text)]) == expected
        assert answer.usage_metadata is not None
        assert answer.usage_metadata["input_tokens"] == len(text) // 4
        assert [entry["role"] for entry in model.calls] == [role] * 4


def test_one_scripted_model_plays_every_role() -> None:
    model = ScriptedChatModel(
        "Nice!", observer=ExtractiveObserver().reply, reflector=[ExtractiveReflector().reply]
    )
    assert model.invoke("hi").content == "Nice!"
    assert "Rex" in model.invoke(CONVERSATION, {"run_name": "om_observer"}).text
    assert "Rex" in model.invoke(LOG, {"run_name": "om_reflector"}).text


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: ExtractiveObserver(words=0), "words"),
        (lambda: ExtractiveObserver(every=True), "every"),
        (lambda: ExtractiveReflector(ratio=1.0), "ratio"),
        (lambda: ExtractiveReflector(ratio=0), "ratio"),
        (lambda: ExtractiveReflector(level=2), "level"),
    ],
)
def test_options_of_the_extractive_models_are_checked(
    make: Callable[[], object], option: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"`{option}`"):
        make()


# --- the extractive Reflector ----------------------------------------------------------------

LOG = """\
<observation-log>
Date: Dec 3, 2025
* 🔴 (09:10) User: I adopted a dog called Rex and he already owns the whole sofa at home
  * -> called search {"query": "dog food"}
* 🟢 (09:11) Assistant: suggested three brands of puppy food and a long list of trainers
Date: Dec 4, 2025
* 🟡 (14:30) User: asked what the vet costs
* ✅ (14:40) User: the vet appointment is booked for Monday morning
* 🟢 (14:41) Assistant: wished them well and explained the way to the surgery in detail
</observation-log>
"""


def reflected(log: str, **options: Any) -> str:
    text = f"<observation-log>\n{log}\n</observation-log>"
    answer = ExtractiveReflector(**options).reply([SystemMessage("x"), HumanMessage(text)])
    return answer.removeprefix("<observations>\n").removesuffix("\n</observations>")


def test_the_reflector_keeps_dates_and_what_weighs_most() -> None:
    assert ExtractiveReflector(ratio=0.6).reply([HumanMessage(LOG)]).split("\n") == [
        "<observations>",
        "Date: Dec 3, 2025",
        "* 🔴 (09:10) User: I adopted a dog called Rex and he already owns the whole sofa at home",
        "Date: Dec 4, 2025",
        "* 🟡 (14:30) User: asked what the vet costs",
        "* ✅ (14:40) User: the vet appointment is booked for Monday morning",
        "</observations>",
    ]


@pytest.mark.parametrize("text", ["", "no log", "<observation-log>\n\n</observation-log>"])
def test_nothing_to_reflect_is_said_in_the_form(text: str) -> None:
    answer = ExtractiveReflector().reply([HumanMessage(text)])
    assert answer == "<observations>(none)</observations>"


def test_older_days_give_more() -> None:
    item = "* 🔴 " + " ".join(f"w{n}" for n in range(40))
    log = "\n".join(f"Date: Dec {day}, 2025\n{item}" for day in range(1, 6))
    words = [len(line.split()) for line in reflected(log).split("\n") if line.startswith("*")]
    assert len(words) == 5
    assert words == sorted(words)
    assert words[0] < words[-1]


def test_light_items_fill_the_room_newest_first() -> None:
    log = "\n".join(["* 🔴 keep", *(f"* 🟡 question number {n}" for n in range(10))])
    kept = reflected(log).split("\n")
    assert kept[0] == "* 🔴 keep"
    assert kept[1:] == [f"* 🟡 question number {n}" for n in range(6, 10)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("* 🟢 (10:00) a\n* 🟢 (10:01) b", "* 🟢 (10:01)"),
        ("* 🔴 tea", "* tea"),
        ("* tea", "tea"),
        ("free prose without any list, long enough to lose some words of it", "* free prose"),
        ("Date: Dec 4, 2025\n* 🔴 (14:30) User likes tea", "* 🔴 (14:30) User likes tea"),
    ],
)
def test_a_tiny_log_still_shrinks_and_is_never_empty(log: str, expected: str) -> None:
    text = reflected(log)
    assert 0 < len(text) < len(log)
    assert text.startswith(expected) or expected.startswith(text)


ITEMS = st.lists(
    st.one_of(
        st.sampled_from([f"Date: Dec {day}, 2025" for day in range(1, 5)]),
        st.builds(
            "{}{}{}".format,
            st.sampled_from(["* 🔴 ", "* 🟡 ", "* 🟢 (10:00) ", "* ✅ (11:11) ", "  * -> ", "- "]),
            st.sampled_from(["", "User: "]),
            st.text(st.characters(categories=["L", "Nd", "Zs"]), min_size=2, max_size=120),
        ),
    ),
    max_size=30,
)


@given(ITEMS, st.sampled_from([0.2, 0.5, 0.9]))
@settings(deadline=None, max_examples=100)
def test_a_reflection_is_smaller_never_empty_and_can_be_repeated(
    lines: list[str], ratio: float
) -> None:
    log = "\n".join(lines).strip()
    if "* " not in log and "- " not in log:
        return
    for _ in range(4):
        text = reflected(log, ratio=ratio)
        if text == "<observations>(none)</observations>":
            assert not re.search(r"^[*-] .*\w", log.replace("User:", ""), re.MULTILINE)
            return
        assert text == reflected(log, ratio=ratio)
        assert text
        assert len(text) < len(log) or len(log) == 1
        log = text


@given(st.lists(st.sampled_from("🔴🟡🟢✅"), min_size=4, max_size=40))
@settings(deadline=None, max_examples=40)
def test_weighty_items_all_stay_while_shortening_is_enough(marks: list[str]) -> None:
    log = "\n".join(f"* {mark} ({n:02}:00) " + "word " * 20 for n, mark in enumerate(marks))
    weighty = [f"({n:02}:00)" for n, mark in enumerate(marks) if mark in "🔴✅"]
    text = reflected(log)
    assert [stamp for stamp in weighty if stamp not in text] == []
    assert len(text) <= len(log) / 2


def test_a_log_that_is_reflected_again_and_again_does_not_grow() -> None:
    log = ""
    for day in range(1, 29):
        items = [f"* 🔴 (10:{m:02}) User: fact {m} " + "about things " * 6 for m in range(10)]
        log = reflected("\n".join([log, f"Date: Dec {day}, 2025", *items]).strip())
    assert len(log) < 5_000
    assert "Date: Dec 28, 2025" in log


# --- check_message_sequence ------------------------------------------------------------------

SYSTEM, USER, AI = SystemMessage("s"), HumanMessage("u"), AIMessage("a")
TWO = AIMessage(
    "",
    tool_calls=[
        tool_call(name="search", args={}, id="call_1"),
        tool_call(name="search", args={}, id="call_2"),
    ],
)
TWINS = AIMessage("", tool_calls=[*call().tool_calls, *call().tool_calls])
UNREADABLE = AIMessage(
    "x",
    invalid_tool_calls=[
        {"type": "invalid_tool_call", "name": "search", "args": "{", "id": "call_1", "error": None}
    ],
)
ALL = ("openai", "anthropic", "gemini")


@pytest.mark.parametrize(
    ("messages", "refused_by"),
    [
        ([USER], {}),
        ([SYSTEM, USER], {}),
        ([SYSTEM, SYSTEM, USER, AI, USER], {}),
        ([USER, USER, AI, USER], {}),
        ([USER, call(), result()], {}),
        ([USER, TWO, result("call_2"), result("call_1"), AI, USER], {}),
        ([USER, call(), result(), call(), result()], {}),
        ([ChatMessage(content="hi", role="user")], {}),
        ([], dict.fromkeys(ALL, "no message")),
        ([SYSTEM], dict.fromkeys(ALL, "no message besides")),
        ([USER, SYSTEM, USER], dict.fromkeys(ALL, "messages[1]: a system message after")),
        ([USER, RemoveMessage(id="x")], dict.fromkeys(ALL, "messages[1]: a message of type")),
        ([USER, result()], dict.fromkeys(ALL, "messages[1]: a result for 'call_1' that follows")),
        ([USER, AI, result()], dict.fromkeys(ALL, "messages[2]: a result for 'call_1' that")),
        ([USER, call(), result("x"), result()], dict.fromkeys(ALL, "messages[2]: a result for")),
        ([USER, call(), result(), result()], dict.fromkeys(ALL, "messages[3]: a second result")),
        ([USER, call()], dict.fromkeys(ALL, "messages[1]: the call 'call_1'")),
        ([USER, call(), USER], dict.fromkeys(ALL, "messages[1]: the call 'call_1'")),
        ([USER, TWO, result()], dict.fromkeys(ALL, "messages[1]: the call 'call_2'")),
        ([USER, call(), USER, result()], dict.fromkeys(ALL, "messages[3]: a result for")),
        ([USER, TWINS, result()], dict.fromkeys(ALL, "messages[1]: two tool calls")),
        ([AI, USER], dict.fromkeys(ALL[1:], "messages[0]: the first message is not")),
        ([SYSTEM, AI, USER], dict.fromkeys(ALL[1:], "messages[1]: the first message is not")),
        ([USER, AIMessage(""), USER], {"anthropic": "messages[1]: empty text"}),
        ([USER, AIMessage([]), USER], {"anthropic": "messages[1]: empty text"}),
        (
            [USER, AIMessage([{"type": "text", "text": " "}]), USER],
            {"anthropic": "messages[1]: empty text"},
        ),
        ([HumanMessage("")], {"anthropic": "messages[0]: empty text in user"}),
        ([HumanMessage([{"type": "image", "url": "https://x.org/y.png"}])], {}),
        ([USER, AIMessage("")], {"gemini": "messages[1]: the last message"}),
        ([USER, AI], {"gemini": "messages[1]: the last message"}),
        ([USER, AI, call(), result()], {"gemini": "messages[2]: function calls after assistant"}),
        ([USER, UNREADABLE, USER], {"openai": "messages[1]: the call 'call_1'"}),
        ([USER, UNREADABLE, result(), USER], dict.fromkeys(ALL[1:], "messages[2]: a result")),
    ],
)
@pytest.mark.parametrize("provider", ALL)
def test_what_a_provider_refuses(
    messages: list[BaseMessage], refused_by: dict[str, str], provider: Any
) -> None:
    problems = check_message_sequence(messages, provider)
    expected = refused_by.get(provider)
    assert bool(problems) == bool(expected)
    assert (
        expected is None
        or any(problem.startswith(expected) for problem in problems)
        or (expected in problems[0])
    )


def test_each_problem_is_named_once() -> None:
    messages = [USER, TWO, result("call_1"), USER]
    assert check_message_sequence(messages, "openai") == [
        "messages[1]: the call 'call_2' of `search` has no result"
    ]


def test_an_unknown_provider_is_named() -> None:
    unknown: Any = "mistral"
    with pytest.raises(ConfigurationError, match="'mistral'"):
        check_message_sequence([USER], unknown)


TURNS = st.lists(
    st.sampled_from([[USER], [USER, AI], [USER, call(), result()], [USER, call(), result(), AI]]),
    max_size=8,
)


@given(TURNS, st.sampled_from(ALL))
@settings(deadline=None, max_examples=60)
def test_whole_turns_that_end_with_the_user_are_valid_everywhere(
    turns: list[list[BaseMessage]], provider: Any
) -> None:
    messages = [SYSTEM, *(message for turn in turns for message in turn), USER]
    assert check_message_sequence(messages, provider) == []


# --- Flows ---------------------------------------------------------------------------------------


def asking() -> Any:
    """A flow that asks, calls, stores and warns, and says when it begins and ends."""
    yield {"type": "begun"}
    reply = yield AskModel("observer", [])
    changed = yield CallHook("after_observation", (reply.text, {}))
    kept = yield Storage("keep", (changed.value,))
    yield Warn("kept %r", (kept.value,))
    tally = yield ReadTally()
    yield {"type": "ended", "calls": tally.calls}
    return reply.error, changed.error, kept.error


def test_a_flow_is_run_from_replies_in_order() -> None:
    run = drive(asking(), ["said", "changed", ArchiveError("full")])
    assert run.events == [{"type": "begun"}, {"type": "ended", "calls": 1}]
    kinds = [type(effect).__name__ for effect in run.effects]
    assert kinds == ["AskModel", "CallHook", "Storage", "Warn"]
    assert run.effects[1].arguments == ("said", {})
    assert run.effects[2].arguments == ("changed",)
    assert [type(error) for error in run.result] == [type(None), type(None), ArchiveError]


def test_a_flow_is_answered_by_a_function_of_what_it_asks() -> None:
    replies = {AskModel: ValueError("busy"), CallHook: HookReply(is_late=True), Storage: 3}
    run = drive(asking(), lambda effect: replies[type(effect)])
    assert str(run.result[0]) == "busy"


def test_flows_side_by_side_are_run_in_turn_and_counted_together() -> None:
    def part(name: str) -> Any:
        reply = yield AskModel("observer", [])
        tally = yield ReadTally()
        return name, reply.text, tally.calls

    def flow() -> Any:
        parts = yield Together([part("a"), part("b")])
        tally = yield ReadTally()
        return parts, tally.calls

    parts, calls = drive(flow(), ["one", "two"]).result
    assert parts == [("a", "one", 1), ("b", "two", 1)]
    assert calls == 2


def test_a_flow_that_asks_for_more_than_is_scripted_says_so() -> None:
    with pytest.raises(AssertionError, match="no reply is scripted for CallHook"):
        drive(asking(), ["said"])


def test_events_of_a_flow_that_raises_are_noted() -> None:
    def flow() -> Any:
        yield {"type": "begun"}
        msg = "full"
        raise ArchiveError(msg)

    events: list[dict[str, Any]] = []
    with pytest.raises(ArchiveError):
        drive(flow(), events=events)
    assert events == [{"type": "begun"}]
