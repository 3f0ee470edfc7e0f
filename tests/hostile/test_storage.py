"""What no JSON, no UTF-8 and no database takes is kept as well as it can be, and ends no turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent
from langgraph_om.archive import SQLAlchemyArchive
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.examples import examples
from support.material import CONTROL, deep, ids, texts
from support.real_ids import MESSAGE_IDS, THREAD_IDS

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LONG = "I am planning a trip to Lisbon, and my sister joins me. " * 12


def scripted(observer: Callable[..., Any] | None = None) -> ScriptedChatModel:
    return ScriptedChatModel(
        actor=lambda _: AIMessage("Noted."),
        observer=observer or ExtractiveObserver().reply,
        reflector=ExtractiveReflector().reply,
    )


def remembering(model: ScriptedChatModel, **options: Any) -> ObservationalMemory:
    return ObservationalMemory(
        model,
        observation={"message_tokens": 200, "buffer_tokens": False},
        buffering=InlineBuffering(),
        **options,
    )


def talk(odd: Any) -> dict[str, list[BaseMessage]]:
    """Conversations that hold an odd value, by the place it stands in."""
    first, last = HumanMessage(LONG, id="first"), HumanMessage(LONG, id="last")
    call: Any = {"name": "f", "args": {"x": odd}, "id": "c"}
    used: Any = {"type": "tool_use", "name": odd, "id": odd, "input": {"x": odd}}
    block: Any = {"type": "odd", "id": odd, "x": odd}
    image: Any = {"type": "image", "url": odd, "filename": odd, "mime_type": odd, "extras": odd}
    extras: dict[str, Any] = {"created_at": odd, "reasoning_content": odd, "x": odd}
    result = ToolMessage("r", tool_call_id="c", id="odd", artifact=odd)
    answer = ToolMessage("r", tool_call_id="c", id="answer")
    return {
        "arguments": [first, AIMessage("", tool_calls=[call], id="odd"), answer, last],
        "call block": [first, AIMessage([used], id="odd"), last],
        "unknown block": [first, HumanMessage([block], id="odd"), last],
        "result block": [first, ToolMessage([block], tool_call_id="c", id="odd"), last],
        "image": [first, HumanMessage([image], id="odd"), last],
        "extras": [first, HumanMessage("x", id="odd", additional_kwargs=extras), last],
        "artifact": [first, AIMessage("x", id="a"), result, last],
    }


ODD: dict[str, Any] = {
    "deep": deep(300),
    "very deep": deep(10_000),
    "deep to the limit": deep(980),
    "huge": 10**5000,
    "not a number": float("nan"),
    "infinite": float("-inf"),
    "half a character": "a\ud83d",
    "NUL": "a\x00b",
    "a key that is no text": {1: {2: 3}},
    "a key that is half a character": {"\ud83d": 1},
    "bytes": b"\xff",
    "a set": {1},
}
PLACES = [*talk(1)]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("place", PLACES)
def test_no_value_in_a_message_ends_a_turn_and_all_is_archived(name: str, place: str) -> None:
    messages = talk(ODD[name])[place]
    with closing(SQLAlchemyArchive("sqlite:///:memory:")) as archive:
        memory = remembering(scripted(), retrieval=True, archive=archive)
        result = memory.step(None, messages, thread_id="t")
        assert result.record["log"], "it was observed"
        state = {"messages": messages, "om": result.record}
        for asked in (
            {},
            {"detail": "high"},
            {"cursor": "odd"},
            {"cursor": "odd", "part_index": 0},
        ):
            answer = memory.recall(state, {"configurable": {"thread_id": "t"}}, **asked)
            json.dumps(answer, ensure_ascii=False).encode()
        assert result.record["archived"] == "last"
        kept = archive.messages("t", limit=9, visible_only=False)
        assert [each.key for each in kept] == [message.id for message in messages]


# --- Text that is no UTF-8, and NUL --------------------------------------------------------------

TEXTS = ["a\x00b", "a\ud83db", "\udc00", "\x1b[31m\x07", "\u2028\x85", "\\u0000 \\ud800 \\0 \\"]


@pytest.mark.parametrize("text", TEXTS)
def test_every_checkpointer_keeps_a_conversation_with_any_text(
    checkpointer: BaseCheckpointSaver[Any], text: str
) -> None:
    def observer(_: Any) -> str:
        log = f"<observations>\n* 🔴 User said {text} once\n</observations>"
        return f"{log}\n<current-task>{text} x</current-task>"

    model = scripted(observer)
    agent = create_memory_agent(model, memory=remembering(model), checkpointer=checkpointer)
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(3):
        agent.invoke({"messages": [HumanMessage(f"{text} {LONG}", id=f"h{number}")]}, config)
    record = agent.get_state(config).values["om"]
    assert len(record["log"]) > 1
    assert not record["attempts"]
    assert not CONTROL.search(
        json.dumps([record["log"], record["current_task"]], ensure_ascii=False)
    )
    prompt = next(call["messages"] for call in reversed(model.calls) if call["role"] == "actor")
    assert "* 🔴 User said" in str(prompt[0].content)


@pytest.mark.parametrize("key", ["m\x00", "m:1,2", "m\n</observations>", "m`_", "界" * 300])
def test_every_checkpointer_keeps_a_conversation_with_any_ids(
    checkpointer: BaseCheckpointSaver[Any], key: str
) -> None:
    model = scripted()
    agent = create_memory_agent(model, memory=remembering(model), checkpointer=checkpointer)
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(3):
        agent.invoke({"messages": [HumanMessage(LONG, id=f"{key}{number}")]}, config)
    assert agent.get_state(config).values["om"]["log"]


ODD_IDS = {
    "half a character": "m\ud83d",
    "a whole in halves": "\ud83d\ude00",
    "long": "界" * 100_000,
}


@pytest.mark.parametrize("name", ODD_IDS)
def test_an_id_that_no_storage_takes_as_a_key_does_not_end_the_thread(
    checkpointer: BaseCheckpointSaver[Any], name: str
) -> None:
    model = scripted()
    agent = create_memory_agent(model, memory=remembering(model), checkpointer=checkpointer)
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(2):
        message = HumanMessage(LONG, id=f"{ODD_IDS[name]}{number}")
        agent.invoke({"messages": [message]}, config)
    values = agent.get_state(config).values
    assert len(values["om"]["log"]) > 1
    assert len(json.dumps(values["om"])) < 20_000, "memory holds no long id"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def archive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SQLAlchemyArchive]:
    """An archive of each kind, which several examples share."""
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("archive")
        url = f"sqlite:///{folder / 'archive.db'}"
    else:
        url = request.getfixturevalue("postgres_url").replace(
            "postgresql://", "postgresql+psycopg://", 1
        )
    with closing(SQLAlchemyArchive(url)) as archive:
        yield archive
        if request.param == "postgres":
            from langgraph_om.archive.tables import metadata  # noqa: PLC0415

            metadata.drop_all(archive.engine)


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


short_ids = ids.map(lambda name: name[:100])


@examples(15)
@given(short_ids, short_ids, st.lists(st.tuples(short_ids, texts), max_size=4), texts)
def test_an_archive_gives_back_what_it_was_given(
    archive: SQLAlchemyArchive, thread: str, resource: str, said: list[tuple[str, str]], title: str
) -> None:
    archive.delete_thread(thread)
    rows = {key: HumanMessage(text, id=key, name=key) for key, text in said}
    given = [(key, message, True) for key, message in rows.items()]
    archive.append(thread, resource, given, after=None, now=NOW, title=title)
    kept = archive.messages(thread, limit=9)
    assert [each.key for each in kept] == [*rows]
    # Two halves of a character that stand side by side come back as the character.
    assert [joined(each.message.text) for each in kept] == [
        joined(row.text) for row in rows.values()
    ]
    found = archive.thread(thread)
    assert found is not None
    assert (found.id, found.resource_id, found.title) == (thread, resource, title or None)
    assert thread in {each.id for each in archive.threads(resource, limit=1000)[0]}
    for key in rows:
        assert archive.find(key, resource_id=resource)
        assert archive.find(key, resource_id=f"{resource}\\") is None
    archive.delete_thread(thread)


@examples(15)
@given(MESSAGE_IDS, THREAD_IDS)
def test_ids_that_are_nearly_the_same_name_different_messages_and_threads(
    archive: SQLAlchemyArchive, key: str, thread: str
) -> None:
    keys = [*dict.fromkeys([key, key.swapcase(), key.upper(), f"{key} ", f"{key}-0", key[:-1]])]
    threads = [*dict.fromkeys([thread, thread.swapcase(), f"{thread} ", thread[:-1]])]
    for at, name in enumerate(threads):
        archive.delete_thread(name)
        rows = [(each, HumanMessage(f"{at} {each}", id=each), True) for each in keys]
        archive.append(name, "ana", rows, after=None, now=NOW)
    for at, name in enumerate(threads):
        assert [each.key for each in archive.messages(name, limit=9)] == keys
        for each in keys:
            found = archive.find(each, thread_id=name)
            assert found is not None
            assert (found.key, found.message.text) == (each, f"{at} {each}")
            assert archive.contains(name, [each]) == {each}
        archive.delete_thread(name)
        assert archive.messages(name, limit=9) == []


@pytest.mark.parametrize("name", ODD_IDS)
def test_a_message_with_an_odd_id_is_archived_and_never_evicted(
    archive: SQLAlchemyArchive, name: str
) -> None:
    archive.delete_thread("odd")
    memory = remembering(scripted(), archive=archive, evict=True)
    record, odd = None, ODD_IDS[name]
    messages: list[BaseMessage] = [HumanMessage(LONG, id=f"a{number}") for number in range(5)]
    messages.append(HumanMessage(LONG, id=odd))
    messages += [HumanMessage(LONG, id=f"b{number}") for number in range(25)]
    for number in range(1, len(messages) + 1):
        result = memory.step(record, messages[:number], thread_id="odd")
        record = result.record
    assert result.evicted == [f"a{number}" for number in range(5)], "up to the odd one"
    places = {str(message.id): at for at, message in enumerate(messages)}
    ends = [places.get(end, 5) for group in record["log"] for r in group["ranges"] for end in r]
    assert ends == sorted(ends), "what the caller kept is not observed again"
    kept = archive.messages("odd", limit=99)
    assert [each.message.text for each in kept] == [LONG] * 31
    assert joined(str(kept[5].message.id)) == joined(odd)
    archive.delete_thread("odd")
