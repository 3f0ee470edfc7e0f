"""Test doubles for agents with memory: models that answer offline, and a check of what is sent.

Nothing here asks a provider, reads a clock or draws a random number: the same calls give the same
answers. `ScriptedChatModel` says what a test wrote down, `ExtractiveObserver` and
`ExtractiveReflector` write real observations out of what they are given (good enough to watch the
memory work without a key), and `check_message_sequence` names what a provider would refuse.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from langgraph_om.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from langchain_core.callbacks import (
        AsyncCallbackManagerForLLMRun,
        CallbackManagerForLLMRun,
    )
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import BaseTool

__all__ = [
    "ExtractiveObserver",
    "ExtractiveReflector",
    "Provider",
    "RecordedCall",
    "Reply",
    "Role",
    "ScriptedChatModel",
    "check_message_sequence",
]

Role: TypeAlias = Literal["actor", "observer", "reflector"]
"""Who a model call speaks for."""

Provider: TypeAlias = Literal["openai", "anthropic", "gemini"]
"""Whose rules `check_message_sequence` applies."""

Reply: TypeAlias = (
    str
    | AIMessage
    | BaseException
    | type[BaseException]
    | Callable[[list[BaseMessage]], str | AIMessage]
)
"""One answer: a text, a message, an error to raise, or a function of the messages received."""

_ROLE_KEY = "om_role"
_RUN_NAMES: dict[str, Role] = {"om_observer": "observer", "om_reflector": "reflector"}
_STREAM_PIECES = 1_000  # A long text is streamed in larger pieces instead of a million words.
_NONE = "<observations>(none)</observations>"


class RecordedCall(TypedDict):
    """One call a test double received."""

    role: Role
    """Who the call spoke for."""
    messages: list[BaseMessage]
    """The messages, as they arrived at the model."""


class _Tape:
    """What copies of one model share: the calls so far, and how far each script has been read."""

    def __init__(self, scripts: Mapping[Role, tuple[Reply, ...]]) -> None:
        self.scripts = scripts
        self.calls: list[RecordedCall] = []
        self._lock = threading.Lock()
        self._read: Counter[Role] = Counter()
        self._ids: set[str] = set()

    def __deepcopy__(self, memo: dict[int, object]) -> _Tape:
        return self

    def record(self, role: Role, messages: list[BaseMessage]) -> int:
        """Note a call and say how many calls of its role came before."""
        with self._lock:
            self.calls.append({"role": role, "messages": list(messages)})
            self._read[role] += 1
            return self._read[role] - 1

    def fresh(self, message: AIMessage) -> AIMessage:
        """Drop an id that was given out before: it would overwrite the earlier message."""
        with self._lock:
            if message.id in self._ids:
                message.id = None
            elif message.id is not None:
                self._ids.add(message.id)
        return message


class _OfflineChatModel(BaseChatModel):
    """What the doubles share: recording, delay, usage, streaming, and knowing the role."""

    delay: float = 0.0
    """Seconds before each answer."""

    _tape: _Tape = PrivateAttr(default_factory=lambda: _Tape({}))

    def __init__(self, **fields: Any) -> None:
        unknown = sorted(set(fields) - set(type(self).model_fields))
        if unknown:
            msg = f"`{unknown[0]}` is no option of `{type(self).__name__}`; leave it out."
            raise ConfigurationError(msg)
        delay = fields.get("delay", 0.0)
        if not isinstance(delay, int | float) or not 0 <= delay < float("inf"):
            msg = f"`delay` is {delay!r}; write a number of seconds, 0 or more."
            raise ConfigurationError(msg)
        super().__init__(**fields)

    @property
    def calls(self) -> list[RecordedCall]:
        """Every call so far in order, failed ones included; copies of the model share the list."""
        return self._tape.calls

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-offline"

    @abstractmethod
    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:
        """Record the call and choose its answer."""

    # A chat model is told its run name nowhere, and `_stream` not even its tags: the four doors
    # below read the role out of the config and pass it on as a keyword.

    def invoke(
        self,
        input: LanguageModelInput,  # noqa: A002 - the name is the base class's
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer once."""
        kwargs.setdefault(_ROLE_KEY, _role_of_config(config))
        return super().invoke(input, config, stop=stop, **kwargs)

    async def ainvoke(
        self,
        input: LanguageModelInput,  # noqa: A002
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer once, without blocking the event loop."""
        kwargs.setdefault(_ROLE_KEY, _role_of_config(config))
        return await super().ainvoke(input, config, stop=stop, **kwargs)

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Answer piece by piece."""
        kwargs.setdefault(_ROLE_KEY, _role_of_config(config))
        return super().stream(input, config, stop=stop, **kwargs)

    def astream(
        self,
        input: LanguageModelInput,  # noqa: A002
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """Answer piece by piece, without blocking the event loop."""
        kwargs.setdefault(_ROLE_KEY, _role_of_config(config))
        return super().astream(input, config, stop=stop, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the same model with the tools bound; calls and scripts stay shared."""
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._take(_role_of_run(run_manager, kwargs), messages)
        if self.delay:
            time.sleep(self.delay)
        return self._result(reply, messages)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._take(_role_of_run(run_manager, kwargs), messages)
        if self.delay:
            await asyncio.sleep(self.delay)
        return self._result(reply, messages)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(self._generate(messages, stop, run_manager, **kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(await self._agenerate(messages, stop, run_manager, **kwargs)):
            yield chunk

    def _result(self, reply: Reply, messages: list[BaseMessage]) -> ChatResult:
        message = self._tape.fresh(_message(reply, messages))
        if message.usage_metadata is None:
            message.usage_metadata = _usage(messages, message)
        return ChatResult(generations=[ChatGeneration(message=message)])


class ScriptedChatModel(_OfflineChatModel):
    """Answer what a test wrote down, by role: one model for Actor, Observer and Reflector.

    A call made under the run name (or tag) `om_observer`, or with `om_role: "observer"` in its
    metadata, is the Observer's; the Reflector's likewise; any other is the Actor's. Replies
    are used in order and the last one repeats. A reply is a text, an `AIMessage`, an error to
    raise, or a function of the received messages; a single reply needs no list.

        >>> model = ScriptedChatModel(["hello", "bye"], observer="<observations>...")
        >>> [model.invoke("hi").content for _ in range(3)]
        ['hello', 'bye', 'bye']
        >>> model.invoke("look", {"run_name": "om_observer"}).content
        '<observations>...'
        >>> [call["role"] for call in model.calls]
        ['actor', 'actor', 'actor', 'observer']

    Answers stream word by word and tool calls in pieces, as from a provider. A message keeps the
    id it was written with, once: when it repeats it gets a new one, so that it is appended to a
    thread instead of replacing its first appearance. Missing usage is made up from characters.
    """

    def __init__(
        self,
        actor: Reply | Sequence[Reply] = (),
        observer: Reply | Sequence[Reply] = (),
        reflector: Reply | Sequence[Reply] = (),
        *,
        delay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Write the scripts.

        Args:
            actor: The Actor's replies; `"ok"` when there are none.
            observer: The Observer's replies; asking for one when there are none is an error.
            reflector: The Reflector's replies; as for the Observer.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has, such as `disable_streaming`.
        """
        super().__init__(delay=delay, **kwargs)
        self._tape = _Tape(
            {
                "actor": _script("actor", actor) or ("ok",),
                "observer": _script("observer", observer),
                "reflector": _script("reflector", reflector),
            }
        )

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-scripted"

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:
        read = self._tape.record(role, messages)
        script = self._tape.scripts[role]
        if not script:
            msg = f"no reply scripted for role {role!r}; write `{role}=[...]`."
            raise AssertionError(msg)
        return script[min(read, len(script) - 1)]


def _script(role: Role, replies: Reply | Sequence[Reply]) -> tuple[Reply, ...]:
    """Return the replies of a role as a tuple, whatever way they were written."""
    many = isinstance(replies, Sequence) and not isinstance(replies, str)
    script: tuple[object, ...] = tuple(replies) if many else (replies,)  # type: ignore[arg-type]
    for reply in script:
        is_error = isinstance(reply, type) and issubclass(reply, BaseException)
        is_value = isinstance(reply, str | AIMessage | BaseException)
        if not (is_error or is_value or (callable(reply) and not isinstance(reply, type))):
            msg = (
                f"`{role}` holds {reply!r}; write a str, an AIMessage, an exception or a function "
                "that takes the messages."
            )
            raise ConfigurationError(msg)
    return script  # type: ignore[return-value]


def _message(reply: Reply, messages: list[BaseMessage]) -> AIMessage:
    """Turn a reply into the message to send, or raise it."""
    if isinstance(reply, type):
        raise reply
    if isinstance(reply, BaseException):
        raise reply.with_traceback(None)
    said: object = reply(list(messages)) if callable(reply) else reply
    if isinstance(said, str):
        return AIMessage(said)
    if isinstance(said, AIMessage):
        # The script is kept from whoever changes the answer.
        whole = message_chunk_to_message(said) if isinstance(said, AIMessageChunk) else said
        return whole.model_copy(deep=True)  # type: ignore[return-value]
    msg = f"a reply function returned {said!r}; return a str or an AIMessage."
    raise ConfigurationError(msg)


def _role_of_config(config: RunnableConfig | None) -> Role:
    """Say who a call speaks for, by run name, tags and metadata."""
    config = ensure_config(config)
    parent = config.get("callbacks")  # A callback manager brings tags and metadata of its own.
    return _role(
        [
            config.get("run_name"),
            *(config.get("tags") or ()),
            *(getattr(parent, "tags", ()) or ()),
        ],
        {**(getattr(parent, "metadata", None) or {}), **(config.get("metadata") or {})},
    )


def _role_of_run(
    run: CallbackManagerForLLMRun | AsyncCallbackManagerForLLMRun | None,
    kwargs: Mapping[str, object],
) -> Role:
    """Say who a call speaks for once it runs: as noted at the door, else by what the run knows."""
    noted = kwargs.get(_ROLE_KEY)
    if run is not None and noted in {None, "actor"}:
        return _role(run.tags, run.metadata)
    return noted if noted in get_args(Role) else "actor"  # type: ignore[return-value]


def _role(names: Iterable[str | None], metadata: Mapping[str, object]) -> Role:
    for name in names:
        if name in _RUN_NAMES:
            return _RUN_NAMES[name]
    marked = metadata.get(_ROLE_KEY)
    return marked if marked in _RUN_NAMES.values() else "actor"  # type: ignore[return-value]


def _usage(messages: list[BaseMessage], answer: AIMessage) -> UsageMetadata:
    """Make up a usage: four characters are a token."""
    received = sum(_characters(message) for message in messages) // 4
    written = _characters(answer) // 4
    return UsageMetadata(
        input_tokens=received, output_tokens=written, total_tokens=received + written
    )


def _characters(message: BaseMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    called = sum(len(call["name"]) + len(json.dumps(call["args"], default=str)) for call in calls)
    return len(_text(message)) + called


def _text(message: BaseMessage) -> str:
    """Return all text blocks of a message, a line each."""
    if isinstance(message.content, str):
        return message.content
    blocks = (block if isinstance(block, str) else block.get("text") for block in message.content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def _chunks(result: ChatResult) -> Iterator[ChatGenerationChunk]:
    """Cut an answer into the chunks a provider would stream; their sum is the answer."""
    message = cast("AIMessage", result.generations[0].message)
    pieces = [*_content_pieces(message.content), *_tool_call_pieces(message)]
    common: dict[str, Any] = {"id": message.id, "name": message.name}
    for piece in pieces[:-1]:
        yield ChatGenerationChunk(message=AIMessageChunk(**common, **piece))
    last = AIMessageChunk(
        **common,
        **pieces[-1],
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=last)


def _content_pieces(content: str | list[str | dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut text at its words and a list at its blocks; nothing at all is one empty piece."""
    if isinstance(content, str):
        words = re.findall(r"\s*\S+|\s+", content)
        step = -(-len(words) // _STREAM_PIECES) or 1
        texts = ["".join(words[i : i + step]) for i in range(0, len(words), step)]
        return [{"content": text} for text in texts or [""]]
    return [{"content": [block]} for block in content] or [{"content": []}]


def _tool_call_pieces(message: AIMessage) -> list[dict[str, Any]]:
    """Cut each tool call into its name and a few pieces of its arguments."""
    calls: list[tuple[str | None, str | None, str]] = [
        (call["name"], call["id"], json.dumps(call["args"], ensure_ascii=False))
        for call in message.tool_calls
    ]
    calls += [(call["name"], call["id"], call["args"] or "") for call in message.invalid_tool_calls]
    empty: str | list[str] = "" if isinstance(message.content, str) else []
    pieces = []
    for index, (name, call_id, args) in enumerate(calls):
        head = tool_call_chunk(name=name, args="", id=call_id, index=index)
        pieces.append({"content": empty, "tool_call_chunks": [head]})
        step = max(8, -(-len(args) // _STREAM_PIECES))
        for start in range(0, len(args), step):
            part = tool_call_chunk(args=args[start : start + step], index=index)
            pieces.append({"content": empty, "tool_call_chunks": [part]})
    return pieces


# --- models that write observations from what they read ------------------------------------------


class ExtractiveObserver(_OfflineChatModel):
    """Write valid observations by quoting the conversation it is shown; no model behind it.

    It reads the last `<conversation>` block of its messages: what the user said becomes 🔴
    (questions 🟡), tool calls become sub-items, and an assistant message is kept (🟢) when it has a
    number or a list, or is every third. Greetings are skipped. It is not clever, but what it writes
    is drawn from the conversation, about a fifth of it and the same every time.

        >>> transcript = '''<conversation>
        ... Date: Dec 4, 2025
        ... User (14:30): Hello! My dog Rex turned three last week and he loves long walks.
        ... </conversation>'''
        >>> print(ExtractiveObserver().invoke(transcript).content)
        <observations>
        Date: Dec 4, 2025
        * 🔴 (14:30) User: My dog Rex turned three…
        </observations>
        <current-task>The user's newest message: My dog Rex turned three…</current-task>
        <suggested-response>Answer: My dog Rex turned three…</suggested-response>

    `reply` is the same as a function, so one scripted model can play every role:

        >>> model = ScriptedChatModel("Nice!", observer=ExtractiveObserver().reply)
    """

    words: int = 12
    """The most words quoted from one message."""

    every: int = 3
    """Of the assistant's messages without numbers or lists, each how-manieth is kept."""

    def __init__(
        self, *, words: int = 12, every: int = 3, delay: float = 0.0, **kwargs: Any
    ) -> None:
        """Set how much is quoted.

        Args:
            words: The most words quoted from one message.
            every: Keep each how-manieth of the assistant's plain messages.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has.
        """
        for name, value in (("words", words), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                msg = f"`{name}` is {value!r}; write a whole number of 1 or more."
                raise ConfigurationError(msg)
        super().__init__(words=words, every=every, delay=delay, **kwargs)

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("observer", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the observations for what the messages show.

        Args:
            messages: The messages of one Observer call.
        """
        prompt, transcript = _last_block(messages, "conversation")
        lines = _transcript_lines(transcript)
        quoted = [(line, quote) for line in lines if (quote := self._quote(line))]
        items = self._items(quoted)
        if not items:
            return _NONE
        answer = ["<observations>", *items, "</observations>"]
        said = [quote for line, quote in quoted if line.kind == "User"]
        if said:
            short = _cut(said[-1], 6)
            answer += [
                f"<current-task>The user's newest message: {said[-1]}</current-task>",
                f"<suggested-response>Answer: {short}</suggested-response>",
            ]
        if "<thread-title>" in prompt:
            topic = said[0] if said else items[-1].rpartition(": ")[2]
            answer.append(f"<thread-title>{_cut(topic, 5).rstrip('….,!?;:')}</thread-title>")
        return "\n".join(answer)

    def _items(self, quoted: list[tuple[_TranscriptLine, str]]) -> list[str]:
        items: list[str] = []
        date, plain = "", 0
        for line, quote in quoted:
            plain += line.kind == "Assistant"
            item = _item(line, quote, kept=plain % self.every == 0)
            if not item:
                continue
            if line.date != date:
                date = line.date
                items.append(f"Date: {date}")
            arrow = item.startswith("-> ")
            if arrow and items and not items[-1].startswith("Date: "):
                items.append(f"  * {item}")
            else:
                # An arrow that has no item to stand under becomes one.
                items.append(_stamped("🟢", line, item[3:]) if arrow else item)
        if not items:
            # A window of tool results alone still leaves a trace.
            for line, quote in quoted[-1:]:
                items += [f"Date: {line.date}"] if line.date else []
                items.append(_stamped("🟢", line, f"{line.label}: {quote}"))
        return items

    def _quote(self, line: _TranscriptLine) -> str:
        """Quote the telling part of a message; short messages give less than `words`."""
        text = line.text[:_READ]
        if line.kind.startswith("Tool"):
            return _cut(text, self.words)
        return _cut(_telling(text), min(self.words, max(4, len(text.split()) * 2 // 5)))


class ExtractiveReflector(_OfflineChatModel):
    """Condense an observation log by keeping its weightiest items; no model behind it.

    It reads the last `<observation-log>` block of its messages and keeps the dates, shortens every
    🔴 and ✅ item (older days more), drops 🟢 and sub-items, and adds the newest 🟡 while there is
    room. Only a log that shortening no longer shrinks loses its oldest items.

        >>> log = '''<observation-log>
        ... Date: Dec 4, 2025
        ... * 🔴 (14:30) User: my dog Rex turned three last week
        ... * 🟢 (14:31) Assistant: wrote a long list of the best walks around the lake
        ... </observation-log>'''
        >>> print(ExtractiveReflector().invoke(log).content)
        <observations>
        Date: Dec 4, 2025
        * 🔴 (14:30) User: my dog Rex turned three last week
        </observations>
    """

    ratio: float = 0.5
    """The part of the log's length to stay under."""

    def __init__(self, *, ratio: float = 0.5, delay: float = 0.0, **kwargs: Any) -> None:
        """Set how much is kept.

        Args:
            ratio: The part of the log's length to stay under, between 0 and 1.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has.
        """
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < 1:
            msg = f"`ratio` is {ratio!r}; write a number between 0 and 1, such as 0.5."
            raise ConfigurationError(msg)
        super().__init__(ratio=ratio, delay=delay, **kwargs)

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:  # noqa: ARG002
        self._tape.record("reflector", messages)
        return self.reply

    def reply(self, messages: list[BaseMessage]) -> str:
        """Return the condensed log.

        Args:
            messages: The messages of one Reflector call.
        """
        log = _last_block(messages, "observation-log")[1].strip()
        items = _log_items(log)
        if not items:
            return _NONE
        text = self._condensed(items, len(log))
        if not text or len(text) >= len(log):
            text = _smallest(items[-1], len(log))
        return f"<observations>\n{text}\n</observations>"

    def _condensed(self, items: list[_LogItem], size: int) -> str:
        target = int(size * self.ratio)
        weighty = [item for item in items if item.mark in {"🔴", "✅"}]
        cap = _CAPS[-1]
        for cap in _CAPS:
            text = _log_text(weighty, cap)
            if len(text) <= target:
                break
        else:
            if len(text) > size * _SPENT:
                # Shortened before and full again: nothing but the oldest is left to give.
                text = _log_text(_newest(weighty, cap, target) or weighty[-1:], cap)
            return text
        lighter = [item for item in items if item.mark in {"🟡", ""}]
        added = _newest(lighter, cap, target - len(text))
        if not weighty and not added:
            added = _newest(items, cap, target)
        chosen = {item.position for item in (*weighty, *added)}
        return _log_text([item for item in items if item.position in chosen], cap)


_READ = 4_000  # Characters of one message that are looked at.
_CAPS = (16, 12, 8, 6, 5, 4, 3)
_SPENT = 0.75
_KINDS = r"(?P<kind>User|Assistant|Tool call|Tool result|Tool error)"
_HEAD = re.compile(
    _KINDS + r"(?: (?P<name>[^:]{1,120}?))??(?: \((?P<time>\d{1,2}:\d\d)\))?"
    r"(?P<reasoning> reasoning)?(?: \[[^\]]{0,200}\])?:(?: (?P<text>.*))?",
)
_LOG_ITEM = re.compile(r"[*-] (?:(🔴|🟡|🟢|✅)\ufe0f? ?)?(?:\((\d{1,2}:\d\d)\) ?)?(.*)")
_NUMBER_OR_LIST = re.compile(r"\d|^ *[-*•] ", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_GREETING = re.compile(
    r"(?:hi|hello|hey|thanks|thank you|okay|ok|goodbye|bye|good (?:morning|evening|night))\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Mm]ine)\b|\d")
_GREETING_WORDS = 4


@dataclass(frozen=True, slots=True)
class _TranscriptLine:
    """One message of a transcript, continuation lines included."""

    kind: str
    name: str
    date: str
    time: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class _LogItem:
    """One top-level observation of a log."""

    position: int
    day: int
    date: str
    age: int
    mark: str
    time: str
    text: str

    def line(self, cap: int) -> str:
        """Return the item cut to `cap` words, two fewer for each newer day, three at least."""
        stamp = f"({self.time})" if self.time else ""
        parts = (
            "*",
            self.mark,
            stamp,
            _cut(self.text, max(_CAPS[-1], cap - 2 * self.age)),
        )
        return " ".join(part for part in parts if part)


def _last_block(messages: list[BaseMessage], tag: str) -> tuple[str, str]:
    """Return the text outside and inside the last `<tag>` block of the messages."""
    text = "\n".join(_text(message) for message in messages)
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, max(end, 0))
    if start < 0:
        return text, ""
    return text[:start] + text[end:], text[start + len(tag) + 2 : end]


def _transcript_lines(transcript: str) -> Iterator[_TranscriptLine]:
    """Yield the messages of a transcript; the private reasoning among them is left out."""
    date = ""
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in [*transcript.split("\n"), "Date: the end"]:
        if line.startswith("  "):
            body.append(line[2:])
            continue
        dated, found = line.startswith("Date: "), _HEAD.match(line)
        if not dated and not found:
            continue
        if head and not head["reasoning"]:
            text = "\n".join(body).strip()
            yield _TranscriptLine(head["kind"], head["name"] or "", date, head["time"] or "", text)
        date = line.removeprefix("Date: ").strip() if dated else date
        head, body = found, [found["text"] or ""] if found else []


def _telling(text: str) -> str:
    """Return the text from its first sentence that says something; empty when none does."""
    sentences = [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]
    worth = [i for i, sentence in enumerate(sentences) if not _is_greeting(sentence)]
    informative = (i for i in worth if _is_informative(sentences[i]))
    start = next(informative, worth[0] if worth else len(sentences))
    return " ".join(sentences[start:])


def _is_greeting(sentence: str) -> bool:
    short = len(sentence.split()) <= _GREETING_WORDS
    return short and _GREETING.match(sentence) is not None and not re.search(r"\d", sentence)


def _is_informative(sentence: str) -> bool:
    named = any(word[0].isupper() for word in sentence.split()[1:])
    return named or _FIRST_PERSON.search(sentence) is not None


def _cut(text: str, words: int) -> str:
    """Return the first words on one line, with an ellipsis when some are missing."""
    found = text[:_READ].rstrip("… ").split()
    kept = " ".join(found[:words])
    if len(kept) > words * 10:  # Some scripts and all encoded data have no spaces to cut at.
        kept = kept[: words * 10].rstrip() + "…"
    elif len(found) > words or text.rstrip().endswith("…"):
        kept += "…"
    # A quoted tag must not open or close one of the answer's own.
    return re.sub(r"<(?=[/A-Za-z])", "‹", kept)


def _stamped(mark: str, line: _TranscriptLine, text: str) -> str:
    return f"* {mark} ({line.time}) {text}" if line.time else f"* {mark} {text}"


def _item(line: _TranscriptLine, quote: str, *, kept: bool) -> str:
    """Return the item of one message, empty when it is not worth one."""
    if line.kind == "User":
        mark = "🟡" if re.search("[?？]", line.text) else "🔴"
        return _stamped(mark, line, f"{line.label}: {quote}")
    if line.kind == "Assistant":
        worth = kept or _NUMBER_OR_LIST.search(line.text[:_READ])
        return _stamped("🟢", line, f"{line.label}: {quote}") if worth else ""
    if line.kind == "Tool call":
        return f"-> called {line.name} {quote}"
    return f"-> {line.name} failed: {quote}" if line.kind == "Tool error" else ""


def _log_items(log: str) -> list[_LogItem]:
    """Read the top-level items of a log, or its lines when it has no list at all."""
    dates: list[str] = [""]
    found: list[tuple[int, str, str, str]] = []
    prose: list[tuple[int, str, str, str]] = []
    for line in log.split("\n"):
        if line.startswith("Date:"):
            if line.strip() != dates[-1]:
                dates.append(line.strip())
        elif item := _LOG_ITEM.match(line):
            found.append((len(dates) - 1, item[1] or "", item[2] or "", item[3].strip()))
        elif line.strip() and not line.startswith((" ", "<")):
            prose.append((len(dates) - 1, "", "", line.strip()))
    last = len(dates) - 1
    return [
        _LogItem(position, day, dates[day], last - day, mark, stamp, text)
        for position, (day, mark, stamp, text) in enumerate(found or prose)
        if text
    ]


def _log_text(items: list[_LogItem], cap: int) -> str:
    lines: list[str] = []
    day = -1
    for item in items:
        if item.day != day and item.date:
            lines.append(item.date)
        day = item.day
        lines.append(item.line(cap))
    return "\n".join(lines)


def _newest(items: list[_LogItem], cap: int, room: int) -> list[_LogItem]:
    """Return the newest items that fit into so many characters, oldest first."""
    kept: list[_LogItem] = []
    for item in reversed(items):
        heading = 0 if kept and kept[-1].day == item.day else len(item.date) + 1
        room -= len(item.line(cap)) + 1 + heading
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def _smallest(item: _LogItem, size: int) -> str:
    """Return something of the item that is shorter than `size`, and never nothing."""
    word = item.text.split()[0]
    dated = [item.date, item.line(_CAPS[-1])] if item.date else [item.line(_CAPS[-1])]
    choices = (
        "\n".join(dated),
        item.line(_CAPS[-1]),
        f"* {item.mark} {word}",
        f"* {word}",
        word,
    )
    return next((text for text in choices if len(text) < size), word[: max(1, size - 1)])


# --- what a provider refuses ---------------------------------------------------------------------


def check_message_sequence(messages: Sequence[BaseMessage], provider: Provider) -> list[str]:
    """Return what a provider would refuse in these messages, in words; nothing when all is well.

    The messages are taken as the input of a model call that is about to be made. For every
    provider: something besides system messages; those only in front; each tool result directly
    after the message that called it, and each call answered once. Anthropic and Gemini want a user
    message first; Anthropic no empty text but in a final assistant message; Gemini function calls
    right after a user message or a tool result, and not an assistant message at the end.

        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> check_message_sequence([HumanMessage("hi")], "gemini")
        []
        >>> call = {"name": "search", "args": {}, "id": "call_1"}
        >>> check_message_sequence([HumanMessage("hi"), AIMessage("", tool_calls=[call])], "openai")
        ["messages[1]: the call 'call_1' of `search` has no result"]

    Args:
        messages: The messages, in the order they would be sent.
        provider: Whose rules apply: "openai", "anthropic" or "gemini".
    """
    if provider not in get_args(Provider):
        msg = f"`provider` is {provider!r}; write 'openai', 'anthropic' or 'gemini'."
        raise ConfigurationError(msg)
    roles = [_sent_as(message) for message in messages]
    problems = [*_order_problems(roles), *_tool_problems(messages, roles, provider)]
    if provider != "openai":
        first = next((i for i, role in enumerate(roles) if role != "system"), None)
        if first is not None and roles[first] != "user":
            problems.append(f"messages[{first}]: the first message is not the user's")
    if provider == "anthropic":
        problems += _empty_problems(messages, roles)
    if provider == "gemini":
        problems += _turn_problems(messages, roles)
    return problems


def _sent_as(message: BaseMessage) -> str:
    """Return the role a message is sent under, or its type when it can not be sent."""
    if isinstance(message, ChatMessage):
        return {"human": "user", "ai": "assistant"}.get(message.role, message.role)
    kinds = (
        (SystemMessage, "system"),
        (HumanMessage, "user"),
        (AIMessage, "assistant"),
    )
    for kind, role in (*kinds, (ToolMessage, "tool")):
        if isinstance(message, kind):
            return role
    return message.type


def _order_problems(roles: list[str]) -> Iterator[str]:
    if not any(role != "system" for role in roles):
        yield "there is no message besides system messages"
    conversation = False
    for i, role in enumerate(roles):
        if role not in {"system", "user", "assistant", "tool"}:
            yield f"messages[{i}]: a message of type {role!r} can not be sent"
        if role == "system" and conversation:
            yield f"messages[{i}]: a system message after the conversation has begun"
        conversation = conversation or role != "system"


def _tool_problems(
    messages: Sequence[BaseMessage], roles: list[str], provider: Provider
) -> Iterator[str]:
    """Say which calls and results do not belong together."""
    caller = -1
    open_calls: dict[str | None, str | None] = {}
    known: set[str | None] = set()
    for i, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            if caller < 0:
                yield f"messages[{i}]: a result for {call_id!r} that follows no tool call"
            elif call_id not in known:
                yield f"messages[{i}]: a result for {call_id!r}, which messages[{caller}] lacks"
            elif call_id not in open_calls:
                yield f"messages[{i}]: a second result for {call_id!r}"
            open_calls.pop(call_id, None)
            continue
        yield from _unanswered(caller, open_calls)
        calls = [(call["id"], call["name"]) for call in _calls(message, provider)]
        open_calls, known = dict(calls), {call_id for call_id, _ in calls}
        if len(known) < len(calls):
            yield f"messages[{i}]: two tool calls with the same id"
        caller = i if roles[i] == "assistant" and known else -1
    yield from _unanswered(caller, open_calls)


def _unanswered(caller: int, calls: Mapping[str | None, str | None]) -> Iterator[str]:
    for call_id, name in calls.items():
        yield f"messages[{caller}]: the call {call_id!r} of `{name}` has no result"


def _calls(message: BaseMessage, provider: Provider) -> list[Any]:
    """Return the calls of a message as they are sent: for OpenAI, unreadable ones too."""
    if not isinstance(message, AIMessage):
        return []
    return [
        *message.tool_calls,
        *(message.invalid_tool_calls if provider == "openai" else ()),
    ]


def _empty_problems(messages: Sequence[BaseMessage], roles: list[str]) -> Iterator[str]:
    for i, (message, role) in enumerate(zip(messages, roles, strict=True)):
        prefill = role == "assistant" and i == len(messages) - 1
        if role not in {"user", "assistant"} or prefill or _calls(message, "anthropic"):
            continue
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [_block_text(block) for block in blocks]
        if not blocks or any(text is not None and not text.strip() for text in texts):
            yield f"messages[{i}]: empty text in {role} message"


def _block_text(block: str | dict[str, Any]) -> str | None:
    """Return the text of a text block, nothing of another block."""
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type") == "text" else None


def _turn_problems(messages: Sequence[BaseMessage], roles: list[str]) -> Iterator[str]:
    for i, message in enumerate(messages):
        before = roles[i - 1] if i else "nothing"
        if _calls(message, "gemini") and before not in {"user", "tool"}:
            yield f"messages[{i}]: function calls after {before}, not after user or tool"
    if roles and roles[-1] == "assistant":
        yield f"messages[{len(roles) - 1}]: the last message is the assistant's"
