"""Standing instructions: messages of the user that hold until the user ends them.

The Observer is shown the messages that the user typed with numbers, and a mark names one. What is
kept is that message, word for word; nothing that the Observer writes is. So neither a page, a tool
and the assistant nor the Observer can put words under the heading in the Actor's prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage

from langgraph_om.core.config.settings import Settings
from langgraph_om.core.content.message_keys import runs_in_tool
from langgraph_om.core.content.parts import role_of
from langgraph_om.core.content.text import escape, sanitize
from langgraph_om.core.items import LineSpan, cut_spans, find_spans, list_items, read_head
from langgraph_om.core.observe.transcript import TimedMessage, to_local
from langgraph_om.core.prompts import fill
from langgraph_om.core.record.standing import (
    MARK,
    STANDING,
    read_group,
    read_rule,
    select_standing,
)
from langgraph_om.core.wire import Found, Group, MemoryRecord, StandingEntry

if TYPE_CHECKING:
    from langgraph_om.core.cycles.cycle import CycleInfo

FACT: Final = "🔴"
MOST_TOKENS: Final = 1000
"""Of all instructions; beyond it, they are ordinary observations."""
MOST_OF_LOG: Final = 4
"""Instructions take a quarter of the log's threshold at most, since no reflection shortens them."""
MOST_OF_MESSAGE: Final = 300
"""Tokens of a message that is kept whole, or of a paragraph of a longer one."""
_MOST_CHARACTERS: Final = 4000
"""Of these; what is longer is not counted."""
_BEGINNING: Final = 40
_LEAST_BEGINNING: Final = 8
"""Characters of a mark by which a paragraph of a longer message is found."""

_MOST_SHOWN: Final = 1000
"""Characters of the message that ended one, which people are shown."""

_PARAGRAPHS: Final = re.compile(r"\n[ \t]*\n")
_QUOTING: Final = re.compile(
    r"```|~~~|<[!/?]?[a-z]|^[ \t]*(?:>|＞|&gt;|-{3,}|_{3,})", re.IGNORECASE | re.MULTILINE
)
"""What shows that a message holds text of others: fences, tags, quoted lines, rules."""
_CITED: Final = re.compile(r"#(?P<number>\d{1,6})\b[ \t]*(?:ends S(?P<ended>\d{1,3})\b)?")
_MARK_BELOW: Final = re.compile(rf"^([ \t]*(?:[-*+•][ \t]*)?){MARK}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user typed, as a mark may cite it."""

    id: str
    words: str
    time: datetime | None
    """When, at the user's own time."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of an Observer."""

    span: LineSpan
    fact: str
    """The item as an ordinary fact, which it is where the mark does not hold."""
    cited: UserMessage | None
    """The message that it names; `None` where it names none that was shown with a number."""
    ended: Group | None
    """The instruction that it ends."""
    words: str
    """What the Observer wrote of it, on the item's first line."""


def is_tasked(info: CycleInfo) -> bool:
    """Return whether another agent speaks as the user in the messages of a cycle."""
    is_own = info.operation == "observation" and info.record.get("is_tasked", False)
    return is_own or runs_in_tool(info.record["thread_id"])


def number_messages(
    shown: Sequence[TimedMessage], zone: tzinfo
) -> tuple[list[TimedMessage], dict[int, UserMessage]]:
    """Number the messages that the user typed, and return these by their numbers."""
    numbered: list[TimedMessage] = []
    cited: dict[int, UserMessage] = {}
    for each in shown:
        words = read_typed(each.message)
        if words:
            number = len(cited) + 1
            key = str(each.message.id or "")
            cited[number] = UserMessage(key, words, to_local(each.time, zone))
            numbered.append(replace(each, number=number))
        else:
            numbered.append(each)
    return numbered, cited


def read_typed(message: BaseMessage) -> str:
    """Return what the user typed; empty where a program or somebody else had a part in it."""
    if role_of(message) != "user" or message.name:  # a name is another speaker's
        return ""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    texts = [b if isinstance(b, str) else b.get("text") for b in blocks if _is_text(b)]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return ""
    words = sanitize(texts[0]).strip()
    return "" if _QUOTING.search(words) else words


def _is_text(block: str | Mapping[Any, Any]) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


def list_held(groups: Sequence[Group]) -> str:
    """Return the instructions in force, which the Observer may see end."""
    words = [" ".join(read_group(group).split()) for group in select_standing(groups)]
    lines = [f"S{number}: {each}" for number, each in enumerate(words, 1)]
    return fill("standing_held", instructions="\n".join(lines)) if lines else ""


def select_in_force(groups: Sequence[Group], ahead: Sequence[Found]) -> Sequence[Group]:
    """Return groups without the instructions that a buffered observation has seen end."""
    entries: list[StandingEntry] = [each for found in ahead for each in found.get(STANDING, [])]
    ended = {entry["group"] for entry in entries if entry["change"] == "ended"}
    return [group for group in groups if group["id"] not in ended] if ended else groups


def read_marks(
    text: str, cited: Mapping[int, UserMessage], held: Sequence[Group]
) -> Iterator[Mark]:
    """Yield the marks in what an Observer wrote.

    Args:
        cited: The messages that it was shown with numbers.
        held: The instructions that `list_held` has numbered.
    """
    spans = find_spans(text)
    for span, item in zip(spans, cut_spans(text, spans), strict=True):
        head = read_head(item)
        if head.mark != MARK:
            continue
        found = _CITED.match(item, head.end)
        message = cited.get(int(found["number"])) if found else None
        words = item[found.end() if found else head.end :].partition("\n")[0].strip(' \t"“”')
        ended = None
        if found and found["ended"]:
            number = int(found["ended"])
            ended = held[number - 1] if 0 < number <= len(held) else None
            message = message if ended is not None else None
        yield Mark(span, item.replace(MARK, FACT, 1), message, ended, words)


def drop_marks(text: str) -> str:
    """Return text in which no item has the mark."""
    return _MARK_BELOW.sub(rf"\g<1>{FACT}", text)


def choose_words(mark: Mark, count: Callable[[str], int]) -> str | None:
    """Return what is kept of a message: all of it, or the paragraph with which the mark begins."""
    words = mark.cited.words if mark.cited is not None else ""
    if mark.ended is not None:
        return words[:_MOST_SHOWN]
    if len(words) <= _MOST_CHARACTERS and count(words) <= MOST_OF_MESSAGE:
        return words
    paragraphs = [each.strip() for each in _PARAGRAPHS.split(words)]
    found = [each for each in paragraphs if _begins_alike(each, mark.words)]
    if len(found) != 1 or len(found[0]) > _MOST_CHARACTERS:
        return None
    return found[0] if count(found[0]) <= MOST_OF_MESSAGE else None


def _begins_alike(paragraph: str, words: str) -> bool:
    size = min(len(paragraph), len(words), _BEGINNING)
    return size >= _LEAST_BEGINNING and paragraph[:size] == words[:size]


def find_room(settings: Settings) -> int:
    """Return the tokens of all instructions, which no reflection shortens."""
    return min(MOST_TOKENS, settings.thresholds.observation_tokens // MOST_OF_LOG)


# What people and the Actor are shown.


def write_rules(record: MemoryRecord) -> str:
    """Return the instructions in force, with their days, for the system message."""
    rules = [*map(read_rule, list_items(select_standing(record["log"])))]
    lines = [f'* {rule.day and f"{rule.day}: "}"{rule.words}"' for rule in rules]
    indented = escape("\n".join(line.replace("\n", "\n  ") for line in lines))
    return fill("standing_rules", rules=indented) if lines else ""
