"""Models that measure themselves, and a summariser that notes what the Observer would."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from conversation import COUNTER, tokens
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr

from langgraph_om.testing import ExtractiveObserver, ExtractiveReflector, ScriptedChatModel

KEEP = 0.2
"""The part of the threshold that summarisation keeps; also what memory keeps by default."""
CACHE_MINUTES = 5.0
"""How long a provider keeps a prompt at least; Anthropic's default."""


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


class Metered(ScriptedChatModel):
    """A scripted model that measures its prompts, its answers and the time in it.

    The time is that of the calling thread, so that other threads may work meanwhile.
    """

    _prompts: Reuse = PrivateAttr(default_factory=Reuse)
    _written: list[int] = PrivateAttr(default_factory=list)
    _seconds: list[float] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> Reuse:
        """What the prompts came to, of calls that were measured."""
        return self._prompts

    @property
    def written(self) -> int:
        """Tokens of all answers."""
        return sum(self._written)

    @property
    def seconds(self) -> float:
        return sum(self._seconds)

    def measure(self, at: float = 0.0) -> list[int]:
        """Add the calls since the last time, of this minute; return the size of each prompt."""
        sizes: list[int] = []
        for call in self.calls:
            before = self._prompts.tokens
            self._prompts.add(call["messages"], at)
            sizes.append(self._prompts.tokens - before)
        self.calls.clear()
        return sizes

    def invoke(
        self,
        input: LanguageModelInput,  # noqa: A002 the name is the base class's
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        started = time.thread_time()
        try:
            return super().invoke(input, config, stop=stop, **kwargs)
        finally:
            self._seconds.append(time.thread_time() - started)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        self._written.append(tokens([result.generations[0].message]))
        return result


# --- A summariser --------------------------------------------------------------------------------

# What langchain, deepagents and langmem put around the messages and the summary before.
_XML = re.compile(r'<message type="(\w+)"[^>]{0,200}>(.*?)</message>', re.DOTALL)
_CONTENT = re.compile(r"<content>(.*?)</content>", re.DOTALL)
_TOOL_CALL = re.compile(r'<tool_call [^>]{0,200}name="([^"]*)">(.*?)</tool_call>', re.DOTALL)
_NOTE = re.compile(r"(?:^|: )(\* [🔴🟡🟢✅].*|  \* .*)$", re.MULTILINE)
_SUMMARY = ("Here is a summary of the conversation", "You are in the middle of a conversation")
_SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool result lookup"}


@dataclass(frozen=True, slots=True)
class Summariser:
    """Writes what the Observer would, and condenses it as the Reflector would."""

    room: int
    """Tokens of a summary."""

    def reply(self, messages: list[BaseMessage]) -> str:
        transcript = "\n".join(f"{who}: {_indented(text)}" for who, text in _said(messages) if text)
        answer = ExtractiveObserver().reply(
            [HumanMessage(f"<conversation>\n{transcript}\n</conversation>")]
        )
        shown = unescape("\n".join(message.text for message in messages))
        return self._condensed("\n".join([*_NOTE.findall(shown), *_NOTE.findall(answer)]))

    def _condensed(self, text: str) -> str:
        size = COUNTER.count_text(text)
        if size <= self.room:
            return text
        log = HumanMessage(f"<observation-log>\n{text}\n</observation-log>")
        answer = ExtractiveReflector(ratio=self.room / size).reply([log])
        return "\n".join(line for line in answer.splitlines() if line.startswith("* "))


def _said(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, str]]:
    """Yield who said what, without summaries: their lines are carried over as they are."""
    in_text = messages[-1].text.rpartition("\n<messages>\n")[2]
    for kind, body in _XML.findall(in_text):
        content = _CONTENT.search(body)
        calls = _TOOL_CALL.findall(body)
        text = unescape(content[1] if content else "" if calls else body)
        if not text.startswith(_SUMMARY):
            yield _SPEAKERS[kind], text
        for name, arguments in calls:
            yield f"Tool call {name}", unescape(arguments)
    # langmem shows messages as they are, and asks at the end.
    for message in messages[:-1]:
        if message.type in _SPEAKERS:
            yield _SPEAKERS[message.type], message.text
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            yield f"Tool call {call['name']}", str(call["args"])


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def summariser(threshold: int, part: float = KEEP) -> Metered:
    """A summariser whose summaries are as long as what is kept of the messages, or another part."""
    return Metered(actor=Summariser(round(threshold * part)).reply)
