"""The channels in which a graph's state has a working memory."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph_om.core.working.merge import fold_state_value
from langgraph_om.working.memory import SHOWN_KEY, VALUE_KEY

Stored = dict[str, Any] | str
"""What a channel holds: a JSON object, a text, or an empty one of both."""

ValueChannel = Annotated[Stored, fold_state_value]
"""The value: what the Actor knows of it; with `scope="thread"` all that there is."""


def take_last(former: str, update: str) -> str:
    """Replace the block; hooks and nodes of one superstep may both write it."""
    del former
    return update


ShownChannel = Annotated[str, take_last]
"""The block as it is shown in the current turn."""

WORKING_CHANNELS: dict[str, Any] = {VALUE_KEY: ValueChannel, SHOWN_KEY: ShownChannel}
"""Both, by their keys in the state."""
