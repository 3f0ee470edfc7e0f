"""What counts as an answer: answers as models really give them, each with what becomes of it.

Readable content in a recoverable form is kept. Anything doubtful is `malformed`, so that the model
is asked once more: to refuse a good answer costs a question, to keep a bad one spoils the memory.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from langgraph_om.core.effects import ModelReply
from langgraph_om.core.observe.observer import ObserverInput, build_question, observe
from langgraph_om.core.observe.parse_answer import AnswerStatus, ParsedAnswer, parse_output
from langgraph_om.errors import ObserverError
from support import flows
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


class Answer(NamedTuple):
    """An answer of a model, and what is wanted of it."""

    text: str
    status: AnswerStatus
    log: str = ""


def kept(text: str, log: str = LOG) -> Answer:
    return Answer(text, "ok", log)


def bare(text: str) -> Answer:
    """Say that a text without tags is kept as it stands."""
    return Answer(text, "ok", text)


def inside(text: str) -> Answer:
    """Say that a text is kept as it stands when it stands within the tags."""
    return Answer(tagged(text), "ok", text)


def refused(text: str) -> Answer:
    return Answer(text, "malformed")


def nothing(text: str) -> Answer:
    return Answer(text, "none")


WITHOUT_TAGS = {
    "the form, but for the tags": bare(LOG),
    "no date, but marks": bare(f"{TEA}\n{DOG}"),
    "no marks, but a date": bare(f"{DAY}\n* User likes tea"),
    "marks without bullets": bare("🔴 User likes tea\n🟢 User may move"),
    "a mark and no time": bare("* 🔴 User likes tea"),
    "done": bare("* ✅ Report delivered"),
    "in a code fence": kept(f"```markdown\n{LOG}\n```"),
    "a bold heading": bare(f"**{DAY}**\n{TEA}"),
    "a numeric heading": bare(f"## 2026-11-22\n{TEA}"),
    "details below an item": bare(f"{TEA}\n  * -> green\n    with milk\n\n  and sugar"),
    "two days": bare(f"{LOG}\n\nDate: Nov 23, 2026\n* ✅ (09:00) Walked"),
    "after reasoning": kept(f"<think>\n- maybe tea?\n</think>\n{LOG}"),
    "the opening tag is missing": kept(f"{LOG}\n</observations>\nBye"),
    "the opening tag is missing, items after": kept(
        f"{LOG}\n</observations>\n{TEA}", f"{LOG}\n\n{TEA}"
    ),
    "the opening tag is missing, no marks": kept("* tea\n* milk\n</observations>", "* tea\n* milk"),
    "the opening tag is missing before prose": refused("Here you go:\n* tea\n</observations>"),
    "a plain list": refused("- tea\n- milk"),
    "a plain list after reasoning": refused("<think>\n- tea?\n</think>\n- tea"),
    "a numbered plan": refused("1. Read the file\n2. Fix the bug\n3. Run the tests"),
    "a lettered list": refused("a) tea\nb) milk"),
    "prose before": refused(f"Here is what I noted:\n\n{LOG}"),
    "prose after": refused(f"{LOG}\n\nLet me know if you need anything else!"),
    "prose between": refused(f"{TEA}\nAlso:\n{DOG}"),
    "headings of Markdown": refused(f"## Observations\n\n{LOG}\n\n## Current task\n\nNone"),
    "a label": refused(f"Observations:\n{LOG}"),
    "an answer for the user": refused(
        "Great question! You could:\n- take the train\n- take the bus\n\nShall I book?"
    ),
    "an answer with marks": refused(
        "Here is your status:\n\n✅ Tests pass\n🔴 Lint fails\n\nWant me to fix it?"
    ),
    "a review": refused(
        "## Review\n\n🔴 **Critical**: SQL injection in `find`\n🟡 **Minor**: naming\n\nFine."
    ),
    "a review that is but a list": refused(
        "- 🔴 **Critical:** SQL injection in `find`\n- 🟡 Minor: naming\n- 🟢 Nit: a typo"
    ),
    "a refusal": refused("I'm sorry, but I can't assist with that request."),
    "a refusal with a list": refused("I can't do that. Instead I can:\n- summarise\n- translate"),
    "a refused injection": refused(
        "The page injects this, I did not follow it:\n"
        "* 🔴 (10:00) User stated the IBAN is X\nI will not record it."
    ),
    "a refusal as an item": refused("- I'm sorry, but I can't assist with that."),
    "a refusal as an item with a mark": refused(
        "* 🔴 (10:00) I'm sorry, but I can't assist with that."
    ),
    "a transcript": refused("User: hi\nAssistant: hello\nUser: I like tea"),
    "a summary": refused("The user likes tea and has a dog called Rex."),
    "a summary under a date": refused(f"{DAY}\nThe user likes tea."),
    "a date alone": refused(DAY),
    "a code block with marks in it": refused("Run this:\n```sh\necho '* 🔴 (10:00) tea'\n```"),
    "the form explained": refused("I will write `Date:` headings and * MARK (HH:MM) items."),
    "the form echoed": refused(f"{DAY}\n* MARK (HH:MM) text"),
    "an aborted call": refused("None"),
    "a table": refused("| Mark | Note |\n|---|---|\n| 🔴 | User likes tea |"),
    "items that are quoted": refused(f"> {TEA}\n> {DOG}"),
    "a rule between days": refused(f"{LOG}\n---\n{LOG}"),
}

WITHIN_TAGS = {
    "emojis missing": inside("* (10:00) User likes tea"),
    "bullets •": inside("• User likes tea\n• User runs"),
    "bullets -": inside("- User likes tea"),
    "bullets –": inside("– User likes tea"),
    "bullets ▪": inside("▪ User likes tea"),
    "bullets ・": inside("・ 犬がいます"),
    "numbered": inside("1. User likes tea\n2) User runs"),
    "lettered": inside("a) User likes tea\nb) User runs"),
    "lettered in brackets": inside("(a) User likes tea"),
    "bold marks": inside("**🔴 (10:00)** User likes tea"),
    "a bold heading": inside("**Nov 22, 2026**\n- tea"),
    "nested lists": inside(f"{TEA}\n  - green\n    - cold\n\n{DOG}"),
    "headings by priority": inside("### 🔴 High\n- User likes tea"),
    "code below an item": inside("* 🟡 (10:00) User wrote:\n```py\nI = 1\n```\n* the end"),
    "several languages": inside("* 🔴 (10:00) Nutzer mag Tee\n* 🔴 (10:01) 用户喜欢茶"),
    "cut without a word": kept("<observations>\n* 🔴 (10:00) User lik", "* 🔴 (10:00) User lik"),
    "dated prose": inside(f"{DAY}\nUser likes tea."),
    "lines about the user": inside("User likes tea.\nAssistant suggested a shop."),
    "prose": refused(tagged("We talked about tea, and it was nice.")),
    "prose about the user": refused(tagged("The user wants a poem. Roses are red.")),
    "prose about small talk": refused(tagged("The conversation was small talk and greetings.")),
    "a table with marks": inside(
        "| Mark | Time | Note |\n|---|---|---|\n| 🔴 | 10:00 | User likes tea |"
    ),
    "a table of anything": refused(tagged("| a | b |\n|---|---|\n| 1 | 2 |")),
    "a list of HTML": kept(
        tagged("<ul>\n  <li>🔴 (10:00) User likes tea</li>\n  <li>User has a dog</li>\n</ul>"),
        "* 🔴 (10:00) User likes tea\n* User has a dog",
    ),
    "a list of HTML on one line": kept(
        "<observations><ul><li>User likes tea</li><li>User runs</li></ul></observations>",
        "* User likes tea\n* User runs",
    ),
    "a list of HTML below a date": kept(
        tagged(f"{DAY}\n<ol>\n<li>User likes tea\n</li>\n</ol>"), f"{DAY}\n* User likes tea"
    ),
    "nested lists of HTML": kept(
        tagged("<ul><li>tea<ul><li>green</li></ul></li><li>milk</li></ul>"),
        "* tea\n  * green\n* milk",
    ),
    "a list that mentions HTML": inside("* User asked what <ul><li> means"),
    "date 11/22/2026": inside(f"11/22/2026\n{TEA}"),
    "date 2026-11-22": inside("2026-11-22\nUser likes tea"),
    "date 22.11.2026": inside("**22.11.2026**\nTee"),
    "date 2026/11/22": inside("[2026/11/22]\ntea"),
    "date 2026年11月22日": inside("2026年11月22日\n茶"),
    "date 22 novembre 2026": inside("22 novembre 2026\nthé"),
    "date Datum:": inside("Datum: 22. November 2026\nTee"),
    "date November 22nd": inside("November 22nd, 2026\ntea"),
    "CDATA": kept(f"<observations><![CDATA[\n{LOG}\n]]></observations>"),
    "CDATA on lines of its own": kept(tagged(f"<![CDATA[\n{LOG}\n]]>")),
    "CDATA around the tags": kept(f"<![CDATA[\n{GOOD}\n]]>"),
    "CDATA in an item": inside("* User asked what <![CDATA[x]]> means"),
    "thinking inside": kept(tagged(f"<thinking>\n* tea, perhaps\n</thinking>\n{LOG}")),
    "a refusal": refused(tagged("I am sorry, but I can not do that.")),
    "a refusal as an item": refused(tagged("- I'm sorry, but I can't assist with that request.")),
    "a refusal under a date": refused(tagged(f"{DAY}\n* I cannot help with this request.")),
    "a refusal with offers": refused(
        tagged("- I can't help with that.\n- Instead I can summarise the page.")
    ),
    "a refused injection": refused(
        tagged(
            "The page injects this, I did not follow it:\n"
            "* 🔴 (10:00) User stated the IBAN is X\nI will not record it."
        )
    ),
    "a refusal after items": refused(tagged("* 🔴 (10:00) The IBAN is X\n\nI will not record it.")),
    "the assistant's refusal": inside("* 🟡 (10:00) Assistant said it can't assist with it"),
    "what the user can not": inside("* 🔴 (10:00) I can't eat nuts"),
    "what the user is sorry for": inside("* 🔴 (10:00) I'm sorry I missed the meeting"),
    "a quoted refusal": inside(
        "* 🟡 (10:00) Assistant: \"I'm sorry, but I can't assist with that.\""
    ),
    "placeholder of the date": refused(tagged(f"Date: <date>\n{TEA}")),
    "placeholder of the date in words": refused(tagged(f"Date: [insert date]\n{TEA}")),
    "placeholder of the date in letters": refused(tagged(f"Date: YYYY-MM-DD\n{TEA}")),
    "placeholder of the date as dots": refused(tagged(f"Date: ...\n{TEA}")),
    "placeholder of the time": refused(tagged(f"{DAY}\n* 🔴 (HH:MM) User likes tea")),
    "placeholder of the mark": refused(tagged(f"{DAY}\n* MARK (HH:MM) text")),
    "placeholder of the text": refused(tagged(f"{DAY}\n* 🔴 (10:00) <text>")),
    "dots": refused(tagged("...")),
    "dots under a date": refused(tagged(f"{DAY}\n...")),
    "dots as an item": refused(tagged("* ...")),
    "dots as an item with a mark": refused(tagged(f"{DAY}\n* 🔴 (10:00) …")),
    "dots after items": inside(f"{LOG}\n* ..."),
    "an unknown date": inside("Date: unknown\n* 🔴 User likes tea"),
    "talk about placeholders": inside(
        "* 🔴 (10:00) User wants (HH:MM), not ... or <date>\n  Date: <date>\n  * ..."
    ),
    "JSON": refused(tagged('[{"time": "10:00", "text": "User likes tea"}]')),
    "a call": refused(tagged('{"name": "note", "arguments": {"text": "User likes tea"}}')),
    "a plan": refused(tagged("Next I will read the file and fix the bug.")),
}

AROUND = {
    "a block and its correction": kept(f"{tagged(f'{DAY}{chr(10)}* 🔴 User likes te')}\n{GOOD}"),
    "a block for each day": kept(
        f"{GOOD}\n{tagged(f'Date: Nov 23, 2026{chr(10)}* ✅ Walked')}",
        f"{LOG}\nDate: Nov 23, 2026\n* ✅ Walked",
    ),
    "a block, then an empty one": kept(f"{GOOD}\n<observations></observations>"),
    "a block, then half of one": kept(f"{GOOD}\n<observations>\n* 🔴 (10:00) User li"),
    "a block, then prose in one": refused(f"{GOOD}\n{tagged('I am done.')}"),
    "thinking that is not closed": kept(f"<think>\nThe user likes tea.\n\n{GOOD}\n{HINTS}"),
    "thinking that is not closed, with a draft": kept(
        f"<think>\nFirst:\n{tagged('* draft')}\nOr rather:\n{GOOD}"
    ),
    "thinking that is not closed, nor is the block": Answer(
        f"<think>\nThe user likes tea.\n<observations>\n{LOG}", "empty"
    ),
    "thinking that goes on after a draft": Answer(
        f"<think>\nSo:\n{GOOD}\nNo, that is wrong, I", "empty"
    ),
    "thinking that is not closed, with a fence": kept(f"<think>\nSo.\n```xml\n{GOOD}\n```"),
    "thinking that is not closed, after words": kept(f"Hello.\n<think>\nSo.\n{GOOD}"),
    "thinking only": Answer("<think>\n* 🔴 (10:00) tea\n</think>", "empty"),
    "a thought": kept(f"<thought>\n{tagged('* draft')}\n</thought>\n{GOOD}"),
    "thoughts": kept(f"<thoughts>\n{tagged('* draft')}\n</thoughts>\n{GOOD}"),
    "a scratchpad": kept(f"<scratchpad>\n{tagged('* draft')}\n</scratchpad>\n{GOOD}"),
    "a scratchpad in two words": kept(f"<scratch_pad>\n* draft\n</scratch_pad>\n{LOG}"),
    "an analysis": kept(f"<analysis>\n* 🔴 (10:00) draft\n</analysis>\n{LOG}"),
    "a draft": kept(f"<draft>\n{tagged('* draft')}\n</draft>\n{GOOD}"),
    "a scratchpad with thinking in it": kept(
        f"<scratchpad>\n<think>x</think>\n{tagged('* draft')}\n</scratchpad>\n{GOOD}"
    ),
    "JSON with our form in it": kept(
        '{"observations": "Date: Nov 22, 2026\\n* 🔴 (10:00) User likes tea"}', f"{DAY}\n{TEA}"
    ),
    "JSON in a fence, line by line": kept(
        '```json\n{"observations": ["* 🔴 (10:00) User likes tea"],\n"thread_title": null}\n```',
        TEA,
    ),
    "JSON with nothing": nothing('{"observations": "(none)"}'),
    "JSON with an empty list": Answer('{"observations": []}', "empty"),
    "JSON with anything": refused('{"observations": ["tea"]}'),
    "JSON with fields": refused('{"observations": [{"mark": "🔴", "text": "User likes tea"}]}'),
    "JSON of another kind": refused('{"name": "recall", "arguments": {"query": "* 🔴 tea"}}'),
    "JSON that is broken": refused('{"observations": ["* 🔴 (10:00) tea'),
    "a list of JSON": refused('["* 🔴 (10:00) User likes tea"]'),
    "JSON too deep": refused('{"observations": ' + "[" * 900 + "]" * 900 + "}"),
    "a call": refused('<tool_call>\n{"name": "note", "arguments": {}}\n</tool_call>'),
    "nothing, escaped": nothing("&lt;observations&gt;(none)&lt;/observations&gt;"),
    "nothing, not closed": nothing("<observations>(none)"),
    "nothing, in a fence": nothing("```xml\n<observations>\n(none)\n</observations>\n```"),
    "nothing after thinking": nothing("<think>hm</think><observations>(none)</observations>"),
}

NOTHING_SAID = listed("""
(none) | None | none. | NONE | N/A | n/a | Nil | null | nothing | [none] | <none/> | - (none)
(no observations) | (none - small talk only) | * 🟢 (none) | Ｎｏｎｅ | Ｎ／Ａ | `(none)` | (keine)
nichts | aucune | nada | 无 | （无） | （なし） | (暂无) | (нет) | (No conversation was provided.)
""")
NOTHING_SAID += ["(none)\n\n(No new observations.)", f"{DAY}\n(none)"]

IN_WORDS = listed("""
No new observations. | * No new observations. | Nothing noteworthy. | Nothing to note here.
* 🟢 (10:00) Nothing noteworthy. | * No conversation content was provided.
* There is nothing to observe in this conversation
""")

FACTS = listed("""
* User has none of the keys | * User has no pets | * 🔴 (10:00) User ate nothing
* None of the tests pass | * Nothing works since the update | * No sugar in the tea
* User wants nothing but tea | * no | * нет сахара | * Нет, спасибо | * 没有糖
* 🟡 (10:00) Nothing found | * 🟡 (10:00) none | * 🔴 (10:00) No new facts in the case | * 无糖茶
* Keine Haustiere | * Aucune allergie | * ninguna mascota | * 犬はいません | * 0
* 🔴 (10:00) User reported no new observations of the comet
""")

NO_ANSWER = listed("""
I'm sorry, but I can't assist with that. | I’m sorry, I cannot help with this request.
As an AI language model, I can't do that. | I am unable to process this conversation.
I must decline to summarize this. | Unfortunately, I can't continue with this request.
""")

ANSWERS = {
    **{f"without tags: {name}": answer for name, answer in WITHOUT_TAGS.items()},
    **{f"within tags: {name}": answer for name, answer in WITHIN_TAGS.items()},
    **{f"around: {name}": answer for name, answer in AROUND.items()},
    **{f"a fact: {text}": inside(text) for text in FACTS},
}


@pytest.mark.parametrize(
    "name",
    ANSWERS,
)
def test_what_becomes_of_an_answer(name: str) -> None:
    text, status, log = ANSWERS[name]
    parsed = parse_output(text)
    assert parsed.status == status
    assert parsed.observations == log
    if status in ("ok", "none"):
        assert parsed.problem == ""
        assert parse_output(render_output(parsed)) == parsed
    else:
        assert re.fullmatch(r".+\.", parsed.problem)


def test_a_self_closed_block_says_nothing() -> None:
    for text in ("<observations/>", "<Observations />", "```xml\n<observations/>\n```"):
        assert parse_output(text) == ParsedAnswer("none")
    assert parse_output("<think>hm</think><observations/>") == ParsedAnswer("none")
    for text in ("<observations/>\nI can not do that.", "Sure.\n<observations/>"):
        assert parse_output(text).status == "empty"
    assert parse_output(f"<observations/>\n{GOOD}").observations == LOG
    for text in ("<observations></observations>", "<observations>\n\n</observations>"):
        assert parse_output(text).status == "empty"


def test_a_self_closed_block_leaves_the_hints_behind_it() -> None:
    assert parse_output(f"<observations/>\n{HINTS}") == ParsedAnswer(
        "none", hints={"current_task": "No open task."}
    )


NOTHING = ["(none)", "（なし）", "(No new observations.)", "- none"]


@pytest.mark.parametrize("text", NOTHING)
def test_without_tags_nothing_counts_in_brackets_or_as_an_item(text: str) -> None:
    assert parse_output(text) == ParsedAnswer("none")


@pytest.mark.parametrize("text", NOTHING)
def test_without_tags_nothing_counts_before_hints_as_well(text: str) -> None:
    assert parse_output(f"<think>hm</think>\n{text}\n{HINTS}").status == "none"


@pytest.mark.parametrize("text", ["none", "null", "N/A", "нет", "无", "No new observations."])
def test_bare_words_may_be_what_is_left_of_a_failed_call(text: str) -> None:
    assert parse_output(text).status == "malformed"


@pytest.mark.parametrize("text", ["3 nothing", "1.none", "5 no observations", "7 无"])
def test_a_number_without_the_mark_of_a_list_is_part_of_what_is_said(text: str) -> None:
    assert parse_output(tagged(text)).status == "malformed"


def test_the_hints_of_an_answer_in_json_are_read() -> None:
    text = (
        '{"observations": "* 🔴 (10:00) User likes tea", "current_task": "Order tea",'
        ' "suggested-response": "Ask which", "more": 1}'
    )
    assert parse_output(text) == ParsedAnswer(
        "ok", TEA, hints={"current_task": "Order tea", "suggested_response": "Ask which"}
    )


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


def test_small_talk_is_no_failure() -> None:
    for text in ("<observations/>", *map(tagged, NOTHING_SAID)):
        assert ask(text) == (ParsedAnswer("none"), 1)
    assert parse_output(render_output(ParsedAnswer("none"))) == ParsedAnswer("none")


@pytest.mark.parametrize(
    "text",
    [
        *("<observations/>", *map(tagged, NOTHING_SAID)),
        *map(tagged, ["* 特になし", "- Keine", "* Det finns inget att notera.", "* -"]),
        *map(tagged, [f"{DAY}\n* No se ha dicho nada.", "* Je ne peux pas vous aider."]),
    ],
)
def test_of_much_talk_nothing_is_no_answer(text: str) -> None:
    assert ask(text, GOOD, is_much=True) == (ParsedAnswer("ok", LOG), 2)
    with pytest.raises(ObserverError, match="notes nothing"):
        ask(text, text, is_much=True)


def test_a_sentence_about_nothing_is_never_an_observation() -> None:
    for text in map(tagged, IN_WORDS):
        assert ask(text, tagged("(none)")) == (ParsedAnswer("none"), 2)


def test_who_answers_in_prose_is_asked_for_the_form() -> None:
    said = ["I can't do that. Instead I can:\n- summarise\n- translate", *NO_ANSWER]
    said += [form for text in NO_ANSWER for form in (tagged(text), tagged(f"- {text}"))]
    said += [f"{DAY}\n- {text}" for text in NO_ANSWER]
    for text in said:
        assert parse_output(text).observations == ""
        assert ask(text, GOOD) == (ParsedAnswer("ok", LOG), 2)
        with pytest.raises(ObserverError, match="malformed"):
            ask(text, text)


# --- Time grows with the text ---------------------------------------------------------------------


def test_what_is_nested_too_deep_is_no_answer() -> None:
    text = '{"observations": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert parse_output(text, cut_off=True).status == "cut_off"


def test_the_example_of_the_prompt_becomes_no_memory() -> None:
    question = build_question(ObserverInput("User (10:00): hi", asked=flows.HINTS))
    example = question.messages[0].text.partition("<example>\n")[2].partition("\n</example>")[0]
    mixed = example.replace("<observations>\n", f"<observations>\n{DAY}\n{TEA}\n\n")
    for text, log in ((example, ""), (mixed, f"{DAY}\n{TEA}")):
        flow = observe(question)
        next(flow)
        with pytest.raises(StopIteration) as done:
            flow.send(ModelReply(NOW, text))
        assert done.value.value == ParsedAnswer("ok" if log else "none", log)
