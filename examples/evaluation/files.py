"""A role played through files: each question is written to one, and its answer is read from one.

So any model, or a person, can play any role, without a key and at any pace. A question is
`0007-observer-3f2a91bc04de.question.txt`, and its answer, once somebody wrote it, stands beside it
as `0007-observer-3f2a91bc04de.answer.txt`. The number says in which order questions came up. What
follows the role is made from the question alone, so a run that is started again finds the answer.
An answer counts once its step is over; to change one after that, begin with another `--work`.

A run stops at a question without an answer, or stays and looks for it (`--answers-stay`).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_om import EstimatingCounter

NAME = "file"
DIGEST = 12
QUESTION, ANSWER = ".question.txt", ".answer.txt"
KNOWN = re.compile(rf"(\d+)-(\w+-[0-9a-f]{{{DIGEST}}}){re.escape(QUESTION)}")
RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LOOK = 0.2
"""Seconds between two looks for an answer."""
CALL = re.compile(r"call (\w+) (\{.*\})")
HOW_TO_CALL = """\
To call tools, answer with nothing but lines of this form, one for each call:
call NAME {"argument": "value"}"""


class UnansweredError(BaseException):
    """A question has no answer yet. No failure of a model, so nothing goes on without it."""


class Mailbox:
    """The folder with questions and answers.

    Args:
        folder: Where they are.
        stays: Whether a question waits until somebody has answered it.
    """

    def __init__(self, folder: Path, *, stays: bool = False) -> None:
        self.missing: dict[str, None] = {}
        """The stems of questions that were asked and have no answer, in order."""
        self.folder = folder
        self._stays = stays
        self._lock = threading.Lock()
        found = [KNOWN.fullmatch(path.name) for path in sorted(folder.glob(f"*{QUESTION}"))]
        self._numbers = {match[2]: match[1] for match in found if match}

    def ask(self, role: str, question: str) -> str:
        """Return the answer to a question, which is written down unless it was before.

        Raises:
            UnansweredError: When nobody has answered it, and it does not wait for that.
        """
        digest = hashlib.sha256(_without_random_ids(question).encode()).hexdigest()[:DIGEST]
        with self._lock:
            stem = self._find_stem(f"{role}-{digest}")
            asked, answered = (self.folder / f"{stem}{end}" for end in (QUESTION, ANSWER))
            if not asked.exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                asked.write_text(question, encoding="utf-8")
        answer = _read(answered)
        if not answer and self._stays:
            print(f"waiting for {answered}", file=sys.stderr, flush=True)
            while not answer:
                time.sleep(LOOK)
                answer = _read(answered)
        if not answer:
            self.missing[stem] = None
            raise UnansweredError(str(answered))
        return _with_ids_of(question, answer, asked.read_text(encoding="utf-8"))

    def _find_stem(self, name: str) -> str:
        if name not in self._numbers:
            newest = max(map(int, self._numbers.values()), default=0)
            self._numbers[name] = f"{newest + 1:04}"
        return f"{self._numbers[name]}-{name}"


def _read(answered: Path) -> str:
    return answered.read_text(encoding="utf-8").strip() if answered.exists() else ""


class FileModel(BaseChatModel):
    """Plays a role by what is in a mailbox."""

    mailbox: Any
    role: str

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-file"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the same model, which tells of the tools in its questions."""
        del tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager
        question = write_question(self.role, messages, kwargs.get("tools") or ())
        answer = self.mailbox.ask(self.role, question)
        digest = hashlib.sha256(_without_random_ids(question).encode()).hexdigest()[:DIGEST]
        counter = EstimatingCounter()
        paid, written = sum(map(counter.count_message, messages)), counter.count_text(answer)
        message = read_answer(answer, digest)
        message.usage_metadata = UsageMetadata(
            input_tokens=paid, output_tokens=written, total_tokens=paid + written
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


# --- What stands in a file -----------------------------------------------------------------------


def write_question(
    role: str, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Write a question for reading: the role, each message under who says it, and the tools."""
    called = {
        call["id"]: call["name"]
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    parts = [f"You are asked as: {role}"]
    for message in messages:
        who = message.type
        if isinstance(message, ToolMessage):
            who = f"tool {message.name or called.get(message.tool_call_id, '')}".strip()
        parts += [_heading(who), _text_of(message)]
    if tools:
        told = [json.dumps(tool["function"], indent=1, ensure_ascii=False) for tool in tools]
        parts += [_heading("tools"), *told, HOW_TO_CALL]
    return "\n\n".join(parts) + "\n"


def read_answer(answer: str, question: str = "") -> AIMessage:
    """Read an answer: a text, or calls of tools where all of its lines are such.

    Args:
        answer: What was written.
        question: A digest of the question. The ids are made from it: the same in each run, and
            different where a thread has the same answer twice.
    """
    key = f"answer-{question}" if question else None
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    try:
        calls = [_read_call(line, f"{at}-{question}") for at, line in enumerate(lines, start=1)]
    except ValueError:
        return AIMessage(answer, id=key)
    return AIMessage("", tool_calls=calls, id=key)


def _read_call(line: str, place: str) -> ToolCall:
    """Read a line as the call of a tool.

    Raises:
        ValueError: When it is none.
    """
    match = CALL.fullmatch(line)
    if match is None:
        raise ValueError(line)
    name, arguments = match[1], match[2]
    digest = hashlib.sha256(f"{place} {line}".encode()).hexdigest()[:DIGEST]
    return ToolCall(name=name, args=json.loads(arguments), id=f"call-{digest}")


def _heading(who: str) -> str:
    return f"======== {who} ========"


def _text_of(message: BaseMessage) -> str:
    content = message.content
    is_text = isinstance(content, str) or all(
        isinstance(block, str) or block.get("type") == "text" for block in content
    )
    said = [message.text if is_text else json.dumps(content, ensure_ascii=False, default=str)]
    said += [
        f"call {call['name']} {json.dumps(call['args'], ensure_ascii=False)}"
        for call in (message.tool_calls if isinstance(message, AIMessage) else ())
    ]
    return "\n".join(text for text in said if text)


# --- Ids that each run makes anew ----------------------------------------------------------------


def _without_random_ids(text: str) -> str:
    """Write ids that are random as numbers, in the order in which they come up."""
    numbers = {each: str(number) for number, each in enumerate(_random_ids(text))}
    return RANDOM_ID.sub(lambda found: f"<{numbers[found[0]]}>", text)


def _with_ids_of(question: str, answer: str, asked: str) -> str:
    """Write an answer with the ids of this run for those of the run that asked first."""
    now = dict(zip(_random_ids(asked), _random_ids(question), strict=True))
    return RANDOM_ID.sub(lambda found: now.get(found[0], found[0]), answer)


def _random_ids(text: str) -> list[str]:
    return list(dict.fromkeys(RANDOM_ID.findall(text)))
