"""Read what a former version wrote: records, shared logs, and events of a channel or an archive.

Version 2 made one group for each day of an observation. A chunk has `groups` since then, where it
had the range, the thread and the text of a single one; the end event of an observation has `groups`
where it had `group`; and a shared log says its version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph_om.errors import ConfigurationError

RECORD_VERSION: Final = 2
"""Version of the record's form; a record of a later version is refused."""

_OF_GROUP: Final = ("ranges", "thread_id", "text")
"""What a chunk of version 1 had that its groups have now."""


def upgrade_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record, or an edit of some of its keys, in the form of today.

    Raises:
        ConfigurationError: When it was written by a later version, or names no version.
    """
    version = record.get("version", RECORD_VERSION)
    _check_version("`om.version`", version)
    chunks = record.get("chunks")
    if isinstance(chunks, Sequence) and any(map(_is_former_chunk, chunks)):
        record = {**record, "chunks": list(map(_upgrade_chunk, chunks))}
    return record if version == RECORD_VERSION else {**record, "version": RECORD_VERSION}


def upgrade_log(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a shared log, as an archive has stored it, in the form of today.

    Raises:
        ConfigurationError: When it was written by a later version, or names no version.
    """
    _check_version("the `version` of the shared log", stored.get("version", 1))
    return {**stored, "version": RECORD_VERSION}


def upgrade_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event, as a channel or an archive has kept it, in the form of today."""
    if event["type"] == "observation-end" and "group" in event:
        rest = {key: value for key, value in event.items() if key != "group"}
        return {**rest, "groups": [event["group"]]}
    if event["type"] == "buffering-end" and _is_former_chunk(event.get("chunk")):
        return {**event, "chunk": _upgrade_chunk(event["chunk"])}
    return event


def _check_version(what: str, version: object) -> None:
    """Refuse what this version of the package does not know.

    Raises:
        ConfigurationError: Where it does not.
    """
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if is_number and version in range(1, RECORD_VERSION + 1):
        return
    msg = (
        f"{what} is {version!r}, this package reads records up to version {RECORD_VERSION}; "
        f"upgrade langgraph-om"
    )
    raise ConfigurationError(msg)


def _is_former_chunk(chunk: object) -> bool:
    # The union is asked from the left: a dict, as nearly all are, is told quickly.
    if not isinstance(chunk, dict | Mapping):
        return False
    return "groups" not in chunk and chunk.keys() >= {*_OF_GROUP}


def _upgrade_chunk(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a chunk with what it becomes in the log: one group, since its days are not known."""
    if not _is_former_chunk(chunk):
        return chunk
    group = {
        "id": chunk.get("id"),
        "kind": "observation",
        **{name: chunk[name] for name in _OF_GROUP},
        "observed_at": chunk.get("created_at"),
        "tokens": chunk.get("tokens"),
    }
    return {**{key: chunk[key] for key in chunk if key not in _OF_GROUP}, "groups": [group]}
