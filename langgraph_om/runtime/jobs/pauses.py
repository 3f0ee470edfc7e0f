"""Do something once a conversation has paused for a while, unless it goes on before."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from langgraph_om.archive.after_fork import begin_anew_after_fork

logger = logging.getLogger("langgraph_om")


class Pauses:
    """Timers of conversations, one for each, in a thread that keeps no process alive.

    The thread is there only while a conversation pauses. A process that ends, or forks, forgets
    its timers: what is unobserved then stays so until the conversation goes on.
    """

    def __init__(self) -> None:
        self.begin_anew()
        begin_anew_after_fork(self)

    def begin_anew(self) -> None:
        """Begin without timers."""
        self._changed = threading.Condition()
        self._due: dict[str, tuple[float, Callable[[], None]]] = {}
        self._is_served = False

    def begin(self, key: str, seconds: float, act: Callable[[], None]) -> None:
        """Act after so many seconds, instead of what was to be done for this conversation."""
        with self._changed:
            self._due[key] = (time.monotonic() + seconds, act)
            if not self._is_served:
                self._is_served = True
                threading.Thread(target=self._serve, name="om_pauses", daemon=True).start()
            self._changed.notify_all()

    def end(self, key: str) -> None:
        """Do nothing: the conversation goes on."""
        with self._changed:
            self._due.pop(key, None)
            self._changed.notify_all()

    def clear(self) -> None:
        """Do nothing for any conversation."""
        with self._changed:
            self._due.clear()
            self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._is_served = False
                    return
                key, (due, act) = min(self._due.items(), key=lambda item: item[1][0])
                left = due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                del self._due[key]
            try:
                act()
            except Exception:
                logger.exception("what is unobserved stays so until the conversation goes on")
