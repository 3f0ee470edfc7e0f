"""Find the item of the log that a person means, by its id or by words of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langgraph_om.core.content.text import for_terminal
from langgraph_om.core.items.listing import ID_FORM, LogItem
from langgraph_om.errors import ItemError

_MAX_CANDIDATES: Final = 8
_MAX_SHOWN: Final = 90
"""Characters of an item in an error."""


def find_item(wanted: str, items: Sequence[LogItem]) -> LogItem:
    """Return the one item that is meant.

    Args:
        wanted: The id of an item, or words of it: all of its words before a part of them, in any
            case and with any spaces.
        items: The items of the log.

    Raises:
        ItemError: When it is none of them, or could be several; the message lists these.
    """
    form = ID_FORM.fullmatch(wanted.strip())
    if form is not None:
        named = [item for item in items if item.id == form["id"]]
        if named:
            return named[0]
    words = _fold_words(wanted)
    if not words:
        msg = f"`item` is {wanted!r}; pass an item's id, or words of it"
        raise ItemError(msg)
    said = _cut(wanted)  # a model is told what it asked for, and may have pasted very much
    texts = [(item, _fold_words(item.words), _fold_words(item.text)) for item in items]
    found = [item for item, own, whole in texts if words in (own, whole)]
    found = found or [item for item, _, whole in texts if words in whole]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{len(found)} items match {said!r}; pass the id of one:\n{_list(found)}"
        raise ItemError(msg)
    close = _find_close(words, items)
    hint = f"; closest are:\n{_list(close)}" if close else "; the log has no item like it"
    msg = f"no item matches {said!r}{hint}"
    raise ItemError(msg)


def _fold_words(text: str) -> str:
    return " ".join(text.casefold().split())


def _find_close(words: str, items: Sequence[LogItem]) -> list[LogItem]:
    """Return the items that share most words with what was asked for."""
    asked = set(words.split())
    scored = [(len(asked & set(_fold_words(item.words).split())), item) for item in items]
    ranked = sorted(scored, key=lambda pair: -pair[0])
    return [item for score, item in ranked[:_MAX_CANDIDATES] if score]


def _list(items: Sequence[LogItem]) -> str:
    lines = [f"  {item.id}  {_shorten(item)}" for item in items[:_MAX_CANDIDATES]]
    more = len(items) - len(lines)
    return "\n".join([*lines, *([f"  and {more} more"] if more else [])])


def _shorten(item: LogItem) -> str:
    day = f"{item.day.isoformat()}: " if item.day else ""
    return _cut(f"{day}{' '.join(for_terminal(item.words).split())}")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
