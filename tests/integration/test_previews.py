"""Enormous messages through every way in: the Actor is shown previews, all else has the whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import EstimatingCounter, InlineBuffering
from support.agents import (
    DOORS,
    make_agent,
    on_thread,
    remembering,
    say,
    scripted,
    turn,
    values,
)
from support.clock import Clock
from support.inside import count_messages

COUNTER = EstimatingCounter()
PASTED = "Summarise this log.\n" + "\n".join(f"entry {at}: level {at % 7}" for at in range(20_000))
OPTIONS: dict[str, Any] = {
    "retrieval": True,
    "messages": 8000,
    "log": 4000,
    "buffering": InlineBuffering(),
}
CALL = re.compile(r'recall\(cursor="([^"]+)", part_index=(\d+), char_offset=(\d+)\)')


def paste(key: str = "p1") -> HumanMessage:
    return HumanMessage(PASTED, id=key)


@pytest.mark.parametrize("door", DOORS)
def test_the_actor_is_shown_a_preview_and_the_state_keeps_the_message(door: str) -> None:
    agent = make_agent(door, InMemorySaver(), **OPTIONS)
    for said in (turn(1), paste(), turn(2)):
        say(agent.graph, on_thread(), said)
    sizes = [count_messages(COUNTER, prompt) for prompt in agent.prompts()]
    assert max(sizes) < 8000
    shown = next(message for message in agent.prompts()[1] if message.id == "p1")
    assert shown.text.startswith("Summarise this log.\nentry 0: level 0\n")
    assert shown.text.endswith("entry 19999: level 0")
    # The same in each later call, for the provider's cache.
    assert shown in agent.prompts()[-1]
    state = values(agent.graph, on_thread())
    kept = state[agent.memory.messages_key][2]
    assert kept.text == PASTED
    cursor, part, offset = CALL.findall(shown.text)[0]
    answer = agent.memory.recall(
        state, on_thread(), cursor=cursor, part_index=int(part), char_offset=int(offset)
    )
    assert PASTED[int(offset) :].startswith(answer["text"])


@pytest.mark.slow
@pytest.mark.parametrize("door", ["agent", "middleware", "delta"])
def test_the_observer_reads_both_ends_and_recall_the_archive(door: str, tmp_path: Path) -> None:
    files = f"sqlite:///{tmp_path}/memory.db"
    agent = make_agent(door, InMemorySaver(), **OPTIONS, archive=files, evict=True)
    say(agent.graph, on_thread(), paste())
    # Its preview leaves it in the window; all of it is observed when the session ends.
    assert agent.asked("observer") == 0
    config, key = on_thread(), agent.memory.messages_key
    for number in range(70):
        say(agent.graph, config, turn(number))
    state = values(agent.graph, config)
    assert "p1" not in [message.id for message in state[key]]
    read = "".join(
        str(call["messages"][-1].content)
        for call in agent.model.calls
        if call["role"] == "observer"
    )
    for at in (0, 19_999):  # of what is between, eight questions leave a part out
        assert f"entry {at}: level {at % 7}" in read
    answer = agent.memory.recall(state, config, cursor="p1", part_index=0, char_offset=50_000)
    assert PASTED[50_000:].startswith(answer["text"])
    assert answer["text"]
    agent.memory.archive.close()  # type: ignore[union-attr]


def test_a_step_without_a_graph_and_a_read_only_run_show_it_too() -> None:
    with remembering(scripted(), Clock(), **OPTIONS) as memory:
        taken = memory.step(None, [turn(1), paste()], thread_id="t")
        assert count_messages(COUNTER, taken.messages) < 8000
    agent = make_agent("agent", InMemorySaver(), **OPTIONS)
    say(agent.graph, on_thread(om_read_only=True), paste())
    assert count_messages(COUNTER, agent.prompts()[0]) < 8000
