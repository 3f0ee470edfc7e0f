"""Tell of what a person did to the log, and to the title, since the last step."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from langgraph_om.core.config.settings import Settings, Setup
from langgraph_om.core.cycles.cycle import CycleInfo
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.titles import read_title_state
from langgraph_om.core.wire import Event, Group, MemoryRecord, SteeringNoted


class SteeringNotices(Feature):
    """Tells the stream of a person's acts, once."""

    name = "steering"

    @classmethod
    def build(cls, setup: Setup) -> Self:  # noqa: ARG003 a person may always act
        """Return the feature, which is always on."""
        return cls()

    def before_actor(self, step: Step) -> EffectFlow[None]:
        """Tell of the acts that nobody was told of."""
        step.events += _tell_of_acts(step.record)
        step.events += _tell_of_title(step.settings, step.record, step.now)
        yield from ()

    def is_due(self, step: Step) -> bool:
        """Tell whether there are such acts."""
        if read_title_state(step.record).get("is_new"):
            return True
        return any(act["is_new"] for act in step.record.get("steered", ()))


def _tell_of_acts(record: MemoryRecord) -> list[SteeringNoted]:
    """Tell of what a person did to the log since the last step."""

    def text_of(group: Group | None) -> str | None:
        return group["text"] if group is not None else None

    return [
        {
            "type": "steering",
            "id": act["id"],
            "action": act["action"],
            "at": act["at"],
            "before": text_of(act["before"]),
            "after": text_of(act["after"]),
            "record_id": record["id"],
            "thread_id": record["thread_id"],
        }
        for act in record.get("steered", ())
        if act["is_new"]
    ]


def _tell_of_title(settings: Settings, record: MemoryRecord, now: datetime) -> list[Event]:
    """Return the event that shows the title that a person has set since the last step."""
    state, title = read_title_state(record), record["thread_title"]
    if not state.get("is_new") or title is None:
        return []
    info = CycleInfo(settings, record, "observation", state["id"], 0, now)
    return [info.event("thread-update", now, old_title=state["before"], new_title=title)]
