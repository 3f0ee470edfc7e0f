"""Do something once a conversation has paused for a while, unless it goes on before."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from langgraph_om.archive.protocol import begin_anew_after_fork

logger = logging.getLogger("langgraph_om")


@dataclass(frozen=True)
class _Pause:
    due: float
    """When it has lasted long enough, in seconds of this process's clock."""
    act: Callable[[], None]
    thread_id: str
    resource_id: str | None


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
        self._due: dict[str, _Pause] = {}
        self._is_served = False

    def begin(
        self,
        key: str,
        seconds: float,
        act: Callable[[], None],
        *,
        thread_id: str = "",
        resource_id: str | None = None,
    ) -> None:
        """Act after so many seconds, instead of what was to be done for this conversation."""
        with self._changed:
            due = time.monotonic() + seconds
            self._due[key] = _Pause(due, act, thread_id, resource_id)
            if not self._is_served:
                self._is_served = True
                threading.Thread(target=self._serve, name="om_pauses", daemon=True).start()
            self._changed.notify_all()

    def end(self, key: str) -> None:
        """Do nothing: the conversation goes on."""
        with self._changed:
            self._due.pop(key, None)
            self._changed.notify_all()

    def forget(self, *, thread_id: str | None = None, resource_id: str | None = None) -> None:
        """Do nothing for a thread, or for those of a resource: they are deleted."""
        with self._changed:
            self._due = {
                key: pause
                for key, pause in self._due.items()
                if pause.thread_id != thread_id
                and (resource_id is None or pause.resource_id != resource_id)
            }
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
                key, pause = min(self._due.items(), key=lambda item: item[1].due)
                left = pause.due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                del self._due[key]
            try:
                pause.act()
            except Exception:
                logger.exception("what is unobserved stays so until the conversation goes on")
