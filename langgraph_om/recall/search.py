"""Search by meaning: observation groups and their messages, indexed in the run's LangGraph store.

Items are written in the background, each text once; whatever fails is logged and tried again with
the next turn. The items of a resource are under its own namespace only.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, GetOp, PutOp

from langgraph_om.archive.after_fork import begin_anew_after_fork
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.content.message_keys import derive_id, keyed_messages
from langgraph_om.core.content.parts import part_text, parts_of
from langgraph_om.core.content.text import sanitize
from langgraph_om.core.wire import Group, MemoryRecord
from langgraph_om.errors import ConfigurationError, ObservationalMemoryError
from langgraph_om.recall.source import RecallHit, RecallThread

logger = logging.getLogger("langgraph_om")

ROOT: Final = "langgraph_om"
NOBODY: Final = "-"
"""Stands for the resource of threads that belong to none."""

MIN_CHARACTERS: Final = 20
"""Shorter messages are not indexed: they say too little."""
PIECE_CHARACTERS: Final = 4000
MAX_PIECES: Final = 16
"""Of a longer text only the first pieces are indexed."""

MAX_WRITTEN_AT_ONCE: Final = 32
MAX_READ_AT_ONCE: Final = 200
MAX_WAITING_TASKS: Final = 64
MAX_KNOWN_GROUPS: Final = 50_000
MAX_KNOWN_STORES: Final = 8
MAX_FOUND: Final = 100
"""Items that one search reads at most; several of them may be of one group."""

FOUND_KINDS: Final = frozenset({"text", "tool-result", "tool-error"})

Namespace = tuple[str, ...]
_T = TypeVar("_T")


class SearchError(ObservationalMemoryError):
    """A store or its embedding failed in a search."""


def check_store(store: BaseStore | None) -> BaseStore:
    """Return a store that can be searched by meaning.

    Raises:
        ConfigurationError: When there is none, or it has no index.
    """
    example = 'InMemoryStore(index={"dims": 1536, "embed": "openai:text-embedding-3-small"})'
    if store is None:
        msg = (
            "`retrieval.vector` is True and the graph has no store; compile it with one that has "
            f"an index, such as `store={example}`, or leave `vector` out"
        )
        raise ConfigurationError(msg)
    # A server wraps its store in one that does not tell whether it has an index.
    if not getattr(store, "index_config", True):
        msg = (
            f"`retrieval.vector` is True and the graph's store, {type(store).__name__}, has no "
            f"index; make it with one, such as `{example}`, or leave `vector` out"
        )
        raise ConfigurationError(msg)
    return store


@dataclass(frozen=True, slots=True)
class _IndexTask:
    """Groups to put into a store, with the messages that they are about."""

    store: BaseStore
    who: Identity
    groups: list[Group]
    messages: list[BaseMessage]


class StoreIndex:
    """The index of one memory over any number of stores."""

    def __init__(self) -> None:
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without tasks; in a forked process the stores say what they have already."""
        self._lock = threading.Condition()
        # An in-memory store cannot be searched while it is written.
        self._store_lock = threading.Lock()
        self._waiting: deque[_IndexTask] = deque()
        self._is_working = False
        self._has_failed = False
        self._known: deque[tuple[BaseStore, OrderedDict[tuple[Namespace, str], None]]] = deque(
            maxlen=MAX_KNOWN_STORES
        )

    # --- Writing ---------------------------------------------------------------------------------

    def add(
        self,
        record: MemoryRecord,
        messages: Sequence[BaseMessage],
        store: BaseStore | None,
        who: Identity,
    ) -> None:
        """Put the new groups of a log into a store, in the background.

        Args:
            record: The memory of the thread.
            messages: Its conversation.
            store: The run's store.
            who: The thread and its user.

        Raises:
            ConfigurationError: When the store cannot be searched.
        """
        store = check_store(store)
        with self._lock:
            known = self._find_known(store)
            places = {
                group["id"]: _build_group_namespace(group, record, who) for group in record["log"]
            }
            written = (group for group in record["log"] if group["text"])
            new = [group for group in written if (places[group["id"]], group["id"]) not in known]
            if not new or len(self._waiting) >= MAX_WAITING_TASKS:
                return
            known.update(dict.fromkeys((places[group["id"]], group["id"]) for group in new))
            while len(known) > MAX_KNOWN_GROUPS:
                known.popitem(last=False)
            for thread_id in dict.fromkeys(_thread_of(group, record) for group in new):
                groups = [group for group in new if _thread_of(group, record) == thread_id]
                own = list(messages) if thread_id == who.thread_id else []
                self._waiting.append(
                    _IndexTask(store, replace(who, thread_id=thread_id), groups, own)
                )
            if not self._is_working:
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

    def _find_known(self, store: BaseStore) -> OrderedDict[tuple[Namespace, str], None]:
        """Return the groups that are known to be in a store, or on their way there."""
        for other, known in self._known:
            if other is store:
                return known
        fresh: OrderedDict[tuple[Namespace, str], None] = OrderedDict()
        self._known.append((store, fresh))
        return fresh

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

    def _write(self, task: _IndexTask) -> None:
        """Put those texts of a task into the store that it does not have yet."""
        for items in _split_batches(_build_items(task), MAX_READ_AT_ONCE):
            with self._store_lock:
                there = task.store.batch([GetOp(item.namespace, item.key) for item in items])
            new = [item for item, found in zip(items, there, strict=True) if found is None]
            for batch in _split_without_repeats(new):
                with self._store_lock:
                    task.store.batch(batch)

    def _note_failure(self, task: _IndexTask, error: Exception) -> None:
        """Log a failure, and forget the groups so that the next turn adds them again."""
        place = _build_namespace(task.who)
        with self._lock:
            known = self._find_known(task.store)
            for group in task.groups:
                known.pop((place, group["id"]), None)
        if not self._has_failed:
            logger.warning(
                "thread %r: observations could not be made searchable, they are tried again with "
                "the next turn: %s: %s",
                task.who.thread_id,
                type(error).__name__,
                error,
            )
        self._has_failed = True

    # --- Reading ---------------------------------------------------------------------------------

    def search(
        self,
        store: BaseStore | None,
        query: str,
        limit: int,
        who: Identity,
        *,
        in_resource: bool,
    ) -> list[RecallHit]:
        """Return the best match of each group nearest in meaning, the best first.

        Args:
            store: The run's store.
            query: What to look for.
            limit: How many groups at most.
            who: The current thread and its user.
            in_resource: Whether all threads of the resource are searched instead of the current
                one; without a resource it is the current one.

        Raises:
            ConfigurationError: When the store cannot be searched.
            SearchError: When it fails.
        """
        store, place = check_store(store), _build_namespace(who)
        prefix = place[:2] if in_resource and who.resource_id else place
        wanted = min(MAX_FOUND, max(3 * limit, 20))
        best: dict[tuple[str, str], RecallHit] = {}
        try:
            with self._store_lock:
                found = store.search(prefix, query=query, limit=wanted)
        except Exception as error:
            msg = f"the search failed: {type(error).__name__}: {error}"
            raise SearchError(msg) from error
        for item in found:
            if item.namespace[: len(prefix)] != prefix or item.score is None:
                continue
            hit = _build_hit(item.value, item.score)
            if hit is None:
                continue
            key = (hit.thread.id, hit.group_id)
            if key not in best or hit.score > best[key].score:
                best[key] = hit
        return sorted(best.values(), key=lambda hit: -hit.score)[:limit]

    # --- Deletion --------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str, resource_id: str | None, store: BaseStore) -> None:
        """Delete the items of a thread, once all waiting tasks are written."""
        self._delete(_build_namespace(Identity(thread_id, resource_id)), store)

    def delete_resource(self, resource_id: str, store: BaseStore) -> None:
        """Delete the items of all threads of a resource."""
        self._delete(_build_namespace(Identity("", resource_id))[:2], store)

    def _delete(self, prefix: Namespace, store: BaseStore) -> None:
        with self._lock:
            kept = [
                task
                for task in self._waiting
                if _build_namespace(task.who)[: len(prefix)] != prefix
            ]
            self._waiting.clear()
            self._waiting.extend(kept)
        self.flush()
        with self._store_lock:
            while found := store.search(prefix, limit=MAX_READ_AT_ONCE):
                store.batch([PutOp(item.namespace, item.key, None) for item in found])
        with self._lock:
            known = self._find_known(store)
            for key in [key for key in known if key[0][: len(prefix)] == prefix]:
                del known[key]


# --- Where and what ------------------------------------------------------------------------------


def _build_namespace(who: Identity) -> Namespace:
    """Return the namespace of a thread's items.

    Ids are hashed: a store allows neither dots nor empty labels in a namespace, and some compare
    prefixes by characters, where one id may begin like another.
    """
    resource = _hash_id(who.resource_id) if who.resource_id else NOBODY
    return (ROOT, resource, _hash_id(who.thread_id))


def _thread_of(group: Group, record: MemoryRecord) -> str:
    """Return the thread that a group is about; with a shared log it may be another one."""
    is_shared = record["scope"] == "resource"
    return (group["thread_id"] if is_shared else None) or record["thread_id"]


def _build_group_namespace(group: Group, record: MemoryRecord, who: Identity) -> Namespace:
    return _build_namespace(replace(who, thread_id=_thread_of(group, record)))


def _hash_id(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _build_items(task: _IndexTask) -> Iterator[PutOp]:
    """Yield the items of groups, and of the messages that they were written from."""
    place, done = _build_namespace(task.who), set[str]()
    entries = keyed_messages(task.messages)
    positions = {key: at for at, (key, _) in enumerate(entries)}
    for group in task.groups:
        about = {
            "group_id": group["id"],
            "updated": group["observed_at"],
            "thread_id": task.who.thread_id,
            "cursor": group["ranges"][0][0] if group["ranges"] else "",
        }
        yield from _split_pieces((*place, "groups"), group["id"], group["text"], about)
        for start, end in group["ranges"]:
            if start not in positions or end not in positions:
                continue  # removed from the conversation since
            for key, message in entries[positions[start] : positions[end] + 1]:
                text = _read_text(message)
                if key not in done and len(text) >= MIN_CHARACTERS:
                    done.add(key)
                    yield from _split_pieces(
                        (*place, "messages"), key, text, about | {"cursor": key}
                    )


def _split_pieces(
    namespace: Namespace, name: str, text: str, about: dict[str, str]
) -> Iterator[PutOp]:
    """Yield an item for each piece of a text, small enough for an embedding model."""
    text = sanitize(text).strip()
    facts = {key: sanitize(fact) for key, fact in about.items()}
    for number in range(min(MAX_PIECES, -(-len(text) // PIECE_CHARACTERS))):
        start = number * PIECE_CHARACTERS
        value = {"text": text[start : start + PIECE_CHARACTERS], **facts}
        yield PutOp(namespace, derive_id("text", name, number), value, index=["text"])


def _read_text(message: BaseMessage) -> str:
    """Return the texts and tool results of a message, without attachments, reasoning or calls."""
    return "\n".join(part_text(part) for part in parts_of(message) if part.kind in FOUND_KINDS)


def _build_hit(value: dict[str, Any], score: float) -> RecallHit | None:
    """Return the hit of an item; `None` when the item is not one of ours."""
    try:
        return RecallHit(
            thread=RecallThread(value["thread_id"]),
            group_id=value["group_id"],
            score=float(score),
            text=value["text"],
            cursor=value["cursor"],
            updated=datetime.fromisoformat(value["updated"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _split_without_repeats(items: Sequence[PutOp]) -> Iterator[list[PutOp]]:
    """Yield batches without the same text twice, which an in-memory store refuses."""
    batch: list[PutOp] = []
    texts = set[str]()
    for item in items:
        text = item.value["text"] if item.value else ""
        if len(batch) == MAX_WRITTEN_AT_ONCE or text in texts:
            yield batch
            batch, texts = [], set()
        batch.append(item)
        texts.add(text)
    if batch:
        yield batch


def _split_batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
