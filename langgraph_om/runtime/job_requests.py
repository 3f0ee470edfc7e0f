"""Jobs as plain JSON: what another process needs to carry one out, and what it must agree on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.dates import name_zone
from langgraph_om.core.content.message_keys import derive_id
from langgraph_om.core.cycles.carry_out import describe_job, discard_request, run_job
from langgraph_om.core.cycles.cycle import Cycle, run_ahead
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.plan import Decision
from langgraph_om.core.record.record import TITLE, complete_record
from langgraph_om.core.record.window import open_window, select_needed
from langgraph_om.core.tokens.counter import base_of
from langgraph_om.core.wire import OTHERS, JobRequest, JobResult
from langgraph_om.errors import ConfigurationError
from langgraph_om.runtime.flows import RunContext, drive

VERSION = 1
"""Of the form of a request."""


def build_request(
    job: Cycle, messages: Sequence[BaseMessage], decision: Decision, now: datetime, actor: str
) -> JobRequest:
    """Write a job as plain JSON.

    Args:
        actor: The name of the Actor's model, which a memory asks that names none.
        messages: The whole conversation; where other processes find them, only the ids of those
            that are needed are written.
    """
    settings, record = job.info.settings, job.info.record
    needed = select_needed(record, messages)
    request: JobRequest = {
        "version": VERSION,
        "cycle_id": job.cycle_id,
        "key": job.key,
        "thread_id": record["thread_id"],
        "resource_id": record["resource_id"],
        "about": list(job.about),
        "operation": decision.operation,
        "count": decision.count,
        "at": now.isoformat(),
        "actor": actor,
        "record": {**record, "timezone": name_zone(settings.timezone, now)},
        "settings": digest_settings(settings),
    }
    archiving = settings.parts.archive
    keys = None if archiving is None else archiving.name_messages(record, needed)
    if keys is not None:
        request["message_ids"] = keys
    else:
        request["messages"] = [message_to_dict(message) for message in needed]
    return request


def digest_settings(settings: Settings) -> dict[str, str]:
    """Return a digest of each setting that changes what a job comes to, by its option.

    Models and what hooks do are left out: these are each process's own.
    """
    # A worker need not know the Actor's model, its window, nor what is shown of a message.
    counter = "" if settings.counts_as_actor else base_of(settings.counter).identity
    values: dict[str, Any] = {
        "token_counter": counter,
        "scope": settings.scope,
        "hides_ids": settings.hides_ids,
        "transforms": settings.transforms,
        "continuation_hints": [name for name in settings.hints if name != TITLE],
        "gap_markers": settings.shortest_gap and settings.shortest_gap.total_seconds(),
    }
    observation, reflection = settings.configured or (settings.observation, settings.reflection)
    for option, config in (("observation", observation), ("reflection", reflection)):
        values |= {
            f"{option}.{name}": value for name, value in vars(config).items() if name != "model"
        }
    write = partial(json.dumps, default=_name, sort_keys=True)
    return {name: derive_id("setting", write(value)) for name, value in sorted(values.items())}


def read_request(settings: Settings, request: Mapping[str, Any]) -> EffectFlow[Cycle | None]:
    """Read a request, and describe the cycle that it asks for.

    Returns:
        The cycle. One of a feature is about how things are by now, and `None` where nothing is
        left of it to do.

    Raises:
        ConfigurationError: When this process has other settings, or what the job is about is not
            as it was, so that its result would fit nowhere.
        ArchiveError: When the storage fails.
    """
    given = _check(settings, request)
    record = complete_record(given["record"])
    settings = settings.count_like(record).in_zone(record.get("timezone"))
    if "message_ids" in given:
        if settings.parts.archive is None:
            msg = f"the job {given['cycle_id']!r} has its messages in an `archive`; set `archive`"
            raise ConfigurationError(msg)
        messages = yield from settings.parts.archive.find_messages(
            record, given["thread_id"], given["message_ids"]
        )
    else:
        messages = messages_from_dict(given["messages"])
    window = open_window(record, messages, settings.counter)
    decision = Decision("buffer", given["operation"], given["count"])
    now = datetime.fromisoformat(given["at"])
    job = None
    if decision.operation == OTHERS:
        cycle_id = given["cycle_id"]
        return (yield from describe_job(settings, record, window, decision, now, cycle_id=cycle_id))
    if decision.operation != "observation" or decision.count <= len(window.entries):
        job = yield from describe_job(settings, record, window, decision, now)
    if job is None or job.cycle_id != given["cycle_id"]:
        msg = (
            f"the job {given['cycle_id']!r} cannot be carried out: its messages are not as they "
            f"were when it was asked for; drop it, memory asks for another one"
        )
        raise ConfigurationError(msg)
    return job


def carry_out_request(settings: Settings, request: Mapping[str, Any]) -> EffectFlow[JobResult]:
    """Carry out a job that was asked for elsewhere, and return its result.

    Raises:
        ConfigurationError: As `read_request`.
        ArchiveError: When the storage fails.
    """
    job = yield from read_request(settings, request)
    if job is None:
        why = "superseded: nothing is left to observe, or another thread is at it"
        return discard_request(cast("JobRequest", request), why)
    yield job.start
    result = yield from run_ahead(job)
    yield result
    return cast("JobResult", result)


def _check(settings: Settings, request: Mapping[str, Any]) -> JobRequest:
    version = request.get("version") if isinstance(request, Mapping) else None
    if version != VERSION:
        msg = f"`request` has version {version!r}; this package reads version {VERSION}"
        raise ConfigurationError(msg)
    own, theirs = digest_settings(settings), request["settings"]
    others = [name for name in {**own, **theirs} if own.get(name) != theirs.get(name)]
    if others:
        msg = (
            f"the job {request['cycle_id']!r} was requested with another "
            f"{', '.join(f'`{name}`' for name in sorted(others))}; create the worker's "
            f"ObservationalMemory with the same options"
        )
        raise ConfigurationError(msg)
    return cast("JobRequest", request)


def _name(value: Any) -> Any:
    """Name what is no JSON so that another process names it alike."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return sorted(map(str, value))
    key = getattr(value, "key", None)  # of a ZoneInfo
    return key if isinstance(key, str) else f"{type(value).__qualname__} {value}"


def do_job(job: Cycle, context: RunContext) -> JobResult:
    """Do a job in this process, and return its result."""
    return cast("JobResult", drive(run_job(job), context).events[-1])
