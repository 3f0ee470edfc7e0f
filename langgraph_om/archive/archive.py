"""The archive in SQLite or PostgreSQL, of its parts."""

from __future__ import annotations

from langgraph_om.archive.append import Append
from langgraph_om.archive.delete import Deletion
from langgraph_om.archive.groups import Groups
from langgraph_om.archive.jobs import Jobs
from langgraph_om.archive.page import Pages
from langgraph_om.archive.records import Records
from langgraph_om.archive.search import Search
from langgraph_om.archive.threads import Threads


class SQLAlchemyArchive(Append, Pages, Search, Threads, Groups, Records, Jobs, Deletion):
    """An archive in an SQLite file or a PostgreSQL database, shared by threads and processes.

    Its tables, and a function in PostgreSQL, are named `om_...` and are made on first use; making
    the object opens no connection.

        SQLAlchemyArchive("sqlite:///memory.db")
        SQLAlchemyArchive("postgresql://user:secret@host/database")

    Args:
        url_or_engine (str | Engine): SQLAlchemy's URL, or an engine, which stays the caller's:
            `close` leaves it open, and an engine for SQLite is used with the settings it has.

    Raises:
        ConfigurationError: When the URL cannot be used, or its driver is not installed.
    """

    @property
    def place(self) -> str:
        """Where the database is, without a password; for warnings."""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)
