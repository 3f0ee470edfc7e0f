"""The stored and streamed forms: the record, events, and parts of the stream.

JSON values only, and types only: nothing here computes. The record changes by events alone
(`record/fold.py`), and what users see of an event is its part (`events.py`).

Everywhere: `at` and `*_at` are ISO times with a zone; `tokens` and `*_tokens` are counts of the
memory's own counter, but for `input_tokens` and `output_tokens`, the provider's; a message id is
LangChain's, or one derived where a message has none (`content/message_keys.py`).
"""

# Without `from __future__ import annotations`: at run time, the classes must know which of their
# keys are required. So what a type is made of stands above it.

from typing import Any, Final, Literal, NotRequired, Required

from typing_extensions import TypedDict

from langgraph_om.parts import (
    ActorWindow,
    Limits,
    Scope,
    StatusData,
    SteeringAction,
    Trigger,
)

Operation = str
"""A kind of work: `"observation"` of this thread, `"reflection"` of the log, or `OTHERS`."""

OTHERS: Final = "others"
"""Observation of what the user's other threads left, and condensing of what is known of them."""

Hints = dict[str, str | None]
"""What an observation states beside its items where features ask for it, by name; `None` for what
it did not state."""

TokenCount = list[Any]
"""A digest of a message's content, and its tokens."""

# --- The parts of a record -----------------------------------------------------------------------


class Keep(TypedDict):
    """Who keeps an item, and since when; its source is its group's."""

    by: Literal["user", "person"]
    """The user, in what they typed, or a person, by an act."""
    how: Literal["standing", "remembered", "corrected", "pinned", "message", "end"]
    """A standing instruction and a pinned message are shown apart from the log, an end of one not
    at all, others in it."""
    role: NotRequired[str]
    """Of a pinned message."""
    since: str


class Group(TypedDict):
    """One immutable entry of the observation log."""

    id: str
    """The cycle that wrote it; of a later day of the same observation, derived from it."""
    kind: Literal["observation", "reflection"]
    ranges: list[list[str]]
    """First and last message id of each covered run of messages, inclusive, in message order."""
    thread_id: str | None
    """Whose messages they are; `None` when a reflection joined those of several threads."""
    observed_at: str
    """When the model answered."""
    text: str
    """Dated items; empty when the messages held nothing worth noting."""
    tokens: int
    """Of the text."""
    sources: NotRequired[list[list[str]]]
    """Ranges of earlier groups of the thread, which cover them, from which items were joined into
    this one; of words observed again after an edit, the words."""
    keep: NotRequired[Keep]
    """Who keeps its one item, which no reflection changes; missing for all others."""
    ends: NotRequired[list[str]]
    """Ids of standing instructions of the user's other threads that the user ended in this one."""
    leftover: NotRequired["Leftover"]
    """Missing but where another thread of the user observed its messages."""


Found = dict[str, list[Any]]
"""What an observation found beside its items: by feature, its entries, JSON values."""


class Leftover(TypedDict):
    """What a thread needs to take over what another one observed of its messages."""

    last: str
    """The last of the messages."""
    digest: str
    """Of the messages' ids and contents."""
    hints: Hints
    found: Found


class Chunk(TypedDict):
    """An observation made ahead of need, kept until its activation puts it into the log."""

    id: str
    cycle_id: str
    """The same as `id`."""
    groups: list[Group]
    """What it becomes in the log, a group for each day; their messages are one run."""
    tokens: int
    """Of the groups."""
    message_count: int
    message_tokens: int
    digest: str
    """Of the messages' ids and contents; a chunk whose messages were changed is dropped."""
    hints: Hints
    created_at: str
    """When the model answered."""
    found: NotRequired[Found]


class BufferedReflection(TypedDict):
    """A reflection made ahead of need, kept until its activation replaces the groups it read."""

    cycle_id: str
    group_ids: list[str]
    """The groups that it changes."""
    groups: list[Group]
    """What takes their place."""
    input_tokens: int
    """Of the log that it read."""
    tokens: int
    """Of the log after it."""
    created_at: str
    """When the model answered."""
    together: list[list[str]]
    """The ids among `group_ids` that have to be changed together. Each group becomes the one of
    `groups` at its place, and those that are still the same are changed without the others."""


class Covers(TypedDict, total=False):
    """What a background job reads, by which its result is judged when it is there."""

    ids: list[str]
    """Observation: ids of the messages."""
    digest: str
    """Observation: digest of the messages' ids and contents."""
    group_ids: list[str]
    """Reflection: the groups."""
    thread_ids: list[str]
    """Observation of other threads: these."""
    turn: str | None
    """Work that a turn does once: the turn that began it, by its request."""


class PendingJob(TypedDict):
    """A background job that was started; how far it is, its executor knows."""

    cycle_id: str
    at: str
    """When it was started."""
    tokens: int
    """What it reads."""
    covers: Covers


class Backoff(TypedDict):
    """How often an operation failed, and what it waits for."""

    failures: int
    """Failures in a row."""
    at_tokens: int
    """How large it was then what the operation reads, such as the window or the log."""
    retry_at_tokens: int
    """How large it has to be for the next attempt; or smaller than `at_tokens`."""


class Attempt(Backoff):
    """Why an operation that is due waits: it failed, or left the log as large as it was."""

    cycle_id: NotRequired[str]
    """The cycle that failed last."""
    error: NotRequired[str | None]
    """Why; `None` where the work was let go, and none had failed before."""
    last_message: NotRequired[str | None]
    """The conversation's last message then; that turn does not wait in vain a second time."""
    still_large: NotRequired[int]
    """How often in a row a reflection left a log that is still due."""


class Usage(TypedDict, total=False):
    """What questions to models cost; empty where none was asked."""

    calls: int
    input_tokens: int
    output_tokens: int
    left_out_tokens: int
    """In the record: about how many tokens of the inside of enormous messages were not read."""


class TokenCache(TypedDict):
    """The token counts of the window's messages."""

    counter: str
    """Identity of the counter; with another one, all is counted again."""
    counts: dict[str, TokenCount]
    """By message id."""


class Turn(TypedDict):
    """How far the agent is."""

    request: str | None
    """Id of the newest human message."""
    step: int
    """Calls of the Actor's model since that message, 0-based; -1 before the first one."""
    waived: NotRequired[dict[Operation, str | None]]
    """Per operation the newest turn, by its request, that does it no more."""
    waited_ms: NotRequired[int]
    """How long the next call of the Actor's model has waited for cycles, in milliseconds."""


class Head(TypedDict):
    """What stood before the answers of the conversation when the Actor was last called."""

    after: str | None
    """The newest message when the head last changed; `None`: it never did. Reasoning that is bound
    to its prefix is valid behind this message alone."""
    seen: str | None
    """The newest message that the Actor was shown; `None` for none."""
    digest: str
    """Of all that stood before `seen` and itself, the agent's own prompt apart."""
    log: str
    """Digest of the log."""
    as_of: str
    """The day, in ISO form, that the relative dates of the view are relative to: on which the log
    last changed, or on which the conversation was resumed after a pause."""
    at: str
    """When the Actor was last called."""
    left_out: NotRequired[list[int]]
    """How many messages and observations its view left out then; missing where none ever did."""


class Trip(TypedDict):
    """Why a turn was ended without an answer."""

    operation: Operation
    reason: str
    last_message: str | None
    """The conversation's last message then; memory stays tripped until there is a newer one."""


class ObservedPart(TypedDict):
    """What stands before the window, by which messages that are put there later are noticed."""

    last: str
    """The key of the last message there."""
    index: int
    """Where that one stands among all messages."""
    count: int
    """How many messages of the conversation there are up to it."""
    strays: list[str]
    """Of these the keys of messages that were put there later and are not observed."""
    edited: NotRequired[list[str]]
    """Of these the keys of messages that were observed before, in other words."""
    overlooked: NotRequired[int]
    """How many more were put there among observed ones, and are read by nobody."""
    said: NotRequired[str]
    """Ten digits for each of the newest of them: six for its key, four for what it said then."""


# --- The parts of a record: what it keeps beside the log -----------------------------------------


class Extraction(TypedDict):
    """The answer about one value, as an observation finds it.

    With neither a patch nor an error nothing changes in it, and a former error is over.
    """

    name: str
    patch: NotRequired[Any]
    """The fields that change, or a text."""
    is_whole: NotRequired[bool]
    """Whether that is the whole value."""
    value: NotRequired[Any]
    """The value with it, as far as was known."""
    error: NotRequired[str]
    """Why it could not be told."""


class ExtractedValue(TypedDict):
    """A value by schema or instructions."""

    value: Any
    """The text or JSON object; `None` where nothing was found yet."""
    previous: Any
    """The one before."""
    cycle_id: str
    """The cycle that found it, or failed to."""
    at: str
    error: str | None
    """Why the last question about it found nothing."""


class StandingEntry(TypedDict):
    """An instruction that begins, ends, or has no room, as an observation finds it."""

    change: Literal["began", "ended", "no-room"]
    words: str
    """The user's."""
    group: NotRequired[str]
    """Id of the group that holds it; missing where there was no room."""
    by: NotRequired[str]
    """What the user said that ended it."""


class RecalledHit(TypedDict):
    """An earlier message that a search for the live request found."""

    id: str
    thread_id: str
    score: float
    """How well it matches, from 0 to 1."""


class RecalledBlock(TypedDict):
    """What was found for the live request, the same in each call of its turn."""

    request: str
    """Id of the live request; for the next one, memory searches again."""
    digest: str
    """Of the request's content."""
    text: str
    """What the Actor is shown; empty where nothing was found."""
    tokens: int
    """Of the text."""


class TitleState(TypedDict, total=False):
    """Where the thread's title comes from."""

    by: Literal["memory", "person"] | None
    """Who set it, but for the Observer; a person's is changed by nobody else."""
    cycle_id: str | None
    """Of the question for a title that is under way."""
    tries: int
    """How often a title was asked for."""
    id: str
    """Of the act of a person, or of the cycle, that set it last."""
    at: str
    """When it was set, but for what the Observer suggests."""
    told: str
    """What the stream was told of last."""
    usage: Usage
    """What asking for it has cost."""


class ItemPlace(TypedDict):
    """Where an item stood that was forgotten."""

    group: str
    """The id of its group."""
    rest: str
    """The id of what was left of that."""
    line: int
    """How many lines of what is left stand before it."""
    text: str
    """Its lines, with the heading that went with it."""


class SteeredItem(TypedDict):
    """What was done to an item, and how it is undone."""

    id: str
    """Of the act."""
    action: SteeringAction
    at: str
    """When."""
    before: Group | None
    """The item, alone in a group; `None` where there was none."""
    after: Group | None
    """The item as it was then; `None` where it was forgotten."""
    place: NotRequired[ItemPlace]
    """Where it stood, if it was forgotten and its group is there without it."""
    undone: bool
    is_new: bool
    """Whether no part of the stream has told of it yet."""
    by: NotRequired[str]
    """Of an instruction that the user ended: what they said."""


class Floor(TypedDict):
    """What a record had when its thread was deleted; nothing of it is archived again."""

    messages: list[str]
    """The newest messages that it knew then, in order, as some of them may be removed."""


# --- What the threads of a user know of each other -----------------------------------------------


class Excerpt(TypedDict):
    """The newest words of another thread, as the Actor is shown them."""

    thread_id: str
    text: str


class Others(TypedDict):
    """What the Actor is shown of the user's other threads, the same for a whole turn."""

    known: list[Group]
    """What is known from them, in the order in which it is shown."""
    recent: list[Excerpt]
    """What they said that is not observed, the newest last."""
    hidden: int
    """How many more have said something for which there is no room."""
    due: list[str]
    """The threads of which something is to be observed now."""
    due_tokens: int
    """Of the messages to observe and of the observations to condense; 0 where nothing is due."""


class UserAct(SteeredItem):
    """What a person did through the archive, to which no thread's own record belongs."""

    thread_id: str
    """Whose item it was; empty for one that was noted within no thread."""
    event: "Steered"
    """By which the thread does the same once it goes on."""


class UserLog(TypedDict):
    """What is condensed of a user's threads, and what was noted within none, in the archive."""

    version: int
    """Of the record's form."""
    generation: int
    """How often it was condensed."""
    log: list[Group]
    """Each about one thread, as its `thread_id` says, or about none."""
    of: dict[str, list[str]]
    """By thread, the groups of its log that this one holds, condensed. As soon as the thread's log
    lacks one of them, nothing here is believed of that thread."""
    rest: NotRequired[int]
    """The tokens of all that is known above which it is condensed again."""
    acts: NotRequired[list[UserAct]]
    """What persons did through the archive, oldest first."""


# --- The record ----------------------------------------------------------------------------------


class MemoryRecord(TypedDict, total=False):
    """All that is remembered of one thread; the value of the `om` channel."""

    version: int
    id: str
    """Derived from scope, thread, resource, and the nodes around the agent."""
    thread_id: str
    """Empty in a run without one."""
    resource_id: str | None
    scope: Scope
    timezone: NotRequired[str]
    """The user's, an IANA name or an offset; left out while it is the memory's."""
    generation: int
    """How many reflections have replaced the log."""
    log: Required[list[Group]]
    """The observations, oldest first."""
    cursor: list[str]
    """Ids of the newest observed messages, newest last."""
    observed: ObservedPart | None
    """What stands before the window; `None` if nothing is known to be there."""
    chunks: list[Chunk]
    """Oldest first, each covering the messages after the previous one's."""
    reflection: BufferedReflection | None
    pending: dict[Operation, PendingJob]
    stamps: dict[str, str]
    """First-seen ISO times of messages that carry no time themselves, by id; except for the newest,
    only of those that nothing else keeps."""
    token_cache: TokenCache
    turn: Turn
    head: Head
    """Missing before the Actor's first call."""
    windows: dict[str, ActorWindow]
    """The context windows of the Actor's models, by name (empty for one without a name);
    missing while unknown."""
    attempts: dict[Operation, Attempt]
    usage: dict[Operation, Usage]
    """Per operation, all costs so far."""
    tripwire: NotRequired[Trip | None]
    """`None` in normal operation."""
    current_task: str | None
    """What is being worked on; `None` until an observation states it."""
    suggested_response: str | None
    """The next message that the Observer suggests; `None` if it suggested none."""
    thread_title: str | None
    """`None` while the thread has no title."""
    title: NotRequired[TitleState]
    """Where `thread_title` comes from; missing where there never was one."""
    extracted: NotRequired[dict[str, ExtractedValue]]
    """Values by their names; missing before the first."""
    is_tasked: NotRequired[bool]
    """Whether the agent runs within a tool of another agent, which speaks in the user's place;
    missing where it does not."""
    steered: NotRequired[list[SteeredItem]]
    """What a person did to the log, oldest first; missing where nobody did anything."""
    pinned: NotRequired[list[Group]]
    """The messages that a person pinned, in their words, each with its message as its source."""
    recalled: NotRequired[RecalledBlock]
    """What was found for the live request; missing before the first search."""
    archived: NotRequired[str | None]
    """The last message that the archive has; missing or `None` without any."""
    branch: NotRequired[str]
    """The archive's name for the conversation as this record knows it, which no other branch
    changes; missing before something is archived."""
    deletion: NotRequired[int | None]
    """How often thread and resource had been deleted when the record last looked; 0 if missing,
    `None` where its owner has changed since."""
    prunings: NotRequired[int]
    """How often old messages of the thread had been pruned when the record last looked; 0 if
    missing."""
    floor: NotRequired[Floor]
    """Present only after a deletion that the record survived."""
    evicted: NotRequired[str | None]
    """The last message that was removed from the conversation because the archive has it."""
    evicted_tokens: NotRequired[int]
    """The tokens of all messages that were removed; 0 if missing."""
    others: NotRequired[Others]
    """Present only if the user's threads know of each other."""


# --- Events: what all of a cycle have ------------------------------------------------------------


class CycleEvent(TypedDict):
    """An event of a cycle."""

    cycle_id: str
    """Derived from what the cycle reads, so that a repeated step makes the same one."""
    at: str
    """When it happened: started, answered, failed."""
    record_id: str
    thread_id: str
    resource_id: str | None
    tokens: int
    """What the cycle reads: tokens of messages, or of the log for a reflection."""


class CycleStart(CycleEvent):
    """The start of a cycle."""

    operation: Operation
    thread_ids: list[str]
    """Whose messages it reads."""
    config: Limits


class CycleEnd(CycleEvent):
    """The end of a cycle, well or not."""

    duration_ms: int
    usage: Usage


class Written(TypedDict):
    """What a cycle wrote."""

    observation_tokens: int
    """Of what was written; after an activation or a reflection, of the whole log."""
    observations: str
    """The text; after a reflection by edits, of the whole log."""


class Observed(Written):
    """What an observation wrote."""

    left_out_tokens: NotRequired[int]
    """Only where a message was too long: about how many tokens of its inside no question showed."""


class Stated(TypedDict):
    """What a cycle stated beside what it wrote."""

    hints: Hints


class Moved(TypedDict):
    """How far the conversation is observed now; without effect where the cursor is elsewhere."""

    after: str | None
    """The newest message that was observed before; `None` for none."""
    cursor: list[str]
    """The newest observed messages, newest last."""
    before: NotRequired[str | None]
    """This and the next only of messages that were put before the cursor later: the group before
    which their observations belong; `None` where these are the newest."""
    strays: NotRequired[list[str]]
    """Ids of such messages that are still unobserved."""


class Replaced(TypedDict):
    """What a reflection did to the log; without effect where the groups are not there any more."""

    group_ids: list[str]
    """The groups that it read."""
    groups: list[Group]
    """What takes their place."""
    failures: NotRequired[int]
    """This and what follows only where the log is still due: 0, and see `Attempt`."""
    still_large: NotRequired[int]
    at_tokens: NotRequired[int]
    retry_at_tokens: NotRequired[int]


# --- Events: cycles that the turn waits for ------------------------------------------------------


class ObservationStart(CycleStart):
    """A cycle of any operation begins. Changes nothing."""

    type: Literal["observation-start"]


class ObservationEnd(CycleEnd, Observed, Stated, Moved):
    """The window's oldest messages are observed."""

    type: Literal["observation-end"]
    operation: Literal["observation"]
    groups: list[Group]
    """One for each day."""
    found: NotRequired[Found]


class Edited(TypedDict, total=False):
    """What the edits of a reflection did."""

    edits: int
    """How many were applied."""
    dropped: int
    """Items that went."""
    joined: int
    """Items that became part of a joined one."""
    shortened: int
    """Items that were said in fewer words."""


class ReflectionEnd(CycleEnd, Written, Replaced, Edited):
    """The log is condensed."""

    type: Literal["observation-end"]
    operation: Literal["reflection"]
    found: NotRequired[Found]


class ObservationFailed(CycleEnd, Backoff):
    """Nothing came of a cycle of any operation; its messages or groups stay as they are."""

    type: Literal["observation-failed"]
    operation: Operation
    error: str
    observations: str | None
    """What there is of an answer."""
    last_message: str | None
    """The conversation's last message."""


# --- Events: jobs that run ahead of need ---------------------------------------------------------


class BufferingStart(CycleStart):
    """A job of any operation is started: it is pending."""

    type: Literal["buffering-start"]
    covers: Covers


class ObservationBuffered(CycleEnd, Observed):
    """A job observed messages: a chunk more."""

    type: Literal["buffering-end"]
    operation: Literal["observation"]
    chunk: Chunk


class ReflectionBuffered(CycleEnd, Written, Edited):
    """A job condensed the log: there is a buffered reflection."""

    type: Literal["buffering-end"]
    operation: Literal["reflection"]
    reflection: BufferedReflection


class BufferingFailed(CycleEnd):
    """A job, or its result, is of no use: it failed, is lost, or does not fit any more."""

    type: Literal["buffering-failed"]
    operation: Operation
    error: str
    """Of work that was let go: one word for the case, a colon, and an explanation."""
    discarded: NotRequired[bool]
    """True where it was let go, which is no failure of the model; else missing."""
    reason: NotRequired[str]
    """Only with `discarded`: one word for the case, such as "stale", "lost" or "deferred"."""
    observations: NotRequired[str | None]
    """What there is of an answer."""
    failures: NotRequired[int]
    """This and what follows only where it counts as a failure; see `Backoff`."""
    at_tokens: NotRequired[int]
    retry_at_tokens: NotRequired[int]


class OthersEnd(CycleEnd, Observed):
    """Messages of other threads are observed."""

    type: Literal["observation-end"]
    operation: Literal["others"]
    found: NotRequired[Found]


class OthersBuffered(CycleEnd, Observed):
    """A job observed messages of other threads."""

    type: Literal["buffering-end"]
    operation: Literal["others"]
    found: NotRequired[Found]


JobResult = ObservationBuffered | ReflectionBuffered | OthersBuffered | BufferingFailed
"""The event with which a background job ends; its executor, and the archive, keep it."""


class JobRequest(TypedDict):
    """A background job as plain JSON, to be carried out by any process with the same settings."""

    version: int
    """Of this form."""
    cycle_id: str
    """The job's id; a second run of it has the same result."""
    key: str
    """Of jobs with the same key one runs at a time."""
    thread_id: str
    resource_id: str | None
    about: list[str]
    """Threads that its result covers."""
    operation: Operation
    count: int
    """Observation: how many of the oldest unobserved messages."""
    at: str
    """When it was decided."""
    actor: str
    """The name of the Actor's model, used by a memory that names none; empty if unknown."""
    record: "MemoryRecord"
    """The memory of the thread."""
    settings: dict[str, str]
    """A digest of each setting that affects the result."""
    messages: NotRequired[list[dict[str, Any]]]
    """The messages that it needs, as `langchain_core.messages.messages_to_dict` writes them."""
    message_ids: NotRequired[list[str]]
    """Instead, if other processes find them by id: their ids."""


class ColdCache(TypedDict, total=False):
    """Why the Actor's provider has nothing of the prompt in its cache: a pause, or a change."""

    last_activity_at: str
    """With the trigger `idle`: when the Actor answered last, as ISO 8601."""
    ttl_expired_ms: int
    """Milliseconds since the provider's cache has let the prompt go."""
    previous_model: str
    """With the trigger `provider`: the model before, as `provider/model`."""
    current_model: str


class Activated(CycleEvent, Written, ColdCache):
    """Buffered work becomes memory."""

    type: Literal["activation"]
    chunks: int
    """How many; of a reflection 1."""
    messages: int
    """How many messages they cover; of a reflection 0."""
    found: NotRequired[Found]
    generation: int
    """The one that holds then."""
    config: Limits
    triggered_by: Trigger


class ObservationActivated(Activated, Stated, Moved):
    """The oldest chunks become groups of the log."""

    operation: Literal["observation"]
    chunk_ids: list[str]
    groups: list[Group]


class ReflectionActivated(Activated, Replaced):
    """The buffered reflection replaces the groups it read."""

    operation: Literal["reflection"]


# --- Events: bookkeeping, never streamed ---------------------------------------------------------


class Opened(TypedDict):
    """The record is new, or of another thread, resource or scope than before."""

    type: Literal["opened"]
    id: str
    thread_id: str
    resource_id: str | None
    scope: Scope
    place: NotRequired[list[str]]
    """The nodes of other graphs within which the agent runs; only where there are any."""


class ZoneKnown(TypedDict):
    """The user's time zone is another than before."""

    type: Literal["zone-known"]
    timezone: str


class Counted(TypedDict):
    """Messages are new in the window, were changed, or left it."""

    type: Literal["counted"]
    counter: str
    """Identity of the counter."""
    counts: dict[str, TokenCount]
    """By id, of the messages that are new or changed."""
    stamps: dict[str, str]
    """By id, first-seen ISO times of messages that carry no time themselves."""
    gone: list[str]
    """Ids of those that left the window."""
    observed: NotRequired[ObservedPart | None]
    """Only where it is not as the record has it."""


class Archived(TypedDict):
    """The archive has the conversation up to this message."""

    type: Literal["archived"]
    last: str
    branch: str | None
    """The archive's name for the conversation up to there."""


class DeletionFound(TypedDict):
    """Thread, resource or old messages were deleted from the archive, or it counts them again."""

    type: Literal["deletion"]
    number: int
    """How often they were deleted so far."""
    floor: Floor | None
    """`None` where the record had nothing there that was deleted."""
    of_resource: bool
    """Whether all of the resource was deleted, at some time."""
    prunings: int
    """How often old messages of the thread were pruned so far."""
    gone: list[str]
    """The observations of which no message is left."""


class Evicted(TypedDict):
    """Messages are removed from the conversation, because they are observed and archived."""

    type: Literal["evicted"]
    last: str
    ids: list[str]
    tokens: int
    """Of the messages."""


class OthersDescribed(TypedDict):
    """What is known and unobserved in the user's other threads."""

    type: Literal["others"]
    others: Others


class TakenOver(Stated, Moved):
    """What another thread of the user observed of this one's messages becomes its own."""

    type: Literal["taken-over"]
    cycle_id: str
    at: str
    groups: list[Group]
    found: Found


class TitleAsked(TypedDict):
    """A title is asked for."""

    type: Literal["title-asked"]
    cycle_id: str
    at: str


class Stepped(TypedDict):
    """The Actor goes on."""

    type: Literal["stepped"]
    request: str | None
    step: int
    head: Head
    """Of the view that the Actor is given."""


class WindowsKnown(TypedDict):
    """How long a prompt the Actor's models read."""

    type: Literal["windows"]
    windows: dict[str, ActorWindow]
    """All that are known, by the models' names, empty for one without a name."""


class Tripped(CycleEvent, Trip):
    """A failure ends the turn without an answer."""

    type: Literal["tripped"]


class Waived(TypedDict):
    """A turn has done what it does of an operation, or leaves that to another thread."""

    type: Literal["waived"]
    operation: Operation
    turn: str | None
    """The turn's request."""


# --- Events: what a person does, and what is found beside the cycles -----------------------------


class Steered(TypedDict):
    """A person changes what is remembered."""

    type: Literal["steered"]
    id: str
    """Of the act; one that was folded already changes nothing."""
    action: SteeringAction
    at: str
    item: NotRequired[str | None]
    """An item's id, or words of it; a message's id; of `undo`, the id of an act. `None`: the newest
    one."""
    message: NotRequired[Group]
    """What is kept of a message that is pinned."""
    text: NotRequired[str]
    """Of a new item: its lines."""
    day: NotRequired[str]
    """Of a new item: its date heading."""
    tokens: NotRequired[int]
    """Of the new item, with its heading where it has one."""


class Titled(TypedDict):
    """What came of a question for a title, or what a person set."""

    type: Literal["titled"]
    by: Literal["memory", "person"]
    id: str
    """Of the question, or of the act; one that was folded already changes nothing."""
    title: str | None
    """`None` where nothing came of the question, or a person gives the title back to memory."""
    at: str
    error: NotRequired[str]
    usage: NotRequired[Usage]


class TitleChanged(CycleEvent):
    """The stream is told that the thread has a new title."""

    type: Literal["thread-update"]
    operation: Operation
    old_title: str | None
    new_title: str


class Recalled(RecalledBlock):
    """Memory searched for the live request, once in its turn."""

    type: Literal["recalled"]
    at: str
    hits: list[RecalledHit]
    """What is shown of what was found, the best first."""
    error: str | None
    """Why the search failed; `None` where it did not."""
    record_id: str
    thread_id: str


# --- Events: only streamed -----------------------------------------------------------------------


class StandingChanged(CycleEvent):
    """A standing instruction begins, ends, or has no room."""

    type: Literal["standing"]
    operation: Operation
    change: Literal["began", "ended", "no-room"]
    words: str
    by: NotRequired[str]
    """What the user said that ended it."""


class SteeringTold(TypedDict):
    """What a person did to the log."""

    type: Literal["steering"]
    id: str
    """Of the act."""
    action: SteeringAction
    at: str
    before: str | None
    """The item's lines, with their heading."""
    after: str | None
    record_id: str
    thread_id: str


class Extracted(CycleEvent):
    """A value by schema has changed, or could not be told."""

    type: Literal["extracted"]
    operation: Operation
    name: str
    value: NotRequired[Any]
    previous: NotRequired[Any]
    error: NotRequired[str]


class ViewTrimmed(TypedDict):
    """The Actor's view leaves something out, to keep to a limit or because it was refused."""

    type: Literal["view-trimmed"]
    dropped_messages: int
    dropped_tokens: int
    previewed_messages: int
    """Of which the beginning and the end are shown, beyond those that always are."""
    dropped_observations: int
    limit: int
    """In tokens."""
    record_id: str
    thread_id: str


class Tripwire(TypedDict):
    """Why there is no answer; also of a turn that repeats one that was ended."""

    type: Literal["tripwire"]
    operation: Operation | None
    at: str
    reason: str | None
    last_message: str | None
    record_id: str
    thread_id: str


class Status(TypedDict):
    """The Actor is next."""

    type: Literal["status"]
    data: StatusData


CycleStarted = ObservationStart | BufferingStart
"""A cycle begins."""

CycleEnded = ObservationEnd | ReflectionEnd | OthersEnd | ObservationFailed | JobResult
"""A cycle is over."""

Event = (
    CycleStarted
    | CycleEnded
    | ObservationActivated
    | ReflectionActivated
    | Opened
    | ZoneKnown
    | Counted
    | Stepped
    | WindowsKnown
    | Tripped
    | Waived
    | Archived
    | DeletionFound
    | Evicted
    | OthersDescribed
    | TakenOver
    | TitleAsked
    | Steered
    | Titled
    | TitleChanged
    | Recalled
    | StandingChanged
    | SteeringTold
    | Extracted
    | ViewTrimmed
    | Tripwire
    | Status
)
"""A memory event; `type` says which, and `operation` where several have the same one."""
