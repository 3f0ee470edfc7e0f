"""Memory beside what a user would pick instead: one conversation, the same models, the same sizes.

By itself: `python tests/benchmarks/bench_peers.py [--quick] [--room N]`.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agents import on_thread
from conversation import Turn, conversation, turns
from facts import Fact, words_of
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from metered import CACHE_MINUTES, Reuse, rendered
from peers import (
    AGENTS,
    BILLED,
    FULL,
    PACKAGES,
    Agent,
    Make,
    Metered,
    answered,
    require,
)
from report import Report, markdown, text_table
from turns import new_saver, stored_bytes

THRESHOLDS = (6_000, 2_000)
CACHED_PRICE, OUTPUT_PRICE = 0.1, 5.0
"""What a token costs that is read from the provider's cache, and one that is written, against one
that is read anew. Providers ask for about these."""
SMALL_PRICE = 0.2
"""What a token of a small model costs, against the Actor's; providers ask for about this."""
PAUSE_EVERY, PAUSE_MINUTES = 5, 60.0
"""A turn in so many comes after a pause that no short cache survives; others after a minute."""
FACT_EVERY = 7
"""In which messages of a generated conversation a fact is told; odd, so that both tell some."""
QUESTION = "Before we stop: what do you remember of all the things I told you?"
KIB = 1024
NOTES = f"""\
The summariser and the Observer are the same rule: it quotes the most telling sentence of a message
in up to 16 words, and condenses by weight. Which facts stay in a prompt follows from that rule and
from the room there is, not from what real models would keep.
A summary has the room of the messages kept beside it, 20 % of the threshold (langmem keeps none, it
has no option for it); memory's log is condensed at 4/3 of the threshold, its default proportion.
Unchanged prefix: of the prompts' text, what stood there in the call before as well.
Billed: a token from the cache costs {CACHED_PRICE:g}, a written one {OUTPUT_PRICE:g}. The calls of
summariser, Observer and Reflector are in it; the Actor's answers and tool definitions are not.
The same, small model: their tokens at {SMALL_PRICE:g} of the Actor's price. And short cache: one of
{CACHE_MINUTES:g} minutes, with an hour's pause before each {PAUSE_EVERY}th turn.
CPU: own time per call of the Actor, all models' left out, less that of full history.
By one tool call: `recall`, or `read_file` of what deepagents put aside, with the best arguments
that the prompt allows; whether a model would choose them is not measured.""".splitlines()


# --- What is asked at the end --------------------------------------------------------------------

_PLANTED = (
    "The code for {thing} in {place} is {code}.",
    "{name} wrote down {code} as the number of the locker.",
    "Ask for {code} when you call about {thing}.",
    "Our booking with {name} has the reference {code}.",
    "The key with the label {code} opens the door in {place}.",
)
_THINGS = ("the bicycle", "the server", "the contract", "the camera", "the shelf", "the report")
_PLACES = ("Lisbon", "Kyoto", "Bergen", "Quito", "Tartu", "Cork", "Oaxaca")
_NAMES = ("Ana", "Jonas", "Mei", "Farid", "Olga", "Priya", "Kofi")


def with_facts(messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], list[Fact]]:
    """Add a sentence with a code of its own to some messages, at any place in them."""
    random = Random("facts")  # noqa: S311 repeatable text, no secret
    told: list[BaseMessage] = []
    facts: list[Fact] = []
    spoken = 0
    for message in messages:
        is_speech = message.type != "tool" and message.text
        spoken += bool(is_speech)
        if not is_speech or spoken % FACT_EVERY:
            told.append(message)
            continue
        code = f"{random.choice('ABCDEFGH')}{random.choice('KLMNPR')}-{1000 + len(facts) * 7}"
        sentence = random.choice(_PLANTED).format(
            thing=random.choice(_THINGS),
            place=random.choice(_PLACES),
            name=random.choice(_NAMES),
            code=code,
        )
        sentences = re.split(r"(?<=[.?!]) ", message.text)
        sentences.insert(random.randint(0, len(sentences)), sentence)
        text = " ".join(sentences)
        told.append(message.model_copy(update={"content": text}))
        facts.append(Fact(str(message.id), text, words_of(code)))
    return told, facts


# --- Replaying -----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What one agent came to over a conversation."""

    agent: str
    threshold: int
    prompts: Reuse
    sizes: list[int] = field(default_factory=list)
    """Tokens of the last prompt of each turn."""
    minutes: float = 0.0
    """When the last turn was, by the clock of the conversation."""
    waits: int = 0
    """Model calls that a turn waited for, beside the Actor's."""
    extra_calls: int = 0
    extra: list[Reuse] = field(default_factory=list)
    """The prompts of each model beside the Actor's."""
    extra_output: int = 0
    read: int = 0
    """Tokens of all prompts beside the Actor's, at no other price."""
    seconds: float = 0.0
    """The processor's time in all turns, without that in models."""
    bytes: int = 0
    answers: int = 0
    facts: int = 0
    shown: int = 0
    """Facts in the last prompt."""
    reached: int = 0
    """Facts in the last prompt, or in the answer to one tool call."""

    @property
    def turns(self) -> int:
        return len(self.sizes)

    @property
    def billed(self) -> float:
        """What all calls cost, in tokens that are read anew; the Actor's answers left out."""
        return self.bill()

    def bill(self, price: float = 1.0, *, is_cache_short: bool = False) -> float:
        """The same where the models beside the Actor's are cheaper, or the cache forgets."""
        others = sum(read_price(each, is_cache_short=is_cache_short) for each in self.extra)
        own = read_price(self.prompts, is_cache_short=is_cache_short)
        return own + price * (others + OUTPUT_PRICE * self.extra_output)


def read_price(prompts: Reuse, *, is_cache_short: bool = False) -> float:
    if not prompts.calls:
        return 0.0
    share = prompts.share_in_time if is_cache_short else prompts.share
    return prompts.tokens * (1 - share * (1 - CACHED_PRICE))


def replay(
    name: str,
    threshold: int,
    runs: Sequence[Turn],
    facts: Sequence[Fact],
    agents: Mapping[str, Make] = AGENTS,
) -> Outcome:
    """Run a conversation through an agent, ask at the end, and look up what is not shown."""
    calls: list[BaseMessage] = []
    actor = Metered(
        actor=[
            *(answer for _, said in runs for answer in said),
            "That is what I remember.",
            lambda _: calls.pop(),  # type: ignore[arg-type, return-value]
            "Now I know more.",
        ]
    )
    outcome = Outcome(name, threshold, actor.prompts)
    with new_saver() as saver:
        agent = agents[name](actor, threshold, saver)
        try:
            closing: Turn = ([HumanMessage(QUESTION, id="closing")], [])
            for inputs, _ in [*runs, closing]:
                prompt = _turn(agent, actor, inputs, outcome)
            outcome.bytes = stored_bytes(saver.conn)
            _judge_models(agent, outcome)
            _ask(agent, prompt, facts, calls, outcome)
        finally:
            agent.close()
    return outcome


def _turn(
    agent: Agent, actor: Metered, inputs: list[BaseMessage], outcome: Outcome
) -> Sequence[BaseMessage]:
    """Run one turn, and return the last prompt in it."""
    models = [actor, *agent.models]
    in_models = sum(model.seconds for model in models)
    started = time.process_time()
    parts = list(agent.graph.stream({"messages": inputs}, on_thread(), stream_mode="custom"))
    agent.after_turn()
    spent = time.process_time() - started
    outcome.seconds += spent - (sum(model.seconds for model in models) - in_models)
    outcome.waits += sum(part["type"] == "data-om-observation-start" for part in parts)
    prompt = actor.calls[-1]["messages"]
    outcome.minutes += PAUSE_MINUTES if outcome.turns % PAUSE_EVERY == 0 else 1.0
    outcome.sizes.append(actor.measure(outcome.minutes)[-1])
    for model in agent.models:
        model.measure(outcome.minutes)
    outcome.answers += 1
    agent.note()
    return prompt


def _judge_models(agent: Agent, outcome: Outcome) -> None:
    for model in agent.models:
        model.measure(outcome.minutes)
        outcome.extra_calls += model.prompts.calls
        outcome.extra.append(model.prompts)
        outcome.extra_output += model.written
        outcome.read += model.prompts.tokens
    if agent.waits:
        outcome.waits = outcome.extra_calls


def _ask(
    agent: Agent,
    prompt: Sequence[BaseMessage],
    facts: Sequence[Fact],
    calls: list[BaseMessage],
    outcome: Outcome,
) -> None:
    """See which facts the last prompt holds, and let the agent look up each of the others."""
    text = "".join(map(rendered, prompt))
    words = words_of(text)
    missing = [fact for fact in facts if not fact.is_in(text, words)]
    outcome.facts = len(facts)
    outcome.shown = outcome.reached = len(facts) - len(missing)
    values: Mapping[str, Any] = agent.graph.get_state(on_thread()).values
    wanted = {fact.message_id: agent.look_up(text, values, fact) for fact in missing}
    asked = [{**call, "id": key, "type": "tool_call"} for key, call in wanted.items() if call]
    if not asked:
        return
    calls.append(AIMessage("", tool_calls=asked))
    after = agent.graph.invoke(
        {"messages": [HumanMessage("Look it all up.", id="look-up")]}, on_thread()
    )
    found = answered(after["messages"])
    for fact in missing:
        answer = found.get(fact.message_id, "")
        outcome.reached += fact.is_in(answer, words_of(answer))


# --- The report ----------------------------------------------------------------------------------


def compare(
    messages: Sequence[BaseMessage],
    facts: Sequence[Fact],
    *,
    agents: Mapping[str, Make] = AGENTS,
    thresholds: Sequence[int] = THRESHOLDS,
) -> list[Outcome]:
    """Replay a conversation through agents, full history once and the others at each threshold."""
    runs = turns(messages)
    replayed = {str(each.id) for inputs, said in runs for each in (*inputs, *said)}
    asked = [fact for fact in facts if fact.message_id in replayed]
    return [
        replay(name, threshold, runs, asked, agents)
        for number, threshold in enumerate(thresholds)
        for name in agents
        if name != FULL or number == 0
    ]


COLUMNS = [
    "agent",
    "threshold",
    "prompt tokens",
    "of full history",
    "largest prompt",
    "unchanged prefix",
    "billed",
    "of full history",
    "the same, small model",
    "and short cache",
    "calls waited for",
    "other calls",
    "CPU per call, beyond bare",
    "checkpoint per turn",
    "facts in the prompt",
    "or by one tool call",
]


def bill_at(room: int, *, quick: bool) -> Report:
    """Bill a conversation at one room for what is remembered, by price and by cache."""
    require("deepagents")
    messages, facts = with_facts(conversation(160 if quick else 500, words=60, seed=4))
    found = compare(messages, facts, agents=BILLED, thresholds=[room])
    full = found[0]

    def share(each: Outcome, price: float, *, is_cache_short: bool) -> str:
        own = each.bill(price, is_cache_short=is_cache_short)
        return f"{own / full.bill(is_cache_short=is_cache_short):.2f}"

    def row(each: Outcome) -> list[object]:
        shares = [
            share(each, price, is_cache_short=short)
            for short in (False, True)
            for price in (1.0, SMALL_PRICE)
        ]
        prompts = f"{each.prompts.tokens / full.prompts.tokens:.2f}"
        facts = f"{each.shown} / {each.reached}"
        return [each.agent, f"{each.sizes[-1]:,}", prompts, *shares, each.waits, facts]

    told = ("long cache", "the same, small model", "five minutes", "the same, small model")
    return Report(
        f"Bills at a room of {room:,} tokens, {full.turns} turns, full history {full.sizes[-1]:,},"
        f" {full.facts} facts",
        ["agent", "last prompt", "prompts", *told, "turns that wait", "facts, or by one call"],
        [row(each) for each in found],
        NOTES,
    )


def run(*, quick: bool) -> Report:
    """Measure all agents."""
    require(*PACKAGES)
    outcomes = compare(*with_facts(conversation(160 if quick else 700, words=30, seed=4)))
    return report_on(outcomes)


def report_on(outcomes: Sequence[Outcome]) -> Report:
    full = outcomes[0]
    return Report(
        f"Memory beside its peers, {full.turns} turns, {full.facts} facts",
        COLUMNS,
        [_row(each, full) for each in outcomes],
        NOTES,
    )


def _row(each: Outcome, full: Outcome) -> list[object]:
    beyond = each.seconds / each.prompts.calls - full.seconds / full.prompts.calls
    return [
        each.agent,
        "-" if each is full else each.threshold,
        f"{each.prompts.tokens:,}",
        f"{each.prompts.tokens / full.prompts.tokens:.2f}",
        f"{each.prompts.largest:,}",
        f"{each.prompts.share:.3f}",
        f"{each.billed:,.0f}",
        f"{each.billed / full.billed:.2f}",
        f"{each.bill(SMALL_PRICE) / full.bill():.2f}",
        f"{each.bill(SMALL_PRICE, is_cache_short=True) / full.bill(is_cache_short=True):.2f}",
        each.waits,
        each.extra_calls - each.waits,
        "-" if each is full else f"{beyond * 1000:+.1f} ms",
        f"{each.bytes / each.turns / KIB:,.0f} KiB",
        f"{each.shown}/{each.facts}",
        f"{each.reached}/{each.facts}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare memory with what a user may pick.")
    parser.add_argument("--quick", action="store_true", help="a shorter conversation")
    parser.add_argument("--room", type=int, metavar="N", help="bills at this room alone")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    chosen = parser.parse_args()
    quick = chosen.quick
    report = bill_at(chosen.room, quick=quick) if chosen.room else run(quick=quick)
    print(markdown(report) if chosen.markdown else text_table(report))  # noqa: T201 its output


if __name__ == "__main__":
    main()
