"""What the checks of an archive share: entries and times to write, and expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.errors import ConfigurationError

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return the time so many minutes after the start."""
    return START + timedelta(minutes=minutes)


def make_entries(*keys: str) -> list[tuple[str, BaseMessage, bool]]:
    """Return entries to append, one for each key."""
    return [(key, HumanMessage(f"says {key}", id=key), True) for key in keys]


def expect(found: object, wanted: object, what: str) -> None:
    """Compare what was found with what was wanted."""
    if found != wanted:
        msg = f"{what}: found {found!r}, expected {wanted!r}"
        raise AssertionError(msg)


def expect_that(found: object, what: str) -> None:
    """Expect `True`."""
    expect(found, wanted=True, what=what)


def expect_not(found: object, what: str) -> None:
    """Expect `False`."""
    expect(found, wanted=False, what=what)


def expect_refusal(call: Callable[[], object], *words: str, secret: str | None = None) -> None:
    """Expect a `ConfigurationError` that says these words, and not the secret one."""
    try:
        call()
    except ConfigurationError as error:
        missing = [word for word in words if word not in str(error)]
        expect(missing, [], f"words of the error {str(error)!r}")
        if secret is not None:
            expect_not(secret in str(error), f"another's name in the error {str(error)!r}")
    else:
        msg = "a call passed that has to raise ConfigurationError"
        raise AssertionError(msg)


def list_keys(archive: Any, thread: str, **options: Any) -> list[str]:
    """Return the keys of a page of messages."""
    return [row.key for row in archive.messages(thread, **{"limit": 1000, **options})]


def expect_branch(archive: Any, thread: str, keys: Iterable[str], what: str) -> None:
    """Expect the current branch to hold these messages, at positions from 0 on."""
    found = archive.messages(thread, limit=1000, visible_only=False)
    wanted = list(enumerate(keys))
    expect([(row.position, row.key) for row in found], wanted, what)
    expect_that(all(row.is_current for row in found), f"{what}, all current")
    expect(archive.last_position(thread), len(wanted) - 1 if wanted else None, f"{what}, length")
