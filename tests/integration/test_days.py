"""Observations over several days: a group for each day, through whatever door and whoever asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, SQLAlchemyArchive
from langgraph_om.core.content.dates import observation_date
from langgraph_om.core.observe.transcript import format_day
from support.agents import (
    Agent,
    live_request,
    make_agent,
    on_thread,
    say,
    scripted,
    turn,
    uncovered,
    values,
)
from support.clock import Clock
from support.real_ids import Naming
from support.shared_world import Agent as SharedAgent
from support.shared_world import check_thread, config, sharing

CONFIG = on_thread()


def day_by_day(messages: Sequence[BaseMessage]) -> str:
    """Note of each message of the user when it was said, below the day."""
    told = messages[-1].text.partition("<conversation>\n")[2].partition("\n</conversation>")[0]
    lines = [
        line if line.startswith("Date: ") else f"* 🔴 ({said[1]}) User said: {said[2]}"
        for line in told.split("\n")
        if line.startswith("Date: ") or (said := re.match(r"User \((.+?)\): (.{40})", line))
    ]
    notes = "\n".join(lines)
    return f"<observations>\n{notes}\n</observations>"


class Days:
    """A conversation of a few turns a day, each message with an id and a day that are known."""

    def __init__(self, *, seed: int = 3, **options: Any) -> None:
        self.clock, self.naming = Clock(), Naming(seed)
        self.day: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.agent: Agent = make_agent(
            "agent",
            InMemorySaver(),
            clock=self.clock,
            model=scripted(actor=self._answer, observer=day_by_day),
            **options,
        )

    def _name(self, label: str, role: Any) -> str:
        key = self.naming.name(label, role, self.clock.now)
        self.day[key] = format_day(self.clock.now)
        return key

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        number = self.numbers[str(live_request(messages).id)]
        text = f"Noted, trip {number}. " * 4
        return AIMessage(text, id=self._name(f"a{number}", "ai"), response_metadata=self._written)

    @property
    def _written(self) -> dict[str, str]:
        return {"created_at": self.clock.now.isoformat()}

    def talk(self, count: int, *, hours: float = 9) -> None:
        for number in range(len(self.numbers), len(self.numbers) + count):
            key = self._name(f"h{number}", "human")
            told = {"id": key, "additional_kwargs": self._written}
            request = turn(number).model_copy(update=told)
            self.numbers[str(request.id)] = number
            say(self.agent.graph, CONFIG, request)
            self.clock.advance(hours=hours)

    @property
    def state(self) -> dict[str, Any]:
        return values(self.agent.graph, CONFIG)

    def days_of(self, group: Mapping[str, Any]) -> list[str]:
        """The days of the messages that a group covers."""
        keys = [str(message.id) for message in self.state["messages"]]
        ((first, last),) = group["ranges"]
        covered = keys[keys.index(first) : keys.index(last) + 1]
        return list(dict.fromkeys(self.day[key] for key in covered))

    def check(self) -> None:
        """Each group has the items of one day, and the messages of that day."""
        assert uncovered(self.agent.memory, self.state) == []
        ahead = [group for chunk in self.state["om"]["chunks"] for group in chunk["groups"]]
        for group in [*self.state["om"]["log"], *ahead]:
            assert headings(group["text"]) == self.days_of(group)


def headings(text: str) -> list[str]:
    found = (observation_date(line) for line in text.split("\n"))
    return [format_day(day) for day in found if day is not None]


# --- Whoever asked --------------------------------------------------------------------------------


@pytest.mark.slow
def test_chunks_of_several_days_become_a_group_a_day_also_when_only_some_are_activated() -> None:
    days = Days(
        messages=1500,
        log=100_000,
        observation={"buffer_tokens": 400, "buffer_activation": 0.5},
        buffering=InlineBuffering(),
    )
    seen = set()
    for _ in range(40):
        days.talk(1)
        days.check()
        record = days.state["om"]
        seen |= {len(chunk["groups"]) > 1 for chunk in record["chunks"] if record["log"]}
    assert True in seen, "chunks of several days wait while others are in the log"
    ids = [group["id"] for group in days.state["om"]["log"]]
    assert len(ids) == len(set(ids)) >= 5


def test_other_threads_are_observed_day_by_day_too(tmp_path: Any) -> None:
    clock = Clock()
    with closing(SQLAlchemyArchive(f"sqlite:///{tmp_path}/memory.db")) as archive:
        memory = sharing(archive, clock=clock, buffering=InlineBuffering())
        agent = SharedAgent(memory, InMemorySaver())
        told: dict[str, str] = {}
        for thread in [*["trips"] * 2, *["work"] * 4, *["home"] * 4, *["work"] * 2]:
            said_on = format_day(clock.now)
            agent.say(thread)
            keys = [str(message.id) for message in agent.state(thread)[1]]
            told.update({key: said_on for key in keys if key not in told})
            clock.advance(hours=30)
        agent.say("trips")
        record, _ = agent.state("trips")
        of_others = [group for group in record["log"] if group["thread_id"] != "trips"]
        assert len(of_others) >= 3
        assert len({group["id"] for group in record["log"]}) == len(record["log"])
        for group in of_others:
            assert headings(group["text"]) == list(
                dict.fromkeys(told[key] for ends in group["ranges"] for key in ends)
            )
        for thread in ("trips", "work", "home"):
            agent.say(thread)
            check_thread(agent, thread, archive=archive)
        shared, _ = archive.load_record(str(config("trips")["configurable"]["resource_id"]))
        assert shared is not None
        assert shared["version"] == 1


# --- What it is good for --------------------------------------------------------------------------


def test_a_date_leads_recall_to_the_messages_of_that_day() -> None:
    days = Days(messages=1000, log=100_000, retrieval=True)
    days.talk(24)
    prompt = days.agent.memory.llm_input_messages(days.state)
    text = prompt[0].text
    wanted = headings(days.state["om"]["log"][2]["text"])[0]
    block = next(
        part for part in re.split(r"(?=^Date: )", text, flags=re.MULTILINE) if wanted in part
    )
    found = re.search(r"^_range: `(.+):(.+)`_$", block, re.MULTILINE)
    assert found is not None
    first, last = found.groups()
    keys = [str(message.id) for message in days.state["messages"]]
    count = keys.index(last) - keys.index(first) + 1
    assert {days.day[key] for key in keys[keys.index(first) :][:count]} == {wanted}
    answer = days.agent.memory.recall(days.state, CONFIG, cursor=first, limit=count)
    assert answer["count"] == count
    month, day, year = wanted.replace(",", "").split()
    assert month == "Mar"
    told = set(re.findall(r"\((\d{4}-\d{2}-\d{2}) \d{2}:\d{2}\)", answer["messages"]))
    assert told == {f"{year}-03-{int(day):02}"}
