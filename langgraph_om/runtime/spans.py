"""What was read of the windows that were looked at last, so that the next look need not read it.

Within a turn a window is opened several times for each call of the Actor's model, and the messages
are the same objects.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from langgraph_om.core.record.span import Span

MAX_SPANS = 16
"""How many are kept: those of the turns that are under way, as a rule."""


class Spans:
    """The newest spans, by the id of the record they belong to."""

    def __init__(self) -> None:
        self._spans: OrderedDict[str, Span] = OrderedDict()
        self._lock = Lock()

    def recall(self, record_id: str) -> Span | None:
        """Return what was read of a thread's window last."""
        return self._spans.get(record_id)

    def keep(self, record_id: str, span: Span) -> None:
        """Keep what was read of a thread's window, in the place of what was read before."""
        with self._lock:
            self._spans[record_id] = span
            self._spans.move_to_end(record_id)
            while len(self._spans) > MAX_SPANS:
                self._spans.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them, as after a deletion."""
        with self._lock:
            self._spans.clear()
