"""The counters that the tests count with."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage

from support.inside import EstimatingCounter, FunctionCounter, TokenCounter

COUNTER = EstimatingCounter()


def count_pieces(text: str) -> int:
    """Count a token for every four characters, as a function of a user's does."""
    return (len(text) + 3) // 4


OWN = FunctionCounter(count_pieces)


class Quarters:
    """A token for every four characters."""

    identity = "quarters"

    def count_text(self, text: str) -> int:
        return (len(text) + 3) // 4

    def count_message(self, message: BaseMessage) -> int:
        return self.count_text(str(message.content))


COUNTERS: Final[tuple[TokenCounter, ...]] = (COUNTER, Quarters())
"""One that knows the rules of messages, and one that does not."""


# --- Text --------------------------------------------------------------------------------------


any_text = st.text(st.characters(exclude_categories=()), max_size=60)


# --- Messages ----------------------------------------------------------------------------------


def call(name: str = "search", args: Any = None, call_id: str | None = "c1") -> dict[str, Any]:
    return {"name": name, "args": {"q": "cats"} if args is None else args, "id": call_id}


def ai(*content: Any, calls: tuple[Any, ...] = (), **fields: Any) -> AIMessage:
    return AIMessage(content=list(content), tool_calls=list(calls), **fields)


FUNCTION_CALL = {"name": "search", "arguments": '{"q":"cats"}'}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)

tool_calls = st.lists(
    st.builds(
        call,
        st.text(max_size=9),
        st.dictionaries(st.text(max_size=5), json_values, max_size=2),
        st.none() | st.sampled_from(["c1", "c2", "c3"]),
    ),
    max_size=3,
)
