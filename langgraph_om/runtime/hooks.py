"""Who is told of what memory does: the user's hooks, the log, and OpenTelemetry.

The drivers call hooks, with a deadline, and so that what they raise ends no turn.

There is one span of OpenTelemetry for whatever changes, searches or deletes memory. Names follow
the semantic conventions for memory of generative AI
(https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md):
`create_memory` for an observation and `remember`, `update_memory` for a reflection and for other
changes of a person, `delete_memory` for `forget`, `search_memory` for a call of recall, and
`delete_memory_store` for the deletion of a thread or a user.
Nothing is recorded where the package `opentelemetry-api` is not installed, and no text of the
conversation is in what is recorded.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, cast

from langgraph_om.core.content.text import for_terminal
from langgraph_om.core.cycles.questions import TRANSFORMS
from langgraph_om.core.effects import CallHook, CallReply, LateError, stops_run
from langgraph_om.core.events import describe_cycle
from langgraph_om.core.items import find_spans
from langgraph_om.core.wire import CycleEnded, CycleStarted, Event, MemoryRecord
from langgraph_om.errors import ConfigurationError

logger = logging.getLogger("langgraph_om")

Hook = Callable[..., Any]


@dataclass(frozen=True)
class Hooks:
    """The user's hooks and debug callback."""

    functions: Mapping[str, Hook] = field(default_factory=dict)
    debug: Callable[[dict[str, Any]], Any] | None = None

    @property
    def transforms(self) -> frozenset[str]:
        """The transform hooks that are set."""
        return frozenset(TRANSFORMS) & self.functions.keys()

    def about(self, event: Event) -> CallHook | None:
        """Return the call of the lifecycle hook that an event is for, if the user has set it."""
        told = _describe_moment(event)
        if told is None:
            return None
        moment = "start" if event["type"] in _STARTS else "end"
        name = f"on_{told['operation']}_{moment}"
        return CallHook(name, (told,)) if name in self.functions else None

    def tell(self, event: Event) -> None:
        """Tell the debug callback of an event; what it raises is logged, no more."""
        told = build_debug_event(event) if self.debug is not None else None
        if told is None or self.debug is None:
            return
        kind = told["type"]
        try:
            self.debug(told)
        except Exception:
            logger.exception("`on_debug_event` failed on %r", kind)


def read_hook_reply(name: str, done: CallReply, seconds: float) -> CallReply:
    """Return what came of a hook, which is logged when it failed."""
    error = done.error
    if isinstance(error, LateError):
        error = LateError(f"it did not return within {seconds:.3g} seconds")
    if error is not None and stops_run(error):
        raise error
    if error is not None:
        logger.error("the hook `%s` failed: %s", name, error, exc_info=error)
    return CallReply(done.value, error)


def check_hooks(hooks: object, debug: object) -> Hooks:
    """Read the hooks and the debug callback.

    Raises:
        ConfigurationError: When a hook is unknown or cannot be called.
    """
    given: Any = {} if hooks is None else hooks
    if not isinstance(given, Mapping):
        msg = f"`hooks` is {hooks!r}; pass a mapping from a hook's name to a function"
        raise ConfigurationError(msg)
    for name, function in given.items():
        if name not in HOOKS:
            msg = f"`hooks` has {name!r}; the hooks are {', '.join(HOOKS)}"
            raise ConfigurationError(msg)
        if not callable(function) or _yields(function):
            msg = f"`hooks[{name!r}]` is {function!r}; pass a sync or async function, no generator"
            raise ConfigurationError(msg)
        _check_arguments(f"hooks[{name!r}]", function, 1 if name in LIFECYCLE else 2)
    if debug is not None and (not callable(debug) or is_async(debug) or _yields(debug)):
        msg = f"`on_debug_event` is {debug!r}; pass a synchronous function of one mapping"
        raise ConfigurationError(msg)
    if debug is not None:
        _check_arguments("on_debug_event", debug, 1)
    return Hooks(dict(given), debug)


def _check_arguments(option: str, function: Hook, count: int) -> None:
    """Refuse a function that cannot be called with as many arguments as it is given."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        told = "one mapping" if count == 1 else "two arguments, the value and a mapping"
        msg = f"`{option}` is {function!r}: {error}; pass a function of {told}"
        raise ConfigurationError(msg) from None
    except ValueError:  # some built-in functions have no signature
        return


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function, or an object that is called as one, has to be awaited."""
    call = getattr(function, "__call__", None)  # noqa: B004 of an object, its method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _yields(function: Hook) -> bool:
    """Return whether a function is a generator, which does nothing when it is called."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


LIFECYCLE = (
    *("on_observation_start", "on_observation_end"),
    *("on_reflection_start", "on_reflection_end"),
)
"""Hooks that are told of a cycle."""

HOOKS = (*LIFECYCLE, *TRANSFORMS)


# --- Lifecycle -----------------------------------------------------------------------------------

_CAPITAL = re.compile("[A-Z]")

_STARTS = ("observation-start", "buffering-start")
_FAILURES: Final = ("observation-failed", "buffering-failed")
_ENDS: Final = ("observation-end", "buffering-end", *_FAILURES)
_TOLD = ("tokens",)
_TOLD_AT_END = ("observation_tokens", "observations", "duration_ms", "usage", "error")


def _describe_moment(event: Event) -> dict[str, Any] | None:
    """Return what is told of the start or the end of a cycle, for the hook to keep or change."""
    if event["type"] not in (*_STARTS, *_ENDS):
        return None
    keys = _TOLD if event["type"] in _STARTS else (*_TOLD, *_TOLD_AT_END)
    cycle = cast("CycleStarted | CycleEnded", event)
    return {**describe_cycle(cycle), **{key: deepcopy(event.get(key)) for key in keys}}


def build_debug_event(event: Event) -> dict[str, Any] | None:
    """Return what `on_debug_event` is told of an event: its `type` and its facts."""
    if event["type"] == "status":
        return {"type": "step_progress", **_in_snake_case(event["data"])}
    told = _describe_moment(event)
    if told is None:
        return None
    moment = "triggered" if event["type"] in _STARTS else "complete"
    return {"type": f"{told['operation']}_{moment}", **told}


def _in_snake_case(value: Any) -> Any:
    """Copy the data of a stream part with its keys as hooks are told them."""
    if isinstance(value, Mapping):
        return {
            _CAPITAL.sub(r"_\g<0>", key).lower(): _in_snake_case(of) for key, of in value.items()
        }
    return deepcopy(value)


def _clean(record: logging.LogRecord) -> bool:
    """Take out of a line what would steer a terminal: errors quote what models and tools said."""
    said = record.getMessage()
    if (clean := for_terminal(said)) != said:
        record.msg, record.args = clean, ()
    if record.exc_info and not record.exc_text:
        record.exc_text = for_terminal(logging.Formatter().formatException(record.exc_info))
    return True


logger.addFilter(_clean)


def log_failures(events: Sequence[Mapping[str, Any]]) -> None:
    """Log what failed."""
    for told in events:
        if told["type"] == "tripwire":
            text = "thread %r: the turn ends without an answer: %s"
            logger.warning(text, told["thread_id"], told["reason"])
        elif told["type"] in _FAILURES and told.get("failures") and not told.get("discarded"):
            operation = told["operation"]
            kept = "observations" if operation == "reflection" else "messages"
            text = "thread %r: %s failed (%d in a row); its %s stay as they are: %s"
            about = (told["thread_id"], operation, told["failures"], kept, told["error"])
            logger.warning(text, *about)


def log_cycles(events: Sequence[Mapping[str, Any]]) -> None:
    """Log each cycle that ended well, on one line."""
    for told in events:
        about = (told.get("thread_id"), told.get("operation"), told.get("tokens"))
        if told["type"] == "activation":
            text = "thread %r: background %s took effect: %d tokens read, the log has %d"
            logger.info(text, *about, told["observation_tokens"])
        elif told["type"] in ("observation-end", "buffering-end"):
            where = " in the background" if told["type"] == "buffering-end" else ""
            logger.info(
                "thread %r: %s of %d tokens%s took %.1f s and wrote %d tokens; "
                "model calls: %d, %d tokens in, %d out",
                *(*about, where, told["duration_ms"] / 1000, told["observation_tokens"]),
                *(told["usage"].get(key, 0) for key in ("calls", "input_tokens", "output_tokens")),
            )
            if left_out := told.get("left_out_tokens"):
                text = (
                    "thread %r: about %d tokens inside an enormous message were not read, only its "
                    "beginning and its end; `recall` reads the rest"
                )
                logger.warning(text, told["thread_id"], left_out)


_ACTS: Final = {"remember": "create_memory", "forget": "delete_memory"}
"""Any other act of a person updates memory."""
_COUNT: Final = "gen_ai.memory.record.count"
_SCOPE: Final = "langgraph_om"


class _Backend:
    """The tracer and the instruments of a process."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace  # noqa: PLC0415 optional, and takes a while

        self.trace = trace
        self.tracer = trace.get_tracer(_SCOPE)
        meter = metrics.get_meter(_SCOPE)
        self.seconds = meter.create_histogram("gen_ai.client.operation.duration", "s")
        self.tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")


@cache
def _find_backend() -> _Backend | None:
    """Return what records; `None` where the package is not installed."""
    return _Backend() if find_spec("opentelemetry") else None


def record_cycle(event: Event) -> None:
    """Record the end of an observation or a reflection as a span, with its time and tokens.

    Work that was let go is no operation, and leaves none.
    """
    told: Mapping[str, Any] = event
    if event["type"] not in _ENDS or told.get("discarded"):
        return
    is_reflection, error = told["operation"] == "reflection", told.get("error")
    if is_reflection:
        number = sum(told.get(kind) or 0 for kind in ("dropped", "joined", "shortened"))
    else:
        number = len(find_spans(told.get("observations") or ""))
    usage = told.get("usage") or {}
    spent = {kind: usage.get(f"{kind}_tokens") or 0 for kind in ("input", "output")}
    ended = int(datetime.fromisoformat(told["at"]).timestamp() * 1e9)
    _record(
        "update_memory" if is_reflection else "create_memory",
        ended - told["duration_ms"] * 1_000_000,
        {
            **_name_owner(told["thread_id"], told.get("resource_id"), told["record_id"]),
            **({} if error else {_COUNT: number}),
            **{f"gen_ai.usage.{kind}_tokens": count for kind, count in spent.items()},
            "langgraph_om.cycle.id": told["cycle_id"],
            "langgraph_om.cycle.is_blocking": event["type"].startswith("observation"),
            "langgraph_om.tokens.read": told["tokens"],
            "langgraph_om.tokens.written": told.get("observation_tokens") or 0,
        },
        ended=ended,
        error="ObserverError" if error else "",
        spent=spent,
    )


def _name_owner(
    thread_id: str | None, resource_id: str | None, store_id: str | None
) -> dict[str, str]:
    """Return the attributes that say whose memory it is; a store is a record, or a user's all."""
    names = {
        "gen_ai.conversation.id": thread_id,
        "enduser.id": resource_id,
        "gen_ai.memory.store.id": store_id,
    }
    return {key: name for key, name in names.items() if name}


def record_act(
    events: Sequence[Mapping[str, Any]],
    record: MemoryRecord,
    thread_id: str | None,
    resource_id: str | None,
    began: int,
) -> None:
    """Record what a person did to memory, if it was done to an observation.

    Args:
        events: The update, whose first event is the act.
        record: The memory before.
        began: Nanoseconds since 1970.
    """
    if events[0]["type"] == "steered":
        operation = _ACTS.get(events[0]["action"], "update_memory")
        about = _name_owner(thread_id, resource_id, record["id"])
        _record(operation, began, {**about, _COUNT: 1})


def record_deletion(
    thread_id: str | None, resource_id: str | None, store_id: str, began: int
) -> None:
    """Record that a thread, or a resource with all of its threads, was deleted."""
    _record("delete_memory_store", began, _name_owner(thread_id, resource_id, store_id))


def record_search(
    search: Callable[[], dict[str, Any]],
    record: MemoryRecord,
    thread_id: str,
    resource_id: str | None,
    mode: object,
) -> dict[str, Any]:
    """Return the answer to a call of recall, and record that.

    Args:
        search: Answers the call.
        record: The memory of the thread.
        mode: What a model asked for; anything but `threads` and `search` counts as `messages`.
    """
    began = time.time_ns()
    about = {
        **_name_owner(thread_id, resource_id, record["id"]),
        "langgraph_om.recall.mode": mode if mode in ("threads", "search") else "messages",
    }
    try:
        answer = search()
    except Exception as error:
        _record("search_memory", began, about, error=type(error).__name__)
        raise
    _record("search_memory", began, {**about, _COUNT: answer.get("count", 0)})
    return answer


def _record(
    operation: str,
    began: int,
    about: Mapping[str, Any],
    *,
    ended: int = 0,
    error: str = "",
    spent: Mapping[str, int] | None = None,
) -> None:
    """Record an operation that is over.

    Args:
        began: Nanoseconds since 1970.
        about: The attributes of its span alone.
        ended: As `began`; 0: just now.
        error: The kind of a failure; its text may quote the conversation.
        spent: Tokens by their kind.
    """
    backend = _find_backend()
    if backend is None:
        return
    ended = ended or time.time_ns()
    common = {"gen_ai.operation.name": operation, **({"error.type": error} if error else {})}
    span = backend.tracer.start_span(operation, start_time=began, attributes={**common, **about})
    if error:
        span.set_status(backend.trace.StatusCode.ERROR)
    span.end(ended)
    backend.seconds.record((ended - began) / 1e9, common)
    for kind, count in (spent or {}).items():
        backend.tokens.record(count, {**common, "gen_ai.token.type": kind})
