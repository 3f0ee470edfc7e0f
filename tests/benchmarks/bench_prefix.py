"""How much of each prompt is an unchanged prefix of the one before, which a provider can cache."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agents import PROMPT, Graph, extractive, on_thread, remembering
from conversation import Turn, conversation, load, lookup, tokens, turns
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    MessageLikeRepresentation,
    convert_to_messages,
)
from langgraph.checkpoint.memory import InMemorySaver
from report import Budget, Options, Report

from langgraph_om import ObservationalMemory, create_memory_agent
from langgraph_om.testing import ScriptedChatModel

THRESHOLDS = (6_000, 2_000)
KEEP = 0.2
"""The part of the threshold that summarisation keeps; also what memory keeps by default."""
SUMMARY_WORDS, SUMMARY_LINES = 12, 40
"""How much of a message goes into a summary, and of how many; about 500 tokens in all."""
CACHE_MINUTES = 5.0
"""How long a provider keeps a prompt at least; Anthropic's default."""
_TAG = re.compile(r"<[^<>]{0,200}>")


@dataclass
class Reuse:
    """What the prompts of one conversation came to."""

    calls: int = 0
    characters: int = 0
    unchanged: int = 0
    in_time: int = 0
    """Of the unchanged characters, those of calls that came while a short cache had them."""
    tokens: int = 0
    largest: int = 0
    waits: int = 0
    """Model calls that a turn waited for, beside the Actor's."""
    _before: str = ""
    _at: float = 0.0

    @property
    def share(self) -> float:
        return self.unchanged / self.characters

    @property
    def share_in_time(self) -> float:
        return self.in_time / self.characters

    def add(self, prompt: Sequence[BaseMessage], at: float = 0.0) -> None:
        """Add a call; `at` is its time in minutes."""
        text = "".join(map(rendered, prompt))
        self.calls += 1
        self.characters += len(text)
        unchanged = common_prefix(text, self._before)
        self.unchanged += unchanged
        self.in_time += unchanged if at - self._at <= CACHE_MINUTES else 0
        self._at = at
        size = tokens(prompt)
        self.tokens += size
        self.largest = max(self.largest, size)
        self._before = text


def rendered(message: BaseMessage) -> str:
    """What a model reads of a message: who speaks, the text of its blocks, its tool calls."""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    texts = [block if isinstance(block, str) else block.get("text", "") for block in blocks]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return "".join([f"\n{message.type}: ", *texts, *map(json.dumps, calls)])


def common_prefix(one: str, other: str) -> int:
    """The length of what two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# --- The agents ----------------------------------------------------------------------------------


def replay(
    runs: Sequence[Turn],
    make: Callable[[ScriptedChatModel], Graph],
    after_turn: Callable[[], object] = lambda: None,
) -> Reuse:
    """Run a conversation through a graph, looking at what its model gets."""
    actor = ScriptedChatModel(actor=[answer for _, said in runs for answer in said])
    graph = make(actor)
    reuse = Reuse()
    for inputs, _ in runs:
        for part in graph.stream({"messages": inputs}, on_thread(), stream_mode="custom"):
            reuse.waits += part["type"] == "data-om-observation-start"
        for call in actor.calls:
            reuse.add(call["messages"])
        actor.calls.clear()
        after_turn()
    return reuse


def with_memory(runs: Sequence[Turn], threshold: int, *, buffering: bool) -> Reuse:
    memory: ObservationalMemory = remembering(
        extractive(), message_tokens=threshold, buffer_tokens=None if buffering else 0
    )

    def make(actor: ScriptedChatModel) -> Graph:
        return create_memory_agent(
            actor, [lookup], memory=memory, prompt=PROMPT, checkpointer=InMemorySaver()
        )

    # Waiting for jobs between turns stands for a user who reads, and makes runs repeatable.
    with memory:
        return replay(runs, make, memory.flush)


def summary(messages: list[BaseMessage]) -> str:
    """A summary that is as repeatable as the Observer: the start of what was said last."""
    text = "\n".join(message.text for message in messages).rpartition("<messages>")[2]
    lines = (_TAG.sub("", line).split()[:SUMMARY_WORDS] for line in text.splitlines())
    said = [" ".join(words) for words in lines if words and not words[0].startswith("{")]
    return "\n".join(said[-SUMMARY_LINES:])


def with_middleware(runs: Sequence[Turn], middleware: Sequence[Any]) -> Reuse:
    def make(actor: ScriptedChatModel) -> Graph:
        return create_agent(
            actor,
            [lookup],
            system_prompt=PROMPT,
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )

    return replay(runs, make)


def count(messages: Iterable[MessageLikeRepresentation]) -> int:
    return tokens(convert_to_messages(messages))


def with_summaries(runs: Sequence[Turn], threshold: int) -> Reuse:
    summarizer = ScriptedChatModel(actor=summary)
    middleware = SummarizationMiddleware(
        summarizer,
        trigger=("tokens", threshold),
        keep=("tokens", round(threshold * KEEP)),
        token_counter=count,
        trim_tokens_to_summarize=None,
    )
    reuse = with_middleware(runs, [middleware])
    reuse.waits = len(summarizer.calls)
    return reuse


# --- The report ----------------------------------------------------------------------------------


def run(options: Options) -> Report:
    if options.file is not None:
        messages = load(options.file)
    else:
        messages = conversation(options.pick(700, 250), words=30, seed=4)
    runs = turns(messages)
    found: dict[tuple[str, int], Reuse] = {}
    for threshold in THRESHOLDS:
        found["memory", threshold] = with_memory(runs, threshold, buffering=True)
        found["memory, buffering off", threshold] = with_memory(runs, threshold, buffering=False)
        found["summarisation", threshold] = with_summaries(runs, threshold)
    found["full history", 0] = with_middleware(runs, [])
    return Report(
        f"Unchanged prefix of prompts, {len(messages)} messages of {tokens(messages)} tokens",
        [
            "agent",
            "threshold",
            "calls",
            "prefix share",
            "prompt tokens",
            "not reused",
            "largest prompt",
            "waited for",
        ],
        [_row(name, threshold, reuse) for (name, threshold), reuse in found.items()],
        [_budget(found, threshold) for threshold in THRESHOLDS],
        [
            "Characters of the rendered prompts. Not reused: prompt tokens beyond the prefix.",
            "Waited for: blocking calls of the Observer or the summariser.",
        ],
        {f"{name}/{threshold}": vars(reuse) for (name, threshold), reuse in found.items()},
    )


def _row(name: str, threshold: int, reuse: Reuse) -> list[object]:
    return [
        name,
        threshold or "-",
        reuse.calls,
        f"{reuse.share:.3f}",
        reuse.tokens,
        round(reuse.tokens * (1 - reuse.share)),
        reuse.largest,
        reuse.waits,
    ]


def _budget(found: dict[tuple[str, int], Reuse], threshold: int) -> Budget:
    ours, theirs = found["memory", threshold], found["summarisation", threshold]
    return Budget(
        f"prompt text that is an unchanged prefix, at {threshold} tokens",
        f"> {theirs.share:.3f} (summarisation, {theirs.waits} blocking calls), 0 blocking calls",
        f"{ours.share:.3f}, {ours.waits} blocking calls",
        ours.share > theirs.share and not ours.waits,
    )
