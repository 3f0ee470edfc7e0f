"""Tell of what a person did to the log since the last step."""

from __future__ import annotations

from typing import Self

from langgraph_om.core.config.settings import Setup
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.step.step import Feature, Step
from langgraph_om.core.wire import Group, MemoryRecord, SteeringNoted


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
        yield from ()

    def is_due(self, step: Step) -> bool:
        """Tell whether there are such acts."""
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
