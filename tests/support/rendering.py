"""The inverse of what the package reads, and single steps of it, which only tests ask for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from langgraph_om.core.content.dates import find_phrase
from langgraph_om.core.content.text import escape_attribute
from langgraph_om.core.observe.answer_tags import LOG, defuse_tags, tag_of
from langgraph_om.core.observe.parse_answer import ParsedAnswer
from langgraph_om.core.record.record import write_range
from langgraph_om.core.reflect.edits import Division
from langgraph_om.core.wire import Group


def render_output(parsed: ParsedAnswer) -> str:
    """Write a parsed answer in the well-formed shape.

    `parse_output` gives the same value back for everything it called `ok` or `none`. In a value
    built by hand, a structural tag inside a text is written with `&lt;` and stays so, and a text
    that `parse_output` would tidy comes back tidied.
    """
    if parsed.status == "none":
        blocks = [f"<{LOG}>(none)</{LOG}>"]
    else:
        blocks = [f"<{LOG}>\n{defuse_tags(parsed.observations, LOG)}\n</{LOG}>"]
    for hint, value in parsed.hints.items():
        if value is not None:
            name = tag_of(hint)
            safe = defuse_tags(value, name)
            body = f"\n{safe}\n" if "\n" in safe else safe
            blocks.append(f"<{name}>{body}</{name}>")
    return "\n".join(blocks)


def with_range(group: Group) -> str:
    """Render a group for the log: its text, and below it the line with its ranges."""
    return "\n".join(filter(None, (group["text"], write_range(group)))) if group["text"] else ""


def parse_date(text: str) -> date | None:
    """Return the day that the first English or ISO date phrase in `text` names.

    Of a range of days it is the first day, of a range of months the later end: `May 27-28, 2026`
    is 27 May, `late April to early May 2026` is 7 May. Early, mid and late are the 7th, 15th and
    23rd; a month alone is its first day.

    Args:
        text: A phrase such as `Thursday, Dec 4, 2025`, `the 22nd of January, 2026`,
            `mid-to-late May 2026`, `March 2026` or `2026-01-22T14:30`; words around it are
            skipped. The year has four digits.

    Returns:
        The day, or `None` when there is no phrase with a year, or the day does not exist.
    """
    phrase = find_phrase(text)
    return phrase.day if phrase else None


def divide(name: Callable[[str], str] = str) -> Division:
    """Sections for the threads of a log, each with the id that this returns."""

    def wrap(thread: str, text: str) -> str:
        return f'<thread id="{escape_attribute(name(thread))}">\n{text}\n</thread>'

    return Division(wrap, "The items are of several conversations.")
