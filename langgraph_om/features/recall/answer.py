"""Answer calls of the recall tool: raw messages behind the log, by id, page by page, or searched.

Recall never raises for what a model writes: the answer says what was wrong and what to write
instead. What the user may not see is answered exactly like what does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from langgraph_om.core.content.parts import part_text, parts_of
from langgraph_om.core.content.text import escape, sanitize, show_key
from langgraph_om.core.prompts import fill
from langgraph_om.core.search import name_calls
from langgraph_om.core.tokens.counter import TokenCounter
from langgraph_om.features.recall.arguments import (
    RecallRequest,
    RefusedError,
    quote,
    quote_id,
    quote_reference,
    read_arguments,
)
from langgraph_om.features.recall.lists import answer_search, answer_threads
from langgraph_om.features.recall.pages import AnswerWriter, RecallAnswer, Wanted
from langgraph_om.reading import RecallMessage, RecallScope, RecallSource, read_hidden_id


def recall(
    arguments: Mapping[str, Any],
    source: RecallSource,
    scope: RecallScope,
    counter: TokenCounter,
) -> dict[str, Any]:
    """Answer one call of the tool.

    Args:
        counter: Measures the answer, whose JSON text keeps to the scope's budget.

    Returns:
        The fields of the mode, or one field `error` or `hint` that says what to write instead.
    """
    try:
        asked = read_arguments(arguments, scope.timezone)
        answer = _MODES[asked.mode](asked, source, scope, AnswerWriter(scope, counter))
    except RefusedError as refused:
        answer = {key: sanitize(text) for key, text in refused.answer.items()}
    return {
        key: escape(value) if isinstance(value, str) else value for key, value in answer.items()
    }


def write_guidance(instructions: str | None) -> str:
    """Return the text that tells the Actor when to use recall."""
    return fill("recall", custom=instructions or "")


# --- Mode `messages` -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Page:
    shown: list[RecallMessage]
    earlier: list[RecallMessage]
    later: list[RecallMessage]
    """Some of the messages before and after; empty only when there are none."""
    cursor: str | None
    last: int
    """How many pages there are; of a page that shows messages, how many are known of."""


def _answer_messages(
    asked: RecallRequest, source: RecallSource, scope: RecallScope, writer: AnswerWriter
) -> RecallAnswer:
    """Answer mode `messages`."""
    thread_id, anchor = _find_start(asked, source, scope)
    if asked.part_index is not None:
        return _answer_part(asked, asked.part_index, anchor, writer)
    if asked.char_offset:
        msg = (
            f"`char_offset` is {quote(asked.char_offset)} without `part_index`; write also the "
            "index of the part it belongs to"
        )
        raise RefusedError(msg)
    number = asked.page or 1
    if asked.anchor is not None and anchor is not None:
        msg = f"`anchor` is {quote(asked.anchor)} beside a `cursor`; leave one of them out"
        raise RefusedError(msg)
    if asked.anchor == "end":
        number = -abs(number)
    # One message per page, so that the next page is always the next message.
    limit = 1 if asked.detail == "high" else asked.limit
    wanted = Wanted(asked.part_type, asked.tool_name)
    reader = _Reader(source, thread_id, wanted)
    if anchor is None and number < 0:
        page = _read_back_from_end(reader, scope, number, limit)
    else:
        page = _read_page(reader, anchor, number, limit)
    answer: RecallAnswer = {
        "messages": _describe_empty(page, number),
        "count": 0,
        "cursor": None if page.cursor is None else escape(show_key(page.cursor)),
        "page": number,
        "limit": limit,
        "has_next_page": bool(page.later),
        "has_prev_page": bool(page.earlier),
    }
    if not page.shown:
        return answer
    if asked.detail == "high":
        hints = [*_write_neighbours(page, number)]
        return writer.write_first_part(page.shown[0], answer, wanted, hints)
    return writer.write_overview(page.shown, answer, wanted, is_backward=number < 0)


_BATCH: Final = 100
_MOST_LOOKED_AT: Final = 5_000
"""Of a conversation, how many messages are looked at for parts that are asked for."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of a conversation, those with parts that are asked for."""

    source: RecallSource
    thread_id: str
    wanted: Wanted

    def read(
        self,
        limit: int,
        *,
        start: int | None = None,
        stop: int | None = None,
        newest_first: bool = False,
    ) -> list[RecallMessage]:
        """Return the first such messages from a position on, or the last ones before another."""
        size, kept = limit if self.wanted.is_all else _BATCH, list[RecallMessage]()
        for _ in range(_MOST_LOOKED_AT // _BATCH):
            batch = self.source.messages(
                self.thread_id, start=start, stop=stop, limit=size, newest_first=newest_first
            )
            calls = () if self.wanted.is_all else batch
            names = name_calls(each.message for each in calls)
            chosen = [
                message
                for message in batch
                if self.wanted.is_all
                or any(self.wanted.takes(part, names) for part in parts_of(message.message))
            ]
            kept = [*chosen, *kept] if newest_first else [*kept, *chosen]
            if len(batch) < size or len(kept) >= limit:
                break
            if newest_first:
                stop = batch[0].position
            else:
                start = batch[-1].position + 1
        return kept[-limit:] if newest_first else kept[:limit]


def _describe_empty(page: _Page, number: int) -> str:
    """Return what an answer says that shows no message."""
    if page.cursor is None:
        return "(no messages)"
    if not page.last:
        return "(no messages on this page)"
    end = f"begins on page {-page.last}" if number < 0 else f"ends on page {page.last}"
    return f"(no messages on this page: the conversation {end})"


def _write_neighbours(page: _Page, number: int) -> Iterator[str]:
    """Yield how to go on from a page of one message, in the direction of reading."""
    if number > 0 and page.later:
        yield f"Next message: page {number + 1}, or cursor {show_key(page.later[0].key)}."
    if number < 0 and page.earlier:
        yield f"Message before: page {number - 1}, or cursor {show_key(page.earlier[-1].key)}."
    if number < 0 and not page.earlier:
        yield "The conversation begins with this message."


def _read_back_from_end(reader: _Reader, scope: RecallScope, number: int, limit: int) -> _Page:
    """Read a page back from the end of a conversation.

    While it is answered, that is the live request: what stands behind it are the calls and results
    of this turn, which are more with each call, so that pages would overlap.
    """
    has_request = scope.end is not None and reader.thread_id == scope.current_thread
    request = reader.source.find(str(scope.end), reader.thread_id) if has_request else None
    page = _read_page(reader, request, number, limit)
    return replace(page, later=[]) if request is not None and number == -1 else page


def _read_page(reader: _Reader, anchor: RecallMessage | None, number: int, limit: int) -> _Page:
    """Read a page: from the anchor on, or, with a negative number, up to it."""
    skipped, wanted = (abs(number) - 1) * limit, abs(number) * limit + 1
    at = anchor.position if anchor else None
    key = anchor.key if anchor else None
    if number > 0:
        found = reader.read(wanted, start=at)
        begin, end = skipped, skipped + limit
        edge = found[:1]
    else:
        found = reader.read(wanted, stop=None if at is None else at + 1, newest_first=True)
        end = max(0, len(found) - skipped)
        begin = max(0, end - limit)
        edge = found[-1:]
    earlier, later = found[:begin], found[end:]
    if at is not None and number > 0 and not earlier:
        earlier = reader.read(1, stop=at, newest_first=True)
    if at is not None and number < 0 and not later:
        later = reader.read(1, start=at + 1)
    cursor = key or next((message.key for message in edge), None)
    return _Page(found[begin:end], earlier, later, cursor, math.ceil(len(found) / limit))


def _answer_part(
    asked: RecallRequest, index: int, anchor: RecallMessage | None, writer: AnswerWriter
) -> RecallAnswer:
    """Answer with one part of the message at the cursor."""
    if anchor is None:
        msg = "`part_index` needs a `cursor`; write the id of the message that has the part"
        raise RefusedError(msg)
    parts = [*parts_of(anchor.message)]
    name = quote_id(anchor.key)
    if not parts:
        msg = f"The message {name} has nothing to show; leave `part_index` out to read around it"
        raise RefusedError(msg)
    if index >= len(parts):
        known = f"0 to {len(parts) - 1}" if len(parts) > 1 else "0 only"
        msg = f"`part_index` is {quote(index)}, but the message {name} has part {known}"
        raise RefusedError(msg)
    length = len(part_text(parts[index]))
    if asked.char_offset and asked.char_offset >= length:
        msg = (
            f"`char_offset` is {quote(asked.char_offset)}, but the part has {length:,} characters; "
            "write a smaller one, or go on with the next part"
        )
        raise RefusedError(msg)
    return writer.write_part(anchor, index, asked.char_offset)


def _answer_search(
    asked: RecallRequest, source: RecallSource, scope: RecallScope, writer: AnswerWriter
) -> RecallAnswer:
    """Answer mode `search`, in one conversation where one is named."""
    is_named = asked.thread_id is not None or asked.cursor is not None
    thread_id = _find_start(asked, source, scope)[0] if is_named else None
    return answer_search(asked, source, scope, writer, thread_id)


# --- Where to start ------------------------------------------------------------------------------


def _find_start(
    asked: RecallRequest, source: RecallSource, scope: RecallScope
) -> tuple[str, RecallMessage | None]:
    """Return the thread and the message to start from."""
    named = None if asked.thread_id is None else _find_named_thread(asked.thread_id, source, scope)
    if asked.cursor is None:
        return named or scope.current_thread, None
    for key in dict.fromkeys((asked.cursor, asked.cursor.strip(" \t\r\n`\"'"))):
        anchor = _find_message(key, named, source, scope)
        if anchor is not None:
            return anchor.thread_id, anchor
    _refuse_range(asked.cursor, lambda key: _find_message(key, named, source, scope) is not None)
    if (
        named is not None
        and (other := _find_message(asked.cursor, None, source, scope)) is not None
    ):
        where = quote_id(scope.show_id(other.thread_id))
        msg = (
            f"`cursor` {quote_id(asked.cursor)} is a message of another conversation; write "
            f"`thread_id` {where}, or leave `thread_id` out"
        )
        raise RefusedError(msg, kind="hint")
    msg = (
        f"`cursor` is {quote_reference(asked.cursor)}, and there is no such message to read; write "
        "the first or the last id of a `_range` line, or leave `cursor` out to start at the "
        "beginning"
    )
    raise RefusedError(msg)


def _find_named_thread(written: str, source: RecallSource, scope: RecallScope) -> str:
    if written.strip().lower() == "current":
        return scope.current_thread
    for text in dict.fromkeys((written, written.strip(" \t\r\n`\"'[]"))):
        is_hidden = scope.hides_ids
        thread_id = read_hidden_id(text, source, scope.current_thread) if is_hidden else text
        if thread_id == scope.current_thread:
            return thread_id
        if thread_id is not None and scope.scope == "resource" and source.thread(thread_id):
            return thread_id
    ways = ', take one from mode "threads",' if scope.scope == "resource" else ""
    msg = (
        f"`thread_id` is {quote_reference(written)}, and there is no such conversation to read; "
        f'leave it out{ways} or write "current"'
    )
    raise RefusedError(msg)


def _find_message(
    key: str, named: str | None, source: RecallSource, scope: RecallScope
) -> RecallMessage | None:
    """Return a message from where it may be read: the named thread, else this one, else any."""
    found = source.find(key, named or scope.current_thread)
    if found is None and named is None and scope.scope == "resource":
        found = source.find(key, None)
    if scope.scope == "thread" and found is not None and found.thread_id != scope.current_thread:
        return None
    return found


_MAX_COLONS: Final = 10
_MAX_RANGES: Final = 5
_MAX_CHOICE_BYTES: Final = 1200
"""Five ranges of ids as providers give them have room; the first is named whatever its size."""


def _refuse_range(written: str, exists: Callable[[str], bool]) -> None:
    """Refuse a range in place of an id, and name the ids in it."""
    text = written.strip().strip("`")
    label = "_range:"
    if text.startswith(label):
        text = text.removeprefix(label).strip().removesuffix("_").strip("` ")
    ends = [
        pair
        for segment in islice(text.split(","), _MAX_RANGES)
        if (pair := _split_range(segment.strip(), exists)) is not None
    ]
    if not ends:
        return
    choices: list[str] = []
    for first, last in ends:
        choice = (
            f"{_quote_end(first, exists)} with page 1 to read on from its start, or "
            f"{_quote_end(last, exists)} with page -1 to read back from its end"
        )
        if choices and len("".join([*choices, choice]).encode()) > _MAX_CHOICE_BYTES:
            break
        choices.append(choice)
    msg = (
        f"`cursor` is a range, {quote_reference(written)}; write one id of it: {'; '.join(choices)}"
    )
    raise RefusedError(msg, kind="hint")


def _quote_end(key: str, exists: Callable[[str], bool]) -> str:
    return quote_id(key) if exists(key) else quote_reference(key)


def _split_range(segment: str, exists: Callable[[str], bool]) -> tuple[str, str] | None:
    """Split a range at its colon; of several, at one between two ids that exist, or the middle."""
    pieces = segment.split(":")
    pairs = [
        (":".join(pieces[:at]), ":".join(pieces[at:]))
        for at in range(1, min(len(pieces), _MAX_COLONS + 1))
    ]
    pairs = [(first, last) for first, last in pairs if first and last]
    if len(pairs) > 1:
        for first, last in pairs:
            if exists(first) and exists(last):
                return first, last
    return pairs[len(pairs) // 2] if pairs else None


# --- Modes ---------------------------------------------------------------------------------------


_MODES: Final[
    Mapping[str, Callable[[RecallRequest, RecallSource, RecallScope, AnswerWriter], RecallAnswer]]
] = {
    "messages": _answer_messages,
    "threads": answer_threads,
    "search": _answer_search,
}
