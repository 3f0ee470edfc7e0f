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

_ANCHOR: Final = 200
"""Which of its messages it is known by, and let go of with. The first ones may be constants of a
program, and the last ones are kept with the window."""

_MAX_KNOWN: Final = 16
"""How many are remembered: those of the turns that are under way, as a rule."""


class _Anchor:
    """A message that is known again without being kept."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, message: Any) -> None:
        self.ref = weakref.ref(message, partial(_forget, id(message)))

    def __eq__(self, other: object) -> bool:
        return self.ref() is other


class _Anything:
    """Stands for a message that is still to come."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class _Known:
    """A conversation that was looked at.

    Args:
        messages: All of it.
        others: What was found.
    """

    def __init__(self, messages: list[Any], others: tuple[int, ...]) -> None:
        self.anchor, self.others = _Anchor(messages[_ANCHOR]), others
        self._messages = [*messages]
        self._messages[_ANCHOR] = self.anchor

    def go_on(self, messages: list[Any]) -> bool:
        """Take in what came since; `False` where a conversation does not begin with the same."""
        size, new = len(self._messages), len(messages) - len(self._messages)
        # The comparison is quick for the same objects, and slow for equal ones.
        if new < 0 or messages[size - 1] is not self._messages[-1]:
            return False
        self._messages += [_Anything()] * new
        if messages[0] is not self._messages[0] or self._messages != messages:
            return False
        self._messages[size:] = messages[size:]
        self.others += _look(messages[size:], size)
        return True


_known: Final[dict[int, _Known]] = {}
"""By the anchor. Whoever uses one takes it out meanwhile, so that it is nobody else's."""


def find_others(messages: Sequence[Any]) -> Sequence[int]:
    """Return the indexes of what is neither a `HumanMessage`, an `AIMessage` nor a `ToolMessage`.

    Subclasses of these are other classes.
    """
    if len(messages) < _LONG or not isinstance(messages, list):
        return _look(messages, 0)
    key = id(messages[_ANCHOR])
    known = _known.pop(key, None)
    if known is None or not known.go_on(messages):
        others = _look(messages, 0)
        if not isinstance(messages[_ANCHOR], BaseMessage):
            return others
        known = _Known(messages, others)
    _known[key] = known
    for former in [*_known.copy()][:-_MAX_KNOWN]:
        _known.pop(former, None)
    return known.others


def _look(messages: Sequence[Any], start: int) -> tuple[int, ...]:
    # By class, as a loop takes longer.
    if SPEAKERS.issuperset(map(type, messages)):
        return ()
    return tuple(at for at, each in enumerate(messages, start) if type(each) not in SPEAKERS)


def _forget(key: int, anchor: weakref.ref[Any]) -> None:
    """Let go of a conversation that nobody has any more."""
    known = _known.get(key)
    if known is not None and known.anchor.ref is anchor:
        _known.pop(key, None)
