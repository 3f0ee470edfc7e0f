"""The archive in SQLite or PostgreSQL."""

from __future__ import annotations

from sqlalchemy import Engine

from langgraph_om.archive.protocol import MessageArchive
from langgraph_om.archive.sql.database import Database
from langgraph_om.archive.sql.jobs import SQLJobs
from langgraph_om.archive.sql.messages import SQLMessages
from langgraph_om.archive.sql.records import SQLGroups, SQLRecords
from langgraph_om.archive.sql.search.query import SQLSearch
from langgraph_om.archive.sql.threads import SQLThreads


class SQLAlchemyArchive(
    SQLThreads, SQLMessages, SQLSearch, SQLGroups, SQLRecords, SQLJobs, MessageArchive
):
    """An archive in an SQLite file or a PostgreSQL database, shared by threads and processes.

    Its tables, and a function in PostgreSQL, are named `om_...` and are made on first use; making
    the object opens no connection.

        SQLAlchemyArchive("sqlite:///memory.db")
        SQLAlchemyArchive("postgresql://user:secret@host/database")

    Args:
        url_or_engine: SQLAlchemy's URL, or an engine, which stays the caller's: `close` leaves it
            open, and an engine for SQLite is used with the settings it has.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """

    def __init__(self, url_or_engine: str | Engine) -> None:
        self._database = Database(url_or_engine)

    @property
    def place(self) -> str:
        """Where the database is, without a password; for warnings."""
        url = self._database.engine.url.set(query={})
        return url.render_as_string(hide_password=True)

    def setup(self) -> None:
        """Prepare the storage. Every other call does so on first use; doing it again is harmless.

        Raises:
            ArchiveError: When the database fails.
            ConfigurationError: When the tables are those of another version of this package.
        """
        self._database.setup()

    def close(self) -> None:
        """Let go of connections, unless the engine is the caller's; a later call opens new ones."""
        self._database.close()
