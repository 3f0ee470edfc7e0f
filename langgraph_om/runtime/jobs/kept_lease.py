"""A lease that a flow keeps while it is at work, however long a model takes to answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from langgraph_om.runtime.leases import RENEWALS

logger = logging.getLogger("langgraph_om")


@dataclass(eq=False)
class KeptLease:
    """A lease, and when it was renewed last; begun with when the flow got it."""

    renew: Callable[[], object]
    """Lets it last as long again, from then on."""
    seconds: float
    """How long it lasts unless it is renewed."""
    _renewed: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float:
        """Return how long it need not be renewed yet."""
        return max(0.0, self._renewed + self.seconds / RENEWALS - time.monotonic())

    def attend(self) -> None:
        """Renew the lease; when the archive fails, it is tried again when it is due next.

        One that another holds by now stays theirs: what came of the work is put into the log only
        where it still fits.
        """
        self._renewed = time.monotonic()
        try:
            self.renew()
        except Exception as error:  # noqa: BLE001 - no archive stops work, whatever it raises
            logger.debug("a lease was not renewed: %s", error)
