"""Show the Actor the beginning and the end of what is enormous, and the call that reads the rest.

In the view, never in the state: the Observer and `recall` have the message itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Self

from langchain_core.messages import BaseMessage
from pydantic import AfterValidator
from typing_extensions import TypedDict

from langgraph_om.core.config.checks import Hint, Preset, Takes, Tokens
from langgraph_om.core.config.settings import Setup
from langgraph_om.core.step.step import Feature
from langgraph_om.features.previews.preview import (
    LEAST_PREVIEWED,
    NEVER,
    PreviewRule,
    preview_message,
)

_TEXTS: Final = 2.5
"""Times as much as of tools is shown of other texts, as by default, where a view must be shorter.
"""


def _check_previews(tokens: int | tuple[int, int] | None) -> int | tuple[int, int] | None:
    given = () if tokens is None else (tokens,) if isinstance(tokens, int) else tokens
    if any(each < LEAST_PREVIEWED for each in given):
        raise ValueError
    return tokens


class PreviewOptions(TypedDict, total=False):
    """The option of previews."""

    preview_tokens: Annotated[
        int | tuple[int, int] | None,
        Takes(Tokens | tuple[Tokens, Tokens] | None),
        AfterValidator(_check_previews),
        Hint("tokens, 100 or more, two such numbers (tools, other texts), or None"),
        Preset((20_000, 50_000)),
    ]
    """Tokens above which a message is shown to the Actor as its beginning, its end and the call of
    `recall` that reads the rest, so with `retrieval` alone: one number, or one for results and
    arguments of tools and one for what a user or the Actor wrote. The Observer has the message
    itself. `None`: all messages are shown whole."""


class Previews(Feature):
    """Puts a preview in the place of each enormous message.

    Args:
        rule: What counts as enormous.
        is_on: Whether messages are cut before a prompt was refused as too long.
    """

    name = "previews"
    prompts = __package__

    def __init__(self, rule: PreviewRule, *, is_on: bool = True) -> None:
        self._rule, self._is_on = rule, is_on

    @classmethod
    def build(cls, setup: Setup) -> Self:
        """Read the option `preview_tokens`; without recall nothing is cut until it has to be."""
        tokens = setup.options["preview_tokens"]
        reads_on = any(feature.reads_on for feature in setup.built)
        tools = texts = NEVER
        if tokens is not None and reads_on:
            tools, texts = (tokens, tokens) if isinstance(tokens, int) else tokens
        rule = PreviewRule(tools, texts, setup.counter.count_text, reads_on=reads_on)
        return cls(rule, is_on=tokens is not None)

    @property
    def view_rule(self) -> str:
        """What tells these previews from others, so that tokens are counted anew."""
        return self._rule.name

    def fit(self, room: int) -> Previews:
        """Return the previews for an Actor that has so many tokens of room."""
        return Previews(self._rule.fit(room)) if self._is_on else self

    def shorten(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return the preview of an enormous message; any other message itself."""
        return preview_message(message, key, self._rule)

    def cut(self, message: BaseMessage, key: str, tokens: int) -> BaseMessage:
        """Return the preview of a message of more tokens, whatever the option says."""
        rule = replace(self._rule, tool_tokens=tokens, text_tokens=int(tokens * _TEXTS))
        return preview_message(message, key, rule)
