"""Conversations for benchmarks: English chat over several days, with facts and tool calls.

The same arguments give the same conversation, so that two runs differ only in what they measure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from random import Random

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import tool

from langgraph_om import EstimatingCounter
from langgraph_om.core.tokens import count_messages

START = datetime(2026, 1, 5, 8, 30, tzinfo=UTC)
COUNTER = EstimatingCounter()

_NAMES = ("Ana", "Jonas", "Mei", "Farid", "Olga", "Tom", "Priya", "Lucas", "Ines", "Kofi")
_PLACES = ("Lisbon", "Kyoto", "Bergen", "Quito", "Tbilisi", "Cork", "Oaxaca", "Tartu", "Hobart")
_THINGS = (
    "the budget sheet", "a used bicycle", "the staging server", "a sourdough recipe",
    "the marathon plan", "a rental contract", "the onboarding guide", "an old camera",
    "the kitchen shelf", "a translation of the manual", "the quarterly report",
)  # fmt: skip
_USER = (
    "My {kin} {name} moved to {place} in {year}, and since then we talk about {thing} every week.",
    "I paid {number} euros for {thing}, which is {small} more than I had planned.",
    "We are going to {place} on the {small}th and stay for {days} nights with {name}.",
    "Please remember that {name} is allergic to peanuts and can not eat after {small} o'clock.",
    "The last version of {thing} broke again, with error {number} on line {small}.",
    "I changed my mind about {place}: it is too far, and {name} prefers the train anyway.",
    "Yesterday I ran {small} kilometres along the river and felt surprisingly good about it.",
    "Can you help me decide between {thing} and whatever {name} suggested for {place}?",
    "What would you do first if you had only {days} days left for {thing}?",
)
_ASSISTANT = (
    "Noted, {name} and {place} are on the list, and {thing} comes right after that.",
    "For {thing} I would set aside {number} euros and {days} days, in this order of priority.",
    "The simplest way is to start small: one draft, one review by {name}, then the rest.",
    "Error {number} usually means that the connection was closed before {thing} was read.",
    "In {place} the museums are closed on Mondays, so the {small}th would be the better day.",
    "That is a good sign; keep the pace for another {days} days and then add some distance.",
    "Here is what I would check: the date, the amount of {number}, and who signed {thing}.",
)


def _sentence(random: Random, templates: Sequence[str]) -> str:
    return random.choice(templates).format(
        name=random.choice(_NAMES),
        place=random.choice(_PLACES),
        thing=random.choice(_THINGS),
        kin=random.choice(("sister", "neighbour", "colleague", "uncle")),
        year=random.randint(1998, 2025),
        number=random.randint(100, 9999),
        small=random.randint(2, 28),
        days=random.randint(2, 14),
    )


def _text(random: Random, templates: Sequence[str], words: int) -> str:
    """A text of about so many words, half as many or half as many more."""
    size = random.uniform(0.5, 1.5) * words
    sentences = [_sentence(random, templates)]
    while sum(len(sentence.split()) for sentence in sentences) < size:
        sentences.append(_sentence(random, templates))
    return " ".join(sentences)


def lookup_result(query: str) -> str:
    """What the tool answers; it follows from the query alone."""
    random = Random(query)  # noqa: S311 repeatable text, no secret
    rows = [
        {"place": random.choice(_PLACES), "price": random.randint(10, 900), "stars": index}
        for index in range(1, 5)
    ]
    return json.dumps({"query": query, "rows": rows})


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return lookup_result(query)


def conversation(
    count: int, *, words: int = 30, prefix: str = "m", seed: int = 1, calls_every: int = 8
) -> list[BaseMessage]:
    """A conversation of so many messages.

    Args:
        count: How many messages, tool calls and results included.
        words: The mean length of what the user and the Actor write.
        prefix: Of the message ids.
        seed: Another seed is another conversation.
        calls_every: In which turns the Actor calls a tool first; 0: never.
    """
    random = Random(f"{seed}/{words}")  # noqa: S311 repeatable text, no secret
    messages: list[BaseMessage] = []
    now, turn = START, 0
    while len(messages) < count:
        turn += 1
        # A few exchanges in a row, then hours or a night in between.
        now += timedelta(minutes=random.randint(1, 4) if random.random() < 0.9 else 700)
        for message in _turn(
            random, words, turn, calls=bool(calls_every) and turn % calls_every == 0
        ):
            message.id = f"{prefix}{len(messages):05}"
            message.additional_kwargs["created_at"] = now.isoformat()
            messages.append(message)
            now += timedelta(seconds=random.randint(5, 40))
    return messages[:count]


def _turn(random: Random, words: int, number: int, *, calls: bool) -> Iterator[BaseMessage]:
    yield HumanMessage(_text(random, _USER, words))
    if calls:
        query = f"{random.choice(_THINGS)} in {random.choice(_PLACES)}"
        call = {"name": "lookup", "args": {"query": query}, "id": f"call-{number}"}
        yield AIMessage("", tool_calls=[call])
        result = lookup_result(query)
        yield ToolMessage(result, tool_call_id=f"call-{number}", name="lookup")
    yield AIMessage(_text(random, _ASSISTANT, words))


def tokens(messages: Sequence[BaseMessage]) -> int:
    return count_messages(COUNTER, messages)


# --- Replaying -----------------------------------------------------------------------------------

Turn = tuple[list[BaseMessage], list[AIMessage]]
"""What goes into one run of a graph, and what the Actor says in it."""


def turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """Cut a conversation into runs, each from someone's words to the Actor's last answer to them.

    Tool results are left out, the tool says them again. What the Actor says unasked, and what comes
    after its last answer, goes along with the next input or is left out at the end.
    """
    cut: list[Turn] = []
    rest = list(messages)
    while rest:
        spoken = list(takewhile(lambda message: not isinstance(message, HumanMessage), rest))
        spoken += takewhile(lambda m: isinstance(m, HumanMessage), rest[len(spoken) :])
        rest = rest[len(spoken) :]
        answers: list[AIMessage] = []
        while rest and not (answers and not answers[-1].tool_calls):
            message = rest.pop(0)
            if isinstance(message, AIMessage):
                answers.append(message)
        if answers and not answers[-1].tool_calls:
            cut.append((spoken, answers))
    return cut
