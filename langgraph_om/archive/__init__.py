"""The archive: what is kept outside of LangGraph's checkpoints, shared by threads and workers.

Raw messages, observation groups, the memory of resources, and the jobs of background observation.
`MessageArchive` says what an archive does; `SQLAlchemyArchive` does it in SQLite or PostgreSQL.
"""

from __future__ import annotations

from langgraph_om.archive.protocol import (
    ArchivedMessage,
    ArchivedThread,
    Claim,
    JobView,
    MessageArchive,
)
from langgraph_om.archive.sql.archive import SQLAlchemyArchive

__all__ = [
    "ArchivedMessage",
    "ArchivedThread",
    "Claim",
    "JobView",
    "MessageArchive",
    "SQLAlchemyArchive",
]
