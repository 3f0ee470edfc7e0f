"""The parts of the custom stream: `{"type": "data-om-...", "data": {...}}`.

Clients in other languages find the same types in `docs/events.schema.json`. Fields are written from
these types (`core/events.py`), so a field that is not here is not sent.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Scope = Literal["thread", "resource"]
"""What the Actor is shown: its own thread, or what the user's other threads know as well."""

Trigger = Literal["threshold", "idle", "provider", "request"]
"""Why prepared work takes effect: a threshold was reached, the conversation goes on after a pause,
another provider answers, or it was requested."""

SteeringAction = Literal[
    "remember",
    "forget",
    "correct",
    "pin",
    "unpin",
    "pin-message",
    "unpin-message",
    "undo",
    "end",
]
"""What a person does to an item, or how the user ends a standing instruction."""

# --- Status --------------------------------------------------------------------------------------


class WindowSize(TypedDict):
    """How full a window is."""

    tokens: int
    threshold: int
    """The tokens at which work is due."""


class ActiveWindows(TypedDict):
    """Unobserved messages, and the log."""

    messages: WindowSize
    observations: WindowSize


class BufferedObservations(TypedDict):
    """Observations that are prepared."""

    chunks: int
    messageTokens: int
    """Of the messages that they cover."""
    projectedMessageRemoval: int
    """Tokens of the messages that an activation would remove from the window now."""
    observationTokens: int
    status: Literal["idle", "running", "complete"]


class ReflectionState(TypedDict):
    """The prepared reflection; zeros without one."""

    inputObservationTokens: int
    """What it read."""
    observationTokens: int
    """What it wrote."""
    status: Literal["idle", "running", "complete"]


class BufferedWindows(TypedDict):
    """What was prepared in the background."""

    observations: BufferedObservations
    reflection: ReflectionState


class Windows(TypedDict):
    """Both windows, and what is prepared for them."""

    active: ActiveWindows
    buffered: BufferedWindows


class ActorWindow(TypedDict):
    """The context window of one of the Actor's models."""

    tokens: int
    """The most that the model reads."""
    source: Literal["option", "profile", "refused"]
    """Where the size comes from: the option `max_input_tokens`, the model's profile, or its
    provider, when it rejected a prompt as too long."""


class ActorWindowData(ActorWindow):
    """The context window of the Actor's model, and what follows from it."""

    scaledFrom: NotRequired[int]
    """How large messages and observations could grow before limits were scaled down."""
    scaledTo: NotRequired[int]
    """How large they may grow now."""


class StatusData(TypedDict):
    """The state of memory before a call of the Actor's model."""

    windows: Windows
    recordId: str
    threadId: str
    stepNumber: int
    """Calls of the Actor's model since the newest human message, 0-based."""
    generationCount: int
    actorWindow: NotRequired[ActorWindowData]
    """Missing until the model's context window is known."""


class StatusPart(TypedDict):
    """The Actor's model is called next."""

    type: Literal["data-om-status"]
    data: StatusData


# --- Observation and reflection ------------------------------------------------------------------


class Limits(TypedDict):
    """The limits in force."""

    messageTokens: int
    observationTokens: int
    scope: Scope


class UsageData(TypedDict, total=False):
    """What model calls cost; empty if there were none."""

    calls: int
    inputTokens: int
    outputTokens: int


class FailedValue(TypedDict):
    """A value that could not be extracted."""

    name: str
    error: str


class CycleData(TypedDict):
    """An observation or a reflection."""

    cycleId: str
    """The same when a step is repeated after a crash."""
    operationType: Literal["observation", "reflection"]
    recordId: str
    threadId: str


class StartData(CycleData):
    """The start of a cycle."""

    startedAt: str
    threadIds: list[str]
    """The threads whose messages it reads."""
    config: Limits


class EndData(CycleData):
    """The end of a cycle."""

    durationMs: int
    usage: UsageData
    observations: NotRequired[str]
    """The text; after a failure, the readable part of a bad answer."""


class WrittenData(EndData):
    """What a cycle wrote."""

    completedAt: str
    leftOutTokens: NotRequired[int]
    """About how many tokens of a message were left out, as it was too long to be read whole."""
    edits: NotRequired[int]
    """For reflections only, like the next three: how many edits were applied."""
    dropped: NotRequired[int]
    joined: NotRequired[int]
    shortened: NotRequired[int]
    extractedValues: NotRequired[dict[str, Any]]
    extractionFailures: NotRequired[list[FailedValue]]


class FailedData(EndData):
    """A cycle that failed."""

    failedAt: str
    tokensAttempted: int
    error: str


class ObservationStartData(StartData):
    """A cycle that the turn waits for."""

    tokensToObserve: int


class ObservationStartPart(TypedDict):
    """A blocking observation or reflection begins."""

    type: Literal["data-om-observation-start"]
    data: ObservationStartData


class ObservationEndData(WrittenData):
    """The result of a cycle that the turn waited for."""

    tokensObserved: int
    observationTokens: int
    currentTask: NotRequired[str]
    suggestedResponse: NotRequired[str]


class ObservationEndPart(TypedDict):
    """A blocking observation or reflection is committed."""

    type: Literal["data-om-observation-end"]
    data: ObservationEndData


class ObservationFailedPart(TypedDict):
    """A blocking observation or reflection failed."""

    type: Literal["data-om-observation-failed"]
    data: FailedData


class BufferingStartData(StartData):
    """A background job."""

    tokensToBuffer: int


class BufferingStartPart(TypedDict):
    """A background job begins."""

    type: Literal["data-om-buffering-start"]
    data: BufferingStartData


class BufferingEndData(WrittenData):
    """The result of a background job."""

    tokensBuffered: int
    bufferedTokens: int


class BufferingEndPart(TypedDict):
    """A background job's result is kept."""

    type: Literal["data-om-buffering-end"]
    data: BufferingEndData


class BufferingFailedData(FailedData):
    """A background job that produced nothing."""

    discarded: NotRequired[bool]
    """True when the job was dropped on purpose."""
    reason: NotRequired[str]
    """Why it was dropped, in one word."""


class BufferingFailedPart(TypedDict):
    """A background job failed or was dropped."""

    type: Literal["data-om-buffering-failed"]
    data: BufferingFailedData


class ActivationData(CycleData):
    """Prepared work that takes effect."""

    activatedAt: str
    chunksActivated: int
    tokensActivated: int
    observationTokens: int
    messagesActivated: int
    generationCount: int
    observations: str
    config: Limits
    triggeredBy: Trigger
    lastActivityAt: NotRequired[str]
    """With `idle`: when the Actor answered last."""
    ttlExpiredMs: NotRequired[int]
    previousModel: NotRequired[str]
    """With `provider`: the previous model."""
    currentModel: NotRequired[str]


class ActivationPart(TypedDict):
    """Prepared work takes effect."""

    type: Literal["data-om-activation"]
    data: ActivationData


# --- Beside the cycles ---------------------------------------------------------------------------


class ExtractedData(TypedDict):
    """An extracted value."""

    cycleId: str
    threadId: str
    name: str
    value: NotRequired[Any]
    previous: NotRequired[Any]
    error: NotRequired[str]
    timestamp: str


class ExtractedPart(TypedDict):
    """An extracted value has changed or failed."""

    type: Literal["data-om-extracted"]
    data: ExtractedData


class HitData(TypedDict):
    """A message that a search found."""

    id: str
    threadId: str
    score: float
    """How well it matches, from 0 to 1."""


class RecalledData(TypedDict):
    """What a search with the user's message found."""

    messageId: str
    """Of the user's message."""
    hits: list[HitData]
    """The best first."""
    tokens: int
    """Of what is shown."""
    error: NotRequired[str]
    recordId: str
    threadId: str
    timestamp: str


class RecalledPart(TypedDict):
    """Earlier messages are shown with the user's message (`retrieval.inject`)."""

    type: Literal["data-om-recalled"]
    data: RecalledData


class SteeringData(TypedDict):
    """A change by a person."""

    id: str
    action: SteeringAction
    timestamp: str
    before: NotRequired[str]
    after: NotRequired[str]
    recordId: str
    threadId: str


class SteeringPart(TypedDict):
    """A person changed the log."""

    type: Literal["data-om-steering"]
    data: SteeringData


class StandingData(TypedDict):
    """A standing instruction."""

    cycleId: str
    threadId: str
    change: Literal["began", "ended", "no-room"]
    words: str
    by: NotRequired[str]
    """What the user said that ended it."""
    timestamp: str


class StandingPart(TypedDict):
    """A standing instruction begins, ends, or has no room."""

    type: Literal["data-om-standing"]
    data: StandingData


class ThreadUpdateData(TypedDict):
    """A thread's title."""

    cycleId: str
    threadId: str
    oldTitle: NotRequired[str]
    """The title that the stream was told of before."""
    newTitle: str
    timestamp: str


class ThreadUpdatePart(TypedDict):
    """The thread has a new title."""

    type: Literal["data-om-thread-update"]
    data: ThreadUpdateData


class ViewTrimmedData(TypedDict):
    """How much is left out of a prompt."""

    droppedMessages: int
    droppedTokens: int
    previewedMessages: int
    droppedObservations: int
    limit: int
    """In tokens."""
    recordId: str
    threadId: str


class ViewTrimmedPart(TypedDict):
    """Something is left out of this prompt."""

    type: Literal["data-om-view-trimmed"]
    data: ViewTrimmedData


class TripwireData(TypedDict):
    """Why a turn ended without an answer."""

    reason: NotRequired[str]
    operationType: NotRequired[Literal["observation", "reflection"]]
    recordId: str
    threadId: str
    timestamp: str


class TripwirePart(TypedDict):
    """`on_error="abort"` ended the turn."""

    type: Literal["data-om-tripwire"]
    data: TripwireData


Part = (
    StatusPart
    | ObservationStartPart
    | ObservationEndPart
    | ObservationFailedPart
    | BufferingStartPart
    | BufferingEndPart
    | BufferingFailedPart
    | ActivationPart
    | ExtractedPart
    | RecalledPart
    | SteeringPart
    | StandingPart
    | ThreadUpdatePart
    | ViewTrimmedPart
    | TripwirePart
)
"""A part of the stream; its `type` says which."""
