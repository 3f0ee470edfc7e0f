"""The offline Observer and Reflector quote what they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector
from support.examples import examples

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


def observed(text: str) -> str:
    return ExtractiveObserver().reply([SystemMessage("Observe."), HumanMessage(text)])


REX = "I adopted a dog called Rex on Sunday, and he is already the king of the…"
FOOD = "Feed him 3 times a day: small portions of puppy food, and always fresh water."
QUESTION = "What should he eat in the first 3 weeks ‹/observations> please?"


def test_the_observer_quotes_what_was_said() -> None:
    assert observed(CONVERSATION).split("\n") == [
        "<observations>",
        "Date: Dec 4, 2025",
        f"* 🔴 (14:30) Caroline: {REX}",
        '  * -> called search {"query": "dog food"}',
        "  * -> search failed: rate limit reached",
        "Date: unknown",
        f"* 🟡 User: {QUESTION}",
        f"* 🟢 Assistant: {FOOD}",
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


def test_a_title_is_given_when_asked_for() -> None:
    assert "<thread-title>" not in observed(CONVERSATION)
    answer = observed("Also write <thread-title>.\n" + CONVERSATION)
    assert answer.endswith("<thread-title>I adopted a dog called</thread-title>")


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
@examples(60)
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


# --- the extractive Reflector ----------------------------------------------------------------


LOG = """\
<observation-log>
Date: Dec 3, 2025
[1 ~20] * 🔴 (09:10) User: I adopted a dog called Rex and he already owns the sofa at home
[2 ~20] * 🟢 (09:11) Assistant: suggested three brands of puppy food and a list of trainers
Date: Dec 4, 2025
[3 ~10] * 🟡 (14:30) User: asked what the vet costs
[4 ~14] * ✅ (14:40) User: the vet appointment is booked for Monday morning
[5 ~19] * 🟢 (14:41) Assistant: wished them well and explained the way to the surgery
</observation-log>
"""


def test_the_reflector_drops_what_weighs_least() -> None:
    assert ExtractiveReflector(ratio=0.6).reply([HumanMessage(LOG)]) == "drop 2, 3, 5"


@pytest.mark.parametrize("text", ["", "no log", "<observation-log>\n\n</observation-log>"])
def test_nothing_to_reflect_gives_no_edits(text: str) -> None:
    assert ExtractiveReflector().reply([HumanMessage(text)]) == ""
