"""What the offline Observer and Reflector share: finding their block, and sections by thread."""

from __future__ import annotations

import re

from langchain_core.messages import BaseMessage

from langgraph_om.testing.offline import join_text

NO_OBSERVATIONS = "<observations>(none)</observations>"
"""The answer when there is nothing to observe."""

_SECTION = re.compile(r'<thread id="[^"<>]*">')


def find_last_block(messages: list[BaseMessage], tag: str) -> tuple[str, str]:
    """Return the text outside and inside the last `<tag>` block of the messages."""
    text = "\n".join(join_text(message) for message in messages)
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, max(end, 0))
    if start < 0:
        return text, ""
    return text[:start] + text[end:], text[start + len(tag) + 2 : end]


def read_sections(text: str) -> list[tuple[str, str]]:
    """Return the sections of several threads in a text: the tag that opens each, and its text."""
    sections: list[tuple[str, list[str]]] = []
    is_open = False
    for line in text.split("\n"):
        if _SECTION.fullmatch(line):
            sections.append((line, []))
            is_open = True
        elif line == "</thread>":
            is_open = False
        elif is_open:
            sections[-1][1].append(line)
    return [(tag, "\n".join(lines)) for tag, lines in sections]


def write_sections(answers: list[tuple[str, str]]) -> str:
    """Return the answers, each in the section that its tag opens."""
    return "\n".join(f"{tag}\n{answer}\n</thread>" for tag, answer in answers)
