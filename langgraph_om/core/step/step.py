"""One step of memory: what is known of a conversation before a call of the Actor's model.

It is made once, where a step is entered, and handed on. What is worked out of it, the window and
the view, is worked out once and kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.prompt import Framing, make_view
from langgraph_om.core.actor.view import View
from langgraph_om.core.additions import Additions, Log, ShownValue
from langgraph_om.core.config.options import Role
from langgraph_om.core.config.settings import Identity, Settings, Setup
from langgraph_om.core.config.thresholds import ActorWindows
from langgraph_om.core.content.message_keys import Keyed
from langgraph_om.core.cycles.cycle import Cycle, CycleInfo, Mode
from langgraph_om.core.cycles.questions import AskedValue, ValueAnswer
from langgraph_om.core.effects import EffectFlow
from langgraph_om.core.observe.transcript import TimedMessage
from langgraph_om.core.page.html import Apart, Html
from langgraph_om.core.plan import PROCEED, Decision
from langgraph_om.core.record.fold import fold_events
from langgraph_om.core.record.span import Span
from langgraph_om.core.record.window import Window, open_window
from langgraph_om.core.reflect.edits import Division
from langgraph_om.core.wire import Chunk, Event, Found, Group, Hints, MemoryRecord, Operation

HintPlace = Literal["observer", "threads", "actor", "example", "first thread", "second thread"]
"""Where a prompt tells of hints: in the form of the Observer's answer, in the rules for an Observer
of several threads or for the Actor, and in examples of an answer, of which there are two where
threads are observed together."""


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
    before: Span | None = None
    """What an earlier look has read; it only saves time."""
    scope: Any = None
    """The run around the step, which features of the runtime ask; `None` for a look alone."""
    is_final: bool = False
    """Whether the Actor has answered and no call follows."""
    is_counted: bool = False
    """Whether another step has counted these messages, of which this is a look alone."""
    is_again: bool = False
    """Whether an inspection just before has counted them: what holds the same objects, holds the
    same."""
    day: date | None = None
    """The day that the dates of the view are relative to; `None`: it is chosen."""
    texts: dict[str, str] = field(default_factory=dict)
    """By feature, what it shows that no record holds."""
    windows: ActorWindows = field(default_factory=dict)
    """How long a prompt the Actor's models read, as far as this process knows."""
    events: list[Event] = field(default_factory=list)
    """What to fold and to show; ends with the status when the Actor goes on."""
    kept: dict[str, Any] = field(default_factory=dict)
    """By feature, what one of its hooks leaves to a later one."""
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

    def open(self, *, anew: bool = False) -> Window:
        """Open the window of the record as it is now.

        Args:
            anew: Whether what earlier looks have read does not hold any more.
        """
        self.window = open_window(
            self.record,
            self.messages,
            self.settings.counter,
            is_counted=self.is_counted or self.is_again,
            request=self.record["turn"]["request"] if self.is_counted else None,
            before=None if anew else self.before,
        )
        self._view, self.before = None, self.window.span
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
        return make_view(*known, day=self.day, texts=self.texts, most=most)

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

    def say(self, name: str, text: str) -> None:
        """Have a feature show a text that no record holds."""
        self.texts[name] = text
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


class Feature:
    """An optional behaviour of memory: a file of `features`, and a row of the table there.

    A subclass defines the hooks that it needs. Those that it does not define are never called, so
    they have no body here, and of a feature that is off none is. Hooks are called in the order of
    the table. Those of a step are flows, or plain functions where they ask for nothing.

    They stand in sections by the place that calls them. Many have one feature behind them: so the
    core knows none by name.

    Those of a step and of the Actor's input are not called either where there is nothing
    of what the feature `lives_by`.
    """

    is_base = True
    name = ""
    needs: ClassVar[tuple[str, ...]] = ()
    """Names of the features without which it is not there."""
    lives_by: ClassVar[str] = ""
    """A key of the record, an owner of groups in its log, or a name among the texts that no record
    holds: without it the feature has nothing to do. Empty where it always may have."""
    additions: ClassVar[Additions | None] = None
    """What it adds to records, events and the stream."""
    prompts: ClassVar[str] = ""
    """The package beside whose code its prompts lie; empty where it has none."""
    configs: ClassVar[Mapping[str, type]] = {}
    """The dataclasses of its options that are mappings, by the options' names."""
    removes_by = ""
    """The option that has it take messages out of a graph's state; empty where nothing does."""
    writing_tools: tuple[str, ...] = ()
    """Names of tools by which the Actor changes what the feature keeps."""
    has_last_step = False
    """Whether it has something to do after the Actor's answer; then a turn has one step more."""
    reads_on = False
    """Whether the Actor can read what its view leaves out."""
    operations: ClassVar[frozenset[str]] = frozenset()
    """Kinds of work that it brings, of those in its `additions`."""
    store_use: ClassVar[str] = ""
    """The archive's name for what it keeps in the graph's store; empty where it keeps nothing. What
    other processes have put there is deleted also where it is off: it takes no arguments then."""
    uses_store = True
    """Whether it keeps something there with its options as they are."""
    kept_in_store: ClassVar[str] = ""
    """What that is, for an error."""
    shows_other_threads = False
    """Whether the record of a thread may keep words of other threads of its resource."""

    # --- How it begins and ends -------------------------------------------------------------------

    @classmethod
    def build(cls, setup: Setup) -> Feature | None:
        """Read the options; `None` where they switch the feature off. Without options, it is on.

        Raises:
            ConfigurationError: When an option of it cannot be meant.
        """
        del setup
        return cls()

    def connect(self, runner: Any) -> Sequence[object]:
        """Take what the memory runs its steps with, once, when the memory is made.

        Returns:
            What flows of the feature call as storage.
        """

    def fit(self, room: int) -> Feature:
        """Return the feature for an Actor that has so many tokens for messages and observations."""

    def list_tools(self) -> Sequence[Any]:
        """Return tools to bind to the Actor's model; called once `connect` was."""

    @property
    def state_keys(self) -> Mapping[str, StateKey]:
        """Keys that the feature keeps in a graph's state."""

    @property
    def job_settings(self) -> Mapping[str, Any]:
        """What changes the result of a background job, by option: workers must have the same."""

    @property
    def role(self) -> Role:
        """A model that the feature asks."""

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until what the feature does beside the runs is done.

        Args:
            timeout: Seconds to wait at most; `None`: as long as it takes.

        Returns:
            Whether nothing is left.
        """

    def close(self) -> None:
        """Let go of all that is kept in this process."""

    # --- A step -----------------------------------------------------------------------------------

    def accept(self, scope: Any) -> None:
        """Take out of `scope.given` what the caller of a step hands in for the feature.

        Raises:
            ConfigurationError: When it cannot be meant.
        """

    def enter(self, step: Step) -> EffectFlow[None] | None:
        """Look at the conversation before anything of it is counted."""

    def collect(self, step: Step) -> EffectFlow[None] | None:
        """Take in what has happened elsewhere; new messages are counted by then."""

    def before_actor(self, step: Step) -> EffectFlow[None] | None:
        """Prepare what the Actor is shown; it is called next."""

    def after(self, step: Step) -> EffectFlow[None] | None:
        """Do what is left once the step is decided, such as work beside the run."""

    def read(self, step: Step) -> EffectFlow[None]:
        """Read what a run is shown in which nothing is inspected or written."""

    def before_tool(self, step: Step) -> EffectFlow[None]:
        """Bring up to date what a tool reads of the conversation, outside of an inspection."""

    def sync(self, record: MemoryRecord, log: Log) -> Sequence[Event]:
        """Return events that bring a thread up to date with the log that it shares."""

    # --- The Actor's input: the system message ----------------------------------------------------

    def instructions(self, record: MemoryRecord, *, has_memory: bool) -> str:
        """Return what the system message says of the feature, the same in each call.

        Args:
            has_memory: Whether the message shows something of the memory.
        """

    def memory_block(self, record: MemoryRecord) -> str:
        """Return what the system message says before the observations; empty for nothing."""

    def frame(self, settings: Settings, record: MemoryRecord, groups: Sequence[Group]) -> Framing:
        """Return what stands around the groups of a log that the Actor is shown."""

    def line_after(self, group: Group) -> str:
        """Return the line behind a group of observations, escaped; empty for none."""

    def excerpts(self, record: MemoryRecord) -> Mapping[str, str]:
        """Return, by the id of another thread, what the Actor is shown of it as it was said."""

    def set_apart(self, settings: Settings, record: MemoryRecord) -> Apart | None:
        """Return the items of the log that it shows apart from it; `None` for none."""

    # --- The Actor's input: the messages ----------------------------------------------------------

    def lines_before(
        self, settings: Settings, record: MemoryRecord, window: Window
    ) -> Mapping[str, str]:
        """Return, by the key of a message of the window, a line that is shown before it.

        A message has the same line in each call.
        """

    def aside(
        self, settings: Settings, record: MemoryRecord, window: Window, texts: Any
    ) -> BaseMessage | None:
        """Return what is shown before the live request; `None` for nothing."""

    @property
    def view_rule(self) -> str:
        """What tells how `shorten` works from other ways: with it the counts of messages change.

        Empty where it changes nothing.
        """

    def shorten(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return what stands for a message in the Actor's view, by the message alone."""

    def cut(self, message: BaseMessage, key: str, tokens: int) -> BaseMessage:
        """Return what stands for a message of more tokens in a view that has to be shorter."""

    # --- The Observer's question, and its answer --------------------------------------------------

    def describe_marks(self, held: str) -> str:
        """Return the lines that tell the Observer of a mark for items, beside those of the core.

        Args:
            held: Earlier notes that are always shown, by `list_held`.
        """

    def list_held(self, groups: Sequence[Group]) -> str:
        """Return earlier notes that the Observer is always shown, whatever room it has."""

    def select_in_force(self, groups: Sequence[Group], ahead: Sequence[Found]) -> Sequence[Group]:
        """Return groups of the log without those of which buffered observations note the end.

        Args:
            ahead: What was found with each buffered observation.
        """

    def find_breaks(
        self, settings: Settings, messages: Sequence[TimedMessage]
    ) -> Sequence[TimedMessage]:
        """Return what the Observer is shown, with the line before each message that follows one.

        A break stands in `before` of the message behind it.
        """

    def values(self, info: CycleInfo, chunks: Sequence[Chunk]) -> Sequence[AskedValue]:
        """Return the values to ask for, beside an observation or after a reflection.

        Args:
            info: The cycle, which observes the own thread or others, or reflects.
            chunks: Observations ahead of these messages that are not activated yet.
        """

    def sort_notes(
        self,
        info: CycleInfo,
        groups: Sequence[Group],
        known: Sequence[Group],
        said: Sequence[str],
    ) -> tuple[list[Group], list[Any]]:
        """Take items out of what was observed, each in a group of its own.

        Args:
            groups: What was observed, a group for each day.
            known: The groups that the Observer was given as known.
            said: The words of the user that it was shown, message by message.

        Returns:
            The groups, and entries of `found` about them.
        """

    def write_entries(
        self, info: CycleInfo, answers: Sequence[ValueAnswer]
    ) -> EffectFlow[list[Any]]:
        """Return answers about the values as entries, JSON values, of `found` in an event.

        They reach the reducer beside the moment `observed` when the observation takes effect.
        """

    def announce(self, info: CycleInfo, at: datetime, entries: Sequence[Any]) -> list[Event]:
        """Return events that tell users of entries that have taken effect."""

    # --- Hints ------------------------------------------------------------------------------------

    @property
    def hints(self) -> Sequence[str]:
        """Names of the hints that the Observer is asked for, of those in its `additions`."""

    def tell_hints(self, place: HintPlace) -> str:
        """Return what a prompt says of its hints in a place; empty for nothing."""

    def announce_hints(self, info: CycleInfo, at: datetime, hints: Hints) -> list[Event]:
        """Return events that tell users of hints that an observation states.

        It may wait in a chunk, and be told of once more when it takes effect.
        """

    def announce_of_other(
        self,
        info: CycleInfo,
        at: datetime,
        hints: Hints,
        *,
        label: str | None,
        fixed: Collection[str],
    ) -> list[Event]:
        """Return events that tell users of hints of another thread.

        Args:
            info: The cycle, with the record of that thread.
            label: What lists call the thread; `None` for nothing.
            fixed: Names of hints of it that a person set.
        """

    # --- An operation of its own, and a log of several threads ------------------------------------

    def find_due(self, record: MemoryRecord, window: Window) -> str | None:
        """Return the name of one of its operations that is due; `None` for none."""

    def work(
        self, settings: Settings, record: MemoryRecord, window: Window, now: datetime
    ) -> EffectFlow[None]:
        """Do what is due of its operation while the turn waits; the events change memory."""

    def begin(
        self,
        settings: Settings,
        record: MemoryRecord,
        window: Window,
        now: datetime,
        *,
        cycle_id: str | None = None,
    ) -> EffectFlow[Cycle | None]:
        """Describe the cycle that does so ahead of need; `None` when nothing is left to do.

        With a `cycle_id` it is one that was asked for, and is done with how things are by now.
        """

    def claim(
        self,
        settings: Settings,
        record: MemoryRecord,
        window: Window,
        operation: Operation,
        mode: Mode,
    ) -> EffectFlow[bool]:
        """Ask to be the one that does an operation; not where somebody else does it."""

    def release(self, record: MemoryRecord, operation: Operation) -> EffectFlow[None]:
        """Let go of what was claimed, of which nothing has come."""

    def divide(self, settings: Settings) -> Division:
        """Return how the Reflector is shown a log that is about several threads."""

    def read_history(
        self, archive: Any, resource_id: str, limit: int, until: datetime | None = None
    ) -> list[MemoryRecord]:
        """Return the last record of each generation of what an archive keeps for a resource.

        Raises:
            ArchiveError: When the storage fails.
        """

    def restore(
        self, archive: Any, resource_id: str, generation: int, now: datetime
    ) -> MemoryRecord:
        """Put an earlier one of these in force again, as a new one.

        Raises:
            ConfigurationError: When there is no such generation.
            ArchiveError: When the storage fails.
        """

    # --- What it keeps outside of the graph's state -----------------------------------------------

    @property
    def storage(self) -> Any:
        """The `SQLAlchemyArchive` where it keeps conversations outside of the graph's state.

        Tools read from it, and executors know the jobs of other processes by it.
        """

    def identify(self, who: Identity) -> Identity:
        """Return whose conversation a run is about, under the name that the feature knows."""

    def kept_until(self, record: MemoryRecord) -> str | None:
        """Return the key of the last message that it keeps outside of the state, with its time.

        `None` where it has none yet.
        """

    def name_messages(
        self, record: MemoryRecord, messages: Sequence[BaseMessage]
    ) -> list[str] | None:
        """Return keys by which other processes find messages; `None` where they cannot."""

    def find_messages(
        self, record: MemoryRecord, thread_id: str, keys: Sequence[str]
    ) -> EffectFlow[Sequence[BaseMessage]]:
        """Return the messages of a thread that `name_messages` named, perhaps elsewhere.

        Raises:
            ArchiveError: When the storage fails.
        """

    def is_gone(self, record: MemoryRecord) -> EffectFlow[bool]:
        """Tell whether the thread was deleted since the record last looked.

        Raises:
            ArchiveError: When the storage fails.
        """

    def erase_thread(
        self, thread_id: str, resource_id: str | None, clock: Callable[[], datetime]
    ) -> str | None:
        """Erase what it keeps of a thread in its storage; return the resource that it belonged to.

        Args:
            resource_id: Whose it is, where the feature does not know.

        Raises:
            ArchiveError: When the storage fails.
        """

    def erase_resource(self, resource_id: str) -> None:
        """Erase what it keeps of a resource and its threads in its storage.

        Raises:
            ArchiveError: When the storage fails.
        """

    def forget(self, thread_ids: Collection[str], resource_id: str | None = None) -> None:
        """Let go of what is kept in this process of threads, or a resource, that are deleted."""

    def delete_thread(self, thread_id: str, resource_id: str | None, store: Any) -> None:
        """Delete what is kept of a thread in the graph's store.

        Args:
            resource_id: Whose it is; `None` where nobody knows: anybody's.
        """

    def delete_resource(self, resource_id: str, thread_ids: Sequence[str], store: Any) -> None:
        """Delete what is kept of a resource in the graph's store.

        Args:
            thread_ids: Its threads, which may have begun before it was known whose they are.
        """

    def move_thread(
        self, thread_id: str, resource_id: str | None, to_resource_id: str, store: Any
    ) -> None:
        """Give what is kept of a thread in the graph's store to another resource.

        Args:
            resource_id: Whose it was; `None` for nobody's.
            to_resource_id: Whose it is already.
        """

    # --- What people see of it --------------------------------------------------------------------

    def section(self, record: MemoryRecord) -> Html | None:
        """Return what the page of a memory says of it; `None` for nothing."""

    def show_from_state(self, settings: Settings, state: Any) -> Iterable[ShownValue]:
        """Return what of a graph's state the page of a memory shows."""

    def read_text(self, state: Any) -> str:
        """Return what the feature shows that a graph's state holds; empty for nothing."""

    def find_left(self, record: MemoryRecord, act: str) -> Sequence[str]:
        """Return the ids of the groups of the log that hold what an act of this id left."""
