"""The time of a message, by one rule for whoever shows or keeps one.

1. Its own time: what the host says, its metadata, or a time-ordered id.
2. First seen: the stamp that was noted when it arrived while memory watched.
3. The time of its nearest neighbour in its exchange, which begins with what a person says: a
   person speaks when the next message with a time of its own is written, since answers carry one;
   an answer or a result comes when the last message before it does, which has any time.
4. The time of its nearest neighbour beyond: of the next message with a time of its own, else of the
   last message before it that has any.
5. Unknown.

A stamp tells nothing of what stands before it, which may be much older: a thread is adopted, or
memory was off for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_om.core.content.message_keys import Keyed
from langgraph_om.errors import ConfigurationError

MessageTime = Callable[[BaseMessage], datetime | None]


# --- Time ----------------------------------------------------------------------------------------


def message_time(
    message: BaseMessage,
    key: str,
    stamps: Mapping[str, str],
    *,
    timezone: tzinfo,
    custom: MessageTime | None = None,
) -> datetime | None:
    """Tell when a message was written, as far as anything knows.

    Looks at the user's own function, then `created_at` (ISO) in `additional_kwargs` and
    `response_metadata`, then a time-ordered id (UUIDv7, ULID), then the first-seen stamp. A time
    without a zone is one of the memory's `timezone`.

    Returns:
        An aware time, or `None` for a message of unknown time.
    """
    if custom is not None:
        told: Any = custom(message)
        if told is not None and not isinstance(told, datetime):
            msg = f"`message_time` returned {told!r}; return a datetime or None"
            raise ConfigurationError(msg)
        if told is not None:
            return told if told.tzinfo else told.replace(tzinfo=timezone)
    for source in (message.additional_kwargs, message.response_metadata):
        known = _iso_time(source.get("created_at"), timezone)
        if known is not None:
            return known
    return _id_time(message.id) or _iso_time(stamps.get(key), timezone)


def times_of(
    messages: Keyed,
    stamps: Mapping[str, str],
    *,
    timezone: tzinfo,
    custom: MessageTime | None = None,
) -> list[datetime | None]:
    """Tell when each of these messages was written, by the rule of this file.

    Args:
        messages: A stretch of a conversation, each message with its key.
        stamps: By key, the ISO times at which messages were first seen.
        timezone: The zone of a time without one.
        custom: The user's own function.
    """
    own = [message_time(each, key, {}, timezone=timezone, custom=custom) for key, each in messages]
    seen = [_iso_time(stamps.get(key), timezone) for key, _ in messages]
    filled = [of_itself or stamp for of_itself, stamp in zip(own, seen, strict=True)]
    _fill_in_exchanges([isinstance(each, HumanMessage) for _, each in messages], own, filled)
    following: datetime | None = None
    for at in reversed(range(len(filled))):
        if filled[at] is None:
            filled[at] = following
        elif own[at] or seen[at]:
            following = own[at]
    last: datetime | None = None
    for at, known in enumerate(filled):
        last = filled[at] = known or last
    return filled


def _fill_in_exchanges(
    of_person: Sequence[bool], own: Sequence[datetime | None], filled: list[datetime | None]
) -> None:
    """Give messages the times of their exchanges.

    Args:
        of_person: Per message, whether a person wrote it.
        own: The times of their own.
        filled: The times so far, which get more.
    """
    begins = [is_it and not (at and of_person[at - 1]) for at, is_it in enumerate(of_person)]
    following: datetime | None = None
    for at in reversed(range(len(filled))):
        if filled[at] is not None:
            following = own[at]
        elif of_person[at]:
            filled[at] = following
        if begins[at]:
            following = None
    last: datetime | None = None
    for at, known in enumerate(filled):
        if known is None and not of_person[at]:
            filled[at] = last
        else:
            last = known


def _iso_time(value: object, timezone: tzinfo) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone)


_ULID_ALPHABET = {char: value for value, char in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
_ULID_LENGTH, _ULID_TIME_LENGTH = 26, 10
_UUID_LENGTH, _UUID_VERSION_AT = 36, 14
_EARLIEST_MS = 946_684_800_000  # 2000-01-01: an older "time" is a random id that looks like a ULID
_LATEST_MS = 4_102_444_800_000  # 2100-01-01


def _id_time(key: str | None) -> datetime | None:
    """Read the time out of a UUIDv7 (RFC 9562) or a ULID."""
    if key is None:
        return None
    bare = key.removeprefix("run-").removeprefix("lc_run--")[:_UUID_LENGTH]
    milliseconds = None
    if len(bare) == _UUID_LENGTH and bare[_UUID_VERSION_AT] == "7":
        try:
            milliseconds = int(bare.replace("-", ""), 16) >> 80
        except ValueError:
            return None
    elif len(key) == _ULID_LENGTH and key[0] in "01234567":
        digits = [_ULID_ALPHABET.get(char) for char in key.upper()]
        if None in digits:
            return None
        milliseconds = 0
        for digit in digits[:_ULID_TIME_LENGTH]:
            milliseconds = milliseconds * 32 + (digit or 0)
    if milliseconds is None or not _EARLIEST_MS <= milliseconds <= _LATEST_MS:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
