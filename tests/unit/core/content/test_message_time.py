"""The rule that tells the time of a message, with ids as LangChain and providers give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_om.core.content.message_keys import Keyed, keyed_messages
from langgraph_om.core.content.message_time import message_time, times_of
from support.real_ids import real_conversations, write_uuid7

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def day(number: int) -> datetime:
    return NINE + timedelta(days=number)


def user(number: int) -> HumanMessage:
    """What a person says: an id without a time."""
    return HumanMessage("hello", id=str(UUID(int=number, version=4)))


def answer(at: datetime) -> AIMessage:
    """An answer in LangChain 1: an id with a time."""
    return AIMessage("hi", id=f"lc_run--{write_uuid7(at, 7)}-0")


def plain_answer(number: int) -> AIMessage:
    """An answer by the Responses API: an id without a time."""
    return AIMessage("hi", id=f"resp_{number:048x}")


def tell(messages: list[BaseMessage], **seen: datetime) -> list[datetime | None]:
    """The times of messages; `seen` names those with a stamp by their place, as `m2`."""
    keyed = keyed_messages(messages)
    stamps = {keyed[int(name[1:])][0]: at.isoformat() for name, at in seen.items()}
    return times_of(keyed, stamps, timezone=UTC)


def test_a_person_speaks_when_the_answer_is_given() -> None:
    messages = [user(1), answer(day(0)), user(2), answer(day(3)), user(3)]
    assert tell(messages) == [day(0), day(0), day(3), day(3), day(3)]


def test_a_stamp_dates_nothing_that_stands_before_it() -> None:
    adopted = [user(1), plain_answer(1), user(2), plain_answer(2)]
    assert tell(adopted, m2=day(30)) == [None, None, day(30), day(30)]
    off_for_days = [user(1), plain_answer(1), user(2), plain_answer(2), user(3)]
    assert tell(off_for_days, m0=day(0), m4=day(30)) == [day(0)] * 4 + [day(30)]


def test_no_later_time_is_looked_for_behind_a_stamp() -> None:
    messages = [user(1), answer(day(0)), user(2), user(3), answer(day(30))]
    assert tell(messages, m3=day(30))[2] == day(0)


def test_of_a_conversation_without_times_nothing_is_known() -> None:
    assert tell([user(1), plain_answer(1)]) == [None, None]
    assert tell([]) == []


@given(real_conversations(), st.data())
def test_the_rule_holds_in_every_mix(messages: list[BaseMessage], data: st.DataObject) -> None:
    keyed: Keyed = keyed_messages(messages)
    own = [message_time(message, key, {}, timezone=UTC) for key, message in keyed]
    undated = [key for (key, _), time in zip(keyed, own, strict=True) if time is None]
    stamped = data.draw(st.sets(st.sampled_from(undated))) if undated else set()
    stamps = {key: day(500).isoformat() for key in stamped}
    times = times_of(keyed, stamps, timezone=UTC)
    for (key, _), of_itself, time in zip(keyed, own, times, strict=True):
        assert of_itself is None or time == of_itself
        assert key not in stamps or time == day(500)
    known = [at for at, time in enumerate(times) if time is not None]
    assert known == list(range(known[0], len(times))) if known else not any([*own, *stamped])
    first = next((at for at, (key, _) in enumerate(keyed) if key in stamps), len(keyed))
    if not any(own[:first]):
        assert times[:first] == [None] * first, "what was there before memory came has no time"
