"""When things were said, as the Observer and the Actor are told it, with ids as they really are."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel
from support.real_ids import write_uuid7

MAY_1 = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
CONFIG: Any = {"configurable": {"thread_id": "t", "resource_id": "ana"}}
OFF: Any = {"configurable": {**CONFIG["configurable"], "om_enabled": False}}


class Calendar:
    """A clock that stands still until a day has passed."""

    def __init__(self) -> None:
        self.now = MAY_1

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, count: int = 1) -> None:
        self.now += timedelta(days=count)


class Actor(BaseChatModel):
    """Answers with ids as LangChain 1 makes them, or as the Responses API does: with no time."""

    calendar: Any
    is_timed: bool = True
    _llm_type = "actor"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        now = self.calendar() + timedelta(minutes=1)
        number = uuid4().int
        key = f"lc_run--{write_uuid7(now, number)}-0" if self.is_timed else f"resp_{number:048x}"
        answer = AIMessage(f"answered on {now:%b} {now.day} " + "so " * 30, id=key)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def remembering(calendar: Calendar, **options: Any) -> tuple[ObservationalMemory, Any]:
    note = "<observations>\nDate: May 1, 2026\n* 🔴 (09:00) User said it\n</observations>"
    observer = ScriptedChatModel(observer=lambda _: note)
    observation = {"message_tokens": 300, "buffer_tokens": False}
    memory = ObservationalMemory(observer, clock=calendar, observation=observation, **options)
    return memory, observer


def request(calendar: Calendar) -> HumanMessage:
    day = f"{calendar.now:%b} {calendar.now.day}"
    return HumanMessage(f"said on {day} " + "word " * 30)  # `add_messages` gives it a uuid4


def transcripts(observer: Any) -> str:
    """All that the Observer was shown."""
    return "\n".join(
        call["messages"][-1].text.partition("<conversation>")[2]
        for call in observer.calls
        if call["role"] == "observer"
    )


def headings(transcript: str) -> list[tuple[str, str]]:
    """Per message, the heading it stands under and the day on which it was really said."""
    found, heading = [], ""
    for line in transcript.splitlines():
        if line.startswith("Date: "):
            heading = line.removeprefix("Date: ").removesuffix(", 2026")
        elif told := re.search(r"(?:said|answered) on (\w+ \d+)", line):
            found.append((heading, told[1]))
    return found


def talk(graph: Any, calendar: Calendar, turns: int, config: Any = CONFIG) -> list[AnyMessage]:
    """One turn a day."""
    for _ in range(turns):
        said = graph.invoke({"messages": [request(calendar)]}, config)["messages"]
        calendar.pass_days()
    return list(said)


def test_an_adopted_thread_is_dated_by_its_answers() -> None:
    calendar, saver = Calendar(), InMemorySaver()
    memory, observer = remembering(calendar)
    graph = create_memory_agent(Actor(calendar=calendar), memory=memory, checkpointer=saver)
    talk(graph, calendar, 15, OFF)
    talk(graph, calendar, 1)
    found = headings(transcripts(observer))
    assert len(found) > 15
    assert all(heading == said for heading, said in found), found


class CalendarSaver(InMemorySaver):
    """Writes checkpoints when the calendar says."""

    def __init__(self, calendar: Calendar) -> None:
        super().__init__()
        self.calendar = calendar

    def put(self, config: Any, checkpoint: Any, *args: Any) -> Any:
        return super().put(config, {**checkpoint, "ts": self.calendar().isoformat()}, *args)


@pytest.mark.parametrize("is_imported", [False, True])
async def test_a_thread_without_times_is_adopted_by_those_of_its_checkpoints(
    *, is_imported: bool
) -> None:
    calendar = Calendar()
    memory, observer = remembering(calendar)
    actor = Actor(calendar=calendar, is_timed=False)
    saver = CalendarSaver(calendar)
    graph = create_memory_agent(actor, memory=memory, checkpointer=saver)
    said = talk(graph, calendar, 15, OFF)
    calendar.pass_days(30)
    config = CONFIG
    if is_imported:  # all in one go: nobody knows when it was said
        config = {"configurable": {"thread_id": "copy", "resource_id": "ana"}}
        graph.update_state(config, {"messages": said}, as_node="__start__")
        graph.update_state(config, None, as_node="__end__")
    thread = memory.of(graph, config)
    report = await thread.aadopt() if is_imported else thread.adopt()
    assert report.observed_tokens > 300
    found = headings(transcripts(observer))
    assert len(found) > 15
    if is_imported:
        assert not any("May" in heading or "Jun" in heading for heading, _ in found), found
    else:
        assert all(heading == said for heading, said in found), found


# --- Where the messages are kept -----------------------------------------------------------------


def recalled(memory: ObservationalMemory, values: Any, thread: str = "t") -> list[tuple[str, str]]:
    """Per message of a thread, the day that recall tells and the day on which it was really said.

    A user's messages come before the answers of the same day.
    """
    found: list[tuple[str, str]] = []
    asked: Any = {"limit": 5, "page": 1}
    if memory.archive is not None:
        asked["thread_id"] = thread
    while True:
        answer = memory.recall(values, CONFIG, **asked)
        heads = re.findall(
            r"^\*\*\w+(?: \((\S+) \S+\))?\*\* .*\n.*?(?:said|answered) on (\w+ \d+)",
            answer["messages"],
            re.MULTILINE,
        )
        found += [(day and f"{datetime.fromisoformat(day):%b %-d}", said) for day, said in heads]
        if not answer["has_next_page"]:
            return found
        asked["page"] += 1


@pytest.mark.parametrize("archive", [None, "sqlite://"])
@pytest.mark.parametrize("is_timed", [True, False])
def test_recall_tells_when_observed_messages_were_said(
    *, archive: str | None, is_timed: bool
) -> None:
    calendar = Calendar()
    memory, observer = remembering(calendar, retrieval=True, archive=archive)
    actor = Actor(calendar=calendar, is_timed=is_timed)
    graph = create_memory_agent(actor, memory=memory, checkpointer=InMemorySaver())
    talk(graph, calendar, 12)
    # Answers without a time are dated by their request.
    shown = headings(transcripts(observer))
    assert len(shown) > 12
    assert all(heading == said for heading, said in shown), shown
    values = graph.get_state(CONFIG).values
    assert len(values["om"]["log"]) > 1
    found = recalled(memory, values)
    assert len(found) == 24
    assert all(told == said for told, said in found), found
