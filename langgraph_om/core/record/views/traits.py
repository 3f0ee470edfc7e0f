"""What a view depends on beside the texts of its messages: calls, results, other views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_om.core.content.bound_reasoning import answers_other_view


@dataclass(frozen=True, slots=True)
class Traits:
    """What was found in the messages of a window, by their indexes."""

    count: int = 0
    """How many messages were looked at."""
    other_view: int = -1
    """The last answer to a view that later views do not continue; -1 for none."""
    calls: frozenset[str] = frozenset()
    """The ids of all calls."""
    missing: frozenset[str] = frozenset()
    """The ids of the results before which there is no such call."""

    def extend(self, messages: Iterable[BaseMessage]) -> Traits:
        """Return what is found with the messages that come next."""
        other_view, at = self.other_view, self.count - 1
        calls, missing = set(self.calls), set(self.missing)
        for at, message in enumerate(messages, self.count):
            if type(message) is HumanMessage:  # a check by class takes longer
                continue
            if isinstance(message, AIMessage):
                other_view = at if answers_other_view(message) else other_view
                if message.tool_calls:
                    calls.update(str(call["id"]) for call in message.tool_calls)
            elif isinstance(message, ToolMessage) and message.tool_call_id not in calls:
                missing.add(message.tool_call_id)
        return Traits(at + 1, other_view, frozenset(calls), frozenset(missing))


NO_TRAITS = Traits()
