"""Spans and metrics of OpenTelemetry: one span for each observation, reflection and recall.

Names follow the semantic conventions for memory of generative AI: `create_memory` for an
observation, `update_memory` for a reflection, `search_memory` for a call of recall
(https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md).
Nothing is recorded where the package `opentelemetry-api` is not installed, and no text of the
conversation is in what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from langgraph_om.core.wire import Event

_OPERATIONS: Final = {"observation": "create_memory", "reflection": "update_memory"}
_ENDS: Final = ("observation-end", "observation-failed", "buffering-end", "buffering-failed")
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
    if event["type"] not in _ENDS:
        return
    told: Mapping[str, Any] = event
    operation = _OPERATIONS.get(told["operation"])
    backend = _find_backend() if operation is not None and not told.get("discarded") else None
    if backend is None:
        return
    end = int(datetime.fromisoformat(told["at"]).timestamp() * 1e9)
    error = told.get("error")
    common = {"gen_ai.operation.name": operation}
    if error:
        common["error.type"] = "ObserverError"
    usage = told.get("usage") or {}
    spent = {kind: usage.get(f"{kind}Tokens") or 0 for kind in ("input", "output")}
    span = backend.tracer.start_span(
        str(operation),
        start_time=end - told["duration_ms"] * 1_000_000,
        attributes={
            **common,
            "gen_ai.conversation.id": told["thread_id"],
            "gen_ai.memory.store.id": told["record_id"],
            **{f"gen_ai.usage.{kind}_tokens": count for kind, count in spent.items()},
            "langgraph_om.cycle.id": told["cycle_id"],
            "langgraph_om.cycle.is_blocking": event["type"].startswith("observation"),
            "langgraph_om.tokens.read": told["tokens"],
            "langgraph_om.tokens.written": told.get("observation_tokens") or 0,
            **({"enduser.id": told["resource_id"]} if told.get("resource_id") else {}),
        },
    )
    if error:
        span.set_status(backend.trace.StatusCode.ERROR)  # its text may quote the conversation
    span.end(end)
    backend.seconds.record(told["duration_ms"] / 1000, common)
    for kind, count in spent.items():
        backend.tokens.record(count, {**common, "gen_ai.token.type": kind})


@contextmanager
def record_search(thread_id: str, resource_id: str | None, mode: object) -> Iterator[None]:
    """Record a call of recall as a span.

    Args:
        mode: What a model asked for; anything but `threads` and `search` counts as `messages`.
    """
    backend = _find_backend()
    if backend is None:
        yield
        return
    attributes = {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.conversation.id": thread_id,
        "langgraph_om.recall.mode": mode if mode in ("threads", "search") else "messages",
        **({"enduser.id": resource_id} if resource_id else {}),
    }
    with backend.tracer.start_as_current_span("search_memory", attributes=attributes):
        yield
