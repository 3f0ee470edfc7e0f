"""The archive: what is kept outside of LangGraph's checkpoints, shared by threads and workers.

`SQLAlchemyArchive` keeps it in SQLite or PostgreSQL. What it can do lies in one file each: `append`
and `page` for messages, `search`, `groups` of observations, `jobs`, and `archive`, which puts them
together, moves and deletes. Every method is one transaction, and answers for the thread or resource
that it is asked about.
"""

from __future__ import annotations

import typing

from langgraph_om.archive.types import (
    IN_STORE,
    ArchivedHit,
    ArchivedMessage,
    ArchivedThread,
    Claim,
    JobView,
    ListedThread,
    StoreUse,
    UnobservedThread,
)

if typing.TYPE_CHECKING:
    from langgraph_om.archive.archive import SQLAlchemyArchive

__all__ = [
    "IN_STORE",
    "ArchivedHit",
    "ArchivedMessage",
    "ArchivedThread",
    "Claim",
    "JobView",
    "ListedThread",
    "SQLAlchemyArchive",
    "StoreUse",
    "UnobservedThread",
]


def __getattr__(name: str) -> typing.Any:
    """Import the SQL archive when it is asked for: SQLAlchemy takes a while to import."""
    if name != "SQLAlchemyArchive":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from langgraph_om.archive.archive import SQLAlchemyArchive  # noqa: PLC0415 see above

    return SQLAlchemyArchive
