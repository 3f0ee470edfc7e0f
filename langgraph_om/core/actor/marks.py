"""Leave out of the Actor's view the marks that tell it little, which are in most lines of a log."""

from __future__ import annotations

import re

from langgraph_om.core.actor.relative_dates import track_fence

_LOW_MARK = re.compile(r"(\s*[*+-] )(?:🟡|🟢)\ufe0f? ?")


def hide_low_marks(text: str) -> str:
    """Return a stretch of a log without 🟡 and 🟢; what is in a code fence stays as it is."""
    if "🟡" not in text and "🟢" not in text:
        return text
    lines: list[str] = []
    fence = 0
    for line in text.split("\n"):
        is_code = fence > 0
        fence = track_fence(line, fence)
        mark = None if is_code or fence else _LOW_MARK.match(line)
        lines.append(f"{mark[1]}{line[mark.end() :]}" if mark else line)
    return "\n".join(lines)
