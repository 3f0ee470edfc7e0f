"""The inverse of what the package reads, and single steps of it, which only tests ask for."""

from __future__ import annotations

from collections.abc import Callable

from support.inside import LOG, Division, ParsedAnswer, escape_attribute, tag_of


def render_output(parsed: ParsedAnswer) -> str:
    """Write a parsed answer in the form that is asked for."""
    said = f"\n{parsed.observations}\n" if parsed.status == "ok" else "(none)"
    blocks = [f"<{LOG}>{said}</{LOG}>"]
    for hint, value in parsed.hints.items():
        name = tag_of(hint)
        body = f"\n{value}\n" if "\n" in value else value
        blocks.append(f"<{name}>{body}</{name}>")
    return "\n".join(blocks)


def divide(name: Callable[[str], str] = str) -> Division:
    """Sections for the threads of a log, each with the id that this returns."""

    def wrap(thread: str, text: str) -> str:
        return f'<thread id="{escape_attribute(name(thread))}">\n{text}\n</thread>'

    return Division(wrap, "The items are of several conversations.")
