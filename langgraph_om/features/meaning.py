"""Search by meaning: observations and messages, indexed in the run's LangGraph store.

Recall finds what is near in meaning to a query, beside what has its words. Messages are indexed as
they are archived, observations as they are buffered. Items are written in the background, each text
once; whatever fails is logged and tried again with the next turn. The items of a resource are under
its own namespace only.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, cast

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem

from langgraph_om.archive import ArchivedHit, StoreUse
from langgraph_om.archive.types import PRUNED, Aged, sum_deletions
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import (
    Keyed,
    derive_id,
    find_parent_thread,
    keyed_conversation,
)
from langgraph_om.core.content.parts import is_visible
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.items import find_start
from langgraph_om.core.record.record import drop_deleted, find_end
from langgraph_om.core.search import FoundText, Kind
from langgraph_om.core.step import Step
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError
from langgraph_om.forks import begin_anew_after_fork
from langgraph_om.reading import find_thread, list_groups, read_said
from langgraph_om.runtime.tools import find_store

if TYPE_CHECKING:
    from langgraph_om.archive import SQLAlchemyArchive

ROOT: Final = "langgraph_om"
NOBODY: Final = "-"
"""Stands for the resource of threads that belong to none."""
ANY: Final = "*"
"""Stands for any resource, where stores list namespaces."""
WITHIN: Final = "in-"
"""Begins the label of threads that run within another one, before that one's."""

MIN_CHARACTERS: Final = 20
"""Shorter messages are not indexed: they say too little."""
PIECE_CHARACTERS: Final = 4000
MAX_PIECES: Final = 16
"""Of a longer text only the first pieces are indexed."""

Namespace = tuple[str, ...]


class Text(NamedTuple):
    """A message or a group to index."""

    kind: Literal["messages", "groups"]
    key: str
    text: str
    updated: str
    """When it was said, or observed; empty where that is not known."""
    cursor: str
    end: str | None
    """The newest message of it."""


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Groups and messages of one thread to put into a store."""

    store: BaseStore
    who: Identity
    texts: Sequence[Text]
    deletion: int
    """How many deletions they are from after."""


class Piece(NamedTuple):
    """A piece of a text to put into a store."""

    put: PutOp
    further: Sequence[str]
    """Keys of the pieces behind it, as far as a longer text had them; only of the last piece."""


def build_namespace(who: Identity) -> Namespace:
    """Return the namespace of a thread's items.

    Ids are hashed: a store allows neither dots nor empty labels in a namespace, and some compare
    prefixes by characters, where one id may begin like another.
    """
    resource = _hash_id(who.resource_id) if who.resource_id else NOBODY
    parent = find_parent_thread(who.thread_id)
    own = _hash_id(who.thread_id)
    return (ROOT, resource, own) if parent is None else (ROOT, resource, _within(parent), own)


def list_prefixes(thread_id: str, resource_id: str | None) -> list[Namespace]:
    """Return what the namespaces of a thread, and of what runs within it, begin with.

    Args:
        resource_id: Whose it is; `None` where nobody knows: anybody's.
    """
    # It may have begun before it was known whose it is.
    resources = [ANY] if resource_id is None else [_hash_id(resource_id), NOBODY]
    labels = (_hash_id(thread_id), _within(thread_id))
    return [(ROOT, resource, label) for resource in resources for label in labels]


def build_resource_prefix(resource_id: str) -> Namespace:
    """Return what the namespaces of all threads of a resource begin with."""
    return build_namespace(Identity("", resource_id))[:2]


def is_within(namespace: Namespace, prefix: Namespace) -> bool:
    """Return whether a namespace begins like a prefix, whose `ANY` stands for anything."""
    return len(namespace) >= len(prefix) and all(
        wanted in {ANY, label} for wanted, label in zip(prefix, namespace, strict=False)
    )


def _within(thread_id: str) -> str:
    return f"{WITHIN}{_hash_id(thread_id)}"


def _hash_id(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --- What is indexed -----------------------------------------------------------------------------


def list_messages(step: Step) -> Keyed:
    """Return the messages of a thread that users may see, as far as an archive has them."""
    entries = drop_deleted(step.record, keyed_conversation(step.given))
    archiving = step.settings.parts.archive
    if archiving is not None and step.identity.thread_id:
        last = archiving.kept_until(step.record)
        ends = [at for at, (key, _) in enumerate(entries) if key == last]
        entries = entries[: ends[-1] + 1] if ends else []
    return [entry for entry in entries if is_visible(entry[1])]


def build_pieces(task: IndexTask) -> Iterator[Piece]:
    """Yield the pieces of the texts, small enough for an embedding model."""
    place, thread_id = build_namespace(task.who), sanitize(task.who.thread_id)
    for kind, name, whole, updated, cursor, _ in task.texts:
        text = sanitize(whole[: MAX_PIECES * PIECE_CHARACTERS]).strip()
        if kind == "messages" and len(text) < MIN_CHARACTERS:
            continue
        keys = [derive_id("text", name, number) for number in range(MAX_PIECES)]
        count = -(-len(text) // PIECE_CHARACTERS)
        facts = {
            "pieces": count,
            "thread_id": thread_id,
            "group_id": sanitize(name) if kind == "groups" else "",
            "updated": updated,
            "cursor": sanitize(cursor),
        }
        for number, key in enumerate(keys[:count]):
            start = number * PIECE_CHARACTERS
            value = {"text": text[start : start + PIECE_CHARACTERS], **facts}
            further = keys[count:] if number == count - 1 else ()
            yield Piece(PutOp((*place, kind), key, value, index=["text"]), further)


# --- What is found -------------------------------------------------------------------------------


def read_hit(item: SearchItem) -> ArchivedHit | None:
    """Return the hit of an item; `None` when the item is not one of ours."""
    value = item.value
    kind: Kind = "message" if item.namespace[-1] == "messages" else "observations"
    try:
        at = datetime.fromisoformat(value["updated"]) if value["updated"] else None
        key, cursor = value["group_id"] or value["cursor"], value["cursor"]
        score = float(item.score or 0)
        found = FoundText(kind, key, cursor, value["text"], score, at, role=None, held=0.0)
        return ArchivedHit(value["thread_id"], found)
    except (KeyError, TypeError, ValueError):
        return None


logger = logging.getLogger("langgraph_om")

MAX_WRITTEN_AT_ONCE: Final = 32
MAX_READ_AT_ONCE: Final = 200
MAX_WAITING_TASKS: Final = 64
MAX_KNOWN_TEXTS: Final = 100_000
MAX_FOUND: Final = 300
"""Items that one search reads at most; several of them may be of one text."""

_WORDS: Final = ("text", "pieces")
"""What of an item says whether its text is the same."""

_Known = dict[tuple[Namespace, str], None]
"""By thread, the groups and messages that are known to be in a store, or on their way there."""


def check_store(store: BaseStore | None) -> BaseStore:
    """Return a store that can be searched by meaning.

    Raises:
        ConfigurationError: When there is none, or it has no index.
    """
    # A server wraps its store in one that does not tell whether it has an index.
    if store is not None and getattr(store, "index_config", True):
        return store
    what = "no store" if store is None else f"a store, {type(store).__name__}, that has no index"
    example = 'InMemoryStore(index={"dims": 1536, "embed": "openai:text-embedding-3-small"})'
    msg = (
        f"`retrieval.vector` is True and the graph has {what}; compile it with one that has an "
        f"index, such as `store={example}`, or omit `vector`"
    )
    raise ConfigurationError(msg)


class Meaning:
    """Puts observations and messages into the graph's store, and searches there."""

    store_use: ClassVar[StoreUse] = "index"

    def __init__(self, archive: SQLAlchemyArchive | None = None) -> None:
        self._archive = archive
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without tasks; in a forked process the stores say what they have already."""
        self._lock = threading.Condition()
        # An in-memory store cannot be searched while it is written.
        self._store_lock = threading.Lock()
        self._waiting: deque[IndexTask] = deque()
        self._is_working = False
        self._has_failed = False
        self._store: BaseStore | None = None
        self._known: _Known = {}

    # --- Writing ---------------------------------------------------------------------------------

    def index(self, step: Step) -> None:
        """Make what is new in a graph's run searchable, beside the run.

        Raises:
            ConfigurationError: When the run has no store that can be searched.
        """
        if step.scope is None or step.scope.state is None:
            return
        time_of = partial(step.settings.time_of, stamps=step.record["stamps"])
        said, store = list_messages(step), find_store()
        self.add(step.record, said, store, step.identity, edited=step.changed, time_of=time_of)

    def add(
        self,
        record: MemoryRecord,
        messages: Keyed,
        store: BaseStore | None,
        who: Identity,
        *,
        edited: Collection[str] = (),
        time_of: Callable[[str, BaseMessage], datetime | None] | None = None,
    ) -> None:
        """Put what is new of a thread into a store, in the background.

        Args:
            record: The memory of the thread, with its observations.
            messages: What was said in the thread, by key.
            edited: Keys of messages that may have other words than before.
            time_of: Tells when a message was said, where that is known.

        Raises:
            ConfigurationError: When the store cannot be searched.
        """
        store, place = check_store(store), build_namespace(who)
        new: list[Text] = []
        with self._lock:
            if len(self._waiting) >= MAX_WAITING_TASKS:
                return
            known = self._find_known(store)
            for group in list_groups(record):
                is_own = find_thread(group, record) == who.thread_id
                if is_own and (place, group["id"]) not in known:
                    ends = (find_start(group), find_end(group))
                    facts = (group["text"], group["observed_at"], *ends)
                    new.append(Text("groups", group["id"], *facts))
            for key, message in messages:
                if (place, key) not in known or key in edited:
                    at = time_of(key, message) if time_of else None
                    said = (read_said(message), at.isoformat() if at else "")
                    new.append(Text("messages", key, *said, key, key))
            known |= dict.fromkeys((place, text.key) for text in new)
            while len(known) > MAX_KNOWN_TEXTS:
                del known[next(iter(known))]
            if new:
                self._waiting.append(IndexTask(store, who, new, record.get("deletion") or 0))
            if self._waiting and not self._is_working:
                self._is_working = True
                threading.Thread(target=self._write_waiting, name="om_index", daemon=True).start()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is written.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        with self._lock:
            return self._lock.wait_for(lambda: not self._is_working, timeout)

    def _find_known(self, store: BaseStore) -> _Known:
        if store is not self._store:  # what another one has, it says
            self._store, self._known = store, {}
        return self._known

    def _write_waiting(self) -> None:
        """Write waiting tasks until none is left."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    self._lock.notify_all()
                    return
                task = self._waiting.popleft()
            try:
                self._write(task)
            except Exception as error:  # noqa: BLE001  a store or an embedding of any kind
                self._note_failure(task, error)
            else:
                self._has_failed = False

    def _write(self, task: IndexTask) -> None:
        """Put those texts of a task into the store that it does not have yet, or has otherwise."""
        task = self._without_pruned(task)
        left = build_pieces(task)
        while self._is_current(task) and (pieces := [*islice(left, MAX_READ_AT_ONCE)]):
            gets = [GetOp(piece.put.namespace, piece.put.key) for piece in pieces]
            with self._store_lock:
                there = cast("list[Item | None]", task.store.batch(gets))
            changes = [*_list_changes(pieces, there)]
            self._put(task.store, changes)
            if changes and not self._is_current(task):
                # Whoever deleted, pruned or moved it may have looked before this was written.
                gone = [PutOp(put.namespace, put.key, None) for put in changes]
                self._put(task.store, gone)
                return

    def _without_pruned(self, task: IndexTask) -> IndexTask:
        """Leave out what the archive has no words of any more."""
        archive, thread_id = self._archive, task.who.thread_id
        if archive is None or not thread_id:
            return task
        pruned = archive.pruned(thread_id, [text.end for text in task.texts if text.end])
        is_noted = pruned and (PRUNED, thread_id) in archive.deletions(None, [thread_id])
        gone = {"messages", "groups"} if is_noted else {"messages"}
        left = [text for text in task.texts if text.end not in pruned or text.kind not in gone]
        return replace(task, texts=left)

    def _put(self, store: BaseStore, items: Sequence[PutOp]) -> None:
        for batch in _split_without_repeats(items):
            with self._store_lock:
                store.batch(batch)

    def _is_current(self, task: IndexTask) -> bool:
        """Return whether the thread is its owner's, and was not deleted since; else forget it.

        The next turn is told of a deletion, and adds what is left.
        """
        archive, who = self._archive, task.who
        if archive is None or not who.thread_id:
            return True
        known = archive.thread(who.thread_id)
        is_theirs = known is not None and (
            not who.resource_id or known.resource_id in {None, who.resource_id}
        )
        number = sum_deletions(archive.deletions(who.resource_id, [who.thread_id]))
        is_there = is_theirs and number == task.deletion
        if is_there and len(self._without_pruned(task).texts) == len(task.texts):
            return True
        self._forget(task)
        return False

    def _forget(self, task: IndexTask) -> None:
        """Let the next turn add the texts of a task again."""
        place = build_namespace(task.who)
        with self._lock:
            known = self._find_known(task.store)
            for text in task.texts:
                known.pop((place, text.key), None)

    def _note_failure(self, task: IndexTask, error: Exception) -> None:
        """Log a failure, and let the next turn add the texts again."""
        self._forget(task)
        if not self._has_failed:
            text = (
                "thread %r: its texts could not be indexed; memory tries again in the next "
                "turn: %s: %s"
            )
            logger.warning(text, task.who.thread_id, type(error).__name__, error)
        self._has_failed = True

    # --- Reading ---------------------------------------------------------------------------------

    def find_near(
        self, query: str, limit: int, who: Identity, store: BaseStore | None, *, in_resource: bool
    ) -> list[ArchivedHit]:
        """Return the best match of each text nearest in meaning, the best first.

        A search that fails is logged, and finds nothing: words are found all the same.

        Args:
            in_resource: Whether all threads of the resource are searched instead of the current
                one; without a resource it is the current one.

        Raises:
            ConfigurationError: When there is nothing that can be searched.
        """
        store, place = check_store(store), build_namespace(who)
        prefix = place[:2] if in_resource and who.resource_id else place
        wanted = min(MAX_FOUND, max(3 * limit, 20))
        try:
            with self._store_lock:
                found = store.search(prefix, query=query, limit=wanted)
        except Exception as error:  # noqa: BLE001  a store or an embedding of any kind
            named = (who.thread_id, type(error).__name__, error)
            logger.warning("thread %r: the search by meaning failed: %s: %s", *named)
            return []
        best: dict[tuple[str, str, str], ArchivedHit] = {}
        for item in found:
            hit = read_hit(item) if item.namespace[: len(prefix)] == prefix else None
            if hit is not None:
                key = (hit.thread_id, hit.found.kind, hit.found.key)
                if key not in best or hit.found.score > best[key].found.score:
                    best[key] = hit
        return sorted(best.values(), key=lambda hit: -hit.found.score)[:limit]

    # --- Deletion --------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str, resource_id: str | None, store: BaseStore) -> None:
        """Delete the items of a thread, and of what runs within it."""
        self._delete(list_prefixes(thread_id, resource_id), store)

    def delete_aged(self, who: Identity, aged: Aged, store: BaseStore) -> None:
        """Delete the items of old messages of a thread, and of what was observed of them."""
        owners = dict.fromkeys((who.resource_id, None))  # it may have begun as nobody's
        places = [build_namespace(Identity(who.thread_id, each)) for each in owners]
        texts = [("messages", key) for key in aged.messages] + [("groups", k) for k in aged.groups]
        left = iter([((*place, kind), key) for place in places for kind, key in texts])
        self.flush()
        while some := [*islice(left, MAX_READ_AT_ONCE)]:
            gets = [GetOp(place, derive_id("text", key, 0)) for place, key in some]
            with self._store_lock:
                there = cast("list[Item | None]", store.batch(gets))
            gone = [
                PutOp(place, derive_id("text", key, number), None)
                for (place, key), item in zip(some, there, strict=True)
                for number in range(0 if item is None else item.value["pieces"])
            ]
            self._put(store, gone)

    def delete_resource(
        self, resource_id: str, thread_ids: Iterable[str], store: BaseStore
    ) -> None:
        """Delete all items of a resource; threads may have some of when it was not known whose."""
        threads = [prefix for key in thread_ids for prefix in list_prefixes(key, resource_id)]
        own = build_resource_prefix(resource_id)
        self._delete([own, *(prefix for prefix in threads if not is_within(prefix, own))], store)

    def move_thread(
        self, thread_id: str, resource_id: str | None, to_resource_id: str, store: BaseStore
    ) -> None:
        """Put the items of a thread, and of what runs within it, under another resource."""
        label = build_resource_prefix(to_resource_id)[1]

        def copy(items: Sequence[SearchItem]) -> None:
            puts = [
                PutOp((ROOT, label, *item.namespace[2:]), item.key, item.value, index=["text"])
                for item in items
            ]
            there = store.batch([GetOp(put.namespace, put.key) for put in puts])
            new = [put for put, found in zip(puts, there, strict=True) if found is None]
            for batch in _split_without_repeats(new):
                store.batch(batch)

        # It may have begun before it was known whose it is.
        former = dict.fromkeys(build_namespace(Identity("", each))[1] for each in (resource_id, ""))
        labels = (_hash_id(thread_id), _within(thread_id))
        prefixes = [(ROOT, each, own) for each in former if each != label for own in labels]
        self._delete(prefixes, store, first=copy)

    def _delete(
        self,
        prefixes: Sequence[Namespace],
        store: BaseStore,
        *,
        first: Callable[[Sequence[SearchItem]], None] = lambda _: None,
    ) -> None:
        """Delete all items under some namespaces, once what is at work is written.

        Args:
            first: What is done with items before they are deleted.
        """

        def is_it(namespace: Namespace) -> bool:
            return any(is_within(namespace, prefix) for prefix in prefixes)

        with self._lock:
            kept = [task for task in self._waiting if not is_it(build_namespace(task.who))]
            self._waiting.clear()
            self._waiting.extend(kept)
        self.flush()
        with self._store_lock:
            for namespace in [
                each for prefix in prefixes for each in _list_namespaces(store, prefix)
            ]:
                while items := store.search(namespace, limit=MAX_READ_AT_ONCE):
                    first(items)
                    store.batch([PutOp(item.namespace, item.key, None) for item in items])
        with self._lock:
            known = self._find_known(store)
            for key in [key for key in known if is_it(key[0])]:
                del known[key]


def _list_namespaces(store: BaseStore, prefix: Namespace) -> list[Namespace]:
    """Return the namespaces that a prefix stands for: itself, or those that there are for `ANY`."""
    found: list[Namespace] = [] if ANY in prefix else [prefix]
    size, has_more = MAX_READ_AT_ONCE, ANY in prefix
    while has_more:
        depth, offset = len(prefix), len(found)
        page = store.list_namespaces(prefix=prefix, max_depth=depth, limit=size, offset=offset)
        found += page
        has_more = len(page) == size
    return found


def _list_changes(pieces: Sequence[Piece], there: Sequence[Item | None]) -> Iterator[PutOp]:
    """Yield the puts of pieces that are new or were edited, and what is left of longer texts."""
    for (put, further), found in zip(pieces, there, strict=True):
        value = put.value or {}
        if found is None:
            yield put
        elif any(found.value.get(name, value[name]) != value[name] for name in _WORDS):
            yield put
            yield from (PutOp(put.namespace, key, None) for key in further)


def _split_without_repeats(items: Sequence[PutOp]) -> Iterator[list[PutOp]]:
    """Yield batches without the same text twice, which an in-memory store refuses."""
    batch: list[PutOp] = []
    texts = set[str]()
    for item in items:
        text = item.value["text"] if item.value else None
        if len(batch) == MAX_WRITTEN_AT_ONCE or text in texts:
            yield batch
            batch, texts = [], set()
        batch.append(item)
        if text is not None:
            texts.add(text)
    if batch:
        yield batch
