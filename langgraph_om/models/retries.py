"""Decide from an error whether a failed call is tried again, and when.

Nothing here waits or calls. Providers share no error class, so errors are recognised by their HTTP
status, by their own attributes, and by the class names of the usual clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Final

from langchain_core.exceptions import ContextOverflowError

from langgraph_om.core.content.text import compile_late

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

_OVERFLOW_STATUSES = frozenset({400, 413, 422})
_OVERFLOW_PHRASES = (
    # OpenAI, LiteLLM, Anthropic, and what is common
    *("context_length_exceeded", "contextwindowexceedederror", "maximum context length"),
    *("exceeds the context window", "context window exceeded", "context limit exceeded"),
    *("input tokens exceed the configured limit", "prompt is too long"),
    # vLLM, SGLang
    *("longer than the maximum model length", "longer than the model's context length"),
    # llama.cpp
    *("exceeds the available context size", "exceed_context_size_error"),
    # text-generation-inference, Bedrock, Gemini
    *("`inputs` must have less than", "input is too long for requested model"),
    *("exceeds the maximum number of tokens allowed", "input tokens exceeded"),
    # Ollama, OpenRouter, and proxies
    *(
        "exceeds the context length",
        "exceeds maximum context length",
        "exceeded max context length",
    ),
    *("exceed context limit", "context length is only", "exceeds the model's maximum context"),
    # Together, xAI, Cohere
    *("`max_new_tokens` must be <=", "maximum prompt length is", "in the prompt cannot exceed"),
)
"""Of errors that say so, in lower case."""
_TOO_LARGE = 413
"""The status that says it by itself: of servers that count bytes, and of proxies before them."""
_DETAILS = ("message", "error", "code", "type", "detail", "metadata", "raw")
_SIZES = ("n_prompt_tokens", "n_ctx")
"""In the body of an error, what is read of it; the rest may be words of the prompt."""
_MOST_DETAILS = 10_000

_REFUSAL_STATUSES = frozenset({400, 422})
_NAMES_REASONING = compile_late(r"thinking\W{0,3} blocks?\b|thinking\.signature")
_WANTS_REASONING = compile_late(
    r"must start with a \W?thinking\W? block|expected \W?thinking\W? or"
)

_STALE = compile_late(r"Event loop is closed|different (?:event )?loop")
_MAX_CAUSES = 5


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may succeed a little later."""
    if any(str(getattr(cause, "code", "")) in _NO_QUOTA for cause in _walk_causes(error)):
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


def is_context_overflow(error: BaseException) -> bool:
    """Return whether a provider says that the prompt is too long for the model.

    Clients of OpenAI-compatible servers raise one error for all bad requests; its text tells.
    """
    if any(isinstance(cause, ContextOverflowError) for cause in _walk_causes(error)):
        return True
    status = status_of(error)
    if status not in _OVERFLOW_STATUSES:
        return False
    text = _read_text(error).lower()
    return status == _TOO_LARGE or any(phrase in text for phrase in _OVERFLOW_PHRASES)


def read_overflow(error: BaseException) -> tuple[int | None, int | None]:
    """Return how long a provider says that the prompt was, and how long it may be, in tokens.

    Where the error tells of the answer's tokens too, these are taken off both.

    Returns:
        `None` for a number that the error does not tell.
    """
    text = _read_text(error)
    for pattern in _ASKED_AND_ALLOWED:
        found = pattern.search(text)
        if found is not None:
            told = [(name, size) for name, size in found.groupdict().items() if size]
            sizes = {name: int(re.sub(r"\D", "", size)) for name, size in told}
            asked, allowed, kept = sizes.get("asked"), sizes.get("allowed"), sizes.get("kept", 0)
            if asked is None and "whole" in sizes:
                asked = sizes["whole"] - kept
            if allowed is None or allowed <= kept:  # an answer that is too long is no prompt
                return asked, None
            return asked, allowed - kept
    return None, None


def _read_text(error: BaseException) -> str:
    """Return what an error and its causes say, and the body of the reply they were made of.

    Clients leave more or less of that out of their errors' texts.
    """
    said: list[str] = []
    for cause in _walk_causes(error):
        said += [str(cause), *_list_details(getattr(cause, "body", None))]
    return " ".join(said)


def _list_details(body: object, levels: int = 4) -> Iterator[str]:
    if isinstance(body, str):
        yield body[:_MOST_DETAILS]
    if not levels or not isinstance(body, Mapping):
        return
    for name in _DETAILS:
        yield from _list_details(body.get(name), levels - 1)
    for name in _SIZES:
        if isinstance(body.get(name), int):
            yield f"{name}: {body[name]}"


def _compile(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns in which `<asked>` and the like stand for a number."""
    filled = (re.sub(r"<(\w+)>", r"(?P<\1>\\d[\\d,_]*)", each) for each in patterns)
    return tuple(compile_late(each, re.IGNORECASE | re.DOTALL) for each in filled)


_ASKED_AND_ALLOWED = _compile(
    # OpenAI, older vLLM, OpenRouter: with the answer's tokens
    r"context length is <allowed> tokens.{0,40}requested (?:about )?<whole> tokens "
    r"\(<asked>[^,;)]*[,;] <kept>",
    r"context length is <allowed> tokens.{0,60}?(?:resulted in|requested) (?:about )?<asked>",
    # newer vLLM
    r"passed <asked> input tokens and requested <kept>.{0,60}context length is only <allowed>",
    r"prompt (?:contains|\(length) (?:at least )?<asked>.{0,80}?"
    r"maximum (?:model|context) length (?:of|is) <allowed>",
    # SGLang
    r"length of <allowed> tokens.{0,40}total of <whole> tokens: <asked> tokens.{0,40}and <kept>",
    r"input \(<asked> tokens\) is longer than the model's context length \(<allowed>",
    # Mistral, Fireworks, xAI, Cohere, Together, Groq
    r"prompt contains <asked> tokens.{0,60}with <allowed> maximum context length",
    r"prompt is too long: <asked>, model maximum context length: <allowed>",
    r"maximum prompt length is <allowed> but the request contains <asked>",
    r"prompt cannot exceed <allowed> - received <asked>",
    r"must be <= <allowed>\. given: <asked> `inputs` tokens and <kept>",
    r"limit <allowed>, requested <asked>",
    # OpenAI's responses
    r"configured limit of <allowed> tokens.{0,40}resulted in <asked>",
    # Anthropic, also behind Bedrock and Vertex
    r"<asked> tokens > <allowed> maximum",
    r"exceed context limit: <asked> \+ <kept> > <allowed>",
    # Gemini
    r"token count \(?<asked>\)? exceeds the maximum number of tokens allowed \(?<allowed>",
    r"maximum number of tokens allowed \(?<allowed>",
    # llama.cpp
    r"request \(<asked> tokens\) exceeds the available context size \(<allowed>",
    r"n_prompt_tokens\W{1,4}<asked>.{0,20}n_ctx\W{1,4}<allowed>",
    # text-generation-inference
    r"must have less than <allowed> tokens.{0,20}?given:? <asked>",
    # what is common
    r"<asked> tokens > <allowed>",
    r"maximum context length (?:of|is) <allowed>",
)
"""What the errors of providers say of sizes, the most telling form first."""


def is_refused_reasoning(error: BaseException) -> bool:
    """Return whether a provider refuses reasoning that it was sent again.

    An error that asks for more of it is none.
    """
    if status_of(error) not in _REFUSAL_STATUSES:
        return False
    text = _read_text(error).lower()
    return bool(_NAMES_REASONING.search(text)) and not _WANTS_REASONING.search(text)


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
_RETRY_DELAY = compile_late(
    r"(?i)retry_?delay['\"]?[\s:{]{1,8}(?:seconds:\s?)?['\"]?(\d{1,6}(?:\.\d+)?)"
)
_DELAY = compile_late(r"(\d{1,6}(?:\.\d{1,9})?)s")


def backoff(attempt: int, seed: str) -> float:
    """Return the pause before the next try, in seconds: doubling, with jitter.

    Args:
        seed: Determines the jitter: the same text always gives the same pause.
    """
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 10))
    digest = blake2b(f"{attempt}:{seed}".encode("utf-8", "replace"), digest_size=4).digest()
    return pause * (0.5 + 0.5 * int.from_bytes(digest) / 2**32)


def retry_after(error: BaseException, now: datetime) -> float | None:
    """Return the seconds that a provider asks to wait, or `None` when it does not say.

    Args:
        now: The current time, for a date to wait for if the response has no date of its own.
    """
    for cause in _walk_causes(error):
        for seconds in (_read_headers(cause, now), _read_details(getattr(cause, "details", None))):
            if seconds is not None:
                return seconds
    match = _RETRY_DELAY.search(str(error))
    return float(match[1]) if match else None


def _read_headers(error: BaseException, now: datetime) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if not hasattr(headers, "items"):
        return None
    values = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = values.get(name, "")
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
            return float(value) * unit
    at = _read_date(values.get("retry-after", ""))
    if at is None:
        return None
    return max(0.0, (at - (_read_date(values.get("date", "")) or now)).total_seconds())


def _read_date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _read_details(details: Any) -> float | None:
    """Read Google's `retryDelay`, as in `{"error": {"details": [{"retryDelay": "7s"}]}}`."""
    error = details.get("error", details) if isinstance(details, Mapping) else None
    entries = error.get("details") if isinstance(error, Mapping) else None
    for entry in entries if isinstance(entries, list) else []:
        delay = entry.get("retryDelay") if isinstance(entry, Mapping) else None
        match = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return float(match[1])
    return None
