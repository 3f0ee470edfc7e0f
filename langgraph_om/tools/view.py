"""Memory now and earlier: generations, the log as of a time, and a readable summary.

In thread scope, the past is in the thread's checkpoints, which a caller passes as LangGraph's
`graph.get_state_history(config)`. In resource scope, it is in the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.util import find_spec
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, cast

from langgraph_om.core.config.options import check_count
from langgraph_om.core.content.text import for_terminal, show_key
from langgraph_om.core.items import list_items
from langgraph_om.core.record.fold import check_record
from langgraph_om.core.record.record import (
    complete_record,
    log_tokens,
    write_log,
)
from langgraph_om.core.record.standing import select_log, select_standing
from langgraph_om.core.record.users_log import is_of_user
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step import build_status
from langgraph_om.core.tokens import count_messages
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.parts import StatusData
from langgraph_om.runtime.run import read_stored_record, values_of
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.tools.shown import (
    Meter,
    count,
    describe_actor_window,
    describe_sizes,
    diff_logs,
    list_acts,
    list_background,
    list_hints,
    list_meters,
    list_trouble,
    list_usage,
    list_values,
    render,
    split_threads,
    write_title,
)

# --- The records of a history --------------------------------------------------------------------


def read_history(source: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation in states, newest first."""
    found: dict[int, MemoryRecord] = {}
    for _, record in _read_records(source):
        if not record["id"]:
            break  # nothing older has memory either
        if record["generation"] not in found:
            if len(found) == limit:
                break  # read no more than needed
            found[record["generation"]] = record
    return list(found.values())


def _read_records(source: Any) -> Iterator[tuple[datetime | None, MemoryRecord]]:
    """Yield the record of each state, with the time it was saved."""
    is_state = isinstance(source, Mapping) or hasattr(source, "values")
    if not is_state and (isinstance(source, str) or not isinstance(source, Iterable)):
        msg = (
            f"the history of {source!r} cannot be read; pass "
            f"`graph.get_state_history(config)`, or a state"
        )
        raise ConfigurationError(msg)
    for state in [source] if is_state else source:
        is_mapping = isinstance(state, Mapping)
        told = state.get("created_at") if is_mapping else getattr(state, "created_at", None)
        created = None if is_state else told  # the time of bare values is unknown
        at = datetime.fromisoformat(created) if isinstance(created, str) else None
        yield at, complete_record(read_stored_record(values_of(state, "messages")))


def read_generations(runner: StepRunner, states: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation, from states or from a resource's log."""
    check_count("limit", limit)
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if isinstance(states, str) and sharing is not None and archive is not None:
        return sharing.read_history(archive, states, limit)
    return read_history(states, limit)


def read_log_as_of(runner: StepRunner, states: Any, moment: datetime) -> str:
    """Return the observation log as it was at a time, from states or a resource's log."""
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if isinstance(states, str) and sharing is not None and archive is not None:
        records = sharing.read_history(archive, states, 1, moment)
    else:
        records = [own for at, own in _read_records(states) if at is None or at <= moment][:1]
    groups = records[0]["log"] if records else []
    return write_log([g for g in groups if datetime.fromisoformat(g["observed_at"]) <= moment])


def restore(runner: StepRunner, resource_id: str, generation: int) -> MemoryRecord:
    """Restore an earlier generation of a resource's log."""
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if sharing is None or archive is None:
        msg = (
            '`restore` is for scope="resource"; restore a thread\'s record with '
            '`graph.update_state(config, {"om": record})`'
        )
        raise ConfigurationError(msg)
    return sharing.restore(archive, resource_id, generation, runner.clock())


# --- The summary ---------------------------------------------------------------------------------

_BAR_WIDTH = 24


@dataclass(frozen=True, slots=True, repr=False)
class MemoryView:
    """A readable summary of a thread's memory.

    `str(view)` is plain text, a notebook shows it as HTML, and `to_html` writes it as a page.
    """

    record: MemoryRecord
    status: Mapping[str, Any]
    """The `data` of `data-om-status`."""
    conversation_tokens: int
    """Tokens of the whole conversation, including evicted messages."""
    prompt_tokens: int
    """Tokens of observations and unobserved messages: what the Actor is sent instead."""
    is_closed: bool = False
    """Whether the memory was closed, so that no background work starts."""
    history: Sequence[MemoryRecord] = ()
    """The last record of each generation, newest first, if requested."""

    @property
    def compression_ratio(self) -> float:
        """Tokens of the conversation per token that the Actor is sent; 1.0 without memory."""
        return self.conversation_tokens / self.prompt_tokens if self.prompt_tokens else 1.0

    def __str__(self) -> str:
        """Return the summary as plain text."""
        record, status = self.record, cast("StatusData", self.status)
        sizes = describe_sizes(self.conversation_tokens, self.prompt_tokens)
        actor = describe_actor_window(status)
        lines = [
            f"{write_title(record)}, generation {record['generation']}",
            *map(_write_meter, list_meters(status)),
            f"compression: {sizes}",
            *([f"agent's model reads at most: {actor}"] if actor else []),
            *list_background(record, status, is_closed=self.is_closed),
            *(said for _, said in list_trouble(record)),
            *(f"{name}: {text}" for name, text in list_hints(record)),
        ]
        lines += _write_standing(record)
        lines += ["", write_log(select_log(record["log"])) or "(no observations yet)"]
        for name, text in list_values(record):
            lines += ["", f"{name}:", text]
        for after, before in pairwise(self.history):
            sizes = f"{log_tokens(before):,} to {count(log_tokens(after), 'token')}"
            changed = diff_logs(before, after) or ["the same text"]
            lines += ["", f"generation {after['generation']}: {sizes}", *changed]
        return for_terminal("\n".join(lines))

    def __repr__(self) -> str:
        """Return the summary, for an interactive prompt."""
        return str(self)

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return the summary as a self-contained HTML page without scripts.

        All conversation text is escaped. Without the package jinja2, which comes with
        `langgraph-om[web]`, the page holds the plain text.

        Args:
            path: A file to also write the page to; an existing one is replaced.
        """
        page = self._render("page.html") or (
            f"<!doctype html>\n<meta charset=utf-8>\n<title>Memory</title>\n"
            f"<pre>{escape(str(self))}</pre>\n"
        )
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str | None:
        """Return the summary as HTML, for notebooks; without jinja2, they show the text."""
        return self._render("view.html")

    def _render(self, template: str) -> str | None:
        if find_spec("jinja2") is None:
            return None
        return render(template, **describe_view(self))


def describe_view(view: MemoryView) -> dict[str, Any]:
    """Return what all pages show of a memory, by the templates' names."""
    record, status = view.record, cast("StatusData", view.status)
    waiting = [group for chunk in record["chunks"] for group in chunk["groups"]]
    return {
        "title": write_title(record),
        "record": record,
        "meters": list_meters(status),
        "compression": describe_sizes(view.conversation_tokens, view.prompt_tokens),
        "reads": describe_actor_window(status),
        "trouble": [said for _, said in list_trouble(record)],
        "hints": list_hints(record),
        "standing": split_threads(record, select_standing(record["log"])),
        "observations": split_threads(record, select_log(record["log"])),
        "values": list_values(record),
        "background": list_background(record, status, is_closed=view.is_closed),
        "waiting": split_threads(record, waiting),
        "usage": list_usage(record),
        "acts": list_acts(record),
        "generations": [*pairwise(view.history)],
    }


def _write_meter(meter: Meter) -> str:
    full = min(_BAR_WIDTH, round(_BAR_WIDTH * meter.tokens / max(1, meter.threshold)))
    return f"{meter.name:<19} [{'#' * full}{'.' * (_BAR_WIDTH - full)}] {meter.words}"


def _write_standing(record: MemoryRecord) -> list[str]:
    """Return lines with the standing instructions, if there are any."""
    lines = []
    for item in list_items(select_standing(record["log"])):
        day = f"{item.day.isoformat()} " if item.day is not None else ""
        thread = item.group["thread_id"] if is_of_user(record) else None
        where = f", thread {show_key(thread)}" if thread else ""
        lines.append(f"* {day}{item.words} (#{item.id}{where})")
    return ["", "standing instructions:", *lines] if lines else []


def build_view(
    runner: StepRunner, state: Any, states: Any = None, thread_id: str = ""
) -> MemoryView:
    """Summarize a state's memory.

    Args:
        states: As for `read_generations`, to show what each generation changed.
        thread_id: The thread's id; the record of a thread that never ran lacks it.
    """
    check_record(runner.record(state))
    record, status, window_tokens = _look(runner, state)
    messages = runner.conversation(state)
    return MemoryView(
        record={**record, "thread_id": record["thread_id"] or thread_id},
        status=status,
        conversation_tokens=record.get("evicted_tokens", 0)
        + count_messages(runner.settings.counter, messages),
        prompt_tokens=window_tokens + log_tokens(record),
        is_closed=runner.is_closed,
        history=read_generations(runner, states, 10) if states is not None else (),
    )


def read_status(runner: StepRunner, state: Any) -> dict[str, Any]:
    """Return the `data` of `data-om-status` for a state."""
    return cast("dict[str, Any]", _look(runner, state)[1])


def _look(runner: StepRunner, state: Any) -> tuple[MemoryRecord, StatusData, int]:
    """Return a state's current record, its status, and the tokens of unobserved messages."""
    messages = runner.conversation(state)
    record = runner.take_in(runner.record(state), messages)
    settings, actor = runner.actor.read_window(record)
    window, step = open_window(record, messages, settings.counter), max(0, record["turn"]["step"])
    status = build_status(record, window, settings.thresholds, step=step, actor=actor)
    return record, status, window.tokens
