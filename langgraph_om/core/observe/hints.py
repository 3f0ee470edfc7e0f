"""Continuation hints: the current task and a suggested response, stated with each observation.

The Actor is shown them behind the observations, so that it goes on where the messages that are no
longer shown left off. So is the Reflector: what they rest on has to stay in the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from langgraph_om.core.observe.parse_answer import tag_of
from langgraph_om.core.prompts import fill, load
from langgraph_om.core.record.record import TITLE

HintPlace = Literal["observer", "threads", "actor", "example", "first thread", "second thread"]
"""Where a prompt tells of hints: in the form of the Observer's answer, in the rules for an Observer
of several threads or for the Actor, and in examples of an answer, of which there are two where
threads are observed together."""

_NUMBERED: Final = re.compile(r"^\d+\. `<([\w-]+)>`", re.MULTILINE)

_PROMPTS: Final[Mapping[HintPlace, str]] = {
    "observer": "observer_hints",
    "threads": "observer_threads_hints",
    "actor": "actor_hints",
    "example": "observer_hints_example",
    "first thread": "observer_threads_hints_first",
    "second thread": "observer_threads_hints_second",
}


_ALONE: Final[Mapping[HintPlace, str]] = {
    "threads": "observer_threads_hint",
    "actor": "actor_hint",
}
"""What is said in the place of these prompts where one hint is asked for."""


def tell_hints(names: Sequence[str], place: HintPlace) -> str:
    """Return what a prompt says in a place of the hints that are asked for; empty for nothing."""
    told = [_tell_continuation([name for name in names if name != TITLE], place)]
    if TITLE in names and place == "observer":
        told.append(f"\n{load('observer_title')}")
    return "\n".join(filter(None, told))


def _tell_continuation(names: Sequence[str], place: HintPlace) -> str:
    if len(names) != 1:
        return load(_PROMPTS[place]) if names else ""
    (name,) = names
    if place in _ALONE:
        words = {"tag": tag_of(name)} if place == "actor" else {"hint": name.replace("_", " ")}
        return fill(_ALONE[place], **words)
    return _keep_only(load(_PROMPTS[place]), tag_of(name))


def _keep_only(text: str, tag: str) -> str:
    """Return what a prompt says of one hint: its line of a numbered list, or its block."""
    lines = [line for line in text.split("\n") if line.strip()]
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if numbered:
        first = numbered[0].partition(".")[0]
        own = next(line for line in numbered if f"`<{tag}>`" in line.partition(":")[0])
        return f"{first}.{own.partition('.')[2]}"
    return text[text.index(f"<{tag}>") : text.index(f"</{tag}>")] + f"</{tag}>"
