"""Whether a model can be awaited, or only looks as if: langchain lends every model an `ainvoke`.

The one that it lends runs `invoke` in the event loop's own few threads. A call that was given up on
keeps one of them, and LangGraph runs synchronous nodes and tools there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from langchain_core.language_models import LLM, BaseChatModel, BaseLLM, SimpleChatModel
from langchain_core.runnables import Runnable, RunnableLambda

_Way = Literal["awaits", "blocks"]

_LENDERS: Final = (SimpleChatModel, BaseChatModel, LLM, BaseLLM)
_ASYNC_METHODS: Final = ("ainvoke", "agenerate", "_agenerate", "_astream", "_acall")
_LENT: Final[Mapping[str, tuple[Any, ...]]] = {
    name: (None, *(getattr(lender, name, None) for lender in _LENDERS)) for name in _ASYNC_METHODS
}
"""Per method, the functions that a class has without having written any."""


def only_blocks(model: Runnable[Any, Any]) -> bool:
    """Return whether awaiting a model would block one of the event loop's threads.

    A chain does when one of its links does and none has a way of its own to be awaited, because
    such a link may have no other.
    """
    return _find_ways(model) == {"blocks"}


def _find_ways(model: Any) -> set[_Way]:
    """Return how the links of a model work; nothing for those that ask nobody, such as parsers."""
    if isinstance(model, RunnableLambda):
        return {"awaits" if hasattr(model, "afunc") else "blocks"}
    if isinstance(model, BaseChatModel | BaseLLM):
        return {"awaits" if _has_own_async(model) else "blocks"}
    links = [
        *(getattr(model, name, None) for name in ("bound", "default")),
        *(getattr(model, "steps", None) or ()),
        *(getattr(model, "runnables", None) or ()),
    ]
    inner = [link for link in links if isinstance(link, Runnable)]
    if not inner and type(model).ainvoke is Runnable.ainvoke:
        return {"blocks"}
    return {way for link in inner for way in _find_ways(link)}


def _has_own_async(model: BaseChatModel | BaseLLM) -> bool:
    """Return whether a model's class has an async method that is not lent to it."""
    return any(getattr(type(model), name, None) not in lent for name, lent in _LENT.items())
