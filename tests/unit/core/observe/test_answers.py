"""What counts as an answer: answers as models really give them, and which are asked for once more.

To refuse a good answer costs a question; to keep a bad one spoils the memory.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from langgraph_om.errors import ObserverError
from support import flows
from support.inside import (
    ModelReply,
    ObserverInput,
    ParsedAnswer,
    build_question,
    observe,
    parse_output,
)
from support.rendering import render_output

DAY = "Date: Nov 22, 2026"
TEA = "* 🔴 (10:00) User likes tea"
DOG = "* 🔴 (10:05) User has a dog called Rex"
LOG = f"{DAY}\n{TEA}\n{DOG}"
HINTS = "<current-task>\nNo open task.\n</current-task>"


def listed(texts: str) -> list[str]:
    """The texts that stand on lines, or beside each other with bars between."""
    return re.split(r" \| |\n", texts.strip())


def tagged(text: str) -> str:
    return f"<observations>\n{text}\n</observations>"


GOOD = tagged(LOG)

FENCED = {
    "in a code fence": f"```xml\n{GOOD}\n```",
    "in half a code fence": f"```\n{GOOD}",
    "after reasoning": f"<think>\nThe user likes it short.\n</think>\n{GOOD}",
    "after reasoning that quotes the form": f"<think>\n{tagged('* draft')}\n</think>\n\n{GOOD}",
    "after reasoning in a fence": f"<thinking>So.</thinking>\n```xml\n{GOOD}\n```",
    "after reasoning that nothing opened": f"So I write it down.\n</think>\n{GOOD}",
    "not closed": GOOD.removesuffix("</observations>"),
    "last hint not closed": f"{GOOD}\n<suggested-response>\nAsk for the date.",
    "cut within the tag": GOOD.removesuffix("servations>"),
    "closed behind the last item": f"<observations>\n{LOG}</observations>",
    "tags indented": f"  <observations>\n{LOG}\n  </observations>",
    "blank lines": f"<observations>\n\n{LOG}  \n\n\n</observations>\n",
}
"""What may stand around the notes of `LOG`."""

FACTS = listed("""
* 🔴 User has none of the keys | * 🔴 User has no pets | * 🔴 (10:00) User ate nothing
* 🟡 None of the tests pass | * 🔴 Nothing works since the update | * 🔴 No sugar in the tea
* 🔴 User wants nothing but tea | * 🔴 no | * 🔴 нет сахара | * 🔴 没有糖 | * 🔴 (10:00) 0
* 🟡 (10:00) Nothing found | * 🔴 (10:00) No new facts in the case | * 🔴 犬はいません
* 🔴 (10:00) User reported no new observations of the comet | * 🔴 (10:00) I can't eat nuts
* 🔴 (10:00) I'm sorry I missed the meeting | * 🔴 (10:00) Mark likes tea
* 🟡 (10:00) Assistant said it can't assist with it | * 🟡 (10:00) [Image #1: plan.png]
* 🟡 (10:00) Assistant: "I'm sorry, but I can't assist with that."
* 🔴 (10:00) User wants (HH:MM), not ... or <date> | * 🟡 (10:00) asked what <ul><li> means
""")
NOTES = [
    *FACTS,
    "* (10:00) User likes tea",
    "* 🔴 User likes tea",
    "🔴 User likes tea\n🟢 User may move",
    "• 🔴 User likes tea\n– 🔴 User runs\n▪ User walks",
    "1. 🔴 (10:00) User likes tea\n2) 🔴 (10:01) User runs",
    f"{DAY}\n{TEA}\n* User runs",
    f"Date: unknown\n{TEA}",
    f"**{DAY}**\n{TEA}",
    f"{LOG}\n\nDate: Nov 23, 2026\n* ✅ (09:00) Walked",
    f"{TEA}\n  * -> green\n    with milk\n\n  and sugar\n\n{DOG}",
    f"{TEA}\n  ```py\n  x = [1] if a -> b\n  ```",
    f"{TEA}\n  Date: <date>\n  * ...",
    "* 🔴 (10:00) Nutzer mag Tee\n* 🔴 (10:01) 用户喜欢茶",
]
"""Notes in the form that is asked for."""


@pytest.mark.parametrize("name", FENCED)
def test_what_may_stand_around_the_notes(name: str) -> None:
    parsed = parse_output(FENCED[name])
    assert (parsed.status, parsed.observations) == ("ok", LOG)


@pytest.mark.parametrize("text", NOTES)
def test_notes_are_kept_as_they_stand(text: str) -> None:
    parsed = parse_output(tagged(text))
    assert parsed == ParsedAnswer("ok", text)
    assert parse_output(render_output(parsed)) == parsed


REFUSALS = listed("""
I'm sorry, but I can't assist with that. | I’m sorry, I cannot help with this request.
As an AI language model, I can't do that. | I am unable to process this conversation.
I must decline to summarize this. | Unfortunately, I can't continue with this request.
""")
NOTHING = listed("""
None | none. | NONE | N/A | Nil | null | nothing | [none] | <none/> | - (none) | - none
(no observations) | * 🟢 (none) | * 🟢 none | Ｎｏｎｅ | `(none)` | nichts | 无 | （无） | (нет)
(No conversation was provided.) | * No new observations. | * Nothing noteworthy. | * -
* 🟢 (10:00) Nothing noteworthy. | * 🟢 (10:00) No conversation content was provided.
* 🟢 There is nothing to observe in this conversation | * 特になし | * Det finns inget att notera.
""")
ANOTHER_FORM = {
    "no tags": LOG,
    "no tags, in a fence": f"```markdown\n{LOG}\n```",
    "no tag that opens": f"{LOG}\n</observations>",
    "no tags, but brackets": "(none)",
    "tags in capitals": GOOD.replace("observations>", "Observations>"),
    "tags with spaces": GOOD.replace("<", "< "),
    "tags with attributes": GOOD.replace("<observations>", '<observations thread="7">'),
    "tags closed in themselves": "<observations/>",
    "tags escaped": GOOD.replace("<", "&lt;").replace(">", "&gt;"),
    "tags escaped for Markdown": GOOD.replace("<", "\\<"),
    "a tag behind words": f"Noted: {GOOD}",
    "prose before": f"Here is what I noted:\n\n{GOOD}",
    "prose after": f"{GOOD}\n\nHope this helps!",
    "hints first": f"{HINTS}\n{GOOD}\nDone.",
    "hints inside": tagged(f"{HINTS}\n{LOG}"),
    "hints not closed": f"{GOOD}\n<current-task>Wait\n<suggested-response>Go</suggested-response>",
    "hints on the line of the tag": f"<observations>\n{LOG}</observations>{HINTS}",
    "another name of a hint": f"{GOOD}\n{HINTS.replace('-', '_')}",
    "notes not closed before hints": f"<observations>\n{LOG}\n{HINTS}",
    "a block and its correction": f"{GOOD}\n{GOOD}",
    "a block for each day": "\n".join([GOOD, tagged(f"Date: Nov 23, 2026\n{DOG}")]),
    "a block opened twice": tagged(GOOD),
    "reasoning that is not closed": f"<think>\nThe user likes tea.\n\n{GOOD}",
    "reasoning after words": f"Hello.\n<think>So.</think>\n{GOOD}",
    "reasoning twice": f"<think>a</think>\n<think>b</think>\n{GOOD}",
    "reasoning inside": tagged(f"<think>\n* tea, perhaps\n</think>\n{LOG}"),
    "a scratchpad": f"<scratchpad>\n* draft\n</scratchpad>\n{GOOD}",
    "a fence inside": tagged(f"```markdown\n{LOG}\n```"),
    "CDATA": f"<observations><![CDATA[\n{LOG}\n]]></observations>",
    "JSON": f'{{"observations": "{TEA}"}}',
    "JSON inside": tagged('[{"time": "10:00", "text": "User likes tea"}]'),
    "a call": '<tool_call>\n{"name": "note", "arguments": {}}\n</tool_call>',
    "HTML": tagged("<ul>\n  <li>🔴 (10:00) User likes tea</li>\n</ul>"),
    "a table": tagged("| Mark | Note |\n|---|---|\n| 🔴 | User likes tea |"),
    "quoted": tagged(f"> {TEA}\n> {DOG}"),
    "a rule": tagged(f"{LOG}\n---\n{DOG}"),
    "headings": tagged(f"### 🔴 High\n{TEA}"),
    "bold marks": tagged("**🔴 (10:00)** User likes tea"),
    "no marks and no times": tagged("* User likes tea\n* User runs"),
    "no marks and no times, under a date": tagged(f"{DAY}\n* User likes tea"),
    "a date without its word": tagged(f"Nov 22, 2026\n{TEA}"),
    "a date with another word": tagged(f"Datum: 22. November 2026\n{TEA}"),
    "a date alone": tagged(DAY),
    "prose": tagged("We talked about tea, and it was nice."),
    "prose under a date": tagged(f"{DAY}\nUser likes tea."),
    "prose about the user": tagged("User likes tea.\nAssistant suggested a shop."),
    "prose between items": tagged(f"{TEA}\nAlso:\n{DOG}"),
    "code that is not indented": tagged("* 🟡 (10:00) User wrote:\n```py\nI = 1\n```"),
    "a review": tagged("## Review\n\n🔴 **Critical**: SQL injection in `find`"),
    "a refused injection": tagged(
        "The page injects this, I did not follow it:\n"
        "* 🔴 (10:00) User stated the IBAN is X\nI will not record it."
    ),
    "a refusal after items": tagged("* 🔴 (10:00) The IBAN is X\n\nI will not record it."),
    "a refusal with offers": tagged("- I can't help with that.\n- Instead I can summarise it."),
    "no date filled in": tagged(f"Date: <date>\n{TEA}"),
    "no date in letters": tagged(f"Date: YYYY-MM-DD\n{TEA}"),
    "no date in dots": tagged(f"Date: ...\n{TEA}"),
    "no time filled in": tagged(f"{DAY}\n* 🔴 (HH:MM) User likes tea"),
    "no mark filled in": tagged(f"{DAY}\n* MARK (HH:MM) text"),
    "no text filled in": tagged(f"{DAY}\n* 🔴 (10:00) <text>"),
    "dots": tagged("..."),
    "dots after items": tagged(f"{LOG}\n* ..."),
    "dots as an item": tagged(f"{DAY}\n* 🔴 (10:00) …"),
    **{f"refusal: {text}": text for text in REFUSALS},
    **{f"refusal inside: {text}": tagged(text) for text in REFUSALS},
    **{f"refusal as an item: {text}": tagged(f"* 🔴 (10:00) {text}") for text in REFUSALS},
    **{f"nothing: {text}": tagged(text) for text in NOTHING},
}
"""What is asked for once more, however well it can be guessed."""


@pytest.mark.parametrize("name", ANOTHER_FORM)
def test_another_form_is_asked_for_once_more_with_the_reason(name: str) -> None:
    text = ANOTHER_FORM[name]
    parsed = parse_output(text)
    assert (parsed.status, parsed.observations, dict(parsed.hints)) == ("malformed", "", {})
    assert re.fullmatch(r"[^\n]+\.", parsed.problem)
    assert ask(text, GOOD) == (ParsedAnswer("ok", LOG), 2)
    with pytest.raises(ObserverError, match="malformed"):
        ask(text, text)


NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)


def ask(*answers: str, is_much: bool = False) -> tuple[ParsedAnswer, int]:
    """Answer the Observer's questions in order; return what it made of it, and how many it had."""
    flow = observe(build_question(ObserverInput("User (10:00): hi")), is_much=is_much)
    next(flow)
    try:
        for answer in answers:
            flow.send(ModelReply(NOW, answer))
    except StopIteration as done:
        return done.value, len(answers)
    pytest.fail("one more question")


NONE = tagged("(none)")


def test_small_talk_is_no_failure() -> None:
    for text in (NONE, "<observations>(none)</observations>", f"```\n{NONE}\n```"):
        assert ask(text) == (ParsedAnswer("none"), 1)
    assert parse_output(f"{NONE}\n{HINTS}").hints == {"current_task": "No open task."}
    assert parse_output(render_output(ParsedAnswer("none"))) == ParsedAnswer("none")


@pytest.mark.parametrize("text", ["(none)", *NOTHING, "Date: unknown\n* 🟢 keine", "* 🟢 なし"])
def test_of_much_talk_nothing_is_no_answer(text: str) -> None:
    assert ask(tagged(text), GOOD, is_much=True) == (ParsedAnswer("ok", LOG), 2)
    with pytest.raises(ObserverError):
        ask(tagged(text), tagged(text), is_much=True)


@pytest.mark.parametrize(
    "first", [f"{GOOD}\nDone.", LOG, f"<observations>\n{TEA * 300}\n</observations>"]
)
def test_nothing_does_not_take_the_place_of_a_refused_answer_that_noted_something(
    first: str,
) -> None:
    with pytest.raises(ObserverError):
        ask(first, NONE)
    assert ask("Sure!", NONE) == (ParsedAnswer("none"), 2)


def test_the_example_of_the_prompt_becomes_no_memory() -> None:
    question = build_question(ObserverInput("User (10:00): hi", asked=flows.HINTS))
    example = question.messages[0].text.partition("<example>\n")[2].partition("\n</example>")[0]
    mixed = example.replace("<observations>\n", f"<observations>\n{DAY}\n{TEA}\n\n")
    flow = observe(question)
    next(flow)
    with pytest.raises(StopIteration) as done:
        flow.send(ModelReply(NOW, mixed))
    assert done.value.value.observations == f"{DAY}\n{TEA}"
    flow = observe(question)
    assert next(flow) != flow.send(ModelReply(NOW, example))  # asked once more
