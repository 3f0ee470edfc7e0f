"""Chat models that work offline: they record calls, know their role, and stream their answers.

`ScriptedChatModel` gives the answers that a test scripted.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import (
    Any,
    Literal,
    TypeAlias,
    TypedDict,
    cast,
    get_args,
)

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field, PrivateAttr

from langgraph_om.errors import ConfigurationError

Role: TypeAlias = Literal["actor", "observer", "reflector", "title"]
"""Who a model call speaks for."""

Reply: TypeAlias = (
    str
    | AIMessage
    | BaseException
    | type[BaseException]
    | Callable[[list[BaseMessage]], str | AIMessage]
)
"""One answer: a text, a message, an error to raise, or a function of the messages received."""

_ROLE = "om_role"
"""In the metadata of a call of memory."""
_STREAM_PIECES = 1_000  # A long text is streamed in larger pieces instead of a million words.


class RecordedCall(TypedDict):
    """One call a test double received."""

    role: Role
    """Who the call spoke for."""
    messages: list[BaseMessage]
    """The messages, as they arrived at the model."""


class Tape:
    """What copies of one model share: the calls so far, and how far each script has been read."""

    def __init__(self, scripts: Mapping[Role, tuple[Reply, ...]]) -> None:
        self.scripts = scripts
        self.calls: list[RecordedCall] = []
        self._lock = threading.Lock()
        self._read: Counter[Role] = Counter()
        self._ids: set[str] = set()

    def __deepcopy__(self, memo: dict[int, object]) -> Tape:
        return self

    def record(self, role: Role, messages: list[BaseMessage]) -> int:
        """Note a call, and return how many calls of its role came before."""
        with self._lock:
            self.calls.append({"role": role, "messages": list(messages)})
            self._read[role] += 1
            return self._read[role] - 1

    def drop_used_id(self, message: AIMessage) -> AIMessage:
        """Drop an id that was given out before: it would overwrite the earlier message."""
        with self._lock:
            if message.id in self._ids:
                message.id = None
            elif message.id is not None:
                self._ids.add(message.id)
        return message


class OfflineChatModel(BaseChatModel):
    """The base of the doubles: records calls, waits, estimates usage, streams, knows its role."""

    model_config = ConfigDict(extra="forbid")

    delay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds before each answer."""

    _tape: Tape = PrivateAttr(default_factory=lambda: Tape({}))

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

    # LangChain does not tell `_stream` of whose call it is.

    def invoke(
        self,
        input: LanguageModelInput,  # noqa: A002 its name in langchain
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer once."""
        return super().invoke(input, config, **{_ROLE: _read_role(config), **kwargs})

    async def ainvoke(
        self,
        input: LanguageModelInput,  # noqa: A002 the same
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Answer once, without blocking the event loop."""
        return await super().ainvoke(input, config, **{_ROLE: _read_role(config), **kwargs})

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002 the same
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Stream the answer."""
        yield from super().stream(input, config, **{_ROLE: _read_role(config), **kwargs})

    async def astream(
        self,
        input: LanguageModelInput,  # noqa: A002 the same
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """Stream the answer, without blocking the event loop."""
        given = {_ROLE: _read_role(config), **kwargs}
        async for chunk in super().astream(input, config, **given):
            yield chunk

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
        reply = self._take(_find_role(run_manager, kwargs), messages)
        if self.delay:
            time.sleep(self.delay)
        return self._build_result(reply, messages)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._take(_find_role(run_manager, kwargs), messages)
        if self.delay:
            await asyncio.sleep(self.delay)
        return self._build_result(reply, messages)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _split_answer(self._generate(messages, stop, run_manager, **kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _split_answer(await self._agenerate(messages, stop, run_manager, **kwargs)):
            yield chunk

    def _build_result(self, reply: Reply, messages: list[BaseMessage]) -> ChatResult:
        message = self._tape.drop_used_id(_build_message(reply, messages))
        if message.usage_metadata is None:
            message.usage_metadata = _estimate_usage(messages, message)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _build_message(reply: Reply, messages: list[BaseMessage]) -> AIMessage:
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


def _read_role(config: RunnableConfig | None) -> Role:
    """Return who a call speaks for, by the metadata of its configuration."""
    role = (ensure_config(config).get("metadata") or {}).get(_ROLE)
    return cast("Role", role) if role in get_args(Role) else "actor"


def _find_role(
    run: CallbackManagerForLLMRun | AsyncCallbackManagerForLLMRun | None,
    given: Mapping[str, Any],
) -> Role:
    """Return who a running call speaks for."""
    return given[_ROLE] if _ROLE in given else _read_role({"metadata": run.metadata if run else {}})


def _estimate_usage(messages: list[BaseMessage], answer: AIMessage) -> UsageMetadata:
    """Make up a usage: four characters are a token."""
    received, written = _count_characters(messages) // 4, _count_characters([answer]) // 4
    return UsageMetadata(
        input_tokens=received, output_tokens=written, total_tokens=received + written
    )


def _count_characters(messages: Sequence[BaseMessage]) -> int:
    answers = [message for message in messages if isinstance(message, AIMessage)]
    calls = [call for message in answers for call in message.tool_calls]
    called = [call["name"] + json.dumps(call["args"], default=str) for call in calls]
    return sum(map(len, [*map(join_text, messages), *called]))


def join_text(message: BaseMessage) -> str:
    """Return all text blocks of a message, a line each."""
    content = message.content or ""
    if isinstance(content, str):
        return content
    blocks = (block if isinstance(block, str) else block.get("text") for block in content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def _split_answer(result: ChatResult) -> Iterator[ChatGenerationChunk]:
    """Cut an answer into the chunks a provider would stream; their sum is the answer."""
    message = cast("AIMessage", result.generations[0].message)
    pieces = [*_split_content(message.content), *_split_tool_calls(message)]
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


def _split_content(content: str | list[str | dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut text at its words and a list at its blocks; nothing at all is one empty piece."""
    if isinstance(content, str):
        words = re.findall(r"\s*\S+|\s+", content)
        step = -(-len(words) // _STREAM_PIECES) or 1
        texts = ["".join(words[i : i + step]) for i in range(0, len(words), step)]
        return [{"content": text} for text in texts or [""]]
    return [{"content": [block]} for block in content] or [{"content": []}]


def _split_tool_calls(message: AIMessage) -> list[dict[str, Any]]:
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
    # The last chunk of an answer holds no piece of a call: LangChain takes it for a whole one.
    return [*pieces, {"content": empty}] if pieces else []


# --- Answers that a test wrote down --------------------------------------------------------------


class ScriptedChatModel(OfflineChatModel):
    """Give a test's scripted answers, by role: one model for Actor, Observer and Reflector.

    A call with `om_role: "observer"` in its metadata, as memory sets it, is the Observer's;
    likewise `reflector` and `title`; else, the Actor's. Replies are used in order and the last one
    repeats. A reply is a text, an `AIMessage`, an error to raise, or a function of the received
    messages; a single reply needs no list.

        >>> model = ScriptedChatModel(["hello", "bye"], observer="<observations>...")
        >>> [model.invoke("hi").content for _ in range(3)]
        ['hello', 'bye', 'bye']
        >>> model.invoke("look", {"metadata": {"om_role": "observer"}}).content
        '<observations>...'
        >>> [call["role"] for call in model.calls]
        ['actor', 'actor', 'actor', 'observer']

    Answers stream word by word and tool calls in pieces, as from a provider. A message keeps its
    own id once; when it repeats, it gets a new one, so that it is appended to a thread instead of
    replacing its first appearance. Missing usage is estimated from characters.
    """

    def __init__(
        self,
        actor: Reply | Sequence[Reply] = (),
        observer: Reply | Sequence[Reply] = (),
        reflector: Reply | Sequence[Reply] = (),
        *,
        title: Reply | Sequence[Reply] = (),
        delay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Write the scripts.

        Args:
            actor: The Actor's replies; `"ok"` when there are none.
            observer: The Observer's replies; asking for one when there are none is an error.
            reflector: The Reflector's replies; as for the Observer.
            title: The replies to the question for a thread's title; as for the Observer.
            delay: Seconds before each answer.
            **kwargs: Options every LangChain chat model has, such as `disable_streaming`.
        """
        super().__init__(delay=delay, **kwargs)
        self._tape = Tape(
            {
                "actor": _check_script("actor", actor) or ("ok",),
                "observer": _check_script("observer", observer),
                "reflector": _check_script("reflector", reflector),
                "title": _check_script("title", title),
            }
        )

    @property
    def _llm_type(self) -> str:
        return "langgraph-om-scripted"

    def _take(self, role: Role, messages: list[BaseMessage]) -> Reply:
        read = self._tape.record(role, messages)
        script = self._tape.scripts[role]
        if not script:
            msg = f"no reply scripted for role {role!r}; pass `{role}=[...]`."
            raise AssertionError(msg)
        return script[min(read, len(script) - 1)]


def _check_script(role: Role, replies: Reply | Sequence[Reply]) -> tuple[Reply, ...]:
    """Return the replies of a role as a tuple, whatever way they were written."""
    many = isinstance(replies, Sequence) and not isinstance(replies, str)
    script: tuple[object, ...] = tuple(replies) if many else (replies,)  # type: ignore[arg-type]
    for reply in script:
        is_error = isinstance(reply, type) and issubclass(reply, BaseException)
        is_value = isinstance(reply, str | AIMessage | BaseException)
        if not (is_error or is_value or (callable(reply) and not isinstance(reply, type))):
            msg = (
                f"`{role}` holds {reply!r}; pass a str, an AIMessage, an exception or a function "
                "that takes the messages."
            )
            raise ConfigurationError(msg)
    return script  # type: ignore[return-value]
