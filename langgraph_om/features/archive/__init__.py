"""Archive what is new of a conversation in each step.

The storage itself is `langgraph_om.archive`; here is what memory does with it, and what a
process remembers of that.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from langchain_core.messages import BaseMessage, ToolMessage
from pydantic import AfterValidator
from typing_extensions import TypedDict

from langgraph_om.archive import MessageArchive, StoreUse
from langgraph_om.archive.protocol import CLAIM_SECONDS, begin_anew_after_fork
from langgraph_om.core.additions import ResourceForm, resource_form
from langgraph_om.core.config.options import Hint, Preset, Takes
from langgraph_om.core.config.settings import Identity, Setup
from langgraph_om.core.content.message_keys import (
    Keyed,
    belongs_to,
    find_parent_thread,
    is_conversation,
    key_of,
    keyed_messages,
    nest_thread_id,
)
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.content.text import LARGE_INTEGER_BITS, write_repr, write_short_json
from langgraph_om.core.effects import EffectFlow, call_storage
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ArchiveError, ConfigurationError
from langgraph_om.features.archive.archiving import (
    ADDITIONS,
    ThreadMemory,
    archive_new,
    complete_thread,
    is_survivor,
    look_for_deletion,
    view,
)
from langgraph_om.runtime.executors import BackgroundBuffering
from langgraph_om.runtime.server import ServerBuffering
from langgraph_om.runtime.state import Recent

if TYPE_CHECKING:
    from sqlalchemy import Engine

    ArchiveValue = str | Engine | MessageArchive | None
else:
    ArchiveValue = Any


def _refuse_non_archives(value: object) -> object:
    if isinstance(value, type):  # it has the attributes that its objects have
        raise ValueError  # noqa: TRY004 pydantic reads this one
    if value is None or isinstance(value, str):
        return value
    if _is_archive(value):  # maybe of an earlier version, or not whole yet
        methods = (name for name in vars(MessageArchive) if not name.startswith("_"))
        missing = [name for name in methods if not callable(getattr(value, name, None))]
        if not missing:
            return value
        msg = f"which has no `{'`, no `'.join(missing)}`"
        raise ValueError(msg)
    from sqlalchemy import Engine  # noqa: PLC0415 only who has an archive waits for its import

    if not isinstance(value, Engine):
        raise ValueError  # noqa: TRY004 pydantic reads this one
    return value


def _is_archive(value: object) -> bool:
    # Of one that stands before another, `isinstance` sees no method from Python 3.12 on.
    return hasattr(value, "commit_record")


class ArchiveOptions(TypedDict, total=False):
    """The option of the archive."""

    archive: Annotated[
        ArchiveValue,
        Takes(Any),
        AfterValidator(_refuse_non_archives),
        Hint(
            "a URL such as 'sqlite:///memory.db', a SQLAlchemy engine, or an object with the "
            "methods of `MessageArchive`"
        ),
        Preset(None),
    ]
    """Where messages and observations are kept beside the checkpointer: a URL such as
    `"sqlite:///memory.db"` or `"postgresql://..."`, an SQLAlchemy engine, or a
    `MessageArchive`."""


class Archiving(Feature):
    """Archives messages and observations."""

    name = "archive"
    has_last_step = True
    additions = ADDITIONS

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `archive`."""
        given = setup.options["archive"]
        if given is None or _is_archive(given):
            return None if given is None else cls(given)
        from langgraph_om.archive import SQLAlchemyArchive  # noqa: PLC0415 it imports SQLAlchemy

        return cls(SQLAlchemyArchive(given))

    def __init__(self, archive: MessageArchive) -> None:
        self._archive = archive
        self._writer = ArchiveWriter(archive)

    @property
    def storage(self) -> MessageArchive:
        """The archive."""
        return self._archive

    def connect(self, runner: Any) -> Sequence[object]:
        """Share the archive with the executor, so that all workers know of its jobs."""
        self._writer.store_uses = runner.store_uses
        if isinstance(runner.buffering, BackgroundBuffering | ServerBuffering):
            runner.buffering.share(self._archive, max(CLAIM_SECONDS, runner.job_seconds))
        return [self._writer, self._archive]

    def identify(self, who: Identity) -> Identity:
        """Tell a nested conversation from the one around it, which may have the thread's place."""
        return replace(who, thread_id=nest_thread_id(who.thread_id, who.place))

    def collect(self, step: Step) -> EffectFlow[None]:
        """Archive what is new; leave the archive to what asks it next, unless it failed."""
        # Nobody knows which ones were overlooked: the archive is shown the whole conversation.
        overlooked = {key_of(step.messages[0])} if step.overlooked else set()
        cursor = step.record["cursor"]
        step.kept[self.name], events = yield from archive_new(
            step.settings,
            step.record,
            step.messages,
            step.now,
            changed={*step.changed, *overlooked, *(key for key, _ in step.edited)},
            request=step.window.request,
            is_final=step.is_final,
        )
        step.apply(events)
        if step.record["cursor"] != cursor:
            step.open()

    def before_tool(self, step: Step) -> EffectFlow[None]:
        """Archive what a tool is about to read."""
        if not step.identity.thread_id:
            return
        branch = yield from complete_thread(
            step.settings, step.identity, step.record, step.messages, step.now
        )
        if branch is not None:
            step.record = cast("MemoryRecord", {**step.record, "branch": branch})

    def kept_until(self, record: MemoryRecord) -> str | None:
        """Return the key of the last message that is archived."""
        return view(record).get("archived")

    def name_messages(
        self, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> list[str] | None:
        """Return the keys of messages; `None` after a deletion, as it has not archived these."""
        if not record["thread_id"] or view(record).get("floor"):
            return None
        said = [message for message in messages if is_conversation(message)]
        return [key for key, _ in keyed_messages(said)]

    def find_messages(
        self, record: MemoryRecord, thread_id: str, keys: Sequence[str]
    ) -> EffectFlow[Sequence[BaseMessage]]:
        """Read messages of a thread by their keys."""
        branch = view(record).get("branch")
        found: Sequence[BaseMessage] = yield from call_storage(
            "branch", thread_id, keys, branch=branch
        )
        return found

    def is_gone(self, record: MemoryRecord) -> EffectFlow[bool]:
        """Tell whether the thread was deleted since the record last looked."""
        return is_survivor((yield from look_for_deletion(record)))

    def erase_thread(
        self, thread_id: str, resource_id: str | None, clock: Callable[[], datetime]
    ) -> str | None:
        """Delete a thread from the archive."""
        return self._writer.delete_thread(thread_id, resource_id, clock)

    def erase_resource(self, resource_id: str) -> None:
        """Delete a resource from the archive, with all of its threads."""
        self._writer.delete_resource(resource_id)


# --- What a process writes -----------------------------------------------------------------------

# Messages become rows here, in a form that is JSON. What is archived when is decided by the flows
# of `archiving`, which call these methods by `Storage`.

MAX_LEVELS = 50
"""How deep values stay as they are in a message that is no JSON value."""
OUTLINE_CHARACTERS = 2000
"""About how much is told of a value that stands deeper."""

MAX_KEYS_MISSED = 1000
"""How many messages of a thread are remembered as not archived; beyond, all of them are meant."""
EVERYTHING = frozenset({""})
"""The key of no message: where it is missed, the whole conversation is archived again."""

MAX_THREADS = 10_000
"""Of how many threads a process remembers what it archived; of others the archive is asked."""


MAX_DELETIONS = 5
"""How often a thread is deleted that others write to meanwhile."""


@dataclass(slots=True)
class _Thread:
    """What a process remembers of one thread."""

    is_known: bool = False
    """Whether all of it was archived."""
    deletion: int | None = None
    """How many deletions of it the record knew of that was archived last."""
    log: Sequence[str] | None = None
    """The ids of the groups that the archive was told to be its log."""
    missed: frozenset[str] = frozenset()
    """What was new or edited when the archive failed."""
    waited_for: str | None = None
    """The request of the turn that has waited in vain."""


@dataclass(eq=False)
class ArchiveWriter:
    """Writes one memory's threads into its archive."""

    archive: MessageArchive
    store_uses: frozenset[StoreUse] = frozenset()
    """For what the memory uses the graph's store; noted in the archive with the first messages."""
    _has_noted_uses: bool = field(default=False, repr=False)
    _threads: OrderedDict[str, _Thread] = field(default_factory=OrderedDict, repr=False)
    _lost: Recent[bool] = field(default_factory=lambda: Recent(MAX_THREADS), repr=False)
    """The resources and threads of which the archive lacked something."""
    _is_away: bool = field(default=False, repr=False)
    """Whether the archive failed and has not answered since."""

    def __post_init__(self) -> None:
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Ask the archive again in a forked process: one in memory is not the parent's any more."""
        self._forget(None)

    def recall_thread(
        self,
        thread_id: str,
        groups: Sequence[Group],
        *,
        deletion: int | None = None,
        is_missing: bool = False,
    ) -> ThreadMemory:
        """Return what this process remembers of a thread, and which of its groups are new.

        Args:
            deletion: How many deletions of the thread the record knows of.
            is_missing: Whether the archive lacks it, so that nothing is remembered any more.
        """
        if is_missing:
            self._forget(thread_id)
        own, ids = self._threads.get(thread_id, _Thread()), [group["id"] for group in groups]
        new = [group for group in groups if group["id"] not in (own.log or ())]
        is_known = own.is_known and own.deletion == deletion
        return ThreadMemory(is_known, own.missed, own.waited_for, new, own.log != ids)

    def _remember(self, thread_id: str) -> _Thread:
        # Without a lock, which a forked process would have to make anew.
        own = self._threads.setdefault(thread_id, _Thread())
        with suppress(KeyError):  # another run of many may have pushed it out
            self._threads.move_to_end(thread_id)
        while len(self._threads) > MAX_THREADS:
            self._threads.popitem(last=False)
        return own

    def note_missed(
        self, thread_id: str, missed: Collection[str], waited_for: str | None = None
    ) -> None:
        """Remember what was not archived, and the request of a turn that waited long for it."""
        own, keys = self._remember(thread_id), frozenset(missed)
        own.missed = keys if len(keys) <= MAX_KEYS_MISSED else EVERYTHING
        own.waited_for = waited_for or own.waited_for

    def note_outage(self) -> str | None:
        """Note that the archive failed; return its place where that is news, once an outage."""
        if self._is_away:
            return None
        self._is_away = True
        return _find_place(self.archive)

    def note_archived(self, thread_id: str, deletion: int | None) -> None:
        """Remember that the archive has all of a thread, as of so many deletions."""
        own = self._remember(thread_id)
        own.deletion = deletion
        own.is_known, own.missed, own.waited_for = True, frozenset(), None

    def append_messages(
        self, thread_id: str, resource_id: str | None, entries: Keyed, **options: Any
    ) -> str | None:
        """Append messages to a thread; what of them is no JSON value is written as text.

        Arguments, result and errors are those of `MessageArchive.append`.
        """
        if not self._has_noted_uses:
            for use in self.store_uses:
                self.archive.note_store(use)
            self._has_noted_uses = True
        rows = [(key, _drop_artifact(message), is_visible(message)) for key, message in entries]
        options["parent"] = find_parent_thread(thread_id)
        try:
            name = self.archive.append(thread_id, resource_id, rows, **options)
        except ConfigurationError:  # a message that is no JSON, or a thread of somebody else
            plain = [(key, _make_plain(message), seen) for key, message, seen in rows]
            name = self.archive.append(thread_id, resource_id, plain, **options)
        self._is_away = False
        return name

    def add_new_groups(
        self,
        thread_id: str,
        resource_id: str | None,
        groups: Sequence[Group],
        now: datetime,
        *,
        log: Sequence[str],
        deletion: int | None,
    ) -> None:
        """Archive groups of a thread, say which its log has, and remember that.

        Raises:
            ArchiveLacksError: When the thread was deleted meanwhile.
            ArchiveError: When the storage fails.
            ConfigurationError: When the thread belongs to another resource.
        """
        self.archive.add_groups(thread_id, resource_id, groups, now, log=log, deletion=deletion)
        self._remember(thread_id).log = [*log]

    def note_loss(self, name: str) -> bool:
        """Remember that the archive lacks what it had, and return whether that is news."""
        is_news = self._lost.recall(name) is None
        self._lost.keep(name, kept=True)
        return is_news

    def delete_thread(
        self, thread_id: str, resource_id: str | None, clock: Callable[[], datetime]
    ) -> str | None:
        """Delete a thread, and what the log of its resource has of it.

        Args:
            resource_id: Whose it is, where the archive does not know.

        Returns:
            The resource that it belonged to.

        Raises:
            ArchiveError: When the storage fails.
        """
        known = self.archive.thread(thread_id)
        owner = known.resource_id if known is not None else resource_id
        form = resource_form()
        self._forget(thread_id)
        for _ in range(MAX_DELETIONS):
            if owner is not None and form is not None:
                self.archive.rewrite_records(
                    owner, lambda stored: form.erase(stored, thread_id), clock()
                )
            self.archive.delete_thread(thread_id)
            # What was at work on it may have come to the log meanwhile.
            if owner is None or form is None or not self._tells_of(owner, thread_id, form):
                return owner
        msg = (
            f"the log of {owner!r} still tells of the thread {thread_id!r}, which is deleted: "
            f"somebody writes to it all the time; delete once more"
        )
        raise ArchiveError(msg)

    def _tells_of(self, resource_id: str, thread_id: str, form: ResourceForm) -> bool:
        """Return whether the newest generations of a log have something of a thread."""
        logs = [entry["record"] for entry in self.archive.record_history(resource_id, limit=3)]
        return any(form.erase(log, thread_id) != log for log in logs)

    def delete_resource(self, resource_id: str) -> None:
        """Delete a resource with all of its threads.

        Raises:
            ArchiveError: When the storage fails.
        """
        self.archive.delete_resource(resource_id)
        self._forget(None)

    def _forget(self, thread_id: str | None) -> None:
        """Forget what was archived of a thread, or of all, after it was deleted."""
        for key, own in [*self._threads.items()]:
            if thread_id is None or belongs_to(key, thread_id):
                own.is_known, own.log = False, None


def _find_place(archive: MessageArchive) -> str:
    """Return where an archive is, as far as it says; it is failing just now."""
    try:
        return str(archive.place)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 no archive stops a turn, whatever it raises
        return type(archive).__name__


def _drop_artifact(message: BaseMessage) -> BaseMessage:
    """Leave out an artifact that is no JSON value: it was made for the program, not to be read."""
    if not isinstance(message, ToolMessage) or message.artifact is None or _is_json(message):
        return message
    return message.model_copy(update={"artifact": None})


def _make_plain(message: BaseMessage) -> BaseMessage:
    """Write what is no JSON value as text, and a class of somebody's own as the nearest known."""
    kept = {"id", "name", "type"}
    fields = {name: _to_json(value, frozenset()) for name, value in message if name not in kept}
    fields["content"] = fields["content"] or ""
    kinds: Any = type(message).__mro__
    known = next(kind for kind in kinds if kind.__module__.startswith("langchain_core.messages."))
    fields["type"] = known.model_fields["type"].default
    if not isinstance(fields["type"], str):  # of no class but `BaseMessage`
        fields |= {"type": "chat", "role": message.type}
    return message.model_copy(update=fields)


def _to_json(value: object, parents: frozenset[int]) -> Any:
    """Return the JSON value nearest to a value; what is nested too deep is outlined as text."""
    if isinstance(value, int) and value.bit_length() >= LARGE_INTEGER_BITS:
        return "[large integer]"
    if value is None or isinstance(value, str | int | float):
        return value
    if not isinstance(value, dict | list | tuple):
        return write_repr(value) if isinstance(value, bytes) else _to_text(value)
    if len(parents) >= MAX_LEVELS or id(value) in parents:
        return write_short_json(value, OUTLINE_CHARACTERS)
    inside = parents | {id(value)}
    if isinstance(value, dict):
        return {_to_text(key): _to_json(each, inside) for key, each in value.items()}
    return [_to_json(each, inside) for each in value]


def _to_text(value: object) -> str:
    """Return the text of a key or value that JSON does not have."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 a value of any type may refuse
        return write_repr(value)


def _is_json(message: ToolMessage) -> bool:
    artifact: Any = message.artifact
    try:
        json.dumps(artifact)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
