"""Read calls of recall and answer them: pages of messages, single parts, conversations and hits.

Whatever a model writes is answered: what is wrong, in a sentence that says what to write instead.
What the user may not see is answered exactly like what does not exist.

Every line at the left edge is ours, and content is indented. The size of an answer is the tokens of
its JSON text, because that is what the model reads. Texts are cut first; only then are items left
out, which the answer says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from langgraph_om.archive import ArchivedHit, ArchivedMessage
from langgraph_om.core.content.message_keys import hidden_id
from langgraph_om.core.content.parts import Part, part_text, parts_of, role_of
from langgraph_om.core.content.text import (
    CHARACTERS_PER_TOKEN_CEILING,
    SURROGATE,
    as_label,
    escape,
    sanitize,
    show_key,
    to_whole_character,
    write_short_json,
)
from langgraph_om.core.prompts import fill
from langgraph_om.core.search import (
    Filter,
    cut_excerpt,
    distinct_words,
    find_words,
    name_calls,
    query_words,
)
from langgraph_om.core.tokens import TokenCounter
from langgraph_om.errors import ConfigurationError
from langgraph_om.reading import SearchRequest, Source, read_hidden_id, read_limits, search

# --- What a model writes -------------------------------------------------------------------------

SHOWN_CHARACTERS: Final = 80

_MODES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("cursor", "detail", "part_index", "char_offset"), ("messages",)),
    **dict.fromkeys(("query",), ("search",)),
    **dict.fromkeys(("before", "after"), ("search", "threads")),
    "thread_id": ("messages", "search"),
}
"""The modes that use an argument, where not all do; to ignore one would mislead."""


def _field(default: Any, description: str) -> Any:
    # The schema of a default that a factory makes is shorter: it does not say it.
    return Field(default_factory=lambda: default, description=description)


class RecallArguments(BaseModel):
    """What may be asked for; `null` and empty texts count as left out."""

    model_config = ConfigDict(extra="forbid")

    mode: str
    query: str = _field("", "Words to search for")
    cursor: str = _field("", "Id of a message to read from")
    page: int = _field(0, "1, 2 read on from the cursor, -1, -2 back from it or the end")
    limit: int = _field(0, "Items per page")
    detail: Literal["low", "high"] = _field(
        "low", "low: how parts [p0], [p1] begin, high: one message whole"
    )
    part_index: Annotated[int | None, WithJsonSchema({"type": "integer"})] = _field(
        None, "Show this part of the message whole"
    )
    char_offset: int = _field(0, "Where to go on in it")
    before: str = _field("", "Only before this ISO date")
    after: str = _field("", "Only from this ISO date on")

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        # LangChain passes the runtime that a `ToolNode` injects beside what the model wrote.
        left_out = (None, "")
        return {
            name: value
            for name, value in given.items()
            if name != "runtime" and value not in left_out
        }

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        for name in sorted(self.model_fields_set & _MODES_OF.keys()):
            if self.mode not in _MODES_OF[name]:
                known = " or ".join(map(repr, _MODES_OF[name]))
                msg = f"`{name}` is for mode {known}; write that mode, or leave `{name}` out"
                raise ValueError(msg)
        if self.mode == "search" and not self.query:
            msg = "`query` is missing; write a few words to search for"
            raise ValueError(msg)
        if self.page < 0 and self.mode != "messages":
            msg = "`page` is negative, but only messages are read backward; write 0 or more"
            raise ValueError(msg)
        if self.part_index is not None and not self.cursor:
            msg = "`part_index` needs a `cursor`; write the id of the message that has the part"
            raise ValueError(msg)
        if self.char_offset and self.part_index is None:
            msg = "`char_offset` needs a `part_index`; write the index of the part"
            raise ValueError(msg)
        return self


class ThreadArguments(RecallArguments):
    """What is offered where only the current thread can be read."""

    mode: Literal["messages", "search"] = _field("messages", "Default: messages")

    @property
    def thread_id(self) -> str:
        """The thread to read: the current one."""
        return ""


class UserArguments(RecallArguments):
    """What is offered where the user's other threads can be read too."""

    mode: Literal["messages", "search", "threads"] = _field("messages", "Default: messages")
    thread_id: str = _field("", "Conversation to read or search")


def describe_error(error: ValidationError) -> str:
    """Say in one sentence what is wrong with a call, and what to write."""
    found = error.errors(include_url=False)[0]
    if found["type"] == "value_error":
        return str(found["ctx"]["error"])
    name = str(found["loc"][0]) if found["loc"] else "arguments"
    if found["type"] == "extra_forbidden":
        shown = write_short_json(name, SHOWN_CHARACTERS)
        return f"There is no argument {shown}; leave it out, or write one that recall has"
    value = write_short_json(found["input"], SHOWN_CHARACTERS)
    return f"`{name}` is {value}: {found['msg'][0].lower()}{found['msg'][1:]}"


# --- What it is answered -------------------------------------------------------------------------

RecallAnswer = dict[str, Any]

ANSWER_TOKENS: Final = 2000
MAX_ITEMS: Final = 20
HITS: Final = 8
"""How many hits a search answers with unless more are asked for; each shows more of its text."""
MAX_PAGES: Final = 1000
"""To read further, a cursor is faster."""


@dataclass(frozen=True, slots=True)
class InSight:
    """What who asks is shown beside the answer, so that it need not be repeated."""

    groups: frozenset[str] = frozenset()
    """Ids of the observations."""
    ids: frozenset[str] = frozenset()
    """Ids of messages, of which other answers show something."""
    text: str = ""
    """What these answers show, without blanks."""


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who calls, what may be read, and what stands beside the answer."""

    source: Source
    counter: TokenCounter
    timezone: tzinfo = UTC
    hides_ids: bool = False
    """Whether ids of threads are shown as digests."""
    reaches_others: bool = True
    """Whether threads can be named."""
    request: str | None = None
    """The key of the message that is being answered, which no search finds."""
    is_answered: bool = False
    """Whether there is more behind it: calls of this turn, and what they gave."""
    in_sight: InSight = field(default_factory=InSight)

    def fits(self, answer: Mapping[str, Any]) -> bool:
        """Return whether an answer keeps to the budget."""
        text = json.dumps(answer, ensure_ascii=False)
        most = ANSWER_TOKENS * CHARACTERS_PER_TOKEN_CEILING
        return len(text) <= most and self.counter.count_text(text) <= ANSWER_TOKENS

    def show_time(self, moment: datetime | None) -> str:
        """Return a time to the minute; empty when it is unknown."""
        if moment is None:
            return ""
        try:
            local = moment if moment.tzinfo is None else moment.astimezone(self.timezone)
        except (OverflowError, ValueError):  # At the very ends of the calendar.
            return ""
        return local.replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")

    def name_thread(self, thread_id: str, title: str | None, characters: int) -> str:
        """Return the title and the id of a thread."""
        shown = as_label(title).replace("*", "") or "(untitled)"
        if len(shown) > characters:
            shown = f"{shown[:characters]}…"
        return f"**{shown}** [{show_key(hidden_id(thread_id) if self.hides_ids else thread_id)}]"

    def mark(self, thread_id: str) -> str:
        """Return the mark of the current thread."""
        return " ← current" if thread_id == self.source.who.thread_id else ""


class RefusedError(Exception):
    """There is nothing to show; the answer says why, and what to write instead."""

    def __init__(self, text: str, kind: str = "error") -> None:
        super().__init__(text)
        self.answer = {kind: text}


def recall(arguments: Mapping[str, Any], asker: Asker) -> RecallAnswer:
    """Answer one call of the tool.

    Returns:
        The fields of the mode, or one field `error` or `hint` that says what to write instead.
    """
    schema = UserArguments if asker.reaches_others else ThreadArguments
    try:
        asked = schema.model_validate(arguments)
        if asked.mode == "threads":
            return _answer_threads(asked, asker)
        if asked.mode == "search":
            return _answer_search(asked, asker)
        if asked.part_index is not None:
            return _answer_part(asked, asked.part_index, asker)
        return _answer_messages(asked, asker)
    except ValidationError as error:
        answer = {"error": describe_error(error)}
    except ConfigurationError as error:  # a time that is none
        answer = {"error": str(error)}
    except RefusedError as error:
        answer = error.answer
    return {kind: escape(sanitize(text)) for kind, text in answer.items()}


def write_guidance(instructions: str | None) -> str:
    """Return the text that tells the Actor when to use recall."""
    return fill("recall", custom=instructions or "")


def _fit(
    build: Callable[[int, int], RecallAnswer], longest: int, items: int, asker: Asker
) -> RecallAnswer:
    """Return the fullest answer within the budget.

    Args:
        build: Builds the answer, given the most characters of a text and how many items it has.
        longest: With so many characters nothing is cut.
    """
    size = _find_largest(lambda size: asker.fits(build(size, items)), longest)
    if size >= 0:
        return build(size, items)
    count = _find_largest(lambda count: asker.fits(build(0, count)), items - 1)
    return build(0, max(0, count))


def _find_largest(fits: Callable[[int], bool], most: int) -> int:
    """Return about the largest number that fits, to two percent; -1 where 0 does not."""
    if fits(most):
        return most
    low, high = -1, most
    while high - low > 1 + max(low, 0) // 50:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# --- Messages ------------------------------------------------------------------------------------

_SHARES: Final = {"text": 1.0, "tool-result": 0.2, "tool-error": 0.2}
_OTHER_SHARE: Final = 0.3
"""How much of a part an overview shows, where that of a text is 1 and that of a user's text 2."""

_PART_CHARACTERS: Final = 8
"""A message shows the fewer of its parts, the less of each has room: one for so many characters."""


@dataclass(frozen=True, slots=True)
class _Page:
    shown: list[ArchivedMessage]
    earlier: list[ArchivedMessage]
    later: list[ArchivedMessage]
    """Some of the messages before and after; empty only where there are none."""
    cursor: str | None
    last: int
    """How many pages are known of."""


def _answer_messages(asked: UserArguments | ThreadArguments, asker: Asker) -> RecallAnswer:
    """Answer mode `messages`."""
    thread_id, anchor = _find_start(asked, asker)
    # One message per page, so that the next page is always the next message.
    limit = 1 if asked.detail == "high" else _limit(asked.limit, MAX_ITEMS)
    number = max(-MAX_PAGES, min(asked.page or 1, MAX_PAGES))
    page = _read_page(asker, thread_id, anchor, number, limit)
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
        return _write_first_part(page, answer, asker)
    return _write_overview(page.shown, answer, asker)


def _limit(asked: int, usual: int) -> int:
    return min(asked, MAX_ITEMS) if asked > 0 else usual


def _read_page(
    asker: Asker, thread_id: str, anchor: ArchivedMessage | None, number: int, limit: int
) -> _Page:
    """Read a page: from the anchor on, or, with a negative number, up to it.

    While a message is answered, its conversation ends with it for who pages back from the end:
    behind it stand the calls and results of this turn, which are more with each call, so that pages
    would overlap.
    """
    source, request = asker.source, None
    if anchor is None and number < 0 and asker.is_answered and thread_id == source.who.thread_id:
        request = anchor = source.find(str(asker.request), thread_id)
    at, skipped = None if anchor is None else anchor.position, (abs(number) - 1) * limit
    if number > 0:
        found = source.messages(thread_id, start=at, limit=skipped + limit + 1)
        begin, end, edge = skipped, skipped + limit, found[:1]
    else:
        stop = None if at is None else at + 1
        found = source.messages(thread_id, stop=stop, limit=skipped + limit + 1, newest_first=True)
        end = max(0, len(found) - skipped)
        begin, edge = max(0, end - limit), found[-1:]
    earlier, later = found[:begin], found[end:]
    if at is not None and number > 0 and not earlier:
        earlier = source.messages(thread_id, stop=at, limit=1, newest_first=True)
    if at is not None and number < 0 and not later:
        is_end = anchor is request
        later = [] if is_end and number == -1 else source.messages(thread_id, start=at + 1, limit=1)
    edge = edge if anchor is None else [anchor]
    cursor = edge[0].key if edge else None
    return _Page(found[begin:end], earlier, later, cursor, math.ceil(len(found) / limit))


def _describe_empty(page: _Page, number: int) -> str:
    """Return what an answer says that shows no message."""
    if page.cursor is None:
        return "(no messages)"
    if not page.last:
        return "(no messages on this page)"
    end = f"begins on page {-page.last}" if number < 0 else f"ends on page {page.last}"
    return f"(no messages on this page: the conversation {end})"


def _write_overview(
    page: Sequence[ArchivedMessage], answer: RecallAnswer, asker: Asker
) -> RecallAnswer:
    """Answer with the beginnings of all parts of these messages, as much as fits."""
    names, is_backward = name_calls(each.message for each in page), answer["page"] < 0
    parts = [[*parts_of(each.message)] for each in page]

    def build(size: int, count: int) -> RecallAnswer:
        kept = range(len(page))[len(page) - count :] if is_backward else range(count)
        written = [_write_message(page[at], parts[at], names, size, asker) for at in kept]
        blocks, left = [text for text, _ in written], sum(cut for _, cut in written)
        built = answer | {"count": count}
        if rest := len(page) - count:
            # The nearest message that is left out; the next page by number begins behind it.
            key = show_key(page[rest - 1 if is_backward else count].key)
            note = f"({rest} more of this page do not fit: go on with cursor {key}, page "
            blocks.insert(0, f"{note}-1)") if is_backward else blocks.append(f"{note}1)")
            built["has_prev_page" if is_backward else "has_next_page"] = True
        elif is_backward and not answer["has_prev_page"]:
            blocks.insert(0, "(the conversation begins here)")
        built["messages"] = escape("\n\n".join(blocks))
        return built | ({"truncated": True, "token_offset": left} if left or rest else {})

    longest = max(len(part_text(part)) for own in parts for part in own) / min(_SHARES.values())
    return _estimate(_fit(build, int(longest) + 1, len(page), asker), asker)


def _estimate(answer: RecallAnswer, asker: Asker) -> RecallAnswer:
    """Estimate the tokens that are left out: the characters, as dense as what is shown."""
    if "token_offset" in answer:
        text, left = answer["messages"], answer["token_offset"]
        density = asker.counter.count_text(text) / max(1, len(text))
        answer["token_offset"] = max(1, min(left, round(left * density)))
    return answer


def _write_message(
    message: ArchivedMessage,
    parts: Sequence[Part],
    names: Mapping[str, str],
    size: int,
    asker: Asker,
) -> tuple[str, int]:
    """Write a message with the beginnings of its parts; also how many characters are left out."""
    lines, left = [_write_head(message, asker)], 0
    shown = parts[: 1 + size // _PART_CHARACTERS]
    factor = 2 if role_of(message.message) == "user" else 1
    for index, part in enumerate(shown):
        label = _write_label(part, names)
        if part.kind == "tool-call":
            rest = f" (arguments: part_index {index})" if part.body else ""
            lines.append(f"  [p{index}] {label}{rest}")
            continue
        text, share = part_text(part), _SHARES.get(part.kind, _OTHER_SHARE)
        head = text[: to_whole_character(text, 0, min(len(text), int(size * share * factor)))]
        head = head if len(head) == len(text) else head.rstrip()
        cut = len(text) - len(head)
        mark = f"… (+{cut:,} characters, part_index {index})" if cut else ""
        lines.append(f"  [p{index}] {label}{_indent(head)}{mark}")
        left += cut
    if more := len(parts) - len(shown):
        last = f" to {len(parts) - 1}" if more > 1 else ""
        lines.append(f"  (+{more} parts: part_index {len(shown)}{last})")
        left += more
    return "\n".join(lines), left


def _write_first_part(page: _Page, answer: RecallAnswer, asker: Asker) -> RecallAnswer:
    """Answer with the first part of a message in full, or as much of it as fits."""
    message, number = page.shown[0], answer["page"]
    parts, key = [*parts_of(message.message)], show_key(message.key)
    text, label = part_text(parts[0]), _write_label(parts[0], {})
    colon = ": " if parts[0].kind == "tool-call" else ""
    hints = [f"Next part: cursor {key}, part_index 1 (of 0 to {len(parts) - 1})."]
    hints = hints if len(parts) > 1 else []
    if number > 0 and page.later:
        hints.append(f"Next message: page {number + 1}, or cursor {show_key(page.later[0].key)}.")
    if number < 0 and page.earlier:
        before = show_key(page.earlier[-1].key)
        hints.append(f"Message before: page {number - 1}, or cursor {before}.")
    if number < 0 and not page.earlier:
        hints.append("The conversation begins with this message.")

    def build(size: int, _: int) -> RecallAnswer:
        end = to_whole_character(text, 0, min(len(text), max(1, size)))
        is_cut = end < len(text)
        body = f"{colon}{_indent(text[:end])}{'…' if is_cut else ''}"
        lines = [_write_head(message, asker), f"  [p0] {label}{body}"]
        if is_cut:
            lines.append(f"Rest of this part: cursor {key}, part_index 0, char_offset {end}.")
        cut = {"truncated": True, "token_offset": len(text) - end, "next_char_offset": end}
        shown = {"messages": escape("\n".join([*lines, *hints])), "count": 1}
        return answer | shown | (cut if is_cut else {})

    return _estimate(_fit(build, len(text), 1, asker), asker)


def _answer_part(asked: UserArguments | ThreadArguments, index: int, asker: Asker) -> RecallAnswer:
    """Answer with a part from a character on; following `next_char_offset` gives all of it."""
    _, message = _find_start(asked, asker)
    parts = [] if message is None else [*parts_of(message.message)]
    if message is None or not 0 <= index < len(parts):
        known = f"it has parts 0 to {len(parts) - 1}" if parts else "it has nothing to show"
        msg = f"The message has no part {_quote(index)}: {known}"
        raise RefusedError(msg)
    part, start = parts[index], asked.char_offset
    text = part_text(part)
    if start < 0 or (start and start >= len(text)):
        msg = f"`char_offset` is {_quote(start)}; write 0 or more, less than {len(text):,}"
        raise RefusedError(msg)
    key = escape(show_key(message.key))

    def build(size: int, _: int) -> RecallAnswer:
        end = to_whole_character(text, start, min(len(text), start + max(1, size)))
        is_cut, last = end < len(text), len(parts) - 1
        answer: RecallAnswer = {
            "text": escape(_make_readable(text[start:end])),
            "message_id": key,
            "part_index": index,
            "role": role_of(message.message),
            "type": part.kind,
            "truncated": is_cut,
            "char_offset": start,
        }
        notes = [_write_origin(part)]
        if is_cut:
            answer["next_char_offset"] = end
            notes.append(f"The part has {len(text):,} characters; go on with char_offset {end}.")
        elif index < last:
            notes.append(f"Next part: part_index {index + 1} (of 0 to {last}).")
        note = escape(" ".join(filter(None, notes)))
        return answer | ({"note": note} if note else {})

    return _fit(build, len(text) - start, 1, asker)


# --- Where to start ------------------------------------------------------------------------------

_MOST_RANGES: Final = 3
_MOST_COLONS: Final = 10


def _find_start(
    asked: UserArguments | ThreadArguments, asker: Asker
) -> tuple[str, ArchivedMessage | None]:
    """Return the thread and the message to start from."""
    source, thread_id = asker.source, _find_thread(asked.thread_id, asker)
    if not asked.cursor:
        return thread_id or source.who.thread_id, None
    found = source.find(asked.cursor, thread_id)
    if found is not None:
        return found.thread_id, found
    ends = [*_split_ranges(asked.cursor, lambda key: source.find(key, thread_id) is not None)]
    if ends:
        choices = "; ".join(
            f"{_quote_id(first)} with page 1 to read on from its start, or {_quote_id(last)} with "
            "page -1 to read back from its end"
            for first, last in ends
        )
        msg = f"`cursor` is a range; write one id of it: {choices}"
        raise RefusedError(msg, "hint")
    where = " in that conversation" if thread_id else ""
    msg = (
        f"There is no such message to read{where}; set `cursor` to an id that a `_range` line, a "
        "page or a hit names, or leave it out to start at the beginning"
    )
    raise RefusedError(msg)


def _find_thread(written: str, asker: Asker) -> str:
    """Return the thread that is named; empty where none is."""
    source = asker.source
    named = read_hidden_id(written, source) if written and asker.hides_ids else written
    if written and (named is None or not source.may_read(named)):
        msg = 'There is no such conversation to read; take a `thread_id` from mode "threads"'
        raise RefusedError(msg)
    return named or ""


def _split_ranges(written: str, exists: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield the ids of what is a range in place of an id; ids may have colons, too."""
    text = written.removeprefix("_range:").strip(" _`")
    for segment in text.split(",")[:_MOST_RANGES]:
        pieces = segment.split(":")
        for at in range(1, min(len(pieces), _MOST_COLONS)):
            first, last = ":".join(pieces[:at]), ":".join(pieces[at:])
            if exists(first) and exists(last):
                yield first, last
                break


# --- Conversations and hits ----------------------------------------------------------------------

TITLE_CHARACTERS: Final = 120
HIT_TITLE_CHARACTERS: Final = 60
LONGEST_PREVIEW: Final = 1600
LEAST_PREVIEW: Final = 240
"""A preview is the longer the more of the query a hit holds, but no shorter than this."""
ALL_PREVIEWS: Final = 6000
"""What all previews together have, unless each is short: the best hits are what is read."""

WEAK_SHARE: Final = 0.25
"""Hits that hold less than so much of what the best one holds have only words that many have.

Measured: of 495 questions about three long conversations, as many found an answer among the first 8
hits without them.
"""
_MOST_NAMED: Final = 4
"""How many observations, or words, a note names."""
_MOST_READ: Final = 400
"""How many hits are read for those that are not weak: a query of common words has very many."""


def _answer_threads(asked: UserArguments | ThreadArguments, asker: Asker) -> RecallAnswer:
    """Answer mode `threads`."""
    limit, page = _limit(asked.limit, MAX_ITEMS), min(asked.page, MAX_PAGES)
    before, after = read_limits(asked.before, asked.after, asker.timezone)
    found, has_more = asker.source.threads(page=page, limit=limit, before=before, after=after)

    def build(size: int, count: int) -> RecallAnswer:
        lines = []
        for each in found[:count]:
            times = ("created", each.created), ("updated", each.updated)
            dates = ", ".join(f"{word} {asker.show_time(time)}" for word, time in times)
            named = asker.name_thread(each.id, each.title, size)
            lines.append(f"- {named} {dates}{asker.mark(each.id)}")
        text = "\n".join(lines + _note_left_out(len(found) - count)) or "(no conversations)"
        is_cut = has_more or count < len(found)
        return {"threads": escape(text), "count": count, "page": page, "has_more": is_cut}

    return _fit(build, TITLE_CHARACTERS, len(found), asker)


def _answer_search(asked: UserArguments | ThreadArguments, asker: Asker) -> RecallAnswer:
    """Answer mode `search`."""
    limit, number = _limit(asked.limit, HITS), min(asked.page or 1, MAX_PAGES)
    wanted = Filter(*read_limits(asked.before, asked.after, asker.timezone))
    hidden = frozenset() if asker.request is None else frozenset({asker.request})
    thread_id, last = _find_thread(asked.thread_id, asker) or None, number * limit
    query = sanitize(asked.query).strip()
    request = SearchRequest(query, last + 1, wanted, thread_id, hidden)
    found, seen = _search(request, asker)
    hits, notes = found[last - limit : last], list[str]()
    if number == 1:
        notes = [*_note_seen(seen), *_note_words([*found, *seen], request, asker)]
    best = max((hit.found.held for hit in (*found, *seen)), default=0.0) or 1.0
    words = query_words(query)

    def build(size: int, count: int) -> RecallAnswer:
        lines = [*_write_hits(hits[:count], words, best, size, asker)]
        lines += _note_left_out(len(hits) - count)
        return {
            "results": escape("\n".join([*(lines or ["(nothing found)"]), *notes])),
            "count": count,
            "page": number,
            "has_more": len(found) > last or count < len(hits),
        }

    share = best / max(best, sum(hit.found.held for hit in hits))
    longest = max(LEAST_PREVIEW, min(int(ALL_PREVIEWS * share), LONGEST_PREVIEW))
    return _fit(build, longest, len(hits), asker)


def _search(request: SearchRequest, asker: Asker) -> tuple[list[ArchivedHit], list[ArchivedHit]]:
    """Return what is found, as much as is asked for, and the observations that are seen anyway."""
    groups = asker.in_sight.groups
    found, seen = list[ArchivedHit](), list[ArchivedHit]()
    for most in (request.most + min(len(groups), _MOST_NAMED), _MOST_READ):
        hits = search(asker.source, replace(request, most=most))
        found = _drop_weak([hit for hit in hits if hit.found.key not in groups])
        seen = _drop_weak([hit for hit in hits if hit.found.key in groups])
        if len(hits) < most or len(found) >= request.most:
            break
    return found[: request.most], seen


def _drop_weak(hits: Sequence[ArchivedHit]) -> list[ArchivedHit]:
    """Return the hits that hold enough of the words, beside the best ones, and those by meaning."""
    best = max((hit.found.held for hit in hits), default=0.0)
    return [hit for hit in hits if not hit.found.held or hit.found.held >= WEAK_SHARE * best]


def _note_seen(hits: Sequence[ArchivedHit]) -> list[str]:
    """Name the observations that match and stand before who asks, by where to read on."""
    ids = [show_key(hit.found.cursor) for hit in hits if hit.found.cursor][:_MOST_NAMED]
    return [f"(your observations match too: those from {', '.join(ids)} on)"] if ids else []


def _note_words(hits: Sequence[ArchivedHit], request: SearchRequest, asker: Asker) -> list[str]:
    """Say which words of the query are in no text at all, or that no hit has all of them."""
    found, query = hits, request.query
    rest = {query[start:end]: frozenset(words) for start, end, words in find_words(query)}
    texts = [distinct_words(hit.found.text) for hit in hits]
    if not texts or any(all(words & text for words in rest.values()) for text in texts):
        return []
    while found:
        held = frozenset[str]().union(*(distinct_words(hit.found.text) for hit in found))
        left = {word: words for word, words in rest.items() if not words & held}
        if found is not hits and len(left) == len(rest):  # found by what is no word of the text
            break
        rest = left
        asked = replace(request, query=" ".join(rest), most=_MOST_NAMED)
        found = asker.source.search_words(asked) if rest else []
    if not rest or found:
        return ["(no hit has all of these words)"]
    named = ", ".join(map(_quote, [*rest][:_MOST_NAMED]))
    return [f"(nothing that was searched has {named} as it is written here)"]


def _write_hits(
    hits: Sequence[ArchivedHit], words: Sequence[str], best: float, size: int, asker: Asker
) -> Iterator[str]:
    """Yield the lines of the hits under their threads, the thread of the best hit first."""
    by_thread: dict[str, list[ArchivedHit]] = {}
    for hit in hits:
        by_thread.setdefault(hit.thread_id, []).append(hit)
    for thread_id, own in by_thread.items():
        title = asker.source.title(thread_id)
        named = asker.name_thread(thread_id, title, min(size, HIT_TITLE_CHARACTERS))
        yield f"{named}{asker.mark(thread_id)}"
        for hit in own:
            found, is_shown = hit.found, _is_shown(hit, words, asker)
            time, is_message = asker.show_time(found.at), found.kind == "message"
            facts = (
                as_label(found.role) if is_message else "observations",
                f"{'' if is_message else 'observed '}{time}" if time else "",
                f"score {found.score:.2f}",
                f"{_CURSOR}{show_key(found.cursor)}{_ABOVE if is_shown else ''}",
            )
            yield f"- {', '.join(filter(None, facts))}"
            share = found.held / best if found.held else 1.0  # found by its meaning alone
            length = max(min(size, LEAST_PREVIEW), round(size * share))
            if length and not is_shown:
                yield f"  {_write_preview(hit, words, length)}"


def _write_preview(hit: ArchivedHit, words: Sequence[str], characters: int) -> str:
    """Return the part of a text around what was found, further lines indented."""
    return cut_excerpt(hit.found.text, words, characters).replace("\n", "\n  ")


def _is_shown(hit: ArchivedHit, words: Sequence[str], asker: Asker) -> bool:
    """Return whether another answer shows what of a hit matters: the words, and around them.

    Only of the current thread: others may have messages of the same ids.
    """
    in_sight, is_own = asker.in_sight, hit.thread_id == asker.source.who.thread_id
    if not is_own or show_key(hit.found.cursor) not in in_sight.ids:
        return False
    text = _squeeze(escape(_write_preview(hit, words, LEAST_PREVIEW)))
    return bool(text) and text in in_sight.text


def _note_left_out(number: int) -> list[str]:
    return [f"({number} more of this page do not fit: write a smaller limit)"] if number else []


# --- What other answers show ---------------------------------------------------------------------

_CURSOR: Final = "cursor "
_ABOVE: Final = ", shown above"
_IDS: Final = re.compile(rf"^- .*, {_CURSOR}(.+?)(?:{_ABOVE})?$|^\*\*.* \[(.+)\]:$", re.MULTILINE)


def read_answers(answers: Iterable[Mapping[str, Any]], groups: frozenset[str]) -> InSight:
    """Return what is in sight beside other answers of recall."""
    ids: set[str] = set()
    texts: list[str] = []
    for answer in answers:
        texts += [text for text in answer.values() if isinstance(text, str)]
        ids.add(str(answer.get("message_id")))
    for text in texts:
        ids.update(one or other for one, other in _IDS.findall(text))
    return InSight(groups, frozenset(ids), "".join(map(_squeeze, texts)))


def _squeeze(text: str) -> str:
    return "".join(text.split()).strip("…")


# --- Pieces of text ------------------------------------------------------------------------------


def _quote(value: object) -> str:
    return write_short_json(value, SHOWN_CHARACTERS)


def _quote_id(key: str) -> str:
    """Return the id of something that exists; whole, so that it can be used."""
    return json.dumps(show_key(key), ensure_ascii=False)


def _indent(text: str) -> str:
    return sanitize(text).replace("\n", "\n      ")


def _write_head(message: ArchivedMessage, asker: Asker) -> str:
    """Return the line above a message: who, when, and its id."""
    role = role_of(message.message) or "participant"
    name = "" if role == "tool" else as_label(message.message.name)
    time = asker.show_time(message.at)
    who = " ".join(filter(None, (role, name, f"({time})" if time else "")))
    return f"**{who}** [{show_key(message.key)}]:"


def _write_label(part: Part, names: Mapping[str, str]) -> str:
    """Return what a part is, where its text does not say it."""
    if part.kind == "reasoning":
        return "(reasoning) "
    if part.kind.startswith("tool-"):
        name = part.name or names.get(part.call_id, "")
        call_id = f"[{part.call_id}]" if part.call_id else ""
        label = " ".join(filter(None, (part.kind.replace("-", " "), name, call_id)))
        return label if part.kind == "tool-call" else f"{label}: "
    return f"(file {part.name}) " if part.name else ""


def _write_origin(part: Part) -> str:
    """Return the tool and call, or the file, of a part; empty when it has none."""
    if not part.kind.startswith("tool-"):
        return f"File {part.name}." if part.name else ""
    named = ("tool", part.name), ("call", part.call_id)
    text = ", ".join(f"{word} {name}" for word, name in named if name)
    return f"{text[0].upper()}{text[1:]}." if text else ""


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _make_readable(text: str) -> str:
    """Return the text with a mark for each control character and each lone surrogate."""
    text = _UNPRINTABLE.sub("\ufffd", text)
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
