"""Answer modes `threads` and `search`: lists that fit a budget.

Items are shortened first; only then are items left out, which the answer states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from langgraph_om.core.content.escape import escape
from langgraph_om.core.content.text import as_label, show_key
from langgraph_om.core.search.excerpt import cut_excerpt
from langgraph_om.core.search.matching import Filter
from langgraph_om.core.search.words import query_words
from langgraph_om.recall.arguments import RecallRequest, RefusedError
from langgraph_om.recall.overview import find_longest_head
from langgraph_om.recall.pages import Answer, AnswerWriter, show_time
from langgraph_om.recall.source import (
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


def answer_threads(
    asked: RecallRequest, source: RecallSource, scope: RecallScope, writer: AnswerWriter
) -> Answer:
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

    def build(characters: int, number: int) -> Answer:
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
) -> Answer:
    """Answer mode `search`.

    Args:
        asked: What is asked for.
        source: Where messages are read from.
        scope: What may be read.
        writer: Measures the answer.
        thread_id: The one conversation to look in; `None`: all that may be read.

    Raises:
        RefusedError: When it cannot be meant.
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
    found = _drop_repeated(source.search(request), scope)
    hits, words = found[last - asked.limit : last], query_words(asked.query)

    def build(tokens: int, count: int) -> Answer:
        blocks = [
            *_write_hits(hits[:count], scope, tokens, words, writer),
            *_note_left_out(len(hits) - count),
        ]
        return {
            "results": escape("\n".join(blocks)) or "(nothing found)",
            "count": count,
            "page": number,
            "has_more": len(found) > last or count < len(hits),
        }

    return _fit_answer(build, PREVIEW_TOKENS, len(hits), writer)


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


def _write_hits(
    hits: Sequence[RecallHit],
    scope: RecallScope,
    tokens: int,
    words: Sequence[str],
    writer: AnswerWriter,
) -> Iterator[str]:
    """Yield the lines of the hits under their threads, the thread of the best hit first."""
    by_thread: dict[str, list[RecallHit]] = {}
    for hit in hits:
        by_thread.setdefault(hit.thread.id, []).append(hit)
    for own in by_thread.values():
        thread = own[0].thread
        characters = TITLE_CHARACTERS[1 if tokens > SHORT_PREVIEW else -2]
        mark = " ← current" if thread.id == scope.current_thread else ""
        yield f"{_write_title(thread, scope, characters)}{mark}"
        for hit in own:
            time = show_time(hit.updated, scope.timezone)
            told = "" if hit.kind == "message" else "observed "
            facts = (
                as_label(hit.role) if hit.kind == "message" else "observations",
                f"{told}{time}" if time else "",
                f"score {hit.score:.2f}",
                f"cursor {show_key(hit.cursor)}",
            )
            yield f"- {', '.join(filter(None, facts))}"
            if preview := _write_preview(hit.text, tokens, words, writer):
                yield f"  {preview}"


def _write_preview(text: str, tokens: int, words: Sequence[str], writer: AnswerWriter) -> str:
    """Return the part of a text around what was found, further lines indented."""
    text = cut_excerpt(text, words, CHARACTERS_PER_TOKEN * tokens) if tokens else ""
    head = text[: find_longest_head(text, tokens, writer.counter.count_text)].rstrip()
    mark = "…" if head and len(head) < len(text) else ""
    return head.replace("\n", "\n  ") + mark


def _note_left_out(number: int) -> list[str]:
    return [f"({number} more of this page do not fit: write a smaller limit)"] if number else []


def _fit_answer(
    build: Callable[[int, int], Answer], sizes: Sequence[int], number: int, writer: AnswerWriter
) -> Answer:
    """Return the fullest answer that fits: all items at the greatest size, else fewer items."""
    for size in sizes:
        answer = build(size, number)
        if writer.fits(answer):
            return answer
    while number > 0 and not writer.fits(answer):
        number -= 1
        answer = build(sizes[-1], number)
    return answer
