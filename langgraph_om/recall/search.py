"""Search by meaning: observation groups and their messages, kept in the run's LangGraph store.

What is put into the store is written beside the run, each text once; whatever fails is logged and
tried again with the next turn. A resource's items are found under its namespace alone.
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
"""Messages that are shorter say too little to be found by."""
PIECE_CHARACTERS: Final = 4000
MAX_PIECES: Final = 16
"""A longer text is found by its first pieces only."""

MAX_WRITTEN_AT_ONCE: Final = 32
MAX_READ_AT_ONCE: Final = 200
MAX_WAITING_JOBS: Final = 64
MAX_KNOWN_GROUPS: Final = 50_000
MAX_KNOWN_STORES: Final = 8
MAX_FOUND: Final = 100
"""Items that one search reads; several of them may be of one group."""

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
class _Job:
    """Groups to put into a store, with the conversation that they are about."""

    store: BaseStore
    who: Identity
    groups: list[Group]
    messages: list[BaseMessage]


class StoreIndex:
    """The index of one memory over any number of stores."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        # A store in memory cannot be searched while it is written.
        self._store_lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
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
        """Put what is new in a log into a store, beside the run.

        Args:
            record: The memory of the thread.
            messages: Its conversation.
            store: The run's store.
            who: Whose conversation it is.

        Raises:
            ConfigurationError: When the store cannot be searched.
        """
        store = check_store(store)
        with self._lock:
            known = self._known_in(store)
            places = {group["id"]: _place_of(group, record, who) for group in record["log"]}
            told = (group for group in record["log"] if group["text"])
            new = [group for group in told if (places[group["id"]], group["id"]) not in known]
            if not new or len(self._waiting) >= MAX_WAITING_JOBS:
                return
            known.update(dict.fromkeys((places[group["id"]], group["id"]) for group in new))
            while len(known) > MAX_KNOWN_GROUPS:
                known.popitem(last=False)
            for thread_id in dict.fromkeys(_thread_of(group, record) for group in new):
                groups = [group for group in new if _thread_of(group, record) == thread_id]
                own = list(messages) if thread_id == who.thread_id else []
                self._waiting.append(_Job(store, replace(who, thread_id=thread_id), groups, own))
            if not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="om_index", daemon=True).start()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all is written.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """
        with self._lock:
            return self._lock.wait_for(lambda: not self._is_working, timeout)

    def _known_in(self, store: BaseStore) -> OrderedDict[tuple[Namespace, str], None]:
        """Return the groups that were given to a store; other stores have groups of their own."""
        for other, known in self._known:
            if other is store:
                return known
        fresh: OrderedDict[tuple[Namespace, str], None] = OrderedDict()
        self._known.append((store, fresh))
        return fresh

    def _work(self) -> None:
        """Write what waits until nothing does."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    self._lock.notify_all()
                    return
                job = self._waiting.popleft()
            try:
                self._write(job)
            except Exception as error:  # noqa: BLE001  a store or an embedding of any kind
                self._failed(job, error)
            else:
                self._has_failed = False

    def _write(self, job: _Job) -> None:
        """Put the texts of a job that the store does not have yet into it."""
        for items in _split_batches(_build_items(job), MAX_READ_AT_ONCE):
            with self._store_lock:
                there = job.store.batch([GetOp(item.namespace, item.key) for item in items])
            new = [item for item, found in zip(items, there, strict=True) if found is None]
            for batch in _put_batches(new):
                with self._store_lock:
                    job.store.batch(batch)

    def _failed(self, job: _Job, error: Exception) -> None:
        """Forget that the groups were given away, so that the next turn gives them again."""
        place = _place(job.who)
        with self._lock:
            known = self._known_in(job.store)
            for group in job.groups:
                known.pop((place, group["id"]), None)
        if not self._has_failed:
            logger.warning(
                "thread %r: observations could not be made searchable, they are tried again with "
                "the next turn: %s: %s",
                job.who.thread_id,
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
            who: Who asks.
            in_resource: Whether all threads of the resource are searched, not the current one
                alone; without a resource it is the current one.

        Raises:
            ConfigurationError: When the store cannot be searched.
            SearchError: When it fails.
        """
        store, place = check_store(store), _place(who)
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
        """Delete what is kept of a thread, once what waits to be written is written."""
        self._delete(_place(Identity(thread_id, resource_id)), store)

    def delete_resource(self, resource_id: str, store: BaseStore) -> None:
        """Delete what is kept of all threads of a resource."""
        self._delete(_place(Identity("", resource_id))[:2], store)

    def _delete(self, prefix: Namespace, store: BaseStore) -> None:
        with self._lock:
            kept = [job for job in self._waiting if _place(job.who)[: len(prefix)] != prefix]
            self._waiting.clear()
            self._waiting.extend(kept)
        self.flush()
        with self._store_lock:
            while found := store.search(prefix, limit=MAX_READ_AT_ONCE):
                store.batch([PutOp(item.namespace, item.key, None) for item in found])
        with self._lock:
            known = self._known_in(store)
            for key in [key for key in known if key[0][: len(prefix)] == prefix]:
                del known[key]


# --- Where and what ------------------------------------------------------------------------------


def _place(who: Identity) -> Namespace:
    """Name the place of a thread's items.

    Ids are hashed: a store allows neither dots nor empty labels in a namespace, and some look for a
    prefix by its letters, where one id may begin like another.
    """
    resource = _label(who.resource_id) if who.resource_id else NOBODY
    return (ROOT, resource, _label(who.thread_id))


def _thread_of(group: Group, record: MemoryRecord) -> str:
    """Name the thread that a group is about: with a shared log it may be another one."""
    is_shared = record["scope"] == "resource"
    return (group["thread_id"] if is_shared else None) or record["thread_id"]


def _place_of(group: Group, record: MemoryRecord, who: Identity) -> Namespace:
    return _place(replace(who, thread_id=_thread_of(group, record)))


def _label(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _build_items(job: _Job) -> Iterator[PutOp]:
    """Make the items of groups, and of the messages that they were written from."""
    place, done = _place(job.who), set[str]()
    entries = keyed_messages(job.messages)
    positions = {key: at for at, (key, _) in enumerate(entries)}
    for group in job.groups:
        about = {
            "group_id": group["id"],
            "updated": group["observed_at"],
            "thread_id": job.who.thread_id,
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
    """Make an item of each piece of a text, small enough for a model of embeddings."""
    whole = sanitize(text).strip()
    facts = {key: sanitize(fact) for key, fact in about.items()}
    for number in range(min(MAX_PIECES, -(-len(whole) // PIECE_CHARACTERS))):
        start = number * PIECE_CHARACTERS
        value = {"text": whole[start : start + PIECE_CHARACTERS], **facts}
        yield PutOp(namespace, derive_id("text", name, number), value, index=["text"])


def _read_text(message: BaseMessage) -> str:
    """Return what a message says, without what is attached, reasoned or called."""
    return "\n".join(part_text(part) for part in parts_of(message) if part.kind in FOUND_KINDS)


def _build_hit(value: dict[str, Any], score: float) -> RecallHit | None:
    """Read an item back; nothing when it is not of ours."""
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


def _put_batches(items: Sequence[PutOp]) -> Iterator[list[PutOp]]:
    """Part items into batches without the same text twice, which a store in memory refuses."""
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


def _split_batches(things: Iterable[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch
