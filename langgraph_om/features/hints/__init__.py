"""Continuation hints: the current task and a suggested response, stated with each observation.

The Actor is shown them behind the observations, so that it goes on where the messages that are no
longer shown left off. So is the Reflector: what they rest on has to stay in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Self, cast

from typing_extensions import TypedDict

from langgraph_om.core.additions import Additions, Advice
from langgraph_om.core.config.options import Hint, Preset
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.observe.answer_tags import tag_of
from langgraph_om.core.prompts import load
from langgraph_om.core.step.step import Feature, HintPlace
from langgraph_om.core.wire import MemoryRecord

TASK: Final = "current_task"
RESPONSE: Final = "suggested_response"
_STALE: Final = timedelta(days=7)

_PROMPTS: Final[Mapping[HintPlace, str]] = {
    "observer": "observer_hints",
    "reflector": "observer_hints",
    "threads": "observer_threads_hints",
    "actor": "actor_hints",
    "example": "observer_hints_example",
    "first thread": "observer_threads_hints_first",
    "second thread": "observer_threads_hints_second",
}


class HintOptions(TypedDict, total=False):
    """The option of continuation hints."""

    continuation_hints: Annotated[bool, Hint("True or False"), Preset(value=True)]
    """Whether the Observer states a current task and suggests a reply, and the Actor is shown
    them."""


class HintKeys(TypedDict, total=False):
    """The hints in a record; `None` while none was stated."""

    current_task: str | None
    suggested_response: str | None


def _take_over(record: MemoryRecord, event: Mapping[str, Any]) -> None:
    """Take over the hints that an event has; the others stay."""
    stated = event.get("hints", {})
    new = {name: stated[name] for name in (TASK, RESPONSE) if stated.get(name) is not None}
    cast("dict[str, Any]", record).update(new)


def _forget(record: MemoryRecord, _: Any) -> None:
    """Drop the hints with what a shared log had of the thread."""
    if record["scope"] == "resource":
        cast("dict[str, Any]", record).update(dict.fromkeys((TASK, RESPONSE)))


def list_advice(record: MemoryRecord, now: datetime) -> Iterator[Advice]:
    """Yield what to do about a task that nobody has worked on for a week."""
    task = cast("HintKeys", record).get(TASK)
    times = [datetime.fromisoformat(g["observed_at"]) for g in record["log"] if g["observed_at"]]
    if not task or not times:
        return
    age = now - max(times)
    if age > _STALE:
        yield Advice(
            "stale-hint",
            f"the current task is {age.days} days old, and the agent is shown it at every call: "
            f'{task!r}. If it is done: graph.update_state(config, {{"om": {{"current_task": '
            f"None}}}}), or continuation_hints=False for none at all",
        )


class ContinuationHints(Feature):
    """Has the Observer state both hints, and the Actor shown them."""

    name = "hints"
    prompts = __name__
    additions = Additions(
        keys=HintKeys,
        blank={TASK: None, RESPONSE: None},
        hints={TASK: str, RESPONSE: str},
        closing={TASK: "currentTask", RESPONSE: "suggestedResponse"},
        tags=(tag_of(TASK), tag_of(RESPONSE)),
        beside={
            "observed": _take_over,
            "reflected": _take_over,
            "synced": _take_over,
            "deleted": _forget,
        },
        advice=list_advice,
    )
    restated: ClassVar[tuple[str, ...]] = (TASK,)
    hints: ClassVar[Sequence[str]] = (TASK, RESPONSE)
    job_settings: ClassVar[Mapping[str, Any]] = {"continuation_hints": True}

    @classmethod
    def build(cls, setup: Setup) -> Self | None:
        """Read the option `continuation_hints`."""
        return cls() if setup.options["continuation_hints"] else None

    def tell_hints(self, place: HintPlace) -> str:
        """Return what is said of the hints in each place."""
        return load(_PROMPTS[place])
