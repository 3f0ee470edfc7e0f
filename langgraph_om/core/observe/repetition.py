"""Detect runaway repetition: a model that got stuck, as opposed to an account of repetitive work.

Only exact repetition counts; lines that merely resemble each other do not.
"""

from __future__ import annotations

_MIN_DEGENERATE_CHARS = 2_000
_MAX_SANE_LINE_CHARS = 50_000
_MIN_REPEATS = 4
_MIN_RUN_CHARS = 500
_MAX_RUN_CHARS = 4_000
_MAX_RUN_SHARE = 0.4
_MIN_COPIED_LINES = 40
_MIN_COPIES = 10
_PROBE_CHARS = 80
_PROBES = 1024
_MAX_PERIOD = 100_000


def is_degenerate(text: str) -> bool:
    """Return whether the text runs away in repetition.

    It does when a line is longer than any sane one, when it ends in one block over and over, when
    such blocks fill a large share of it, or when a few lines make up nearly all of it, in whatever
    order. A block must repeat exactly: lines that differ by a time, a name or a number
    are a faithful account of repetitive work. White space is ignored.
    """
    if len(text) < _MIN_DEGENERATE_CHARS:
        return False
    lines = [line for raw in text.split("\n") if (line := " ".join(raw.split()))]
    if any(len(line) > _MAX_SANE_LINE_CHARS for line in lines):
        return True
    if len(lines) >= max(_MIN_COPIED_LINES, _MIN_COPIES * len(set(lines))):
        return True
    compact = "\n".join(lines)
    if len(compact) < _MIN_DEGENERATE_CHARS:
        return False
    return _ends_in_run(compact) or _is_filled_with_runs(compact)


def _ends_in_run(text: str) -> bool:
    """Return whether the text ends in one block, again and again."""
    probe = len(text) - _PROBE_CHARS
    window = min(len(text) // _MIN_REPEATS + 1, _MAX_PERIOD)
    twin = text.rfind(text[probe:], max(0, probe - window), len(text) - 1)
    if twin < 0:
        return False
    period = probe - twin
    return _is_run(_count_same_behind(text, len(text) - period, len(text)) + period, period)


def _is_filled_with_runs(text: str) -> bool:
    """Return whether repeated blocks, searched for at evenly spaced places, fill the text."""
    allowed = min(_MAX_RUN_CHARS, int(_MAX_RUN_SHARE * len(text)))
    window = min(len(text) // _MIN_REPEATS + 1, _MAX_PERIOD)
    covered, reached = 0, 0
    for probe in range(0, len(text) - _PROBE_CHARS, max(1, len(text) // _PROBES)):
        if probe < reached:
            continue
        end = probe + _PROBE_CHARS
        twin = text.find(text[probe:end], probe + 1, end + window)
        if twin < 0:
            continue
        period = twin - probe
        first = probe - _count_same_behind(text, probe, twin)
        last = twin + _count_same_ahead(text, probe, twin)
        if _is_run(last - first, period):
            covered += last - max(first, reached)
            reached = last
        if covered >= allowed:
            return True
    return False


def _is_run(length: int, period: int) -> bool:
    # The last block of a text lacks the newline that ends the others.
    return length + 1 >= max(_MIN_RUN_CHARS, _MIN_REPEATS * period)


def _count_same_ahead(text: str, left: int, right: int) -> int:
    """Count the equal characters from two places onward."""
    same, size, growing = 0, 64, True
    while size:
        ahead = text[right + same : right + same + size]
        fits = len(ahead) == size and text[left + same : left + same + size] == ahead
        same += size if fits else 0
        growing = growing and fits
        size = size * 2 if growing else size // 2
    return same


def _count_same_behind(text: str, left: int, right: int) -> int:
    """Count the equal characters before two places, going back."""
    same, size, growing = 0, 64, True
    while size:
        start = left - same - size
        fits = start >= 0 and text[start : left - same] == text[right - same - size : right - same]
        same += size if fits else 0
        growing = growing and fits
        size = size * 2 if growing else size // 2
    return same
