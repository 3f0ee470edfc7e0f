"""What model calls cost: counted by the part each call plays, and priced if prices are given."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from evaluation.reading import Read, add_read, read_notes, read_question
from langgraph_om import EstimatingCounter

PARTS = ("actor", "observer", "reflector", "summarizer", "judge")
COUNTER = EstimatingCounter()
COUNTED = ("calls", "input", "cached", "output")

Spent = dict[str, dict[str, int]]
"""Per part: calls, and tokens of input, of input that came from a cache, and of output."""


class Meter(BaseCallbackHandler):
    """Listens to model calls and adds up their usage."""

    def __init__(self, part: str) -> None:
        """Start at nothing; calls that do not say what they are for count for `part`."""
        self.spent: Spent = {}
        self.prompts: list[int] = []
        """The tokens of each prompt of the Actor, by this package's count: providers differ."""
        self.read: Read = {}
        """What the models of memory were shown, by kind."""
        self._part = part
        self._parts: dict[UUID, str] = {}
        self._lock = threading.Lock()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 the base class's
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        about = metadata or {}
        is_summary = about.get("lc_source") == "summarization"
        part = about.get("om_role") or ("summarizer" if is_summary else self._part)
        self._parts[run_id] = part
        if part == "actor":
            self.prompts += [sum(map(COUNTER.count_message, each)) for each in messages]
        elif part != "judge":
            self._note(part, *map(read_question, messages))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        usage = [
            generation.message.usage_metadata
            for batch in response.generations
            for generation in batch
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage)
        ]
        part = self._parts.pop(run_id, self._part)
        for spent in usage:
            told: Mapping[str, Any] = spent or {}
            counts = {
                "calls": 1,
                "input": told.get("input_tokens", 0),
                "cached": (told.get("input_token_details") or {}).get("cache_read") or 0,
                "output": told.get("output_tokens", 0),
            }
            with self._lock:
                self.spent = add([self.spent, {part: counts}])
        if part == "observer":
            said = (each.text for batch in response.generations for each in batch)
            self._note(part, *map(read_notes, said))

    def _note(self, part: str, *several: dict[str, int]) -> None:
        with self._lock:
            self.read = add_read([self.read, *({part: counts} for counts in several)])


def add(several: Iterable[Spent]) -> Spent:
    """Add up what was spent on several occasions."""
    total: Spent = {}
    for spent in several:
        for part, counts in spent.items():
            sums = total.setdefault(part, dict.fromkeys(COUNTED, 0))
            for name in COUNTED:
                sums[name] += counts[name]
    return total


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost."""

    input: float
    output: float
    cached: float

    def of(self, counts: Mapping[str, int]) -> float:
        """Return the cost of some calls."""
        fresh = counts["input"] - counts["cached"]
        paid = fresh * self.input + counts["cached"] * self.cached + counts["output"] * self.output
        return paid / 1_000_000


def read_price(text: str) -> tuple[str, Price]:
    """Read `MODEL=INPUT,OUTPUT[,CACHED]`.

    Raises:
        ValueError: When it is something else.
    """
    model, _, numbers = text.rpartition("=")
    try:
        given = [float(number) for number in numbers.split(",")]
        paid, written, *cached = given
        (cheaper,) = cached or [paid]
    except ValueError:
        given, model = [], ""
    if not model or min(given) < 0:
        msg = f"--price is {text!r}; write MODEL=INPUT,OUTPUT or MODEL=INPUT,OUTPUT,CACHED"
        raise ValueError(msg)
    return model, Price(paid, written, cheaper)
