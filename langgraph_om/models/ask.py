"""One question to a model: which model is asked, how often, and what its answer says.

`ask` decides that and waits for nothing: it yields requests, which a driver fulfils. An
error of a model is an answer too, and so is a deadline that has passed.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import LLM, BaseChatModel, BaseLLM, SimpleChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, ensure_config

from langgraph_om.core.config.options import ACTORS_OWN
from langgraph_om.core.content.parts import with_attachments
from langgraph_om.core.effects import (
    AskModel,
    Call,
    CallReply,
    LateError,
    ModelReply,
    Pause,
    Requests,
)
from langgraph_om.core.tokens import TokenCounter, count_messages
from langgraph_om.errors import (
    ConfigurationError,
    ModelTierError,
    ObservationalMemoryError,
    ObserverError,
)
from langgraph_om.models.model_value import (
    Leaf,
    ModelByInputTokens,
    ModelValue,
    entries_of,
    is_choice,
    is_leaf,
    is_list,
)
from langgraph_om.models.pool import Asked, BoundModel, ModelPool, name_of, retries_of
from langgraph_om.models.providers import check_value, default_model, find_leaves
from langgraph_om.models.retries import (
    backoff,
    find_allowed,
    is_refusal,
    is_stale,
    is_transient,
    retry_after,
)

# Whether a model can be awaited, or only looks as if: langchain lends every model an `ainvoke`.
#
# The one that it lends runs `invoke` in the event loop's own few threads. A call that was given
# up on keeps one of them, and LangGraph runs synchronous nodes and tools there.


_LENDERS: Final = (SimpleChatModel, BaseChatModel, LLM, BaseLLM)
_LENT: Final[Mapping[str, tuple[Any, ...]]] = {
    name: (None, *(getattr(lender, name, None) for lender in _LENDERS))
    for name in ("ainvoke", "agenerate", "_agenerate", "_astream", "_acall")
}
"""Per method, the functions that a class has without having written any."""


def only_blocks(model: Runnable[Any, Any]) -> bool:
    """Return whether awaiting a model would block one of the event loop's threads.

    A chain does when one of its links does and none has a way of its own to be awaited, because
    such a link may have no other.
    """
    asked = [leaf for leaf in find_leaves(model) if not isinstance(leaf, BaseOutputParser)]
    return bool(asked) and not any(map(_can_be_awaited, asked))


def _can_be_awaited(model: Any) -> bool:
    if isinstance(model, RunnableLambda):
        return hasattr(model, "afunc")
    if isinstance(model, BaseChatModel | BaseLLM):
        return any(getattr(type(model), name, None) not in lent for name, lent in _LENT.items())
    return type(model).ainvoke is not Runnable.ainvoke


logger = logging.getLogger("langgraph_om")


def ask(call: AskModel, calls: Calls, seconds: float) -> Requests[ModelReply]:
    """Ask one model after the other until one answers; whatever one raises is an answer too.

    A model that others stand behind gets half of the time that is left. Of several that refuse the
    question for its length, the largest room counts.
    """
    ends_at = time.monotonic() + seconds
    ahead: list[tuple[ModelValue, int | None]] = [(calls.models.values[call.role], None)]
    failed: list[tuple[str, Exception]] = []
    room = 0
    while ahead:
        value, retries = ahead.pop(0)
        left = ends_at - time.monotonic()
        if left <= 0:
            failed.append(("", LateError()))
            break
        share = left / 2 if ahead else left
        if is_leaf(value):
            value = default_model(calls.actor) if value == ACTORS_OWN else value
            reply = yield from _retry(call, calls, value, retries, share)
            if reply.error is None:
                return reply
            room = max(room, reply.room)
            late = isinstance(reply.error, LateError) and ahead
            error = TimeoutError(f"no answer within {share:.3g} seconds") if late else reply.error
            failed.append((name_of(value), error))
        elif isinstance(value, ModelByInputTokens):
            try:
                ahead.insert(0, (value.resolve(calls.count(call)), retries))
            except ModelTierError as error:
                failed.append(("ModelByInputTokens", error))
                room = max(room, value.thresholds[-1])
        elif is_list(value):
            ahead[:0] = entries_of(value, retries)
        elif is_choice(value):
            name = getattr(value, "__name__", type(value).__name__)
            choose = partial(value, ensure_config(calls.config))
            chosen: CallReply = yield Call(choose, f"om_{call.role}", share)
            problem = chosen.error or _find_problem(f"{name}()", chosen.value)
            if problem is None:
                ahead.insert(0, (chosen.value, retries))
            else:
                failed.append((name, problem))
    return ModelReply(calls.clock(), error=_join_failures(failed, calls.deadline), room=room)


def _retry(
    call: AskModel, calls: Calls, leaf: Leaf, retries: int | None, seconds: float
) -> Requests[ModelReply]:
    """Ask one model, again while that may help and its time allows.

    What it refuses is asked without attachments, then without settings that nobody asked for. A
    shorter question is for who asks to put together.
    """
    models, ends_at = calls.models, time.monotonic() + seconds
    most = retries_of(leaf) if retries is None else retries
    again, stale, size = 0, 0, calls.count(call)
    key = (call.role, name_of(leaf), str(call.about.get("thread_id", "")))
    try:
        room = models.find_room(key, leaf)
    except ConfigurationError as missing:  # it cannot be made, as without a key
        return ModelReply(calls.clock(), error=missing)
    if room is not None and size > room:
        msg = f"the question has {size} tokens, and {name_of(leaf)} reads {room}"
        return ModelReply(calls.clock(), error=ObservationalMemoryError(msg), room=room)
    without = frozenset[str]()
    while True:
        question = partial(prepare_question, call, calls, leaf, without=without)
        left = max(0.0, ends_at - time.monotonic())
        reply: CallReply = yield Call(question, f"om_{call.role}", left)
        error = reply.error
        if error is None:
            return _take(calls, key, size, without, reply.value)
        if is_refusal(error):
            allowed = find_allowed(error, size)
            part = None if allowed else _choose_part(call, models.get(call.role, leaf), without)
            if part is not None:
                without |= {part}
                continue
            room = models.note_refused(key, size, allowed)
            explained = models.explain(call.role, leaf, error)
            return ModelReply(calls.clock(), error=explained, room=room)
        if is_stale(error) and stale < _MAX_STALE:
            stale += 1
            continue
        told = retry_after(error)
        pause = backoff(again, call.messages[-1].text) if told is None else told
        is_late = isinstance(error, LateError) or pause >= ends_at - time.monotonic()
        if is_late or again >= most or not is_transient(error):
            return ModelReply(calls.clock(), error=error)
        yield Pause(pause)
        again += 1


def _take(calls: Calls, key: Asked, size: int, without: Collection[str], answer: Any) -> ModelReply:
    """Remember what helped; an answer of nothing is how some servers refuse what is too long."""
    reply = read_reply(answer, calls.clock())
    if isinstance(answer, BaseMessage) and not answer.text.strip():
        return replace(reply, room=calls.models.note_refused(key, size, None))
    calls.models.note_taken(key, size, without)
    return reply


def _choose_part(call: AskModel, client: BoundModel, without: Collection[str]) -> str | None:
    """Return what a question is asked without next."""
    if "attachments" not in without and any(map(client.takes, call.attachments)):
        return "attachments"
    return "settings" if "settings" not in without and client.adds else None


_MAX_STALE = 4
"""How many left-over connections of a client are skipped at most."""


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """A question put together for one model, which can be asked in two ways."""

    model: Runnable[Any, Any]
    messages: list[BaseMessage]
    config: RunnableConfig

    def invoke(self) -> Any:
        """Ask; what is returned is to be awaited for a model that can only be awaited."""
        model = self.model
        if isinstance(model, RunnableLambda) and not hasattr(model, "func"):
            return self.ainvoke()
        return model.invoke(self.messages, self.config)

    def ainvoke(self) -> Awaitable[Any]:
        """Ask, without blocking the event loop."""
        return self.model.ainvoke(self.messages, self.config)


def prepare_question(
    call: AskModel, calls: Calls, leaf: Leaf, *, without: Collection[str] = ()
) -> ReadyQuestion:
    """Return a question as one model takes it."""
    client = calls.models.get(call.role, leaf, is_bare="settings" in without)
    attachments = () if "attachments" in without else call.attachments
    linked = sum(bool(each.url) and not client.takes(each) for each in attachments)
    if linked:
        logger.warning(
            "thread %r: %d attachment(s) behind a URL are only mentioned to the Observer, because "
            "its model can't read URLs of this kind; put the bytes into the message",
            call.about.get("thread_id", ""),
            linked,
        )
    messages = with_attachments(call.messages, attachments, client.takes)
    if client.family == "anthropic" and call.role == "observer":
        messages = [_mark_for_cache(messages[0]), *messages[1:]]
    return ReadyQuestion(client.runnable, messages, call_config(call, calls.config))


def _mark_for_cache(rules: BaseMessage) -> BaseMessage:
    """Return the Observer's rules with the mark up to which Anthropic keeps a prompt.

    They are the same for all threads. Of other providers none needs a mark, and the Reflector's
    are read too seldom: a prompt that is kept and not read again costs a quarter more.
    """
    block = {"type": "text", "text": rules.text, "cache_control": {"type": "ephemeral"}}
    return rules.model_copy(update={"content": [block]})


def _find_problem(option: str, value: object) -> Exception | None:
    """Tell what is wrong with the value that a function returned; another function never ends."""
    try:
        check_value(option, value)
    except ConfigurationError as error:
        return error
    msg = f"`{option}` is {value!r}, a function; return models, tiers or lists"
    return ConfigurationError(msg) if is_choice(value) else None


def _join_failures(failed: list[tuple[str, Exception]], deadline: float) -> Exception:
    """Return the one error that says why there is no answer."""
    late = TimeoutError(f"no answer within the deadline of {deadline:g} seconds")
    errors = [late if isinstance(error, LateError) else error for _, error in failed]
    if len(errors) == 1 or all(isinstance(error, ModelTierError) for error in errors):
        return errors[-1]
    names = [f"{name}: " for name, _ in failed]
    each = (f"{name}{type(e).__name__}: {e}" for name, e in zip(names, errors, strict=True))
    failure = ObservationalMemoryError(f"no model answered: {'; '.join(each)}")
    failure.__cause__ = errors[-1]
    return failure


@dataclass(frozen=True)
class Calls:
    """What is needed to ask."""

    models: ModelPool
    clock: Callable[[], datetime]
    deadline: float
    """Seconds for all calls of one cycle together."""
    counter: TokenCounter
    """Tells the size of a question where a model is chosen by it."""
    config: RunnableConfig | None = None
    """The configuration of the run, where it is not found around the call."""
    actor: Any = None
    """The Actor's model, which a memory asks that names none; `None` where it is not known."""

    def count(self, call: AskModel) -> int:
        """Count a question with all that any model may be sent of it."""
        whole = with_attachments(call.messages, call.attachments, lambda _: True)
        return count_messages(self.counter, whole)


NO_STREAM = "nostream"
"""LangGraph's tag for model calls that stay out of `stream_mode="messages"`."""


# --- One call ------------------------------------------------------------------------------------


def call_config(call: AskModel, run: RunnableConfig | None = None) -> RunnableConfig:
    """Configure a call so that traces show it by name and the user's streams do not show it.

    Args:
        run: The configuration of the run; inside a node it is found without being passed.
    """
    internal = sys.modules.get("langchain.agents.middleware.internal_call_transformer")
    config: RunnableConfig = {
        "run_name": f"om_{call.role}",
        "tags": [NO_STREAM, f"om_{call.role}"],
        "metadata": {
            "om_role": call.role,
            # Which cycle it belongs to, so that traces can be searched and summed by it.
            **{f"om_{key}": value for key, value in call.about.items() if value},
            "lc_source": "observational_memory",
            "ls_agent_type": "compaction",  # by which LangSmith leaves it out of a trajectory
            # Only what is imported can be listening; importing it here would take a second.
            **(internal.internal_call_metadata() if internal is not None else {}),
        },
    }
    callbacks = ensure_config(run).get("callbacks")
    if callbacks is not None:
        config["callbacks"] = _without_event_streams(callbacks)
    return config


def _without_event_streams(callbacks: Any) -> Any:
    """Leave out the listeners of `astream_events`; tracers and the user's own listeners stay."""
    if isinstance(callbacks, BaseCallbackManager):
        quiet = callbacks.copy()
        quiet.handlers = _without_event_streams(quiet.handlers)
        quiet.inheritable_handlers = _without_event_streams(quiet.inheritable_handlers)
        return quiet
    module = "langchain_core.tracers.event_stream"
    return [handler for handler in callbacks if type(handler).__module__ != module]


_CUT_OFF = {
    *("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "pause_turn"),
    *("content_filter", "safety", "image_safety", "recitation", "refusal", "language", "other"),
    *("blocklist", "prohibited_content", "spii", "malformed_function_call", "malformed_response"),
    *("unexpected_tool_call", "too_many_tool_calls"),
}
"""How providers say that an answer ended before its end: by a limit, or by a filter."""


def read_reply(answer: object, at: datetime) -> ModelReply:
    """Read what a model returned; thoughts are not part of an answer."""
    if isinstance(answer, str):
        return ModelReply(at, text=answer)
    if not isinstance(answer, BaseMessage):
        msg = f"the model returned {type(answer).__name__}; return a message or a text"
        return ModelReply(at, error=TypeError(msg))
    metadata = answer.response_metadata
    reason = str(
        metadata.get("finish_reason")
        or metadata.get("stop_reason")
        or metadata.get("done_reason")
        or (metadata.get("incomplete_details") or {}).get("reason")
        or ""
    )
    spent = answer.usage_metadata if isinstance(answer, AIMessage) else None
    usage: dict[str, int] = {}
    if spent:
        usage = {"input_tokens": spent["input_tokens"], "output_tokens": spent["output_tokens"]}
    refused = _read_refusal(answer)
    if refused is not None:
        error = ObserverError(f"the model refused to answer: {refused or 'it did not say why'}")
        return ModelReply(at, usage=usage, error=error)
    cut_off = reason.lower() in _CUT_OFF
    return ModelReply(at, answer.text, cut_off=cut_off, usage=usage)


def _read_refusal(answer: BaseMessage) -> str | None:
    """Return what a model said in refusing, as blocks of its answer or beside it; else `None`."""
    content = answer.content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "refusal":
            return str(block.get("refusal") or "")
    said = answer.additional_kwargs.get("refusal")
    return str(said) if said else None
