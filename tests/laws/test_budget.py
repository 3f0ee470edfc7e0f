"""Whatever models and people do, the Actor is sent no more than a token budget allows for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import EstimatingCounter, InlineBuffering, ObservationalMemory
from langgraph_om.errors import ItemError
from langgraph_om.testing import (
    ExtractiveObserver,
    ExtractiveReflector,
    ScriptedChatModel,
    check_message_sequence,
)
from support.agents import SYSTEM, Graph, on_thread, values
from support.clock import Clock
from support.examples import examples
from support.inside import (
    CONTINUATION_ID,
    count_instructions,
    count_messages,
    open_window,
    runner_of,
)
from support.laws.doors import DOORS, build

COUNTER = EstimatingCounter()
PLAN = re.compile(r"\[(\d+) lookups of (\d+)\]")


def _write_much(_: Sequence[BaseMessage], mark: str = "") -> str:
    items = "\n".join(
        f"* {mark}(09:0{at % 10}) Wrote on {at} March 2026 of {'many things ' * (at % 7)}&c <b>"
        for at in range(30)
    )
    task = f"<current-task>{'Go on. ' * 40}</current-task>"
    return f"<observations>\nDate: Mar 2, 2026\n{items}\n</observations>\n{task}"


def _is_away(_: Sequence[BaseMessage]) -> str:
    msg = "the model is away"
    raise ConnectionError(msg)


OBSERVERS: dict[str, Callable[[list[BaseMessage]], str]] = {
    "good": ExtractiveObserver().reply,
    "writes much": _write_much,
    "all is important": lambda messages: _write_much(messages, "🔴 "),
    "away": _is_away,
    "nonsense": lambda _: "Sure! Anything else?",
}
REFLECTORS: dict[str, Callable[[list[BaseMessage]], str]] = {
    "good": ExtractiveReflector().reply,
    "frees nothing": lambda _: "<edits>\n</edits>",
    "away": _is_away,
    "nonsense": lambda _: "Sure! Anything else?",
}


class Phase(NamedTuple):
    """Some turns with the same models and the same kind of talk."""

    turns: int
    observer: str
    reflector: str
    words: int
    gives_orders: bool
    lookups: int
    result: int
    act: str


phases = st.builds(
    Phase,
    turns=st.integers(2, 12),
    observer=st.sampled_from([*OBSERVERS]),
    reflector=st.sampled_from([*REFLECTORS]),
    words=st.sampled_from((3, 20, 80, 300)),
    gives_orders=st.booleans(),
    lookups=st.integers(0, 3),
    result=st.sampled_from((3, 100, 400)),
    act=st.sampled_from(("none", "none", "remember", "pin")),
)


@dataclass
class World:
    """An agent with a budget, the threads of two users, and models in moods."""

    door: str
    budget: int
    storage: dict[str, Any]
    options: dict[str, Any]
    observer: str = "good"
    reflector: str = "good"
    said: int = 0
    read: set[str] = field(default_factory=set)
    """The numbers of the messages that the Observer was shown, and answered."""
    made: Counter[str | None] = field(default_factory=Counter)
    """How many calls the Actor has made for a message."""

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.model = ScriptedChatModel(self._act, observer=self._observe, reflector=self._reflect)
        self.memory = ObservationalMemory(
            self.model,
            token_budget=self.budget,
            buffering=InlineBuffering(),
            clock=self.clock,
            **self.storage,
            **self.options,
        )
        self.graph: Graph = build(self.door, self.memory, self.model, InMemorySaver())  # type: ignore[arg-type]

    def _observe(self, messages: list[BaseMessage]) -> str:
        answer = OBSERVERS[self.observer](messages)
        if self.observer != "nonsense":
            self.read.update(re.findall(r"fact-\d+", "\n".join(each.text for each in messages)))
        return answer

    def _reflect(self, messages: list[BaseMessage]) -> str:
        return REFLECTORS[self.reflector](messages)

    def _act(self, messages: list[BaseMessage]) -> AIMessage:
        request = find_request(messages)
        plan = PLAN.search(request.text)
        if plan is None or self.made[request.id] >= int(plan[1]):
            return AIMessage("Noted, I will keep that in mind.")
        self.made[request.id] += 1
        label = f"{request.id}.{self.made[request.id]}"
        args = {"size": int(plan[2]), "label": label, "key": f"{label}-result"}
        return AIMessage("", tool_calls=[{"name": "look_up", "args": args, "id": label}])

    def talk(self, phase: Phase, thread: str) -> None:
        """Some turns, in each of which the law is asked."""
        self.observer, self.reflector = phase.observer, phase.reflector
        config = on_thread(thread, resource_id=thread[0])
        for _ in range(phase.turns):
            self.said += 1
            at = self.said
            text = (
                f"I saw fact-{at} in Porto, {at * 13} euros. {'It is long. ' * (phase.words // 3)}"
            )
            text += f"And never book rooms above floor {at}. " if phase.gives_orders else ""
            text += f"[{phase.lookups} lookups of {phase.result}]"
            calls = len(self.model.calls)
            said = HumanMessage(text, id=f"user-{at}")
            self.graph.invoke({"messages": [said]}, config)
            for call in self.model.calls[calls:]:
                if call["role"] == "actor":
                    self.check(call["messages"], f"user-{at}")
        if self.door == "step":
            return
        handle = self.memory.of(self.graph, config)
        if phase.act == "remember":
            handle.remember(f"Ana has {self.said} cats. " * 5)
        elif phase.act == "pin":
            try:
                handle.pin_message(f"user-{self.said}")
            except ItemError:
                event("no room to pin")

    def check(self, sent: list[BaseMessage], request: str) -> None:
        """Whatever is sent keeps to the budget, holds the live request and is a valid sequence."""
        found = find_request(sent)
        assert found.id == request
        assert check_message_sequence(sent, "openai") == []
        assert check_message_sequence(sent, "anthropic") == []
        live = count_messages(COUNTER, [found, *after(sent, found)])
        fixed = count_instructions(runner_of(self.memory).settings)
        fixed += COUNTER.count_message(SystemMessage(SYSTEM))
        size = count_messages(COUNTER, sent)
        if "oldest observations are left out" in sent[0].text:
            event("observations are left out")
        if any("are left out" in each.text for each in sent if each.id == CONTINUATION_ID):
            event("messages are left out")
        assert size <= self.budget * 1.2 + live + fixed


def find_request(messages: Sequence[BaseMessage]) -> BaseMessage:
    """The newest message of the user."""
    said = [each for each in messages if each.type == "human" and str(each.id)[:5] == "user-"]
    return max(said, key=lambda message: int(str(message.id).partition("-")[2]))


def after(messages: Sequence[BaseMessage], request: BaseMessage) -> list[BaseMessage]:
    """What followed a message of the user, wherever that is shown."""
    at = next(at for at, each in enumerate(messages) if each is request)
    return [*messages[at + 1 :]]


STORAGES: tuple[dict[str, Any], ...] = (
    {},
    {"archive": "sqlite:///:memory:"},
    {"archive": "sqlite:///:memory:", "scope": "resource"},
    {"archive": "sqlite:///:memory:", "scope": "resource", "evict": True},
)

worlds = st.builds(
    World,
    door=st.sampled_from(DOORS),
    budget=st.integers(900, 4000),
    storage=st.sampled_from(STORAGES),
    options=st.fixed_dictionaries(
        {
            "retrieval": st.sampled_from((False, True, "auto", {"inject": True})),
            "gap_markers": st.booleans(),
            "continuation_hints": st.booleans(),
        },
        optional={"share_token_budget": st.booleans()},
    ),
)


threads = st.sampled_from(("a1", "a1", "a2", "b1"))
"""Of the users `a` and `b`."""


@given(worlds, st.lists(st.tuples(phases, threads), min_size=2, max_size=5))
@examples(5)
def test_the_prompt_keeps_to_the_budget_and_nothing_is_lost(
    world: World, story: list[tuple[Phase, str]]
) -> None:
    for phase, thread in story:
        world.talk(phase, thread)
    # As soon as the models work again, all that is not in sight any more was read.
    healthy = Phase(12, "good", "good", 80, gives_orders=False, lookups=0, result=3, act="none")
    for thread in {thread for _, thread in story}:
        world.talk(healthy, thread)
        state = values(world.graph, on_thread(thread))
        window = open_window(state["om"], state["messages"], COUNTER)
        recent = {entry.key for entry in window.entries}
        said = [each for each in state["messages"] if isinstance(each, HumanMessage)]
        left = [each for each in said if each.id not in recent]
        facts = {fact for each in left for fact in re.findall(r"fact-\d+", each.text)}
        assert facts <= world.read
    world.memory.close()
