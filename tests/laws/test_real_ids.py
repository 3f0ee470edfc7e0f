"""The first law with ids and times as LangChain and providers give them, in every mix."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from langgraph_om import InlineBuffering, ObservationalMemory
from langgraph_om.core.content.message_keys import keyed_messages
from langgraph_om.core.record.window import open_window
from langgraph_om.testing import ScriptedChatModel
from support.clock import Clock
from support.examples import examples
from support.real_ids import real_conversations
from support.words import Words

NOTE = "<observations>\nDate: Mar 2, 2026\n* 🔴 (09:00) User said it\n</observations>"


def remembering(*, is_buffering: bool) -> ObservationalMemory:
    return ObservationalMemory(
        ScriptedChatModel(observer=lambda _: NOTE, reflector=lambda _: NOTE),
        observation={"message_tokens": 60, "buffer_tokens": 0.3 if is_buffering else False},
        reflection={"observation_tokens": 40},
        token_counter=Words(),
        buffering=InlineBuffering(),
        clock=Clock(),
    )


def times_covered(record: Any, keys: list[str], window: set[str]) -> list[int]:
    """How often each message is covered: by a range of the log, or by the window."""
    places = {key: at for at, key in enumerate(keys)}
    counts = [int(key in window) for key in keys]
    for group in record["log"]:
        for first, last in group["ranges"]:
            for at in range(places[first], places[last] + 1):
                counts[at] += 1
    return counts


@examples(40)
@given(real_conversations(max_exchanges=14), st.data())
def test_every_message_is_in_the_window_or_covered_once(
    messages: list[BaseMessage], data: st.DataObject
) -> None:
    memory = remembering(is_buffering=data.draw(st.booleans()))
    looks = [at + 1 for at, message in enumerate(messages) if message.type == "human"]
    missed = data.draw(st.sets(st.sampled_from(looks[:-1]))) if looks[1:] else set()
    record = None
    for count in (at for at in looks if at not in missed):  # memory is off in some of the turns
        record = memory.step(record, messages[:count], thread_id="t").record
        window = open_window(record, messages[:count], Words())
        keys = [key for key, _ in keyed_messages(messages[:count])]
        covered = times_covered(record, keys, {entry.key for entry in window.entries})
        assert covered == [1] * count, dict(zip(keys, covered, strict=True))
        assert not record["observed"] or not record["observed"]["strays"]
