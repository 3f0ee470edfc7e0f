"""Read checkpoints that somebody else may have written: plain values and messages, never code.

LangGraph's own serializer imports and calls whatever a checkpoint names. An agent trusts its
database; the command is also pointed at files that somebody sent.
"""

from __future__ import annotations

import json
from typing import Any, Final

from langchain_core import messages
from langchain_core.load.load import Reviver
from langgraph.checkpoint.serde.event_hooks import emit_serde_event
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_om.cli.sources import SourceError

_MESSAGES: Final = Reviver(
    allowed_objects=[
        messages.AIMessage,
        messages.AIMessageChunk,
        messages.ChatMessage,
        messages.ChatMessageChunk,
        messages.FunctionMessage,
        messages.FunctionMessageChunk,
        messages.HumanMessage,
        messages.HumanMessageChunk,
        messages.RemoveMessage,
        messages.SystemMessage,
        messages.SystemMessageChunk,
        messages.ToolMessage,
        messages.ToolMessageChunk,
    ]
)
_READ: Final = frozenset({"null", "bytes", "bytearray", "json", "msgpack"})


class StrictSerializer(JsonPlusSerializer):
    """A serializer that leaves what is neither a plain value nor a message as the data it is of.

    What the types of LangGraph's own strict list are made of is read too: times, ids, paths, sets.
    """

    def __init__(self) -> None:
        # Without them LangGraph allows every type, unless the environment says otherwise.
        super().__init__(
            pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None
        )

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a stored value.

        Raises:
            SourceError: When it is of a form that only the agent's own serializer reads.
        """
        form, stored = data
        if form not in _READ:
            msg = (
                f"the checkpoint has a value of the form {form!r}, which the command does not "
                f"read, as it may be code or encrypted; read it with your agent's own checkpointer"
            )
            raise SourceError(msg)
        if form == "json":  # of checkpoints from before msgpack
            return json.loads(stored, object_hook=_revive)
        return super().loads_typed(data)


def _revive(value: dict[str, Any]) -> Any:
    """Return the message that an object of JSON describes; another class as its data."""
    if "lc" not in value or value.get("type") != "constructor":
        return value
    try:
        return _MESSAGES(value) if value["lc"] == 1 else _note(value)
    except Exception:  # noqa: BLE001 another class, or arguments that are no message's
        return _note(value)


def _note(value: dict[str, Any]) -> dict[str, Any]:
    """Tell, as LangGraph does of msgpack, that an object was left as its data."""
    *module, name = map(str, value.get("id") or ["an object"])
    emit_serde_event({"kind": "json_blocked", "module": ".".join(module), "name": name})
    return value
