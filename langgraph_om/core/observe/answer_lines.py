"""The lines of a log of observations: which of them are date headings, items, or neither."""

from __future__ import annotations

import re
from collections.abc import Iterable

from langgraph_om.core.observe.answer_tags import ITEM_START
from langgraph_om.core.observe.non_answers import is_blank_form, is_refused

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_NAMED_DAY = (
    rf"{_MONTH}[ ]\d\d?(?:st|nd|rd|th)?,?[ ]\d{{4}}"
    rf"|\d\d?(?:st|nd|rd|th|\.)?[ ](?:de[ ])?(?:{_MONTH}|[^\W\d_]{{3,12}}),?[ ](?:de[ ])?\d{{4}}"
)
_NUMBERED_DAY = (
    r"\d{4}(?P<sep>[-/.])\d\d?(?P=sep)\d\d?|\d\d?(?P<joint>[-/.])\d\d?(?P=joint)\d{4}"
    r"|\d{4}年[ ]?\d\d?月[ ]?\d\d?日"
)
_DATE = re.compile(
    r"(?:date[ \t]*:.*|(?:(?:datum|fecha|data|дата|日期|日付|날짜)[ \t]*[:：][ \t]*)?"
    rf"(?:[a-z]{{3,9}},?[ ])?(?:{_NAMED_DAY}|{_NUMBERED_DAY}):?)",
    re.IGNORECASE,
)
_MAX_DATE_LINE_CHARS = 80
_AROUND_DATE = " \t#*_>`[]=–—"


def is_date_line(line: str) -> bool:
    """Return whether a line is a date heading and nothing else."""
    if len(line) > _MAX_DATE_LINE_CHARS or ITEM_START.match(line):
        return False
    return _DATE.fullmatch(line.strip(_AROUND_DATE)) is not None


def strip_dates(text: str) -> str:
    """Drop the date headings of a text."""
    return "\n".join(line for line in text.split("\n") if not is_date_line(line)).strip()


def are_days_apart(blocks: Iterable[list[str]]) -> bool:
    """Return whether each block has date headings, and no two blocks have the same."""
    seen: set[str] = set()
    for texts in blocks:
        lines = (line for text in texts for line in text.split("\n") if is_date_line(line))
        days = {line.strip(_AROUND_DATE).casefold() for line in lines}
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
