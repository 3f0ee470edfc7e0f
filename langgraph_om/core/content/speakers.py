"""Find the few messages of a conversation that are of none of the usual classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

SPEAKERS: Final = frozenset({HumanMessage, AIMessage, ToolMessage})
"""The classes of nearly all messages, which are said in a conversation."""


def find_others(messages: Sequence[Any]) -> list[int]:
    """Return the indexes of what is neither a `HumanMessage`, an `AIMessage` nor a `ToolMessage`.

    Subclasses of these are other classes.
    """
    # By class first, as a loop takes longer, and each step asks whatever a thread's length.
    if SPEAKERS.issuperset(map(type, messages)):
        return []
    return [at for at, each in enumerate(messages) if type(each) not in SPEAKERS]
