"""What the models of memory read, by kind: rules, what was noted before, and conversation.

A question that has an answer in it is a second one: the first answer could not be used, or was not
enough. Of a note, the words count as repeated that the note right before it has too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_om import EstimatingCounter

COUNTER = EstimatingCounter()
KINDS = ("rules", "earlier", "conversation")
COUNTED = (*KINDS, "questions", "again", "words", "repeated")

Read = dict[str, dict[str, int]]
"""Per part: tokens by kind, questions, second ones, and words of notes."""

NOTED = re.compile(
    r"<(previous-observations|observation-log)>\n(.*?)\n</\1>|## Hints so far.*?\n(?=## )"
    r"|Here is a summary of the conversation to date:.*?(?=</message>)",
    re.DOTALL,
)
SAID = re.compile(r"<(conversation|messages)>\n(.*)\n</\1>", re.DOTALL)
ITEM = re.compile(r"^\* (.*(?:\n[ \t].*)*)", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]{4,}")


def read_question(messages: Sequence[BaseMessage]) -> dict[str, int]:
    """Count what stands in a question; what is neither noted nor said are rules."""
    counts = dict.fromkeys(COUNTED, 0)
    for message in messages:
        text = message.text
        noted = [found[0] for found in NOTED.finditer(text)]
        said = SAID.search(NOTED.sub("", text)) if message.type == "human" else None
        tokens = {
            "earlier": sum(map(COUNTER.count_text, noted)) if message.type == "human" else 0,
            "conversation": COUNTER.count_text(said[2]) if said else 0,
        }
        counts["rules"] += max(0, COUNTER.count_text(text) - sum(tokens.values()))
        for kind, number in tokens.items():
            counts[kind] += number
    counts["questions"] = 1
    counts["again"] = int(any(isinstance(message, AIMessage) for message in messages))
    return counts


def read_notes(text: str) -> dict[str, int]:
    """Count the words of notes, and those that the note before has too."""
    items = [WORD.findall(found.lower()) for found in ITEM.findall(text)]
    pairs = zip(items, [[], *items], strict=False)
    return {
        "words": sum(map(len, items)),
        "repeated": sum(word in set(before) for own, before in pairs for word in own),
    }


def add_read(several: Iterable[Mapping[str, Mapping[str, int]]]) -> Read:
    """Add up what was read on several occasions."""
    total: Read = {}
    for read in several:
        for part, counts in read.items():
            sums = total.setdefault(part, dict.fromkeys(COUNTED, 0))
            for name, number in counts.items():
                sums[name] += number
    return total
