"""Show the Actor the beginning and the end of what is enormous, and the call that reads the rest.

In the view, never in the state: the Observer and `recall` have the message itself.
"""

from __future__ import annotations

from langchain_core.messages import BaseMessage

from langgraph_om.core.actor.preview import PreviewRule, preview_message
from langgraph_om.core.step.step import Feature


class Previews(Feature):
    """Puts a preview in the place of each enormous message.

    Args:
        rule: What counts as enormous.
    """

    name = "previews"

    def __init__(self, rule: PreviewRule) -> None:
        self._rule = rule

    @property
    def view_rule(self) -> str:
        """What tells these previews from others, so that tokens are counted anew."""
        return self._rule.name

    def fit(self, room: int) -> Previews:
        """Return the previews for an Actor that has so many tokens of room."""
        return Previews(self._rule.fit(room))

    def shorten(self, message: BaseMessage, key: str) -> BaseMessage:
        """Return the preview of an enormous message; any other message itself."""
        return preview_message(message, key, self._rule)
