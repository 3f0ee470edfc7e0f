"""Search by meaning: observation groups and their messages, indexed in the run's LangGraph store.

Items are written in the background, each text once; whatever fails is logged and tried again with
the next turn. The items of a resource are under its own namespace only.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.config import get_store
from langgraph.store.base import BaseStore, GetOp, PutOp

from langgraph_om.archive.after_fork import begin_anew_after_fork
from langgraph_om.core.config.settings import Identity
from langgraph_om.core.search.matching import Kind
from langgraph_om.core.wire import MemoryRecord
from langgraph_om.errors import ConfigurationError, ObservationalMemoryError
from langgraph_om.recall.meaning.items import (
    IndexTask,
    Namespace,
    build_group_namespace,
    build_hit,
    build_items,
    build_namespace,
    find_thread,
)
from langgraph_om.recall.source import RecallHit

logger = logging.getLogger("langgraph_om")

MAX_WRITTEN_AT_ONCE: Final = 32
MAX_READ_AT_ONCE: Final = 200
MAX_WAITING_TASKS: Final = 64
MAX_KNOWN_GROUPS: Final = 50_000
MAX_KNOWN_STORES: Final = 8
MAX_FOUND: Final = 100
"""Items that one search reads at most; several of them may be of one group."""

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


def find_store() -> BaseStore | None:
    """Return the store of the run around this call; `None` outside of one."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None


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
        self._waiting: deque[IndexTask] = deque()
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
                group["id"]: build_group_namespace(group, record, who) for group in record["log"]
            }
            written = (group for group in record["log"] if group["text"])
            new = [group for group in written if (places[group["id"]], group["id"]) not in known]
            if not new or len(self._waiting) >= MAX_WAITING_TASKS:
                return
            known.update(dict.fromkeys((places[group["id"]], group["id"]) for group in new))
            while len(known) > MAX_KNOWN_GROUPS:
                known.popitem(last=False)
            for thread_id in dict.fromkeys(find_thread(group, record) for group in new):
                groups = [group for group in new if find_thread(group, record) == thread_id]
                own = list(messages) if thread_id == who.thread_id else []
                self._waiting.append(
                    IndexTask(store, replace(who, thread_id=thread_id), groups, own)
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

    def _write(self, task: IndexTask) -> None:
        """Put those texts of a task into the store that it does not have yet."""
        for items in _split_batches(build_items(task), MAX_READ_AT_ONCE):
            with self._store_lock:
                there = task.store.batch([GetOp(item.namespace, item.key) for item in items])
            new = [item for item, found in zip(items, there, strict=True) if found is None]
            for batch in _split_without_repeats(new):
                with self._store_lock:
                    task.store.batch(batch)

    def _note_failure(self, task: IndexTask, error: Exception) -> None:
        """Log a failure, and forget the groups so that the next turn adds them again."""
        place = build_namespace(task.who)
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
        finds_messages: bool = False,
    ) -> list[RecallHit]:
        """Return the best match of each group nearest in meaning, the best first.

        Args:
            store: The run's store.
            query: What to look for.
            limit: How many groups at most.
            who: The current thread and its user.
            in_resource: Whether all threads of the resource are searched instead of the current
                one; without a resource it is the current one.
            finds_messages: Whether the best match of each message is returned instead.

        Raises:
            ConfigurationError: When the store cannot be searched.
            SearchError: When it fails.
        """
        store, place = check_store(store), build_namespace(who)
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
            kind: Kind = "message" if item.namespace[-1] == "messages" else "observations"
            hit = build_hit(item.value, item.score, kind)
            if hit is None or (finds_messages and kind != "message"):
                continue
            key = (hit.thread.id, hit.cursor if finds_messages else hit.group_id)
            if key not in best or hit.score > best[key].score:
                best[key] = hit
        return sorted(best.values(), key=lambda hit: -hit.score)[:limit]

    # --- Deletion --------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str, resource_id: str | None, store: BaseStore) -> None:
        """Delete the items of a thread, once all waiting tasks are written."""
        self._delete(build_namespace(Identity(thread_id, resource_id)), store)

    def delete_resource(self, resource_id: str, store: BaseStore) -> None:
        """Delete the items of all threads of a resource."""
        self._delete(build_namespace(Identity("", resource_id))[:2], store)

    def _delete(self, prefix: Namespace, store: BaseStore) -> None:
        with self._lock:
            kept = [
                task for task in self._waiting if build_namespace(task.who)[: len(prefix)] != prefix
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
