"""Answer modes `threads` and `search` of recall: lists that fit a budget.

Items are shortened first; only then are items left out, which the answer states. What the Actor is
shown beside the answer, its observations and what recall has answered in the turn, is named and not
repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from langgraph_om.core.content.text import (
    as_label,
    escape,
    find_longest_head,
    show_key,
)
from langgraph_om.core.search import Filter, cut_excerpt, distinct_words, find_words, query_words
from langgraph_om.features.recall.arguments import RecallRequest, RefusedError, quote
from langgraph_om.features.recall.pages import AnswerWriter, RecallAnswer, show_time
from langgraph_om.reading import (
    InSight,
    RecallHit,
    RecallScope,
    RecallSource,
    RecallThread,
    SearchRequest,
    is_created_within,
)

TITLE_CHARACTERS: Final = (120, 60, 30, 10, 0)

PREVIEW_TOKENS: Final = (400, 200, 100, 60, 35, 20, 10, 0)
"""What is tried in turn until an answer fits: lengths of titles, and of texts that were found."""

CHARACTERS_PER_TOKEN: Final = 4
"""About how long the part of a text is that so many tokens show; more of it is cut at the end."""

SHORT_PREVIEW: Final = 35
"""With previews no longer than this, titles are shortened too."""

MIDDLE_PREVIEW: Final = 100

LEAST_PREVIEW: Final = 60
"""A preview is the longer the more of the query a hit holds, but no shorter than this."""

ALL_PREVIEWS: Final = 1500
"""What all previews together have, unless each is short: the best hits are what is read."""

WEAK_SHARE: Final = 0.25
"""Hits that hold less than so much of what the best one holds have only words that many have.

Measured: of 495 questions about three long conversations (`tests/benchmarks/bench_found.py`), as
many found an answer among the first 8 hits without them.
"""

_MOST_NAMED: Final = 4
"""How many observations, or words, a note names."""

_MOST_READ: Final = 400
"""How many hits are read for those that are not weak: a query of common words has very many."""


def answer_threads(
    asked: RecallRequest, source: RecallSource, scope: RecallScope, writer: AnswerWriter
) -> RecallAnswer:
    """Answer mode `threads`."""
    page = asked.page or 0
    if page < 0:
        msg = f"`page` is {page}; threads are counted from page 0, the newest first"
        raise RefusedError(msg)
    if scope.scope == "resource":
        found, has_more = source.threads(
            page=page, limit=asked.limit, before=asked.before, after=asked.after
        )
    else:
        own = source.thread(scope.current_thread) or RecallThread(scope.current_thread)
        passes = page == 0 and is_created_within(own, asked.before, asked.after)
        found, has_more = [own] if passes else [], False

    def build(characters: int, number: int) -> RecallAnswer:
        lines = [_write_thread(thread, scope, characters) for thread in found[:number]]
        text = "\n".join(lines + _note_left_out(len(found) - number)) or "(no conversations)"
        return {
            "threads": escape(text),
            "count": number,
            "page": page,
            "has_more": has_more or number < len(found),
        }

    return _fit_answer(build, TITLE_CHARACTERS, len(found), writer)


def answer_search(
    asked: RecallRequest,
    source: RecallSource,
    scope: RecallScope,
    writer: AnswerWriter,
    thread_id: str | None,
) -> RecallAnswer:
    """Answer mode `search`.

    Args:
        thread_id: The one conversation to look in; `None`: all that may be read.
    """
    number = asked.page or 1
    if number < 1:
        msg = f"`page` is {number}; hits are counted from page 1, the best first"
        raise RefusedError(msg)
    if not asked.query:
        msg = '`query` is missing; write in a few words what to look for with mode "search"'
        raise RefusedError(msg)
    wanted = Filter(asked.before, asked.after, asked.role, asked.tool_name)
    last = number * asked.limit
    request = SearchRequest(asked.query, last + 1, wanted, thread_id, scope.hidden)
    found, seen = _search(request, source, scope)
    hits = found[last - asked.limit : last]
    matches = [*found, *seen]
    notes: list[str] = []
    if number == 1:
        notes = [*_note_seen(seen), *_note_words(matches, request, source)]
    best = max((hit.held for hit in matches), default=0.0) or 1.0
    style = _HitStyle(writer, scope, query_words(asked.query), best)

    def build(tokens: int, count: int) -> RecallAnswer:
        blocks = [
            *_write_hits(hits[:count], tokens, style),
            *_note_left_out(len(hits) - count),
        ]
        return {
            "results": escape("\n".join([*(blocks or ["(nothing found)"]), *notes])),
            "count": count,
            "page": number,
            "has_more": len(found) > last or count < len(hits),
        }

    longest = ALL_PREVIEWS * best / max(best, sum(hit.held for hit in hits))
    sizes = [size for size in PREVIEW_TOKENS if size <= max(longest, MIDDLE_PREVIEW)]
    return _fit_answer(build, sizes, len(hits), writer)


def _search(
    request: SearchRequest, source: RecallSource, scope: RecallScope
) -> tuple[list[RecallHit], list[RecallHit]]:
    """Return what is found, as much as is asked for, and the observations that are seen anyway."""
    groups = scope.in_sight.groups
    most = request.most + min(len(groups), _MOST_NAMED)
    while True:
        hits = source.search(replace(request, most=most))
        kept = _drop_repeated(hits, scope)
        found = _drop_weak([hit for hit in kept if hit.group_id not in groups])
        if len(hits) < most or len(found) >= request.most or most >= _MOST_READ:
            seen = _drop_weak([hit for hit in kept if hit.group_id in groups])
            return found[: request.most], seen
        most += len(hits) - len(found) + request.most


def _drop_weak(hits: Sequence[RecallHit]) -> list[RecallHit]:
    """Return the hits that hold enough of the words, beside the best ones, and those by meaning."""
    best = max((hit.held for hit in hits), default=0.0)
    return [hit for hit in hits if not hit.held or hit.held >= WEAK_SHARE * best]


def _note_seen(hits: Sequence[RecallHit]) -> list[str]:
    """Name the observations that match and stand before who asks, by where to read on."""
    ids = [show_key(hit.cursor) for hit in hits if hit.cursor][:_MOST_NAMED]
    return [f"(your observations match too: those from {', '.join(ids)} on)"] if ids else []


def _note_words(
    hits: Sequence[RecallHit], request: SearchRequest, source: RecallSource
) -> list[str]:
    """Say which words of the query are in no text at all, or that no hit has all of them."""
    written = {
        request.query[start:end]: frozenset(words)
        for start, end, words in find_words(request.query)
    }
    texts = [distinct_words(hit.text) for hit in hits]
    if not texts or any(all(words & text for words in written.values()) for text in texts):
        return []
    rest = _leave_missing(written, texts)
    while rest:
        asked = replace(request, query=" ".join(rest), most=_MOST_NAMED, by_words=True)
        texts = [distinct_words(hit.text) for hit in source.search(asked)]
        if not texts:
            named = ", ".join(map(quote, [*rest][:_MOST_NAMED]))
            return [f"(nothing that was searched has {named} as it is written here)"]
        before, rest = rest, _leave_missing(rest, texts)
        if len(rest) == len(before):  # found by what is no word of the text
            break
    return ["(no hit has all of these words)"]


def _leave_missing(
    written: Mapping[str, frozenset[str]], texts: Sequence[frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return the words that no text has."""
    held = frozenset[str]().union(*texts)
    return {word: words for word, words in written.items() if not words & held}


def _write_thread(thread: RecallThread, scope: RecallScope, characters: int) -> str:
    dates = (
        f"{word} {time}"
        for word, moment in (("created", thread.created), ("updated", thread.updated))
        if (time := show_time(moment, scope.timezone))
    )
    mark = " ← current" if thread.id == scope.current_thread else ""
    return f"- {_write_title(thread, scope, characters)} {', '.join(dates)}".rstrip() + mark


def _write_title(thread: RecallThread, scope: RecallScope, characters: int) -> str:
    title = as_label(thread.title).replace("*", "") or "(untitled)"
    if len(title) > characters:
        title = f"{title[:characters]}…"
    return f"**{title}** [{show_key(scope.show_id(thread.id))}]"


def _drop_repeated(hits: Sequence[RecallHit], scope: RecallScope) -> list[RecallHit]:
    """Return each text once that may be read, as the source has put them in order."""
    kept: dict[tuple[str, str, str], RecallHit] = {}
    for hit in hits:
        if scope.scope == "resource" or hit.thread.id == scope.current_thread:
            name = hit.cursor if hit.kind == "message" else hit.group_id
            kept.setdefault((hit.thread.id, hit.kind, name), hit)
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class _HitStyle:
    """How hits are written."""

    writer: AnswerWriter
    scope: RecallScope
    words: Sequence[str]
    """The words that were looked for."""
    best: float
    """The most that a hit holds of the query."""

    def write_preview(self, hit: RecallHit, tokens: int) -> str:
        """Return the part of a text around what was found, further lines indented."""
        if not tokens:
            return ""
        count, characters = self.writer.counter.count_text, CHARACTERS_PER_TOKEN * tokens
        for _ in range(3):  # where a token is shorter, the end may be what was found
            text = cut_excerpt(hit.text, self.words, characters)
            characters = find_longest_head(text, tokens, count)
            if characters >= len(text):
                break
        head = text[:characters].rstrip()
        mark = "…" if head and len(head) < len(text) else ""
        return head.replace("\n", "\n  ") + mark

    def is_shown(self, hit: RecallHit) -> bool:
        """Return whether another answer shows what of a hit matters: the words, and around them.

        Only of the current thread: others may have messages of the same ids.
        """
        in_sight, is_own = self.scope.in_sight, hit.thread.id == self.scope.current_thread
        if not is_own or show_key(hit.cursor) not in in_sight.ids:
            return False
        text = _squeeze(escape(self.write_preview(hit, LEAST_PREVIEW)))
        return bool(text) and text in in_sight.text


def _write_hits(hits: Sequence[RecallHit], tokens: int, style: _HitStyle) -> Iterator[str]:
    """Yield the lines of the hits under their threads, the thread of the best hit first."""
    scope = style.scope
    by_thread: dict[str, list[RecallHit]] = {}
    for hit in hits:
        by_thread.setdefault(hit.thread.id, []).append(hit)
    for own in by_thread.values():
        thread = own[0].thread
        characters = TITLE_CHARACTERS[1 if tokens > SHORT_PREVIEW else -2]
        mark = " ← current" if thread.id == scope.current_thread else ""
        yield f"{_write_title(thread, scope, characters)}{mark}"
        for hit in own:
            is_shown = style.is_shown(hit)
            time = show_time(hit.updated, scope.timezone)
            told = "" if hit.kind == "message" else "observed "
            facts = (
                as_label(hit.role) if hit.kind == "message" else "observations",
                f"{told}{time}" if time else "",
                f"score {hit.score:.2f}",
                f"{_CURSOR}{show_key(hit.cursor)}{_ABOVE if is_shown else ''}",
            )
            yield f"- {', '.join(filter(None, facts))}"
            share = hit.held / style.best if hit.held else 1.0  # found by its meaning alone
            size = max(min(tokens, LEAST_PREVIEW), round(tokens * share))
            if not is_shown and (preview := style.write_preview(hit, size)):
                yield f"  {preview}"


def _note_left_out(number: int) -> list[str]:
    return [f"({number} more of this page do not fit: write a smaller limit)"] if number else []


def _fit_answer(
    build: Callable[[int, int], RecallAnswer],
    sizes: Sequence[int],
    number: int,
    writer: AnswerWriter,
) -> RecallAnswer:
    """Return the fullest answer that fits: all items at the greatest size, else fewer items."""
    for size in sizes:
        answer = build(size, number)
        if writer.fits(answer):
            return answer
    while number > 0 and not writer.fits(answer):
        number -= 1
        answer = build(sizes[-1], number)
    return answer


# --- What other answers show ----------------------------------------------------------------------


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
