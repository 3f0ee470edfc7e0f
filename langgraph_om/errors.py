"""The errors this package raises on purpose, grouped by who can act on them."""

from __future__ import annotations


class ObservationalMemoryError(Exception):
    """The base of all errors of this package."""


class ArchiveError(ObservationalMemoryError):
    """The archive's storage failed (locked, full or unreachable); its own error is the cause."""


class ArchiveLacksError(ArchiveError):
    """The archive lacks what its writer expects: thread deleted, or archive replaced."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"the thread {thread_id!r} was deleted or the archive replaced in the meantime"
        )


class ConfigurationError(ObservationalMemoryError, ValueError):
    """A setting, a state or an argument is invalid; the message says what to write."""


class ItemError(ConfigurationError):
    """No item of the log matches, or several do; the message lists candidates."""


class ModelTierError(ObservationalMemoryError, ValueError):
    """No tier of a `ModelByInputTokens` covers the input of a call."""


class ObserverError(ObservationalMemoryError):
    """The Observer or Reflector failed, timed out, or gave an unreadable answer."""

    observations: str = ""
    """The part of the answer that could be read, for display."""
    room: int = 0
    """The most tokens for a shorter question; 0: a shorter one does not help."""


class SourceError(ObservationalMemoryError):
    """The place that a memory is read from cannot be reached, or has no such thread or log."""


class ThreadBusyError(ObservationalMemoryError):
    """A run of the thread is under way and would overwrite a change to its memory."""
