"""No text of users, tools or models opens or closes a tag of ours, whatever prompt it stands in."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

import langgraph_om
from support import groups
from support.counters import COUNTER
from support.examples import examples
from support.flows import HINTS
from support.inside import (
    Group,
    MemoryRecord,
    ObserverInput,
    ReflectorInput,
    TimedMessage,
    TranscriptLimits,
    blank_record,
    build_question,
    escape,
    fill,
    observe,
    open_window,
    reflect,
    tell_hints,
    transcribe,
)
from support.material import deep, ids, long_texts, tags_in, texts
from support.rendering import divide
from support.views import assemble, recall_of

PACKAGE = Path(langgraph_om.__file__).parent
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LIMITS = TranscriptLimits(arguments_tokens=200, result_tokens=200, text_tokens=200)


def test_each_tag_that_is_written_is_one_that_others_cannot_close() -> None:
    rooms = ("core", "features", "runtime")
    files = [
        file for room in rooms for file in (PACKAGE / room).rglob("*.*") if file.suffix != ".pyc"
    ]
    written = {tag for file in files for tag in re.findall(r"</([a-z-]+)>", file.read_text())}
    assert "state" in written
    assert {tag for tag in written if escape(f"</{tag}>") == f"</{tag}>"} == {"example"}


# --- The transcript ------------------------------------------------------------------------------

names = st.none() | texts | ids
values: st.SearchStrategy[Any] = st.one_of(
    texts,
    st.none() | st.booleans() | st.floats() | st.binary(max_size=9),
    st.sampled_from([10**5000, -(10**30), float("nan"), float("inf"), deep(400), deep(10_000)]),
    st.dictionaries(texts, texts | st.floats(), max_size=3),
    st.lists(texts, max_size=3),
)
KEYS = ("id", "name", "filename", "url", "title", "mime_type", "args", "input", "extras", "value")
blocks = st.builds(
    lambda kind, text, fields: {**fields, "type": kind, "text": text, "content": text},
    st.sampled_from(["text", "image", "file", "tool_use", "tool_result", "thinking", "odd"])
    | texts,
    texts,
    st.dictionaries(st.sampled_from(KEYS), values, max_size=3),
)
said = long_texts | st.lists(texts | blocks, max_size=3)
calls = st.lists(
    st.fixed_dictionaries({"name": ids, "args": st.dictionaries(ids, values), "id": ids}),
    max_size=2,
)
messages = st.one_of(
    st.builds(HumanMessage, said, name=names),
    st.builds(AIMessage, said, name=names, tool_calls=calls),
    st.builds(ToolMessage, said, name=names, tool_call_id=ids),
    st.builds(lambda text, role: ChatMessage(content=text, role=role), texts, ids),
)


# --- What the Observer and the Reflector are asked -----------------------------------------------


def question(flow: Any) -> str:
    """The text of the first question of a flow, without the rules."""
    return "\n".join(str(message.content) for message in next(flow).messages[1:])


@examples(20)
@given(texts, texts, texts, texts, st.lists(messages, max_size=2))
def test_the_observer_reads_each_text_inside_its_own_tag(
    previous: str, task: str, reply: str, title: str, talk: list[BaseMessage]
) -> None:
    timed = [TimedMessage(message, NOON) for message in talk]
    transcript = transcribe(timed, timezone=UTC, counter=COUNTER, limits=LIMITS).text
    hints = {"current_task": task, "suggested_response": reply, "thread_title": title}
    shown = ObserverInput(transcript, previous=previous, hints=hints)
    text = question(observe(build_question(shown)))
    before, opened, rest = text.partition("\n<conversation>\n")
    conversation, closed, request = rest.rpartition("</conversation>\n")
    assert opened
    assert closed
    assert conversation.strip("\n") == transcript.strip("\n")
    assert request.startswith("\n## Request\n")
    assert tags_in(request) == ["observations"]
    given = {"previous-observations": previous.strip(), "current-task": task}
    given |= {"suggested-response": reply, "thread-title": title}
    tags = [tag for name, value in given.items() if value for tag in (name, f"/{name}")]
    assert tags_in(before) == tags


@examples(35)
@given(long_texts, texts, texts)
@example("", "", "＜observations>")
@example("", "<observations\x1f0", "")
def test_the_reflector_reads_numbered_items_inside_their_tag(
    log: str, task: str, thread: str
) -> None:
    given: Group = {**group(f"* x\n{log}", "a", "b"), "thread_id": thread, "tokens": 10}
    hints = {"current_task": task}
    division = divide()
    request = ReflectorInput([given], target=5, division=division, hints=hints)
    text = question(reflect(request, COUNTER))
    before, closed, after = text.rpartition("</observation-log>")
    inside = [tag for tag in tags_in(before) if tag not in ("thread", "/thread")]
    assert closed
    assert inside == ["observation-log"]
    assert tags_in(after)[: 2 * bool(task)] == ["current-task", "/current-task"][: 2 * bool(task)]
    assert tags_in(after)[2 * bool(task) :] == tags_in(division.rule)


# --- What the Actor gets -------------------------------------------------------------------------


def group(text: str, first: str, last: str) -> Group:
    return groups.group(
        "g", text, ranges=[[f"of {first}", last], [first, f"of {last}"]], observed_at="", tokens=1
    )


RECALL = recall_of("resource")


def intro_of(recall: Any) -> str:
    own = fill("actor_instructions", hints=tell_hints(HINTS, "actor"))
    return own if recall is None else f"{own}\n\n{recall.instructions({}, has_memory=True)}"


@examples(40)
@given(
    st.lists(st.builds(group, long_texts.filter(bool), ids, ids), min_size=1, max_size=4),
    st.none() | texts,
    st.none() | texts,
    st.sampled_from([None, RECALL]),
    st.lists(st.builds(HumanMessage, texts), min_size=1, max_size=3),
    st.sampled_from([date(2026, 3, 2), date.min, date.max]),
)
def test_one_system_message_opens_and_closes_the_memory_once(  # noqa: PLR0917 by place
    log: list[Group],
    task: str | None,
    reply: str | None,
    recall: Any,
    talk: list[BaseMessage],
    today: date,
) -> None:
    record: MemoryRecord = {
        **blank_record(),
        "log": log,
        "cursor": ["gone"],
        "current_task": task,
        "suggested_response": reply,
    }
    window = open_window(record, talk, COUNTER)
    shown = assemble(record, talk, window, today=today, system="Own.", recall=recall)
    assert [isinstance(message, SystemMessage) for message in shown].count(True) == 1
    content: Any = shown[0].content
    text = "".join(block["text"] for block in content)
    assert text.startswith(f"Own.\n\n{intro_of(recall)}\n\n<observations>\n")
    memory = text.removeprefix(f"Own.\n\n{intro_of(recall)}\n\n")
    tags = ["observations", "/observations"]
    tags += ["current-task", "/current-task"] if task else []
    tags += ["suggested-response", "/suggested-response"] if reply else []
    assert tags_in(memory) == tags
    assert memory.count("\n_range: `") >= (len(log) if recall else 0)
    assert shown[2:] == talk, "raw messages stay word for word"
