"""Find the few messages of a conversation that are of none of the usual classes.

Each step asks for them several times, whatever the length of the conversation. What was looked at
is known again by the objects: lists of the same objects are compared many times faster than their
items are looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

SPEAKERS: Final = frozenset({HumanMessage, AIMessage, ToolMessage})
"""The classes of nearly all messages, which are said in a conversation."""

_LONG: Final = 400
"""From how many messages on a conversation is remembered; a shorter one is looked at as fast."""

_MAX_KNOWN: Final = 16
"""How many are: those of the turns that are under way, as a rule."""


class _Anything:
    """Stands for a message that is still to come."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class _Last:
    """The last message of a conversation, known again without being kept."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, message: Any, first: int) -> None:
        self.ref = weakref.ref(message, partial(_forget, first))

    def __eq__(self, other: object) -> bool:
        return self.ref() is other


class _Known:
    """A conversation that was looked at; it is let go of together with its last message.

    Args:
        messages: All of it.
        others: What was found.
    """

    def __init__(self, messages: list[Any], others: tuple[int, ...]) -> None:
        self._messages, self.others = [*messages], others
        self._messages[-1] = _Last(messages[-1], id(messages[0]))

    def is_last(self, last: weakref.ref[Any]) -> bool:
        return self._messages[-1].ref is last

    def go_on(self, messages: list[Any]) -> bool:
        """Take in what came since; `False` where a conversation does not begin with the same."""
        size, new = len(self._messages), len(messages) - len(self._messages)
        if new < 0 or self._messages[-1] != messages[size - 1]:
            return False
        self._messages += [_Anything()] * new
        if messages[0] is not self._messages[0] or self._messages != messages:
            return False
        if new:
            self._messages[size - 1 :] = messages[size - 1 :]
            self._messages[-1] = _Last(messages[-1], id(messages[0]))
            self.others += _look(messages[size:], size)
        return True


_known: Final[dict[int, _Known]] = {}
"""By the first message. Whoever uses one takes it out meanwhile, so that it is nobody else's."""


def find_others(messages: Sequence[Any]) -> Sequence[int]:
    """Return the indexes of what is neither a `HumanMessage`, an `AIMessage` nor a `ToolMessage`.

    Subclasses of these are other classes.
    """
    if len(messages) < _LONG or not isinstance(messages, list):
        return _look(messages, 0)
    first = id(messages[0])
    known = _known.pop(first, None)
    if known is None or not known.go_on(messages):
        others = _look(messages, 0)
        if not isinstance(messages[-1], BaseMessage):
            return others
        known = _Known(messages, others)
    _known[first] = known
    for key in [*_known.copy()][:-_MAX_KNOWN]:
        _known.pop(key, None)
    return known.others


def _look(messages: Sequence[Any], start: int) -> tuple[int, ...]:
    # By class, as a loop takes longer.
    if SPEAKERS.issuperset(map(type, messages)):
        return ()
    return tuple(at for at, each in enumerate(messages, start) if type(each) not in SPEAKERS)


def _forget(first: int, last: weakref.ref[Any]) -> None:
    """Let go of a conversation whose last message nobody has any more."""
    known = _known.get(first)
    if known is not None and known.is_last(last):
        _known.pop(first, None)
