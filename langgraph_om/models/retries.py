"""Decide from an error whether a failed call is tried again, and when.

Nothing here waits or calls. Providers share no error class, so errors are recognised by their HTTP
status, by their own attributes, and by the class names of the usual clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from langchain_core.exceptions import ContextOverflowError

from langgraph_om.core.effects import stops_run
from langgraph_om.errors import ObservationalMemoryError

DEFAULT_RETRIES: Final = 2
"""How often a model that is named by a string is asked again after a transient failure."""


# --- Whether -------------------------------------------------------------------------------------


_SERVER_ERROR = 500
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_NO_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

_TRANSIENT_NAMES = frozenset(
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
"""Classes of errors without a status that another try may not raise again."""

_NO_REFUSALS = frozenset({401, 402, 403, 407, 408, 409, 425, 429})
"""Of credentials, quota, rate and connection: the same question without a part fails as well."""
_TOO_LARGE = 413
_NAMES_LENGTH = re.compile(r"(?i)context|token|length|too (?:long|large|big)|overflow")
_NAMES_REASONING = re.compile(r"(?i)thinking|reasoning|signature")
_NUMBER = re.compile(r"(?<![\w.,])\d{1,9}(?:[,_']\d{3}){0,3}(?![\w,']*\d)")
_MOST_READ = 4000
"""Characters of an error's text that are looked at; what is longer quotes the prompt."""

_STALE = re.compile(r"Event loop is closed|different (?:event )?loop")
_MAX_CAUSES = 5


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a little later."""
    if any(map(has_no_quota, _walk_causes(error))):
        return False
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUSES or status >= _SERVER_ERROR
    for cause in _walk_causes(error):
        is_retryable = getattr(cause, "is_retryable", None)
        if isinstance(is_retryable, bool):
            return is_retryable
        if isinstance(cause, ConnectionError | TimeoutError):
            return True
        if any(kind.__name__ in _TRANSIENT_NAMES for kind in type(cause).__mro__):
            return True
    return False


def is_refusal(error: BaseException) -> bool:
    """Return whether a provider rejects the prompt itself, so that a shorter one may be accepted.

    The status decides, not the words. Without a status, any error counts, except connection errors
    and errors of this package and of LangGraph.
    """
    if is_transient(error) and status_of(error) != _SERVER_ERROR:
        return False
    for cause in _walk_causes(error):
        is_ours = isinstance(cause, ObservationalMemoryError)
        if is_ours or stops_run(cause) or has_no_quota(cause):
            return False
    status = status_of(error)
    if status is not None:
        return status == _SERVER_ERROR or (status < _SERVER_ERROR and status not in _NO_REFUSALS)
    is_foreign = type(error).__module__ != "builtins"
    return (is_foreign or isinstance(error, ValueError)) and not is_stale(error)


def has_no_quota(error: BaseException) -> bool:
    """Return whether an account has no quota left, which no wait brings back."""
    return str(getattr(error, "code", "")) in _NO_QUOTA


def may_be_too_long(error: BaseException) -> bool:
    """Return whether a refusal speaks of a length, which is only to be quicker.

    Any other refusal may mean the same.
    """
    if isinstance(error, ContextOverflowError) or status_of(error) == _TOO_LARGE:
        return True
    return _NAMES_LENGTH.search(_read_text(error)) is not None


def speaks_of_reasoning(error: BaseException) -> bool:
    """Return whether a refusal speaks of reasoning that was sent again, which is to be quicker."""
    return _NAMES_REASONING.search(_read_text(error)) is not None


def find_allowed(error: BaseException, counted: int) -> int | None:
    """Return how many tokens a provider takes, in the tokens that are counted here.

    A text may hold any numbers, also those of the prompt that it quotes. So two of them have to
    fit: one that is about what was sent, and the next smaller one.

    Args:
        counted: The tokens of what was sent.
    """
    told = {int(re.sub(r"\D", "", each)) for each in _NUMBER.findall(_read_text(error))}
    asked = max((each for each in told if counted / _FITS <= each <= counted * _FITS), default=0)
    allowed = max((each for each in told if _LEAST_ALLOWED <= each < asked), default=0)
    return counted * allowed // asked if allowed else None


_FITS = 2.0
"""Memory and provider count differently, and tools are counted by one of them alone."""
_LEAST_ALLOWED = 500


def _read_text(error: BaseException) -> str:
    """Return what an error and its causes say, and the body of the reply they were made of."""
    bodies = (getattr(cause, "body", None) for cause in _walk_causes(error))
    said = [*map(str, _walk_causes(error)), *(str(body) for body in bodies if body)]
    return " ".join(each[:_MOST_READ] for each in said)


def is_stale(error: BaseException) -> bool:
    """Return whether a client used a connection of an event loop that is closed.

    Clients share their connections between loops; after the failure they drop this one.
    """
    return any(
        isinstance(cause, RuntimeError) and _STALE.search(str(cause))
        for cause in _walk_causes(error)
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, or of what caused it."""
    for cause in _walk_causes(error):
        response = getattr(cause, "response", None)
        for holder in (cause, response):
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
    """Yield an error and those it was raised from."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


# --- When ----------------------------------------------------------------------------------------


_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_RETRY_DELAY = re.compile(
    r"(?i)retry_?delay['\"]?[\s:{]{1,8}(?:seconds:\s?)?['\"]?(\d{1,6}(?:\.\d+)?)"
)


def backoff(attempt: int, seed: str) -> float:
    """Return the pause before the next try, in seconds: doubling, with jitter.

    Args:
        seed: Determines the jitter: the same text always gives the same pause.
    """
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 10))
    digest = blake2b(f"{attempt}:{seed}".encode("utf-8", "replace"), digest_size=4).digest()
    return pause * (0.5 + 0.5 * int.from_bytes(digest) / 2**32)


def retry_after(error: BaseException) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` when it does not say."""
    for cause in _walk_causes(error):
        headers: Any = getattr(getattr(cause, "response", None), "headers", None)
        found = headers.items() if hasattr(headers, "items") else ()
        values = {str(name).lower(): str(value).strip() for name, value in found}
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", values.get(name, "")):
                return float(values[name]) * unit
    match = _RETRY_DELAY.search(_read_text(error))
    return float(match[1]) if match else None
