"""Orders that a user gives once, and twenty reflections later: which ones the Actor is still shown.

In the manner of ConstraintRot (orders said early, looked for after compactions), without a model:
what is measured is whether an order reaches the prompt, not whether a model obeys it.
By itself: `python tests/benchmarks/bench_standing.py [--quick] [--markdown]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from agents import PROMPT, on_thread
from conversation import COUNTER, Turn, conversation, tokens, turns
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from metered import Metered
from peers import Agent, deep, remembering, require, summarising
from report import Budget, Options, Report, show_alone

THRESHOLD = 600
"""Tokens of messages; of observations, a third more."""
REFLECTIONS = 20
"""How many stand between the orders and the last prompt."""
ORDERS = 5
SAID_AT_ONCE = 5
"""Messages of the user in each turn."""
PACKAGES = ("deepagents",)
FULL, NOW, BEFORE = "full history", "langgraph_om", "langgraph_om, standing_tokens=None"
_TEMPLATES = (
    "Never run anything against the database {code} without asking me first.",
    "From now on, always give prices for {code} in Danish crowns.",
    "Always call me before you change the booking {code}.",
    "Never mention the client {code} to anybody else.",
    "You may restart the server {code} whenever you like, but never at night.",
)
NOTES = f"""\
Each conversation has {ORDERS} orders, one in each of its first messages of the user, and goes on
until memory has reflected {REFLECTIONS} times; the others are given the same turns.
Thresholds: {THRESHOLD} tokens of messages, and of observations a third more.
Summariser and Observer are one extractive double: it quotes the most telling sentence of a message,
and is no better or worse in one place than in the other. So a summary loses an order here because
a summary of summaries has no place for it; how often a real model does, is not measured.
Word for word: orders whose whole sentence stands in the last prompt. Named: those of which it still
has the code, such as that of the database.
Tokens: of the last prompt, and of what memory's block of orders takes in it.""".splitlines()


def talk_on(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Let the user say several things before each answer, so that few turns make a long log."""
    answers = [message for message in messages if not isinstance(message, HumanMessage)]
    kept = {message.id for message in answers[SAID_AT_ONCE - 1 :: SAID_AT_ONCE]}
    return [each for each in messages if isinstance(each, HumanMessage) or each.id in kept]


def plant(messages: Sequence[BaseMessage], seed: int) -> tuple[list[BaseMessage], list[str]]:
    """Add an order to each of the first messages of the user, at any place in them."""
    random = Random(f"orders {seed}")  # noqa: S311 repeatable text, no secret
    left = [
        template.format(code=f"{random.choice('ABCDEFGH')}{random.choice('KLMNPR')}-{4000 + at}")
        for at, template in enumerate(_TEMPLATES)
    ]
    orders, told = [*left], list[BaseMessage]()
    for message in messages:
        if not isinstance(message, HumanMessage) or not left:
            told.append(message)
            continue
        sentences = re.split(r"(?<=[.?!]) ", message.text)
        sentences.insert(random.randint(0, len(sentences)), left.pop(0))
        told.append(message.model_copy(update={"content": " ".join(sentences)}))
    return told, orders


@dataclass
class Outcome:
    """What an agent shows at the ends of all conversations."""

    agent: str
    kept: int = 0
    named: int = 0
    orders: int = 0
    sizes: list[int] = field(default_factory=list)
    """Tokens of the last prompts."""
    prompts: int = 0
    """Tokens of all prompts of the Actor."""
    read: int = 0
    """Tokens of all prompts of the other models."""
    block: int = 0
    """Tokens of the orders in all of the last prompts."""
    fewest: int | None = None
    """Reflections, in the conversation that has the fewest."""

    def look(self, prompt: Sequence[BaseMessage], orders: Sequence[str]) -> None:
        """Count the orders in a last prompt."""
        text = "\n".join(message.text for message in prompt)
        codes = [re.findall(r"[A-Z]{2}-\d{4}", order)[0] for order in orders]
        self.orders += len(orders)
        self.kept += sum(order in text for order in orders)
        self.named += sum(code in text for code in codes)
        self.sizes.append(tokens(prompt))
        block = re.search(r"## Standing instructions.*?(?=\n\n<observations>|\Z)", text, re.DOTALL)
        self.block += COUNTER.count_text(block[0]) if block else 0


Make = Callable[[Metered, int, Any], Agent]
AGENTS: Mapping[str, Make] = {
    "langchain SummarizationMiddleware": summarising,
    "deepagents summarisation": deep,
    BEFORE: partial(remembering, buffering=False, standing_tokens=None),
    NOW: partial(remembering, buffering=False),
}


def play(make: Make, runs: Sequence[Turn], outcome: Outcome, orders: Sequence[str]) -> int:
    """Run turns until memory has reflected often enough, or all of them; return how many."""
    actor = Metered(actor=[answer for _, said in runs for answer in said])
    agent = make(actor, THRESHOLD, InMemorySaver())
    prompt: Sequence[BaseMessage] = []
    generation, done = None, 0
    try:
        for inputs, _ in runs:
            state = agent.graph.invoke({"messages": inputs}, on_thread())
            agent.after_turn()
            done += 1
            prompt = actor.calls[-1]["messages"]
            actor.measure()
            generation = state["om"]["generation"] if "om" in state else None
            if outcome.agent == NOW and generation == REFLECTIONS:
                break
        for model in agent.models:
            model.measure()
            outcome.read += model.prompts.tokens
    finally:
        agent.close()
    outcome.prompts += actor.prompts.tokens
    outcome.look(prompt, orders)
    if generation is not None:
        fewest = outcome.fewest
        outcome.fewest = generation if fewest is None else min(fewest, generation)
    return done


def show_all(runs: Sequence[Turn], outcome: Outcome, orders: Sequence[str]) -> None:
    """Work out the prompts of an agent that is shown the whole conversation."""
    said: list[BaseMessage] = [SystemMessage(PROMPT)]
    size = tokens(said)
    for inputs, answers in runs:
        said += inputs
        size += tokens(inputs)
        outcome.prompts += size
        said += answers
        size += tokens(answers)
    outcome.look(said[: len(said) - len(runs[-1][1])], orders)


def compare(
    seeds: Sequence[int], names: Sequence[str] = tuple(AGENTS), *, most: int = 900
) -> list[Outcome]:
    """Play conversations to agents.

    Args:
        seeds: Of the conversations, one each.
        names: The agents, beside the one with all of the history and memory itself.
        most: Messages of a conversation at most.
    """
    outcomes = {name: Outcome(name) for name in (FULL, *(n for n in names if n != NOW), NOW)}
    for seed in seeds:
        filler = conversation(most, words=30, seed=seed, calls_every=0)
        messages, orders = plant(talk_on(filler), seed)
        runs = turns(messages)
        done = play(AGENTS[NOW], runs, outcomes[NOW], orders)
        for name in names:
            if name != NOW:
                play(AGENTS[name], runs[:done], outcomes[name], orders)
        show_all(runs[:done], outcomes[FULL], orders)
    return list(outcomes.values())


def run(options: Options) -> Report:
    """Measure all agents."""
    require(*PACKAGES)
    return report_on(compare(range(options.pick(50, 3))))


def report_on(outcomes: Sequence[Outcome]) -> Report:
    found = {each.agent: each for each in outcomes}
    full, now = found[FULL], found[NOW]
    conversations = len(full.sizes)
    return Report(
        f"Orders of the user after {now.fewest} reflections, {conversations} conversations",
        [
            "agent",
            "word for word",
            "named",
            "last prompt, tokens",
            "of which orders",
            "all prompts, of full history",
            "read by other models, of full history",
        ],
        [
            [
                each.agent,
                f"{each.kept}/{each.orders}",
                f"{each.named}/{each.orders}",
                f"{sum(each.sizes) / conversations:,.0f}",
                f"{each.block / conversations:.0f}" if each.block else "-",
                f"{each.prompts / full.prompts:.2f}",
                f"{each.read / full.prompts:.2f}",
            ]
            for each in outcomes
        ],
        [
            Budget(
                f"orders in the last prompt after {REFLECTIONS} reflections",
                "all",
                f"{now.kept} of {now.orders}",
                now.kept == now.orders and now.fewest == REFLECTIONS,
            )
        ],
        NOTES,
        {each.agent: vars(each) for each in outcomes},
    )


if __name__ == "__main__":
    show_alone(run, "Look for orders in prompts, long after them.", "3 conversations instead of 50")
