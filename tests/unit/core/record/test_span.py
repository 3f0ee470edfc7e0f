"""What a look has read of a window saves the next look time, and changes nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_om.core.actor.prompt import assemble, make_view, track_head
from langgraph_om.core.config.settings import Identity, Parts
from langgraph_om.core.content.blocks import mark_other_view
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import blank_record
from langgraph_om.core.record.span import NO_TRAITS, Span, find_safe_cuts
from langgraph_om.core.record.window import Window, digest_entries, digest_run, open_window
from langgraph_om.core.step.inspect import count_and_collect
from langgraph_om.core.step.step import Step
from langgraph_om.core.wire import Head, MemoryRecord
from langgraph_om.features.gaps import Gaps
from langgraph_om.runtime.state import MAX_SPANS, Recent
from support import groups
from support.edits import edited
from support.examples import examples
from support.flows import NOW, setup
from support.words import Words

SETTINGS = setup()
GAPS = Parts(gaps=Gaps())
"""Marks of gaps, where they are not taken out."""


def look(record: MemoryRecord, messages: list[BaseMessage], before: Span | None = None) -> Step:
    step = Step(SETTINGS, record, messages, Identity("t"), NOW, before=before)
    count_and_collect(step)
    return step


def observed(record: MemoryRecord, seen: Step, stop: int) -> MemoryRecord:
    """The memory once the first messages of the window are observed."""
    entries, number = seen.window.entries[:stop], len(record["log"])
    group = groups.group(
        f"g{number}",
        "* x",
        ranges=[[entries[0].key, entries[-1].key]],
        observed_at=NOW.isoformat(),
        tokens=2,
    )
    return edited(
        record, {"log": [*record["log"], group], "cursor": seen.window.cursor_after(stop)}
    )


class View(NamedTuple):
    """What the Actor is shown, and the head that is kept of it."""

    head: Head
    messages: list[BaseMessage]


def view(
    record: MemoryRecord, messages: list[BaseMessage], window: Window, limit: int | None
) -> View:
    settings = replace(SETTINGS, max_input_tokens=limit, parts=GAPS)
    made = make_view(settings, record, messages, window, NOW)
    head = track_head(record, made, NOW)
    stepped = fold(record, [{"type": "stepped", "request": None, "step": 0, "head": head}])
    return View(head, assemble(made, stepped))


class Story:
    """A conversation that goes on, is observed, and is tampered with."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.record = blank_record()
        self.former = self.record
        self.messages: list[BaseMessage] = []
        self.number = 0

    def act(self, name: str) -> None:
        getattr(self, name)()

    def pick(self) -> int | None:
        top = len(self.messages) - 1
        return self.data.draw(st.integers(0, top)) if self.messages else None

    def key(self) -> str | None:
        self.number += 1
        kind = self.data.draw(st.sampled_from(["own"] * 9 + ["none", "same", "long"]))
        if kind == "same" and self.messages:
            return self.messages[-1].id
        return None if kind == "none" else f"{'x' * 600 if kind == 'long' else 'm'}{self.number}"

    def say(self) -> None:
        self.messages = [*self.messages, HumanMessage(f"said {self.number}", id=self.key())]
        self.messages = [*self.messages, AIMessage(f"answer {self.number}", id=self.key())]

    def return_late(self) -> None:
        said = {"created_at": (NOW + timedelta(hours=2 * self.number)).isoformat()}
        late = HumanMessage("late", id=self.key(), additional_kwargs=said)
        self.messages = [*self.messages, late]

    def think(self) -> None:
        blocks = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"text": "x"}]
        self.messages = [*self.messages, AIMessage(blocks[: self.number % 2 + 1], id=self.key())]

    def try_again(self) -> None:
        answer = mark_other_view(AIMessage(f"shorter {self.number}", id=self.key()))
        self.messages = [*self.messages, answer]

    def call(self) -> None:
        call_id = self.data.draw(st.sampled_from(["1", "2"]))
        call: Any = {"name": "look", "args": {}, "id": call_id}
        self.messages = [*self.messages, AIMessage("", id=self.key(), tool_calls=[call])]

    def result(self) -> None:
        call_id = self.data.draw(st.sampled_from(["1", "2"]))
        result = ToolMessage("found", tool_call_id=call_id, id=self.key())
        self.messages = [*self.messages, result]

    def instruct(self) -> None:
        self.messages = [*self.messages, SystemMessage("be kind", id=self.key())]

    def rewrite(self) -> None:
        at = self.pick()
        if at is not None:
            new = self.messages[at].model_copy(update={"content": f"rewritten {self.number}"})
            self.messages = [*self.messages[:at], new, *self.messages[at + 1 :]]

    def change_in_place(self) -> None:
        at = self.pick()
        if at is not None:
            self.messages[at].content = f"changed {self.number}"

    def name_in_place(self) -> None:
        at = self.pick()
        if at is not None:
            self.messages[at].id = f"named {self.number}"

    def remove(self) -> None:
        at = self.pick()
        if at is not None:
            self.messages = [*self.messages[:at], *self.messages[at + 1 :]]

    def insert(self) -> None:
        at = self.pick() or 0
        new = HumanMessage("late", id=self.key())
        self.messages = [*self.messages[:at], new, *self.messages[at:]]

    def load(self) -> None:
        self.messages = [message.model_copy() for message in self.messages]

    def go_back(self) -> None:
        self.record = self.former

    def forget_counts(self) -> None:
        cache = self.record["token_cache"]
        counts = {key: count for at, (key, count) in enumerate(cache["counts"].items()) if at % 2}
        self.record = edited(self.record, {"token_cache": {**cache, "counts": counts}})

    def recount(self) -> None:
        cache = self.record["token_cache"]
        counts = {key: [digest, tokens + 1] for key, (digest, tokens) in cache["counts"].items()}
        self.record = edited(self.record, {"token_cache": {**cache, "counts": counts}})


ACTS = st.sampled_from(
    [
        *["say"] * 8,
        *("call", "call", "result", "result", "return_late", "think", "think", "try_again"),
        *("instruct", "rewrite", "change_in_place", "name_in_place", "remove", "insert", "load"),
        *("go_back", "forget_counts", "recount"),
    ]
)


@examples(200)
@given(st.data(), st.lists(st.lists(ACTS, max_size=4), max_size=8))
def test_a_window_is_the_same_with_what_an_earlier_look_has_read(
    data: st.DataObject, rounds: list[list[str]]
) -> None:
    story, span = Story(data), None
    for acts in [["say", "say"], *rounds]:
        for act in acts:
            story.act(act)
        if data.draw(st.booleans()):  # a look ahead: nothing of it is in the record
            span = look(story.record, story.messages, span).window.span
            story.messages = [*story.messages[:-1], story.messages[-1].model_copy()]
        fresh = look(story.record, story.messages)
        seen = look(story.record, story.messages, span)
        assert (seen.window, seen.events) == (fresh.window, fresh.events)
        assert seen.record == fresh.record
        check_span(seen.window.span)
        limit = data.draw(st.sampled_from([None, None, 10, 40]))
        shown = view(seen.record, story.messages, seen.window, limit)
        assert shown == view(fresh.record, story.messages, fresh.window, limit)
        stepped = {"type": "stepped", "request": seen.window.request, "step": 0, "head": shown.head}
        story.former, span = story.record, seen.window.span
        story.record = fold(seen.record, [stepped])
        for is_counted in (False, True):
            anew = open_window(story.record, story.messages, Words(), is_counted=is_counted)
            known = open_window(
                story.record, story.messages, Words(), is_counted=is_counted, before=span
            )
            assert known == anew
        cuts = seen.window.span.cuts
        if cuts and not seen.window.strays.messages and data.draw(st.booleans()):
            story.record = observed(story.record, seen, data.draw(st.sampled_from(cuts)))


def test_digests_and_cuts_stay_right_when_the_window_moves_on() -> None:
    messages: list[BaseMessage] = [HumanMessage(f"word{at}", id=f"m{at}") for at in range(7)]
    seen = look(blank_record(), messages)
    assert seen.window.span.cuts
    digest_run(seen.window, 2, 5)
    longer = [*messages, AIMessage("answer", id="m7")]
    extended = look(seen.record, longer, seen.window.span)
    assert extended.window.span.digests == seen.window.span.digests
    digest_run(extended.window, 5, 8)
    assert (5, 8) not in seen.window.span.digests
    check_span(extended.window.span)
    record = observed(seen.record, seen, 2)
    check_span(look(record, longer, seen.window.span).window.span)


def test_what_was_read_is_kept_for_few_threads_and_forgotten_with_them() -> None:
    spans, span = Recent[Span](MAX_SPANS), look(blank_record(), []).window.span
    for number in range(MAX_SPANS + 1):
        spans.keep(f"r{number}", span)
    assert spans.recall("r0") is None
    assert spans.recall("r1") is span
    spans.clear()
    assert spans.recall("r1") is None


def check_span(span: Span) -> None:
    """Check all that a span keeps against what is worked out anew."""
    entries = span.entries
    assert span.cuts == find_safe_cuts(entries)
    assert [span.find(entry.key) for entry in entries] == [*range(len(entries))]
    assert span.traits == NO_TRAITS.extend(entry.message for entry in entries)
    for (start, stop), digest in span.digests.items():
        assert digest == digest_entries(entries[start:stop])
    for stop in range(len(entries) + 1):
        assert span.sums[stop] - span.sums[0] == sum(entry.tokens for entry in entries[:stop])


def test_only_new_messages_are_read() -> None:
    messages: list[BaseMessage] = [HumanMessage("one", id="m0"), AIMessage("two", id="m1")]
    seen = look(blank_record(), messages)
    counter = Words()
    more = [*messages, HumanMessage("three", id="m2")]
    window = open_window(seen.record, more, counter, before=seen.window.span)
    assert counter.counted == ["m2"]
    assert window.entries[:2] == seen.window.entries
    assert window.entries[0] is seen.window.entries[0]


def calling(value: object) -> AIMessage:
    call = {"name": "f", "args": {"x": value}, "id": "c"}
    return AIMessage("", id="a", tool_calls=[call])


def test_a_message_that_is_replaced_by_an_equal_one_is_the_new_one() -> None:
    said = [HumanMessage("q", id="q"), calling(1), ToolMessage("r", tool_call_id="c", id="r")]
    first = look(blank_record(), said)
    said[1] = calling(True)  # noqa: FBT003 equal to 1, and another argument
    then = look(first.record, said, first.window.span)
    assert then.window.entries[1].message is said[1]
    assert then.window.entries[1].digest != first.window.entries[1].digest


def test_reasoning_that_is_added_in_place_does_not_stay_behind_another_head() -> None:
    said = [HumanMessage("q", id="q"), AIMessage("a", id="a"), HumanMessage("z", id="z")]
    said[1].response_metadata = {"model": "claude"}
    first = look(blank_record(), said)
    said[1].additional_kwargs["thinking"] = {"signature": "s"}
    then = look(first.record, said, first.window.span)
    head = {**view(then.record, said, then.window, None).head, "after": "z", "seen": "z"}
    record = edited(then.record, {"head": head})
    shown = view(record, said, then.window, None).messages
    assert all(not message.additional_kwargs for message in shown if message.type == "ai")
