"""The laws of memory over random conversations, latencies, failures, restarts, forks and edits."""

from __future__ import annotations

import json
from copy import deepcopy

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.config.options import ObservationConfig
from langgraph_om.core.effects import AskModel
from langgraph_om.core.record.fold import fold
from langgraph_om.core.record.record import MAX_RANGES
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.testing import check_message_sequence
from support.examples import count_examples
from support.real_ids import NAMINGS, Naming
from support.simulation import GOOD, NOTHING, Reply, Simulation, settings

LONGER = GOOD.replace("something", "many more things than before, one after the other")
REPLIES: dict[str, Reply] = {
    "good": GOOD,
    "longer": LONGER,
    "nothing": NOTHING,
    "empty": "",
    "prose": "I could not find anything to say about this, sorry.",
    "loop": "the same words again and again " * 200,
    "down": RuntimeError("the model is down"),
}


class Conversations(RuleBasedStateMachine):
    """One thread whose user, models, processes and checkpoints do as they like."""

    @initialize(
        buffer=st.sampled_from([0.1, 0.2, 0.5, False]),
        activation=st.sampled_from([0.3, 0.8, 1.0]),
        latency=st.integers(0, 8),
        log=st.sampled_from([40, 150]),
        thinks=st.booleans(),
        naming=NAMINGS,
    )
    def start(
        self,
        *,
        buffer: float,
        activation: float,
        latency: int,
        log: int,
        thinks: bool,
        naming: Naming,
    ) -> None:
        options = ObservationConfig(buffer_tokens=buffer, buffer_activation=activation)
        self.simulation = Simulation(
            settings(
                message_tokens=300,
                observation_tokens=log,
                buffer_tokens=options.buffer_tokens,
                buffer_activation=activation,
            ),
            answers=self._answer,
            latency=latency,
            thinks=thinks,
            naming=naming,
        )
        self.reply = "good"
        self.forks = 0
        self.points: list[tuple[MemoryRecord, list[BaseMessage]]] = []
        self.record_before: MemoryRecord = self.simulation.record

    def _answer(self, call: AskModel) -> Reply:
        return REPLIES[self.reply]

    # --- What may happen ---

    @rule(words=st.integers(1, 150), tools=st.integers(0, 2))
    def user_turn(self, words: int, tools: int) -> None:
        before = self.simulation.record
        cursor = before["cursor"]
        self.simulation.say(words, tools=tools)
        self._cursor_never_moves_back(cursor)

    @rule(reply=st.sampled_from(sorted(REPLIES)))
    def model_changes(self, reply: str) -> None:
        self.reply = reply

    @rule(latency=st.integers(0, 12))
    def latency_changes(self, latency: int) -> None:
        self.simulation.latency = latency

    @rule()
    def restart(self) -> None:
        self.simulation.restart()

    @rule()
    def checkpoint(self) -> None:
        self.points.append(self.simulation.snapshot())

    @precondition(lambda self: self.points)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        record, messages = data.draw(st.sampled_from(self.points))
        # The same continuation of the same point gives the same memory, whatever happened since.
        outcomes = []
        for _ in range(2):
            self.simulation.go_back((record, messages))
            self.simulation.made = 10_000
            self.simulation.restart()
            self.simulation.step_number = 500
            self.simulation.say(40)
            outcomes.append(self.simulation.record)
        assert outcomes[0] == outcomes[1]
        self.simulation.go_back((record, messages))
        self.simulation.events.clear()
        self.forks += 1
        self.simulation.made = 20_000 + 1000 * self.forks

    # A group joins more ranges than it may have in pairs, and knows no order of those that were
    # observed late: too few of them are then said to be covered.
    @precondition(lambda self: self.simulation.messages and self._ranges < MAX_RANGES - 8)
    @rule(words=st.integers(1, 60), count=st.integers(1, 3))
    def history_is_loaded_late(self, words: int, count: int) -> None:
        self.simulation.load_history(words, count)

    @precondition(lambda self: self.simulation.window.entries)
    @rule(data=st.data())
    def user_edits_an_unobserved_message(self, data: st.DataObject) -> None:
        humans = [
            entry.key
            for entry in self.simulation.window.entries
            if isinstance(entry.message, HumanMessage)
        ]
        if humans:
            key = data.draw(st.sampled_from(humans))
            at = [message.id for message in self.simulation.messages].index(key)
            self.simulation.messages[at] = HumanMessage("edited text", id=key)

    @property
    def _ranges(self) -> int:
        return sum(len(group["ranges"]) for group in self.simulation.record["log"])

    # --- What must hold ---

    def _cursor_never_moves_back(self, cursor: list[str]) -> None:
        order = {message.id: at for at, message in enumerate(self.simulation.messages)}
        now = self.simulation.record["cursor"]
        if cursor:
            assert order[now[-1]] >= order[cursor[-1]]

    @invariant()
    def every_message_is_covered_exactly_once(self) -> None:
        assert set(self.simulation.coverage()) <= {1}

    @invariant()
    def every_observed_message_was_read(self) -> None:
        assert self.simulation.unread() == []

    @invariant()
    def live_request_is_in_the_prompt(self) -> None:
        humans = [m for m in self.simulation.messages if isinstance(m, HumanMessage)]
        if humans:
            assert any(message is humans[-1] for message in self.simulation.prompt())

    @invariant()
    def prompt_is_a_valid_sequence(self) -> None:
        prompt = self.simulation.prompt()
        if self.simulation.messages:
            assert check_message_sequence(prompt, "openai") == []
            assert check_message_sequence(prompt, "anthropic") == []

    @invariant()
    def reasoning_stands_where_it_was_made(self) -> None:
        assert self.simulation.misplaced == []

    @invariant()
    def record_is_json(self) -> None:
        record = self.simulation.record
        assert json.loads(json.dumps(record)) == record

    @invariant()
    def events_fold_to_the_same_record_again(self) -> None:
        record = self.simulation.record
        before = deepcopy(record)
        kinds = ("observation-end", "activation")
        done = [event for event in self.simulation.events[-6:] if event["type"] in kinds]
        repeated = fold(record, [done])
        assert repeated["log"] == record["log"]
        assert repeated["cursor"] == record["cursor"]
        assert record == before


TestConversations = Conversations.TestCase
TestConversations.settings = hypothesis_settings(
    deadline=None, max_examples=count_examples(40), stateful_step_count=40
)
