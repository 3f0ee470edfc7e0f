"""One step of memory: what is known of a conversation before a call of the Actor's model.

It is made once, where a step is entered, and handed on. What is worked out of it, the window and
the view, is worked out once and kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.prompt import make_view
from langgraph_om.core.actor.view import View
from langgraph_om.core.config.settings import NOTHING_IN_STATE, Identity, InState, Settings
from langgraph_om.core.config.thresholds import ActorWindows
from langgraph_om.core.content.message_keys import Keyed
from langgraph_om.core.plan import PROCEED, Decision
from langgraph_om.core.record.fold import fold_events
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.wire import Event, MemoryRecord

if TYPE_CHECKING:
    from langgraph_om.runtime.runner import RunScope


@dataclass(slots=True)
class Step:
    """A conversation and its memory, with what has been found in them so far."""

    settings: Settings
    record: MemoryRecord
    """The memory, complete, with the events below folded in."""
    messages: Sequence[BaseMessage]
    """The conversation without what has been removed from it."""
    identity: Identity
    now: datetime
    scope: RunScope | None = None
    """The run around the step; `None` for a look alone."""
    is_final: bool = False
    """Whether the Actor has answered and no call follows."""
    is_counted: bool = False
    """Whether another step has counted these messages, of which this is a look alone."""
    day: date | None = None
    """The day that the dates of the view are relative to; `None`: it is chosen."""
    in_state: InState = NOTHING_IN_STATE
    """What the Actor is shown that no record holds."""
    windows: ActorWindows = field(default_factory=dict)
    """How long a prompt the Actor's models read, as far as this process knows."""
    events: list[Event] = field(default_factory=list)
    """What to fold and to show; ends with the status when the Actor goes on."""
    decision: Decision = PROCEED
    removed: list[str] = field(default_factory=list)
    """Ids of the messages that leave the graph's state with this step."""
    overlooked: int = 0
    """How many messages were put among the observed ones, where they can be neither shown nor
    observed."""
    edited: Keyed = field(default_factory=list)
    """Observed messages that say something else now."""
    lost: Sequence[int] = ()
    """The tokens of each message that left the conversation before it was observed."""
    given: Sequence[BaseMessage] = field(init=False)
    """The conversation as it came, before anything was removed from it."""
    former: MemoryRecord = field(init=False)
    """The memory as the last step left it."""
    window: Window = field(init=False)
    """The unobserved messages, once `open` was called."""
    _view: View | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.former, self.given = self.record, self.messages

    def open(self) -> Window:
        """Open the window of the record as it is now."""
        self.window = open_window(
            self.record,
            self.messages,
            self.settings.counter,
            is_counted=self.is_counted,
            request=self.record["turn"]["request"] if self.is_counted else None,
        )
        self._view = None
        return self.window

    @property
    def view(self) -> View:
        """What the Actor is shown next."""
        if self._view is None:
            self._view = self.shorten(None)
        return self._view

    def shorten(self, most: int | None) -> View:
        """Return the view that keeps to so many tokens of a whole prompt, as far as that goes."""
        known = (self.settings, self.record, self.messages, self.window, self.now)
        return make_view(*known, day=self.day, in_state=self.in_state, most=most)

    def apply(self, events: Sequence[Event]) -> None:
        """Take in events: fold them in the memory, and keep them."""
        if events:  # a record that nothing happens to need not be made anew
            self.record = fold_events(self.record, events)
            self.events += events
            self._view = None

    def take_in(self, record: MemoryRecord, events: Sequence[Event]) -> None:
        """Take in events that are folded in a record already."""
        self.record = record
        self.events += events
        self._view = None

    def show_working(self, text: str) -> None:
        """Show a working memory, which no record holds."""
        self.in_state = replace(self.in_state, working=text)
        self._view = None

    def note(self, event: Event) -> None:
        """Take in an event that does not change what the Actor is shown."""
        self.record = fold_events(self.record, [event])
        self.events.append(event)

    def take_out(self, keys: Collection[str]) -> None:
        """Go on without messages that leave the conversation."""
        self.removed += keys
        self.messages = self.left

    @property
    def left(self) -> Sequence[BaseMessage]:
        """The conversation without what leaves it."""
        gone = set(self.removed)
        return [each for each in self.messages if each.id not in gone] if gone else self.messages

    @property
    def changed(self) -> set[str]:
        """Keys of the messages that are new, or of another content than before."""
        counted = (event["counts"] for event in self.events if event["type"] == "counted")
        return {key for counts in counted for key in counts}


@dataclass(frozen=True, slots=True)
class StateKey:
    """A key that a feature keeps in a graph's state."""

    type: Any
    reducer: Callable[[Any, Any], Any]
    is_input: bool = False
    """Whether an input may hold it."""
    is_private: bool = False
    """Whether it is left out of an agent's output."""
    is_shown: bool = False
    """Whether the node that calls the Actor's model sees it."""

    @property
    def channel(self) -> Any:
        """The type with its reducer, as a schema has it."""
        return Annotated[self.type, self.reducer]
