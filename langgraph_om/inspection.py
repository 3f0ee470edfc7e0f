"""Read what was remembered: earlier generations of a log, the log as of a time, and a summary.

In thread scope the past is in the thread's checkpoints, which a caller passes as LangGraph's
`graph.get_state_history(config)`; nothing here reads a checkpointer. In resource scope it is in the
archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langgraph_om.core.config.options import check_count
from langgraph_om.core.content.text import for_terminal, show_key
from langgraph_om.core.page import (
    Apart,
    ShownValue,
    Window,
    describe_actor_window,
    describe_ahead,
    describe_memory,
    describe_sizes,
    list_failures,
    list_hints,
    list_unread,
    list_values,
    list_windows,
    select_log,
    write_apart,
)
from langgraph_om.core.record.fold import check_record
from langgraph_om.core.record.record import (
    TITLE,
    blank_record,
    complete_record,
    find_label,
    log_tokens,
    write_log,
)
from langgraph_om.core.record.sharing import complete_log, to_record, write_act
from langgraph_om.core.record.window import open_window
from langgraph_om.core.step.inspect import build_status
from langgraph_om.core.tokens.counter import count_messages
from langgraph_om.core.wire import MemoryRecord, StatusData, Steered
from langgraph_om.errors import ConfigurationError, SourceError
from langgraph_om.features.steering import list_done
from langgraph_om.runtime.runner import StepRunner
from langgraph_om.runtime.state import read_stored_record, values_of

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

_BAR_WIDTH = 24
"""Characters of a full progress bar."""


def read_history(source: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation, newest first.

    Raises:
        ConfigurationError: When the source is anything else.
    """
    found: dict[int, MemoryRecord] = {}
    for _, record in _read_records(source):
        if not record["id"]:
            break  # nothing older has memory either
        if record["generation"] not in found:
            if len(found) == limit:
                break  # no more are read than are needed
            found[record["generation"]] = record
    return list(found.values())


def read_observations_as_of(source: Any, moment: datetime) -> str:
    """Return the observation log as it was at a time.

    Args:
        source: States of one thread, newest first, or a single one, which knows only what its log
            still has.
        moment: The time.

    Raises:
        ConfigurationError: When the source cannot be read.
    """
    for saved_at, record in _read_records(source):
        if saved_at is None or saved_at <= moment:
            return render_log_as_of(record, moment)
    return ""


# --- The records of a history --------------------------------------------------------------------


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
        created = None if is_state else told  # bare values were saved at an unknown time
        at = datetime.fromisoformat(created) if isinstance(created, str) else None
        yield at, complete_record(read_stored_record(values_of(state, "messages")))


def render_log_as_of(record: MemoryRecord, time: datetime) -> str:
    """Render the groups of a log that were written by a time."""
    written = [
        group for group in record["log"] if datetime.fromisoformat(group["observed_at"]) <= time
    ]
    return write_log(written)


# --- The summary ---------------------------------------------------------------------------------


def server_labels() -> dict[str, str]:
    """Return what a LangGraph server is asked to take out of the states that it lists."""
    return {TITLE: "values.om.thread_title", "title_words": "values.om.title.words"}


def read_server_label(thread: Mapping[str, Any]) -> str | None:
    """Return what a thread is called in a server's list, where that was asked for and told."""
    found = thread.get("extracted") or {}
    named = next(filter(None, map(found.get, server_labels())), None)
    return named if isinstance(named, str) else None


def read_stored_label(
    channels: Mapping[str, Any], read_state: Callable[[], Mapping[str, Any]]
) -> str | None:
    """Return what a thread is called.

    Args:
        channels: Of its newest checkpoint.
        read_state: Returns the state, where the checkpoint holds only what changed.
    """
    om = channels.get("om")
    if not isinstance(om, Mapping):
        om = read_state().get("om")
    return find_label(complete_record(om)) if isinstance(om, Mapping) else None


@dataclass(frozen=True, slots=True, repr=False)
class MemoryView:
    """A readable summary of a thread's memory.

    `str(view)` is plain text, a notebook shows it as HTML, and `to_html` writes that as a page.
    """

    record: MemoryRecord
    status: Mapping[str, Any]
    """The `data` of `data-om-status`."""
    conversation_tokens: int
    """Tokens of the whole conversation, with what `evict` removed of it."""
    prompt_tokens: int
    """Tokens of observations and unobserved messages, which is what the Actor is sent of it."""
    is_closed: bool = False
    """Whether the memory was closed, so that nothing is buffered any more."""
    history: Sequence[MemoryRecord] = ()
    """The last record of each generation, newest first, where they were asked for."""
    apart: Sequence[Apart] = ()
    """What the Actor is shown apart from the log."""

    @property
    def compression_ratio(self) -> float:
        """Tokens of the conversation per token that the Actor is sent; 1.0 without memory."""
        return self.conversation_tokens / self.prompt_tokens if self.prompt_tokens else 1.0

    def __str__(self) -> str:
        """Return the summary as plain text."""
        lines = [self._write_title(), *map(_render_bar_line, list_windows(self._status))]
        lines += [
            f"buffered: {describe_ahead(self.record, self._status, is_closed=self.is_closed)}",
            f"compression: {describe_sizes(self.conversation_tokens, self.prompt_tokens)}",
        ]
        actor = describe_actor_window(self._status)
        lines += [f"agent's model reads: {actor}"] if actor else []
        failures = [(f"last failure of {name}", said) for name, said in list_failures(self.record)]
        lines += [f"{name}: {value}" for name, value in [*failures, *list_hints(self.record)]]
        lines += [f"not read: {said}" for said in list_unread(self.record)]
        is_shared = self.record["scope"] == "resource"
        for each in self.apart:
            lines += ["", *write_apart(each, names_threads=is_shared)]
        log = select_log(self.record, self.apart)["log"]
        lines += ["", write_log(log) or "(no observations yet)"]
        lines += [_write_value(value) for value in list_values(self.record)]
        return for_terminal("\n".join(lines))

    def __repr__(self) -> str:
        """Return the summary, for an interactive prompt."""
        return str(self)

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return the summary as a page of HTML, which needs no script and nothing from elsewhere.

        All text of the conversation is escaped.

        Args:
            path: A file to write it to as well; one that is there is replaced.

        Raises:
            ImportError: When jinja2 is not installed, which comes with `langgraph-om[web]`.
        """
        page = self._render("page.html")
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str | None:
        """Return the summary as HTML, for notebooks; without jinja2, they show the text."""
        return self._render("view.html") if find_spec("jinja2") is not None else None

    def _render(self, template: str) -> str:
        from langgraph_om.templates import render  # noqa: PLC0415 optional

        ahead = describe_ahead(self.record, self._status, is_closed=self.is_closed)
        return render(
            template,
            **describe_memory(self.record, self._status, self.apart),
            sizes=describe_sizes(self.conversation_tokens, self.prompt_tokens),
            ahead=ahead,
            is_closed=self.is_closed,
            acts=list_done(self.record),
            generations=[*pairwise(self.history)],
        )

    @property
    def _status(self) -> StatusData:
        return cast("StatusData", self.status)

    def _write_title(self) -> str:
        whose = self.record["thread_id"] or self.record["resource_id"] or "(no thread id)"
        named = find_label(self.record) or whose
        return f"memory of {show_key(named)}, generation {self.record['generation']}"


def _write_value(value: ShownValue) -> str:
    notes = [f"({note})" for note in value.notes]
    return "\n".join(["", f"{value.name}:", *filter(None, [value.value]), *notes])


def _render_bar_line(window: Window) -> str:
    tokens, threshold = window.tokens, window.threshold
    full = min(_BAR_WIDTH, round(_BAR_WIDTH * tokens / threshold)) if threshold else 0
    bar = f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}]"
    return f"{window.name:<12} {bar} {tokens} of {threshold} tokens"


def build_view(
    runner: StepRunner, state: Any, states: Any = None, thread_id: str = ""
) -> MemoryView:
    """Summarize a state's memory.

    Args:
        states: As for `read_generations`, to show what each generation changed.
        thread_id: Of the thread; the record of one that never ran does not say it.
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
        apart=runner.list_apart(record),
    )


def read_status(runner: StepRunner, state: Any) -> dict[str, Any]:
    """Return the `data` of `data-om-status` for a state."""
    return cast("dict[str, Any]", _look(runner, state)[1])


def _look(runner: StepRunner, state: Any) -> tuple[MemoryRecord, StatusData, int]:
    """Return a state's record as it is by now, its status, and tokens of unobserved messages."""
    messages = runner.conversation(state)
    record = runner.take_in(runner.record(state), messages)
    settings, actor = runner.read_window(record)
    window, step = open_window(record, messages, settings.counter), max(0, record["turn"]["step"])
    status = build_status(record, window, settings.thresholds, step=step, actor=actor)
    return record, status, window.tokens


def read_generations(runner: StepRunner, states: Any, limit: int) -> list[MemoryRecord]:
    """Return the last record of each generation: of states, or of a resource's log by its id."""
    check_count("limit", limit)
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if isinstance(states, str) and sharing is not None and archive is not None:
        return sharing.read_history(archive, states, limit)
    return read_history(states, limit)


def read_log_as_of(runner: StepRunner, states: Any, moment: datetime) -> str:
    """Return the observation log as it was at a time: of states, or of a resource by its id."""
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if isinstance(states, str) and sharing is not None and archive is not None:
        found = sharing.read_history(archive, states, 1, moment)
        return render_log_as_of(found[0], moment) if found else ""
    return read_observations_as_of(states, moment)


def restore(runner: StepRunner, resource_id: str, generation: int) -> MemoryRecord:
    """Put an earlier generation of a resource's log in force again."""
    sharing, archive = runner.settings.parts.sharing, runner.archive
    if sharing is None or archive is None:
        msg = (
            '`restore` is for scope="resource"; a thread\'s record is put in force again by '
            '`graph.update_state(config, {"om": record})`'
        )
        raise ConfigurationError(msg)
    return sharing.restore(archive, resource_id, generation, runner.clock())


# --- The memory in an archive --------------------------------------------------------------------

_MAX_COMMITS = 20
_GROUP: Mapping[str, Any] = {
    "kind": "observation",
    "ranges": [],
    "thread_id": None,
    "text": "",
    "tokens": 0,
    "observed_at": "",
}


@dataclass
class ArchivedMemory:
    """The memory that an archive keeps: the log of a resource, and observations by thread."""

    archive: SQLAlchemyArchive
    resource: str | None = None
    """Whose; threads of others are not there for it. `None`: any thread is read, no log."""

    def state(self, name: str | None) -> Mapping[str, Any]:
        """Return the resource's log, or a thread's.

        Raises:
            SourceError: When there is no such log or thread.
        """
        if name is None:
            stored, revision = self._load()
            return {"om": to_record(stored, self._name_resource(), revision), "messages": []}
        thread = self.archive.thread(name)
        if thread is None or self.resource not in (None, thread.resource_id):
            msg = f"no thread {name!r} in the archive"
            raise SourceError(msg)
        groups = self.archive.groups(thread_id=name, limit=1000, in_log=True)
        messages = self.archive.messages(name, limit=1000, newest_first=True)
        record: dict[str, Any] = {
            **blank_record(),
            "id": f"archive-{name}",
            "thread_id": name,
            TITLE: thread.title,
            "resource_id": thread.resource_id,
            "log": [{**_GROUP, **group} for group in reversed(groups)],
        }
        return {"om": record, "messages": [own.message for own in messages]}

    def history(self, name: str | None) -> Any:
        """Return the generations of the resource's log; of a thread there is one state."""
        if name is not None:
            return [{"values": self.state(name), "created_at": None}]
        resource = self._name_resource()
        states = []
        for entry in self.archive.record_history(resource, limit=1000):
            record = to_record(entry["record"], resource, entry["revision"])
            values = {"om": {**record, "id": resource}, "messages": []}
            states.append({"values": values, "created_at": str(entry["committed_at"])})
        return states

    def change(self, update: Sequence[Mapping[str, Any]]) -> None:
        """Write an update of `om` into the shared log, on top of whatever it is by then.

        Raises:
            SourceError: When there is no log, the update is of a thread alone, or others keep
                changing the log.
        """
        resource = self._name_resource()
        for _ in range(_MAX_COMMITS):
            stored, revision = self._load()
            log = complete_log(stored)
            for event in update:
                if event["type"] != "steered":
                    msg = (
                        "what you change is a thread's; name the checkpointer or the server, and "
                        "`--thread ID`"
                    )
                    raise SourceError(msg)
                log = write_act(log, cast("Steered", event))
            now = datetime.now(UTC)
            if self.archive.commit_record(resource, dict(log), expected=revision, now=now):
                return
        msg = f"the shared log of {resource!r} keeps changing; try again"
        raise SourceError(msg)

    def _name_resource(self) -> str:
        if self.resource:
            return self.resource
        msg = "say which memory is meant: add --resource ID, or --thread ID"
        raise SourceError(msg)

    def _load(self) -> tuple[Mapping[str, Any], int]:
        """Return the log of the resource with its revision."""
        resource = self._name_resource()
        stored, revision = self.archive.load_record(resource)
        if stored is None:
            msg = (
                f"the archive has no shared log of the resource {resource!r}; where "
                f"threads do not share one, each has its own: name a thread"
            )
            raise SourceError(msg)
        return stored, revision
