"""Project memory's parts out of LangGraph's event stream (version 3).

The stream keeps every event; the projection only adds a view of it.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer

from langgraph_om.core.wire import Part


class MemoryTransformer(StreamTransformer):
    """Exposes the `data-om-*` parts of a run as `run.memory`.

    The agents of this package have it built in. For any other graph, pass it to
    `builder.compile(transformers=[MemoryTransformer])`, or as `transformers=` of one run.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("custom",)
    _native: ClassVar[bool] = True  # LangGraph's mark for an attribute of the run

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._parts: StreamChannel[Part] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the projection by its name."""
        return {"memory": self._parts}

    def process(self, event: ProtocolEvent) -> bool:
        """Copy the parts of memory to the projection; every event stays in the stream."""
        if event["method"] == "custom" and event["params"]["namespace"] == list(self.scope):
            data = event["params"]["data"]
            if isinstance(data, dict) and str(data.get("type")).startswith("data-om-"):
                self._parts.push(cast("Part", data))
        return True
