"""The optional behaviours of memory, one file each; core and runtime know none of them by name."""

from __future__ import annotations

from langgraph_om.core.actor.preview import PreviewRule
from langgraph_om.core.config.settings import Features
from langgraph_om.features.archive import Archiving
from langgraph_om.features.inject import Injecting
from langgraph_om.features.pauses import PauseWork
from langgraph_om.features.previews import Previews
from langgraph_om.features.shared_log import SharedLogs
from langgraph_om.features.steering import SteeringNotices
from langgraph_om.features.titles import Titles
from langgraph_om.features.working_memory import KnownOfUser
from langgraph_om.features.working_text import WorkingText


def choose_features(
    *,
    archives: bool = False,
    shares: bool = False,
    pause_seconds: float | None = None,
    knows: bool = False,
    injects: bool = False,
    titles: bool = False,
    previews: PreviewRule | None = None,
) -> Features:
    """Return the features that are on, in the order in which they take part in a step.

    Args:
        archives: Whether there is an archive.
        shares: Whether the threads of a resource share one log.
        pause_seconds: After how long a pause observes; `None`: it does not.
        knows: Whether there is a working memory.
        injects: Whether earlier messages are shown for those of the user.
        titles: Whether threads are given titles.
        previews: What is too long to be shown whole; `None`: nothing is.
    """
    rows = (
        PauseWork(pause_seconds) if pause_seconds is not None else None,
        Titles() if titles else None,
        Archiving() if archives else None,
        SharedLogs() if shares else None,
        KnownOfUser() if knows else None,
        WorkingText(),
        Previews(previews) if previews is not None else None,
        Injecting() if injects else None,
        SteeringNotices(),
    )
    return Features(tuple(row for row in rows if row is not None))
