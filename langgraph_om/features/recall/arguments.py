"""Describe recall's arguments, and read those that a model wrote.

A value in another form is accepted when it can only mean one thing, such as "2" for a number. Any
other is refused with a text that names the argument, its value, and what to write instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal

from langgraph_om.core.config.options import find_near
from langgraph_om.core.content.text import (
    describe_omitted,
    looks_encoded,
    sanitize,
    show_key,
    write_short_json,
)

MAX_ITEMS: Final = 20
HITS: Final = 8
"""How many hits a search answers with unless more are asked for; each shows more of its text."""

MAX_PAGES: Final = 1000
"""To read further, a cursor is faster."""

MAX_QUERY_CHARACTERS: Final = 2000
MAX_SHOWN_CHARACTERS: Final = 80
MODES: Final = ("messages", "search", "threads")


@dataclass(frozen=True, slots=True)
class RecallArgument:
    """What is known of one argument; all arguments are optional."""

    description: str = ""
    """For a model; without one, only a program is told of the argument."""
    kind: Literal["string", "integer"] = "string"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    """A `limit` above it is read as it; any other argument is refused."""

    default: str | None = None
    modes: tuple[str, ...] = ()
    """The only modes in which it may be given; none: all."""

    needs: Literal["resource"] | None = None
    """Offered only with resource scope."""


RECALL_ARGUMENTS: Final[Mapping[str, RecallArgument]] = {
    "mode": RecallArgument(
        'Read "messages" (default), "search" them', choices=MODES, default="messages"
    ),
    "query": RecallArgument('Words to search for, with mode "search"', modes=("search",)),
    "cursor": RecallArgument(
        "Id of the message to read from; without it, the start", modes=("messages", "search")
    ),
    "anchor": RecallArgument(choices=("start", "end"), modes=("messages",)),
    "thread_id": RecallArgument(
        "Conversation to read or search", modes=("messages", "search"), needs="resource"
    ),
    "page": RecallArgument(
        "1, 2 read on from the cursor, -1, -2 back from it or from the end",
        kind="integer",
        minimum=-MAX_PAGES,
        maximum=MAX_PAGES,
    ),
    "limit": RecallArgument("Items per page", kind="integer", minimum=1, maximum=MAX_ITEMS),
    "detail": RecallArgument(
        '"low" (default) shows how parts [p0], [p1] begin, "high" one message in full',
        choices=("low", "high"),
        default="low",
    ),
    "part_index": RecallArgument(
        "Show this part of the cursor's message in full", kind="integer", minimum=0
    ),
    "char_offset": RecallArgument(
        "Where to go on in that part: next_char_offset", kind="integer", minimum=0
    ),
    "before": RecallArgument("Search before this ISO date", modes=("threads", "search")),
    "after": RecallArgument("Search from this ISO date on", modes=("threads", "search")),
    "role": RecallArgument("user, assistant or tool", modes=("search",)),
    "tool_name": RecallArgument("Only this tool's calls and results", modes=("messages", "search")),
    "part_type": RecallArgument(
        choices=("text", "tool-call", "tool-result", "reasoning", "image", "file"),
        modes=("messages",),
    ),
}
"""The arguments of recall, described for a model."""


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What a model asked for."""

    mode: str
    query: str
    cursor: str | None
    thread_id: str | None
    page: int | None
    limit: int
    detail: str
    part_index: int | None
    char_offset: int
    before: datetime | None
    after: datetime | None
    role: str | None
    tool_name: str | None
    part_type: str | None
    anchor: str | None


class RefusedError(Exception):
    """Recall has nothing to show; the answer says why and what to write instead."""

    def __init__(self, text: str, *, kind: Literal["error", "hint"] = "error") -> None:
        super().__init__(text)
        self.answer = {kind: text}


_NAMES: Final = ", ".join(f"`{name}`" for name in RECALL_ARGUMENTS)


def _find_unknown(arguments: Mapping[str, Any]) -> str | None:
    return next((name for name in arguments if name not in RECALL_ARGUMENTS), None)


def refuse_unknown_arguments(arguments: Mapping[str, Any]) -> None:
    """Check the names that a program wrote; a model is answered instead.

    Raises:
        TypeError: When there is no such argument.
    """
    unknown = _find_unknown(arguments)
    if unknown is not None:
        near = find_near(unknown, RECALL_ARGUMENTS)
        instead = f"pass `{near}` if that was meant" if near else f"the arguments are {_NAMES}"
        msg = f"`recall` has no argument `{unknown}`; {instead}"
        raise TypeError(msg)


def read_arguments(arguments: object, timezone: tzinfo) -> RecallRequest:
    """Return the request that a model wrote; None and empty texts count as left out.

    Raises:
        RefusedError: When an argument cannot be read; it has the answer.
    """
    if not isinstance(arguments, Mapping):
        msg = f"The arguments are {quote(arguments)}; write an object with named arguments"
        raise RefusedError(msg)
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
    unknown = _find_unknown(given)
    if unknown is not None:
        msg = f"There is no argument {quote(unknown)}; the arguments are {_NAMES}"
        raise RefusedError(msg)
    mode = _read_value("mode", given.get("mode"), timezone)
    _check_mode(given, mode)
    read = {name: _read_value(name, given.get(name), timezone) for name in RECALL_ARGUMENTS}
    read["query"] = _read_query(read["query"])
    read["limit"] = read["limit"] or (HITS if mode == "search" else MAX_ITEMS)
    read["char_offset"] = read["char_offset"] or 0
    return RecallRequest(**read)


def quote(value: object) -> str:
    """Return a value as one short line of JSON, for an answer."""
    return " ".join(write_short_json(value, MAX_SHOWN_CHARACTERS).split())


def quote_id(key: str) -> str:
    """Return the id of something that exists as one line of JSON; whole, so that it can be used."""
    return json.dumps(show_key(key), ensure_ascii=False)


def quote_reference(value: object) -> str:
    """Return what a model wrote in place of an id as one line of JSON: whole, but no bytes."""
    if not isinstance(value, str):
        return quote(value)
    if any(map(looks_encoded, _REFERENCE_JOINTS.split(value))):
        return json.dumps(describe_omitted(value))
    return quote_id(value)


_REFERENCE_JOINTS = re.compile(r"[\s:;,]+")
"""What parts the ids of a range, the lines of encoded bytes, and their head from the rest."""


# --- Reading -------------------------------------------------------------------------------------


def _build_refusal(name: str, value: object, instead: str) -> RefusedError:
    return RefusedError(f"`{name}` is {_quote_argument(name, value)}; write {instead}")


def _quote_argument(name: str, value: object) -> str:
    return quote_reference(value) if name in _REFERENCES else quote(value)


_REFERENCES: Final = ("cursor", "thread_id")


def _check_mode(given: Mapping[str, Any], mode: str) -> None:
    """Refuse an argument of another mode: to ignore it would mislead."""
    for name, argument in RECALL_ARGUMENTS.items():
        if name in given and argument.modes and mode not in argument.modes:
            known = " or ".join(f'"{each}"' for each in argument.modes)
            msg = (
                f'`{name}` is {_quote_argument(name, given[name])}, but mode "{mode}" does not use '
                f"it; leave it out, or write mode {known}"
            )
            raise RefusedError(msg)


def _read_value(name: str, value: Any, timezone: tzinfo) -> Any:
    """Return the value of one argument in the form that a request has."""
    argument = RECALL_ARGUMENTS[name]
    if value is None:
        return argument.default
    if argument.kind == "integer":
        return _read_integer(name, value, argument)
    if argument.choices:
        return _read_choice(name, value, argument.choices)
    if name in ("before", "after"):
        return _read_time(name, value, timezone)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 256:  # noqa: PLR2004
        return str(value)
    raise _build_refusal(name, value, "a text")


def _read_query(written: str | None) -> str:
    query = (written or "").strip()
    if len(query) > MAX_QUERY_CHARACTERS:
        msg = (
            f"`query` has {len(query):,} characters; write a few words, at most "
            f"{MAX_QUERY_CHARACTERS:,} characters"
        )
        raise RefusedError(msg)
    return sanitize(query)


def _read_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    word = value.strip().strip("\"'").lower() if isinstance(value, str) else value
    if isinstance(word, str) and word in choices:
        return word
    raise _build_refusal(name, value, " or ".join(f'"{choice}"' for choice in choices))


_WHOLE_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,15})(?:\.0{1,15})?\s*", re.ASCII)


def _read_integer(name: str, value: Any, argument: RecallArgument) -> int | None:
    number: int | None = None
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        number = int(value)
    elif isinstance(value, str) and (written := _WHOLE_NUMBER.fullmatch(value)):
        number = int(written[1])
    too_low = number is not None and argument.minimum is not None and number < argument.minimum
    too_high = number is not None and argument.maximum is not None and number > argument.maximum
    if number is None or too_low or (too_high and name != "limit"):
        raise _build_refusal(name, value, _describe_range(argument))
    return argument.maximum if too_high else number


def _describe_range(argument: RecallArgument) -> str:
    if argument.maximum is None:
        return f"a whole number, {argument.minimum} or more"
    return f"a whole number from {argument.minimum} to {argument.maximum}"


def _read_time(name: str, value: Any, timezone: tzinfo) -> datetime:
    instead = 'an ISO 8601 date or time, such as "2026-03-15" or "2026-03-10T00:00:00Z"'
    try:
        read = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
        if read is not None:
            aware = read if read.tzinfo is not None else read.replace(tzinfo=timezone)
            return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _build_refusal(name, value, instead)
