"""Whether a failed call is worth another try, and when: read from the error, whoever raised it.

Nothing here waits or calls. Providers share no error class, so errors are known by their HTTP
status, by what they say of themselves, and by the names that the usual clients give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Final

DEFAULT_RETRIES: Final = 2
"""How often a model that is named by a string is asked again after a transient failure."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_SERVER_ERROR = 500
_STATUSES = frozenset({408, 409, 425, 429})
_NO_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

_NAMES = frozenset(
    {
        # httpx, requests, aiohttp, urllib3
        *("TransportError", "RequestException", "ClientConnectionError", "ServerTimeoutError"),
        *("Timeout", "ProtocolError", "IncompleteRead", "PoolError"),
        # OpenAI, Anthropic and clients made alike
        *("APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError"),
        # google.api_core, botocore
        *("TooManyRequests", "ResourceExhausted", "ServerError", "ServiceUnavailable"),
        *("DeadlineExceeded", "Aborted", "RetryError", "HTTPClientError", "ThrottlingException"),
    }
)
"""Classes of errors without a status that another try may not meet again."""

_CHAIN = 5


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a little later."""
    if any(str(getattr(each, "code", "")) in _NO_QUOTA for each in _walk_causes(error)):
        return False
    status = status_of(error)
    if status is not None:
        return status in _STATUSES or status >= _SERVER_ERROR
    for each in _walk_causes(error):
        said = getattr(each, "is_retryable", None)
        if isinstance(said, bool):
            return said
        if isinstance(each, ConnectionError | TimeoutError):
            return True
        if any(kind.__name__ in _NAMES for kind in type(each).__mro__):
            return True
    return False


def is_stale(error: BaseException) -> bool:
    """Return whether a client tried a connection of an event loop that is over.

    Clients share their connections between loops; the failure makes them give this one up.
    """
    return any(
        isinstance(each, RuntimeError) and _STALE.search(str(each)) for each in _walk_causes(error)
    )


_STALE = re.compile(r"Event loop is closed|different (?:event )?loop")


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error, or what caused it, carries."""
    for each in _walk_causes(error):
        response = getattr(each, "response", None)
        for holder in (each, response):
            for name in ("status_code", "code", "http_status", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and 100 <= status < 600:  # noqa: PLR2004 the range of HTTP
                    return int(status)
        if isinstance(response, Mapping):
            status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
            if isinstance(status, int):
                return status
    return None


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from."""
    each: BaseException | None = error
    for _ in range(_CHAIN):
        if each is None:
            return
        yield each
        each = each.__cause__


# --- When ----------------------------------------------------------------------------------------


def backoff(attempt: int, seed: str) -> float:
    """Return the pause before the next try, in seconds: doubling, with jitter.

    Args:
        attempt: How often the model was asked again before; 0 at first.
        seed: What the jitter follows from; the same text always gives the same pause.
    """
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 10))
    digest = blake2b(f"{attempt}:{seed}".encode("utf-8", "replace"), digest_size=4).digest()
    return pause * (0.5 + 0.5 * int.from_bytes(digest) / 2**32)


def retry_after(error: BaseException, now: datetime) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` when it does not say.

    Args:
        error: What the call raised.
        now: The current time, for a date to wait for; the response's own date goes before it.
    """
    for each in _walk_causes(error):
        for asked in (_from_headers(each, now), _from_details(getattr(each, "details", None))):
            if asked is not None:
                return asked
    said = _RETRY_DELAY.search(str(error))
    return float(said[1]) if said else None


_RETRY_DELAY = re.compile(
    r"(?i)retry_?delay['\"]?[\s:{]{1,8}(?:seconds:\s?)?['\"]?(\d{1,6}(?:\.\d+)?)"
)
_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")


def _from_headers(error: BaseException, now: datetime) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if not hasattr(headers, "items"):
        return None
    said = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = said.get(name, "")
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
            return float(value) * unit
    at = _read_date(said.get("retry-after", ""))
    if at is None:
        return None
    return max(0.0, (at - (_read_date(said.get("date", "")) or now)).total_seconds())


def _read_date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _from_details(details: Any) -> float | None:
    """Read Google's `retryDelay`, as in `{"error": {"details": [{"retryDelay": "7s"}]}}`."""
    error = details.get("error", details) if isinstance(details, Mapping) else None
    entries = error.get("details") if isinstance(error, Mapping) else None
    for entry in entries if isinstance(entries, list) else []:
        delay = entry.get("retryDelay") if isinstance(entry, Mapping) else None
        said = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if said:
            return float(said[1])
    return None
