"""Models that need no provider: they quote. With them a run tests the plumbing, not memory's worth.

The Actor looks up what a group of observations was made from, then answers with the sentence that
shares most words with the question. The judge looks for the reference in the answer, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from itertools import pairwise

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from evaluation.rules import NOT_MENTIONED
from evaluation.stemming import stem
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

NAME = "offline"
RANGE = re.compile(r"_range: `(.+?):S\d")
OBSERVED = re.compile(r"<observations>.*</observations>", re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\\n|\n")
WORD = re.compile(r"\w{4,}")
SPEAKER = re.compile(r"^.{0,40}\b[A-Z]\w*: ")
LIMIT = re.compile(r"Write at most (\d+) words\.")
SUMMARY_WORDS = 12
SUMMARY_LINES = 60
NEEDED = 2
"""How many words a sentence has to share with the question to be an answer."""


def actor() -> ScriptedChatModel:
    """Return a model that plays the Actor."""
    return ScriptedChatModel(actor=_answer)


def memory_model() -> ScriptedChatModel:
    """Return a model that plays the Observer, the Reflector and the one that summarises."""
    return ScriptedChatModel(
        actor=_summary, observer=ExtractiveObserver().reply, reflector=ExtractiveReflector().reply
    )


def _answer(prompt: list[BaseMessage]) -> AIMessage:
    at = max(at for at, message in enumerate(prompt) if isinstance(message, HumanMessage))
    question = next((part for part in prompt[at].text.split("\n\n") if "?" in part), "")
    asked, memory = _stems(question), OBSERVED.search(prompt[0].text)
    looked_up = [message.text for message in prompt if isinstance(message, ToolMessage)]
    if memory and not looked_up and (cursor := _best_range(memory[0], asked)):
        call = {"name": "recall", "args": {"cursor": cursor, "limit": 20}, "id": "call-1"}
        return AIMessage("", tool_calls=[call])
    said = [m.text for m in prompt[:at] if not isinstance(m, SystemMessage)]
    texts = [memory[0] if memory else "", *said, *looked_up]
    best, shared = _best([text.replace(question, "") for text in texts], asked)
    return AIMessage(SPEAKER.sub("", best) if shared >= NEEDED else NOT_MENTIONED)


def _best(texts: Sequence[str], asked: set[str]) -> tuple[str, int]:
    """Return the statement that has most of the words, and how many."""
    said = [part for text in texts for part in SENTENCE_END.split(text)]
    told = [part for part in said if not part.endswith("?") and not part.startswith("[A session")]
    best = max(told, key=lambda part: len(asked & _stems(part)), default="")
    return best, len(asked & _stems(best))


def _best_range(memory: str, asked: set[str]) -> str | None:
    """Return the first message behind the observations that have most of the words."""
    ends = [0, *(found.end() for found in RANGE.finditer(memory))]
    firsts = [found[1] for found in RANGE.finditer(memory)]
    groups = [_best([memory[start:end]], asked)[1] for start, end in pairwise(ends)]
    return firsts[groups.index(max(groups))] if groups else None


def _stems(text: str) -> set[str]:
    return {stem(word) for word in WORD.findall(text.lower())}


def _summary(prompt: list[BaseMessage]) -> str:
    """Keep the beginnings of the newest messages, and of a former summary."""
    limit = LIMIT.search(prompt[-1].text)
    lines_left = min(SUMMARY_LINES, int(limit[1]) // SUMMARY_WORDS) if limit else SUMMARY_LINES
    said = prompt[-1].text.partition("Messages to summarize:")[2]
    while said != (plain := unescape(said)):
        said = plain
    lines = re.sub(r"<[^>]*>", "", said).splitlines()
    told = [line.split()[:SUMMARY_WORDS] for line in lines if len(line.split()) > NEEDED]
    return "\n".join(" ".join(words) for words in told[-max(1, lines_left) :])
