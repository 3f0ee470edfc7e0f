"""What the agents of the guides do, beyond that their code runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel
from support.pages import DOCS, run_page

TRIP: RunnableConfig = {"configurable": {"thread_id": "trip"}}


def answer(prompt: list[BaseMessage]) -> AIMessage:
    """Hand over where that is asked for, ask the librarian about books, else say who speaks."""
    system, last = prompt[0].text, prompt[-1]
    if last.type == "human" and last.text.startswith("Hand over"):
        call = {"name": "hand_over", "args": {"to": "booker"}, "id": "hand-over"}
        return AIMessage("", tool_calls=[call])
    if last.type == "human" and last.text.startswith("What do we have about"):
        first_asked = next(each for each in prompt if each.text.startswith("What do we have"))
        return AIMessage(f"You first asked: {first_asked.text}")
    return AIMessage("by the booker" if "You book" in system else "by the planner")


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page about several agents has built, with models that play their roles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("guide"))
        small = ScriptedChatModel(
            observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
        )
        model = ScriptedChatModel(actor=answer)
        return run_page(DOCS / "multi-agent.md", model=model, small_model=small)


def say(graph: Any, text: str, config: RunnableConfig = TRIP) -> dict[str, Any]:
    state: dict[str, Any] = graph.invoke({"messages": [("user", text)]}, config)
    return state


def test_a_subagent_with_a_checkpointer_knows_what_it_was_asked_before(
    guide: dict[str, Any],
) -> None:
    ask = guide["ask_librarian"]
    asked: list[str] = []

    def host(prompt: list[BaseMessage]) -> AIMessage:
        if prompt[-1].type == "tool":
            asked.append(prompt[-1].text)
            return AIMessage("Thanks.")
        args = {"question": prompt[-1].text}
        return AIMessage("", tool_calls=[{"name": ask.name, "args": args, "id": "ask"}])

    graph = create_agent(ScriptedChatModel(actor=host), [ask], checkpointer=InMemorySaver())
    say(graph, "What do we have about Porto?")
    say(graph, "What do we have about Faro?")
    assert asked == ["You first asked: What do we have about Porto?"] * 2


def test_agents_with_one_log_know_what_was_said_to_the_other(guide: dict[str, Any]) -> None:
    config = {"configurable": {"thread_id": "sales:1", "resource_id": "ana"}}
    record = guide["sales"].get_state(config).values["om"]
    assert "Fritz 7590" in str(record["others"])


def test_who_leaves_memory_has_the_messages_again_that_eviction_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ScriptedChatModel(observer=ExtractiveObserver().reply)
    model, saver = ScriptedChatModel(actor="Noted."), InMemorySaver()
    window = {"message_tokens": 60, "buffer_tokens": False}
    memory = ObservationalMemory(
        small, archive="sqlite:///memory.db", evict=True, observation=window
    )
    agent = create_memory_agent(model, memory=memory, checkpointer=saver)
    old: RunnableConfig = {"configurable": {"thread_id": "old"}}
    said = [f"Room {number} has {number + 2} beds and a sea view." for number in range(30)]
    for text in said:
        say(agent, text, old)
    assert said[0] not in {each.text for each in agent.get_state(old).values["messages"]}
    once: RunnableConfig = {"configurable": {"thread_id": "old", "om_enabled": False}}
    said.append("Just this once, without.")  # which is not archived before the next turn
    say(agent, said[-1], once)

    page = (DOCS / "adopt-and-leave.md").read_text(encoding="utf-8")
    (leaving,) = re.findall(r"^kept = .*?(?=^```)", page, re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {"create_agent": create_agent, "Overwrite": Overwrite, "tools": []}
    scope |= {"model": model, "memory": memory, "saver": saver, "config": old, "agent": agent}
    exec(leaving, scope)  # noqa: S102 - the very code users copy
    back = scope["plain"].get_state(old).values["messages"]
    assert [each.text for each in back if each.type == "human"] == [*said, "When do I fly home?"]
    memory.close()


def test_the_chat_bot_says_what_its_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "chat-bot.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^\.\.\.\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    run_page(DOCS / "chat-bot.md")
    moment = re.compile(r"[0-9]{2}:[0-9]{2}|[A-Z][a-z]{2} [0-9]+, [0-9]{4}")
    said = moment.sub("", capsys.readouterr().out)
    assert all(moment.sub("", part) in said for part in shown)


def test_hooks_of_the_guide_keep_a_card_number_out_of_memory() -> None:
    small = ScriptedChatModel(observer=ExtractiveObserver().reply)
    hooks = run_page(DOCS / "redaction.md", small_model=small)
    kept = {"before_observation": hooks["hide_cards"]}
    kept["after_observation"] = hooks["hide_cards_in_text"]
    window = {"message_tokens": 20, "buffer_tokens": False}
    memory = ObservationalMemory(small, observation=window, hooks=kept)
    card = "My card is 4111 1111 1111 1111 and I pay in Bergen with it, if you do not mind."
    said = HumanMessage(card, id="1")
    talk = [said, AIMessage("Noted.", id="2"), HumanMessage("Good.", id="3")]
    noted = str(memory.step(None, talk).record)
    assert "My card is [card] and I pay" in noted
    assert "4111" not in noted
    assert said.text == card
