"""Models that need no provider: they quote. With them a run tests the plumbing, not memory's worth.

The Actor looks up what a group of observations was made from, then answers with the sentence that
shares most words with the question. The judge looks for the reference in the answer, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import unescape
from itertools import pairwise

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from evaluation.formats import Question
from evaluation.probing import FAILED, holds, normalise
from evaluation.rules import NOT_MENTIONED
from evaluation.stemming import stem
from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

NAME = "offline"
LOOKED_FOR = {
    "error": "Exit code error failed",
    "files": "file has been updated created",
    "next": "Agent task list",
    "rules": "always never don't want make sure",
}
"""What a reader of sessions searches for; else the words of the question."""
PAGES = 3
RANGE = re.compile(r"_range: `(.+?):S\d")
OBSERVED = re.compile(r"<observations>.*</observations>", re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\\n|\n")
WORD = re.compile(r"\w{4,}")
SPEAKER = re.compile(r"^.{0,40}\b[A-Z]\w*: ")
LIMIT = re.compile(r"Write at most (\d+) words\.")
SUMMARY_WORDS = 720
"""Of a summary that has no limit."""
SHORTENED = 8
MESSAGE = re.compile(r'<message type="(\w+)"[^>]*>(.*?)</message>', re.DOTALL)
CALLED = re.compile(r'<tool_call [^>]*?name="([^"]+)"[^>]*>(.*?)</tool_call>', re.DOTALL)
FORMER = re.compile(
    r"\A(?:Here is a summary of the conversation to date:|.*?<summary>)(.*?)(?:</summary>|\Z)",
    re.DOTALL,
)
"""A summary of before, as langchain and deepagents put it in front of the messages."""
SAID = {"human": "User", "ai": "Assistant", "tool": "Tool result"}
QUOTED = re.compile(r"<observations>(.*?)</observations>", re.DOTALL)
NEEDED = 2
"""How many words a sentence has to share with the question to be an answer."""


def actor() -> ScriptedChatModel:
    """Return a model that plays the Actor."""
    return ScriptedChatModel(actor=_answer)


def reader(questions: Sequence[Question]) -> ScriptedChatModel:
    """Return an Actor that answers with those keys of a probe that it can read in its prompt.

    Where one is missing and it has `recall`, it searches, and reads three pages at most.

    Args:
        questions: All that it is asked. It has no other use of the keys than to look for them.
    """
    return ScriptedChatModel(actor=partial(_read, questions))


def _read(questions: Sequence[Question], prompt: list[BaseMessage]) -> AIMessage:
    at = max(at for at, message in enumerate(prompt) if isinstance(message, HumanMessage))
    asked = prompt[at].text
    question = next(each for each in questions if asked.endswith(each.text))
    shown = [message for place, message in enumerate(prompt) if place != at]
    text = normalise("\n".join(f"{each.text}\n{_written(each)}" for each in shown))
    found = [key for key in question.keys if holds(text, key)]
    memory = OBSERVED.search(prompt[0].text)
    calls = [
        call for each in prompt[at:] if isinstance(each, AIMessage) for call in each.tool_calls
    ]
    page = 1 + (calls[-1]["args"]["page"] if calls else 0)
    if len(found) < len(question.keys) and page <= PAGES and memory and RANGE.search(memory[0]):
        query = LOOKED_FOR.get(question.category) or question.text
        arguments = {"mode": "search", "query": query, "page": page}
        call = {"name": "recall", "args": arguments, "id": f"call-{page}"}
        return AIMessage("", tool_calls=[call])
    return AIMessage("\n".join(" ".join(key) for key in found) or NOT_MENTIONED)


def _written(message: BaseMessage) -> str:
    """Return what a message's calls of tools are called with."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return "\n".join(str(value) for call in calls for value in call["args"].values())


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
    """Keep a former summary and add quotations, as the doubles of memory quote and shorten."""
    limit = LIMIT.search(prompt[-1].text)
    words = int(limit[1]) if limit else SUMMARY_WORDS
    former, said = "", []
    for kind, body in MESSAGE.findall(prompt[-1].text.partition("Messages to summarize:")[2]):
        text = _unescape(body)
        if found := FORMER.search(text):
            former = found[1].strip()
            continue
        calls = CALLED.findall(text)
        said += [f"Tool call {name}: {_indent(arguments)}" for name, arguments in calls]
        if plain := CALLED.sub("", text).strip():
            head = "Tool error" if kind == "tool" and FAILED.match(plain) else SAID[kind]
            said.append(f"{head}: {_indent(plain)}")
    quoted = ExtractiveObserver().reply([_block("conversation", "\n".join(said))])
    log = "\n".join(filter(None, [former, _inside(quoted)]))
    for _ in range(SHORTENED):
        if len(log.split()) <= words:
            break
        log = _inside(ExtractiveReflector().reply([_block("observation-log", log)]))
    return " ".join(log.split(" ")[:words]) or "Nothing of note."


def _inside(answer: str) -> str:
    found = QUOTED.search(answer)
    return found[1].strip() if found else ""


def _block(tag: str, text: str) -> HumanMessage:
    return HumanMessage(f"<{tag}>\n{text}\n</{tag}>")


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _unescape(text: str) -> str:
    while text != (plain := unescape(text)):
        text = plain
    return text
