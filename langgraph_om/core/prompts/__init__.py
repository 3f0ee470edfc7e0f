"""The prompts sent to the models: wording lives in `.md` files, never in code.

Those of the core lie beside this file, those of a feature beside the feature's code.

A file opens with an HTML comment for its maintainers: the slots it has, and why each rule is in
it. The comment is not part of the prompt. A slot is a name in double braces.

The files are read once, when this module is imported, so that no model call ever waits for a disk
(and no event loop is blocked by it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

__all__ = ["fill", "load", "names"]

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_SUFFIX = ".md"


def names() -> list[str]:
    """Which prompts there are, in alphabetical order."""
    return sorted(_PROMPTS)


def load(name: str) -> str:
    """The text of one prompt, its slots still open.

    Args:
        name: The file's name without `.md`.

    Raises:
        ValueError: There is no such prompt.
    """
    try:
        return _PROMPTS[name]
    except KeyError:
        msg = f"There is no prompt {name!r}; write one of {_quoted(names())}."
        raise ValueError(msg) from None


def fill(template_name: str, /, **slots: str) -> str:
    """The text of one prompt with every slot replaced by its value.

    Values go in as they are: braces in them stay braces. A blank value takes its line along, and
    the heading above it when nothing else stands under that heading.

    Args:
        **slots: The text of every slot the prompt has, and of no other.

    Raises:
        ValueError: There is no such prompt, a slot has no value, or a value has no slot.
    """
    pieces = _SLOT.split(load(template_name))  # text, slot, text, ..., slot, text
    if slots.keys() != {*pieces[1::2]}:
        wanted, given = _quoted(dict.fromkeys(pieces[1::2])), _quoted(slots)
        msg = (
            f"Prompt `{template_name}` has the slots {wanted}, and was given {given}; give each "
            f"of them a text (an empty one leaves it out)."
        )
        raise ValueError(msg)
    done: list[str] = []
    text = pieces[0]
    for index in range(1, len(pieces), 2):
        value, after = slots[pieces[index]], pieces[index + 1]
        if value and not value.isspace():
            done += [text, value]
            text = after
        else:
            text = _close_gap(text, after, first=not done, last=index + 2 == len(pieces))
    return "".join([*done, text])


def _close_gap(before: str, after: str, *, first: bool, last: bool) -> str:
    """The two texts around a slot without a value, joined as if the slot had never been there."""
    at_line_start = before.endswith("\n") or (first and not before)
    if not at_line_start:
        return before + after
    head, tail = before.rstrip("\n"), after.lstrip("\n")
    if tail.startswith("#") or (last and not tail):
        above, _, heading = head.rpartition("\n")
        if heading.startswith("#"):
            head = above.rstrip("\n")
    if first and not head:
        return tail
    if last and not tail:
        return head
    newlines = max(len(before) - len(before.rstrip("\n")), len(after) - len(tail))
    return head + "\n" * newlines + tail


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "none"


def _without_comment(text: str) -> str:
    if text.startswith("<!--"):
        _, _, text = text.partition("-->")
    return text.strip("\n")


_PROMPTS = {
    entry.name.removesuffix(_SUFFIX): _without_comment(entry.read_text(encoding="utf-8"))
    for entry in files(__name__).iterdir()
    if entry.name.endswith(_SUFFIX)
}
