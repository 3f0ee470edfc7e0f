"""A resource's working memory in a LangGraph store.

A store has no compare-and-set. So each leaf of the value is an item of its own, an update writes
new items and then removes those that it has read at the same places, and no writer ever overwrites
an item. Within a process updates come one after the other. When two processes write the same leaf
at the same moment, both items stay, and reading joins them: lines of texts and items of lists are
united, and of other values the later one counts.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final
from uuid import uuid4

from langgraph.store.base import BaseStore, Item, PutOp

from langgraph_om.core.forms import (
    Form,
    Path,
    TemplateForm,
    Value,
    find_conflicts,
    list_leaves,
    merge,
    write_path,
)
from langgraph_om.errors import ConfigurationError

ROOT: Final = "langgraph_om"
"""What everything of this package in a store stands under, and then the resource."""

_PAGE: Final = 200
_ATTEMPTS: Final = 5

Namespace = tuple[str, ...]


class ConflictError(Exception):
    """An update that would replace what its writer has not seen."""

    def __init__(self, paths: Sequence[Path], current: Value) -> None:
        super().__init__(", ".join(write_path(path) for path in paths if path))
        self.current = current
        """The value as it is."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One item of the store."""

    key: str
    path: Path
    value: Any
    replaces: Sequence[str]
    """Keys of the items in whose place it stands, which may still be there."""
    at: str


_LOCKS: Final = [threading.RLock() for _ in range(64)]


def _lock(namespace: Namespace) -> Any:
    """Return the lock of a namespace, which it shares with few others.

    A store of its own has none: a server hands out another object for the same store in each run.
    """
    return _LOCKS[hash(namespace) % len(_LOCKS)]


def read_stored(form: Form, store: BaseStore, resource_id: str) -> Value:
    """Return what is kept of a resource; `None` for nothing."""
    return _join(_read_leaves(store, build_namespace(form, resource_id)))


def update_stored(
    form: Form, store: BaseStore, resource_id: str, patch: Any, known: Value
) -> Value:
    """Merge an update into what is kept of a resource.

    Args:
        known: What the writer was shown.

    Returns:
        The value as it is now.

    Raises:
        ConflictError: When somebody else has changed the same meanwhile; nothing is written.
        InvalidError: When the form does not allow what would come of it; nothing is written.
    """
    namespace = build_namespace(form, resource_id)
    with _lock(namespace):
        leaves = _read_leaves(store, namespace)
        current = _join(leaves)
        conflicts = find_conflicts(patch, known, current)
        if conflicts:
            raise ConflictError(conflicts, current)
        merged = merge(current, patch)
        form.check(merged)
        _write(store, namespace, leaves, merged)
        return merged or None


def put_stored(form: Form, store: BaseStore, resource_id: str, value: Value) -> None:
    """Keep a value in the place of all that is kept of a resource; `None` for nothing.

    Raises:
        InvalidError: When the form does not allow it; nothing is written.
    """
    namespace = build_namespace(form, resource_id)
    if value is not None:
        form.check(value)
    with _lock(namespace):
        _write(store, namespace, _read_leaves(store, namespace), value)


def delete_stored(store: BaseStore, resource_id: str) -> None:
    """Delete all that is kept of a resource, in either form."""
    for kind in _KINDS:
        namespace = _build_namespace(kind, resource_id)
        with _lock(namespace):
            items = _search(store, namespace)
            if items:
                store.batch([PutOp(namespace, item.key, None) for item in items])


_KINDS: Final = ("working-text", "working-json")
"""What the namespaces of texts and of JSON end with."""


def build_namespace(form: Form, resource_id: str) -> Namespace:
    """Return where a resource's memory is kept."""
    return _build_namespace(_KINDS[not isinstance(form, TemplateForm)], resource_id)


def _build_namespace(kind: str, resource_id: str) -> Namespace:
    """Return a namespace; the id is hashed, as stores allow no dots in it."""
    name = resource_id.encode("utf-8", "surrogatepass")
    return (ROOT, hashlib.blake2b(name, digest_size=16).hexdigest(), kind)


def check_store(store: BaseStore | None) -> BaseStore:
    """Return a run's store.

    Raises:
        ConfigurationError: When there is none.
    """
    if store is not None:
        return store
    msg = (
        "`working_memory` has the scope 'resource' and the graph has no store to keep it in; "
        "compile the graph with one, such as `store=InMemoryStore()` or `PostgresStore`, or pass "
        "WorkingMemory(scope='thread')"
    )
    raise ConfigurationError(msg)


def check_resource_id(resource_id: object) -> str:
    """Return the resource that a run is about.

    Raises:
        ConfigurationError: When the run does not say, or it is no text.
    """
    if isinstance(resource_id, str) and resource_id:
        return resource_id
    if resource_id not in (None, ""):
        msg = f"`resource_id` is {resource_id!r}; pass a text"
        raise ConfigurationError(msg)
    msg = (
        "`working_memory` has the scope 'resource' and the run names no owner; pass "
        '{"configurable": {"thread_id": ..., "resource_id": ...}} or '
        "WorkingMemory(scope='thread')"
    )
    raise ConfigurationError(msg)


# --- Items ---------------------------------------------------------------------------------------


def _read_leaves(store: BaseStore, namespace: Namespace) -> list[_Leaf]:
    """Return the items that are in force, oldest first."""
    found: dict[str, _Leaf] = {}
    for item in _search(store, namespace):
        value = item.value
        path, replaces = tuple(value["path"]), value["replaces"]
        found[item.key] = _Leaf(item.key, path, value["value"], replaces, value["at"])
    replaced = {key for leaf in found.values() for key in leaf.replaces}
    leaves = (leaf for leaf in found.values() if leaf.key not in replaced)
    return sorted(leaves, key=lambda leaf: (leaf.at, leaf.key))


def _search(store: BaseStore, namespace: Namespace) -> list[Item]:
    """Return all items of a namespace."""
    for attempt in range(_ATTEMPTS):
        try:
            return [*_search_pages(store, namespace)]
        except RuntimeError:
            # An in-memory store cannot be searched while somebody writes to it.
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _search_pages(store: BaseStore, namespace: Namespace) -> Iterable[Item]:
    offset = 0
    while True:
        page = store.search(namespace, limit=_PAGE, offset=offset)
        yield from (item for item in page if tuple(item.namespace) == namespace)
        if len(page) < _PAGE:
            return
        offset += _PAGE


def _write(store: BaseStore, namespace: Namespace, leaves: Sequence[_Leaf], value: Value) -> None:
    """Write the leaves that are new or changed, then remove those that stand for nothing any more.

    In this order, and in two steps: a process that ends in between has lost nothing.
    """
    by_path: dict[Path, list[_Leaf]] = {}
    for leaf in leaves:
        by_path.setdefault(leaf.path, []).append(leaf)
    puts, kept = [], set()
    for path, wanted in list_leaves(value):
        there = by_path.get(path, [])
        if len(there) == 1 and there[0].value == wanted:
            kept.add(there[0].key)
            continue
        item = {
            "path": list(path),
            "value": wanted,
            "replaces": [leaf.key for leaf in there],
            "at": datetime.now(UTC).isoformat(timespec="microseconds"),
        }
        puts.append(PutOp(namespace, uuid4().hex, item, index=False))
    gone = [leaf.key for leaf in leaves if leaf.key not in kept]
    if puts:
        store.batch(puts)
    if gone:
        store.batch([PutOp(namespace, key, None) for key in gone])


# --- Joining -------------------------------------------------------------------------------------


def _join(leaves: Sequence[_Leaf]) -> Value:
    """Make one value of leaves, oldest first; what was written at the same moment is joined."""
    texts = [leaf.value for leaf in leaves if not leaf.path]
    if texts:
        return str(reduce(lambda former, later: join_texts(later, former, later), texts))
    joined: dict[Path, Any] = {}
    for leaf in leaves:
        former = joined.get(leaf.path)
        if isinstance(former, list) and isinstance(leaf.value, list):
            joined[leaf.path] = [*former, *(item for item in leaf.value if item not in former)]
        else:
            joined[leaf.path] = leaf.value
    whole: dict[str, Any] = {}
    for path in sorted(joined, key=len):
        _set_at(whole, path, joined[path])
    return whole or None


def join_texts(there: str, given: str, shown: str) -> str:
    """Return a text with the lines of another behind it, those that were shown left out."""
    seen = {*there.split("\n"), *shown.split("\n")}
    new = [line for line in given.split("\n") if line not in seen]
    return "\n".join([there, "", *new]) if new else there


def _set_at(whole: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(whole.get(key), dict):
            whole[key] = {}
        whole = whole[key]
    if not (value == {} and isinstance(whole.get(path[-1]), dict)):
        whole[path[-1]] = value
