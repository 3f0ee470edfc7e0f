"""Options as mappings, for editors and type checkers: what each key takes and means.

The classes in `options` have the same settings, with their defaults and rules; a test holds that
they say the same of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import Hint, Tokens

Scope = Literal["thread", "resource"]
PromptVariant = Literal["default", "condensed"]
ReflectionForm = Literal["edits", "rewrite"]


class ModelSettings(TypedDict, total=False):
    """What may be sent with each call of a model, the option `model_settings`."""

    temperature: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
        Hint("a number, 0 or more, or None to send nothing"),
    ]
    """How freely the model chooses its words."""
    max_output_tokens: Annotated[
        Tokens | None, Hint("a whole number of tokens, 1 or more, or None to send nothing")
    ]
    """The longest answer, in tokens; no more is sent than the model is known to take."""
    thinking_budget: Annotated[
        Annotated[int, Field(ge=-1)] | None,
        Hint(
            "a whole number of tokens, 0 for no thinking or -1 for as much as the model likes, or "
            "None to send nothing"
        ),
    ]
    """Tokens that a model of Gemini 2.5 may think: 0 for none, -1 for as many as it likes."""
    extra: Annotated[
        Mapping[str, Any] | None,
        Hint("a mapping of keyword arguments for the model's client, or None to send nothing"),
    ]
    """Keyword arguments for the model's client, sent as they are."""


class ObservationOptions(TypedDict, total=False):
    """The option `observation` as a mapping; `ObservationConfig` says what its keys mean."""

    model: Any
    """The Observer's model; not together with the top-level `model`."""
    instruction: str | None
    """Added at the end of the Observer's system prompt."""
    thread_title: bool
    """Whether the Observer also suggests a title for the thread."""
    message_tokens: int
    """Tokens of unobserved messages at which they are observed."""
    max_tokens_per_batch: int
    """Tokens of one batch when several threads are observed at once (resource scope)."""
    model_settings: Mapping[str, Any]
    """Sent with each call, where the model takes it: `temperature`, `max_output_tokens`,
    `thinking_budget` (Gemini 2.5) and `extra`, a mapping for the model's client. What is left out
    has its default, and `None` is not sent; a chat model object gets only what is written here."""
    buffer_tokens: float | Literal[False]
    """Interval of background observation: tokens, or a fraction of `message_tokens`; `False`:
    off."""
    buffer_activation: float
    """How much an activation removes (a ratio), or how many tokens it keeps (1000 or more)."""
    block_after: float | None
    """Where waiting for the Observer begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""
    previous_observer_tokens: int | Literal[False] | None
    """Tokens of earlier observations that the Observer is shown; 0: none, `False`: all, `None`: 7 %
    of `message_tokens`, and 2000 at most."""
    buffer_on_idle: float | None
    """Seconds after the Actor's answer after which what is unobserved is observed ahead of need,
    however little, unless the conversation goes on before; `None`: never. Needs background
    buffering, and the process that gave the answer to be there still."""
    activate_after_idle: float | Literal["auto"] | None
    """Seconds of a pause after which the next turn begins with all that was made ahead of need,
    since the provider's cache is cold anyway; `"auto"`: `cache_seconds`, `None`: only at the
    threshold."""
    activate_on_provider_change: bool
    """Whether the same is done once another provider answers, whose cache is empty."""
    keep_turns: int
    """How many of the newest user turns stay verbatim, however many tokens they have."""
    extract: Mapping[str, Any] | None
    """Values by schema, which a second question takes out of what is observed."""
    observe_reasoning: bool
    """Whether the Observer is shown the reasoning of answers, which the user does not see."""
    observe_attachments: bool | Literal["auto"] | Sequence[str]
    """Whether the Observer is shown what is attached to messages: all of it, none, what matches
    MIME patterns such as `["image/*", "application/pdf"]`, or (`"auto"`) what its model takes."""
    prompt: PromptVariant
    """Which of the Observer's prompts is used; left out, a `token_budget` with a small window
    chooses `"condensed"`."""


class ReflectionOptions(TypedDict, total=False):
    """The option `reflection` as a mapping; `ReflectionConfig` says what its keys mean."""

    model: Any
    """The Reflector's model; not together with the top-level `model`."""
    instruction: str | None
    """Added at the end of the Reflector's system prompt."""
    observation_tokens: int
    """Tokens of the observation log at which it is reflected."""
    model_settings: Mapping[str, Any]
    """Sent with each call, where the model takes it; see `ObservationConfig`."""
    buffer_activation: float
    """The fraction of `observation_tokens` at which a background reflection starts."""
    block_after: float | None
    """Where waiting for the Reflector begins: a multiplier in (1, 2), or tokens. `None`: 1.2."""
    form: ReflectionForm
    """Whether the Reflector edits single items of the log and the rest stays as it is, or writes
    the log anew (`"rewrite"`, for models that cannot do edits)."""


class InjectOptions(TypedDict, total=False):
    """The option `retrieval.inject` as a mapping; `InjectConfig` says what its keys mean."""

    top_k: int
    """How many messages at most."""
    message_range: int
    """How many messages before and after each of them are shown with it."""
    min_score: float | None
    """How well a message has to match; `None`: whatever is found."""


class RetrievalOptions(TypedDict, total=False):
    """The option `retrieval` as a mapping; `RetrievalConfig` says what its keys mean."""

    vector: bool
    """Whether search is by meaning too, in the graph's store, beside the search by words."""
    scope: Scope
    """Whether the tool reaches other threads of the resource, or only its own thread. Left out, and
    without an archive, it is its own thread."""
    instructions: str | None
    """Added to the guidance the Actor gets about recall."""
    inject: bool | InjectOptions
    """Whether each new message of the user is searched for, and what is found shown before it: a
    flag, or a mapping with `top_k`, `message_range` and `min_score`, see `InjectConfig`."""


class ThreadTitleOptions(TypedDict, total=False):
    """The option `thread_title` as a mapping."""

    model: Any
    """What is asked for a title; `None`: the Observer's model."""
    instructions: str | Callable[..., Any] | None
    """Added to the question for a title."""
