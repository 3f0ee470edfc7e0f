"""What a person does to the log: remember, forget, correct, pin, unpin, undo."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from langgraph_om import ConfigurationError, ItemError, ObservationalMemory
from support.agents import (
    Agent,
    live_request,
    make_agent,
    of_kind,
    on_thread,
    say,
    scripted,
    talk,
    turn,
    turns,
    values,
)
from support.clock import Clock
from support.edits import edited
from support.groups import day_log, group
from support.inside import MemoryRecord, blank_record, fold, list_items, write_log

DOORS = ("plain", "delta", "agent")


def memory() -> ObservationalMemory:
    return ObservationalMemory(scripted(), clock=Clock())


def record(*texts: str, **fields: Any) -> MemoryRecord:
    texts = texts or (
        day_log(0, "* 🔴 (09:00) User lives in Lyon", "  * -> since 2020", "* 🟡 (09:05) Tea"),
        day_log(1, "* 🔴 (10:00) User has a dog", "* 🟢 (10:05) Said hello"),
    )
    log = [group(f"g{at}", text, 2 * at, 2 * at + 1) for at, text in enumerate(texts)]
    return {**blank_record(), "id": "om-1", "thread_id": "t", "log": log, **fields}


def log_of(after: MemoryRecord) -> str:
    return write_log(after["log"])


def spans_of(after: MemoryRecord) -> list[list[str]]:
    return [ends for entry in after["log"] for ends in entry["ranges"]]


# --- What each does ------------------------------------------------------------------------------


def test_what_a_person_wants_remembered_stands_in_the_log_and_says_so() -> None:
    after = fold(record(), [memory().updates.remember("User is allergic to nuts")])
    assert "User is allergic to nuts (noted by a person)" in log_of(after)
    assert after["log"][-1]["keep"]["how"] == "remembered"
    assert after["log"][-1]["tokens"] > 5


@pytest.mark.parametrize("day", ["2026-03-01", date(2026, 3, 1)])
def test_what_is_remembered_of_a_day_stands_under_that_day(day: Any) -> None:
    after = fold(record(), [memory().updates.remember("Met Ana", date=day)])
    assert [entry["id"][:2] for entry in after["log"]] == ["g0", "it", "g1"]
    assert after["log"][1]["text"] == "Date: Mar 1, 2026\n* 🔴 Met Ana (noted by a person)"


def test_what_is_forgotten_is_gone_with_what_belongs_to_it_and_its_messages_stay_covered() -> None:
    before = record()
    after = fold(before, [memory().updates.forget("user LIVES in   lyon")])
    assert "Lyon" not in log_of(after)
    assert "since 2020" not in log_of(after)
    assert "Tea" in log_of(after)
    assert spans_of(after) == spans_of(before)
    last = fold(record(day_log(0, "* 🔴 Only this")), [memory().updates.forget("only this")])
    assert log_of(last) == ""
    assert spans_of(last) == [["t0", "t1"]]


def test_a_correction_keeps_day_mark_and_time_and_says_who_made_it() -> None:
    after = fold(record(), [memory().updates.correct("lives in Lyon", "User lives in Ghent")])
    assert "Lyon" not in log_of(after)
    own = next(entry for entry in after["log"] if "keep" in entry)
    assert own["text"] == (
        "Date: Mar 1, 2026\n* 🔴 (09:00) User lives in Ghent (corrected by a person)"
    )
    assert own["sources"] == [["t0", "t1"]]  # still leads to the messages


def test_a_pinned_item_keeps_every_byte_and_can_be_unpinned() -> None:
    pinned = fold(record(), [memory().updates.pin("has a dog")])
    own = next(entry for entry in pinned["log"] if "keep" in entry)
    assert own["text"] == "Date: Mar 2, 2026\n* 🔴 (10:00) User has a dog"
    assert not any("keep" in e for e in fold(pinned, [memory().updates.unpin("has a dog")])["log"])
    with pytest.raises(ItemError, match="not pinned"):
        fold(record(), [memory().updates.unpin("has a dog")])


def test_an_item_is_named_by_its_id_too() -> None:
    items = {item.words: item.id for item in list_items(record()["log"])}
    for name in (items["Tea"], f"#{items['Tea']}"):
        assert "Tea" not in log_of(fold(record(), [memory().updates.forget(name)]))


def test_two_items_of_the_same_words_have_ids_of_their_own() -> None:
    twice = record(day_log(0, "* 🔴 Same", "* 🔴 Same", "* 🔴 Other"))
    first, second, _ = (item.id for item in list_items(twice["log"]))
    assert second == f"{first}-2"
    assert log_of(fold(twice, [memory().updates.forget(second)])).count("Same") == 1


def test_all_words_of_an_item_name_it_though_another_one_has_them_too() -> None:
    after = fold(
        record(day_log(0, "* 🔴 Tea", "* 🔴 Tea with milk")), [memory().updates.forget("tea")]
    )
    assert log_of(after) == "Date: Mar 1, 2026\n* 🔴 Tea with milk"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("User", r"2 items match 'User'.*\n  [0-9a-f]{8}  2026-03-01: User lives in Lyon"),
        ("User lives in Paris", r"no item matches .*closest are:\n  [0-9a-f]{8}  2026-03-01: User"),
        ("zebra", "the log has no item like it"),
    ],
)
def test_an_item_that_cannot_be_told_is_an_error_with_candidates(item: str, said: str) -> None:
    with pytest.raises(ItemError, match=said):
        fold(record(), [memory().updates.forget(item)])
    with pytest.raises(ItemError, match=said):
        memory().updates.forget(item, state={"om": record(), "messages": []})


def test_an_error_repeats_little_of_what_was_asked_for() -> None:
    with pytest.raises(ItemError, match="no item matches") as caught:
        memory().updates.forget("zebra " * 9000, state={"om": record(), "messages": []})
    assert len(str(caught.value)) < 300


def test_what_a_person_writes_holds_nothing_that_a_database_refuses() -> None:
    noted = fold(record(), [memory().updates.remember("Li\x00kes\ud800 tea\r\nwith milk")])
    assert noted["log"][-1]["text"].endswith("Likes\ufffd tea (noted by a person)\n  with milk")


@pytest.mark.parametrize(
    "ask",
    [
        lambda own: own.updates.remember("  "),
        lambda own: own.updates.remember("\x00"),
        lambda own: own.updates.remember("x", date="yesterday"),
        lambda own: own.updates.forget(""),
        lambda own: own.updates.correct("Tea", " \n"),
        lambda own: own.updates.pin(None),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(ask: Any) -> None:
    with pytest.raises(ConfigurationError, match="pass a"):
        ask(memory())


@pytest.mark.parametrize(
    "ask",
    [
        lambda own, text: own.updates.remember(text),
        lambda own, text: own.updates.correct("tea", text),
    ],
)
def test_what_would_fill_every_prompt_is_refused(ask: Any) -> None:
    assert ask(memory(), "x" * 4000)
    with pytest.raises(ConfigurationError, match="4001 characters; pass 4000 at most"):
        ask(memory(), "x" * 4001)


def test_lines_of_a_text_stay_one_item() -> None:
    after = fold(
        record(), [memory().updates.remember("Three rules:\n- be kind\nDate: Mar 9, 2026")]
    )
    [item] = list_items([after["log"][-1]])
    assert item.words.startswith("Three rules: (noted by a person)\n  - be kind")
    assert fold(after, [memory().updates.forget(item.id)])["log"] == record()["log"]


def test_what_waits_in_a_chunk_is_found_too() -> None:
    waiting = group("c", day_log(2, "* 🔴 User lives in Lyon", "* 🟡 Rain"), 4, 5)
    chunk: Any = {
        "id": "c", "cycle_id": "c", "groups": [waiting], "tokens": waiting["tokens"],
        "message_count": 2, "message_tokens": 9, "digest": "", "hints": {}, "created_at": "",
    }  # fmt: skip
    before = record(day_log(0, "* 🔴 Tea"), chunks=[chunk])
    after = fold(before, [memory().updates.correct("Lyon", "User lives in Ghent")])
    assert "Lyon" not in write_log(after["chunks"][0]["groups"])
    assert after["chunks"][0]["groups"][0]["ranges"] == [["t4", "t5"]]
    assert "Ghent" in log_of(after)


# --- Undoing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act",
    [
        lambda own: own.updates.remember("User is allergic to nuts"),
        lambda own: own.updates.forget("lives in Lyon"),
        lambda own: own.updates.correct("lives in Lyon", "User lives in Ghent"),
        lambda own: own.updates.pin("has a dog"),
    ],
)
def test_each_act_can_be_undone_and_done_again(act: Any) -> None:
    own, before = memory(), record()
    done = fold(before, [act(own)])
    undone = fold(done, [own.updates.undo()])
    assert sorted(i.id for i in list_items(undone["log"])) == sorted(
        i.id for i in list_items(before["log"])
    )
    assert not any("keep" in entry for entry in undone["log"])
    again = fold(undone, [own.updates.undo(undone["steered"][-1]["id"])])
    assert log_of(again) == log_of(done)


@pytest.mark.parametrize("words", ["lives in Lyon", "has a dog", "Tea"])
def test_what_was_forgotten_comes_back_where_it_stood(words: str) -> None:
    own = memory()
    before = record(
        day_log(0, "* 🔴 User lives in Lyon", "* 🟡 User has a dog"), day_log(3, "* Tea")
    )
    undone = fold(fold(before, [own.updates.forget(words)]), [own.updates.undo()])
    assert log_of(undone) == log_of(before)
    assert len(undone["log"]) == len(before["log"])


def test_acts_on_the_same_item_are_undone_one_after_the_other() -> None:
    own = memory()
    acts = [
        own.updates.pin("lives in Lyon"),
        own.updates.correct("lives in Lyon", "Lives in Ghent"),
    ]
    after = fold(fold(record(), acts), [own.updates.forget("Ghent")])
    for shown in ("Lives in Ghent (corrected", "User lives in Lyon", "User lives in Lyon"):
        after = fold(after, [own.updates.undo()])
        assert shown in log_of(after)
    with pytest.raises(ItemError, match="nothing to undo"):
        fold(after, [own.updates.undo()])


def test_what_was_changed_since_cannot_be_undone_and_says_so() -> None:
    own = memory()
    after = fold(record(), [own.updates.pin("has a dog"), own.updates.unpin("has a dog")])
    rewritten = edited(after, {"log": record("* other")["log"]})
    with pytest.raises(ItemError, match="changed since"):
        fold(rewritten, [own.updates.undo()])
    with pytest.raises(ItemError, match="no act 'act-1'"):
        fold(rewritten, [own.updates.undo("act-1")])


def test_an_act_that_is_folded_twice_counts_once() -> None:
    update = memory().updates.forget("Tea")
    once = fold(record(), [update])
    assert fold(once, [update]) == once
    noted = memory().updates.remember("x")
    assert log_of(fold(record(), [noted, noted])).count("noted by") == 1


# --- In a graph ----------------------------------------------------------------------------------


def talked(door: Any, **options: Any) -> Agent:
    agent = make_agent(door, InMemorySaver(), **options)
    talk(agent.graph, on_thread(), turns(8))
    return agent


@pytest.mark.parametrize("door", DOORS)
def test_update_state_steers_what_the_actor_is_shown(door: Any) -> None:
    agent = talked(door)
    agent.graph.update_state(
        on_thread(), {"om": agent.memory.updates.remember("User is left-handed")}
    )
    parts = say(agent.graph, on_thread(), turn(8))
    prompt = "".join(str(message.content) for message in agent.prompts()[-1])
    assert "User is left-handed (noted by a person)" in prompt
    [told] = of_kind(parts, "steering")
    assert told["action"] == "remember"
    assert "left-handed" in told["after"]
    assert not of_kind(say(agent.graph, on_thread(), turn(9)), "steering")  # told once


@pytest.mark.parametrize("door", DOORS)
def test_a_mistake_in_update_state_leaves_the_thread_as_it_is(door: Any) -> None:
    agent = talked(door)
    before = values(agent.graph, on_thread())["om"]
    with pytest.raises(ItemError):
        agent.graph.update_state(on_thread(), {"om": agent.memory.updates.forget("zebra")})
    assert values(agent.graph, on_thread())["om"] == before
    assert of_kind(say(agent.graph, on_thread(), turn(8)), "status")


def test_a_tool_steers_by_a_command_and_answers_what_it_cannot_do() -> None:
    own: list[ObservationalMemory] = []

    @tool
    def note(
        text: str,
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Any:
        """Remember, or forget what begins with a minus."""
        try:
            is_less = text.startswith("-")
            update = (
                own[0].updates.forget(text[1:], state=state)
                if is_less
                else own[0].updates.remember(text)
            )
        except ItemError as error:
            return str(error)
        answer = ToolMessage("done", tool_call_id=tool_call_id)
        return Command(update={"om": update, "messages": [answer]})

    def actor(messages: list[Any]) -> AIMessage:
        request = live_request(messages)
        if not isinstance(messages[-1], ToolMessage) and "note " in request.text:
            text = request.text.partition("note ")[2]
            return AIMessage("", tool_calls=[{"name": "note", "args": {"text": text}, "id": "c"}])
        return AIMessage(f"ok: {messages[-1].text}")

    from langchain.agents import create_agent  # noqa: PLC0415

    from langgraph_om import ObservationalMemoryMiddleware  # noqa: PLC0415

    own.append(memory())
    graph = create_agent(
        scripted(actor=actor),
        tools=[note],
        middleware=[ObservationalMemoryMiddleware(own[0])],
        checkpointer=InMemorySaver(),
    )

    def ask(text: str) -> Any:
        return graph.invoke({"messages": [("user", text)]}, on_thread())  # type: ignore[call-overload]

    assert "Likes tea" in write_log(ask("note Likes tea")["om"]["log"])
    assert "no item matches 'coffee'" in ask("note -coffee")["messages"][-2].text
    assert write_log(ask("note -likes tea")["om"]["log"]) == ""


# --- In several threads of a user ----------------------------------------------------------------


def test_threads_of_a_user_know_what_a_person_did() -> None:
    agent = make_agent("plain", InMemorySaver(), scope="resource", archive="sqlite://")
    one, other = (on_thread(name, resource_id="ana") for name in ("one", "other"))
    talk(agent.graph, one, turns(8))
    agent.graph.update_state(one, {"om": agent.memory.updates.remember("Ana is allergic to nuts")})
    agent.graph.update_state(one, {"om": agent.memory.updates.correct("number 0", "Trip 0 is off")})
    say(agent.graph, one, turn(8))
    say(agent.graph, other, turn(30))
    prompt = "".join(str(message.content) for message in agent.prompts()[-1])
    assert "Ana is allergic to nuts (noted by a person)" in prompt
    assert "Trip 0 is off (corrected by a person)" in prompt
    assert "trip number 0" not in prompt
    agent.graph.update_state(one, {"om": agent.memory.updates.forget("allergic")})
    say(agent.graph, one, turn(9))
    say(agent.graph, other, turn(32))
    assert "allergic" not in "".join(str(message.content) for message in agent.prompts()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("evict", [False, True])
def test_what_a_person_did_survives_reflections_of_a_long_talk(*, evict: bool) -> None:
    agent = make_agent("plain", InMemorySaver(), log=150, archive="sqlite://", evict=evict)
    talk(agent.graph, on_thread(), turns(8))
    agent.graph.update_state(on_thread(), {"om": agent.memory.updates.pin("number 1 ")})
    agent.graph.update_state(
        on_thread(), {"om": agent.memory.updates.remember("Ana is left-handed")}
    )
    before = values(agent.graph, on_thread())["om"]
    kept = [entry for entry in before["log"] if "keep" in entry]
    talk(agent.graph, on_thread(), turns(20, start=8))
    after = values(agent.graph, on_thread())["om"]
    assert after["generation"] > before["generation"] + 1
    assert [entry for entry in after["log"] if "keep" in entry] == kept


# --- Acts on a thread ----------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["agent", "agent-plain", "plain", "delta", "middleware"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_act_is_done_where_it_returns(door: Any, *, is_async: bool) -> None:
    agent = make_agent(door, InMemorySaver())
    own, graph = agent.memory, agent.graph

    async def act(name: str, *words: Any, config: Any = None, **options: Any) -> str:
        place = config or on_thread()
        if is_async:
            done = await getattr(own.of(graph, place), f"a{name}")(*words, **options)
        else:
            done = await asyncio.to_thread(getattr(own.of(graph, place), name), *words, **options)
        assert isinstance(done, str)
        return done

    def log() -> str:
        return log_of(values(graph, on_thread())["om"])

    await act("remember", "Ana is left-handed")  # before the first run
    assert "Ana is left-handed (noted by a person)" in log()
    talk(graph, on_thread(), turns(8))
    assert "Ana is left-handed" in log()
    await act("correct", "left-handed", "Ana is right-handed")
    assert "Ana is right-handed (corrected by a person)" in log()
    forgotten = await act("forget", "number 0")
    assert "number 0" not in log()
    await act("undo", forgotten)
    assert "number 0" in log()
    await act("pin", "number 0")
    await act("unpin", "number 0")
    await act("set_title", "Ana's hands")
    assert values(graph, on_thread())["om"]["thread_title"] == "Ana's hands"
    before = log()
    with pytest.raises(ItemError):
        await act("forget", "zebra")
    assert log() == before
    for state in list(graph.get_state_history(on_thread())):
        await act("remember", "Only there", config=state.config)
        assert "Only there" in log(), state.next


def test_an_act_on_a_graph_without_memory_is_refused() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {})
    builder.add_edge("__start__", "agent")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="has no 'om'"):
        memory().of(graph, on_thread()).remember("Tea")
