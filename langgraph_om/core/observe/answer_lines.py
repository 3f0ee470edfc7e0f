"""The lines of a log of observations: which of them are date headings, items, or neither."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph_om.core.items.lines import ITEM_START, is_date_line, strip_date_marks
from langgraph_om.core.observe.non_answers import is_blank_form, is_refused


def strip_dates(text: str) -> str:
    """Drop the date headings of a text."""
    return "\n".join(line for line in text.split("\n") if not is_date_line(line)).strip()


def are_days_apart(blocks: Iterable[list[str]]) -> bool:
    """Return whether each block has date headings, and no two blocks have the same."""
    seen: set[str] = set()
    for texts in blocks:
        lines = (line for text in texts for line in text.split("\n") if is_date_line(line))
        days = {strip_date_marks(line).casefold() for line in lines}
        if not days or not seen.isdisjoint(days):
            return False
        seen |= days
    return True


class Lines:
    """The lines of a log by what they are; blank ones, and those below an item, are left out."""

    def __init__(self, log: str) -> None:
        self.dates: list[str] = []
        self.items: list[str] = []
        self.before: list[str] = []
        """What stands before the first item and is no date heading."""
        self.after: list[str] = []
        """What stands after the first item and belongs to none; code in fences is one line."""
        in_item = in_code = False
        for line in filter(str.strip, log.split("\n")):
            is_fence = line.lstrip().startswith(("```", "~~~"))
            if in_code or (in_item and line[:1] in " \t"):
                in_code ^= is_fence and in_code
                continue
            in_item = ITEM_START.match(line) is not None
            if in_item:
                self.items.append(line)
            elif is_date_line(line):
                self.dates.append(line)
            else:
                (self.after if self.items else self.before).append(line)
                in_code = is_fence

    @property
    def are_doubtful(self) -> bool:
        """Whether they refuse, or are the form not filled in."""
        entries = [*self.before, *self.items, *self.after]
        refused = is_refused(self.before, self.items, self.after)
        return refused or is_blank_form(self.dates, entries)
