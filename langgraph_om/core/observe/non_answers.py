"""Lines by which an answer shows that it is none.

It says that there is nothing worth noting; it refuses; or it leaves the form not filled in. Every
pattern here is used on a bounded part of a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_MAX_HEAD_CHARS: Final = 300
"""Of a line, what is read to know a refusal or a form."""

# No group is repeated possessively: Python 3.11.2 then goes on behind what it has not matched.
_LABEL: Final = re.compile(
    r"[ \t]*+(?:(?:[-*+•–—‣◦▪▸●○·・]|\d{1,4}[.)]|[a-zA-Z]\)|\([a-z]\)|->|→)[ \t]++)?"
    r"[*_]{0,3}(?P<mark>[🔴🟡🟢✅📌]|<?MARK>?(?![a-zA-Z]))?\ufe0f?[*_ \t]*+"
    r"(?P<time>[\[(]\d{1,2}:\d\d[^()\[\]]{0,12}[\])])?[*_ \t]*+"
)
"""What stands before the text of an item: bullet, mark and time."""

# --- Nothing to note ------------------------------------------------------------------------------

_NOTHING: Final = frozenset(
    {
        *("none", "nothing", "nil", "null", "n/a", "nichts", "keine", "rien", "aucune", "nada"),
        *("ninguna", "niente", "nenhuma", "geen", "brak", "нет", "无", "無", "なし", "없음", "yok"),
    }
)
"""Words that alone say that there is nothing; in brackets any words do."""
_BRACKETED: Final = re.compile(r"\([^()]{1,100}\)|（[^（）]{1,100}）")
_DENIES: Final = re.compile(
    r"(?:there (?:is|are|was|were) )?(?:no|nothing)\b[^,;:]{0,40}\b(?:conversation|content"
    r"|messages|note|noteworthy|noted|observations?|observed?|record|report|summari[sz]e)\b"
    r"[^,;:]{0,40}",
    re.IGNORECASE,
)


def says_nothing_to_note(text: str) -> bool:
    """Return whether each line says in the form for it that there is nothing to note.

    Whether that is believed depends on how much was said.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and all(map(_is_nothing, lines))


def _is_nothing(line: str) -> bool:
    label = _LABEL.match(line)
    text = (line[label.end() :] if label else line).strip(" \t*_`.。")
    if _BRACKETED.fullmatch(text):
        return True
    is_fact = label is not None and label["time"]
    word = unicodedata.normalize("NFKC", text).casefold().strip("[]</> ")
    return not is_fact and word in _NOTHING


def denies_all(items: Sequence[str]) -> bool:
    """Return whether items say in English sentences that there was nothing to observe."""
    return bool(items) and all(_DENIES.fullmatch(_head(item).strip()) for item in items)


# --- Refusals -------------------------------------------------------------------------------------

_CANNOT: Final = (
    r"(?:can't|cannot|can not|won't|will not|(?:am |'m |are |'re )(?:unable|not able) to)"
)
_HELP: Final = (
    r"(?:(?:assist|comply|help (?:you|with)|do (?:that|this)|fulfil"
    r"|(?:continue|engage|proceed) with)"
    r"|(?:answer|create|generate|observe|process|provide|record|summari[sz]e)\b.{0,40}"
    r"\b(?:this|that|these|it|request|conversation|content|observations|notes)\b)"
)
_REFUSALS: Final = (
    rf"(?:unfortunately|sorry|(?:i'm|i am|we're)\b.{{0,12}}\bsorry|i apologi[sz]e)\b.{{0,20}}\bi ?"
    rf"(?:{_CANNOT}|must decline)"
    rf"|(?:i|we) ?(?:{_CANNOT}|decline to|refuse to|(?:must|have to) (?:decline|refuse) to) {_HELP}"
    r"|as an ai\b"
)
_REFUSES: Final = re.compile(_REFUSALS, re.IGNORECASE)

_NOT_DONE: Final = (
    r"\b(?:i|we)\b.{0,24}?(?:n't\b|\bnot\b|\bnever\b|\bcannot\b|\brefus|\bdeclin|\bignor)"
)
_DISTANCES: Final = re.compile(rf"{_NOT_DONE}|\binject(?:s|ed|ion)\b", re.IGNORECASE)
"""What the words before a list say when the list is not to be believed."""
_WILL_NOT_NOTE: Final = re.compile(
    r"(?:(?:so|therefore|but|and),? )?(?:i|we) ?"
    r"(?:'ll|will|did|do|have|am|'ve|'m|wo|can|could|ca)? ?"
    r"(?:n't|not|never|refused? to|declined? to) .{0,20}"
    r"\b(?:record|follow|not(?:e|ing)|stor|sav|keep|obey|comply|includ|act(?:ed)? on|treat)",
    re.IGNORECASE,
)


def is_refused(before: Sequence[str], items: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether an answer is a refusal, or says of its list that it is not to be believed.

    Args:
        before: The lines before the first item that are no date headings.
        items: The items, without what is indented below them.
        after: The lines after the first item that belong to none.
    """
    if any(_refuses(line) or _DISTANCES.search(_head(line)) for line in before if items):
        return True
    if any(_refuses(line) or _WILL_NOT_NOTE.match(_head(line)) for line in (*before, *after)):
        return True
    if not items or not _refuses(items[0]):
        return False
    return not any(map(_is_labelled, items)) or all(map(_refuses, items))


def _head(line: str) -> str:
    head = line[:_MAX_HEAD_CHARS].replace("’", "'")
    label = _LABEL.match(head)
    return head[label.end() :] if label else head


def _refuses(line: str) -> bool:
    return _REFUSES.match(_head(line)) is not None


def _is_labelled(line: str) -> bool:
    label = _LABEL.match(line)
    return label is not None and bool(label["mark"] or label["time"])


# --- A review in our colours ----------------------------------------------------------------------

_VERDICT: Final = re.compile(
    r"[ \t]*+(?:[-*+•–] )?[*_]{0,3}[🔴🟡🟢✅📌]\ufe0f?[ *_]{0,4}"
    r"(?:block(?:er|ing)|critical|severe|major|medium|moderate|minor|high|low|nit(?:pick)?|warnings?"
    r"|suggestions?|security|performance|style|strengths?|must fix|should fix|nice to have|issues?"
    r"|pass(?:ed)?|fail(?:ed)?)\b[^:\n]{0,30}[:–—]",
    re.IGNORECASE,
)


def is_verdict(item: str) -> bool:
    """Return whether the mark of an item says how grave something is: `🔴 **Critical**: x`."""
    return _VERDICT.match(item) is not None


# --- The form, not filled in ----------------------------------------------------------------------

_BLANK: Final = r"\.{2,}|…+|[<{\[]{1,2}(?!unknown|none|n/a)[^<>{}\[\]\d]{1,60}[>}\]]{1,2}"
_UNIT: Final = r"(?:y{2,4}|m{1,4}|d{1,2}|month|day|year|date)"
_BLANK_DATE: Final = re.compile(
    rf"date[ \t]*:[ \t*_`]*(?:{_BLANK}|{_UNIT}(?:[ ,./-]{{1,2}}{_UNIT}){{0,2}})", re.IGNORECASE
)
_BLANK_TIME: Final = re.compile(r"[\[(<{]{1,2}(?:hh?:mm?|xx:xx)\b", re.IGNORECASE)
_BLANK_TEXT: Final = re.compile(rf"{_BLANK}|text|observation(?: text)?", re.IGNORECASE)


def is_blank_form(dates: Sequence[str], entries: Sequence[str]) -> bool:
    """Return whether an answer echoes the form: a date or time to fill in, or only such texts.

    Args:
        dates: The date headings.
        entries: The other lines that are not below an item.
    """
    if any(_BLANK_DATE.fullmatch(line.rstrip(" \t*_`").lstrip(" \t#*_>`")) for line in dates):
        return True
    heads = [_head(line).strip() for line in entries]
    if any(map(_BLANK_TIME.match, heads)):
        return True
    return bool(heads) and all(map(_BLANK_TEXT.fullmatch, heads))
